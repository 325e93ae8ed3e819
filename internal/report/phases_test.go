package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"assay/internal/evidence"
)

// phasesRun is the evidence of a framework with phases of its own, each of a millisecond in every step.
func phasesRun(names ...string) *evidence.Run {
	run := digitsRun()
	run.Steps = evidence.StepSeries{}
	run.Figures = []evidence.Figure{evidence.Known("step.time", .001*float64(len(names)), "s", evidence.Measured)}
	for _, name := range names {
		run.Steps.Phases = append(run.Steps.Phases, evidence.Phase{Name: name, Title: "the " + name, Doc: "doc of " +
			name})
		for kind, value := range map[string]float64{"split.": .001, "share.": 1 / float64(len(names))} {
			run.Figures = append(run.Figures, evidence.Known(kind+name, value,
				map[string]string{"split.": "s", "share.": "ratio"}[kind], evidence.Measured))
		}
	}
	return run
}

func written(t *testing.T, form Form, run *evidence.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := form.Write(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPhasesAsTheyCome: whatever phases a run has are drawn, in their order; the last is what lies between the others.
func TestPhasesAsTheyCome(t *testing.T) {
	run := phasesRun("load", "learn", "rest")
	out := written(t, Text{}, run)
	at := -1
	for _, line := range []string{"█ the load", "▚ the learn", "· the rest"} {
		next := strings.Index(out, line)
		if next <= at {
			t.Errorf("%q does not follow\n%s", line, out)
		}
		at = next
	}
	page := written(t, HTML{}, run)
	for _, want := range []string{`swatch p-1"></i>the load`, `swatch p-2"></i>the learn`,
		`swatch p-rest"></i>the rest`, "doc of learn"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(out, "▒") || strings.Contains(page, "swatch p-4") {
		t.Error("a phase is drawn that the run does not have")
	}
}

// TestManyPhases: there are as many phases as a stream may name, and a run that names none is drawn as well.
func TestManyPhases(t *testing.T) {
	var names []string
	for i := range 16 {
		names = append(names, fmt.Sprint("part", i))
	}
	for _, run := range []*evidence.Run{phasesRun(names...), phasesRun("only"), phasesRun()} {
		out, page := written(t, Text{}, run), written(t, HTML{}, run)
		for _, p := range run.Steps.Phases {
			if !strings.Contains(out, p.Title+" ") || !strings.Contains(page, p.Title+"<") {
				t.Errorf("%s is not drawn", p.Title)
			}
		}
	}
	if out := written(t, HTML{}, phasesRun()); !strings.Contains(out, "names no phases") {
		t.Error("a run without phases does not say so")
	}
}

// TestPhaseOfAStranger: a title is a stranger's text.
func TestPhaseOfAStranger(t *testing.T) {
	run := phasesRun("load", "rest")
	run.Steps.Phases[0].Title, run.Steps.Phases[0].Doc = "<b>x</b>\x1b[31m", "<script>"
	page, out := written(t, HTML{}, run), written(t, Text{}, run)
	if strings.Contains(page, "<b>x") || strings.Contains(page, "<script>\"") ||
		strings.Contains(page, "\x1b") || strings.Contains(out, "\x1b[31m") {
		t.Error("a title is printed as it came")
	}
	if !strings.Contains(page, "&lt;b&gt;x") {
		t.Error("the title is gone")
	}
}
