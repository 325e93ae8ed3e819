package claims

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"assay/internal/text"
)

// Schema names the version of the JSON form.
const Schema = "assay.claims/1"

// List writes the claims in a line each: number, verdict, title, and what is true.
func (l *Ledger) List(w io.Writer, list []Claim, width int) error {
	var b strings.Builder
	for _, c := range list {
		b.WriteString(text.Wrapped(fmt.Sprintf("%s: %s", c.Title, c.Answer),
			fmt.Sprintf("%-4s %-17s ", c.Row, c.Verdict), strings.Repeat(" ", 23), width))
	}
	fmt.Fprintf(&b, "%d claims of the guides %s. In full: assay claims NUMBER.\n", len(list), l.guides(list))
	_, err := io.WriteString(w, b.String())
	return err
}

func (l *Ledger) guides(list []Claim) string {
	var ids []string
	for _, g := range l.Guides {
		if slices.ContainsFunc(list, func(c Claim) bool { return slices.Contains(c.Said, g.ID) }) {
			ids = append(ids, g.ID)
		}
	}
	return strings.Join(ids, ", ")
}

// Full writes claims with why, what to do instead, and the evidence behind each verdict.
func (l *Ledger) Full(w io.Writer, list []Claim, width int) error {
	var b strings.Builder
	for i, c := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := l.full(&b, c, width); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (l *Ledger) full(b *strings.Builder, c Claim, width int) error {
	row := func(head, s string) {
		if s != "" {
			b.WriteString(text.Wrapped(s, fmt.Sprintf("  %-10s", head), strings.Repeat(" ", 12), width))
		}
	}
	b.WriteString(text.Wrapped(heading(c)+": "+c.Verdict, "claim ", "  ", width))
	row("said", c.Claim)
	for i, id := range c.Said {
		head := ""
		if i == 0 {
			head = "by"
		}
		at := slices.IndexFunc(l.Guides, func(g Guide) bool { return g.ID == id })
		row(head, id+", "+l.Guides[at].Is)
	}
	row("answer", c.Answer)
	row("why", c.Why)
	row("about", c.About)
	for i, s := range c.When {
		head := ""
		if i == 0 {
			head = "releases"
		}
		row(head, "torch "+s.releases()+": "+s.Verdict+": "+s.Why)
	}
	if n := len(c.When); n > 0 {
		if i := slices.Index(l.torch(), c.When[n-1].To); i < len(l.torch())-1 {
			row("", "torch "+between(l.torch(), i+1, len(l.torch())-1)+": not looked at")
		}
	}
	row("instead", strings.ReplaceAll(c.Instead, "`", ""))
	row("open", c.Open)
	head := "evidence"
	more := func(s string) {
		row(head, s)
		head = ""
	}
	for _, e := range c.Evidence {
		more(fmt.Sprintf("%s: %s [%s]", e.Basis, e.Text, e.Source))
	}
	found, err := l.found(c)
	if err != nil {
		return err
	}
	for _, f := range found {
		var states []string
		for _, s := range f.States {
			states = append(states, s.in()+" "+s.State)
		}
		more(fmt.Sprintf("derived: %s, %s %s [the atlas]", f.Of, f.Package, strings.Join(states, "; ")))
	}
	for _, r := range l.rows(c) {
		more("row " + r)
	}
	return nil
}

// JSON writes claims as a record.
func (l *Ledger) JSON(w io.Writer, list []Claim) error {
	type entry struct {
		Claim
		Atlas []found  `json:"atlas,omitempty"`
		Rows  []string `json:"rows,omitempty"`
	}
	record := struct {
		Schema string  `json:"schema"`
		Torch  string  `json:"torch"` // the newest release that is known
		Guides []Guide `json:"guides"`
		Claims []entry `json:"claims"`
	}{Schema: Schema, Torch: l.torch()[len(l.torch())-1], Guides: l.Guides, Claims: []entry{}}
	for _, c := range list {
		answers, err := l.found(c)
		if err != nil {
			return err
		}
		record.Claims = append(record.Claims, entry{c, answers, l.rows(c)})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(record)
}

// found is what the atlas says of an operator, or of a direction of a call or model, release by release.
type found struct {
	Of      string  `json:"of"`
	Package string  `json:"package"` // whose releases
	States  []state `json:"releases"`
}

type state struct {
	From  string `json:"from"`
	To    string `json:"to"`
	State string `json:"state"`
}

func (s state) in() string {
	if s.From == s.To {
		return s.From
	}
	return s.From + " to " + s.To
}

func (l *Ledger) found(c Claim) ([]found, error) {
	var list []found
	for _, q := range c.Ask {
		answers, err := l.ask(q)
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", c.Row, err)
		}
		who := q.API + q.Model
		for _, a := range answers {
			f := found{Of: a.of, Package: strings.TrimPrefix(packageOf(answers, who), " of ")}
			if who != "" {
				f.Of, f.Package = who+", "+a.of, "torch"
			}
			for _, r := range a.joined() {
				f.States = append(f.States, state{a.columns[r.first], a.columns[r.last], r.text})
			}
			list = append(list, f)
		}
	}
	return list, nil
}

// rows are the rows of the atlas that a claim rests on, in words: "NAME: what it says".
func (l *Ledger) rows(c Claim) []string {
	var list []string
	for _, q := range c.Ask {
		for _, name := range q.Rows {
			if r, ok := l.row(name); ok {
				list = append(list, name+": "+condition(r))
			}
		}
	}
	return list
}

// Lines says of claims, by their numbers, what stands beside an error or a finding that somebody meets.
func (l *Ledger) Lines(numbers []string) []string {
	var list []string
	for _, n := range numbers {
		for _, c := range l.Find(n) {
			list = append(list, fmt.Sprintf("claim %s, %s: %s: %s (`assay claims %s`)", c.Row, c.Verdict, c.Title,
				c.Answer, c.Row))
		}
	}
	return list
}
