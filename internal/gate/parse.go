package gate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/internal/catalogue"
	clean "assay/internal/text"
)

// The grammar of a rule:
//
//	any       = all { "or" all } .
//	all       = term { "and" term } .
//	term      = "(" any ")" | condition .
//	condition = figure ( compare quantity | "within" quantity [ "of" "baseline" ] ) [ over ] .
//	compare   = "<=" | "<" | ">=" | ">" | "==" .
//	figure    = NAME [ "(" WORD { "," WORD } ")" ] .
//	quantity  = [ "-" ] NUMBER [ UNIT ] .
//	over      = "over" NUMBER ( "epochs" | "steps" | "runs" ) .
//
// NAME is a figure of evidence (step.time) or one that gates work out (speedup). A quantity has the unit of its figure;
// a ratio may be written as 26 % or 0.26. "and" binds closer than "or".

// What a policy may not exceed. Nobody writes so much, and whoever is handed a policy should not have to wait for it.
const (
	maxRule  = 2000 // bytes
	maxDepth = 32
	maxTerms = 100
)

// Mistake is an error at a place in a rule.
type Mistake struct {
	Rule string
	At   int // byte offset
	Len  int // bytes
	Text string
	Hint string
}

func (m *Mistake) Error() string { return m.Text }

// Show prints the rule with a caret below the place.
func (m *Mistake) Show() string {
	at := min(max(m.At, 0), len(m.Rule))
	end := min(at+max(m.Len, 1), len(m.Rule))
	from, cutLeft := 0, ""
	for utf8.RuneCountInString(m.Rule[from:at]) > 60 { // a long rule is shown around the place
		_, size := utf8.DecodeRuneInString(m.Rule[from:])
		from, cutLeft = from+size, "… "
	}
	shown, cutRight := m.Rule[from:], ""
	if r := []rune(shown); len(r) > 110 {
		shown, cutRight = string(r[:110]), " …"
	}
	room := 110 - utf8.RuneCountInString(m.Rule[from:at])
	marks := min(max(1, utf8.RuneCountInString(m.Rule[at:end])), max(1, room))
	return cutLeft + clean.Line(shown) + cutRight + "\n" +
		strings.Repeat(" ", utf8.RuneCountInString(cutLeft)+utf8.RuneCountInString(m.Rule[from:at])) +
		strings.Repeat("^", marks)
}

// Expr is a parsed rule: a condition, or several joined by and or or.
type Expr struct {
	Op    string  // "and", "or", "" for a condition
	Terms []*Expr // of and, or
	Cond  *Condition
}

// Condition compares one figure with one bound.
type Condition struct {
	Text     string // as it stands in the rule
	Figure   string // full name
	Args     []string
	Compare  string  // <= < >= > == within
	Bound    float64 // in the figure's unit; of a baseline, a ratio
	Baseline bool
	Over     int // 0: the figure as it is
	Window   string

	known *figure
}

// Conditions lists the conditions of the rule from left to right.
func (e *Expr) Conditions() []*Condition {
	if e.Cond != nil {
		return []*Condition{e.Cond}
	}
	var all []*Condition
	for _, term := range e.Terms {
		all = append(all, term.Conditions()...)
	}
	return all
}

// Parse reads a rule. An error is a *Mistake.
func Parse(rule string) (*Expr, error) {
	p := &parser{rule: rule}
	if len(rule) > maxRule {
		return nil, &Mistake{Rule: rule, At: maxRule, Len: 1, Text: fmt.Sprintf("the rule is longer than %d characters",
			maxRule), Hint: "make several gates of it"}
	}
	if !utf8.ValidString(rule) {
		return nil, &Mistake{Rule: strings.ToValidUTF8(rule, "?"), Text: "the rule is not UTF-8"}
	}
	p.next()
	expr, err := p.any(0)
	if err == nil && p.kind != 0 {
		err = p.fail("%s is not expected here", p.said())
		if m := err.(*Mistake); p.kind == 'w' {
			m.Hint = "conditions are joined by and, or; a window is written over 10 epochs"
		}
	}
	if err != nil {
		return nil, err
	}
	return expr, nil
}

