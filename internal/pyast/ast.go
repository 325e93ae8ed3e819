package pyast

// Span is a range of bytes [From, To) of the source, the one that CPython gives the node as (lineno, col_offset) and
// (end_lineno, end_col_offset).
type Span struct{ From, To int32 }

// Pos is the offset of the node's first byte.
func (s *Span) Pos() int { return int(s.From) }

// End is the offset behind the node's last byte.
func (s *Span) End() int { return int(s.To) }

func (s *Span) span() *Span { return s }

// Node is a node of the tree: a statement, an expression, a pattern, or one of their parts.
type Node interface {
	Pos() int
	End() int
	Kind() Kind // Kind().String() is the name of CPython's class
	span() *Span
}

// Expr is an expression.
type Expr interface {
	Node
	expr()
}

// Stmt is a statement.
type Stmt interface {
	Node
	stmt()
}

// Pattern is what a case clause matches.
type Pattern interface {
	Node
	pattern()
}

// Context says whether a name, attribute, subscript, list, tuple or starred expression is read, bound or deleted.
type Context uint8

const (
	Load Context = iota
	Store
	Del
)

func (c Context) String() string { return [...]string{"Load", "Store", "Del"}[c] }

// Op is an operator.
type Op uint8

const (
	NoOp Op = iota
	And
	Or
	Add
	Sub
	Mult
	MatMult
	Div
	Mod
	Pow
	LShift
	RShift
	BitOr
	BitXor
	BitAnd
	FloorDiv
	Invert
	Not
	UAdd
	USub
	Eq
	NotEq
	Lt
	LtE
	Gt
	GtE
	Is
	IsNot
	In
	NotIn
)

var opNames = [...]string{"", "And", "Or", "Add", "Sub", "Mult", "MatMult", "Div", "Mod", "Pow", "LShift", "RShift",
	"BitOr", "BitXor", "BitAnd", "FloorDiv",
	"Invert", "Not", "UAdd", "USub", "Eq", "NotEq", "Lt", "LtE", "Gt", "GtE", "Is", "IsNot", "In", "NotIn"}

// String is the name of CPython's class of the operator.
func (o Op) String() string { return opNames[o] }

// ConstKind is what a constant is.
type ConstKind uint8

const (
	None ConstKind = iota
	True
	False
	Ellipsis
	Int
	Float
	Complex
	Str
	Bytes
)

// Expressions. Field names are those of CPython's ast.
type (
	BoolOp struct {
		Span
		Op     Op // And, Or
		Values []Expr
	}
	NamedExpr struct {
		Span
		Target *Name
		Value  Expr
	}
	BinOp struct {
		Span
		Op          Op
		Left, Right Expr
	}
	UnaryOp struct {
		Span
		Op      Op
		Operand Expr
	}
	Lambda struct {
		Span
		Args *Arguments
		Body Expr
	}
	IfExp struct {
		Span
		Test, Body, Orelse Expr
	}
	// Dict has one key for each value; it is nil where the value is unpacked (**value).
	Dict struct {
		Span
		Keys, Values []Expr
	}
	Set struct {
		Span
		Elts []Expr
	}
	ListComp struct {
		Span
		Elt        Expr
		Generators []*Comprehension
	}
	SetComp struct {
		Span
		Elt        Expr
		Generators []*Comprehension
	}
	DictComp struct {
		Span
		Key, Value Expr
		Generators []*Comprehension
	}
	GeneratorExp struct {
		Span
		Elt        Expr
		Generators []*Comprehension
	}
	Await struct {
		Span
		Value Expr
	}
	Yield struct {
		Span
		Value Expr // may be nil
	}
	YieldFrom struct {
		Span
		Value Expr
	}
	Compare struct {
		Span
		Left        Expr
		Ops         []Op
		Comparators []Expr
	}
	Call struct {
		Span
		Func     Expr
		Args     []Expr // positional ones, *args (Starred) included
		Keywords []*Keyword
	}
	// FormattedValue is a replacement field of an f-string.
	FormattedValue struct {
		Span
		Conversion byte // 's', 'r', 'a'; 0 for none
		Value      Expr
		FormatSpec *JoinedStr // may be nil
	}
	// Interpolation is a replacement field of a t-string.
	Interpolation struct {
		Span
		Conversion byte
		Value      Expr
		Str        string // the expression's source
		FormatSpec *JoinedStr
	}
	// JoinedStr is an f-string, or several literals next to each other of which one is an f-string. Values are Constant
	// and FormattedValue.
	JoinedStr struct {
		Span
		split  bool // a format specification that CPython reads in pieces; see formatSpec
		Values []Expr
	}
	// TemplateStr is a t-string. Values are Constant and Interpolation.
	TemplateStr struct {
		Span
		Values []Expr
	}
	Attribute struct {
		Span
		Ctx   Context
		At    int32 // offset of the attribute's name
		Value Expr
		Attr  string
	}
	Subscript struct {
		Span
		Ctx   Context
		Value Expr
		Slice Expr
	}
	Starred struct {
		Span
		Ctx   Context
		Value Expr
	}
	Name struct {
		Span
		Ctx   Context
		scope int32 // set by NewScopes: the index of the scope in which the name is looked up
		ID    string
	}
	List struct {
		Span
		Ctx  Context
		Elts []Expr
	}
	Tuple struct {
		Span
		Ctx  Context
		Elts []Expr
	}
	Slice struct {
		Span
		Lower, Upper, Step Expr // may be nil
	}
	// BadExpr stands where a part of an f-string or another expression could not be read.
	BadExpr struct{ Span }
)

