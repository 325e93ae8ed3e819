package pyast

import (
	"slices"
	"strings"
)

// ScopeKind is what opens a scope.
type ScopeKind uint8

const (
	ModuleScope ScopeKind = iota
	ClassScope
	FunctionScope // also of a lambda
	ComprehensionScope
	TypeScope // of type parameters
)

// Scope is a region in which names are bound.
type Scope struct {
	Kind   ScopeKind
	Node   Node  // what opens it; nil for the module
	Parent int32 // index in Scopes.Scopes; -1 for the module
	name   string
}

// DefKind is how a name is bound.
type DefKind uint8

const (
	ImportDef      DefKind = iota // import, from … import
	AssignDef                     // =, := and annotated assignments with a value
	DeclareDef                    // name: type, without a value
	AugmentDef                    // +=
	ParamDef                      // a parameter
	FunctionDefDef                // def
	ClassDefDef                   // class
	LoopDef                       // the target of for, in statements and comprehensions
	WithDef                       // with … as name
	ExceptDef                     // except … as name
	MatchDef                      // a pattern
	TypeDef                       // a type parameter or type statement
	DeleteDef                     // del
	UnpackDef                     // part of an assignment's target: a, b = …
)

// Def is one place that binds a name.
type Def struct {
	Kind DefKind
	Node Node // the alias, name, parameter, function, class, handler or pattern
	// what is assigned, where one name gets one value; the default of a parameter; the iterable of a loop; the context
	// of with
	Value Expr
	Path  string // of an import: the dotted name
}

// Binding is a name of a scope with all that binds it, in the order of the source.
type Binding struct {
	Name  string
	Scope int32
	Defs  []Def
}

// Scopes says for the names of a file what they are bound to: its Scopes, the Bindings in them, and the dotted path of
// an expression. It looks at the source alone and not at the order in which it runs; Path says how it decides where a
// name has several definitions.
type Scopes struct {
	Scopes  []Scope
	Stars   []string // modules of from … import *
	module  string
	table   map[scopeName]*Binding
	pending int // depth of Path
	steps   int // names that one call of Path has looked at
	blocks  slab[Binding]

	nonlocals []scopeName
	defs      slab[Def]
}

type scopeName struct {
	scope int32
	name  string
}

// NewScopes binds the names of a file. The module is its dotted name, against which relative imports are read; that of
// a package ends in .__init__. It may be empty.
func NewScopes(f *File, module string) *Scopes {
	s := &Scopes{Scopes: []Scope{{Kind: ModuleScope, Parent: -1}}, module: module,
		table: make(map[scopeName]*Binding, len(f.Text)/256)}
	for _, n := range f.Body {
		s.visit(n, 0)
	}
	s.settle()
	return s
}

// settle gives the names that nonlocal declares to the functions around that bind them.
func (s *Scopes) settle() {
	grown := map[*Binding]bool{}
	for _, key := range s.nonlocals {
		own := s.table[key]
		for to := s.Scopes[key.scope].Parent; to > 0; to = s.Scopes[to].Parent {
			b := s.table[scopeName{to, key.name}]
			if b == nil || s.Scopes[to].Kind != FunctionScope {
				continue
			}
			// An outer function was settled before, so that b is where the name lives.
			b.Defs = append(b.Defs, own.Defs...)
			grown[b] = true
			s.table[key] = b
			break
		}
	}
	for b := range grown {
		slices.SortStableFunc(b.Defs, func(x, y Def) int { return x.Node.Pos() - y.Node.Pos() })
	}
}

func (s *Scopes) open(kind ScopeKind, n Node, parent int32, name string) int32 {
	s.Scopes = append(s.Scopes, Scope{kind, n, parent, name})
	return int32(len(s.Scopes) - 1)
}

func (s *Scopes) define(scope int32, name string, d Def) {
	key := scopeName{scope, name}
	b := s.table[key]
	if b == nil {
		b = s.blocks.new()
		b.Name, b.Scope, b.Defs = name, scope, s.defs.keep([]Def{d})
		s.table[key] = b
		return
	}
	b.Defs = append(b.Defs, d)
}

// target binds the names of an assignment's target.
func (s *Scopes) target(e Expr, scope int32, kind DefKind, value Expr) {
	switch e := e.(type) {
	case *Name:
		e.scope = scope
		s.define(scope, e.ID, Def{Kind: kind, Node: e, Value: value})
	case *Tuple:
		for _, x := range e.Elts {
			s.target(x, scope, unpacked(kind), nil)
		}
	case *List:
		for _, x := range e.Elts {
			s.target(x, scope, unpacked(kind), nil)
		}
	case *Starred:
		s.target(e.Value, scope, unpacked(kind), nil)
	case nil:
	default:
		s.visit(e, scope)
	}
}

