package atlas

import (
	"slices"
	"strings"

	clean "assay/internal/text"
)

// Operator is what the atlas says about one overload.
type Operator struct {
	Package string // whose table holds it
	Name    string // aten::add.Tensor
	Spans   []Span // its states, oldest release first, without gaps
	Columns []string
	cells   string
}

// Span is a run of releases in which an operator's state is the same.
type Span struct {
	State State  `json:"-"`
	Is    string `json:"state"`
	From  string `json:"from"` // column of the first release
	To    string `json:"to"`   // column of the last release
}

// operator reads a row. What has no kernel for dense tensors on MPS and one for sparse tensors is given no others
// (aten::_values), and has a kernel.
func (a *Atlas) operator(pkg string, t *Table, r Row) Operator {
	if pkg == "torch" && strings.Contains(r.Cells, "-") {
		sparse := a.Table("sparse")
		if i, ok := sparse.row(r.Name); ok {
			cells := []byte(r.Cells)
			for at, column := range t.Columns {
				if j := slices.Index(sparse.Columns, column); j >= 0 && State(cells[at]) == Missing &&
					State(sparse.Rows[i].Cells[j]) != Undefined {
					cells[at] = byte(Native)
				}
			}
			r.Cells = string(cells)
		}
	}
	op := Operator{Package: pkg, Name: r.Name, Columns: t.Columns, cells: r.Cells}
	for i := range len(r.Cells) {
		s := State(r.Cells[i])
		if n := len(op.Spans); n > 0 && op.Spans[n-1].State == s {
			op.Spans[n-1].To = t.Columns[i]
			continue
		}
		op.Spans = append(op.Spans, Span{State: s, Is: s.String(), From: t.Columns[i], To: t.Columns[i]})
	}
	return op
}

// At is the operator's state in the release that a column stands for.
func (op Operator) At(column string) State {
	if i := slices.Index(op.Columns, column); i >= 0 {
		return State(op.cells[i])
	}
	return Undefined
}

// NativeFrom is the first column from which on the operator has a kernel of its own up to the newest release; "" when
// the newest has none.
func (op Operator) NativeFrom() string {
	if last := op.Spans[len(op.Spans)-1]; last.State == Native {
		return last.From
	}
	return ""
}

// Find lists the operators that a pattern names, by package and name. A pattern is a full name as PyTorch has it
// (aten::add.Tensor) or as Python writes it (torch.ops.aten.add.Tensor, aten.add.Tensor, torch.ops.torchvision.nms), a
// name without namespace or overload (add, add.Tensor), each of which may hold * and ?, or, when nothing is so called,
// any part of a name.
func (a *Atlas) Find(pattern string) []Operator {
	if found := a.Named(pattern); len(found) > 0 {
		return found
	}
	pattern = strings.ToLower(a.full(pattern))
	return a.find(func(full, _, _ string) bool { return strings.Contains(strings.ToLower(full), pattern) })
}

// Named is Find without parts of names.
func (a *Atlas) Named(pattern string) []Operator {
	pattern = a.full(pattern)
	plain, exact := strings.CutSuffix(pattern, ".default") // what Python calls an overload without a name
	return a.find(func(full, short, base string) bool {
		if exact {
			return plain == full || plain == short
		}
		if strings.ContainsAny(pattern, "*?[") {
			return matches(pattern, full) || matches(pattern, short) || matches(pattern, base)
		}
		namespaced, _, _ := strings.Cut(full, ".")
		return pattern == full || pattern == short || pattern == base || pattern == namespaced
	})
}

// full is an operator's name as the tables write it, where it is written as Python does: aten.add.Tensor.
func (a *Atlas) full(name string) string {
	name = strings.TrimPrefix(name, "torch.ops.")
	space, rest, ok := strings.Cut(name, ".")
	if ok && slices.Contains(a.Namespaces(), space) {
		return space + "::" + rest
	}
	return name
}

