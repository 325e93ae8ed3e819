package pyast

import (
	"strings"
	"sync"
)

// parsers of trees, and those whose trees nobody wants.
var parsers, scrap = sync.Pool{New: func() any { return new(parser) }},
	sync.Pool{New: func() any { return new(parser) }}

// parser is a recursive descent over the tokens of one file. It is reused: the token list and the scratch lists are
// kept.
//
// An error inside a statement is a panic with a syntaxError, which statement catches; it then skips to the end of the
// line. Errors after which the tree is still whole (a target that cannot be assigned, a missing block) are only noted.
type parser struct {
	tokenizer
	k       TokenKind // kind of the token at i
	i       int
	prevEnd int32 // end of the last token with text
	nesting int   // INDENTs that were read and not yet closed
	depth   int   // recursion
	chain   int   // length of left-leaning chains in this statement
	flufl   bool  // from __future__ import barry_as_FLUFL
	yields  bool  // the function being read has a yield

	alloc
	exprs    []Expr // scratch: lists that are being read
	stmts    []Stmt
	pats     []Pattern
	keywords []*Keyword
	comps    []*Comprehension
	args     []*Arg
	names    []string
	ops      []Op
	aliases  []*Alias
	items    []*WithItem
	handlers []*ExceptHandler
	cases    []*MatchCase
	tparams  []*TypeParam
	blocks   [][]Stmt // blocks that were read inside statements that are not whole yet
}

// maxDepth bounds recursion, near where CPython 3.14 gives up ("Parser stack overflowed"), and maxChain the length of a
// + a + a + …, near where it cannot build the tree.
const (
	maxDepth = 3000
	maxChain = 40000
)

type syntaxError struct{}

func (p *parser) parse(f *File, start int, opts Options) {
	p.tokenizer = tokenizer{src: f.Text, toks: p.toks[:0], modes: p.modes[:0]}
	if need := len(f.Text)/3 + 16; cap(p.toks) < need {
		p.toks = make([]token, 0, min(need, 1<<16))
	}
	p.lines = make([]int32, 1, len(f.Text)/32+2)
	p.lines[0] = int32(start)
	p.tokenizer.run(start)
	p.i, p.prevEnd, p.nesting, p.depth, p.chain, p.flufl, p.yields = 0, int32(start), 0, 0, 0, false, false
	p.blocks = p.blocks[:0]
	p.k = p.toks[0].kind
	f.Body = p.file()
	p.future(f.Body)
	f.Errors, f.Comments, f.Lines = p.errs, p.comments, p.lines
	if opts.Tokens {
		f.Tokens = make([]Token, len(p.toks))
		for i, t := range p.toks {
			f.Tokens[i] = Token{t.kind, t.start, t.end}
		}
	}
	p.tokenizer.src, p.errs, p.comments, p.lines = "", nil, nil, nil
	p.forget()
	if cap(p.toks) > 1<<21 {
		p.toks = nil
	}
}

// forget drops what the scratch lists still point at, and lists that a large file has left.
func (p *parser) forget() {
	wipe(&p.exprs)
	wipe(&p.stmts)
	wipe(&p.pats)
	wipe(&p.keywords)
	wipe(&p.comps)
	wipe(&p.args)
	wipe(&p.names)
	wipe(&p.aliases)
	wipe(&p.items)
	wipe(&p.handlers)
	wipe(&p.cases)
	wipe(&p.tparams)
	wipe(&p.blocks)
	p.ops = p.ops[:0]
}

func wipe[T any](list *[]T) {
	if cap(*list) > 1<<13 {
		*list = nil
	}
	clear((*list)[:cap(*list)])
	*list = (*list)[:0]
}

func (p *parser) next() {
	if p.k > tDedent {
		p.prevEnd = p.toks[p.i].end
	}
	if p.k != tEOF {
		p.i++
		p.k = p.toks[p.i].kind
	}
}

func (p *parser) start() int32 { return p.toks[p.i].start }

