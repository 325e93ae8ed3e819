package fold

import (
	"strings"
	"testing"

	"assay/internal/evidence"
)

// sampled makes a run of 2 epochs of 400 steps of 20 ms, 16 s, on two processors, with a sample each second. own,
// others, free and waited are what a sample says at that second; a nil function leaves the counters out.
func sampled(device string, facts []evidence.Fact, at func(second int) map[string]float64) *stream {
	s := newStream()
	s.send(1, map[string]any{"ev": "loader", "id": 1, "dataset": "D", "batch": 16, "batches": 400, "workers": 2})
	s.send(1, map[string]any{"ev": "device", "type": device})
	s.steps(1, 1, 400, 0, plainSteps)
	s.steps(2, 401, 400, 8000, plainSteps)
	s.own("host", HostEvent{Facts: facts})
	for second := range 17 {
		sample := &evidence.Sample{At: float64(second)}
		if at != nil {
			for name, v := range at(second) {
				sample.Figures = append(sample.Figures, evidence.Known(name, v, "1", evidence.Measured))
			}
		}
		s.own("host", HostEvent{Sample: sample})
	}
	s.own("exit", ExitEvent{Wall: s.f.start.Wall.Add(16e9)})
	return s
}

func shares(own, others, free, waited float64) map[string]float64 {
	return map[string]float64{"process.cpu": own, "host.cpu.others": others, "host.cpu.free": free,
		"process.waiting": waited}
}

// TestDisturbed: each condition is found, marks the times it touched and no others, and says how much of it there was;
// what is the run's own is none.
func TestDisturbed(t *testing.T) {
	always := func(m map[string]float64) func(int) map[string]float64 {
		return func(int) map[string]float64 { return m }
	}
	with := func(m map[string]float64, name string, v float64) map[string]float64 {
		m[name] = v
		return m
	}
	for _, c := range []struct {
		name    string
		at      func(int) map[string]float64
		facts   []evidence.Fact
		finding string // "": none
		says    string
	}{
		{"quiet", always(shares(1.9, 0.03, 0.07, 0.02)), nil, "", ""},
		{"a busy program beside a run of one thread, and a processor for each", always(shares(1, 0.98, 0.02, 0.01)),
			nil, "", ""},
		{"its own workers and threads, more than there are processors", always(shares(1.98, 0.01, 0.01, 6.5)), nil, "",
			""},
		{"torchrun: four ranks of two threads", always(shares(1.97, 0.04, 0, 14)), nil, "", ""},
		{"a browser for one second", func(second int) map[string]float64 {
			if second == 12 {
				return shares(1.5, 0.5, 0, 0.6)
			}
			return shares(1.95, 0.02, 0.03, 0.01)
		}, nil, "", ""},
		{"one busy loop on two processors", always(shares(1.15, 0.85, 0, 0.8)), nil, "cpu-contention",
			"kept 0.85 of 2 processors busy, and the run lost 41 %"},
		{"twenty busy loops", always(shares(0.15, 1.85, 0, 2.5)), nil, "cpu-contention",
			"processors busy, and the run lost 92 %"},
		{"busy during the first epoch alone", func(second int) map[string]float64 {
			if second <= 8 {
				return shares(0.5, 1.5, 0, 1.5)
			}
			return shares(1.95, 0.02, 0.03, 0.01)
		}, nil, "", ""},
		{"a Mac that says nothing of waiting, drowned", always(map[string]float64{"process.cpu": 2,
			"host.cpu.others": 6, "host.cpu.free": 0}), nil,
			"cpu-contention", "lost 75 %"},
		{"the same with processors to spare", always(map[string]float64{"process.cpu": 2, "host.cpu.others": 4,
			"host.cpu.free": 2}), nil, "", ""},
		{"quota", always(with(shares(0.5, 0, 1.5, 0.1), "host.cpu.throttled", 0.4)), nil, "cpu-quota",
			"40 % of the time"},
		{"heat, Linux", always(with(shares(1.9, 0, 0.1, 0), "thermal.throttled", 0.2)), nil, "thermal-throttling",
			"20 % of the time"},
		{"heat, Mac", always(with(shares(1.9, 0, 0.1, 0), "thermal.pressure", 2)), nil, "thermal-throttling",
			"100 % of the time"},
		{"moderate, Mac", always(with(shares(1.9, 0, 0.1, 0), "thermal.pressure", 1)), nil, "", ""},
		{"swap", always(with(with(shares(1.9, 0, 0.1, 0), "host.swap.out", 3<<20), "host.swap.in", 1<<20)), nil,
			"swapping", "4.00 MiB/s"},
		{"a little swap", always(with(shares(1.9, 0, 0.1, 0), "host.swap.out", 1<<18)), nil, "", ""},
		{"battery", nil, []evidence.Fact{{Name: "power.source", Value: "Battery Power"}}, "battery", "battery"},
		{"mains", nil, []evidence.Fact{{Name: "power.source", Value: "AC Power"},
			{Name: "power.low_power_mode", Value: "off"}}, "", ""},
		{"low power mode", nil, []evidence.Fact{{Name: "power.source", Value: "AC Power"},
			{Name: "power.low_power_mode", Value: "on (profile quiet)"}},
			"low-power", "low power"},
	} {
		for _, device := range []string{"cpu", "mps"} {
			run := sampled(device, c.facts, c.at).f.Finish()
			step := run.Figure("step.time")
			if c.finding == "" {
				if step.Disturbed != "" || len(run.Findings) > 0 && finding(run, "cpu-contention") != nil {
					t.Errorf("%s on %s: %q, %+v", c.name, device, step.Disturbed, run.Findings)
				}
				continue
			}
			f := finding(run, c.finding)
			if f == nil || !strings.Contains(f.Text, c.says) || f.Hint == "" || step.Disturbed == "" {
				t.Errorf("%s on %s: %+v, step marked %q", c.name, device, f, step.Disturbed)
				continue
			}
			for _, name := range []string{"step.rate", "samples.rate", "epoch.time", "epoch.estimate", "run.time"} {
				if fig := run.Figure(name); fig.Known() && fig.Disturbed == "" {
					t.Errorf("%s: %s bears no mark", c.name, name)
				}
			}
			for _, name := range []string{"epoch.steps", "memory.live.peak", "host.cpu.lost", "loss.last"} {
				if fig := run.Figure(name); fig.Disturbed != "" {
					t.Errorf("%s: %s bears the mark %q", c.name, name, fig.Disturbed)
				}
			}
		}
	}
	first := sampled("cpu", nil, func(second int) map[string]float64 {
		if second <= 8 {
			return shares(0.5, 1.5, 0, 1.5)
		}
		return shares(1.95, 0.02, 0.03, 0.01)
	}).f.Finish()
	if first.Figure("step.first_epoch").Disturbed == "" || first.Figure("step.time").Disturbed != "" {
		t.Error("what disturbed the first epoch alone is not told from what disturbed the steady window")
	}
}

