package fold

import (
	"slices"
	"strings"
	"testing"

	"assay/internal/evidence"
)

// told is a stream of 40 steps whose agent says how the loop's steps and epochs were told; the first ten steps were
// told no epoch, as where no loader counts.
func told(loop map[string]any, loaders ...map[string]any) *stream {
	s := newStream()
	s.parts = [6]int64{0, 0, 8, 4, 5, 3}
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	for _, l := range loaders {
		l["ev"] = "loader"
		s.send(1, l)
	}
	s.steps(0, 1, 10, 0, plainSteps)
	for epoch := 2; epoch <= 4; epoch++ {
		s.steps(epoch, 10*epoch-9, 10, float64(200*(epoch-1)), plainSteps)
	}
	loop["ev"] = "loop"
	s.send(1, loop)
	s.send(1, map[string]any{"ev": "bye", "how": "exit"})
	return s
}

// TestEpochsWithoutALoader: the steps that were told none were the first epoch; it is said by what they were told.
func TestEpochsWithoutALoader(t *testing.T) {
	run := told(map[string]any{"steps": "optimizer", "epochs": "loop", "name": "e",
		"where": "/home/u/p/t.py:3"}).f.Finish()
	if l := run.Loop; l == nil || *l != (evidence.Loop{Steps: "optimizer", Epochs: "loop", Name: "e",
		Where: "/home/u/p/t.py:3"}) {
		t.Errorf("%+v", l)
	}
	var firsts []int
	for _, e := range run.Epochs {
		firsts = append(firsts, e.First)
		if !e.Complete {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(firsts, []int{1, 11, 21, 31}) {
		t.Error(firsts)
	}
	want(t, run, "epoch.steps", 10)
	want(t, run, "epoch.time", 0.2)
	if w := run.Windows[0]; w.Name != "steady" || w.First != 11 || w.Last != 40 {
		t.Errorf("%+v", w)
	}
	wantUnknown(t, run, "share.data", "the loop reads no torch DataLoader; what fetched the data counts as the rest")
}

// TestEpochsThatWereNone: what seemed to tell epochs came with each step in the end.
func TestEpochsThatWereNone(t *testing.T) {
	run := told(map[string]any{"steps": "optimizer", "epochs": ""}).f.Finish()
	if len(run.Epochs) != 0 || slices.Max(run.Steps.Epoch) != 0 {
		t.Errorf("%+v %v", run.Epochs, run.Steps.Epoch)
	}
	wantUnknown(t, run, "epoch.time", "no loop around it, scheduler or evaluation divides its steps")
	wantUnknown(t, run, "epoch.steps", "no epoch was seen")
}

// TestEpochsWhileItRuns: asked twice, in between it turned out otherwise, and then again.
func TestEpochsWhileItRuns(t *testing.T) {
	s := told(map[string]any{"steps": "optimizer", "epochs": "scheduler"})
	for _, c := range []struct {
		told   string
		epochs int
	}{{"scheduler", 4}, {"", 0}, {"evaluation", 4}} {
		s.send(1, map[string]any{"ev": "loop", "steps": "optimizer", "epochs": c.told})
		if run := s.f.SoFar(); len(run.Epochs) != c.epochs {
			t.Errorf("%q: %d epochs", c.told, len(run.Epochs))
		}
	}
}

// TestShortEpochs: epochs of one step, as where all data are a batch: the steady window begins after ten steps.
func TestShortEpochs(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	for n := 1; n <= 30; n++ {
		s.steps(n, n, 1, float64(20*n), plainSteps)
	}
	s.send(1, map[string]any{"ev": "loop", "steps": "optimizer", "epochs": "loop", "name": "epoch"})
	run := s.f.Finish()
	if w := run.Windows[0]; len(run.Epochs) != 30 || w.First != 11 ||
		!strings.Contains(w.Excluded, "the first 10 steps") {
		t.Errorf("%d epochs, %+v", len(run.Epochs), w)
	}
}

// TestUpdatesByHand: nothing of the optimizer's is known, and where no module was called nothing of forward.
func TestUpdatesByHand(t *testing.T) {
	for _, modules := range []bool{true, false} {
		s := newStream()
		s.send(1, map[string]any{"ev": "device", "type": "cpu"})
		s.parts = [6]int64{0, 0, 8, 7, 0, 5}
		if !modules {
			s.parts = [6]int64{0, 0, 0, 7, 0, 13}
		}
		s.steps(0, 1, 30, 0, plainSteps)
		s.send(1, map[string]any{"ev": "loop", "steps": "hand", "epochs": "", "backward": true})
		run := s.f.Finish()
		wantUnknown(t, run, "share.optimizer", "updated by hand, in the rest")
		wantUnknown(t, run, "split.optimizer", "updated by hand, in the rest")
		if modules {
			want(t, run, "share.forward", 0.4)
		} else {
			wantUnknown(t, run, "share.forward", "no module was called")
		}
		if run.Loop.Steps != evidence.ByHand {
			t.Errorf("%+v", run.Loop)
		}
	}
}

// TestCompiledOptimizer: its steps are seen by what they do, and its time is not.
func TestCompiledOptimizer(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	s.parts = [6]int64{0, 0, 8, 7, 0, 5}
	s.steps(0, 1, 30, 0, plainSteps)
	s.send(1, map[string]any{"ev": "loop", "steps": "compiled", "epochs": "", "backward": true})
	wantUnknown(t, s.f.Finish(), "share.optimizer", "the optimizer's step was compiled, and is not seen")
}

// TestLoaderForEvaluationAlone: its length, batch and workers say nothing of the training.
func TestLoaderForEvaluationAlone(t *testing.T) {
	loader := map[string]any{"id": 1, "dataset": "D", "batch": 16, "batches": 7, "workers": 3}
	run := told(map[string]any{"steps": "optimizer", "epochs": "evaluation", "loader": 0}, loader).f.Finish()
	wantUnknown(t, run, "samples.rate", "gave no training step its batch")
	want(t, run, "epoch.steps", 10)

	// Of two, the one that the agent names.
	other := map[string]any{"id": 2, "dataset": "D", "batch": 4, "batches": 10}
	run = told(map[string]any{"steps": "optimizer", "epochs": "loader", "loader": 2}, loader, other).f.Finish()
	want(t, run, "samples.rate", 4/0.02)
}

// TestEndlessLoader: no epoch is worked out from the length of a loader that goes on for ever.
func TestEndlessLoader(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	s.send(1, map[string]any{"ev": "loader", "id": 1, "dataset": "D", "batch": 8, "batches": 1250000000,
		"endless": true})
	s.steps(0, 1, 30, 0, plainSteps)
	s.send(1, map[string]any{"ev": "loop", "steps": "optimizer", "epochs": "", "loader": 1})
	run := s.f.Finish()
	wantUnknown(t, run, "epoch.estimate", "are not known")
	wantUnknown(t, run, "epoch.time", "the loader's sampler goes on without end")
	want(t, run, "samples.rate", 8/0.02)
	for _, f := range run.Findings {
		if f.Name == "long-epoch" {
			t.Error(f.Text)
		}
	}
}

// TestNoStepsSaysWhy: what was seen where there was no step.
func TestNoStepsSaysWhy(t *testing.T) {
	for why, loop := range map[string]map[string]any{
		"backward passes were seen, but no optimizer stepped after them": {"backward": true, "module": true},
		"models were called, but there was neither":                      {"module": true},
		"no training step was seen":                                      {"module": false},
	} {
		s := newStream()
		loop["ev"] = "loop"
		s.send(1, loop)
		wantUnknown(t, s.f.Finish(), "step.time", why)
	}
}

// TestOtherThreads: what other threads trained is in no figure, and that is said.
func TestOtherThreads(t *testing.T) {
	run := told(map[string]any{"steps": "optimizer", "epochs": "loop", "strangers": true}).f.Finish()
	if !slices.ContainsFunc(run.Findings, func(f evidence.Finding) bool { return f.Name == "other-threads" }) {
		t.Errorf("%+v", run.Findings)
	}
}

// TestDeviceThatIsNoCPU: what is not known of a device is not told of the CPU.
func TestDeviceThatIsNoCPU(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "xpu"})
	s.steps(0, 1, 30, 0, func(n int) string {
		if n%20 == 0 {
			return "sync"
		}
		return ""
	})
	run := s.f.Finish()
	for _, f := range run.Figures {
		if strings.Contains(f.Missing, "the device is the CPU") {
			t.Errorf("%s: %s", f.Name, f.Missing)
		}
	}
	s = newStream()
	s.parts = [6]int64{1, 0, 7, 4, 5, 3}
	s.steps(0, 1, 30, 0, plainSteps)
	wantUnknown(t, s.f.Finish(), "share.h2d", "it is not known on which device the steps ran")
}
