package audit

import (
	"slices"
	"strings"

	"assay/internal/pyast"
)

// Bounds of an interpretation: what goes further is left unknown.
const (
	maxDepth    = 8       // calls of the project's functions within each other
	maxCalls    = 4000    // of the project's functions, for each file
	maxContexts = 12      // argument lists with which one function is looked at
	maxSteps    = 400_000 // expressions, for each file
	maxNesting  = 400     // expressions and statements within each other

	// A function that its file never calls is a library's: what it calls in other files is followed less far than what a program calls.
	loneDepth    = 2
	loneContexts = 3
	loneBytes    = 1500 // of source: longer functions of other files are left to the check of those files
)

// currentFrame is the function that is being interpreted.
type currentFrame struct {
	fn      *Func
	result  *Value
	returns bool
}

// control says how a block was left.
type control uint8

const (
	onward control = iota
	jumped         // break, continue
	gone           // return, raise
)

// block interprets statements; what follows a return or raise is interpreted as well, as a reader would look at it, but binds nothing.
func (p *Pass) block(body []pyast.Stmt) control {
	open := len(p.tests)
	how := onward
	for _, s := range body {
		if how = p.stmt(s); how != onward {
			break
		}
	}
	p.tests = p.tests[:open]
	return how
}

// under interprets what is only reached as an open test says.
func (p *Pass) under(test pyast.Expr, what func()) {
	p.tests = append(p.tests, openTest{test, p.mod})
	what()
	p.tests = p.tests[:len(p.tests)-1]
}

func (p *Pass) stmt(s pyast.Stmt) control {
	if p.nesting > maxNesting || p.steps > maxSteps {
		return onward
	}
	p.nesting++
	how := p.statement(s)
	p.nesting--
	if rules := p.rules.nodes[s.Kind()]; rules != nil && !p.quiet {
		for _, r := range rules {
			p.rule = r
			r.Node(p, s)
		}
	}
	return how
}

func (p *Pass) statement(s pyast.Stmt) control {
	switch s := s.(type) {
	case *pyast.ExprStmt:
		if s.Value.Kind() == pyast.KindConstant { // a docstring, or …
			return onward
		}
		v := p.eval(s.Value)
		if v.Kind == Made && v.Path == "sys.exit" {
			return gone
		}
	case *pyast.Assign:
		v := p.eval(s.Value)
		for _, t := range s.Targets {
			p.bind(t, v, s)
		}
	case *pyast.AnnAssign:
		if s.Value != nil {
			v := p.eval(s.Value)
			if p.env.class {
				v = v.softened()
			}
			p.bind(s.Target, v, s)
		} else if n, ok := s.Target.(*pyast.Name); ok && p.env.class {
			p.env.set(n.ID, p.annotated(s.Annotation))
		}
	case *pyast.AugAssign:
		left := p.read(s.Target)
		right := p.eval(s.Value)
		p.bind(s.Target, p.binary(s.Op, left, right, s), s)
	case *pyast.Return:
		v := noneVal
		if s.Value != nil {
			v = p.eval(s.Value)
		}
		if f := p.frame; f != nil {
			if f.returns {
				v = join(f.result, v)
			}
			f.result, f.returns = v, true
		}
		return gone
	case *pyast.Raise:
		if s.Exc != nil {
			p.eval(s.Exc)
		}
		if s.Cause != nil {
			p.eval(s.Cause)
		}
		return gone
	case *pyast.Break, *pyast.Continue:
		return jumped
	case *pyast.If:
		return p.branch(s)
	case *pyast.For:
		p.loop(s)
	case *pyast.While:
		if yes, known := p.eval(s.Test).Truth(); known && !yes {
			return p.block(s.Orelse)
		}
		p.repeat(Loop{Node: s}, func() { p.eval(s.Test); p.block(s.Body) })
		p.block(s.Orelse)
	case *pyast.With:
		return p.with(s)
	case *pyast.Try:
		return p.try(s)
	case *pyast.Match:
		p.eval(s.Subject)
		before := p.env.copy()
		all := p.env.copy()
		for _, c := range s.Cases {
			p.env.values = slices.Clone(before)
			for _, name := range patternNames(c.Pattern, nil) {
				p.env.set(name, unknown)
			}
			if c.Guard != nil {
				p.eval(c.Guard)
			}
			if p.block(c.Body) == onward {
				all = all.join(p.env.values)
			}
		}
		p.env.values = all
	case *pyast.FunctionDef:
		p.define(s)
	case *pyast.ClassDef:
		p.defineClass(s)
	case *pyast.Import:
		for _, a := range s.Names {
			p.imported(a.Name, s)
			if a.AsName != "" {
				p.env.set(a.AsName, p.module(a.Name))
			} else {
				top, _, _ := strings.Cut(a.Name, ".")
				p.env.set(top, p.module(top))
				if top != a.Name {
					p.module(a.Name)
				}
			}
		}
	case *pyast.ImportFrom:
		p.importFrom(s, "")
	case *pyast.Global:
		p.outer(s.Names)
	case *pyast.Nonlocal:
		p.outer(s.Names)
	case *pyast.Assert:
		yes, known := p.eval(s.Test).Truth()
		if s.Msg != nil {
			p.eval(s.Msg)
		}
		switch {
		case !known:
			p.tests = append(p.tests, openTest{s.Test, p.mod}) // for the rest of the block
		case !yes && p.aboutTarget(s.Test):
			return p.ended(s)
		}
	case *pyast.Delete:
		for _, t := range s.Targets {
			if n, ok := t.(*pyast.Name); ok {
				p.env.put(n.ID, nil)
			}
		}
	case *pyast.TypeAlias:
		p.env.set(s.Name.ID, unknown)
	case *pyast.Bad:
		p.block(s.Body)
	}
	return onward
}

