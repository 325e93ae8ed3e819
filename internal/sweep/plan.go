package sweep

import (
	"fmt"
	"slices"
	"strings"
)

// Plan is what a sweep was asked to do, as far as it decides which trial comes next. All of it is kept with the trials.
type Plan struct {
	Range Range    `json:"range"`
	First int      `json:"first,omitempty"` // batch to begin with; 0: firstRows
	Steps int      `json:"steps"`           // training steps of a trial
	Cells []string `json:"cells,omitempty"` // values of the grid's parameter; none: no grid
	Grid  string   `json:"grid,omitempty"`  // its name
	Timed bool     `json:"timed"`           // throughput means something: no rehearsal
	// Remedies: no search. The batch of Range.From once as it is, and once with each of these.
	Remedies []string `json:"remedies,omitempty"`
	Batch    int      `json:"batch,omitempty"` // of remedies, rows; 0: as the script has it
}

// proofSteps is how many times the steps of a trial the proof of the largest batch has.
const proofSteps = 3

// enough is the part of the best throughput at which the knee is, as the issue of the field's tools has it: more rows
// than that buy next to nothing.
const enough = 0.95

// mostKnee bounds the trials that look for the knee.
const mostKnee = 6

// Cells of a plan without a grid are one, without a name.
func (p Plan) cells() []string {
	if len(p.Cells) == 0 {
		return []string{""}
	}
	return p.Cells
}

// next is the trial that comes next after these; ok is false where there is none.
func (p Plan) next(trials []Trial) (ask Ask, ok bool) {
	if p.Remedies != nil {
		return p.nextRemedy(trials)
	}
	first := p.First
	for _, cell := range p.cells() {
		c := p.of(cell, trials)
		if ask, ok := c.next(first); ok {
			ask.Cell = cell
			return ask, true
		}
		if best, _ := c.best(); best > 0 && p.First == 0 {
			first = best // where the cell before has ended: what it is a cell of has not changed
		}
	}
	return Ask{}, false
}

// cell is the search of one value of the grid's parameter.
type cell struct {
	Plan
	trials []Trial
}

func (p Plan) of(name string, trials []Trial) cell {
	c := cell{Plan: p}
	for _, t := range trials {
		if t.Cell == name && t.For != ForRemedy && t.Ending != EndedByPerson && !t.Aside {
			c.trials = append(c.trials, t)
		}
	}
	for _, t := range c.trials { // no batch has more rows than the data
		if t.Items != nil && (c.Range.To == 0 || *t.Items < c.Range.To) {
			c.Range.To = *t.Items
		}
	}
	return c
}

// readings are what the trials say to the search.
func (c cell) readings() []Reading {
	var all []Reading
	longest := c.longest()
	for _, t := range c.trials {
		switch t.Ending {
		case EndedWell, EndedByMemory, EndedInSwap:
		default: // it says nothing about memory
			continue
		}
		if t.Ending == EndedWell && longest && !t.Longest { // it fits what came, which was not the longest
			continue
		}
		if c.leaked(t) { // any batch does, in time
			continue
		}
		r := Reading{Batch: t.Batch, Fits: t.Ending == EndedWell}
		if t.Peak != nil {
			r.Peak = *t.Peak
		}
		if t.Live != nil {
			r.Live = *t.Live
		}
		if t.Fixed != nil {
			r.Fixed = *t.Fixed
		}
		if t.Needs != nil {
			r.Needs = *t.Needs
		}
		if t.Limit != nil && t.LimitBy != "memory.watermark" {
			r.Limit = *t.Limit
		}
		all = append(all, r)
	}
	return all
}

// longest reports whether each trial has to have the longest batch of the data first: batches came in several lengths,
// or the proof ran out of memory over the longest. Where the agent cannot put it first, no trial has it.
func (c cell) longest() bool {
	varied := false
	for _, t := range c.trials {
		if t.Longest && t.Trained > 0 && t.notLongest() != "" {
			return false
		}
		varied = varied || t.Varied || t.For == ForProof && t.Ending == EndedByMemory && t.Reordered
	}
	return varied
}

