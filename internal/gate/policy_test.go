package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/fault"
)

func TestDefaultPolicy(t *testing.T) {
	p := Default()
	var names []string
	for _, g := range p.Gates {
		names = append(names, g.Name)
		if g.Because == "" || g.Source == "" {
			t.Errorf("gate %s gives no reason or no source", g.Name)
		}
	}
	if want := []string{"data-plane", "memory-growth", "drift", "known-wrong"}; !slices.Equal(names, want) {
		t.Errorf("gates %v, want %v", names, want)
	}
}

// TestDefaultThresholds: the policy that comes with assay asks what findings, symptoms and verdicts go by, in its rules
// and in its words.
func TestDefaultThresholds(t *testing.T) {
	want := map[string]struct {
		bound float64
		over  int
	}{"speedup": {evidence.Speedup, 0}, "gpu.busy.mean": {evidence.GPUBusy, 0},
		"memory.growth": {evidence.MemoryGrowth, evidence.GrowthEpochs},
		"parity.loss":   {evidence.LossDrift, 0}, "facts.wrong": {0, 0}, "facts.aborts": {0, 0}}
	seen := 0
	for _, g := range Default().Gates {
		for _, c := range g.rule.Conditions() {
			w, ok := want[c.Figure]
			if !ok || c.Bound != w.bound || c.Over != w.over {
				t.Errorf("gate %s: %s is %g over %d, want %+v", g.Name, c.Figure, c.Bound, c.Over, w)
			}
			if said := fmt.Sprintf("%g %%", 100*c.Bound); c.known.Unit == "ratio" && c.Figure != "parity.loss" &&
				!strings.Contains(g.Because, said) {
				t.Errorf("gate %s: its reason does not say %s: %s", g.Name, said, g.Because)
			}
			seen++
		}
	}
	if seen != len(want) {
		t.Errorf("%d conditions, want %d", seen, len(want))
	}
}

