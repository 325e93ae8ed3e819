package convert

import (
	"fmt"
	"io"
	"strings"

	"assay/internal/fault"
	"assay/internal/layout"
	"assay/internal/text"
	"assay/internal/weights"
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
	moved := 0
	for _, s := range p.Steps {
		if s.Order != "" {
			moved++
		}
	}
	switch {
	case p.Same && p.opts.DType == "":
		fmt.Fprintf(&b, "it is %s already (%s): copied\n", p.To, text.Line(p.FromWhy))
	case p.Same:
		fmt.Fprintf(&b, "it is %s already (%s): floats become %s\n", p.To, text.Line(p.FromWhy), p.opts.DType)
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
		fmt.Fprintf(&b, "note: %s\n", text.Line(n))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteLayout writes which layout each kernel and dense layer of a file has, with the reason and how sure it is, and
// what the file is as a whole. expected is what it is held against, or "": the error then has the exit status of a
// check that failed (it is otherwise, mixed, converted twice), or of one that cannot tell.
func WriteLayout(w io.Writer, f *weights.File, expected layout.Framework) error {
	r := Layout(f)
	var b strings.Builder
	for _, g := range r.Tensors {
		if g.Order == "-" {
			continue
		}
		order, kind := g.Order, string(g.Kind)
		if order == "" {
			order = "unknown"
		}
		if kind == "" {
			kind = "kind unknown"
		}
		fmt.Fprintf(&b, "%s %s: %s (%s), %s\n    %s\n", text.Line(g.Name), layout.Text(g.Shape), order, g.Certain, kind,
			text.Line(g.Why))
		if g.Tell != "" {
			fmt.Fprintf(&b, "    what would tell: %s\n", text.Line(g.Tell))
		}
	}
	fmt.Fprintf(&b, "layout: %s", r.Verdict)
	if r.Layout != "" {
		fmt.Fprintf(&b, ", %s", r.Layout)
	}
	fmt.Fprintf(&b, ": %s\n", text.Line(r.Why))
	for _, name := range r.Named {
		fmt.Fprintf(&b, "    %s\n", text.Line(name))
	}
	if _, err := io.WriteString(w, b.String()); err != nil || expected == "" {
		return err
	}
	return CheckLayout(f.Path, r, expected)
}

// CheckLayout holds a report against the layout expected: nil where it is that, else an error with its exit status.
func CheckLayout(path string, r layout.Report, expected layout.Framework) error {
	switch r.Verdict {
	case layout.One, layout.Converted:
		if r.Layout == expected {
			return nil
		}
		return fault.Exit(fault.Hint(
			fmt.Errorf("%s: its layout is that of %s, and not of %s: %s", path, r.Layout, expected, r.Why),
			"`assay convert` makes one of the other"), fault.GateFailed)
	case layout.Mixed, layout.Twice:
		return fault.Exit(fault.Hint(fmt.Errorf("%s: %s: %s: %s", path, r.Verdict, r.Why, few(r.Named)),
			"make it anew from the file that it was made from"), fault.GateFailed)
	}
	return fault.Exit(fault.Hint(fmt.Errorf("%s: its layout cannot be told: %s", path, r.Why), r.Tell),
		fault.CannotTell)
}
