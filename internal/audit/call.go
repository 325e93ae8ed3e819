package audit

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/internal/pyast"
)

// call interprets a call: rules see it with its arguments before it changes anything.
func (p *Pass) call(e *pyast.Call) *Value {
	f := p.eval(e.Func)
	if f.Kind == Unknown { // nothing asks for it
		for _, a := range e.Args {
			p.eval(a)
		}
		for _, k := range e.Keywords {
			p.eval(k.Value)
		}
		return unknown
	}
	c := p.newCall(e, f)
	for _, a := range e.Args {
		if s, star := a.(*pyast.Starred); star {
			v := p.eval(s.Value)
			c.Open = true
			if v.Kind == Tensor || v.Kind == Seq && v.Path == "" { // what is known of it comes in its place; positions behind it are not sure
				c.Args = append(c.Args, v)
			}
			continue
		}
		c.Args = append(c.Args, p.eval(a))
	}
	for _, k := range e.Keywords {
		v := p.eval(k.Value)
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
			return p.super(c)
		}
		v := p.special(c)
		seen := p.report(c)
		if v == nil {
			v = p.result(c)
		}
		if !p.quiet {
			p.handedOver(c)
		}
		c.Result = v
		if v == unknown && !seen { // nobody can have kept it
			p.spare = append(p.spare, c)
		}
		return v
	case Function:
		if f.Func.Lambda == nil {
			c.Path = "project." + f.Func.Name
		}
		return p.apply(f.Func, f.Self, c.Args, c.Named, c.Open)
	case ClassDef:
		return p.instantiate(f.Class, c)
	case Module:
		if f.Class != nil {
			if m := f.Class.Method("forward"); m != nil {
				if c.Tensors() == 0 {
					return p.apply(m, f, c.Args, c.Named, c.Open)
				}
				c.Path, c.Self = "torch.nn.Module.__call__", f
				p.report(c)
				return p.apply(m, f, c.Args, c.Named, c.Open)
			}
		}
		if f.Path == "torch.nn.Sequential" && len(f.Items) > 0 {
			c.Path, c.Self = "torch.nn.Module.__call__", f
			p.report(c)
			return p.through(f, c)
		}
		c.Path, c.Self = f.Path+".__call__", f
		p.report(c)
		v := &Value{Kind: Tensor, Where: orOpen(f.Where), Soft: f.Soft}
		if in := c.inputs(); in != 0 {
			v.Where = in
		}
		return v
	case Instance:
		if m := f.Class.Method("__call__"); m != nil {
			return p.apply(m, f, c.Args, c.Named, c.Open)
		}
	}
	return unknown
}

// handedOver interprets the lambdas that an API gets, which calls them with what nobody knows.
func (p *Pass) handedOver(c *Call) {
	look := func(v *Value) {
		if v.Kind == Function && v.Func.Lambda != nil && !v.Func.called {
			v.Func.called = true
			p.maybe++
			p.lambda(v.Func, nil)
			p.maybe--
		}
	}
	for _, a := range c.Args {
		look(a)
	}
	for _, n := range c.Named {
		look(n.Value)
	}
}

// inputs is where the tensors among the arguments live, without the function's own place.
func (c *Call) inputs() Devices {
	d := *c
	d.Self = nil
	return d.Tensors()
}

// through passes a value through the parts of a Sequential.
func (p *Pass) through(m *Value, c *Call) *Value {
	v := &Value{Kind: Tensor, Where: orOpen(c.Tensors())}
	if len(c.Args) == 1 {
		v = c.Args[0]
	}
	for _, part := range m.Items {
		if part.Kind != Module {
			continue
		}
		part = p.child(m, part)
		if part.Class != nil {
			if f := part.Class.Method("forward"); f != nil {
				v = p.apply(f, part, []*Value{v}, nil, false)
				continue
			}
		}
		d := &Call{Node: c.Node, At: c.At, Path: part.Path + ".__call__", Self: part, Args: []*Value{v}, pass: p}
		p.report(d)
		where := part.Where
		if v.Kind == Tensor && v.Where != Open {
			where = v.Where
		}
		v = &Value{Kind: Tensor, Where: orOpen(where)}
	}
	return v
}

// pseudo shows rules what is no call in the source: os.environ["X"] = y is os.environ.__setitem__("X", y).
func (p *Pass) pseudo(path string, at pyast.Node, target pyast.Expr, args []*Value, nodes ...pyast.Expr) {
	if p.quiet {
		return
	}
	if target != nil {
		at = target
	}
	p.report(&Call{At: at, Path: path, Args: args, nodes: nodes, pass: p})
}

