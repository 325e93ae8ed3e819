package convert

import (
	"fmt"
	"io"
	"strings"

	"assay/internal/layout"
	"assay/internal/text"
)

// Explain writes each pairing of a plan, and what is dropped, refused and missing.
func (p *Plan) Explain(w io.Writer) error {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s -> %s\n    ", text.Line(strings.Join(s.From, " + ")), text.Line(s.Out.Name))
		order := "as it is"
		if s.Order != "" {
			order = s.Order
		}
		fmt.Fprintf(&b, "%s, %s, %s %s; %s\n", s.Kind, order, s.Out.DType, layout.Text(s.Out.Shape), text.Line(s.Why))
	}
	for _, list := range []struct {
		word string
		of   []Unmade
	}{{"dropped", p.Dropped}, {"refused", p.Refused}, {"missing", p.Missing}} {
		for _, u := range list.of {
			fmt.Fprintf(&b, "%s: %s: %s\n", list.word, text.Line(u.Name), text.Line(u.Why))
			if u.Tell != "" {
				fmt.Fprintf(&b, "    %s\n", text.Line(u.Tell))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Summary writes what a plan does, in a few lines.
func (p *Plan) Summary(w io.Writer) error {
	var b strings.Builder
	moved, cast := 0, 0
	for _, s := range p.Steps {
		if s.Order != "" {
			moved++
		}
	}
	if p.opts.DType != "" {
		for _, s := range p.Steps {
			if s.Out.DType == p.opts.DType {
				cast++
			}
		}
	}
	switch {
	case p.Same:
		fmt.Fprintf(&b, "it is %s already (%s): copied\n", p.To, text.Line(p.FromWhy))
	case p.From == p.To:
		fmt.Fprintf(&b, "nothing is permuted\n")
	default:
		fmt.Fprintf(&b, "from %s (%s) to %s\n", p.From, text.Line(p.FromWhy), p.To)
	}
	if p.Recipe != nil {
		fmt.Fprintf(&b, "names: recipe %s, %s to %s\n", p.Recipe.Name, p.In.Name, p.Out.Name)
	}
	fmt.Fprintf(&b, "%d tensors, %d of them permuted, %d dropped\n", len(p.Steps), moved, len(p.Dropped))
	for _, d := range p.Dropped {
		if !strings.HasSuffix(d.Name, "num_batches_tracked") {
			fmt.Fprintf(&b, "dropped: %s: %s\n", text.Line(d.Name), text.Line(d.Why))
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
