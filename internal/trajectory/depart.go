package trajectory

import (
	"fmt"
	"math"

	"assay/internal/evidence"
	"assay/internal/stats"
	"assay/internal/unit"
)

// leastScale is what a difference is divided by at least where it is said as a ratio: a loss may be zero.
const leastScale = 1e-12

// Tolerance is how far the values may lie apart: |b − a| <= Absolute + Relative·|a|, A being what B is held against, as
// numpy.isclose(b, a) and torch.testing.assert_close have it.
type Tolerance struct {
	Relative float64 `json:"relative"` // ratio of |a|
	Absolute float64 `json:"absolute"` // in the unit of the series
	Bitwise  bool    `json:"bitwise"`  // every value has to be the same; the others are zero then
	Repeats  bool    `json:"repeats"`  // Relative is what A's own repeats differ by
	Source   string  `json:"source"`   // who set it
}

// Words says the tolerance.
func (t Tolerance) Words() string {
	switch {
	case t.Bitwise:
		return "bitwise equal"
	case t.Absolute > 0 && t.Relative > 0:
		return fmt.Sprintf("%s of A and %s", unit.Format(t.Relative, "ratio"), number(t.Absolute))
	case t.Absolute > 0:
		return number(t.Absolute) + " (absolute)"
	}
	return unit.Format(t.Relative, "ratio") + " of A"
}

func (t Tolerance) at(a float64) float64 { return t.Absolute + t.Relative*math.Abs(a) }

// beyond reports whether the two lie further apart than that. Two values that are not finite are told apart by nobody.
func (t Tolerance) beyond(p pair) bool {
	if math.IsNaN(p.a) || math.IsNaN(p.b) {
		return math.IsNaN(p.a) != math.IsNaN(p.b)
	}
	return math.Abs(p.b-p.a) > t.at(p.a)
}

// Point is one step of both. Values that are not finite are absent.
type Point struct {
	Step       int64    `json:"step"`
	A          *float64 `json:"a,omitempty"`
	B          *float64 `json:"b,omitempty"`
	Difference *float64 `json:"difference,omitempty"` // b − a
	Relative   *float64 `json:"relative,omitempty"`   // |b − a| / |a|
}

// known is nil for what JSON has no number for.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func (p pair) point() *Point {
	return &Point{Step: p.step, A: known(p.a), B: known(p.b), Difference: known(p.b - p.a),
		Relative: known(p.relative())}
}

func (p pair) relative() float64 {
	r := math.Abs(p.b-p.a) / math.Max(math.Abs(p.a), leastScale)
	if math.IsNaN(r) { // infinities, of values near the largest float64
		return math.MaxFloat64
	}
	return math.Min(r, math.MaxFloat64)
}

// Departure is how far one series departs from another over the steps that both list.
type Departure struct {
	Steps int   `json:"steps"` // that were compared
	OnlyA int   `json:"only_a"`
	OnlyB int   `json:"only_b"`
	From  int64 `json:"from"` // the first and the last of them
	To    int64 `json:"to"`

	Equal     int    `json:"equal"` // of Steps: the same to the last bit
	FirstDiff *Point `json:"first_different,omitempty"`
	First     *Point `json:"first_beyond,omitempty"` // the first beyond the tolerance
	Beyond    int    `json:"beyond"`                 // how many are
	Largest   *Point `json:"largest,omitempty"`      // by its ratio; absent where no value of both is finite
	Final     *Point `json:"final,omitempty"`

	// the area between the two over the steps, by trapezoids, and the mean of b − a, both of finite values alone
	Area *float64 `json:"area,omitempty"`
	Bias *float64 `json:"bias,omitempty"`

	// how many values are not finite in A alone, in B alone and in both: NaN and infinities are kept alike, so that the
	// last cannot be compared
	LostA    int    `json:"not_finite_a"`
	LostB    int    `json:"not_finite_b"`
	LostBoth int    `json:"not_finite_both"`
	FirstNaN *Point `json:"first_not_finite,omitempty"`

	Trend    string    `json:"trend"`              // growing, shrinking, bounded, none; "": too few steps to tell
	Quarters []float64 `json:"quarters,omitempty"` // medians of |b − a| / |a| in four stretches of equal length
}

// LargestRelative is Largest's ratio, 0 where there is none.
func (d Departure) LargestRelative() float64 {
	if d.Largest == nil || d.Largest.Relative == nil {
		return 0
	}
	return *d.Largest.Relative
}

// Depart says how far b departs from a. A gate's parity.loss is its largest ratio.
func Depart(a, b Series, within Tolerance) Departure {
	pairs, onlyA, onlyB := align(a, b)
	return departed(pairs, onlyA, onlyB, within)
}