// report shows a call to the rules that ask for it; false if there are none.
func (p *Pass) report(c *Call) bool {
	if p.quiet {
		return false
	}
	rules := p.rules.of(c.Path)
	for _, r := range rules {
		p.rule = r
		r.Call(p, c)
	}
	return len(rules) > 0
}

// newCall takes a Call that has been done with, or a new one.
func (p *Pass) newCall(e *pyast.Call, f *Value) *Call {
	var c *Call
	if n := len(p.spare); n > 0 {
		c = p.spare[n-1]
		p.spare = p.spare[:n-1]
		*c = Call{Args: c.Args[:0], Named: c.Named[:0]}
	} else {
		if len(p.callRoom) == 0 {
			p.callRoom = make([]Call, 16)
		}
		c, p.callRoom = &p.callRoom[0], p.callRoom[1:]
		n := max(2, len(e.Args))
		if len(p.argRoom) < n {
			p.argRoom = make([]*Value, max(128, n))
		}
		c.Args, p.argRoom = p.argRoom[:0:n], p.argRoom[n:]
	}
	c.Node, c.At, c.Func, c.Self, c.pass, c.unit = e, e.Func, f, f.Self, p, p.mod
	return c
}

func (p *Pass) super(c *Call) *Value {
	for e := p.env; e != nil; e = e.outer {
		if v := e.get("__class__"); v != nil {
			return &Value{Kind: Made, Path: "super", Class: v.Class, Self: v.Self}
		}
	}
	return unknown
}

