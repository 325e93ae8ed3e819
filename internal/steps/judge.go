package steps

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// computed judges an operator or a module's call.
func (c *comparer) computed(i, j int, x, y *line) error {
	judged, what := &c.r.Operators, "operator"
	if x.Kind == kindModule {
		judged, what = &c.r.Modules, "module"
	}
	args, err := c.arguments(i, x, y)
	if err != nil {
		return err
	}
	row := Row{What: what, Name: cmp.Or(x.Op, x.Class), Module: x.Module, Step: x.Step, Phase: x.Phase, Call: x.Call,
		A: i, B: j}
	worst := judgeInputs(&row, args)
	var scale, gradient float64
	for _, arg := range args {
		scale = max(scale, arg.rms)
		if arg.back {
			gradient = max(gradient, arg.rms)
		}
	}
	if x.Phase == backward && gradient > 0 { // gradients are as small as those that they come of
		scale = gradient
	}
	var summed float64 // elements of the largest input
	for _, arg := range args {
		summed = max(summed, arg.elements)
	}
	third, low := c.third(i), c.tf32.of(x)
	outs := make([]known, max(len(x.Out), len(y.Out)))
	floatsAgree, hasFloat, allEqual := true, false, true
	first, integers, reshaped := -1, false, false
	furthest, heft := -1.0, 1.0
	for k := range outs {
		p, q := at(x.Out, k), at(y.Out, k)
		if p == nil && q == nil || opaque(x.Op, p) {
			outs[k] = known{state: unknown, origin: noOrigin}
			continue
		}
		d := differ(p, q)
		reshaped = reshaped || p == nil || q == nil || !slices.Equal(p.Shape, q.Shape)
		var moved *off
		if third != nil {
			m := differ(p, at(third.Out, k))
			moved = &m
		}
		// the sum of n numbers of random signs is the root of n times as large as they are
		tol := c.let(p, q, scale*math.Sqrt(max(1, summed/p.size())), moved, low)
		if low && c.options.Within == 0 {
			tol *= cancelled(args, x.Phase == backward, p, q)
		}
		o := known{relative: d.relative, within: tol, rms: max(p.rms(), q.rms()), a: d.a, b: d.b, equal: d.equal,
			elements: p.size(), back: x.Phase == backward, state: agrees, origin: noOrigin, grown: grown(p, q)}
		if d.relative > tol && (d.exact || d.relative > tol*sure) {
			o.state = departs
		}
		allEqual = allEqual && d.equal
		isfloat := p == nil || q == nil || isFloat(p.DType) || isFloat(q.DType)
		if isfloat {
			hasFloat = true
			floatsAgree = floatsAgree && o.state == agrees
		} else if o.state == departs {
			integers = true
		}
		outs[k] = o
		if score := d.relative / max(tol, 1e-300); score > furthest && !d.equal || first < 0 {
			furthest, first = score, k
			heft = 1
			most := scale * math.Sqrt(max(1, summed/p.size())) * stretched(x, args)
			if x.Phase == backward && o.rms > 0 && most > o.rms {
				heft = o.rms / most // what is left of larger gradients that cancel is as uncertain as those are
			} else if x.Kind == kindOp && x.Phase == "forward" {
				heft = 1 / cancels(x, args, o)
			}
			row.Relative, row.Tolerance, row.Share, row.Note, row.Exact = d.relative, tol, d.share, d.note, d.exact
			if q := cmp.Or(p, q); q != nil {
				row.Shape, row.DType = q.Shape, q.DType
			}
		}
	}
	if worst != nil && worst.broken {
		if c.edge == nil {
			c.edge = &row
		}
		c.begins(i, int32(i))
		if worst.origin == noOrigin {
			worst.origin = int32(i)
		}
	}
	if first < 0 {
		c.outs[i] = outs
		return nil
	}
	judged.Compared++
	if allEqual {
		judged.Equal++
	} else if judged.Unequal == nil {
		judged.Unequal = &row
	}
	beyond := integers || hasFloat && !floatsAgree
	amplified, fed := math.Inf(1), row.InputOff
	for _, arg := range args {
		if arg.state != unknown {
			fed = max(fed, arg.relative)
		}
	}
	if row.Input == unknown || fed > 0 && scale > filled || what == "module" && c.al.mixed(x.Module, x.Step, x.Phase) {
		fed = max(fed, c.level) // of a module whose operators have partners in part: what those brought
	}
	if fed > 0 {
		amplified = row.Relative * heft / fed
	}
	tainted := c.tainted(&row, args)
	// what it is fed is off by rounding alone; behind an update, which makes whole steps of rounding, that is not known
	fair := row.Input != departs || worst != nil && worst.follows && x.Step == 1
	resized := false
	clear := tainted == noOrigin || c.tied[tainted]
	if beyond && fair && clear && normalises(x) && first == 0 {
		most := normalised(x, args, outs[0])
		if resized = outs[0].grown > most; resized {
			row.Note = fmt.Sprintf("the root of its mean square is %.1e off, and by what it is fed could be %.1e", outs[0].grown, most)
		}
	}
	fresh := resized || fair && amplified >= by && clear && // it made the difference, not its input
		(x.Phase != update || row.InputOff == 0) && // an optimizer divides what is nearly 0 by what is nearly 0
		!(what == "module" && !c.al.answers(x.Module, x.Step, x.Phase)) // what is in it was judged by itself
	switch {
	case !beyond:
		if !allEqual {
			judged.Within++
			if judged.larger(&row) {
				judged.Largest = &row
			}
		}
	case x.Random && fair:
		judged.Beyond++
		c.r.Random = appendRow(c.r.Random, row)
		follow(outs)
		tainted, c.soft[int32(i)] = int32(i), true
	case !reshaped && integers && (hasFloat && floatsAgree || row.InputOff > 0 && fair),
		discontinuous[x.Op] && row.InputOff > 0 && fair && near(&row, hasFloat, fed):
		judged.Beyond++
		if hasFloat && x.Phase == backward && row.Relative < 1 {
			c.whole(x.Step).ties += row.Relative * row.Relative
		}
		c.r.Ties = appendRow(c.r.Ties, row)
		follow(outs)
		tainted, c.soft[int32(i)], c.tied[int32(i)] = int32(i), true, true
	case fresh && len(outs) > first && endless(at(x.Out, first), at(y.Out, first)):
		judged.Beyond++
		if c.endless == "" {
			c.endless = strings.TrimSuffix(row.title(), ",")
		}
		follow(outs)
		tainted, c.soft[int32(i)] = int32(i), true
	case fresh:
		judged.Beyond++
		tainted = int32(i)
		c.begins(i, tainted)
		judged.found(row)
	default:
		judged.Beyond++
		follows := c.soft[tainted] || tainted == noOrigin && row.Input != departs
		if worst != nil {
			follows = follows || worst.follows ||
				tainted == noOrigin && !worst.broken && worst.relative < by*c.level
		}
		for k := range outs {
			outs[k].follows = follows
		}
		if tainted != noOrigin {
			if !c.soft[tainted] {
				c.begins(i, tainted)
			}
			if tainted != int32(i) {
				row.Origin = c.originName(tainted)
			}
		}
		if what == "module" && judged.First == nil && !follows {
			judged.First = &row // its input departs already, or what lies in it: from where that comes is told
		}
	}
	for k := range outs {
		if outs[k].state == departs || !outs[k].equal && !c.soft[tainted] {
			outs[k].origin = tainted
		}
	}
	for _, o := range outs {
		if (o.state == agrees || o.follows) && o.within <= measurable*c.rtol {
			c.level = max(c.level, o.relative)
		}
	}
	c.outs[i] = outs
	return nil
}

