// Package gate holds evidence against thresholds: a policy is a list of rules, each of which passes, fails or cannot be
// told. parse.go has the grammar, figures.go what can be named, baseline.go how a run is compared with earlier ones.
package gate

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"assay/internal/fault"
	clean "assay/internal/text"
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
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors on Windows put it there
	var file struct {
		Gate []Gate `toml:"gate"`
	}
	if err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&file); err != nil {
		var strict *toml.StrictMissingError
		var decode *toml.DecodeError
		switch {
		case errors.As(err, &strict):
			meant := ""
			for _, e := range strict.Errors {
				if guess := near(e.Key()[len(e.Key())-1], append(policyKeys, "gate")); guess != "" {
					meant += fmt.Sprintf("; did you mean %s?", guess)
				}
			}
			return nil, fault.Hint(wrong(" keys that mean nothing here%s\n%s", meant, clean.Lines(strict.String())),
				"gates are headed [[gate]], and have "+strings.Join(policyKeys, ", "))
		case errors.As(err, &decode):
			text, hint := decode.Error(), ""
			switch key := decode.Key(); { // the decoder speaks of Go's types
			case strings.Contains(text, "cannot decode TOML") && len(key) > 1:
				text, hint = key[len(key)-1]+" is no text", "write it in quotes: "+key[len(key)-1]+" = \"…\""
			case strings.Contains(text, "cannot decode TOML"):
				text, hint = "gate is no table", "each gate is headed [[gate]], on a line of its own"
			}
			row, _ := decode.Position()
			return nil, fault.Hint(wrong(" line %d: %s\n%s", row, strings.TrimPrefix(text, "toml: "),
				clean.Lines(caret(data, decode))), hint)
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
	seen, places := map[string]int{}, placesOf(data)
	for i := range p.Gates {
		g := &p.Gates[i]
		var at place
		if i < len(places) {
			at = places[i]
		}
		called := g.Name
		if !gateName.MatchString(g.Name) {
			called = fmt.Sprintf("number %d", i+1)
			mistakes = append(mistakes, fmt.Sprintf("gate %s%s: a name of letters, digits, dots and dashes is missing",
				called, onLine(at.head, "name", at)))
		} else if first, twice := seen[g.Name]; twice {
			mistakes = append(mistakes, fmt.Sprintf("gate %s%s: there are two of that name; the first is on line %d",
				called,
				onLine(at.head, "name", at), first))
		} else {
			seen[g.Name] = max(at.head, at.keys["name"])
		}
		if strings.TrimSpace(g.Rule) == "" {
			mistakes = append(mistakes, fmt.Sprintf("gate %s%s: it has no rule\n    (for example rule = \"failures == 0\")", called,
				onLine(at.head, "rule", at)))
		}
		for _, part := range []struct {
			key, text string
			into      **Expr
		}{{"when", g.When, &g.when}, {"rule", g.Rule, &g.rule}} {
			if strings.TrimSpace(part.text) == "" {
				continue
			}
			expr, err := Parse(part.text)
			var m *Mistake
			if errors.As(err, &m) {
				line := onLine(at.keys[part.key], "", at)
				if at.broken[part.key] { // a text of several lines
					line = onLine(at.keys[part.key]+strings.Count(m.Rule[:min(m.At, len(m.Rule))], "\n"), "", at)
				}
				text := fmt.Sprintf("gate %s%s: %s: %s\n%s", called, line, part.key, clean.Lines(m.Text),
					indent(m.Show()))
				if m.Hint != "" {
					text += "\n    (" + clean.Lines(m.Hint) + ")"
				}
				mistakes = append(mistakes, text)
				continue
			}
			*part.into = expr
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

// policyKeys of a gate.
var policyKeys = []string{"name", "rule", "when", "because", "source"}

// place says on which lines a gate stands.
type place struct {
	head   int            // [[gate]]
	keys   map[string]int // where the text of a key begins
	broken map[string]bool
}

// placesOf finds the gates of a policy that was decoded.
func placesOf(data []byte) []place {
	var p unstable.Parser
	p.Reset(data)
	line := func(raw unstable.Range) int { return 1 + bytes.Count(data[:raw.Offset], []byte("\n")) }
	var all []place
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			key := e.Key()
			key.Next()
			all = append(all, place{head: line(p.Range(key.Node().Data)), keys: map[string]int{},
				broken: map[string]bool{}})
		case unstable.KeyValue:
			key := e.Key()
			if !key.Next() || len(all) == 0 {
				continue
			}
			name, at := string(key.Node().Data), all[len(all)-1]
			at.keys[name] = line(p.Range(key.Node().Data))
			if raw := p.Raw(e.Value().Raw); bytes.HasPrefix(raw, []byte(`"""`)) || bytes.HasPrefix(raw, []byte("'''")) {
				at.broken[name] = true
				if len(raw) > 3 && (raw[3] == '\n' || raw[3] == '\r') {
					at.keys[name]++
				}
			}
		}
	}
	return all
}

// onLine names the line of a key, or else the one given; "" where neither is known.
func onLine(line int, key string, at place) string {
	if n := at.keys[key]; n > 0 {
		line = n
	}
	if line <= 0 {
		return ""
	}
	return fmt.Sprintf(", line %d", line)
}

// caret shows the line of a mistake with the place below it.
func caret(data []byte, e *toml.DecodeError) string {
	row, column := e.Position()
	lines := strings.Split(string(data), "\n")
	if row < 1 || row > len(lines) {
		return ""
	}
	text := strings.TrimRight(lines[row-1], "\r")
	if len(text) > 110 {
		text = strings.ToValidUTF8(text[:110], "") + " …"
	}
	before := strings.Repeat(" ", min(max(0, column-1), 112))
	return fmt.Sprintf("  %s\n  %s^", strings.ReplaceAll(text, "\t", " "), before)
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }
