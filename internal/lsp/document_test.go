package lsp

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"
)

// TestPositions: the standard library's UTF-16 says where a place is.
func TestPositions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	letters := []rune("ab é𝔘\t\n字\r")
	for range 500 {
		var text []rune
		for range random.IntN(60) {
			text = append(text, letters[random.IntN(len(letters))])
		}
		d := &document{text: []byte(string(text))}
		for n := range len(text) + 1 {
			before, rest := string(text[:n]), string(text[n:])
			if strings.HasSuffix(before, "\r") && strings.HasPrefix(rest, "\n") {
				continue // within a line end
			}
			lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(before, "\r\n", "\n"), "\r", "\n"), "\n")
			want := position{len(lines) - 1, len(utf16.Encode([]rune(lines[len(lines)-1])))}
			if got := d.position(len(before)); got != want {
				t.Fatalf("%q at %d: %v, want %v", string(text), len(before), got, want)
			}
			if got := d.offset(want); got != len(before) {
				t.Fatalf("%q at %v: %d, want %d", string(text), want, got, len(before))
			}
		}
	}
}