// originOf is the origin of that name.
func (c *comparer) originOf(name string) int32 {
	i := slices.Index(c.origins, name)
	if i < 0 {
		i = len(c.origins)
		c.origins = append(c.origins, name)
	}
	return int32(-2 - i)
}

// originName says what an origin is.
func (c *comparer) originName(origin int32) string {
	if origin < noOrigin {
		return c.origins[-2-origin]
	}
	return c.rowName(int(origin))
}

// begins keeps that there is something in a row's module, and in those around it, that departs, and where it began.
func (c *comparer) begins(i int, origin int32) {
	one := c.a.rows[i]
	if c.begun == noOrigin && origin >= 0 && !c.soft[origin] {
		c.begun = origin
	}
	for module := one.module; ; module, _ = cutLast(module) {
		if at := (within{module, one.step}); c.inside[at] == noOrigin+1 {
			c.inside[at] = origin + 1
		}
		if module == "" {
			return
		}
	}
}

// within is a module in a step.
type within struct {
	module string
	step   int32
}

// tainted is the row at which what a row has in it, or is fed, began to depart, though it may have come to agree; or
// noOrigin.
func (c *comparer) tainted(row *Row, args []argument) int32 {
	for _, arg := range args {
		if arg.origin != noOrigin && !arg.equal {
			return arg.origin
		}
	}
	if row.What == "module" && c.begun >= 0 && row.Step > int(c.a.rows[c.begun].step) {
		return c.begun // by its weights
	}
	if at := c.inside[within{row.Module, int32(row.Step)}]; row.What == "module" && at != noOrigin+1 {
		return at - 1
	}
	if row.Input == unknown { // by all that is known it comes of what departed before
		return c.begun
	}
	return noOrigin
}

