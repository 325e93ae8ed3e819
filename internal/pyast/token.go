package pyast

import (
	"strings"
	"unicode/utf8"
)

// TokenKind is what a token is.
type TokenKind uint8

// The first four have no text and never end a node.
const (
	tEOF TokenKind = iota
	tNewline
	tIndent
	tDedent
	tError
	tName
	tNumber
	tString
	tFStart // also of t-strings
	tFMiddle
	tFEnd
	tFColon // the colon before a format specification

	tLpar
	tRpar
	tLsqb
	tRsqb
	tLbrace
	tRbrace
	tColon
	tComma
	tSemi
	tDot
	tEllipsis
	tArrow
	tAssign
	tWalrus
	tExclamation

	tPlus
	tMinus
	tStar
	tSlash
	tPercent
	tAt
	tDoubleSlash
	tDoubleStar
	tLshift
	tRshift
	tAmper
	tVbar
	tCaret
	tTilde

	tPlusEq
	tMinusEq
	tStarEq
	tSlashEq
	tPercentEq
	tAtEq
	tDoubleSlashEq
	tDoubleStarEq
	tLshiftEq
	tRshiftEq
	tAmperEq
	tVbarEq
	tCaretEq

	tEqEq
	tNotEq
	tLtGt
	tLess
	tLessEq
	tGreater
	tGreaterEq

	tFalse
	tNone
	tTrue
	tAnd
	tAs
	tAssert
	tAsync
	tAwait
	tBreak
	tClass
	tContinue
	tDef
	tDel
	tElif
	tElse
	tExcept
	tFinally
	tFor
	tFrom
	tGlobal
	tIf
	tImport
	tIn
	tIs
	tLambda
	tNonlocal
	tNot
	tOr
	tPass
	tRaise
	tReturn
	tTry
	tWhile
	tWith
	tYield

	tokenKinds
)

type token struct {
	start, end int32
	kind       TokenKind
	high       bool // a name with characters beyond ASCII
}

// keyword is the kind of a word: that of its keyword, or a name.
func keyword(s string) TokenKind {
	switch s {
	case "False":
		return tFalse
	case "None":
		return tNone
	case "True":
		return tTrue
	case "and":
		return tAnd
	case "as":
		return tAs
	case "assert":
		return tAssert
	case "async":
		return tAsync
	case "await":
		return tAwait
	case "break":
		return tBreak
	case "class":
		return tClass
	case "continue":
		return tContinue
	case "def":
		return tDef
	case "del":
		return tDel
	case "elif":
		return tElif
	case "else":
		return tElse
	case "except":
		return tExcept
	case "finally":
		return tFinally
	case "for":
		return tFor
	case "from":
		return tFrom
	case "global":
		return tGlobal
	case "if":
		return tIf
	case "import":
		return tImport
	case "in":
		return tIn
	case "is":
		return tIs
	case "lambda":
		return tLambda
	case "nonlocal":
		return tNonlocal
	case "not":
		return tNot
	case "or":
		return tOr
	case "pass":
		return tPass
	case "raise":
		return tRaise
	case "return":
		return tReturn
	case "try":
		return tTry
	case "while":
		return tWhile
	case "with":
		return tWith
	case "yield":
		return tYield
	}
	return tName
}

// statementOnly are keywords that stand in no expression. One of them first on a line inside brackets says that the
// brackets were never closed.
func statementOnly(k TokenKind) bool {
	switch k {
	case tAssert, tBreak, tClass, tContinue, tDef, tDel, tElif, tExcept, tFinally, tGlobal, tImport, tNonlocal, tPass,
		tRaise, tReturn, tTry, tWhile, tWith:
		return true
	}
	return false
}

const (
	cIdent = 1 << iota
	cDigit
	cStart
	cHex
	cFirst // a keyword begins with it
	cHigh  // not ASCII
)

var class = func() (t [256]uint8) {
	for c := range 256 {
		switch {
		case c >= '0' && c <= '9':
			t[c] = cIdent | cDigit | cHex
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 128:
			t[c] = cIdent | cStart
			if c >= 128 {
				t[c] |= cHigh
			}
			if c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' {
				t[c] |= cHex
			}
			if strings.IndexByte("FNTabcdefgilnoprtwy", byte(c)) >= 0 {
				t[c] |= cFirst
			}
		}
	}
	return
}()

