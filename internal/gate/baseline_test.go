package gate

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/stats"
)

// noise of a training run: a level for the run, now and then a disturbed one, and steps that hang together within it.
type noise struct {
	between   float64 // standard deviation from run to run, of the logarithm
	disturbed float64 // part of the runs that something else on the machine slows down, by up to 30 %
	drift     float64 // how much of a run's level is left in the next one's
}

// history makes runs of 200 steps and returns the logarithms of their median step.
func (n noise) history(r *rand.Rand, runs int, factor float64, level *float64) []float64 {
	var out []float64
	for range runs {
		*level = n.drift**level + math.Sqrt(1-n.drift*n.drift)*n.between*r.NormFloat64()
		base := math.Log(0.010*factor) + *level
		if r.Float64() < n.disturbed {
			base += 0.3 * r.Float64()
		}
		steps, wave := make([]float64, 200), 0.0
		for i := range steps {
			wave = 0.7*wave + 0.02*r.NormFloat64() // autocorrelated within the run
			steps[i] = math.Exp(base + wave + 0.03*r.ExpFloat64())
		}
		out = append(out, math.Log(stats.Median(steps)))
	}
	return out
}

// follow does what a user does: three runs, then as many more as the gate says, up to most.
func follow(past []float64, draw func(n int) []float64, most int) (judgement, int) {
	now := draw(3)
	for {
		v := judge(past, now, 0.05, catalogue.Lower)
		if v.outcome != Unknown || v.more == 0 || len(now) >= most {
			return v, len(now)
		}
		now = append(now, draw(min(v.more, most-len(now)))...)
	}
}

// TestRegressionFoundAndNoneInvented: over 200 trials each, a step that is 10 % longer is found and an unchanged one
// passed, by a gate of 5 %, where runs scatter as they do. What a bare ratio of one run to the last would have said
// stands beside it.
func TestRegressionFoundAndNoneInvented(t *testing.T) {
	const trials = 200
	for _, c := range []struct {
		name        string
		n           noise
		past        int
		found, told int // at least
		invented    int // at most
	}{
		{"quiet desktop", noise{between: 0.01}, 10, 200, 200, 0},
		{"laptop", noise{between: 0.025, disturbed: 0.05}, 20, 190, 195, 0},
		{"shared runner", noise{between: 0.04, disturbed: 0.15}, 30, 170, 170, 3},
		{"slow drift", noise{between: 0.02, disturbed: 0.05, drift: 0.7}, 20, 190, 190, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 11))
			var found, missed, passed, invented, bare, runs int
			for range trials {
				for _, factor := range []float64{1, 1.1} {
					level := 0.0
					past := c.n.history(r, c.past, 1, &level)
					v, n := follow(past, func(n int) []float64 { return c.n.history(r, n, factor, &level) }, 30)
					runs += n
					switch {
					case factor > 1 && v.outcome == Fail:
						found++
					case factor > 1 && v.outcome == Pass:
						missed++
					case factor == 1 && v.outcome == Pass:
						passed++
					case factor == 1 && v.outcome == Fail:
						invented++
					}
					if one := c.n.history(r, 1, 1, &level); factor == 1 && math.Exp(one[0]-past[len(past)-1]) > 1.1 {
						bare++
					}
				}
			}
			t.Logf("10 %% longer: found %d, passed %d of %d; unchanged: passed %d, failed %d; %.1f runs a trial; a bare 10 %% rule would have failed %d",
				found, missed, trials, passed, invented, float64(runs)/(2*trials), bare)
			if found < c.found || missed > 1 || passed < c.told || invented > c.invented {
				t.Errorf("wanted at least %d found, %d passed, at most %d invented and 1 missed", c.found, c.told,
					c.invented)
			}
		})
	}
}

