// Package catalogue is the one list of figures: what each is called, its unit, which way is better, what it can be, and
// what it says. Evidence is made, judged, kept and shown by it. docs/figures.md is made from it.
package catalogue

import (
	"slices"
	"strings"
)

// Better says in which direction a figure improves.
type Better int

const (
	Neither Better = iota
	Lower
	Higher
)

func (b Better) String() string {
	return [...]string{"", "less is better", "more is better"}[b]
}

// Least says where the values of a figure begin.
type Least int

const (
	Zero      Least = iota // a time, a size, a share, a count: it may be 0
	AboveZero              // nothing takes no time, and no process has no memory
	Signed                 // a change, a gain or a loss: it may be negative
)

// From says where a figure is found.
type From int

const (
	Run       From = iota // in the evidence of every run: known, or unknown with the reason
	Rehearsal             // in the evidence of every rehearsal
	Sample                // among the counters of the host: host.samples
	Only                  // in the answer to --only
	Gate                  // nowhere: gates work it out of the evidence of one run or of several
)

// Figure is what is known of a figure whatever its value.
type Figure struct {
	Name   string // step.time; split.* stands for the figure of each phase
	Unit   string // a base unit, as in evidence.Figure
	From   From
	Better Better
	Least  Least
	Most   float64  // what it can be at most; 0: no such limit
	Steps  bool     // it is of training steps: where none was seen, that is why it is not known
	Timed  bool     // it comes from a clock: a rehearsal's says nothing about the Mac
	Exact  bool     // it is counted, and the same work gives the same number: a difference is not noise
	Labels []string // what may tell figures of this name apart: batch, layer, dtype
	Doc    string
}

// Counted reports whether the figure is a whole number, which can be compared with ==. A loss has no unit, and is
// measured.
func (f Figure) Counted() bool { return f.Unit == "1" && f.Least != Signed }

// Covers reports whether the row is that of the figure of this name.
func (f Figure) Covers(name string) bool {
	stem, pattern := strings.CutSuffix(f.Name, "*")
	if !pattern {
		return f.Name == name
	}
	rest, ok := strings.CutPrefix(name, stem)
	return ok && rest != "" && !strings.Contains(rest, ".")
}

// Find gives the row of a figure: its own, or else that of the pattern that covers it.
func Find(name string) (Figure, bool) {
	name, _, _ = strings.Cut(name, "{") // labels
	i := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		i = slices.IndexFunc(figures, func(f Figure) bool { return f.Covers(name) })
	}
	if i < 0 {
		return Figure{}, false
	}
	f := figures[i]
	if strings.HasSuffix(f.Name, "*") && f.Name != name {
		phase := name[len(f.Name)-1:]
		f.Name, f.Doc = name, strings.ReplaceAll(f.Doc, "PHASE", phase)
	}
	return f, true
}

// Unit of a figure; "" of one that is not in the list.
func Unit(name string) string {
	f, _ := Find(name)
	return f.Unit
}

// All lists the figures, those of a run first, in the order in which a reader wants them.
func All() []Figure { return slices.Clone(figures) }

// Phases that the evidence of PyTorch has, in their order. A framework's adapter may declare others, which have
// split.NAME and share.NAME as well.
var Phases = []string{"data", "h2d", "forward", "backward", "optimizer", "rest"}

// phaseOf is the phase that a figure is of, where it is of one.
func phaseOf(name string) (string, bool) {
	for _, f := range figures {
		if stem, pattern := strings.CutSuffix(f.Name, "*"); pattern && strings.HasPrefix(name, stem) {
			return name[len(stem):], true
		}
	}
	return "", false
}

// Names lists the figures that are found there, their patterns filled in by the phases.
func Names(from From, phases []string) []string {
	var names []string
	for _, f := range figures {
		stem, pattern := strings.CutSuffix(f.Name, "*")
		switch {
		case f.From != from:
		case !pattern:
			if phase, ok := phaseOf(f.Name); !ok || slices.Contains(phases, phase) {
				names = append(names, f.Name)
			}
		default:
			for _, phase := range phases {
				if name := stem + phase; !slices.ContainsFunc(figures, func(g Figure) bool { return g.Name == name }) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