// leaked reports whether a trial is a proof that ran out of memory by what grew from step to step, not by its batch.
func (c cell) leaked(t Trial) bool {
	if t.For != ForProof || t.Ending != EndedByMemory {
		return false
	}
	_, g := c.leak(t.Batch)
	return g != nil
}

// limit is what the allocator may hold, in bytes, as far as it is known; 0: it is not.
func (c cell) limit() (bytes float64, by string) {
	for _, t := range c.trials {
		if t.Limit == nil {
			continue
		}
		if failed := t.Ending == EndedByMemory; failed || bytes == 0 {
			bytes, by = *t.Limit, t.LimitBy
		}
	}
	return bytes, by
}

// broken is the trial that ended the search: it failed, and for no want of memory. nil: there is none.
func (c cell) broken() *Trial {
	for i, t := range c.trials {
		switch t.Ending {
		case EndedWell, EndedByMemory, EndedInSwap:
		case EndedOtherBatch:
			if t.Items != nil && *t.Items < t.Batch { // the range ends below it now
				continue
			}
			return &c.trials[i]
		default:
			if t.For == ForSearch || t.For == ForAgain {
				return &c.trials[i]
			}
		}
	}
	return nil
}

func (c cell) best() (fits, fails int) {
	return Best(c.Range, c.readings())
}

// last is the last trial for something with that batch; nil: there is none.
func (c cell) last(batch int, what ...string) *Trial {
	for i := len(c.trials) - 1; i >= 0; i-- {
		if t := &c.trials[i]; t.Batch == batch && (len(what) == 0 || slices.Contains(what, t.For)) {
			return t
		}
	}
	return nil
}

func (c cell) next(first int) (Ask, bool) {
	if c.broken() != nil {
		return Ask{}, false
	}
	limit, _ := c.limit()
	if step := Next(c.Range, first, limit, c.readings()); !step.Done {
		ask := Ask{For: ForSearch, Batch: step.Batch, Steps: c.Steps, Longest: c.longest(), Why: step.Why}
		if step.Again {
			ask.For = ForAgain
		}
		return ask, true
	}
	best, _ := c.best()
	if best == 0 {
		return Ask{}, false
	}
	if c.proof(best, true) == nil {
		return Ask{For: ForProof, Batch: best, Steps: proofSteps * c.Steps, Longest: true,
			Why: "the largest, for longer, the longest batch first"}, true
	}
	if c.longest() && c.proof(best, false) == nil {
		return Ask{For: ForProof, Batch: best, Steps: proofSteps * c.Steps,
			Why: "the largest, for longer, in the script's own order: lengths that come and go leave gaps"}, true
	}
	if b := c.nextKnee(); b > 0 {
		return Ask{For: ForKnee, Batch: b, Steps: c.Steps, Why: "where does the throughput stop growing?"}, true
	}
	return Ask{}, false
}

// proof is the last trial that proves a batch, with the longest batch of the data first or in the script's own order;
// nil:
// there is none.
func (c cell) proof(batch int, longest bool) *Trial {
	for i := len(c.trials) - 1; i >= 0; i-- {
		if t := &c.trials[i]; t.Batch == batch && t.For == ForProof && t.Longest == longest {
			return t
		}
	}
	return nil
}

// rates are the best throughput of each batch that fits, rows a second, by batch.
func (c cell) rates() (batches []int, rate map[int]float64) {
	rate = map[int]float64{}
	for _, t := range c.trials {
		if t.Ending != EndedWell || t.Rate == nil || t.For == ForProof {
			continue
		}
		if rate[t.Batch] == 0 {
			batches = append(batches, t.Batch)
		}
		rate[t.Batch] = max(rate[t.Batch], *t.Rate)
	}
	slices.Sort(batches)
	return batches, rate
}

// knee is the smallest of the batches tried that has at least `enough` of the best throughput; below is the largest
// tried below it, above the smallest above it that has less again, 0: none.
func (c cell) knee() (knee, below, above int, best float64) {
	batches, rate := c.rates()
	for _, b := range batches {
		best = max(best, rate[b])
	}
	for _, b := range batches {
		switch fast := rate[b] >= enough*best; {
		case fast && knee == 0:
			knee = b
		case knee == 0:
			below = b
		case !fast && above == 0:
			above = b
		}
	}
	return knee, below, above, best
}

