package probe

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/stats"
	"assay/internal/unit"
)

const (
	maxSteps   = 5_000_000 // steps kept of one process
	maxRows    = 2000      // rows of one table
	listed     = 20_000    // steps and losses listed in evidence.json; figures are computed from all
	warmup     = 10        // steps before the steady window of a run with one epoch or none: caches, kernels and threads settle
	minSteady  = 5         // fewer steps make no window
	dataShare  = 0.30      // share of data wait from which a finding says so
	maxSamples = 5000      // host samples kept
)

// step is one training step of a process. Times in ns.
type step struct {
	number, epoch, micro, evals, opts int
	start, total                      int64
	phase                             [6]int64 // in the order of phases
	live, pool                        int64
	outside                           int64
	kind                              string
}

// phases are the parts of a step, in the order that a step goes through them.
var phases = [6]string{"data", "h2d", "forward", "backward", "optimizer", "rest"}

// process is what one connection has told.
type process struct {
	hello     helloEvent
	torch     *torchEvent
	steps     []step
	lost      int // steps beyond maxSteps
	loaders   []loaderEvent
	device    deviceEvent
	limit     limitEvent
	shapes    map[string]shapeEvent
	shapeKeys []string
	syncs     map[string]evidence.SyncPoint
	syncKeys  []string
	losses    []lossPoint
	unread    int
	gradients map[int]bool
	grounds   map[string]int
	epochs    map[int]epochEvent
	alive     map[int]aliveEvent
	phaseMem  map[string][][4]int64
	peak      peakEvent
	fallbacks []fallbackEvent
	profile   *profileEvent
	only      *onlyEvent
	cost      costEvent
	err       *errorEvent
	late      []lateEvent
	skipped   []int
	scaler    bool
	compiled  bool
	stopping  *textEvent
	bye       *textEvent
	trouble   []string
	dropped   int
}

type lossPoint struct {
	step  int
	value float64
}

// fold adds up the events of a run. Add is called once an event, in the order of arrival; finish makes the evidence.
// What it does not know or cannot read it counts and reports; it never fails.
type fold struct {
	start   startEvent
	exit    *exitEvent
	conns   map[int]*process
	order   []int
	samples []evidence.Sample
	host    []evidence.Fact
	apps    [2][]evidence.App
	git     [2]string
	data    []evidence.Dataset
	unread  int // lines that were no event
	dir     string
}

// startEvent is the supervisor's first line.
type startEvent struct {
	ID       string            `json:"id"`
	Wall     time.Time         `json:"wall"`
	Subject  evidence.Subject  `json:"subject"`
	Asked    string            `json:"asked"`
	System   string            `json:"system"`
	Assay    string            `json:"assay"`
	Environ  map[string]string `json:"environ"`
	WarnLong float64           `json:"warn_epoch_seconds"`
	Options  map[string]string `json:"options"`
}

// exitEvent is the supervisor's last line.
type exitEvent struct {
	Wall    time.Time `json:"wall"`
	Code    int       `json:"code"`
	Signal  string    `json:"signal"`
	Stopped string    `json:"stopped"`
	Trouble []string  `json:"trouble"`
}

type hostEvent struct {
	Facts    []evidence.Fact    `json:"facts"`
	Sample   *evidence.Sample   `json:"sample"`
	Apps     []evidence.App     `json:"apps"`
	At       string             `json:"at"` // start, end
	Commit   string             `json:"commit"`
	Dirty    string             `json:"dirty"`
	Datasets []evidence.Dataset `json:"datasets"`
}

// Supervisor is the connection number of the supervisor's own events.
const supervisor = 0

func newFold() *fold { return &fold{conns: map[int]*process{}} }

// Add takes one event of one connection.
func (f *fold) add(conn int, line []byte) {
	var kind struct {
		Ev string `json:"ev"`
	}
	if json.Unmarshal(line, &kind) != nil {
		f.unread++
		return
	}
	if conn == supervisor {
		f.addOwn(kind.Ev, line)
		return
	}
	p := f.conns[conn]
	if p == nil && kind.Ev == "hello" {
		// A process whose stream broke goes on with a new one under the same token.
		var hello helloEvent
		if json.Unmarshal(line, &hello) == nil && hello.Token != "" {
			for _, c := range f.order {
				if f.conns[c].hello.Token == hello.Token {
					f.conns[conn] = f.conns[c]
					return
				}
			}
		}
	}
	if p == nil {
		p = &process{shapes: map[string]shapeEvent{}, syncs: map[string]evidence.SyncPoint{}, gradients: map[int]bool{},
			grounds: map[string]int{}, epochs: map[int]epochEvent{}, alive: map[int]aliveEvent{}, phaseMem: map[string][][4]int64{}}
		f.conns[conn] = p
		f.order = append(f.order, conn)
	}
	if !p.add(kind.Ev, line) {
		f.unread++
	}
}

func (f *fold) addOwn(ev string, line []byte) {
	ok := true
	switch ev {
	case "start":
		ok = json.Unmarshal(line, &f.start) == nil
	case "exit":
		f.exit = &exitEvent{}
		ok = json.Unmarshal(line, f.exit) == nil
	case "host":
		var h hostEvent
		ok = json.Unmarshal(line, &h) == nil
		if h.Facts != nil {
			f.host = h.Facts
		}
		if h.Sample != nil && len(f.samples) < maxSamples {
			f.samples = append(f.samples, *h.Sample)
		}
		switch h.At {
		case "start":
			f.apps[0] = h.Apps
		case "end":
			f.apps[1] = h.Apps
		}
		if h.Commit != "" || h.Dirty != "" {
			f.git = [2]string{h.Commit, h.Dirty}
		}
		if h.Datasets != nil {
			f.data = h.Datasets
		}
	}
	if !ok {
		f.unread++
	}
}

