// Package stats turns a sample into a centre and a spread, and fits lines.
package stats

import (
	"math"
	"sort"
)

// Summary of a sample: linear-interpolation quantiles (type 7 of Hyndman and Fan, 1996, as NumPy's default), mean,
// size.
type Summary struct {
	N                   int
	Q1, Median, Q3, P95 float64
	Mean, Min, Max, Sum float64
}

// Summarize describes xs. An empty sample has N 0 and nothing else that means anything.
func Summarize(xs []float64) Summary {
	s := Summary{N: len(xs)}
	if s.N == 0 {
		return s
	}
	sorted := append([]float64(nil), xs...)
	sort.Float64s(sorted)
	for _, x := range sorted {
		s.Sum += x
	}
	s.Mean = s.Sum / float64(s.N)
	s.Min, s.Max = sorted[0], sorted[s.N-1]
	s.Q1, s.Median, s.Q3 = quantile(sorted, .25), quantile(sorted, .5), quantile(sorted, .75)
	s.P95 = quantile(sorted, .95)
	return s
}

// Median of xs; NaN for an empty sample.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	return Summarize(xs).Median
}

func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	lo := int(math.Floor(at))
	hi := min(lo+1, len(sorted)-1)
	return sorted[lo] + (at-float64(lo))*(sorted[hi]-sorted[lo])
}

// Line fits y = a + b·x by least squares. ok is false for fewer than two distinct x.
func Line(x, y []float64) (a, b float64, ok bool) {
	n := float64(len(x))
	if len(x) != len(y) || len(x) < 2 {
		return 0, 0, false
	}
	var mx, my float64
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	var sxx, sxy float64
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	if sxx == 0 {
		return 0, 0, false
	}
	b = sxy / sxx
	return my - b*mx, b, true
}
