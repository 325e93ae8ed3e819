package fold

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"

	"assay/internal/evidence"
)

// maxPhases is how many phases a process may name.
const maxPhases = 16

var (
	phaseName       = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
	errManyPhases   = errors.New("more phases than are read")
	maxPhaseText    = 200 // bytes of a title or an explanation
	errPhaseColumns = errors.New("a step's phases are columns by name")
)

// phasesEvent declares phases, in the order in which they are drawn. The last is what no hook claims.
type phasesEvent struct {
	Rows []struct {
		Name  string `json:"name"`
		Title string `json:"title"`
		Doc   string `json:"doc"`
	} `json:"rows"`
}

// phaseColumns are the lengths of phases, by their names: a column each.
type phaseColumns map[string]integers

// UnmarshalJSON reads an object of columns. Their number is bounded before it is read: a column has no text in it but its name.
func (c *phaseColumns) UnmarshalJSON(text []byte) error {
	if bytes.Count(text, []byte{'"'}) > 2*maxPhases {
		return errManyPhases
	}
	var columns map[string]integers
	if json.Unmarshal(text, &columns) != nil {
		return errPhaseColumns
	}
	*c = columns
	return nil
}

// processPhases are the phases of a process's steps.
type processPhases struct {
	numbers  map[string]int   // place in step.phase
	declared []evidence.Phase // in the order in which they are drawn
}

// number is the place of a phase in step.phase. False where the name is none, or there are too many.
func (p *processPhases) number(name string) (int, bool) {
	if n, known := p.numbers[name]; known {
		return n, true
	}
	if len(p.numbers) >= maxPhases || !phaseName.MatchString(name) {
		return 0, false
	}
	if p.numbers == nil {
		p.numbers = map[string]int{}
	}
	p.numbers[name] = len(p.numbers)
	return len(p.numbers) - 1, true
}

// declare takes what the agent says of its phases; false where it cannot be.
func (p *processPhases) declare(e phasesEvent) bool {
	var list []evidence.Phase
	for _, row := range e.Rows {
		known := slices.ContainsFunc(list, func(other evidence.Phase) bool { return other.Name == row.Name })
		if _, ok := p.number(row.Name); !ok || known || len(row.Title) > maxPhaseText || len(row.Doc) > maxPhaseText {
			return false
		}
		list = append(list, evidence.Phase{Name: row.Name, Title: row.Title, Doc: row.Doc})
	}
	if len(list) == 0 {
		return false
	}
	p.declared = list
	return true
}

// columns are those of a steps event by their places; nil where the event cannot be read. An event of an earlier agent has PyTorch's,
// each in a field of its own.
func (p *processPhases) columns(e *stepsEvent) []integers {
	if e.Phases == nil {
		if p.declared == nil {
			p.declared = evidence.FormerPhases()
		}
		e.Phases = phaseColumns{"data": e.Data, "h2d": e.H2D, "forward": e.Forward, "backward": e.Backward, "optimizer": e.Optimizer, "rest": e.Rest}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Phases)) {
		if _, ok := p.number(name); !ok || len(e.Phases[name]) != len(e.Number) {
			return nil
		}
	}
	list := make([]integers, len(p.numbers))
	for name, column := range e.Phases {
		list[p.numbers[name]] = column
	}
	return list
}

// drawn are the phases in their order: as declared, and before the last of them those that steps named besides. A process that named none
// has the former ones.
func (p *processPhases) drawn() []evidence.Phase {
	if len(p.numbers) == 0 {
		return evidence.FormerPhases()
	}
	list := slices.Clone(p.declared)
	last := max(0, len(list)-1)
	for _, name := range slices.Sorted(maps.Keys(p.numbers)) {
		if !slices.ContainsFunc(list, func(known evidence.Phase) bool { return known.Name == name }) {
			list = slices.Insert(list, last, evidence.Phase{Name: name, Title: name})
			last++
		}
	}
	return list
}

// part is the length of a phase in a step, ns, by the phase's name.
func (p *processPhases) part(name string) func(step) int64 {
	n, known := p.numbers[name]
	return func(s step) int64 {
		if !known || n >= len(s.phase) {
			return 0
		}
		return s.phase[n]
	}
}
