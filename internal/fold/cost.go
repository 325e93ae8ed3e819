package fold

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/stats"
	"assay/internal/unit"
)

const (
	minPairs = 6 // of blocks: fewer have no interval of 95 % (stats.SignedRank)
	// after a step that was waited for or profiled the device has run dry, and the host runs ahead of it again
	recovery = 8

	// agent/assay_agent/watch/blocks.py: steps before the first block, profiled ones among them, and the shortest block
	beforeBlocks = 90
	blockSteps   = 15
	blockTime    = 0.3 // seconds
)

// watched is how many steps had all hooks on; 0: all had.
func (b *builder) watched() int {
	if c := b.p.cost; c.Bare > 0 && c.Bare < c.Steps {
		return c.Steps - c.Bare
	}
	return 0
}

// hooked is how many steps had all hooks on.
func (b *builder) hooked() int {
	if w := b.watched(); w > 0 {
		return w
	}
	return len(b.p.steps)
}

// took is what a step took by the clock from the end of the one before, less what belonged to no step, in seconds.
func took(s step) float64 { return float64(s.raw-s.outside) / 1e9 }

// each is what a step of the block took, in seconds.
func (e blockEvent) each() float64 { return float64(e.NS-e.Outside) / float64(e.Steps) / 1e9 }

// pairs are the differences between blocks with the hooks on and those beside them with the hooks off, in seconds a
// step. Blocks and not steps: on a device that works behind the host's back a step is as long as the host had to wait
// in it, and one in ten may wait for all.
func pairs(blocks []blockEvent) []float64 {
	type pair struct{ on, off float64 }
	visits := map[int]pair{}
	var numbers []int
	for _, e := range blocks {
		if e.Number <= 0 {
			continue
		}
		at := (e.Number + 1) / 2
		p, known := visits[at]
		if !known {
			numbers = append(numbers, at)
		}
		if e.On {
			p.on = e.each()
		} else {
			p.off = e.each()
		}
		visits[at] = p
	}
	var list []float64
	for _, n := range numbers {
		if p := visits[n]; p.on > 0 && p.off > 0 {
			list = append(list, p.on-p.off)
		}
	}
	return list
}

// weighed is the median of values that have weights, and the quartiles.
func weighed(values, weights []float64) (q1, median, q3 float64) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	var all float64
	for _, w := range weights {
		all += w
	}
	at := func(share float64) float64 {
		sum := 0.0
		for _, i := range order {
			if sum += weights[i]; sum >= share*all {
				return values[i]
			}
		}
		return math.NaN()
	}
	return at(.25), at(.5), at(.75)
}

// stretches are the means of a step in stretches that began and ended with nothing queued on the device, with their
// steps: the blocks of the steady window with the hooks off, or what lies between one synchronised step and the next.
func (b *builder) stretches() (means, steps []float64) {
	add := func(seconds float64, n int) {
		if seconds > 0 && n > 0 {
			means, steps = append(means, seconds/float64(n)), append(steps, float64(n))
		}
	}
	if len(b.steady) == 0 {
		return nil, nil
	}
	if b.bareSteady() {
		from, to := b.steady[0].number, b.steady[len(b.steady)-1].number
		for _, e := range b.p.blocks {
			if !e.On && e.First >= from && e.First+e.Steps-1 <= to {
				add(e.each()*float64(e.Steps), e.Steps)
			}
		}
		return means, steps
	}
	in := map[int]bool{}
	for _, s := range b.steady {
		in[s.number] = true
	}
	sum, n := 0.0, 0
	for _, s := range b.p.steps {
		switch {
		case s.kind == "" && in[s.number] && s.raw > 0:
			sum, n = sum+took(s), n+1
		case s.kind == "sync" && n > 0:
			add(sum+max(0, float64(s.raw-s.total)/1e9), n) // what was still queued
			sum, n = 0, 0
		default:
			sum, n = 0, 0
		}
	}
	add(sum, n)
	return means, steps
}

// excess is what the steps of some kinds took more than others, with those until the device was kept ahead of again;
// bare is what one takes without the hooks, on with them.
func excess(steps []step, bare, on float64, kinds ...string) (seconds float64, n int) {
	since := recovery
	for _, s := range steps {
		after := false
		switch {
		case slices.Contains(kinds, s.kind):
			n++
			since = 0
		case s.kind == "sync" || s.kind == "profile" || s.kind == "trace":
			since = recovery
			continue
		case since >= recovery:
			continue
		default:
			since++
			after = since > 1
		}
		if s.raw <= 0 {
			continue
		}
		base := on
		if s.kind == "bare" || s.kind == "edge" {
			base = bare
		}
		more := took(s) - base
		if after { // what the script does now and then is not the instrument's; its end is in the first
			more = min(more, base)
		}
		seconds += more
	}
	return max(0, seconds), n
}