type parser struct {
	rule  string
	at    int    // where the token starts
	end   int    // where it ends
	last  int    // where the one before ended
	kind  rune   // 0 end, 'w' word, 'n' number, 'c' comparison, '?' unreadable, else the character itself
	text  string // the token
	terms int
}

func isWord(r rune) bool {
	return r == '_' || r == '.' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// next reads a token.
func (p *parser) next() {
	p.last = p.end
	rest := p.rule[p.end:]
	trimmed := strings.TrimLeftFunc(rest, unicode.IsSpace)
	p.at = p.end + len(rest) - len(trimmed)
	take := func(kind rune, n int) { p.kind, p.text, p.end = kind, trimmed[:n], p.at+n }
	if trimmed == "" {
		p.kind, p.text, p.end = 0, "", p.at
		return
	}
	r, size := utf8.DecodeRuneInString(trimmed)
	switch {
	case strings.HasPrefix(trimmed, "<=") || strings.HasPrefix(trimmed, ">=") || strings.HasPrefix(trimmed, "=="):
		take('c', 2)
	case r == '≤' || r == '≥':
		take('c', size)
		p.text = map[rune]string{'≤': "<=", '≥': ">="}[r]
	case r == '<' || r == '>':
		take('c', 1)
	case strings.ContainsRune("(),%-−", r):
		take(r, size)
	case r >= '0' && r <= '9':
		n := 0
		for n < len(trimmed) {
			c := trimmed[n]
			exponent := n > 0 && (trimmed[n-1] == 'e' || trimmed[n-1] == 'E')
			digits := c >= '0' && c <= '9' || c == '.'
			if !digits && !(exponent && (c == '-' || c == '+')) && !((c == 'e' || c == 'E') &&
				startsExponent(trimmed[n+1:])) {
				break
			}
			n++
		}
		take('n', n)
	case unicode.IsLetter(r) || r == '/' || r == '°':
		n := size
		for n < len(trimmed) {
			r, size := utf8.DecodeRuneInString(trimmed[n:])
			if !isWord(r) && r != '/' {
				break
			}
			n += size
		}
		take('w', n)
	default:
		take('?', size)
	}
}

func startsExponent(s string) bool {
	s = strings.TrimLeft(s, "+-")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

func (p *parser) said() string {
	if p.kind == 0 {
		return "the end of the rule"
	}
	return strconv.Quote(p.text)
}

func (p *parser) fail(format string, args ...any) error {
	return &Mistake{Rule: p.rule, At: p.at, Len: p.end - p.at, Text: fmt.Sprintf(format, args...)}
}

func (p *parser) isWord(word string) bool { return p.kind == 'w' && p.text == word }

func (p *parser) any(depth int) (*Expr, error) { return p.joined("or", depth, p.all) }

func (p *parser) all(depth int) (*Expr, error) { return p.joined("and", depth, p.term) }

func (p *parser) joined(word string, depth int, part func(int) (*Expr, error)) (*Expr, error) {
	first, err := part(depth)
	if err != nil || !p.isWord(word) {
		return first, err
	}
	e := &Expr{Op: word, Terms: []*Expr{first}}
	for p.isWord(word) {
		p.next()
		term, err := part(depth)
		if err != nil {
			return nil, err
		}
		e.Terms = append(e.Terms, term)
	}
	return e, nil
}

func (p *parser) term(depth int) (*Expr, error) {
	if p.kind == '(' {
		if depth >= maxDepth {
			return nil, p.fail("more than %d brackets within one another", maxDepth)
		}
		opened := *p
		p.next()
		e, err := p.any(depth + 1)
		if err != nil {
			return nil, err
		}
		if p.kind != ')' {
			if p.kind == 0 {
				return nil, opened.fail("this bracket is not closed")
			}
			return nil, p.fail("%s where and, or or a closing bracket is expected", p.said())
		}
		p.next()
		return e, nil
	}
	if p.terms++; p.terms > maxTerms {
		return nil, p.fail("more than %d conditions in one rule", maxTerms)
	}
	c, err := p.condition()
	if err != nil {
		return nil, err
	}
	return &Expr{Cond: c}, nil
}

func (p *parser) condition() (*Condition, error) {
	start := p.at
	c, err := p.figure()
	if err != nil {
		return nil, err
	}
	switch {
	case p.kind == 'c':
		c.Compare = p.text
		if c.Compare == "==" && !c.known.Counted() {
			m := p.fail("%s is measured, and no measurement equals a number exactly", c.Figure).(*Mistake)
			m.Hint = "compare it with <=, <, >= or >"
			return nil, m
		}
	case p.isWord("within"):
		c.Compare = "within"
	default:
		m := p.fail("%s where a comparison is expected: <=, <, >=, >, == or within", p.said()).(*Mistake)
		next := ""
		if p.end < len(p.rule) {
			next = p.rule[p.end : p.end+1]
		}
		switch {
		case p.text == "=" && (next == "<" || next == ">"):
			m.Text += "; did you mean " + next + "=?"
			m.Len++
		case p.text == "=" || p.text == "is":
			m.Hint = "a count is compared with =="
		case p.kind == 'w' && near(p.text, []string{"within"}) != "":
			m.Text += "; did you mean within?"
		}
		if p.text == "over" {
			m.Hint = "the window stands last: " + c.Figure + " <= … over 10 epochs"
		}
		return nil, m
	}
	p.next()
	q, err := p.quantity()
	if err != nil {
		return nil, err
	}
	if p.isWord("of") {
		if c.Compare != "within" {
			return nil, p.fail("%s of: only within goes with a baseline: %s within 5 %% of baseline", c.Compare,
				c.Figure)
		}
		p.next()
		if !p.isWord("baseline") {
			m := p.fail("%s where baseline is expected", p.said()).(*Mistake)
			if near(p.text, []string{"baseline"}) != "" {
				m.Text += "; did you mean baseline?"
			}
			return nil, m
		}
		p.next()
		if err := p.baseline(c, q); err != nil {
			return nil, err
		}
	} else if c.Bound, err = q.in(c); err != nil {
		return nil, err
	} else if err := q.possible(c); err != nil {
		return nil, err
	}
	if p.isWord("over") {
		if err := p.over(c); err != nil {
			return nil, err
		}
	}
	c.Text = strings.Join(strings.Fields(p.rule[start:p.last]), " ")
	return c, nil
}

// possible refuses a bound that says nothing of its figure: one that it can never have, and a rule that no value
// fulfils. What always holds for a known figure (>= 0) is allowed: it asks that the figure is known.
func (q quantity) possible(c *Condition) error {
	f, written := c.known, strings.Join(strings.Fields(q.rule[q.at:q.end]), " ")
	switch {
	case c.Compare == "within" && c.Bound < 0:
		return q.fail("%s within a negative range", c.Figure)
	case f.Most > 0 && c.Bound > f.Most:
		return q.fail("%s is never above %g %%", c.Figure, 100*f.Most)
	case f.Most > 0 && c.Bound == f.Most && c.Compare == ">":
		return q.fail("%s is never above %g %%: %s %s never holds", c.Figure, 100*f.Most, c.Compare, written)
	case c.Bound < 0 && f.Least != catalogue.Signed:
		m := q.fail("%s is never negative, and %s is", c.Figure, written).(*Mistake)
		m.Hint = "what may be negative: " + strings.Join(signedFigures(), ", ")
		return m
	case c.Bound == 0 && f.Least != catalogue.Signed && c.Compare == "<":
		return q.fail("%s is never negative: < %s never holds", c.Figure, written)
	case c.Bound == 0 && f.Least == catalogue.AboveZero && (c.Compare == "<=" || c.Compare == "==" ||
		c.Compare == "within"):
		return q.fail("%s is always more than zero: %s %s never holds", c.Figure, c.Compare, written)
	case c.Compare == "==" && c.Bound != math.Trunc(c.Bound):
		return q.fail("%s is a whole number: == %s never holds", c.Figure, written)
	}
	return nil
}

func (p *parser) figure() (*Condition, error) {
	if p.kind != 'w' {
		return nil, p.fail("%s where the name of a figure is expected", p.said())
	}
	known := lookup(p.text)
	if known == nil {
		m := p.fail("no figure is called %s", p.text).(*Mistake)
		if guess := near(p.text, figureNames()); guess != "" {
			m.Text += "; did you mean " + guess + "?"
		}
		m.Hint = "assay gate --figures lists them"
		return nil, m
	}
	c := &Condition{Figure: known.Name, known: known}
	words, least, most := known.arguments()
	named := *p
	p.next()
	if p.kind != '(' {
		if known.need {
			return nil, named.fail("%s needs brackets: %s", c.Figure, known.example())
		}
		return c, nil
	}
	for {
		p.next()
		if p.kind != 'w' {
			return nil, p.fail("%s where one of %s is expected", p.said(), strings.Join(words, ", "))
		}
		if !slices.Contains(words, p.text) {
			m := p.fail("%s is none of %s", p.text, strings.Join(words, ", ")).(*Mistake)
			if guess := near(p.text, words); guess != "" && len(p.text) > 3 {
				m.Text += "; did you mean " + guess + "?"
			}
			return nil, m
		}
		if len(c.Args) == most {
			return nil, p.fail("%s takes %d in its brackets: %s", c.Figure, most, known.example())
		}
		if slices.Contains(c.Args, p.text) {
			return nil, p.fail("%s twice: %s compares two devices", p.text, c.Figure)
		}
		c.Args = append(c.Args, p.text)
		p.next()
		if p.kind == ',' {
			continue
		}
		if p.kind != ')' {
			return nil, p.fail("%s where a comma or a closing bracket is expected", p.said())
		}
		if len(c.Args) < least {
			return nil, p.fail("%s takes %d in its brackets: %s", c.Figure, least, known.example())
		}
		p.next()
		return c, nil
	}
}

func (f *figure) example() string {
	switch f.args {
	case "", "one":
		return f.Name + "(mps)"
	case "two":
		return f.Name + "(mps, cpu)"
	}
	return f.Name + "(" + strings.Fields(f.args)[0] + ")"
}

// quantity is a number and its unit, with their place.
type quantity struct {
	value   float64
	unit    string // as written; "" where there is none
	rule    string
	at, end int
}

// text of the number without its unit.
func (q quantity) text() string { return strconv.FormatFloat(q.value, 'g', -1, 64) }

func (q quantity) fail(format string, args ...any) error {
	return &Mistake{Rule: q.rule, At: q.at, Len: q.end - q.at, Text: fmt.Sprintf(format, args...)}
}

func (p *parser) quantity() (quantity, error) {
	q := quantity{rule: p.rule, at: p.at}
	sign := 1.0
	if p.kind == '-' || p.kind == '−' {
		sign = -1
		p.next()
	}
	if p.kind != 'n' {
		return q, p.fail("%s where a number is expected", p.said())
	}
	v, err := strconv.ParseFloat(p.text, 64)
	switch digits, _, _ := strings.Cut(strings.ToLower(p.text), "e"); {
	case errors.Is(err, strconv.ErrRange) || math.IsInf(v, 0):
		return q, p.fail("%s is no number: the largest is 1.8e308", p.text)
	case err != nil:
		return q, p.fail("%s is no number", p.text)
	case v == 0 && strings.ContainsAny(digits, "123456789"):
		return q, p.fail("%s is no number: the smallest above 0 is 4.9e-324", p.text)
	}
	q.value, q.end = sign*v, p.end
	p.next()
	if p.kind == '%' || p.kind == 'w' && !slices.Contains([]string{"of", "over", "and", "or"}, p.text) {
		q.unit, q.end = p.text, p.end
		p.next()
		if q.unit == "1" {
			q.unit = ""
		}
	} else if p.kind == 'n' {
		return q, p.fail("a number after a number")
	} else if p.kind == ',' {
		m := p.fail("a comma in a number").(*Mistake)
		m.Hint = "thousands are not set apart, and decimals follow a point: 1000, 1.5"
		return q, m
	}
	return q, nil
}

// units by the base unit that they measure.
var units = []struct {
	name, base string
	size       float64
}{
	{"ns", "s", 1e-9}, {"µs", "s", 1e-6}, {"μs", "s", 1e-6}, {"us", "s", 1e-6}, {"ms", "s", 1e-3}, {"s", "s", 1},
	{"min", "s", 60}, {"h", "s", 3600},
	{"B", "B", 1}, {"KiB", "B", 1 << 10}, {"MiB", "B", 1 << 20}, {"GiB", "B", 1 << 30}, {"TiB", "B", 1 << 40},
	{"kB", "B", 1e3}, {"KB", "B", 1e3}, {"MB", "B", 1e6}, {"GB", "B", 1e9}, {"TB", "B", 1e12},
	{"%", "ratio", 0.01}, {"/s", "1/s", 1}, {"mW", "W", 1e-3}, {"W", "W", 1}, {"kW", "W", 1e3}, {"MHz", "Hz", 1e6},
	{"GHz", "Hz", 1e9},
}

var kinds = map[string]string{"s": "a time", "B": "a size", "ratio": "a ratio", "1/s": "a rate", "W": "a power",
	"1": "a count or a plain number"}
var examples = map[string]string{"s": "50 ms or 2 s", "B": "8 GiB", "ratio": "22 %", "1/s": "100 /s", "W": "20 W",
	"1": "a number without a unit"}

// in gives the quantity in the unit of the condition's figure.
func (q quantity) in(c *Condition) (float64, error) {
	want := c.known.Unit
	if q.unit == "" {
		if want == "ratio" && math.Abs(q.value) > 1 { // 26 would be 2600 %, and hold for ever
			m := q.fail("%s is a ratio, and %s of it would be %s %%", c.Figure, q.text(),
				strconv.FormatFloat(100*q.value, 'g', 6, 64)).(*Mistake)
			m.Hint = fmt.Sprintf("write %s %%, or %s", q.text(), strconv.FormatFloat(q.value/100, 'g', 6, 64))
			return 0, m
		}
		if want == "1" || want == "ratio" {
			return q.value, nil
		}
		m := q.fail("%s is %s: the number needs a unit", c.Figure, kinds[want]).(*Mistake)
		m.Hint = "for example " + examples[want]
		return 0, m
	}
	names := make([]string, 0, len(units))
	for _, u := range units {
		if u.name == q.unit {
			if u.base != want {
				m := q.fail("%s is %s, and %s is not", c.Figure, kinds[want], q.unit).(*Mistake)
				m.Hint = "for example " + examples[want]
				return 0, m
			}
			v := q.value * u.size
			if math.IsInf(v, 0) || v == 0 && q.value != 0 {
				return 0, q.fail("%s is no number: it is too large or too small", q.rule[q.at:q.end])
			}
			return v, nil
		}
		names = append(names, u.name)
	}
	m := q.fail("no unit is called %s", q.unit).(*Mistake)
	if guess := near(q.unit, names); guess != "" && len(q.unit) > 1 {
		m.Text += "; did you mean " + guess + "?"
	} else {
		m.Hint = "for example " + examples[want]
	}
	return 0, m
}

func (p *parser) baseline(c *Condition, q quantity) error {
	switch {
	case q.unit != "%":
		m := q.fail("a range about a baseline is a part of it").(*Mistake)
		m.Hint = "write within 5 % of baseline"
		return m
	case q.value <= 0 || q.value >= 100:
		return q.fail("%s: a range about a baseline lies between 0 and 100 %%", strings.TrimSpace(p.rule[q.at:q.end]))
	case c.known.args == "two":
		return q.fail("%s already compares two runs: it has no baseline", c.Figure)
	case c.known.From == catalogue.Gate:
		return q.fail("%s is a count: compare it with ==, <= or >=", c.Figure)
	}
	c.Baseline, c.Bound = true, q.value/100
	return nil
}

func (p *parser) over(c *Condition) error {
	p.next()
	if p.kind != 'n' {
		return p.fail("%s where a number of epochs, steps or runs is expected", p.said())
	}
	n, err := strconv.Atoi(p.text)
	if err != nil || n < 1 || n > 1_000_000 {
		return p.fail("%s: a window is a whole number, from 1 to 1000000", p.text)
	}
	p.next()
	window := p.text
	if p.kind == 'w' && !strings.HasSuffix(window, "s") { // over 1 epoch
		window += "s"
	}
	allowed := append(slices.Sorted(maps.Keys(c.known.windows)), "runs")
	if c.known.args != "" {
		return p.fail("%s has no window", c.Figure)
	}
	if p.kind != 'w' || !slices.Contains(allowed, window) {
		return p.fail("%s: %s can be taken over %s", p.said(), c.Figure, strings.Join(allowed, " or "))
	}
	if window == "epochs" && n < 3 {
		return p.fail("%s over %d epochs: a line needs three", c.Figure, n)
	}
	c.Over, c.Window = n, window
	p.next()
	return nil
}
