package atlas

import (
	"slices"
	"strings"
)

// Parameter is one of an operator's arguments.
type Parameter struct {
	Name     string
	Kind     byte // T a tensor, L tensors, N a number, I an integer or a dtype, A integers, F, B, S, O another
	Optional bool // it may be left out
	Keyword  bool // given by keyword only
}

// Schema lists the arguments of an operator's overload, aten::max.dim, in their order; nil where they are not known.
func (a *Atlas) Schema(operator string) []Parameter { return a.schemas()[operator] }

// Overloads lists the overloads of an operator by the name that they share, aten::max, sorted; those with out= left
// out.
func (a *Atlas) Overloads(name string) []string {
	a.schemas()
	return a.overloads[name]
}

func (a *Atlas) schemas() map[string][]Parameter {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.parameters != nil {
		return a.parameters
	}
	a.parameters, a.overloads = map[string][]Parameter{}, map[string][]string{}
	for line := range strings.Lines(string(text("schemas.txt"))) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		list := make([]Parameter, 0, len(words)-1)
		for _, w := range words[1:] {
			name, kind, _ := strings.Cut(w, ":")
			p := Parameter{Kind: kind[0], Optional: strings.HasSuffix(kind, "=")}
			p.Name, p.Keyword = strings.CutPrefix(name, "*")
			p.Name = strings.Clone(p.Name)
			list = append(list, p)
		}
		base, _, _ := strings.Cut(words[0], ".")
		a.parameters[words[0]] = list
		a.overloads[base] = append(a.overloads[base], words[0])
	}
	for _, list := range a.overloads {
		slices.Sort(list)
	}
	return a.parameters
}