// Namespaces lists the first parts of operators' names, sorted: aten, torchvision, ….
func (a *Atlas) Namespaces() []string {
	a.spaces.Do(func() {
		for _, pkg := range Packages {
			for _, r := range a.Table(pkg).Rows {
				space, _, _ := strings.Cut(r.Name, "::")
				a.namespaces = append(a.namespaces, space)
			}
		}
		slices.Sort(a.namespaces)
		a.namespaces = slices.Compact(a.namespaces)
	})
	return a.namespaces
}

func (a *Atlas) find(wanted func(full, short, base string) bool) []Operator {
	var found []Operator
	for _, pkg := range Packages {
		t := a.Table(pkg)
		for _, r := range t.Rows {
			_, short, _ := strings.Cut(r.Name, "::")
			base, _, _ := strings.Cut(short, ".")
			if wanted(r.Name, short, base) {
				found = append(found, a.operator(pkg, t, r))
			}
		}
	}
	return found
}

// Operator finds one overload by its full name.
func (a *Atlas) Operator(name string) (Operator, bool) {
	for _, pkg := range Packages {
		t := a.Table(pkg)
		if i, ok := t.row(name); ok {
			return a.operator(pkg, t, t.Rows[i]), true
		}
	}
	return Operator{}, false
}

// Near lists names that are spelt almost so, nearest first, at most n.
func (a *Atlas) Near(name string, n int) []string {
	name = strings.ToLower(strings.TrimPrefix(name, "aten::"))
	var names []string
	for _, pkg := range Packages {
		for _, r := range a.Table(pkg).Rows {
			full, _, _ := strings.Cut(r.Name, ".")
			names = append(names, strings.TrimPrefix(full, "aten::"))
		}
	}
	slices.Sort(names)
	return nearest(name, slices.Compact(names), n)
}

// nearest lists the names within a third of the length in edits, nearest first.
func nearest(name string, names []string, n int) []string {
	type hit struct {
		name string
		d    int
	}
	var hits []hit
	limit := max(2, len(name)/3)
	for _, s := range names {
		if d := clean.Distance(name, strings.ToLower(s), limit); d <= limit {
			hits = append(hits, hit{s, d})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return a.d - b.d })
	var list []string
	for _, h := range hits[:min(n, len(hits))] {
		list = append(list, h.name)
	}
	return list
}

// Need is an operator that a composed one comes down to, with its state in the release asked about.
type Need struct {
	Operator  string
	Sometimes bool // for some inputs only
	State     State
}

// Needs follows composed operators down to those that have kernels, or none, in a release of torch and the releases
// that go with it. untraced lists composed operators whose calls are not known. What operators call was traced on one
// release; where MPS began to take another way later than the release asked about, the earlier way is followed
// (reroutes.txt).
func (a *Atlas) Needs(torch Release, roots []Call) (needs []Need, untraced []string) {
	for _, met := range a.reach(torch, roots) {
		switch {
		case met.state != Composed:
			needs = append(needs, Need{met.Operator, met.Sometimes, met.state})
		case met.calls == nil:
			untraced = append(untraced, met.Operator)
		}
	}
	slices.SortStableFunc(needs, func(x, y Need) int { return strings.Compare(x.Operator, y.Operator) })
	slices.Sort(untraced)
	return needs, untraced
}

// detour is a way that MPS takes from a release on that is later than the one asked about.
type detour struct {
	from   string   // the composed operator, "" for what a gradient calls
	calls  []string // what it calls on that way
	before []Call   // what it called before
}

// without leaves out what is called on that way alone.
func (d detour) without(calls []Call) []Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c Call) bool {
		return c.Sometimes &&
			slices.Contains(d.calls, c.Operator)
	})
}

// among reports whether the calls are those of a gradient that takes this way: the operator that names it is among
// them. What else is called on it, such as a product, stands in many lists.
func (d detour) among(calls []Call) bool {
	return len(d.calls) > 0 && slices.ContainsFunc(calls, func(c Call) bool { return c.Operator == d.calls[0] })
}

