package fold

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
)

// TestLoopNotRecognised: a script with PyTorch of which no step was seen is warned about, one without is not, nor one
// whose steps were seen.
func TestLoopNotRecognised(t *testing.T) {
	s := newStream()
	if f := finding(s.f.Finish(), "loop-not-recognised"); f == nil || f.Severity != evidence.Warning ||
		!strings.Contains(f.Text, "no training step was seen") {
		t.Errorf("PyTorch, and no step: %+v", f)
	}
	s.steps(1, 1, 10, 0, plainSteps)
	if f := finding(s.f.Finish(), "loop-not-recognised"); f != nil {
		t.Errorf("ten steps: %+v", f)
	}
	bare := &stream{f: New()}
	bare.own("start", StartEvent{ID: "test", Wall: time.Unix(1000, 0)})
	bare.send(1, map[string]any{"ev": "hello", "version": 1, "pid": 7, "wall": 1000.0, "clock": 0})
	run := bare.f.Finish()
	if f := finding(run, "loop-not-recognised"); f != nil {
		t.Errorf("no framework: %+v", f)
	}
	wantUnknown(t, run, "step.time", "imported no framework")
}

// TestWhyNothingIsSynchronised: a run too short for a synchronised step says that, and says nothing of a CPU.
func TestWhyNothingIsSynchronised(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "mps"})
	s.steps(1, 1, 12, 0, plainSteps)
	run := s.f.Finish()
	for _, name := range []string{"step.time.synchronised", "split.forward", "share.data"} {
		wantUnknown(t, run, name, "shorter than twenty steps")
	}
	cpu := newStream()
	cpu.send(1, map[string]any{"ev": "device", "type": "cpu"})
	cpu.steps(1, 1, 12, 0, plainSteps)
	wantUnknown(t, cpu.f.Finish(), "step.time.synchronised", "the device is synchronous")
}

// TestSteadyWindow: with too few steps of later epochs, then behind the warm-up, then behind the first: five make a
// window.
func TestSteadyWindow(t *testing.T) {
	for _, c := range []struct {
		epochs []int // steps of each
		first  int
		steps  int
	}{{[]int{12, 5}, 13, 5}, {[]int{12, 4}, 11, 6}, {[]int{15}, 11, 5}, {[]int{14}, 2, 13}, {[]int{6}, 2, 5},
		{[]int{3}, 2, 2}} {
		s := newStream()
		s.send(1, map[string]any{"ev": "device", "type": "cpu"})
		next := 1
		for i, n := range c.epochs {
			s.steps(i+1, next, n, float64(20*next), plainSteps)
			next += n
		}
		run := s.f.Finish()
		if len(run.Windows) == 0 || run.Windows[0].Name != "steady" || run.Windows[0].First != c.first ||
			run.Windows[0].Steps != c.steps {
			t.Errorf("%v: %+v, want %d steps from %d on", c.epochs, run.Windows, c.steps, c.first)
		}
	}
	one := newStream()
	one.send(1, map[string]any{"ev": "device", "type": "cpu"})
	one.steps(1, 1, 1, 0, plainSteps)
	wantUnknown(t, one.f.Finish(), "step.time", "only one step was seen")
}

// TestFoldIsBounded: a hostile or a very long stream is kept in part, the rest counted or left out; a row of another
// form is no row.
func TestFoldIsBounded(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "mps"})
	s.steps(1, 1, 30, 0, plainSteps)
	var rows [][]any
	for i := range maxRows + 7 {
		rows = append(rows, []any{"item", fmt.Sprintf("/home/u/p/t.py:%d", i), "", 1, 1e6, true, 1})
	}
	rows = append(rows, []any{"item", "short"}, []any{"item", "/home/u/p/t.py:0", "", 5, 2e6, true, 2})
	s.send(1, map[string]any{"ev": "syncs", "rows": rows})
	for conn := 2; conn < 120; conn++ {
		s.send(conn, map[string]any{"ev": "hello", "version": 1, "pid": conn, "wall": 1000.0, "clock": 0})
	}
	run := s.f.Finish()
	if len(run.Syncs) > maxRows || len(run.Syncs) == 0 {
		t.Errorf("%d places that wait", len(run.Syncs))
	}
	counts := map[int]int{}
	for _, p := range run.Syncs {
		counts[p.Count]++
	}
	if counts[5] != 1 || counts[0] != 0 {
		t.Errorf("a place that was told of again is not what it was told last: %v", counts)
	}
	if len(run.Processes) != 100 {
		t.Errorf("%d processes are listed", len(run.Processes))
	}
}