// CPython's limits: MAXLEVEL, MAXINDENT and MAXFSTRINGLEVEL of its tokenizer.
const (
	maxBrackets  = 200
	maxIndents   = 100
	maxFStrings  = 150
	maxFieldNest = 3 // MAX_EXPR_NESTING: fields within format specifications
)

// fmode is an f-string that is being read.
type fmode struct {
	start  int32
	quote  byte
	triple bool
	raw    bool
	inSpec bool // in a format specification
	text   bool // reading text, not a field
	depth  int  // brackets that are open inside this f-string, braces of fields included
	expr   int  // CPython's curly_bracket_expr_start_depth: fields that are open, from -1
}

type tokenizer struct {
	src      string
	toks     []token
	comments []Comment
	lines    []int32
	errs     []Error

	level    int
	brackets [maxBrackets]byte
	indents  [maxIndents]int32
	alts     [maxIndents]int32
	indent   int
	modes    []fmode
	outer    snapshot // when the outermost bracket was opened
	reread   int
}

// snapshot is how far the tokenizer was.
type snapshot struct{ toks, comments, errs int }

// maxReread bounds how often a file is read again from the line of a bracket that was never closed.
const maxReread = 20

func (t *tokenizer) fail(from, to int, message string) {
	if len(t.errs) < maxErrors {
		t.errs = append(t.errs, Error{Span{int32(from), int32(to)}, message})
	}
}

func (t *tokenizer) add(k TokenKind, from, to int) {
	t.toks = append(t.toks, token{int32(from), int32(to), k, false})
}

// newline notes that a line begins at i.
func (t *tokenizer) newline(i int) { t.lines = append(t.lines, int32(i)) }

// eol skips the line end at i: \n, \r\n or a lone \r, which CPython takes for one, too.
func eol(s string, i int) int {
	if s[i] == '\r' && i+1 < len(s) && s[i+1] == '\n' {
		return i + 2
	}
	return i + 1
}

// run reads the whole source. It never stops at an error: an error token stands where CPython would have stopped.
func (t *tokenizer) run(i int) {
	s := t.src
	atbol := true
	for {
		if n := len(t.modes); n > 0 && t.modes[n-1].text {
			i = t.fstring(i)
			continue
		}
		if atbol {
			atbol = false
			var ok bool
			if i, ok = t.lineStart(i); !ok {
				break
			}
		}
		for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\f') {
			i++
		}
		if i >= len(s) {
			if t.level > 0 {
				if at, ok := t.again(); ok {
					i = at
					continue
				}
			}
			break
		}
		c := s[i]
		start := i
		switch k := class[c]; {
		case k&cStart != 0:
			i++
			seen := k
			for i < len(s) {
				k := class[s[i]]
				if k&cIdent == 0 {
					break
				}
				seen |= k
				i++
			}
			if i-start <= 2 && i < len(s) && (s[i] == '"' || s[i] == '\'') {
				if end, ok := t.prefixed(start, i); ok {
					i = end
					continue
				}
			}
			kind := tName
			if k&cFirst != 0 && i-start >= 2 && i-start <= 8 {
				kind = keyword(s[start:i])
				if kind != tName && t.level > 0 && statementOnly(kind) && t.firstOnLine(start) {
					if at, ok := t.again(); ok {
						i = at
						continue
					}
					t.unclosed(start)
				}
			}
			if seen&cHigh != 0 {
				if at, ok := identifier(s[start:i]); !ok {
					t.fail(start+at, i, "invalid character in a name")
					kind = tError
				}
			}
			t.toks = append(t.toks, token{int32(start), int32(i), kind, seen&cHigh != 0})
			continue
		case k&cDigit != 0:
			i = t.number(i)
			continue
		}
		switch c {
		case '\n', '\r':
			next := eol(s, i)
			t.newline(next)
			if t.level > 0 {
				i = next
				continue
			}
			t.add(tNewline, i, i+1)
			atbol = true
			i = next
		case '#':
			i = t.comment(i)
		case '"', '\'':
			i = t.str(start, i)
		case '.':
			switch {
			case i+1 < len(s) && class[s[i+1]]&cDigit != 0:
				i = t.number(i)
			case i+2 < len(s) && s[i+1] == '.' && s[i+2] == '.':
				i += 3
				t.add(tEllipsis, start, i)
			default:
				i++
				t.add(tDot, start, i)
			}
		case '\\':
			var ok bool
			if i, ok = t.continuation(i); !ok {
				t.add(tError, start, i)
			}
		default:
			i = t.punctuation(i)
		}
	}
	t.finish()
}

