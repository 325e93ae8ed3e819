package report

import (
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"testing"

	"assay/internal/evidence"
)

// decided is a page with everything on it that other rooms hand over.
func decided(run *evidence.Run) HTML {
	x, y := 0.02, 0.03
	return HTML{
		Judged: &Judged{Policy: "gates.toml", Outcome: "fail", Summary: "1 failed, 1 cannot be told, 1 passed",
			Gates: []JudgedGate{{Name: "quiet", Rule: "failures == 0", Outcome: "pass", Says: []string{"it is 0"}},
				{Name: "growth", Rule: "memory.growth <= 1 %", Outcome: "cannot tell", Needs: []string{"more epochs"}},
				{Name: "budget", Rule: "step.time <= 1 ms", Outcome: "fail", Says: []string{"it is 20 ms"}}},
			Baseline: []FigureBeside{{Name: "step.time", Unit: "s", There: &y, Here: &x, Change: -1. / 3,
				Ground: "1 against 9 runs"}},
			Verdict: &Verdict{Lane: "CPU", Named: true, Reasons: []Reason{{Then: "CPU", Rule: "cpu-is-faster"}}}},
		Beside: &Beside{Name: "before", Run: run, Figures: []FigureBeside{
			{Name: "agent.step", Unit: "s", There: &x, Here: &x},
			{Name: "step.time", Unit: "s", There: &x, Here: &y, Change: .5, Low: &x, High: &y, Ground: "p = 0.01"},
			{Name: "memory.live.peak", Unit: "B", There: &x, WhyHere: "the device is the CPU"}}},
	}
}

// inOrder checks that the texts stand on the page one after the other.
func inOrder(t *testing.T, page string, texts ...string) {
	t.Helper()
	rest := html.UnescapeString(page)
	for i, x := range texts {
		at := strings.Index(rest, x)
		if at < 0 {
			t.Fatalf("%q does not follow %q", x, texts[max(0, i-1)])
		}
		rest = rest[at+len(x):]
	}
}

// TestPageBeginsWithWhatDecides: gates that do not pass, the verdict, the difference, and only then the rest.
func TestPageBeginsWithWhatDecides(t *testing.T) {
	page := written(t, decided(digitsRun()), digitsRun())
	inOrder(t, page, `<h1>`, `gates: fail`, `</h1>`, `<h2>Gates`,
		`>fail</span>`, `<b>budget</b>`, `<b>growth</b>`, `to know: more epochs`,
		`<b>quiet</b>`, `<h2>Verdict`, `>CPU</span>`, `class="tiles"`, `id="baseline"`, `30.0 ms`,
		`20.0 ms`, `−33.3 %`, `1 against 9 runs`, `id="beside"`, `id="findings"`, `id="run"`,
		`<td class="code"><code>python`, `id="split"`)
	inOrder(t, page, `id="t-beside"`, `<code>step.time</code>`, `+50.0 %`, `+2.0 % to +3.0 %`, `p = 0.01`,
		`<code>memory.live.peak</code>`, `unknown`, `the device is the CPU`, `<code>agent.step</code>`, `>=<`)

	// Where nobody asked, one line says how to; nothing is claimed to pass.
	page = written(t, HTML{}, digitsRun())
	inOrder(t, page, `<h2>Gates</h2>`, `No gates were asked`, `assay gate RUN`, `<h2>Verdict</h2>`, `assay verdict RUN`)
	if strings.Contains(page, `id="beside"`) {
		t.Error("a difference from nothing")
	}
}

// TestTimesOfOtherWork: where the two runs did other work their times stand side by side, and no change is worked out.
func TestTimesOfOtherWork(t *testing.T) {
	form := decided(digitsRun())
	form.Beside.Against = "batch 32 there, 64 here"
	page := written(t, form, digitsRun())
	inOrder(t, page, `Times are not compared:</b> batch 32 there, 64 here`, `<code>step.time</code>`, `not compared`)
	if strings.Contains(html.UnescapeString(page), "+50.0 %") {
		t.Error("a change between times of other work")
	}
}

