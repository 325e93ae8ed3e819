// Package trajectory holds the losses of two runs beside one another: whether the runs can be compared, how far the one
// departs from the other, what changed between them, what of that can explain the departure, and what is left.
// docs/trajectories.md says it for a user. Pure: it opens nothing and asks no clock.
package trajectory

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/internal/evidence"
)

// Loss is the name of the series that the agent sees itself: the loss as passed to backward, unscaled.
const Loss = "loss"

// Series is one curve of a run.
type Series struct {
	Name, Door string // Door: by which the script logged it; "" for the loss
	By         string // what Step counts: "step"; "own step" as the script gave it
	Step       []int64
	Value      []float64 // NaN: not finite, as evidence keeps NaN and infinities alike
	Note       string    // why values are missing, and that only every so manieth is listed
}

// LossOf gives the training losses of a run. Where several were passed to backward in one step, they stand in their
// order under one number.
func LossOf(run *evidence.Run) Series {
	s := Series{Name: Loss, By: "step", Note: run.Loss.Note}
	for i, step := range run.Loss.Step {
		if i < len(run.Loss.Value) {
			s.Step, s.Value = append(s.Step, int64(step)), append(s.Value, finite(run.Loss.Value[i]))
		}
	}
	return s
}

// Logged gives what the script logged itself, learning rates left out.
func Logged(run *evidence.Run) (all []Series) {
	for _, l := range run.Logged {
		if l.Door == evidence.DoorOptimizer {
			continue
		}
		s := Series{Name: l.Name, Door: l.Door, By: "step", Note: l.Note}
		if own := len(l.Own) == len(l.Value) && !slices.Contains(l.Own, nil); own && len(l.Own) > 0 {
			s.By = "own step"
		}
		for i, v := range l.Value {
			switch {
			case s.By == "own step":
				s.Step = append(s.Step, *l.Own[i])
			case i < len(l.Step):
				s.Step = append(s.Step, int64(l.Step[i]))
			default:
				continue
			}
			s.Value = append(s.Value, finite(v))
		}
		if l.Thin > 1 {
			s.Note = join(s.Note, fmt.Sprintf("only every %dth value is listed", l.Thin))
		}
		all = append(all, s)
	}
	return all
}

// named finds the series of that name: "loss", or as it was logged.
func named(run *evidence.Run, name string) (Series, bool) {
	if name == Loss && len(run.Loss.Step) > 0 {
		return LossOf(run), true
	}
	for _, s := range Logged(run) {
		if s.Name == name {
			return s, true
		}
	}
	return Series{}, false
}

// MetricNames lists what the script logged itself.
func MetricNames(run *evidence.Run) (names []string) {
	for _, s := range Logged(run) {
		names = append(names, s.Name)
	}
	return names
}

// averaged makes one value of those that share a step: their mean, as where gradients are accumulated over batches.
func (s Series) averaged() Series {
	sum, n := map[int64]float64{}, map[int64]float64{}
	for i, step := range s.Step {
		sum[step] += s.Value[i]
		n[step]++
	}
	steps := slices.Sorted(maps.Keys(sum))
	values := make([]float64, len(steps))
	for i, step := range steps {
		values[i] = sum[step] / n[step]
	}
	s.Step, s.Value = steps, values
	return s
}

// pair is one point of both.
type pair struct {
	step int64
	a, b float64
}

// align pairs what has the same step, the first of a step with the first and so on, in the order of steps, and counts
// what only one of the two has.
func align(a, b Series) (pairs []pair, onlyA, onlyB int) {
	there := map[int64][]float64{}
	for i, step := range b.Step {
		there[step] = append(there[step], b.Value[i])
	}
	onlyB = len(b.Step)
	for i, step := range a.Step {
		rest := there[step]
		if len(rest) == 0 {
			onlyA++
			continue
		}
		pairs = append(pairs, pair{step, a.Value[i], rest[0]})
		there[step] = rest[1:]
		onlyB--
	}
	slices.SortStableFunc(pairs, func(x, y pair) int {
		switch {
		case x.step < y.step:
			return -1
		case x.step > y.step:
			return 1
		}
		return 0
	})
	return pairs, onlyA, onlyB
}

func finite(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
