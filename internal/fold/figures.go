package fold

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/stats"
	"assay/internal/unit"
)

// builder fills one evidence.Run.
type builder struct {
	run    *evidence.Run
	p      *process
	f      *Fold
	basis  evidence.Basis
	steady []step // the steady window
	timed  []step // those whose phases can be trusted: with the hooks on, on a device synchronised
	async  bool
	noExit string // why there is no event exit, where there is none
	// metMore: more calls met facts than the table has rows
	metMore bool
	origin  int64 // the run's start on the process's clock, ns
}

// put adds a figure. What came out as no number is unknown: events may say anything.
func (b *builder) put(fig evidence.Figure) {
	for _, v := range []*float64{fig.Value, fig.Low, fig.High} {
		if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
			fig = evidence.Unknown(fig.Name, fig.Unit, "the events give no number for it")
			break
		}
	}
	b.run.Figures = append(b.run.Figures, fig)
}

func (b *builder) unknown(name, unit, reason string) { b.put(evidence.Unknown(name, unit, reason)) }

func (b *builder) known(name string, v float64, unit string, basis evidence.Basis, note string) {
	fig := evidence.Known(name, v, unit, basis)
	fig.Note = note
	b.put(fig)
}

// sample puts the median of xs with its quartiles.
func (b *builder) sample(name, unit string, xs []float64, window, note string) {
	s := stats.Summarize(xs)
	fig := evidence.Known(name, s.Median, unit, b.basis)
	if unit == "s" {
		note = b.lasting(note)
	}
	fig.Low, fig.High, fig.N, fig.Window, fig.Note = &s.Q1, &s.Q3, s.N, window, note
	b.put(fig)
}

// leftUnknown adds what every run has and nothing above worked out. Where that is for want of steps the reason is the
// one given.
func (b *builder) leftUnknown(noSteps string) {
	from := []catalogue.From{catalogue.Run}
	if b.run.Rehearsal != nil {
		from = append(from, catalogue.Rehearsal)
	}
	has := map[string]bool{}
	for _, fig := range b.run.Figures {
		has[fig.Name] = true
	}
	var phases []string
	for _, p := range b.run.Steps.Phases {
		phases = append(phases, p.Name)
	}
	for _, f := range from {
		for _, name := range catalogue.Names(f, phases) {
			row, _ := catalogue.Find(name)
			switch {
			case has[name]:
			case row.Steps && len(b.steady) == 0:
				b.unknown(name, row.Unit, noSteps)
			default:
				b.unknown(name, row.Unit, notLookedAt)
			}
		}
	}
}

// notLookedAt is the reason of a figure that the catalogue has and no part of the fold works out: TestEachFigureIsPut
// finds it.
const notLookedAt = "not looked at by this assay"

func (b *builder) find(name string, sev evidence.Severity, basis evidence.Basis, where, hint, format string,
	args ...any) {
	b.run.Findings = append(b.run.Findings, evidence.Finding{Name: name, Severity: sev,
		Text:  fmt.Sprintf(format, args...),
		Where: where, Hint: hint, Basis: basis})
}

// lasting adds to the note of a length what a rehearsal's lengths are worth.
func (b *builder) lasting(note string) string {
	if !b.rehearsal() {
		return note
	}
	return strings.TrimPrefix(note+"; "+notTheMacs, "; ")
}

func (b *builder) outcome() {
	o := &b.run.Outcome
	o.Started = true
	if e := b.f.exit; e != nil {
		b.run.Ended = e.Wall
		o.Exit, o.Signal, o.Stopped = e.Code, e.Signal, e.Stopped
	} else {
		b.run.Ended = b.f.start.Wall
		for _, s := range b.f.samples {
			b.run.Ended = b.f.start.Wall.Add(time.Duration(s.At * float64(time.Second)))
		}
		o.Exit = -1
	}
	seconds := b.run.Ended.Sub(b.run.Started).Seconds()
	b.known("run.time", seconds, "s", b.basis, b.lasting("wall time, start of Python to its end"))
	if p := b.p; p != nil {
		if p.stopping != nil {
			o.Stopped = p.stopping.Why
		}
		if p.err != nil {
			o.Error, o.Where = strings.TrimSpace(p.err.Type+": "+p.err.Text), p.err.Where
		}
	}
	if b.f.start.ID == "" {
		o.Started, o.Reason = false, "the first event is missing"
	}
}

