package pyast

import (
	"slices"
	"strings"
)

// precedence of the operators that stand between two operands; 0 for all other tokens.
var precedence = func() (t [tokenKinds]uint8) {
	for level, kinds := range [...][]TokenKind{
		1: {tOr}, 2: {tAnd}, precCompare: {tEqEq, tNotEq, tLtGt, tLess, tLessEq, tGreater, tGreaterEq, tIn, tIs, tNot},
		precOr: {tVbar}, 6: {tCaret}, 7: {tAmper}, 8: {tLshift, tRshift}, 9: {tPlus, tMinus},
		10: {tStar, tSlash, tDoubleSlash, tPercent, tAt},
	} {
		for _, k := range kinds {
			t[k] = uint8(level)
		}
	}
	return
}()

const (
	precDisjunction = 1
	precInversion   = 3
	precCompare     = 4
	precOr          = 5 // bitwise_or of the grammar
)

var binary = func() (t [tokenKinds]Op) {
	for k, op := range map[TokenKind]Op{tVbar: BitOr, tCaret: BitXor, tAmper: BitAnd, tLshift: LShift, tRshift: RShift,
		tPlus: Add, tMinus: Sub, tStar: Mult,
		tSlash: Div, tDoubleSlash: FloorDiv, tPercent: Mod, tAt: MatMult, tEqEq: Eq, tNotEq: NotEq, tLtGt: NotEq,
		tLess: Lt, tLessEq: LtE,
		tGreater: Gt, tGreaterEq: GtE, tIn: In} {
		t[k] = op
	}
	return
}()

// starts says whether an expression may begin with a token.
var starts = func() (t [tokenKinds]bool) {
	for _, k := range []TokenKind{tName, tNumber, tString, tFStart, tLpar, tLsqb, tLbrace, tEllipsis, tPlus, tMinus,
		tTilde, tStar, tNone, tTrue, tFalse, tNot,
		tLambda, tAwait, tError} {
		t[k] = true
	}
	return
}()

func (p *parser) annotatedRHS() Expr {
	if p.k == tYield {
		return p.yieldExpr()
	}
	return p.starExpressions()
}

func (p *parser) yieldExpr() Expr {
	start := p.start()
	p.next()
	p.yields = true
	if p.accept(tFrom) {
		v := p.expression()
		return &YieldFrom{p.span(start), v}
	}
	var v Expr
	if starts[p.k] {
		v = p.starExpressions()
	}
	return &Yield{p.span(start), v}
}

func (p *parser) starExpressions() Expr {
	start := p.start()
	e := p.starExpression()
	if p.k != tComma {
		return e
	}
	mark := len(p.exprs)
	p.exprs = append(p.exprs, e)
	for p.accept(tComma) && starts[p.k] {
		p.exprs = append(p.exprs, p.starExpression())
	}
	return p.tuple(start, mark)
}

func (p *parser) tuple(start int32, mark int) Expr {
	t := p.tuples.new()
	t.Span, t.Elts = p.span(start), p.takeExprs(mark)
	return t
}

func (p *parser) starExpression() Expr {
	if p.k == tStar {
		return p.starred(false)
	}
	return p.expression()
}

// starred reads *value: a whole expression in calls and subscripts, a bitwise_or elsewhere.
func (p *parser) starred(whole bool) Expr {
	start := p.start()
	p.next()
	var v Expr
	if whole {
		v = p.expression()
	} else {
		v = p.operand(precOr)
	}
	s := p.starreds.new()
	s.Span, s.Value = p.span(start), v
	return s
}

func (p *parser) starNamed() Expr {
	if p.k == tStar {
		return p.starred(false)
	}
	return p.namedExpression()
}

func (p *parser) namedExpression() Expr {
	if p.k != tName || p.peek(1) != tWalrus {
		return p.expression()
	}
	start := p.start()
	n := p.nameNode()
	n.Ctx = Store
	p.next()
	v := p.expression()
	return &NamedExpr{p.span(start), n, v}
}