// cost is what assay itself cost: the hooks as measured by turning them off and on, windows and synchronised steps by
// their own time over that of the others, and what is done beside those as priced in the process.
func (b *builder) cost() {
	c := b.p.cost
	if c.Steps == 0 {
		for _, name := range []string{"agent.step", "agent.total", "agent.windows", "agent.synchronised"} {
			b.unknown(name, "s", "no step was seen")
		}
		b.unknown("agent.share", "ratio", "no step was seen")
		return
	}
	value, low, high, ok := stats.SignedRank(pairs(b.p.blocks), stats.Level)
	base := b.untouched()
	on := base
	if ok && b.bareSteady() {
		on += value
	}
	var windows, syncs float64
	if math.IsNaN(base) {
		for _, name := range []string{"agent.windows", "agent.synchronised"} {
			b.unknown(name, "s", "no step was seen that no instrument touched")
		}
	} else {
		put := func(name, note string, kinds ...string) float64 {
			seconds, n := excess(b.p.steps, base, on, kinds...)
			fig := evidence.Known(name, seconds, "s", b.basis)
			fig.N, fig.Note = n, b.lasting(note)
			b.put(fig)
			return seconds
		}
		windows = put("agent.windows", "what profiled and traced steps, and those just after them, took more than others",
			"profile", "trace")
		syncs = put("agent.synchronised",
			"what steps that were synchronised at their phase boundaries, and those just after them, took more than others",
			"sync")
	}
	differences := len(pairs(b.p.blocks))
	if !ok {
		b.costDerived(differences)
		return
	}
	fig := evidence.Known("agent.step", value, "s", b.basis)
	fig.Low, fig.High, fig.N, fig.Window = &low, &high, differences, "steady"
	fig.Note = fmt.Sprintf("measured: %d pairs of blocks of steps with the hooks on and off, in an order that was drawn; with its 95 %% interval (Hodges-Lehmann, Wilcoxon)", differences)
	if low <= 0 && high >= 0 {
		fig.Note = fmt.Sprintf("cannot be told from nothing: at most %s, %s of the step; %s", unit.Seconds(high),
			unit.Format(high/base, "ratio"), fig.Note)
	}
	fig.Note = b.lasting(fig.Note)
	b.put(fig)

	// What stays on with the hooks off is on in every step.
	kept := float64(c.ThreadNS+c.KeptNS) / 1e9
	if c.Bare > 0 {
		kept += float64(c.BareNS) / float64(c.Bare) * float64(c.Steps) / 1e9
	}
	other := kept + windows + syncs + float64(c.EpochNS)/1e9
	all := func(step float64) float64 { return max(0, other+float64(b.hooked())*step) }
	with := func(name, unit string, of func(float64) float64) evidence.Figure {
		fig, least, most := evidence.Known(name, of(value), unit, b.basis), of(low), of(high)
		fig.Low, fig.High = &least, &most
		return fig
	}
	sum := with("agent.total", "s", all)
	sum.Note = b.lasting(fmt.Sprintf("the hooks in %d of %d steps, as measured, with that interval; windows %s, synchronised steps %s, looks at the ends of epochs %s; what stays on in every step and the sending thread %s, as priced in this process",
		b.hooked(), c.Steps, unit.Seconds(windows), unit.Seconds(syncs), unit.Seconds(float64(c.EpochNS)/1e9),
		unit.Seconds(kept)))
	b.put(sum)
	first, last := b.p.steps[0], b.p.steps[len(b.p.steps)-1]
	loop := float64(last.start+last.total-first.start) / 1e9
	if loop <= all(high) {
		b.unknown("agent.share", "ratio", "the loop's time is not known")
		return
	}
	fig = with("agent.share", "ratio", func(step float64) float64 { return all(step) / (loop - all(step)) })
	fig.Note = b.lasting("agent.total / the loop's time without it, from the first step's start to the last one's end")
	b.put(fig)
}

// untouched is the mean of a step that no window and no synchronisation touched, in seconds: the median over stretches.
// NaN where there is none.
func (b *builder) untouched() float64 {
	if means, steps := b.stretches(); len(means) > 0 {
		_, median, _ := weighed(means, steps)
		return median
	}
	return math.NaN()
}

// blocks reports whether the agent is one that can turn its hooks off: earlier ones did not say how long steps took
// from end to end.
func (b *builder) blocks() bool {
	return slices.ContainsFunc(b.p.steps, func(s step) bool { return s.raw > 0 })
}

// costDerived is the cost of a run that is too short for it to be measured.
func (b *builder) costDerived(pairs int) {
	c := b.p.cost
	why, not := "", ""
	if b.blocks() {
		why, not = "as priced in this process, not measured", "; not measured"
	}
	if f := b.run.Figure("step.time"); f.Known() && *f.Value > 0 && why != "" && b.run.Rehearsal == nil {
		need := beforeBlocks + 2*minPairs*max(blockSteps, int(math.Ceil(blockTime / *f.Value)))
		why += fmt.Sprintf(": the run has %d steps, and %d pairs of blocks with the hooks on and off; about %d steps are needed",
			c.Steps, pairs, max(need, c.Steps+blockSteps))
	}
	per := float64(c.HooksNS+c.ThreadNS) / float64(c.Steps) / 1e9
	b.known("agent.step", per, "s", evidence.Derived, strings.TrimPrefix(
		why+"; hook calls × the time of one, calibrated in this process, and the sender thread's CPU time, per step",
		"; "))
	if f := b.run.Figure("step.time"); f.Known() {
		b.known("agent.share", per / *f.Value, "ratio", evidence.Derived, "agent.step / step.time"+not)
	} else {
		b.unknown("agent.share", "ratio", "step.time is not known")
	}
	b.known("agent.total", float64(c.HooksNS+c.ThreadNS+c.HeavyNS)/1e9, "s", evidence.Derived,
		strings.TrimPrefix(strings.TrimPrefix(not+"; ", "; "), "; ")+"with the profiler's start and end, the traced windows and the looks at memory, which stand between steps")
}