// complete says whether all evidence of the run is there, and if not, what is missing and why.
func (b *builder) complete() {
	var why []string
	p := b.p
	if b.f.exit == nil {
		why = append(why, b.noExit)
	} else {
		e := b.f.exit
		switch {
		case e.Signal != "":
			why = append(why, "the script was ended by "+e.Signal+": events of its last quarter of a second may be missing")
		case p.bye == nil:
			why = append(why, "the process ended without a goodbye")
		case p.err != nil:
			why = append(why, "the script ended with "+p.err.Type)
		}
		why = append(why, e.Trouble...)
	}
	if b.f.start.Double != nil && !b.rehearsal() {
		why = append(why, "the double was not put in: "+b.noDouble())
	}
	if p.dropped > 0 {
		why = append(why, fmt.Sprintf("%d events were dropped by the agent", p.dropped))
	}
	if p.lost > 0 {
		why = append(why, fmt.Sprintf("%d steps beyond the first %d were not kept", p.lost, maxSteps))
	}
	if b.f.unread > 0 {
		why = append(why, fmt.Sprintf("%d lines of the event stream could not be read", b.f.unread))
	}
	b.run.Outcome.Reason = strings.Join(why, "; ")
	b.run.Outcome.Complete = len(why) == 0
}

func (b *builder) processes() {
	for i, c := range b.f.order {
		if i >= 100 {
			break
		}
		p := b.f.conns[c]
		row := evidence.Process{PID: p.hello.PID, Parent: p.hello.PPID, Argv: p.hello.Argv, Python: p.hello.Python,
			Steps:   len(p.steps),
			Trouble: p.trouble, Dropped: p.dropped, Rank: p.hello.Rank, Observed: p == b.p, Ended: "no goodbye"}
		if row.Argv == nil {
			row.Argv = []string{}
		}
		if p.bye != nil {
			row.Ended = p.bye.How
		}
		if p.framework != nil {
			row.Framework, row.Release = p.described()
		}
		switch {
		case i == 0:
			row.Role = "main"
		case p.hello.Rank != "":
			row.Role = "rank " + p.hello.Rank
		case strings.Contains(strings.Join(p.hello.Argv, " "), "multiprocessing"):
			row.Role = "worker"
		default:
			row.Role = "child"
		}
		b.run.Processes = append(b.run.Processes, row)
	}
}

func (b *builder) provenance() {
	pr := &b.run.Provenance
	pr.Assay, pr.Environment = b.f.start.Assay, b.f.start.Environ
	pr.Commit, pr.Dirty = b.f.git[0], b.f.git[1]
	pr.Datasets = b.f.data
	if p := b.p; p != nil {
		pr.Interpreter = p.hello.Executable
		if p.framework != nil {
			pr.Build = p.framework.build()
		}
	}
	if pr.Environment == nil {
		pr.Environment = map[string]string{}
	}
}

// target names the device that the losses were on, and with it the basis of what follows.
func (b *builder) target() {
	p, t := b.p, &b.run.Target
	t.Python, t.Device, t.Name = p.hello.Python, p.device.Type, p.device.Name
	if p.framework != nil {
		t.Framework, t.Release = p.framework.Name, p.framework.Version
		t.Backend, t.BackendRelease = p.backend()
	}
	b.async = p.device.queued() && !b.rehearsal() // the double computes where it is called
	b.origin = p.hello.Clock - int64((p.hello.Wall-float64(b.f.start.Wall.UnixNano())/1e9)*1e9)
}

