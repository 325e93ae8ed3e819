package fold

import (
	"fmt"
	"strings"

	"assay/internal/evidence"
	"assay/internal/unit"
)

// How a disturbance is told, beside the limits in evidence/limit.go. A mark takes a figure out of gates, baselines and
// verdicts; docs/quiet.md has the measurements.
const (
	othersLeast = 0.05 // processors that others kept busy: below it nobody took anything, whatever the scheduler did
	// thermal.pressure: "system performance may be impacted" (NSProcessInfo.h, thermal state serious)
	thermalHeavy  = 2
	sampledShare  = 0.5 // of a window: less was looked at, and it is not known
	saturatedFree = 0.1 // of the processors free: with more nobody had to wait, where waiting itself is not known
)

// disturbance is a condition that times taken meanwhile do not come through unharmed.
type disturbance struct {
	finding string
	text    string // for the finding
	mark    string // for a figure
	hint    string
	memory  bool // touches resident memory as well
}

// mean of a figure of the samples over a stretch of the run, in seconds since its start. A sample's rates are those of
// the time since the one before it. covered is the part of the stretch that samples with the figure cover.
func (b *builder) mean(name string, from, to float64) (mean, covered float64) {
	var sum, weight float64
	before := 0.0
	for _, s := range b.f.samples {
		since := before
		before = s.At
		part := min(s.At, to) - max(since, from)
		if part <= 0 {
			continue
		}
		for _, f := range s.Figures {
			if f.Name == name && f.Known() {
				sum += *f.Value * part
				weight += part
			}
		}
	}
	if weight == 0 {
		return 0, 0
	}
	return sum / weight, weight / (to - from)
}

// lost is the share of the processor time that the run could have used and others had; others is how many processors
// those kept busy. Missing says why it is not known. What the run's own threads and workers take from one another is
// not lost: it could not have used more processors than there are.
func (b *builder) lost(from, to float64) (lost, others, processors float64, missing string) {
	others, covered := b.mean("host.cpu.others", from, to)
	own, _ := b.mean("process.cpu", from, to)
	free, _ := b.mean("host.cpu.free", from, to)
	waited, known := b.mean("process.waiting", from, to)
	processors = own + others + free
	switch {
	case to <= from:
		return 0, 0, 0, "there is no such stretch"
	case covered < sampledShare:
		why := "the machine's counters were not sampled"
		for _, s := range b.f.samples {
			for _, f := range s.Figures {
				if f.Name == "host.cpu.others" {
					why = fmt.Sprintf("%.0f %% of the %s were sampled", 100*covered, unit.Seconds(to-from))
					if !f.Known() && f.Missing != "" && covered == 0 {
						why += ": " + f.Missing
					}
				}
			}
		}
		return 0, 0, 0, why
	case others < othersLeast:
		return 0, others, processors, ""
	case known >= sampledShare:
		if could := min(own+waited, processors); could > 0 {
			lost = max(0, 1-own/could)
		}
	case free < saturatedFree*processors:
		lost = others / (own + others) // at most: as many of them as of ours
	}
	return lost, others, processors, ""
}

// disturbances says what disturbed a stretch of the run.
func (b *builder) disturbances(from, to float64) (all []disturbance) {
	if b.rehearsal() { // its times are not judged
		return nil
	}
	add := func(finding, mark, hint, text string, args ...any) {
		all = append(all, disturbance{finding: finding, mark: mark, hint: hint, text: fmt.Sprintf(text, args...)})
	}
	if lost, others, processors, missing := b.lost(from, to); missing == "" && lost >= evidence.LostCPU {
		mark := fmt.Sprintf("cpu contention: others took %.2g of %.2g processors, and with that %.0f %% of the time that the run could have had", others,
			processors, 100*lost)
		add("cpu-contention", mark, "end other programs, and measure again; the list of programs shows the largest",
			"other programs kept %.2g of %.2g processors busy, and the run lost %.0f %% of the processor time that it could have used (%s to %s)",
			others, processors, 100*lost, unit.Seconds(from), unit.Seconds(to))
	}
	if share, covered := b.mean("host.cpu.throttled", from, to); covered >= sampledShare &&
		share >= evidence.QuotaTime {
		add("cpu-quota", fmt.Sprintf("cpu quota: used up for %.0f %% of the time", 100*share),
			"raise the container's quota, or lower the number of threads and workers",
			"the cgroup's quota of processor time was used up for %.0f %% of the time", 100*share)
	}
	heat := ""
	if share, covered := b.mean("thermal.throttled", from, to); covered >= sampledShare && share >= evidence.HeatTime {
		heat = fmt.Sprintf("the processor was slowed down for its heat for %.0f %% of the time", 100*share)
	} else if share, covered := b.hot(from, to); covered >= sampledShare && share >= evidence.HeatTime {
		heat = fmt.Sprintf("thermal pressure was heavy or worse for %.0f %% of the time", 100*share)
	}
	if heat != "" {
		add("thermal-throttling", "heat: "+heat, "let it cool, and measure again with free air around it", "%s", heat)
	}
	out, covered := b.mean("host.swap.out", from, to)
	in, coveredIn := b.mean("host.swap.in", from, to)
	if max(covered, coveredIn) >= sampledShare && in+out >= evidence.SwapRate {
		rate := unit.Bytes(in+out) + "/s"
		add("swapping", "swap: "+rate, "close other programs, or lower the batch; then measure again",
			"memory was swapped at %s (%s/s out, %s/s in)", rate,
			unit.Bytes(out), unit.Bytes(in))
		all[len(all)-1].memory = true
	}
	for _, f := range b.f.host {
		switch {
		case f.Name == "power.low_power_mode" && strings.HasPrefix(f.Value, "on"):
			add("low-power", "low power mode", "switch it off, and measure again",
				"low power mode was on: the machine runs slower to save energy")
		case f.Name == "power.source" && strings.HasPrefix(strings.ToLower(f.Value), "battery"):
			add("battery", "on battery", "plug it in, and measure again", "the machine ran on its battery")
		}
	}
	return all
}

