package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"assay/internal/fault"
)

var update = flag.Bool("update", false, "rewrite the pages that are made from the commands")

const commandsPage = "../../docs/commands.md"

// TestCommandsPage: docs/commands.md is what the commands say of themselves; -update rewrites it.
func TestCommandsPage(t *testing.T) {
	got := commandsMarkdown(newRootCommand(&Env{}))
	if *update {
		if err := os.WriteFile(commandsPage, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatalf("%v (go test ./internal/cli -run TestCommandsPage -update writes it)", err)
	}
	if string(want) != got {
		t.Errorf("docs/commands.md is stale: go test ./internal/cli -run TestCommandsPage -update")
	}
}

func commandsMarkdown(root *cobra.Command) string {
	var b bytes.Buffer
	b.WriteString("# Commands\n\nMade from the commands themselves: `go test ./internal/cli -run TestCommandsPage -update` writes this page.\n")
	var all []*cobra.Command
	for _, cmd := range root.Commands() {
		all = append(append(all, cmd), cmd.Commands()...)
	}
	for _, cmd := range all {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n    %s\n", cmd.CommandPath(), cmd.Short, cmd.UseLine())
		if cmd.Long != "" {
			fmt.Fprintf(&b, "\n%s\n", cmd.Long)
		}
		if flags := cmd.LocalFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(&b, "\n%s", indent(flags, "  "))
		}
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n\n%s\n", indent(strings.TrimRight(cmd.Example, "\n"), "  "))
		}
	}
	return b.String()
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			b.WriteString(by)
		}
		b.WriteString(line)
	}
	return b.String()
}

// TestExitStatusesAreDocumented: the table in docs/guide.md has every status of internal/fault, and no other number.
func TestExitStatusesAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(data), "\n## Exit statuses\n")
	if !found {
		t.Fatal("docs/guide.md has no section: Exit statuses")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[int]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(cells[1])); err == nil {
			rows[n] = true
		}
	}
	known := []int{fault.OK, fault.Failed, fault.Usage, fault.GateFailed, fault.CannotTell, fault.NotStarted,
		fault.NotRunnable, fault.NotFound}
	for _, code := range known {
		if !rows[code] {
			t.Errorf("docs/guide.md: no row for exit status %d", code)
		}
	}
	if len(rows) != len(known) {
		t.Errorf("docs/guide.md has %d exit statuses, assay %d", len(rows), len(known))
	}
}

// TestGuideNamesTheCommands: no command without a word in the guide.
func TestGuideNamesTheCommands(t *testing.T) {
	data, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range commands(&Env{}) {
		if !cmd.Hidden && !strings.Contains(string(data), "assay "+cmd.Name()) {
			t.Errorf("docs/guide.md does not mention assay %s", cmd.Name())
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	example = regexp.MustCompile(`(?m)^ {4}assay ([a-z]+)(.*)$`)
	code    = regexp.MustCompile("(?m)^ {4}.*$|``.*?``|`[^`\n]*`") // where a bracket is no link
	long    = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
)

// TestPagesPointSomewhere: what a page links to is there, and the flags in its examples exist.
func TestPagesPointSomewhere(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../changes/*.md",
		"../../examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	root := newRootCommand(&Env{})
	checked := 0
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(data), ""), -1) {
			checked++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: the link to %s: %v", page, m[1], err)
			}
		}
		for _, m := range example.FindAllStringSubmatch(string(data), -1) {
			cmd, _, err := root.Find(append([]string{m[1]}, strings.Fields(m[2])...)) // down to a subcommand
			if err != nil || cmd == root {
				if m[1] != "cost" { // the last line of a summary
					t.Errorf("%s: assay %s: no such command", page, m[1])
				}
				continue
			}
			ours, _, _ := strings.Cut(m[2], " -- ") // what follows is the script's
			ours, _, _ = strings.Cut(ours, "#")
			for _, name := range long.FindAllString(ours, -1) {
				checked++
				if cmd.Flags().Lookup(strings.TrimPrefix(name, "--")) == nil {
					t.Errorf("%s: assay %s has no flag %s", page, m[1], name)
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d links and flags found", checked)
	}
}

// TestReadmePrints: what README.md shows behind "$ assay …" is what the program prints, for commands that need nothing
// but the tree. A line of three dots stands for any lines.
func TestReadmePrints(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^ {4}\$ assay ((?:check|ops|claims) .*)\n((?: {4}.*\n|\n)*)`)
	blocks := shown.FindAllStringSubmatch(string(data), -1)
	if len(blocks) == 0 {
		t.Error("README.md shows no command with what it prints")
	}
	for _, block := range blocks {
		var out bytes.Buffer
		env := &Env{Dir: "../..", Environ: os.Environ(), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}
		Main(env, strings.Fields(block[1]))
		want := regexp.QuoteMeta(strings.TrimSpace(regexp.MustCompile(`(?m)^ {4}`).ReplaceAllString(block[2], "")))
		want = strings.ReplaceAll(want, "\n…\n", "\n(?s:.*)\n")
		if got := strings.TrimSpace(out.String()); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("assay %s prints\n%s\n\nand README.md shows\n%s", block[1], got, block[2])
		}
	}
}
