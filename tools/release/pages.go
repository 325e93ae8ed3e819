package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/cli"
)

// commandLine is assay's, which nothing is run of.
func commandLine() *cobra.Command { return cli.Root(&cli.Env{}) }

// pagesOf makes the completions of the shells and a manual page a command.
func pagesOf() ([]packed, error) {
	root := commandLine()
	shells := []struct {
		name  string
		write func(io.Writer) error
	}{
		{"completions/bash/assay", func(w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
		{"completions/fish/assay.fish", func(w io.Writer) error { return root.GenFishCompletion(w, true) }},
		{"completions/zsh/_assay", root.GenZshCompletion},
	}
	var pages []packed
	for _, s := range shells {
		var b bytes.Buffer
		if err := s.write(&b); err != nil {
			return nil, err
		}
		pages = append(pages, packed{name: s.name, data: b.Bytes()})
	}
	return append(pages, manualOf(root)...), nil
}

// manualOf makes the page of a command and those of its subcommands. cobra's own would read the texts as Markdown, and
// lose what they write as <this> or *.toml.
func manualOf(cmd *cobra.Command) []packed {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	pages := []packed{{name: "man/man1/" + name + ".1", data: []byte(manualPage(name, cmd))}}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, manualOf(sub)...)
		}
	}
	return pages
}

// manualPage is a page for man(1), in the macros of man(7).
func manualPage(name string, cmd *cobra.Command) string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	fmt.Fprintf(&b, ".TH %s 1 \"\" assay\n", roff(strings.ToUpper(name)))
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(name), roff(cmd.Short))
	section("SYNOPSIS")
	b.WriteString(roff(cmd.UseLine()) + "\n")
	if cmd.Long != "" {
		section("DESCRIPTION")
		b.WriteString(paragraphs(cmd.Long))
	}
	if cmd.LocalFlags().HasAvailableFlags() {
		section("OPTIONS")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				b.WriteString(option(f))
			}
		})
	}
	if cmd.Example != "" {
		section("EXAMPLES")
		b.WriteString(verbatim(cmd.Example))
	}
	if related := related(name, cmd); len(related) > 0 {
		section("SEE ALSO")
		b.WriteString(strings.Join(related, ", ") + "\n")
	}
	return b.String()
}

// option is a flag as its help has it: the value's name stands in quotes in the text, else its type.
func option(f *pflag.Flag) string {
	value, usage := pflag.UnquoteUsage(f)
	if value != "" {
		value = " " + value
	}
	short := ""
	if f.Shorthand != "" {
		short = "-" + f.Shorthand + ", "
	}
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
	default:
		if !strings.Contains(usage, "(default") {
			usage += " (default " + f.DefValue + ")"
		}
	}
	return fmt.Sprintf(".TP\n%s\n%s\n", roff(short+"--"+f.Name+value), roff(usage))
}

// related are the pages of the command above and of those below.
func related(name string, cmd *cobra.Command) (pages []string) {
	page := func(name string) string { return roff(name) + "(1)" }
	if cmd.HasParent() {
		pages = append(pages, page(strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-")))
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, page(name+"-"+sub.Name()))
		}
	}
	return pages
}

// paragraphs are the parts of a text between blank lines; one with an indented line stands as it is written.
func paragraphs(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(part, " ") || strings.Contains(part, "\n ") {
			b.WriteString(verbatim(part))
		} else {
			b.WriteString(roff(part) + "\n")
		}
	}
	return b.String()
}

func verbatim(text string) string { return ".nf\n" + roff(strings.Trim(text, "\n")) + "\n.fi\n" }

// escapes are the characters that troff would read as its own, or print as others: a hyphen that somebody copies has to
// stay one.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`)

// roff makes troff print the text as it is. No line of it begins with a dot, which would be a request.
func roff(text string) string {
	lines := strings.Split(escapes.Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
