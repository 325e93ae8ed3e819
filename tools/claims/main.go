// Command claims writes docs/claims.md: what circulates about training on a Mac, and what is true of it, release by
// release.
//
//	go run ./tools/claims           write docs/claims.md
//
// claims.toml holds the claims, the verdicts and the sources. What a claim says about operators is asked of
// internal/atlas, and the answers stand in the page: a verdict that the atlas does not bear out fails the test.
// models.txt holds the operators of detectors, traced by models.py.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/atlas"
)

const page = "docs/claims.md"

//go:embed claims.toml
var claimsTOML []byte

//go:embed models.txt
var modelsText string

func main() {
	if err := run(page); err != nil {
		fmt.Fprintln(os.Stderr, "claims:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	l, err := load(claimsTOML, modelsText)
	if err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return err
	}
	text, err := l.page()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}

// verdicts are those that a claim can get, in the order of the counts at the top of the page.
var verdicts = []string{"right", "wrong", "partly", "release-dependent", "not settled"}

// bases say how a piece of evidence is known.
var bases = []string{"derived", "measured", "reported", "documented"}

type ledger struct {
	Guides []guide `toml:"guide"`
	Mends  []mend  `toml:"mend"`
	Claims []claim `toml:"claim"`

	atlas  *atlas.Atlas
	models map[string]map[string][]atlas.Call // model → direction → operators
}

// guide is a document that makes claims; the ledger calls it by its letter and number.
type guide struct {
	ID string `toml:"id"`
	Is string `toml:"is"`
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

type claim struct {
	Row      string     `toml:"row"` // of the list of claims to settle; x where the list has none
	Said     []string   `toml:"said"`
	Title    string     `toml:"title"`
	Claim    string     `toml:"claim"`
	Verdict  string     `toml:"verdict"`
	About    string     `toml:"about"` // what the claim is about, where that is not every release of torch
	When     []span     `toml:"when"`
	Why      string     `toml:"why"`
	Evidence []evidence `toml:"evidence"`
	Ask      []ask      `toml:"ask"`
	Instead  string     `toml:"instead"`
	Open     string     `toml:"open"` // what is not known, and what would settle it
}

// span is a run of releases of torch with one verdict.
type span struct {
	From    string `toml:"from"`
	To      string `toml:"to"`
	Verdict string `toml:"verdict"`
	Why     string `toml:"why"`
}

type evidence struct {
	Basis  string `toml:"basis"`
	Text   string `toml:"text"`
	Source string `toml:"source"`
}

// ask is a question to the atlas, and what the verdict needs as its answer: "native 2.2..", "missing ..2.1", "train
// native 2.1..", over the columns of the table that is asked. What is expected of several operators is expected of
// each.
type ask struct {
	Operators []string `toml:"operators"`
	API       string   `toml:"api"`
	Model     string   `toml:"model"`
	Rows      []string `toml:"rows"` // of the facts
	Expect    []string `toml:"expect"`
}

func load(claims []byte, models string) (*ledger, error) {
	l := &ledger{atlas: &atlas.Atlas{}, models: map[string]map[string][]atlas.Call{}}
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
func (l *ledger) torch() []string { return l.atlas.Table("torch").Columns }

// last is the last patch release of a series.
func (l *ledger) last(series string) string {
	r, err := l.atlas.Release("torch", series)
	if err != nil {
		panic(err) // series come from the atlas
	}
	return r.Version
}

// check holds the ledger to its own grammar: verdicts and bases that exist, releases without gaps, sources named.
func (l *ledger) check() error {
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
		if c.Title == "" || c.Claim == "" || c.Why == "" || c.Instead == "" || len(c.Said) == 0 {
			return bad("it wants a title, a claim, who says it, why, and what to do instead")
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
