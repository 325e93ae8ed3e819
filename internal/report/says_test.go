package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
)

// TestSays: what a reader is told of each kind of evidence, word for word.
func TestSays(t *testing.T) {
	known := func(name string, v float64, u string) evidence.Figure {
		return evidence.Known(name, v, u, evidence.Measured)
	}
	of := func(change func(*evidence.Run)) *evidence.Run {
		run := &evidence.Run{}
		run.Outcome = evidence.Outcome{Started: true, Complete: true}
		change(run)
		return run
	}
	epochs := func(complete ...bool) *evidence.Run {
		return of(func(r *evidence.Run) {
			for i, c := range complete {
				r.Epochs = append(r.Epochs, evidence.Epoch{Number: i + 1, First: 5*i + 1, Last: 5*i + 5, Complete: c})
			}
		})
	}
	loop := func(run *evidence.Run, l evidence.Loop) *evidence.Run {
		run.Loop, run.Subject.Dir = &l, "/p"
		return run
	}
	seen := []evidence.Process{{Observed: true, Steps: 3}}
	lost := evidence.Unknown("host.cpu.lost", "ratio", "no sample")
	stepTime := known("step.time", .01, "s")
	quartiles := func(lo, hi float64) evidence.Figure {
		f := known("x", lo, "s")
		f.Low, f.High = &lo, &hi
		return f
	}
	half := known("x", 1, "s")
	half.Low = ptr(1.)
	both := evidence.Double{Release: "2.8.0", Chip: "M3", Memory: 96 << 30, MacOS: "15"}
	shapes := both
	shapes.ShapeOnly = true
	disturbed := known("x", 1, "s")
	disturbed.Disturbed = "busy"
	noted := disturbed
	noted.Note = "a note"
	counter := func(r *evidence.Run) { r.Figures = []evidence.Figure{lost, stepTime} }
	for name, c := range map[string]struct{ got, want string }{
		"one":                {count(1, "step"), "1 step"},
		"none":               {count(0, "step"), "0 steps"},
		"999":                {thousands(999), "999"},
		"1000":               {thousands(1000), "1,000"},
		"1234567":            {thousands(1234567), "1,234,567"},
		"below zero":         {thousands(-1234), "-1234"},
		"no name":            {subjectName(&evidence.Run{}), "the subject"},
		"a command":          {subjectName(killedRun()), "./prepare.sh --all"},
		"a folder's sibling": {place(digitsRun(), "/home/ana/digits2/a.py:1"), "/home/ana/digits2/a.py:1"},
		"in the folder":      {place(digitsRun(), "/home/ana/digits/a.py:1"), "a.py:1"},
		"without a folder":   {place(&evidence.Run{}, "/a.py:1"), "/a.py:1"},
		"no device":          {deviceName(evidence.Target{Name: "x"}), ""},
		"device unnamed":     {deviceName(evidence.Target{Device: "cpu"}), "cpu"},
		"named as it is":     {deviceName(evidence.Target{Device: "cpu", Name: "cpu"}), "cpu"},
		"device named":       {deviceName(evidence.Target{Device: "cpu", Name: "M2"}), "cpu (M2)"},
		"double":             {doubleName(&both), "a double of torch 2.8.0 MPS, M3 with 96.0 GiB, macOS 15"},
		"double of shapes": {doubleName(&shapes),
			"a double of torch 2.8.0 MPS, M3 with 96.0 GiB, macOS 15, shapes alone"},
		"tests": {testsText(&evidence.Tests{Passed: 1}), "1 passed, 0 failed"},
		"tests+": {testsText(&evidence.Tests{Passed: 1, Skipped: 1, XPassed: 2}),
			"1 passed, 0 failed, 1 skipped, 2 passed unexpectedly"},
		"tests of causes": {testsText(&evidence.Tests{Failed: 10, XFailed: 1, CPU: "half", Causes: []evidence.TestCause{
			{Cause: "missing", Operator: "aten::a", Tests: 1}, {Cause: "CPU too", Tests: 2}, {Cause: "other", Tests: 3},
			{Cause: "dtype", Operator: "aten::b", Tests: 4}}}),
			"0 passed, 10 failed, 1 failed as expected; of those: 1 missing operator aten::a, 2 on the CPU too, " +
				"3 without a refusal by the device, 4 dtype aten::b (half)"},
		"rehearsed, all unknown": {rehearsedText(of(func(r *evidence.Run) {
			r.Rehearsal = &evidence.Rehearsal{Met: []evidence.Met{}}
		})),
			"0 calls of 0 operators, 0 refused"},
		"setting: nothing": {setting(&evidence.Run{}), "with no device seen in use, no framework seen"},
		"setting: asked": {setting(of(func(r *evidence.Run) {
			r.Target = evidence.Target{Asked: "mps",
				Python: "3.12"}
		})),
			"asked for mps, no device seen in use, no framework seen, Python 3.12"},
		"setting: a double of a run that was none": {setting(of(func(r *evidence.Run) {
			r.Target = evidence.Target{Device: "mps", Framework: "torch", Release: "2.8", System: "S", Double: &both}
		})), "on mps with torch 2.8, S"},
		"setting: rehearsed, no double kept": {setting(of(func(r *evidence.Run) {
			r.Rehearsal, r.Target = &evidence.Rehearsal{}, evidence.Target{Device: "mps", Framework: "torch"}
		})), "on mps with torch installed"},
		"not started": {ending(evidence.Outcome{Error: "x"}), "was not started"},
		"stopped": {ending(evidence.Outcome{Started: true, Stopped: "now", Exit: 1}),
			"was ended as asked, now,"},
		"error somewhere": {ending(evidence.Outcome{Started: true, Error: "E", Where: "a:1", Exit: 1}),
			"ended with E at a:1 (exit status 1)"},
		"error": {ending(evidence.Outcome{Started: true, Error: "E", Exit: 1}),
			"ended with E (exit status 1)"},
		"signal": {ending(evidence.Outcome{Started: true, Signal: "SIGKILL", Exit: 137}),
			"was ended by SIGKILL (exit status 137)"},
		"not ended": {ending(evidence.Outcome{Started: true, Exit: -1}),
			"had not ended, as far as its events go,"},
		"exit":            {ending(evidence.Outcome{Started: true, Exit: 2}), "ended with exit status 2"},
		"to its end":      {ending(evidence.Outcome{Started: true}), "ran to its end"},
		"no step":         {extent(&evidence.Run{}), "no training step was seen"},
		"one whole epoch": {extent(epochs(true)), "5 training steps in 1 epoch"},
		"one part":        {extent(epochs(false)), "5 training steps in 1 epoch, which was not completed"},
		"two whole":       {extent(epochs(true, true)), "10 training steps in 2 epochs"},
		"two, one whole":  {extent(epochs(true, false)), "10 training steps in 2 epochs (1 complete)"},
		"steps of windows": {extent(of(func(r *evidence.Run) { r.Windows = []evidence.Window{{Last: 7}} })),
			"7 training steps"},
		"steps of a process": {extent(of(func(r *evidence.Run) {
			r.Processes = []evidence.Process{{Steps: 9}, {Steps: 3, Observed: true}}
		})), "3 training steps in one of 2 processes that trained"},
		"by hand": {extent(loop(epochs(true, true), evidence.Loop{Steps: evidence.ByHand, Epochs: evidence.ByLoader})),
			"10 training steps, updated by hand, in 2 epochs"},
		"by hand, no epochs": {extent(loop(of(func(r *evidence.Run) { r.Windows = []evidence.Window{{Last: 7}} }),
			evidence.Loop{Steps: evidence.ByHand})), "7 training steps, updated by hand"},
		"by a loop": {extent(loop(epochs(true, true), evidence.Loop{Epochs: evidence.ByLoop, Name: "e",
			Where: "/p/t.py:3"})),
			"10 training steps in 2 epochs (turns of the loop over e, t.py:3)"},
		"by evaluation, one whole": {extent(loop(epochs(true, false), evidence.Loop{Epochs: evidence.ByEvaluation})),
			"10 training steps in 2 epochs (1 complete; from one evaluation to the next)"},
		"by a scheduler": {extent(loop(epochs(true), evidence.Loop{Epochs: evidence.ByScheduler})),
			"5 training steps in 1 epoch (from one step of the learning rate's scheduler to the next)"},
		"length by its ends": {extent(of(func(r *evidence.Run) {
			r.Started, r.Ended = epoch0, epoch0.Add(1500*time.Millisecond)
		})), "no training step was seen, 1.50 s"},
		"length by the figure, which leaves assay's own time out": {extent(of(func(r *evidence.Run) {
			r.Started, r.Ended = epoch0, epoch0.Add(9*time.Second)
			r.Figures = []evidence.Figure{known("run.time", 1.5, "s")}
		})), "no training step was seen, 1.50 s"},
		"verdict: not started": {verdict(of(func(r *evidence.Run) { r.Outcome = evidence.Outcome{Reason: "why."} })),
			"the subject was not started. The evidence is incomplete: why."},
		"verdict: no reason": {verdict(of(func(r *evidence.Run) { r.Outcome = evidence.Outcome{} })),
			"the subject was not started. The evidence is incomplete; no reason was recorded."},
		"tally": {tally([]evidence.Finding{{Severity: evidence.Note}, {Severity: evidence.Error},
			{Severity: evidence.Note}}), "1 error, 2 notes"},
		"number unknown": {number(evidence.Figure{}), "unknown: no reason was recorded"},
		"bytes a second": {quantity(2048, "B/s"), "2.00 KiB/s"},
		"level":          {quantity(2, "level"), "level 2"},
		"no quartiles":   {spread(half), ""},
		"one unit":       {spread(quartiles(.0279, .0291)), "27.9–29.1 ms"},
		"two units":      {spread(quartiles(.9, 1.1)), "900 ms – 1.10 s"},
		"window":         {windowText(evidence.Window{Name: "w", First: 3, Last: 3, Steps: 1}), "w: step 3, 1 step"},
		"excluded": {windowText(evidence.Window{Name: "w", First: 3, Last: 4, Steps: 2, Excluded: "x"}),
			"w: steps 3–4, 2 steps, without x"},
		"common: one":      {commonReason(lost, stepTime), ""},
		"common: differ":   {commonReason(lost, evidence.Unknown("y", "s", "other")), ""},
		"common":           {commonReason(lost, evidence.Unknown("y", "s", "no sample")), "no sample"},
		"five and more":    {intList([]int{1, 2, 3}, 2), "1, 2, …"},
		"as many as asked": {intList([]int{1, 2}, 2), "1, 2"},
		"profile missing":  {profileText(evidence.Profile{Missing: "x", Steps: 1}), "no operators: x"},
		"profile of none":  {profileText(evidence.Profile{}), "no step was profiled"},
		"profile":          {profileText(evidence.Profile{First: 4, Last: 4, Steps: 1}), "profiled: step 4, 1 step"},
		"base":             {base(`C:\x\train.py`), "train.py"},
		"base of nothing":  {base(""), ""},
		"blind":            {noSyncs(&evidence.Run{}), "unknown: no Python process was observed"},
		"no step to see": {noSyncs(&evidence.Run{RunBody: evidence.RunBody{Processes: []evidence.Process{{}}}}),
			"unknown: no training step was seen"},
		"looked": {noSyncs(of(func(r *evidence.Run) { r.Processes = seen })),
			"no synchronisation point was seen"},
		"fallback, rehearsed": {noFallbacks(of(func(r *evidence.Run) { r.Rehearsal = &evidence.Rehearsal{} })),
			"no operator fell back to the CPU"},
		"fallback, MLX": {noFallbacks(of(func(r *evidence.Run) { r.Target.Framework = "mlx" })),
			"none possible: MLX computes where it is told to, or raises"},
		"retained, MLX": {noRetained(of(func(r *evidence.Run) { r.Target.Framework = "mlx" })),
			"not looked for: MLX's arrays are not told apart by the lines that make them"},
		"retained": {noRetained(of(func(r *evidence.Run) {})), "unknown: no Python process was observed"},
		"waited":   {waited(evidence.SyncPoint{Waits: true}), "host waited "},
		"computed": {waited(evidence.SyncPoint{Waits: true, Computes: true}), "computed there "},
		"waits":    {waiting(evidence.SyncPoint{Waits: true}), "yes"},
		"computes": {waiting(evidence.SyncPoint{Waits: true, Computes: true}),
			"yes: what the step has queued is computed there"},
		"fallback, cpu": {noFallbacks(of(func(r *evidence.Run) { r.Target.Device = "cpu" })),
			"none possible: the run was on the CPU"},
		"fallback, unseen": {noFallbacks(of(func(r *evidence.Run) {})), "unknown: no Python process was observed"},
		"fallback, none": {noFallbacks(of(func(r *evidence.Run) { r.Processes = seen })),
			"no operator was seen to fall back to the CPU"},
		"no findings":             {noFindings(of(func(*evidence.Run) {})), "none"},
		"no findings, incomplete": {noFindings(&evidence.Run{}), "none, on incomplete evidence"},
		"no findings, not known quiet": {noFindings(of(counter)),
			"none; not known whether the machine was quiet: no sample"},
		"no findings, rehearsed": {noFindings(of(func(r *evidence.Run) {
			counter(r)
			r.Rehearsal = &evidence.Rehearsal{}
		})), "none"},
		"no findings, no step": {noFindings(of(func(r *evidence.Run) { r.Figures = []evidence.Figure{lost} })), "none"},
		"no findings, quiet": {noFindings(of(func(r *evidence.Run) {
			r.Figures = []evidence.Figure{known("host.cpu.lost", 0, "ratio"), stepTime}
		})), "none"},
		"numerics: nothing":   {numerics(&evidence.Run{}), "no loss was seen; gradients not checked"},
		"remark":              {remark(disturbed), "disturbed: busy"},
		"remark with a note":  {remark(noted), "disturbed: busy; a note"},
		"remark undisturbed":  {remark(evidence.Figure{Note: "a note"}), "a note"},
		"sentence":            {sentence("none."), "None."},
		"sentence of nothing": {sentence(""), ""},
		"state: not started":  {state(&evidence.Run{}), "not started"},
		"state: finished":     {state(of(func(*evidence.Run) {})), "finished"},
		"state: stopped": {state(of(func(r *evidence.Run) { r.Outcome.Stopped, r.Outcome.Exit = "x", 1 })),
			"stopped as asked"},
		"state: error":      {state(of(func(r *evidence.Run) { r.Outcome.Error = "x" })), "failed"},
		"state: signal":     {state(of(func(r *evidence.Run) { r.Outcome.Signal = "x" })), "failed"},
		"state: exit":       {state(of(func(r *evidence.Run) { r.Outcome.Exit = 1 })), "failed"},
		"state: incomplete": {state(of(func(r *evidence.Run) { r.Outcome.Complete = false })), "incomplete"},
		"together":          {together("12 ms, 3 GiB, 4 steps"), "12\u00a0ms, 3\u00a0GiB, 4 steps"},
		"1st":               {ordinal(1) + ordinal(2) + ordinal(3) + ordinal(4), "1st2nd3rd4th"},
		"11th":              {ordinal(10) + ordinal(11) + ordinal(13) + ordinal(14), "10th11th13th14th"},
		"21st":              {ordinal(21) + ordinal(112) + ordinal(1003), "21st112th1,003rd"},
		"unknown length":    {orUnknown(0).Text, "–"},
		"known length":      {orUnknown(1).Text, "1"},
		"pad": {pad("ab", 3) + "|" + pad("abc", 3) + "|" + padLeft("ab", 3) + "|" + padLeft("abc", 3),
			"ab |abc| ab|abc"},
		"wrapped": {strings.Join(wrap("aa 12 ms bb", "", "", 5), "|"), "aa|12 ms|bb"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}

// TestNumerics: what the loss, the gradients and the scaler showed; a loss that was not read is not a finite one.
func TestNumerics(t *testing.T) {
	first, last := evidence.Known("loss.first", 2, "1", evidence.Measured), evidence.Known("loss.last", 1, "1",
		evidence.Measured)
	for _, c := range []struct {
		n     evidence.Numerics
		loss  []*float64
		figs  []evidence.Figure
		wants string
	}{
		{evidence.Numerics{}, []*float64{nil}, nil, "no loss was seen; gradients not checked"},
		{evidence.Numerics{}, []*float64{ptr(1.)}, []evidence.Figure{first},
			"all losses seen finite; gradients not checked"},
		{evidence.Numerics{GradSteps: 1, MicroSteps: 1}, []*float64{ptr(1.)}, []evidence.Figure{first, last},
			"all losses seen finite (2 → 1); gradients finite in 1 step checked"},
		{evidence.Numerics{NonFiniteLosses: []int{4}, NonFiniteGrads: []int{4, 5}, GradSteps: 9, SkippedSteps: []int{4},
			MicroSteps: 2, LossScaled: "yes"}, []*float64{ptr(1.)}, nil,
			"loss not finite in 1 step: 4; gradients not finite in 2 steps: 4, 5; 1 step skipped by the scaler; " +
				"2 backward passes a step; loss scaling: yes"},
	} {
		run := &evidence.Run{}
		run.Numerics, run.Loss.Value, run.Figures = c.n, c.loss, c.figs
		if got := numerics(run); got != c.wants {
			t.Errorf("%q, want %q", got, c.wants)
		}
	}
}

// TestBasisMark: a figure that is not what a reader takes it for is marked; one that is carries no mark.
func TestBasisMark(t *testing.T) {
	for _, c := range []struct {
		basis     evidence.Basis
		disturbed string
		rehearsal bool
		want      string
	}{
		{evidence.Measured, "", false, ""}, {evidence.Measured, "", true, " (measured)"},
		{evidence.Rehearsed, "", true, ""}, {evidence.Derived, "", false, " (derived)"}, {"", "", false, ""},
		{evidence.Measured, "busy", false, " (disturbed)"}, {evidence.Derived, "busy", false, " (derived, disturbed)"},
		{"", "busy", false, " (disturbed)"},
	} {
		run := &evidence.Run{}
		if c.rehearsal {
			run.Rehearsal = &evidence.Rehearsal{}
		}
		f := evidence.Known("x", 1, "s", c.basis)
		f.Disturbed = c.disturbed
		s := &screen{run: run}
		if got := s.basisMark(f); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
		f.Value = nil
		if got := s.basisMark(f); got != "" {
			t.Errorf("unknown %+v: %q", c, got)
		}
	}
}

// TestBar: the bar of a step fills its line, whatever the shares add up to, and nothing is drawn for what is not known.
func TestBar(t *testing.T) {
	phases := []phase{{Glyph: "a"}, {Glyph: "b"}, {Glyph: "c"}}
	v := func(x float64) evidence.Figure { return evidence.Known("x", x, "ratio", evidence.Derived) }
	for _, c := range []struct {
		shares []evidence.Figure
		want   string
	}{
		{[]evidence.Figure{v(.5), v(.25), v(.25)}, "aaaabbcc"}, {[]evidence.Figure{v(.25), {}, v(.25)}, "aaaacccc"},
		{[]evidence.Figure{v(1. / 3), v(1. / 3), v(1. / 3)}, "aaabbccc"}, {[]evidence.Figure{v(-1), v(.1), v(0)},
			"bbbbbbbb"},
		{[]evidence.Figure{{}, {}, {}}, ""}, {[]evidence.Figure{v(0), v(0), v(0)}, ""},
	} {
		if got := (&screen{}).bar(phases, c.shares, 8); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestEpochEnds: the summary shows the first three epochs and the last, and one value alone is no course.
func TestEpochEnds(t *testing.T) {
	of := func(live bool, n int) []evidence.Epoch {
		var out []evidence.Epoch
		for i := range n {
			e, v := evidence.Epoch{}, float64((i+1)<<10)
			if live {
				e.Live = &v
			} else {
				e.Resident = &v
			}
			out = append(out, e)
		}
		return out
	}
	for _, c := range []struct {
		epochs []evidence.Epoch
		want   string
	}{
		{nil, ""}, {of(true, 1), ""}, {of(false, 2), "resident at epoch ends 1.00 KiB, 2.00 KiB"},
		{of(true, 4), "live at epoch ends 1.00 KiB, 2.00 KiB, 3.00 KiB, 4.00 KiB"},
		{of(true, 6), "live at epoch ends 1.00 KiB, 2.00 KiB, 3.00 KiB, …, 6.00 KiB"},
	} {
		if got := epochEnds(c.epochs); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestFoldedLists: as many rows of a list are shown as were wanted, and how many more the page has is said.
func TestFoldedLists(t *testing.T) {
	s := &screen{Text: Text{Width: 80}, steps: true}
	for n, want := range map[int][2]int{0: {0, 0}, 3: {3, 0}, 4: {3, 1}, 9: {3, 1}} {
		shown, more := s.folded(make([][]string, n), 3)
		if len(shown) != want[0] || len(more) != want[1] ||
			n > 3 && !strings.Contains(more[0], fmt.Sprintf("… %d more in report.html", n-3)) {
			t.Errorf("%d rows: %d shown, %q", n, len(shown), more)
		}
	}
}

// TestTailOfTheSummary: where the files are to be found, with or without one of them.
func TestTailOfTheSummary(t *testing.T) {
	for _, c := range []struct {
		report, evidence string
		want             []string
	}{
		{"", "", nil}, {"r/report.html", "", []string{"report     r/report.html"}},
		{"", "r/evidence.json", []string{"evidence   r/evidence.json"}},
		{"r/report.html", "r/evidence.json", []string{"report     r/report.html, and evidence.json beside it"}},
		{"r/report.html", "q/e.json", []string{"report     r/report.html", "evidence   q/e.json"}},
	} {
		s := &screen{Text: Text{Width: 100, Report: c.report, Evidence: c.evidence}, run: digitsRun()}
		if got := s.tail(); !slices.Equal(got, c.want) {
			t.Errorf("%q", got)
		}
	}
}

// TestVariants: a change of the evidence changes what summary and page say of it.
func TestVariants(t *testing.T) {
	set := func(r *evidence.Run, f evidence.Figure) {
		r.Figures = slices.DeleteFunc(slices.Clone(r.Figures), func(g evidence.Figure) bool { return g.Name == f.Name })
		r.Figures = append(r.Figures, f)
	}
	growth := func(v float64) func(*evidence.Run) {
		return func(r *evidence.Run) { set(r, evidence.Known("memory.growth", v, "ratio", evidence.Derived)) }
	}
	noSplit := func(r *evidence.Run) {
		for _, p := range r.Steps.Phases {
			set(r, evidence.Unknown("split."+p.Name, "s", "the device was not asked"))
		}
	}
	for name, c := range map[string]struct {
		run              *evidence.Run
		change           func(*evidence.Run)
		text, page       string
		noText, notPaged string
	}{
		"grows":   {digitsRun(), growth(.01), "", "Memory grows by 1.00", "", "Memory is level"},
		"level":   {digitsRun(), growth(.0099), "", "Memory is level", "", "Memory grows"},
		"shrinks": {digitsRun(), growth(-.02), "", "Memory shrinks by 2.00", "", "Memory grows"},
		"no split": {digitsRun(), noSplit, "split      unknown: the device was not asked", "the device was not asked",
			"", ""},
		"neither split nor step": {digitsRun(), func(r *evidence.Run) {
			noSplit(r)
			set(r, evidence.Unknown("step.time", "s", "the device was not asked"))
		}, "step       unknown: the device was not asked", "The length of a step is unknown: the device was not asked.",
			"split ", "A step takes"},
		"one phase unknown": {digitsRun(), func(r *evidence.Run) {
			set(r, evidence.Unknown("split.data", "s", "no loader"))
			set(r, evidence.Unknown("share.data", "ratio", "no loader"))
		}, "unknown: no loader", "no loader", "", ""},
		"share unknown": {digitsRun(), func(r *evidence.Run) {
			set(r, evidence.Unknown("share.data", "ratio", "no loader"))
		}, "share unknown", "", "", ""},
		"bases of shares differ": {digitsRun(), func(r *evidence.Run) {
			f := r.Figure("share.data")
			f.Basis = evidence.Predicted
			set(r, f)
		}, "% (predicted)", "", "share (derived)", ""},
		"disturbed": {digitsRun(), func(r *evidence.Run) {
			f := r.Figure("step.time")
			f.Disturbed = "another program"
			set(r, f)
		}, " (disturbed)", "(disturbed: another program)", "", ""},
		"undisturbed": {digitsRun(), func(*evidence.Run) {}, "", "", "disturbed", "disturbed"},
		"nothing of time": {digitsRun(), func(r *evidence.Run) {
			for _, n := range []string{"run.startup", "step.first_epoch", "epoch.time", "epoch.steps",
				"epoch.estimate"} {
				set(r, evidence.Unknown(n, "s", "no clock"))
			}
		}, "epochs     unknown: no clock", "No clock.", "1st epoch", ""},
		"nothing of time, as of the step": {digitsRun(), func(r *evidence.Run) {
			for _, n := range []string{"run.startup", "step.first_epoch", "epoch.time", "step.time"} {
				set(r, evidence.Unknown(n, "s", "no clock"))
			}
		}, "step       unknown: no clock", "", "epochs ", ""},
		"nothing of memory": {digitsRun(), func(r *evidence.Run) {
			for _, n := range []string{"memory.live.peak", "memory.pool.peak", "memory.resident.peak",
				"memory.watermark",
				"memory.growth"} {
				set(r, evidence.Unknown(n, "B", "no account"))
			}
		}, "memory     unknown: no account", "no account", "swap", ""},
		"cost unknown": {digitsRun(), func(r *evidence.Run) {
			set(r, evidence.Unknown("agent.step", "s",
				"no goodbye"))
		},
			"assay cost unknown: no goodbye", "no goodbye", "of it", "of the step (derived)"},
		"several reasons": {digitsRun(), func(r *evidence.Run) {
			set(r, evidence.Unknown("memory.growth", "ratio", "one epoch"))
		}, "growth unknown: one epoch", "", "", ""},
		"a sync that waits": {digitsRun(), func(r *evidence.Run) { r.Syncs[0].Waits = true }, "host waited 900 µs",
			">yes</td>", "", ""},
		"a sync that would wait": {doubleRun(), func(r *evidence.Run) { r.Syncs[0].Waits = true },
			"the host would wait",
			"it would", "host waited", ""},
		"a rehearsed epoch is not the Mac's": {doubleRun(), func(r *evidence.Run) {
			for i := range r.Epochs {
				r.Epochs[i].Seconds = 1e5
			}
			set(r, evidence.Known("epoch.time", 1e5, "s", evidence.Rehearsed))
		}, "", "", "longer than", "longer than"},
		"an epoch of one step": {digitsRun(), func(r *evidence.Run) { r.Epochs = nil }, "",
			"Epochs:</b> No training loader was seen.", "",
			""},
		"a fallback of another basis": {cudaRun(), func(*evidence.Run) {}, "(derived)", "", "", ""},
		"operators by the host": {digitsRun(), func(r *evidence.Run) { r.Operators[4].Self = 1 },
			"operators  aten::_foreach_addcdiv_", "", ", device ", ">queue<"},
		"programs that came later": {digitsRun(), func(r *evidence.Run) {
			r.Host.AppsEnd = append(r.Host.AppsEnd, evidence.App{Name: "latecomer", Bytes: 1 << 20, Count: 1})
		}, "", "latecomer", "", ""},
		"a programme that left": {digitsRun(), func(r *evidence.Run) { r.Host.AppsEnd = nil }, "", "Google Chrome",
			"", ""},
		"dropped": {digitsRun(), func(r *evidence.Run) { r.Processes[0].Dropped = 2 }, "",
			"2 events dropped", "", "; 2 events"},
		"none dropped": {digitsRun(), func(*evidence.Run) {}, "", "", "", "dropped"},
		"no commit": {digitsRun(), func(r *evidence.Run) {
			r.Provenance.Commit, r.Provenance.Dirty = "", "unknown: no git"
		}, "", "unknown: no git", "", "unknown: unknown"},
		"live unknown": {digitsRun(), func(*evidence.Run) {}, "", "allocator unknown: the cpu allocator", "", ""},
		"both memories unknown": {digitsRun(), func(r *evidence.Run) {
			set(r, evidence.Unknown("memory.resident.peak", "B", "gone"))
		}, "", "unknown: the cpu allocator keeps no count", "", "allocator unknown"},
		"no loader": {digitsRun(), func(r *evidence.Run) { r.Provenance.Datasets = nil }, "",
			"measured; no loader was seen",
			"", "declared by the loader; inputs"},
		"no inputs": {digitsRun(), func(r *evidence.Run) { r.Shapes = nil }, "",
			"batch 32 of DigitsDataset; inputs unknown", "", "inputs measured"},
		"neither": {digitsRun(), func(r *evidence.Run) { r.Shapes, r.Provenance.Datasets = nil, nil }, "",
			"unknown: no input shape was seen", "", ""},
		"no batch": {digitsRun(), func(r *evidence.Run) { r.Provenance.Datasets[0].Batch = 0 }, "",
			"measured; the loader declares no batch size", "", "batch 0"},
		"three shapes": {digitsRun(), func(r *evidence.Run) { r.Shapes = append(r.Shapes, r.Shapes[0]) }, "", "", "",
			"more under Numerics"},
		"four shapes": {digitsRun(), func(r *evidence.Run) { r.Shapes = append(r.Shapes, r.Shapes...) }, "",
			"… 1 more under Numerics and shapes", "", ""},
		"flag not set": {digitsRun(), func(r *evidence.Run) { r.Provenance.Environment = nil }, "",
			"PYTORCH_ENABLE_MPS_FALLBACK not set", "", "PYTORCH_ENABLE_MPS_FALLBACK="},
		"incomplete without a reason": {digitsRun(), func(r *evidence.Run) { r.Outcome.Complete = false }, "",
			"no reason was recorded", "", ""},
		"one batch again and again": {digitsRun(), func(r *evidence.Run) {
			r.Only = &evidence.Only{What: "data", Each: evidence.Known("only.data", .01, "s", evidence.Measured)}
		}, "", "a batch, data alone", "", ""},
		"rehearsed": {doubleRun(), func(*evidence.Run) {}, "rehearsed unless marked", "Rehearsal", "measured unless",
			""},
		"recommended unknown": {doubleRun(), func(r *evidence.Run) {
			r.Target.Double.Recommended, r.Target.Double.ShapeOnly = nil, true
		}, "", "none: shapes alone", "", "computed by this machine"},
		"copied unknown": {doubleRun(), func(r *evidence.Run) { r.Fallbacks[0].Bytes = nil }, "", "grid_sampler", "",
			"9.00 MiB"},
		"tests of a suite": {doubleRun(), func(r *evidence.Run) {
			r.Rehearsal.Tests = &evidence.Tests{Passed: 7, Failed: 0}
		}, "tests      7 passed, 0 failed", "ests that failed:</b> None failed.", "", ""},
		"a failed test": {doubleRun(), func(r *evidence.Run) {
			r.Rehearsal.Tests = &evidence.Tests{Passed: 7, Failed: 1,
				Failures: []evidence.TestFailure{{ID: "test_a.py::test_x", Cause: "other"}}}
		}, "tests      7 passed, 1 failed", "test_a.py::test_x", "", "ests that failed:</b> None failed."},
		"no suite": {doubleRun(), func(*evidence.Run) {}, "", "", "tests  ",
			"ests that failed:</b> None failed."},
		"thinned": {digitsRun(), func(r *evidence.Run) { r.Steps.Thin = 2 }, "", "every 2nd step is drawn", "", ""},
		"whole":   {digitsRun(), func(r *evidence.Run) { r.Steps.Thin = 1 }, "", "", "", "step is drawn"},
		"no host": {digitsRun(), func(r *evidence.Run) { r.Host.Samples = nil }, "", "No host sample was taken", "",
			"fewer than two samples hold it"},
		"host without power": {digitsRun(), func(*evidence.Run) {}, "",
			"Power:</b> Fewer than two samples hold it.", "", "no host sample was taken"},
		"host that says why": {digitsRun(), func(r *evidence.Run) {
			last := &r.Host.Samples[len(r.Host.Samples)-1]
			last.Figures = append(last.Figures, evidence.Unknown("power.system", "W", "needs a battery"))
		}, "", "Power:</b> Needs a battery.", "", "Power:</b> Fewer than"},
		"loss not finite": {digitsRun(), func(r *evidence.Run) {
			r.Loss.Value[3], r.Loss.Value[4] = nil,
				ptr(math.Inf(1))
		},
			"", "It was not finite in 2 steps.", "", ""},
		"loss finite": {digitsRun(), func(*evidence.Run) {}, "", "", "", "It was not finite"},
	} {
		c.change(c.run)
		text, page := written(t, Text{}, c.run), strings.ReplaceAll(written(t, HTML{}, c.run), "\u00a0", " ")
		fits(t, text, 80)
		if !strings.Contains(text, c.text) || c.noText != "" && strings.Contains(text, c.noText) {
			t.Errorf("%s: want %q and not %q in\n%s", name, c.text, c.noText, text)
		}
		if !strings.Contains(page, c.page) {
			t.Errorf("%s: no %q on the page", name, c.page)
		}
		if c.notPaged != "" && strings.Contains(page, c.notPaged) {
			t.Errorf("%s: %q is on the page", name, c.notPaged)
		}
	}
}

// TestAxis: units, round steps and logarithmic marks of the axes.
func TestAxis(t *testing.T) {
	labels := func(ts []tick) string {
		var out []string
		for _, k := range ts {
			out = append(out, k.Label)
		}
		return strings.Join(out, "|")
	}
	lin := func(lo, hi float64, u string, n int) string { _, _, ts := ticksOf(lo, hi, u, n); return labels(ts) }
	log := func(lo, hi float64, u string) string { _, _, ts := logTicks(lo, hi, u); return labels(ts) }
	for name, c := range map[string]struct{ got, want string }{
		"hours":           {lin(0, 7200, "s", 4), "0.0 h|0.5 h|1.0 h|1.5 h|2.0 h"},
		"minutes":         {lin(0, 300, "s", 4), "0 min|2 min|4 min|6 min"},
		"a second":        {lin(0, 1, "s", 4), "0.0 s|0.5 s|1.0 s"},
		"milliseconds":    {lin(0, .999, "s", 4), "0 ms|500 ms|1,000 ms"},
		"KiB":             {lin(0, 1024, "B", 2), "0.0 KiB|0.5 KiB|1.0 KiB"},
		"millions":        {lin(0, 1e6, "1", 2), "0.0 M|0.5 M|1.0 M"},
		"below a million": {lin(0, 999999, "1", 2), "0|500,000|1,000,000"},
		"nothing":         {lin(0, 0, "1", 4), "0.0|0.5|1.0"},
		"one value":       {lin(7, 7, "1", 4), "6.0|6.5|7.0|7.5|8.0"},
		"percent":         {lin(0, 1, "ratio", 4), "0 %|50 %|100 %"},
		"watts":           {lin(0, 10, "W", 4), "0 W|5 W|10 W"},
		"two decades":     {log(.011, .9, "s"), "10 ms|20 ms|50 ms|100 ms|200 ms|500 ms|1 s"},
		"five decades":    {log(.00011, 9, "s"), "100 µs|1 ms|10 ms|100 ms|1 s|10 s"},
		"three decades":   {log(1, 1000, "1"), "1|2|5|10|20|50|100|200|500|1000"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

// TestLogarithmic: a few slow steps do not flatten the rest; eight times the median is where the scale changes.
func TestLogarithmic(t *testing.T) {
	for _, c := range []struct {
		ys   []float64
		may  bool
		want bool
	}{{[]float64{1, 1, 1, 8.1}, true, true}, {[]float64{1, 1, 1, 8}, true, false}, {[]float64{1, 1, 1, 8.1}, false,
		false},
		{[]float64{0, 1, 1, 8.1}, true, false}} {
		ch := &chart{MayLog: c.may, XMin: 1, XMax: 4, Series: []series{{X: []float64{1, 2, 3, 4}, Y: c.ys}}}
		if got := strings.Contains(string(ch.render()), "logarithmic"); got != c.want {
			t.Errorf("%v: %v", c.ys, got)
		}
	}
}

// TestDrawn: gaps stay gaps, a point alone is a dash, and what has fewer than two values or only zeros is no plot.
func TestDrawn(t *testing.T) {
	gap := math.NaN()
	var b strings.Builder
	id := func(v float64) float64 { return v }
	drawSeries(&b, series{X: []float64{1, 2, 3, 4, 5}, Y: []float64{gap, 1, gap, 2, 3}}, id, id)
	const want = `<polyline class="line" points="2,1 4,1 "/><polyline class="line" points="4,2 5,3 "/>`
	if b.String() != want {
		t.Errorf("%s, want %s", b.String(), want)
	}
	for _, c := range []struct {
		ys          []float64
		drawn, zero bool
		n           int
	}{{nil, false, false, 0}, {[]float64{gap, 1}, false, false, 0}, {[]float64{1, 1}, true, false, 0},
		{[]float64{0, 0}, true, true, 2}, {[]float64{0, 1}, true, false, 0}} {
		ch := &chart{Series: []series{{Y: c.ys}}}
		n, zero := ch.allZero()
		if ch.drawn() != c.drawn || zero != c.zero || n != c.n {
			t.Errorf("%v: drawn %v, zero %v, %d", c.ys, ch.drawn(), zero, n)
		}
	}
	if got := nonNegative([]float64{-1, 0, 2}); !math.IsNaN(got[0]) || got[1] != 0 || got[2] != 2 {
		t.Errorf("%v", got)
	}
	run := &evidence.Run{}
	for i := range 201 {
		run.Epochs = append(run.Epochs, evidence.Epoch{Number: i + 1, First: i + 1, Last: i + 1})
	}
	if epochSpans(run) != nil {
		t.Error("201 epochs are drawn")
	}
	if run.Epochs = run.Epochs[:200]; len(epochSpans(run)) != 200 {
		t.Error("200 epochs are not drawn")
	}
	run.Epochs = []evidence.Epoch{{First: 0, Last: 3}, {First: 4, Last: 3}, {First: 4, Last: 4}}
	if len(epochSpans(run)) != 1 {
		t.Error("an epoch without steps is drawn")
	}
}