// special is what calls give that the interpreter itself must follow; nil for all others.
func (p *Pass) special(c *Call) *Value {
	arg := func(i int) *Value {
		if i < len(c.Args) {
			return c.Args[i]
		}
		return unknown
	}
	switch c.Path {
	case "builtins.enumerate":
		return &Value{Kind: Seq, Path: "enumerate", Items: []*Value{arg(0)}}
	case "builtins.zip":
		return &Value{Kind: Seq, Path: "zip", Items: c.Args}
	case "builtins.iter", "builtins.reversed", "builtins.sorted", "builtins.list", "builtins.tuple", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.std.tqdm",
		"tqdm.tqdm_notebook", "rich.progress.track", "itertools.islice", "itertools.cycle":
		if len(c.Args) > 0 {
			return c.Args[0]
		}
		if v := c.Arg(-1, "iterable", "sequence"); v != nil {
			return v
		}
		return unknown
	case "builtins.next":
		return p.element(arg(0))
	case "builtins.range", "tqdm.trange", "tqdm.auto.trange":
		if n := arg(0); len(c.Args) == 1 && n.Kind == Number && n.Num == 0 && !n.Soft { // range(torch.cuda.device_count())
			return &Value{Kind: Seq, Path: "range", Text: "empty"}
		}
		return &Value{Kind: Seq, Path: "range", Items: []*Value{{Kind: Number, Type: "int", Soft: true}}}
	case "builtins.str":
		switch a := arg(0); a.Kind {
		case Str, Device:
			return a
		case Number:
			return &Value{Kind: Str, Text: a.Text, Soft: a.Soft || a.Text == ""}
		}
		return unknown
	case "builtins.dict":
		d := &Value{Kind: Dict, Attrs: map[string]*Value{}}
		for _, n := range c.Named {
			d.Attrs[n.Name] = n.Value
		}
		return d
	case "builtins.getattr":
		if name := arg(1); name.Kind == Str && !name.Soft && c.Node != nil {
			v := p.attribute(arg(0), &pyast.Attribute{Attr: name.Text})
			if v.Kind == API && v.Mod == nil && len(c.Args) > 2 {
				return unknown
			}
			return v
		}
		return unknown
	case "builtins.hasattr":
		if a, name := arg(0), arg(1); a.Kind == API && name.Kind == Str && (a.Path == "torch.backends" || a.Path == "torch") && name.Text == "mps" || a.Kind == API && name.Kind == Str && a.Path == "torch" && name.Text == "accelerator" && p.Target.Since("2.6") {
			return trueVal
		}
		return unknown
	case "builtins.isinstance", "torch.is_tensor":
		v := arg(0)
		class := "torch.Tensor"
		if len(c.Args) > 1 {
			class = c.Args[1].Path
		}
		if v.Soft || v.OrNone || class != "torch.Tensor" && class != "numpy.ndarray" {
			return unknown
		}
		switch v.Kind {
		case Tensor:
			return boolean(class == "torch.Tensor")
		case Array:
			return boolean(class == "numpy.ndarray")
		}
		return unknown
	case "builtins.bool":
		if yes, known := arg(0).Truth(); known {
			return boolean(yes)
		}
		return unknown
	case "functools.partial":
		if f := arg(0); f.Kind == Function || f.Kind == ClassDef || f.Kind == API {
			if len(c.Named) == 0 {
				return f
			}
			g := *f
			g.bound = append(slices.Clone(c.Named), f.bound...)
			return &g
		}
		return unknown
	case "copy.deepcopy", "copy.copy":
		if a := arg(0); a.Kind == Module {
			m := *a
			return &m
		} else {
			return a
		}
	case "argparse.ArgumentParser", "transformers.HfArgumentParser":
		return &Value{Kind: Made, Path: c.Path, Attrs: map[string]*Value{}, Made: c}
	case "argparse.ArgumentParser.add_argument_group", "argparse.ArgumentParser.add_mutually_exclusive_group":
		return c.Self
	case "argparse.ArgumentParser.add_argument":
		p.addArgument(c)
		return noneVal
	case "argparse.ArgumentParser.set_defaults":
		for _, n := range c.Named {
			c.Self.Attrs["="+n.Name] = n.Value.softened()
		}
		return noneVal
	case "argparse.ArgumentParser.parse_args", "argparse.ArgumentParser.parse_known_args":
		v := &Value{Kind: Parsed, Attrs: map[string]*Value{}}
		for name, a := range c.Self.Attrs {
			if n, ok := strings.CutPrefix(name, "="); ok {
				v.Attrs[n] = a
			}
		}
		if strings.HasSuffix(c.Path, "known_args") {
			return &Value{Kind: Seq, Items: []*Value{v, unknown}}
		}
		return v
	case "builtins.exec", "builtins.eval":
		if c.Path == "builtins.exec" { // it may set every name anew
			for name, v := range p.env.all {
				switch v.Kind {
				case Str, Number, Bool, Device:
					p.env.put(name, v.softened())
				}
			}
		}
		return unknown
	case "pytest.skip", "unittest.TestCase.skipTest", "pytest.exit":
		return &Value{Kind: Made, Path: "sys.exit", Text: "skip"}
	case "sys.exit", "os._exit", "builtins.exit", "builtins.quit":
		return &Value{Kind: Made, Path: "sys.exit"}
	case "os.environ.get", "os.getenv":
		if d := c.Arg(1, "default"); d != nil && d.Kind == Str {
			return d.softened()
		}
		return unknown
	case "dict.get":
		if a := arg(0); a.Kind == Str {
			if v := c.Self.Attrs[a.Text]; v != nil {
				return v
			}
		}
		if len(c.Args) > 1 {
			return c.Args[1].softened()
		}
		return unknown
	case "dict.values":
		d := &Value{Kind: Seq, Path: "open"}
		for _, v := range c.Self.Attrs {
			d.Items = append(d.Items, v)
		}
		return d
	case "dict.items", "dict.keys":
		return unknown
	case "list.append", "list.extend", "list.insert":
		if len(c.Args) > 0 && len(c.Self.Items) < 64 {
			c.Self.Items = append(c.Self.Items, c.Args[len(c.Args)-1])
			c.Self.Path = "open"
		}
		return noneVal
	case "str.lower", "str.strip", "str.upper":
		v := *c.Self
		if c.Path == "str.lower" {
			v.Text = strings.ToLower(v.Text)
		}
		return &v
	case "str.startswith":
		if a := arg(0); a.Kind == Str && !c.Self.Soft {
			return boolean(strings.HasPrefix(c.Self.Text, a.Text))
		}
		return unknown
	case "str.format":
		if name, place, ok := strings.Cut(c.Self.Text, ":{"); ok && strings.HasSuffix(place, "}") && isDevice(name) { // "cuda:{:d}".format(rank)
			return text(name + ":0")
		}
		return unknown
	case "torch.utils.data.DataLoader.__iter__":
		return c.Self
	case "torch.set_default_device":
		if len(c.Args) > 0 {
			p.defaultDevice = c.Args[0].place()
			if c.Args[0].Kind == None {
				p.defaultDevice = 0
			}
		}
		return noneVal
	case "torch.set_default_dtype":
		if t := typeOf(arg(0)); t != "" {
			p.defaultType = t
		}
		return noneVal
	case "torch.set_default_tensor_type":
		t := legacyType(arg(0).Text)
		if a := arg(0); a.Kind == API {
			t = legacyType(a.Path)
		}
		if t != "" {
			p.defaultType = t
		}
		return noneVal
	case "torch.nn.Module.register_buffer":
		if a := arg(0); a.Kind == Str && c.Self != nil && len(c.Args) > 1 {
			if c.Self.Attrs == nil {
				c.Self.Attrs = map[string]*Value{}
			}
			v := c.Args[1]
			if v.Kind == Tensor {
				w := *v
				w.Text = "buffer"
				v = &w
			}
			c.Self.Attrs[a.Text] = v
		}
		return noneVal
	}
	return nil
}

