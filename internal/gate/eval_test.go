package gate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
)

// made is a run with a few figures, for what no machine here can record.
func made(id, device string, figs ...evidence.Figure) *evidence.Run {
	run := evidence.NewRun(id)
	run.Started, run.Figures = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), figs
	run.Subject = evidence.Subject{Kind: "script", Command: []string{"/usr/bin/python3", "code/train.py", "--epochs",
		"3"}, Script: "code/train.py"}
	run.Target = evidence.Target{Asked: "auto", Device: device, Framework: "torch", Release: "2.8.0"}
	run.Host.Facts = []evidence.Fact{{Name: "chip", Value: "Apple M2"}, {Name: "system", Value: "macOS 15.5"}}
	run.Outcome = evidence.Outcome{Started: true, Complete: true}
	run.Provenance.Datasets = []evidence.Dataset{{Type: "d", Length: 100, Batch: 32}}
	if device == "double" {
		run.Target.Device, run.Rehearsal = "mps", &evidence.Rehearsal{}
		run.Target.Double = &evidence.Double{Release: "2.8.0", MacOS: "15", Chip: "Apple M2", Memory: 16 << 30}
	}
	return run
}

func measured(name string, v float64, unit string) evidence.Figure {
	return evidence.Known(name, v, unit, evidence.Measured)
}

func ask(t *testing.T, rule string, s *Set) (Outcome, []Answer) {
	t.Helper()
	e, err := Parse(rule)
	if err != nil {
		t.Fatalf("%q: %v", rule, err)
	}
	return s.Answer(e)
}

func TestOutcomes(t *testing.T) {
	cpu := made("c", "cpu", measured("step.time", 0.100, "s"), measured("loss.last", 2, "1"),
		evidence.Unknown("memory.live.peak", "B", "the device is the CPU"))
	mps := made("m", "mps", measured("step.time", 0.070, "s"), measured("gpu.busy.mean", 0.10, "ratio"))
	slow := made("s", "mps", measured("step.time", 0.090, "s"), measured("gpu.busy.mean", 0.10, "ratio"))
	double := made("d", "double", measured("step.time", 0.001, "s"), evidence.Known("memory.watermark", 0.4, "ratio",
		evidence.Rehearsed))
	wrong := made("w", "double", evidence.Known("facts.wrong", 1, "1", evidence.Rehearsed),
		evidence.Known("facts.aborts", 0, "1", evidence.Rehearsed))
	broken := made("b", "double")
	broken.Outcome.Exit, broken.Outcome.Error = 1, "KeyError: 'x'"
	other := made("o", "cpu", measured("step.time", 9, "s"))
	other.Provenance.Datasets[0].Batch = 64
	for _, c := range []struct {
		rule string
		runs []*evidence.Run
		want Outcome
		says string
	}{
		{"step.time <= 100 ms", []*evidence.Run{cpu}, Pass, "step.time is 100 ms, as asked (<= 100 ms)"},
		{"step.time < 100 ms", []*evidence.Run{cpu}, Fail, "not < 100 ms"},
		{"loss.last within 2", []*evidence.Run{cpu}, Pass, ""},
		{"memory.live.peak <= 8 GiB", []*evidence.Run{cpu}, Unknown, "the device is the CPU"},
		{"memory.pool.peak <= 8 GiB", []*evidence.Run{cpu}, Unknown, "not looked at in this run"},
		{"speedup(mps, cpu) >= 22 %", []*evidence.Run{mps, cpu}, Pass, "speedup(mps, cpu) is 30.0 %"},
		{"speedup(mps, cpu) >= 22 % or gpu.util >= 18 %", []*evidence.Run{slow, cpu}, Fail, "not >= 22.0 %"},
		{"speedup(mps, cpu) >= 22 %", []*evidence.Run{mps}, Unknown, "no run on cpu was given"},
		{"speedup(mps, cpu) >= 22 %", []*evidence.Run{mps, other}, Unknown, "batch 64 there, 32 here"},
		{"step.time(cpu) <= 100 ms", []*evidence.Run{mps, cpu}, Pass, ""},
		// A rehearsal's clock proves nothing, its memory account does.
		{"step.time <= 1 h", []*evidence.Run{double}, Unknown, "say nothing about the Mac"},
		{"speedup(double, cpu) >= 1 %", []*evidence.Run{double, cpu}, Unknown, "say nothing about the Mac"},
		{"memory.watermark <= 80 %", []*evidence.Run{double}, Pass, ""},
		{"refusals(missing) == 0", []*evidence.Run{double}, Pass, ""},
		{"refusals(missing) == 0", []*evidence.Run{cpu}, Unknown, "no rehearsal was given"},
		// Facts are the rehearsal's: one made before they were kept tells nothing of them.
		{"facts.wrong(double) == 0", []*evidence.Run{wrong}, Fail, "facts.wrong(double) is 1, not == 0"},
		{"facts.aborts == 0", []*evidence.Run{wrong}, Pass, ""},
		{"facts.wrong(double) == 0", []*evidence.Run{double}, Unknown, "not looked at in this run"},
		{"facts.wrong(double) == 0", []*evidence.Run{cpu}, Unknown, "no rehearsal was given"},
		{"fallbacks == 0", []*evidence.Run{cpu}, Unknown, "only MPS falls back"},
		{"runs(mps) >= 1 and runs(cpu) >= 1", []*evidence.Run{cpu, mps}, Pass, ""},
		{"refusals(missing) == 0", []*evidence.Run{broken}, Unknown, "the run ended early: KeyError"},
		// What is not known is neither true nor false.
		{"memory.pool.peak <= 8 GiB or step.time <= 1 s", []*evidence.Run{cpu}, Pass, ""},
		{"memory.pool.peak <= 8 GiB or step.time <= 1 ms", []*evidence.Run{cpu}, Unknown, ""},
		{"memory.pool.peak <= 8 GiB and step.time <= 1 s", []*evidence.Run{cpu}, Unknown, ""},
		{"memory.pool.peak <= 8 GiB and step.time <= 1 ms", []*evidence.Run{cpu}, Fail, ""},
		{"step.time <= 1 ms and memory.pool.peak <= 8 GiB", []*evidence.Run{cpu}, Fail, ""},
		{"step.time <= 1 s", nil, Unknown, "no run was given"},
		{"step.time within 5 % of baseline", []*evidence.Run{cpu}, Unknown, "no earlier runs were given"},
		// Figures that lie close to their bound are told apart.
		{"step.time <= 99.99 ms", []*evidence.Run{cpu}, Fail, "step.time is 0.1 s, not <="},
	} {
		got, answers := ask(t, c.rule, &Set{Runs: c.runs})
		all := ""
		for _, a := range answers {
			all += a.Text + "\n"
		}
		if got != c.want || !strings.Contains(all, c.says) {
			t.Errorf("%s: %s, want %s; says %q, want %q", c.rule, got, c.want, all, c.says)
		}
	}
}

