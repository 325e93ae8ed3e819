package fold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/testkit"
)

// folded is the fold of a recorded file of events.
func folded(t *testing.T, path string) *Fold {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := New()
	for line := range bytes.Lines(data) {
		var at struct {
			C int             `json:"c"`
			E json.RawMessage `json:"e"`
		}
		if err := json.Unmarshal(line, &at); err != nil {
			t.Fatal(err)
		}
		f.Add(at.C, at.E)
	}
	return f
}

// TestFormerStream: events as they were sent while there was PyTorch alone give the evidence that they gave then.
// testdata/former was written by the assay of those days; SOURCES.md says how.
func TestFormerStream(t *testing.T) {
	run := folded(t, "testdata/former/events.jsonl").Finish()
	data, err := os.ReadFile("testdata/former/evidence.json")
	if err != nil {
		t.Fatal(err)
	}
	var then evidence.Run
	if err := json.Unmarshal(data, &then); err != nil {
		t.Fatal(err)
	}
	if len(run.Steps.Number) != 30 || len(run.Figures) < 30 {
		t.Fatalf("%d steps, %d figures", len(run.Steps.Number), len(run.Figures))
	}
	// What assays since have added is no difference.
	run.Figures = slices.DeleteFunc(run.Figures, func(f evidence.Figure) bool {
		return !slices.ContainsFunc(then.Figures, func(g evidence.Figure) bool { return g.Name == f.Name })
	})
	for i := range run.Figures {
		if f := &run.Figures[i]; f.Name == "epoch.estimate" { // it has an interval now
			f.Low, f.High, f.N, f.Window, f.Note = nil, nil, 0, "", then.Figure(f.Name).Note
		}
	}
	run.Findings = slices.DeleteFunc(run.Findings, func(f evidence.Finding) bool {
		return !slices.ContainsFunc(then.Findings, func(g evidence.Finding) bool { return g.Name == f.Name })
	})
	for what, pair := range map[string][2]any{"steps": {then.Steps, run.Steps},
		"figures": {then.Figures, run.Figures},
		"memory":  {then.Memory, run.Memory}, "epochs": {then.Epochs, run.Epochs},
		"findings": {then.Findings, run.Findings}, "windows": {then.Windows, run.Windows},
		"framework": {then.Target.Framework + then.Target.Release, run.Target.Framework + run.Target.Release}} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s, then and now: %s", what, diff)
		}
	}
}

// lines sends events as they stand.
func (s *stream) lines(events ...string) {
	for _, e := range events {
		s.f.Add(1, []byte(e))
	}
}

// columnsOf is a steps event of as many steps as the phases have, from step first on, each as long as its phases, ms.
func columnsOf(first int, phases map[string][]int64) string {
	n := 0
	for _, column := range phases {
		n = max(n, len(column))
	}
	event := map[string]any{"ev": "steps"}
	for _, name := range []string{"number", "start", "total", "epoch", "micro", "evals", "live", "pool", "opts",
		"outside"} {
		event[name] = make([]int64, n)
	}
	event["kind"] = make([]string, n)
	inNS := map[string][]int64{}
	for name, column := range phases {
		inNS[name] = make([]int64, len(column))
		for i, ms := range column {
			inNS[name][i] = ms * 1e6
			event["total"].([]int64)[i] += ms * 1e6
		}
	}
	for i := range n {
		event["number"].([]int64)[i] = int64(first + i)
	}
	event["phases"] = inNS
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return string(line)
}