// TestMistakes: each is found before any run, at its place, with the name that was probably meant.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ rule, at, says string }{
		{"memory.grwth <= 26 %", "memory.grwth", "did you mean memory.growth?"},
		{"step_time <= 50 ms", "step_time", "did you mean step.time?"},
		{"gpu.utl >= 18 %", "gpu.utl", "did you mean gpu.util?"},
		{"wombat <= 1", "wombat", "no figure is called wombat"},
		{"memory.live.peak <= 5 s", "5 s", "memory.live.peak is a size, and s is not"},
		{"step.time <= 5 GiB", "5 GiB", "step.time is a time, and GiB is not"},
		{"step.time <= 26 %", "26 %", "step.time is a time"},
		{"step.time <= 5", "5", "needs a unit"},
		{"step.time <= 5 sm", "5 sm", "did you mean ms?"},
		{"share.data <= 5 Gib", "5 Gib", "no unit is called Gib"},
		{"memory.growth <= 26 over 10 epochs", "26", "26 of it would be 2600 %"},
		{"speedup(mps, cpu) >= 22", "22", "22 of it would be 2200 %"},
		{"gpu.util >= 180 %", "180 %", "never above 100 %"},
		{"step.time <= 1,000 ms", ",", "a comma in a number"},
		{"step.time => 5 ms", "=>", "did you mean >=?"},
		{"step.time witin 5 % of baseline", "witin", "did you mean within?"},
		{"step.time within 5 % of baselin", "baselin", "did you mean baseline?"},
		{"Step.Time <= 5 ms", "Step.Time", "did you mean step.time?"},
		{"fallbacks <= 5 %", "5 %", "fallbacks is a count"},
		{"step.time == 5 ms", "==", "no measurement equals"},
		{"step.time = 5 ms", "=", "a comparison is expected"},
		{"step.time", "", "a comparison is expected"},
		{"", "", "the name of a figure is expected"},
		{"step.time <=", "", "a number is expected"},
		{"step.time <= fast", "fast", "a number is expected"},
		{"step.time <= 1.2.3 s", "1.2.3", "is no number"},
		{"step.time <= 1e308 h", "1e308 h", "is no number"},
		{"step.time <= 1e999 s", "1e999", "is no number"},
		{"step.time within 5 ms of baseline", "5 ms", "a part of it"},
		{"step.time within 500 % of baseline", "500 %", "between 0 and 100 %"},
		{"step.time <= 5 % of baseline", "of", "only within goes with a baseline"},
		{"step.time within 5 % of base", "base", "baseline is expected"},
		{"fallbacks within 5 % of baseline", "5 %", "is a count"},
		{"speedup(mps, cpu) within 5 % of baseline", "5 %", "has no baseline"},
		{"step.time over 10 steps <= 5 ms", "over", "a comparison is expected"},
		{"step.time <= 5 ms over 10 epochs", "epochs", "over steps or runs"},
		{"memory.growth <= 26 % over 10 hours", "hours", "over epochs or runs"},
		{"memory.growth <= 26 % over 2 epochs", "epochs", "a line needs three"},
		{"memory.growth <= 26 % over 0 epochs", "0", "a whole number"},
		{"memory.growth <= 26 % over 1.5 epochs", "1.5", "a whole number"},
		{"speedup >= 22 %", "speedup", "needs brackets: speedup(mps, cpu)"},
		{"speedup(mps) >= 22 %", ")", "takes 2 in its brackets"},
		{"speedup(mps, mps) >= 22 %", "mps", "twice"},
		{"speedup(mps, gpu) >= 22 %", "gpu", "none of cpu, mps"},
		{"refusals(memroy) == 0", "memroy", "did you mean memory?"},
		{"findings(bad) == 0", "bad", "none of error, warning, note"},
		{"step.time(mps, cpu) <= 5 ms", "cpu", "takes 1 in its brackets"},
		{"(step.time <= 5 ms", "(", "is not closed"},
		{"step.time <= 5 ms)", ")", "is not expected here"},
		{"step.time <= 5 ms step.time <= 6 ms", "step.time", "is not expected here"},
		{"step.time <= 5 ms && fallbacks == 0", "&", "is not expected here"},
		{"parity.loss within -1e-3", "-1e-3", "negative range"},
		{"step.time <= -5 ms", "-5 ms", "never negative"},
		{"step.time <= −5 ms", "−5 ms", "never negative"},
		{"step.time >= -5 ms", "-5 ms", "never negative"},
		{"fallbacks >= -1", "-1", "never negative"},
		{"share.data <= -10 %", "-10 %", "never negative"},
		{"swap.used.peak < 0 B", "0 B", "never holds"},
		{"step.time <= 0 ms", "0 ms", "always more than zero"},
		{"step.rate within 0 /s", "0 /s", "always more than zero"},
		{"memory.resident.peak <= -0 GiB", "-0 GiB", "always more than zero"},
		{"share.data > 100 %", "100 %", "never holds"},
		{"failures == 0.5", "0.5", "whole number"},
		{"loss.last == 2.5", "==", "no measurement equals"},
		{"step.time <= 1e400 ms", "1e400", "is no number"},
		{"step.time <= 1e-400 ms", "1e-400", "is no number"},
		{"step.time <= 1e-320 ns", "1e-320 ns", "is no number"},
		{"step.time <= nan", "nan", "a number is expected"},
		{"step.time <= inf ms", "inf", "a number is expected"},
		{"step.time <= -inf ms", "inf", "a number is expected"},
		{"step.time <= 5 %", "5 %", "a time"},
		{"runs(mps) >= 5 %", "5 %", "a count"},
		{"step.time <= 5 ms or", "", "the name of a figure is expected"},
		{"loss.last <= 3 \x1b[31m", "\x1b", "not expected"},
		{strings.Repeat("(", 40) + "fallbacks == 0" + strings.Repeat(")", 40), "(", "within one another"},
		{"fallbacks == 0" + strings.Repeat(" or fallbacks == 0", 100), "fallbacks", "more than 100 conditions"},
		{strings.Repeat(" ", 3000), "", "longer than"},
	} {
		_, err := Parse(c.rule)
		var m *Mistake
		if !errors.As(err, &m) {
			t.Errorf("%q: %v, want a mistake", c.rule, err)
			continue
		}
		if !strings.Contains(m.Text, c.says) {
			t.Errorf("%q: %q, want %q", c.rule, m.Text, c.says)
		}
		if at := min(m.At+m.Len, len(c.rule)); len(c.rule) < 100 && c.rule[m.At:at] != c.at {
			t.Errorf("%q: points at %q, want %q", c.rule, c.rule[m.At:at], c.at)
		}
		if shown := m.Show(); strings.ContainsRune(shown, 0x1b) || strings.Count(shown, "\n") != 1 {
			t.Errorf("%q is shown as %q", c.rule, shown)
		}
	}
}