func (t *tokenizer) finish() {
	n := len(t.src)
	for len(t.modes) > 0 {
		m := t.modes[len(t.modes)-1]
		t.modes = t.modes[:len(t.modes)-1]
		t.fail(int(m.start), n, "this f-string does not end")
		t.add(tError, n, n)
	}
	if t.level > 0 {
		t.fail(n, n, "a bracket was never closed")
		t.add(tError, n, n)
		t.level = 0
	}
	if k := len(t.toks); k > 0 && t.toks[k-1].kind != tNewline && t.toks[k-1].kind != tDedent {
		t.add(tNewline, n, n)
	}
	for ; t.indent > 0; t.indent-- {
		t.add(tDedent, n, n)
	}
	t.add(tEOF, n, n)
}

// firstOnLine says whether only blanks precede i on its line.
func (t *tokenizer) firstOnLine(i int) bool {
	for i--; i >= 0; i-- {
		switch t.src[i] {
		case ' ', '\t', '\f':
		case '\n', '\r':
			return true
		default:
			return false
		}
	}
	return true
}

// again goes back to the end of the line on which the outermost open bracket stands, and ends the logical line there:
// it was never closed, and what follows may be statements. ok is false where it cannot tell where that is, or has done
// so often enough.
func (t *tokenizer) again() (at int, ok bool) {
	if t.reread >= maxReread || len(t.modes) > 0 {
		return 0, false
	}
	t.reread++
	j, fstrings := t.outer.toks, 0
	for ; j+1 < len(t.toks); j++ {
		switch t.toks[j].kind {
		case tFStart:
			fstrings++
		case tFEnd:
			fstrings--
		}
		if strings.ContainsAny(t.src[t.toks[j].end:max(t.toks[j].end, t.toks[j+1].start)], "\r\n") {
			break
		}
	}
	if fstrings != 0 {
		return 0, false
	}
	open := t.toks[t.outer.toks]
	at = int(t.toks[j].end)
	t.toks = t.toks[:j+1]
	t.errs = t.errs[:min(len(t.errs), t.outer.errs)]
	t.comments = t.comments[:t.outer.comments]
	for len(t.lines) > 1 && int(t.lines[len(t.lines)-1]) > at {
		t.lines = t.lines[:len(t.lines)-1]
	}
	t.fail(int(open.start), int(open.end), "this bracket was never closed")
	t.add(tError, at, at)
	t.level = 0
	return at, true
}

// unclosed ends a logical line whose brackets were never closed, before the statement at i. Everything was an error
// since the bracket.
func (t *tokenizer) unclosed(i int) {
	at := i
	t.fail(at, at, "a bracket was never closed")
	t.add(tError, at, at)
	t.level, t.modes = 0, t.modes[:0]
	t.add(tNewline, at, at)
	line := i
	for line > 0 && t.src[line-1] != '\n' && t.src[line-1] != '\r' {
		line--
	}
	t.indentation(line, i)
}

// lineStart reads the indentation of the line at i, skipping blank lines. ok is false at the end of the source.
func (t *tokenizer) lineStart(i int) (_ int, ok bool) {
	s := t.src
	for {
		line, cont := i, 0
		for i < len(s) {
			if c := s[i]; c == ' ' || c == '\t' || c == '\f' {
				i++
				continue
			} else if c == '\\' {
				// Indentation is that before the first backslash.
				col, _ := columns(s[line:i])
				from := i
				var ok bool
				if i, ok = t.continuation(i); !ok {
					t.add(tError, from, i)
					return i, true
				}
				if cont == 0 {
					cont = int(col)
				}
				line = i
				continue
			}
			break
		}
		if i >= len(s) {
			return i, false
		}
		switch s[i] {
		case '#':
			i = t.comment(i)
			if i < len(s) {
				i = eol(s, i)
				t.newline(i)
			}
			continue
		case '\n', '\r':
			i = eol(s, i)
			t.newline(i)
			continue
		}
		if cont > 0 {
			t.setIndent(int32(cont), int32(cont), i)
		} else {
			t.indentation(line, i)
		}
		return i, true
	}
}