func (p *parser) nameNode() *Name {
	t := &p.toks[p.i]
	n := p.nameNodes.new()
	n.From, n.To = t.start, t.end
	n.ID = p.src[t.start:t.end]
	if t.high {
		n.ID = nfkc(n.ID)
	}
	p.prevEnd = t.end
	p.i++
	p.k = p.toks[p.i].kind
	return n
}

func (p *parser) expression() Expr {
	p.enter()
	start := p.start()
	if p.k == tLambda {
		p.next()
		args := p.parameters(tColon)
		p.expect(tColon, "':'")
		outer := p.yields
		body := p.expression()
		p.depth--
		p.yields = outer
		return &Lambda{p.span(start), args, body}
	}
	e := p.operand(precDisjunction)
	if p.k == tIf {
		p.next()
		test := p.operand(precDisjunction)
		p.expect(tElse, "'else'")
		orelse := p.expression()
		i := p.ifExps.new()
		i.Span, i.Test, i.Body, i.Orelse = p.span(start), test, e, orelse
		e = i
	}
	p.depth--
	return e
}

// operand reads an expression of operators that bind at least as strongly as min.
func (p *parser) operand(min uint8) Expr {
	start := p.start()
	var left Expr
	switch p.k {
	case tNot:
		if min > precInversion {
			p.bail("expected an expression")
		}
		p.enter()
		p.next()
		v := p.operand(precInversion)
		p.depth--
		left = p.unary(start, Not, v)
	case tMinus, tPlus, tTilde, tAwait:
		left = p.factor()
	default:
		left = p.primary()
		if p.k == tDoubleStar {
			left = p.power(start, left)
		}
	}
	for n := 0; ; n++ {
		k := p.k
		level := precedence[k]
		if level < min || level == 0 {
			return left
		}
		if n > 64 {
			p.link()
		}
		switch level {
		case 1, 2:
			mark := len(p.exprs)
			p.exprs = append(p.exprs, left)
			for p.accept(k) {
				p.exprs = append(p.exprs, p.operand(level+1))
			}
			b := p.boolOps.new()
			b.Op = Or
			if k == tAnd {
				b.Op = And
			}
			b.Values = p.takeExprs(mark)
			b.Span = p.span(start)
			left = b
		case precCompare:
			mark, opMark := len(p.exprs), len(p.ops)
			for {
				op := p.comparison()
				if op == NoOp {
					break
				}
				p.ops = append(p.ops, op)
				p.exprs = append(p.exprs, p.operand(precOr))
			}
			if len(p.ops) == opMark {
				return left
			}
			c := p.compares.new()
			c.Left, c.Ops, c.Comparators = left, p.takeOps(opMark), p.takeExprs(mark)
			c.Span = p.span(start)
			left = c
		default:
			p.next()
			right := p.operand(level + 1)
			b := p.binOps.new()
			b.Op, b.Left, b.Right = binary[k], left, right
			b.Span = p.span(start)
			left = b
		}
	}
}

// comparison reads a comparison operator; it is NoOp where none stands.
func (p *parser) comparison() Op {
	k := p.k
	if precedence[k] != precCompare {
		return NoOp
	}
	switch k {
	case tNot:
		if p.peek(1) != tIn {
			return NoOp
		}
		p.next()
		p.next()
		return NotIn
	case tIs:
		p.next()
		if p.accept(tNot) {
			return IsNot
		}
		return Is
	case tNotEq, tLtGt:
		if (k == tLtGt) != p.flufl {
			p.bail("expected another operator")
		}
	}
	p.next()
	return binary[k]
}

func (p *parser) unary(start int32, op Op, v Expr) Expr {
	u := p.unaryOps.new()
	u.Span, u.Op, u.Operand = p.span(start), op, v
	return u
}

