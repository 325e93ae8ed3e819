package fold

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"assay/internal/target"
)

// trained is a process with steps of those lengths, in seconds, one after another, in one epoch.
func trained(epoch int, lengths ...float64) *process {
	p := &process{hello: helloEvent{PID: 7}}
	for i, seconds := range lengths {
		s := step{number: i + 1, epoch: epoch, micro: 1, total: int64(seconds * 1e9)}
		if i > 0 {
			s.start = p.steps[i-1].start + p.steps[i-1].total
		}
		p.steps = append(p.steps, s)
	}
	return p
}

func foldOf(p *process, start StartEvent) *Fold {
	f := New()
	f.start, f.conns[1], f.order = start, p, []int{1}
	return f
}

func reads(batches int) LoaderEvent { return LoaderEvent{ID: 1, Batches: &batches} }

func all(n int, seconds float64) []float64 { return slices.Repeat([]float64{seconds}, n) }

// TestEstimate: how long an epoch takes is told as soon as a dozen steps can tell, and no step that is not like the
// others is extrapolated.
func TestEstimate(t *testing.T) {
	hundred, second := []LoaderEvent{reads(100)}, reads(100)
	second.ID = 2
	slow := all(12, 3)
	slow[0], slow[1] = 90, 40 // compiled
	uneven := slices.Repeat([]float64{3, 40}, 14)
	burst := append(all(8, 3), all(8, 6)...)
	for i := range burst[:4] {
		burst[i] = 0.1 // batches that the workers had made ready
	}
	for name, c := range map[string]struct {
		p        *process
		declared lengthEvent
		start    StartEvent
		loaders  []LoaderEvent
		trains   int    // 0: the first; -1: none
		of       string // "": nothing is told
		seconds  float64
	}{
		"eleven steps":                     {p: trained(1, all(11, 3)...), loaders: hundred},
		"a dozen":                          {p: trained(1, all(12, 3)...), loaders: hundred, of: "epoch", seconds: 300},
		"a slow beginning":                 {p: trained(1, slow...), loaders: hundred, of: "epoch", seconds: 300},
		"short steps":                      {p: trained(1, all(15, .02)...), loaders: hundred},
		"more short steps":                 {p: trained(1, all(16, .02)...), loaders: hundred, of: "epoch", seconds: 2},
		"a quick beginning":                {p: trained(1, burst...), loaders: hundred, of: "epoch", seconds: 600},
		"too vague":                        {p: trained(1, uneven...), loaders: hundred},
		"a length unknown":                 {p: trained(1, all(40, 3)...), loaders: []LoaderEvent{{ID: 1}}},
		"no loader":                        {p: trained(0, all(40, 3)...)},
		"a loader that no step draws from": {p: trained(0, all(40, 3)...), trains: -1, loaders: hundred},
		"validation before training": {p: trained(1, all(40, 3)...), trains: 2, of: "epoch", seconds: 300,
			loaders: []LoaderEvent{{ID: 1, Batches: new(int)}, second}},
		"declared by a framework": {p: trained(0, all(40, 3)...), of: "epoch", seconds: 150,
			declared: lengthEvent{Of: "epoch", Steps: 50, By: "fit"}},
		"counted by a bar": {p: trained(0, all(40, 3)...), of: "loop", seconds: 210,
			declared: lengthEvent{Of: "loop", Steps: 70, By: "bar"}},
		"so many steps asked for": {p: trained(0, all(40, 3)...), of: "run", seconds: 240,
			start: StartEvent{Options: map[string]string{"steps": "80"}}},
		"a rehearsal": {p: trained(1, all(40, 3)...), loaders: hundred,
			start: StartEvent{Double: &target.Settings{}}},
		"one side alone": {p: trained(1, all(40, 3)...), loaders: hundred,
			start: StartEvent{Options: map[string]string{"only": "data"}}},
	} {
		if c.trains == 0 {
			c.trains = 1
		}
		c.p.loaders, c.p.counted, c.p.declared = c.loaders, c.trains, c.declared
		e, ok := foldOf(c.p, c.start).Estimate()
		if ok != (c.of != "") || ok && (e.Of != c.of || math.Abs(e.Seconds-c.seconds) > 1e-6*c.seconds ||
			e.Low > e.Seconds || e.High < e.Seconds) {
			t.Errorf("%s: %+v, %v, want %q of %g s", name, e, ok, c.of, c.seconds)
		}
	}
}

