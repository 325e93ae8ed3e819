package stats

import (
	"math"
	"sort"
)

// mostRanked is how many values SignedRank takes: its distribution is worked out exactly, and 200 values have 20,000
// averages.
const mostRanked = 200

// SignedRank is the centre of a sample of differences, and its interval of level (0.95): the median of the averages of
// all pairs, each value with itself as well, and the averages that Wilcoxon's signed-rank test does not reject (Hodges
// and Lehmann, Ann. Math. Statist. 34, 1963; Tukey's interval as in Hollander and Wolfe, Nonparametric Statistical
// Methods, 3.2 and 3.3). It holds for differences that are symmetric about their centre, whatever their distribution
// is, as those between two stretches in an order that was drawn are. ok is false for samples too small for an interval
// of that level (at 0.95 fewer than six). Of more than 200 values it takes the first 200.
func SignedRank(xs []float64, level float64) (value, low, high float64, ok bool) {
	n := min(len(xs), mostRanked)
	if n == 0 {
		return math.NaN(), 0, 0, false
	}
	averages := make([]float64, 0, n*(n+1)/2)
	for i := range n {
		for j := i; j < n; j++ {
			averages = append(averages, (xs[i]+xs[j])/2)
		}
	}
	sort.Float64s(averages)
	value = quantile(averages, .5)
	cut := signedRankCut(n, (1-level)/2)
	if cut < 1 {
		return value, 0, 0, false
	}
	return value, averages[cut-1], averages[len(averages)-cut], true
}

// signedRankCut is the greatest c for which the statistic of n values is below c with probability p at most; 0: there
// is none.
func signedRankCut(n int, p float64) int {
	sums := n * (n + 1) / 2
	chance := make([]float64, sums+1) // of each sum of ranks, each of which counts or not with even odds
	chance[0] = 1
	for rank := 1; rank <= n; rank++ {
		for s := sums; s >= 0; s-- {
			chance[s] /= 2
			if s >= rank {
				chance[s] += chance[s-rank] / 2
			}
		}
	}
	below := 0.0
	for c := 0; c <= sums; c++ {
		if below += chance[c]; below > p {
			return c
		}
	}
	return 0
}

// TrimmedMean of xs: a fifth is cut at each end. NaN for an empty sample.
func TrimmedMean(xs []float64) float64 { return trimmed(xs).mean }