// columns are the widths of blanks with tabs to every eighth column and with tabs of one.
func columns(blanks string) (col, alt int32) {
	for j := range len(blanks) {
		switch blanks[j] {
		case '\t':
			col = (col/8 + 1) * 8
			alt++
		case '\f':
			col, alt = 0, 0
		default:
			col++
			alt++
		}
	}
	return
}

func (t *tokenizer) indentation(line, i int) {
	col, alt := columns(t.src[line:i])
	t.setIndent(col, alt, i)
}

func (t *tokenizer) setIndent(col, alt int32, i int) {
	switch current := t.indents[t.indent]; {
	case col == current:
		if alt != t.alts[t.indent] {
			t.tabs(i)
		}
	case col > current:
		if t.indent+1 >= maxIndents {
			t.fail(i, i, "too many levels of indentation")
			t.add(tError, i, i)
			return
		}
		if alt <= t.alts[t.indent] {
			t.tabs(i)
		}
		t.indent++
		t.indents[t.indent], t.alts[t.indent] = col, alt
		t.add(tIndent, i, i)
	default:
		for t.indent > 0 && col < t.indents[t.indent] {
			t.indent--
			t.add(tDedent, i, i)
		}
		if col != t.indents[t.indent] {
			t.fail(i, i, "the indentation matches no outer level")
		} else if alt != t.alts[t.indent] {
			t.tabs(i)
		}
	}
}

func (t *tokenizer) tabs(i int) { t.fail(i, i, "tabs and spaces are mixed in the indentation") }

func (t *tokenizer) comment(i int) int {
	start, s := i, t.src
	// strings.IndexByte is vectorised; a lone \r is rare, but ends the comment, too.
	if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
		i += n
	} else {
		i = len(s)
	}
	if n := strings.IndexByte(s[start:i], '\r'); n >= 0 {
		i = start + n
	}
	t.comments = append(t.comments, Comment{int32(start), int32(i)})
	return i
}

// continuation skips a backslash and the line end behind it.
func (t *tokenizer) continuation(i int) (int, bool) {
	s := t.src
	if i+1 >= len(s) {
		t.fail(i, i+1, "the file ends in a backslash")
		return i + 1, false
	}
	if s[i+1] != '\n' && s[i+1] != '\r' {
		t.fail(i, i+1, "unexpected character after a backslash")
		return i + 1, false
	}
	next := eol(s, i+1)
	t.newline(next)
	if next >= len(s) {
		t.fail(i, i+1, "the file ends in a backslash")
		return next, false
	}
	return next, true
}

// prefixed reads a string with the prefix s[start:i]; ok is false where this is no prefix.
func (t *tokenizer) prefixed(start, i int) (end int, ok bool) {
	var f, raw, b, u bool
	for _, c := range []byte(t.src[start:i]) {
		switch c | 0x20 {
		case 'f', 't':
			if f || b || u {
				return 0, false
			}
			f = true
		case 'r':
			if raw || u {
				return 0, false
			}
			raw = true
		case 'b':
			if f || b || u {
				return 0, false
			}
			b = true
		case 'u':
			if f || b || u || raw {
				return 0, false
			}
			u = true
		default:
			return 0, false
		}
	}
	if !f {
		return t.str(start, i), true
	}
	q := t.src[i]
	m := fmode{start: int32(start), quote: q, raw: raw, text: true, expr: -1}
	if strings.HasPrefix(t.src[i+1:], string([]byte{q, q})) {
		m.triple = true
		i += 2
	}
	i++
	if len(t.modes)+1 >= maxFStrings {
		t.fail(start, i, "too many nested f-strings")
		t.add(tError, start, i)
		return t.drop(i), true
	}
	t.add(tFStart, start, i)
	t.modes = append(t.modes, m)
	return i, true
}

// drop gives up all f-strings that are open and goes on at the end of the line.
func (t *tokenizer) drop(i int) int {
	t.modes, t.level = t.modes[:0], 0
	for i < len(t.src) && t.src[i] != '\n' && t.src[i] != '\r' {
		i++
	}
	return i
}

