package symptom

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/internal/evidence"
	"assay/internal/facts"
)

// Scan and Run explain for the release that the log or run names.
func Scan(name string, in io.Reader) (*Report, error) { return For{}.Scan(name, in) }

func Run(name string, run *evidence.Run) *Report { return For{}.Run(name, run) }

// asPrinted is a fact's text as somebody would read it: its error's class, and values in place of what varies.
func asPrinted(f *facts.Fact) string {
	class, _, _ := strings.Cut(f.Error, ",")
	switch {
	case class == "" && f.Outcome == facts.Warns:
		class = "UserWarning"
	case class == "" && f.Outcome != facts.Aborts:
		class = "RuntimeError"
	}
	op := f.Meets[0]
	if op == "*" {
		op = "aten::sgn"
	}
	text := strings.ReplaceAll(f.Text, "aten::{op}", op) // where the text has the namespace
	text = strings.ReplaceAll(text, "{op}", op)
	text = regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(sample(text), "5")
	if class != "" {
		text = class + ": " + text
	}
	return text
}

// TestEachTextNamesItsFact: the text of a fact, as it would be printed, leads to an answer that names the fact, unless
// the row says why this surface cannot.
func TestEachTextNamesItsFact(t *testing.T) {
	n := 0
	for _, f := range facts.Load().All {
		if f.Text == "" {
			continue
		}
		rep := scan(t, asPrinted(f))
		named := slices.ContainsFunc(rep.Symptoms, func(s Symptom) bool { return slices.Contains(s.Facts, f.Name) })
		switch hole := f.Holes["explain"]; {
		case !named && hole == "":
			t.Errorf("%s: %v for\n%s", f.Name, rules(rep), asPrinted(f))
		case named && hole != "":
			t.Errorf("%s is named, and has a hole: %s", f.Name, hole)
		case named:
			n++
		}
	}
	if n < 400 {
		t.Errorf("%d facts are named", n)
	}
}
