package symptom

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/internal/evidence"
)

func told(t *testing.T, rep *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, rep, 4000); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRunSaysWhatItKnows: each part of a run is read for what it is, and for nothing more.
func TestRunSaysWhatItKnows(t *testing.T) {
	missing := "NotImplementedError: The operator 'aten::frob' is not currently implemented for the MPS device."
	for _, c := range []struct {
		name   string
		change func(*evidence.Run)
		has    []string
		lacks  []string
	}{
		{"killed by somebody", func(r *evidence.Run) { r.Outcome.Signal = "SIGKILL" }, []string{"how it ended"}, nil},
		{"killed since it was asked to stop", func(r *evidence.Run) {
			r.Outcome.Signal, r.Outcome.Stopped = "SIGKILL",
				"after 2m (--for)"
		}, nil, []string{"how it ended"}},
		{"ended by another signal", func(r *evidence.Run) { r.Outcome.Signal = "SIGTERM" }, nil,
			[]string{"how it ended"}},
		{"asked for mps, trained on the CPU", func(r *evidence.Run) { r.Target.Asked, r.Target.Device = "mps", "cpu" },
			[]string{"asked for mps, trained on cpu"}, nil},
		{"asked for cuda, trained on the CPU", func(r *evidence.Run) {
			r.Target.Asked, r.Target.Device = "cuda",
				"cpu"
		}, []string{"asked for cuda, trained on cpu"}, nil},
		{"asked for the CPU", func(r *evidence.Run) { r.Target.Asked, r.Target.Device = "cpu", "mps" }, nil,
			[]string{"asked for"}},
		{"asked for mps, and no step was seen", func(r *evidence.Run) { r.Target.Asked, r.Target.Device = "mps", "" },
			nil, []string{"asked for"}},
		{"a note is no symptom", func(r *evidence.Run) {
			r.Findings = []evidence.Finding{{Name: "compiled", Severity: evidence.Note, Text: "torch.compile is in use",
				Basis: evidence.Measured}}
		}, nil, []string{"torch.compile is in use"}},
		{"a warning is one", func(r *evidence.Run) {
			r.Findings = []evidence.Finding{{Name: "compiled", Severity: evidence.Warning,
				Text: "torch.compile is in use", Basis: evidence.Measured}}
		}, []string{"torch.compile is in use"}, nil},
		{"tests that fail on the double alone", func(r *evidence.Run) {
			r.Rehearsal = &evidence.Rehearsal{Tests: &evidence.Tests{Failures: []evidence.TestFailure{
				{ID: "t::passes", Error: "NotImplementedError", Text: missing, OnCPU: "passed"},
				{ID: "t::fails", Error: "NotImplementedError", Text: strings.Replace(missing, "frob", "grob", 1),
					OnCPU: "failed"},
				{ID: "t::open", Error: "NotImplementedError", Text: strings.Replace(missing, "frob", "drob", 1),
					OnCPU: "unknown"}}}}
		}, []string{"test t::passes", "test t::open"}, []string{"t::fails", "grob"}},
		{"the refusal that ended it is said once", func(r *evidence.Run) {
			r.Outcome.Error = missing
			r.Rehearsal = &evidence.Rehearsal{Refusals: []evidence.Refusal{{Error: "NotImplementedError",
				Text: strings.TrimPrefix(missing, "NotImplementedError: "), Count: 1, Ended: true}}}
		}, []string{"the error that ended it"}, []string{"refused on the double"}},
		{"a refusal that the script caught", func(r *evidence.Run) {
			r.Rehearsal = &evidence.Rehearsal{Refusals: []evidence.Refusal{{Error: "NotImplementedError",
				Text: strings.TrimPrefix(missing, "NotImplementedError: "), Count: 3}}}
		}, []string{"refused on the double", "(3 times)"}, nil},
		{"one process trains", func(r *evidence.Run) {
			r.Target.Device, r.Processes = "mps", []evidence.Process{{Steps: 9}, {Steps: 0}}
		}, nil, []string{"processes made"}},
		{"two processes train", func(r *evidence.Run) {
			r.Target.Device, r.Processes = "mps", []evidence.Process{{Steps: 9}, {Steps: 1}}
		}, []string{"2 processes made"}, nil},
	} {
		run := evidence.NewRun("r")
		run.Outcome.Started = true
		run.Target.Release = "2.8.0"
		c.change(run)
		out := told(t, Run("r", run))
		for _, want := range c.has {
			if !strings.Contains(out, want) {
				t.Errorf("%s: does not say %q:\n%s", c.name, want, out)
			}
		}
		for _, not := range c.lacks {
			if strings.Contains(out, not) {
				t.Errorf("%s: says %q:\n%s", c.name, not, out)
			}
		}
	}
}

