package gate

import (
	"slices"
	"strings"

	"assay/internal/text"
)

// better says in which direction a figure improves.
type better int

const (
	neither better = iota
	lower
	higher
)

// figure is one that a gate can name. A test compares the list with docs/formats/evidence.md.
type figure struct {
	name   string
	unit   string
	better better
	timed  bool     // comes from a clock: a rehearsal's says nothing about the Mac
	over   []string // windows that can be asked for besides "runs"
	doc    string   // set for what gates work out themselves
	args   string   // what stands in the brackets: "" a device, "two" two devices, else a list of words
	need   bool     // the brackets may not be left out
	most   float64  // what it can be at most; 0: no such limit
	least  least    // what it can be at least
}

// least says where the values of a figure begin.
type least int

const (
	zero      least = iota // a time, a size, a share, a count: it may be 0
	aboveZero              // nothing takes no time, and no process has no memory
	signed                 // a change, a gain or a loss: it may be negative
)

// counted reports whether the figure is a whole number, which can be compared with ==. A loss has no unit, and is measured.
func (f *figure) counted() bool { return f.unit == "1" && f.least != signed }

// signedFigures are the names of those that may be negative.
func signedFigures() []string {
	var names []string
	for _, f := range figures {
		if f.least == signed {
			names = append(names, f.name)
		}
	}
	return names
}

var figures = []figure{
	{name: "step.time", least: aboveZero, unit: "s", better: lower, timed: true, over: []string{"steps"}},
	{name: "step.time.synchronised", least: aboveZero, unit: "s", better: lower, timed: true},
	{name: "step.first_epoch", least: aboveZero, unit: "s", better: lower, timed: true},
	{name: "step.rate", least: aboveZero, unit: "1/s", better: higher, timed: true},
	{name: "samples.rate", least: aboveZero, unit: "1/s", better: higher, timed: true},
	{name: "split.data", unit: "s", better: lower, timed: true},
	{name: "split.h2d", unit: "s", better: lower, timed: true},
	{name: "split.forward", unit: "s", better: lower, timed: true},
	{name: "split.backward", unit: "s", better: lower, timed: true},
	{name: "split.optimizer", unit: "s", better: lower, timed: true},
	{name: "split.rest", unit: "s", better: lower, timed: true},
	{name: "share.data", unit: "ratio", most: 1, better: lower, timed: true},
	{name: "share.h2d", unit: "ratio", most: 1, better: lower, timed: true},
	{name: "share.forward", unit: "ratio", most: 1, timed: true},
	{name: "share.backward", unit: "ratio", most: 1, timed: true},
	{name: "share.optimizer", unit: "ratio", most: 1, timed: true},
	{name: "share.rest", unit: "ratio", most: 1, better: lower, timed: true},
	{name: "epoch.time", least: aboveZero, unit: "s", better: lower, timed: true},
	{name: "epoch.estimate", least: aboveZero, unit: "s", better: lower, timed: true},
	{name: "epoch.steps", least: aboveZero, unit: "1"},
	{name: "run.time", least: aboveZero, unit: "s", better: lower, timed: true},
	{name: "run.startup", unit: "s", better: lower, timed: true},
	{name: "memory.live.peak", unit: "B", better: lower},
	{name: "memory.pool.peak", unit: "B", better: lower},
	{name: "memory.resident.peak", least: aboveZero, unit: "B", better: lower},
	{name: "memory.footprint.peak", least: aboveZero, unit: "B", better: lower},
	{name: "memory.watermark", unit: "ratio", better: lower},
	{name: "memory.growth", least: signed, unit: "ratio", better: lower, over: []string{"epochs"}},
	{name: "swap.used.peak", unit: "B", better: lower},
	{name: "agent.step", unit: "s", better: lower, timed: true},
	{name: "agent.total", unit: "s", better: lower, timed: true},
	{name: "agent.share", unit: "ratio", better: lower, timed: true},
	{name: "host.cpu.mean", unit: "ratio", most: 1, timed: true},
	{name: "host.cpu.others.mean", unit: "1", better: lower, timed: true},
	{name: "host.cpu.lost", unit: "ratio", most: 1, better: lower, timed: true},
	{name: "gpu.busy.mean", unit: "ratio", most: 1, better: higher, timed: true},
	{name: "gpu.power.mean", unit: "W", better: lower, timed: true},
	{name: "loss.first", least: signed, unit: "1", better: lower},
	{name: "loss.last", least: signed, unit: "1", better: lower},
	{name: "fallback.calls", unit: "ratio", most: 1, better: lower},
	{name: "fallback.flops", unit: "ratio", most: 1, better: lower},
	{name: "fallback.time", unit: "ratio", most: 1, better: lower, timed: true},

	{name: "speedup", least: signed, unit: "ratio", most: 1, better: higher, timed: true, args: "two", need: true,
		doc: "speedup(A, B): by how much the step on A is shorter than on B: 1 − step.time(A) / step.time(B)"},
	{name: "parity.loss", unit: "ratio", better: lower, args: "two",
		doc: "parity.loss(A, B): the greatest departure of the losses on A from those on B, step by step, |a − b| / |b|; without brackets from those on CUDA"},
	{name: "runs", unit: "1", args: "one", need: true, doc: "runs(DEVICE): how many of the runs given were on that device"},
	{name: "findings", unit: "1", better: lower, args: "error warning note", need: true, doc: "findings(error): how many findings of that severity"},
	{name: "fallbacks", unit: "1", better: lower, doc: "operators that ran on the CPU because the device has no kernel for them"},
	{name: "refusals", unit: "1", better: lower, args: "missing dtype rank device memory argument",
		doc: "of a rehearsal: errors that the device would have raised; refusals(missing) those of that cause"},
	{name: "failures", unit: "1", better: lower, doc: "1 for a run that ended with an error, 0 for one that ended well"},
	{name: "hot.fallbacks", unit: "1", better: lower, doc: "how many of the three operators with most time of their own fell back to the CPU"},
	{name: "pressure.peak", unit: "1", better: lower, doc: "highest level of memory pressure that macOS reported: 1 normal, 2 warning, 4 critical"},
}

