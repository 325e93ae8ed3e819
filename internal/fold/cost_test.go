package fold

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"assay/internal/evidence"
	"assay/internal/stats"
	"assay/internal/testset"
)

// simulated is a loop on a clock of its own, in seconds: the host launches what a device works off behind it, and waits
// where the script does.
type simulated struct {
	host, device     float64
	draw             *rand.Rand
	launch, work     float64 // of a step: the host's time, the device's
	cost             float64 // of the hooks, the host's
	rhythm, evaluate int     // the script waits for the device every so many steps; evaluates every so many
	ahead            float64 // as far as the queue lets the host run ahead
	noise            func(*simulated) float64
	number           int
}

func (s *simulated) step(on bool) {
	s.number++
	took := s.launch + s.noise(s)
	if on {
		took += s.cost
	}
	s.host += took
	s.device = math.Max(s.device, s.host-took) + s.work
	s.host = math.Max(s.host, s.device-s.ahead)
	if s.rhythm > 0 && s.number%s.rhythm == 0 {
		s.host = math.Max(s.host, s.device) + 0.002
	}
	if s.evaluate > 0 && s.number%s.evaluate == 0 {
		s.host = math.Max(s.host, s.device) + 0.1
	}
}

func (s *simulated) drain() float64 {
	s.host = math.Max(s.host, s.device)
	return s.host
}

// run makes the blocks that agent/assay_agent/watch/blocks.py would make in so many seconds.
func (s *simulated) run(seconds float64) (blocks []blockEvent) {
	begun := s.drain()
	pace := s.launch
	stretch := func(on bool, number int, least float64, edge bool) {
		if edge {
			for range 3 {
				s.step(on)
			}
		}
		from, first := s.drain(), s.number+1
		for range int(math.Max(8*(1+s.draw.Float64()), least/pace)) {
			s.step(on)
		}
		pace = (s.drain() - from) / float64(s.number+1-first)
		blocks = append(blocks, blockEvent{Number: number, On: on, First: first, Steps: s.number + 1 - first,
			NS: int64((s.drain() - from) * 1e9)})
	}
	on := true
	for visit := 1; s.host-begun < seconds; visit++ {
		age := s.host - begun
		length := func() float64 { return math.Max(0.2, 0.01*age) * (1 + s.draw.Float64()) }
		gap := 0.0
		if visit > 16 {
			gap = 0.07 * (1 + float64(visit)/50) * age * (0.5 + s.draw.Float64())
		}
		first := s.draw.IntN(2) == 0
		for i, is := range []bool{first, !first} {
			stretch(is, 2*visit-1+i, length(), true)
			on = is
		}
		if !first {
			gap = math.Max(gap, 0.2*(1+s.draw.Float64()))
		}
		if gap > 0 {
			stretch(false, 0, gap, on)
			on = false
		}
	}
	return blocks
}

// TestCostCoverage: the interval holds what the hooks cost in 93 of 100 runs of a minute and more, whatever the noise
// and the script's rhythm are, and where the device hides the host's time, which is then nothing.
func TestCostCoverage(t *testing.T) {
	normal := func(s *simulated) float64 { return 2e-4 * s.draw.NormFloat64() }
	heavy := func(s *simulated) float64 { // one step in fifty is held up, some for long
		d := math.Abs(1e-4 * s.draw.NormFloat64())
		if s.draw.IntN(50) == 0 {
			d += 0.004 / math.Pow(1-s.draw.Float64(), 0.6)
		}
		return math.Min(d, 2)
	}
	drift := func(s *simulated) float64 { // it warms up, and slows down again
		return 4e-4*math.Sin(s.host/7) + 1e-5*s.host + 2e-4*s.draw.NormFloat64()
	}
	for name, of := range map[string]simulated{
		"plain":             {launch: 0.008, cost: 3e-4, noise: normal},
		"heavy tails":       {launch: 0.008, cost: 3e-4, noise: heavy},
		"drift":             {launch: 0.008, cost: 3e-4, noise: drift},
		"rhythm of 10":      {launch: 0.006, work: 0.003, ahead: 1, cost: 3e-4, rhythm: 10, noise: normal},
		"rhythm of 50":      {launch: 0.006, work: 0.003, ahead: 1, cost: 3e-4, rhythm: 10, evaluate: 50, noise: drift},
		"bound by device":   {launch: 0.002, work: 0.008, ahead: 0.3, cost: 3e-4, rhythm: 10, noise: normal},
		"bound, never read": {launch: 0.002, work: 0.008, ahead: 0.3, cost: 3e-4, noise: normal},
		"a millisecond":     {launch: 0.001, cost: 5e-5, noise: func(s *simulated) float64 { return normal(s) / 8 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			truth := func() float64 { // all on against all off
				var each [2]float64
				for i := range each {
					s := of
					s.draw = rand.New(rand.NewPCG(5, 6))
					const n = 20_000
					for range n {
						s.step(i == 1)
					}
					each[i] = s.drain() / n
				}
				return each[1] - each[0]
			}()
			if name == "drift" || name == "rhythm of 50" { // whose clock moves the noise
				truth = of.cost
			}
			held, width, seeds := 0, 0.0, rand.New(rand.NewPCG(4, 2))
			rounds := 100
			if testset.IsFull() {
				rounds = 1000
			}
			for range rounds {
				s := of
				s.draw = rand.New(rand.NewPCG(seeds.Uint64(), seeds.Uint64()))
				_, low, high, ok := stats.SignedRank(pairs(s.run(60)), stats.Level)
				if !ok {
					t.Fatal("no interval")
				}
				if low <= truth && truth <= high {
					held++
				}
				width += (high - low) / float64(rounds)
			}
			if held < rounds*93/100 {
				t.Errorf("%d of %d hold %g", held, rounds, truth)
			}
			t.Logf("%d of %d hold %.3g; mean width %.3g", held, rounds, truth, width)
		})
	}
}