// factor reads +x, -x, ~x, and what binds more strongly.
func (p *parser) factor() Expr {
	start := p.start()
	var op Op
	switch p.k {
	case tPlus:
		op = UAdd
	case tMinus:
		op = USub
	case tTilde:
		op = Invert
	case tAwait:
		p.next()
		v := p.primary()
		return p.power(start, &Await{p.span(start), v})
	default:
		return p.power(start, p.primary())
	}
	p.enter()
	p.next()
	v := p.factor()
	p.depth--
	return p.unary(start, op, v)
}

// power reads what may follow the base.
func (p *parser) power(start int32, base Expr) Expr {
	if p.k != tDoubleStar {
		return base
	}
	p.enter()
	p.next()
	v := p.factor()
	p.depth--
	b := p.binOps.new()
	b.Op, b.Left, b.Right = Pow, base, v
	b.Span = p.span(start)
	return b
}

// primary reads an atom with its attributes, calls and subscripts.
func (p *parser) primary() Expr {
	start := p.start()
	e := p.atom()
	for n := 0; ; n++ {
		switch p.k {
		case tDot:
			p.next()
			a := p.attributes.new()
			a.At = p.start()
			a.Value, a.Attr = e, p.name()
			a.Span = p.span(start)
			e = a
		case tLpar:
			open := p.start()
			p.next()
			c := p.calls.new()
			c.Func = e
			c.Args, c.Keywords = p.arguments(&open)
			c.Span = p.span(start)
			e = c
		case tLsqb:
			p.next()
			s := p.subscripts.new()
			s.Value, s.Slice = e, p.subscript()
			p.expect(tRsqb, "']'")
			s.Span = p.span(start)
			e = s
		default:
			return e
		}
		if n > 64 {
			p.link()
		}
	}
}

// arguments reads those of a call or class up to and with the closing bracket. A generator expression may stand in a
// call's brackets as it is; its range is theirs, from open.
func (p *parser) arguments(open *int32) ([]Expr, []*Keyword) {
	mark, kwMark := len(p.exprs), len(p.keywords)
	unpacked := false
	for p.k != tRpar {
		start := p.start()
		switch {
		case p.k == tStar:
			e := p.starred(true)
			if unpacked {
				p.note(start, p.prevEnd, "*arguments behind **arguments")
			}
			p.exprs = append(p.exprs, e)
		case p.k == tDoubleStar:
			p.next()
			v := p.expression()
			k := p.keywordNodes.new()
			k.Span, k.Value = p.span(start), v
			p.keywords = append(p.keywords, k)
			unpacked = true
		case p.k == tName && p.peek(1) == tAssign:
			name := p.word()
			p.next()
			p.next()
			v := p.expression()
			k := p.keywordNodes.new()
			k.Span, k.Arg, k.Value = p.span(start), name, v
			p.keywords = append(p.keywords, k)
		default:
			e := p.namedExpression()
			if open != nil && p.comprehends() && len(p.exprs) == mark && len(p.keywords) == kwMark {
				g := p.genExps.new()
				g.Elt, g.Generators = e, p.comprehensions()
				p.expect(tRpar, "')': a generator expression among other arguments wants its own")
				g.Span = p.span(*open)
				p.exprs = append(p.exprs, g)
				return p.takeExprs(mark), nil
			}
			if len(p.keywords) > kwMark {
				p.note(start, p.prevEnd, "a positional argument behind a keyword argument")
			}
			p.exprs = append(p.exprs, e)
		}
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRpar, "',' or ')'")
	return p.takeExprs(mark), p.takeKeywords(kwMark)
}

func (p *parser) subscript() Expr {
	start := p.start()
	star := p.k == tStar
	e := p.slice()
	if p.k != tComma && !star {
		return e
	}
	mark := len(p.exprs)
	p.exprs = append(p.exprs, e)
	for p.accept(tComma) && p.k != tRsqb {
		p.exprs = append(p.exprs, p.slice())
	}
	return p.tuple(start, mark)
}