// detours reads reroutes.txt: operator | forward or gradient | what a CPU calls | what MPS calls | since | source.
func (a *Atlas) detours(version string) []detour {
	a.mu.Lock()
	defer a.mu.Unlock()
	if list, done := a.ways[version]; done {
		return list
	}
	list := readDetours(version)
	if a.ways == nil {
		a.ways = map[string][]detour{}
	}
	a.ways[version] = list
	return list
}

func readDetours(version string) []detour {
	var list []detour
	for line := range strings.Lines(string(text("reroutes.txt"))) {
		f := strings.Split(line, "|")
		if len(f) < 6 || strings.HasPrefix(line, "#") {
			continue
		}
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		if since := f[4]; f[1] == "note" || CompareReleases(version, since) >= 0 {
			continue
		}
		d := detour{from: f[0]}
		for _, op := range strings.Fields(f[3]) {
			d.calls = append(d.calls, strings.TrimSuffix(op, "?"))
		}
		if f[1] == "gradient" {
			d.from = ""
		} else if f[2] != "*" {
			for _, op := range strings.Fields(f[2]) {
				d.before = append(d.before, Call{strings.TrimSuffix(op, "?"), true})
			}
		}
		list = append(list, d)
	}
	return list
}

// Lacks names a missing operator that a composed one comes down to whatever its inputs; "" when none is known.
func (a *Atlas) Lacks(column, operator string) string {
	seen := map[string]bool{}
	var walk func(op string) string
	walk = func(op string) string {
		for _, c := range a.Calls(op) {
			if c.Sometimes || seen[c.Operator] {
				continue
			}
			seen[c.Operator] = true
			called, _ := a.Operator(c.Operator)
			switch called.At(column) {
			case Missing, NoStub:
				return c.Operator
			case Composed:
				if lacks := walk(c.Operator); lacks != "" {
					return lacks
				}
			}
		}
		return ""
	}
	return walk(operator)
}

// Callers answers which Python names come down to an operator.
type Callers struct {
	above map[string][]string // operator → composed operators that call it
	api   map[string][]string // operator → "name direction" that calls it
}

// Callers reads the traces backwards, for a release of torch: through an operator that has a kernel in it nothing is
// reached.
func (a *Atlas) Callers(column string) *Callers {
	c := &Callers{above: map[string][]string{}, api: map[string][]string{}}
	states := a.Table("torch").Column(column)
	for op, calls := range a.calls("calls.txt", 1) {
		if State(states[op]) != Composed {
			continue
		}
		for _, call := range calls {
			c.above[call.Operator] = append(c.above[call.Operator], op)
		}
	}
	for key, calls := range a.pythonNames() {
		for _, call := range calls {
			c.api[call.Operator] = append(c.api[call.Operator], key)
		}
	}
	return c
}

// Of lists the Python names whose forward and whose backward call an operator, directly or through composed ones.
func (c *Callers) Of(operator string) (forward, backward []string) {
	seen := map[string]bool{operator: true}
	for queue := []string{operator}; len(queue) > 0; queue = queue[1:] {
		for _, key := range c.api[queue[0]] {
			if name, direction, _ := strings.Cut(key, " "); direction == "forward" {
				forward = append(forward, name)
			} else {
				backward = append(backward, name)
			}
		}
		for _, op := range c.above[queue[0]] {
			if !seen[op] {
				seen[op] = true
				queue = append(queue, op)
			}
		}
	}
	slices.Sort(forward)
	slices.Sort(backward)
	return slices.Compact(forward), slices.Compact(backward)
}

// Change is an operator whose state differs between two releases.
type Change struct {
	Operator string
	Before   State
	After    State
}

// Diff lists what changed from one column of a package's table to another.
func (a *Atlas) Diff(pkg, before, after string) []Change {
	t := a.Table(pkg)
	i, j := slices.Index(t.Columns, before), slices.Index(t.Columns, after)
	if i < 0 || j < 0 {
		return nil
	}
	var list []Change
	for _, r := range t.Rows {
		if r.Cells[i] != r.Cells[j] {
			list = append(list, Change{r.Name, State(r.Cells[i]), State(r.Cells[j])})
		}
	}
	return list
}