// windows chooses the steps that the figures are taken from.
func (b *builder) windows() {
	steps := b.p.steps
	compiled := b.p.phases.part("compile")
	watched := func(s step) bool { return (s.kind == "" || s.kind == "sync") && compiled(s) == 0 }
	add := func(name string, in []step, excluded, kind string) {
		if len(in) > 0 {
			b.run.Windows = append(b.run.Windows, evidence.Window{Name: name, First: in[0].number,
				Last: in[len(in)-1].number, Steps: len(in), Excluded: excluded, Kind: kind})
		}
	}
	pick := func(test func(step) bool) []step { return picked(steps, test) }
	last := 0
	for _, s := range steps {
		last = max(last, s.epoch)
	}
	first := pick(func(s step) bool { return s.epoch == 1 && s.kind != "profile" && s.kind != "trace" })
	// The script's own loops turn faster than caches, kernels and threads settle.
	settles := last >= 2 && !b.byPasses() &&
		len(pick(func(s step) bool { return s.epoch >= 2 && s.number <= warmup && watched(s) })) > 0
	for _, from := range []struct {
		excluded string
		in       func(step) bool
	}{
		{fmt.Sprintf("first epoch and the first %d steps, ", warmup),
			func(s step) bool { return settles && s.epoch >= 2 && s.number > warmup }},
		{"first epoch, ", func(s step) bool { return last >= 2 && s.epoch >= 2 }},
		{fmt.Sprintf("the first %d steps, ", warmup), func(s step) bool { return s.number > warmup }},
		{"the first step, ", func(s step) bool { return s.number > 1 }},
	} {
		bare := pick(func(s step) bool { return s.kind == "bare" && from.in(s) })
		with := pick(func(s step) bool { return watched(s) && from.in(s) })
		if len(bare) < minBare && len(with) < minSteady {
			continue
		}
		b.timed = with
		if len(bare) >= minBare {
			b.steady = bare
			add("steady", bare, from.excluded+"profiled and traced steps, and those with the hooks on", "bare")
		} else {
			b.steady = with
			add("steady", with, from.excluded+"profiled and traced steps", "")
		}
		break
	}
	if len(b.steady) == 0 && len(steps) > 1 {
		b.steady = steps[1:]
		b.timed = b.steady
		add("steady", b.steady, "the first step; profiled and traced steps are in it, for want of others", "")
	}
	add("first-epoch", first, "profiled and traced steps", "")
	if b.async {
		synchronised := func(s step) bool { return s.kind == "sync" }
		if b.timed = picked(b.timed, synchronised); len(b.timed) == 0 {
			b.timed = pick(synchronised)
		}
		add("synchronised", b.timed, "all but those that were synchronised at their phase boundaries", "sync")
	} else if b.bareSteady() {
		if len(b.timed) < minSteady {
			b.timed = pick(func(s step) bool { return s.number > 1 && watched(s) })
		}
		add("watched", b.timed, "steps with the hooks off, profiled and traced steps", "")
	}
	add("profiled", pick(func(s step) bool { return s.kind == "profile" }), "", "profile")
}

// bareSteady reports whether the steady window is one of steps with the hooks off.
func (b *builder) bareSteady() bool { return len(b.steady) > 0 && b.steady[0].kind == "bare" }

// picked are the steps that pass the test: a part of the list where they follow one another, as they mostly do, else a
// copy.
func picked(steps []step, test func(step) bool) []step {
	from, to, n := -1, 0, 0
	for i := range steps {
		if test(steps[i]) {
			if from < 0 {
				from = i
			}
			to, n = i+1, n+1
		}
	}
	if n == 0 {
		return nil
	}
	if to-from == n {
		return steps[from:to:to]
	}
	in := make([]step, 0, n)
	for i := from; i < to; i++ {
		if test(steps[i]) {
			in = append(in, steps[i])
		}
	}
	return in
}

func seconds(steps []step, of func(step) int64) []float64 {
	xs := make([]float64, len(steps))
	for i, s := range steps {
		xs[i] = float64(of(s)) / 1e9
	}
	return xs
}