func unpacked(kind DefKind) DefKind {
	if kind == AssignDef {
		return UnpackDef
	}
	return kind
}

func (s *Scopes) all(list []Expr, scope int32) {
	for _, e := range list {
		s.expr(e, scope)
	}
}

func (s *Scopes) expr(e Expr, scope int32) {
	if e != nil {
		s.visit(e, scope)
	}
}

func (s *Scopes) body(list []Stmt, scope int32) {
	for _, n := range list {
		s.visit(n, scope)
	}
}

// visit binds what is below a node that stands in a scope.
func (s *Scopes) visit(n Node, scope int32) {
	switch n := n.(type) {
	case *Name:
		n.scope = scope
		if n.Ctx == Del {
			s.define(scope, n.ID, Def{Kind: DeleteDef, Node: n})
		}
	case *Attribute:
		s.visit(n.Value, scope)
	case *Call:
		s.visit(n.Func, scope)
		s.all(n.Args, scope)
		for _, k := range n.Keywords {
			s.visit(k.Value, scope)
		}
	case *Constant, *Pass, *Break, *Continue:
	case *Subscript:
		s.visit(n.Value, scope)
		s.visit(n.Slice, scope)
	case *ExprStmt:
		s.visit(n.Value, scope)
	case *Return:
		s.expr(n.Value, scope)
	case *BinOp:
		s.visit(n.Left, scope)
		s.visit(n.Right, scope)
	case *Compare:
		s.visit(n.Left, scope)
		s.all(n.Comparators, scope)
	case *BoolOp:
		s.all(n.Values, scope)
	case *UnaryOp:
		s.visit(n.Operand, scope)
	case *Tuple:
		s.all(n.Elts, scope)
	case *List:
		s.all(n.Elts, scope)
	case *JoinedStr:
		s.all(n.Values, scope)
	case *If:
		s.visit(n.Test, scope)
		s.body(n.Body, scope)
		s.body(n.Orelse, scope)
	case *Assign:
		s.visit(n.Value, scope)
		for _, t := range n.Targets {
			s.target(t, scope, AssignDef, n.Value)
		}
	case *AnnAssign:
		s.visit(n.Annotation, scope)
		s.expr(n.Value, scope)
		if n.Value == nil {
			s.target(n.Target, scope, DeclareDef, nil)
		} else {
			s.target(n.Target, scope, AssignDef, n.Value)
		}
	case *AugAssign:
		s.visit(n.Value, scope)
		s.target(n.Target, scope, AugmentDef, nil)
	case *NamedExpr:
		s.visit(n.Value, scope)
		to := scope
		for s.Scopes[to].Kind == ComprehensionScope {
			to = s.Scopes[to].Parent
		}
		s.target(n.Target, to, AssignDef, n.Value)
		n.Target.scope = scope
	case *Import:
		for _, a := range n.Names {
			name, path := a.AsName, a.Name
			if name == "" {
				name, _, _ = strings.Cut(a.Name, ".")
				path = name
			}
			s.define(scope, name, Def{Kind: ImportDef, Node: a, Path: path})
		}
	case *ImportFrom:
		base := s.base(n)
		for _, a := range n.Names {
			if a.Name == "*" {
				s.Stars = append(s.Stars, base)
				continue
			}
			name := a.AsName
			if name == "" {
				name = a.Name
			}
			s.define(scope, name, Def{Kind: ImportDef, Node: a, Path: join(base, a.Name)})
		}
	case *Global:
		for _, name := range n.Names {
			s.redirect(scope, 0, name)
		}
	case *Nonlocal:
		for _, name := range n.Names {
			// The function around may bind the name only below: settle finds it.
			key := scopeName{scope, name}
			if s.table[key] == nil {
				s.table[key] = &Binding{Name: name, Scope: -1}
				s.nonlocals = append(s.nonlocals, key)
			}
		}
	case *FunctionDef:
		s.all(n.DecoratorList, scope)
		s.define(scope, n.Name, Def{Kind: FunctionDefDef, Node: n})
		outer := s.typeParams(n.TypeParams, n, scope)
		inner := s.function(n.Args, n, scope, outer, n.Name)
		s.expr(n.Returns, outer)
		s.body(n.Body, inner)
	case *Lambda:
		s.visit(n.Body, s.function(n.Args, n, scope, scope, "<lambda>"))
	case *ClassDef:
		s.all(n.DecoratorList, scope)
		s.define(scope, n.Name, Def{Kind: ClassDefDef, Node: n})
		outer := s.typeParams(n.TypeParams, n, scope)
		s.all(n.Bases, outer)
		for _, k := range n.Keywords {
			s.visit(k.Value, outer)
		}
		s.body(n.Body, s.open(ClassScope, n, outer, n.Name))
	case *TypeAlias:
		n.Name.scope = scope
		s.define(scope, n.Name.ID, Def{Kind: TypeDef, Node: n})
		s.visit(n.Value, s.typeParams(n.TypeParams, n, scope))
	case *For:
		s.visit(n.Iter, scope)
		s.target(n.Target, scope, LoopDef, n.Iter)
		s.body(n.Body, scope)
		s.body(n.Orelse, scope)
	case *With:
		for _, w := range n.Items {
			s.visit(w.ContextExpr, scope)
			s.target(w.OptionalVars, scope, WithDef, w.ContextExpr)
		}
		s.body(n.Body, scope)
	case *ExceptHandler:
		s.expr(n.Type, scope)
		if n.Name != "" {
			s.define(scope, n.Name, Def{Kind: ExceptDef, Node: n})
		}
		s.body(n.Body, scope)
	case *ListComp:
		inner := s.comprehension(n, n.Generators, scope)
		s.visit(n.Elt, inner)
	case *SetComp:
		inner := s.comprehension(n, n.Generators, scope)
		s.visit(n.Elt, inner)
	case *GeneratorExp:
		inner := s.comprehension(n, n.Generators, scope)
		s.visit(n.Elt, inner)
	case *DictComp:
		inner := s.comprehension(n, n.Generators, scope)
		s.visit(n.Key, inner)
		s.visit(n.Value, inner)
	case *MatchStar:
		s.capture(n.Name, n, scope)
	case *MatchAs:
		if n.Pattern != nil {
			s.visit(n.Pattern, scope)
		}
		s.capture(n.Name, n, scope)
	case *MatchMapping:
		Children(n, func(c Node) { s.visit(c, scope) })
		s.capture(n.Rest, n, scope)
	default:
		Children(n, func(c Node) { s.visit(c, scope) })
	}
}

