package abstract

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/internal/pyast"
)

// apply interprets a function of the project for given arguments; open where *args or **kwargs may give more.
func (in *Interp) apply(f *Func, self *Value, args []*Value, named []Named, open bool) *Value {
	if f.Lambda != nil {
		return in.lambda(f, args)
	}
	if f.Node == nil || f.busy > 0 || in.depth >= maxDepth || in.calls >= maxCalls {
		return unknown
	}
	f.called = true
	if len(f.outcomes) >= maxContexts/2 { // tensors of many sizes are one context
		self, args, named = shapeless(self, args, named)
	}
	key := situation{arguments: in.fingerprint(self, args, named, open)}
	if v, ok := f.outcomes[key]; ok {
		return v
	}
	if in.quiet {
		key.quiet = true
		if v, ok := f.outcomes[key]; ok {
			return v
		}
	}
	if n := len(f.outcomes); n >= maxContexts ||
		in.lone && f.Module != in.main && (in.depth >= loneDepth || n >= loneContexts ||
			f.Node.End()-f.Node.Pos() > loneBytes) {
		return unknown
	}
	in.calls++
	scope := &env{outer: f.env}
	in.parameters(f, scope, self, args, named, open)
	return in.run(f, scope, key)
}

// shapeless are arguments without what is known of tensors' shapes.
func shapeless(self *Value, args []*Value, named []Named) (*Value, []*Value, []Named) {
	plain := func(v *Value) *Value {
		if v == nil || v.Shape == nil {
			return v
		}
		w := *v
		w.Shape = nil
		return &w
	}
	args, named = slices.Clone(args), slices.Clone(named)
	for i := range args {
		args[i] = plain(args[i])
	}
	for i := range named {
		named[i].Value = plain(named[i].Value)
	}
	return plain(self), args, named
}

// run interprets a function's body in a scope that has its parameters.
func (in *Interp) run(f *Func, scope *env, key situation) *Value {
	saved := in.context
	in.env, in.frame, in.unit = scope, &currentFrame{fn: f}, f.Module
	if f.noGrad {
		in.blocks = append(in.blocks[:len(in.blocks):len(in.blocks)], Block{Path: "torch.no_grad"})
	}
	f.busy++
	in.depth++
	in.recurse.body(f.Node.Body)
	result := noneVal
	if in.frame.returns {
		result = in.frame.result
	}
	f.busy--
	in.context = saved
	if f.Node.Generator {
		result = unknown
	}
	if f.outcomes == nil {
		f.outcomes = map[situation]*Value{}
	}
	f.outcomes[key] = result
	return result
}

func (in *Interp) lambda(f *Func, args []*Value) *Value {
	if f.busy > 0 || in.depth >= maxDepth {
		return unknown
	}
	scope := &env{outer: f.env}
	for i, a := range f.Lambda.Args.Args {
		v := unknown
		if i < len(args) {
			v = args[i]
		}
		scope.put(a.Arg, v)
	}
	saved := in.context
	in.env, in.unit = scope, f.Module
	f.busy++
	in.depth++
	v := in.recurse.expr(f.Lambda.Body)
	f.busy--
	in.context = saved
	return v
}

