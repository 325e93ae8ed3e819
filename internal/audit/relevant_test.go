package audit

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRelevant holds the search for all words at once to strings.Contains, word by word.
func TestRelevant(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := append([]string{"mlx"}, relevant...)
	for range 20_000 {
		var b strings.Builder
		for range random.IntN(8) { // parts of words, so that many nearly match
			w := words[random.IntN(len(words))]
			from := random.IntN(len(w))
			b.WriteString(w[from : from+random.IntN(len(w)-from)+1])
			b.WriteString("\n x"[:random.IntN(4)])
		}
		text, want := b.String(), false
		for _, w := range words {
			want = want || strings.Contains(text, w)
		}
		if got := isRelevant([]byte(text)); got != want {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
	}
}
