package report

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/internal/evidence"
)

func sampleText(width int) Text {
	const dir = "runs/20260314-092653/"
	return Text{Width: width, Report: dir + "report.html", Evidence: dir + "evidence.json"}
}

func TestTextGolden(t *testing.T) {
	for name, run := range samples() {
		for _, width := range []int{80, 40} {
			t.Run(fmt.Sprint(name, " in ", width), func(t *testing.T) {
				text := written(t, sampleText(width), run)
				fits(t, text, width)
				golden(t, fmt.Sprintf("%s-%d.txt", name, width), []byte(text))
			})
		}
	}
}

// fits holds lines to a width; one that is longer holds a single word, a path say, that is.
func fits(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > width && strings.Contains(strings.TrimSpace(line[label:]), " ") {
			t.Errorf("%d columns, %d at most: %s", n, width, line)
		}
	}
}

// TestEveryWidth: at each width the same words come, whole, in the same order, and lines keep within it: no wider than
// is good to read, no narrower than can be read.
func TestEveryWidth(t *testing.T) {
	long := cudaRun()
	long.Findings[0].Hint = strings.Repeat("a hint that goes on and on ", 12) + "to its end"
	for width, drawn := range map[int]int{0: 80, 1: 40, 40: 40, 60: 60, 71: 71, 72: 72, 80: 80, 120: 120, 200: 120} {
		for name, run := range map[string]*evidence.Run{"cpu": digitsRun(), "cuda": long, "double": doubleRun(),
			"killed": killedRun()} {
			text := written(t, sampleText(width), run)
			fits(t, text, drawn)
			for _, f := range run.Findings {
				for _, part := range []string{f.Text, f.Hint} {
					if !strings.Contains(words(text), words(part)) {
						t.Errorf("%s in %d columns: no %q in\n%s", name, width, part, text)
					}
				}
			}
		}
	}
}

// words is text without its line breaks.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestWindowSaysWhatItLeavesOut, in words, and as an earlier assay wrote it.
func TestWindowSaysWhatItLeavesOut(t *testing.T) {
	for excluded, want := range map[string]string{
		"first epoch, profiled and traced steps":     ", without the first epoch, profiled and traced steps",
		"the first epoch, profiled and traced steps": ", without the first epoch, profiled and traced steps",
		"the first 10 steps":                         ", without the first 10 steps",
		"every 40th step":                            ", every 40th step",
		"":                                           "9 steps",
	} {
		got := windowText(evidence.Window{Name: "steady", First: 2, Last: 10, Steps: 9, Excluded: excluded})
		if !strings.HasSuffix(got, want) {
			t.Errorf("%q: %q", excluded, got)
		}
	}
}