// suiteRun is a rehearsed test suite: no training step.
func suiteRun() *evidence.Run {
	run := doubleRun()
	run.Steps, run.Loss, run.Epochs, run.Windows = evidence.StepSeries{}, evidence.LossSeries{}, nil, nil
	for i, f := range run.Figures {
		if strings.HasPrefix(f.Name, "step.") || strings.HasPrefix(f.Name, "s") || strings.HasPrefix(f.Name, "epoch") {
			run.Figures[i] = evidence.Unknown(f.Name, f.Unit, "no training step was seen")
		}
	}
	for i := range run.Processes {
		run.Processes[i].Steps = 0
	}
	run.Subject.Script = "pytest"
	tests := &evidence.Tests{Passed: 9, Failed: 21, Causes: []evidence.TestCause{
		{Cause: "missing", Operator: "aten::linalg_eig", Tests: 20, Remedy: "none has it"},
		{Cause: "CPU too", Tests: 1}}}
	for i := range 20 {
		tests.Failures = append(tests.Failures, evidence.TestFailure{ID: fmt.Sprintf("test_a.py::test_eig[%d]", i),
			Cause: "missing", Operator: "aten::linalg_eig", Error: "NotImplementedError", Text: "Not here. Go away."})
	}
	run.Rehearsal.Tests = tests
	return run
}

// TestSuiteLeadsWithItsTests: what fails, by operator, before anything else; and of training nothing but one line.
func TestSuiteLeadsWithItsTests(t *testing.T) {
	page := written(t, HTML{}, suiteRun())
	inOrder(t, page, `21 of 30 tests fail`, `21 fail of 30 tests`, `id="tests"`, `id="t-causes"`, `aten::linalg_eig`,
		`none has it`, `they fail on the CPU as well`, `<h2>Gates`, `tests that fail`, `id="t-tests"`,
		`test_eig[0]`, `all 20 rows`, `id="findings"`)
	for _, plot := range []string{`id="plot-steps"`, `id="plot-loss"`, `id="split"`, `id="steps"`, `id="epochs"`} {
		if strings.Contains(page, plot) {
			t.Errorf("%s of a suite", plot)
		}
	}
	if n := strings.Count(page, "</b> No training step was seen."); n != 1 {
		t.Errorf("that no step was seen stands there %d times", n)
	}
	if strings.Contains(page, "Go away") {
		t.Error("each failed test repeats its error whole")
	}
}

// TestRehearsalLeadsWithWhatItIsFor: refused, wrong, without a kernel, the peak beside what the Mac has; and no length
// of a step, which would be this machine's.
func TestRehearsalLeadsWithWhatItIsFor(t *testing.T) {
	run := doubleRun()
	header, _, _ := strings.Cut(written(t, HTML{}, run), "</header>")
	inOrder(t, header, `class="lead"`, `class="tiles"`, `refused`, `known wrong results`, `without a kernel`,
		`of calls`, `peak memory`)
	for _, other := range []string{"A step takes", "assay's cost", "until the first step"} {
		if strings.Contains(header, other) {
			t.Errorf("a rehearsal leads with %q", other)
		}
	}
	run.Rehearsal.Refusals = []evidence.Refusal{{Operator: "aten::_to_copy", Cause: "dtype", Count: 1, Ended: true,
		Where: "train.py:7"}}
	run.Figures = append(run.Figures, evidence.Known("refused.flops", .25, "ratio", evidence.Rehearsed),
		evidence.Known("refused.time", .5, "ratio", evidence.Rehearsed))
	page := written(t, HTML{}, run)
	inOrder(t, page, `aten::_to_copy (dtype); 25.0 % of FLOPs, 50.0 % of the operators’ time here`)
	inOrder(t, page, `refused on MPS`, `MPS would refuse 1 of`, `aten::_to_copy (dtype)`,
		`at train.py:7 ended the script`, `1 call<`)

	run.Rehearsal.Operators, run.Rehearsal.Refusals, run.Rehearsal.Met = nil, nil, nil
	header, _, _ = strings.Cut(written(t, HTML{}, run), "</header>")
	inOrder(t, header, `the rehearsal tells nothing of the device`, `refused`, `unknown`, `known wrong results`,
		`unknown`, `not looked for`)
}