// TestCaret: the caret stands below the place, also behind letters of several bytes and in a long rule.
func TestCaret(t *testing.T) {
	for _, c := range []struct{ rule, want string }{
		{"step.time ≤ 5 µs and memory.grwth ≤ 26 %",
			"step.time ≤ 5 µs and memory.grwth ≤ 26 %\n                     ^^^^^^^^^^^^"},
		{strings.Repeat("fallbacks == 0 or ", 8) + "step.tim <= 1 s",
			"…  0 or fallbacks == 0 or fallbacks == 0 or fallbacks == 0 or step.tim <= 1 s\n" +
				strings.Repeat(" ", 62) + "^^^^^^^^"},
	} {
		_, err := Parse(c.rule)
		var m *Mistake
		if !errors.As(err, &m) || m.Show() != c.want {
			t.Errorf("got\n%s\nwant\n%s", m.Show(), c.want)
		}
	}
}

func TestReadsAs(t *testing.T) {
	for _, c := range []struct {
		rule  string
		bound float64
		shape string
	}{
		{"memory.growth <= 26 % over 10 epochs", 0.26, "memory.growth"},
		{"memory.growth <= 0.26", 0.26, "memory.growth"},
		{"step.time<50ms", 0.05, "step.time"},
		{"step.time ≤ 2 min", 120, "step.time"},
		{"memory.pool.peak <= 8 GiB", 8 << 30, "memory.pool.peak"},
		{"memory.pool.peak <= 8 GB", 8e9, "memory.pool.peak"},
		{"parity.loss within 1e-3", 1e-3, "parity.loss"},
		{"speedup(mps, cpu) >= −5 %", -0.05, "speedup"},
		{"gpu.util >= 18%", 0.18, "gpu.busy.mean"},
		{"fallbacks == 0 or fallbacks == 1 and loss.last < 2", 0, "(fallbacks or (fallbacks and loss.last))"},
		{"(fallbacks == 0 or fallbacks == 1) and loss.last < 2", 0, "((fallbacks or fallbacks) and loss.last)"},
	} {
		e, err := Parse(c.rule)
		if err != nil {
			t.Errorf("%q: %v", c.rule, err)
			continue
		}
		if got := shape(e); got != c.shape {
			t.Errorf("%q reads as %s, want %s", c.rule, got, c.shape)
		}
		if got := e.Conditions()[0].Bound; got != c.bound {
			t.Errorf("%q: bound %v, want %v", c.rule, got, c.bound)
		}
	}
}

func shape(e *Expr) string {
	if e.Cond != nil {
		return e.Cond.Figure
	}
	var parts []string
	for _, t := range e.Terms {
		parts = append(parts, shape(t))
	}
	return "(" + strings.Join(parts, " "+e.Op+" ") + ")"
}

// TestEachFigureIsWorkedOut: what the catalogue says that gates work out, they do, and nothing else; and what evidence
// has can be named.
func TestEachFigureIsWorkedOut(t *testing.T) {
	for _, name := range catalogue.Names(catalogue.Gate, nil) {
		if f := lookup(name); f == nil || f.of == nil && f.all == nil {
			t.Errorf("the catalogue has %s, which nothing here works out: add it to own, or take it out there", name)
		}
	}
	for name, f := range own {
		if row, ok := catalogue.Find(name); !ok || row.From != catalogue.Gate {
			t.Errorf("%s is worked out here, and the catalogue does not have it as a gate's", name)
		}
		if (f.of == nil) == (f.all == nil) {
			t.Errorf("%s is worked out in no way, or in two", name)
		}
	}
	for _, from := range []catalogue.From{catalogue.Run, catalogue.Rehearsal} {
		for _, name := range catalogue.Names(from, catalogue.Phases) {
			if f := lookup(name); f == nil || f.of != nil || f.all != nil {
				t.Errorf("%s is a figure of the evidence, and gates do not read it there", name)
			}
		}
	}
	for name := range windows {
		if f := lookup(name); f == nil || f.windows == nil {
			t.Errorf("%s has windows, and cannot be named", name)
		}
	}
	for alias, name := range aliases {
		if lookup(alias) == nil || lookup(alias).Name != name {
			t.Errorf("%s does not stand for %s", alias, name)
		}
	}
	for _, name := range catalogue.Names(catalogue.Sample, nil) {
		if f := lookup(name); f != nil && aliases[name] == "" {
			t.Errorf("%s is a counter over time, and a gate can name it", name)
		}
	}
}