// str reads a string literal that begins at start, with its quote at i.
func (t *tokenizer) str(start, i int) int {
	s := t.src
	q := s[i]
	i++
	if i+1 < len(s) && s[i] == q && s[i+1] == q {
		i += 2
		for i < len(s) {
			switch c := s[i]; c {
			case q:
				if i+2 < len(s) && s[i+1] == q && s[i+2] == q {
					t.add(tString, start, i+3)
					return i + 3
				}
				i++
			case '\\':
				i++
				if i < len(s) {
					if s[i] == '\n' || s[i] == '\r' {
						i = eol(s, i)
						t.newline(i)
					} else {
						i++
					}
				}
			case '\n', '\r':
				i = eol(s, i)
				t.newline(i)
			default:
				i++
			}
		}
		t.fail(start, i, "this triple-quoted string does not end")
		t.add(tError, start, i)
		return i
	}
	for i < len(s) {
		switch c := s[i]; c {
		case q:
			i++
			t.toks = append(t.toks, token{int32(start), int32(i), tString, false})
			return i
		case '\\':
			i++
			if i < len(s) {
				if s[i] == '\n' || s[i] == '\r' {
					i = eol(s, i)
					t.newline(i)
				} else {
					i++
				}
			}
		case '\n', '\r':
			t.fail(start, i, "this string does not end on its line")
			t.add(tError, start, i)
			if len(t.modes) > 0 {
				return t.drop(i)
			}
			return i
		default:
			i++
		}
	}
	t.fail(start, i, "this string does not end")
	t.add(tError, start, i)
	return i
}

// fstring reads from i a piece of text, the end of the f-string, or the brace that opens a field.
func (t *tokenizer) fstring(i int) int {
	s := t.src
	m := &t.modes[len(t.modes)-1]
	start := i
	inField := m.expr >= 0
	closing := func(i int) bool {
		return s[i] == m.quote && (!m.triple || i+2 < len(s) && s[i+1] == m.quote && s[i+2] == m.quote)
	}
	emit := func(end int) {
		if end > start {
			t.add(tFMiddle, start, end)
		}
	}
	for i < len(s) {
		switch c := s[i]; c {
		case '\n', '\r':
			if !m.triple {
				if m.inSpec && inField {
					t.fail(i, i+1, "a format specification ends with its line here")
				} else {
					t.fail(int(m.start), i, "this f-string does not end on its line")
				}
				t.add(tError, start, i)
				return t.drop(i)
			}
			i = eol(s, i)
			t.newline(i)
		case '"', '\'':
			if !closing(i) {
				i++
				continue
			}
			emit(i)
			n := 1
			if m.triple {
				n = 3
			}
			if inField {
				t.fail(i, i+n, "a field of the f-string is not closed")
				t.add(tError, i, i+n)
				return t.drop(i)
			}
			t.add(tFEnd, i, i+n)
			t.modes = t.modes[:len(t.modes)-1]
			return i + n
		case '{':
			if i+1 < len(s) && s[i+1] == '{' && !(m.inSpec && inField) {
				t.add(tFMiddle, start, i+2)
				i += 2
				start = i
				continue
			}
			emit(i)
			m.expr++
			if m.expr >= maxFieldNest {
				t.fail(i, i+1, "fields of the f-string are nested too deeply")
				t.add(tError, i, i+1)
				return t.drop(i)
			}
			if t.level >= maxBrackets {
				t.fail(i, i+1, "too many nested brackets")
				t.add(tError, i, i+1)
				return t.drop(i)
			}
			if t.level == 0 {
				t.outer = snapshot{len(t.toks), len(t.comments), len(t.errs)}
			}
			t.brackets[t.level] = '{'
			t.level++
			m.depth++
			m.inSpec = false
			m.text = false
			t.add(tLbrace, i, i+1)
			return i + 1
		case '}':
			if i+1 < len(s) && s[i+1] == '}' && !(m.inSpec && inField) && m.depth == 0 {
				t.add(tFMiddle, start, i+2)
				i += 2
				start = i
				continue
			}
			emit(i)
			if m.depth == 0 {
				t.fail(i, i+1, "a single '}' in an f-string")
				t.add(tError, i, i+1)
				return t.drop(i)
			}
			m.text, m.inSpec = false, false
			return t.punctuation(i)
		case '\\':
			i++
			if i >= len(s) {
				continue
			}
			switch s[i] {
			case '{', '}':
				// the brace counts; the backslash is text
			case '\n', '\r':
				i = eol(s, i)
				t.newline(i)
			case 'N':
				i++
				if !m.raw && i < len(s) && s[i] == '{' { // the braces of a character's name
					i++
					for i < len(s) && class[s[i]]&cIdent != 0 || i < len(s) && (s[i] == ' ' || s[i] == '-') {
						i++
					}
					if i < len(s) && s[i] == '}' {
						i++
					}
				}
			default:
				i++
			}
		default:
			i++
		}
	}
	t.fail(int(m.start), i, "this f-string does not end")
	t.add(tError, start, i)
	return t.drop(i)
}