// peek is the kind of the n-th token from here.
func (p *parser) peek(n int) TokenKind {
	if p.i+n < len(p.toks) {
		return p.toks[p.i+n].kind
	}
	return tEOF
}

func (p *parser) text() string { t := p.toks[p.i]; return p.src[t.start:t.end] }

// word is the name at i, in the form in which CPython keeps it.
func (p *parser) word() string {
	t := &p.toks[p.i]
	s := p.src[t.start:t.end]
	if t.high {
		return nfkc(s)
	}
	return s
}

func (p *parser) span(start int32) Span { return Span{start, p.prevEnd} }

// note records an error and goes on.
func (p *parser) note(from, to int32, message string) { p.fail(int(from), int(to), message) }

// bail gives the statement up at the token at i.
func (p *parser) bail(message string) {
	if p.k != tError { // the tokenizer has said it
		t := p.toks[p.i]
		if p.k == tEOF || p.k == tNewline || p.k == tDedent || p.k == tIndent {
			message += ", not the end of the line"
		} else if p.k != tError {
			message += ", not '" + clip(p.text()) + "'"
		}
		p.note(t.start, t.end, message)
	}
	panic(syntaxError{})
}

func clip(s string) string {
	if len(s) > 20 {
		s = strings.ToValidUTF8(s[:20], "") + "…"
	}
	return s
}

func (p *parser) expect(k TokenKind, what string) {
	if p.k != k {
		p.bail("expected " + what)
	}
	p.next()
}

func (p *parser) accept(k TokenKind) bool {
	if p.k == k {
		p.next()
		return true
	}
	return false
}

func (p *parser) name() string {
	if p.k != tName {
		p.bail("expected a name")
	}
	s := p.word()
	p.next()
	return s
}

func (p *parser) enter() {
	p.depth++
	if p.depth > maxDepth {
		p.tooDeep()
	}
}

func (p *parser) link() {
	p.chain++
	if p.chain > maxChain {
		p.tooDeep()
	}
}

func (p *parser) tooDeep() {
	t := p.toks[p.i]
	p.note(t.start, t.end, "too complex: nested too deeply")
	panic(syntaxError{})
}

func (p *parser) file() []Stmt {
	for p.k != tEOF {
		if p.k == tDedent { // of an indentation that a broken statement opened
			p.next()
			if p.nesting > 0 {
				p.nesting--
			}
			continue
		}
		p.statement()
	}
	return p.takeStmts(0)
}

// future notes features that the imports from __future__ at the head of a file ask for, and that are none.
func (p *parser) future(body []Stmt) {
	for i, s := range body {
		switch s := s.(type) {
		case *ImportFrom:
			if s.Level != 0 || s.Module != "__future__" {
				return
			}
			for _, a := range s.Names {
				switch a.Name {
				case "nested_scopes", "generators", "division", "absolute_import", "with_statement", "print_function",
					"unicode_literals", "barry_as_FLUFL",
					"generator_stop", "annotations":
				default:
					p.note(a.From, a.To, "__future__ has no feature "+a.Name)
				}
			}
		case *ExprStmt:
			if c, ok := s.Value.(*Constant); i > 0 || !ok || c.What != Str {
				return
			}
		default:
			return
		}
	}
}

// statement reads a line of simple statements, or a compound statement, and puts them on the list of statements.
func (p *parser) statement() {
	m, start, nesting, depth := p.marks(), p.i, p.nesting, p.depth
	if !p.read() {
		p.depth = depth
		p.recover(m, start, nesting)
	}
	p.blocks = p.blocks[:m.blocks]
}

// marks are the lengths of the scratch lists.
type marks struct {
	exprs, stmts, pats, keywords, comps, args, names, ops, aliases, items, handlers, cases, tparams,
	blocks int
}

func (p *parser) marks() marks {
	return marks{len(p.exprs), len(p.stmts), len(p.pats), len(p.keywords), len(p.comps), len(p.args), len(p.names),
		len(p.ops), len(p.aliases), len(p.items),
		len(p.handlers), len(p.cases), len(p.tparams), len(p.blocks)}
}

