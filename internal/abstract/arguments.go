package abstract

import (
	"slices"

	"assay/internal/pyast"
)

// Arg is the argument at a position (-1: none) or of a name; nil where it is not given.
func (c *Call) Arg(at int, names ...string) *Value {
	for _, n := range c.Named {
		if slices.Contains(names, n.Name) {
			return n.Value
		}
	}
	if at >= 0 && at < len(c.Args) {
		return c.Args[at]
	}
	return nil
}

// ArgNode is the expression of that argument.
func (c *Call) ArgNode(at int, names ...string) pyast.Expr {
	for _, n := range c.Named {
		if slices.Contains(names, n.Name) {
			return n.Node.Value
		}
	}
	switch {
	case at < 0:
	case c.Node == nil && at < len(c.nodes):
		return c.nodes[at]
	case c.Node != nil && at < len(c.Node.Args):
		return c.Node.Args[at]
	}
	return nil
}

// Tensors is where the tensors and modules among the arguments live, 0 when there are none.
func (c *Call) Tensors() Devices {
	var d Devices
	var add func(*Value, int)
	add = func(v *Value, depth int) {
		switch v.Kind {
		case Tensor:
			d |= v.Where
		case Seq:
			for _, i := range v.Items {
				if depth < 4 {
					add(i, depth+1)
				}
			}
		}
	}
	if c.Self != nil {
		switch c.Self.Kind {
		case Tensor, Module:
			d |= c.Self.Where
		}
	}
	for _, a := range c.Args {
		add(a, 0)
	}
	for _, n := range c.Named {
		add(n.Value, 0)
	}
	if d&^Open != 0 {
		d &^= Open // what is known of one argument holds for all: tensors of one call live in one place
	}
	return d
}

// inputs is where the tensors among the arguments live, without the function's own place.
func (c *Call) inputs() Devices {
	d := *c
	d.Self = nil
	return d.Tensors()
}

// softPlace reports whether the device that the call names may be another: an option's default.
func (c *Call) softPlace() bool {
	if d := c.Arg(-1, "device"); d != nil {
		return d.Soft
	}
	return len(c.Args) > 0 && c.Args[0].Soft
}

func placesOf(list ...*Value) Devices {
	var d Devices
	for _, v := range list {
		if v.Kind == Tensor {
			d |= v.Where
		}
	}
	if d&^Open != 0 {
		d &^= Open
	}
	return d
}