// add takes one event of the process; false where it could not be read.
func (p *process) add(ev string, line []byte) bool {
	into := func(v any) bool { return json.Unmarshal(line, v) == nil }
	switch ev {
	case "hello":
		return into(&p.hello)
	case "torch":
		p.torch = &torchEvent{}
		return into(p.torch)
	case "steps":
		var e stepsEvent
		if !into(&e) || !e.even() {
			return false
		}
		for i := range e.Number {
			if len(p.steps) >= maxSteps {
				p.lost++
				continue
			}
			if e.Total[i] <= 0 {
				return false // no step takes no time
			}
			p.steps = append(p.steps, step{number: e.Number[i], epoch: e.Epoch[i], micro: e.Micro[i], evals: e.Evals[i], opts: e.Opts[i],
				start: e.Start[i], total: e.Total[i], live: e.Live[i], pool: e.Pool[i], outside: e.Outside[i], kind: e.Kind[i],
				phase: [6]int64{e.Data[i], e.H2D[i], e.Forward[i], e.Backward[i], e.Optimizer[i], e.Rest[i]}})
		}
		return true
	case "loader":
		var e loaderEvent
		ok := into(&e)
		if ok && len(p.loaders) < maxRows {
			p.loaders = append(p.loaders, e)
		}
		return ok
	case "device":
		return into(&p.device)
	case "limit":
		return into(&p.limit)
	case "shape":
		var e shapeEvent
		ok := into(&e)
		key := e.Model + "\x00" + e.Inputs
		if _, known := p.shapes[key]; !known {
			if len(p.shapeKeys) >= maxRows {
				return ok
			}
			p.shapeKeys = append(p.shapeKeys, key)
		}
		p.shapes[key] = e
		return ok
	case "syncs":
		var e syncsEvent
		ok := into(&e)
		for _, row := range e.Rows {
			p.addSync(row)
		}
		return ok
	case "loss":
		var e lossEvent
		if !into(&e) || len(e.Step) != len(e.Value) {
			return false
		}
		for i, v := range e.Value {
			x := math.NaN()
			switch v := v.(type) {
			case float64:
				x = v
			case string:
				if v == "inf" {
					x = math.Inf(1)
				} else if v == "-inf" {
					x = math.Inf(-1)
				}
			}
			if len(p.losses) < maxSteps {
				p.losses = append(p.losses, lossPoint{e.Step[i], x})
			}
		}
		return true
	case "loss_unread":
		var e textEvent
		ok := into(&e)
		p.unread += e.Count
		return ok
	case "gradients":
		var e gradientsEvent
		if !into(&e) || len(e.Step) != len(e.Finite) {
			return false
		}
		for i, s := range e.Step {
			if known, ok := p.gradients[s]; ok {
				p.gradients[s] = known && e.Finite[i]
			} else if len(p.gradients) < maxSteps {
				p.gradients[s] = e.Finite[i]
			}
		}
		return true
	case "accumulation":
		var e accumulationEvent
		ok := into(&e)
		p.grounds = e.Grounds
		return ok
	case "epoch":
		var e epochEvent
		ok := into(&e)
		if len(p.epochs) < maxRows {
			p.epochs[e.Number] = e
		}
		return ok
	case "alive":
		var e aliveEvent
		ok := into(&e)
		if len(p.alive) < maxRows {
			p.alive[e.Epoch] = e
		}
		return ok
	case "memory":
		var e memoryEvent
		ok := into(&e)
		for name, rows := range e.Phases {
			if len(p.phaseMem[name]) < maxSteps && (len(p.phaseMem) < len(phases) || p.phaseMem[name] != nil) {
				p.phaseMem[name] = append(p.phaseMem[name], rows...)
			}
		}
		return ok
	case "peak":
		return into(&p.peak)
	case "fallback":
		var e fallbackEvent
		ok := into(&e)
		if ok && len(p.fallbacks) < maxRows {
			p.fallbacks = append(p.fallbacks, e)
		}
		return ok
	case "profile":
		p.profile = &profileEvent{}
		return into(p.profile)
	case "only":
		p.only = &onlyEvent{}
		return into(p.only)
	case "cost":
		return into(&p.cost)
	case "error":
		p.err = &errorEvent{}
		return into(p.err)
	case "late":
		var e lateEvent
		ok := into(&e)
		p.late = append(p.late, e)
		return ok
	case "resumed":
		p.bye = nil
		return true
	case "skipped", "scaler", "compile", "stopping", "bye", "trouble", "dropped", "installed":
		var e textEvent
		ok := into(&e)
		switch ev {
		case "skipped":
			p.scaler = true
			if len(p.skipped) < maxRows {
				p.skipped = append(p.skipped, e.Step)
			}
		case "scaler":
			p.scaler = true
		case "compile":
			p.compiled = true
		case "stopping":
			p.stopping = &e
		case "bye":
			p.bye = &e
		case "trouble":
			if len(p.trouble) < 50 {
				p.trouble = append(p.trouble, e.What)
			}
		case "dropped":
			p.dropped += e.Count
		}
		return ok
	}
	return true // an event of a later agent
}

func (p *process) addSync(row []any) {
	if len(row) != 7 {
		return
	}
	text := func(i int) string { s, _ := row[i].(string); return s }
	number := func(i int) float64 { v, _ := row[i].(float64); return v }
	waits, _ := row[5].(bool)
	s := evidence.SyncPoint{Call: text(0), Where: text(1), Via: text(2), Count: int(number(3)), Lost: number(4) / 1e9, Waits: waits, Steps: int(number(6))}
	key := s.Call + "\x00" + s.Where + "\x00" + s.Via
	if _, known := p.syncs[key]; !known {
		if len(p.syncKeys) >= maxRows {
			return
		}
		p.syncKeys = append(p.syncKeys, key)
	}
	p.syncs[key] = s
}

// finish makes the evidence of what was added.
func (f *fold) finish() *evidence.Run {
	run := &evidence.Run{
		Schema: evidence.Schema, ID: f.start.ID, Started: f.start.Wall, Subject: f.start.Subject,
		Target:   evidence.Target{Asked: f.start.Asked, System: f.start.System},
		Figures:  []evidence.Figure{},
		Windows:  []evidence.Window{},
		Epochs:   []evidence.Epoch{},
		Findings: []evidence.Finding{}, Fallbacks: []evidence.Fallback{}, Syncs: []evidence.SyncPoint{}, Memory: []evidence.PhaseMem{},
		Retained: []evidence.Retained{}, Operators: []evidence.Operator{}, Shapes: []evidence.Shape{}, Processes: []evidence.Process{},
		Host: evidence.HostReport{Facts: f.host, Samples: f.samples, Apps: f.apps[0], AppsEnd: f.apps[1]},
	}
	p := f.main()
	b := &builder{run: run, p: p, f: f}
	b.outcome()
	b.processes()
	b.provenance()
	b.host()
	if p == nil {
		reason := "the agent never said hello: Python was started with -I, -E or -S, or no Python was started"
		for _, fig := range figures {
			b.unknown(fig.name, fig.unit, reason)
		}
		run.Outcome.Reason = reason
		if b.f.exit != nil && b.f.exit.Signal != "" {
			run.Outcome.Reason += "; the command was ended by " + b.f.exit.Signal
		}
		run.Profile.Missing = reason
		run.Numerics.LossScaled = "unknown: " + reason
		empty(run)
		return run
	}
	b.target()
	b.windows()
	b.split()
	b.epochs()
	b.memory()
	b.tables()
	b.numerics()
	b.series()
	b.only()
	b.cost()
	b.findings()
	b.complete()
	empty(run)
	return run
}

