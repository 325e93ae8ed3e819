package sweep

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
)

// machine plays scripts: a law of memory, and a throughput that saturates.
type machine struct {
	law     law
	asked   []Ask
	crashAt int // from that batch on the script fails otherwise; 0: never
	proof   int // batches above it do not come through the longer trial; 0: all do
	items   int // rows of the data; 0: more than enough
	stopAt  int // number of the trial that somebody stops; 0: none
	failAt  int // number of the trial that cannot be started; 0: none

	leak    float64 // bytes that each step leaves behind
	ends    int     // step after which nothing more is left behind; 0: none
	longest float64 // rows of the longest batch take as many times what the others take; 0: all alike
	data    bool    // with shapes alone it does not do
	inOrder int     // batches above it do not come through the longer trial in the script's own order; 0: all do
	refused int     // requests that the allocator counts as refused in a trial, and no exception was seen of
}

func (m *machine) try(number int, ask Ask) (Seen, error) {
	m.asked = append(m.asked, ask)
	if number == m.failAt {
		return Seen{}, errors.New("no such interpreter")
	}
	b := ask.Batch
	run := evidence.NewRun("trial")
	run.Target.Device = "cuda"
	if number == m.stopAt {
		return Seen{Run: run, Signal: syscall.SIGINT, Exit: 130, Interrupted: true}, nil
	}
	if m.crashAt > 0 && b >= m.crashAt {
		run.Outcome.Error = "ValueError: no more than 31 rows"
		return Seen{Run: run, Exit: 1, Tail: "Traceback\nValueError: no more than 31 rows\n"}, nil
	}
	law := m.law
	if m.longest > 0 && ask.Longest {
		law.row *= m.longest
	}
	read := law.read(b)
	least, _ := law.needs(b)
	trained := ask.Steps
	left := func(i int) float64 { // behind when i steps are over
		if m.ends > 0 {
			i = min(i, m.ends)
		}
		return m.leak * float64(i)
	}
	for i := range ask.Steps {
		if read.Fits && least+left(i) > law.limit {
			read.Fits, trained = false, i
		}
		if i < trained {
			run.Steps.Number = append(run.Steps.Number, i+1)
			run.Steps.Live = append(run.Steps.Live, least/2+left(i))
		}
	}
	if read.Fits {
		read.Live, read.Peak = read.Live+left(trained), min(read.Peak+left(trained), law.limit)
	}
	if ask.Longest {
		run.Levers = []evidence.Lever{{Lever: "longest", Done: true, From: 10, To: 10 * max(1, int64(m.longest))}}
	}
	if ask.For == ForProof && m.proof > 0 && b > m.proof {
		read.Fits = false
	}
	if ask.For == ForProof && !ask.Longest && m.inOrder > 0 && b > m.inOrder {
		read.Fits = false
	}
	if m.refused > 0 {
		run.OutOfMemory = []evidence.OutOfMemory{{
			Text: "CUDA out of memory: torch.cuda.memory_stats counts num_ooms", Count: m.refused}}
	}
	if !read.Fits {
		text := "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
		run.Outcome.Error = text
		return Seen{Run: run, Exit: 1, Tail: text}, nil
	}
	rows := b
	if m.items > 0 {
		rows = min(b, m.items)
	}
	run.Shapes = []evidence.Shape{{Model: "Net", Inputs: "f32[" + itoa(rows) + ",8] on cuda", Steps: ask.Steps}}
	run.Provenance.Datasets = []evidence.Dataset{{Type: "TensorDataset", Length: m.items, Batch: b, Workers: 2}}
	limit := m.law.limit
	rate := float64(b) / (0.010 + 0.001*float64(b)) // 95 % of 1/0.001 would be at 190 rows
	run.Figures = []evidence.Figure{
		evidence.Known("memory.pool.peak", read.Peak, "B", evidence.Measured),
		evidence.Known("memory.live.peak", read.Live, "B", evidence.Measured),
		evidence.Known("memory.watermark", read.Peak/limit, "ratio", evidence.Derived),
		evidence.Known("step.time", float64(b)/rate, "s", evidence.Measured),
		evidence.Known("samples.rate", rate, "1/s", evidence.Derived)}
	if m.longest > 0 {
		run.Shapes = append(run.Shapes, evidence.Shape{Model: "Net", Inputs: "f32[" + itoa(rows) + ",9] on cuda",
			Steps: 1})
	}
	return Seen{Run: run, Data: m.data}, nil
}