var one = [128]TokenKind{'(': tLpar, ')': tRpar, '[': tLsqb, ']': tRsqb, '{': tLbrace, '}': tRbrace, ':': tColon,
	',': tComma, ';': tSemi, '=': tAssign,
	'!': tExclamation, '+': tPlus, '-': tMinus, '*': tStar, '/': tSlash, '%': tPercent, '@': tAt, '&': tAmper,
	'|': tVbar, '^': tCaret, '~': tTilde,
	'<': tLess, '>': tGreater}

// withEq are the kinds of one-character tokens with = behind them.
var withEq = [128]TokenKind{'+': tPlusEq, '-': tMinusEq, '*': tStarEq, '/': tSlashEq, '%': tPercentEq, '@': tAtEq,
	'&': tAmperEq, '|': tVbarEq, '^': tCaretEq,
	'=': tEqEq, '!': tNotEq, '<': tLessEq, '>': tGreaterEq, ':': tWalrus}

func (t *tokenizer) punctuation(i int) int {
	s := t.src
	c := s[i]
	k := TokenKind(0)
	if c < 128 {
		k = one[c]
	}
	if k == 0 {
		_, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == 0: // decode has said it
		case c == '$' || c == '?' || c == '`':
			t.fail(i, i+n, "'"+s[i:i+n]+"' has no meaning in Python")
		default:
			t.fail(i, i+n, "a character that does not print")
		}
		t.add(tError, i, i+n)
		return i + n
	}
	var c2 byte
	if i+1 < len(s) {
		c2 = s[i+1]
	}
	n := len(t.modes)
	if n > 0 && c == ':' {
		if m := &t.modes[n-1]; m.expr >= 0 && m.depth-1 == m.expr {
			m.text, m.inSpec = true, true
			t.add(tFColon, i, i+1)
			return i + 1
		}
	}
	size := 1
	switch {
	case c2 == '=' && withEq[c] != 0:
		k, size = withEq[c], 2
	case c == c2:
		var eq TokenKind
		switch c {
		case '*':
			k, size, eq = tDoubleStar, 2, tDoubleStarEq
		case '/':
			k, size, eq = tDoubleSlash, 2, tDoubleSlashEq
		case '<':
			k, size, eq = tLshift, 2, tLshiftEq
		case '>':
			k, size, eq = tRshift, 2, tRshiftEq
		}
		if size == 2 && i+2 < len(s) && s[i+2] == '=' {
			k, size = eq, 3
		}
	case c == '-' && c2 == '>':
		k, size = tArrow, 2
	case c == '<' && c2 == '>':
		k, size = tLtGt, 2
	}
	if size == 1 {
		switch c {
		case '(', '[', '{':
			if t.level >= maxBrackets {
				t.fail(i, i+1, "too many nested brackets")
				t.add(tError, i, i+1)
				// Nothing that follows on this line can be read; the rest may be.
				for i < len(s) && s[i] != '\n' && s[i] != '\r' {
					i++
				}
				t.level, t.modes = 0, t.modes[:0]
				return i
			}
			if t.level == 0 {
				t.outer = snapshot{len(t.toks), len(t.comments), len(t.errs)}
			}
			t.brackets[t.level] = c
			t.level++
			if n > 0 {
				t.modes[n-1].depth++
			}
		case ')', ']', '}':
			if t.level == 0 {
				t.fail(i, i+1, "'"+s[i:i+1]+"' closes nothing")
				t.add(tError, i, i+1)
				return i + 1
			}
			t.level--
			if open := t.brackets[t.level]; open+1 != c && open+2 != c {
				t.fail(i, i+1, "'"+s[i:i+1]+"' does not match '"+string(open)+"'")
				t.add(tError, i, i+1)
				if n > 0 {
					return t.drop(i)
				}
				return i + 1
			}
			if n > 0 {
				m := &t.modes[n-1]
				m.depth--
				if m.depth < 0 {
					t.fail(i, i+1, "'"+s[i:i+1]+"' closes nothing in this f-string")
					t.add(tError, i, i+1)
					return t.drop(i)
				}
				if c == '}' && m.depth == m.expr {
					m.expr--
					m.text = true
					m.inSpec = false // as CPython 3.14: doubled braces behind a nested field are text again
				}
			}
		}
	}
	t.add(k, i, i+size)
	return i + size
}

