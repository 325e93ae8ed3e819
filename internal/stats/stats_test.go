package stats

import (
	"math"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(1, math.Abs(b)) }

// Quantiles as NumPy gives them: numpy.quantile(xs, [.25, .5, .75, .95]), its default method (linear), NumPy 2.4.6.
func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		xs                  []float64
		q1, median, q3, p95 float64
	}{
		{[]float64{7}, 7, 7, 7, 7},
		{[]float64{2, 1}, 1.25, 1.5, 1.75, 1.95},
		{[]float64{3, 1, 2}, 1.5, 2, 2.5, 2.9},
		{[]float64{4, 1, 3, 2}, 1.75, 2.5, 3.25, 3.85},
		{[]float64{9, 1, 8, 2, 7, 3, 6, 4, 5, 100}, 3.25, 5.5, 7.75, 59.05},
	} {
		before := append([]float64(nil), c.xs...)
		s := Summarize(c.xs)
		if s.N != len(c.xs) || !near(s.Q1, c.q1) || !near(s.Median, c.median) || !near(s.Q3, c.q3) ||
			!near(s.P95, c.p95) {
			t.Errorf("%v: %+v", c.xs, s)
		}
		for i := range before {
			if c.xs[i] != before[i] {
				t.Fatalf("%v was sorted in place", before)
			}
		}
	}
	s := Summarize([]float64{1, 2, 3, 6})
	if s.Mean != 3 || s.Min != 1 || s.Max != 6 || s.Sum != 12 {
		t.Errorf("%+v", s)
	}
	if s := Summarize(nil); s.N != 0 {
		t.Errorf("%+v", s)
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is a number")
	}
}

func TestLine(t *testing.T) {
	a, b, ok := Line([]float64{2, 3, 4}, []float64{10, 12, 14})
	if !ok || !near(a, 6) || !near(b, 2) {
		t.Errorf("%v %v %v", a, b, ok)
	}
	// numpy.polyfit([1, 2, 3, 5], [1, 3, 2, 6], 1): slope 8/7, intercept -1/7 by the normal equations.
	a, b, ok = Line([]float64{1, 2, 3, 5}, []float64{1, 3, 2, 6})
	if !ok || !near(b, 8.0/7) || !near(a, -1.0/7) {
		t.Errorf("%v %v %v", a, b, ok)
	}
	for _, c := range [][2][]float64{{{1}, {1}}, {{2, 2}, {1, 3}}, {{1, 2}, {1}}, {nil, nil}} {
		if _, _, ok := Line(c[0], c[1]); ok {
			t.Errorf("a line through %v", c)
		}
	}
}
