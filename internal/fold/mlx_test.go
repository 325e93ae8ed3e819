package fold

import (
	"strings"
	"testing"

	"assay/internal/evidence"
)

// mlxStream is a run of MLX on a CPU: 60 steps of 20 ms in one stretch, one in twenty of 22 ms, taken apart.
func mlxStream(queued bool, unseen map[string]string) *stream {
	return mlxOn("linux/amd64", nil, queued, unseen)
}

func mlxOn(system string, metal any, queued bool, unseen map[string]string) *stream {
	s := &stream{New(), [6]int64{}}
	s.own("start", StartEvent{ID: "test", Subject: evidence.Subject{Kind: "script", Dir: "/home/u/p"},
		System: system})
	s.send(1, map[string]any{"ev": "hello", "version": 2, "pid": 7, "python": "3.12.1", "wall": 0.0, "clock": 0})
	s.send(1, map[string]any{"ev": "framework", "name": "mlx", "version": "0.32.4", "default_device": "cpu",
		"metal": metal})
	s.send(1, map[string]any{"ev": "device", "type": "cpu", "name": "Some CPU", "queued": queued})
	s.send(1, map[string]any{"ev": "unseen", "phases": unseen})
	names := []string{"forward", "graph", "backward", "optimizer", "evaluation", "rest"}
	apart, whole := []int64{8, 0, 9, 3, 0, 2}, []int64{0, 2, 0, 0, 17, 1}
	columns, parts := map[string][]any{}, map[string][]int64{}
	put := func(name string, v any) { columns[name] = append(columns[name], v) }
	for n := range 60 {
		kind, of := "", whole
		if queued && (n+1)%20 == 0 {
			kind, of = "sync", apart
		}
		var total int64
		for i, name := range names {
			parts[name] = append(parts[name], of[i]*1e6)
			total += of[i] * 1e6
		}
		for name, v := range map[string]any{"number": n + 1, "start": n * 22e6, "total": total, "epoch": 0, "micro": 1,
			"evals": 0, "kind": kind, "live": 1000 + n, "pool": 5000, "opts": 1, "outside": 0} {
			put(name, v)
		}
	}
	event := map[string]any{"ev": "steps", "phases": parts}
	for name, column := range columns {
		event[name] = column
	}
	s.send(1, event)
	return s
}

func finished(s *stream) *evidence.Run {
	s.send(1, map[string]any{"ev": "bye", "how": "exit"})
	s.own("exit", ExitEvent{})
	return s.f.Finish()
}

// TestMLX: on a CPU too, phases hold in the steps that were taken apart alone.
func TestMLX(t *testing.T) {
	s := mlxStream(true, map[string]string{"graph": "counted with what it is of"})
	s.send(1, map[string]any{"ev": "peak", "live": 7000, "pool": -1, "source": "mx.get_peak_memory"})
	s.send(1, map[string]any{"ev": "syncs", "rows": [][]any{
		{"mx.eval", "/home/u/p/train.py:9", "", 60, 1e9, true, 60},
		{"item", "/home/u/p/train.py:10", "", 60, 2e8, true, 60}}})
	s.send(1, map[string]any{"ev": "loss", "step": []int{1, 2}, "value": []any{2.5, 2.0}})
	run := finished(s)
	if d := evidence.Device(run); d != "mlx-cpu" {
		t.Errorf("on %s: neither the lane CPU, which is PyTorch's, nor MLX, which is an Apple GPU's", d)
	}
	for name, want := range map[string]float64{"split.forward": 8e-3, "split.backward": 9e-3, "split.optimizer": 3e-3,
		"step.time": 20e-3, "step.time.synchronised": 22e-3, "memory.live.peak": 7000, "memory.pool.peak": 7000} {
		if f := run.Figure(name); !f.Known() || *f.Value != want {
			t.Errorf("%s is %v, want %v", name, f, want)
		}
	}
	for name, want := range map[string]string{"split.graph": "counted with what it is of",
		"share.graph": "counted with what it is of", "memory.watermark": "MLX names no recommended maximum"} {
		if f := run.Figure(name); f.Known() || !strings.Contains(f.Missing, want) {
			t.Errorf("%s: %q does not say %q", name, f.Missing, want)
		}
	}
	if note := run.Figure("memory.live.peak").Note; note != "mx.get_peak_memory" {
		t.Errorf("the peak is from %q", note)
	}
	if note := run.Figure("memory.pool.peak").Note; !strings.HasPrefix(note, "at least: mx.get_peak_memory") {
		t.Errorf("no less is held than is in use: %q", note)
	}
	if note := run.Figure("loss.last").Note; strings.Contains(note, "backward") {
		t.Errorf("a loss is %q", note)
	}
	if missing := run.Profile.Missing; !strings.Contains(missing, "MLX has no profiler") {
		t.Errorf("no profile since %q", missing)
	}
	if !run.Syncs[0].Computes || run.Syncs[1].Computes {
		t.Errorf("where the step is computed: %+v", run.Syncs)
	}
	said := false
	for _, f := range run.Findings {
		if f.Name == "synchronisation" {
			said = true
			if !strings.HasPrefix(f.Text, "1.0 calls a step besides mx.eval") || f.Where != "train.py:10" {
				t.Errorf("%s: %s", f.Where, f.Text)
			}
		}
	}
	if !said {
		t.Error("nothing is said of item")
	}
}