func (s *Scopes) capture(name string, n Node, scope int32) {
	if name != "" {
		s.define(scope, name, Def{Kind: MatchDef, Node: n})
	}
}

// redirect makes a name of a scope that of another: global and nonlocal.
func (s *Scopes) redirect(from, to int32, name string) {
	if from == to {
		return
	}
	key := scopeName{to, name}
	b := s.table[key]
	if b == nil {
		b = &Binding{Name: name, Scope: to}
		s.table[key] = b
	}
	s.table[scopeName{from, name}] = b
}

func (s *Scopes) typeParams(list []*TypeParam, n Node, scope int32) int32 {
	if len(list) == 0 {
		return scope
	}
	inner := s.open(TypeScope, n, scope, "")
	for _, t := range list {
		s.define(inner, t.Name, Def{Kind: TypeDef, Node: t})
		s.expr(t.Bound, inner)
		s.expr(t.DefaultValue, inner)
	}
	return inner
}

// function opens the scope of a function and binds its parameters. Their defaults stand in the scope around it,
// annotations in outer, which also knows the type parameters.
func (s *Scopes) function(args *Arguments, n Node, scope, outer int32, name string) int32 {
	inner := s.open(FunctionScope, n, outer, name)
	for a, value := range args.All {
		s.expr(a.Annotation, outer)
		s.expr(value, scope)
		s.define(inner, a.Arg, Def{Kind: ParamDef, Node: a, Value: value})
	}
	return inner
}

func (s *Scopes) comprehension(n Node, list []*Comprehension, scope int32) int32 {
	inner := s.open(ComprehensionScope, n, scope, "")
	for i, c := range list {
		at := inner
		if i == 0 {
			at = scope
		}
		s.visit(c.Iter, at)
		s.target(c.Target, inner, LoopDef, c.Iter)
		s.all(c.Ifs, inner)
	}
	return inner
}

// base is the module that a from statement names.
func (s *Scopes) base(n *ImportFrom) string {
	if n.Level == 0 {
		return n.Module
	}
	if s.module == "" {
		return strings.Repeat(".", int(n.Level)) + n.Module
	}
	pkg := s.module
	for range n.Level {
		i := strings.LastIndexByte(pkg, '.')
		if i < 0 {
			return n.Module
		}
		pkg = pkg[:i]
	}
	if n.Module == "" {
		return pkg
	}
	return join(pkg, n.Module)
}

func join(base, name string) string {
	if base == "" || strings.HasSuffix(base, ".") {
		return base + name
	}
	return base + "." + name
}

// Lookup is the binding of a name that is looked up in a scope; nil where the file does not bind it.
func (s *Scopes) Lookup(name string, scope int32) *Binding {
	for first := true; scope >= 0; first = false {
		sc := &s.Scopes[scope]
		if first || sc.Kind != ClassScope {
			if b := s.table[scopeName{scope, name}]; b != nil {
				return b
			}
		}
		// A class is seen from its own level only, and from type parameters and comprehensions right in it: those look
		// on from there.
		if sc.Kind == TypeScope && s.Scopes[sc.Parent].Kind == ClassScope {
			if b := s.table[scopeName{sc.Parent, name}]; b != nil {
				return b
			}
		}
		scope = sc.Parent
	}
	return nil
}

