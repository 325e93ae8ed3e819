package fold

import (
	"math"
	"strconv"

	"assay/internal/stats"
)

// What an estimate needs: a dozen steps in all, and some of them ordinary and settled.
const (
	soonest     = 12
	leastOfThem = 6
	leastBehind = 60   // on a device that works behind the host, where one step in some waits for all of them
	mostOfThem  = 2000 // the last ones: a run of weeks is not added up again and again

	// Half the interval as a part of the estimate: what is vaguer than that tells nothing, and more steps are waited
	// for. Where so many have not made it narrower, none will.
	vague      = 0.5
	manyOfThem = 200

	// Steps of the warm-up are used where the others are far: where a dozen took so many seconds. Shorter ones are
	// waited for, profiled ones too, which takes no longer than that (the profiler's window ends after ten seconds).
	longDozen = 20
)

// unsettled is by how much a step at the beginning may differ from the later ones and still be like them: compiling,
// choosing kernels, filling caches make it longer; batches that workers had made ready make it shorter.
const unsettled = 1.5

// EstimateEvent is how long an epoch will take, or, where no epoch can be told and something says how many steps there
// are, the loop or the run: from its first settled steps. Seconds; Low and High are the interval of 95 % that the
// spread of those steps gives, and know nothing of what changes later.
type EstimateEvent struct {
	Of      string  `json:"of"`    // epoch, loop, run
	Steps   int     `json:"steps"` // of the whole of it
	By      string  `json:"by"`    // what says so
	Seconds float64 `json:"seconds"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	First   int     `json:"first"` // the steps it was taken from
	Last    int     `json:"last"`
	Used    int     `json:"used"`
}

// Steps is how many steps the process has closed that the evidence is about.
func (f *Fold) Steps() int {
	if p := f.main(); p != nil {
		return len(p.steps)
	}
	return 0
}

// Drawing names what draws a progress bar in the script; "" where nothing was seen to.
func (f *Fold) Drawing() string {
	if p := f.main(); p != nil {
		return p.bar.By
	}
	return ""
}

// LongEpoch is the length of an epoch, in seconds, above which it counts as long.
func (f *Fold) LongEpoch() float64 { return longEpoch(f.start) }

// Estimate says how long an epoch will take, as far as can be told by now. Of a rehearsal, whose times are another
// machine's, and of a run of one side alone nothing is told.
func (f *Fold) Estimate() (EstimateEvent, bool) {
	p := f.main()
	if p == nil || len(p.steps) < soonest || f.start.Double != nil || f.start.Options["only"] != "" {
		return EstimateEvent{}, false
	}
	e, ok := p.length(f.start)
	if !ok {
		return EstimateEvent{}, false
	}
	steps := p.ordinary()
	if !p.behind() || len(steps) < leastBehind {
		if steps, ok = settled(steps); !ok {
			return EstimateEvent{}, false
		}
	}
	mean, low, high := meanOf(seconds(steps, total))
	if high-low > 2*vague*mean && len(steps) < manyOfThem {
		return EstimateEvent{}, false
	}
	n := float64(e.Steps)
	e.Seconds, e.Low, e.High = mean*n, low*n, high*n
	e.First, e.Last, e.Used = steps[0].number, steps[len(steps)-1].number, len(steps)
	return e, true
}

// length is of what an estimate can be made, and how many steps that has.
func (p *process) length(start StartEvent) (EstimateEvent, bool) {
	if len(p.steps) == 0 {
		return EstimateEvent{}, false
	}
	if last := p.steps[len(p.steps)-1].epoch; last > 1 {
		if n := p.wholeEpoch(last); n > 0 {
			return EstimateEvent{Of: "epoch", Steps: n, By: "the epochs before it"}, true
		}
	}
	if d := p.declared; d.Steps > 0 && d.Of == "epoch" {
		return EstimateEvent{Of: d.Of, Steps: d.Steps, By: d.By}, true
	}
	if l, ok := p.primaryLoader(); ok && p.counted == l.ID && l.Batches != nil {
		micro := max(1, medianMicro(p.steps[max(0, len(p.steps)-mostOfThem):]))
		return EstimateEvent{Of: "epoch", Steps: (*l.Batches + micro - 1) / micro, By: "len() of the loader"}, true
	}
	if d := p.declared; d.Steps > 0 && (d.Of == "loop" || d.Of == "run") {
		return EstimateEvent{Of: d.Of, Steps: d.Steps, By: d.By}, true
	}
	if n, err := strconv.Atoi(start.Options["steps"]); err == nil && n > 0 {
		return EstimateEvent{Of: "run", Steps: n, By: "--steps"}, true
	}
	return EstimateEvent{}, false
}

// behind says whether the device works behind the host.
func (p *process) behind() bool { return p.device.Type != "" && p.device.Type != "cpu" }

// wholeEpoch is the number of steps of the epoch before last; 0 where it was not seen as a whole.
func (p *process) wholeEpoch(last int) int {
	to := len(p.steps)
	for to > 0 && p.steps[to-1].epoch >= last {
		to--
	}
	from := to
	for from > 0 && p.steps[from-1].epoch == last-1 {
		from--
	}
	return to - from
}

// primaryLoader is the loader that training steps draw from, where the agent has told (counted), or, of an agent that
// does not tell, the only one there is.
func (p *process) primaryLoader() (LoaderEvent, bool) {
	for _, l := range p.loaders {
		if l.ID == p.counted || len(p.loaders) == 1 {
			return l, true
		}
	}
	return LoaderEvent{}, false
}

// ordinary are the last steps that no instrument touched, of the epochs after the first where there are enough of
// those. Where the host runs ahead of the device those steps belong to them that wait for it: they have the time of the
// others.
func (p *process) ordinary() []step {
	behind, least := p.behind(), leastOfThem
	if behind {
		least = leastBehind
	}
	var free []step
	for i := len(p.steps) - 1; i >= 0 && len(free) < mostOfThem; i-- {
		if s := p.steps[i]; s.kind == "" || s.kind == "bare" || behind && s.kind == "sync" {
			free = append(free, s)
		}
	}
	for i, j := 0, len(free)-1; i < j; i, j = i+1, j-1 {
		free[i], free[j] = free[j], free[i]
	}
	for _, better := range []func(step) bool{
		func(s step) bool { return s.epoch > 1 }, func(s step) bool { return s.number > warmup }} {
		if steps := picked(free, better); len(steps) >= least {
			return steps
		}
	}
	if last := p.steps[len(p.steps)-1]; last.start+last.total-p.steps[0].start < longDozen*1e9 {
		return nil
	}
	return free
}

// settled leaves out the steps at the beginning that are not like the later half; not ok where too few are left.
func settled(steps []step) ([]step, bool) {
	n := len(steps)
	if n < leastOfThem {
		return nil, false
	}
	usual := stats.Median(seconds(steps[n/2:], total)) * 1e9
	from := 0
	for i, s := range steps[:n/2] {
		if t := float64(s.total); t > unsettled*usual || t*unsettled < usual {
			from = i + 1
		}
	}
	if from == 0 && steps[0].number == 1 {
		from = 1 // the first makes what the others use
	}
	return steps[from:], n-from >= leastOfThem
}

// meanOf is the mean and its interval of 95 %, by Student's t. Neighbours hang together, so that the spread is that
// between the means of ten stretches, or of as many as there are values. With one value there is no interval.
func meanOf(xs []float64) (mean, low, high float64) {
	blocks := min(10, len(xs))
	squares := 0.0
	for _, x := range xs {
		mean += x
	}
	mean /= float64(len(xs))
	for i := range blocks {
		stretch, m := xs[i*len(xs)/blocks:(i+1)*len(xs)/blocks], 0.0
		for _, x := range stretch {
			m += x / float64(len(stretch))
		}
		squares += (m - mean) * (m - mean)
	}
	if blocks < 2 {
		return mean, mean, mean
	}
	half := stats.StudentQuantile((1+stats.Level)/2, float64(blocks-1)) *
		math.Sqrt(squares/float64(blocks-1)/float64(blocks))
	return mean, max(0, mean-half), mean + half
}