// recorded are 48 runs of examples/digits on a Linux machine with two cores, on which other jobs ran;
// testdata/SOURCES.md.
func recorded(t *testing.T) (asIs, slower []*evidence.Run) {
	t.Helper()
	data, err := os.ReadFile("testdata/digits-runs.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []*evidence.Run
	if err := json.Unmarshal(data, &runs); err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if strings.HasPrefix(run.ID, "as-is") {
			asIs = append(asIs, run)
		} else {
			slower = append(slower, run)
		}
	}
	return asIs, slower
}

type past []*evidence.Run

func (p past) Past(*evidence.Run) ([]*evidence.Run, error) { return p, nil }

// TestRecordedRuns puts histories drawn from real runs to the gate as a user would: through a policy, with runs added
// as it asks.
func TestRecordedRuns(t *testing.T) {
	asIs, slower := recorded(t)
	expr, err := Parse("step.time within 5 % of baseline")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 5))
	var found, missed, passed, invented, bare int
	const trials = 200
	for range trials {
		order := r.Perm(len(asIs))
		var history past
		for i, at := range order[:14] {
			run := *asIs[at]
			run.Started = time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)
			history = append(history, &run)
		}
		candidates := func(from []*evidence.Run, order []int, n int) (runs []*evidence.Run) {
			for i, at := range order[:n] {
				run := *from[at]
				run.Started = time.Date(2026, 2, 1+i, 0, 0, 0, 0, time.UTC)
				runs = append(runs, &run)
			}
			return runs
		}
		for _, c := range []struct {
			from  []*evidence.Run
			order []int
			slow  bool
		}{{asIs, order[14:], false}, {slower, r.Perm(len(slower))[:10], true}} {
			var a Answer
			for n := 3; n <= 10; n++ {
				set := &Set{Runs: candidates(c.from, c.order, n), History: history}
				if a = set.evaluate(expr.Cond); a.Outcome != Unknown {
					break
				}
				if a.Needs == "" {
					t.Fatalf("cannot tell, and does not say what would: %+v", a)
				}
			}
			switch {
			case c.slow && a.Outcome == Fail:
				found++
			case c.slow && a.Outcome == Pass:
				missed++
			case !c.slow && a.Outcome == Pass:
				passed++
			case !c.slow && a.Outcome == Fail:
				invented++
			}
		}
		if *asIs[order[14]].Figure("step.time").Value / *asIs[order[0]].Figure("step.time").Value > 1.1 {
			bare++
		}
	}
	t.Logf("10 %% longer: found %d, passed %d of %d; unchanged: passed %d, failed %d; a bare 10 %% rule on one run would have failed %d", found, missed, trials, passed, invented, bare)
	if found < 150 || missed > 0 || passed < 110 || invented > 1 {
		t.Error("a real regression is missed, or an unchanged program failed")
	}
}

// TestBaselineOfAnUnknownMachine: a baseline is bound to chip, system and release; where one of them is not known there
// is none.
func TestBaselineOfAnUnknownMachine(t *testing.T) {
	for _, what := range []string{"chip", "system", "release"} {
		blank := func(run *evidence.Run) *evidence.Run {
			switch what {
			case "chip":
				run.Host.Facts = run.Host.Facts[1:]
			case "system":
				run.Host.Facts = run.Host.Facts[:1]
			default:
				run.Target.Release = ""
			}
			return run
		}
		var earlier past
		for i := range 8 {
			run := blank(made(fmt.Sprint("e", i), "cpu", measured("step.time", 0.1+float64(i)*1e-4, "s")))
			run.Started = run.Started.Add(-time.Duration(i+1) * time.Hour)
			earlier = append(earlier, run)
		}
		now := blank(made("now", "cpu", measured("step.time", 0.1, "s")))
		out, answers := ask(t, "step.time within 5 % of baseline", &Set{Runs: []*evidence.Run{now}, History: earlier})
		if out != Unknown || !strings.Contains(answers[0].Text, what) {
			t.Errorf("%s: %s, %s", what, out, answers[0].Text)
		}
	}
}
