// Package symptom explains errors: lines of a log, or the evidence of a run, by a table of rules. A rule says what a
// line means, what to do, which releases it concerns and who says so.
//
// The rules stand in symptoms.toml. Each condition of the atlas that has a text and that no rule names is a rule by
// itself.
package symptom

import (
	_ "embed"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/facts"
)

//go:embed symptoms.toml
var tableText []byte

// Rule is what one symptom looks like and what it means. In Cause, Remedy and Code, {name} stands for what the group of
// that name matched.
type Rule struct {
	Name  string `toml:"name"`
	Topic string `toml:"topic"`
	Title string `toml:"title"`
	// RE2, applied to one line; each has a literal that any line it matches contains
	Match []string `toml:"match"`
	// that literal, where the longest one in the pattern would be met in every other line
	Anchor     string   `toml:"anchor"`
	Conditions []string `toml:"conditions"` // of the atlas, whose texts these are
	Cause      string   `toml:"cause"`
	Remedy     []string `toml:"remedy"`
	Code       string   `toml:"code"`
	Releases   string   `toml:"releases"`
	Source     string   `toml:"source"`
	Seeds      []string `toml:"seeds"`
	Claims     []string `toml:"claims"` // of internal/claims, by their numbers
	// by which guides call it: said of a line that says nothing else
	Headings []string `toml:"headings"`
	// what the program reads out of the line: operator, torch name, tensorflow operator, mps memory, cuda memory, one
	// buffer, overflowed size
	Reads   string `toml:"reads"`
	After   bool   `toml:"after"`   // only the consequence of another error, which it follows
	General bool   `toml:"general"` // it says less than others that the line may meet as well
	// others print these words too: what the rule says is said to be likely, not certain
	Likely   bool   `toml:"likely"`
	Severity string `toml:"severity"` // error, where it does not say

	groups []string // of all its patterns
	atlas  []*facts.Fact
	texts  []*regexp.Regexp // of these, where a rule by hand names them
}

// a pattern of a rule, compiled.
type pattern struct {
	rule    *Rule
	re      *regexp.Regexp
	anchors []string // lower case; a line that it matches has one of them
	own     bool     // of symptoms.toml
}

// rank says what goes first where several match: a rule by hand, then the atlas, then what is general.
func (p *pattern) rank() int {
	switch {
	case p.rule.General:
		return 2
	case p.own:
		return 0
	}
	return 1
}

// wording is a fact and the first line of its text.
type wording struct {
	fact *facts.Fact
	text *regexp.Regexp
}

type table struct {
	texts    []wording
	rules    []*Rule
	patterns []pattern
	finder   *finder
	owner    []int32 // of the finder's texts: pattern, or behind them what is read of the context
}

var load = sync.OnceValues(func() (*table, error) {
	var file struct {
		Symptom []*Rule `toml:"symptom"`
	}
	if err := toml.Unmarshal(tableText, &file); err != nil {
		return nil, fmt.Errorf("symptoms.toml: %w", err)
	}
	t := &table{rules: file.Symptom}
	conditions := facts.Load().All
	for _, f := range conditions {
		if text, _, _ := strings.Cut(f.Text, "\n"); text != "" {
			t.texts = append(t.texts, wording{f, regexp.MustCompile(ofText(text))})
		}
	}
	taken := map[string]bool{}
	for _, r := range t.rules {
		if r.Severity == "" {
			r.Severity = "error"
		}
		for _, name := range r.Conditions {
			i := slices.IndexFunc(conditions, func(c *facts.Fact) bool { return c.Name == name })
			if i < 0 {
				return nil, fmt.Errorf("symptoms.toml: %s: the atlas has no condition %s", r.Name, name)
			}
			taken[name] = true
			r.atlas = append(r.atlas, conditions[i])
			text, _, _ := strings.Cut(conditions[i].Text, "\n")
			r.texts = append(r.texts, regexp.MustCompile(ofText(text)))
		}
	}
	if err := t.compile(t.rules, true); err != nil {
		return nil, err
	}
	for _, c := range conditions { // what a rule explains already, as the operators of one name that are missing
		sample, _, _ := strings.Cut(sample(c.Text), "\n")
		if slices.ContainsFunc(t.patterns, func(p pattern) bool {
			return !p.rule.General &&
				p.re.MatchString(sample)
		}) {
			taken[c.Name] = true
		}
	}
	rest := ofConditions(conditions, taken)
	if err := t.compile(rest, false); err != nil {
		return nil, err
	}
	t.rules = append(t.rules, rest...)
	var texts []string
	for i, p := range t.patterns {
		for _, a := range p.anchors {
			texts, t.owner = append(texts, a), append(t.owner, int32(i))
		}
	}
	for i, a := range contextAnchors {
		texts, t.owner = append(texts, a), append(t.owner, int32(len(t.patterns)+i))
	}
	t.finder = newFinder(texts)
	return t, nil
})

func (t *table) compile(rules []*Rule, own bool) error {
	for _, r := range rules {
		for _, m := range r.Match {
			text := m
			if last := m[len(m)-1]; last >= '0' && last <= '9' {
				// a number is read whole: macOS 14 is not the beginning of macOS 140
				text += `\b`
			}
			re, err := regexp.Compile(text)
			if err != nil {
				return fmt.Errorf("symptoms.toml: %s: %w", r.Name, err)
			}
			anchors := literals(m)
			if r.Anchor != "" {
				anchors = []string{strings.ToLower(r.Anchor)}
			}
			if shortest(anchors) < 3 {
				return fmt.Errorf("symptoms.toml: %s: no literal in %s", r.Name, m)
			}
			for _, name := range re.SubexpNames() {
				if name != "" && !slices.Contains(r.groups, name) {
					r.groups = append(r.groups, name)
				}
			}
			t.patterns = append(t.patterns, pattern{r, re, anchors, own})
		}
	}
	return nil
}

