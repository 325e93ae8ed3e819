package steps

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/golden"
)

// weight judges a weight after a step, by how far it was moved.
func (c *comparer) weight(i, j int, x, y *line) error {
	before := c.tensors[x.What]
	c.tensors[x.What] = [2]*Tensor{x.Tensor, y.Tensor}
	d := differ(x.Tensor, y.Tensor)
	w := known{relative: d.relative, within: c.let(x.Tensor, y.Tensor, 1, nil, false), rms: x.Tensor.rms(),
		equal: d.equal, state: agrees, origin: noOrigin}
	if d.relative > w.within && (d.exact || d.relative > w.within*sure) {
		w.state = departs
	}
	if x.Step == 0 {
		w.state = agrees
		if !d.equal {
			c.startWeight(x.What, d, w.within)
			if d.relative > w.within {
				w.state, w.origin = departs, c.originOf("weight "+x.What+" at the start")
			}
		}
		if _, ok := c.weights[x.What]; !ok {
			for module := x.What; module != ""; {
				module, _ = cutLast(module)
				c.own[module] = append(c.own[module], x.What)
			}
		}
		c.weights[x.What] = w
		return nil
	}
	w.follows = w.state == departs // what became of it is told by itself
	c.weights[x.What] = w
	judged := &c.r.Weights
	judged.Compared++
	if c.endless == "" && endless(x.Tensor, y.Tensor) {
		c.endless = fmt.Sprintf("%s behind step %d", x.What, x.Step)
	}
	if d.equal {
		judged.Equal++
		return nil
	}
	// how far it was moved is judged as an estimate, also where the sample is all: not Exact
	row := Row{What: "weight", Name: x.What, Step: x.Step, A: i, B: j, Shape: x.Tensor.Shape, DType: x.Tensor.DType,
		Relative: d.relative, Share: d.share, Note: d.note, Input: unknown,
		Tolerance: w.within}
	one, ok := moved(x.Tensor, before[0])
	other, too := moved(y.Tensor, before[1])
	if ok && too && len(one) == len(other) {
		var u off
		u.sum(one, other)
		if !c.dead(x.What, x.Step) {
			c.whole(x.Step).updates.join(u)
		}
		row.Relative, row.Tolerance = u.relative, max(golden.Usual.Update, by*c.rtol)
		// rounding of the weight itself: a unit of its type in each element
		if most := math.Sqrt(max(u.a, u.b)); most > 0 {
			row.Tolerance += unitOf(x.Tensor.DType) * math.Sqrt(max(norm(x.Tensor), norm(y.Tensor))) / most
		}
	}
	if c.options.Within > 0 {
		row.Tolerance = c.options.Within
	}
	if c.dead(x.What, x.Step) {
		judged.leave(x.What)
		return nil
	}
	beyond := row.Relative > row.Tolerance*sure || row.Note != ""
	if g, ok := c.grads[x.What]; ok && g.step == x.Step {
		row.Input, row.InputOff, row.InputFrom = g.state, g.relative, "its gradient"
	} else {
		row.Input, row.InputFrom = agrees, "" // a buffer: what it was before
		// where the operator that wrote it was judged, it is judged: a mean that is nearly 0 may be rounding alone
		module, _ := cutLast(x.What)
		beyond = beyond && !c.al.covered(module, x.Step, "forward")
	}
	switch {
	case !beyond:
		judged.Within++
		if judged.larger(&row) {
			judged.Largest = &row
		}
	default:
		judged.Beyond++
		switch {
		case row.Input != agrees || x.Step != 1:
		case row.InputOff == 0:
			judged.found(row)
		case c.updated == nil || row.Relative > c.updated.Relative:
			c.updated = &row // which is found where all updates together depart, see updates
		}
	}
	return nil
}

// endless says whether both have what is no finite number, and not as many: of these nothing can be said.
func endless(x, y *Tensor) bool {
	if x == nil || y == nil || x.Stats == nil || y.Stats == nil {
		return false
	}
	p, q := x.Stats, y.Stats
	return p.NaN+p.Inf > 0 && q.NaN+q.Inf > 0 && (p.NaN != q.NaN || p.Inf != q.Inf)
}

