// Package fold adds the events of a run up to its evidence. It is pure: the same events in the same order give the same
// evidence, whether they come over a socket while the run goes on or from a file later. It opens nothing, starts
// nothing, and asks no clock.
package fold

import (
	"encoding/json"
	"slices"
	"time"

	"assay/internal/evidence"
	"assay/internal/target"
)

const (
	maxSteps = 5_000_000 // steps kept of one process
	maxRows  = 2000      // rows of one table
	listed   = 20_000    // steps and losses listed in evidence.json; figures are computed from all
	// steps before the steady window of a run with one epoch or none: caches, kernels and threads settle
	warmup     = 10
	minSteady  = 5    // fewer steps make no window
	minBare    = 20   // fewer steps with the hooks off make no steady window
	maxSamples = 5000 // host samples kept

	maxProcesses = 20_000 // connections kept of a run; those of loader workers that never train among them
)

// allocatorLimits are those that a script can set an allocator.
var allocatorLimits = []string{"memory", "cache", "wired"}

// step is one training step of a process. Times in ns.
type step struct {
	number, micro, evals, opts int
	epoch, told                int // the epoch, and the one that the agent told: builder.loop
	start, total               int64
	phase                      []int64 // by processPhases.number
	live, pool                 int64
	outside                    int64
	// from the end of the last optimizer step of the step before to that of its own, the agent's own work with it; 0:
	// not known
	raw  int64
	kind string
}

// process is what one connection has told.
type process struct {
	hello     helloEvent
	framework *frameworkEvent // the one that trains, as far as is known: the first that was imported
	imported  []frameworkEvent
	trains    trainsEvent
	compiles  map[string]evidence.Compile
	lossWhat  string
	phases    processPhases
	steps     []step
	lost      int // steps beyond maxSteps
	loaders   []LoaderEvent
	loop      *loopEvent  // nil: of an agent that did not say
	counted   int         // id of the loader that epochs are counted by; 0: not told
	declared  lengthEvent // of an epoch or the run, by something that says it in steps
	bar       barEvent
	device    deviceEvent
	limit     limitEvent
	unseen    map[string]string // phase -> why it has no time
	allocator map[string]allocatorEvent
	shapes    map[string]shapeEvent
	shapeKeys []string
	syncs     map[string]evidence.SyncPoint
	syncKeys  []string
	losses    []lossPoint
	unread    int
	passed    int
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
	blocks    []blockEvent
	err       *errorEvent
	late      []lateEvent
	skipped   []int
	scaler    bool
	compiled  bool
	stopping  *textEvent
	bye       *textEvent
	trouble   []string
	dropped   int
	rehearsed rehearsed
	threads   []threadErrorEvent // threads that an exception ended
	logged    loggedSeries
	seeds     *seedsEvent
	settings  []settingsEvent // the first and the last
	levers    []evidence.Lever
	exhausted totals[outOfMemoryEvent]
	reached   *evidence.Reached // the last that was told
}

type lossPoint struct {
	step  int
	value float64
}

// Fold adds up the events of a run. Add is called once an event, in the order of arrival; Finish makes the evidence of
// what came so far, and may be called again when more has come. What it does not know or cannot read it counts and
// reports; it never fails.
type Fold struct {
	start   StartEvent
	exit    *ExitEvent
	conns   map[int]*process
	tokens  map[string]*process // by the token of their hello, the first of each
	order   []int
	samples []evidence.Sample
	host    []evidence.Fact
	apps    [2][]evidence.App
	git     [2]string
	data    []evidence.Dataset
	unread  int // lines that were no event
	retest  *RetestEvent
	told    *EstimateEvent // the first
}

// StartEvent is the supervisor's first line.
type StartEvent struct {
	ID      string           `json:"id"`
	Wall    time.Time        `json:"wall"`
	Subject evidence.Subject `json:"subject"`
	target.Target
	System   string            `json:"system"`
	Assay    string            `json:"assay"`
	Environ  map[string]string `json:"environ"`
	WarnLong float64           `json:"warn_epoch_seconds"`
	Options  map[string]string `json:"options"`
	Double   *target.Settings  `json:"double,omitempty"` // of a rehearsal
}

// ExitEvent is the supervisor's last line.
type ExitEvent struct {
	Wall    time.Time `json:"wall"`
	Code    int       `json:"code"`
	Signal  string    `json:"signal"`
	Stopped string    `json:"stopped"`
	Trouble []string  `json:"trouble"`
}

