package pyast

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
)

// DumpOptions are what older CPythons know otherwise.
type DumpOptions struct {
	LooseFStrings bool // leave positions inside f-strings out: before 3.12 CPython guessed them
}

// Dump appends the tree as text: each node with CPython's name, its position and its fields. testdata/oracle.py writes
// the same text of CPython's tree.
func (f *File) Dump(dst []byte, opts DumpOptions) []byte {
	d := dumper{f: f, out: dst, opts: opts}
	for _, s := range f.Body {
		d.node(s)
		d.out = append(d.out, '\n')
	}
	return d.out
}

type dumper struct {
	f     *File
	out   []byte
	opts  DumpOptions
	loose int
	line  int // of the last position, to look there first
	nodes int // that were written
}

func (d *dumper) position(at int32) {
	lines := d.f.Lines
	if d.line >= len(lines) || lines[d.line] > at || d.line+1 < len(lines) && lines[d.line+1] <= at {
		if d.line+2 < len(lines) && lines[d.line+1] <= at && at < lines[d.line+2] {
			d.line++
		} else {
			n, _ := d.f.Position(int(at))
			d.line = n - 1
		}
	}
	d.out = strconv.AppendInt(d.out, int64(d.line+1), 10)
	d.out = append(d.out, ':')
	d.out = strconv.AppendInt(d.out, int64(at-lines[d.line]), 10)
}

func (d *dumper) str(s string) {
	d.out = append(d.out, '"')
	d.out = append(d.out, s...)
	d.out = append(d.out, '"')
}

// optional writes an identifier that may be missing.
func (d *dumper) optional(s string) {
	if s == "" {
		d.out = append(d.out, '-')
		return
	}
	d.str(s)
}

func (d *dumper) expr(e Expr) {
	if e == nil {
		d.out = append(d.out, '-')
		return
	}
	d.node(e)
}

func list[T Node](d *dumper, nodes []T) {
	d.out = append(d.out, '[')
	for _, n := range nodes {
		d.node(n)
		d.out = append(d.out, ',')
	}
	d.out = append(d.out, ']')
}

func (d *dumper) exprs(nodes []Expr) {
	d.out = append(d.out, '[')
	for _, n := range nodes {
		d.expr(n)
		d.out = append(d.out, ',')
	}
	d.out = append(d.out, ']')
}

func (d *dumper) names(names []string) {
	d.out = append(d.out, '[')
	for _, n := range names {
		d.str(n)
		d.out = append(d.out, ',')
	}
	d.out = append(d.out, ']')
}

func (d *dumper) flag(b bool) {
	if b {
		d.out = append(d.out, '1')
	} else {
		d.out = append(d.out, '0')
	}
}

func (d *dumper) conversion(c byte) {
	n := int64(c)
	if c == 0 {
		n = -1
	}
	d.out = strconv.AppendInt(d.out, n, 10)
}

func (d *dumper) spec(s *JoinedStr) {
	if s == nil {
		d.out = append(d.out, '-')
		return
	}
	d.node(s)
}

func (d *dumper) arg(a *Arg) {
	if a == nil {
		d.out = append(d.out, '-')
		return
	}
	d.node(a)
}

func (d *dumper) space() { d.out = append(d.out, ' ') }