// Binding is what a name of the file is bound to; nil where the file does not bind it.
func (s *Scopes) Binding(n *Name) *Binding { return s.Lookup(n.ID, n.scope) }

// ScopeOf is the scope in which a name is looked up.
func (s *Scopes) ScopeOf(n *Name) int32 { return n.scope }

// Path is the dotted path of a name or attribute: torch.nn.functional.conv2d. It follows imports and aliases (T =
// torch.Tensor). A function or class of this file has one if its module is known. A name that only Python's builtins
// have is builtins.NAME. Path is empty where nothing of the kind is known.
//
// Where a name has several definitions, those that say nothing (x = None, a declaration) are passed over. If the others
// do not agree, the last one before the name counts if both stand in one scope, and none otherwise.
func (s *Scopes) Path(e Expr) string {
	depth := 0
	for x := e; depth <= maxPath; depth++ {
		a, ok := x.(*Attribute)
		if !ok {
			break
		}
		x = a.Value
	}
	if depth > maxPath {
		return ""
	}
	return s.path(e)
}

// No program has longer paths or more aliases of aliases; what is made to have them shall not take long.
const (
	maxPath  = 64
	maxDefs  = 64
	maxSteps = 500
)

func (s *Scopes) path(e Expr) string {
	switch e := e.(type) {
	case *Attribute:
		if base := s.path(e.Value); base != "" {
			return join(base, e.Attr)
		}
	case *Name:
		b := s.Binding(e)
		if b == nil {
			switch {
			case builtins[e.ID]:
				return "builtins." + e.ID
			case len(s.Stars) == 1:
				return join(s.Stars[0], e.ID)
			}
			return ""
		}
		if s.pending == 0 {
			s.steps = 0
		}
		s.steps++
		if s.pending > 32 || s.steps > maxSteps || len(b.Defs) > maxDefs { // a = b; b = a ends here, too
			return ""
		}
		s.pending++
		path := s.ofBinding(b, e)
		s.pending--
		return path
	}
	return ""
}

// ofBinding is the path of a binding where a name stands.
func (s *Scopes) ofBinding(b *Binding, e *Name) string {
	path, last, agreed, found := "", "", true, 0
	for _, d := range b.Defs {
		if d.empty() {
			continue
		}
		p := s.pathOf(b, d)
		agreed = agreed && (found == 0 || p == path)
		path = p
		found++
		if d.Node.End() <= e.Pos() {
			last = p
		}
	}
	switch {
	case agreed:
		return path
	case b.Scope == e.scope:
		return last
	}
	return ""
}

// empty says that a definition gives a name no object of its own.
func (d *Def) empty() bool {
	if d.Kind == DeclareDef || d.Kind == DeleteDef {
		return true
	}
	c, ok := d.Value.(*Constant)
	return ok && d.Kind == AssignDef && c.What == None
}

func (s *Scopes) pathOf(b *Binding, d Def) string {
	switch d.Kind {
	case ImportDef:
		return d.Path
	case AssignDef:
		switch d.Value.(type) {
		case *Name, *Attribute:
			return s.Path(d.Value)
		}
	case FunctionDefDef, ClassDefDef:
		if s.module == "" {
			return ""
		}
		path := b.Name
		for i := b.Scope; i > 0; i = s.Scopes[i].Parent {
			switch s.Scopes[i].Kind {
			case ClassScope:
				path = s.Scopes[i].name + "." + path
			case FunctionScope:
				path = s.Scopes[i].name + ".<locals>." + path
			}
		}
		return strings.TrimSuffix(s.module, ".__init__") + "." + path
	}
	return ""
}

var builtins = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(`abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex
		delattr dict dir divmod enumerate eval exec filter float format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass
		iter len list locals map max memoryview min next object oct open ord pow print property range repr reversed round set setattr slice sorted
		staticmethod str sum super tuple type vars zip __import__ NotImplemented BaseException Exception ArithmeticError AssertionError AttributeError
		BufferError EOFError FileNotFoundError ImportError IndexError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError
		NotImplementedError OSError IOError OverflowError PermissionError RecursionError RuntimeError StopIteration SystemExit TimeoutError TypeError
		UnicodeDecodeError UnicodeEncodeError UnicodeError ValueError Warning DeprecationWarning FutureWarning RuntimeWarning UserWarning
		ZeroDivisionError ExceptionGroup BaseExceptionGroup`) {
		m[n] = true
	}
	return m
}()
