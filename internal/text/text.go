// Package text makes a stranger's text harmless where it is printed: what a log, a source file, a policy, a run's
// folder or a server says moves no cursor, sets no title, rings no bell and turns no direction of a terminal.
package text

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// mark stands where something was that a terminal would have obeyed, one for one: columns that were counted before stay
// right.
const mark = '\uFFFD'

// harmful reports whether a terminal, or an editor, obeys the character and does not show it:
//
//	U+0000–U+001F, U+007F–U+009F   C0, DEL and C1 (ECMA-48): escape sequences begin with one
//	U+061C, U+200E, U+200F,        marks of direction (Unicode UAX #9; CVE-2021-42574 is what they can do)
//	U+202A–U+202E, U+2066–U+2069
//	U+2028, U+2029                 separators of lines and paragraphs
//	U+FEFF, U+FFF9–U+FFFB          byte order mark within a text, marks of annotation: nothing shows them
//	U+E0000–U+E007F                tags, which nothing shows
func harmful(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0x9f, r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e,
		r >= 0x2066 && r <= 0x2069,
		r == 0xfeff, r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}

// Line makes one line of s: line ends and tabs become spaces, each harmful character and each byte that is no UTF-8
// becomes U+FFFD. The number of characters stays.
func Line(s string) string {
	return clean(s, false)
}

// Lines does what Line does, and keeps line feeds and tabs.
func Lines(s string) string {
	return clean(s, true)
}

// Short is Line, n characters at most: what is longer ends in an ellipsis.
func Short(s string, n int) string {
	if len(s) <= n {
		return Line(s)
	}
	count := 0
	for at := range s {
		if count++; count > n {
			return Line(s[:at]) + "…"
		}
	}
	return Line(s)
}

var markdown = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`,
	"[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "|", `\|`, "#", `\#`, "!", `\!`, "~", `\~`, "$", `\$`,
	"://", `:\/\/`, "www.", `www\.`, "@", "&#64;") // addresses are not made links of, and nobody is called

// Markdown is Short with nothing in it that Markdown takes for its own.
func Markdown(s string, n int) string { return markdown.Replace(Short(s, n)) }

func clean(s string, several bool) string {
	at := strings.IndexFunc(s, func(r rune) bool { return harmful(r) && !(several && (r == '\n' || r == '\t')) })
	if at < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s { // a byte that is no UTF-8 is read as U+FFFD
		switch {
		case several && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case harmful(r):
			b.WriteRune(mark)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// sequence is an escape sequence of ECMA-48 with all that belongs to it: CSI with its parameters; OSC, DCS, SOS, PM and
// APC with their string up to its end (BEL or ST, or the end of the line where it has none); the other sequences of two
// or three bytes.
var sequence = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x1b`)

// WithoutSequences takes out of a line the escape sequences with which programs paint, move and name things, so that
// its words can be read. What is left is not fit to be printed yet: Line makes it so.
func WithoutSequences(line []byte) []byte {
	return sequence.ReplaceAll(line, nil)
}

// Writer passes on what Lines makes of a text that is written in parts. Flush writes the bytes of a character that was
// never completed.
type Writer struct {
	to   io.Writer
	rest []byte // the beginning of a character
}

// NewWriter is for a program's report on a terminal, never for a document whose bytes count.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

func (w *Writer) Write(p []byte) (int, error) {
	all := append(w.rest, p...)
	end := len(all)
	for back := 1; back <= min(utf8.UTFMax-1, len(all)); back++ {
		if b := all[len(all)-back]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(all[len(all)-back:]) {
				end -= back
			}
			break
		}
	}
	if _, err := io.WriteString(w.to, Lines(string(all[:end]))); err != nil {
		return 0, err
	}
	w.rest = append([]byte(nil), all[end:]...)
	return len(p), nil
}

// Flush ends the text.
func (w *Writer) Flush() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := io.WriteString(w.to, Lines(string(w.rest)))
	w.rest = nil
	return err
}
