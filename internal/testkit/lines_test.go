package testkit

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// mostColumns of a line of Go, a tab being four; a line with a text of some length may be longer, since a text that is
// broken is not found.
const (
	mostColumns = 120
	longText    = 50
)

// TestLines: a line of Go is within 120 columns.
func TestLines(t *testing.T) {
	for file := range goImports(t) {
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		texts := linesOfTexts(source)
		for i, line := range strings.Split(string(source), "\n") {
			n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			table := strings.HasPrefix(line, "//\t") || strings.HasPrefix(line, "//   ") // of a comment
			if n > mostColumns && !texts[i+1] && !table {
				t.Errorf("%s:%d: %d columns, %d at most", file, i+1, n, mostColumns)
			}
		}
	}
}

// linesOfTexts are the lines that a long text stands on, or a part of a text of several lines.
func linesOfTexts(source []byte) map[int]bool {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	lines := map[int]bool{}
	for {
		at, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return lines
		case kind == token.STRING && (len(text) > longText || strings.Contains(text, "\n")):
			from := file.Line(at)
			for line := from; line <= from+strings.Count(text, "\n"); line++ {
				lines[line] = true
			}
		}
	}
}
