package pyast

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Constant is a literal. Its value is decoded when it is asked for.
type Constant struct {
	Span
	What    ConstKind
	Unicode bool // the first literal has the prefix u: CPython's kind
	form    form
	text    string
}

// form says what a Constant's text is.
type form uint8

const (
	literal form = iota // the source: a number, or string literals next to each other with what lies between them
	field               // text of an f-string
	rawText             // text of a raw f-string
	value               // the value itself
)

// Raw is the source of a number, or of string literals with their prefixes and quotes.
func (c *Constant) Raw() string { return c.text }

// IsString says whether the constant is a str.
func (c *Constant) IsString() bool { return c.What == Str }

// StringValue is the value of a str or bytes. A str is UTF-8; lone surrogates stand in it in three bytes each, as in
// WTF-8.
func (c *Constant) StringValue() string {
	if c.What != Str && c.What != Bytes {
		return ""
	}
	switch c.form {
	case value:
		return c.text
	case field:
		if strings.IndexByte(c.text, '\\') < 0 {
			return newlines(c.text)
		}
		s, _ := unescape(c.text, false)
		return s
	case rawText:
		return newlines(c.text)
	}
	first, end := literalAt(c.text, 0)
	if end == len(c.text) {
		return first.value()
	}
	var b strings.Builder
	for i := 0; i < len(c.text); {
		switch c.text[i] {
		case '#':
			for i < len(c.text) && c.text[i] != '\n' && c.text[i] != '\r' {
				i++
			}
		case ' ', '\t', '\f', '\n', '\r', '\\':
			i++
		default:
			l, next := literalAt(c.text, i)
			b.WriteString(l.value())
			i = next
		}
	}
	return b.String()
}

// stringLiteral is one literal, split.
type stringLiteral struct {
	body            string
	raw, bytes, uni bool
}

// literalAt splits the literal at i and says where it ends.
func literalAt(s string, i int) (l stringLiteral, end int) {
	for ; i < len(s) && s[i] != '"' && s[i] != '\''; i++ {
		switch s[i] {
		case 'r', 'R':
			l.raw = true
		case 'b', 'B':
			l.bytes = true
		case 'u':
			l.uni = true
		}
	}
	if i >= len(s) {
		return l, len(s)
	}
	q := s[i]
	n := 1
	if i+2 < len(s) && s[i+1] == q && s[i+2] == q {
		n = 3
	}
	from := i + n
	for i = from; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		} else if s[i] == q && (n == 1 || i+2 < len(s) && s[i+1] == q && s[i+2] == q) {
			l.body = s[from:i]
			return l, i + n
		}
	}
	l.body = s[min(from, len(s)):]
	return l, len(s)
}

func (l stringLiteral) value() string {
	if l.raw || strings.IndexByte(l.body, '\\') < 0 {
		return newlines(l.body)
	}
	s, _ := unescape(l.body, l.bytes)
	return s
}

// newlines makes every line end \n, as CPython does before it reads anything.
func newlines(s string) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// unescape decodes the escapes of a literal; problem says what CPython rejects in it.
func unescape(s string, isBytes bool) (_ string, problem string) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		c := s[i]
		if c == '\r' {
			b = append(b, '\n')
			i = eol(s, i)
			continue
		}
		if c != '\\' {
			b = append(b, c)
			i++
			continue
		}
		i++
		if i >= len(s) {
			b = append(b, '\\')
			break
		}
		c = s[i]
		i++
		switch c {
		case '\n':
		case '\r':
			i = eol(s, i-1)
		case '\\', '\'', '"':
			b = append(b, c)
		case 'a':
			b = append(b, '\a')
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'v':
			b = append(b, '\v')
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n := rune(c - '0')
			for j := 0; j < 2 && i < len(s) && s[i] >= '0' && s[i] <= '7'; j++ {
				n = n<<3 + rune(s[i]-'0')
				i++
			}
			if isBytes {
				b = append(b, byte(n))
			} else {
				b = utf8.AppendRune(b, n)
			}
		case 'x':
			n, ok := hexDigits(s, i, 2)
			if !ok {
				problem = `\x wants two hexadecimal digits`
				b = append(b, '\\', 'x')
				continue
			}
			i += 2
			if isBytes {
				b = append(b, byte(n))
			} else {
				b = utf8.AppendRune(b, n)
			}
		case 'u', 'U', 'N':
			if isBytes {
				b = append(b, '\\', c)
				continue
			}
			if c == 'N' {
				end := strings.IndexByte(s[i:], '}')
				if i >= len(s) || s[i] != '{' || end < 2 {
					problem = `\N wants a name in braces`
					b = append(b, '\\', 'N')
					continue
				}
				if r, ok := runeNamed(s[i+1 : i+end]); ok {
					b = utf8.AppendRune(b, r)
				} else {
					problem = "no character has the name " + s[i+1:i+end]
				}
				i += end + 1
				continue
			}
			n := 4
			if c == 'U' {
				n = 8
			}
			r, ok := hexDigits(s, i, n)
			if !ok {
				problem = `\` + string(c) + " wants " + strconv.Itoa(n) + " hexadecimal digits"
				b = append(b, '\\', c)
				continue
			}
			i += n
			switch {
			case r > utf8.MaxRune || r < 0:
				problem = "no character has this number"
			case r >= 0xD800 && r < 0xE000:
				b = append(b, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
			default:
				b = utf8.AppendRune(b, r)
			}
		default:
			b = append(b, '\\', c)
		}
	}
	return string(b), problem
}

func hexDigits(s string, i, n int) (rune, bool) {
	if i+n > len(s) {
		return 0, false
	}
	v, err := strconv.ParseUint(s[i:i+n], 16, 32)
	if err != nil || v > math.MaxInt32 {
		return utf8.MaxRune + 1, err == nil
	}
	return rune(v), true
}

// numberKind is the kind of a number.
func numberKind(s string) ConstKind {
	if last := s[len(s)-1]; last == 'j' || last == 'J' {
		return Complex
	}
	if len(s) > 1 && s[0] == '0' && class[s[1]]&cDigit == 0 && s[1] != '.' && s[1]|0x20 != 'e' && s[1] != '_' {
		return Int // 0x, 0o, 0b
	}
	if strings.ContainsAny(s, ".eE") {
		return Float
	}
	return Int
}

// IntValue is the value of an integer that fits.
func (c *Constant) IntValue() (int64, bool) {
	if c.What != Int {
		return 0, false
	}
	if n, err := strconv.ParseInt(c.digits(), 0, 64); err == nil {
		return n, true
	}
	return 0, false
}

// BigValue is the value of an integer.
func (c *Constant) BigValue() *big.Int {
	n, ok := new(big.Int).SetString(c.digits(), 0)
	if c.What != Int || !ok {
		return nil
	}
	return n
}

// digits is the number without underscores, and without zeros that Go would take for an octal prefix.
func (c *Constant) digits() string {
	s := strings.ReplaceAll(c.text, "_", "")
	if len(s) > 1 && s[0] == '0' && class[s[1]]&cDigit != 0 {
		return "0" // only zeros may follow a zero
	}
	return s
}

// FloatValue is the value of an integer or float, or the imaginary part of a complex.
func (c *Constant) FloatValue() float64 {
	switch c.What {
	case Int:
		f, _ := new(big.Float).SetInt(c.BigValue()).Float64()
		return f
	case Float, Complex:
		f, _ := strconv.ParseFloat(strings.ReplaceAll(strings.TrimRight(c.text, "jJ"), "_", ""), 64)
		return f
	}
	return 0
}

func (*Constant) expr()      {}
func (*Constant) Kind() Kind { return KindConstant }
