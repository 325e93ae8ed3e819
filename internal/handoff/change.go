package handoff

import (
	"fmt"
	"math"
	"strings"

	"assay/internal/evidence"
	"assay/internal/stats"
)

// Change is a figure on both sides.
type Change struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Here  float64 `json:"here"` // of several runs the median
	There float64 `json:"there"`
	Ratio float64 `json:"ratio"` // there / here
	Low   float64 `json:"low"`   // 95 % interval of Ratio
	High  float64 `json:"high"`
	N     [2]int  `json:"n"`     // runs
	Noise bool    `json:"noise"` // may be noise
	Over  string  `json:"over"`  // what it was taken from

	Answer string  `json:"answer,omitempty"` // where it is no noise: Explained, Likely, Perhaps or Open
	Causes []Cause `json:"causes,omitempty"` // most certain first

	on      string  // kind of effects
	inverse bool    // a rate: it falls where times rise
	within  float64 // standard error of the logarithm from steps of one run
}

// Answers to a change.
const (
	Explained = "explained"     // by what is certain, was measured, or is known to reach so far
	Likely    = "likely"        // by what is known to do it, how much nobody knows
	Perhaps   = "perhaps"       // only by what can do it: that is no explanation
	Open      = "not explained" // nothing that is known of the two accounts for it
)

// Cause is a difference that goes in the direction of a change.
type Cause struct {
	Factor string `json:"factor"`
	Name   string `json:"name,omitempty"`
	Text   string `json:"text"`
	Ground Ground `json:"ground"`
	Size   string `json:"size"` // how much of it this can be
}

// What a run's median differs by from one run to the next where too few runs were made to tell: the standard deviation
// of its logarithm, and as how many degrees of freedom that counts. They are those of gates (docs/gates.md).
const (
	expectedSpread = 0.025
	expectedWeight = 10
	ownFreedom     = 4 // degrees of freedom from which on runs speak for themselves
	leastRuns      = 4 // of both sides, from which on their own spread is looked at
)

const (
	// leastChange, ratio: less is not looked into, however sure it is.
	leastChange = 0.05
	// leastSteps, of each run, that the same window must have.
	leastSteps = 8
	// leastPhase, ratio of the step: a phase that changed by less than that is in the step's own change.
	leastPhase = 0.10
)

// window is the steps that both sides have: a run that went on for hours is held against a smoke of some hundred steps
// by the steps of the same numbers. It begins where the later of the two steady windows does.
type window struct{ first, last int }

func commonWindow(here, there Side) (w window, ok bool) {
	w = window{1, math.MaxInt}
	for _, s := range []Side{here, there} {
		for _, run := range s.Runs {
			numbers := run.Steps.Number
			if len(numbers) == 0 {
				return w, false
			}
			w.last = min(w.last, numbers[len(numbers)-1])
		}
	}
	// ten steps settle caches and kernels, fewer where there are few (docs/figures.md, windows)
	w.first = min(11, 1+w.last/4)
	return w, w.last-w.first+1 >= leastSteps
}

// steps are the lengths of a run's steps in the window, of the kind that stands for its training, seconds: of the step,
// or of one phase.
func (w window) steps(run *evidence.Run, phase string) []float64 {
	s := run.Steps
	column, kinds := s.Total, []string{"", "bare"}
	if phase != "" {
		p, ok := s.Phase(phase)
		if !ok {
			return nil
		}
		column, kinds = p.Seconds, []string{""}
		if run.Target.Asynchronous() {
			kinds = []string{"sync"} // only there can phases be trusted
		}
	}
	byKind := map[string][]float64{}
	for i, n := range s.Number {
		if n >= w.first && n <= w.last && i < len(column) && i < len(s.Kind) && column[i] > 0 {
			byKind[s.Kind[i]] = append(byKind[s.Kind[i]], column[i])
		}
	}
	for _, kind := range kinds {
		if len(byKind[kind]) >= leastSteps {
			return byKind[kind]
		}
	}
	return nil
}

// typical step of a run: where one step's length is that of its launching, the mean.
func typical(run *evidence.Run, steps []float64, phase string) float64 {
	if phase == "" && run.Target.Asynchronous() {
		return stats.Summarize(steps).Mean
	}
	return stats.Median(steps)
}

