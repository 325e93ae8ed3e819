package fold

import (
	"math"
	"math/rand/v2"
	"testing"

	"assay/internal/stats"
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
		if visit > 8 {
			gap = 0.1 * age * (0.5 + s.draw.Float64())
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
			held, width := 0, 0.0
			const rounds = 200
			for round := range rounds {
				s := of
				s.draw = rand.New(rand.NewPCG(uint64(round), 9))
				_, low, high, ok := stats.SignedRank(pairs(s.run(60)), stats.Level)
				if !ok {
					t.Fatal("no interval")
				}
				if low <= truth && truth <= high {
					held++
				}
				width += (high - low) / rounds
			}
			if held < rounds*93/100 {
				t.Errorf("%d of %d hold %g", held, rounds, truth)
			}
			t.Logf("%d of %d hold %.3g; mean width %.3g", held, rounds, truth, width)
		})
	}
}