// aliases are other names in use.
var aliases = map[string]string{"gpu.util": "gpu.busy.mean", "gpu.busy": "gpu.busy.mean", "gpu.power": "gpu.power.mean", "host.cpu": "host.cpu.mean"}

// devices that a run can have been on; double is a rehearsal.
var devices = []string{"cpu", "mps", "cuda", "mlx", "double"}

func lookup(name string) *figure {
	if full, ok := aliases[name]; ok {
		name = full
	}
	for i := range figures {
		if figures[i].name == name {
			return &figures[i]
		}
	}
	return nil
}

// arguments lists the words that may stand in the brackets, and how many of them there have to be.
func (f *figure) arguments() (words []string, least, most int) {
	most = 1
	switch f.args {
	case "", "one":
		words = devices
	case "two":
		words, most = devices, 2
	default:
		words = strings.Fields(f.args)
	}
	if f.need || most == 2 {
		least = most
	}
	return words, least, most
}

// near is the word of the list that was probably meant, or "".
func near(word string, list []string) string {
	for _, candidate := range list {
		if strings.EqualFold(word, candidate) {
			return candidate
		}
	}
	best, distance := "", 1+max(2, len(word)/3)
	for _, candidate := range list {
		if d := text.Distance(word, candidate, distance); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" && len(word) > 3 {
		for _, candidate := range list { // step_time, peak, growth
			if strings.Contains(candidate, strings.Map(dotted, word)) {
				return candidate
			}
		}
	}
	return best
}

func dotted(r rune) rune {
	if r == '_' || r == '-' {
		return '.'
	}
	return r
}

func figureNames() []string {
	names := make([]string, 0, len(figures)+len(aliases))
	for _, f := range figures {
		names = append(names, f.name)
	}
	for alias := range aliases {
		names = append(names, alias)
	}
	slices.Sort(names)
	return names
}