func (p *parser) slice() Expr {
	start := p.start()
	if p.k == tStar {
		return p.starred(true)
	}
	var lower, upper, step Expr
	if p.k != tColon {
		named := p.peek(1) == tWalrus
		lower = p.namedExpression()
		if p.k != tColon || named {
			return lower
		}
	}
	p.next()
	if p.k != tColon && p.k != tComma && p.k != tRsqb {
		upper = p.expression()
	}
	if p.accept(tColon) && p.k != tComma && p.k != tRsqb {
		step = p.expression()
	}
	s := p.slices.new()
	s.Span, s.Lower, s.Upper, s.Step = p.span(start), lower, upper, step
	return s
}

func (p *parser) constant(kind ConstKind) *Constant {
	t := p.toks[p.i]
	c := p.constants.new()
	c.Span, c.What = Span{t.start, t.end}, kind
	p.next()
	return c
}

func (p *parser) number() *Constant {
	s := p.text()
	c := p.constant(numberKind(s))
	c.text = s
	return c
}

func (p *parser) atom() Expr {
	switch p.k {
	case tName:
		return p.nameNode()
	case tNumber:
		return p.number()
	case tString, tFStart:
		return p.strings()
	case tLpar:
		return p.parens()
	case tLsqb:
		return p.list()
	case tLbrace:
		return p.braces()
	case tNone:
		return p.constant(None)
	case tTrue:
		return p.constant(True)
	case tFalse:
		return p.constant(False)
	case tEllipsis:
		return p.constant(Ellipsis)
	}
	p.bail("expected an expression")
	return nil
}

// parens reads a tuple, a generator expression or an expression in brackets.
func (p *parser) parens() Expr {
	start := p.start()
	p.next()
	mark := len(p.exprs)
	switch p.k {
	case tRpar:
		p.next()
		return p.tuple(start, mark)
	case tYield:
		e := p.yieldExpr()
		p.expect(tRpar, "')'")
		return e
	}
	star := p.k == tStar
	e := p.starNamed()
	if p.k == tComma {
		p.exprs = append(p.exprs, e)
		for p.accept(tComma) && p.k != tRpar {
			p.exprs = append(p.exprs, p.starNamed())
		}
		p.expect(tRpar, "',' or ')'")
		return p.tuple(start, mark)
	}
	if star {
		p.bail("expected ',' after an unpacked value")
	}
	if p.comprehends() {
		g := p.genExps.new()
		g.Elt, g.Generators = e, p.comprehensions()
		p.expect(tRpar, "')'")
		g.Span = p.span(start)
		return g
	}
	p.expect(tRpar, "',' or ')'")
	return e
}

func (p *parser) list() Expr {
	start := p.start()
	p.next()
	mark := len(p.exprs)
	for p.k != tRsqb {
		star := p.k == tStar
		e := p.starNamed()
		if len(p.exprs) == mark && !star && p.comprehends() {
			l := p.listComps.new()
			l.Elt, l.Generators = e, p.comprehensions()
			p.expect(tRsqb, "']'")
			l.Span = p.span(start)
			return l
		}
		p.exprs = append(p.exprs, e)
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRsqb, "',' or ']'")
	l := p.lists.new()
	l.Span, l.Elts = p.span(start), p.takeExprs(mark)
	return l
}

// braces reads a dict, a set or a comprehension of either.
func (p *parser) braces() Expr {
	start := p.start()
	p.next()
	if p.k == tRbrace || p.k == tDoubleStar {
		return p.dict(start, nil)
	}
	star, named := p.k == tStar, p.k == tName && p.peek(1) == tWalrus
	e := p.starNamed()
	if p.k == tColon && !star && !named {
		return p.dict(start, e)
	}
	if p.comprehends() && !star {
		s := &SetComp{Elt: e, Generators: p.comprehensions()}
		p.expect(tRbrace, "'}'")
		s.Span = p.span(start)
		return s
	}
	mark := len(p.exprs)
	p.exprs = append(p.exprs, e)
	for p.accept(tComma) && p.k != tRbrace {
		p.exprs = append(p.exprs, p.starNamed())
	}
	p.expect(tRbrace, "',' or '}'")
	return &Set{p.span(start), p.takeExprs(mark)}
}