func (p *Pass) outer(names []string) {
	if p.env.global == nil {
		p.env.global = map[string]bool{}
	}
	for _, n := range names {
		p.env.global[n] = true
		p.lookup(n) // what the top of the file says of it comes before
	}
}

func patternNames(pattern pyast.Pattern, list []string) []string {
	switch m := pattern.(type) {
	case *pyast.MatchAs:
		if m.Name != "" {
			list = append(list, m.Name)
		}
		if m.Pattern != nil {
			list = patternNames(m.Pattern, list)
		}
	case *pyast.MatchStar:
		if m.Name != "" {
			list = append(list, m.Name)
		}
	case *pyast.MatchSequence:
		for _, q := range m.Patterns {
			list = patternNames(q, list)
		}
	case *pyast.MatchMapping:
		for _, q := range m.Patterns {
			list = patternNames(q, list)
		}
		if m.Rest != "" {
			list = append(list, m.Rest)
		}
	case *pyast.MatchClass:
		for _, q := range m.Patterns {
			list = patternNames(q, list)
		}
		for _, q := range m.KwdPatterns {
			list = patternNames(q, list)
		}
	case *pyast.MatchOr:
		for _, q := range m.Patterns {
			list = patternNames(q, list)
		}
	}
	return list
}

// branch interprets an if: where the target decides the test, the other side is dead.
func (p *Pass) branch(s *pyast.If) control {
	yes, known := p.eval(s.Test).Truth()
	if isMain(s.Test) {
		p.main++
		defer func() { p.main-- }()
	}
	if known {
		side := s.Body
		if !yes {
			side = s.Orelse
		}
		var how control
		if yes && p.asksForCUDA(s.Test) {
			p.under(s.Test, func() { how = p.block(side) })
		} else {
			how = p.block(side)
		}
		if how == gone && p.aboutTarget(s.Test) {
			return p.ended(s)
		}
		return how
	}
	before := p.env.copy()
	p.maybe++
	open := len(p.tests)
	p.tests = append(p.tests, openTest{s.Test, p.mod})
	first := p.block(s.Body)
	one := p.env.values
	p.env.values = before
	if p.moreThanOne(s.Test) { // without it, one GPU or none is what is left
		p.tests = p.tests[:len(p.tests)-1]
	}
	second := p.block(s.Orelse)
	p.tests = p.tests[:open]
	p.maybe--
	switch {
	case first == onward && second == onward:
		p.env.merge(one)
	case first == onward:
		p.env.values = one
		p.tests = append(p.tests, openTest{s.Test, p.mod}) // the rest of the block is reached one way only
	case second == onward:
		p.tests = append(p.tests, openTest{s.Test, p.mod})
	case first == gone && second == gone:
		return gone
	default:
		return jumped
	}
	return onward
}

// moreThanOne reports whether a test is gpus > 1.
func (p *Pass) moreThanOne(test pyast.Expr) bool {
	c, ok := test.(*pyast.Compare)
	if !ok || len(c.Ops) != 1 || c.Ops[0] != pyast.Gt {
		return false
	}
	return p.Text(c.Comparators[0]) == "1"
}

