package sweep

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// law is a memory law of a made-up script on a made-up device.
type law struct {
	name    string
	fixed   float64 // bytes of parameters, gradients, optimizer
	row     float64 // bytes a row
	square  float64 // bytes a row and row
	grain   float64 // the allocator takes from the driver in pieces of that size
	waste   float64 // of what is in use, what the allocator holds beyond where nobody is short
	limit   float64
	told    float64 // limit that is known before; 0: none
	says    bool    // a trial that runs out of memory says the limit
	heaps   bool    // what it takes from the driver are heaps of a gigabyte, and between the tensors a part is lost
	kernels bool    // above a size another kernel is chosen, which takes half a gigabyte
}

const mib, gib = 1 << 20, 1 << 30

// needs is what a batch needs at least, and holds where there is enough.
func (l law) needs(b int) (least, holds float64) {
	n := float64(b)
	use := l.fixed + l.row*n + l.square*n*n
	if l.kernels && b > 50 {
		use += gib / 2
	}
	if l.heaps {
		return use, math.Min(math.Ceil(use*1.03/gib)*gib, l.limit)
	}
	pieces := func(v float64) float64 { return math.Ceil(v/l.grain) * l.grain }
	return pieces(use), math.Min(pieces(use*(1+l.waste)), math.Max(l.limit, pieces(use)))
}

func (l law) fits(b int) bool {
	least, _ := l.needs(b)
	if l.heaps {
		least *= 1.03
	}
	return least <= l.limit
}

func (l law) read(b int) Reading {
	least, holds := l.needs(b)
	r := Reading{Batch: b, Fits: l.fits(b)}
	if r.Fits {
		r.Peak, r.Live = holds, least
	} else if l.says {
		r.Limit = l.limit
	}
	return r
}

// truth tries every batch, from the smallest on.
func (l law) truth(r Range) (best int) {
	lo, hi := r.ends()
	for i := lo; i <= hi && l.fits(i*r.Multiple); i++ {
		best = i * r.Multiple
	}
	return best
}

// find searches, and says how many trials it took.
func find(t *testing.T, l law, r Range) (best, trials int) {
	t.Helper()
	var readings []Reading
	for {
		step := Next(r, 0, l.told, readings)
		if step.Done {
			best, _ = Best(r, readings)
			return best, len(readings)
		}
		lo, hi := r.ends()
		if step.Batch%r.Multiple != 0 || step.Batch < lo*r.Multiple || step.Batch > hi*r.Multiple || len(readings) > 80 {
			t.Fatalf("%+v in %+v: asks for %+v after %+v", l, r, step, readings)
		}
		readings = append(readings, l.read(step.Batch))
	}
}

func laws(n int) []law {
	random := rand.New(rand.NewPCG(17, 17))
	between := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, random.Float64()) }
	var all []law
	for range n {
		base := law{name: "usual", limit: between(2*gib, 90*gib), grain: []float64{512, 2 * mib, 20 * mib}[random.IntN(3)],
			waste: []float64{0, 0.01, 0.04}[random.IntN(3)], says: true}
		base.fixed = base.limit * between(0.01, 0.6)
		base.row = (base.limit - base.fixed) / between(4, 2000)
		base.told = base.limit
		all = append(all, base)
		high := base
		high.name, high.told = "limit said ten times too high", base.limit*10
		low := base
		low.name, low.told = "limit said at 1/1.7", base.limit/1.7
		silent := base
		silent.name, silent.says = "failures say nothing", false
		blind := base
		blind.name, blind.says, blind.told = "no limit known before", true, 0
		dark := base
		dark.name, dark.says, dark.told = "no limit known at all", false, 0
		square := base
		square.name, square.square = "square", base.row/between(20, 500)
		kernels := base
		kernels.name, kernels.kernels = "another kernel", true
		heaps := base
		heaps.name, heaps.heaps = "heaps", true
		huge := base
		huge.name, huge.fixed = "does not fit at all", base.limit*1.1
		all = append(all, high, low, silent, blind, dark, square, kernels, heaps, huge)
	}
	return all
}

// TestSearchIsExact: whatever the law, the batch that is found is the one that trying them all finds, also where what is
// known of the limit is far off; usual laws take six trials at most in the median, and few take more.
func TestSearchIsExact(t *testing.T) {
	counts := map[string][]int{}
	for _, l := range laws(400) {
		for _, r := range []Range{{From: 1, Multiple: 1}, {From: 1, Multiple: 8}, {From: 3, To: 100, Multiple: 1}} {
			got, trials := find(t, l, r)
			bounded := r
			if bounded.To == 0 {
				bounded.To = 10_000
			}
			if want := l.truth(bounded); got != want {
				t.Fatalf("%+v in %+v: found %d, largest is %d", l, r, got, want)
			}
			if r.To == 0 {
				counts[l.name] = append(counts[l.name], trials)
			}
		}
	}
	for name, n := range counts {
		slices.Sort(n)
		t.Logf("%-30s median %d, nine of ten %d, most %d", name, n[len(n)/2], n[len(n)*9/10], n[len(n)-1])
	}
	for name, most := range map[string]int{"usual": 6, "failures say nothing": 6, "limit said at 1/1.7": 8, "square": 8,
		"limit said ten times too high": 8, "another kernel": 8, "no limit known before": 12} {
		if n := counts[name]; n[len(n)/2] > most {
			t.Errorf("%s: %d trials in the median, %d at most", name, n[len(n)/2], most)
		}
	}
}
