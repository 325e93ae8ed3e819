package fold

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"assay/internal/evidence"
	"assay/internal/stats"
	"assay/internal/unit"
)

func (b *builder) tables() {
	p, run := b.p, b.run
	for _, key := range p.syncKeys {
		s := p.syncs[key]
		s.Where, s.Via = b.place(s.Where), b.place(s.Via)
		s.Computes = s.Call != "" && s.Call == p.words().needed
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
		if b.rehearsal() {
			break // the double's own list has every call, with its time
		}
		where := b.place(e.Where)
		key := e.Operator + "\x00" + where
		if i, ok := seen[key]; ok {
			run.Fallbacks[i].Count += e.Count
			continue
		}
		seen[key] = len(run.Fallbacks)
		run.Fallbacks = append(run.Fallbacks, evidence.Fallback{Operator: e.Operator, Count: e.Count, Where: where,
			Basis: evidence.Measured,
			Note:  "PyTorch warns once a process: later calls and other operators fall back in silence"})
	}
	if p.profile != nil && !b.rehearsal() {
		for _, row := range p.profile.Kernels {
			if len(row) != 2 {
				continue
			}
			name, _ := row[0].(string)
			count, _ := row[1].(float64)
			run.Fallbacks = append(run.Fallbacks, evidence.Fallback{Operator: name, Count: int(count),
				Basis: evidence.Derived,
				Note:  "calls in the profiled window; the dispatcher of this build has no MPS kernel for it"})
		}
	}
	for _, key := range p.shapeKeys {
		e := p.shapes[key]
		run.Shapes = append(run.Shapes, evidence.Shape{Model: e.Model, Inputs: e.Inputs, Steps: e.Calls,
			First: e.First})
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
	case p.profile == nil && p.words().profile != "":
		run.Profile.Missing = p.words().profile
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
		b.unknown("loss.first", "1", p.words().noLoss)
		b.unknown("loss.last", "1", p.words().noLoss)
		return
	}
	put := func(name string, l lossPoint) {
		if math.IsNaN(l.value) || math.IsInf(l.value, 0) {
			b.unknown(name, "1", fmt.Sprintf("the loss of step %d is not finite (%v)", l.step, l.value))
			return
		}
		b.known(name, l.value, "1", b.basis, fmt.Sprintf("%s; step %d", p.words().loss, l.step))
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
	s.Phases = p.phases.drawn()
	parts := make([]func(step) int64, len(s.Phases))
	for i := range s.Phases {
		parts[i] = p.phases.part(s.Phases[i].Name)
	}
	for i, st := range p.steps {
		if thin > 1 && i%thin != 0 {
			continue
		}
		s.Number = append(s.Number, st.number)
		s.Start = append(s.Start, float64(st.start-b.origin)/1e9)
		s.Total = append(s.Total, float64(st.total)/1e9)
		for j := range s.Phases {
			s.Phases[j].Seconds = append(s.Phases[j].Seconds, float64(parts[j](st))/1e9)
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
	s.Watched = b.watched()
	if p.passed > 0 {
		b.run.Loss.Note = fmt.Sprintf("%d losses were passed over while the hooks were off", p.passed)
	}
	if p.unread > 0 {
		b.run.Loss.Note = fmt.Sprintf("%d losses were not read: %s", p.unread, p.words().unread)
	}
}

func (b *builder) only() {
	e := b.p.only
	if e == nil {
		if what := b.f.start.Options["only"]; what != "" {
			b.find("only-not-reached", evidence.Warning, evidence.Measured, "",
				"the loop must read a torch DataLoader and run some thirty steps, or a whole epoch",
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
			unit.Seconds(s.Median), unit.Seconds(*o.Step.Value), 100*s.Median / *o.Step.Value,
			unit.Seconds(max(0, *o.Step.Value-s.Median)))
	}
	b.run.Only = o
	b.find("only-"+e.What, evidence.Note, b.basis, "", "", "%s", o.Verdict)
}

// dataVerdict compares what the loader needs for a step's batches, alone, with the step. With workers the two overlap,
// without they add up; either way a loader that alone is slower than nine tenths of the step is what the step waits
// for.
func dataVerdict(data, step float64) string {
	ratio := data / step
	switch {
	case ratio >= 0.9:
		return fmt.Sprintf("the loader alone needs %s for a step of %s: the device waits for the data",
			unit.Seconds(data), unit.Seconds(step))
	case ratio >= 0.3:
		return fmt.Sprintf("the loader alone needs %s of a step of %s (%.0f %%): both sides count; workers that load ahead would hide it", unit.Seconds(data), unit.Seconds(step), 100*ratio)
	}
	return fmt.Sprintf("the loader alone needs %s for a step of %s (%.0f %%): the compute is what takes the time",
		unit.Seconds(data), unit.Seconds(step), 100*ratio)
}

// resident is the highest of all readings: the sampler's of the process tree, the kernel's own maximum of the first
// process, and the agent's.
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
	if b.rehearsal() {
		fig.Note += "; on this machine, where the Mac's tensors lie in the process"
	}
	b.put(fig)
}

// host adds the means and peaks of the samples.
// threadFact says with how many threads PyTorch computes on the CPU, as it said when it was imported: what variables,
// the processors and the quota come to.
func (b *builder) threadFact() {
	if b.p == nil || b.p.framework == nil || b.p.framework.Threads <= 0 {
		return
	}
	b.run.Host.Facts = append(slices.Clip(b.run.Host.Facts), evidence.Fact{Name: "torch.threads",
		Value: strconv.Itoa(b.p.framework.Threads), Source: "torch.get_num_threads() once it was imported"})
}

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
		if b.rehearsal() && strings.HasPrefix(name, "gpu.") {
			b.unknown(name, unitName, "rehearsed: a double has no GPU")
			return
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
