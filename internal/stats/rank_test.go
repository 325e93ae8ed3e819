package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSignedRank: the example of Hollander and Wolfe (depression scores of nine patients, table 3.1): the centre −0.46,
// the interval of 96.1 % from −0.786 to −0.010; and what R's wilcox.test gives of it.
func TestSignedRank(t *testing.T) {
	before := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	after := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	var ds []float64
	for i := range before {
		ds = append(ds, after[i]-before[i])
	}
	value, low, high, ok := SignedRank(ds, .95)
	if !ok || math.Abs(value+.46) > 1e-9 || math.Abs(low+.786) > 1e-9 || math.Abs(high+.010) > 1e-9 {
		t.Errorf("%g, %g to %g, %v", value, low, high, ok)
	}
	if _, _, _, ok := SignedRank(ds[:5], .95); ok {
		t.Error("five values have no interval of 95 %")
	}
	if _, low, high, ok := SignedRank(ds[:6], .95); !ok || low >= high {
		t.Error("six have one")
	}
	if v, _, _, ok := SignedRank(nil, .95); ok || !math.IsNaN(v) {
		t.Error("of nothing nothing is known")
	}
	// Critical values of the table: P(T ≤ 3) at n = 8 is .0195, and P(T ≤ 4) .0273 (two-sided 5 %: T ≤ 3).
	if c := signedRankCut(8, .025); c != 4 {
		t.Errorf("n = 8: %d", c)
	}
	if c := signedRankCut(25, .025); c != 90 { // T ≤ 89
		t.Errorf("n = 25: %d", c)
	}
}

// TestSignedRankCoverage: whatever the distribution, nineteen of twenty intervals hold the centre.
func TestSignedRankCoverage(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 12, 40, 90} {
		held := 0
		const rounds = 1000
		for range rounds {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = 7 + draw.NormFloat64()/math.Abs(draw.NormFloat64()) // Cauchy
			}
			if _, low, high, ok := SignedRank(xs, .95); ok && low <= 7 && 7 <= high {
				held++
			}
		}
		if held < 930 {
			t.Errorf("n = %d: %d of %d", n, held, rounds)
		}
	}
}