func (p *parser) read() (ok bool) {
	defer func() {
		if !ok {
			if r := recover(); r != any(syntaxError{}) {
				panic(r)
			}
		}
	}()
	p.chain = 0
	switch p.k {
	case tIf:
		p.ifStmt()
	case tWhile:
		p.whileStmt()
	case tFor:
		p.forStmt(p.start(), false)
	case tTry:
		p.tryStmt()
	case tWith:
		p.withStmt(p.start(), false)
	case tDef:
		p.def(p.start(), nil, false)
	case tClass:
		p.classDef(nil)
	case tAt:
		p.decorated()
	case tAsync:
		at := p.start()
		p.next()
		switch p.k {
		case tDef:
			p.def(at, nil, true)
		case tFor:
			p.forStmt(at, true)
		case tWith:
			p.withStmt(at, true)
		default:
			p.bail("expected def, for or with")
		}
	case tNewline: // after an error
		p.next()
	case tIndent:
		t := p.toks[p.i]
		p.note(t.start, t.end, "unexpected indentation")
		panic(syntaxError{})
	case tName:
		if p.text() == "match" && p.isMatch() {
			p.matchStmt()
			break
		}
		p.simpleLine()
	default:
		p.simpleLine()
	}
	return true
}

// recover puts a Bad statement in place of one that was given up, skips to the end of its line, and reads the block
// that may follow.
func (p *parser) recover(m marks, startTok, nesting int) {
	from := p.toks[startTok].start
	var body []Stmt
	for _, b := range p.blocks[m.blocks:] {
		body = append(body, b...)
	}
	p.blocks = p.blocks[:m.blocks]
	body = append(body, p.stmts[m.stmts:]...)
	p.exprs, p.stmts, p.pats, p.keywords, p.comps = p.exprs[:m.exprs], p.stmts[:m.stmts], p.pats[:m.pats],
		p.keywords[:m.keywords], p.comps[:m.comps]
	p.args, p.names, p.ops, p.aliases, p.items = p.args[:m.args], p.names[:m.names], p.ops[:m.ops],
		p.aliases[:m.aliases], p.items[:m.items]
	p.handlers, p.cases, p.tparams = p.handlers[:m.handlers], p.cases[:m.cases], p.tparams[:m.tparams]
	for p.k != tEOF && p.k != tNewline && p.k != tIndent && p.k != tDedent {
		p.next()
	}
	p.accept(tNewline)
	// Read on in what the statement has opened: its own blocks, and one that follows.
	mark := len(p.stmts)
	p.depth++ // so that this recursion is bounded, too
	for p.depth <= maxDepth {
		if p.k == tIndent && p.nesting >= nesting {
			p.nesting++
			p.next()
		}
		if p.nesting <= nesting || p.k == tEOF {
			break
		}
		if p.k == tDedent {
			p.nesting--
			p.next()
			continue
		}
		p.statement()
	}
	p.depth--
	body = append(body, p.stmts[mark:]...)
	p.stmts = p.stmts[:mark]
	bad := p.bads.new()
	bad.From, bad.To, bad.Body = from, max(from, p.prevEnd), body
	p.stmts = append(p.stmts, bad)
}

// block reads what follows a colon: an indented block, or simple statements on the same line.
func (p *parser) block() []Stmt {
	if p.k != tColon {
		p.bail("expected ':'")
	}
	p.next()
	mark := len(p.stmts)
	if p.k != tNewline {
		p.simpleLine()
		return p.done(mark)
	}
	p.next()
	if p.k != tIndent {
		t := p.toks[p.i]
		p.note(t.start, t.start, "expected an indented block")
		return nil
	}
	p.next()
	p.nesting++
	for p.k != tDedent && p.k != tEOF {
		p.statement()
	}
	if p.k == tDedent {
		p.nesting--
		p.next()
	}
	return p.done(mark)
}

func (p *parser) done(mark int) []Stmt {
	body := p.takeStmts(mark)
	p.blocks = append(p.blocks, body)
	return body
}

func (p *parser) push(s Stmt) { p.stmts = append(p.stmts, s) }

