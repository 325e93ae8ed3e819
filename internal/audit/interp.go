package audit

import (
	"slices"
	"strconv"
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

// env is a scope: names and what they are bound to, so far. The names that have been met stay in their order, so that what they are bound to on one
// way through the program is a list, and a branch is taken and joined without looking names up.
type env struct {
	keys   []string
	index  map[string]int // of keys, where there are many
	values bindings
	outer  *env
	global map[string]bool // declared global or nonlocal
	class  bool            // a class's body, which functions within do not see
	unit   *Unit           // the file that it is the top of, where others import it
	defs   []pyast.Stmt    // of a class of such a file: its body, whose functions are defined when they are asked for
	made   map[string]bool // those that were
}

// bindings are values in the order of a scope's keys; nil is unbound, and so is what lies beyond the end.
type bindings []*Value

// few names are compared one by one.
const few = 16

func (e *env) slot(name string) int {
	if e.index != nil {
		if i, ok := e.index[name]; ok {
			return i
		}
		return -1
	}
	for i, k := range e.keys {
		if k == name {
			return i
		}
	}
	return -1
}

// get is what a name is bound to in this scope; nil if it is not.
func (e *env) get(name string) *Value {
	if i := e.slot(name); i >= 0 && i < len(e.values) {
		return e.values[i]
	}
	return nil
}

// put binds a name in this scope; nil unbinds it.
func (e *env) put(name string, v *Value) {
	i := e.slot(name)
	if i < 0 {
		i = len(e.keys)
		if i == 0 {
			e.keys = make([]string, 0, few/2)
		}
		e.keys = append(e.keys, name)
		if e.index != nil {
			e.index[name] = i
		} else if len(e.keys) > few {
			e.index = make(map[string]int, 4*few)
			for i, k := range e.keys {
				e.index[k] = i
			}
		}
	}
	e.values = e.values.upTo(i)
	e.values[i] = v
}

func (b bindings) upTo(i int) bindings {
	if i < len(b) {
		return b
	}
	if i >= cap(b) {
		more := make(bindings, len(b), max(8, 2*(i+1)))
		copy(more, b)
		b = more
	}
	return b[:i+1] // what lies behind the end of a list was never used
}

// all goes over the names that are bound.
func (e *env) all(yield func(string, *Value) bool) {
	for i, v := range e.values {
		if v != nil && !yield(e.keys[i], v) {
			return
		}
	}
}

func (e *env) set(name string, v *Value) {
	if e.global[name] {
		for o := e.outer; o != nil; o = o.outer {
			if old := o.get(name); old != nil || o.outer == nil {
				o.put(name, join(old, v))
				return
			}
		}
	}
	e.put(name, v)
}

// copy is taken before a branch; the values of outer scopes are shared.
func (e *env) copy() bindings { return slices.Clone(e.values) }

// join adds what another way through the program has bound.
func (b bindings) join(other bindings) bindings {
	b = b.upTo(len(other) - 1)
	for i, v := range other {
		if v != nil && b[i] != v {
			b[i] = join(b[i], v)
		}
	}
	return b
}

func (e *env) merge(other bindings) { e.values = e.values.join(other) }

// Func is a function or method of the project.
type Func struct {
	Name   string
	Node   *pyast.FunctionDef // nil for a lambda
	Lambda *pyast.Lambda
	Module *Unit
	Class  *Class
	Local  bool // defined within a function: it cannot be pickled
	env    *env // in which it was defined
	seen   map[string]*Value
	busy   int
	called bool
	noGrad bool // decorated so
}

// Class is a class of the project.
type Class struct {
	Name   string
	Node   *pyast.ClassDef
	Module *Unit
	Bases  []*Value
	Local  bool
	scope  *env
	pass   *Pass
	open   *Value // an instance whose place is open
}

// Derives reports whether one of the class's bases, at any distance, is the API class of that dotted name.
func (c *Class) Derives(path string) bool { return c.derives(path, 0) }

func (c *Class) derives(path string, depth int) bool {
	for _, b := range c.Bases {
		if b.Kind == API && b.Path == path || b.Kind == ClassDef && depth < 20 && b.Class.derives(path, depth+1) {
			return true
		}
	}
	return false
}

// moduleBases are classes whose instances are torch.nn.Modules.
var moduleBases = []string{"torch.nn.Module", "torch.nn.Sequential", "pytorch_lightning.LightningModule", "lightning.LightningModule", "lightning.pytorch.LightningModule",
	"torch.nn.ModuleList", "transformers.PreTrainedModel", "torch.jit.ScriptModule"}

// IsModule reports whether instances are torch.nn.Modules, as far as the source says.
func (c *Class) IsModule() bool {
	for _, b := range moduleBases {
		if c.Derives(b) {
			return true
		}
	}
	for _, b := range c.Bases {
		if b.Kind == API && strings.HasPrefix(b.Path, "torch.nn.") && !lower(b.Path[strings.LastIndexByte(b.Path, '.')+1:]) {
			return true
		}
	}
	return false
}

// own is what the class's body itself binds a name to, nil if it does not.
func (c *Class) own(name string) *Value {
	if c.scope == nil { // its body is being interpreted
		return nil
	}
	c.pass.defineLater(c.scope, c.Module, name)
	v := c.scope.get(name)
	if v != nil && v.Kind == Function && v.Func.Class == nil {
		v.Func.Class = c
	}
	return v
}

func (c *Class) lookup(name string) *Value {
	for depth := 0; c != nil && depth < 20; depth++ {
		if v := c.own(name); v != nil {
			return v
		}
		var next *Class
		for _, b := range c.Bases {
			if b.Kind == ClassDef {
				if next == nil {
					next = b.Class
				} else if v := b.Class.lookup(name); v != nil {
					return v
				}
			}
		}
		c = next
	}
	return nil
}

// Method is the class's function of that name, its own or inherited within the project; nil if there is none.
func (c *Class) Method(name string) *Func {
	if v := c.lookup(name); v != nil && v.Kind == Function {
		return v.Func
	}
	return nil
}

// Loop is a loop around the place where the Pass is.
type Loop struct {
	Node pyast.Node // For, While or a comprehension
	Over *Value     // what a for loop goes over
	Func *Func      // the function that it stands in
}

// Block is a with block around the place where the Pass is.
type Block struct {
	Path string // of the context manager
	Call *Call  // nil where it is no call
}

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

// Expressions ------------------------------------------------------------------------------------------------------------------

// Value is what is known of an expression where the Pass is; nothing is reported on the way.
func (p *Pass) Value(e pyast.Expr) *Value {
	quiet := p.quiet
	p.quiet = true
	v := p.eval(e)
	p.quiet = quiet
	return v
}

// read is the value of an expression that is also a target.
func (p *Pass) read(e pyast.Expr) *Value { return p.Value(e) }

func (p *Pass) eval(e pyast.Expr) *Value {
	if e == nil || p.nesting > maxNesting || p.steps > maxSteps {
		return unknown
	}
	p.steps++
	p.nesting++
	v := p.expression(e)
	p.nesting--
	if rules := p.rules.nodes[e.Kind()]; rules != nil && !p.quiet {
		for _, r := range rules {
			p.rule = r
			r.Node(p, e)
		}
	}
	return v
}

func (p *Pass) expression(e pyast.Expr) *Value {
	switch e := e.(type) {
	case *pyast.Name:
		if v := p.lookup(e.ID); v != nil {
			if v.lazy {
				v = p.resolve(v)
				p.env.set(e.ID, v)
			}
			return v
		}
		return builtin(e.ID)
	case *pyast.Constant:
		return p.constant(e)
	case *pyast.Attribute:
		return p.attribute(p.eval(e.Value), e)
	case *pyast.Call:
		return p.call(e)
	case *pyast.BinOp:
		return p.binary(e.Op, p.eval(e.Left), p.eval(e.Right), e)
	case *pyast.UnaryOp:
		v := p.eval(e.Operand)
		if e.Op == pyast.Not {
			if yes, known := v.Truth(); known {
				return boolean(!yes)
			}
			return unknown
		}
		if v.Kind == Number && e.Op == pyast.USub {
			n := *v
			n.Num = -n.Num
			n.Text = "-" + n.Text
			return &n
		}
		return v
	case *pyast.BoolOp:
		return p.boolOp(e)
	case *pyast.Compare:
		return p.compare(e)
	case *pyast.IfExp:
		yes, known := p.eval(e.Test).Truth()
		if known {
			if yes {
				if p.asksForCUDA(e.Test) {
					var v *Value
					p.under(e.Test, func() { v = p.eval(e.Body) })
					return v
				}
				return p.eval(e.Body)
			}
			return p.eval(e.Orelse)
		}
		p.maybe++
		var v *Value
		p.under(e.Test, func() { v = join(p.eval(e.Body), p.eval(e.Orelse)) })
		p.maybe--
		return v
	case *pyast.Tuple:
		return p.sequence(e.Elts)
	case *pyast.List:
		return p.sequence(e.Elts)
	case *pyast.Set:
		return p.sequence(e.Elts)
	case *pyast.Dict:
		d := &Value{Kind: Dict, Attrs: map[string]*Value{}}
		for i, k := range e.Keys {
			v := p.eval(e.Values[i])
			if k == nil {
				for name, a := range v.Attrs {
					d.Attrs[name] = a
				}
			} else if key := p.eval(k); key.Kind == Str {
				d.Attrs[key.Text] = v
			}
		}
		return d
	case *pyast.Subscript:
		return p.subscript(e)
	case *pyast.NamedExpr:
		v := p.eval(e.Value)
		p.env.set(e.Target.ID, v)
		return v
	case *pyast.Lambda:
		return &Value{Kind: Function, Func: &Func{Name: "lambda", Lambda: e, Module: p.mod, env: p.env, Local: true}}
	case *pyast.Starred:
		p.eval(e.Value)
	case *pyast.JoinedStr:
		return p.joined(e)
	case *pyast.Await:
		return p.eval(e.Value)
	case *pyast.Yield:
		p.eval(e.Value)
	case *pyast.YieldFrom:
		p.eval(e.Value)
	case *pyast.ListComp:
		return p.comprehension(e, e.Generators, func() *Value { return p.eval(e.Elt) })
	case *pyast.SetComp:
		return p.comprehension(e, e.Generators, func() *Value { return p.eval(e.Elt) })
	case *pyast.GeneratorExp:
		return p.comprehension(e, e.Generators, func() *Value { return p.eval(e.Elt) })
	case *pyast.DictComp:
		p.comprehension(e, e.Generators, func() *Value { p.eval(e.Key); return p.eval(e.Value) })
		return &Value{Kind: Dict, Attrs: map[string]*Value{}}
	case *pyast.Slice:
		p.eval(e.Lower)
		p.eval(e.Upper)
		p.eval(e.Step)
	}
	return unknown
}

// memo keeps values that many expressions share, for one worker: nothing in them belongs to a file.
type memo struct {
	texts   map[string]*Value    // by content
	numbers map[string]*Value    // by how they are written
	members map[[2]string]*Value // of APIs, by path and name
	methods map[string]*Value    // of unknown values, by name
}

// keepValues bounds each of the maps.
const keepValues = 20_000

func newMemo() *memo {
	return &memo{map[string]*Value{}, map[string]*Value{}, map[[2]string]*Value{}, map[string]*Value{}}
}

func keepValue[K comparable](in map[K]*Value, key K, v *Value) *Value {
	if len(in) >= keepValues {
		clear(in)
	}
	in[key] = v
	return v
}

func (p *Pass) constant(e *pyast.Constant) *Value {
	switch e.What {
	case pyast.Str:
		s := e.StringValue()
		if len(s) > 40 {
			return text(s)
		}
		if v := p.memo.texts[s]; v != nil {
			return v
		}
		s = strings.Clone(s) // the source shall not be kept for it
		return keepValue(p.memo.texts, s, text(s))
	case pyast.Int, pyast.Float, pyast.Complex:
		raw := e.Raw()
		if v := p.memo.numbers[raw]; v != nil {
			return v
		}
		key := strings.Clone(raw)
		raw = strings.ReplaceAll(key, "_", "")
		v := &Value{Kind: Number, Text: raw, Type: "int"}
		switch e.What {
		case pyast.Float:
			v.Type = "float"
			v.Num, _ = strconv.ParseFloat(raw, 64)
		case pyast.Complex:
			v.Type = "complex"
		default:
			if n, err := strconv.ParseInt(raw, 0, 64); err == nil {
				v.Num = float64(n)
			} else {
				v.Num, _ = strconv.ParseFloat(raw, 64)
			}
		}
		return keepValue(p.memo.numbers, key, v)
	case pyast.True:
		return trueVal
	case pyast.False:
		return falseVal
	case pyast.None:
		return noneVal
	}
	return unknown
}

func (p *Pass) sequence(elts []pyast.Expr) *Value {
	v := &Value{Kind: Seq, Items: make([]*Value, 0, min(len(elts), 64))}
	for i, x := range elts {
		item := p.eval(x)
		if _, star := x.(*pyast.Starred); star {
			v.Path = "open"
		}
		if i < 64 {
			v.Items = append(v.Items, item)
		}
	}
	return v
}

func (p *Pass) joined(e *pyast.JoinedStr) *Value {
	var b strings.Builder
	known, soft := true, false
	for _, part := range e.Values {
		switch part := part.(type) {
		case *pyast.Constant:
			b.WriteString(part.StringValue())
		case *pyast.FormattedValue:
			v := p.eval(part.Value)
			soft = soft || v.Soft
			switch {
			case part.FormatSpec != nil || part.Conversion != 0:
				known = false
			case v.Kind == Str:
				b.WriteString(v.Text)
			case v.Kind == Number && v.Text != "":
				b.WriteString(v.Text)
			case v.Kind == Device && b.Len() == 0 && len(e.Values) == 1:
				return v
			default:
				if s := b.String(); len(s) > 1 && strings.HasSuffix(s, ":") && isDevice(s[:len(s)-1]) { // f"cuda:{rank}"
					b.WriteString("0")
				} else {
					known = false
				}
			}
		}
	}
	if !known {
		return unknown
	}
	return &Value{Kind: Str, Text: b.String(), Soft: soft}
}

func (p *Pass) comprehension(at pyast.Expr, generators []*pyast.Comprehension, elt func() *Value) *Value {
	outer := p.env
	p.env = &env{outer: outer}
	depth, tests := len(p.loops), len(p.tests)
	for _, g := range generators {
		over := p.eval(g.Iter)
		if over.Kind == Seq && over.Text == "empty" {
			p.env, p.loops, p.tests = outer, p.loops[:depth], p.tests[:tests]
			return &Value{Kind: Seq, Path: "open"}
		}
		l := Loop{Node: at, Over: over}
		if p.frame != nil {
			l.Func = p.frame.fn
		}
		p.loops = append(p.loops, l)
		p.bind(g.Target, p.element(over), at)
		for _, c := range g.Ifs {
			if _, known := p.eval(c).Truth(); !known {
				p.tests = append(p.tests, openTest{c, p.mod})
			}
		}
	}
	v := elt()
	p.tests = p.tests[:tests]
	p.loops = p.loops[:depth]
	p.env = outer
	return &Value{Kind: Seq, Items: []*Value{v}, Path: "open"}
}

func (p *Pass) boolOp(e *pyast.BoolOp) *Value {
	var last *Value
	open := false
	tests := len(p.tests)
	defer func() { p.tests = p.tests[:tests] }()
	for i, x := range e.Values {
		v := p.eval(x)
		yes, known := v.Truth()
		if known && yes == (e.Op == pyast.Or) {
			if open && v.Kind != Bool {
				return unknown
			}
			return v // decided: the rest is not asked
		}
		if !known && i < len(e.Values)-1 {
			open = true
			p.tests = append(p.tests, openTest{x, p.mod})
		}
		last = v
	}
	if open {
		if last.Kind == Str || last.Kind == Device {
			return last.softened()
		}
		return unknown
	}
	return last
}

func (p *Pass) compare(e *pyast.Compare) *Value {
	left := p.eval(e.Left)
	if len(e.Comparators) != 1 {
		for _, c := range e.Comparators {
			p.eval(c)
		}
		return unknown
	}
	right := p.eval(e.Comparators[0])
	if left.Kind == Tensor || right.Kind == Tensor {
		if e.Ops[0] != pyast.Is && e.Ops[0] != pyast.IsNot && e.Ops[0] != pyast.In && e.Ops[0] != pyast.NotIn {
			if !p.quiet && left.Kind == right.Kind {
				p.pseudo("torch.Tensor.__compare__", e, nil, []*Value{left, right})
			}
			return &Value{Kind: Tensor, Where: orOpen(placesOf(left, right)), Type: "bool"}
		}
		return unknown
	}
	if left.Soft || right.Soft {
		return unknown
	}
	a, b := left, right
	switch e.Ops[0] {
	case pyast.Eq, pyast.NotEq, pyast.Is, pyast.IsNot:
		equal, known := false, false
		switch {
		case a.Kind == Str && b.Kind == Str:
			equal, known = a.Text == b.Text, true
		case a.Kind == Number && b.Kind == Number && a.Text+b.Text != "":
			equal, known = a.Num == b.Num, true
		case a.Kind == None && b.Kind == None:
			equal, known = true, true
		case a.Kind == None && b.mayBeNone() || b.Kind == None && a.mayBeNone():
		case a.Kind == None || b.Kind == None:
			known = a.Kind != Str && b.Kind != Str && a.Kind != Number && b.Kind != Number
		case a.Kind == Device && b.Kind == Str || a.Kind == Str && b.Kind == Device || a.Kind == Device && b.Kind == Device:
			x, y := a.place(), b.place()
			if single(x) && single(y) {
				equal, known = x == y, true
			} else if x&y == 0 && (x|y)&Open == 0 {
				known = true
			}
		}
		if known {
			return boolean(equal == (e.Ops[0] == pyast.Eq || e.Ops[0] == pyast.Is))
		}
	case pyast.In, pyast.NotIn:
		if a.Kind == Str && b.Kind == Seq && b.Path == "" {
			found := false
			for _, i := range b.Items {
				if i.Kind != Str {
					return unknown
				}
				found = found || i.Text == a.Text
			}
			return boolean(found == (e.Ops[0] == pyast.In))
		}
		if a.Kind == Str && b.Kind == Str {
			return boolean(strings.Contains(b.Text, a.Text) == (e.Ops[0] == pyast.In))
		}
	case pyast.Gt, pyast.Lt, pyast.GtE, pyast.LtE:
		if a.Kind == Number && b.Kind == Number && (a.Text != "" || b.Text != "") && a.Type+b.Type != "" {
			x, y := a.Num, b.Num
			return boolean(map[pyast.Op]bool{pyast.Gt: x > y, pyast.Lt: x < y, pyast.GtE: x >= y, pyast.LtE: x <= y}[e.Ops[0]])
		}
	}
	return unknown
}

func single(d Devices) bool { return d != Open && d&(d-1) == 0 && d != 0 }

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

func (p *Pass) binary(op pyast.Op, a, b *Value, at pyast.Node) *Value {
	if a.Kind == Tensor || b.Kind == Tensor {
		if !p.quiet && a.Kind == Tensor && b.Kind == Tensor {
			name := "torch.Tensor.__" + strings.ToLower(op.String()) + "__"
			p.pseudo(name, at, nil, []*Value{a, b})
		}
		if !p.quiet && (a.Kind == Array && a.Path == "sized" || b.Kind == Array && b.Path == "sized") {
			p.pseudo("torch.Tensor.__array__", at, nil, []*Value{a, b})
		}
		v := &Value{Kind: Tensor, Where: orOpen(placesOf(a, b))}
		v.Type = promote(a, b, op)
		v.Path = a.Path
		if a.Kind != Tensor {
			v.Path = b.Path
		}
		if v.Path == "batch" {
			v.Path = ""
		}
		return v
	}
	if (a.Kind == Array || b.Kind == Array) && a.Kind != Tensor && b.Kind != Tensor {
		v := &Value{Kind: Array, Type: a.Type}
		switch {
		case a.Kind == Array && b.Kind == Array:
			if a.Type != b.Type {
				v.Type = ""
				if a.Type == "float64" || b.Type == "float64" {
					v.Type = "float64"
				}
			}
		case b.Kind == Array:
			v.Type = b.Type
		}
		if op == pyast.Div && (strings.HasPrefix(v.Type, "int") || strings.HasPrefix(v.Type, "uint")) {
			v.Type = "float64"
		}
		return v
	}
	switch {
	case a.Kind == Str && b.Kind == Str && op == pyast.Add:
		return &Value{Kind: Str, Text: a.Text + b.Text, Soft: a.Soft || b.Soft}
	case a.Kind == Str && op == pyast.Add && isDevice(strings.TrimSuffix(a.Text, ":")) && strings.HasSuffix(a.Text, ":"): // "cuda:" + str(rank)
		return &Value{Kind: Str, Text: a.Text + "0", Soft: a.Soft}
	case a.Kind == Number && b.Kind == Number && a.Text != "" && b.Text != "":
		v := &Value{Kind: Number, Type: a.Type, Soft: a.Soft || b.Soft}
		if b.Type == "float" || op == pyast.Div {
			v.Type = "float"
		}
		switch op {
		case pyast.Add:
			v.Num = a.Num + b.Num
		case pyast.Sub:
			v.Num = a.Num - b.Num
		case pyast.Mult:
			v.Num = a.Num * b.Num
		case pyast.Div:
			if b.Num == 0 {
				return unknown
			}
			v.Num = a.Num / b.Num
		case pyast.FloorDiv:
			if b.Num == 0 {
				return unknown
			}
			v.Num = float64(int64(a.Num / b.Num))
		default:
			return &Value{Kind: Number, Type: v.Type, Soft: true}
		}
		v.Text = strconv.FormatFloat(v.Num, 'g', -1, 64)
		return v
	case a.Kind == Seq && b.Kind == Seq && op == pyast.Add:
		return &Value{Kind: Seq, Items: append(append([]*Value{}, a.Items...), b.Items...), Path: a.Path + b.Path}
	case a.Kind == Seq && op == pyast.Mult:
		return &Value{Kind: Seq, Items: a.Items, Path: "open"}
	}
	return unknown
}

// promote is the dtype of an operation between tensors, or a tensor and a number, where it is clear.
func promote(a, b *Value, op pyast.Op) string {
	if a.Kind == Tensor && b.Kind == Tensor {
		switch {
		case a.Type == b.Type:
			return a.Type
		case a.Type == "float64" || b.Type == "float64":
			return ""
		}
		return ""
	}
	t := a
	n := b
	if a.Kind != Tensor {
		t, n = b, a
	}
	if strings.HasPrefix(t.Type, "int") || t.Type == "bool" || strings.HasPrefix(t.Type, "uint") {
		if op == pyast.Div || n.Kind == Number && n.Type == "float" {
			return "float32"
		}
		if n.Kind != Number {
			return ""
		}
	}
	if n.Kind == Array {
		return ""
	}
	return t.Type
}

func (p *Pass) subscript(e *pyast.Subscript) *Value {
	base, index := p.eval(e.Value), p.eval(e.Slice)
	switch base.Kind {
	case Tensor, Array:
		return base
	case Seq:
		if index.Kind == Number && base.Path == "" && index.Text != "" {
			i := int(index.Num)
			if i < 0 {
				i += len(base.Items)
			}
			if i >= 0 && i < len(base.Items) {
				return base.Items[i]
			}
		}
		if _, slice := e.Slice.(*pyast.Slice); slice {
			return &Value{Kind: Seq, Items: base.Items, Path: "open"}
		}
		if base.Path == "open" || base.Path == "parameters" {
			return p.element(base)
		}
	case Dict:
		if index.Kind == Str {
			if v := base.Attrs[index.Text]; v != nil {
				return v
			}
		}
	case API:
		if base.Path == "os.environ" {
			return &Value{Kind: Str, Soft: true}
		}
		if strings.HasPrefix(base.Path, "typing.") || strings.HasPrefix(base.Path, "builtins.") {
			return unknown
		}
	case Module:
		if base.Path == "torch.nn.ModuleList" || base.Path == "torch.nn.Sequential" || base.Path == "torch.nn.ModuleDict" {
			if index.Kind == Number && len(base.Items) > int(index.Num) && index.Num >= 0 {
				if m := base.Items[int(index.Num)]; m.Kind == Module {
					return p.child(base, m)
				}
			}
			return &Value{Kind: Module, Where: base.Where}
		}
	case StateDict:
		return &Value{Kind: Tensor, Where: orOpen(base.Where), Type: base.Type}
	}
	return unknown
}

// child is a part of a module, which lives where the whole does.
func (p *Pass) child(whole, part *Value) *Value {
	if whole.Where == part.Where || part.Where&^OnCPU != 0 && part.Where != Open && !whole.Where.May(OnMPS) {
		return part
	}
	if whole.Where == OnCPU || whole.Where == 0 {
		return part
	}
	c := *part
	c.Where = whole.Where
	c.Soft = c.Soft || whole.Soft
	return &c
}

var builtinValues = map[string]*Value{}

func init() {
	for _, name := range strings.Fields(`print len range enumerate zip float int bool str list tuple dict set sum min max abs sorted open map filter isinstance hasattr getattr
		setattr super property staticmethod classmethod type repr format round iter next any all reversed divmod id input exit quit object complex bytes vars
		globals locals eval exec compile __import__ Exception RuntimeError ValueError ImportError NotImplementedError`) {
		builtinValues[name] = &Value{Kind: API, Path: "builtins." + name}
	}
}

func builtin(name string) *Value {
	if v := builtinValues[name]; v != nil {
		return v
	}
	return unknown
}

// Plain is the Text of a tensor that is an attribute of a module, and neither a parameter nor a buffer.
const Plain = "plain"

// moves reports whether a class has its own way of moving what it holds.
func moves(c *Class) bool {
	return c != nil && (c.lookup("_apply") != nil || c.lookup("to") != nil || c.lookup("cuda") != nil || c.lookup("__getattr__") != nil)
}

// Follows is the Path of a device that was asked of a tensor or a module: what is sent there goes where the other is, wherever that may be.
const Follows = "follows"

func (p *Pass) attribute(base *Value, e *pyast.Attribute) *Value {
	name := e.Attr
	if base == unknown {
		if v := p.memo.methods[name]; v != nil {
			return v
		}
		name = strings.Clone(name)
		return keepValue(p.memo.methods, name, &Value{Kind: API, Path: "?." + name, Self: unknown})
	}
	switch base.Kind {
	case API:
		key := [2]string{base.Path, name}
		v := p.memo.members[key]
		if v == nil {
			key = [2]string{strings.Clone(base.Path), strings.Clone(name)}
			v = keepValue(p.memo.members, key, p.apiMember(key[0], key[1], canonical(key[0]+"."+key[1])))
		}
		if base.Mod != nil && v.Kind == API {
			if v := p.member(base.Mod, name); v != nil {
				return v
			}
			return unknown
		}
		return v
	case Tensor:
		switch name {
		case "device":
			return &Value{Kind: Device, Where: base.Where, Soft: base.Soft, Path: Follows}
		case "dtype":
			return &Value{Kind: DType, Type: base.Type}
		case "data", "grad", "T", "H", "mT", "mH", "real", "imag":
			return base
		case "shape", "ndim", "layout", "names", "grad_fn", "itemsize", "nbytes", "requires_grad", "is_leaf":
			return unknown
		case "is_cuda":
			if single(base.Where) {
				return boolean(base.Where == OnCUDA)
			}
			return unknown
		case "is_mps":
			if single(base.Where) {
				return boolean(base.Where == OnMPS)
			}
			return unknown
		}
		return &Value{Kind: API, Path: "torch.Tensor." + name, Self: base}
	case Array:
		switch name {
		case "T", "real", "imag", "flat":
			return base
		case "dtype":
			return &Value{Kind: DType, Type: base.Type}
		case "shape", "ndim", "size":
			return unknown
		}
		return &Value{Kind: API, Path: "numpy.ndarray." + name, Self: base}
	case Module:
		if v := base.Attrs[name]; v != nil {
			if v.Kind == Module {
				return p.child(base, v)
			}
			if v.Kind == Tensor && v.Where == OnCPU && base.Where != OnCPU && (v.Text != Plain || moves(base.Class)) { // a parameter or buffer
				t := *v
				t.Where = base.Where
				return &t
			}
			return v
		}
		if base.Class != nil {
			if v := base.Class.lookup(name); v != nil {
				return p.bound(v, base)
			}
		}
		if name == "device" {
			return &Value{Kind: Device, Where: base.Where, Path: Follows}
		}
		if name == "training" {
			return unknown
		}
		return &Value{Kind: API, Path: "torch.nn.Module." + name, Self: base}
	case Instance:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		if base.Class != nil {
			if v := base.Class.lookup(name); v != nil {
				return p.bound(v, base)
			}
		}
		return &Value{Kind: API, Path: "?." + name, Self: base}
	case ClassDef:
		if v := base.Class.lookup(name); v != nil {
			return v
		}
	case Parsed:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		return unknown
	case Device:
		if name == "type" {
			if single(base.Where) && base.Where != OnOther {
				return &Value{Kind: Str, Text: base.Where.String(), Soft: base.Soft}
			}
			return &Value{Kind: Device, Where: base.Where, Soft: base.Soft}
		}
		return unknown
	case Optimizer:
		return &Value{Kind: API, Path: "torch.optim.Optimizer." + name, Self: base}
	case Loader:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		return &Value{Kind: API, Path: "torch.utils.data.DataLoader." + name, Self: base}
	case StateDict:
		return &Value{Kind: API, Path: "state_dict." + name, Self: base}
	case Dict:
		return &Value{Kind: API, Path: "dict." + name, Self: base}
	case Seq:
		return &Value{Kind: API, Path: "list." + name, Self: base}
	case Str:
		return &Value{Kind: API, Path: "str." + name, Self: base}
	case Made:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		if base.Path == "super" {
			for _, b := range base.Class.Bases {
				if b.Kind == ClassDef {
					if v := b.Class.lookup(name); v != nil {
						return p.bound(v, base.Self)
					}
				}
			}
			if base.Self != nil && base.Self.Kind == Module {
				return &Value{Kind: API, Path: "torch.nn.Module." + name, Self: base.Self}
			}
			return &Value{Kind: API, Path: "?." + name, Self: base.Self}
		}
		return &Value{Kind: API, Path: base.Path + "." + name, Self: base}
	}
	return &Value{Kind: API, Path: "?." + name, Self: base}
}

// apiMember is a name of an API, as an import binds it.
func (p *Pass) apiMember(base, name, path string) *Value {
	if v := p.known(path); v != nil && !calledNames[path] {
		return v
	}
	if dtype := dtypeNames[name]; dtype != "" && base == "torch" {
		return &Value{Kind: DType, Type: dtype, Path: path}
	}
	if base == "numpy" && (dtypeNames[name] != "" || numpyTypes[name] != "") {
		return &Value{Kind: DType, Type: numpyType(name), Path: path}
	}
	return &Value{Kind: API, Path: path}
}

// calledNames are those of known() that are functions: as an attribute they are not yet asked.
var calledNames = map[string]bool{}

func init() {
	for _, n := range strings.Fields(`torch.cuda.is_available torch.backends.cuda.is_built torch.distributed.is_nccl_available torch.cuda.is_bf16_supported
		torch.backends.cudnn.is_available torch.cuda.is_initialized torch.xpu.is_available torch.npu.is_available torch.hpu.is_available torch.mtia.is_available
		torch.backends.mps.is_available torch.backends.mps.is_built torch.mps.is_available torch.accelerator.is_available torch.mps.device_count
		torch.cuda.device_count torch.accelerator.current_accelerator platform.system platform.machine`) {
		calledNames[n] = true
	}
}

// bound is a member of a class as an instance gives it.
func (p *Pass) bound(v *Value, self *Value) *Value {
	if v.Kind != Function || v.Path == "static" {
		return v
	}
	if v.Path == "property" {
		return p.apply(v.Func, self, nil, nil, false)
	}
	return &Value{Kind: Function, Func: v.Func, Self: self, Path: v.Path}
}

// canonical is the name under which an API is documented.
func canonical(path string) string {
	pkg, rest, ok := strings.Cut(path, ".")
	if !ok {
		return path
	}
	last := rest[strings.LastIndexByte(rest, '.')+1:]
	switch pkg {
	case "torch":
		switch {
		case strings.HasPrefix(rest, "nn.modules.") && !lower(last):
			return "torch.nn." + last
		case strings.HasPrefix(rest, "distributions.") && strings.Count(rest, ".") == 2 && !lower(last):
			return "torch.distributions." + last
		case rest == "serialization.load" || rest == "serialization.save":
			return "torch." + last
		case rest == "nn.parameter.Parameter":
			return "torch.nn.Parameter"
		case strings.HasPrefix(rest, "functional."):
			return "torch." + last
		case strings.HasPrefix(rest, "optim.") && strings.Count(rest, ".") == 2 && !lower(last) && !strings.Contains(rest, "lr_scheduler") && !strings.Contains(rest, "swa_utils"):
			return "torch.optim." + last
		case strings.HasPrefix(rest, "utils.data.") && strings.Count(rest, ".") == 3 && !lower(last):
			return "torch.utils.data." + last
		case strings.HasPrefix(rest, "distributed.distributed_c10d."):
			return "torch.distributed." + last
		case strings.HasPrefix(rest, "amp.autocast_mode.") || strings.HasPrefix(rest, "amp.grad_scaler."):
			return "torch.amp." + last
		case strings.HasPrefix(rest, "cuda.amp.autocast_mode.") || strings.HasPrefix(rest, "cuda.amp.grad_scaler."):
			return "torch.cuda.amp." + last
		}
	case "tensorflow":
		if after, found := strings.CutPrefix(rest, "keras"); found && (after == "" || after[0] == '.') {
			return "keras" + after
		}
		if after, found := strings.CutPrefix(rest, "python.keras"); found && (after == "" || after[0] == '.') {
			return "keras" + after
		}
	case "pytorch_lightning":
		return path
	}
	return path
}