// found keeps a row at which something begins to depart, once for all steps.
func (j *Judged) found(row Row) {
	if j.First == nil {
		j.First = &row
		return
	}
	for _, o := range append(j.Others, *j.First) {
		if o.Name == row.Name && o.Module == row.Module && o.Phase == row.Phase {
			return
		}
	}
	j.Others = appendRow(j.Others, row)
}

// measurable is how many times its type's relative tolerance an output may be let for its size to say how far the two
// have drifted: what is let more is nearly 0, and may be rounding alone.
const measurable = 100

// filled is a root mean square that only a mask's fill makes (-1e9, the least of a type): beside it what else differs
// in a tensor is not seen, and how far the two have drifted is taken of the rows before.
const filled = 1e4

// near says whether a float that jumps is off by no more than elements at their edge can make it: where the input is
// off by a share f of its size, some f of its elements change sides, and what they make is √f of the norm.
func near(row *Row, float bool, fed float64) bool {
	return !float || row.Relative <= by*math.Sqrt(fed)
}

// follow marks outputs whose departure says nothing of those that read them.
func follow(outs []known) {
	for k := range outs {
		outs[k].follows = true
	}
}

// third is the row of the moved recording that stands for one of A, or nil.
func (c *comparer) third(i int) *line {
	m := c.options.Moved
	if m == nil || c.moved.to[i] < 0 {
		return nil
	}
	l, err := m.read(int(c.moved.to[i]))
	if err != nil {
		return nil
	}
	return l
}

// mostRowsKept of a list in a result.
const mostRowsKept = 20

func appendRow(rows []Row, row Row) []Row {
	if len(rows) < mostRowsKept {
		rows = append(rows, row)
	}
	return rows
}

func at(list []*Tensor, k int) *Tensor {
	if k < len(list) {
		return list[k]
	}
	return nil
}

// opaque are outputs whose bytes mean nothing to others: memory that is not written yet, and what a library keeps for
// its own backward pass.
func opaque(op string, t *Tensor) bool {
	return strings.Contains(op, "empty") || t != nil && !isFloat(t.DType) &&
		(strings.Contains(op, "cudnn") || strings.Contains(op, "miopen") || strings.Contains(op, "_scaled_dot_product"))
}

// discontinuous are operators whose output jumps where an input is near a tie, beside those whose output is of
// integers.
var discontinuous = map[string]bool{
	"aten::threshold_backward": true, "aten::max_pool2d_with_indices_backward": true, "aten::sign": true,
	"aten::floor": true, "aten::ceil": true, "aten::round": true, "aten::trunc": true, "aten::where": true,
	"aten::hardtanh_backward": true, "aten::leaky_relu_backward": true, "aten::hardswish_backward": true,
	"aten::hardsigmoid_backward": true, "aten::index": true, "aten::gather": true,
	"aten::fake_quantize_per_tensor_affine_cachemask": true, "aten::remainder": true, "aten::fmod": true,
}
