package sweep

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"assay/internal/evidence"
	"assay/internal/stats"
	"assay/internal/unit"
)

// Growth is memory that grew from step to step, for as long as a trial went.
type Growth struct {
	Each float64 `json:"each"` // bytes a step, by the least-squares line
	From int     `json:"from"` // first and last step that were looked at
	To   int     `json:"to"`
	// Varied: the batches had several shapes, so that it may be lengths that grew.
	Varied bool `json:"varied,omitempty"`
	// Unsure: the longest batch was put first and the others came in their order: their lengths may be all of it.
	Unsure bool `json:"unsure,omitempty"`
}

// What shows that memory grows, by the tensors in use where the backward passes began. The optimizer's state is there
// from the second step on.
const (
	settled     = 3    // first step that is looked at
	leastAlike  = 4    // readings, where all batches had one shape and nothing else can make a difference
	leastVaried = 8    // readings otherwise: of 40,320 orders of as many one looks so
	mostFalls   = 0.02 // pairs of readings of which the later is smaller
	leastRises  = 0.5  // pairs of which it is larger: what grows every other step still does
)

// growthOf is how memory grew in the run's training steps; nil: it did not, or too little was read to say so.
func growthOf(run *evidence.Run) *Growth {
	s := run.Steps
	var xs, ys []float64
	for i, n := range s.Number {
		if n >= settled && i < len(s.Live) && s.Live[i] > 0 {
			xs, ys = append(xs, float64(n)), append(ys, s.Live[i])
		}
	}
	varied := variedShapes(run)
	least := leastAlike
	if varied {
		least = leastVaried
	}
	if len(xs) < least || !rises(ys) || !rises(ys[len(ys)/2:]) { // what has come to its end is no leak
		return nil
	}
	_, each, ok := stats.Line(xs, ys)
	if !ok || each < 1 {
		return nil
	}
	return &Growth{Each: each, From: int(xs[0]), To: int(xs[len(xs)-1]), Varied: varied,
		Unsure: varied && reordered(run)}
}

// rises reports whether nearly no reading is smaller than one before it, and many are larger.
func rises(ys []float64) bool {
	up, down, pairs := 0, 0, 0
	for i := range ys {
		for j := i + 1; j < len(ys); j++ {
			pairs++
			switch {
			case ys[j] > ys[i]:
				up++
			case ys[j] < ys[i]:
				down++
			}
		}
	}
	return float64(down) <= mostFalls*float64(pairs) && float64(up) >= leastRises*float64(pairs) && up > 0
}

var anyRows = regexp.MustCompile(`\[\d+`)

// variedShapes reports whether the batches that entered one model in training differed by more than their rows.
func variedShapes(run *evidence.Run) bool {
	seen := map[string]string{}
	for _, s := range run.Shapes {
		shape := anyRows.ReplaceAllString(s.Inputs, "[n")
		if was, ok := seen[s.Model]; ok && was != shape {
			return true
		}
		seen[s.Model] = shape
	}
	return false
}

// words say how much it grew, and after how many steps it would come to the limit from a peak, bytes; 0: not known.
func (g *Growth) words(peak, limit float64) string {
	text := fmt.Sprintf("memory still grows, %s a step (steps %d to %d)", unit.Bytes(g.Each), g.From, g.To)
	if g.Varied {
		text += ", though the batches had several lengths"
	}
	if left := (limit - peak) / g.Each; limit > 0 && peak > 0 && left > 0 && left < math.MaxInt32 {
		text += fmt.Sprintf(": %s more and it is at the limit", steps(int(left)))
	}
	return text
}

func steps(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

// leak is how memory grew in the last trial of a batch in which it was seen to, those that ran out of memory with them;
// one that came to its end later without that has the last word. nil: not that anybody saw.
func (c cell) leak(batch int) (*Trial, *Growth) {
	for i, t := range slices.Backward(c.trials) {
		if t.Batch != batch || t.Ending != EndedWell && t.Ending != EndedByMemory {
			continue
		}
		// What grew in the script's own order, and stayed below what the longest batch took: lengths, and no leak.
		if p := c.proof(batch, true); t.For == ForProof && !t.Longest && p != nil && t.most() < p.most() {
			continue
		}
		if t.Growth != nil && !t.Growth.Unsure {
			return &c.trials[i], t.Growth
		}
		if t.Ending == EndedWell && t.Trained >= settled+leastAlike {
			return nil, nil
		}
	}
	return nil, nil
}