// main is the process whose steps the evidence is about: the one with most steps, then the first.
func (f *fold) main() *process {
	var best *process
	for _, c := range f.order {
		p := f.conns[c]
		if p.hello.PID == 0 {
			continue
		}
		if best == nil || len(p.steps) > len(best.steps) || (len(p.steps) == len(best.steps) && best.torch == nil && p.torch != nil) {
			best = p
		}
	}
	// Of ranks that train alike, the first speaks for all.
	for _, c := range f.order {
		p := f.conns[c]
		if best != nil && p.hello.Rank == "0" && best.hello.Rank != "0" && len(p.steps) >= len(best.steps)*9/10 && len(p.steps) > 0 {
			best = p
		}
	}
	return best
}

// figures lists, in order, the figures that every run has, known or not.
var figures = []struct{ name, unit string }{
	{"step.time", "s"}, {"step.time.synchronised", "s"}, {"step.first_epoch", "s"}, {"step.rate", "1/s"}, {"samples.rate", "1/s"},
	{"split.data", "s"}, {"split.h2d", "s"}, {"split.forward", "s"}, {"split.backward", "s"}, {"split.optimizer", "s"}, {"split.rest", "s"},
	{"share.data", "ratio"}, {"share.h2d", "ratio"}, {"share.forward", "ratio"}, {"share.backward", "ratio"}, {"share.optimizer", "ratio"}, {"share.rest", "ratio"},
	{"epoch.time", "s"}, {"epoch.steps", "1"}, {"epoch.estimate", "s"},
	{"memory.live.peak", "B"}, {"memory.pool.peak", "B"}, {"memory.watermark", "ratio"}, {"memory.growth", "ratio"},
	{"loss.first", "1"}, {"loss.last", "1"}, {"agent.step", "s"}, {"agent.share", "ratio"}, {"agent.total", "s"},
}

// builder fills one evidence.Run.
type builder struct {
	run    *evidence.Run
	p      *process
	f      *fold
	basis  evidence.Basis
	steady []step // the steady window
	timed  []step // those of them whose phases can be trusted
	async  bool
	origin int64 // the run's start on the process's clock, ns
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
	fig.Low, fig.High, fig.N, fig.Window, fig.Note = &s.Q1, &s.Q3, s.N, window, note
	b.put(fig)
}

func (b *builder) find(name string, sev evidence.Severity, basis evidence.Basis, where, hint, format string, args ...any) {
	b.run.Findings = append(b.run.Findings, evidence.Finding{Name: name, Severity: sev, Text: fmt.Sprintf(format, args...),
		Where: where, Hint: hint, Basis: basis})
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
	b.known("run.time", seconds, "s", evidence.Measured, "wall time, start of Python to its end")
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
		why = append(why, "assay itself was ended before the run was")
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
		row := evidence.Process{PID: p.hello.PID, Parent: p.hello.PPID, Argv: p.hello.Argv, Python: p.hello.Python, Steps: len(p.steps),
			Trouble: p.trouble, Dropped: p.dropped, Rank: p.hello.Rank, Observed: p == b.p, Ended: "no goodbye"}
		if row.Argv == nil {
			row.Argv = []string{}
		}
		if p.bye != nil {
			row.Ended = p.bye.How
		}
		if p.torch != nil {
			row.Torch = p.torch.Version
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
		if p.torch != nil {
			pr.Torch, pr.TorchBuild = p.torch.Version, p.torch.Git
		}
	}
	if pr.Environment == nil {
		pr.Environment = map[string]string{}
	}
}

// target names the device that the losses were on, and with it the basis of what follows.
func (b *builder) target() {
	p, t := b.p, &b.run.Target
	b.basis = evidence.Measured
	t.Python, t.Device, t.Name = p.hello.Python, p.device.Type, p.device.Name
	if p.torch != nil {
		t.Framework, t.Release = "torch", p.torch.Version
	}
	b.async = t.Device != "" && t.Device != "cpu"
	b.origin = p.hello.Clock - int64((p.hello.Wall-float64(b.f.start.Wall.UnixNano())/1e9)*1e9)
}

// windows chooses the steps that the figures are taken from.
func (b *builder) windows() {
	steps := b.p.steps
	plain := func(s step) bool { return s.kind == "" || s.kind == "sync" }
	add := func(name string, in []step, excluded string) {
		if len(in) > 0 {
			b.run.Windows = append(b.run.Windows, evidence.Window{Name: name, First: in[0].number, Last: in[len(in)-1].number, Steps: len(in), Excluded: excluded})
		}
	}
	pick := func(test func(step) bool) (in []step) {
		for _, s := range steps {
			if test(s) {
				in = append(in, s)
			}
		}
		return in
	}
	last := 0
	for _, s := range steps {
		last = max(last, s.epoch)
	}
	first := pick(func(s step) bool { return s.epoch == 1 && plain(s) })
	excluded := "profiled and traced steps"
	if last >= 2 {
		b.steady = pick(func(s step) bool { return s.epoch >= 2 && plain(s) })
		excluded = "first epoch, " + excluded
	}
	if len(b.steady) < minSteady {
		b.steady = pick(func(s step) bool { return s.number > warmup && plain(s) })
		excluded = fmt.Sprintf("the first %d steps, profiled and traced steps", warmup)
	}
	if len(b.steady) < minSteady {
		b.steady = pick(func(s step) bool { return s.number > 1 && plain(s) })
		excluded = "the first step, profiled and traced steps"
	}
	if len(b.steady) < minSteady && len(steps) > 1 {
		b.steady = steps[1:]
		excluded = "the first step; profiled and traced steps are in it, for want of others"
	}
	add("steady", b.steady, excluded)
	if len(first) > 0 {
		add("first-epoch", first, "profiled and traced steps")
	}
	for _, s := range b.steady {
		if !b.async || s.kind == "sync" {
			b.timed = append(b.timed, s)
		}
	}
	if b.async {
		if len(b.timed) == 0 {
			b.timed = pick(func(s step) bool { return s.kind == "sync" })
		}
		add("synchronised", b.timed, "all but one step in twenty, synchronised at its phase boundaries")
	}
	add("profiled", pick(func(s step) bool { return s.kind == "profile" }), "")
}