// dict reads on behind the brace, or at the colon behind the first key.
func (p *parser) dict(start int32, key Expr) Expr {
	// Keys and values lie on the scratch list in turns.
	mark := len(p.exprs)
	for first := true; p.k != tRbrace; first = false {
		if p.k == tDoubleStar && key == nil {
			p.next()
			v := p.operand(precOr)
			p.exprs = append(p.exprs, nil, v)
		} else {
			if key == nil {
				key = p.expression()
			}
			p.expect(tColon, "':'")
			v := p.expression()
			if first && p.comprehends() {
				d := &DictComp{Key: key, Value: v, Generators: p.comprehensions()}
				p.expect(tRbrace, "'}'")
				d.Span = p.span(start)
				return d
			}
			p.exprs = append(p.exprs, key, v)
			key = nil
		}
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRbrace, "',' or '}'")
	d := p.dicts.new()
	d.Span = p.span(start)
	n := (len(p.exprs) - mark) / 2
	for i := range n {
		p.exprs = append(p.exprs, p.exprs[mark+2*i])
	}
	d.Keys = p.takeExprs(mark + 2*n)
	for i := range n {
		p.exprs[mark+i] = p.exprs[mark+2*i+1]
	}
	p.exprs = p.exprs[:mark+n]
	d.Values = p.takeExprs(mark)
	return d
}

// comprehends says whether a for clause follows.
func (p *parser) comprehends() bool { return p.k == tFor || p.k == tAsync && p.peek(1) == tFor }

func (p *parser) comprehensions() []*Comprehension {
	mark := len(p.comps)
	for p.comprehends() {
		c := p.comprehension.new()
		start := p.start()
		c.Async = p.accept(tAsync)
		p.next()
		c.Target = p.starTargets()
		p.expect(tIn, "'in'")
		c.Iter = p.operand(precDisjunction)
		ifs := len(p.exprs)
		for p.accept(tIf) {
			p.exprs = append(p.exprs, p.operand(precDisjunction))
		}
		c.Ifs = p.takeExprs(ifs)
		c.Span = p.span(start)
		p.comps = append(p.comps, c)
	}
	return p.takeComps(mark)
}

// starTargets reads what a for binds.
func (p *parser) starTargets() Expr {
	start := p.start()
	e := p.starTarget()
	if p.k != tComma {
		return e
	}
	mark := len(p.exprs)
	p.exprs = append(p.exprs, e)
	for p.accept(tComma) && starts[p.k] {
		p.exprs = append(p.exprs, p.starTarget())
	}
	t := p.tuple(start, mark)
	t.(*Tuple).Ctx = Store
	return t
}

func (p *parser) starTarget() Expr {
	start := p.start()
	if p.k == tStar {
		p.next()
		if p.k == tStar {
			p.bail("expected a target")
		}
		v := p.starTarget()
		s := p.starreds.new()
		s.Span, s.Ctx, s.Value = p.span(start), Store, v
		return s
	}
	e := p.primary()
	p.target(e, Store)
	return e
}