// TestPeak: the allocator's own peak counts beside the readings, and says whence it is; without any of it the reason
// stands there.
func TestPeak(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "cuda"})
	s.steps(1, 1, 30, 0, plainSteps) // live is 1000 a step, pool 5000
	want(t, s.f.Finish(), "memory.live.peak", 30_000)
	s.send(1, map[string]any{"ev": "peak", "live": 90_000, "pool": 4000, "source": "torch.cuda.max_memory_allocated"})
	run := s.f.Finish()
	want(t, run, "memory.live.peak", 90_000)
	want(t, run, "memory.pool.peak", 5000)
	if f := run.Figure("memory.live.peak"); !strings.Contains(f.Note, "max_memory_allocated") {
		t.Errorf("%+v", f)
	}
}

// TestRetest: what failed on the CPU as well is not the device's; what asks for MPS by name, or was not run again, is
// not known.
func TestRetest(t *testing.T) {
	rehearse := func(retest any) *evidence.Tests {
		s := newRehearsal()
		for _, line := range []string{`{"ev":"double","release":"2.8.0","installed":"2.15.0+cpu","macos":[15,0],"chip":"m3-ultra-96gb","memory":103079215104}`,
			`{"ev":"tests","passed":7,"failed":4}`} {
			s.f.Add(1, []byte(line))
		}
		for _, id := range []string{"both", "device", "named", "open"} {
			s.send(1, map[string]any{"ev": "test_failed", "id": id, "op": "aten::frob", "cause": "missing",
				"error": "NotImplementedError", "text": "x"})
		}
		if retest != nil {
			s.own("retest", retest)
		}
		return s.f.Finish().Rehearsal.Tests
	}
	tests := rehearse(RetestEvent{Rows: [][3]string{{"both", "failed", "ValueError: x"}, {"device", "passed", ""},
		{"named", "failed", "no MPS device"}}})
	got := map[string]string{}
	for _, f := range tests.Failures {
		got[f.ID] = f.OnCPU + ", " + f.Cause
	}
	want := map[string]string{"both": "failed, CPU too", "device": "passed, missing", "named": "unknown, missing",
		"open": "unknown, missing"}
	if fmt.Sprint(got) != fmt.Sprint(want) || tests.CPU != "" {
		t.Errorf("%v %q, want %v", got, tests.CPU, want)
	}
	if tests = rehearse(nil); tests.CPU == "" {
		t.Error("that nothing was run on the CPU is not said")
	}
}

// TestThreadThatFailed: a thread that an exception ended is told of, with the user's line, once for the same one.
func TestThreadThatFailed(t *testing.T) {
	s := on("cpu")
	for _, thread := range []string{"a", "b", "c"} {
		s.send(1, map[string]any{"ev": "thread_error", "thread": thread, "type": "ValueError", "text": "bad\nindeed",
			"where": "/home/u/p/t.py:4"})
	}
	run := s.f.Finish()
	f := finding(run, "thread-failed")
	if f == nil || f.Where != "t.py:4" ||
		f.Text != "an exception ended the thread a, and 2 more, and the script went on: ValueError: bad" {
		t.Errorf("%+v", f)
	}
	if run.Outcome.Error != "" {
		t.Errorf("the script is said to have failed: %s", run.Outcome.Error)
	}
	for i := range shownRefusals + 5 {
		s.send(1, map[string]any{"ev": "thread_error", "thread": "x", "type": "E", "text": fmt.Sprint(i), "where": ""})
	}
	n := 0
	for _, f := range s.f.Finish().Findings {
		if f.Name == "thread-failed" {
			n++
		}
	}
	if n != shownRefusals+1 {
		t.Errorf("%d findings", n)
	}
}