// TestNothingBegun: a run that came to nothing is told in three parts, what happened, where, and what to do, and no
// page of unknowns.
func TestNothingBegun(t *testing.T) {
	of := func(change func(*evidence.Run)) *evidence.Run {
		run := evidence.NewRun("r")
		run.Subject = evidence.Subject{Kind: "script", Script: "train.py", Dir: "/p"}
		run.Target = evidence.Target{Python: "3.12.1"}
		run.Provenance.Interpreter = "/v/bin/python3"
		run.Outcome = evidence.Outcome{Started: true, Complete: true}
		run.Processes = []evidence.Process{{PID: 7, Observed: true}}
		run.Figures = []evidence.Figure{evidence.Unknown("step.time", "s", "the script imported no framework")}
		change(run)
		return run
	}
	for name, c := range map[string]struct {
		run  *evidence.Run
		want []string
	}{
		"an import that failed": {of(func(r *evidence.Run) {
			r.Outcome.Error = "ModuleNotFoundError: No module named 'einops'"
			r.Outcome.Exit, r.Outcome.Where = 1, "/p/train.py:3"
		}), []string{"No module named 'einops'", "where      train.py:3; in Python 3.12.1 (/v/bin/python3)",
			"to do      install"}},
		"a command line refused": {of(func(r *evidence.Run) { r.Outcome.Exit = 2 }),
			[]string{"exit status 2", "no framework imported", "to do      status 2"}},
		"no framework": {of(func(r *evidence.Run) {}), []string{"ran to its end", "nothing to measure"}},
		"no loop": {of(func(r *evidence.Run) { r.Target.Framework, r.Target.Release = "torch", "2.8.0" }),
			[]string{"torch 2.8.0 imported", "recognised by its optimizer"}},
		"killed": {killedRun(), []string{"SIGKILL", "to do      SIGKILL comes from outside"}},
		"no Python": {of(func(r *evidence.Run) { r.Processes, r.Target.Python = nil, "" }),
			[]string{"where      unknown: no Python", "-I, -E or -S"}},
	} {
		text := written(t, sampleText(100), c.run)
		if strings.Count(text, "unknown") > 2 || strings.Contains(text, "memory  ") ||
			strings.Contains(text, "split  ") {
			t.Errorf("%s: a page of unknowns:\n%s", name, text)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
}

// However long the lists are, the head, the tail and some rows of each are there, and how many more there are.
func TestTextFoldsLongLists(t *testing.T) {
	run := cudaRun()
	for range 5 {
		run.Syncs = append(run.Syncs, run.Syncs...)
		run.Fallbacks = append(run.Fallbacks, run.Fallbacks...)
		run.Findings = append(run.Findings, run.Findings...)
	}
	run.Outcome.Error = strings.Repeat("RuntimeError: MPS backend out of memory ", 20)
	run.Outcome.Stopped = ""
	text := written(t, sampleText(100), run)
	fits(t, text, 100)
	if lines := strings.Count(text, "\n"); lines > 90 {
		t.Errorf("%d lines", lines)
	}
	for _, want := range []string{"more in report.html", "fallbacks", "the loss was not finite", "assay cost",
		"report     runs/", "evidence.json beside it"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A script may be named so that a terminal would obey it.
func TestTextObeysNoEscape(t *testing.T) {
	run := digitsRun()
	run.Subject.Script = "evil\x1b]0;title\x07\u202e.py"
	run.Syncs[0].Where = "a\x1b[2Jb.py:1"
	run.Findings[0].Text = "line\r\nbreak \x9b31m"
	var b bytes.Buffer
	if err := (Text{}).Write(&b, run); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"\x1b", "\x07", "\r", "\u202e", "\u009b"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("%q reached the terminal:\n%q", bad, b.String())
		}
	}
	fits(t, b.String(), 80)
}

func TestTextColorIsOnlyPaint(t *testing.T) {
	run := cudaRun()
	var plain, color bytes.Buffer
	if err := (Text{}).Write(&plain, run); err != nil {
		t.Fatal(err)
	}
	if err := (Text{Color: true}).Write(&color, run); err != nil {
		t.Fatal(err)
	}
	if color.Len() <= plain.Len() {
		t.Error("no colour")
	}
	if got := unpaint(color.String()); got != plain.String() {
		t.Errorf("colour changes the text:\n%s\n%s", got, plain.String())
	}
}

func unpaint(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			return b.String() + s
		}
		b.WriteString(s[:i])
		s = s[i:]
		s = s[strings.IndexByte(s, 'm')+1:]
	}
}