func total(s step) int64 { return s.total }

func (b *builder) split() {
	phases := b.p.phases.drawn()
	run := func(s step) float64 { return float64(s.start-b.origin) / 1e9 }
	if len(b.p.steps) > 0 {
		b.known("run.startup", run(b.p.steps[0]), "s", b.basis,
			b.lasting("from the start of Python to the first step: imports, data, model"))
	} else {
		b.unknown("run.startup", "s", b.noSteps())
	}
	if len(b.steady) == 0 {
		return // leftUnknown says why
	}
	free := picked(b.steady, func(s step) bool { return !b.async || s.kind != "sync" }) // unsynchronised
	if len(free) == 0 {
		free = b.steady
	}
	whole := seconds(free, total)
	note := ""
	if b.async {
		note = "unsynchronised: what the training loop itself takes"
	}
	if b.bareSteady() {
		note = fmt.Sprintf("of the %d steps of the window with the hooks off; the marks that count a step stay on, "+
			"and are in it", len(whole))
	} else if b.blocks() {
		note = strings.TrimPrefix(note+"; the hooks were on: their cost (agent.step) is in it", "; ")
	}
	means, of := b.stretches()
	if b.async && len(means) > 0 {
		// A host that runs ahead of its device waits in some of the steps for all: one step's length is none.
		q1, mid, q3 := weighed(means, of)
		fig := evidence.Known("step.time", mid, "s", b.basis)
		fig.Low, fig.High, fig.N, fig.Window = &q1, &q3, len(whole), "steady"
		fig.Note = fmt.Sprintf("%s; median of the means of %d stretches of steps, weighed by their steps: the device works behind the host", note, len(means))
		b.put(fig)
	} else {
		b.sample("step.time", "s", whole, "steady", note)
	}
	if b.async && len(b.timed) > 0 {
		b.sample("step.time.synchronised", "s", seconds(b.timed, total), "synchronised",
			b.p.words().sampled+"; the split is of these")
	} else if b.async {
		b.unknown("step.time.synchronised", "s", "no step was synchronised: the run was shorter than twenty steps")
	} else if b.rehearsal() {
		b.unknown("step.time.synchronised", "s", "the double computes on this machine's CPU: every step has its split")
	} else if why := b.p.unseen["forward"]; why != "" {
		b.unknown("step.time.synchronised", "s", "no step was taken apart: "+why)
	} else {
		b.unknown("step.time.synchronised", "s", "the device is synchronous: every step has its split")
	}
	first := picked(b.p.steps, func(s step) bool { return s.epoch == 1 && s.kind != "trace" && s.kind != "profile" })
	if len(first) > 0 && first[0].epoch == 1 {
		b.sample("step.first_epoch", "s", seconds(first, total), "first-epoch", "")
	} else {
		b.unknown("step.first_epoch", "s", b.noEpochs())
	}
	median := stats.Median(whole)
	if f := b.run.Figure("step.time"); f.Known() {
		median = *f.Value
	}
	rate := evidence.Known("step.rate", 1/median, "1/s", evidence.Derived)
	rate.Note = b.lasting("1 / step.time")
	b.put(rate)
	if n, ok := b.batch(); ok {
		micro := float64(max(1, medianMicro(b.steady)))
		b.known("samples.rate", float64(n)*micro/median, "1/s", evidence.Derived,
			b.lasting(fmt.Sprintf("batch size %d of the loader × %g micro-steps / step.time", n, micro)))
	} else {
		why := "no loader with a fixed batch size was seen"
		if len(b.p.loaders) > 0 && !b.fromLoader() {
			why = b.noLoader() + ": the size of a batch is not known"
		}
		b.unknown("samples.rate", "1/s", why)
	}
	if len(b.timed) == 0 {
		for _, p := range phases {
			b.unknown("split."+p.Name, "s", b.p.words().apart)
		}
		for _, p := range phases {
			b.unknown("share."+p.Name, "ratio", b.p.words().apart)
		}
		return
	}
	window := "steady"
	if b.async {
		window = "synchronised"
	} else if b.bareSteady() {
		window = "watched"
	}
	var sum float64
	for _, s := range b.timed {
		sum += float64(s.total)
	}
	reason := map[string]string{} // why a phase that took no time in any step is not known to have taken none
	for name, why := range b.p.unseen {
		reason[name] = why
	}
	if !b.fromLoader() {
		reason["data"] = b.noLoader() + "; what fetched the data counts as the rest"
	}
	switch {
	case b.run.Target.Device == "":
		reason["h2d"] = "it is not known on which device the steps ran"
	case !b.async && !b.rehearsal():
		reason["h2d"] = "the device is the CPU: nothing is copied to it"
	}
	if b.run.Loop != nil && b.run.Loop.Steps == evidence.ByCompiled {
		reason["optimizer"] = "the optimizer's step was compiled, and is not seen: it is in the rest"
	}
	if b.byHand() {
		reason["optimizer"] = "no torch.optim.Optimizer steps: the parameters are updated by hand, in the rest"
		reason["forward"] = "no module was called: what computes the loss and what updates the parameters by hand are " +
			"both in the rest"
	}
	took := map[string]float64{}
	for _, p := range phases {
		of := b.p.phases.part(p.Name)
		for _, s := range b.timed {
			took[p.Name] += float64(of(s))
		}
		if why := b.untimed(p.Name, reason, took); why != "" {
			b.unknown("split."+p.Name, "s", why)
			continue
		}
		b.sample("split."+p.Name, "s", seconds(b.timed, of), window, "")
	}
	for _, p := range phases {
		if why := b.untimed(p.Name, reason, took); why != "" {
			b.unknown("share."+p.Name, "ratio", why)
			continue
		}
		fig := evidence.Known("share."+p.Name, took[p.Name]/sum, "ratio", b.basis)
		fig.N, fig.Window, fig.Note = len(b.timed), window, "sum over the window's steps / their total time"
		b.put(fig)
	}
}