func (p *parser) simpleLine() {
	for {
		p.simple()
		if p.k == tNewline {
			p.next()
			return
		}
		if p.k != tSemi {
			p.bail("expected the end of the statement")
		}
		p.next()
		if p.k == tNewline {
			p.next()
			return
		}
	}
}

func (p *parser) simple() {
	start := p.start()
	switch p.k {
	case tName:
		if p.peek(1) == tName && p.text() == "type" {
			p.typeAlias(start)
			return
		}
	case tImport:
		p.importStmt(start)
		return
	case tFrom:
		p.fromStmt(start)
		return
	case tReturn:
		p.next()
		var v Expr
		if !p.lineEnds() {
			v = p.starExpressions()
		}
		s := p.returns.new()
		s.Span, s.Value = p.span(start), v
		p.push(s)
		return
	case tRaise:
		p.next()
		var exc, cause Expr
		if !p.lineEnds() {
			exc = p.expression()
			if p.accept(tFrom) {
				cause = p.expression()
			}
		}
		s := p.raises.new()
		s.Span, s.Exc, s.Cause = p.span(start), exc, cause
		p.push(s)
		return
	case tPass:
		p.next()
		s := p.passes.new()
		s.Span = p.span(start)
		p.push(s)
		return
	case tBreak:
		p.next()
		s := p.breaks.new()
		s.Span = p.span(start)
		p.push(s)
		return
	case tContinue:
		p.next()
		s := p.continues.new()
		s.Span = p.span(start)
		p.push(s)
		return
	case tDel:
		p.delStmt(start)
		return
	case tAssert:
		p.next()
		test := p.expression()
		var msg Expr
		if p.accept(tComma) {
			msg = p.expression()
		}
		s := p.asserts.new()
		s.Span, s.Test, s.Msg = p.span(start), test, msg
		p.push(s)
		return
	case tGlobal, tNonlocal:
		k := p.k
		p.next()
		mark := len(p.names)
		for {
			p.names = append(p.names, p.name())
			if !p.accept(tComma) {
				break
			}
		}
		names := p.takeNames(mark)
		if k == tGlobal {
			p.push(&Global{p.span(start), names})
		} else {
			p.push(&Nonlocal{p.span(start), names})
		}
		return
	}
	p.exprStmt(start)
}

func (p *parser) lineEnds() bool { return p.k == tNewline || p.k == tSemi || p.k == tEOF }

// exprStmt reads an expression, an assignment, an annotated or an augmented one.
func (p *parser) exprStmt(start int32) {
	bare := p.k == tName
	e := p.annotatedRHS()
	switch {
	case p.k == tAssign:
		mark := len(p.exprs)
		p.exprs = append(p.exprs, e)
		for p.accept(tAssign) {
			p.exprs = append(p.exprs, p.annotatedRHS())
		}
		last := len(p.exprs) - 1
		v := p.exprs[last]
		p.exprs = p.exprs[:last]
		targets := p.takeExprs(mark)
		for _, t := range targets {
			p.target(t, Store)
		}
		s := p.assigns.new()
		s.Span, s.Targets, s.Value = p.span(start), targets, v
		p.push(s)
	case p.k == tColon:
		switch e.(type) {
		case *Name, *Attribute, *Subscript:
			p.target(e, Store)
		default:
			p.note(int32(e.Pos()), int32(e.End()), "this cannot be annotated")
		}
		_, name := e.(*Name)
		simple := bare && name && int32(e.Pos()) == start
		p.next()
		annotation := p.expression()
		var v Expr
		if p.accept(tAssign) {
			v = p.annotatedRHS()
		}
		s := p.annAssigns.new()
		s.Span, s.Simple, s.Target, s.Annotation, s.Value = p.span(start), simple, e, annotation, v
		p.push(s)
	case p.k >= tPlusEq && p.k <= tCaretEq:
		op := augmented[p.k-tPlusEq]
		switch e.(type) {
		case *Name, *Attribute, *Subscript:
			p.target(e, Store)
		default:
			p.note(int32(e.Pos()), int32(e.End()), "this cannot be the target of an augmented assignment")
		}
		p.next()
		v := p.annotatedRHS()
		s := p.augAssigns.new()
		s.Span, s.Op, s.Target, s.Value = p.span(start), op, e, v
		p.push(s)
	default:
		s := p.exprStmts.new()
		s.Span, s.Value = p.span(start), e
		p.push(s)
	}
}