// TestTablesFold: fifteen rows stand open, whatever their number is; more of them say how many.
func TestTablesFold(t *testing.T) {
	for n, folds := range map[int]bool{1: false, 15: false, 16: true, 1200: true} {
		run := digitsRun()
		run.Operators = nil
		for i := range n {
			run.Operators = append(run.Operators, evidence.Operator{Name: fmt.Sprint("op", i), Calls: 1, Self: 1})
		}
		page := written(t, HTML{}, run)
		_, rest, _ := strings.Cut(page, `id="operators"`)
		section, _, _ := strings.Cut(rest, "</section>")
		if got := strings.Contains(section, fmt.Sprintf("all %s rows", thousands(n))); got != folds {
			t.Errorf("%d rows: folds is %v", n, got)
		}
		if got := strings.Count(section, "<tr><td"); got != n {
			t.Errorf("%d rows of %d are on the page", got, n)
		}
	}
	if !strings.Contains(pageCSS, fmt.Sprintf("tr:nth-child(n+%d){display:none}", foldAt+1)) {
		t.Error("the style folds at another row than the page says")
	}
}

// TestSplitExplainsItself: the parts are summed up, and where their medians are not the step's, that is said.
func TestSplitExplainsItself(t *testing.T) {
	run := digitsRun()
	page := written(t, HTML{}, run)
	inOrder(t, page, `id="split"`, `<tfoot>`, `together`, `100 %`, `together they need not be a step’s median`)
	for i, f := range run.Figures {
		if f.Name == "step.time" {
			run.Figures[i].Window = "bare"
		}
	}
	inOrder(t, written(t, HTML{}, run), `<tfoot>`, `of other steps: the window bare`)
}

// TestDisturbedOnce: a figure says by a word that it was disturbed, and the table of all figures by what.
func TestDisturbedOnce(t *testing.T) {
	run := digitsRun()
	for i := range run.Figures {
		run.Figures[i].Disturbed = "heat: 30 % of the time"
	}
	page := written(t, HTML{}, run)
	before, table, _ := strings.Cut(page, `id="figures"`)
	if !strings.Contains(before, "disturbed: heat") || strings.Contains(before, "heat: 30") ||
		!strings.Contains(table, "disturbed: heat: 30 % of the time") {
		t.Error("what disturbed a figure is not said once, or more than once")
	}
}

// TestPageIsWellFormed: every element is closed where it was opened. The page is written so that an XML parser can read
// it, which forgives nothing.
func TestPageIsWellFormed(t *testing.T) {
	const evil = `</table></section><b a=">'` + "\x00" + `]]>&lt;`
	pages := map[string]string{}
	for name, run := range samples() {
		pages[name] = written(t, decided(run), run)
	}
	hostile := fullRun()
	spoil(hostile, evil)
	form := decided(hostile)
	form.Judged = &Judged{Policy: evil, Outcome: evil, Summary: evil, Gates: []JudgedGate{{Name: evil, Rule: evil,
		Outcome: evil, Says: []string{evil}, Needs: []string{evil}, Because: evil}}, Verdict: &Verdict{Lane: evil,
		Reasons: []Reason{{evil, evil, evil, []string{evil}}}, Needs: []string{evil}, Next: []string{evil}, For: evil}}
	form.Beside.Name, form.Beside.Against, form.Beside.Remarks = evil, evil, []string{evil}
	form.Beside.Changed = []Changed{{evil, evil, evil, evil}}
	form.Beside.Figures = append(form.Beside.Figures, FigureBeside{Name: evil, Unit: evil, WhyHere: evil, Ground: evil})
	pages["hostile"] = written(t, form, hostile)
	pages["suite"] = written(t, HTML{}, suiteRun())
	pages["nothing"] = written(t, HTML{}, &evidence.Run{})
	style := regexp.MustCompile(`(?s)<(style|script)>.*?</(style|script)>|<!DOCTYPE html>`)
	for name, page := range pages {
		d := xml.NewDecoder(strings.NewReader(style.ReplaceAllString(page, "")))
		d.Entity = xml.HTMLEntity
		ids := map[string]bool{}
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			el, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			for _, a := range el.Attr {
				if a.Name.Local == "id" && ids[a.Value] {
					t.Errorf("%s: two elements have the id %s", name, a.Value)
				} else if a.Name.Local == "id" {
					ids[a.Value] = true
				}
			}
		}
		if m := regexp.MustCompile(`<h[23]>[^<]*</h[23]>\s*</section>`).FindString(page); m != "" {
			t.Errorf("%s: a section without content: %s", name, m)
		}
		for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if !ids[m[1]] {
				t.Errorf("%s: a link to #%s, which is not there", name, m[1])
			}
		}
	}
}

