package fold

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/evidence"
)

func send(s *stream, conn int, events ...map[string]any) {
	for _, e := range events {
		s.send(conn, e)
	}
}

// TestTheFrameworkThatTrains: of several that a script imports the evidence names the one that trained, and what
// computes for it, whatever was imported first.
func TestTheFrameworkThatTrains(t *testing.T) {
	imported := func(name, version string) map[string]any {
		return map[string]any{"ev": "framework", "name": name, "version": version}
	}
	trains := func(name, backend string) map[string]any {
		return map[string]any{"ev": "trains", "framework": name, "backend": backend}
	}
	keras := map[string]any{"ev": "framework", "name": "keras", "version": "3.15.1", "backend": "mlx",
		"backend_version": "0.32.4"}
	for _, c := range []struct {
		name   string
		events []map[string]any
		want   string
	}{
		{"nothing says so: the first", []map[string]any{imported("jax", "0.10.2")}, "torch 2.8.0"},
		{"JAX", []map[string]any{imported("jax", "0.10.2"), trains("jax", "")}, "jax 0.10.2"},
		{"Keras on JAX", []map[string]any{imported("jax", "0.10.2"), keras, trains("jax", ""),
			trains("keras", "jax")}, "keras 3.15.1 on jax 0.10.2"},
		{"Keras on PyTorch", []map[string]any{keras, trains("torch", ""), trains("keras", "torch")},
			"keras 3.15.1 on torch 2.8.0"},
		{"a backend that has no hooks", []map[string]any{keras, trains("keras", "mlx")}, "keras 3.15.1 on mlx 0.32.4"},
		{"one that was never imported", []map[string]any{trains("other", "jax")}, "torch 2.8.0"},
	} {
		s := newStream()
		send(s, 1, c.events...)
		if got := s.f.Finish().Target.With(); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestFrameworksAreBounded(t *testing.T) {
	s := newStream()
	for i := range 1000 {
		s.send(1, map[string]any{"ev": "framework", "name": fmt.Sprint("f", i), "version": "1"})
		s.send(1, map[string]any{"ev": "compiles", "rows": [][]any{{fmt.Sprint(i), 1, 1, 1, 1, false},
			{fmt.Sprint("x", i), 1, 1, 1, 1, false}, {fmt.Sprint("y", i), 1, 1, 1, 1, false}}})
	}
	p := s.f.main()
	if len(p.imported) != maxFrameworks || len(p.compiles) != maxRows {
		t.Error(len(p.imported), len(p.compiles))
	}
}

// wholeSteps is a run of JAX's: steps of 20 ms without a backward pass, in which something is compiled where it says.
func wholeSteps(s *stream, n int, compiled func(number int) bool) {
	send(s, 1, map[string]any{"ev": "framework", "name": "jax", "version": "0.10.2"},
		map[string]any{"ev": "trains", "framework": "jax", "backend": ""},
		map[string]any{"ev": "unseen", "phases": map[string]string{"backward": "one call"}},
		map[string]any{"ev": "device", "type": "cuda", "queued": false},
		map[string]any{"ev": "phases", "rows": []map[string]string{{"name": "compile", "title": "c", "doc": "d"},
			{"name": "wait", "title": "w", "doc": "d"}, {"name": "rest", "title": "r", "doc": "d"}}})
	cols := map[string][]any{}
	phases := map[string][]int64{}
	for i := range n {
		number, total, compile := i+1, int64(20e6), int64(0)
		if compiled(number) {
			total, compile = 520e6, 500e6
		}
		for name, v := range map[string]any{"number": number, "start": int64(i) * 1e9, "total": total, "epoch": 0,
			"micro": 1, "evals": 0, "kind": "", "live": -1, "pool": -1, "opts": 1, "outside": 0} {
			cols[name] = append(cols[name], v)
		}
		phases["compile"] = append(phases["compile"], compile)
		phases["wait"], phases["rest"] = append(phases["wait"], 15e6), append(phases["rest"], 5e6)
	}
	event := map[string]any{"ev": "steps", "phases": phases}
	for name, column := range cols {
		event[name] = column
	}
	s.send(1, event)
}

// TestStepsThatAreOneCall: there is no split, which is said; shares are of the host's time, on a GPU too; steps in
// which something was compiled are in no steady window, and it is said.
func TestStepsThatAreOneCall(t *testing.T) {
	s := newStream()
	wholeSteps(s, 60, func(number int) bool { return number == 1 || number%20 == 0 })
	send(s, 1, map[string]any{"ev": "compiles", "rows": [][]any{{"train_step", 4, 1e9, 1e9, 60, true},
		{"init", 9, 1e9, 5e8, 1, false}, {"short"}}})
	run := s.f.Finish()
	if fig := run.Figure("step.time"); !fig.Known() || *fig.Value != 0.020 {
		t.Errorf("%+v", fig)
	}
	if fig := run.Figure("share.wait"); !fig.Known() || *fig.Value != 0.75 {
		t.Errorf("%+v", fig)
	}
	if w := run.Windows[0]; w.Steps != 47 || !strings.Contains(w.Excluded, "functions were compiled") {
		t.Errorf("%+v", w)
	}
	found := map[string]evidence.Finding{}
	for _, f := range run.Findings {
		found[f.Name] = f
	}
	if f := found["no-split"]; !strings.Contains(f.Text, "one call") || f.Severity != evidence.Note {
		t.Errorf("%+v", f)
	}
	if f := found["recompiled"]; !strings.Contains(f.Text, "train_step was compiled 4 times") ||
		!strings.Contains(f.Text, "before step 60") || f.Severity != evidence.Warning {
		t.Errorf("%+v", f)
	}
	if f := found["compiled-functions"]; !strings.Contains(f.Text, "2 functions") ||
		!strings.Contains(f.Text, "13 times") || len(run.Compiles) != 2 || run.Compiles[0].Function != "train_step" {
		t.Errorf("%+v %+v", f, run.Compiles)
	}
}

// TestFewCompilesAreNoNews: for a whole batch, the last one, and evaluation.
func TestFewCompilesAreNoNews(t *testing.T) {
	s := newStream()
	wholeSteps(s, 20, func(number int) bool { return number == 1 })
	send(s, 1, map[string]any{"ev": "compiles", "rows": [][]any{{"train_step", fewCompiles, 1, 1, 1, true},
		{"add", 50, 1, 1, 1, false}}})
	for _, f := range s.f.Finish().Findings {
		if f.Name == "recompiled" {
			t.Errorf("%+v", f)
		}
	}
}

// TestWhatTheLossesAre: Keras logs means of the epoch so far, and they are not told as losses of a step.
func TestWhatTheLossesAre(t *testing.T) {
	s := newStream()
	s.steps(1, 1, 12, 0, func(int) string { return "" })
	s.send(1, map[string]any{"ev": "loss", "step": []int{1, 2}, "value": []float64{2, 1},
		"what": "as Keras logs it: the mean of the epoch so far"})
	if fig := s.f.Finish().Figure("loss.last"); !strings.HasPrefix(fig.Note, "as Keras logs it") {
		t.Errorf("%+v", fig)
	}
}
