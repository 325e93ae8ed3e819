package pyast

// isMatch says whether the name match at the token begins a match statement: what follows may be its subject, and the
// logical line ends in a colon, which no simple statement does.
func (p *parser) isMatch() bool {
	if k := p.peek(1); !starts[k] {
		return false
	}
	j := p.i + 1
	for p.toks[j].kind != tNewline && p.toks[j].kind != tEOF {
		j++
	}
	return p.toks[j-1].kind == tColon
}

func (p *parser) matchStmt() {
	start := p.start()
	p.next()
	s := &Match{}
	at := p.start()
	star := p.k == tStar
	s.Subject = p.starNamed()
	if p.k == tComma {
		mark := len(p.exprs)
		p.exprs = append(p.exprs, s.Subject)
		for p.accept(tComma) && starts[p.k] {
			p.exprs = append(p.exprs, p.starNamed())
		}
		s.Subject = p.tuple(at, mark)
	} else if star {
		p.bail("expected ',' after an unpacked value")
	}
	p.expect(tColon, "':'")
	p.expect(tNewline, "the end of the line")
	p.expect(tIndent, "an indented block of cases")
	p.nesting++
	mark := len(p.cases)
	for p.k == tName && p.text() == "case" {
		p.next()
		at := p.start()
		c := &MatchCase{Pattern: p.patterns()}
		if p.accept(tIf) {
			c.Guard = p.namedExpression()
		}
		c.Body = p.block()
		c.Span = p.span(at)
		p.cases = append(p.cases, c)
	}
	if p.k != tDedent || len(p.cases) == mark {
		p.bail("expected a case")
	}
	p.next()
	p.nesting--
	s.Cases = append([]*MatchCase(nil), p.cases[mark:]...)
	p.cases = p.cases[:mark]
	s.Span = p.span(start)
	p.push(s)
}

func (p *parser) takePatterns(mark int) []Pattern {
	out := append([]Pattern(nil), p.pats[mark:]...)
	p.pats = p.pats[:mark]
	return out
}

// patterns reads what follows case: a pattern, or several that make a sequence.
func (p *parser) patterns() Pattern {
	start := p.start()
	star := p.k == tStar
	first := p.maybeStar()
	if p.k != tComma {
		if star {
			p.bail("expected ',' after an unpacked value")
		}
		return first
	}
	mark := len(p.pats)
	p.pats = append(p.pats, first)
	for p.accept(tComma) && p.k != tColon && p.k != tIf {
		p.pats = append(p.pats, p.maybeStar())
	}
	list := p.takePatterns(mark)
	return &MatchSequence{p.span(start), list}
}

func (p *parser) maybeStar() Pattern {
	if p.k != tStar {
		return p.pattern()
	}
	start := p.start()
	p.next()
	name := ""
	if p.k == tName && p.text() == "_" {
		p.next()
	} else {
		name = p.capture()
	}
	return &MatchStar{p.span(start), name}
}

// capture reads a name that is bound, which _ is not.
func (p *parser) capture() string {
	if p.k == tName && p.text() == "_" {
		p.bail("expected a name")
	}
	s := p.name()
	if p.k == tDot || p.k == tLpar || p.k == tAssign {
		p.bail("expected the end of the name")
	}
	return s
}

func (p *parser) pattern() Pattern {
	p.enter()
	start := p.start()
	e := p.closedPattern()
	if p.k == tVbar {
		mark := len(p.pats)
		p.pats = append(p.pats, e)
		for p.accept(tVbar) {
			p.pats = append(p.pats, p.closedPattern())
		}
		list := p.takePatterns(mark)
		e = &MatchOr{p.span(start), list}
	}
	if p.accept(tAs) {
		name := p.capture()
		e = &MatchAs{p.span(start), e, name}
	}
	p.depth--
	return e
}