var augmented = [...]Op{Add, Sub, Mult, Div, Mod, MatMult, FloorDiv, Pow, LShift, RShift, BitAnd, BitOr, BitXor}

// target makes an expression the target of an assignment or a deletion, or notes that it cannot be one.
func (p *parser) target(e Expr, ctx Context) {
	switch e := e.(type) {
	case *Name:
		e.Ctx = ctx
		return
	case *Attribute:
		e.Ctx = ctx
		return
	case *Subscript:
		e.Ctx = ctx
		return
	case *Tuple:
		e.Ctx = ctx
		for _, x := range e.Elts {
			p.target(x, ctx)
		}
		return
	case *List:
		e.Ctx = ctx
		for _, x := range e.Elts {
			p.target(x, ctx)
		}
		return
	case *Starred:
		if ctx == Store {
			if _, twice := e.Value.(*Starred); !twice {
				e.Ctx = ctx
				p.target(e.Value, ctx)
				return
			}
		}
	case *BadExpr:
		return
	}
	what := "this cannot be assigned to"
	if ctx == Del {
		what = "this cannot be deleted"
	}
	p.note(int32(e.Pos()), int32(e.End()), what)
}

func (p *parser) delStmt(start int32) {
	p.next()
	mark := len(p.exprs)
	for {
		e := p.primary()
		p.target(e, Del)
		p.exprs = append(p.exprs, e)
		if !p.accept(tComma) || p.lineEnds() {
			break
		}
	}
	s := &Delete{}
	s.Targets = p.takeExprs(mark)
	s.Span = p.span(start)
	p.push(s)
}

func (p *parser) typeAlias(start int32) {
	p.next()
	at := p.start()
	n := p.nameNodes.new()
	n.ID, n.Ctx = p.name(), Store
	n.Span = p.span(at)
	params := p.typeParams()
	p.expect(tAssign, "'='")
	v := p.expression()
	p.push(&TypeAlias{p.span(start), n, params, v})
}

func (p *parser) typeParams() []*TypeParam {
	if p.k != tLsqb {
		return nil
	}
	p.next()
	mark := len(p.tparams)
	for {
		start := p.start()
		t := &TypeParam{}
		if p.accept(tStar) {
			t.Stars = 1
		} else if p.accept(tDoubleStar) {
			t.Stars = 2
		}
		t.Name = p.name()
		if t.Stars == 0 && p.accept(tColon) {
			t.Bound = p.expression()
		}
		if p.accept(tAssign) {
			if t.Stars == 1 {
				t.DefaultValue = p.starExpression()
			} else {
				t.DefaultValue = p.expression()
			}
		}
		t.Span = p.span(start)
		p.tparams = append(p.tparams, t)
		if !p.accept(tComma) || p.k == tRsqb {
			break
		}
	}
	p.expect(tRsqb, "']'")
	list := append([]*TypeParam(nil), p.tparams[mark:]...)
	p.tparams = p.tparams[:mark]
	return list
}

// dottedName reads a.b.c. Blanks may stand between its parts, so that it is not always a piece of the source.
func (p *parser) dottedName() string {
	start, first := p.start(), p.i
	s := p.name()
	if p.k != tDot {
		return s
	}
	plain := true
	for p.k == tDot {
		plain = plain && p.start() == p.prevEnd
		p.next()
		plain = plain && p.start() == p.prevEnd
		if p.k != tName {
			p.bail("expected a name")
		}
		p.next()
	}
	text := p.src[start:p.prevEnd]
	if !plain {
		var b strings.Builder
		for _, t := range p.toks[first:p.i] {
			b.WriteString(p.src[t.start:t.end])
		}
		text = b.String()
	}
	if ascii(text) {
		return text
	}
	return nfkc(text)
}

