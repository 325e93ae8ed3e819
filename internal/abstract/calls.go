package abstract

import (
	"assay/internal/pyast"
)

// call interprets a call: rules see it with its arguments before it changes anything.
func (in *Interp) call(e *pyast.Call) *Value {
	f := in.recurse.expr(e.Func)
	if f.Kind == Unknown { // nothing asks for it
		for _, a := range e.Args {
			in.recurse.expr(a)
		}
		for _, k := range e.Keywords {
			in.recurse.expr(k.Value)
		}
		return unknown
	}
	c := in.newCall(e, f)
	for _, a := range e.Args {
		if s, star := a.(*pyast.Starred); star {
			v := in.recurse.expr(s.Value)
			c.Open = true
			// what is known of it comes in its place; positions behind it are not sure
			if v.Kind == Tensor || v.Kind == Seq && v.Form == Listed {
				c.Args = append(c.Args, v)
			}
			continue
		}
		c.Args = append(c.Args, in.recurse.expr(a))
	}
	for _, k := range e.Keywords {
		v := in.recurse.expr(k.Value)
		if k.Arg == "" {
			c.Open = true
			if v.Kind == Dict {
				for name, a := range v.Attrs {
					c.Named = append(c.Named, Named{name, a, k})
				}
			}
			continue
		}
		c.Named = append(c.Named, Named{k.Arg, v, k})
	}
	for _, b := range f.bound {
		if c.Arg(-1, b.Name) == nil {
			c.Named = append(c.Named, b)
		}
	}
	switch f.Kind {
	case API:
		c.Path = f.Path
		if f.Path == "builtins.super" {
			return in.super(c)
		}
		var v *Value
		if does := effects[c.Path]; does != nil {
			v = does(in, c)
		}
		kept := in.report(c)
		if v == nil {
			v = in.result(c)
		}
		if !in.quiet {
			in.handedOver(c)
		}
		c.Result = v
		if v == unknown && !kept { // nobody can have kept it
			in.spare = append(in.spare, c)
		}
		return v
	case Function:
		if f.Func.Lambda == nil {
			c.Path = "project." + f.Func.Name
		}
		return in.apply(f.Func, f.Self, c.Args, c.Named, c.Open)
	case ClassDef:
		return in.instantiate(f.Class, c)
	case Module:
		if f.Class != nil {
			if m := f.Class.Method("forward"); m != nil {
				if c.Tensors() == 0 {
					return in.apply(m, f, c.Args, c.Named, c.Open)
				}
				c.Path, c.Self = "torch.nn.Module.__call__", f
				in.report(c)
				return in.apply(m, f, c.Args, c.Named, c.Open)
			}
		}
		if f.Path == "torch.nn.Sequential" && len(f.Items) > 0 {
			c.Path, c.Self = "torch.nn.Module.__call__", f
			in.report(c)
			return in.through(f, c)
		}
		c.Path, c.Self = f.Path+".__call__", f
		v := &Value{Kind: Tensor, Where: orOpen(f.Where), Soft: f.Soft}
		if in := c.inputs(); in != 0 {
			v.Where = in
		}
		in.layerGives(c, v)
		c.Result = v
		in.report(c)
		return v
	case Instance:
		if m := f.Class.Method("__call__"); m != nil {
			return in.apply(m, f, c.Args, c.Named, c.Open)
		}
	}
	return unknown
}

// handedOver interprets the lambdas that an API gets, which calls them with what nobody knows.
func (in *Interp) handedOver(c *Call) {
	look := func(v *Value) {
		if v.Kind == Function && v.Func.Lambda != nil && !v.Func.called {
			v.Func.called = true
			saved := in.context
			in.uncertain = true
			in.lambda(v.Func, nil)
			in.context = saved
		}
	}
	for _, a := range c.Args {
		look(a)
	}
	for _, n := range c.Named {
		look(n.Value)
	}
}

// through passes a value through the parts of a Sequential.
func (in *Interp) through(m *Value, c *Call) *Value {
	v := &Value{Kind: Tensor, Where: orOpen(c.Tensors())}
	if len(c.Args) == 1 {
		v = c.Args[0]
	}
	for _, part := range m.Items {
		if part.Kind != Module {
			continue
		}
		part = in.child(m, part)
		if part.Class != nil {
			if f := part.Class.Method("forward"); f != nil {
				v = in.apply(f, part, []*Value{v}, nil, false)
				continue
			}
		}
		d := &Call{Node: c.Node, At: c.At, Path: part.Path + ".__call__", Self: part, Args: []*Value{v}}
		where := part.Where
		if v.Kind == Tensor && v.Where != Open {
			where = v.Where
		}
		v = &Value{Kind: Tensor, Where: orOpen(where)}
		in.layerGives(d, v)
		d.Result = v
		in.report(d)
	}
	return v
}

func (in *Interp) super(c *Call) *Value {
	for e := in.env; e != nil; e = e.outer {
		if v := e.get("__class__"); v != nil {
			return &Value{Kind: Super, Class: v.Class, Self: v.Self}
		}
	}
	return unknown
}
