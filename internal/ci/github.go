// Package ci writes the forms in which services of continuous integration read results: GitHub's workflow commands,
// JUnit's XML, SARIF. It knows their grammars and limits; what a result is, the rooms that have one know.
package ci

import (
	"fmt"
	"path/filepath"
	"strings"
)

// ShownAnnotations of one level are shown of a step; GitHub drops the others without a word (actions/toolkit,
// docs/problem-matchers.md: "10 warning annotations and 10 error annotations per step").
const ShownAnnotations = 10

// Annotation is a message beside a line of a file, as GitHub shows it in a pull request. Lines and columns count from
// 1; 0 leaves one out, as "" does a File.
type Annotation struct {
	Level                            string // error, warning or notice
	Title, File, Text                string
	Line, EndLine, Column, EndColumn int
}

var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// String is the annotation as a workflow command, one line with its end. Escapes are those of actions/toolkit
// (packages/core/src/command.ts, escapeData and escapeProperty).
func (a Annotation) String() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "::%s title=%s", a.Level, commandProperty.Replace(a.Title))
	if a.File != "" {
		fmt.Fprintf(b, ",file=%s", commandProperty.Replace(filepath.ToSlash(a.File)))
		for _, n := range []struct {
			name  string
			value int
		}{{"line", a.Line}, {"endLine", a.EndLine}, {"col", a.Column}, {"endColumn", a.EndColumn}} {
			if n.value > 0 {
				fmt.Fprintf(b, ",%s=%d", n.name, n.value)
			}
		}
	}
	fmt.Fprintf(b, "::%s\n", commandData.Replace(a.Text))
	return b.String()
}