// HostEvent is what the supervisor sees of the machine; each line holds a part.
type HostEvent struct {
	Facts    []evidence.Fact    `json:"facts"`
	Sample   *evidence.Sample   `json:"sample"`
	Apps     []evidence.App     `json:"apps"`
	At       string             `json:"at"` // start, end
	Commit   string             `json:"commit"`
	Dirty    string             `json:"dirty"`
	Datasets []evidence.Dataset `json:"datasets"`
}

// Supervisor is the connection number of the supervisor's own events.
const Supervisor = 0

// New makes an empty one.
func New() *Fold { return &Fold{conns: map[int]*process{}, tokens: map[string]*process{}} }

// Add takes one event of one connection: a JSON object with its kind in "ev".
func (f *Fold) Add(conn int, line []byte) {
	ev, ok := KindOf(line)
	if !ok {
		f.unread++
		return
	}
	if conn == Supervisor {
		f.addOwn(ev, line)
		return
	}
	p := f.conns[conn]
	if p == nil && ev == "hello" {
		// A process whose stream broke goes on with a new one under the same token.
		var hello helloEvent
		if json.Unmarshal(line, &hello) == nil && hello.Token != "" {
			if first := f.tokens[hello.Token]; first != nil {
				f.conns[conn] = first
				return
			}
		}
	}
	if p == nil {
		if len(f.order) >= maxProcesses {
			f.unread++
			return
		}
		p = &process{shapes: map[string]shapeEvent{}, syncs: map[string]evidence.SyncPoint{}, gradients: map[int]bool{},
			grounds: map[string]int{}, epochs: map[int]epochEvent{}, alive: map[int]aliveEvent{},
			phaseMem: map[string][][4]int64{}, allocator: map[string]allocatorEvent{}}
		f.conns[conn] = p
		f.order = append(f.order, conn)
	}
	if !p.add(ev, line) {
		f.unread++
	}
	if token := p.hello.Token; ev == "hello" && token != "" && f.tokens[token] == nil {
		f.tokens[token] = p
	}
}

// Unreadable counts a line that is no event.
func (f *Fold) Unreadable() { f.unread++ }

// Begun reports whether the event start was among those added: without it these are not the events of a run.
func (f *Fold) Begun() bool { return f.start.ID != "" }

// Ended reports whether the event exit was among those added: a run without it is under way, or was cut off.
func (f *Fold) Ended() bool { return f.exit != nil }

// EndsAlone is a fold of the same run that knows how it began and how it ended, and nothing else.
func (f *Fold) EndsAlone() *Fold {
	alone := New()
	alone.start, alone.exit = f.start, f.exit
	return alone
}

// Paths is sys.path of the process that the evidence is about; nil where there is none yet.
func (f *Fold) Paths() []string {
	if p := f.main(); p != nil {
		return p.hello.Path
	}
	return nil
}

