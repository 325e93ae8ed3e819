package catalogue

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/figures.md")

const path = "../../docs/figures.md"

// TestPage: docs/figures.md is made from the list.
func TestPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll("# Figures\n\nMade from 'internal/catalogue' by 'go test ./internal/catalogue -update'. Units are base units: 's', 'B' (bytes), 'W', 'Hz',\n"+
		"'1/s', 'ratio' (1 is 100 %), '1' (a count or a plain number), 'B/s', 'level' (a step of a scale that the system has). PHASE is a phase\n"+
		"of a training step as the framework’s adapter declares it; of PyTorch they are "+strings.Join(Phases,
		", ")+".\n", "'", "`"))
	for _, part := range []struct {
		from  From
		title string
	}{
		{Run, "In the evidence of every run, known or with the reason why not"},
		{Rehearsal, "In the evidence of a rehearsal as well"},
		{Only, "In the answer to --only"},
		{Gate, "Worked out by gates"},
		{Sample, "Counters of the host, over time"},
	} {
		fmt.Fprintf(&b, "\n## %s\n| name | unit | better | needs steps | what it is |\n| --- | --- | --- | --- | --- |\n", part.title)
		for _, f := range figures {
			if f.From != part.from {
				continue
			}
			steps := ""
			if f.Steps {
				steps = "yes"
			}
			better := map[Better]string{Lower: "less", Higher: "more"}[f.Better]
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", strings.Replace(f.Name, "*", "PHASE", 1), f.Unit, better,
				steps, strings.ReplaceAll(f.Doc, "|", "\\|"))
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil || string(page) != b.String() {
		t.Errorf("docs/figures.md is not what the list says (%v): go test ./internal/catalogue -update", err)
	}
}

// TestRows: a row says what a reader needs, and no name has two.
func TestRows(t *testing.T) {
	units := []string{"s", "B", "W", "Hz", "1/s", "ratio", "1", "B/s", "level"}
	seen := map[string]bool{}
	for _, f := range figures {
		if !slices.Contains(units, f.Unit) || f.Doc == "" || seen[f.Name] {
			t.Errorf("%+v: a unit that is none, no words, or a second row", f)
		}
		seen[f.Name] = true
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{"step.time": "step.time", "split.forward": "split.forward",
		"share.forward": "share.forward",
		"share.data":    "share.data", "step.time{batch=32}": "step.time", "split.": "", "split.a.b": "", "step": "",
		"": "", "split.*": "split.*"} {
		if f, ok := Find(name); f.Name != want || ok != (want != "") {
			t.Errorf("%q: %+v, %v", name, f, ok)
		}
	}
	if f, _ := Find("share.forward"); f.Better != Neither || f.Doc == "" || strings.Contains(f.Doc, "PHASE") {
		t.Errorf("%+v", f)
	}
	if f, _ := Find("share.data"); f.Better != Lower {
		t.Errorf("%+v: a row of its own goes before the pattern", f)
	}
	if gates := Names(Gate, Phases); slices.Contains(gates, "step.time") || !slices.Contains(gates, "speedup") ||
		slices.Contains(gates, "split.data") {
		t.Errorf("%v", gates)
	}
	names := Names(Run, []string{"data", "solve", "rest"})
	if slices.Contains(names, "share.h2d") {
		t.Error("share.h2d is named, and there is no such phase")
	}
	for _, want := range []string{"split.data", "split.solve", "share.data", "share.solve", "share.rest"} {
		if n := len(slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s != want })); n != 1 {
			t.Errorf("%s stands %d times among %v", want, n, names)
		}
	}
}