func phaseNames(run *evidence.Run) string {
	var list []string
	for _, p := range run.Steps.Phases {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}

// TestPhasesAsDeclared: what a hook declares is what the evidence has, in its order and with its words.
func TestPhasesAsDeclared(t *testing.T) {
	s := newStream()
	s.lines(`{"ev":"device","type":"cpu"}`,
		`{"ev":"phases","rows":[{"name":"load","title":"Load","doc":"waits"},{"name":"learn","title":"Learn","doc":"updates"},{"name":"between","title":"Rest","doc":""}]}`,
		columnsOf(1, map[string][]int64{"learn": {9, 3, 3, 3, 3, 3, 3}, "load": {9, 1, 1, 1, 1, 1, 1},
			"between": {9, 0, 0, 0, 0, 0, 0}}),
		`{"ev":"memory","phases":{"learn":[[7,8,9,0]],"load":[[1,2,3,0]]}}`)
	run := s.f.Finish()
	if got := phaseNames(run); got != "load learn between" || run.Steps.Phases[1].Title != "Learn" ||
		run.Steps.Phases[1].Doc != "updates" {
		t.Errorf("%+v", run.Steps.Phases)
	}
	if got := run.Steps.Phases[1].Seconds; !slices.Equal(got, []float64{.009, .003, .003, .003, .003, .003, .003}) {
		t.Errorf("learn: %v", got)
	}
	want(t, run, "split.load", .001)
	want(t, run, "split.learn", .003)
	want(t, run, "share.learn", .75)
	want(t, run, "split.between", 0)
	if f := run.Figure("split.forward"); f.Known() || f.Missing != "not looked at in this run" {
		t.Errorf("a phase that was not declared: %+v", f)
	}
	if len(run.Memory) != 2 || run.Memory[0].Phase != "load" || *run.Memory[1].Live != 7 {
		t.Errorf("%+v", run.Memory)
	}
	if !run.Outcome.Complete && strings.Contains(run.Outcome.Reason, "could not be read") {
		t.Error(run.Outcome.Reason)
	}
}

// TestPhasesOfARunWithoutSteps are named all the same, each with the reason why it is not known.
func TestPhasesOfARunWithoutSteps(t *testing.T) {
	s := newStream()
	s.lines(`{"ev":"phases","rows":[{"name":"load"},{"name":"rest"}]}`)
	run := s.f.Finish()
	wantUnknown(t, run, "split.load", "no training step was seen")
	wantUnknown(t, run, "share.rest", "no training step was seen")
	if got := phaseNames(run); got != "load rest" || run.Steps.Phases[0].Seconds == nil {
		t.Errorf("%+v", run.Steps.Phases)
	}
	run = newStream().f.Finish()
	wantUnknown(t, run, "split.backward", "no training step was seen")
	if got := phaseNames(run); got != strings.Join(former, " ") {
		t.Errorf("nothing was declared: %s", got)
	}
}

// TestPhaseThatComesLater: a second framework declares another phase while steps are told. Earlier steps have no time
// in it.
func TestPhaseThatComesLater(t *testing.T) {
	s := newStream()
	s.lines(`{"ev":"device","type":"cpu"}`, `{"ev":"phases","rows":[{"name":"load"},{"name":"rest"}]}`,
		columnsOf(1, map[string][]int64{"load": {1, 1}, "rest": {1, 1}}),
		`{"ev":"phases","rows":[{"name":"early"},{"name":"load"},{"name":"rest"}]}`,
		columnsOf(3, map[string][]int64{"early": {5}, "load": {1}, "rest": {1}}),
		columnsOf(4, map[string][]int64{"unsaid": {2}, "load": {1}, "rest": {1}}))
	run := s.f.Finish()
	if got := phaseNames(run); got != "early load unsaid rest" {
		t.Errorf("%s: what was not declared stands before the last", got)
	}
	for name, want := range map[string][]float64{"early": {0, 0, .005, 0}, "load": {.001, .001, .001, .001},
		"unsaid": {0, 0, 0, .002}, "rest": {.001, .001, .001, .001}} {
		if p, ok := run.Steps.Phase(name); !ok || !slices.Equal(p.Seconds, want) {
			t.Errorf("%s: %v, want %v", name, p.Seconds, want)
		}
	}
}

// TestPhasesThatAreNone: what cannot be a phase is counted as not read, and bounds hold.
func TestPhasesThatAreNone(t *testing.T) {
	many := func(n int) map[string][]int64 {
		columns := map[string][]int64{}
		for i := range n {
			columns[fmt.Sprint("p", i)] = []int64{1}
		}
		return columns
	}
	rows := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"name":"p%d"}`, i))
		}
		return `{"ev":"phases","rows":[` + strings.Join(list, ",") + `]}`
	}
	for name, c := range map[string]struct {
		event  string
		unread int
	}{
		"as many as are read": {rows(maxPhases), 0},
		"one more":            {rows(maxPhases + 1), 1},
		"none":                {`{"ev":"phases","rows":[]}`, 1},
		"no name":             {`{"ev":"phases","rows":[{"title":"x"}]}`, 1},
		"a path":              {`{"ev":"phases","rows":[{"name":"../x"}]}`, 1},
		"a capital":           {`{"ev":"phases","rows":[{"name":"Load"}]}`, 1},
		"a long name":         {`{"ev":"phases","rows":[{"name":"` + strings.Repeat("a", 33) + `"}]}`, 1},
		"a long title": {`{"ev":"phases","rows":[{"name":"a","title":"` + strings.Repeat("a", 201) + `"}]}`,
			1},
		"a long explanation": {`{"ev":"phases","rows":[{"name":"a","doc":"` + strings.Repeat("a", 201) + `"}]}`,
			1},
		"twice":                  {`{"ev":"phases","rows":[{"name":"a"},{"name":"a"}]}`, 1},
		"columns":                {columnsOf(1, many(maxPhases)), 0},
		"too many columns":       {columnsOf(1, many(maxPhases+1)), 1},
		"columns of two lengths": {columnsOf(1, map[string][]int64{"a": {1, 2}, "b": {1}}), 1},
		"a column with no name":  {columnsOf(1, map[string][]int64{"": {1}}), 1},
		"phases that are no list": {strings.Replace(columnsOf(1, map[string][]int64{"a": {1}}), `[1000000]}`, `"x"}`,
			1), 1},
	} {
		s := newStream()
		s.lines(c.event)
		if s.f.unread != c.unread {
			t.Errorf("%s: %d unread, want %d", name, s.f.unread, c.unread)
		}
		if run := s.f.Finish(); len(run.Steps.Phases) > maxPhases {
			t.Errorf("%s: %d phases", name, len(run.Steps.Phases))
		}
	}
	s := newStream()
	s.lines(rows(10), columnsOf(1, map[string][]int64{"q1": {1}, "q2": {1}, "q3": {1}, "q4": {1}, "q5": {1},
		"q6": {1}}), columnsOf(2, map[string][]int64{"q7": {1}}))
	if s.f.unread != 1 || len(s.f.Finish().Steps.Phases) != maxPhases {
		t.Errorf("declared and named together: %d unread", s.f.unread)
	}
}

// TestFrameworkOfAStranger: a framework that was added as CONTRIBUTING says, in agent/tests/toy, trains, and the
// evidence has its phases, its device and its release. No line of this package knows it.
func TestFrameworkOfAStranger(t *testing.T) {
	// go test keeps a result until a file changes that the test itself opened.
	for _, dir := range []string{"tests/toy", "tests/toy/adapter", "assay_agent", "assay_agent/watch"} {
		if _, err := os.ReadDir(filepath.Join("../../agent", dir)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	cmd := exec.Command(testkit.Python(t), "../../agent/tests/toy/record.py", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := folded(t, path).Finish()
	if run.Target.Framework != "toy" || run.Target.Release != "1.2.3" || run.Target.Device != "abacus" ||
		run.Target.Name != "Abacus 1" {
		t.Errorf("%+v", run.Target)
	}
	if got := phaseNames(run); got != "load learn rest" || len(run.Steps.Number) != 45 || len(run.Epochs) != 3 {
		t.Errorf("phases %s, %d steps, %d epochs", got, len(run.Steps.Number), len(run.Epochs))
	}
	sum := 0.0
	for _, p := range run.Steps.Phases {
		if f := run.Figure("split." + p.Name); !f.Known() || f.Window != "synchronised" {
			t.Errorf("%+v", f)
		}
		f := run.Figure("share." + p.Name)
		if !f.Known() {
			t.Fatalf("%+v", f)
		}
		sum += *f.Value
	}
	if sum < 1-1e-9 || sum > 1+1e-9 {
		t.Errorf("shares add up to %g", sum)
	}
	want(t, run, "memory.pool.peak", 64)
	want(t, run, "memory.watermark", 64.0/1024)
	if len(run.Memory) != 2 || run.Memory[0].Phase != "load" || run.Memory[1].Phase != "learn" {
		t.Errorf("%+v", run.Memory)
	}
	if !run.Outcome.Complete {
		t.Error(run.Outcome.Reason)
	}
}

// TestFormerPhases: those that PyTorch's evidence had when none were declared are those that the catalogue gives it.
func TestFormerPhases(t *testing.T) {
	var names []string
	for _, p := range evidence.FormerPhases() {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, catalogue.Phases) || !slices.Equal(names, former) {
		t.Errorf("%v, %v", names, catalogue.Phases)
	}
}