func TestUnknownIsNeverZero(t *testing.T) {
	var b bytes.Buffer
	if err := (Text{}).Write(&b, &evidence.Run{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "unknown: not looked at in this run") {
		t.Error(b.String())
	}
}

// TestEpochLimit: summary and page say of an epoch what the run's own limit says of it, and nothing beside a finding
// that says otherwise.
func TestEpochLimit(t *testing.T) {
	finding := evidence.Finding{Name: "long-epoch", Severity: evidence.Warning,
		Text: "an epoch takes 90.0 s, more than 60.0 s", Basis: evidence.Measured}
	limit := func(seconds float64) []evidence.Limit {
		return []evidence.Limit{{Name: "long-epoch", Value: seconds, Unit: "s", Source: "--warn-epoch"}}
	}
	for _, c := range []struct {
		name      string
		epoch     float64
		limits    []evidence.Limit
		findings  []evidence.Finding
		has, lack string
		page      string // in the row of the epoch; "": nothing is said there
	}{
		{"a minute, crossed", 90, limit(60), []evidence.Finding{finding}, "warning: longer than 60 s", "below",
			"longer than 60 s"},
		{"ten minutes, kept", 90, limit(600), nil, "; below 10 min", "longer", ""},
		{"exactly", 600, limit(600), nil, "; below 10 min", "longer", ""},
		{"three hours, kept", 7200, limit(3 * 3600), nil, "; below 3 h", "longer", ""},
		{"an earlier assay, nothing found", 90, nil, nil, "; below 30 min", "longer", ""},
		{"an earlier assay, long", 1801, nil, []evidence.Finding{finding}, "warning: longer than 30 min", "below",
			"longer than 30 min"},
		{"an earlier assay, found by a limit that it did not keep", 90, nil, []evidence.Finding{finding}, "", "30 min",
			""},
	} {
		run := digitsRun()
		run.Limits, run.Findings = c.limits, c.findings
		for i := range run.Figures {
			if run.Figures[i].Name == "epoch.time" {
				run.Figures[i] = evidence.Known("epoch.time", c.epoch, "s", evidence.Measured)
			}
		}
		for i := range run.Epochs {
			run.Epochs[i].Seconds = c.epoch
		}
		var text bytes.Buffer
		if err := (Text{Width: 100}).Write(&text, run); err != nil {
			t.Fatal(err)
		}
		row := ""
		if at := strings.Index(text.String(), "\nepoch "); at >= 0 {
			row, _, _ = strings.Cut(text.String()[at:], "\nmemory ")
		}
		if row == "" || !strings.Contains(row, c.has) || strings.Contains(row, c.lack) {
			t.Errorf("%s: %q, want %q and not %q", c.name, row, c.has, c.lack)
		}
		page := pageOfRun(t, run)
		if got := strings.Contains(page, "longer than"); got != (c.page != "") || !strings.Contains(page, c.page) {
			t.Errorf("%s: the page says longer: %v, want %q", c.name, got, c.page)
		}
	}
}

// TestKnownWrongLeads: a wrong number is said before anything else, in the summary and on the page, which does not call
// such a run finished. Of evidence from before facts were kept nothing is said to be right.
func TestKnownWrongLeads(t *testing.T) {
	run := doubleRun()
	var summary, page bytes.Buffer
	if err := errors.Join(Text{}.Write(&summary, run), HTML{}.Write(&page, run)); err != nil {
		t.Fatal(err)
	}
	const says = "Numbers come out wrong on MPS: gradients too large (torchvision::_roi_align_backward, train.py:38)"
	if !strings.HasPrefix(words(summary.String()), says) {
		t.Error(summary.String())
	}
	if lead := page.String()[strings.Index(page.String(), `<p class="lead">`):]; !strings.HasPrefix(lead,
		`<p class="lead">`+says) || strings.Contains(page.String(), ">finished<") ||
		!strings.Contains(page.String(), "perhaps wrong") {
		t.Error("the page does not begin with it")
	}
	run.Rehearsal.Met = run.Rehearsal.Met[1:] // perhaps
	if got := knownBad(run); got != "" || state(run) != "finished" {
		t.Errorf("%q, %s", got, state(run))
	}
	run.Rehearsal.Met = []evidence.Met{{Fact: "x", Outcome: "aborts", Sure: true, Operator: "aten::cumsum", When: "w"},
		{Fact: "y", Outcome: "aborts", Sure: true, Operator: "aten::cumsum"}}
	if got := knownBad(run); got != "On a Mac the process would end: w (aten::cumsum); 1 more such. " ||
		state(run) != "would end on a Mac" {
		t.Errorf("%q, %s", got, state(run))
	}
	run.Rehearsal.Met = nil
	if got := rehearsedText(run); !strings.Contains(got, "known wrong results were not looked for") {
		t.Error(got)
	}
}
