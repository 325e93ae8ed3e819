// Package claims knows what circulates about training on a Mac, and what is true of it, release by release: the ledger
// behind `assay claims` and docs/claims.md.
//
// claims.toml holds the claims, the verdicts and the sources. What a claim says about operators is asked of
// internal/atlas, and the answers stand beside it: a verdict that the atlas does not bear out fails a test. models.txt
// holds the operators of detectors, traced by tools/claims/models.py.
package claims

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/atlas"
)

//go:embed claims.toml
var claimsTOML []byte

//go:embed models.txt
var modelsText string

// Open gives the ledger that is built in. It is shared: it is not to be changed.
var Open = sync.OnceValue(func() *Ledger {
	l, err := load(claimsTOML, modelsText)
	if err != nil {
		panic(err) // built in, and read by a test
	}
	return l
})

// longestAnswer keeps `assay claims` short where it is said beside an error.
const longestAnswer = 110

// verdicts are those that a claim can get, in the order of the counts at the top of the page.
var verdicts = []string{"right", "wrong", "partly", "release-dependent", "not settled"}

// bases say how a piece of evidence is known.
var bases = []string{"derived", "measured", "reported", "documented"}

// Ledger is the claims, with who makes them.
type Ledger struct {
	Guides []Guide `toml:"guide"`
	Mends  []mend  `toml:"mend"`
	Claims []Claim `toml:"claim"`

	atlas  *atlas.Atlas
	models map[string]map[string][]atlas.Call // model → direction → operators
}

// Guide is a document that makes claims; the ledger calls it by its letter and number.
type Guide struct {
	ID string `toml:"id" json:"id"`
	Is string `toml:"is" json:"is"`
}

// mend is what the atlas does not see yet: an operator that runs although no kernel is registered in the library, or
// that is not called in these releases although it is called in the one that was traced.
type mend struct {
	Operator string   `toml:"operator"`
	From     string   `toml:"from"`
	Until    string   `toml:"until"`
	Calls    []string `toml:"calls"` // in place of what the atlas has not traced
	Why      string   `toml:"why"`
	Source   string   `toml:"source"`
}

// Claim is what somebody says of training on a Mac, and what is true of it.
type Claim struct {
	// of the list of claims to settle, with a letter where one row holds several; x1 and so on where it has none
	Row      string     `toml:"row" json:"number"`
	Said     []string   `toml:"said" json:"said_by"` // guides
	Title    string     `toml:"title" json:"title"`
	Claim    string     `toml:"claim" json:"claim"`
	Verdict  string     `toml:"verdict" json:"verdict"`       // right, wrong, partly, release-dependent, not settled
	Answer   string     `toml:"answer" json:"answer"`         // in one line
	About    string     `toml:"about" json:"about,omitempty"` // where that is not every release of torch
	When     []Span     `toml:"when" json:"releases,omitempty"`
	Why      string     `toml:"why" json:"why"`
	Evidence []Evidence `toml:"evidence" json:"evidence"`
	Ask      []Ask      `toml:"ask" json:"-"`
	Instead  string     `toml:"instead" json:"instead"`
	Open     string     `toml:"open" json:"open,omitempty"` // what is not known, and what would settle it
}

// Span is a run of releases of torch with one verdict, both ends in it.
type Span struct {
	From    string `toml:"from" json:"from"`
	To      string `toml:"to" json:"to"`
	Verdict string `toml:"verdict" json:"verdict"`
	Why     string `toml:"why" json:"why"`
}

// Evidence is one thing that is known, how it is known (derived, measured, reported, documented), and who says so.
type Evidence struct {
	Basis  string `toml:"basis" json:"basis"`
	Text   string `toml:"text" json:"text"`
	Source string `toml:"source" json:"source"`
}

// Ask is a question to the atlas, and what the verdict needs as its answer: "native 2.2..", "missing ..2.1", "train
// native 2.1..", over the columns of the table that is asked. What is expected of several operators is expected of
// each.
type Ask struct {
	Operators []string `toml:"operators"`
	API       string   `toml:"api"`
	Model     string   `toml:"model"`
	Rows      []string `toml:"rows"` // of the facts
	Expect    []string `toml:"expect"`
}

func load(claims []byte, models string) (*Ledger, error) {
	l := &Ledger{atlas: &atlas.Atlas{}, models: map[string]map[string][]atlas.Call{}}
	d := toml.NewDecoder(bytes.NewReader(claims))
	d.DisallowUnknownFields()
	if err := d.Decode(l); err != nil {
		return nil, fmt.Errorf("read claims.toml: %w", err)
	}
	for line := range strings.Lines(models) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) < 3 {
			return nil, fmt.Errorf("read models.txt: %q has no operators", strings.TrimSpace(line))
		}
		if l.models[f[0]] == nil {
			l.models[f[0]] = map[string][]atlas.Call{}
		}
		l.models[f[0]][f[1]] = operators(f[2:])
	}
	return l, nil
}

