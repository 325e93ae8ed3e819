package facts

import (
	"cmp"
	"slices"
	"strings"

	"assay/internal/atlas"
)

// Question is what a surface asks. What is left zero is open.
type Question struct {
	Torch     string       // release: 2.8.0; "" asks about every release
	MacOS     [2]int       // 0.0: any
	Operators []atlas.Call // that are called, aten::add.Tensor
	Python    string       // a Python name, torch.nn.Conv3d: what it comes down to, forward and backward
	Everyone  bool         // rows about any tensor on MPS as well
	// Arguments of the one call that is asked about, as an operator gets them ("": the Python name itself); nil, or a
	// nil answer: nothing is known of them.
	Arguments func(operator string) Arguments
	Outcomes  []Outcome // only these; nil: all
}

// Said is a row that speaks of what was asked.
type Said struct {
	*Fact
	// Met: the condition holds (Yes), or cannot be told from what is known (Open).
	Met       Answer `json:"-"`
	Certain   bool   `json:"-"` // it is known that the row is true in the release asked about (Fact.Certain)
	Operator  string `json:"-"` // by which it was met; "" for a Python name of its own, or any tensor
	Sometimes bool   `json:"-"` // the operator is called for some inputs only
	Backward  bool   `json:"-"` // of a Python name: met in its backward pass
	Always    bool   `json:"-"` // each call of the Python name meets it
}

// Sure: whoever makes the call meets the row.
func (s Said) Sure() bool { return s.Met == Yes && !s.Sometimes && s.Certain }

// Ask is the one way to the facts: the rows that speak of what is asked, the worst outcome first, each row once. Rows
// whose condition is known not to hold are left out.
func (t *Table) Ask(a *atlas.Atlas, q Question) []Said {
	var list []Said
	at := map[*Fact]int{}
	add := func(f *Fact, s Said) {
		if q.Torch != "" && !f.Holds(q.Torch) || !f.On(q.MacOS) ||
			q.Outcomes != nil && !slices.Contains(q.Outcomes, f.Outcome) {
			return
		}
		var args Arguments
		if q.Arguments != nil {
			args = q.Arguments(s.Operator)
		}
		s.Fact, s.Met, s.Certain = f, f.MeetsCall(args), f.Certain(q.Torch)
		switch {
		case s.Always:
			s.Met = Yes
		case s.Operator == "" && !f.Everywhere() && args == nil && s.Met == Yes:
			s.Met = Open // the row's operators are met always; whether the Python name comes to them depends
		}
		if s.Met == No {
			return
		}
		if i, again := at[f]; again {
			if !list[i].Sure() && s.Sure() || list[i].Sometimes && !s.Sometimes || list[i].Backward && !s.Backward {
				list[i] = s
			}
			return
		}
		at[f] = len(list)
		list = append(list, s)
	}
	calls := func(operators []atlas.Call, backward bool) {
		for _, c := range operators {
			for _, f := range t.ofOperator(c.Operator) {
				add(f, Said{Operator: c.Operator, Sometimes: c.Sometimes, Backward: backward})
			}
		}
	}
	calls(q.Operators, false)
	if q.Python != "" {
		for _, name := range spellings(q.Python) {
			for _, f := range t.python[name] {
				add(f, Said{Backward: f.Direction == "backward", Always: slices.Contains(f.Always, name)})
			}
		}
		if api, ok := a.API(q.Python); ok {
			release, err := a.Release("torch", q.Torch)
			if err != nil {
				all := a.Releases("torch")
				release = all[len(all)-1]
			}
			api = a.In(release, api)
			calls(a.Reached(release, api.Forward), false)
			calls(a.Reached(release, api.Backward), true)
		}
	}
	if q.Everyone {
		for _, f := range t.every {
			add(f, Said{})
		}
	}
	slices.SortStableFunc(list, Compare)
	return list
}

// Known lists the rows with these outcomes that speak of a release of torch and of a macOS (0.0: any): what is certain
// first, then as Compare has it.
func (t *Table) Known(torch string, macos [2]int, outcomes ...Outcome) []Said {
	var list []Said
	for _, f := range t.All {
		if slices.Contains(outcomes, f.Outcome) && f.Holds(torch) && f.On(macos) {
			list = append(list, Said{Fact: f, Met: f.MeetsCall(nil), Certain: f.Certain(torch)})
		}
	}
	slices.SortStableFunc(list, func(x, y Said) int {
		if x.Certain != y.Certain && x.Outcome == y.Outcome {
			if x.Certain {
				return -1
			}
			return 1
		}
		return Compare(x, y)
	})
	return list
}

// Compare orders the worst outcome first, and of one outcome what is sure, then what may be, then what is about any
// tensor.
func Compare(x, y Said) int {
	place := func(s Said) int {
		switch {
		case s.Everywhere():
			return 2
		case s.Sure():
			return 0
		}
		return 1
	}
	return cmp.Or(x.Rank()-y.Rank(), place(x)-place(y))
}

// ofOperator lists the rows that name an operator: by overload, by its name for all overloads, and in place (add_) by
// that of the operator that gives a new tensor.
func (t *Table) ofOperator(operator string) []*Fact {
	base, overload, _ := strings.Cut(operator, ".")
	names := []string{operator}
	if overload != "" {
		names = append(names, base)
	}
	if plain := strings.TrimSuffix(base, "_"); plain != base && !strings.HasSuffix(plain, "_") {
		names = append(names, plain)
		if overload != "" {
			names = append(names, plain+"."+overload)
		}
	}
	if rest, isOut := strings.CutSuffix(overload, "out"); isOut {
		if rest = strings.TrimSuffix(rest, "_"); rest != "" {
			names = append(names, base+"."+rest)
		}
	}
	var list []*Fact
	for _, name := range names {
		for _, f := range t.named[name] {
			if !slices.Contains(list, f) {
				list = append(list, f)
			}
		}
	}
	return list
}

// spellings are the ways in which a Python name is written: nn.Conv3d, F.gelu, torch.nn.Conv3d.__call__.
func spellings(name string) []string {
	name = strings.TrimSuffix(name, ".__call__")
	name = strings.TrimSuffix(name, ".forward")
	list := []string{name, "torch." + name, "torch.nn." + name}
	if rest, ok := strings.CutPrefix(name, "F."); ok {
		list = append(list, "torch.nn.functional."+rest)
	}
	return list
}