// sample is a text as it could be printed.
func sample(text string) string {
	return strings.NewReplacer("{op}", "aten::x", "{size}", "1.00 GiB", "{n}", "5", "{device}", "cpu", "{x}", "1.4",
		"{pool}", "private", "{dtype}",
		"Float", "{sizes}", "[1, 2]",
		"{i}", "3", "{d}", "0", "{reason}", "reason", "{sha}", "0123abc", "{p}", "0.5").Replace(text)
}

// Rules lists the rules, those of symptoms.toml first.
func Rules() []*Rule {
	t := must()
	return t.rules
}

func must() *table {
	t, err := load()
	if err != nil {
		panic(err) // built in, and read by a test
	}
	return t
}

// ofConditions makes rules of the conditions that have a text, one for all that share it.
func ofConditions(conditions []*facts.Fact, taken map[string]bool) []*Rule {
	var rules []*Rule
	byText := map[string]*Rule{}
	for _, c := range conditions {
		text, _, _ := strings.Cut(c.Text, "\n")
		if text == "" || taken[c.Name] {
			continue
		}
		r := byText[text]
		if r == nil {
			r = &Rule{Name: "atlas/" + c.Name, Topic: "operators", Title: text, Match: []string{ofText(text)},
				Severity: severityOf(c.Outcome)}
			if !namesDevice.MatchString(text) {
				// "Input must be complex", "index 3 is out of bounds": only as the message of its error, and likely
				r.Likely = true
				r.Match[0] = `(?:^\s*|(?:` + strings.Join(classesOf(c.Error), "|") + `|Warning): )` + r.Match[0]
			}
			byText[text] = r
			rules = append(rules, r)
		}
		r.atlas = append(r.atlas, c)
	}
	return rules
}

func severityOf(outcome facts.Outcome) string {
	if outcome == facts.Refused || outcome == facts.Aborts || outcome == facts.Wrong {
		return "error"
	}
	return "warning"
}

// namesDevice: a text without one of these words is one that a CPU, CUDA or another library prints as well.
var namesDevice = regexp.MustCompile(`(?i)mps|metal|mac ?os`)

// classesOf lists the classes of exceptions under which a text of the atlas is printed: a plain IndexError is not MPS's
// AcceleratorError.
func classesOf(class string) []string {
	switch class {
	case "", "RuntimeError", "NotImplementedError":
		// the second is a kind of the first, and which of them is raised changed between releases
		return []string{"RuntimeError", "NotImplementedError"}
	}
	return []string{class}
}

var hole = regexp.MustCompile(`\{[a-z]+\}`)

// holes are the patterns of what varies in a message, by the name that the atlas gives it; each ends where its value
// ends.
var holes = map[string]string{
	"{op}": `[\w:.]{1,80}`, "{n}": `-?\d[\d,]{0,30}\b`, "{i}": `-?\d{1,30}\b`, "{d}": `-?\d{1,30}\b`,
	"{dtype}": `[\w:.]{1,80}\b`, "{x}": `[-+\w.]{1,40}\b`,
	"{p}": `[-+\w.]{1,40}\b`,
}

// ofText makes the pattern of a message in which {…} stands for what varies. It begins and ends with whole words and
// whole numbers.
func ofText(text string) string {
	var b strings.Builder
	at := 0
	text = strings.TrimSuffix(strings.TrimSpace(text), ".") // people leave the full stop out
	edge := func(r byte) {
		if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			b.WriteString(`\b`)
		}
	}
	if text != "" {
		edge(text[0])
	}
	for _, h := range hole.FindAllStringIndex(text, -1) {
		b.WriteString(regexp.QuoteMeta(text[at:h[0]]))
		switch pattern := holes[text[h[0]:h[1]]]; {
		case pattern != "":
			b.WriteString(pattern)
		case h[1] == len(text): // all that follows: a part of it would be another value
			b.WriteString(`.{1,160}`)
		default:
			b.WriteString(`.{1,160}?`)
		}
		at = h[1]
	}
	b.WriteString(regexp.QuoteMeta(text[at:]))
	if text != "" {
		edge(text[len(text)-1])
	}
	return b.String()
}

// literals are texts, in lower case, of which every match of a pattern contains one: the longest that it always has, or
// one of each branch.
func literals(re string) []string {
	tree, err := syntax.Parse(re, syntax.Perl)
	if err != nil {
		return nil
	}
	return required(tree.Simplify())
}

func required(r *syntax.Regexp) []string {
	switch r.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(r.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return required(r.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range r.Sub {
			if set := required(sub); shortest(set) > shortest(best) {
				best = set
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range r.Sub {
			set := required(sub)
			if len(set) == 0 {
				return nil
			}
			all = append(all, set...)
		}
		return all
	}
	return nil
}

func shortest(set []string) int {
	n := 0
	for i, s := range set {
		if i == 0 || len(s) < n {
			n = len(s)
		}
	}
	return n
}
