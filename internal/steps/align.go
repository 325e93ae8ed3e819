package steps

import (
	"fmt"
	"slices"
)

// alignment says which rows of B stand for those of A.
type alignment struct {
	to        []int32 // of each row of A: the row of B, or -1
	taken     []bool  // of each row of B
	unaligned []Unaligned
	alone     [2][]string // modules and weights that one side alone has, from A's or B's first call on
	paired    map[part]bool
	apartIn   map[part]bool
	apartAt   map[part]bool // of which operators without partner are, and not of a module in it
}

// part is a phase of a module's step.
type part struct {
	within
	phase string
}

// around marks a part, and those of the modules around it.
func around(parts map[part]bool, module string, step int32, phase string) {
	for ; ; module, _ = cutLast(module) {
		parts[part{within{module, step}, phase}] = true
		if module == "" {
			return
		}
	}
}

// covered says whether all that is in a module, in a phase of a step, is operators that have partners: then these are
// judged, and what the module gives is no more than what they come to.
func (al *alignment) covered(module string, step int, phase string) bool {
	at := part{within{module, int32(step)}, phase}
	return al.paired[at] && !al.apartIn[at]
}

// answers says whether what a module gives is judged as its own: no operators were recorded of it, or some of its own
// have no partner. Of a module around such a one it is not.
func (al *alignment) answers(module string, step int, phase string) bool {
	at := part{within{module, int32(step)}, phase}
	return al.apartAt[at] || !al.paired[at] && !al.apartIn[at]
}

// mixed says whether a module has operators with partners and some without.
func (al *alignment) mixed(module string, step int, phase string) bool {
	at := part{within{module, int32(step)}, phase}
	return al.paired[at] && al.apartIn[at]
}

// Unaligned are operators of one call of a module that have no partner: the two sides call others there.
type Unaligned struct {
	Step   int      `json:"step"`
	Phase  string   `json:"phase"`
	Module string   `json:"module"`
	Call   int      `json:"call"`
	A      []string `json:"a"`
	B      []string `json:"b"`

	rowsA, rowsB []int32
}

type group struct {
	kind, phase, module, name string
	step, call                int32
}

// groupOf is what two rows have in common that may be partners. Operators and modules of one call follow in their
// order.
func groupOf(r row) group {
	g := group{kind: r.kind, step: r.step, phase: r.phase, module: r.module, call: r.call}
	if r.kind != kindOp && r.kind != kindModule {
		g.name = r.name
	}
	return g
}

// align pairs the rows of two recordings, up to a step.
func align(a, b *Recording, last int) alignment {
	al := alignment{to: make([]int32, len(a.rows)), taken: make([]bool, len(b.rows)), paired: map[part]bool{},
		apartIn: map[part]bool{}, apartAt: map[part]bool{}}
	of := func(r *Recording) (groups map[group][]int32, order []group) {
		groups = map[group][]int32{}
		for i, one := range r.rows {
			if int(one.step) > last {
				continue
			}
			g := groupOf(one)
			if _, ok := groups[g]; !ok {
				order = append(order, g)
			}
			groups[g] = append(groups[g], int32(i))
		}
		return groups, order
	}
	ones, order := of(a)
	others, orderB := of(b)
	for i := range al.to {
		al.to[i] = -1
	}
	join := func(i, j int32) {
		al.to[i], al.taken[j] = j, true
		if one := a.rows[i]; one.kind == kindOp {
			around(al.paired, one.module, one.step, one.phase)
		}
	}
	for _, g := range order {
		x, y := ones[g], others[g]
		if g.kind != kindOp {
			for k := range min(len(x), len(y)) {
				join(x[k], y[k])
			}
			continue
		}
		name := func(r *Recording) func(int32) string {
			return func(i int32) string { return kindOf(r.rows[i].name) }
		}
		if slices.EqualFunc(x, y, func(i, j int32) bool { return name(a)(i) == name(b)(j) }) {
			for k := range x {
				join(x[k], y[k])
			}
			continue
		}
		same := func(i, j int32) bool {
			return name(a)(i) == name(b)(j) && a.rows[i].shapes == b.rows[j].shapes
		}
		for len(x) > 0 && len(y) > 0 && same(x[0], y[0]) {
			join(x[0], y[0])
			x, y = x[1:], y[1:]
		}
		for len(x) > 0 && len(y) > 0 && same(x[len(x)-1], y[len(y)-1]) {
			join(x[len(x)-1], y[len(y)-1])
			x, y = x[:len(x)-1], y[:len(y)-1]
		}
		al.apart(a, b, g, x, y)
	}
	for _, g := range orderB {
		if _, ok := ones[g]; !ok && g.kind == kindOp {
			al.apart(a, b, g, nil, others[g])
		}
	}
	al.alone[0] = aloneIn(order, others)
	al.alone[1] = aloneIn(orderB, ones)
	return al
}

func (al *alignment) apart(a, b *Recording, g group, x, y []int32) {
	u := Unaligned{Step: int(g.step), Phase: g.phase, Module: g.module, Call: int(g.call), rowsA: x, rowsB: y}
	u.A, u.B = operators(a, x), operators(b, y)
	al.unaligned = append(al.unaligned, u)
	around(al.apartIn, g.module, g.step, g.phase)
	al.apartAt[part{within{g.module, g.step}, g.phase}] = true
}

// mostNamed bounds the operators that are listed of a call.
const mostNamed = 20

func operators(r *Recording, rows []int32) []string {
	names := []string{}
	for _, i := range rows[:min(len(rows), mostNamed)] {
		names = append(names, r.rows[i].name)
	}
	if n := len(rows) - mostNamed; n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return names
}

func aloneIn(order []group, others map[group][]int32) []string {
	names := []string{}
	for _, g := range order {
		if _, ok := others[g]; ok || len(names) == mostNamed {
			continue
		}
		switch {
		case g.kind == kindWeight && g.step == 0:
			names = append(names, "weight "+g.name)
		case g.kind == kindModule && g.phase != "backward" && g.call <= 1:
			if name := "module " + g.module; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