// TestReleaseOfARun: the release that the double stood for, else the one that ran; without its build.
func TestReleaseOfARun(t *testing.T) {
	for _, c := range []struct{ double, ran, want string }{{"2.3.0", "2.8.0", "2.3.0"}, {"", "2.8.0+cu128", "2.8.0"},
		{"", "", ""}} {
		run := &evidence.Run{}
		run.Target.Framework, run.Target.Release = "torch", c.ran
		if c.double != "" {
			run.Target.Double = &evidence.Double{Release: c.double, MacOS: "15"}
		}
		if got := Run("r", run).Context.Torch; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestSlower: half as long again at the end, with the quartiles apart, and forty steps to tell it from.
func TestSlower(t *testing.T) {
	for _, c := range []struct {
		name        string
		n           int
		first, last float64
		scatter     float64
		said        bool
	}{
		{"half as long again", 80, 1, 1.5, 0, true},
		{"a little less", 80, 1, 1.49, 0, false},
		{"faster", 80, 1.5, 1, 0, false},
		{"too few steps", 39, 1, 3, 0, false},
		{"enough", 49, 1, 3, 0, true}, // forty of them from the tenth on
		{"quartiles overlap", 400, 1, 1.6, 2, false},
	} {
		run := evidence.NewRun("r")
		run.Target.Device = "mps"
		for i := range c.n {
			v := c.first
			if i >= c.n/2 {
				v = c.last
			}
			if i%3 == 0 {
				v += c.scatter
			}
			run.Steps.Number, run.Steps.Total = append(run.Steps.Number, i+1), append(run.Steps.Total, v)
		}
		if got := slices.Contains(rules(Run("r", run)), "starts-fast-then-slow"); got != c.said {
			t.Errorf("%s: said %v", c.name, got)
		}
	}
}

// TestWaits: a fifth of the steps' time, at two calls a step: one read a step waits for work that has to be done
// anyway.
func TestWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		lost  float64
		calls int
		waits bool
		thin  int
		said  bool
	}{
		{"a fifth, two a step", 2, 20, true, 0, true},
		{"less", 1.9, 20, true, 0, false},
		{"one a step", 5, 19, true, 0, false},
		{"nothing is waited for", 5, 20, false, 0, false},
		{"of a thinned table", 2, 20, true, 10, false},
		{"of a thinned table, as often", 20, 200, true, 10, true},
	} {
		run := evidence.NewRun("r")
		run.Target.Device, run.Steps.Thin = "mps", c.thin
		for i := range 10 {
			run.Steps.Number, run.Steps.Total = append(run.Steps.Number, i+1), append(run.Steps.Total, 1)
		}
		run.Syncs = []evidence.SyncPoint{{Call: "item", Where: "t.py:3", Count: c.calls, Lost: c.lost, Waits: c.waits,
			Steps: 10}}
		if got := slices.Contains(rules(Run("r", run)), "waits-for-the-device"); got != c.said {
			t.Errorf("%s: said %v", c.name, got)
		}
	}
}

