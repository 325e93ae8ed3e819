package testkit

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// mostColumns of a line of Go, a tab being four; a line with a text of some length may be longer, since a text that is broken is not found.
const (
	mostColumns = 120
	longText    = 50
)

// wide are the rooms whose lines are not within it yet: this list only becomes shorter.
var wide = []string{"agent", "internal/attempt", "internal/catalogue", "internal/audit", "internal/audit/rules", "internal/cli", "internal/cli/guest", "internal/events", "internal/evidence", "internal/fold",
	"internal/gate", "internal/launch", "internal/logbook", "internal/lsp", "internal/probe", "internal/report", "internal/target", "internal/testkit",
	"internal/testset", "internal/unit", "internal/fault", "internal/verdict", "tools/audit"}

// TestLines: a line of Go is within 120 columns.
func TestLines(t *testing.T) {
	seen := map[string]bool{}
	for file := range goImports(t) {
		room := filepath.ToSlash(filepath.Dir(file))
		seen[room] = true
		if slices.Contains(wide, room) {
			continue
		}
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
	for _, room := range wide {
		if !seen[room] {
			t.Errorf("%s is no room any more: take it off the list", room)
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
