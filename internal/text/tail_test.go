package text

import (
	"io"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	kept := &Tail{Limit: 4}
	for _, s := range []string{"ab", "c\nd", "e"} {
		io.WriteString(kept, s)
	}
	if string(kept.Bytes()) != "c\nde" || kept.Last(1) != "de" || kept.Last(9) != "c\nde" {
		t.Errorf("%q", kept.Bytes())
	}
	lines := &Tail{Limit: 100}
	io.WriteString(lines, "a\r\n \nb\n\nc\n")
	if got := lines.Last(2); got != "b\nc" {
		t.Errorf("%q", got)
	}
	if got := (&Tail{Limit: 1}).Last(1); got != "" {
		t.Errorf("%q", got)
	}
	// What is kept is bounded, in one piece and in many.
	long := strings.Repeat("x", 1000) + "end"
	whole, parts := &Tail{Limit: 10}, &Tail{Limit: 10}
	io.WriteString(whole, long)
	for _, r := range long {
		if n, err := io.WriteString(parts, string(r)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if cap(parts.kept) > 64 {
			t.Fatalf("%d bytes are held", cap(parts.kept))
		}
	}
	if string(whole.Bytes()) != "xxxxxxxend" || string(parts.Bytes()) != "xxxxxxxend" {
		t.Errorf("%q and %q", whole.Bytes(), parts.Bytes())
	}
}
