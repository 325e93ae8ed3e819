package stats

import (
	"math"
	"sort"
)

// trim is the part of a sample that is cut at each end before means are taken, Yuen's usual choice: one run in five may
// have been disturbed.
const trim = 0.2

// Level of the intervals and tests by which assay tells a difference from noise.
const Level = 0.95

// Difference is an interval for how far the centre of one sample lies from that of another.
type Difference struct {
	Value     float64 // difference of the trimmed means, second sample less first
	Low, High float64 // confidence interval
	Error     float64 // standard error
	Freedom   int     // degrees of freedom
}

// Compare gives the interval of level (0.95) for the difference between two samples by Yuen's test: trimmed means,
// winsorised variance, pooled, so that a sample of one can be compared with a larger one (Yuen and Dixon, Biometrika
// 60, 1973). ok is false where the samples are too small to know a spread.
func Compare(first, second []float64, level float64) (d Difference, ok bool) {
	a, b := trimmed(first), trimmed(second)
	d.Freedom = a.kept + b.kept - 2
	if a.kept == 0 || b.kept == 0 || d.Freedom < 1 {
		return d, false
	}
	d.Value = b.mean - a.mean
	d.Error = math.Sqrt((a.squares + b.squares) / float64(d.Freedom) * (1/float64(a.kept) + 1/float64(b.kept)))
	half := StudentQuantile((1+level)/2, float64(d.Freedom)) * d.Error
	d.Low, d.High = d.Value-half, d.Value+half
	return d, !math.IsNaN(half) && !math.IsInf(half, 0)
}

// Spread is the standard deviation that Compare would go by: pooled, of the trimmed samples. NaN where it is not known.
func Spread(samples ...[]float64) float64 {
	var squares float64
	freedom := 0
	for _, xs := range samples {
		t := trimmed(xs)
		squares += t.squares
		freedom += max(0, t.kept-1)
	}
	if freedom == 0 {
		return math.NaN()
	}
	return math.Sqrt(squares / float64(freedom))
}

// HalfWidth is half the interval that Compare would give for samples of n and m with a spread of sd.
func HalfWidth(n, m int, sd, level float64) float64 {
	h, k := kept(n), kept(m)
	if h+k < 3 || h == 0 || k == 0 {
		return math.Inf(1)
	}
	return StudentQuantile((1+level)/2, float64(h+k-2)) * sd * math.Sqrt(1/float64(h)+1/float64(k))
}

// Interval of level for the trimmed mean of one sample (Tukey and McLaughlin 1963). ok is false for fewer than two
// values that are kept.
func Interval(xs []float64, level float64) (mean, low, high float64, ok bool) {
	t := trimmed(xs)
	if t.kept < 2 {
		return t.mean, 0, 0, false
	}
	se := math.Sqrt(t.squares / float64(t.kept) / float64(t.kept-1))
	half := StudentQuantile((1+level)/2, float64(t.kept-1)) * se
	return t.mean, t.mean - half, t.mean + half, true
}

type trimmedSample struct {
	mean    float64
	squares float64 // winsorised sum of squares about the winsorised mean
	kept    int
}

func cut(n int) int  { return int(trim * float64(n)) }
func kept(n int) int { return n - 2*cut(n) }

func trimmed(xs []float64) trimmedSample {
	n := len(xs)
	if n == 0 {
		return trimmedSample{mean: math.NaN()}
	}
	sorted := append([]float64(nil), xs...)
	sort.Float64s(sorted)
	g := cut(n)
	t := trimmedSample{kept: n - 2*g}
	for _, x := range sorted[g : n-g] {
		t.mean += x / float64(t.kept)
	}
	for i := range sorted {
		sorted[i] = sorted[min(max(i, g), n-1-g)]
	}
	var mean float64
	for _, x := range sorted {
		mean += x / float64(n)
	}
	for _, x := range sorted {
		t.squares += (x - mean) * (x - mean)
	}
	return t
}

// Student is the distribution function of Student's t.
func Student(t, freedom float64) float64 {
	if math.IsInf(t, 0) {
		return (1 + math.Copysign(1, t)) / 2
	}
	tail := beta(freedom/(freedom+t*t), freedom/2, 0.5) / 2
	if t > 0 {
		return 1 - tail
	}
	return tail
}

// StudentQuantile is its inverse, for p between 0 and 1.
func StudentQuantile(p, freedom float64) float64 {
	switch {
	case !(p > 0 && p < 1) || !(freedom > 0):
		return math.NaN()
	case p < 0.5:
		return -StudentQuantile(1-p, freedom)
	}
	low, high := 0.0, 2.0
	for Student(high, freedom) < p && high < 1e12 {
		high *= 2
	}
	for range 200 {
		mid := (low + high) / 2
		if mid == low || mid == high {
			break
		}
		if Student(mid, freedom) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// beta is the regularised incomplete beta function by its continued fraction (Abramowitz and Stegun 26.5.8), evaluated
// after Lentz.
func beta(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - beta(1-x, b, a)
	}
	lg := func(v float64) float64 { l, _ := math.Lgamma(v); return l }
	front := math.Exp(lg(a+b)-lg(a)-lg(b)+a*math.Log(x)+b*math.Log1p(-x)) / a
	const tiny = 1e-300
	c, d := 1.0, 1/nonZero(1-(a+b)*x/(a+1), tiny)
	f := d
	for m := 1.0; m < 500; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / nonZero(1+even*d, tiny)
		c = nonZero(1+even/c, tiny)
		f *= d * c
		d = 1 / nonZero(1+odd*d, tiny)
		c = nonZero(1+odd/c, tiny)
		f *= d * c
		if math.Abs(d*c-1) < 1e-15 {
			break
		}
	}
	return front * f
}

func nonZero(v, tiny float64) float64 {
	if math.Abs(v) < tiny {
		return tiny
	}
	return v
}

// CompareFew is Compare for samples too small to know their spread. The spread that is expected, a standard deviation,
// counts like `weight` degrees of freedom of its own beside those that the samples have (a scaled inverse χ² prior of
// the variance), and Student's t has the sum of both. own is what else is not certain of the difference, a standard
// error.
func CompareFew(first, second []float64, expected float64, weight int, own, level float64) (d Difference) {
	a, b := trimmed(first), trimmed(second)
	seen := max(0, a.kept-1) + max(0, b.kept-1)
	d.Freedom = weight + seen
	d.Value = b.mean - a.mean
	variance := (float64(weight)*expected*expected + a.squares + b.squares) / float64(d.Freedom)
	d.Error = math.Sqrt(variance*(1/float64(a.kept)+1/float64(b.kept)) + own*own)
	half := StudentQuantile((1+level)/2, float64(d.Freedom)) * d.Error
	d.Low, d.High = d.Value-half, d.Value+half
	return d
}

// BlockError is the standard error of the median of a series whose neighbours hang together: from the medians of
// `blocks` stretches of equal length, which are taken to be independent, as they are where a stretch is long against
// the memory of the series. NaN for fewer than two values a block.
func BlockError(xs []float64, blocks int) float64 {
	n := len(xs) / blocks
	if n < 2 {
		return math.NaN()
	}
	medians := make([]float64, blocks)
	for i := range medians {
		medians[i] = Median(xs[i*n : (i+1)*n])
	}
	var mean, squares float64
	for _, m := range medians {
		mean += m / float64(blocks)
	}
	for _, m := range medians {
		squares += (m - mean) * (m - mean)
	}
	return math.Sqrt(squares / float64(blocks-1) / float64(blocks))
}
