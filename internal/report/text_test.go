package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/internal/evidence"
)

var sampleText = Text{Width: 100, Report: "runs/20260314-092653/report.html",
	Evidence: "runs/20260314-092653/evidence.json"}

func TestTextGolden(t *testing.T) {
	for name, run := range samples() {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := sampleText.Write(&b, run); err != nil {
				t.Fatal(err)
			}
			fits(t, b.String())
			golden(t, name+".txt", b.Bytes())
		})
	}
}

func fits(t *testing.T, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > textLines {
		t.Errorf("%d lines, %d at most:\n%s", len(lines), textLines, text)
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > 100 {
			t.Errorf("%d columns, 100 at most: %s", n, l)
		}
	}
}

// However long the lists are, the screen holds the head, the tail and one row of each.
func TestTextFoldsLongLists(t *testing.T) {
	run := cudaRun()
	for range 5 {
		run.Syncs = append(run.Syncs, run.Syncs...)
		run.Fallbacks = append(run.Fallbacks, run.Fallbacks...)
		run.Findings = append(run.Findings, run.Findings...)
	}
	run.Outcome.Error = strings.Repeat("RuntimeError: MPS backend out of memory ", 20)
	run.Outcome.Stopped = ""
	var b bytes.Buffer
	if err := sampleText.Write(&b, run); err != nil {
		t.Fatal(err)
	}
	fits(t, b.String())
	for _, want := range []string{"more in report.html", "fallbacks", "the loss was not finite", "assay cost",
		"report     runs/", "evidence.json beside it"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
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
	fits(t, b.String())
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
		for line := range strings.Lines(text.String()) {
			if strings.HasPrefix(line, "epoch ") {
				row = line
			}
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
	if !strings.HasPrefix(summary.String(), says) {
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
