package claims

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"assay/internal/facts"
)

const intro = `# Claims

What circulates about training on a Mac, claim by claim: what is true of it, in which release of PyTorch, and how that is known. Made from
internal/claims/claims.toml by ` + "`go test ./internal/claims -run TestPage -update`" + `; ` + "`assay claims N`" + ` says the same. A test fails when this page is
stale, or when [the atlas](atlas.md) does not bear out what a claim is judged by.

A verdict is right, wrong, partly, release-dependent (the releases say which) or not settled. Evidence has a basis:

- **derived**: read from released wheels, sources or the atlas. It says what is there, not that it works.
- **measured**: run by this project; it says on what. **No Mac was at hand**: nothing here was measured by us on one.
- **reported**: seen by somebody else, on a Mac where nothing else is said, and told in an issue or pull request. It holds for their machine.
- **documented**: stated by the maker.

`

// Page is docs/claims.md.
func (l *Ledger) Page() ([]byte, error) {
	var b bytes.Buffer
	columns := l.torch()
	b.WriteString(intro)
	fmt.Fprintf(&b, "Releases are those of the atlas, torch %s to %s. Of later ones this page knows nothing.\n\n",
		columns[0], columns[len(columns)-1])
	b.WriteString("Claims come from guides that users follow:\n\n")
	for _, g := range l.Guides {
		fmt.Fprintf(&b, "- **%s**: %s\n", g.ID, g.Is)
	}
	b.WriteString("\n## At a glance\n\n")
	count := map[string]int{}
	for _, c := range l.Claims {
		count[c.Verdict]++
	}
	var counts []string
	for _, v := range verdicts {
		counts = append(counts, fmt.Sprintf("%d %s", count[v], v))
	}
	fmt.Fprintf(&b, "%d claims: %s.\n\n| | claim | said by | verdict | releases |\n| --- | --- | --- | --- | --- |\n",
		len(l.Claims), strings.Join(counts, ", "))
	for _, c := range l.Claims {
		fmt.Fprintf(&b, "| %s | [%s](#%s) | %s | %s | %s |\n", c.Row, c.Title, anchor(c), strings.Join(c.Said, " "),
			c.Verdict, c.releases())
	}
	for _, c := range l.Claims {
		if err := l.claim(&b, c); err != nil {
			return nil, fmt.Errorf("claim %s %q: %w", c.Row, c.Title, err)
		}
	}
	if len(l.Mends) > 0 {
		b.WriteString("\n## Where this page departs from the atlas\n\nThe atlas reads the library and traces one release. For these operators that is not the whole of it:\n\n")
		for _, m := range l.Mends {
			first, last := bounds(columns, m.From, m.Until)
			fmt.Fprintf(&b, "- `%s`, torch %s: %s (%s)\n", m.Operator, between(columns, first, last), m.Why, m.Source)
		}
	}
	return b.Bytes(), nil
}

func heading(c Claim) string { return c.Row + " " + c.Title }

// anchor is what Markdown viewers make of a heading.
func anchor(c Claim) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading(c)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			b.WriteRune(r)
		}
	}
	return b.String()
}