func (p *parser) closedPattern() Pattern {
	start := p.start()
	switch p.k {
	case tNumber, tMinus, tString, tFStart:
		v := p.literalExpr()
		return &MatchValue{p.span(start), v}
	case tNone, tTrue, tFalse:
		c := p.atom().(*Constant)
		return &MatchSingleton{c.Span, c.What}
	case tName:
		if p.text() == "_" {
			p.next()
			return &MatchAs{Span: p.span(start)}
		}
		if k := p.peek(1); k != tDot && k != tLpar {
			name := p.capture()
			return &MatchAs{Span: p.span(start), Name: name}
		}
		e := p.nameOrAttr()
		if p.k == tLpar {
			return p.classPattern(start, e)
		}
		if p.k == tAssign {
			p.bail("expected the end of the pattern")
		}
		return &MatchValue{p.span(start), e}
	case tLpar:
		p.next()
		if p.accept(tRpar) {
			return &MatchSequence{Span: p.span(start)}
		}
		star := p.k == tStar
		first := p.maybeStar()
		if p.k != tComma {
			if star {
				p.bail("expected ',' after an unpacked value")
			}
			p.expect(tRpar, "',' or ')'")
			return first
		}
		list := p.sequence(first, tRpar)
		return &MatchSequence{p.span(start), list}
	case tLsqb:
		p.next()
		var list []Pattern
		if !p.accept(tRsqb) {
			list = p.sequence(p.maybeStar(), tRsqb)
		}
		return &MatchSequence{p.span(start), list}
	case tLbrace:
		return p.mappingPattern()
	}
	p.bail("expected a pattern")
	return nil
}

// sequence reads on behind the first pattern of a sequence in brackets.
func (p *parser) sequence(first Pattern, end TokenKind) []Pattern {
	mark := len(p.pats)
	p.pats = append(p.pats, first)
	for p.accept(tComma) && p.k != end {
		p.pats = append(p.pats, p.maybeStar())
	}
	p.expect(end, "',' or a closing bracket")
	return p.takePatterns(mark)
}

func (p *parser) nameOrAttr() Expr {
	start := p.start()
	var e Expr = p.nameNode()
	for p.accept(tDot) {
		at := p.start()
		name := p.name()
		e = &Attribute{Span: p.span(start), At: at, Value: e, Attr: name}
	}
	return e
}

// literalExpr reads a number, a complex number, or strings.
func (p *parser) literalExpr() Expr {
	if p.k == tString || p.k == tFStart {
		return p.strings()
	}
	start := p.start()
	var left Expr
	var n *Constant
	if p.accept(tMinus) {
		if p.k != tNumber {
			p.bail("expected a number")
		}
		n = p.number()
		left = p.unary(start, USub, n)
	} else {
		n = p.number()
		left = n
	}
	if p.k != tPlus && p.k != tMinus {
		return left
	}
	op := binary[p.k]
	p.next()
	if p.k != tNumber {
		p.bail("expected an imaginary number")
	}
	imaginary := p.number()
	if n.What == Complex || imaginary.What != Complex {
		p.note(start, p.prevEnd, "a complex number is a real and an imaginary one")
	}
	return &BinOp{p.span(start), op, left, imaginary}
}

func (p *parser) mappingPattern() Pattern {
	start := p.start()
	p.next()
	m := &MatchMapping{}
	mark, keys := len(p.pats), len(p.exprs)
	for p.k != tRbrace {
		if p.accept(tDoubleStar) {
			m.Rest = p.capture()
			p.accept(tComma)
			break
		}
		var key Expr
		switch p.k {
		case tNumber, tMinus, tString, tFStart:
			key = p.literalExpr()
		case tNone:
			key = p.constant(None)
		case tTrue:
			key = p.constant(True)
		case tFalse:
			key = p.constant(False)
		default:
			if p.k != tName || p.peek(1) != tDot {
				p.bail("expected a literal or a dotted name as the key")
			}
			key = p.nameOrAttr()
		}
		p.expect(tColon, "':'")
		p.exprs = append(p.exprs, key)
		p.pats = append(p.pats, p.pattern())
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRbrace, "',' or '}'")
	m.Keys, m.Patterns = p.takeExprs(keys), p.takePatterns(mark)
	m.Span = p.span(start)
	return m
}

func (p *parser) classPattern(start int32, cls Expr) Pattern {
	p.next()
	m := &MatchClass{Cls: cls}
	mark, names := len(p.pats), len(p.names)
	for p.k != tRpar {
		if p.k == tName && p.peek(1) == tAssign {
			if len(p.names) == names {
				m.Patterns = p.takePatterns(mark)
			}
			p.names = append(p.names, p.word())
			p.next()
			p.next()
			p.pats = append(p.pats, p.pattern())
		} else {
			at := p.start()
			pat := p.pattern()
			if len(p.names) > names {
				p.note(at, p.prevEnd, "a positional pattern behind a keyword pattern")
			}
			p.pats = append(p.pats, pat)
		}
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tRpar, "',' or ')'")
	if len(p.names) > names {
		m.KwdAttrs, m.KwdPatterns = p.takeNames(names), p.takePatterns(mark)
	} else {
		m.Patterns = p.takePatterns(mark)
	}
	m.Span = p.span(start)
	return m
}
