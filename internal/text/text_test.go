package text

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// What a log could hold against the terminal that shows it, by the standards that name it.
var attacks = map[string]string{
	"CSI, colour": "\x1b[31mred\x1b[0m", "CSI, clear": "a\x1b[2J\x1b[Hb", "CSI of one byte": "a\u009b2Jb",
	"OSC, title":        "a\x1b]0;owned\x07b",
	"OSC 52, clipboard": "a\x1b]52;c;cm0gLXJm\x1b\\b", "OSC 8, link": "a\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\b",
	"OSC of one byte": "a\u009d0;x\u009cb",
	"DCS":             "a\x1bP1$r0m\x1b\\b", "APC": "a\x1b_x\x1b\\b", "PM": "a\x1b^x\x1b\\b", "SOS": "a\x1bXx\x1b\\b",
	"reset": "a\x1bcb", "charset": "a\x1b(0b",
	"BEL": "a\ab", "BS": "safe\b\b\b\bevil", "DEL": "a\x7fb", "NUL": "a\x00b", "SO and SI": "a\x0e\x0fb",
	"ENQ": "a\x05b", "VT and FF": "a\v\fb", "CR": "a\rb",
	"C1":         "a\u0084\u0085\u008d\u0090\u0098\u009e\u009fb",
	"direction":  "a\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061cb",
	"separators": "a\u2028\u2029b", "raw C1 bytes": "a\x9b31m\x9dx\x9cb", "no UTF-8": "a\xff\xc3(b\xe2\x82",
	"surrogate": "a\xed\xa0\x80b", "BOM": "a\ufeffb",
	"tags": "a\U000e0001\U000e0041b", "ESC at the end": "a\x1b", "half a CSI": "a\x1b[31", "half an OSC": "a\x1b]0;x",
}

func obeyed(s string) bool {
	if !utf8.ValidString(s) {
		return true
	}
	return strings.ContainsFunc(s, func(r rune) bool {
		return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 ||
			strings.ContainsRune("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff", r) ||
			r >= 0xe0000 && r < 0xe0080
	})
}

func TestHarmless(t *testing.T) {
	for name, attack := range attacks {
		for form, got := range map[string]string{"Line": Line(attack), "Lines": Lines(attack),
			"Short": Short(attack, 5), "without": Line(string(WithoutSequences([]byte(attack))))} {
			if obeyed(got) || strings.ContainsAny(got, "\n\t") {
				t.Errorf("%s of %s: %q", form, name, got)
			}
		}
		if n, m := utf8.RuneCountInString(attack), utf8.RuneCountInString(Line(attack)); n != m {
			t.Errorf("%s: %d characters became %d", name, n, m)
		}
	}
	for _, fine := range []string{"", "plain", "Grüße, 日本語, 👩\u200d💻 and ~|^", "a\u00a0b\u00adc"} {
		if Line(fine) != fine || Lines(fine) != fine {
			t.Errorf("%q was changed to %q", fine, Line(fine))
		}
	}
	if got := Lines("a\n\tb\r\nc"); got != "a\n\tb \nc" {
		t.Errorf("%q", got)
	}
	if got := Line("a\n\tb"); got != "a  b" {
		t.Errorf("%q", got)
	}
	if got := Short("äöüß", 3); got != "äöü…" {
		t.Errorf("%q", got)
	}
	if got := Short("äöü", 3); got != "äöü" {
		t.Errorf("%q", got)
	}
}

// TestWithoutSequences: the words stay, and nothing of a sequence does.
func TestWithoutSequences(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[1;31mRuntimeError\x1b[0m: x": "RuntimeError: x", "a\x1b]0;title\x07b": "ab",
		"a\x1b]8;;file:///x\x1b\\b\x1b]8;;\x1b\\c": "abc", "a\x1bP1$r\x1b\\b": "ab",
		"a\x1b(Bb": "ab", "a\x1b[?25lb": "ab", "a\x1b[38:2::1:2:3mb": "ab", "a\x1b7b\x1b8c": "abc", "plain": "plain",
	} {
		if got := string(WithoutSequences([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestWriter: however a text is cut into writes, the same comes out.
func TestWriter(t *testing.T) {
	for name, attack := range attacks {
		attack = "日本\n" + attack + "\t語"
		var out bytes.Buffer
		w := NewWriter(&out)
		for _, b := range []byte(attack) {
			if n, err := w.Write([]byte{b}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if out.String() != Lines(attack) {
			t.Errorf("%s: %q, in one piece %q", name, out.String(), Lines(attack))
		}
	}
	w := NewWriter(iotest.TruncateWriter(new(bytes.Buffer), 0))
	if n, err := w.Write([]byte("x")); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func FuzzLines(f *testing.F) {
	for _, attack := range attacks {
		f.Add(attack)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{Line(s), Lines(s), Short(s, 9), Line(string(WithoutSequences([]byte(s))))} {
			if obeyed(got) {
				t.Errorf("%q → %q", s, got)
			}
		}
		if Lines(Lines(s)) != Lines(s) || Line(Line(s)) != Line(s) {
			t.Errorf("%q: cleaned twice is not cleaned once", s)
		}
	})
}