// row is a step as the agent sends it, its lengths in microseconds.
type row struct {
	kind       string
	total, raw int64
}

// rows adds steps of one epoch, one after the other.
func (s *stream) rows(list []row) {
	columns := map[string]any{}
	ints := func(name string, of func(i int) int64) {
		column := make([]int64, len(list))
		for i := range list {
			column[i] = of(i)
		}
		columns[name] = column
	}
	kinds := make([]string, len(list))
	at := int64(0)
	ints("start", func(i int) int64 { at += list[i].total * 1000; return at - list[i].total*1000 })
	ints("number", func(i int) int64 { return int64(i + 1) })
	ints("total", func(i int) int64 { return list[i].total * 1000 })
	ints("raw", func(i int) int64 { return list[i].raw * 1000 })
	for i := range list {
		kinds[i] = list[i].kind
	}
	for _, name := range []string{"epoch", "micro", "opts"} {
		ints(name, func(int) int64 { return 1 })
	}
	for _, name := range []string{"evals", "live", "pool", "outside"} {
		ints(name, func(int) int64 { return 0 })
	}
	parts := map[string][]int64{}
	for _, name := range former {
		parts[name] = make([]int64, len(list))
	}
	for i, r := range list {
		if r.kind != "bare" && r.kind != "edge" {
			parts["forward"][i] = r.total * 1000
		}
	}
	columns["ev"], columns["kind"], columns["phases"] = "steps", kinds, parts
	s.send(1, columns)
}

// measured is a run of 100 steps with the hooks on, of which one was synchronised and took 15 ms more, then eight pairs
// of blocks of ten steps, of 10.5 ms with the hooks on and 10 ms with them off, and an edge of three before each.
func measured(device string, extra int64) *stream {
	s := newStream()
	s.send(1, map[string]any{"ev": "loader", "id": 1, "dataset": "D", "batch": 16, "batches": 1000})
	s.send(1, map[string]any{"ev": "device", "type": device})
	var list []row
	add := func(kind string, n int, each, raw int64) {
		for range n {
			list = append(list, row{kind, each, raw})
		}
	}
	add("", 40, 10500, 10500)
	add("sync", 1, 20000, 25500)
	add("", 59, 10500, 10500)
	for visit := range 8 {
		for half := range 2 {
			on := (visit+half)%2 == 0
			kind, each := "bare", int64(10000)
			if on {
				kind, each = "", 10500+extra*int64(visit-4)
			}
			add("edge", 3, 11000, 11000)
			s.send(1, map[string]any{"ev": "block", "number": 2*visit + 1 + half, "on": on, "first": len(list) + 1,
				"steps": 10, "ns": 10*each*1000 + 7_000_000, "outside": 7_000_000, "touched": false})
			add(kind, 10, each, each)
		}
	}
	// An instrument fell into this one: it tells nothing.
	s.send(1, map[string]any{"ev": "block", "number": 17, "on": true, "first": 400, "steps": 10, "ns": 9e9,
		"outside": 0, "touched": true})
	s.send(1, map[string]any{"ev": "block", "number": 18, "on": false, "first": 410, "steps": 10, "ns": 1e8,
		"outside": 0, "touched": false})
	s.rows(list)
	s.send(1, map[string]any{"ev": "cost", "steps": 308, "hooks_ns": 5e6, "thread_ns": 2e6, "heavy_ns": 9e6,
		"epoch_ns": 1e6, "bare": 128, "bare_ns": 1_280_000, "kept_ns": 3_000_000})
	return s
}

