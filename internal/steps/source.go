package steps

import (
	"cmp"
	"fmt"
	"strings"
)

// argument is what is known of an operator's or module's input.
type argument struct {
	known
	note, from string
	broken     bool // it departs, and nothing before it is known to
}

// judgeInputs says of a row what is known of its inputs, and gives the one that is furthest off.
func judgeInputs(row *Row, args []argument) *argument {
	row.Input = agrees
	if len(args) == 0 {
		if row.What == "module" {
			row.Input = unknown // of its backward pass the gradients of its outputs alone are recorded
		}
		return nil
	}
	var worst *argument
	for k := range args {
		arg := &args[k]
		switch {
		case arg.state == departs && (worst == nil || worst.state != departs || arg.relative > worst.relative),
			arg.state == agrees && (worst == nil || worst.state == unknown ||
				worst.state == agrees && arg.relative > worst.relative),
			worst == nil:
			worst = arg
		}
	}
	row.Input, row.InputOff, row.InputFrom, row.InputNote = worst.state, worst.relative, worst.from, worst.note
	return worst
}

// arguments are what is known of each input of a row.
func (c *comparer) arguments(i int, x, y *line) ([]argument, error) {
	from, other := x.In.from, y.In.from
	if x.Kind == kindModule {
		from, other = x.InFrom, y.InFrom
	}
	var args []argument
	for k := range max(len(from), len(x.In.tensors), len(y.In.tensors)) {
		arg := argument{known: known{state: unknown, origin: noOrigin}}
		if k < len(from) {
			var err error
			if arg, err = c.source(from[k], other, k); err != nil {
				return nil, err
			}
		}
		if p, q := at(x.In.tensors, k), at(y.In.tensors, k); x.Kind == kindModule && (p != nil || q != nil) {
			if p == nil || q == nil {
				continue // one side has an argument more: a flag, a mask that is left out
			}
			d := differ(p, q)
			tol := c.let(p, q, 1, nil, c.tf32.any())
			if arg.state == agrees {
				tol = max(tol, arg.within)
			}
			held := known{relative: d.relative, within: tol, rms: max(p.rms(), q.rms()), equal: d.equal, state: agrees,
				origin: arg.origin, follows: arg.follows}
			if d.relative > tol && (d.exact || d.relative > tol*sure) {
				held.state = departs
				if d.relative < by*c.level {
					held.follows = true
				} else if arg.state == agrees && !arg.follows && arg.origin == noOrigin {
					arg.broken = true
					arg.note = strings.TrimPrefix(arg.note+"; what it comes of agrees, so that it is another view of it", "; ")
				}
			}
			arg.known = held
			arg.note = cmp.Or(d.note, arg.note)
		}
		args = append(args, arg)
	}
	if x.Kind == kindModule && x.Phase != backward {
		for _, name := range c.own[x.Module] {
			args = append(args, argument{known: c.weights[name], from: "its weight " + name})
		}
	}
	return args, nil
}

// mostAgain bounds the bytes that are read again to see what operators without partner gave.
const mostAgain = 1 << 30

