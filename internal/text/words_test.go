package text

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text, first, next string
		width             int
		lines             []string
	}{
		{"one two three", "", "", 7, []string{"one two", "three"}},
		{"one two three", "", "", 6, []string{"one", "two", "three"}},
		{"one two", "- ", "  ", 9, []string{"- one two"}},
		{"one two", "- ", "  ", 8, []string{"- one", "  two"}},
		{"one two six", "head: ", "  ", 10, []string{"head: one", "  two six"}},
		{"  spaces \n and\tlines ", "", "", 80, []string{"spaces and lines"}},
		{"Grüße an", "", "", 8, []string{"Grüße an"}}, // characters, not bytes
		{"a https://example.org/much/longer b", "", "  ", 8, []string{"a", "  https://example.org/much/longer", "  b"}},
		{"https://example.org/first", "- ", "  ", 8, []string{"- https://example.org/first"}},
		{"", "lead", "  ", 8, []string{"lead"}},
		{"a b", "", "", 0, []string{"a", "b"}},
	} {
		if got := Wrap(c.text, c.first, c.next, c.width); !slices.Equal(got, c.lines) {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.lines)
		}
	}
	if got := Wrapped("one two", "- ", "  ", 8); got != "- one\n  two\n" {
		t.Errorf("%q", got)
	}
}

// TestWrapLosesNothing: the words are there in their order, no line could have taken the next one's first word, and
// none is longer than it has to be.
func TestWrapLosesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var words []string
		for range r.IntN(12) {
			words = append(words, strings.Repeat("é", 1+r.IntN(9)))
		}
		width := r.IntN(24)
		lines := Wrap(strings.Join(words, " "), "> ", "  ", width)
		var got []string
		for i, line := range lines {
			lead := "  "
			if i == 0 {
				lead = "> "
			}
			rest, ok := strings.CutPrefix(line, lead)
			if !ok {
				t.Fatalf("%q begins a line", line)
			}
			here := strings.Fields(rest)
			got = append(got, here...)
			n := utf8.RuneCountInString(line)
			if n > width && len(here) > 1 {
				t.Fatalf("%d characters in a line of %d: %q", n, width, line)
			}
			if i+1 < len(lines) && n+1+utf8.RuneCountInString(strings.Fields(lines[i+1])[0]) <= width {
				t.Fatalf("%q would have had room for the first word of %q in %d", line, lines[i+1], width)
			}
		}
		if !slices.Equal(got, words) {
			t.Fatalf("%q became %q", words, got)
		}
	}
}

// slowDistance is the textbook's recursion.
func slowDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	i, j := len(a)-1, len(b)-1
	cost := 1
	if a[i] == b[j] {
		cost = 0
	}
	d := min(slowDistance(a[:i], b)+1, slowDistance(a, b[:j])+1, slowDistance(a[:i], b[:j])+cost)
	if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
		d = min(d, slowDistance(a[:i-1], b[:j-1])+1)
	}
	return d
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		d    int
	}{
		{"", "", 0}, {"abc", "abc", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"within", "wihtin", 1},
		{"ca", "abc", 3},
		{"step.time", "step_time", 1}, {"epoch", "epochs", 1},
	} {
		if got, back := Distance(c.a, c.b, 9), Distance(c.b, c.a, 9); got != c.d || back != c.d {
			t.Errorf("%q to %q: %d and %d, want %d", c.a, c.b, got, back, c.d)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	word := func() string {
		b := make([]byte, r.IntN(7))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	for range 3000 {
		a, b, limit := word(), word(), r.IntN(8)
		if got, want := Distance(a, b, limit), min(slowDistance(a, b), limit+1); got != want {
			t.Fatalf("%q to %q within %d: %d, want %d", a, b, limit, got, want)
		}
	}
	if got := Distance(strings.Repeat("a", 1<<20), "word", 3); got != 4 { // a stranger's, and at once
		t.Errorf("a long text: %d", got)
	}
}