// nextKnee is a batch whose throughput would tell more of where the knee is; 0: none.
func (c cell) nextKnee() int {
	if !c.Timed {
		return 0
	}
	made := 0
	for _, t := range c.trials {
		if t.For == ForKnee {
			made++
		}
	}
	knee, below, _, _ := c.knee()
	if made >= mostKnee || knee == 0 {
		return 0
	}
	lo, _ := c.Range.ends()
	m := max(c.Range.Multiple, 1)
	b := knee / 2 / m * m
	if below > 0 {
		if knee <= 2*below || knee-below <= m { // told within a factor of two
			return 0
		}
		b = (knee + below) / 2 / m * m
	}
	if b < lo*m || c.last(b) != nil {
		return 0
	}
	return b
}

// Halves is the remedy by which two batches of half the rows make one update.
const Halves = "accumulate"

func (p Plan) nextRemedy(trials []Trial) (Ask, bool) {
	done := map[string]bool{}
	for _, t := range trials {
		if t.Ending != EndedByPerson && !t.Aside {
			done[t.Remedy] = true
			if t.Remedy == "" && t.Trained == 0 && t.Ending != EndedByMemory {
				return Ask{}, false // the script does not run as it is
			}
		}
	}
	for _, name := range append([]string{""}, p.Remedies...) {
		if done[name] {
			continue
		}
		ask := Ask{For: ForRemedy, Batch: p.Batch, Steps: p.Steps, Remedy: name, Why: "with " + name}
		switch name {
		case "":
			ask.Why = "as the script is"
		case Halves:
			ask.Accumulate, ask.Why = 2, "two batches of half the rows an update"
		default:
			ask.Remedies = []string{name}
		}
		return ask, true
	}
	return Ask{}, false
}

// usualSearch is how many trials a search takes as a rule (docs/sweep.md), usualKnee those for the knee.
const usualSearch, usualKnee = 5, 2

// left is how many trials there will be yet at about, one at least: what a search takes nobody knows before.
func (p Plan) left(trials []Trial) int {
	if p.Remedies != nil {
		done := map[string]bool{}
		for _, t := range trials {
			done[t.Remedy] = done[t.Remedy] || t.Ending != EndedByPerson && !t.Aside
		}
		n := 0
		for _, name := range append([]string{""}, p.Remedies...) {
			if !done[name] {
				n++
			}
		}
		return max(n, 1)
	}
	n := 0
	for _, name := range p.cells() {
		c := p.of(name, trials)
		ask, more := c.next(p.First)
		if !more {
			continue
		}
		counts := map[string]int{}
		for _, t := range c.trials {
			counts[t.For]++
		}
		knees := 0
		if p.Timed {
			knees = usualKnee
		}
		switch ask.For {
		case ForKnee:
			n += max(knees-counts[ForKnee], 1)
		case ForProof:
			n += 1 + knees
		default:
			n += max(usualSearch-counts[ForSearch]-counts[ForAgain], 1) + 1 + knees
		}
	}
	return max(n, 1)
}

// words says what a plan is for on one line.
func (p Plan) words() string {
	if p.Remedies != nil {
		batch := "the script's batch"
		if p.Batch > 0 {
			batch = fmt.Sprintf("batch %d", p.Batch)
		}
		return batch + ", plain and with each of " + strings.Join(p.Remedies, ", ")
	}
	to := "as far as it fits"
	if p.Range.To > 0 {
		to = fmt.Sprint("to ", p.Range.To)
	}
	text := fmt.Sprintf("batches from %d %s", p.Range.From, to)
	if p.Range.Multiple > 1 {
		text += fmt.Sprintf(", multiples of %d", p.Range.Multiple)
	}
	if len(p.Cells) > 0 {
		text += fmt.Sprintf(", for %s %s", p.Grid, strings.Join(p.Cells, ", "))
	}
	return text
}