// source is what is known of the origin of an argument.
func (c *comparer) source(s source, others []source, k int) (argument, error) {
	arg := argument{known: known{state: unknown, origin: noOrigin}}
	if k >= len(others) {
		arg.note = "B has no such argument"
		return arg, nil
	}
	o := others[k]
	switch {
	case s.kind == fromOp && o.kind == fromOp:
		arg.from = c.rowName(s.row)
		if c.al.to[s.row] == int32(o.row) && s.place == o.place {
			if outs := c.outs[s.row]; s.place < len(outs) {
				arg.known = outs[s.place]
			}
		} else if err := c.rewired(&arg, s, o); err != nil {
			return arg, err
		}
	case s.kind == fromWeight && o.kind == fromWeight && s.name == o.name:
		arg.from = "weight " + s.name
		if w, ok := c.weights[s.name]; ok {
			arg.known = w
		}
	case s.kind == fromBatch && o.kind == fromBatch && s.row == o.row && s.place == o.place:
		arg.from = fmt.Sprintf("batch %d, tensor %d", s.row, s.place)
		if d, ok := c.batches[fmt.Sprintf("%d/%d", s.row, s.place)]; ok {
			arg.known = known{relative: d.relative, equal: d.equal, rms: 1, state: agrees, origin: noOrigin}
			if d.relative > precisions["float32"][0] {
				arg.state, arg.origin = departs, c.originOf(arg.from)
			}
		}
	case s.kind == fromOther && o.kind == fromOther:
		arg.from = "elsewhere"
		if s.held != nil && o.held != nil {
			d := differ(s.held, o.held)
			arg.known = known{relative: d.relative, within: c.let(s.held, o.held, 1, nil, c.tf32.any()),
				rms: max(s.held.rms(), o.held.rms()), equal: d.equal, state: agrees, origin: noOrigin}
			arg.note = d.note
			if d.relative > arg.within {
				arg.state, arg.origin = departs, c.originOf("a tensor from elsewhere")
				arg.note = strings.TrimSuffix("a tensor that no operator of these steps made: a mask, a buffer or a table kept from "+
					"before; "+d.note, "; ")
			}
		}
	case s.kind != o.kind || s.name != o.name:
		arg.from = fmt.Sprintf("%s in A, %s in B", c.named(c.a, s), c.named(c.b, o))
	}
	if v, w := s.view, o.view; v != nil && w != nil && !v.like(w) || (v == nil) != (w == nil) {
		arg.note = strings.TrimPrefix(arg.note+fmt.Sprintf("; the argument is %s in A, %s in B", v, w), "; ")
	}
	return arg, nil
}

// named says where a side's argument came from.
func (c *comparer) named(r *Recording, s source) string {
	switch s.kind {
	case fromOp:
		return rowName(r, s.row)
	case fromWeight:
		return "weight " + s.name
	case fromBatch:
		return fmt.Sprintf("batch %d, tensor %d", s.row, s.place)
	}
	return "elsewhere"
}

// rewired compares an argument that comes of operators that are no partners.
func (c *comparer) rewired(arg *argument, s, o source) error {
	arg.from = fmt.Sprintf("%s in A, %s in B, which are no partners", c.rowName(s.row), rowName(c.b, o.row))
	c.again += int64(c.a.rows[s.row].length) + int64(c.b.rows[o.row].length)
	if c.again > mostAgain {
		return nil
	}
	x, err := c.a.read(s.row)
	if err != nil {
		return err
	}
	y, err := c.b.read(o.row)
	if err != nil {
		return err
	}
	p, q := at(x.Out, s.place), at(y.Out, o.place)
	if p == nil || q == nil {
		return nil
	}
	d := differ(p, q)
	arg.known = known{relative: d.relative, within: c.let(p, q, 1, nil, c.tf32.any()),
		rms: max(p.rms(), q.rms()), equal: d.equal, state: agrees, origin: noOrigin}
	if d.relative > arg.within*sure {
		arg.state = departs
		if c.a.rows[s.row].phase == update && c.b.rows[o.row].phase == update {
			arg.follows = true // a weight after its update, which is judged by how far it was moved
			return nil
		}
		arg.broken = true
		for _, o := range c.outs[s.row] { // of an operator that itself departs it is no news, as far as it departs
			if o.origin != noOrigin || o.state == departs && (!o.follows || d.relative < by*o.relative) {
				arg.broken, arg.origin = false, o.origin
				arg.follows = arg.follows || o.follows
			}
		}
		if d.relative < by*c.level {
			arg.broken, arg.follows = false, true
		}
	}
	arg.note = d.note
	return nil
}

func (c *comparer) rowName(i int) string { return rowName(c.a, i) }

// rowName is how a row is told.
func rowName(r *Recording, i int) string {
	one := r.rows[i]
	name := fmt.Sprintf("row %d, %s", i, one.name)
	if one.module != "" {
		name += " in " + one.module
	}
	return name
}
