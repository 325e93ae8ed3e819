package stats

import (
	"math"
	"testing"
)

// Expected values are SciPy 1.17.1's: scipy.stats.ttest_ind(second, first, trim=0.2, equal_var=True).confidence_interval(0.95).
func TestCompareAgreesWithSciPy(t *testing.T) {
	for _, c := range []struct {
		first, second []float64
		low, high     float64
		freedom       int
	}{
		{[]float64{2e-05, 0.00597, -0.00548, -0.01781, -0.00909, -0.01983, 0.0012, 0.0268, -0.00984, -0.01241},
			[]float64{0.0598, 0.05714, 0.05211}, 0.05013201465596266, 0.07443465201070401, 7},
		{[]float64{-0.02579, -0.03683, -0.0047, -0.02535, 0.00543, 0.00314, -0.00374, -0.05034, -0.01077, -0.00097, 0.00227, -0.0306},
			[]float64{0.04044, 0.03043, 0.03382, 0.07122, 0.03385, 0.04935}, 0.030082296327323343, 0.07356020367267667, 10},
		{[]float64{0.01769, -0.01167, -0.00223, 0.00221, 0.00128, -0.0245, 0.00152, 0.02718, -0.03094, 0.01719, 0.00239, -0.01283, 0.04001, 0.01525, -0.02399,
			0.00149, 0.01153, -0.00378, 0.01366, -0.00133, 0.01334, 0.02877, -0.01351, 0.00406, -0.00927, 0.00255, -0.02374, -0.01159, -0.00392, 0.01798},
			[]float64{0.0729, 0.02353, 0.03411, 0.06294, 0.01015}, 0.017770721081890286, 0.05978372336255415, 19},
	} {
		d, ok := Compare(c.first, c.second, 0.95)
		if !ok || d.Freedom != c.freedom || math.Abs(d.Low-c.low) > 1e-12 || math.Abs(d.High-c.high) > 1e-12 {
			t.Errorf("%d and %d values: %+v, SciPy says %v to %v", len(c.first), len(c.second), d, c.low, c.high)
		}
		if want := (d.High - d.Low) / 2; math.Abs(HalfWidth(len(c.first), len(c.second), Spread(c.first, c.second), 0.95)-want) > 1e-12 {
			t.Errorf("the width planned for is not the width got: %v", want)
		}
	}
}

// Expected values are scipy.stats.t.ppf and .cdf of SciPy 1.17.1.
func TestStudentAgreesWithSciPy(t *testing.T) {
	for _, c := range []struct{ freedom, p, want float64 }{
		{1, 0.9, 3.0776835371752544}, {1, 0.975, 12.706204736174694}, {1, 0.995, 63.656741162871526}, {2, 0.975, 4.302652729749462},
		{3.5, 0.975, 2.9400886379827282}, {8, 0.975, 2.306004135204166}, {8, 0.995, 3.355387331333395}, {30, 0.975, 2.0422724563012378}, {200, 0.995, 2.600634436191558},
	} {
		if got := StudentQuantile(c.p, c.freedom); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("quantile %v with %v degrees: %.15g, want %.15g", c.p, c.freedom, got, c.want)
		}
		if got := StudentQuantile(1-c.p, c.freedom); math.Abs(got+c.want) > 1e-9*c.want {
			t.Errorf("quantile %v with %v degrees: %.15g, want %.15g", 1-c.p, c.freedom, got, -c.want)
		}
	}
	for _, c := range []struct{ freedom, want float64 }{{1, 0.7912855998398473}, {8, 0.8850981875407373}, {200, 0.9024514053455719}} {
		if got := Student(1.3, c.freedom); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Student(1.3, %v) = %.16g, want %.16g", c.freedom, got, c.want)
		}
	}
}

func TestCompareNeedsASpread(t *testing.T) {
	for _, c := range [][2][]float64{{nil, {1}}, {{1}, nil}, {{1}, {2}}} {
		if d, ok := Compare(c[0], c[1], 0.95); ok {
			t.Errorf("%v and %v: %+v", c[0], c[1], d)
		}
	}
	if d, ok := Compare([]float64{1, 2}, []float64{9}, 0.95); !ok || d.Freedom != 1 {
		t.Errorf("two values and one give a (wide) interval: %+v %v", d, ok)
	}
}