func (p *parser) importStmt(start int32) {
	p.next()
	mark := len(p.aliases)
	for {
		at := p.start()
		a := p.aliasNodes.new()
		a.Name = p.dottedName()
		if p.accept(tAs) {
			a.AsName = p.name()
		}
		a.Span = p.span(at)
		p.aliases = append(p.aliases, a)
		if !p.accept(tComma) {
			break
		}
	}
	s := p.imports.new()
	s.Span, s.Names = p.span(start), p.takeAliases(mark)
	p.push(s)
}

func (p *parser) fromStmt(start int32) {
	p.next()
	var level int32
	for p.k == tDot || p.k == tEllipsis {
		if p.k == tDot {
			level++
		} else {
			level += 3
		}
		p.next()
	}
	module := ""
	if level == 0 || p.k != tImport {
		module = p.dottedName()
	}
	p.expect(tImport, "'import'")
	mark := len(p.aliases)
	switch {
	case p.k == tStar:
		at := p.start()
		p.next()
		a := p.aliasNodes.new()
		a.Name, a.Span = "*", p.span(at)
		p.aliases = append(p.aliases, a)
	default:
		paren := p.accept(tLpar)
		for {
			at := p.start()
			a := p.aliasNodes.new()
			a.Name = p.name()
			if p.accept(tAs) {
				a.AsName = p.name()
			}
			a.Span = p.span(at)
			if module == "__future__" && level == 0 && a.Name == "barry_as_FLUFL" {
				p.flufl = true
			}
			p.aliases = append(p.aliases, a)
			if !p.accept(tComma) || paren && p.k == tRpar {
				break
			}
		}
		if paren {
			p.expect(tRpar, "')'")
		}
	}
	s := p.fromImports.new()
	s.Span, s.Level, s.Module, s.Names = p.span(start), level, module, p.takeAliases(mark)
	p.push(s)
}

func (p *parser) ifStmt() {
	var first, last *If
	for {
		start := p.start()
		p.next()
		s := p.ifs.new()
		s.From = start
		s.Test = p.namedExpression()
		s.Body = p.block()
		s.To = p.prevEnd
		if first == nil {
			first = s
		} else {
			last.Orelse = p.oneStmt(s)
			p.link()
		}
		last = s
		if p.k != tElif {
			break
		}
	}
	if p.accept(tElse) {
		last.Orelse = p.block()
	}
	// The end of the statement is that of its last branch.
	for s := first; ; {
		s.To = p.prevEnd
		if s == last {
			break
		}
		s = s.Orelse[0].(*If)
	}
	p.push(first)
}

func (p *parser) whileStmt() {
	start := p.start()
	p.next()
	s := &While{}
	s.Test = p.namedExpression()
	s.Body = p.block()
	if p.accept(tElse) {
		s.Orelse = p.block()
	}
	s.Span = p.span(start)
	p.push(s)
}

func (p *parser) forStmt(start int32, async bool) {
	p.next()
	s := p.fors.new()
	s.Async = async
	s.Target = p.starTargets()
	p.expect(tIn, "'in'")
	s.Iter = p.starExpressions()
	s.Body = p.block()
	if p.accept(tElse) {
		s.Orelse = p.block()
	}
	s.Span = p.span(start)
	p.push(s)
}

func (p *parser) withStmt(start int32, async bool) {
	p.next()
	s := p.withs.new()
	s.Async = async
	mark := len(p.items)
	if p.k != tLpar || !p.parenthesisedItems(mark) {
		for {
			p.items = append(p.items, p.withItem(p.expression))
			if !p.accept(tComma) {
				break
			}
		}
	}
	s.Items = p.takeItems(mark)
	s.Body = p.block()
	s.Span = p.span(start)
	p.push(s)
}

func (p *parser) withItem(context func() Expr) *WithItem {
	at := p.start()
	w := p.withItems.new()
	w.ContextExpr = context()
	if p.accept(tAs) {
		w.OptionalVars = p.starTarget()
	}
	w.Span = p.span(at)
	return w
}

