package gate

import (
	"slices"
	"strings"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/text"
)

// figure is one that a gate can name: what the catalogue says of it, and how gates come by it. There is none that
// nothing works out: a figure of the catalogue is read off the evidence, where it stands or is not known; one that is
// found nowhere can be named only with a function in worked.
type figure struct {
	catalogue.Figure
	// what stands in the brackets: "" a device, "two" two devices, "one" a device that has to be named, else a list of
	// words
	args    string
	need    bool              // the brackets may not be left out
	windows map[string]window // that can be asked for besides "runs"
	worked
}

// worked is how gates work a figure out: of each run, or of all runs given. Both nil: it stands in the evidence.
type worked struct {
	// the figure of one run; where it is not known, what would make it so
	of  func(c *Condition, run *evidence.Run) (evidence.Figure, string)
	all func(s *Set, c *Condition) Answer
}

// window takes a figure of the evidence over n of what the window is of.
type window func(run *evidence.Run, whole evidence.Figure, n int) (evidence.Figure, string)

// own are the figures that gates work out themselves. Their names, units and words are the catalogue's.
var own = map[string]figure{
	"speedup":       {args: "two", need: true, worked: worked{all: speedup}},
	"parity.loss":   {args: "two", worked: worked{all: parity}},
	"runs":          {args: "one", need: true, worked: worked{all: runsOn}},
	"findings":      {args: "error warning note", need: true, worked: worked{of: findings}},
	"fallbacks":     {worked: worked{of: fallbacks}},
	"refusals":      {args: "missing dtype rank device memory argument", worked: worked{of: refusals}},
	"failures":      {worked: worked{of: failures}},
	"hot.fallbacks": {worked: worked{of: hotFallbacks}},
	"pressure.peak": {worked: worked{of: pressurePeak}},
}

// windows of figures of the evidence.
var windows = map[string]map[string]window{
	"step.time":     {"steps": lastSteps},
	"memory.growth": {"epochs": growth},
}

// figures are those that a gate can name, PyTorch's phases among them.
var figures = list()

func list() (all []figure) {
	for _, from := range []catalogue.From{catalogue.Run, catalogue.Rehearsal, catalogue.Gate} {
		for _, name := range catalogue.Names(from, catalogue.Phases) {
			row, _ := catalogue.Find(name)
			f, worked := own[name]
			if worked != (from == catalogue.Gate) {
				continue // nobody works it out; TestEachFigureIsWorkedOut names it
			}
			f.Figure, f.windows = row, windows[name]
			all = append(all, f)
		}
	}
	return all
}

// signedFigures are the names of those that may be negative.
func signedFigures() []string {
	var names []string
	for _, f := range figures {
		if f.Least == catalogue.Signed {
			names = append(names, f.Name)
		}
	}
	return names
}

// aliases are other names in use.
var aliases = map[string]string{"gpu.util": "gpu.busy.mean", "gpu.busy": "gpu.busy.mean", "gpu.power": "gpu.power.mean",
	"host.cpu": "host.cpu.mean"}

// devices that a figure can be asked of.
var devices = evidence.Devices()

// lookup finds the figure that a name stands for; nil where there is none. What phases a framework other than PyTorch
// has, its adapter says: a phase that resembles none of PyTorch's is taken for one of those.
func lookup(name string) *figure {
	if full, ok := aliases[name]; ok {
		name = full
	}
	for i := range figures {
		if figures[i].Name == name {
			return &figures[i]
		}
	}
	row, ok := catalogue.Find(name)
	if _, phase, of := strings.Cut(name, "."); ok && row.From == catalogue.Run && of &&
		near(phase, catalogue.Phases) == "" {
		return &figure{Figure: row}
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
		names = append(names, f.Name)
	}
	for alias := range aliases {
		names = append(names, alias)
	}
	slices.Sort(names)
	return names
}
