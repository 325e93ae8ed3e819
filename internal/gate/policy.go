// Package gate holds evidence against thresholds: a policy is a list of rules, each of which passes, fails or cannot be told.
// parse.go has the grammar, figures.go what can be named, baseline.go how a run is compared with earlier ones.
package gate

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/fault"
)

// DefaultText is the policy that comes with assay.
//
//go:embed default.toml
var DefaultText []byte

// Policy is a list of gates.
type Policy struct {
	Name  string // file, or "default"
	Gates []Gate
}

// Gate is one rule with its reason.
type Gate struct {
	Name    string `toml:"name"`
	Rule    string `toml:"rule"`
	When    string `toml:"when"` // a rule as well: the gate is asked only where it holds
	Because string `toml:"because"`
	Source  string `toml:"source"`

	rule, when *Expr
}

// Conditions of the gate, those of when included.
func (g *Gate) Conditions() []*Condition {
	all := g.rule.Conditions()
	if g.when != nil {
		all = append(all, g.when.Conditions()...)
	}
	return all
}

const (
	maxPolicy = 256 << 10 // bytes
	maxGates  = 500
	maxShown  = 20 // mistakes
)

var gateName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Default is the policy that comes with assay.
func Default() *Policy {
	p, err := Load("default", DefaultText)
	if err != nil {
		panic(err) // a test reads it
	}
	return p
}

// Load reads a policy. The error names every mistake with its place.
func Load(name string, data []byte) (*Policy, error) {
	wrong := func(format string, args ...any) error {
		return fault.Exit(fmt.Errorf("read the policy %s:"+format, append([]any{name}, args...)...), fault.Usage)
	}
	if len(data) > maxPolicy {
		return nil, wrong(" larger than %d KiB", maxPolicy>>10)
	}
	var file struct {
		Gate []Gate `toml:"gate"`
	}
	if err := toml.NewDecoder(strings.NewReader(string(data))).DisallowUnknownFields().Decode(&file); err != nil {
		var strict *toml.StrictMissingError
		var decode *toml.DecodeError
		switch {
		case errors.As(err, &strict):
			return nil, fault.Hint(wrong(" keys that mean nothing here:\n%s", printable(strict.String())), "a [[gate]] has name, rule, when, because and source")
		case errors.As(err, &decode):
			return nil, wrong(" %v\n%s", err, printable(decode.String()))
		}
		return nil, wrong(" %v", err)
	}
	if len(file.Gate) == 0 {
		return nil, fault.Hint(wrong(" no gate in it"), "assay gate --default prints a policy to begin with")
	}
	if len(file.Gate) > maxGates {
		return nil, wrong(" %d gates: more than %d", len(file.Gate), maxGates)
	}
	p := &Policy{Name: name, Gates: file.Gate}
	var mistakes []string
	from, seen := 0, map[string]bool{}
	for i := range p.Gates {
		g := &p.Gates[i]
		called := g.Name
		switch {
		case !gateName.MatchString(g.Name):
			called = fmt.Sprintf("number %d", i+1)
			mistakes = append(mistakes, fmt.Sprintf("gate %s: a name of letters, digits, dots and dashes is missing", called))
		case seen[g.Name]:
			mistakes = append(mistakes, fmt.Sprintf("gate %s: there are two of that name", called))
		}
		seen[g.Name] = true
		for _, part := range []struct {
			key, text string
			into      **Expr
		}{{"when", g.When, &g.when}, {"rule", g.Rule, &g.rule}} {
			if part.text == "" && part.key == "when" {
				continue
			}
			expr, err := Parse(part.text)
			var m *Mistake
			if errors.As(err, &m) {
				line := ""
				if n := lineOf(data, part.text, from); n > 0 {
					line = fmt.Sprintf(", line %d", n)
				}
				text := fmt.Sprintf("gate %s%s: %s: %s\n%s", called, line, part.key, printable(m.Text), indent(m.Show()))
				if m.Hint != "" {
					text += "\n    (" + printable(m.Hint) + ")"
				}
				mistakes = append(mistakes, text)
				continue
			}
			*part.into = expr
		}
		if at := strings.Index(string(data[from:]), g.Rule); at >= 0 {
			from += at
		}
	}
	if n := len(mistakes); n > 0 {
		if n > maxShown {
			mistakes = append(mistakes[:maxShown], fmt.Sprintf("and %d more", n-maxShown))
		}
		return nil, wrong("\n  %s", strings.ReplaceAll(strings.Join(mistakes, "\n"), "\n", "\n  "))
	}
	return p, nil
}

// lineOf is the line on which the text stands at or after the offset; 0 where it was written in another way.
func lineOf(data []byte, text string, from int) int {
	if text == "" {
		return 0
	}
	at := strings.Index(string(data[from:]), text)
	if at < 0 {
		return 0
	}
	return 1 + strings.Count(string(data[:from+at]), "\n")
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// printable keeps what a policy brings along from steering the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}