// untimed is why the time of a phase is not known: the agent says so, or it took none and there is a reason for that.
func (b *builder) untimed(phase string, reason map[string]string, took map[string]float64) string {
	if why := b.p.unseen[phase]; why != "" {
		return why
	}
	if took[phase] == 0 {
		return reason[phase]
	}
	return ""
}

func medianMicro(steps []step) int {
	xs := make([]float64, len(steps))
	for i, s := range steps {
		xs[i] = float64(s.micro)
	}
	if len(xs) == 0 {
		return 0
	}
	return int(math.Round(stats.Median(xs)))
}

// batch is the size that the training loader declares.
func (b *builder) batch() (int, bool) {
	if l, ok := b.trainingLoader(); ok && l.Batch != nil {
		return *l.Batch, true
	}
	return 0, false
}

func (b *builder) epochs() {
	p := b.p
	byEpoch := map[int][]step{}
	last := 0
	for from, to := 0, 0; from < len(p.steps); from = to { // steps of an epoch follow one another, mostly
		e := p.steps[from].epoch
		for to = from + 1; to < len(p.steps) && p.steps[to].epoch == e; to++ {
		}
		if piece := p.steps[from:to:to]; byEpoch[e] == nil {
			byEpoch[e] = piece
		} else {
			byEpoch[e] = append(byEpoch[e], piece...)
		}
		last = max(last, e)
	}
	var lengths, counts []float64
	for _, e := range slices.Sorted(maps.Keys(byEpoch)) { // and not up to the last: a number may be anything
		steps := byEpoch[e]
		if e <= 0 {
			continue
		}
		if len(b.run.Epochs) >= maxRows {
			break
		}
		first, end := steps[0], steps[len(steps)-1]
		row := evidence.Epoch{Number: e, First: first.number, Last: end.number,
			Seconds: float64(end.start+end.total-first.start) / 1e9}
		for _, s := range steps {
			row.Outside += float64(s.outside) / 1e9
		}
		ended, known := p.epochs[e]
		// Where no loader counts, ends of short epochs are not looked at, and not told.
		over := known || !b.byPasses() && (e < last || p.bye != nil)
		row.Complete = over && (e < last || b.wholePass(len(steps)))
		if known {
			row.Live, row.Pool, row.Resident = bytesOrNil(ended.Live), bytesOrNil(ended.Pool),
				bytesOrNil(ended.Resident)
		}
		if a, ok := p.alive[e]; ok {
			n := a.Tensors
			row.Tensors = &n
		}
		if row.Complete && (e > 1 || last == 1) {
			lengths = append(lengths, row.Seconds)
		}
		if row.Complete {
			counts = append(counts, float64(len(steps)))
		}
		b.run.Epochs = append(b.run.Epochs, row)
	}
	declared, ok := 0, false
	if l, has := b.trainingLoader(); has && l.Batches != nil && b.byPasses() {
		declared, ok = (*l.Batches+max(1, medianMicro(p.steps))-1)/max(1, medianMicro(p.steps)), true
	}
	switch {
	case len(lengths) > 0:
		b.sample("epoch.time", "s", lengths, "",
			"training part of a whole epoch, the first left out where there are others")
	case last > 0:
		b.unknown("epoch.time", "s", "no epoch was run to its end")
	default:
		b.unknown("epoch.time", "s", b.noEpochs())
	}
	switch {
	case len(counts) > 0:
		b.known("epoch.steps", stats.Median(counts), "1", b.basis, "steps of a whole epoch")
	case ok && last > 0:
		b.known("epoch.steps", float64(declared), "1", evidence.Declared, "len() of the loader, over the micro-steps")
	case last == 0:
		b.unknown("epoch.steps", "1", b.noEpochs())
	case !b.byPasses():
		b.unknown("epoch.steps", "1", "no epoch was run to its end")
	default:
		b.unknown("epoch.steps", "1", "the loader's length is not known (it has none, or only code of the script's would tell), and no pass ended")
	}
	steps := b.run.Figure("epoch.steps")
	if steps.Known() && len(b.steady) > 0 {
		mean, low, high := meanOf(seconds(b.steady, total))
		fig := evidence.Known("epoch.estimate", mean**steps.Value, "s", evidence.Derived)
		low, high = low**steps.Value, high**steps.Value
		fig.Low, fig.High, fig.N, fig.Window = &low, &high, len(b.steady), "steady"
		fig.Note = b.lasting("mean step of the steady window × epoch.steps, with its interval of 95 %; evaluation not in it" +
			b.told())
		b.put(fig)
	} else {
		b.unknown("epoch.estimate", "s", "steps of an epoch are not known")
	}
}