// hot is the part of a stretch with heavy thermal pressure.
func (b *builder) hot(from, to float64) (share, covered float64) {
	before := 0.0
	for _, s := range b.f.samples {
		since := before
		before = s.At
		part := min(s.At, to) - max(since, from)
		for _, f := range s.Figures {
			if part > 0 && f.Name == "thermal.pressure" && f.Known() {
				covered += part
				if *f.Value >= thermalHeavy {
					share += part
				}
			}
		}
	}
	if covered == 0 {
		return 0, 0
	}
	return share / covered, covered / (to - from)
}

// stretch of the run that a figure was taken in, in seconds since its start; ok is false for one that no clock gave.
func (b *builder) stretch(name string) (from, to float64, ok bool) {
	steps := b.p.steps
	span := func(in []step) (float64, float64, bool) {
		if len(in) == 0 {
			return 0, 0, false
		}
		last := in[len(in)-1]
		return float64(in[0].start-b.origin) / 1e9, float64(last.start+last.total-b.origin) / 1e9, true
	}
	group, _, _ := strings.Cut(name, ".")
	switch {
	case name == "run.startup" && len(steps) > 0:
		return 0, float64(steps[0].start-b.origin) / 1e9, true
	case name == "run.time", name == "gpu.busy.mean", name == "gpu.power.mean", name == "memory.resident.peak",
		name == "memory.growth":
		return 0, b.run.Ended.Sub(b.run.Started).Seconds(), true
	case name == "step.first_epoch":
		var first []step
		for _, s := range steps {
			if s.epoch == 1 {
				first = append(first, s)
			}
		}
		return span(first)
	case name == "epoch.steps":
		return 0, 0, false
	case group == "step", group == "samples", group == "split", group == "share", group == "epoch", group == "agent",
		group == "only":
		return span(b.steady)
	}
	return 0, 0, false
}

// quiet says what others took of the machine during the steady window, marks the figures that something disturbed, and
// finds what it was.
func (b *builder) quiet() {
	from, to, ok := b.stretch("step.time")
	lost, others, _, missing := 0.0, 0.0, 0.0, b.noSteps()
	if ok {
		lost, others, _, missing = b.lost(from, to)
	}
	if missing != "" {
		b.unknown("host.cpu.others.mean", "1", missing)
		b.unknown("host.cpu.lost", "ratio", missing)
	} else {
		b.put(evidence.Figure{Name: "host.cpu.others.mean", Value: &others, Unit: "1", Basis: evidence.Measured,
			Window: "steady",
			Note:   "processors, of those that the run may use, that others than the run and assay kept busy"})
		b.put(evidence.Figure{Name: "host.cpu.lost", Value: &lost, Unit: "ratio", Basis: evidence.Derived,
			Window: "steady",
			Note:   "of the processor time that the run could have used, what others had"})
	}
	told := map[string]bool{}
	type marks struct{ times, memory string }
	known := map[[2]float64]marks{}
	for i := range b.run.Figures {
		fig := &b.run.Figures[i]
		from, to, ok := b.stretch(fig.Name)
		if !fig.Known() || !ok || to <= from {
			continue
		}
		m, done := known[[2]float64{from, to}]
		if !done {
			for _, d := range b.disturbances(from, to) {
				m.times = strings.TrimPrefix(m.times+"; "+d.mark, "; ")
				if d.memory {
					m.memory = strings.TrimPrefix(m.memory+"; "+d.mark, "; ")
				}
			}
			known[[2]float64{from, to}] = m
		}
		if fig.Disturbed = m.times; strings.HasPrefix(fig.Name, "memory.") {
			fig.Disturbed = m.memory
			if fig.Name == "memory.growth" && !strings.Contains(fig.Note, "resident") {
				fig.Disturbed = ""
			}
		}
	}
	if o := b.run.Only; o != nil {
		o.Each.Disturbed, o.Step.Disturbed = b.run.Figure("run.time").Disturbed, b.run.Figure("step.time").Disturbed
	}
	if !ok {
		return
	}
	for _, d := range b.disturbances(from, to) {
		if !told[d.finding] {
			told[d.finding] = true
			b.find(d.finding, evidence.Warning, evidence.Measured, "", d.hint,
				"%s: the times are not the program's own", d.text)
		}
	}
}
