package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Expected values are SciPy 1.17.1's: scipy.stats.ttest_ind(second, first, trim=0.2,
// equal_var=True).confidence_interval(0.95).
func TestCompareAgreesWithSciPy(t *testing.T) {
	for _, c := range []struct {
		first, second []float64
		low, high     float64
		freedom       int
	}{
		{[]float64{2e-05, 0.00597, -0.00548, -0.01781, -0.00909, -0.01983, 0.0012, 0.0268, -0.00984, -0.01241},
			[]float64{0.0598, 0.05714, 0.05211}, 0.05013201465596266, 0.07443465201070401, 7},
		{[]float64{-0.02579, -0.03683, -0.0047, -0.02535, 0.00543, 0.00314, -0.00374, -0.05034, -0.01077, -0.00097,
			0.00227, -0.0306},
			[]float64{0.04044, 0.03043, 0.03382, 0.07122, 0.03385, 0.04935}, 0.030082296327323343, 0.07356020367267667,
			10},
		{[]float64{0.01769, -0.01167, -0.00223, 0.00221, 0.00128, -0.0245, 0.00152, 0.02718, -0.03094, 0.01719, 0.00239,
			-0.01283, 0.04001, 0.01525, -0.02399,
			0.00149, 0.01153, -0.00378, 0.01366, -0.00133, 0.01334, 0.02877, -0.01351, 0.00406, -0.00927, 0.00255,
			-0.02374, -0.01159, -0.00392, 0.01798},
			[]float64{0.0729, 0.02353, 0.03411, 0.06294, 0.01015}, 0.017770721081890286, 0.05978372336255415, 19},
	} {
		d, ok := Compare(c.first, c.second, 0.95)
		if !ok || d.Freedom != c.freedom || math.Abs(d.Low-c.low) > 1e-12 || math.Abs(d.High-c.high) > 1e-12 {
			t.Errorf("%d and %d values: %+v, SciPy says %v to %v", len(c.first), len(c.second), d, c.low, c.high)
		}
		if want := (d.High - d.Low) / 2; math.Abs(HalfWidth(len(c.first), len(c.second), Spread(c.first, c.second),
			0.95)-want) > 1e-12 {
			t.Errorf("the width planned for is not the width got: %v", want)
		}
	}
}

// Expected values are scipy.stats.t.ppf and .cdf of SciPy 1.17.1.
func TestStudentAgreesWithSciPy(t *testing.T) {
	for _, c := range []struct{ freedom, p, want float64 }{
		{1, 0.9, 3.0776835371752544}, {1, 0.975, 12.706204736174694}, {1, 0.995, 63.656741162871526},
		{2, 0.975, 4.302652729749462},
		{3.5, 0.975, 2.9400886379827282}, {8, 0.975, 2.306004135204166}, {8, 0.995, 3.355387331333395},
		{30, 0.975, 2.0422724563012378}, {200, 0.995, 2.600634436191558},
	} {
		if got := StudentQuantile(c.p, c.freedom); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("quantile %v with %v degrees: %.15g, want %.15g", c.p, c.freedom, got, c.want)
		}
		if got := StudentQuantile(1-c.p, c.freedom); math.Abs(got+c.want) > 1e-9*c.want {
			t.Errorf("quantile %v with %v degrees: %.15g, want %.15g", 1-c.p, c.freedom, got, -c.want)
		}
	}
	for _, c := range []struct{ freedom, want float64 }{{1, 0.7912855998398473}, {8, 0.8850981875407373},
		{200, 0.9024514053455719}} {
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

// TestInterval: worked by hand after Tukey and McLaughlin (Sankhyā A 25, 1963): the winsorised sum of squares over h (h
// − 1), h values being kept, and Student's t of h − 1 degrees of freedom, whose quantiles are mpmath's.
func TestInterval(t *testing.T) {
	for _, c := range []struct {
		xs         []float64
		mean, half float64
	}{
		// Of 1 … 10 two are cut at each end: 3 3 3 4 5 6 7 8 8 8 has 42.5 about 5.5, and six values are kept.
		{[]float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}, 5.5, 2.5705818356363155 * math.Sqrt(42.5/6/5)},
		{[]float64{1, 2}, 1.5, 12.706204736174694 * math.Sqrt(0.5/2/1)},
		{[]float64{1, 2, 6}, 3, 4.302652729749462 * math.Sqrt(14./3/2)},
		// Five are enough to cut one at each end: 2 2 3 4 4, and a value far out changes nothing.
		{[]float64{1, 2, 3, 4, 1e9}, 3, 4.302652729749462 * math.Sqrt(4./3/2)},
	} {
		mean, low, high, ok := Interval(c.xs, 0.95)
		if !ok || !near(mean, c.mean) || math.Abs(high-mean-c.half) > 1e-9 || math.Abs(mean-low-c.half) > 1e-9 {
			t.Errorf("%v: %v, %v to %v (%v); want %v ± %v", c.xs, mean, low, high, ok, c.mean, c.half)
		}
	}
	if mean, _, _, ok := Interval([]float64{7}, 0.95); ok || mean != 7 {
		t.Errorf("one value has an interval: %v %v", mean, ok)
	}
	if mean, _, _, ok := Interval(nil, 0.95); ok || !math.IsNaN(mean) {
		t.Errorf("nothing has an interval: %v %v", mean, ok)
	}
}