func cutLast(name string) (module, part string) {
	if i := strings.LastIndex(name, "."); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// unitOf is a unit in the last place of 1.
func unitOf(dtype string) float64 {
	switch dtype {
	case "float16":
		return math.Ldexp(1, -10)
	case "bfloat16":
		return math.Ldexp(1, -7)
	case "float64":
		return math.Ldexp(1, -52)
	}
	return math.Ldexp(1, -23)
}

func (c *comparer) whole(step int) *wholes {
	if c.wholes[step] == nil {
		c.wholes[step] = &wholes{}
	}
	return c.wholes[step]
}

// gradient judges that of a weight. All of a step together are judged in the answer: of one alone, as of a bias before
// a batch norm, there may be rounding alone.
func (c *comparer) gradient(i, j int, x, y *line) error {
	d := differ(x.Tensor, y.Tensor)
	if x.Tensor != nil && y.Tensor != nil {
		sum := c.whole(x.Step)
		sum.gradients.join(d)
		if m := c.third(i); m != nil {
			sum.moved.join(differ(x.Tensor, m.Tensor))
		}
		sum.lost = sum.lost || d.relative == apartAll
	}
	row := Row{What: "gradient", Name: x.What, Step: x.Step, A: i, B: j, Shape: x.Tensor.Shape, DType: x.Tensor.DType,
		Relative: d.relative, Share: d.share, Note: d.note, Input: unknown,
		Tolerance: c.gradientsWithin()} // judged as an estimate, also where the sample is all: not Exact
	g := grad{known: known{relative: d.relative, within: row.Tolerance, state: agrees, equal: d.equal, origin: noOrigin,
		a: d.a, b: d.b}, step: x.Step}
	if d.relative > row.Tolerance*sure || d.note != "" {
		g.state = departs
	}
	c.grads[x.What] = g
	c.found = append(c.found, row)
	return nil
}

// dead says whether a gradient is rounding alone: next to nothing of all gradients of its step, which are known by now.
func (c *comparer) dead(name string, step int) bool {
	g, ok := c.grads[name]
	all := c.whole(step).gradients
	return ok && g.step == step && max(g.a, g.b) < golden.Dead*max(all.a, all.b)
}

// gradients judges those of a step, once all are there.
func (c *comparer) gradients() {
	judged := &c.r.Gradients
	for k := range c.found {
		row := &c.found[k]
		judged.Compared++
		if judged.Unequal == nil && !c.grads[row.Name].equal {
			judged.Unequal = row
		}
		switch {
		case c.grads[row.Name].equal:
			judged.Equal++
		case c.dead(row.Name, row.Step):
			judged.leave(row.Name)
		case c.grads[row.Name].state == departs:
			judged.Beyond++
		default:
			judged.Within++
			if judged.larger(row) {
				judged.Largest = row
			}
		}
	}
	c.found = nil
}

// leave counts what is rounding alone, and names it.
func (j *Judged) leave(name string) {
	j.Left++
	if len(j.LeftOut) < mostRowsKept && !slices.Contains(j.LeftOut, name) {
		j.LeftOut = append(j.LeftOut, name)
	}
}

// Tolerances of what a step comes to: golden's, measured with float32, and by times the type's where that is more.
func (c *comparer) lossWithin(step int) float64 {
	if c.options.Within > 0 {
		return c.options.Within
	}
	if step > 1 { // rounding that an update by Adam made whole steps of
		return max(golden.Usual.Update, by*c.rtol)
	}
	return max(golden.LossFactor*golden.Usual.Output, by*c.rtol)
}

func (c *comparer) gradientsWithin() float64 {
	if c.options.Within > 0 {
		return c.options.Within
	}
	return max(golden.Usual.Gradient, by*c.rtol)
}

func (c *comparer) updatesWithin() float64 {
	if c.options.Within > 0 {
		return c.options.Within
	}
	return max(golden.Usual.Update, by*c.rtol)
}

// step is what is said of one.
func (c *comparer) step(n int) *Step {
	for len(c.r.Steps) < n {
		c.r.Steps = append(c.r.Steps, Step{Step: len(c.r.Steps) + 1})
	}
	return &c.r.Steps[n-1]
}

func (c *comparer) loss(i int, x, y *line) {
	if x.Value == nil || y.Value == nil || x.Step < 1 || x.Step > mostSteps {
		return
	}
	s := c.step(x.Step)
	one, other := float64(*x.Value), float64(*y.Value)
	var d off
	switch {
	case one == other || math.IsNaN(one) && math.IsNaN(other):
	case math.IsNaN(one) || math.IsNaN(other) || math.IsInf(one, 0) || math.IsInf(other, 0):
		d.relative = apartAll
	default:
		d.sum([]float64{one}, []float64{other})
	}
	if m := c.third(i); m != nil && m.Value != nil {
		var by off
		by.sum([]float64{one}, []float64{float64(*m.Value)})
		c.whole(x.Step).lossMoved = by.relative
	}
	s.LossA, s.LossB, s.Loss = finite(one), finite(other), max(s.Loss, d.relative)
	c.whole(x.Step).drifted = c.level
}

// mostSteps of which something is told.
const mostSteps = 10_000

func finite(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

func (c *comparer) endSteps() {
	for n, w := range c.wholes {
		if n < 1 || n > mostSteps {
			continue
		}
		w.gradients.settle()
		w.updates.settle()
		s := c.step(n)
		s.Gradients, s.Updates = w.gradients.relative, w.updates.relative
		if w.lost {
			s.Gradients = apartAll
		}
		if n == 1 && c.updated != nil && s.Updates > c.updatesWithin()*sure && s.Updates > by*s.Gradients {
			c.r.Weights.found(*c.updated) // an update by Adam makes whole steps of rounding; hardly in so many weights
		}
	}
}

// pieces into which a phase of the first step is cut.
const pieces = 8

// depth tells how the difference grows through the first step.
func (c *comparer) depth() {
	for _, phase := range []string{"forward", backward} {
		kind := kindOp
		if c.r.Operators.Compared == 0 {
			kind = kindModule
		}
		var rows []int
		var sizes []float64
		for i, one := range c.a.rows {
			if one.kind != kind || one.step != 1 || one.phase != phase {
				continue
			}
			size := -1.0
			for _, o := range c.outs[i] {
				if o.state != unknown && o.within <= measurable*c.rtol {
					size = max(size, o.relative)
				}
			}
			if size >= 0 {
				rows, sizes = append(rows, i), append(sizes, size)
			}
		}
		for n := range min(pieces, len(rows)) {
			k := min(pieces, len(rows))
			from, to := n*len(rows)/k, (n+1)*len(rows)/k
			part := slices.Sorted(slices.Values(sizes[from:to]))
			c.r.Depth = append(c.r.Depth, Depth{Phase: phase, From: c.place(rows[from]), To: c.place(rows[to-1]),
				Median: part[len(part)/2], Largest: part[len(part)-1]})
		}
	}
}

func (c *comparer) place(i int) string {
	one := c.a.rows[i]
	return cmp.Or(one.module, one.name)
}