// TestWhatTheScriptLogged: learning rates hold until they are changed, and to the last step; what has one value, or
// none that is finite, is no plot; what nobody looked for is said.
func TestWhatTheScriptLogged(t *testing.T) {
	run := digitsRun()
	page := written(t, HTML{}, run)
	if strings.Contains(page, `id="logged"`) || !strings.Contains(page, "ogged by the script") ||
		!strings.Contains(page, "Not looked at in this run.") {
		t.Error("of a run that was not looked at")
	}
	run.Provenance.Randomness = []evidence.Setting{{Name: "torch.manual_seed", Value: "7", State: evidence.Set,
		Where: "train.py:4"}, {Name: "numpy.random.seed", State: evidence.NotSet}}
	two, nothing := []*float64{ptr(1.5), ptr(.25)}, []*float64{nil, nil}
	run.Logged = []evidence.Series{
		{Door: evidence.DoorOptimizer, Name: "lr AdamW", Step: []int{1, 50},
			Value: []*float64{ptr(.01), ptr(.001)}, Points: 2},
		{Door: "TensorBoard", Name: "val/loss <b>", Step: []int{10, 20}, Value: two, Points: 2},
		{Door: "W&B", Name: "once", Step: []int{10}, Value: two[:1], Points: 1},
		{Door: "MLflow", Name: "broken", Step: []int{1, 2}, Value: nothing, Points: 2}}
	page = written(t, HTML{}, run)
	inOrder(t, page, `id="run"`, `learning rate`, `lr AdamW 0.01 → 0.001`, `id="t-randomness"`, `torch.manual_seed`,
		`train.py:4`, `not set`, `id="logged"`, `id="plot-lr"`, `id="plot-logged-0"`, `by TensorBoard`, `id="t-logged"`,
		`once`, `broken`, `not finite`)
	if strings.Contains(page, "plot-logged-1") {
		t.Error("a plot of a single value, or of none")
	}
	line := rateLine(run.Logged[0], 135)
	if got, want := fmt.Sprint(line.X, line.Y), "[1 50 50 135] [0.01 0.01 0.001 0.001]"; got != want {
		t.Errorf("the rate is drawn as %s, want %s", got, want)
	}

	// Where no step of ours was seen, the script's own count; 24 curves, the others with their values.
	run = suiteRun()
	for i := range 30 {
		run.Logged = append(run.Logged, evidence.Series{Door: "W&B", Name: fmt.Sprint("m", i), Step: []int{0, 0},
			Own: []*int64{ptr(int64(100)), ptr(int64(300))}, Value: two, Points: 2})
	}
	page = written(t, HTML{}, run)
	inOrder(t, page, `id="plot-logged-0"`, `by the script’s own steps`, `data-x0="100" data-x1="300"`)
	if n := strings.Count(page, `class="plot low" id="plot-logged-`); n != mostCurves {
		t.Errorf("%d curves", n)
	}
	if n := strings.Count(page, `<td data-l="name" class="code"><code>m`); n != 30 {
		t.Errorf("%d of 30 series are in the table", n)
	}
}

// TestWhyAPlotIsNotThere: a panel whose counters are known, but once only, is no matter of a counter that this system
// lacks, nor of training steps.
func TestWhyAPlotIsNotThere(t *testing.T) {
	run := suiteRun()
	run.Host.Samples = []evidence.Sample{{At: 1, Figures: []evidence.Figure{
		evidence.Unknown("process.footprint", "B", "Linux has no footprint"),
		evidence.Known("process.resident", 1<<20, "B", evidence.Measured),
		evidence.Unknown("power.system", "W", "no meter"),
		evidence.Known("host.swap.used", 1, "B", evidence.Measured)}}}
	page := written(t, HTML{}, run)
	inOrder(t, page, `emory of the process`, `wap of the machine`, `Fewer than two samples hold it.`)
	if strings.Contains(page[:strings.Index(page, `id="host"`)], "Linux has no footprint") ||
		!strings.Contains(page, "Power:</b> No meter.") {
		t.Error("another reason is given")
	}
}