// TestNotKnownWhetherQuiet: where the host does not say, nothing is marked, and it is said that it is not known; a
// rehearsal is not asked.
func TestNotKnownWhetherQuiet(t *testing.T) {
	run := sampled("cpu", nil, nil).f.Finish()
	wantUnknown(t, run, "host.cpu.lost", "sampled")
	if step := run.Figure("step.time"); !step.Known() || step.Disturbed != "" || len(run.Findings) > 0 {
		t.Errorf("%+v, %+v", step, run.Findings)
	}
	half := sampled("cpu", nil, func(second int) map[string]float64 {
		if second > 10 {
			return nil
		}
		return shares(0.2, 1.8, 0, 2)
	}).f.Finish()
	wantUnknown(t, half, "host.cpu.lost", "% of the")
	s := sampled("mps", []evidence.Fact{{Name: "power.source", Value: "battery"}},
		func(int) map[string]float64 { return shares(0.2, 1.8, 0, 2) })
	s.send(1, map[string]any{"ev": "double", "release": "2.8.0", "installed": "2.15.0", "macos": []int{15, 0},
		"chip": "m2", "memory": 1 << 34})
	rehearsed := s.f.Finish()
	for _, fig := range rehearsed.Figures {
		if fig.Disturbed != "" {
			t.Errorf("a rehearsal's %s is marked: %s", fig.Name, fig.Disturbed)
		}
	}
	for _, name := range []string{"cpu-contention", "battery"} {
		if f := finding(rehearsed, name); f != nil {
			t.Errorf("a rehearsal's times are not judged: %+v", f)
		}
	}
}