func TestCommandThatWouldTell(t *testing.T) {
	cpu := made("c", "cpu", measured("step.time", 0.1, "s"))
	cpu.Subject.Command = append(cpu.Subject.Command, "--name", "a b; rm -rf 'x'")
	_, answers := ask(t, "speedup(mps, cpu) >= 22 %", &Set{Runs: []*evidence.Run{cpu}})
	if want := `assay run --on cpu -- python code/train.py --epochs 3 --name 'a b; rm -rf '\''x'\'''`; RunOn(cpu,
		"cpu") != want || answers[0].Needs != strings.Replace(want, "cpu", "mps", 1) {
		t.Errorf("needs %q, want %q", answers[0].Needs, want)
	}
}

// TestCommandNamesTheDevice: the script's own option follows.
func TestCommandNamesTheDevice(t *testing.T) {
	run := made("c", "cuda")
	run.Subject.Command = []string{"python3", "train.py", "--device", "cuda", "--epochs", "3"}
	run.Subject.Script = "train.py"
	for device, want := range map[string]string{
		"mps":    "assay run --on mps -- python train.py --device mps --epochs 3",
		"double": "assay run --on double -- python train.py --device mps --epochs 3",
		"cpu":    "assay run --on cpu -- python train.py --device cpu --epochs 3",
	} {
		if got := RunOn(run, device); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	run.Subject = evidence.Subject{Kind: "module", Script: "pytest",
		Command: []string{"/opt/bin/python3", "-m", "pytest", "-q", "suite"}}
	if got, want := RunOn(run, "cpu"), "assay run --on cpu -- python -m pytest -q suite"; got != want {
		t.Errorf("a module: %s, want %s", got, want)
	}
}

// TestSeveralRuns: where runs disagree, their centre decides, or nothing does.
func TestSeveralRuns(t *testing.T) {
	set := func(seconds ...float64) *Set {
		s := &Set{}
		for i, v := range seconds {
			s.Runs = append(s.Runs, made(string(rune('a'+i)), "cpu", measured("step.time", v, "s")))
		}
		return s
	}
	for _, c := range []struct {
		set  *Set
		want Outcome
	}{
		{set(0.099, 0.098, 0.0999), Pass},
		{set(0.101, 0.2, 0.3), Fail},
		{set(0.090, 0.091, 0.089, 0.090, 0.090, 0.091, 0.092, 0.105), Pass}, // one was disturbed
		{set(0.090, 0.110), Unknown},
		{set(0.095, 0.104, 0.097, 0.102), Unknown},
	} {
		got, answers := ask(t, "step.time <= 100 ms", c.set)
		if got != c.want || got == Unknown && answers[0].Needs == "" {
			t.Errorf("%v: %s, want %s (%s; %s)", answers[0].Each, got, c.want, answers[0].Text, answers[0].Needs)
		}
	}
	if got, answers := ask(t, "step.time <= 100 ms over 3 runs", set(0.09, 0.2, 0.08, 0.3)); got != Pass ||
		*answers[0].Figure.Value != 0.09 {
		t.Errorf("the median of the first three: %s %+v", got, answers[0].Figure)
	}
	if got, answers := ask(t, "step.time <= 100 ms over 3 runs", set(0.09, 0.2)); got != Unknown ||
		!strings.Contains(answers[0].Needs, "1 run more") {
		t.Errorf("%s %+v", got, answers[0])
	}
}

// TestGrowth: 26 % over ten epochs, at the pace of the line through the epochs' ends.
func TestGrowth(t *testing.T) {
	run := func(live func(epoch int) float64, epochs int) *evidence.Run {
		r := made("g", "mps")
		for e := 1; e <= epochs; e++ {
			v := live(e)
			r.Epochs = append(r.Epochs, evidence.Epoch{Number: e, Complete: true, Live: &v})
		}
		return r
	}
	leak := func(perEpoch float64) func(int) float64 {
		return func(e int) float64 { return 1e9 * (1 + perEpoch*float64(e-2)) }
	}
	for _, c := range []struct {
		name string
		run  *evidence.Run
		want Outcome
		v    float64 // of the growth, where it is known
	}{
		{"steady", run(leak(0), 10), Pass, 0},
		{"2 % an epoch", run(leak(0.02), 10), Pass, 0.2},
		{"3 % an epoch", run(leak(0.03), 10), Fail, 0.3},
		{"first epoch left out", run(func(e int) float64 { return map[bool]float64{true: 1, false: 1e9}[e == 1] }, 10),
			Pass, 0},
		{"a leak that begins late", run(func(e int) float64 { return 1e9 * (1 + 0.05*math.Max(0, float64(e-20))) }, 40),
			Fail, 0.5},
		{"too few", run(leak(0.01), 9), Unknown, 0},
		{"one", run(leak(0.5), 1), Unknown, 0},
		{"none", made("n", "mps"), Unknown, 0},
	} {
		got, answers := ask(t, "memory.growth <= 26 % over 10 epochs", &Set{Runs: []*evidence.Run{c.run}})
		a := answers[0]
		if got != c.want || got != Unknown && math.Abs(*a.Figure.Value-c.v) > 1e-9 {
			t.Errorf("%s: %s %+v, want %s %v", c.name, got, a.Figure, c.want, c.v)
		}
		if got == Unknown && !strings.Contains(a.Needs, "10 epochs") {
			t.Errorf("%s: cannot tell, and needs %q", c.name, a.Needs)
		}
	}
}

func TestParity(t *testing.T) {
	stream := func(id, device string, values ...float64) *evidence.Run {
		r := made(id, device)
		for i, v := range values {
			r.Loss.Step = append(r.Loss.Step, i+1)
			if math.IsNaN(v) {
				r.Loss.Value = append(r.Loss.Value, nil)
			} else {
				r.Loss.Value = append(r.Loss.Value, &v)
			}
		}
		return r
	}
	for _, c := range []struct {
		a, b *evidence.Run
		want Outcome
	}{
		{stream("a", "mps", 2, 1, 0.5), stream("b", "cuda", 2, 1, 0.5), Pass},
		{stream("a", "mps", 2, 1, 0.5004), stream("b", "cuda", 2, 1, 0.5), Pass},
		{stream("a", "mps", 2, 1, 0.506), stream("b", "cuda", 2, 1, 0.5), Fail},
		{stream("a", "mps", 2, math.NaN()), stream("b", "cuda", 2, 1), Fail},
		{stream("a", "mps"), stream("b", "cuda", 2, 1), Unknown},
		// What assay compare refuses, a gate cannot tell; other arguments alone it goes by.
		{stream("a", "mps", 2, math.NaN()), stream("b", "cuda", 2, math.NaN()), Unknown},
		{with(stream("a", "mps", 2, 1), func(r *evidence.Run) { r.Outcome.Exit = 1 }), stream("b", "cuda", 2, 1),
			Unknown},
		{with(stream("a", "mps", 2, 1), seeded("1")), with(stream("b", "cuda", 2, 1), seeded("2")), Unknown},
		{with(stream("a", "mps", 2, 1), seeded("1")), with(stream("b", "cuda", 2, 1), seeded("1")), Pass},
		{with(stream("a", "mps", 2, 1), func(r *evidence.Run) {
			r.Subject.Command = append(r.Subject.Command, "--out",
				"x")
		}),
			stream("b", "cuda", 2, 1), Pass},
	} {
		for _, rule := range []string{"parity.loss within 1e-3", "parity.loss(mps, cuda) within 1e-3"} {
			if got, answers := ask(t, rule, &Set{Runs: []*evidence.Run{c.a, c.b}}); got != c.want {
				t.Errorf("%s: %s, want %s (%s)", rule, got, c.want, answers[0].Text)
			}
		}
	}
}

func with(r *evidence.Run, change func(*evidence.Run)) *evidence.Run { change(r); return r }

func seeded(value string) func(*evidence.Run) {
	return func(r *evidence.Run) {
		r.Provenance.Randomness = []evidence.Setting{{Name: "torch.manual_seed", Value: value, State: evidence.Set}}
	}
}

func TestHottest(t *testing.T) {
	dev := func(v float64) *float64 { return &v }
	r := made("h", "mps")
	r.Operators = []evidence.Operator{{Name: "aten::a", Self: 5}, {Name: "aten::b", Self: 1},
		{Name: "aten::c.out", Self: 9}, {Name: "aten::d", Self: 2}}
	r.Fallbacks = []evidence.Fallback{{Operator: "aten::c"}, {Operator: "aten::b"}}
	if got, answers := ask(t, "hot.fallbacks == 1", &Set{Runs: []*evidence.Run{r}}); got != Pass {
		t.Errorf("%s %+v: aten::c is among the three hottest and fell back, aten::b fell back and is not", got,
			answers[0])
	}
	for i, v := range []float64{0.1, 7, 0.2, 8} { // where the device's own time is known, that counts
		r.Operators[i].Device = dev(v)
	}
	if got := Hottest(r); strings.Join(got, " ") != "aten::d aten::b aten::c.out" {
		t.Errorf("hottest by device time: %v", got)
	}
}

// TestBaselineIsBound: runs of another chip, system, release, batch or command are no baseline, nor are failed ones or
// the run itself.
func TestBaselineIsBound(t *testing.T) {
	run := made("new", "mps", measured("step.time", 0.1, "s"))
	facts := func(r *evidence.Run, chip, system string) *evidence.Run {
		r.Host.Facts = []evidence.Fact{{Name: "chip", Value: chip}, {Name: "system", Value: system}}
		return r
	}
	facts(run, "Apple M3 Ultra", "macOS 15.5")
	run.Document = "d0"
	var history past
	for i, change := range []func(*evidence.Run){
		func(r *evidence.Run) { facts(r, "Apple M2", "macOS 15.5") },
		func(r *evidence.Run) { facts(r, "Apple M3 Ultra", "macOS 15.4") },
		func(r *evidence.Run) { r.Target.Release = "2.7.0" },
		func(r *evidence.Run) { r.Provenance.Datasets[0].Batch = 16 },
		func(r *evidence.Run) { r.Subject.Command = []string{"python", "train.py", "--epochs", "4"} },
		func(r *evidence.Run) { r.Outcome.Exit = 1 },
		func(r *evidence.Run) { r.Started = run.Started.Add(time.Hour) },
		func(r *evidence.Run) { r.ID, r.Document = "another name", "d0" },
		func(r *evidence.Run) {},
		func(r *evidence.Run) { // the same script by another path and interpreter
			r.Subject.Command, r.Subject.Script = []string{"/opt/python", "/home/x/train.py", "--epochs", "3"},
				"/home/x/train.py"
		},
	} {
		r := facts(made(string(rune('a'+i)), "mps", measured("step.time", 0.1, "s")), "Apple M3 Ultra", "macOS 15.5")
		r.Started = run.Started.Add(-time.Hour)
		change(r)
		history = append(history, r)
	}
	_, answers := ask(t, "step.time within 5 % of baseline", &Set{Runs: []*evidence.Run{run}, History: history})
	a := answers[0]
	if a.Outcome != Unknown || a.Compared == nil || a.Compared.Past != 2 || len(a.Compared.Left) != 7 ||
		!strings.Contains(a.Needs, "3 runs more") {
		t.Errorf("%+v %+v", a, a.Compared)
	}
	for _, why := range []string{"chip Apple M2 there, Apple M3 Ultra here", "system macOS 15.4 there",
		"torch release 2.7.0 there", "batch 16 there", "did not end well", "began later"} {
		if !strings.Contains(strings.Join(a.Compared.Left, "\n"), why) {
			t.Errorf("does not say that one was left out for %q: %v", why, a.Compared.Left)
		}
	}
}

// TestFasterIsNoRegression: a baseline is a bound on one side where a figure has a better side.
func TestFasterIsNoRegression(t *testing.T) {
	var history past
	for i := range 10 {
		v := 0.1 + 0.0005*float64(i%3)
		r := made(string(rune('a'+i)), "cpu", measured("step.time", v, "s"), measured("samples.rate", 3.2/v, "1/s"),
			measured("epoch.steps", 45, "1"))
		r.Started = r.Started.Add(time.Duration(-1-i) * time.Hour)
		history = append(history, r)
	}
	fresh := func(v float64, n int) (runs []*evidence.Run) {
		for i := range n {
			x := v * (1 + 0.001*float64(i))
			runs = append(runs, made("n"+string(rune('a'+i)), "cpu", measured("step.time", x, "s"),
				measured("samples.rate", 3.2/x, "1/s")))
		}
		return runs
	}
	for _, c := range []struct {
		rule string
		v    float64
		n    int
		want Outcome
	}{
		{"step.time within 5 % of baseline", 0.08, 4, Pass},
		{"step.time within 5 % of baseline", 0.1, 1, Pass},
		{"step.time within 5 % of baseline", 0.12, 4, Fail},
		{"step.time within 5 % of baseline", 0.12, 1, Unknown}, // one run may have been disturbed
		{"samples.rate within 5 % of baseline", 0.08, 4, Pass},
		{"samples.rate within 5 % of baseline", 0.12, 4, Fail},
	} {
		got, answers := ask(t, c.rule, &Set{Runs: fresh(c.v, c.n), History: history})
		if got != c.want || got == Unknown && !strings.Contains(answers[0].Needs, "more runs would tell") {
			t.Errorf("%s at %v with %d runs: %s, want %s (%s; %s)", c.rule, c.v, c.n, got, c.want, answers[0].Text,
				answers[0].Needs)
		}
	}
}

// TestForms: each form says the same, and what a policy or a run brings along stays text.
func TestForms(t *testing.T) {
	p, err := Load("p.toml", []byte(`
[[gate]]
name = "good"
rule = "step.time <= 1 s"
[[gate]]
name = "bad"
rule = "step.time <= 1 ms"
because = "a | b <script>"
source = "ours"
[[gate]]
name = "open"
rule = "memory.pool.peak <= 1 GiB"
[[gate]]
name = "not-here"
when = "runs(mps) >= 1"
rule = "fallbacks == 0"
`))
	if err != nil {
		t.Fatal(err)
	}
	run := made("r\x1b[31m|<b>", "cpu", measured("step.time", 0.1, "s"),
		evidence.Unknown("memory.pool.peak", "B", "<none> | `here`"))
	rep := Judge(p, &Set{Runs: []*evidence.Run{run}})
	if rep.Outcome != Fail || rep.Counts != (Counts{1, 1, 1, 1}) {
		t.Fatalf("%s %+v", rep.Outcome, rep.Counts)
	}
	out := map[string]string{}
	for _, form := range Forms() {
		var b bytes.Buffer
		if err := form.Write(&b, rep); err != nil {
			t.Fatal(err)
		}
		out[form.Name()] = b.String()
		if strings.ContainsRune(b.String(), 0x1b) {
			t.Errorf("%s: an escape sequence comes through", form.Name())
		}
	}
	for _, line := range []string{"pass         good", "fail         bad", "cannot tell  open", "not asked    not-here",
		"because: a | b <script> [ours]", "policy p.toml: fail (1 failed, 1 cannot be told, 1 passed, 1 not asked)"} {
		if !strings.Contains(out["text"], line) {
			t.Errorf("text lacks %q:\n%s", line, out["text"])
		}
	}
	var back Report
	if err := json.Unmarshal([]byte(out["json"]), &back); err != nil || back.Schema != evidence.Schema ||
		back.Kind != evidence.KindGate || len(back.Gates) != 4 || back.Gates[1].Answers[0].Runs[0] != run.ID {
		t.Errorf("JSON: %v %+v", err, back)
	}
	var suite junitSuite
	if err := xml.Unmarshal([]byte(out["junit"]), &suite); err != nil || suite.Tests != 4 || suite.Failures != 1 ||
		suite.Errors != 1 || suite.Skipped != 1 || suite.Cases[2].Error == nil {
		t.Errorf("JUnit: %v %+v", err, suite)
	}
	for line := range strings.Lines(out["github"]) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != 5 || strings.Contains(line, "<b>") ||
			strings.Contains(line, "<script") {
			t.Errorf("GitHub: %q", line)
		}
	}
}