// releases is the short form of the verdicts by release.
func (c Claim) releases() string {
	if c.About != "" {
		return c.About
	}
	var joined []Span
	for _, s := range c.When {
		if n := len(joined); n > 0 && joined[n-1].Verdict == s.Verdict {
			joined[n-1].To = s.To
			continue
		}
		joined = append(joined, s)
	}
	var list []string
	for _, s := range joined {
		text := s.releases()
		if len(joined) > 1 {
			text = s.Verdict + " " + text
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func (s Span) releases() string {
	if s.From == s.To {
		return s.From
	}
	return s.From + " to " + s.To
}

func (l *Ledger) claim(b *bytes.Buffer, c Claim) error {
	fmt.Fprintf(b, "\n## %s\n\n> %s\n\n**%s** · said by %s", heading(c), c.Claim, capital(c.Verdict),
		strings.Join(c.Said, ", "))
	if c.About != "" {
		fmt.Fprintf(b, " · about %s", c.About)
	}
	fmt.Fprintf(b, "\n\nIn short: %s.\n\n%s\n", c.Answer, c.Why)
	if len(c.When) > 0 {
		b.WriteString("\n| torch | verdict | |\n| --- | --- | --- |\n")
		for _, s := range c.When {
			fmt.Fprintf(b, "| %s | %s | %s |\n", s.releases(), s.Verdict, s.Why)
		}
		if i := slices.Index(l.torch(), c.When[len(c.When)-1].To); i < len(l.torch())-1 {
			fmt.Fprintf(b, "| %s | not looked at | |\n", between(l.torch(), i+1, len(l.torch())-1))
		}
	}
	fmt.Fprintf(b, "\n**Instead.** %s\n", c.Instead)
	if c.Open != "" {
		fmt.Fprintf(b, "\n**Open.** %s\n", c.Open)
	}
	b.WriteString("\n**Evidence.**\n\n")
	for _, e := range c.Evidence {
		fmt.Fprintf(b, "- %s: %s (%s)\n", e.Basis, e.Text, e.Source)
	}
	for _, q := range c.Ask {
		if err := l.answers(b, q); err != nil {
			return err
		}
	}
	return nil
}

// answers prints what the atlas says, asked for this page.
func (l *Ledger) answers(b *bytes.Buffer, q Ask) error {
	if err := l.bears(q); err != nil {
		return err
	}
	answers, err := l.ask(q)
	if err != nil {
		return err
	}
	if len(answers) > 0 {
		what, who := "operator", ""
		if q.API != "" {
			what, who = "`"+q.API+"`", q.API
		}
		if q.Model != "" {
			what, who = "`"+q.Model+"`", q.Model
		}
		fmt.Fprintf(b, "\n| %s | derived: the atlas, by release%s |\n| --- | --- |\n", what, packageOf(answers, who))
		for _, a := range answers {
			name := a.of
			if who == "" {
				name = "`" + a.of + "`"
			}
			fmt.Fprintf(b, "| %s | %s |\n", name, a.history())
		}
	}
	if len(q.Rows) > 0 {
		b.WriteString("\nFacts ([the table](knowledge.md)):\n\n")
	}
	for _, name := range q.Rows {
		c, _ := l.row(name)
		fmt.Fprintf(b, "- `%s`: %s\n", name, condition(c))
	}
	return nil
}

// packageOf says whose releases a table speaks of, where they are not those of torch.
func packageOf(answers []answer, who string) string {
	if who != "" {
		return " of torch and what goes with it"
	}
	name, _, _ := strings.Cut(answers[0].of, "::")
	switch name {
	case "torchvision":
		return " of torchvision"
	case "tf":
		return " of tensorflow-metal"
	}
	return " of torch"
}

// stretch is a run of columns with the same answer.
type stretch struct {
	first, last int
	text        string
}

// joined joins releases with the same answer.
func (a answer) joined() []stretch {
	var list []stretch
	for i := 0; i < len(a.columns); {
		j := i
		for j+1 < len(a.columns) && a.states[j+1] == a.states[i] && a.details[j+1] == a.details[i] {
			j++
		}
		text := a.states[i]
		if a.details[i] != "" {
			text = a.details[i]
		}
		list = append(list, stretch{i, j, text})
		i = j + 1
	}
	return list
}

// history is joined's answer in a cell of a table.
func (a answer) history() string {
	var list []string
	for _, s := range a.joined() {
		list = append(list, fmt.Sprintf("**%s** %s", between(a.columns, s.first, s.last), s.text))
	}
	return strings.Join(list, "<br>")
}

func between(columns []string, first, last int) string {
	if first == last {
		return columns[first]
	}
	return columns[first] + " to " + columns[last]
}

func condition(c *facts.Fact) string {
	text := c.When
	if c.Wrong != "" {
		text += " → wrong: " + c.Wrong
	} else {
		text += " → " + strings.TrimSpace(string(c.Outcome)+" "+c.Error)
	}
	var when []string
	if c.From != "" {
		when = append(when, "seen from "+c.From)
	}
	if c.Until != "" {
		when = append(when, "to "+c.Until)
	}
	if c.Fixed != "" {
		when = append(when, "right from "+c.Fixed)
	}
	if c.MacOS != "" {
		when = append(when, "macOS "+c.MacOS)
	}
	if len(when) > 0 {
		text += "; " + strings.Join(when, ", ")
	}
	return text + " (" + c.Known + "; " + c.Source + ")"
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