// parenthesisedItems reads with (a as b, c): where the brackets hold the items. It is false, with nothing read, where
// they are part of an expression: the colon does not follow them, or what they hold is no list of items.
func (p *parser) parenthesisedItems(mark int) bool {
	open, end := 0, p.i
	for ; ; end++ {
		switch p.toks[end].kind {
		case tLpar, tLsqb, tLbrace:
			open++
		case tRpar, tRsqb, tRbrace:
			open--
		case tNewline, tEOF:
			return false
		}
		if open == 0 {
			break
		}
	}
	if p.toks[end+1].kind != tColon {
		return false
	}
	from, prevEnd, errs := p.i, p.prevEnd, len(p.errs)
	p.next()
	for p.k != tYield && p.k != tStar && p.i < end {
		at := p.start()
		w := p.withItems.new()
		w.ContextExpr = p.expression()
		if p.k == tAs {
			p.next()
			w.OptionalVars = p.starTarget()
		}
		w.Span = p.span(at)
		p.items = append(p.items, w)
		if p.k == tRpar && p.i == end || p.accept(tComma) && p.k == tRpar {
			p.next()
			return true
		}
		if p.toks[p.i-1].kind != tComma {
			break
		}
	}
	p.i, p.k, p.prevEnd = from, p.toks[from].kind, prevEnd
	p.errs = p.errs[:errs]
	p.items = p.items[:mark]
	return false
}

func (p *parser) tryStmt() {
	start := p.start()
	p.next()
	s := p.tries.new()
	s.Body = p.block()
	mark := len(p.handlers)
	for p.k == tExcept {
		at := p.start()
		p.next()
		h := p.handlerNodes.new()
		star := p.accept(tStar)
		if len(p.handlers) > mark && star != s.Star {
			p.note(at, p.prevEnd, "except and except* in one try")
		}
		s.Star = star
		if p.k != tColon {
			from := p.start()
			h.Type = p.expression()
			if p.k == tComma {
				list := len(p.exprs)
				p.exprs = append(p.exprs, h.Type)
				for p.accept(tComma) {
					if p.k == tColon {
						break
					}
					p.exprs = append(p.exprs, p.expression())
				}
				t := p.tuples.new()
				t.Elts = p.takeExprs(list)
				t.Span = p.span(from)
				h.Type = t
				if p.k == tAs {
					p.note(t.From, t.To, "several exceptions want brackets before 'as'")
				}
			}
			if p.accept(tAs) {
				h.Name = p.name()
			}
		} else if star {
			p.note(at, p.prevEnd, "expected exceptions after except*")
		}
		h.Body = p.block()
		h.Span = p.span(at)
		p.handlers = append(p.handlers, h)
	}
	s.Handlers = p.takeHandlers(mark)
	if len(s.Handlers) > 0 && p.accept(tElse) {
		s.Orelse = p.block()
	}
	if p.accept(tFinally) {
		s.Finalbody = p.block()
	} else if len(s.Handlers) == 0 {
		p.note(start, start+3, "expected 'except' or 'finally' after the block of try")
	}
	s.Span = p.span(start)
	p.push(s)
}

func (p *parser) decorated() {
	mark := len(p.exprs)
	for p.accept(tAt) {
		p.exprs = append(p.exprs, p.namedExpression())
		p.expect(tNewline, "the end of the line")
	}
	list := p.takeExprs(mark)
	at := p.start()
	switch p.k {
	case tDef:
		p.def(at, list, false)
	case tClass:
		p.classDef(list)
	case tAsync:
		p.next()
		if p.k != tDef {
			p.bail("expected def")
		}
		p.def(at, list, true)
	default:
		p.bail("expected a function or class after the decorator")
	}
}