// TestIntervalCovers: 95 % of such intervals hold the centre that the values were drawn about: of 4000 within three
// standard errors of 3800.
func TestIntervalCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const trials = 4000
	held := 0
	for range trials {
		xs := make([]float64, 4)
		for i := range xs {
			xs[i] = r.NormFloat64()
		}
		if _, low, high, ok := Interval(xs, Level); ok && low <= 0 && high >= 0 {
			held++
		}
	}
	if want := Level * trials; math.Abs(float64(held)-want) > 3*math.Sqrt(trials*Level*(1-Level)) {
		t.Errorf("%d of %d hold the centre, want about %g", held, trials, want)
	}
}

// TestSpread: pooled over the samples by their degrees of freedom; samples of one say nothing, and alone they leave it
// unknown.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		samples [][]float64
		want    float64
	}{
		{[][]float64{{1, 2, 3}}, 1},
		{[][]float64{{1, 2, 3}, {50}, nil}, 1},
		{[][]float64{{1, 2, 3}, {5, 9}}, math.Sqrt((2 + 8) / 3.)},
	} {
		if got := Spread(c.samples...); !near(got, c.want) {
			t.Errorf("%v: %v, want %v", c.samples, got, c.want)
		}
	}
	for _, samples := range [][][]float64{{}, {{1}}, {{1}, {2}, nil}} {
		if got := Spread(samples...); !math.IsNaN(got) {
			t.Errorf("%v: %v, and it is not known", samples, got)
		}
	}
}

func TestHalfWidth(t *testing.T) {
	if got, want := HalfWidth(1, 2, 2, 0.95), 12.706204736174694*2*math.Sqrt(1.5); math.Abs(got-want) > 1e-9*want {
		t.Errorf("one against two: %v, want %v", got, want)
	}
	for _, c := range [][2]int{{1, 1}, {0, 9}, {9, 0}, {0, 0}} {
		if got := HalfWidth(c[0], c[1], 1, 0.95); !math.IsInf(got, 1) {
			t.Errorf("%d against %d: %v", c[0], c[1], got)
		}
	}
}

// TestCompareFew: worked by hand, with mpmath's quantiles: what is expected of the spread counts as ten degrees of
// freedom beside those of the samples.
func TestCompareFew(t *testing.T) {
	for _, c := range []struct {
		first, second []float64
		own           float64
		freedom       int
		err, quantile float64
	}{
		{[]float64{1}, []float64{2}, 0, 10, math.Sqrt(0.01 * 2), 2.2281388519862747},
		{[]float64{1}, []float64{2}, 0.5, 10, math.Sqrt(0.01*2 + 0.25), 2.2281388519862747},
		{[]float64{1, 3}, []float64{5}, 0, 11, math.Sqrt((10*0.01 + 2) / 11 * 1.5), 2.2009851600916399},
		{[]float64{5}, []float64{1, 3}, 0, 11, math.Sqrt((10*0.01 + 2) / 11 * 1.5), 2.2009851600916399},
		{[]float64{1, 3}, []float64{4, 8}, 0, 12, math.Sqrt((10*0.01 + 2 + 8) / 12 * 1), 2.1788128296672289},
	} {
		d := CompareFew(c.first, c.second, 0.1, 10, c.own, 0.95)
		value := mean(c.second) - mean(c.first)
		if d.Freedom != c.freedom || !near(d.Value, value) || !near(d.Error, c.err) ||
			math.Abs(d.High-value-c.quantile*c.err) > 1e-9 ||
			math.Abs(value-d.Low-c.quantile*c.err) > 1e-9 {
			t.Errorf("%v and %v: %+v, want %v ± %v × %v with %d", c.first, c.second, d, value, c.quantile, c.err,
				c.freedom)
		}
	}
}

func mean(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x / float64(len(xs))
	}
	return sum
}

// TestBlockError: the medians 1.5, 5.5 and 3.5 of three stretches have 8 about their mean; what is left over at the end
// is in none.
func TestBlockError(t *testing.T) {
	if got, want := BlockError([]float64{1, 2, 5, 6, 3, 4, 100}, 3), math.Sqrt(8./2/3); !near(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := BlockError([]float64{1, 2, 3, 4}, 2); !near(got, math.Sqrt(2./1/2)) {
		t.Errorf("two stretches of two: %v", got)
	}
	for _, xs := range [][]float64{nil, {1}, {1, 2, 3}} {
		if got := BlockError(xs, 2); !math.IsNaN(got) {
			t.Errorf("%v in two stretches: %v, and one value is no stretch", xs, got)
		}
	}
}

// TestStudentOfNoSense: no answer is made of what is none.
func TestStudentOfNoSense(t *testing.T) {
	for _, c := range [][2]float64{{0, 5}, {1, 5}, {-0.1, 5}, {1.1, 5}, {math.NaN(), 5}, {0.9, 0}, {0.9, -1},
		{0.9, math.NaN()}} {
		if got := StudentQuantile(c[0], c[1]); !math.IsNaN(got) {
			t.Errorf("quantile %v with %v degrees: %v", c[0], c[1], got)
		}
	}
	if Student(math.Inf(1), 3) != 1 || Student(math.Inf(-1), 3) != 0 || Student(0, 3) != 0.5 ||
		math.Abs(StudentQuantile(0.5, 3)) > 1e-9 {
		t.Error("the ends and the middle")
	}
	if d, ok := Compare([]float64{1, math.NaN(), 2}, []float64{3, 4}, 0.95); ok {
		// no interval is made of what is no number
		t.Errorf("%+v", d)
	}
	if d, ok := Compare([]float64{1, math.Inf(1)}, []float64{3, 4}, 0.95); ok {
		t.Errorf("%+v", d)
	}
}
