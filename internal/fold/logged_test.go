package fold

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/evidence"
)

func (s *stream) log(door, name string, steps []int, own []any, values ...any) {
	event := map[string]any{"ev": "logged", "door": door, "name": name, "step": steps, "value": values}
	if own != nil {
		event["own"] = own
	}
	s.send(1, event)
}

func seriesOf(t *testing.T, run *evidence.Run, door, name string) evidence.Series {
	t.Helper()
	for _, s := range run.Logged {
		if s.Door == door && s.Name == name {
			return s
		}
	}
	t.Fatalf("no series %s of %s: %+v", name, door, run.Logged)
	return evidence.Series{}
}

// TestLogged: the curves that a script logged are there by door and name, learning rates first; a step that it did not
// give is not made up, and a value that is not finite is none.
func TestLogged(t *testing.T) {
	s := newStream()
	s.log("TensorBoard", "val/acc", []int{10}, []any{1}, 0.5)
	s.log("W&B", "acc", []int{10, 11}, nil, 0.5, "nan")
	s.log("TensorBoard", "val/acc", []int{20}, []any{nil}, 0.75)
	s.log("optimizer", "lr SGD", []int{1, 11}, nil, 0.1, 0.01)
	s.send(1, map[string]any{"ev": "logged_unread", "door": "W&B", "name": "loss", "count": 7})
	run := s.f.Finish()
	if len(run.Logged) != 4 || run.Logged[0].Door != evidence.DoorOptimizer || run.Logged[1].Name != "acc" {
		t.Fatalf("%+v", run.Logged)
	}
	acc := seriesOf(t, run, "TensorBoard", "val/acc")
	if acc.Points != 2 || acc.Thin != 0 || len(acc.Own) != 2 || *acc.Own[0] != 1 || acc.Own[1] != nil ||
		*acc.Value[1] != 0.75 || acc.Step[1] != 20 {
		t.Errorf("%+v", acc)
	}
	if wb := seriesOf(t, run, "W&B", "acc"); wb.Own != nil || wb.Value[1] != nil || *wb.Value[0] != 0.5 {
		t.Errorf("%+v", wb)
	}
	unread := seriesOf(t, run, "W&B", "loss")
	if unread.Points != 0 || len(unread.Value) != 0 || !strings.HasPrefix(unread.Note, "7 values were not read") {
		t.Errorf("%+v", unread)
	}
	if s.f.unread != 0 {
		t.Errorf("%d events could not be read", s.f.unread)
	}
	s.log("MLflow", "x", []int{1, 2}, nil, 1.0)
	s.log("MLflow", "x", []int{1}, []any{1, 2}, 1.0)
	if s.f.unread != 2 {
		t.Error("columns of different lengths were taken")
	}
}

// TestLoggedIsBounded: of a long curve points at even distances are listed, and the last; of names beyond the bound it
// is said how many values there were.
func TestLoggedIsBounded(t *testing.T) {
	s := newStream()
	const n = 123_457
	var steps []int
	var values []any
	for i := range n {
		steps, values = append(steps, i), append(values, i)
		if len(steps) == 1000 || i == n-1 {
			s.log("Trainer", "loss", steps, nil, values...)
			steps, values = nil, nil
		}
	}
	for i := range maxSeries + 4 {
		s.log("W&B", fmt.Sprintf("layer%d", i), []int{1, 2}, nil, 1, 2)
	}
	run := s.f.Finish()
	loss := seriesOf(t, run, "Trainer", "loss")
	if loss.Points != n || len(loss.Value) < maxPoints || len(loss.Value) > 2*maxPoints+1 {
		t.Fatalf("%d points, %d listed, thin %d", loss.Points, len(loss.Value), loss.Thin)
	}
	for i, step := range loss.Step {
		if at := i * loss.Thin; step != at && (i != len(loss.Step)-1 || step != n-1) {
			t.Fatalf("point %d of every %d is step %d", i, loss.Thin, step)
		}
	}
	if last := *loss.Value[len(loss.Value)-1]; last != n-1 {
		t.Errorf("the last value is %g", last)
	}
	if len(run.Logged) != maxSeries {
		t.Errorf("%d series", len(run.Logged))
	}
	if f := finding(run, "logged-not-told"); f == nil || !strings.Contains(f.Text, "10 values") {
		t.Errorf("%+v", f)
	}
}