// strings reads literals that stand next to each other.
func (p *parser) strings() Expr {
	first := p.i
	start := p.start()
	for p.k == tString {
		p.next()
	}
	if p.k != tFStart {
		c := p.constants.new()
		c.Span, c.text = p.span(start), p.src[start:p.prevEnd]
		c.What = p.literal(p.toks[first])
		c.Unicode = c.text[0] == 'u'
		for _, t := range p.toks[first+1 : p.i] {
			if p.literal(t) != c.What {
				p.note(t.start, t.end, "bytes and str side by side")
			}
		}
		return c
	}
	p.i = first
	p.k = p.toks[first].kind
	mark := len(p.exprs)
	template := p.k == tFStart && p.isTemplate()
	for p.k == tString || p.k == tFStart {
		t := p.toks[p.i]
		if (p.k == tFStart && p.isTemplate()) != template {
			p.note(t.start, t.end, "a t-string beside another string")
		}
		if p.k == tFStart {
			p.fstring(template)
			continue
		}
		c := p.constant(p.literal(t))
		c.text = p.src[t.start:t.end]
		c.Unicode = c.text[0] == 'u'
		if c.What == Bytes {
			p.note(t.start, t.end, "bytes and str side by side")
			c.What = Str
		}
		p.exprs = append(p.exprs, c)
	}
	p.fold(mark)
	if template {
		s := &TemplateStr{Values: p.takeExprs(mark)}
		s.Span = p.span(start)
		return s
	}
	s := p.joinedStrs.new()
	s.Values = p.takeExprs(mark)
	s.Span = p.span(start)
	return s
}

func (p *parser) isTemplate() bool {
	t := p.toks[p.i]
	c, d := p.src[t.start]|0x20, p.src[t.start+1]|0x20
	return c == 't' || d == 't'
}

// literal checks a string literal and says whether it is a str or bytes.
func (p *parser) literal(t token) ConstKind {
	s := p.src[t.start:t.end]
	// The prefix is at most two letters.
	raw, kind := false, Str
	for i := 0; s[i] != '"' && s[i] != '\''; i++ {
		switch s[i] | 0x20 {
		case 'r':
			raw = true
		case 'b':
			kind = Bytes
		}
	}
	if kind == Bytes && !ascii(s) {
		p.note(t.start, t.end, "bytes hold only ASCII characters as they are")
	}
	if !raw && strings.IndexByte(s, '\\') >= 0 {
		l, _ := literalAt(s, 0)
		p.escapes(l.body, t, kind == Bytes)
	}
	return kind
}

// escapes notes the escapes that CPython rejects.
func (p *parser) escapes(s string, t token, isBytes bool) {
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++
		switch s[i] {
		case 'x', 'u', 'U', 'N':
			if _, problem := unescape(s, isBytes); problem != "" {
				p.note(t.start, t.end, problem)
			}
			return
		}
	}
}

// fold joins constants that stand next to each other in the values of an f-string, and drops empty ones.
func (p *parser) fold(mark int) {
	values := p.exprs[mark:]
	n := 0
	for i := 0; i < len(values); {
		c, ok := values[i].(*Constant)
		if !ok {
			values[n] = values[i]
			n++
			i++
			continue
		}
		j := i + 1
		var last *Constant
		for j < len(values) {
			next, ok := values[j].(*Constant)
			if !ok {
				break
			}
			last = next
			j++
		}
		if last != nil {
			var b strings.Builder
			for _, v := range values[i:j] {
				b.WriteString(v.(*Constant).StringValue())
			}
			joined := p.constants.new()
			joined.Span, joined.What, joined.Unicode, joined.form, joined.text = Span{c.From, last.To}, Str, c.Unicode,
				value, b.String()
			c = joined
		}
		i = j
		if c.StringValue() != "" {
			values[n] = c
			n++
		}
	}
	p.exprs = p.exprs[:mark+n]
}

// fstring reads one f-string or t-string and puts its values on the scratch list.
func (p *parser) fstring(template bool) {
	open := p.toks[p.i]
	raw := strings.ContainsAny(p.src[open.start:min(open.start+2, open.end)], "rR")
	p.next()
	for p.k != tFEnd {
		switch p.k {
		case tFMiddle:
			p.middle(raw)
		case tLbrace:
			p.field(raw, template)
		default:
			p.bail("expected the end of the f-string")
		}
	}
	p.next()
}