// TestNothingKnownIsNoPass: a run of which nothing is known passes no gate about a figure of the evidence, nor one
// about two runs or about what it was not looked at for. What was counted in it may be none.
func TestNothingKnownIsNoPass(t *testing.T) {
	unit := map[string]string{"s": "s", "B": "GiB", "ratio": "%", "1/s": "/s", "W": "W", "1": ""}
	unseen := []string{"speedup", "parity.loss", "refusals", "hot.fallbacks", "pressure.peak"}
	run := made("m", "mps")
	for _, f := range figures {
		name := f.Name
		if _, worked := own[name]; worked && !slices.Contains(unseen, name) {
			continue
		}
		if f.need {
			name = f.example()
		}
		for _, rule := range []string{name + " >= 0 " + unit[f.Unit], name + " <= 1 " + unit[f.Unit]} {
			if out, _ := ask(t, rule, &Set{Runs: []*evidence.Run{run}}); out != Unknown {
				t.Errorf("%s: %s, and nothing is known", rule, out)
			}
		}
	}
}

// TestPhases: the phases of PyTorch can be named, those of another framework as well, and a phase that is misspelt is
// not taken for one.
func TestPhases(t *testing.T) {
	for _, phase := range append([]string{"evaluate", "compile"}, catalogue.Phases...) {
		for _, rule := range []string{"split." + phase + " <= 1 s", "share." + phase + " <= 50 %"} {
			if _, err := Parse(rule); err != nil {
				t.Errorf("%s: %v", rule, err)
			}
		}
	}
	for _, name := range []string{"split.dta", "split.fwd", "share.optimiser", "split.", "share.a.b", "splits.data"} {
		if _, err := Parse(name + " <= 1"); err == nil || !strings.Contains(err.Error(), "no figure is called") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPolicyFiles(t *testing.T) {
	for _, c := range []struct{ name, file, says string }{
		{"places", "# ours\n[[gate]]\nname = \"a\"\nrule = \"fallbacks == 0\"\n\n[[gate]]\nname = \"b\"\nrule = \"memory.grwth <= 1 %\"\n\n[[gate]]\nname = \"c\"\nwhen = \"runs(gpu) == 1\"\nrule = \"fallbacks == 0\"\n", "gate b, line 8: rule: no figure is called memory.grwth"},
		{"all of them", "[[gate]]\nname = \"b\"\nrule = \"memory.grwth <= 1 %\"\n[[gate]]\nname = \"c\"\nwhen = \"runs(gpu) == 1\"\nrule = \"fallbacks == 0\"\n", "gate c, line 6: when: gpu is none of"},
		{"key", "[[gate]]\nname = \"a\"\nruel = \"fallbacks == 0\"\n", "did you mean rule?"},
		{"toml", "[[gate]\nname = 3\n", "policy"},
		{"empty", "", "no gate in it"},
		{"twice", "[[gate]]\nname = \"a\"\nrule = \"fallbacks == 0\"\n[[gate]]\nname = \"a\"\nrule = \"fallbacks == 0\"\n", "gate a, line 5: there are two of that name; the first is on line 2"},
		{"nameless", "[[gate]]\nrule = \"fallbacks == 0\"\n", "gate number 1, line 1: a name"},
		{"no rule", "[[gate]]\nname = \"a\"\n", "gate a, line 1: it has no rule"},
		{"type", "[[gate]]\nname = \"a\"\nrule = 5\n", "line 3: rule is no text"},
		{"no table", "# ours\ngate = \"fallbacks == 0\"\n", "line 2: gate is no table"},
		{"several lines", "[[gate]]\nname = \"a\"\nrule = \"\"\"\nfallbacks == 0\nor memory.grwth <= 1 %\"\"\"\n",
			"gate a, line 5: rule: no figure is called memory.grwth"},
		{"escapes", "[[gate]]\nname = \"a\"\nrule = \"memory.grwth <= 1 \\u0025\"\n",
			"gate a, line 3: rule: no figure is called memory.grwth"},
		{"byte order mark", "\ufeff[[gate]]\nname = \"a\"\nrule = \"memory.grwth <= 1 %\"\n",
			"gate a, line 3: rule: no figure"},
		{"large", strings.Repeat("#", maxPolicy+1), "larger than"},
		{"many", strings.Repeat("[[gate]]\nname = \"a\"\nrule = \"x\"\n", 501), "501 gates"},
		{"many mistakes", manyMistakes(), "and 380 more"},
		{"binary", "\x00\xff\xfe", "policy"},
	} {
		_, err := Load("p.toml", []byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
			continue
		}
		if fault.CodeOf(err) != fault.Usage {
			t.Errorf("%s: status %d", c.name, fault.CodeOf(err))
		}
		if strings.ContainsAny(err.Error(), "\x1b\x00") {
			t.Errorf("%s: control characters come through: %q", c.name, err)
		}
	}
}

func manyMistakes() string {
	var b strings.Builder
	for range 200 {
		b.WriteString("[[gate]]\nname = \"\\u001b[31m\"\nrule = \"x\"\n")
	}
	return b.String()
}

// FuzzParse: whatever a rule says, it is read or refused with a place inside it, and what was read can be evaluated.
func FuzzParse(f *testing.F) {
	for _, g := range Default().Gates {
		f.Add(g.Rule)
	}
	f.Add("(step.time <= 5 ms or fallbacks == 0) and memory.live.peak < 8 GiB over 3 runs")
	f.Add("step.time within 5 % of baseline")
	f.Add("((((≤−1e-9µs")
	f.Fuzz(func(t *testing.T, rule string) {
		e, err := Parse(rule)
		if err != nil {
			var m *Mistake
			if !errors.As(err, &m) || m.At < 0 || m.At > len(rule) || m.Text == "" ||
				strings.Count(m.Show(), "\n") != 1 {
				t.Fatalf("%q: %#v", rule, err)
			}
			return
		}
		out, answers := (&Set{}).Answer(e)
		if out != Unknown || len(answers) != len(e.Conditions()) {
			t.Fatalf("%q without runs: %s, %d answers", rule, out, len(answers))
		}
		for _, c := range e.Conditions() { // each condition reads the same by itself
			again, err := Parse(c.Text)
			if err != nil || again.Cond == nil || again.Cond.Figure != c.Figure || again.Cond.Bound != c.Bound ||
				again.Cond.Over != c.Over {
				t.Fatalf("%q: its condition %q reads as %+v, %v", rule, c.Text, again, err)
			}
		}
	})
}

func FuzzLoad(f *testing.F) {
	f.Add(DefaultText)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Load("p.toml", data)
		if (p == nil) == (err == nil) {
			t.Fatalf("%v, %v", p, err)
		}
	})
}

// TestBoundsOfEachFigure: a negative bound is taken for the figures that may be negative, and for no other; 0 and what
// is above it as before.
func TestBoundsOfEachFigure(t *testing.T) {
	// a change, a gain, and losses such as a log likelihood's
	mayBeNegative := []string{"memory.growth", "loss.first", "loss.last", "speedup"}
	unit := map[string]string{"s": "ms", "B": "MiB", "ratio": "%", "1/s": "/s", "W": "W", "1": ""}
	for _, f := range figures {
		name := f.Name
		if f.need {
			name = f.example()
		}
		_, err := Parse(name + " >= -5 " + unit[f.Unit])
		if want := slices.Contains(mayBeNegative, f.Name); (err == nil) != want {
			t.Errorf("%s >= -5 %s: %v", name, unit[f.Unit], err)
		}
		for _, rule := range []string{name + " >= 0 " + unit[f.Unit], name + " <= 5 " + unit[f.Unit]} {
			if _, err := Parse(rule); err != nil {
				t.Errorf("%s: %v", rule, err)
			}
		}
	}
}