// TestEstimateBehindTheHost: where the host runs ahead, one step in ten or twenty has the time of all.
func TestEstimateBehindTheHost(t *testing.T) {
	for _, every := range []int{10, 20} {
		lengths := all(250, .002)
		for i := every - 1; i < len(lengths); i += every {
			lengths[i] = .008*float64(every) - .002*float64(every-1)
		}
		p := trained(1, lengths...)
		p.loaders, p.device = []LoaderEvent{reads(100)}, deviceEvent{Type: "cuda"}
		p.counted = 1
		for i := 19; i < len(p.steps); i += 20 {
			p.steps[i].kind = "sync"
		}
		e, ok := foldOf(p, StartEvent{}).Estimate()
		if !ok || math.Abs(e.Seconds-.8) > .15 {
			t.Errorf("one in %d waits: %+v %v, want 0.8 s", every, e, ok)
		}
		p.steps = p.steps[:50]
		if e, ok := foldOf(p, StartEvent{}).Estimate(); ok {
			t.Errorf("one in %d waits: too soon: %+v", every, e)
		}
	}
}

// TestEstimateFromLaterEpochs: the second epoch is like the third, and the first is like none; instruments' steps are
// no guide.
func TestEstimateFromLaterEpochs(t *testing.T) {
	p := trained(1, append(all(50, 4), all(30, 2)...)...)
	for i := range p.steps[50:] {
		p.steps[50+i].epoch = 2
	}
	for i := range 10 {
		p.steps[60+i].kind, p.steps[60+i].total = "trace", 60e9
	}
	e, ok := foldOf(p, StartEvent{}).Estimate()
	if !ok || e.Steps != 50 || e.By != "the epochs before it" || math.Abs(e.Seconds-100) > 1e-6 || e.Used != 20 {
		t.Errorf("%+v %v", e, ok)
	}
}

// TestMeanOf: the interval holds the mean of what it was drawn from about as often as it says. SciPy's
// t.interval(0.95, 9, 5.5, sem([1..10])) is 3.334149 to 7.665851.
func TestMeanOf(t *testing.T) {
	mean, low, high := meanOf([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	if mean != 5.5 || math.Abs(low-3.334149) > 1e-5 || math.Abs(high-7.665851) > 1e-5 {
		t.Error(mean, low, high)
	}
	if mean, low, high := meanOf([]float64{3}); mean != 3 || low != 3 || high != 3 {
		t.Error(mean, low, high)
	}
}

// TestToldStaysInTheEvidence: what was estimated while the run went on stands beside what it came to.
func TestToldStaysInTheEvidence(t *testing.T) {
	s := newStream()
	s.send(1, map[string]any{"ev": "loader", "id": 1, "loader": "DataLoader", "batches": 40})
	s.send(1, map[string]any{"ev": "length", "loader": 1})
	s.steps(1, 1, 30, 0, func(int) string { return "" })
	e, ok := s.f.Estimate()
	if !ok {
		t.Fatal("nothing is told")
	}
	data, _ := json.Marshal(e)
	s.f.Add(Supervisor, append([]byte(`{"ev":"estimate",`), data[1:]...))
	fig := s.f.SoFar().Figure("epoch.estimate")
	if !fig.Known() || fig.Low == nil || fig.High == nil || !strings.Contains(fig.Note, "told at step 30: 800 ms") {
		t.Errorf("%+v", fig)
	}
}