// asksForCUDA reports whether a test that holds asks for CUDA by name: x.is_cuda, device.type == "cuda". It holds for a device that the program has
// set before, and which a machine without CUDA does not get: what stands under it is guarded, whatever device another run has.
func (p *Pass) asksForCUDA(test pyast.Expr) bool {
	if p.quiet || p.Target.Device == "cuda" {
		return false
	}
	text := p.Text(test)
	return strings.Contains(text, "cuda") && (strings.Contains(text, "is_cuda") || strings.Contains(text, `"cuda`) || strings.Contains(text, "'cuda"))
}

// ended shows rules the statement where the program gives up on this target.
func (p *Pass) ended(s pyast.Stmt) control {
	if i, ok := s.(*pyast.If); ok && strings.Contains(p.Text(i), "skip(") { // a test that is left out
		return gone
	}
	if !p.quiet {
		for _, r := range p.rules.ends {
			p.rule = r
			r.Node(p, s)
		}
	}
	if p.frame != nil {
		return gone // on this target the function ends here
	}
	return onward // reported; the rest of the file is looked at as well
}

// isMain reports whether a test is __name__ == "__main__".
func isMain(test pyast.Expr) bool {
	c, ok := test.(*pyast.Compare)
	if !ok || len(c.Ops) != 1 || c.Ops[0] != pyast.Eq {
		return false
	}
	n, ok := c.Left.(*pyast.Name)
	if !ok {
		n, ok = c.Comparators[0].(*pyast.Name)
	}
	return ok && n.ID == "__name__"
}

// aboutTarget reports whether a test asks what the machine has.
func (p *Pass) aboutTarget(test pyast.Expr) bool {
	found := false
	pyast.Walk(test, func(n pyast.Node) bool {
		if a, ok := n.(*pyast.Attribute); ok && (a.Attr == "is_available" || a.Attr == "device_count" || a.Attr == "is_built") {
			found = true
		}
		if c, ok := n.(*pyast.Name); ok {
			if v := p.lookup(c.ID); v != nil && v.Kind == Bool && strings.Contains(strings.ToLower(c.ID), "cuda") {
				found = true
			}
		}
		return !found
	})
	return found
}

// repeat interprets a loop's body: quietly first, so that what an earlier turn leaves is known, then aloud.
func (p *Pass) repeat(l Loop, body func()) {
	if p.frame != nil {
		l.Func = p.frame.fn
	}
	p.loops = append(p.loops, l)
	p.maybe++
	before := p.env.copy()
	if !p.quiet {
		p.quiet = true
		body()
		p.quiet = false
		p.env.merge(before)
	}
	body()
	p.env.merge(before)
	p.maybe--
	p.loops = p.loops[:len(p.loops)-1]
}

func (p *Pass) loop(s *pyast.For) {
	over := p.eval(s.Iter)
	if over.Text == "empty" && over.Kind == Seq {
		p.block(s.Orelse)
		return
	}
	p.repeat(Loop{Node: s, Over: over}, func() {
		p.bind(s.Target, p.element(over), s)
		p.block(s.Body)
	})
	p.block(s.Orelse)
}

// element is what a for loop gets of a value.
func (p *Pass) element(v *Value) *Value {
	switch v.Kind {
	case Seq:
		if v.Path == "enumerate" && len(v.Items) == 1 {
			return &Value{Kind: Seq, Items: []*Value{{Kind: Number, Type: "int", Soft: true}, p.element(v.Items[0])}}
		}
		if v.Path == "zip" {
			e := &Value{Kind: Seq}
			for _, i := range v.Items {
				e.Items = append(e.Items, p.element(i))
			}
			return e
		}
		var e *Value
		for _, i := range v.Items {
			if e == nil {
				e = i
			} else {
				e = join(e, i)
			}
		}
		if e != nil {
			return e
		}
	case Loader:
		return &Value{Kind: Tensor, Where: OnCPU, Path: "batch", Made: v.Made}
	case Tensor, Array:
		return v
	case Dict:
		return &Value{Kind: Str, Soft: true}
	}
	return unknown
}