// TestCostMeasured: what hooks cost is the difference of the blocks; windows and synchronised steps are timed apart;
// and the steady step is of steps with the hooks off, the split of those with them on.
func TestCostMeasured(t *testing.T) {
	for _, device := range []string{"cpu", "cuda"} {
		run := measured(device, 0).f.Finish()
		want(t, run, "agent.step", 0.0005)
		want(t, run, "step.time", 0.010)
		want(t, run, "agent.synchronised", 0.015) // over steps with the hooks on, as it and the eight after it are
		want(t, run, "agent.windows", 0)
		// 180 steps with the hooks on; 10 µs stay on in each of 308; the thread's time, hooks turned, and the epoch
		total := 180*0.0005 + 308*1e-5 + 0.002 + 0.003 + 0.001 + 0.015
		want(t, run, "agent.total", total)
		fig := run.Figure("agent.step")
		if *fig.Low != *fig.High || fig.N != 8 || fig.Basis != evidence.Measured {
			t.Errorf("%s: %+v", device, fig)
		}
		share := run.Figure("agent.share")
		if share.Low == nil || *share.Low > *share.Value || share.Basis != evidence.Measured {
			t.Errorf("%s: %+v", device, share)
		}
		w := run.Windows[0]
		if w.Name != "steady" || w.Kind != "bare" || w.Steps != 80 || !strings.Contains(w.Excluded, "hooks on") {
			t.Errorf("%s: %+v", device, w)
		}
		if note := run.Figure("step.time").Note; !strings.Contains(note, "the 80 steps of the window with the hooks") {
			t.Error(note)
		}
		if run.Steps.Watched != 180 {
			t.Errorf("%d steps were watched", run.Steps.Watched)
		}
		want(t, run, "share.forward", 1)
		if split := run.Figure("split.forward"); split.Window != map[string]string{"cpu": "watched",
			"cuda": "synchronised"}[device] {
			t.Errorf("%s: the split is of %q", device, split.Window)
		}
	}
}

// TestCostNotToBeTold: where zero lies within the interval, it says so, and to what bound.
func TestCostNotToBeTold(t *testing.T) {
	fig := measured("cpu", 300).f.Finish().Figure("agent.step")
	if *fig.Low > 0 || *fig.High < 0 || !strings.Contains(fig.Note, "cannot be told from nothing: at most ") {
		t.Errorf("%+v, %g to %g", fig, *fig.Low, *fig.High)
	}
}

// TestCostTooShort: without enough pairs the cost is the priced one, and says how many steps it would have taken.
func TestCostTooShort(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	var list []row
	for range 50 {
		list = append(list, row{"", 10000, 10000})
	}
	s.rows(list)
	s.send(1, map[string]any{"ev": "cost", "steps": 50, "hooks_ns": 5e6, "thread_ns": 5e6})
	run := s.f.Finish()
	want(t, run, "agent.step", 0.0002)
	fig := run.Figure("agent.step")
	if fig.Basis != evidence.Derived || fig.Low != nil ||
		!strings.Contains(fig.Note, "not measured: the run has 50 steps, and 0 pairs") ||
		!strings.Contains(fig.Note, "about 450 steps are needed") {
		t.Errorf("%+v", fig)
	}
	if fig := run.Figure("step.time"); !strings.Contains(fig.Note, "the hooks were on") {
		t.Error(fig.Note)
	}
}

// TestStepsOfADeviceThatRunsBehind: the host launches nine steps in 2 ms each and waits in the tenth for all; a step
// takes 8 ms, and no step of the series does.
func TestStepsOfADeviceThatRunsBehind(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "device", "type": "cuda"})
	var list []row
	for i := range 200 {
		switch {
		case i > 0 && i%20 == 0: // synchronised: what was queued is waited for before it begins, and is part of raw
			list = append(list, row{"sync", 9000, 9000 + 54000})
		case i%20 == 10:
			list = append(list, row{"", 2000 + 60000, 2000 + 60000})
		default:
			list = append(list, row{"", 2000, 2000})
		}
	}
	s.rows(list)
	run := s.f.Finish()
	if fig := run.Figure("step.time"); math.Abs(*fig.Value-0.008) > 1e-4 {
		t.Errorf("step.time %+v: %g", fig, *fig.Value)
	}
	want(t, run, "step.time.synchronised", 0.009)
}