// middle puts text of an f-string on the scratch list, unless its value is empty.
func (p *parser) middle(raw bool) {
	t := p.toks[p.i]
	c := p.constant(Str)
	c.text, c.form = p.src[t.start:t.end], field
	if strings.HasSuffix(c.text, "{{") || strings.HasSuffix(c.text, "}}") {
		c.text = c.text[:len(c.text)-1] // the second brace belongs to the range, not to the value
	}
	if raw {
		c.form = rawText
	} else {
		p.escapes(c.text, t, false)
	}
	if c.StringValue() != "" {
		p.exprs = append(p.exprs, c)
	}
}

// field reads a replacement field.
func (p *parser) field(raw, template bool) {
	open := p.start()
	p.next()
	p.enter()
	e := p.annotatedRHS()
	debug, eq := false, int32(0)
	if p.k == tAssign {
		debug, eq = true, p.start()
		p.next()
	}
	end := p.start()
	var conversion byte
	if p.k == tExclamation {
		bang := p.toks[p.i].end
		p.next()
		if p.k != tName || p.start() != bang || p.text() != "r" && p.text() != "s" && p.text() != "a" {
			p.bail("expected r, s or a right behind the '!'")
		}
		conversion = p.text()[0]
		p.next()
	}
	var spec *JoinedStr
	if p.k == tFColon {
		spec = p.formatSpec(raw)
	}
	p.expect(tRbrace, "'}'")
	p.depth--
	if debug {
		c := p.constants.new()
		c.Span, c.What, c.form, c.text = Span{open + 1, end}, Str, value, newlines(p.withoutComments(open+1, end))
		p.exprs = append(p.exprs, c)
		if conversion == 0 && spec == nil {
			conversion = 'r'
		}
	}
	if template {
		if debug {
			end = eq
		}
		p.exprs = append(p.exprs, &Interpolation{p.span(open), conversion, e, newlines(p.withoutComments(open+1, end)),
			spec})
		return
	}
	v := p.formatted.new()
	v.Span, v.Conversion, v.Value, v.FormatSpec = p.span(open), conversion, e, spec
	p.exprs = append(p.exprs, v)
}

// withoutComments is the source between two offsets.
func (p *parser) withoutComments(from, to int32) string {
	i, _ := slices.BinarySearchFunc(p.comments, from, func(c Comment, at int32) int { return int(c.From) - int(at) })
	if i == len(p.comments) || p.comments[i].From >= to {
		return p.src[from:to]
	}
	var b strings.Builder
	for ; i < len(p.comments) && p.comments[i].From < to; i++ {
		b.WriteString(p.src[from:p.comments[i].From])
		from = p.comments[i].To
	}
	b.WriteString(p.src[from:to])
	return b.String()
}

func (p *parser) formatSpec(raw bool) *JoinedStr {
	start := p.start()
	p.next()
	mark := len(p.exprs)
	for p.k == tFMiddle || p.k == tLbrace {
		if p.k == tFMiddle {
			p.middle(raw)
		} else {
			p.field(raw, false)
		}
	}
	p.fold(mark)
	s := p.joinedStrs.new()
	s.Values = p.takeExprs(mark)
	s.Span = p.span(start)
	if len(s.Values) == 1 {
		if c, ok := s.Values[0].(*Constant); ok && c.form == field {
			s.split = pieces(c.text) > 1
		}
	}
	return s
}

// pieces counts the tokens that CPython makes of text: one ends behind each \N{...}. Where a specification is text in
// several pieces, CPython 3.14 has a bare Constant for it, and not a JoinedStr as everywhere else.
func pieces(s string) int {
	n := 0
	for i := 0; i < len(s); n++ {
		for i < len(s) {
			if s[i] != '\\' {
				i++
				continue
			}
			named := strings.HasPrefix(s[i:], `\N{`)
			i += 2
			if end := strings.IndexByte(s[min(i, len(s)):], '}'); named && end >= 0 {
				i += end + 1
				break
			}
		}
	}
	return n
}