func departed(pairs []pair, onlyA, onlyB int, within Tolerance) Departure {
	d := Departure{Steps: len(pairs), OnlyA: onlyA, OnlyB: onlyB}
	if len(pairs) == 0 {
		return d
	}
	d.From, d.To = pairs[0].step, pairs[len(pairs)-1].step
	d.Final = pairs[len(pairs)-1].point()
	var kept []pair
	largest, sum := -1.0, 0.0
	for _, p := range pairs {
		lostA, lostB := math.IsNaN(p.a), math.IsNaN(p.b)
		switch {
		case lostA && lostB:
			d.LostBoth++
		case lostA:
			d.LostA++
		case lostB:
			d.LostB++
		}
		if (lostA || lostB) && d.FirstNaN == nil {
			d.FirstNaN = p.point()
		}
		if within.beyond(p) {
			if d.Beyond++; d.First == nil {
				d.First = p.point()
			}
		}
		if lostA || lostB {
			continue
		}
		kept = append(kept, p)
		sum += p.b - p.a
		if math.Float64bits(p.a) == math.Float64bits(p.b) {
			d.Equal++
		} else if d.FirstDiff == nil {
			d.FirstDiff = p.point()
		}
		if r := p.relative(); r > largest {
			largest, d.Largest = r, p.point()
		}
	}
	if len(kept) > 0 {
		d.Bias = known(sum / float64(len(kept)))
	}
	if len(kept) > 1 {
		area := 0.0
		for i := 1; i < len(kept); i++ {
			p, q := kept[i-1], kept[i]
			area += (math.Abs(p.b-p.a) + math.Abs(q.b-q.a)) / 2 * float64(q.step-p.step)
		}
		d.Area = known(area)
	}
	d.trend(kept)
	return d
}

// What is called a trend: at least so many points in each of four stretches, and from the first stretch to the last
// no median on the other side of the one before, the last at least twice the first (or half of it). Assay's own
// convention; the medians stand beside the word.
const (
	quarterPoints = 3
	trendRatio    = 2
)

func (d *Departure) trend(kept []pair) {
	if len(kept) < 4*quarterPoints {
		return
	}
	for q := range 4 {
		var part []float64
		for _, p := range kept[q*len(kept)/4 : (q+1)*len(kept)/4] {
			part = append(part, p.relative())
		}
		d.Quarters = append(d.Quarters, stats.Median(part))
	}
	up, down := true, true
	for i := 1; i < 4; i++ {
		up = up && d.Quarters[i] >= d.Quarters[i-1]
		down = down && d.Quarters[i] <= d.Quarters[i-1]
	}
	first, last := d.Quarters[0], d.Quarters[3]
	switch {
	case first == 0 && last == 0 && d.Equal == len(kept):
		d.Trend = "none"
	case up && last > first && last >= trendRatio*first:
		d.Trend = "growing"
	case down && first > last && first >= trendRatio*last:
		d.Trend = "shrinking"
	default:
		d.Trend = "bounded"
	}
}

// leastWindow and windowShare make the window over which noisy curves are smoothed where nobody named one: a twentieth
// of the steps, five at least. Assay's own convention; the window is named wherever a smoothed value is.
const (
	leastWindow = 5
	windowShare = 20
)

func usualWindow(points int) int { return max(leastWindow, points/windowShare) }

// smoothed takes the mean of the last so many finite points of each side; the first ones, whose window is not full, are
// left out.
func smoothed(pairs []pair, window int) (out []pair) {
	var a, b float64
	var kept []pair
	for _, p := range pairs {
		if math.IsNaN(p.a) || math.IsNaN(p.b) {
			continue
		}
		kept = append(kept, p)
		a, b = a+p.a, b+p.b
		if n := len(kept); n > window {
			a, b = a-kept[n-1-window].a, b-kept[n-1-window].b
		}
		if len(kept) >= window {
			out = append(out, pair{p.step, a / float64(window), b / float64(window)})
		}
	}
	return out
}

// DriftOf is the departure of the losses of run b from those of a: its largest ratio is what a gate's parity.loss(b, a)
// goes by, and what `assay compare A B` prints. why says why it is not known, and do what would tell.
func DriftOf(a, b *evidence.Run) (d Departure, why, do string) {
	for _, bar := range Bars(a, b) {
		// a gate goes by script, batch and workers, and has no word to allow arguments by: a folder for results is one
		if bar.Name != "command" {
			return d, bar.Why, bar.Do
		}
	}
	x, y, _ := both(a, b, Loss)
	d = Depart(x, y, Tolerance{Relative: evidence.LossDrift})
	switch {
	case d.Steps == 0:
		why, do = "no step has a loss in both runs", "run both for the same number of steps"
	case d.LostBoth > 0 && d.LostA+d.LostB == 0:
		why = fmt.Sprintf("%d of %d losses are not finite in either run: they cannot be compared", d.LostBoth, d.Steps)
		do = "a training whose losses are finite"
	}
	return d, why, do
}