func itoa(n int) string { data, _ := json.Marshal(n); return string(data) }

func optionsOf(t *testing.T, m *machine, folder string, plan Plan) Options {
	t.Helper()
	if plan.Range.Multiple == 0 {
		plan.Range = Range{From: 1, Multiple: 1}
	}
	if plan.Steps == 0 {
		plan.Steps = 20
	}
	clock := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	return Options{Asked: Asked{Command: []string{"python", "train.py", "--batch", "{}"}, Plan: plan}, Folder: folder,
		Try: m.try,
		Now: func() time.Time { clock = clock.Add(time.Second); return clock }}
}

func usualLaw() law {
	return law{fixed: gib, row: 30 * mib, grain: 2 * mib, waste: 0.02, limit: 8 * gib, told: 8 * gib, says: true}
}

func mustRun(t *testing.T, o Options) *Document {
	t.Helper()
	d, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestThreeAnswers: the largest by the law itself, its proof, the knee by its rule, and one with a margin.
func TestThreeAnswers(t *testing.T) {
	m := &machine{law: usualLaw()}
	d := mustRun(t, optionsOf(t, m, t.TempDir(), Plan{Timed: true}))
	a := d.Body.Answers[0]
	if want := m.law.truth(Range{From: 1, To: 1000, Multiple: 1}); a.Largest != want || a.Fails != want+1 ||
		a.Trials > 6 {
		t.Errorf("largest %d, fails %d in %d trials; by the law %d", a.Largest, a.Fails, a.Trials, want)
	}
	if a.Proven || !strings.Contains(a.ProofText, "not proven: ") {
		t.Errorf("proof without an answer of the agent: %v %q", a.Proven, a.ProofText)
	}
	// rate(b) >= 0.95 rate(largest): from some batch on, found within a factor of two of it
	rate := func(b int) float64 { return float64(b) / (0.010 + 0.001*float64(b)) }
	first := 1
	for rate(first) < enough*rate(a.Largest) {
		first++
	}
	if a.Knee < first || a.Knee > 2*first {
		t.Errorf("knee %d: the first batch with 95 %% is %d", a.Knee, first)
	}
	if a.Recommended < 1 || a.Recommended > a.Largest || a.Spread == nil {
		t.Errorf("recommended %d of %d: %s", a.Recommended, a.Largest, a.RecommendedText)
	}
	least, _ := m.law.needs(a.Recommended)
	if least > m.law.limit-spreads**a.Spread {
		t.Errorf("recommended %d needs %.0f, and the margin to %.0f is %.0f", a.Recommended, least, m.law.limit,
			*a.Spread)
	}
	if f := d.Figure("batch.largest"); f.Value == nil || int(*f.Value) != a.Largest {
		t.Errorf("figure: %+v", f)
	}
}

// TestProofSendsBelow: a batch that fits for a few steps and not for long is not the largest.
func TestProofSendsBelow(t *testing.T) {
	m := &machine{law: usualLaw(), proof: 200}
	a := mustRun(t, optionsOf(t, m, t.TempDir(), Plan{})).Body.Answers[0]
	if a.Largest != 200 || a.Fails != 201 {
		t.Errorf("largest %d, fails %d: %s", a.Largest, a.Fails, a.LargestText)
	}
}

// TestLeak: where memory grows from step to step no batch is proven and none recommended, whether or not the longer
// trial comes to its end; what grows in the beginning alone is no leak.
func TestLeak(t *testing.T) {
	for name, c := range map[string]struct {
		leak float64
		ends int
		want string
	}{
		"much":      {100 * mib, 0, "MiB a step"},
		"little":    {4096, 0, "4.00 KiB a step"},
		"to an end": {mib, 12, ""},
		"none":      {0, 0, ""},
	} {
		m := &machine{law: usualLaw(), leak: c.leak, ends: c.ends}
		d := mustRun(t, optionsOf(t, m, t.TempDir(), Plan{}))
		a := d.Body.Answers[0]
		if c.want == "" {
			if a.Leak != nil || a.Recommended == 0 {
				t.Errorf("%s: %+v", name, a)
			}
			continue
		}
		if a.Proven || a.Leak == nil || a.Recommended != 0 || !strings.Contains(a.ProofText, c.want) ||
			!strings.Contains(a.ProofText, "no batch is safe for long") || math.Abs(a.Leak.Each/c.leak-1) > 0.01 {
			t.Errorf("%s: %+v, leak %+v", name, a, a.Leak)
		}
		if !strings.Contains(a.LargestText, "in trials of 20 steps") || len(m.asked) > 9 {
			t.Errorf("%s: %d trials, %s", name, len(m.asked), a.LargestText)
		}
	}
}

// TestGrowth: what is told of readings, and what is not.
func TestGrowth(t *testing.T) {
	shape := func(inputs ...string) (list []evidence.Shape) {
		for _, s := range inputs {
			list = append(list, evidence.Shape{Model: "Net", Inputs: s})
		}
		return list
	}
	alike, varied := shape("f32[8,16] on mps", "f32[3,16] on mps"), shape("f32[8,16] on mps", "f32[8,17] on mps")
	for name, c := range map[string]struct {
		live   []float64
		shapes []evidence.Shape
		grows  bool
	}{
		"steady":                 {[]float64{1, 9, 9, 9, 9, 9, 9, 9}, alike, false},
		"each step":              {[]float64{1, 9, 19, 29, 39, 49}, alike, true},
		"every other":            {[]float64{1, 9, 19, 19, 29, 29, 39, 39}, alike, true},
		"too few":                {[]float64{1, 9, 19, 29, 39}, alike, false},
		"up and down":            {[]float64{1, 9, 19, 9, 29, 9, 39, 49}, alike, false},
		"came to its end":        {[]float64{1, 9, 19, 29, 39, 49, 49, 49, 49, 49, 49}, alike, false},
		"not read":               {[]float64{-1, -1, -1, -1, -1, -1, -1, -1}, alike, false},
		"lengths, few":           {[]float64{1, 9, 19, 29, 39, 49}, varied, false},
		"lengths, many":          {[]float64{1, 9, 19, 29, 39, 49, 59, 69, 79, 89}, varied, true},
		"lengths in their order": {[]float64{1, 9, 19, 9, 30, 12, 40, 9, 21, 35}, varied, false},
	} {
		run := evidence.NewRun("x")
		run.Shapes, run.Steps.Live = c.shapes, c.live
		for i := range c.live {
			run.Steps.Number = append(run.Steps.Number, i+1)
		}
		if c.grows && len(c.shapes) == 2 && name[0] == 'l' { // sorted data, with the longest first
			first := *run
			first.Levers = []evidence.Lever{{Lever: "longest", Done: true, From: 1, To: 9}}
			x := Trial{Ask: Ask{Batch: 8, For: ForProof}, Ending: EndedWell}
			x.read(&first)
			if _, g := (cell{trials: []Trial{x}}).leak(8); g != nil || !strings.Contains(x.missing(), "stops growing") {
				t.Errorf("%s, the longest first: %+v, %s", name, g, x.missing())
			}
		}
		if g := growthOf(run); (g != nil) != c.grows || g != nil && g.Varied != (len(c.shapes) == 2 && name[0] == 'l') {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// TestLengths: where batches have several lengths the largest is the one that fits with the longest.
func TestLengths(t *testing.T) {
	for _, times := range []float64{1.5, 4, 20} {
		m := &machine{law: usualLaw(), longest: times}
		d := mustRun(t, optionsOf(t, m, t.TempDir(), Plan{}))
		law := m.law
		law.row *= times
		want := law.truth(Range{From: 1, To: 1000, Multiple: 1})
		if a := d.Body.Answers[0]; a.Largest != want || a.Fails != want+1 || len(m.asked) > 9 {
			t.Errorf("%v times: %+v after %d trials, %d is the largest", times, a, len(m.asked), want)
		}
	}
}

// TestLengthsLeaveGaps: a batch of varying lengths is proven with the longest first and in the script's own order; one
// that does not come through that is not the largest.
func TestLengthsLeaveGaps(t *testing.T) {
	m := &machine{law: usualLaw(), longest: 1.5}
	largest := mustRun(t, optionsOf(t, m, t.TempDir(), Plan{})).Body.Answers[0].Largest
	m = &machine{law: usualLaw(), longest: 1.5, inOrder: largest - 2}
	d := mustRun(t, optionsOf(t, m, t.TempDir(), Plan{}))
	if a := d.Body.Answers[0]; a.Largest != largest-2 || a.Fails != largest-1 {
		t.Errorf("%d and %d, %d comes through: %s", a.Largest, a.Fails, largest-2, a.ProofText)
	}
	orders := map[bool]bool{}
	for _, x := range m.asked {
		if x.For == ForProof && x.Batch == largest-2 {
			orders[x.Longest] = true
		}
	}
	if len(orders) != 2 {
		t.Errorf("proofs of %d: %v", largest-2, orders)
	}
}

// TestRefusedAndNoStepLost: a library that asks for less when memory is refused ends no trial, and a script that
// loses a step by it does.
func TestRefusedAndNoStepLost(t *testing.T) {
	m := &machine{law: usualLaw(), refused: 3}
	d := mustRun(t, optionsOf(t, m, t.TempDir(), Plan{}))
	want := m.law.truth(Range{From: 1, To: 1000, Multiple: 1})
	if a := d.Body.Answers[0]; a.Largest != want || !strings.Contains(d.Body.Trials[0].Text, "refused 3 requests") {
		t.Errorf("%+v: %s", a, d.Body.Trials[0].Text)
	}
	seen, _ := m.try(1, Ask{Batch: 8, Steps: 20})
	seen.Run.Steps.Number = seen.Run.Steps.Number[:15]
	if x := judge(Ask{Batch: 8, Steps: 20}, false, seen, nil); x.Ending != EndedByMemory {
		t.Errorf("five steps were lost: %+v", x)
	}
}

// TestShapesFirst: when one trial had to be rehearsed with data, those after it are at once.
func TestShapesFirst(t *testing.T) {
	folder := t.TempDir()
	m := &machine{law: usualLaw(), data: true, stopAt: 3}
	mustRun(t, optionsOf(t, m, folder, Plan{}))
	next := &machine{law: usualLaw()}
	d := mustRun(t, optionsOf(t, next, folder, Plan{}))
	if m.asked[0].Data || !m.asked[1].Data || !next.asked[0].Data || !d.Body.Trials[0].Data {
		t.Errorf("%+v, %+v", m.asked, next.asked)
	}
}

// TestReached: what was not seen of an evaluation and a save is named with what to do, and the proof stands where all
// was.
func TestReached(t *testing.T) {
	num, rows, items := 60, 8, 4000
	proof := func(reached *evidence.Reached) string {
		run := evidence.NewRun("x")
		run.Reached = reached
		run.Levers = []evidence.Lever{{Lever: "longest", Done: true, Where: "DataLoader at a.py:1"}}
		x := Trial{Ask: Ask{Batch: rows}}
		x.read(run)
		x.Trained, x.Items = num, &items
		return x.missing()
	}
	if text := proof(&evidence.Reached{Evaluated: true, Saved: true}); text != "" {
		t.Errorf("all was seen: %s", text)
	}
	if text := proof(&evidence.Reached{Evaluated: true}); !strings.Contains(text,
		"saving a checkpoint (none came in 60 steps; an epoch has 500: --steps 167 goes beyond it)") ||
		strings.Contains(text, "evaluation") {
		t.Error(text)
	}
	if text := proof(nil); !strings.Contains(text, "an evaluation (it was not looked for)") {
		t.Error(text)
	}
	num = 600
	if text := proof(&evidence.Reached{}); !strings.Contains(text, "an evaluation (none came in 600 steps, and an epoch has 500)") {
		t.Error(text)
	}
}

// TestFlakyFailure: where another program took the memory once, the batch is tried again.
func TestFlakyFailure(t *testing.T) {
	l := usualLaw()
	want := l.truth(Range{From: 1, To: 1000, Multiple: 1})
	for step, readings := (Step{Batch: 8}), []Reading(nil); !step.Done; step = Next(Range{From: 1, Multiple: 1}, 0,
		l.limit, readings) {
		r := l.read(step.Batch)
		if len(readings) == 2 { // well below the limit
			if r.Fits = false; step.Again {
				t.Fatal("again too early")
			}
			r.Limit, r.Batch = l.limit, readings[1].Batch*3/2
			readings = append(readings, r)
			if again := Next(Range{From: 1, Multiple: 1}, 0, l.limit, readings); !again.Again ||
				again.Batch != r.Batch {
				t.Fatalf("not tried again: %+v", again)
			}
			r = l.read(r.Batch)
		}
		if readings = append(readings, r); len(readings) > 30 {
			t.Fatal("no end")
		}
		if best, _ := Best(Range{From: 1, Multiple: 1}, readings); best == want {
			return
		}
	}
	t.Errorf("%d was not found", want)
}

// TestCrashEnds: what is no want of memory ends the search with that error, and the same command tries it again.
func TestCrashEnds(t *testing.T) {
	folder := t.TempDir()
	m := &machine{law: usualLaw(), crashAt: 32}
	d := mustRun(t, optionsOf(t, m, folder, Plan{}))
	a := d.Body.Answers[0]
	if !strings.Contains(a.Error, "no more than 31 rows") || a.Largest != 8 || !d.Body.Done {
		t.Errorf("%+v", a)
	}
	mended := &machine{law: usualLaw()}
	a = mustRun(t, optionsOf(t, mended, folder, Plan{})).Body.Answers[0]
	if a.Error != "" || a.Largest != m.law.truth(Range{From: 1, To: 1000, Multiple: 1}) ||
		mended.asked[0].Batch != m.asked[1].Batch {
		t.Errorf("again: %+v after %+v", a, mended.asked)
	}
}

// TestDataEnds: no batch has more rows than the data.
func TestDataEnds(t *testing.T) {
	m := &machine{law: usualLaw(), items: 100}
	a := mustRun(t, optionsOf(t, m, t.TempDir(), Plan{})).Body.Answers[0]
	if a.Largest != 100 || a.Error != "" || !strings.Contains(a.LargestText, "100 rows in all") {
		t.Errorf("%+v", a)
	}
}

// TestGoesOn: a sweep that was stopped after any of its trials goes on with what is missing, and comes to the same.
func TestGoesOn(t *testing.T) {
	whole := &machine{law: usualLaw()}
	want := mustRun(t, optionsOf(t, whole, t.TempDir(), Plan{Timed: true}))
	for n := 1; n <= len(want.Body.Trials); n++ {
		folder := t.TempDir()
		first := &machine{law: usualLaw(), stopAt: n}
		d := mustRun(t, optionsOf(t, first, folder, Plan{Timed: true}))
		if d.Body.Done || !strings.Contains(d.Body.Stopped, "interrupted") || len(d.Body.Trials) != n {
			t.Fatalf("stopped at %d: %+v", n, d.Body.Stopped)
		}
		second := &machine{law: usualLaw()}
		var told []int
		o := optionsOf(t, second, folder, Plan{Timed: true})
		o.Tell = func(x Trial, _ float64) { told = append(told, x.Number) }
		d = mustRun(t, o)
		if len(second.asked) != len(whole.asked)-n+1 || second.asked[0].Batch != whole.asked[n-1].Batch ||
			d.Body.Answers[0].Largest != want.Body.Answers[0].Largest ||
			d.Body.Answers[0].Knee != want.Body.Answers[0].Knee {
			t.Errorf("stopped at %d: went on with %+v, came to %+v", n, second.asked, d.Body.Answers[0])
		}
		if !slices.IsSorted(told) || len(told) != len(d.Body.Trials) {
			t.Errorf("told of %v", told)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// TestNotStarted: a trial that cannot be made ends the sweep, and what is known is kept.
func TestNotStarted(t *testing.T) {
	folder := t.TempDir()
	d, err := Run(optionsOf(t, &machine{law: usualLaw(), failAt: 3}, folder, Plan{}))
	if err == nil || !strings.Contains(err.Error(), "no such interpreter") || len(d.Body.Trials) != 2 {
		t.Fatalf("%v, %+v", err, d)
	}
	if d, err = Load(folder); err != nil || len(d.Body.Trials) != 2 || !strings.Contains(d.Body.Stopped,
		"trial 3 was not made") {
		t.Errorf("%v, %+v", err, d)
	}
}

// TestLimitOfTime: no trial begins when the time is over.
func TestLimitOfTime(t *testing.T) {
	m := &machine{law: usualLaw()}
	o := optionsOf(t, m, t.TempDir(), Plan{})
	o.Limit = 8 // the clock of the test takes a second for each question
	d := mustRun(t, o)
	if d.Body.Done || !strings.Contains(d.Body.Stopped, "--limit") || len(m.asked) == 0 || len(m.asked) > 4 {
		t.Errorf("%d trials, %q", len(m.asked), d.Body.Stopped)
	}
}

// TestAnotherCommand: a folder that was begun with another command line is refused, and nothing of it is changed.
func TestAnotherCommand(t *testing.T) {
	folder := t.TempDir()
	mustRun(t, optionsOf(t, &machine{law: usualLaw()}, folder, Plan{}))
	before, _ := os.ReadFile(filepath.Join(folder, FileName))
	for name, change := range map[string]func(*Options){
		"the command":                   func(o *Options) { o.Asked.Command = []string{"python", "other.py"} },
		"another content of the script": func(o *Options) { o.Asked.Script = "abc" },
		"in another way":                func(o *Options) { o.Asked.ByAgent = true },
		"another target":                func(o *Options) { o.Asked.Target.AskedChip = "m4-16gb" },
		"another --for":                 func(o *Options) { o.Asked.For = 3 },
		"another --grid":                func(o *Options) { o.Asked.Plan.Cells = []string{"0"} },
		"other --remedies":              func(o *Options) { o.Asked.Plan.Remedies = []string{"autocast"} },
		"other batches or steps":        func(o *Options) { o.Asked.Plan.Range.Multiple = 2 },
	} {
		m := &machine{law: usualLaw()}
		o := optionsOf(t, m, folder, Plan{})
		change(&o)
		_, err := Run(o)
		if err == nil || !strings.Contains(err.Error(), name) || fault.HintOf(err) == "" ||
			fault.CodeOf(err) != fault.Usage ||
			len(m.asked) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, _ := os.ReadFile(filepath.Join(folder, FileName)); string(after) != string(before) {
		t.Error("the record was changed")
	}
}

// TestGrid: each value has its own search, and the next begins where the one before ended.
func TestGrid(t *testing.T) {
	m := &machine{law: usualLaw()}
	d := mustRun(t, optionsOf(t, m, t.TempDir(), Plan{Grid: "workers", Cells: []string{"0", "2"}}))
	want := m.law.truth(Range{From: 1, To: 1000, Multiple: 1})
	if len(d.Body.Answers) != 2 || d.Body.Answers[0].Largest != want || d.Body.Answers[1].Largest != want ||
		d.Body.Answers[1].Trials > 2 {
		t.Errorf("%+v", d.Body.Answers)
	}
	if f := d.Figure("batch.largest{workers=2}"); !f.Known() {
		t.Errorf("%+v", d.Figures)
	}
}

// TestJudge: what a trial comes to, by what was seen of it.
func TestJudge(t *testing.T) {
	run := func(inputs string, datasets ...evidence.Dataset) *evidence.Run {
		r := evidence.NewRun("x")
		r.Steps.Number = []int{1, 2, 3, 4}
		r.Shapes = []evidence.Shape{{Inputs: inputs, Steps: 4}}
		r.Provenance.Datasets = datasets
		return r
	}
	refused := run("f32[8,3] on mps")
	refused.Rehearsal = &evidence.Rehearsal{Refusals: []evidence.Refusal{{Cause: "memory",
		Text: "MPS backend out of memory (MPS allocated: 7.00 GB, other allocations: 1 MB, max allowed: 9.07 GB)"}}}
	none := run("f32[8,3] on mps")
	none.Steps.Number = nil
	for name, c := range map[string]struct {
		seen    Seen
		ask     Ask
		byAgent bool
		ending  EndingKind
		text    string
	}{
		"fits": {Seen{Run: run("f32[8,3] on mps")}, Ask{Batch: 8}, false, EndedWell, ""},
		"lowered": {Seen{Run: run("f32[4,3] on mps")}, Ask{Batch: 8}, false, EndedOtherBatch,
			"had 4 rows"},
		"another loader": {Seen{Run: run("f32[4,3] on mps", evidence.Dataset{Batch: 8},
			evidence.Dataset{Batch: 4})}, Ask{Batch: 8}, false, EndedOtherBatch, "had 4 rows"},
		"crops of each": {Seen{Run: run("f32[16,3] on mps", evidence.Dataset{Batch: 8})}, Ask{Batch: 8}, false,
			EndedWell, ""},
		"no agent": {Seen{Run: run("f32[8,3] on mps")}, Ask{Batch: 8}, true, EndedOtherBatch,
			"did not say"},
		"swallowed": {Seen{Run: refused}, Ask{Batch: 8}, false, EndedByMemory, "went on"},
		"killed": {Seen{Run: run("f32[8,3] on mps"), Signal: syscall.SIGKILL, Exit: 137}, Ask{Batch: 8},
			false, EndedByMemory, ""},
		"crashed": {Seen{Run: run("f32[8,3] on mps"), Exit: 1, Tail: "KeyError: 'x'"}, Ask{Batch: 8},
			false, EndedByCrash, "KeyError"},
		"no step": {Seen{Run: none}, Ask{Batch: 8}, false, EndedUntrained, "no training step"},
		"stopped by a person": {Seen{Run: run("f32[8,3] on mps"), Interrupted: true}, Ask{Batch: 8}, false,
			EndedByPerson, ""},
		"halves of the update": {Seen{Run: run("f32[4,3] on mps", evidence.Dataset{Batch: 4})}, Ask{Batch: 8,
			Accumulate: 2}, false, EndedOtherBatch, "accumulate"},
	} {
		got := judge(c.ask, c.byAgent, c.seen, nil)
		if got.Ending != c.ending || !strings.Contains(got.Text, c.text) {
			t.Errorf("%s: %s, %q", name, got.Ending, got.Text)
		}
		if name == "swallowed" && (got.Limit == nil || *got.Limit != 9.07*gib) {
			t.Errorf("limit of the text: %v", got.Limit)
		}
	}
}

// TestBought: what a remedy changes is beside the plain trial, and what is not known is not zero.
func TestBought(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	losses := func(vs ...float64) (list []*float64) {
		for _, v := range vs {
			list = append(list, num(v))
		}
		return list
	}
	trials := []Trial{
		{Ask: Ask{For: ForRemedy}, Ending: EndedWell, Peak: num(100), Step: num(2), Loss: losses(1, 0.5)},
		{Ask: Ask{For: ForRemedy, Remedy: "checkpoint"}, Ending: EndedWell, Peak: num(60), Step: num(3),
			Loss: losses(1, 0.5)},
		{Ask: Ask{For: ForRemedy, Remedy: "autocast"}, Ending: EndedWell, Peak: num(80), Loss: losses(1, 0.51)},
		{Ask: Ask{For: ForRemedy, Remedy: "fused_off"}, Ending: EndedOtherBatch,
			Text: "fused_off was not changed: no optimizer"},
		{Ask: Ask{For: ForRemedy, Remedy: "smaller"}, Ending: EndedWell, Peak: num(50), Loss: losses(1, 0.5)},
	}
	got := bought(trials, true)
	if len(got) != 4 || *got[0].Memory > -0.399 || *got[0].Memory < -0.401 || *got[0].Time != 0.5 ||
		*got[0].Loss != 0 || got[0].Losses != 2 {
		t.Errorf("checkpoint: %+v", got)
	}
	if got[1].Time != nil || *got[1].Loss < 0.0199 || *got[1].Loss > 0.0201 {
		t.Errorf("autocast: %+v", got[1])
	}
	if got[2].Memory != nil || got[2].Loss != nil || !strings.Contains(got[2].Text, "no optimizer") {
		t.Errorf("fused_off: %+v", got[2])
	}
	if got[3].Text != "losses are of smaller data" || got[3].Loss != nil {
		t.Errorf("smaller: %+v", got[3])
	}
	if bought(trials, false)[0].Time != nil {
		t.Error("a rehearsal has a time")
	}
}