// number reads a number at i, by the rules of CPython's tokenizer.
func (t *tokenizer) number(i int) int {
	s := t.src
	start := i
	at := func(j int) byte {
		if j < len(s) {
			return s[j]
		}
		return 0
	}
	bad := func(j int, message string) int {
		for j < len(s) && class[s[j]]&cIdent != 0 {
			j++
		}
		t.fail(start, j, message)
		t.add(tError, start, j)
		return j
	}
	// digits skips digits of a kind with single underscores between them; ok is false after a bad underscore.
	digits := func(j int, in uint8) (int, bool) {
		for {
			for j < len(s) && class[s[j]]&in != 0 {
				j++
			}
			if at(j) != '_' {
				return j, true
			}
			if class[at(j+1)]&in == 0 {
				return j, false
			}
			j++
		}
	}
	c := s[i]
	if c == '0' {
		var base byte
		switch at(i + 1) {
		case 'x', 'X':
			base = 16
		case 'o', 'O':
			base = 8
		case 'b', 'B':
			base = 2
		}
		if base != 0 {
			in := uint8(cDigit)
			if base == 16 {
				in = cHex
			}
			i += 2
			if at(i) == '_' {
				i++
			}
			first := i
			if class[at(i)]&in == 0 {
				return bad(i, "invalid number")
			}
			var ok bool
			if i, ok = digits(i, in); !ok {
				return bad(i, "invalid number")
			}
			if base != 16 {
				for j := first; j < i; j++ {
					if s[j] != '_' && s[j]-'0' >= base {
						return bad(i, "invalid digit in a number")
					}
				}
			}
			if !t.numberEnds(i) {
				return bad(i, "invalid number")
			}
			t.add(tNumber, start, i)
			return i
		}
	}
	var ok bool
	integer := true
	if c != '.' {
		if i, ok = digits(i, cDigit); !ok {
			return bad(i, "invalid number")
		}
	}
	whole := i
	if at(i) == '.' {
		integer = false
		i++
		if class[at(i)]&cDigit != 0 {
			if i, ok = digits(i, cDigit); !ok {
				return bad(i, "invalid number")
			}
		}
	}
	if e := at(i); e == 'e' || e == 'E' {
		j := i + 1
		if sign := at(j); sign == '+' || sign == '-' {
			j++
			if class[at(j)]&cDigit == 0 {
				return bad(j, "invalid number")
			}
		}
		if class[at(j)]&cDigit != 0 {
			integer = false
			if i, ok = digits(j, cDigit); !ok {
				return bad(i, "invalid number")
			}
		}
	}
	if e := at(i); e == 'j' || e == 'J' {
		integer = false
		i++
	}
	if integer && c == '0' && strings.Trim(s[start:whole], "0_") != "" {
		return bad(i, "leading zeros in a number: octal ones begin with 0o")
	}
	if integer && whole-start > maxIntDigits && whole-start-strings.Count(s[start:whole], "_") > maxIntDigits {
		return bad(i, "more digits than Python reads")
	}
	if !t.numberEnds(i) {
		return bad(i, "invalid number")
	}
	t.toks = append(t.toks, token{int32(start), int32(i), tNumber, false})
	return i
}

// maxIntDigits is sys.int_info.default_max_str_digits.
const maxIntDigits = 4300

// numberEnds says whether a number may end before i: no letter follows, or a keyword that CPython still lets stand
// there.
func (t *tokenizer) numberEnds(i int) bool {
	s := t.src
	if i >= len(s) || s[i] >= 128 || class[s[i]]&cIdent == 0 {
		return true
	}
	for _, word := range [...]string{"and", "else", "for", "or", "not"} {
		if strings.HasPrefix(s[i:], word) && (i+len(word) >= len(s) || class[s[i+len(word)]]&cIdent == 0) {
			return true
		}
	}
	return s[i] == 'i' && i+1 < len(s) && (s[i+1] == 'f' || s[i+1] == 'n' || s[i+1] == 's')
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 128 {
			return false
		}
	}
	return true
}