// FailedTests are the ids of pytest's tests that failed on the double so far.
func (f *Fold) FailedTests() []string {
	var ids []string
	for _, c := range f.order {
		for _, e := range f.conns[c].rehearsed.failed {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (f *Fold) addOwn(ev string, line []byte) {
	ok := true
	switch ev {
	case "start":
		ok = json.Unmarshal(line, &f.start) == nil
	case "exit":
		f.exit = &ExitEvent{}
		ok = json.Unmarshal(line, f.exit) == nil
	case "retest":
		f.retest = &RetestEvent{}
		ok = json.Unmarshal(line, f.retest) == nil
	case "estimate":
		e := EstimateEvent{}
		if ok = json.Unmarshal(line, &e) == nil; ok && f.told == nil {
			f.told = &e
		}
	case "host":
		var h HostEvent
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
	if known, ok := p.rehearsed.add(ev, into); known {
		return ok
	}
	switch ev {
	case "hello":
		return into(&p.hello)
	case "framework", "torch":
		e := frameworkEvent{Name: "torch"}
		ok := into(&e)
		if ok && len(p.imported) < maxFrameworks {
			p.imported = append(p.imported, e)
			p.lead()
		}
		return ok
	case "trains":
		ok := into(&p.trains)
		p.lead()
		return ok
	case "compiles":
		var e compilesEvent
		ok := into(&e)
		for _, row := range e.Rows {
			p.addCompile(row)
		}
		return ok
	case "phases":
		var e phasesEvent
		return into(&e) && p.phases.declare(e)
	case "steps":
		var e stepsEvent
		if !into(&e) || !e.even() {
			return false
		}
		columns := p.phases.columns(&e)
		if columns == nil {
			return false
		}
		parts := make([]int64, len(e.Number)*len(columns)) // of all its steps in one piece
		for i := range e.Number {
			if len(p.steps) >= maxSteps {
				p.lost++
				continue
			}
			if e.Total[i] <= 0 {
				return false // no step takes no time
			}
			phase := parts[i*len(columns) : (i+1)*len(columns) : (i+1)*len(columns)]
			for n, column := range columns {
				if column != nil {
					phase[n] = column[i]
				}
			}
			p.steps = append(p.steps, step{number: int(e.Number[i]), epoch: int(e.Epoch[i]), told: int(e.Epoch[i]),
				micro: int(e.Micro[i]), evals: int(e.Evals[i]), opts: int(e.Opts[i]),
				start: e.Start[i], total: e.Total[i], live: e.Live[i], pool: e.Pool[i], outside: e.Outside[i],
				kind:  e.Kind[i],
				phase: phase})
			if e.Raw != nil {
				p.steps[len(p.steps)-1].raw = max(0, e.Raw[i])
			}
		}
		return true
	case "loader":
		var e LoaderEvent
		ok := into(&e)
		if ok && len(p.loaders) < maxRows {
			p.loaders = append(p.loaders, e)
		}
		return ok
	case "length":
		var e lengthEvent
		ok := into(&e)
		if e.Loader > 0 {
			p.counted = e.Loader
		}
		if e.Steps > 0 {
			p.declared = e
		}
		return ok
	case "bar":
		return into(&p.bar)
	case "device":
		return into(&p.device)
	case "limit":
		return into(&p.limit)
	case "unseen":
		var e unseenEvent
		ok := into(&e) && len(e.Phases) <= maxPhases
		for name, why := range e.Phases {
			ok = ok && phaseName.MatchString(name) && len(why) <= maxPhaseText
		}
		if ok {
			p.unseen = e.Phases
		}
		return ok
	case "allocator":
		var e allocatorEvent
		ok := into(&e)
		ok = ok && slices.Contains(allocatorLimits, e.Limit)
		if ok {
			p.allocator[e.Limit] = e
		}
		return ok
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
		if len(e.What) <= maxPhaseText {
			p.lossWhat = e.What
		}
		for i, x := range e.Value {
			if len(p.losses) < maxSteps {
				p.losses = append(p.losses, lossPoint{int(e.Step[i]), x})
			}
		}
		return true
	case "logged":
		var e loggedEvent
		return into(&e) && p.logged.add(e)
	case "logged_unread":
		var e loggedUnreadEvent
		ok := into(&e)
		p.logged.leftOut(e)
		return ok
	case "seeds":
		var e seedsEvent
		ok := into(&e)
		p.seeds = &e
		return ok
	case "settings":
		var e settingsEvent
		ok := into(&e)
		p.settings = append(p.settings[:min(len(p.settings), 1)], e)
		return ok
	case "out_of_memory":
		var e outOfMemoryEvent
		ok := into(&e)
		if len(e.Text) <= maxLeverText && len(e.Where) <= maxLeverText && e.Count > 0 {
			p.exhausted.put(e, e.Text, e.Where)
		}
		return ok
	case "lever":
		var e leverEvent
		ok := into(&e)
		p.pulled(e)
		return ok
	case "reached":
		var e evidence.Reached
		ok := into(&e)
		if ok {
			p.reached = &e
		}
		return ok
	case "loss_unread":
		var e textEvent
		ok := into(&e)
		p.unread += e.Count
		return ok
	case "loss_passed":
		var e textEvent
		ok := into(&e)
		p.passed += e.Count
		return ok
	case "gradients":
		var e gradientsEvent
		if !into(&e) || len(e.Step) != len(e.Finite) {
			return false
		}
		for i, at := range e.Step {
			s := int(at)
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
	case "loop":
		p.loop = &loopEvent{}
		return into(p.loop)
	case "memory":
		var e memoryEvent
		ok := into(&e)
		for name, rows := range e.Phases {
			if len(p.phaseMem[name]) < maxSteps && (len(p.phaseMem) < maxPhases || p.phaseMem[name] != nil) {
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
	case "block":
		var e blockEvent
		if !into(&e) || e.Steps < 1 || e.NS-e.Outside <= 0 {
			return false
		}
		if len(p.blocks) < maxRows && !e.Touched {
			p.blocks = append(p.blocks, e)
		}
		return true
	case "error":
		p.err = &errorEvent{}
		return into(p.err)
	case "thread_error":
		var e threadErrorEvent
		ok := into(&e)
		if ok && len(p.threads) < maxRows {
			p.threads = append(p.threads, e)
		}
		return ok
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
	s := evidence.SyncPoint{Call: text(0), Where: text(1), Via: text(2), Count: int(number(3)), Lost: number(4) / 1e9,
		Waits: waits, Steps: int(number(6))}
	key := s.Call + "\x00" + s.Where + "\x00" + s.Via
	if _, known := p.syncs[key]; !known {
		if len(p.syncKeys) >= maxRows {
			return
		}
		p.syncKeys = append(p.syncKeys, key)
	}
	p.syncs[key] = s
}

// Finish makes the evidence of what was added.
func (f *Fold) Finish() *evidence.Run { return f.evidence(assayEnded) }

// SoFar makes the evidence of a run that is under way, as far as it goes.
func (f *Fold) SoFar() *evidence.Run { return f.evidence(underWay) }

// Why a run has no event exit.
const (
	assayEnded = "assay itself was ended before the run was"
	underWay   = "the run is under way"
)

func (f *Fold) evidence(noExit string) *evidence.Run {
	run := evidence.NewRun(f.start.ID)
	run.Started, run.Subject = f.start.Wall, f.start.Subject
	run.Target = evidence.Target{System: f.start.System}
	f.start.Target.In(&run.Target)
	run.Windows, run.Epochs, run.Processes = []evidence.Window{}, []evidence.Epoch{}, []evidence.Process{}
	run.Fallbacks, run.Syncs, run.Memory = []evidence.Fallback{}, []evidence.SyncPoint{}, []evidence.PhaseMem{}
	run.Logged = []evidence.Series{}
	run.Retained, run.Operators, run.Shapes = []evidence.Retained{}, []evidence.Operator{}, []evidence.Shape{}
	run.Host = evidence.HostReport{Facts: f.host, Samples: f.samples, Apps: f.apps[0], AppsEnd: f.apps[1]}
	p := f.main()
	b := &builder{run: run, p: p, f: f, basis: evidence.Measured, noExit: noExit}
	if b.rehearsal() {
		b.basis = evidence.Rehearsed
	}
	b.doubleTarget()
	b.outcome()
	b.processes()
	b.provenance()
	b.randomness()
	b.host()
	b.threadFact()
	if p == nil {
		reason := "the agent never said hello: Python was started with -I, -E or -S, or no Python was started"
		if b.f.exit == nil { // one may have been about to
			reason = noExit + ", and no agent had said hello"
		}
		run.Steps.Phases = evidence.FormerPhases()
		b.leftUnknown(reason)
		run.Outcome.Reason = reason
		if b.f.exit != nil && b.f.exit.Signal != "" {
			run.Outcome.Reason += "; the command was ended by " + b.f.exit.Signal
		}
		run.Profile.Missing = reason
		run.Numerics.LossScaled = "unknown: " + reason
		b.doubleFindings()
		empty(run)
		return run
	}
	b.target()
	b.run.Levers, b.run.Reached = b.levers(), b.p.reached
	b.exhausted()
	b.loop()
	b.windows()
	b.split()
	b.epochs()
	b.memory()
	b.tables()
	b.doubleTables()
	b.numerics()
	b.series()
	b.logged()
	b.only()
	b.cost()
	b.quiet()
	b.leftUnknown(b.noSteps())
	b.findings()
	b.complete()
	empty(run)
	return run
}

// main is the process whose steps the evidence is about: the one with most steps, then the first.
func (f *Fold) main() *process {
	var best *process
	for _, c := range f.order {
		p := f.conns[c]
		if p.hello.PID == 0 {
			continue
		}
		if best == nil || len(p.steps) > len(best.steps) || (len(p.steps) == len(best.steps) && best.framework == nil &&
			p.framework != nil) {
			best = p
		}
	}
	// Of ranks that train alike, the first speaks for all.
	for _, c := range f.order {
		p := f.conns[c]
		if best != nil && p.hello.Rank == "0" && best.hello.Rank != "0" && len(p.steps) >= len(best.steps)*9/10 &&
			len(p.steps) > 0 {
			best = p
		}
	}
	return best
}

// empty makes every list of the run one: JSON readers get [] and never null.
func empty(run *evidence.Run) {
	n := &run.Numerics
	for _, l := range []*[]int{&n.NonFiniteLosses, &n.NonFiniteGrads, &n.SkippedSteps, &run.Steps.Number,
		&run.Steps.Epoch, &run.Steps.Micro, &run.Loss.Step} {
		if *l == nil {
			*l = []int{}
		}
	}
	s := &run.Steps
	for _, l := range []*[]float64{&s.Start, &s.Total, &s.Live, &s.Pool} {
		if *l == nil {
			*l = []float64{}
		}
	}
	for i := range s.Phases {
		if s.Phases[i].Seconds == nil {
			s.Phases[i].Seconds = []float64{}
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
	if run.Subject.Command == nil {
		run.Subject.Command = []string{}
	}
	if run.Provenance.Datasets == nil {
		run.Provenance.Datasets = []evidence.Dataset{}
	}
}