// parameters binds a function's parameters: to arguments, else to defaults, which a caller may replace, else to what
// annotations say.
func (in *Interp) parameters(f *Func, scope *env, self *Value, args []*Value, named []Named, open bool) {
	a := f.Node.Args
	called := args != nil && !open // what is spread may give what looks left out
	positional := append(append([]*pyast.Arg{}, a.Posonlyargs...), a.Args...)
	if f.Class != nil {
		scope.put("__class__", &Value{Kind: ClassDef, Class: f.Class, Self: self})
	}
	at := 0
	if self != nil && len(positional) > 0 {
		scope.put(positional[0].Arg, self)
		positional, at = positional[1:], 1
	}
	all := len(a.Posonlyargs) + len(a.Args)
	for i, param := range positional {
		v := (*Value)(nil)
		if i < len(args) {
			v = args[i]
		}
		for _, n := range named {
			if n.Name == param.Arg {
				v = n.Value
			}
		}
		if v == nil {
			if d := i + at - (all - len(a.Defaults)); d >= 0 && d < len(a.Defaults) {
				v = in.defaultOf(f, a.Defaults[d], called)
			}
		}
		if v == nil {
			v = in.guess(f, param)
		}
		scope.put(param.Arg, v)
	}
	for i, param := range a.Kwonlyargs {
		v := (*Value)(nil)
		for _, n := range named {
			if n.Name == param.Arg {
				v = n.Value
			}
		}
		if v == nil && i < len(a.KwDefaults) && a.KwDefaults[i] != nil {
			v = in.defaultOf(f, a.KwDefaults[i], called)
		}
		if v == nil {
			v = in.guess(f, param)
		}
		scope.put(param.Arg, v)
	}
	if a.Vararg != nil {
		rest := &Value{Kind: Seq}
		if len(args) > len(positional) {
			rest.Items = args[len(positional):]
		}
		if args == nil {
			rest.Form = Loose
		}
		scope.put(a.Vararg.Arg, rest)
	}
	if a.Kwarg != nil {
		scope.put(a.Kwarg.Arg, &Value{Kind: Dict, Attrs: map[string]*Value{}})
	}
}

// defaultOf is a parameter's default. In a call that leaves it out it is sure, else a caller may say otherwise.
func (in *Interp) defaultOf(f *Func, e pyast.Expr, called bool) *Value {
	saved := in.context
	in.env, in.quiet, in.unit = f.env, true, f.Module
	v := in.recurse.expr(e)
	in.context = saved
	if called {
		return v
	}
	if v.Kind == None {
		return nil
	}
	return v.softened()
}

// annotated is what an annotation alone says.
func (in *Interp) annotated(e pyast.Expr) *Value {
	if e == nil {
		return unknown
	}
	v := in.quietly(e)
	switch {
	case v.Kind == API && v.Path == "torch.Tensor":
		return &Value{Kind: Tensor, Where: Open}
	case v.Kind == API && (v.Path == "torch.nn.Module"):
		return &Value{Kind: Module, Where: Open}
	case v.Kind == API && v.Path == "torch.utils.data.DataLoader":
		return &Value{Kind: Loader}
	case v.Kind == API && v.Path == "torch.device":
		return &Value{Kind: Device, Where: Open}
	case v.Kind == API && v.Path == "numpy.ndarray":
		return &Value{Kind: Array}
	case v.Kind == API && strings.HasPrefix(v.Path, "torch.optim."):
		return &Value{Kind: Optimizer, Path: v.Path}
	}
	return unknown
}

// guess is what a parameter is by its annotation, or by a name that the field uses for one thing.
func (in *Interp) guess(f *Func, a *pyast.Arg) *Value {
	if a.Annotation != nil {
		saved := in.context
		in.env, in.unit = f.env, f.Module
		v := in.annotated(a.Annotation)
		in.context = saved
		if v != unknown {
			return v
		}
	}
	if f.Class != nil && f.Name == "forward" && f.Class.IsModule() && a.Annotation == nil {
		return &Value{Kind: Tensor, Where: Open, Soft: true}
	}
	switch name := strings.ToLower(a.Arg); {
	case name == "model" || name == "net" || name == "network":
		return &Value{Kind: Module, Where: Open, Soft: true}
	case strings.HasSuffix(name, "loader") || name == "data_iter":
		return &Value{Kind: Loader, Soft: true}
	case name == "optimizer" || name == "optim":
		return &Value{Kind: Optimizer, Soft: true}
	case name == "device":
		return &Value{Kind: Device, Where: Open, Soft: true}
	}
	return unknown
}

