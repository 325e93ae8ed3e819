package suite

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"assay/internal/text"
)

// State is a run in one word.
type State int

// The states, from the best.
const (
	StateGood    State = iota // all that used the device passed, all is known, and no known wrong result was met
	StateWrong                // all passed, and some met a known wrong result
	StateUnknown              // none failed, and not all is known
	StateBad                  // some failed
)

// State of a run.
func (s *Sum) State() State {
	switch {
	case s.Failed > 0:
		return StateBad
	case s.Unknown() != "":
		return StateUnknown
	case len(s.Wrong) > 0:
		return StateWrong
	}
	return StateGood
}

// colours of a state, each dark enough for white letters: contrast 4.5 at least (WCAG 2.2, 1.4.3).
var colours = map[State]string{StateGood: "#1b6b3a", StateWrong: "#8a5200", StateUnknown: "#59616a",
	StateBad: "#b3261e"}

// WriteBadge writes the result as a small picture: what it ran on, and how many of the tests that used the device
// passed, of several runs in that which came out worst. It is green where nothing failed, nothing is unknown and no
// known wrong result stands beside it.
func (r *Result) WriteBadge(w io.Writer) error {
	label, value, state := r.badge()
	// Widths of letters are not known without the font: textLength makes them those that are drawn for.
	wide := func(s string) int { return 14 + utf8.RuneCountInString(s)*13/2 }
	escape := func(s string) string {
		b := &strings.Builder{}
		_ = xml.EscapeText(b, []byte(s)) // to a Builder it cannot fail
		return b.String()
	}
	left, right := wide(label), wide(value)
	l, v := escape(label), escape(value)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s: %s">
<title>%s: %s</title>
<clipPath id="r"><rect width="%d" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="%d" height="20" fill="#33383d"/><rect x="%d" width="%d" height="20" fill="%s"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">
<text x="7" y="14" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>
<text x="%d" y="14" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>
</g>
</svg>
`, left+right, l, v, l, v, left+right, left, left, right, colours[state], left-14, l, left+7, right-14, v)
	return err
}

// badge is what the badge says.
func (r *Result) badge() (label, value string, state State) {
	if len(r.Runs) == 0 {
		return "MPS", "unknown", StateUnknown
	}
	sums := make([]Sum, len(r.Runs))
	worst := 0
	for i := range r.Runs {
		sums[i] = SumOf(&r.Runs[i])
		a, b := &sums[i], &sums[worst]
		if cmp.Or(int(a.State())-int(b.State()), a.Failed-b.Failed) > 0 {
			worst = i
		}
	}
	label = r.Runs[0].Label()
	for i := range r.Runs {
		run := &r.Runs[i]
		if i > 0 {
			if run.On != r.Runs[0].On {
				label = "PyTorch"
				break
			}
			label = strings.Replace(label, ", rehearsed", "", 1) + ", " + run.Release()
			if run.Rehearsed() {
				label += ", rehearsed"
			}
		}
	}
	s := &sums[worst]
	of := s.Passed + s.Failed
	switch {
	case of == 0:
		value = "unknown"
	case s.State() == StateUnknown:
		value = fmt.Sprintf("%d passed, others unknown", s.Passed)
	default:
		value = fmt.Sprintf("%d of %d", s.Passed, of)
	}
	if n := len(s.Wrong); n > 0 && of > 0 {
		value += fmt.Sprintf(", %d known wrong", n)
	}
	if why := s.Unknown(); why != "" && s.Failed > 0 {
		value += ", others unknown"
	}
	if len(sums) > 1 && of > 0 {
		value += " on " + cmp.Or(s.Run.Release(), s.Run.On)
	}
	return text.Short(label, 60), text.Short(value, 80), s.State()
}