func (p *parser) def(start int32, decorators []Expr, async bool) {
	p.next()
	f := p.functions.new()
	f.Async, f.DecoratorList = async, decorators
	f.At = p.start()
	f.Name = p.name()
	f.TypeParams = p.typeParams()
	p.expect(tLpar, "'('")
	f.Args = p.parameters(tRpar)
	p.expect(tRpar, "')'")
	if p.accept(tArrow) {
		f.Returns = p.expression()
	}
	outer := p.yields
	p.yields = false
	f.Body = p.block()
	f.Generator, p.yields = p.yields, outer
	f.Span = p.span(start)
	p.push(f)
}

func (p *parser) classDef(decorators []Expr) {
	start := p.start()
	p.next()
	c := p.classes.new()
	c.DecoratorList = decorators
	c.At = p.start()
	c.Name = p.name()
	c.TypeParams = p.typeParams()
	if p.accept(tLpar) {
		c.Bases, c.Keywords = p.arguments(nil)
	}
	c.Body = p.block()
	c.Span = p.span(start)
	p.push(c)
}

// parameters reads those of a function or, without annotations, of a lambda, up to the token end.
func (p *parser) parameters(end TokenKind) *Arguments {
	a := p.argumentNodes.new()
	a.From = p.start()
	mark, defaults, kwMark := len(p.args), len(p.exprs), -1
	const (
		positional = iota
		afterSlash
		afterStar
		afterKwargs
	)
	state := positional
	annotate := end == tRpar
	var star int32 = -1 // a bare * that still wants a name
	for p.k != end {
		at := p.start()
		switch p.k {
		case tSlash:
			p.next()
			if state != positional || len(p.args) == mark {
				p.note(at, p.prevEnd, "'/' cannot stand here")
			} else {
				a.Posonlyargs = p.takeArgs(mark)
			}
			if state == positional {
				state = afterSlash
			}
		case tStar:
			p.next()
			if state >= afterStar {
				p.note(at, p.prevEnd, "'*' cannot stand here")
			} else {
				a.Args = p.takeArgs(mark)
				a.Defaults = p.takeExprs(defaults)
				kwMark = len(p.exprs)
				state = afterStar
			}
			if p.k == tComma || p.k == end {
				star = at
			} else {
				arg := p.arg(annotate, true)
				if a.Vararg == nil {
					a.Vararg = arg
				}
				if p.k == tAssign {
					p.bail("expected ',' after the parameter that takes the rest")
				}
			}
		case tDoubleStar:
			p.next()
			if state == positional || state == afterSlash {
				a.Args = p.takeArgs(mark)
				a.Defaults = p.takeExprs(defaults)
				kwMark = len(p.exprs)
			}
			if state == afterKwargs || star >= 0 {
				p.note(at, p.prevEnd, "'**' cannot stand here")
			}
			state = afterKwargs
			a.Kwarg = p.arg(annotate, false)
			if p.k == tAssign {
				p.bail("expected ',' after the parameter that takes the rest")
			}
		default:
			arg := p.arg(annotate, false)
			if state == afterKwargs {
				p.note(arg.From, arg.To, "a parameter behind **")
			}
			star = -1
			p.args = append(p.args, arg)
			switch {
			case p.accept(tAssign):
				p.exprs = append(p.exprs, p.expression())
			case state >= afterStar:
				p.exprs = append(p.exprs, nil)
			case len(p.exprs) > defaults:
				p.note(arg.From, arg.To, "a parameter without a default behind one that has it")
			}
		}
		if p.k != end {
			p.expect(tComma, "','")
		}
	}
	if star >= 0 {
		p.note(star, star+1, "named parameters must follow a bare *")
	}
	if kwMark < 0 {
		a.Args = p.takeArgs(mark)
		a.Defaults = p.takeExprs(defaults)
	} else {
		a.Kwonlyargs = p.takeArgs(mark)
		a.KwDefaults = p.takeExprs(kwMark)
	}
	a.To = max(a.From, p.prevEnd)
	return a
}

func (p *parser) arg(annotate, star bool) *Arg {
	at := p.start()
	a := p.argNodes.new()
	a.Arg = p.name()
	if annotate && p.accept(tColon) {
		if star {
			a.Annotation = p.starExpression()
		} else {
			a.Annotation = p.expression()
		}
	}
	a.Span = p.span(at)
	return a
}