func (p *Pass) with(s *pyast.With) control {
	depth := len(p.blocks)
	device := p.defaultDevice
	for _, item := range s.Items {
		v := p.eval(item.ContextExpr)
		b := Block{}
		if v.Made != nil {
			b.Path, b.Call = v.Made.Path, v.Made
		}
		if c, ok := item.ContextExpr.(*pyast.Call); ok && b.Path == "" {
			if f := p.read(c.Func); f.Kind == API {
				b.Path = f.Path
			}
		}
		if v.Kind == API {
			b.Path = v.Path
		}
		if v.Kind == Device {
			b.Path = "torch.device"
			p.defaultDevice = v.Where
		}
		p.blocks = append(p.blocks, b)
		if item.OptionalVars != nil {
			if v.Kind != Made {
				v = unknown
			}
			p.bind(item.OptionalVars, v, s)
		}
	}
	how := p.block(s.Body)
	p.blocks = p.blocks[:depth]
	p.defaultDevice = device
	return how
}

// In reports the innermost with block around here whose context manager has one of the dotted names, within the same function.
func (p *Pass) In(paths ...string) *Block {
	for i := len(p.blocks) - 1; i >= 0; i-- {
		for _, path := range paths {
			if p.blocks[i].Path == path {
				return &p.blocks[i]
			}
		}
	}
	return nil
}

func (p *Pass) try(s *pyast.Try) control {
	before := p.env.copy()
	imports, errors := 0, 0
	for _, h := range s.Handlers {
		switch names := p.caught(h.Type); {
		case h.Type == nil || strings.Contains(names, " Exception ") || strings.Contains(names, " BaseException "):
			imports, errors = 1, 1
		case strings.Contains(names, " ImportError ") || strings.Contains(names, " ModuleNotFoundError "):
			imports = 1
		case strings.Contains(names, "RuntimeError ") || strings.Contains(names, " NotImplementedError ") || strings.Contains(names, " AssertionError ") || strings.Contains(names, " TypeError "):
			errors = 1
		}
	}
	p.guarded += imports
	p.caughtErrors += errors
	how := p.block(s.Body)
	p.guarded -= imports
	p.caughtErrors -= errors
	if how == onward {
		how = p.block(s.Orelse)
	}
	after := p.env.copy()
	left := how != onward
	for _, h := range s.Handlers {
		p.env.values = slices.Clone(before)
		p.env.merge(after) // the body may have come anywhere
		if h.Name != "" {
			p.env.set(h.Name, unknown)
		}
		p.maybe++
		p.handlers++
		how := p.block(h.Body)
		p.handlers--
		if how == onward {
			if left {
				after, left = p.env.copy(), false
			} else {
				after = after.join(p.env.values)
			}
		}
		p.maybe--
	}
	p.env.values = after
	if end := p.block(s.Finalbody); end != onward {
		return end
	}
	if left {
		return how
	}
	return onward
}

// caught lists the exceptions that a handler names, each between spaces.
func (p *Pass) caught(e pyast.Expr) string {
	switch e := e.(type) {
	case *pyast.Name:
		return " " + e.ID + " "
	case *pyast.Attribute:
		return " " + e.Attr + " "
	case *pyast.Tuple:
		var all string
		for _, x := range e.Elts {
			all += p.caught(x)
		}
		return all
	}
	return ""
}

// define binds a function. Its body is interpreted where it is called, and once more by itself if nobody calls it.
func (p *Pass) define(s *pyast.FunctionDef) {
	f := &Func{Name: s.Name, Node: s, Module: p.mod, env: p.env, Local: p.frame != nil}
	if old := p.mod.funcs[s]; old != nil { // the second turn of a loop, or another call of the function around
		f = old
		f.env = p.env
	} else {
		p.mod.funcs[s] = f
		p.mod.order = append(p.mod.order, f)
	}
	for _, d := range s.Args.Defaults {
		p.eval(d)
	}
	for _, d := range s.Args.KwDefaults {
		if d != nil {
			p.eval(d)
		}
	}
	v := &Value{Kind: Function, Func: f}
	for i := len(s.DecoratorList) - 1; i >= 0; i-- {
		d := p.eval(s.DecoratorList[i])
		if (d.Kind == API || d.Kind == Made) && (d.Path == "torch.no_grad" || d.Path == "torch.inference_mode") {
			f.noGrad = true
		}
		switch {
		case d.Kind == API && (d.Path == "builtins.property" || strings.HasSuffix(d.Path, "cached_property")):
			v = &Value{Kind: Function, Func: f, Path: "property"}
		case d.Kind == API && d.Path == "builtins.staticmethod":
			v = &Value{Kind: Function, Func: f, Path: "static"}
		case d.Kind == API && d.Path == "builtins.classmethod":
			v = &Value{Kind: Function, Func: f, Path: "class"}
		}
	}
	p.env.set(s.Name, v)
}

