// Package pace predicts how long a training step takes on an Apple GPU, as a band, from a rehearsal: each operator's
// FLOPs and bytes against the chip's rates, the starting of kernels, and the host's waits. What share of the rates
// operators reach, how long starting takes, and how wide the band must be, are quantiles of published figures
// (efficiency.csv, which tools/pace makes); docs/pace.md says from which, and how often the band held figures that it
// was not made from.
package pace

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/target"
)

// Band is how long a step, a round of the optimizer's, takes, in seconds. Loading data is not in it.
type Band struct {
	Low, Mid, High float64
	Basis          evidence.Basis // predicted
	Bound          Bound          // what most of the step's time is bounded by
	Why            string         // which operators take it, and what bounds them
	Shares         []Share        // of the device's time, longest first, by the medians
	Unknown        []string       // operators of which neither FLOPs nor bytes are known: they widen the band
	Assumed        []string       // what a reader must know to use it
	Coverage       Coverage
}

// unknownKernels is the share of a step's kernels of which nothing may be known: beyond it there is no band. A
// judgement: each of them is taken to last no longer than the longest that is known, which a tenth can bear.
const unknownKernels = 0.1

// seldom are classes of which the published steps have next to nothing: what their own operators spread is taken for
// them where it is wider than what steps do.
var seldom = []Class{Gathering, Sorting}

// launched is the latest generation of chips whose starting of kernels is in the table. On an M4 it is faster: kornia's
// functions start a kernel in 5 to 20 µs there (docs/pace.md), and no training step that it bounds was published.
const launched = 3

// named is how many operators Why names.
const named = 3

// Of predicts a step of a rehearsed run on a chip. It fails where the run was no rehearsal or had no steps, where a
// rate of the chip is not known, and where of more than a tenth of the kernels neither FLOPs nor bytes are.
func Of(run *evidence.Run, chip target.Chip) (Band, error) { return Load().of(run, chip) }

func (t Table) of(run *evidence.Run, chip target.Chip) (Band, error) {
	const what = "time a step"
	if run == nil || run.Rehearsal == nil {
		return Band{}, fault.Hint(fmt.Errorf("%s on %s: the run was no rehearsal, and its operators are not known",
			what, chip.Name),
			"rehearse it: assay run --on double --shape-only -- COMMAND")
	}
	steps := stepsOf(run)
	if steps == 0 {
		return Band{}, fault.Hint(fmt.Errorf("%s on %s: the rehearsal saw no training step", what, chip.Name),
			"let it train for a few steps")
	}
	rates, err := RatesOf(chip)
	if err != nil {
		return Band{}, err
	}
	sum := t.Roofline(run.Rehearsal.Operators, steps, rates)
	if len(sum.Shares) == 0 {
		return Band{}, fault.Hint(fmt.Errorf("%s on %s: of no operator FLOPs or bytes are known", what, chip.Name),
			"rehearse it again with this assay: earlier ones did not count bytes")
	}
	if sum.UnknownKernels > unknownKernels*sum.Kernels {
		return Band{},
			fault.Hint(fmt.Errorf("%s on %s: of %.0f of its %.0f kernels neither FLOPs nor bytes are known (%s)",
				what, chip.Name,
				sum.UnknownKernels, sum.Kernels, strings.Join(first(sum.Unknown, named), ", ")),
				"`assay ops` says which of them run on the CPU; with operators that have kernels there is a band")
	}
	band := t.Band(sum)
	band.Why = t.why(sum, band)
	if band.Bound == ByLaunching && rates.Generation > launched {
		band.Assumed = append(band.Assumed, fmt.Sprintf("starting kernels as on chips up to the M%d: later ones are faster",
			launched))
	}
	if rates.Assumed != "" {
		band.Assumed = append(band.Assumed, rates.Assumed)
	}
	band.Assumed = append(band.Assumed,
		fmt.Sprintf("all that ran on the device, shared among %d steps: what the script does before and "+
			"between them is in it, loading data is not", steps))
	if rehearsed := run.Target.Double; rehearsed != nil && rehearsed.Chip != chip.Name {
		band.Assumed = append(band.Assumed, "rehearsed for "+rehearsed.Chip)
	}
	return band, nil
}

// stepsOf is how many steps the run had, also those that its series does not list.
func stepsOf(run *evidence.Run) int {
	last := 0
	for _, n := range run.Steps.Number {
		last = max(last, n)
	}
	for _, w := range run.Windows {
		last = max(last, w.Last)
	}
	return last
}

// Band makes the band of a sum. Kernels are started while the device works on those before, so that a step takes the
// longer of the two; a wait stands in neither.
func (t Table) Band(sum Sum) Band {
	var low, high, longest float64
	for _, s := range sum.Shares {
		faster, slower := t.Step.Low, t.Step.High
		if slices.Contains(seldom, s.Class) {
			own := t.Bandwidth[s.Class]
			faster, slower = min(faster, own.Mid/own.High), max(slower, own.Mid/own.Low)
		}
		low, high = low+faster*s.Seconds, high+slower*s.Seconds
		if s.Calls > 0 {
			longest = max(longest, s.Seconds/s.Calls)
		}
	}
	high += t.Step.High * longest * sum.UnknownKernels
	device, launching := t.Step.Mid*sum.Device, t.Launch.Mid*sum.Kernels
	b := Band{Basis: evidence.Predicted, Shares: sum.Shares, Unknown: sum.Unknown, Coverage: t.Coverage,
		Low:  max(low, t.Launch.Low*sum.Kernels) + t.Wait.Low*sum.Waits,
		Mid:  max(device, launching) + t.Wait.Mid*sum.Waits,
		High: max(high, t.Launch.High*sum.Kernels) + t.Wait.High*sum.Waits}
	if launching > device {
		b.Bound = ByLaunching
		return b
	}
	by := map[Bound]float64{}
	for _, s := range sum.Shares {
		by[s.Bound] += s.Seconds
	}
	b.Bound = ByBandwidth
	if by[ByCompute] >= by[ByBandwidth] {
		b.Bound = ByCompute
	}
	return b
}

// why says what takes the time, in one sentence.
func (t Table) why(sum Sum, b Band) string {
	if b.Bound == ByLaunching {
		return fmt.Sprintf("launching: %.0f kernels a step, started one by one, take longer than the device's work on them (%s a kernel, "+
			"by release and chip)", sum.Kernels, microseconds(t.Launch))
	}
	type group struct {
		class Class
		bound Bound
	}
	took, order := map[group]float64{}, []group{}
	for _, s := range sum.Shares {
		g := group{s.Class, s.Bound}
		if took[g] == 0 {
			order = append(order, g)
		}
		took[g] += s.Seconds
	}
	slices.SortStableFunc(order, func(a, b group) int {
		switch {
		case took[a] > took[b]:
			return -1
		case took[a] < took[b]:
			return 1
		}
		return 0
	})
	var words []string
	for _, g := range first(order, named) {
		operator := ""
		for _, s := range sum.Shares { // the longest of the group: shares are sorted
			if s.Class == g.class && s.Bound == g.bound {
				operator = s.Operator
				break
			}
		}
		words = append(words, fmt.Sprintf("%s %.0f %% (most of it %s), bounded by %s", g.class,
			100*took[g]/sum.Device, operator, g.bound))
	}
	return strings.Join(words, "; ")
}

func microseconds(q Quantiles) string { return fmt.Sprintf("%.0f to %.0f µs", q.Low*1e6, q.High*1e6) }

func first[T any](xs []T, n int) []T { return xs[:min(n, len(xs))] }