// TestWaitsOfMLX: mx.eval is where the step is computed; what PyTorch alone has is no remedy.
func TestWaitsOfMLX(t *testing.T) {
	run := evidence.NewRun("r")
	run.Target.Framework, run.Target.Device = "mlx", "gpu"
	for i := range 10 {
		run.Steps.Number, run.Steps.Total = append(run.Steps.Number, i+1), append(run.Steps.Total, 1)
	}
	run.Syncs = []evidence.SyncPoint{{Call: "mx.eval", Count: 20, Lost: 9, Waits: true, Steps: 10, Computes: true}}
	if got := rules(Run("r", run)); slices.Contains(got, "waits-for-the-device") {
		t.Errorf("said of mx.eval: %v", got)
	}
	run.Syncs = append(run.Syncs, evidence.SyncPoint{Call: "item", Count: 20, Lost: 3, Waits: true, Steps: 10})
	rep := Run("r", run)
	if !slices.Contains(rules(rep), "waits-for-the-device") {
		t.Error("not said of item")
	}
	for _, o := range Observations {
		for _, remedy := range o.symptomOf("mlx").Remedy {
			if strings.Contains(remedy, "torch") || strings.Contains(remedy, "--only") {
				t.Errorf("%s: %q is no remedy in MLX", o.Name, remedy)
			}
		}
		if !slices.Equal(o.symptomOf("torch").Remedy, o.Actions) {
			t.Errorf("%s: PyTorch's remedies have changed", o.Name)
		}
	}
}

// TestBatchAdvice: what it says fits, is less than what did not, and where nothing fits it says that.
func TestBatchAdvice(t *testing.T) {
	for _, c := range []struct {
		batch        int
		wanted, room float64
		says         string
	}{
		{64, 24, 18, "Batch 48 at most instead of 64"},
		{64, 24, 24, "Batch 63 at most instead of 64"}, // it did not fit, whatever the numbers say
		{64, 24, 30, "Batch 63 at most instead of 64"},
		{1, 24, 18, "No batch fits"},
		{8, 24, 2.9, "No batch fits"},
		{8, 24, 3, "Batch 1 at most instead of 8"},
		{0, 24, 18, "has to shrink by 25 % or more"},
	} {
		if got := batchAdvice(Context{Batch: c.batch, BatchFrom: "the loader"}, c.wanted,
			c.room); !strings.Contains(got, c.says) {
			t.Errorf("batch %d, %g wanted, %g there: %s", c.batch, c.wanted, c.room, got)
		}
	}
	if got := batchAdvice(Context{Batch: 64}, 24, 18); !strings.Contains(got,
		"begin with 32, and accumulate gradients over 2 batches") {
		t.Error(got)
	}
}

// TestTextIsBounded: of a thousand messages that a rule knows each is counted, and what is kept and shown has an end.
func TestTextIsBounded(t *testing.T) {
	var log strings.Builder
	for i := range mostKeys + 50 {
		fmt.Fprintf(&log, "NotImplementedError: The operator 'aten::frob%d' is not currently implemented for the MPS device.\n", i)
	}
	rep, err := Scan("x", strings.NewReader(log.String()))
	if err != nil || len(rep.Symptoms) != mostKeys {
		t.Errorf("%d symptoms, %v", len(rep.Symptoms), err)
	}
	long := "NotImplementedError: The operator 'aten::frob' is not currently implemented for the MPS device. " +
		strings.Repeat("é", 5000)
	if rep, err = Scan("x", strings.NewReader(long)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(told(t, rep)) {
		if strings.Count(line, "é") > 300 {
			t.Errorf("a line of %d characters of the log", strings.Count(line, "é"))
		}
	}
	log.Reset()
	for i := range mostOdd + 3 {
		fmt.Fprintf(&log, "Frob%cError: it\n", 'A'+i)
	}
	if rep, err = Scan("x", strings.NewReader(log.String())); err != nil || len(rep.Unknown) != mostOdd ||
		rep.More != 3 || !strings.Contains(told(t, rep), "and 3 more\n") {
		t.Errorf("%d unknown, %d more, %v", len(rep.Unknown), rep.More, err)
	}
	if rep, err = Scan("x", strings.NewReader("FrobError: it\n")); err != nil ||
		strings.Contains(told(t, rep), "more") {
		t.Errorf("one: %v\n%s", err, told(t, rep))
	}
	exact := strings.Repeat("x", longest)
	if rep, _ = Scan("x", strings.NewReader(exact+"\n")); rep.Cut != 0 {
		t.Error("a line of just the length is cut")
	}
	if rep, _ = Scan("x", strings.NewReader(exact+"x\n")); rep.Cut != 1 {
		t.Error("a longer line is not said to be cut")
	}
}
