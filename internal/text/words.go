package text

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks s at its white space into lines of at most width characters, first before the first of them and next
// before the others. A word that is too long for a line has one of its own, whole. There is one line at least.
func Wrap(s, first, next string, width int) []string {
	var lines []string
	line, room := first, width-utf8.RuneCountInString(first)
	empty := true // of words
	for _, word := range strings.Fields(s) {
		size := utf8.RuneCountInString(word)
		if !empty && 1+size > room {
			lines = append(lines, line)
			line, room, empty = next, width-utf8.RuneCountInString(next), true
		}
		if !empty {
			line, room = line+" ", room-1
		}
		line, room, empty = line+word, room-size, false
	}
	return append(lines, line)
}

// Wrapped is Wrap's lines as a text: each ends in a line feed.
func Wrapped(s, first, next string, width int) string {
	return strings.Join(Wrap(s, first, next, width), "\n") + "\n"
}

// Distance counts the edits between two short texts, bytes put in, left out and put for others, and neighbours swapped
// (the optimal string alignment distance, after Damerau and Levenshtein). Where it is more than limit, limit+1 is
// given: one text may be a stranger's, and long.
func Distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d++
			}
			d = min(d, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
			least = min(least, d)
		}
		if least > limit+1 { // a swap may take one off the row before
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit+1)
}