// addArgument notes an option's default under the name that parse_args gives it.
func (p *Pass) addArgument(c *Call) {
	dest := ""
	for _, a := range c.Args {
		if a.Kind == Str && (dest == "" || strings.HasPrefix(a.Text, "--")) {
			dest = strings.ReplaceAll(strings.TrimLeft(a.Text, "-"), "-", "_")
			if strings.HasPrefix(a.Text, "--") {
				break
			}
		}
	}
	if d := c.Arg(-1, "dest"); d != nil && d.Kind == Str {
		dest = d.Text
	}
	if dest == "" {
		return
	}
	v := unknown
	if d := c.Arg(-1, "default"); d != nil {
		v = d.softened()
		if v.Kind == None {
			v = unknown
		}
	} else if a := c.Arg(-1, "action"); a != nil && a.Kind == Str && strings.HasPrefix(a.Text, "store_") {
		v = &Value{Kind: Bool, Yes: a.Text == "store_false", Soft: true}
	}
	c.Self.Attrs["="+dest] = v
}

// instantiate makes an instance of a class of the project and runs its __init__.
func (p *Pass) instantiate(class *Class, c *Call) *Value {
	v := &Value{Kind: Instance, Class: class, Attrs: map[string]*Value{}, Made: c}
	if class.IsModule() {
		v.Kind, v.Where = Module, OnCPU
		if p.defaultDevice != 0 {
			v.Where = p.defaultDevice
		}
	}
	for _, b := range class.Bases {
		if b.Kind == API && b.Path == "enum.Enum" {
			return unknown
		}
	}
	if m := class.Method("__init__"); m != nil {
		p.apply(m, v, c.Args, c.Named, c.Open)
	} else { // a dataclass and the like
		for _, n := range c.Named {
			v.Attrs[n.Name] = n.Value
		}
	}
	return v
}

// apply interprets a function of the project for given arguments; open where *args or **kwargs may give more.
func (p *Pass) apply(f *Func, self *Value, args []*Value, named []Named, open bool) *Value {
	if f.Lambda != nil {
		return p.lambda(f, args)
	}
	if f.Node == nil || f.busy > 0 || p.depth >= maxDepth || p.calls >= maxCalls {
		return unknown
	}
	f.called = true
	key := p.fingerprint(self, args, named, open)
	if f.seen == nil {
		f.seen = map[string]*Value{}
	}
	if v, ok := f.seen[key]; ok {
		return v
	}
	if p.quiet {
		if v, ok := f.seen["quiet "+key]; ok {
			return v
		}
		key = "quiet " + key
	}
	if len(f.seen) >= maxContexts || p.lone && f.Module != p.Main && (p.depth >= loneDepth || len(f.seen) >= loneContexts || f.Node.End()-f.Node.Pos() > loneBytes) {
		return unknown
	}
	p.calls++
	scope := &env{outer: f.env}
	p.parameters(f, scope, self, args, named, open)
	return p.run(f, scope, key)
}