// fingerprint tells argument lists apart as far as the outcome may differ.
func (in *Interp) fingerprint(self *Value, args []*Value, named []Named, open bool) string {
	b := in.print[:0]
	var add func(v *Value, depth int)
	add = func(v *Value, depth int) {
		if v == nil {
			b = append(b, '-')
			return
		}
		flags := byte('0')
		if v.Yes {
			flags |= 1
		}
		if v.Soft {
			flags |= 2
		}
		if v.Follows {
			flags |= 4
		}
		if v.graded || v.evaluates {
			flags |= 8
		}
		b = append(b, byte(v.Kind), byte(v.Where), flags, byte(v.Form), byte(v.Origin), byte(v.Role), byte(v.Binding))
		b = append(append(append(b, v.Type...), ','), v.Path...)
		b = append(append(append(b, ','), v.Text...), ',')
		if v.Shape != nil {
			b = v.Shape.print(b)
		}
		switch v.Kind {
		case Module, Instance, Dict, Parsed:
			b = in.identity(b, v)
		case Function:
			b = in.identity(b, v.Func)
		case ClassDef:
			b = in.identity(b, v.Class)
		case Number:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Num))
		case Seq:
			if depth < 3 {
				for _, i := range v.Items {
					add(i, depth+1)
				}
			}
		}
		b = append(b, ';')
	}
	add(self, 0)
	if open {
		b = append(b, '*')
	}
	for _, a := range args {
		add(a, 0)
	}
	for _, n := range named {
		b = append(append(b, n.Name...), '=')
		add(n.Value, 0)
	}
	b = append(strconv.AppendInt(b, int64(len(in.loops)), 10), byte(in.defaultDevice))
	for _, block := range in.blocks {
		b = append(b, block.Path...)
	}
	in.print = b
	return string(b)
}

// identity appends a number that stands for one value, function or class.
func (in *Interp) identity(b []byte, of any) []byte {
	n, ok := in.numbers[of]
	if !ok {
		n = uint32(len(in.numbers))
		in.numbers[of] = n
	}
	return binary.LittleEndian.AppendUint32(b, n)
}

// instantiate makes an instance of a class of the project and runs its __init__.
func (in *Interp) instantiate(class *Class, c *Call) *Value {
	v := &Value{Kind: Instance, Class: class, Attrs: map[string]*Value{}, Made: c}
	if class.IsModule() {
		v.Kind, v.Where = Module, OnCPU
		if in.defaultDevice != 0 {
			v.Where = in.defaultDevice
		}
	}
	for _, b := range class.Bases {
		if b.Kind == API && b.Path == "enum.Enum" {
			return unknown
		}
	}
	if m := class.Method("__init__"); m != nil {
		in.apply(m, v, c.Args, c.Named, c.Open)
	} else { // a dataclass and the like
		for _, n := range c.Named {
			v.Attrs[n.Name] = n.Value
		}
	}
	return v
}

// instance is an object of a class that nothing in the file makes: where it lives is open.
func (in *Interp) instance(c *Class) *Value {
	if c.open != nil {
		return c.open
	}
	v := &Value{Kind: Instance, Class: c, Attrs: map[string]*Value{}}
	module := c.IsModule()
	if module {
		v.Kind, v.Where = Module, OnCPU // while it is being made
	}
	c.open = v
	if m := c.Method("__init__"); m != nil && m.Node != nil && m.busy == 0 {
		scope := &env{outer: m.env}
		in.parameters(m, scope, v, nil, nil, false)
		m.called = true
		in.run(m, scope, situation{alone: true})
	}
	if module {
		v.Where = Open
	}
	return v
}

func (in *Interp) static(f *Func) bool {
	v := f.Class.own(f.Name)
	return v != nil && v.Binding == AsStatic
}

// alone interprets a function that the file itself never calls: its parameters are open.
func (in *Interp) alone(f *Func) {
	f.called = true
	var self *Value
	if f.Class != nil && !in.static(f) {
		self = in.instance(f.Class)
	}
	if _, done := f.outcomes[situation{alone: true}]; done {
		return
	}
	scope := &env{outer: f.env}
	if scope.outer == nil {
		scope.outer = in.env
	}
	in.parameters(f, scope, self, nil, nil, false)
	in.run(f, scope, situation{alone: true})
}
