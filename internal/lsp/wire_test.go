package lsp

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

// FuzzRead: whatever comes, a message is what the header promised, or an error; what write writes, read reads.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"Content-Length: 2\r\n\r\n{}", "content-length:2\n\n{}", "Content-Length: -1\r\n\r\n",
		"Content-Length: 1e9\r\n\r\n", "x\r\n\r\n", "Content-Length: 99999999\r\n\r\n{", "\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		r := bufio.NewReaderSize(strings.NewReader(stream), maxHeader)
		for {
			text, err := read(r)
			if err != nil {
				break
			}
			if !strings.Contains(stream, string(text)) {
				t.Fatalf("%q is not in %q", text, stream)
			}
		}
		var b bytes.Buffer
		if err := write(&b, stream); err != nil {
			t.Fatal(err)
		}
		if text, err := read(bufio.NewReaderSize(&b, maxHeader)); err != nil || len(text) == 0 || b.Len() > 0 {
			t.Fatalf("%v %q", err, text)
		}
	})
}

// TestWants: which actions a client gets that asks for some kinds.
func TestWants(t *testing.T) {
	for _, c := range []struct {
		only string
		kind string
		want bool
	}{{"", quickFix, true}, {"", fixAll, false}, {"quickfix", quickFix, true}, {"source", fixAll, true},
		{"source.fixAll", fixAll, true}, {"source.fixAll.assay", fixAll, true},
		{"source.fixAll.ruff", fixAll, false}, {"refactor", quickFix, false},
		{"source.organizeImports quickfix", quickFix, true}} {
		if got := wants(strings.Fields(c.only), c.kind); got != c.want {
			t.Errorf("%q of %s: %v", c.only, c.kind, got)
		}
	}
}