func operators(names []string) []atlas.Call {
	var list []atlas.Call
	for _, op := range names {
		name, sometimes := strings.CutSuffix(op, "?")
		list = append(list, atlas.Call{Operator: name, Sometimes: sometimes})
	}
	return list
}

// torch lists the series of torch that the atlas has read, oldest first.
func (l *Ledger) torch() []string { return l.atlas.Table("torch").Columns }

// last is the last patch release of a series.
func (l *Ledger) last(series string) string {
	r, err := l.atlas.Release("torch", series)
	if err != nil {
		panic(err) // series come from the atlas
	}
	return r.Version
}

// check holds the ledger to its own grammar: verdicts and bases that exist, releases without gaps, sources named.
func (l *Ledger) check() error {
	known := map[string]bool{}
	for _, g := range l.Guides {
		known[g.ID] = true
	}
	for _, c := range l.Claims {
		bad := func(format string, args ...any) error {
			return fmt.Errorf("claim %s %q: "+format, append([]any{c.Row, c.Title}, args...)...)
		}
		if !slices.Contains(verdicts, c.Verdict) {
			return bad("no such verdict: %q", c.Verdict)
		}
		if c.Title == "" || c.Claim == "" || c.Why == "" || c.Instead == "" || len(c.Said) == 0 ||
			c.Answer == "" || strings.Contains(c.Answer, "\n") || utf8.RuneCountInString(c.Answer) > longestAnswer {
			return bad("it wants a title, a claim, who says it, an answer of one line, why, and what to do instead")
		}
		for _, s := range c.Said {
			if !known[s] {
				return bad("no such guide: %s", s)
			}
		}
		if c.Verdict == "not settled" && c.Open == "" {
			return bad("not settled, and it does not say what would settle it")
		}
		if len(c.Evidence) == 0 {
			return bad("no evidence")
		}
		for _, e := range c.Evidence {
			if !slices.Contains(bases, e.Basis) || e.Text == "" || e.Source == "" {
				return bad("evidence %q: it wants a basis, a text and a source", e.Text)
			}
		}
		if c.About != "" && len(c.When) > 0 || c.About == "" && len(c.When) == 0 {
			return bad("it wants either releases or what it is about")
		}
		next, seen := 0, map[string]bool{}
		for _, s := range c.When {
			from, to := slices.Index(l.torch(), s.From), slices.Index(l.torch(), s.To)
			if from != next || to < from {
				return bad("releases %s to %s: not the next ones of %v", s.From, s.To, l.torch())
			}
			if !slices.Contains(verdicts, s.Verdict) || s.Verdict == "release-dependent" {
				return bad("releases %s to %s: no such verdict: %q", s.From, s.To, s.Verdict)
			}
			next, seen[s.Verdict] = to+1, true
		}
		if len(seen) > 1 && c.Verdict != "release-dependent" || len(seen) == 1 && !seen[c.Verdict] {
			return bad("its verdict is %q, which is not what its releases say", c.Verdict)
		}
	}
	return nil
}

// Find gives the claims of a number: "5", or "12a"; "12" stands for all of its letters. The case of letters is free.
func (l *Ledger) Find(number string) []Claim {
	number = strings.ToLower(strings.TrimSpace(number))
	var list []Claim
	for _, c := range l.Claims {
		if c.Row == number || len(c.Row) == len(number)+1 && strings.HasPrefix(c.Row, number) &&
			c.Row[len(number)] >= 'a' && c.Row[len(number)] <= 'z' {
			list = append(list, c)
		}
	}
	return list
}

// OfFact lists the numbers of the claims that are judged by a row of the facts.
func (l *Ledger) OfFact(name string) []string {
	var list []string
	for _, c := range l.Claims {
		if slices.ContainsFunc(c.Ask, func(q Ask) bool { return slices.Contains(q.Rows, name) }) {
			list = append(list, c.Row)
		}
	}
	return list
}

// About lists the numbers of the claims that are judged by an operator: aten::sgn, or an overload of it.
func (l *Ledger) About(operator string) []string {
	var list []string
	base, _, _ := strings.Cut(operator, ".")
	for _, c := range l.Claims {
		if slices.ContainsFunc(c.Ask, func(q Ask) bool {
			return slices.ContainsFunc(q.Operators, func(name string) bool {
				of, _, _ := strings.Cut(name, ".")
				return of == base
			})
		}) {
			list = append(list, c.Row)
		}
	}
	return list
}
