package trajectory

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"assay/internal/evidence"
	"assay/internal/fault"
)

// recorded reads a run of testdata/train.py.
func recorded(t *testing.T, name string) *evidence.Run {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var run evidence.Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	run.Document = name
	return &run
}

// compared holds b against a as a user would who named no more than that.
func compared(t *testing.T, a, b string, ask func(*Asked)) *Result {
	t.Helper()
	q := Asked{A: recorded(t, a), B: recorded(t, b), Within: Tolerance{Relative: 1e-3},
		Changed: func(from, to *evidence.Run) []Change { return nil }}
	if ask != nil {
		ask(&q)
	}
	r, err := Compare(q)
	if err != nil {
		t.Fatalf("%s, %s: %v", a, b, err)
	}
	return r
}

// TestNumPy: what NumPy works out of the same losses (testdata/record.py).
func TestNumPy(t *testing.T) {
	data, err := os.ReadFile("testdata/numpy.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		Largest     float64 `json:"largest"`
		LargestStep int64   `json:"largest_step"`
		Outside     int     `json:"outside"`
		First       int64   `json:"first"`
		Area        float64 `json:"area"`
		Bias        float64 `json:"bias"`
		Smooth      float64 `json:"smooth"`
		Equal       int     `json:"equal"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }
	a := LossOf(recorded(t, "plain"))
	for name, want := range all {
		b := LossOf(recorded(t, name))
		d := Depart(a, b, Tolerance{Relative: 0.01, Absolute: 0.005})
		if !near(d.LargestRelative(), want.Largest) || want.Largest > 0 && d.Largest.Step != want.LargestStep {
			t.Errorf("%s: largest %v at %d, NumPy says %v at %d", name, d.LargestRelative(), d.Largest.Step,
				want.Largest,
				want.LargestStep)
		}
		if d.Beyond != want.Outside || d.First == nil || d.First.Step != want.First {
			t.Errorf("%s: %d beyond, first %+v; numpy.isclose says %d, first %d", name, d.Beyond, d.First,
				want.Outside, want.First)
		}
		if !near(*d.Area, want.Area) || math.Abs(*d.Bias-want.Bias) > 1e-12 || d.Equal != want.Equal {
			t.Errorf("%s: area %v, bias %v, %d equal; NumPy says %v, %v, %d", name, *d.Area, *d.Bias, d.Equal,
				want.Area, want.Bias,
				want.Equal)
		}
		pairs, _, _ := align(a, b)
		even := departed(smoothed(pairs, 5), 0, 0, Tolerance{})
		if math.Abs(even.LargestRelative()-want.Smooth) > 1e-9 {
			t.Errorf("%s: smoothed %v, NumPy says %v", name, even.LargestRelative(), want.Smooth)
		}
	}
}

// TestAnswers: what each pair of recorded runs comes to.
func TestAnswers(t *testing.T) {
	allow := func(names ...string) func(*Asked) { return func(q *Asked) { q.Allow = names } }
	for _, c := range []struct {
		a, b   string
		ask    func(*Asked)
		answer string
		says   string
	}{
		{"plain", "again", func(q *Asked) { q.Within = Tolerance{Bitwise: true} }, Within,
			"all 48 values are the same to the last bit"},
		{"plain", "named", nil, Within, "the same to the last bit"}, // --device cpu is no other training
		{"plain", "seed", allow("seed"), Beyond, "first at step 1 ("},
		{"plain", "rate", allow("learning-rate", "command"), Beyond, "first at step 2 ("},
		// the first loss is before any update
		{"plain", "batch", allow("batch", "command"), Beyond, "steps are in one of the two alone"},
		{"plain", "nan", allow("command"), Beyond, "at step 20 the value is 1.34132 in A and not finite in B"},
		{"nan", "plain", allow("command"), Beyond, "at step 20 the value is not finite in A and 1.34132 in B"},
		{"plain", "failed", allow("ended", "command"), Within,
			"all 19 values are the same to the last bit; 29 steps are in one"},
		{"plain", "short", allow("command"), Within, "all 32 values are the same to the last bit; 16 steps are in one"},
		{"plain", "float16", allow("command"), Beyond, "first at step"},
		{"plain", "float16", func(q *Asked) { q.Allow, q.Within = []string{"command"}, Tolerance{Relative: 0.06} },
			Within,
			"all 48 values are within the tolerance; largest 5.84 % at step 43"},
		{"plain", "float16", func(q *Asked) { q.Allow, q.Within = []string{"command"}, Tolerance{Absolute: 0.05} },
			Within, ""},
		{"plain", "float16", func(q *Asked) { q.Allow, q.Within = []string{"command"}, Tolerance{Bitwise: true} },
			Beyond, "at 48 of 48"},
		{"plain", "float16", func(q *Asked) {
			q.Allow, q.Smooth, q.Within = []string{"command"}, 16,
				Tolerance{Relative: 0.02}
		},
			Within, ""},
		{"plain", "float16", func(q *Asked) { q.Allow, q.Smooth = []string{"command"}, 48 }, CannotTell,
			"fewer than two means"},
		// Repeats that are the same to the last bit give any difference a reason; without one it is not known.
		{"plain", "float16", func(q *Asked) { q.Allow, q.Within = []string{"command"}, Tolerance{Repeats: true} },
			CannotTell,
			"what repeats of A do is not known: no other run of A's command"},
		{"plain", "float16", func(q *Asked) {
			q.Allow, q.Within, q.Past = []string{"command"}, Tolerance{Repeats: true}, []*evidence.Run{recorded(t,
				"again")}
		}, Beyond, "beyond the tolerance first at step 1"},
	} {
		r := compared(t, c.a, c.b, c.ask)
		if r.Body.Answer != c.answer || !strings.Contains(r.Body.Why, c.says) {
			t.Errorf("%s, %s: %s, want %s with %q", c.a, c.b, r.Headline(), c.answer, c.says)
		}
		if want := map[string]int{Within: 0, Beyond: 3, CannotTell: 4}[c.answer]; r.Status() != want {
			t.Errorf("%s, %s: status %d, want %d", c.a, c.b, r.Status(), want)
		}
	}
}

// TestRefused: what is not the same training is refused, with the reason and the word that would allow it.
func TestRefused(t *testing.T) {
	with := func(change func(run *evidence.Run)) func(*Asked) { return func(q *Asked) { change(q.B) } }
	for _, c := range []struct {
		b    string
		ask  func(*Asked)
		why  string
		hint string
	}{
		{"plain", nil, "both are the same run", "name two runs"},
		{"seed", nil, "torch.manual_seed: 7, 0 in A; 7, 1 in B",
			"or, where that is what is to be judged: --allow seed"},
		{"rate", nil, "lr SGD is 0.05 in A, 0.1 in B from step 1 on", "--allow command,learning-rate"},
		{"batch", nil, "an update sees 16 samples in A, 8 in B", "--allow command,batch"},
		{"failed", nil, "B failed: RuntimeError: the disk is full", "--allow command,ended"},
		{"again", with(func(run *evidence.Run) { run.Subject.Command = append(run.Subject.Command, "--seed", "1") }),
			"the arguments differ: none in A; --seed 1 in B", "--allow seed"},
		{"again", with(func(run *evidence.Run) {
			run.Subject.Command = append(run.Subject.Command, "--data-seed=1",
				"--x")
		}),
			"the arguments differ", "--allow command"},
		{"again", with(func(run *evidence.Run) { run.Subject.Script = "other.py" }), "A is train.py, B is other.py",
			"--allow script"},
		{"again", with(func(run *evidence.Run) { run.Outcome = evidence.Outcome{Started: true, Exit: -1} }),
			"B was cut off", "--allow ended"},
		{"again", with(func(run *evidence.Run) {
			run.Outcome.Complete, run.Outcome.Reason = false,
				"9 events were lost"
		}),
			"B is not complete: 9 events were lost", "--allow ended"},
		{"again", with(func(run *evidence.Run) { run.Provenance.Datasets[0].Length = 255 }),
			"256 items in A, 255 in B", "--allow data"},
		{"again", func(q *Asked) {
			q.A.Provenance.Datasets[0].Fingerprint, q.B.Provenance.Datasets[0].Fingerprint = "sha256-whole:aa",
				"sha256-whole:bb"
		}, "dataset 0 has other content", "--allow data"},
		{"again", with(func(run *evidence.Run) { run.Levers = []evidence.Lever{{Lever: "autocast", Done: true}} }),
			"none in A, autocast in B", "--allow levers"},
		{"again", with(func(run *evidence.Run) { run.Numerics.MicroSteps = 2 }),
			"an update sees 16 samples in A, 32 in B", "--allow batch"},
		{"again", with(func(run *evidence.Run) { run.Loss = evidence.LossSeries{} }), "B: it has no losses",
			"run the training"},
		{"again", with(func(run *evidence.Run) {
			run.Rehearsal, run.Target.Double = &evidence.Rehearsal{}, &evidence.Double{ShapeOnly: true}
		}), "B is a rehearsal with shapes only", "--shape-only"},
		{"again", func(q *Asked) { q.Metrics = []string{"val_acc"} }, `A has no series "val_acc"`, "it has: loss"},
	} {
		q := Asked{A: recorded(t, "plain"), B: recorded(t, c.b), Within: Tolerance{Relative: 1e-3},
			Changed: func(from, to *evidence.Run) []Change { return nil }}
		if c.ask != nil {
			c.ask(&q)
		}
		_, err := Compare(q)
		if err == nil || !strings.Contains(err.Error(), c.why) || !strings.Contains(fault.HintOf(err), c.hint) ||
			fault.CodeOf(err) != fault.Failed {
			t.Errorf("%s: %v (%s), want %q and %q", c.b, err, fault.HintOf(err), c.why, c.hint)
		}
	}
	// What there is nothing of cannot be allowed.
	q := Asked{A: recorded(t, "plain"), B: recorded(t, "again"), Allow: []string{"shapes", "losses", "one-run"}}
	q.B.Rehearsal, q.B.Target.Double = &evidence.Rehearsal{}, &evidence.Double{ShapeOnly: true}
	if _, err := Compare(q); err == nil || strings.Contains(fault.HintOf(err), "--allow") {
		t.Errorf("shapes alone were allowed: %v", err)
	}
}

// TestSameSamplesAnUpdate: half the batch and two batches an update is the same update; what is compared is its mean
// loss.
func TestSameSamplesAnUpdate(t *testing.T) {
	r := compared(t, "plain", "again", func(q *Asked) {
		b := q.B
		b.Provenance.Datasets[0].Batch, b.Numerics.MicroSteps = 8, 2
		var s evidence.LossSeries
		for i, step := range b.Loss.Step { // each loss as the mean of two
			low, high := *b.Loss.Value[i]-0.25, *b.Loss.Value[i]+0.25
			s.Step, s.Value = append(s.Step, step, step), append(s.Value, &low, &high)
		}
		b.Loss = s
	})
	if c := r.Body.Series[0]; r.Body.Answer != Within || c.Steps != 48 || !strings.Contains(strings.Join(c.Notes, ""),
		"mean loss of an update") {
		t.Errorf("%s: %+v", r.Headline(), c)
	}
}

// TestRehearsedIsNoProof: what the double computes is this machine's CPU's.
func TestRehearsedIsNoProof(t *testing.T) {
	r := compared(t, "plain", "again", func(q *Asked) {
		q.B.Rehearsal, q.B.Target.Double = &evidence.Rehearsal{}, &evidence.Double{Release: "2.8.0"}
	})
	if r.Body.Answer != CannotTell || !strings.HasPrefix(r.Headline(), "cannot tell (rehearsed): ") {
		t.Error(r.Headline())
	}
}

// TestNotFiniteOnBothSides: NaN and infinities are kept alike, so that two of them prove nothing.
func TestNotFiniteOnBothSides(t *testing.T) {
	r := compared(t, "nan", "nan", func(q *Asked) { q.B.Document = "another" })
	if r.Body.Answer != CannotTell || !strings.Contains(r.Body.Why, "at 29 steps, first 20, neither value is finite") {
		t.Error(r.Headline())
	}
}

// TestNoise: a difference that A's own repeats have as well tells nothing.
func TestNoise(t *testing.T) {
	again := recorded(t, "again")
	for i := range again.Loss.Value {
		v := *again.Loss.Value[i] * 1.1
		again.Loss.Value[i] = &v
	}
	ask := func(q *Asked) { q.Allow, q.With = []string{"command"}, []*evidence.Run{again} }
	r := compared(t, "plain", "float16", ask)
	if r.Body.Answer != CannotTell || !strings.Contains(r.Body.Why, "repeats of A depart from it by as much (10.0 %)") {
		t.Error(r.Headline())
	}
	r = compared(t, "plain", "float16", func(q *Asked) { ask(q); q.Within = Tolerance{Repeats: true} })
	if r.Body.Answer != Within || math.Abs(r.Body.Within.Relative-0.1) > 1e-12 {
		t.Errorf("%s: %+v", r.Headline(), r.Body.Within)
	}
	// What is other code, another seed or another setting is no repeat.
	for name, change := range map[string]func(*evidence.Run){
		"commit": func(run *evidence.Run) { run.Provenance.Commit = "other" },
		"seed":   func(run *evidence.Run) { run.Provenance.Randomness[0].Value = "3" },
		"device": func(run *evidence.Run) { run.Target.Device = "cuda" },
		"deterministic": func(run *evidence.Run) {
			for i := range run.Provenance.Randomness {
				if s := &run.Provenance.Randomness[i]; strings.HasSuffix(s.Name, "deterministic") {
					s.Value = "True"
				}
			}
		},
	} {
		other := *recorded(t, "again")
		change(&other)
		r := compared(t, "plain", "float16", func(q *Asked) {
			q.Allow, q.Past = []string{"command"},
				[]*evidence.Run{&other}
		})
		if len(r.Body.Repeats.Runs) != 0 || !strings.Contains(r.Body.Repeats.Why, "is none: ") {
			t.Errorf("another %s is a repeat: %+v", name, r.Body.Repeats)
		}
	}
}

// TestSeedsAreJudged: where seeds are what is judged, runs with other seeds are what chance does.
func TestSeedsAreJudged(t *testing.T) {
	third := recorded(t, "seed")
	third.Document, third.Subject.Command = "third", []string{"python3", "train.py", "--seed", "2"}
	third.Provenance.Randomness[0].Value = "7, 2"
	ask := func(allow string) func(*Asked) {
		return func(q *Asked) { q.Allow, q.Past = []string{allow, "seed"}, []*evidence.Run{third} }
	}
	r := compared(t, "plain", "seed", ask(""))
	if r.Body.Answer != CannotTell || len(r.Body.Repeats.Runs) != 1 {
		t.Errorf("%s: %+v", r.Headline(), r.Body.Repeats)
	}
	third.Subject.Command = append(third.Subject.Command, "--lr", "1")
	if r := compared(t, "plain", "seed", ask("command")); len(r.Body.Repeats.Runs) != 0 {
		t.Errorf("another learning rate is a repeat: %+v", r.Body.Repeats)
	}
}

// TestMetrics: a validation metric that the script logged decides where it is named, by the steps that the script gave.
func TestMetrics(t *testing.T) {
	metric := func(run *evidence.Run, values ...float64) {
		s := evidence.Series{Door: "Lightning", Name: "val_acc", Points: len(values)}
		for i, v := range values {
			own := int64(i)
			s.Step, s.Own, s.Value = append(s.Step, 16*(i+1)), append(s.Own, &own), append(s.Value, &v)
		}
		run.Logged = append(run.Logged, s)
	}
	r := compared(t, "plain", "float16", func(q *Asked) {
		q.Allow, q.Metrics = []string{"command"}, []string{"val_acc"}
		metric(q.A, 0.5, 0.75, 0.875)
		metric(q.B, 0.5, 0.75, 0.8745)
	})
	if r.Body.Answer != Within || len(r.Body.Series) != 2 || r.Body.Series[1].Name != Loss || r.Body.Series[1].Judged {
		t.Errorf("%s: %+v", r.Headline(), r.Body.Series)
	}
	r = compared(t, "plain", "float16", func(q *Asked) {
		q.Allow, q.Metrics = []string{"command"}, []string{"val_acc", Loss}
		metric(q.A, 0.5, 0.75, 0.875)
		metric(q.B, 0.5, 0.75)
	})
	if r.Body.Answer != Beyond || r.Body.Series[0].Answer != Within || r.Body.Series[0].OnlyA != 1 ||
		!strings.HasPrefix(r.Body.Why, "loss: ") {
		t.Errorf("%s: %+v", r.Headline(), r.Body.Series[0])
	}
}

// TestTrend: the word and the medians that it is from.
func TestTrend(t *testing.T) {
	for want, off := range map[string]func(i int) float64{
		"growing":   func(i int) float64 { return float64(i) },
		"shrinking": func(i int) float64 { return float64(40 - i) },
		"bounded":   func(i int) float64 { return float64(i % 3) },
		"none":      func(i int) float64 { return 0 },
	} {
		var a, b Series
		for i := range 40 {
			a.Step, a.Value = append(a.Step, int64(i)), append(a.Value, 1)
			b.Step, b.Value = append(b.Step, int64(i)), append(b.Value, 1+off(i)/1e3)
		}
		if d := Depart(a, b, Tolerance{}); d.Trend != want || len(d.Quarters) != 4 {
			t.Errorf("%s: %q by %v", want, d.Trend, d.Quarters)
		}
		a.Step, a.Value = a.Step[:11], a.Value[:11]
		if d := Depart(a, b, Tolerance{}); d.Trend != "" {
			t.Errorf("eleven steps are %q", d.Trend)
		}
	}
}

// TestIsolated: only a run with one of the changes alone shows what it does.
func TestIsolated(t *testing.T) {
	changes := map[string][]Change{
		"plain>float16": {{"target", "torch", "2.8.0", "2.15.0"}, {"environment", "OMP_NUM_THREADS", "", "1"}, {"host",
			"memory.free", "1", "2"}},
		"plain>third":   {{"target", "torch", "2.8.0", "2.15.0"}, {"host", "memory.free", "1", "3"}},
		"third>float16": {{"environment", "OMP_NUM_THREADS", "", "1"}},
	}
	named := map[*evidence.Run]string{}
	try := func(losses string) *Result {
		third := recorded(t, losses)
		third.Document, third.ID, third.Subject = "third", "third", recorded(t, "plain").Subject
		third.Provenance.Commit = "other" // so that it is no repeat
		return compared(t, "plain", "float16", func(q *Asked) {
			named[q.A], named[q.B], named[third] = "plain", "float16", "third"
			q.Allow, q.With = []string{"command"}, []*evidence.Run{third}
			q.Changed = func(from, to *evidence.Run) []Change { return changes[named[from]+">"+named[to]] }
		})
	}
	does := func(r *Result, name string) string {
		for _, row := range r.Body.Changes {
			if row.Name == name {
				return row.Does
			}
		}
		return "no row"
	}
	r := try("again") // the release alone changes nothing
	if does(r, "torch") != RuledOut || does(r, "OMP_NUM_THREADS") != Possible || does(r, "memory.free") != Open {
		t.Errorf("%+v", r.Body.Changes)
	}
	r = try("float16") // the release alone does all of it
	if does(r, "torch") != Explains || !strings.Contains(strings.Join(r.Body.Left, " "), "departs from B by 0 %") {
		t.Errorf("%+v %v", r.Body.Changes, r.Body.Left)
	}
	r = compared(t, "plain", "float16", func(q *Asked) {
		q.Allow, q.Changed = []string{"command"}, func(_, _ *evidence.Run) []Change { return changes["plain>float16"] }
	})
	if left := strings.Join(r.Body.Left, " "); !strings.Contains(left,
		"target torch, environment OMP_NUM_THREADS could explain it, and no run shows") {
		t.Error(left)
	}
	if !strings.Contains(strings.Join(r.Body.Next, " "), "run A's command again") {
		t.Error(r.Body.Next)
	}
}

// TestOnlyChange: where repeats of A stay with A, a change that stands alone is what B departs by.
func TestOnlyChange(t *testing.T) {
	alone := []Change{{"subject", "command", "train.py", "train.py --amp float16"}, {"host", "memory.free", "1", "2"}}
	for _, c := range []struct {
		also    []Change
		repeats bool
		want    string
	}{{nil, true, Explains}, {nil, false, Possible}, {[]Change{{"target", "torch", "1", "2"}}, true, Possible},
		{[]Change{{"package", "anything", "1", "2"}}, true, Possible}} {
		r := compared(t, "plain", "float16", func(q *Asked) {
			q.Allow = []string{"command"}
			q.Changed = func(_, _ *evidence.Run) []Change { return append(c.also, alone...) }
			if c.repeats {
				q.Past = []*evidence.Run{recorded(t, "again")}
			}
		})
		for _, row := range r.Body.Changes {
			if row.Name == "command" && row.Does != c.want {
				t.Errorf("%+v: %s, want %s", c, row.Does, c.want)
			}
		}
	}
}

// TestForms: each form has the digests of both, and nothing of a stranger's text is more than text.
func TestForms(t *testing.T) {
	bad := "x|y\x1b[31m\u202e`<script>alert(1)</script>\n# head"
	r := compared(t, "plain", "float16", func(q *Asked) {
		q.Allow = []string{"command"}
		q.A.ID, q.B.Subject.Command = bad, []string{"train.py", bad}
		q.A.Document, q.B.Document = strings.Repeat("a", 64), strings.Repeat("b", 64)
		q.Changed = func(from, to *evidence.Run) []Change { return []Change{{"environment", bad, bad, bad}} }
	})
	var text, markdown, js strings.Builder
	for _, err := range []error{r.Text(&text, 80), r.Markdown(&markdown), r.JSON(&js)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, form := range map[string]string{"text": text.String(), "markdown": markdown.String()} {
		if !strings.Contains(form, strings.Repeat("a", 64)) || !strings.Contains(form, strings.Repeat("b", 64)) {
			t.Errorf("%s: what was compared is not named", name)
		}
		if strings.ContainsAny(form, "\x1b\u202e") || strings.Contains(form, "\n# head") {
			t.Errorf("%s: a stranger's text is more than text:\n%s", name, form)
		}
	}
	md := markdown.String()
	if strings.Contains(md, "<script>") || strings.Contains(md, " x|y") || !strings.Contains(md, "| Signature | |") {
		t.Errorf("Markdown:\n%s", md)
	}
	for line := range strings.SplitSeq(md, "\n") { // each row of a table has as many cells as its head
		if strings.HasPrefix(line, "| environment") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 7 {
			t.Errorf("cells: %s", line)
		}
	}
	var doc struct{ Schema, Kind string }
	if err := json.Unmarshal([]byte(js.String()), &doc); err != nil || doc.Schema != evidence.Schema ||
		doc.Kind != Kind {
		t.Errorf("%v %+v", err, doc)
	}
}

// TestHugeValues: whatever the losses are, the document can be written.
func TestHugeValues(t *testing.T) {
	r := compared(t, "plain", "again", func(q *Asked) {
		for i := range q.A.Loss.Value {
			x, y := math.MaxFloat64, -math.MaxFloat64
			q.A.Loss.Value[i], q.B.Loss.Value[i] = &x, &y
		}
	})
	if err := errors.Join(r.JSON(&strings.Builder{}), r.Text(&strings.Builder{}, 80),
		r.Markdown(&strings.Builder{})); err != nil || r.Body.Answer != Beyond {
		t.Errorf("%v, %s", err, r.Headline())
	}
}

// Of PyTorch's variables for MPS some change numbers: only what is known not to is ruled out.
func TestVariablesOfMPS(t *testing.T) {
	for name, can := range map[string]string{"PYTORCH_MPS_FAST_MATH": Can, "PYTORCH_MPS_PREFER_METAL": Can,
		"PYTORCH_MPS_HIGH_WATERMARK_RATIO": Cannot, "PYTORCH_MPS_ANOTHER": NotSure,
		"PYTORCH_ENABLE_MPS_FALLBACK": Can} {
		if r := explain(nil, nil, Change{Part: "environment", Name: name, From: "", To: "1"}); r.Can != can {
			t.Errorf("%s: %s, want %s", name, r.Can, can)
		}
	}
}