func seconds(steps []step, of func(step) int64) []float64 {
	xs := make([]float64, len(steps))
	for i, s := range steps {
		xs[i] = float64(of(s)) / 1e9
	}
	return xs
}

func total(s step) int64 { return s.total }

// noSteps says why there is no step to speak of.
func (b *builder) noSteps() string {
	p := b.p
	switch {
	case p.torch == nil:
		return "the script imported no framework that the agent knows (PyTorch)"
	case len(p.steps) > 0:
		return fmt.Sprintf("only %d steps were seen", len(p.steps))
	case p.device.Type != "":
		return "backward passes were seen, but no step of a torch.optim.Optimizer: the loop's shape was not recognised"
	}
	return "no training step was seen: neither a backward pass nor an optimizer step"
}

func (b *builder) split() {
	run := func(s step) float64 { return float64(s.start-b.origin) / 1e9 }
	if len(b.p.steps) > 0 {
		b.known("run.startup", run(b.p.steps[0]), "s", b.basis, "from the start of Python to the first step: imports, data, model")
	} else {
		b.unknown("run.startup", "s", b.noSteps())
	}
	if len(b.steady) == 0 {
		for _, fig := range figures[:17] {
			b.unknown(fig.name, fig.unit, b.noSteps())
		}
		return
	}
	var free []step // unsynchronised
	for _, s := range b.steady {
		if !b.async || s.kind != "sync" {
			free = append(free, s)
		}
	}
	if len(free) == 0 {
		free = b.steady
	}
	whole := seconds(free, total)
	note := ""
	if b.async {
		note = "unsynchronised: what the training loop itself takes"
	}
	b.sample("step.time", "s", whole, "steady", note)
	if b.async && len(b.timed) > 0 {
		b.sample("step.time.synchronised", "s", seconds(b.timed, total), "synchronised", "with the device waited for at each phase boundary; the split is of these")
	} else if b.async {
		b.unknown("step.time.synchronised", "s", "no step was synchronised: the run was shorter than twenty steps")
	} else {
		b.unknown("step.time.synchronised", "s", "the device is synchronous: every step has its split")
	}
	var first []step
	for _, s := range b.p.steps {
		if s.epoch == 1 && s.kind != "trace" && s.kind != "profile" {
			first = append(first, s)
		}
	}
	if len(first) > 0 && first[0].epoch == 1 {
		b.sample("step.first_epoch", "s", seconds(first, total), "first-epoch", "")
	} else {
		b.unknown("step.first_epoch", "s", b.noEpochs())
	}
	median := stats.Median(whole)
	rate := evidence.Known("step.rate", 1/median, "1/s", evidence.Derived)
	rate.Note = "1 / step.time"
	b.put(rate)
	if n, ok := b.batch(); ok {
		micro := float64(max(1, medianMicro(b.steady)))
		b.known("samples.rate", float64(n)*micro/median, "1/s", evidence.Derived, fmt.Sprintf("batch size %d of the loader × %g micro-steps / step.time", n, micro))
	} else {
		b.unknown("samples.rate", "1/s", "no loader with a fixed batch size was seen")
	}
	if len(b.timed) == 0 {
		for _, name := range phases {
			b.unknown("split."+name, "s", "the device is asynchronous and no step was synchronised: the run was shorter than twenty steps")
		}
		for _, name := range phases {
			b.unknown("share."+name, "ratio", "the device is asynchronous and no step was synchronised: the run was shorter than twenty steps")
		}
		return
	}
	window := "steady"
	if b.async {
		window = "synchronised"
	}
	var sum float64
	for _, s := range b.timed {
		sum += float64(s.total)
	}
	reason := map[string]string{}
	if len(b.p.loaders) == 0 {
		reason["data"] = "no torch DataLoader was read in the loop; what fetched the data counts as the rest"
	}
	if !b.async {
		reason["h2d"] = "the device is the CPU: nothing is copied to it"
	}
	for i, name := range phases {
		if why := reason[name]; why != "" {
			b.unknown("split."+name, "s", why)
			continue
		}
		b.sample("split."+name, "s", seconds(b.timed, func(s step) int64 { return s.phase[i] }), window, "")
	}
	for i, name := range phases {
		if why := reason[name]; why != "" {
			b.unknown("share."+name, "ratio", why)
			continue
		}
		var part float64
		for _, s := range b.timed {
			part += float64(s.phase[i])
		}
		fig := evidence.Known("share."+name, part/sum, "ratio", b.basis)
		fig.N, fig.Window, fig.Note = len(b.timed), window, "sum over the window's steps / their total time"
		b.put(fig)
	}
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

// trainingLoader is the first loader that was read: a training loop reads its own before it evaluates, with few exceptions;
// where several loaders exist the one whose number of batches fits the steps of an epoch is taken.
func (b *builder) trainingLoader() (loaderEvent, bool) {
	if len(b.p.loaders) == 0 {
		return loaderEvent{}, false
	}
	per := 0
	for _, s := range b.p.steps {
		if s.epoch == 1 {
			per++
		}
	}
	micro := max(1, medianMicro(b.p.steps))
	for _, l := range b.p.loaders {
		if l.Batches != nil && per > 0 && (*l.Batches+micro-1)/micro == per {
			return l, true
		}
	}
	return b.p.loaders[0], true
}

func (b *builder) noEpochs() string {
	if len(b.p.loaders) == 0 {
		return "no epoch was seen: the loop reads no torch DataLoader"
	}
	return "no epoch was seen"
}

func (b *builder) epochs() {
	p := b.p
	byEpoch := map[int][]step{}
	last := 0
	for _, s := range p.steps {
		if s.epoch > 0 {
			byEpoch[s.epoch] = append(byEpoch[s.epoch], s)
			last = max(last, s.epoch)
		}
	}
	var lengths, counts []float64
	for e := 1; e <= last && len(b.run.Epochs) < maxRows; e++ {
		steps := byEpoch[e]
		if len(steps) == 0 {
			continue
		}
		first, end := steps[0], steps[len(steps)-1]
		row := evidence.Epoch{Number: e, First: first.number, Last: end.number, Seconds: float64(end.start+end.total-first.start) / 1e9}
		for _, s := range steps {
			row.Outside += float64(s.outside) / 1e9
		}
		ended, known := p.epochs[e]
		row.Complete = known && (e < last || b.wholePass(len(steps)))
		if known {
			row.Live, row.Pool, row.Resident = bytesOrNil(ended.Live), bytesOrNil(ended.Pool), bytesOrNil(ended.Resident)
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
	if l, has := b.trainingLoader(); has && l.Batches != nil {
		declared, ok = (*l.Batches+max(1, medianMicro(p.steps))-1)/max(1, medianMicro(p.steps)), true
	}
	switch {
	case len(lengths) > 0:
		b.sample("epoch.time", "s", lengths, "", "training part of a whole epoch, the first left out where there are others")
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
	default:
		b.unknown("epoch.steps", "1", "the loader's length is not known (an iterable dataset) and no pass ended")
	}
	steps := b.run.Figure("epoch.steps")
	if steps.Known() && len(b.steady) > 0 {
		var sum float64
		for _, s := range b.steady {
			sum += float64(s.total) / 1e9
		}
		b.known("epoch.estimate", sum/float64(len(b.steady))**steps.Value, "s", evidence.Derived, "mean step of the steady window × epoch.steps; evaluation not in it")
	} else {
		b.unknown("epoch.estimate", "s", "steps of an epoch are not known")
	}
}

// wholePass reports whether the last epoch has as many steps as the one before it, or as the loader has batches.
func (b *builder) wholePass(n int) bool {
	if k := len(b.run.Epochs); k > 0 {
		before := b.run.Epochs[k-1]
		return n == before.Last-before.First+1
	}
	if l, ok := b.trainingLoader(); ok && l.Batches != nil {
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
	note := "highest of the readings at the start of each backward pass"
	if p.peak.Live > 0 {
		live, pool, note = max(live, p.peak.Live), max(pool, p.peak.Pool), p.peak.Source+" at the end of an epoch"
	}
	none := "the device is the CPU: it has no allocator that counts; see the resident memory"
	if b.run.Target.Device == "" {
		none = "no device was seen: " + b.noSteps()
	}
	put := func(name string, v int64) {
		if v >= 0 {
			b.known(name, float64(v), "B", b.basis, note)
		} else {
			b.unknown(name, "B", none)
		}
	}
	put("memory.live.peak", live)
	put("memory.pool.peak", pool)
	switch {
	case pool >= 0 && p.limit.Bytes > 0:
		b.known("memory.watermark", float64(pool)/p.limit.Bytes, "ratio", evidence.Derived, "memory.pool.peak / "+unit.Bytes(p.limit.Bytes)+" ("+p.limit.Source+")")
	case pool >= 0:
		b.unknown("memory.watermark", "ratio", "this release does not say the recommended maximum (torch.mps.recommended_max_memory is there from 2.5 on)")
	default:
		b.unknown("memory.watermark", "ratio", none)
	}
	b.growth()
	order := []string{"data", "h2d", "forward", "backward", "optimizer"}
	for _, name := range order {
		rows := p.phaseMem[name]
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
		row := evidence.PhaseMem{Phase: name, Live: column(0), Pool: column(1), Resident: column(2), Swap: column(3), N: len(rows)}
		b.run.Memory = append(b.run.Memory, row)
	}
}

// growth fits a line through the memory at the end of each whole epoch, from the second on: the ratio of what the line gains
// from the first of them to the last, to where it starts.
func (b *builder) growth() {
	var x, y []float64
	what := "live"
	for _, pick := range []func(evidence.Epoch) *float64{func(e evidence.Epoch) *float64 { return e.Live }, func(e evidence.Epoch) *float64 { return e.Resident }} {
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
		b.unknown("memory.growth", "ratio", fmt.Sprintf("needs the ends of three epochs after the first; there are %d", len(x)))
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

func (b *builder) tables() {
	p, run := b.p, b.run
	for _, key := range p.syncKeys {
		s := p.syncs[key]
		s.Where, s.Via = b.place(s.Where), b.place(s.Via)
		run.Syncs = append(run.Syncs, s)
	}
	sort.SliceStable(run.Syncs, func(i, j int) bool {
		a, c := run.Syncs[i], run.Syncs[j]
		if a.Waits != c.Waits {
			return a.Waits
		}
		return a.Lost > c.Lost
	})
	seen := map[string]int{}
	for _, e := range p.fallbacks {
		where := b.place(e.Where)
		key := e.Operator + "\x00" + where
		if i, ok := seen[key]; ok {
			run.Fallbacks[i].Count += e.Count
			continue
		}
		seen[key] = len(run.Fallbacks)
		run.Fallbacks = append(run.Fallbacks, evidence.Fallback{Operator: e.Operator, Count: e.Count, Where: where, Basis: evidence.Measured,
			Note: "PyTorch warns once a process: later calls and other operators fall back in silence"})
	}
	if p.profile != nil {
		for _, row := range p.profile.Kernels {
			if len(row) != 2 {
				continue
			}
			name, _ := row[0].(string)
			count, _ := row[1].(float64)
			run.Fallbacks = append(run.Fallbacks, evidence.Fallback{Operator: name, Count: int(count), Basis: evidence.Derived,
				Note: "calls in the profiled window; the dispatcher of this build has no MPS kernel for it"})
		}
	}
	for _, key := range p.shapeKeys {
		e := p.shapes[key]
		run.Shapes = append(run.Shapes, evidence.Shape{Model: e.Model, Inputs: e.Inputs, Steps: e.Calls, First: e.First})
	}
	retained := map[string]*evidence.Retained{}
	var lines []string
	var ends []int
	for e := range p.alive {
		ends = append(ends, e)
	}
	sort.Ints(ends)
	for _, e := range ends {
		for _, row := range p.alive[e].Retained {
			if len(row) != 3 {
				continue
			}
			where, _ := row[0].(string)
			n, _ := row[1].(float64)
			size, _ := row[2].(float64)
			r := retained[where]
			if r == nil {
				r = &evidence.Retained{Where: b.place(where), Epochs: []int{}}
				retained[where] = r
				lines = append(lines, where)
			}
			r.Tensors += int(n)
			r.Bytes += int64(size)
			r.Steps += p.alive[e].Steps
			r.Epochs = append(r.Epochs, e)
		}
	}
	for _, where := range lines {
		run.Retained = append(run.Retained, *retained[where])
	}
	sort.SliceStable(run.Retained, func(i, j int) bool { return run.Retained[i].Bytes > run.Retained[j].Bytes })
	switch {
	case p.profile == nil && b.f.start.Options["only"] != "":
		run.Profile.Missing = "left out of an --only run"
	case p.profile == nil && b.f.start.Options["profile"] == "off":
		run.Profile.Missing = "left out as asked (--profile=off)"
	case p.profile == nil:
		run.Profile.Missing = "the profiled window never began or never ended"
	case p.profile.Missing != "":
		run.Profile.Missing = p.profile.Missing
	default:
		run.Profile.First, run.Profile.Last = p.profile.First, p.profile.Last
		run.Profile.Steps = max(0, p.profile.Last-p.profile.First+1)
		run.Profile.Trace = filepath.Base(p.profile.File)
	}
}

// place makes a path below the subject's folder relative to it.
func (b *builder) place(where string) string {
	if rel, ok := strings.CutPrefix(where, b.run.Subject.Dir+"/"); ok {
		return rel
	}
	return where
}

func (b *builder) numerics() {
	p, n := b.p, &b.run.Numerics
	n.Scaler, n.SkippedSteps = p.scaler, p.skipped
	seen := map[int]bool{}
	for _, l := range p.losses {
		if (math.IsNaN(l.value) || math.IsInf(l.value, 0)) && !seen[l.step] && len(n.NonFiniteLosses) < maxRows {
			seen[l.step] = true
			n.NonFiniteLosses = append(n.NonFiniteLosses, l.step)
		}
	}
	n.GradSteps = len(p.gradients)
	for s, finite := range p.gradients {
		if !finite {
			n.NonFiniteGrads = append(n.NonFiniteGrads, s)
		}
	}
	sort.Ints(n.NonFiniteGrads)
	var micro []float64
	for _, s := range p.steps {
		micro = append(micro, float64(s.micro))
	}
	if len(micro) > 0 {
		n.MicroSteps = stats.Median(micro)
	}
	n.LossScaled = b.scaled()
	if len(p.losses) == 0 {
		b.unknown("loss.first", "1", "no scalar was passed to backward")
		b.unknown("loss.last", "1", "no scalar was passed to backward")
		return
	}
	put := func(name string, l lossPoint) {
		if math.IsNaN(l.value) || math.IsInf(l.value, 0) {
			b.unknown(name, "1", fmt.Sprintf("the loss of step %d is not finite (%v)", l.step, l.value))
			return
		}
		b.known(name, l.value, "1", b.basis, fmt.Sprintf("as passed to backward, unscaled; step %d", l.step))
	}
	put("loss.first", p.losses[0])
	put("loss.last", p.losses[len(p.losses)-1])
}

// scaled says whether the loss was divided to match the micro-steps of an optimizer step.
func (b *builder) scaled() string {
	micro := b.run.Numerics.MicroSteps
	switch {
	case len(b.p.steps) == 0:
		return "unknown: " + b.noSteps()
	case micro < 2:
		return "not needed: one batch an optimizer step"
	case len(b.p.grounds) == 0:
		return "unknown: the graph of no micro-step was looked at"
	}
	var best string
	for ground, n := range b.p.grounds {
		if best == "" || n > b.p.grounds[best] || (n == b.p.grounds[best] && ground < best) {
			best = ground
		}
	}
	want := fmt.Sprintf("divided by %g", micro)
	inverse := fmt.Sprintf("multiplied by %g", 1/micro)
	switch {
	case best == want || best == inverse:
		return "yes: " + best
	case strings.HasPrefix(best, "divided by"), strings.HasPrefix(best, "multiplied by"):
		return fmt.Sprintf("unknown: %s, for %g micro-steps", best, micro)
	}
	return "not seen: " + best
}

func (b *builder) series() {
	p := b.p
	thin := (len(p.steps) + listed - 1) / listed
	s := &b.run.Steps
	if thin > 1 {
		s.Thin = thin
	}
	for i, st := range p.steps {
		if thin > 1 && i%thin != 0 {
			continue
		}
		s.Number = append(s.Number, st.number)
		s.Start = append(s.Start, float64(st.start-b.origin)/1e9)
		s.Total = append(s.Total, float64(st.total)/1e9)
		for j, col := range []*[]float64{&s.Data, &s.H2D, &s.Fwd, &s.Bwd, &s.Opt, &s.Rest} {
			*col = append(*col, float64(st.phase[j])/1e9)
		}
		s.Epoch = append(s.Epoch, st.epoch)
		s.Micro = append(s.Micro, st.micro)
		s.Kind = append(s.Kind, st.kind)
		s.Live = append(s.Live, float64(st.live))
		s.Pool = append(s.Pool, float64(st.pool))
	}
	thin = max(1, (len(p.losses)+listed-1)/listed)
	for i, l := range p.losses {
		if i%thin != 0 {
			continue
		}
		b.run.Loss.Step = append(b.run.Loss.Step, l.step)
		var v *float64
		if !math.IsNaN(l.value) && !math.IsInf(l.value, 0) {
			x := l.value
			v = &x
		}
		b.run.Loss.Value = append(b.run.Loss.Value, v)
	}
	if p.unread > 0 {
		b.run.Loss.Note = fmt.Sprintf("%d losses were not read: the script never waited for the device while they were held", p.unread)
	}
}

func (b *builder) only() {
	e := b.p.only
	if e == nil {
		if what := b.f.start.Options["only"]; what != "" {
			b.find("only-not-reached", evidence.Warning, evidence.Measured, "", "the loop must read a torch DataLoader and run some thirty steps, or a whole epoch",
				"--only %s was asked for, and the run ended before the loop could be taken over", what)
		}
		return
	}
	xs := make([]float64, len(e.NS))
	for i, ns := range e.NS {
		xs[i] = float64(ns) / 1e9
	}
	if len(xs) == 0 {
		return
	}
	o := &evidence.Only{What: e.What}
	s := stats.Summarize(xs)
	o.Each = evidence.Known("only."+e.What, s.Median, "s", b.basis)
	o.Each.Low, o.Each.High, o.Each.N = &s.Q1, &s.Q3, s.N
	o.Each.Note = e.Why
	o.Step = b.run.Figure("step.time")
	switch {
	case !o.Step.Known():
		o.Verdict = fmt.Sprintf("%s alone: %s a batch; no steady step to compare it with", e.What, unit.Seconds(s.Mean))
	case e.What == "data":
		micro := float64(max(1, medianMicro(b.p.steps)))
		o.Verdict = dataVerdict(s.Mean*micro, *o.Step.Value)
	default:
		o.Verdict = fmt.Sprintf("the forward pass alone takes %s of a step of %s (%.0f %%); backward, optimizer, data and the rest share %s",
			unit.Seconds(s.Median), unit.Seconds(*o.Step.Value), 100*s.Median / *o.Step.Value, unit.Seconds(max(0, *o.Step.Value-s.Median)))
	}
	b.run.Only = o
	b.find("only-"+e.What, evidence.Note, b.basis, "", "", "%s", o.Verdict)
}

// dataVerdict compares what the loader needs for a step's batches, alone, with the step. With workers the two overlap, without
// they add up; either way a loader that alone is slower than nine tenths of the step is what the step waits for.
func dataVerdict(data, step float64) string {
	ratio := data / step
	switch {
	case ratio >= 0.9:
		return fmt.Sprintf("the loader alone needs %s for a step of %s: the device waits for the data", unit.Seconds(data), unit.Seconds(step))
	case ratio >= 0.3:
		return fmt.Sprintf("the loader alone needs %s of a step of %s (%.0f %%): both sides count; workers that load ahead would hide it", unit.Seconds(data), unit.Seconds(step), 100*ratio)
	}
	return fmt.Sprintf("the loader alone needs %s for a step of %s (%.0f %%): the compute is what takes the time", unit.Seconds(data), unit.Seconds(step), 100*ratio)
}

func (b *builder) cost() {
	c := b.p.cost
	if c.Steps == 0 {
		for _, name := range []string{"agent.step", "agent.total"} {
			b.unknown(name, "s", "no step was seen")
		}
		b.unknown("agent.share", "ratio", "no step was seen")
		return
	}
	per := float64(c.HooksNS+c.ThreadNS) / float64(c.Steps) / 1e9
	b.known("agent.step", per, "s", evidence.Derived, "hook calls × the time of one, calibrated in this process, and the sender thread's CPU time, per step")
	if f := b.run.Figure("step.time"); f.Known() {
		b.known("agent.share", per / *f.Value, "ratio", evidence.Derived, "agent.step / step.time")
	} else {
		b.unknown("agent.share", "ratio", "step.time is not known")
	}
	b.known("agent.total", float64(c.HooksNS+c.ThreadNS+c.HeavyNS)/1e9, "s", evidence.Derived,
		"with the profiler's start and end, the traced windows and the looks at memory, which stand between steps")
}

// resident is the highest of all readings: the sampler's of the process tree, the kernel's own maximum of the first process,
// and the agent's.
func (b *builder) resident() {
	best, n := -1.0, 0
	take := func(v float64) {
		best = max(best, v)
		n++
	}
	for _, s := range b.f.samples {
		for _, fig := range s.Figures {
			if fig.Known() && (fig.Name == "process.resident" || fig.Name == "process.peak") {
				take(*fig.Value)
			}
		}
	}
	if b.p != nil {
		for _, rows := range b.p.phaseMem {
			for _, r := range rows {
				take(float64(r[2]))
			}
		}
		for _, e := range b.p.epochs {
			take(float64(e.Resident))
		}
	}
	if best < 0 {
		b.unknown("memory.resident.peak", "B", "not sampled")
		return
	}
	fig := evidence.Known("memory.resident.peak", best, "B", evidence.Measured)
	fig.N, fig.Note = n, "highest reading of the process tree (sampler), of the first process's own maximum (kernel) and of the agent"
	b.put(fig)
}

// host adds the means and peaks of the samples.
func (b *builder) host() {
	add := func(name, source, unitName string, peak bool) {
		var xs []float64
		missing := "not sampled"
		basis := evidence.Measured
		for _, s := range b.f.samples {
			for _, fig := range s.Figures {
				if fig.Name != source {
					continue
				}
				if fig.Known() {
					xs = append(xs, *fig.Value)
					basis = fig.Basis
				} else {
					missing = fig.Missing
				}
			}
		}
		if len(xs) == 0 {
			b.unknown(name, unitName, missing)
			return
		}
		s := stats.Summarize(xs)
		v := s.Mean
		if peak {
			v = s.Max
		}
		fig := evidence.Known(name, v, unitName, basis)
		fig.N = s.N
		fig.Note = source + " over the run's samples"
		b.put(fig)
	}
	b.resident()
	add("memory.footprint.peak", "process.footprint", "B", true)
	add("swap.used.peak", "host.swap.used", "B", true)
	add("host.cpu.mean", "host.cpu", "ratio", false)
	add("gpu.busy.mean", "gpu.busy", "ratio", false)
	add("gpu.power.mean", "gpu.power", "W", false)
}

func (b *builder) findings() {
	p, run := b.p, b.run
	warn := b.f.start.WarnLong
	if warn == 0 {
		warn = DefaultWarnEpoch
	}
	for _, name := range []string{"epoch.time", "epoch.estimate"} {
		if fig := run.Figure(name); fig.Known() && *fig.Value > warn {
			b.find("long-epoch", evidence.Warning, fig.Basis, "", "try a smaller resolution or subset first, or another lane; --warn-epoch sets the limit",
				"an epoch takes %s, more than %s", unit.Seconds(*fig.Value), unit.Seconds(warn))
			break
		}
	}
	if len(p.steps) == 0 && p.torch != nil {
		b.find("loop-not-recognised", evidence.Warning, evidence.Measured, "", "a step is recognised by torch.optim.Optimizer.step, forward by nn.Module calls or by what stands before backward", "%s", b.noSteps())
	}
	if asked := run.Target.Asked; asked != "auto" && asked != "" && run.Target.Device != "" && asked != run.Target.Device {
		b.find("other-device", evidence.Error, evidence.Measured, "", "pass the script's own device option as well",
			"%s was asked for, and the losses were on %s", asked, run.Target.Device)
	}
	if share := run.Figure("share.data"); share.Known() && *share.Value >= dataShare {
		workers := 0
		if l, ok := b.trainingLoader(); ok {
			workers = l.Workers
		}
		b.find("data-wait", evidence.Warning, share.Basis, "", "assay run --only data tells what the loader can give alone; num_workers is worth trying",
			"%.0f %% of the step is spent waiting for data (num_workers=%d)", 100**share.Value, workers)
	}
	n := run.Numerics
	if len(n.NonFiniteLosses) > 0 {
		b.find("non-finite-loss", evidence.Error, evidence.Measured, "", "look at the step before it: learning rate, half precision, log or division",
			"the loss is not finite at step %s", few(n.NonFiniteLosses))
	}
	if len(n.NonFiniteGrads) > 0 {
		sev := evidence.Error
		if n.Scaler {
			sev = evidence.Note // a GradScaler finds its scale by overflowing now and then
		}
		b.find("non-finite-gradient", sev, evidence.Measured, "", "", "gradients are not finite at step %s (one step in twenty is checked)", few(n.NonFiniteGrads))
	}
	if len(n.SkippedSteps) > 0 {
		b.find("skipped-steps", evidence.Note, evidence.Measured, "", "", "the GradScaler skipped %d steps: %s", len(n.SkippedSteps), few(n.SkippedSteps))
	}
	if strings.HasPrefix(n.LossScaled, "not seen") {
		b.find("unscaled-accumulation", evidence.Warning, evidence.Derived, "", fmt.Sprintf("divide the loss by %g before backward, or scale the learning rate knowingly", n.MicroSteps),
			"%g batches are gathered for one optimizer step, and the loss was not seen to be divided to match (%s)", n.MicroSteps, n.LossScaled)
	}
	for _, r := range run.Retained {
		b.find("retained-tensors", evidence.Warning, evidence.Measured, r.Where, "keep numbers (loss.item(), now and then) or detached copies on the CPU",
			"%d tensors (%s) made in %d traced steps were still alive at the end of the epoch", r.Tensors, unit.Bytes(float64(r.Bytes)), r.Steps)
	}
	var ends []int
	for e := range p.alive {
		ends = append(ends, e)
	}
	sort.Ints(ends)
	for i := len(ends) - 1; i >= 0; i-- {
		if g := p.alive[ends[i]].Graph; g != nil {
			b.find("retained-graph", evidence.Warning, evidence.Measured, b.place(g.Name), "add loss.detach(), or loss.item() now and then",
				"a tensor holds the graph of %d additions: a running total of losses keeps every step's graph alive", g.Additions)
			break
		}
	}
	if g := run.Figure("memory.growth"); g.Known() && *g.Value/float64(g.N-1) > growthAnEpoch {
		b.find("memory-growth", evidence.Warning, g.Basis, "", "see the retained tensors", "memory grew by %.0f %% over the epochs (%s)", 100**g.Value, g.Note)
	}
	waits, lost := 0, 0.0
	for _, s := range run.Syncs {
		if s.Waits && s.Steps > 0 {
			waits += s.Steps
			lost += s.Lost
		}
	}
	if steps := len(p.steps); waits > 0 && steps > 0 {
		b.find("synchronisation", evidence.Note, evidence.Measured, run.Syncs[0].Where, "read values every so many steps, or keep them on the device until the end of the epoch",
			"%.1f calls a step make the host wait for the device, %s in all", float64(waits)/float64(steps), unit.Seconds(lost))
	}
	for _, fb := range run.Fallbacks {
		if fb.Basis == evidence.Measured {
			b.find("fallback", evidence.Warning, fb.Basis, fb.Where, "", "operator %s ran on the CPU", fb.Operator)
		}
	}
	for _, l := range p.late {
		b.find("variable-too-late", evidence.Warning, evidence.Measured, "", "set it before import torch, or in the shell",
			"%s was set to %q after PyTorch had read it (as %q): it has no effect", l.Name, l.Now, l.Then)
	}
	if p.compiled {
		b.find("compiled", evidence.Note, evidence.Measured, "", "", "torch.compile is in use: forward is the compiled module's call, or all the time up to the backward pass")
	}
	if p.hello.Translated != nil && *p.hello.Translated == 1 {
		b.find("translated", evidence.Error, evidence.Measured, "", "install an arm64 Python; Rosetta has no Metal for PyTorch", "Python runs translated by Rosetta")
	}
	order := map[evidence.Severity]int{evidence.Error: 0, evidence.Warning: 1, evidence.Note: 2}
	sort.SliceStable(run.Findings, func(i, j int) bool { return order[run.Findings[i].Severity] < order[run.Findings[j].Severity] })
}

// growthAnEpoch is the pace of the project's default gate, 26 % over ten epochs. Here it only earns a line; gates judge.
const growthAnEpoch = 0.026

// DefaultWarnEpoch is the length of an epoch, in seconds, above which a run is warned about: half an hour.
const DefaultWarnEpoch = 30 * 60

func few(xs []int) string {
	s := make([]string, 0, 6)
	for i, x := range xs {
		if i == 5 {
			s = append(s, fmt.Sprintf("… %d in all", len(xs)))
			break
		}
		s = append(s, fmt.Sprint(x))
	}
	return strings.Join(s, ", ")
}

// empty makes every list of the run one: JSON readers get [] and never null.
func empty(run *evidence.Run) {
	n := &run.Numerics
	for _, l := range []*[]int{&n.NonFiniteLosses, &n.NonFiniteGrads, &n.SkippedSteps, &run.Steps.Number, &run.Steps.Epoch, &run.Steps.Micro, &run.Loss.Step} {
		if *l == nil {
			*l = []int{}
		}
	}
	s := &run.Steps
	for _, l := range []*[]float64{&s.Start, &s.Total, &s.Data, &s.H2D, &s.Fwd, &s.Bwd, &s.Opt, &s.Rest, &s.Live, &s.Pool} {
		if *l == nil {
			*l = []float64{}
		}
	}
	if s.Kind == nil {
		s.Kind = []string{}
	}
	if run.Loss.Value == nil {
		run.Loss.Value = []*float64{}
	}
	h := &run.Host
	if h.Facts == nil {
		h.Facts = []evidence.Fact{}
	}
	if h.Samples == nil {
		h.Samples = []evidence.Sample{}
	}
	if h.Apps == nil {
		h.Apps = []evidence.App{}
	}
	if h.AppsEnd == nil {
		h.AppsEnd = []evidence.App{}
	}
	p := &run.Provenance
	if p.Packages == nil {
		p.Packages = []string{}
	}
	if p.Datasets == nil {
		p.Datasets = []evidence.Dataset{}
	}
	if p.Environment == nil {
		p.Environment = map[string]string{}
	}
	if run.Subject.Command == nil {
		run.Subject.Command = []string{}
	}
}