// told says what was estimated while the run went on.
func (b *builder) told() string {
	e := b.f.told
	if e == nil || e.Of != "epoch" {
		return ""
	}
	return fmt.Sprintf("; told at step %d: %s, between %s and %s", e.Last, unit.Seconds(e.Seconds), unit.Seconds(e.Low),
		unit.Seconds(e.High))
}

// wholePass reports whether the last epoch has as many steps as the one before it, or as the loader has batches.
func (b *builder) wholePass(n int) bool {
	if k := len(b.run.Epochs); k > 0 {
		before := b.run.Epochs[k-1]
		return n == before.Last-before.First+1
	}
	if l, ok := b.trainingLoader(); ok && l.Batches != nil && b.byPasses() {
		micro := max(1, medianMicro(b.p.steps))
		return n >= *l.Batches/micro
	}
	return b.p.bye != nil && b.p.stopping == nil && b.p.err == nil
}

func bytesOrNil(v int64) *float64 {
	if v < 0 {
		return nil
	}
	x := float64(v)
	return &x
}

func (b *builder) memory() {
	p := b.p
	live, pool := int64(-1), int64(-1)
	for _, s := range p.steps {
		live, pool = max(live, s.live), max(pool, s.pool)
	}
	liveNote, poolNote := p.words().reading, p.words().reading
	if p.peak.Live > 0 {
		live, liveNote = max(live, p.peak.Live), p.peak.Source
	}
	if p.peak.Pool > 0 {
		pool, poolNote = max(pool, p.peak.Pool), p.peak.Source
	} else if p.peak.Live > pool && pool >= 0 { // the readings have missed its peak
		pool, poolNote = p.peak.Live, "at least: "+p.peak.Source+", which counts what is in use without the cache"
	}
	none := "the device is the CPU: it has no allocator that counts; see the resident memory"
	switch device := b.run.Target.Device; device {
	case "cpu":
	case "":
		none = "no device was seen: " + b.noSteps()
	default:
		none = "the allocator of the device (" + device + ") was not read: no backward pass was seen on it"
	}
	put := func(name string, v int64, note string) {
		if v >= 0 {
			b.known(name, float64(v), "B", b.basis, note)
		} else {
			b.unknown(name, "B", none)
		}
	}
	put("memory.live.peak", live, liveNote)
	put("memory.pool.peak", pool, poolNote)
	if d := b.run.Target.Double; b.rehearsal() && p.limit.Bytes == 0 && d.Recommended != nil {
		// torch says it from 2.5 on
		p.limit = limitEvent{Bytes: float64(*d.Recommended), Source: "Metal's recommended working set"}
	}
	switch {
	case pool >= 0 && p.limit.Bytes > 0:
		b.known("memory.watermark", float64(pool)/p.limit.Bytes, "ratio", evidence.Derived,
			"memory.pool.peak / "+unit.Bytes(p.limit.Bytes)+" ("+p.limit.Source+")")
	case pool >= 0:
		b.unknown("memory.watermark", "ratio",
			p.words().noLimit)
	default:
		b.unknown("memory.watermark", "ratio", none)
	}
	b.growth()
	for _, phase := range p.phases.drawn() {
		rows := p.phaseMem[phase.Name]
		if len(rows) == 0 {
			continue
		}
		column := func(i int) *float64 {
			var xs []float64
			for _, r := range rows {
				if r[i] >= 0 {
					xs = append(xs, float64(r[i]))
				}
			}
			if len(xs) == 0 {
				return nil
			}
			m := stats.Median(xs)
			return &m
		}
		row := evidence.PhaseMem{Phase: phase.Name, Live: column(0), Pool: column(1), Resident: column(2),
			Swap: column(3), N: len(rows)}
		b.run.Memory = append(b.run.Memory, row)
	}
}