func (p *Pass) defineClass(s *pyast.ClassDef) {
	c := p.mod.classes[s]
	if c == nil {
		c = &Class{Name: s.Name, Node: s, Module: p.mod, Local: p.frame != nil, pass: p}
		p.mod.classes[s] = c
	}
	c.Bases = nil
	for _, b := range s.Bases {
		c.Bases = append(c.Bases, p.eval(b))
	}
	for _, k := range s.Keywords {
		p.eval(k.Value)
	}
	for _, d := range s.DecoratorList {
		p.eval(d)
	}
	outer := p.env
	scope := &env{outer: outer, class: true}
	p.env = scope
	if outer.unit != nil {
		scope.defs = s.Body
		for _, s := range s.Body {
			if _, def := s.(*pyast.FunctionDef); !def {
				if p.stmt(s) != onward {
					break
				}
			}
		}
	} else {
		p.block(s.Body)
	}
	c.scope = scope
	p.env = outer
	for _, v := range scope.all {
		if v.Kind == Function && v.Func.Class == nil {
			v.Func.Class = c
		}
	}
	p.env.set(s.Name, &Value{Kind: ClassDef, Class: c})
}

// defineLater defines the functions of a name in the body of a class of another file.
func (p *Pass) defineLater(scope *env, m *Unit, name string) {
	if scope.defs == nil || scope.made[name] {
		return
	}
	for _, s := range scope.defs {
		if f, def := s.(*pyast.FunctionDef); def && f.Name == name {
			if scope.made == nil {
				scope.made = map[string]bool{}
			}
			scope.made[name] = true
			p.apart(m, scope, func() { p.stmt(s) })
		}
	}
}

// annotated is what an annotation alone says.
func (p *Pass) annotated(e pyast.Expr) *Value {
	if e == nil {
		return unknown
	}
	quiet := p.quiet
	p.quiet = true
	v := p.eval(e)
	p.quiet = quiet
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

// bind gives targets their values.
func (p *Pass) bind(target pyast.Expr, v *Value, at pyast.Node) {
	switch t := target.(type) {
	case *pyast.Name:
		p.env.set(t.ID, v)
	case *pyast.Tuple:
		p.unpack(t.Elts, v, at)
	case *pyast.List:
		p.unpack(t.Elts, v, at)
	case *pyast.Starred:
		p.bind(t.Value, &Value{Kind: Seq}, at)
	case *pyast.Attribute:
		base := p.eval(t.Value)
		switch base.Kind {
		case Module, Instance, Parsed:
			if base.Attrs == nil {
				base.Attrs = map[string]*Value{}
			}
			if base.Kind == Module && v.Kind == Tensor && v.Path == "sized" && v.Text == "" && !p.quiet {
				w := *v
				w.Text = Plain // neither parameter nor buffer: .to() of the module leaves it behind
				v = &w
			}
			if p.maybe > 0 {
				v = join(base.Attrs[t.Attr], v)
			}
			base.Attrs[t.Attr] = v
		case API:
			p.pseudo(base.Path+"."+t.Attr+".__set__", at, target, []*Value{v}, valueOf(at))
		case Tensor:
			if t.Attr == "data" && v.Kind == Tensor {
				return
			}
		case Made, Optimizer, Loader:
			if base.Attrs == nil {
				base.Attrs = map[string]*Value{}
			}
			base.Attrs[t.Attr] = v
		}
	case *pyast.Subscript:
		base, index := p.eval(t.Value), p.eval(t.Slice)
		switch base.Kind {
		case API:
			p.pseudo(base.Path+".__setitem__", at, target, []*Value{index, v}, t.Slice, valueOf(at))
		case Dict:
			if index.Kind == Str {
				base.Attrs[index.Text] = v
			}
		}
	}
}

func valueOf(at pyast.Node) pyast.Expr {
	switch s := at.(type) {
	case *pyast.Assign:
		return s.Value
	case *pyast.AnnAssign:
		return s.Value
	case *pyast.AugAssign:
		return s.Value
	}
	return nil
}

func (p *Pass) unpack(targets []pyast.Expr, v *Value, at pyast.Node) {
	for i, t := range targets {
		e := unknown
		switch v.Kind {
		case Seq:
			if len(v.Items) == len(targets) {
				e = v.Items[i]
			}
		case Tensor, Array:
			e = v
		}
		p.bind(t, e, at)
	}
}