// TestNothingAskedIsNoPass: a policy none of whose gates applies proves nothing.
func TestNothingAskedIsNoPass(t *testing.T) {
	p, err := Load("p", []byte("[[gate]]\nname = \"a\"\nwhen = \"runs(mps) >= 1\"\nrule = \"fallbacks == 0\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if rep := Judge(p, &Set{Runs: []*evidence.Run{made("c", "cpu")}}); rep.Outcome != Unknown {
		t.Errorf("%s", rep.Outcome)
	}
}

func recordedRun(t *testing.T, name string) *evidence.Run {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var run evidence.Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	return &run
}

// TestRecordedOnAGPU: a model too small for its GPU gains little and leaves it idle, which is what the first threshold
// is about; its losses follow those of the CPU.
func TestRecordedOnAGPU(t *testing.T) {
	set := &Set{Runs: []*evidence.Run{recordedRun(t, "cuda.json"), recordedRun(t, "cpu.json")}}
	for rule, want := range map[string]Outcome{
		"speedup(cuda, cpu) >= 22 % or gpu.util(cuda) >= 18 %": Fail,
		"speedup(cuda, cpu) > 0 %":                             Pass,
		"parity.loss(cuda, cpu) within 1e-3":                   Pass,
		"parity.loss(cuda, cpu) within 1e-6":                   Fail,
		"memory.growth <= 26 % over 10 epochs":                 Pass,
		"memory.growth <= 26 % over 12 epochs":                 Unknown,
		"memory.live.peak <= 100 MiB":                          Pass,
		"memory.live.peak <= 10 MiB":                           Fail,
		"memory.live.peak(cpu) <= 100 MiB":                     Unknown,
		"runs(mps) == 0":                                       Pass,
	} {
		if got, answers := ask(t, rule, set); got != want {
			t.Errorf("%s: %s, want %s: %+v", rule, got, want, answers)
		}
	}
}

// TestInterrupted: a run that somebody ended proves neither that the script fails nor that it runs.
func TestInterrupted(t *testing.T) {
	for _, end := range []evidence.Outcome{{Started: true, Exit: 130, Signal: "SIGINT"},
		{Started: true, Exit: 143, Signal: "SIGTERM"},
		{Started: true, Exit: 129, Signal: "SIGHUP"}, {Started: true, Exit: 1, Error: "KeyboardInterrupt"},
		{Started: true, Exit: -1, Reason: "assay was killed"}} {
		run := made("m", "mps")
		run.Outcome = end
		if out, answers := ask(t, "failures(mps) >= 1", &Set{Runs: []*evidence.Run{run}}); out != Unknown ||
			answers[0].Needs == "" {
			t.Errorf("%+v: %s, %+v", end, out, answers)
		}
	}
	for _, end := range []evidence.Outcome{{Started: true, Exit: 137, Signal: "SIGKILL"},
		{Started: true, Exit: 139, Signal: "SIGSEGV"},
		{Started: true, Exit: 1, Error: "RuntimeError: KeyboardInterrupt"}} { // of its own, or for its memory
		failed := made("m", "mps")
		failed.Outcome = end
		if out, _ := ask(t, "failures(mps) >= 1", &Set{Runs: []*evidence.Run{failed}}); out != Pass {
			t.Errorf("%+v: %s", end, out)
		}
	}
}
