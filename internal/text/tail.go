package text

import (
	"slices"
	"strings"
)

// Tail keeps the end of what is written to it: the last Limit bytes. It is for one writer, and is asked when that is
// done, or from the same goroutine.
type Tail struct {
	Limit int // bytes, above 0
	kept  []byte
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > t.Limit {
		p = p[n-t.Limit:]
	}
	if t.kept = append(t.kept, p...); len(t.kept) > 2*t.Limit {
		t.kept = slices.Clone(t.Bytes())
	}
	return n, nil
}

// Bytes are the last ones, Limit at most.
func (t *Tail) Bytes() []byte { return t.kept[max(0, len(t.kept)-t.Limit):] }

// Last is the last n lines that say something, "" where there is none.
func (t *Tail) Last(n int) string {
	lines := strings.FieldsFunc(string(t.Bytes()), func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