// run interprets a function's body in a scope that has its parameters.
func (p *Pass) run(f *Func, scope *env, key string) *Value {
	env, frame, mod, src, loops, guarded, caught, main, blocks := p.env, p.frame, p.mod, p.Src, p.loops, p.guarded, p.caughtErrors, p.main, p.blocks
	p.env, p.frame, p.mod, p.Src = scope, &currentFrame{fn: f}, f.Module, f.Module.Src
	if f.noGrad {
		p.blocks = append(p.blocks[:len(p.blocks):len(p.blocks)], Block{Path: "torch.no_grad"})
	}
	f.busy++
	p.depth++
	p.block(f.Node.Body)
	result := noneVal
	if p.frame.returns {
		result = p.frame.result
	}
	p.depth--
	f.busy--
	p.env, p.frame, p.mod, p.Src, p.loops, p.guarded, p.caughtErrors, p.main, p.blocks = env, frame, mod, src, loops, guarded, caught, main, blocks
	if f.Node.Generator {
		result = unknown
	}
	f.seen[key] = result
	return result
}

func (p *Pass) lambda(f *Func, args []*Value) *Value {
	if f.busy > 0 || p.depth >= maxDepth {
		return unknown
	}
	outer, mod, src := p.env, p.mod, p.Src
	scope := &env{outer: f.env}
	for i, a := range f.Lambda.Args.Args {
		v := unknown
		if i < len(args) {
			v = args[i]
		}
		scope.put(a.Arg, v)
	}
	p.env, p.mod, p.Src = scope, f.Module, f.Module.Src
	f.busy++
	p.depth++
	v := p.eval(f.Lambda.Body)
	p.depth--
	f.busy--
	p.env, p.mod, p.Src = outer, mod, src
	return v
}

// parameters binds a function's parameters: to arguments, else to defaults, which a caller may replace, else to what annotations say.
func (p *Pass) parameters(f *Func, scope *env, self *Value, args []*Value, named []Named, open bool) {
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
				v = p.defaultOf(f, a.Defaults[d], called)
			}
		}
		if v == nil {
			v = p.guess(f, param)
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
			v = p.defaultOf(f, a.KwDefaults[i], called)
		}
		if v == nil {
			v = p.guess(f, param)
		}
		scope.put(param.Arg, v)
	}
	if a.Vararg != nil {
		rest := &Value{Kind: Seq}
		if len(args) > len(positional) {
			rest.Items = args[len(positional):]
		}
		if args == nil {
			rest.Path = "open"
		}
		scope.put(a.Vararg.Arg, rest)
	}
	if a.Kwarg != nil {
		scope.put(a.Kwarg.Arg, &Value{Kind: Dict, Attrs: map[string]*Value{}})
	}
}

// defaultOf is a parameter's default. In a call that leaves it out it is sure, else a caller may say otherwise.
func (p *Pass) defaultOf(f *Func, e pyast.Expr, called bool) *Value {
	outer, quiet, mod, src := p.env, p.quiet, p.mod, p.Src
	p.env, p.quiet, p.mod, p.Src = f.env, true, f.Module, f.Module.Src
	v := p.eval(e)
	p.env, p.quiet, p.mod, p.Src = outer, quiet, mod, src
	if called {
		return v
	}
	if v.Kind == None {
		return nil
	}
	return v.softened()
}

// guess is what a parameter is by its annotation, or by a name that the field uses for one thing.
func (p *Pass) guess(f *Func, a *pyast.Arg) *Value {
	if a.Annotation != nil {
		outer, mod, src := p.env, p.mod, p.Src
		p.env, p.mod, p.Src = f.env, f.Module, f.Module.Src
		v := p.annotated(a.Annotation)
		p.env, p.mod, p.Src = outer, mod, src
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
func (p *Pass) fingerprint(self *Value, args []*Value, named []Named, open bool) string {
	b := p.print[:0]
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
		b = append(b, byte(v.Kind), byte(v.Where), flags)
		b = append(append(append(b, v.Type...), ','), v.Path...)
		b = append(append(append(b, ','), v.Text...), ',')
		switch v.Kind {
		case Module, Instance, Dict, Parsed:
			b = p.identity(b, v)
		case Function:
			b = p.identity(b, v.Func)
		case ClassDef:
			b = p.identity(b, v.Class)
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
	b = append(strconv.AppendInt(b, int64(len(p.loops)), 10), byte(p.defaultDevice))
	for _, block := range p.blocks {
		b = append(b, block.Path...)
	}
	p.print = b
	return string(b)
}

// identity appends a number that stands for one value, function or class.
func (p *Pass) identity(b []byte, of any) []byte {
	n, ok := p.numbers[of]
	if !ok {
		n = uint32(len(p.numbers))
		p.numbers[of] = n
	}
	return binary.LittleEndian.AppendUint32(b, n)
}