// TestMLXCompiled: what no step shows is unknown, for the reason that the agent gave, also where a time was measured.
func TestMLXCompiled(t *testing.T) {
	why := "the step is compiled"
	run := finished(mlxStream(false, map[string]string{"forward": why, "backward": why, "optimizer": why, "rest": why}))
	for _, name := range []string{"split.forward", "share.backward", "split.optimizer", "split.rest"} {
		if f := run.Figure(name); f.Known() || f.Missing != why {
			t.Errorf("%s: %v", name, f)
		}
	}
	if f := run.Figure("split.evaluation"); !f.Known() || *f.Value != 17e-3 || f.N != 50 {
		t.Errorf("evaluation is of every step: %v", f)
	}
	if f := run.Figure("step.time.synchronised"); !strings.Contains(f.Missing, why) {
		t.Errorf("%q does not say %q", f.Missing, why)
	}
}

// TestAllocatorLimits: a limit that the run came to is a warning, one that it stayed below a note.
func TestAllocatorLimits(t *testing.T) {
	for _, c := range []struct {
		limit    string
		size     int
		severity evidence.Severity
		text     string
	}{
		{"memory", 100, evidence.Warning, "the memory limit was set to 100 B, and"},
		{"memory", 1 << 30, evidence.Note, "sets MLX's memory limit to 1.00 GiB; at most"},
		{"wired", 100, evidence.Warning, "the wired limit was set to 100 B, and"},
		{"cache", 100, evidence.Note, "sets MLX's cache limit to 100 B; at most"},
		{"other", 100, "", ""},
	} {
		s := mlxStream(true, nil)
		s.send(1, map[string]any{"ev": "allocator", "limit": c.limit, "bytes": c.size, "where": "/home/u/p/train.py:3"})
		run := finished(s)
		found := evidence.Finding{}
		for _, f := range run.Findings {
			if strings.HasSuffix(f.Name, "-limit") {
				found = f
			}
		}
		if found.Severity != c.severity || !strings.Contains(found.Text, c.text) ||
			c.text != "" && found.Where != "train.py:3" {
			t.Errorf("%s of %d: %+v", c.limit, c.size, found)
		}
	}
}

// TestUnseenIsBounded: reasons are as long as texts of phases, and for as many.
func TestUnseenIsBounded(t *testing.T) {
	many := map[string]string{}
	for i := range maxPhases + 1 {
		many["p"+strings.Repeat("x", i)] = "why"
	}
	for _, phases := range []any{map[string]string{"forward": strings.Repeat("x", maxPhaseText+1)},
		map[string]string{"No Name": "why"}, many, "forward"} {
		s := newStream()
		s.send(1, map[string]any{"ev": "unseen", "phases": phases})
		if p := s.f.conns[1]; p.unseen != nil || s.f.unread != 1 {
			t.Errorf("%v was read: %v", phases, p.unseen)
		}
	}
}

// TestMLXWithoutTheGPU: where Metal is there and not used, and where a Mac has none, a run on the CPU is no surprise to
// be found in the figures.
func TestMLXWithoutTheGPU(t *testing.T) {
	for _, c := range []struct {
		system string
		metal  any
		found  string
		build  string
	}{
		{"darwin/arm64", true, "mlx-on-cpu", "default device cpu, Metal available"},
		{"darwin/amd64", false, "no-metal", "default device cpu, no Metal"},
		{"linux/amd64", false, "", "default device cpu, no Metal"},
		{"darwin/arm64", nil, "", ""},
	} {
		run := finished(mlxOn(c.system, c.metal, true, nil))
		found := ""
		for _, f := range run.Findings {
			if f.Name == "mlx-on-cpu" || f.Name == "no-metal" {
				found = f.Name
			}
		}
		if found != c.found || run.Provenance.Build != c.build {
			t.Errorf("%s, %v: %q, built %q", c.system, c.metal, found, run.Provenance.Build)
		}
	}
}