// changes are the figures that both sides have, each judged; why says what could not be compared.
func changes(here, there Side) (all []Change, why []string) {
	w, common := commonWindow(here, there)
	over := fmt.Sprintf("steps %d to %d of each run", w.first, w.last)
	times := func(name, phase, on string) *Change {
		c := &Change{Name: name, Unit: "s", on: on, Over: over}
		var xs [2][]float64
		for i, s := range []Side{here, there} {
			for _, run := range s.Runs {
				steps := w.steps(run, phase)
				if !common || len(steps) == 0 {
					continue
				}
				xs[i] = append(xs[i], math.Log(typical(run, steps, phase)))
				if e := stats.BlockError(logs(steps), blocks); !math.IsNaN(e) {
					c.within = math.Hypot(c.within, e/float64(len(s.Runs)))
				}
			}
		}
		if len(xs[0]) == 0 || len(xs[1]) == 0 { // what the evidence says of the whole of each
			c.Over, c.within = "each run's own window", 0
			for i, s := range []Side{here, there} {
				xs[i] = nil
				for _, run := range s.Runs {
					if f := run.Figure(name); f.Known() && *f.Value > 0 {
						xs[i] = append(xs[i], math.Log(*f.Value))
					}
				}
			}
		}
		if !c.judge(xs[0], xs[1]) {
			return nil
		}
		return c
	}
	step := times("step.time", "", onTime)
	if step == nil {
		return nil, []string{"no training steps of both sides: times cannot be compared"}
	}
	rows := func(s Side) float64 { // of a step, micro-batches with it
		rate, ok := s.figure("samples.rate")
		time, has := s.figure("step.time")
		if !ok || !has {
			return 0
		}
		return rate * time
	}
	if h, t := rows(here), rows(there); h > 0 && t > 0 {
		rate := *step
		rate.Name, rate.Unit, rate.inverse = "samples.rate", "1/s", true
		rate.Here, rate.There = h/step.Here, t/step.There
		k := (t / h)
		rate.Ratio, rate.Low, rate.High = k/step.Ratio, k/step.High, k/step.Low
		rate.decide()
		all = append(all, rate)
	} else {
		why = append(why, "rows a step are not known on both sides: throughput is compared by steps")
	}
	all = append(all, *step)
	for _, p := range here.run().Steps.Phases {
		c := times("split."+p.Name, p.Name, p.Name)
		// a phase matters by what it changes of the step
		if c != nil && (math.Abs(c.There-c.Here) >= leastPhase*max(step.Here, step.There)) {
			all = append(all, *c)
		}
	}
	for _, name := range []string{"memory.pool.peak", "memory.live.peak", "memory.footprint.peak",
		"memory.resident.peak"} {
		c := Change{Name: name, Unit: "B", on: onMemory, Over: "each run's peak"}
		var xs [2][]float64
		for i, s := range []Side{here, there} {
			for _, run := range s.Runs {
				if f := run.Figure(name); f.Known() && *f.Value > 0 {
					xs[i] = append(xs[i], math.Log(*f.Value))
				}
			}
		}
		if c.judge(xs[0], xs[1]) {
			all = append(all, c)
			break // the first that both have: what the allocator holds says more than what the process does
		}
	}
	if c, ok := losses(here, there); ok {
		all = append(all, c)
	}
	return all, why
}

// blocks is in how many stretches a run's steps are cut to see how certain its median is.
const blocks = 10

func logs(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = math.Log(x)
	}
	return out
}

// judge fills the change from two samples of logarithms, one value a run; false where a side has none.
func (c *Change) judge(x, y []float64) bool {
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	c.N = [2]int{len(x), len(y)}
	c.Here, c.There = math.Exp(stats.Median(x)), math.Exp(stats.Median(y))
	// Few runs may be closer to one another by chance than runs are, and further apart than is expected where the
	// machine is not quiet: the wider interval of the two stands, until runs speak for themselves.
	d, ok := stats.Compare(x, y, stats.Level)
	if few := stats.CompareFew(x, y, expectedSpread, expectedWeight, c.within, stats.Level); !ok ||
		d.Freedom < ownFreedom && few.High-few.Low > d.High-d.Low || len(x)+len(y) < leastRuns {
		d = few
	}
	c.Ratio, c.Low, c.High = math.Exp(d.Value), math.Exp(d.Low), math.Exp(d.High)
	c.decide()
	return true
}

// decide says whether the change may be noise: its interval holds 1, or it is too small to look into.
func (c *Change) decide() {
	c.Noise = c.Low <= 1 && c.High >= 1 || c.Ratio < 1+leastChange && c.Ratio > 1/(1+leastChange)
}

// losses holds the losses of the first steps against each other: with the same seed, data and batch they follow one
// another. Of two losses that are told of one step the first counts: where nothing is fetched between steps, the agent
// tells the second step's loss under the first one's number.
func losses(here, there Side) (c Change, ok bool) {
	h, t := here.run().Loss, there.run().Loss
	at := map[int]float64{}
	for i, n := range t.Step {
		if _, twice := at[n]; !twice && i < len(t.Value) && t.Value[i] != nil {
			at[n] = *t.Value[i]
		}
	}
	c = Change{Name: "loss", Unit: "1", on: onLoss, N: [2]int{1, 1}, Ratio: 1, Low: 1, High: 1, Noise: true}
	for i, n := range h.Step {
		v, both := at[n]
		delete(at, n)
		if !both || i >= len(h.Value) || h.Value[i] == nil {
			continue
		}
		if c.Over == "" || n <= lossSteps {
			c.Here, c.There, c.Over, ok = *h.Value[i], v, fmt.Sprintf("the loss of step %d", n), true
		}
		if n > lossSteps {
			break
		}
		if math.Abs(v-c.Here) > evidence.LossDrift*math.Abs(c.Here) {
			c.Noise = false
			if c.Here != 0 {
				c.Ratio = v / c.Here
			}
			c.Low, c.High = c.Ratio, c.Ratio
			break
		}
	}
	// nobody promised the same numbers where no seed is set
	if !c.Noise && !seeded(here) {
		c.Noise, c.Over = true, c.Over+"; no seed is set, and nothing follows from it"
	}
	return c, ok
}

// lossSteps is how many of the first steps have their losses compared: later ones depart by rounding alone.
const lossSteps = 10

func seeded(s Side) bool {
	for _, r := range s.run().Provenance.Randomness {
		if r.State == evidence.Set && strings.Contains(r.Name, "seed") && r.Name != "PYTHONHASHSEED" {
			return true
		}
	}
	return false
}