// Statements.
type (
	FunctionDef struct {
		Span
		Async         bool
		Generator     bool  // it yields itself, not within another function
		At            int32 // offset of the name
		Name          string
		Args          *Arguments
		Body          []Stmt
		DecoratorList []Expr
		Returns       Expr
		TypeParams    []*TypeParam
	}
	ClassDef struct {
		Span
		At            int32
		Name          string
		Bases         []Expr
		Keywords      []*Keyword
		Body          []Stmt
		DecoratorList []Expr
		TypeParams    []*TypeParam
	}
	Return struct {
		Span
		Value Expr
	}
	Delete struct {
		Span
		Targets []Expr
	}
	Assign struct {
		Span
		Targets []Expr
		Value   Expr
	}
	TypeAlias struct {
		Span
		Name       *Name
		TypeParams []*TypeParam
		Value      Expr
	}
	AugAssign struct {
		Span
		Op     Op
		Target Expr
		Value  Expr
	}
	AnnAssign struct {
		Span
		Simple     bool // the target is a name without parentheses
		Target     Expr
		Annotation Expr
		Value      Expr // may be nil
	}
	For struct {
		Span
		Async  bool
		Target Expr
		Iter   Expr
		Body   []Stmt
		Orelse []Stmt
	}
	While struct {
		Span
		Test   Expr
		Body   []Stmt
		Orelse []Stmt
	}
	If struct {
		Span
		Test   Expr
		Body   []Stmt
		Orelse []Stmt // one If for elif
	}
	With struct {
		Span
		Async bool
		Items []*WithItem
		Body  []Stmt
	}
	Match struct {
		Span
		Subject Expr
		Cases   []*MatchCase
	}
	Raise struct {
		Span
		Exc, Cause Expr
	}
	Try struct {
		Span
		Star      bool // except*
		Body      []Stmt
		Handlers  []*ExceptHandler
		Orelse    []Stmt
		Finalbody []Stmt
	}
	Assert struct {
		Span
		Test, Msg Expr
	}
	Import struct {
		Span
		Names []*Alias
	}
	ImportFrom struct {
		Span
		Level  int32 // dots
		Module string
		Names  []*Alias
	}
	Global struct {
		Span
		Names []string
	}
	Nonlocal struct {
		Span
		Names []string
	}
	// ExprStmt is CPython's Expr: an expression as a statement.
	ExprStmt struct {
		Span
		Value Expr
	}
	Pass     struct{ Span }
	Break    struct{ Span }
	Continue struct{ Span }
	// Bad is a statement that could not be read; Body holds the statements inside it that could.
	Bad struct {
		Span
		Body []Stmt
	}
)

// Parts of statements and expressions. Comprehension, Arguments, WithItem and MatchCase have no position in CPython.
type (
	Comprehension struct {
		Span
		Async  bool
		Target Expr
		Iter   Expr
		Ifs    []Expr
	}
	ExceptHandler struct {
		Span
		Type Expr // may be nil
		Name string
		Body []Stmt
	}
	Arguments struct {
		Span
		Posonlyargs []*Arg
		Args        []*Arg
		Vararg      *Arg
		Kwonlyargs  []*Arg
		KwDefaults  []Expr // one for each of Kwonlyargs; nil where there is none
		Kwarg       *Arg
		Defaults    []Expr // of the last of Posonlyargs and Args
	}
	Arg struct {
		Span
		Arg        string
		Annotation Expr
	}
	// Keyword is name=value in a call; Arg is empty for **value.
	Keyword struct {
		Span
		Arg   string
		Value Expr
	}
	Alias struct {
		Span
		Name   string // dotted; "*" for all
		AsName string
	}
	WithItem struct {
		Span
		ContextExpr  Expr
		OptionalVars Expr
	}
	MatchCase struct {
		Span
		Pattern Pattern
		Guard   Expr
		Body    []Stmt
	}
	// TypeParam is a TypeVar, a TypeVarTuple (Stars 1) or a ParamSpec (Stars 2).
	TypeParam struct {
		Span
		Stars        uint8
		Name         string
		Bound        Expr
		DefaultValue Expr
	}
)

// Patterns.
type (
	MatchValue struct {
		Span
		Value Expr
	}
	MatchSingleton struct {
		Span
		Value ConstKind // None, True, False
	}
	MatchSequence struct {
		Span
		Patterns []Pattern
	}
	MatchMapping struct {
		Span
		Keys     []Expr
		Patterns []Pattern
		Rest     string
	}
	MatchClass struct {
		Span
		Cls         Expr
		Patterns    []Pattern
		KwdAttrs    []string
		KwdPatterns []Pattern
	}
	MatchStar struct {
		Span
		Name string // empty for _
	}
	MatchAs struct {
		Span
		Pattern Pattern // may be nil
		Name    string  // empty for _
	}
	MatchOr struct {
		Span
		Patterns []Pattern
	}
)