// growth fits a line through the memory at the end of each whole epoch, from the second on: the ratio of what the line
// gains from the first of them to the last, to where it starts.
func (b *builder) growth() {
	var x, y []float64
	what := "live"
	for _, pick := range []func(evidence.Epoch) *float64{func(e evidence.Epoch) *float64 { return e.Live },
		func(e evidence.Epoch) *float64 { return e.Resident }} {
		x, y = nil, nil
		for _, e := range b.run.Epochs {
			if v := pick(e); v != nil && e.Number >= 2 {
				x, y = append(x, float64(e.Number)), append(y, *v)
			}
		}
		if len(x) > 0 {
			break
		}
		what = "resident"
	}
	if len(x) < 3 {
		b.unknown("memory.growth", "ratio", fmt.Sprintf("needs the ends of three epochs after the first; there are %d",
			len(x)))
		return
	}
	a, slope, ok := stats.Line(x, y)
	from := a + slope*x[0]
	if !ok || from <= 0 {
		b.unknown("memory.growth", "ratio", "the memory at the ends of the epochs gives no line")
		return
	}
	span := x[len(x)-1] - x[0]
	fig := evidence.Known("memory.growth", slope*span/from, "ratio", evidence.Derived)
	fig.N = len(x)
	fig.Note = fmt.Sprintf("least-squares line through %s memory at the ends of epochs %g to %g: gain over %g epochs / its start", what, x[0], x[len(x)-1], span)
	b.put(fig)
}
