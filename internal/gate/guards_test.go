package gate

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"assay/internal/evidence"
)

// TestOn: the runs of a device are those of the same work that are alike among themselves; of the device that is
// judged, those like the first run.
func TestOn(t *testing.T) {
	changed := func(id, device string, change func(*evidence.Run)) *evidence.Run {
		run := made(id, device)
		change(run)
		return run
	}
	set := &Set{Runs: []*evidence.Run{made("a", "mps"), made("b", "mps"),
		// the same work, and another release
		changed("newer", "mps", func(r *evidence.Run) { r.Target.Release = "2.9.0" }),
		changed("other", "cpu", func(r *evidence.Run) { r.Provenance.Datasets[0].Batch = 64 }),
		made("c", "cpu"), changed("d", "cpu", func(r *evidence.Run) { r.Host.Facts[0].Value = "Apple M4" })}}
	for device, want := range map[string][]string{"": {"a", "b"}, "mps": {"a", "b"}, "cpu": {"c"}, "cuda": nil} {
		runs, why := set.On(device)
		var got []string
		for _, run := range runs {
			got = append(got, run.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("on %q: %q, want %q", device, got, want)
		}
		if device == "cpu" && why != "other is no match: batch 64 there, 32 here" {
			t.Errorf("why a run was left out: %q", why)
		}
	}
	if runs, why := (&Set{}).On("mps"); runs != nil || why == "" {
		t.Errorf("no runs: %v %q", runs, why)
	}
}

// TestTextOfOneAndOfSeveral: the outcome stands before each condition where there are several, and before none where
// there is one.
func TestTextOfOneAndOfSeveral(t *testing.T) {
	run := made("a", "mps", measured("loss.last", 2, "1"), measured("step.time", 0.1, "s"))
	for rule, want := range map[string]string{"loss.last <= 1": "\n             loss.last is 2",
		"loss.last <= 1 and step.time <= 50 ms": "\n             fail: loss.last is 2"} {
		policy, err := Load("p", []byte("[[gate]]\nname = \"g\"\nrule = \""+rule+"\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := (Text{Width: 200}).Write(&b, Judge(policy, &Set{Runs: []*evidence.Run{run}})); err != nil ||
			!strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s%v", rule, want, b.String(), err)
		}
	}
}

// TestHintAfterACondition: a word behind a whole condition is told how conditions go on; a sign is not.
func TestHintAfterACondition(t *testing.T) {
	for rule, hinted := range map[string]bool{"loss.last <= 1 over 3 runs then": true, "loss.last <= 1 )": false} {
		_, err := Parse(rule)
		var m *Mistake
		if !errors.As(err, &m) || strings.Contains(m.Hint, "joined by and, or") != hinted {
			t.Errorf("%s: %+v", rule, err)
		}
	}
	if got := Value(evidence.Unknown("x", "s", "why")); got != "not known" {
		t.Errorf("%q", got)
	}
	if leftOut(0) != "" || !strings.HasPrefix(leftOut(2), "2 runs left out") {
		t.Errorf("%q %q", leftOut(0), leftOut(2))
	}
	if names := signedFigures(); !slices.Contains(names, "memory.growth") || slices.Contains(names, "step.time") {
		t.Errorf("%q", names)
	}
}

// TestHow: a reader is told how a figure is known, in which window, of how many, and of which runs.
func TestHow(t *testing.T) {
	known := evidence.Known("step.time", 1, "s", evidence.Measured)
	known.Window, known.N, known.Note = "steady", 7, "why"
	bare := evidence.Known("step.time", 1, "s", evidence.Measured)
	for want, a := range map[string]Answer{
		"":                                   {Figure: evidence.Unknown("step.time", "s", "why"), Runs: []string{"a"}},
		"measured":                           {Figure: bare},
		"measured; steady window; n=7; why":  {Figure: known},
		"measured; steady window; why; of a": {Figure: known, Each: []float64{1, 2}, Runs: []string{"a"}},
		"measured; steady window; of a":      {Figure: known, Compared: &Compared{}, Runs: []string{"a"}},
		"measured; of a, b, c, d":            {Figure: bare, Runs: []string{"a", "b", "c", "d"}},
		"measured; of a, b, c, 2 more":       {Figure: bare, Runs: []string{"a", "b", "c", "d", "e"}},
	} {
		if got := a.How(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTruth: what is not known is neither true nor false: Kleene's tables, of any depth.
func TestTruth(t *testing.T) {
	run := made("c", "cpu", measured("step.time", 0.1, "s"))
	words := map[Outcome]string{Pass: "step.time <= 1 s", Fail: "step.time <= 1 ms",
		Unknown: "memory.pool.peak <= 1 GiB"}
	rank := map[Outcome]int{Fail: 0, Unknown: 1, Pass: 2} // and is the least, or the greatest
	for a := range words {
		for b := range words {
			for c := range words {
				for _, op := range []string{"and", "or"} {
					want := a
					for _, o := range []Outcome{b, c} {
						if (op == "and") == (rank[o] < rank[want]) && o != want {
							want = o
						}
					}
					rule := strings.Join([]string{words[a], words[b], words[c]}, " "+op+" ")
					if got, answers := ask(t, rule, &Set{Runs: []*evidence.Run{run}}); got != want ||
						len(answers) != 3 {
						t.Errorf("%s: %s, want %s", rule, got, want)
					}
				}
			}
		}
	}
}

// TestHolds: a figure at its limit passes where the limit is part of what is asked, and nowhere else.
func TestHolds(t *testing.T) {
	for compare, want := range map[string][3]bool{"<=": {true, true, false}, "<": {true, false, false},
		">=": {false, true, true}, ">": {false, false, true}, "==": {false, true, false}, "within": {true, true,
			false}} {
		c := Condition{Compare: compare, Bound: 2}
		if got := [3]bool{c.holds(1), c.holds(2), c.holds(3)}; got != want {
			t.Errorf("%s 2 of 1, 2 and 3: %v, want %v", compare, got, want)
		}
	}
	if c := (Condition{Compare: "within", Bound: 2}); c.holds(-3) || !c.holds(-2) {
		t.Error("within is of either side")
	}
}

// TestRunsThatDisagree: where most of many runs miss the limit, one that kept it changes nothing; where it is near, it
// cannot be told, and it is said how many more would.
func TestRunsThatDisagree(t *testing.T) {
	for want, values := range map[Outcome][]float64{
		Fail:    {0.110, 0.111, 0.109, 0.110, 0.110, 0.111, 0.112, 0.095},
		Pass:    {0.090, 0.091, 0.089, 0.090, 0.090, 0.091, 0.092, 0.105},
		Unknown: {0.0995, 0.1005, 0.0995, 0.1004, 0.0996, 0.1003},
	} {
		s := &Set{}
		for i, v := range values {
			s.Runs = append(s.Runs, made(string(rune('a'+i)), "cpu", measured("step.time", v, "s")))
		}
		got, answers := ask(t, "step.time <= 100 ms", s)
		if got != want || !strings.Contains(answers[0].Text, "the centre lies between") ||
			(answers[0].Needs != "") != (want == Unknown) {
			t.Errorf("%v: %s, want %s: %s", values, got, want, answers[0].Text)
		}
	}
}

func ended(o evidence.Outcome) *evidence.Run {
	run := made("a", "cpu")
	run.Outcome = o
	return run
}

// TestEndedFromOutside: a run that somebody ended is told from one that failed.
func TestEndedFromOutside(t *testing.T) {
	for want, o := range map[string]evidence.Outcome{
		"": {Exit: 1, Error: "ValueError: x"}, "by SIGINT": {Exit: 130, Signal: "SIGINT"},
		"by SIGTERM": {Signal: "SIGTERM"}, "by SIGHUP": {Signal: "SIGHUP"},
		"by KeyboardInterrupt":                {Exit: 1, Error: "KeyboardInterrupt: "},
		"nobody saw how it ended: it was cut": {Exit: -1}, "nobody saw how it ended: why": {Exit: -1, Reason: "why"},
	} {
		if got := interrupted(ended(o)); (got == "") != (want == "") ||
			!strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
	if got := interrupted(ended(evidence.Outcome{Signal: "SIGKILL", Exit: 137})); got != "" {
		t.Errorf("the system ends what takes its memory by SIGKILL: %q", got)
	}
	for _, n := range []int{0, 80, 81} {
		text := strings.Repeat("ü", n)
		if got := []rune(short(text)); len(got) != min(n, 80) || n <= 80 && string(got) != text ||
			n > 80 && got[79] != '…' {
			t.Errorf("%d letters: %q", n, string(got))
		}
	}
}

// TestCountedInARun: the highest level of memory pressure counts; one that nobody sampled is unknown, not none. So is a
// profile that is too small to say what is hot.
func TestCountedInARun(t *testing.T) {
	run := made("m", "mps")
	if got, _ := ask(t, "pressure.peak <= 4", &Set{Runs: []*evidence.Run{run}}); got != Unknown {
		t.Errorf("not sampled: %s", got)
	}
	for _, v := range []float64{1, 4, 2} {
		run.Host.Samples = append(run.Host.Samples, evidence.Sample{Figures: []evidence.Figure{
			measured("host.pressure", v, "1"), evidence.Unknown("host.pressure", "1", "x"), measured("host.cpu", 9,
				"1")}})
	}
	for rule, want := range map[string]Outcome{"pressure.peak <= 4": Pass, "pressure.peak < 4": Fail} {
		if got, _ := ask(t, rule, &Set{Runs: []*evidence.Run{run}}); got != want {
			t.Errorf("%s: %s, want %s", rule, got, want)
		}
	}
	for n, want := range map[int]Outcome{0: Unknown, 2: Unknown, 3: Pass} {
		run.Operators = nil
		for i := range n {
			one := 1.0
			run.Operators = append(run.Operators, evidence.Operator{Name: "aten::op" + string(rune('a'+i)), Self: 1,
				Device: &one})
		}
		if got, answers := ask(t, "hot.fallbacks == 0", &Set{Runs: []*evidence.Run{run}}); got != want {
			t.Errorf("%d operators: %s, want %s: %+v", n, got, want, answers)
		}
	}
}

// TestUnitOfALimit: a limit beside a baseline is a share, whatever the figure's unit.
func TestUnitOfALimit(t *testing.T) {
	for rule, want := range map[string]string{"step.time within 5 % of baseline": "ratio", "step.time <= 1 s": "s"} {
		policy, err := Load("p", []byte("[[gate]]\nname = \"g\"\nrule = \""+rule+"\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		rep := Judge(policy, &Set{Runs: []*evidence.Run{made("a", "cpu", measured("step.time", 0.1, "s"))}})
		if len(rep.Limits) != 1 || rep.Limits[0].Unit != want {
			t.Errorf("%s: %+v", rule, rep.Limits)
		}
	}
	list := []string{"step.time", "memory.growth"}
	for word, want := range map[string]string{"Step.Time": "step.time", "step_time": "step.time",
		"growth":        "memory.growth",
		"memory-growth": "memory.growth", "gro": "", "_growth": "memory.growth", "entirely-other": ""} {
		if got := near(word, list); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