func (s *stream) seeds(watched []string, hash string, rows ...[]any) {
	s.send(1, map[string]any{"ev": "seeds", "watched": watched, "hash_seed": hash, "rows": rows})
}

func words(run *evidence.Run) []string {
	var all []string
	for _, s := range run.Provenance.Randomness {
		all = append(all, s.Words())
	}
	return all
}

// TestRandomness: what was set is there with its line; what was never set says so, and nothing is said of a library
// that was not imported.
func TestRandomness(t *testing.T) {
	s := newStream()
	s.seeds([]string{"random.seed", "torch.manual_seed", "numpy.random.default_rng"}, "",
		[]any{"torch.manual_seed", "7", "/home/u/p/train.py:3",
			"/v/site-packages/lightning/fabric/utilities/seed.py:60", 1, 0},
		[]any{"torch.manual_seed", "8", "/home/u/p/train.py:30", "", 4, 10},
		[]any{"numpy.random.default_rng", "", "/home/u/p/data.py:9", "", 2, 0})
	s.send(1, map[string]any{"ev": "loader", "id": 1, "workers": 2, "generator": "11", "worker_init": nil})
	s.send(1, map[string]any{"ev": "loader", "id": 2, "workers": 0, "generator": nil, "worker_init": nil})
	s.send(1, map[string]any{"ev": "settings", "step": 1, "rows": [][]any{
		{"torch.initial_seed", "7", "99"}, {"torch.use_deterministic_algorithms", "on", "off"},
		{"torch.backends.cudnn.benchmark", "False", "False"}, {"CUBLAS_WORKSPACE_CONFIG", "", ""},
		{"PYTHONHASHSEED", "0", ""}, {"broken"}, {nil, "x", nil}}})
	s.send(1, map[string]any{"ev": "settings", "step": 9, "rows": [][]any{
		{"torch.backends.cudnn.benchmark", "True", "False"}, {"PYTHONHASHSEED", "0", ""}}})
	want := []string{
		"torch.manual_seed 7, 8 (train.py:3): through lightning/fabric/utilities/seed.py:60; 5 calls",
		"random.seed not set",
		"numpy.random.default_rng not set (data.py:9): called without a seed; 2 calls",
		"generator of DataLoader 1 11",
		"worker_init_fn of DataLoader 1 not set",
		"generator of DataLoader 2 not set",
		"PYTHONHASHSEED not set: the order of sets of texts differs from run to run; set to \"0\" after Python had " +
			"started, when it has no effect on this process",
		"torch.use_deterministic_algorithms on",
		"torch.backends.cudnn.benchmark False: as training began; \"True\" at the end",
		"CUBLAS_WORKSPACE_CONFIG not set",
	}
	got := words(s.f.Finish())
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRandomnessUnknown: where nobody looked, or nothing came, that is said and is no "not set"; a seed that PyTorch
// took for itself is named, and one that came past the function is no less set.
func TestRandomnessUnknown(t *testing.T) {
	is := func(what string, s *stream, want string) {
		t.Helper()
		if got := strings.Join(words(s.f.Finish()), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", what, got)
		}
	}
	is("an agent of before", newStream(), "seeds unknown: the agent that watched the run did not look")
	none := &stream{f: New()}
	none.own("start", StartEvent{ID: "test"})
	is("no Python", none, "seeds unknown: no process was seen")
	cut := newStream()
	cut.seeds([]string{"torch.manual_seed"}, "0")
	is("cut off", cut, "torch.manual_seed not set")
	is("cut off", cut, "deterministic settings unknown: no step was seen")
	is("cut off", cut, "PYTHONHASHSEED 0")
	cut.send(1, map[string]any{"ev": "settings", "step": 1, "rows": [][]any{{"torch.initial_seed", "99", "99"}}})
	is("its own", cut, "torch.manual_seed not set: PyTorch took 99 for itself")
	past := newStream()
	past.seeds([]string{"torch.manual_seed"}, "0")
	past.send(1, map[string]any{"ev": "settings", "step": 1, "rows": [][]any{{"torch.initial_seed", "5", "99"}}})
	is("past the function", past, "torch.manual_seed 5: by the generator itself")
}
