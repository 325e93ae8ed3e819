package sweep

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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
	cache   float64 // of what is in use, what a cache holds beyond it, and gives up where memory is short
	lost    float64 // of what is in use, what is lost between the tensors then
	account float64 // of the fixed bytes, what an account knows to be so; 0: nobody keeps one
	shakes  float64 // by how much of what is in use trials differ from the law, as a part
}

const mib, gib = 1 << 20, 1 << 30

// needs is what a batch needs at least, and holds where there is enough.
func (l law) needs(b int) (least, holds float64) {
	n := float64(b)
	use := l.fixed + l.row*n + l.square*n*n
	if l.kernels && b > 50 {
		use += gib / 2
	}
	if l.cache > 0 {
		return use, math.Min(use*(1+l.cache), l.limit)
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
	least *= 1 + l.lost
	return least <= l.limit
}

func (l law) read(b int) Reading {
	least, holds := l.needs(b)
	r := Reading{Batch: b, Fits: l.fits(b)}
	if r.Fits {
		r.Peak, r.Live = holds, least
		if l.shakes > 0 { // the same for the same batch
			of := 1 - l.shakes*math.Abs(math.Sin(float64(b)*12.9898))
			r.Peak, r.Live = holds*of, least*of
		}
		r.Fixed = l.fixed * l.account
	} else {
		if l.says {
			r.Limit = l.limit
		}
		if l.cache > 0 { // what the tensors took when no more could be had
			r.Live = l.limit / (1 + l.lost)
		}
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
		if step.Batch%r.Multiple != 0 || step.Batch < lo*r.Multiple || step.Batch > hi*r.Multiple ||
			len(readings) > 80 {
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
		base := law{name: "usual", limit: between(2*gib, 90*gib), grain: []float64{512, 2 * mib,
			20 * mib}[random.IntN(3)],
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
		cache := base
		cache.name, cache.cache, cache.lost = "cache", between(0.1, 0.6), between(0.001, 0.04)
		high2 := cache
		high2.name, high2.told = "cache, limit said far too high", base.limit*25
		told := base
		told.name, told.account = "an account of all that is fixed", 1
		mostly := base
		mostly.name, mostly.account = "an account of part of it", between(0.6, 1)
		large := base
		large.name, large.fixed = "large constant part", base.limit*(0.6+0.35*random.Float64())
		large.row, large.shakes = (large.limit-large.fixed)/between(8, 2000), 0.002
		accounted := large
		accounted.name, accounted.account = "the same, with an account", between(0.9, 1)
		all = append(all, told, mostly, large, accounted)
		huge := base
		huge.name, huge.fixed = "does not fit at all", base.limit*1.1
		all = append(all, high, low, silent, blind, dark, square, kernels, heaps, cache, high2, huge)
	}
	return all
}

// TestSearchIsExact: whatever the law, the batch that is found is the one that trying all finds, also where what is
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

// recorded is what a sweep on an H100 told of a ResNet whose process may hold 3 GiB: live and pool peaks in MiB by
// batch. 153 rows fit and 154 do not.
var recorded = [][3]float64{{64, 1414, 1970}, {99, 2044, 2978}, {102, 2090, 2914}, {108, 2198, 2928}, {114, 2310, 2934},
	{121, 2440, 2924}, {129, 2590, 3042}, {130, 2600, 3060}, {143, 2854, 3066}, {149, 2960, 3068}, {152, 3006, 3072},
	{153, 3005, 3070}}

// TestSearchOnARecordedSweep: the pool of a caching allocator is at the limit long before memory is short.
func TestSearchOnARecordedSweep(t *testing.T) {
	at := func(b, column int) float64 {
		for i := 1; i < len(recorded); i++ {
			a, z := recorded[i-1], recorded[i]
			if float64(b) <= z[0] || i == len(recorded)-1 {
				return mib * (a[column] + (z[column]-a[column])*(float64(b)-a[0])/(z[0]-a[0]))
			}
		}
		return 0
	}
	for told, most := range map[float64]int{3 * gib: 7, 79.2 * gib: 8} {
		for _, first := range []int{0, 16, 64, 100, 200} {
			var readings []Reading
			for {
				step := Next(Range{From: 1, Multiple: 1}, first, told, readings)
				if step.Done {
					break
				}
				r := Reading{Batch: step.Batch, Fits: step.Batch <= 153, Limit: told}
				if r.Fits {
					r.Live = at(step.Batch, 1)
					r.Peak = max(at(step.Batch, 2), 1.3*r.Live)
					if step.Batch > 99 {
						r.Peak = at(step.Batch, 2)
					}
				} else {
					r.Limit = 3 * gib
				}
				readings = append(readings, r)
			}
			best, fails := Best(Range{From: 1, Multiple: 1}, readings)
			t.Logf("told %.1f GiB, first %d: %d trials", told/gib, first, len(readings))
			if first > 153 { // it costs a trial
				most++
			}
			if best != 153 || fails != 154 || len(readings) > most {
				t.Errorf("told %.1f GiB, first %d: %d and %d after %d trials, %d at most: %+v", told/gib, first, best, fails,
					len(readings), most, readings)
			}
		}
	}
}

// ofAGPU are sweeps on an H100 whose processes might hold 4 GiB, or what the name says: per network the largest
// batch; batch, live and pool peak in MiB of what fitted; batch and what was live when memory was refused.
var ofAGPU = []struct {
	name    string
	largest int
	fits    [][3]float64
	fails   [][2]float64
}{
	{"resnet50", 87, [][3]float64{{8, 689, 750}, {45, 2245, 2524}, {84, 3875, 4092}, {86, 3955, 4094}, {87, 3986,
		4058}}, [][2]float64{{88, 4032}, {89, 4035}}},
	{"swin", 33, [][3]float64{{8, 1315, 1520}, {15, 2056, 2266}, {23, 2846, 3244}, {33, 3869, 4094}},
		[][2]float64{{34, 3998}, {35, 3892}}},
	{"segformer, 6 GiB", 57, [][3]float64{{8, 824, 1062}, {32, 2892, 3962}, {56, 4970, 5964}, {57, 5057, 6112}},
		[][2]float64{{58, 5152}, {61, 5419}, {62, 5511}, {63, 5594}, {64, 5653}, {65, 5756}, {66, 5847}, {67, 5929}}},
	{"gpt2", 8, [][3]float64{{4, 2270, 2572}, {8, 3294, 3882}}, [][2]float64{{9, 3608}, {10, 3686}}},
	{"trainer", 77, [][3]float64{{8, 1174, 1360}, {26, 1902, 2134}, {51, 2893, 3172}, {76, 3864, 4084}, {77, 3909,
		4086}}, [][2]float64{{78, 3986}, {79, 4002}, {80, 4024}}},
	{"deeplab", 48, [][3]float64{{8, 1213, 1328}, {25, 2382, 2838}, {40, 3377, 3688}, {43, 3615, 4040}, {44, 3653,
		4088}, {45, 3641, 4062}, {46, 3702, 4060}, {48, 3810, 4094}}, [][2]float64{{49, 3903}}},
}

// TestSearchOnSweepsOfAGPU: seven trials at most, where peaks between those recorded lie on lines through them.
func TestSearchOnSweepsOfAGPU(t *testing.T) {
	for _, g := range ofAGPU {
		var readings []Reading
		for {
			limit := 4.0 * gib
			if strings.HasSuffix(g.name, "6 GiB") {
				limit = 6 * gib
			}
			step := Next(Range{From: 1, Multiple: 1}, 0, limit, readings)
			if step.Done {
				break
			}
			r := Reading{Batch: step.Batch, Fits: step.Batch <= g.largest, Limit: limit}
			if b := float64(step.Batch); r.Fits {
				for i := 1; i < len(g.fits); i++ {
					a, z := g.fits[i-1], g.fits[i]
					if b <= z[0] || i == len(g.fits)-1 {
						part := (b - a[0]) / (z[0] - a[0])
						r.Live, r.Peak = mib*(a[1]+(z[1]-a[1])*part), mib*(a[2]+(z[2]-a[2])*part)
						break
					}
				}
			} else {
				near := slices.MinFunc(g.fails, func(x, y [2]float64) int {
					return cmp.Compare(math.Abs(x[0]-b), math.Abs(y[0]-b))
				})
				r.Live = mib * near[1]
			}
			readings = append(readings, r)
		}
		best, fails := Best(Range{From: 1, Multiple: 1}, readings)
		var tried []int
		for _, r := range readings {
			tried = append(tried, r.Batch)
		}
		t.Logf("%s: %d", g.name, tried)
		if best != g.largest || fails != g.largest+1 || len(readings) > 7 {
			t.Errorf("%s: %d fits and %d does not, after %d", g.name, best, fails, tried)
		}
	}
}