func (d *dumper) node(n Node) {
	if s, ok := n.(*JoinedStr); ok && s.split {
		c := *s.Values[0].(*Constant)
		c.Span = s.Span
		d.nodes++
		d.node(&c)
		return
	}
	k := n.Kind()
	d.nodes++
	d.out = append(d.out, kindNames[k]...)
	if k != KindComprehension && k != KindArguments && k != KindWithItem && k != KindMatchCase && d.loose == 0 {
		d.out = append(d.out, '@')
		d.position(int32(n.Pos()))
		d.out = append(d.out, '-')
		d.position(int32(n.End()))
	}
	d.out = append(d.out, '(')
	switch n := n.(type) {
	case *BoolOp:
		d.out = append(d.out, n.Op.String()...)
		d.exprs(n.Values)
	case *NamedExpr:
		d.node(n.Target)
		d.expr(n.Value)
	case *BinOp:
		d.expr(n.Left)
		d.out = append(d.out, n.Op.String()...)
		d.expr(n.Right)
	case *UnaryOp:
		d.out = append(d.out, n.Op.String()...)
		d.expr(n.Operand)
	case *Lambda:
		d.node(n.Args)
		d.expr(n.Body)
	case *IfExp:
		d.expr(n.Test)
		d.expr(n.Body)
		d.expr(n.Orelse)
	case *Dict:
		d.exprs(n.Keys)
		d.exprs(n.Values)
	case *Set:
		d.exprs(n.Elts)
	case *ListComp:
		d.expr(n.Elt)
		list(d, n.Generators)
	case *SetComp:
		d.expr(n.Elt)
		list(d, n.Generators)
	case *DictComp:
		d.expr(n.Key)
		d.expr(n.Value)
		list(d, n.Generators)
	case *GeneratorExp:
		d.expr(n.Elt)
		list(d, n.Generators)
	case *Await:
		d.expr(n.Value)
	case *Yield:
		d.expr(n.Value)
	case *YieldFrom:
		d.expr(n.Value)
	case *Compare:
		d.expr(n.Left)
		for _, o := range n.Ops {
			d.space()
			d.out = append(d.out, o.String()...)
		}
		d.exprs(n.Comparators)
	case *Call:
		d.expr(n.Func)
		d.exprs(n.Args)
		list(d, n.Keywords)
	case *FormattedValue:
		d.expr(n.Value)
		d.conversion(n.Conversion)
		d.spec(n.FormatSpec)
	case *Interpolation:
		d.expr(n.Value)
		d.str(n.Str)
		d.conversion(n.Conversion)
		d.spec(n.FormatSpec)
	case *JoinedStr:
		if d.opts.LooseFStrings {
			d.loose++
		}
		d.exprs(n.Values)
		if d.opts.LooseFStrings {
			d.loose--
		}
	case *TemplateStr:
		d.exprs(n.Values)
	case *Constant:
		d.constant(n)
	case *Attribute:
		d.expr(n.Value)
		d.str(n.Attr)
		d.out = append(d.out, n.Ctx.String()...)
	case *Subscript:
		d.expr(n.Value)
		d.expr(n.Slice)
		d.out = append(d.out, n.Ctx.String()...)
	case *Starred:
		d.expr(n.Value)
		d.out = append(d.out, n.Ctx.String()...)
	case *Name:
		d.str(n.ID)
		d.out = append(d.out, n.Ctx.String()...)
	case *List:
		d.exprs(n.Elts)
		d.out = append(d.out, n.Ctx.String()...)
	case *Tuple:
		d.exprs(n.Elts)
		d.out = append(d.out, n.Ctx.String()...)
	case *Slice:
		d.expr(n.Lower)
		d.expr(n.Upper)
		d.expr(n.Step)
	case *FunctionDef:
		d.str(n.Name)
		d.node(n.Args)
		list(d, n.Body)
		d.exprs(n.DecoratorList)
		d.expr(n.Returns)
		list(d, n.TypeParams)
	case *ClassDef:
		d.str(n.Name)
		d.exprs(n.Bases)
		list(d, n.Keywords)
		list(d, n.Body)
		d.exprs(n.DecoratorList)
		list(d, n.TypeParams)
	case *Return:
		d.expr(n.Value)
	case *Delete:
		d.exprs(n.Targets)
	case *Assign:
		d.exprs(n.Targets)
		d.expr(n.Value)
	case *TypeAlias:
		d.node(n.Name)
		list(d, n.TypeParams)
		d.expr(n.Value)
	case *AugAssign:
		d.expr(n.Target)
		d.out = append(d.out, n.Op.String()...)
		d.expr(n.Value)
	case *AnnAssign:
		d.expr(n.Target)
		d.expr(n.Annotation)
		d.expr(n.Value)
		d.flag(n.Simple)
	case *For:
		d.expr(n.Target)
		d.expr(n.Iter)
		list(d, n.Body)
		list(d, n.Orelse)
	case *While:
		d.expr(n.Test)
		list(d, n.Body)
		list(d, n.Orelse)
	case *If:
		d.expr(n.Test)
		list(d, n.Body)
		list(d, n.Orelse)
	case *With:
		list(d, n.Items)
		list(d, n.Body)
	case *Match:
		d.expr(n.Subject)
		list(d, n.Cases)
	case *Raise:
		d.expr(n.Exc)
		d.expr(n.Cause)
	case *Try:
		list(d, n.Body)
		list(d, n.Handlers)
		list(d, n.Orelse)
		list(d, n.Finalbody)
	case *Assert:
		d.expr(n.Test)
		d.expr(n.Msg)
	case *Import:
		list(d, n.Names)
	case *ImportFrom:
		d.optional(n.Module)
		list(d, n.Names)
		d.out = strconv.AppendInt(d.out, int64(n.Level), 10)
	case *Global:
		d.names(n.Names)
	case *Nonlocal:
		d.names(n.Names)
	case *ExprStmt:
		d.expr(n.Value)
	case *Bad:
		list(d, n.Body)
	case *Comprehension:
		d.expr(n.Target)
		d.expr(n.Iter)
		d.exprs(n.Ifs)
		d.flag(n.Async)
	case *ExceptHandler:
		d.expr(n.Type)
		d.optional(n.Name)
		list(d, n.Body)
	case *Arguments:
		list(d, n.Posonlyargs)
		list(d, n.Args)
		d.arg(n.Vararg)
		list(d, n.Kwonlyargs)
		d.exprs(n.KwDefaults)
		d.arg(n.Kwarg)
		d.exprs(n.Defaults)
	case *Arg:
		d.str(n.Arg)
		d.expr(n.Annotation)
	case *Keyword:
		d.optional(n.Arg)
		d.expr(n.Value)
	case *Alias:
		d.str(n.Name)
		d.optional(n.AsName)
	case *WithItem:
		d.expr(n.ContextExpr)
		d.expr(n.OptionalVars)
	case *MatchCase:
		d.node(n.Pattern)
		d.expr(n.Guard)
		list(d, n.Body)
	case *TypeParam:
		d.str(n.Name)
		if n.Stars == 0 {
			d.expr(n.Bound)
		}
		d.expr(n.DefaultValue)
	case *MatchValue:
		d.expr(n.Value)
	case *MatchSingleton:
		d.out = append(d.out, constNames[n.Value]...)
	case *MatchSequence:
		list(d, n.Patterns)
	case *MatchMapping:
		d.exprs(n.Keys)
		list(d, n.Patterns)
		d.optional(n.Rest)
	case *MatchClass:
		d.expr(n.Cls)
		list(d, n.Patterns)
		d.names(n.KwdAttrs)
		list(d, n.KwdPatterns)
	case *MatchStar:
		d.optional(n.Name)
	case *MatchAs:
		if n.Pattern == nil {
			d.out = append(d.out, '-')
		} else {
			d.node(n.Pattern)
		}
		d.optional(n.Name)
	case *MatchOr:
		list(d, n.Patterns)
	}
	d.out = append(d.out, ')')
}

var constNames = [...]string{None: "None", True: "True", False: "False", Ellipsis: "..."}

func (d *dumper) constant(c *Constant) {
	switch c.What {
	case Int:
		if v, ok := c.IntValue(); ok {
			d.out = append(d.out, "0x"...)
			d.out = strconv.AppendInt(d.out, v, 16)
		} else {
			d.out = append(d.out, "0x"+c.BigValue().Text(16)...)
		}
	case Float:
		d.float(c.FloatValue())
	case Complex:
		d.float(c.FloatValue())
		d.out = append(d.out, 'j')
	case Str:
		if c.Unicode {
			d.out = append(d.out, 'u')
		}
		d.str(c.StringValue())
	case Bytes:
		d.out = append(d.out, 'b')
		d.out = hex.AppendEncode(d.out, []byte(c.StringValue()))
	default:
		d.out = append(d.out, constNames[c.What]...)
	}
}

func (d *dumper) float(v float64) {
	s := strconv.FormatUint(math.Float64bits(v), 16)
	d.out = append(d.out, strings.Repeat("0", 16-len(s))...)
	d.out = append(d.out, s...)
}
