package handoff

import (
	"fmt"
	"math"

	"assay/internal/evidence"
	"assay/internal/stats"
	"assay/internal/unit"
)

// Plateau is whether memory stops growing from step to step.
type Plateau struct {
	State string   `json:"state"`          // flat, grows, unknown
	Text  string   `json:"text"`           // for a reader
	Of    string   `json:"of"`             // what was read
	Each  *float64 `json:"each,omitempty"` // bytes a step, where it grows
	N     int      `json:"n"`              // readings
}

// States of a plateau.
const (
	Flat    = "flat"
	Grows   = "grows"
	Unknown = "unknown"
)

// What shows that memory grows: of the pairs of readings nearly none falls, many rise, in the second half of them as
// well as in all. These are the sweep's (internal/sweep/growth.go), and the least rise is the pace of memory.growth
// over a window: less than that is a process that settles.
const (
	settledStep  = 3 // first step that is looked at: the optimizer's state is there
	leastReads   = 8
	mostFalls    = 0.02
	leastRises   = 0.5
	leastRise    = 0.01 // of what is held, over the second half of the window
	leastSamples = 6    // of the process, which grows in steps of a page and is read once in a while
)

// plateau judges a run by the tensors in use where backward passes began, and where no allocator counts them by the
// samples of its processes' memory.
func plateau(run *evidence.Run) Plateau {
	var xs, ys []float64
	for i, n := range run.Steps.Number {
		if n >= settledStep && i < len(run.Steps.Live) && run.Steps.Live[i] > 0 {
			xs, ys = append(xs, float64(n)), append(ys, run.Steps.Live[i])
		}
	}
	if len(ys) >= leastReads {
		return judged(xs, ys, "tensors in use at the start of each backward pass", "step")
	}
	from, to := settledTimes(run)
	for _, name := range []string{"process.footprint", "process.resident"} {
		xs, ys = nil, nil
		for _, s := range run.Host.Samples {
			if s.At < from || s.At > to {
				continue
			}
			for _, f := range s.Figures {
				if f.Name == name && f.Known() {
					xs, ys = append(xs, s.At), append(ys, *f.Value)
				}
			}
		}
		if len(ys) >= leastSamples {
			return judged(xs, ys, name+" of its processes", "second")
		}
	}
	return Plateau{State: Unknown, N: len(ys),
		Text: "whether memory goes on growing is not known: too few readings in so short a window; --steps or --for makes it longer"}
}

// settledTimes are the times at which the run trained and had settled, seconds since its start.
func settledTimes(run *evidence.Run) (from, to float64) {
	s := run.Steps
	n := min(len(s.Start), len(s.Total))
	if n < 2*leastReads {
		return math.Inf(1), 0
	}
	return s.Start[n/4], s.Start[n-1] + s.Total[n-1]
}

func judged(xs, ys []float64, of, per string) Plateau {
	p := Plateau{State: Flat, Of: of, N: len(ys)}
	half := ys[len(ys)/2:]
	rise := half[len(half)-1] - half[0]
	p.Text = fmt.Sprintf("memory stays at %s (%d readings of %s)", unit.Bytes(half[len(half)-1]), p.N, of)
	if !rises(ys) || !rises(half) || rise < leastRise*half[0] {
		return p
	}
	_, each, ok := stats.Line(xs, ys)
	if !ok || each < 1 {
		return p
	}
	p.State, p.Each = Grows, &each
	p.Text = fmt.Sprintf("memory still grows, %s a %s (%d readings of %s)", unit.Bytes(each), per, p.N, of)
	return p
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
