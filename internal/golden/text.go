package golden

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"assay/internal/evidence"
	"assay/internal/text"
	"assay/internal/unit"
)

// JSON writes the document.
func (r *Result) JSON(out io.Writer) error { return evidence.Write(out, r) }

// Text writes what was found, in lines of at most width columns where their words allow.
func (r *Result) Text(out io.Writer, width int) error {
	var b strings.Builder
	row := func(name, said string) {
		b.WriteString(text.Wrapped(said, fmt.Sprintf("%-12s ", name), strings.Repeat(" ", 13), width))
	}
	for _, s := range []struct {
		name string
		Side
	}{{"A", r.A}, {"B", r.B}} {
		said := fmt.Sprintf("%s, %s %s, %s", text.Line(s.Model), text.Line(s.Framework),
			text.Line(s.Release), text.Line(s.Device))
		if s.Float64 {
			said += ", in float64"
		}
		if s.Step != nil {
			said += fmt.Sprintf("; a step of forward, backward and update %s", unit.Seconds(*s.Step))
		}
		said += ", " + unit.Bytes(float64(s.Resident)) + " resident at most"
		if s.Memory != nil {
			said += ", " + unit.Bytes(float64(*s.Memory)) + " of the device"
		}
		row(s.name, said+" (measured)")
	}
	b.WriteString("\n")
	row(r.Answer, text.Line(r.Why))
	if d := r.Departs; d != nil {
		said := fmt.Sprintf("%s (%s) is the first whose output departs, by %.1e", text.Line(cmp.Or(d.A, "the model")),
			text.Line(d.Kind), d.Relative)
		if d.Note != "" {
			said += " (" + text.Line(d.Note) + ")"
		}
		said += "; its input " + d.Input
		if d.InputOff != nil {
			said += fmt.Sprintf(" (%.1e)", *d.InputOff)
		}
		if d.InputHow != "" {
			said += ": " + text.Line(d.InputHow)
		}
		said += "; its weights: " + text.Line(cmp.Or(d.Weights, "none"))
		row("module", said)
	} else {
		row("modules", fmt.Sprintf("%d calls compared, none departs", len(r.Modules)))
	}
	b.WriteString("\n")
	for _, s := range firstOf(r.Settings, 12) {
		said := fmt.Sprintf("%s of %s: %s and %s", text.Line(s.What), text.Line(s.Where),
			text.Line(s.A), text.Line(s.B))
		if s.Why != "" {
			said += "; " + s.Why
		}
		row("setting", said)
	}
	if n := len(r.Settings) - 12; n > 0 {
		row("", fmt.Sprintf("and %d more in --json", n))
	}
	for _, p := range r.Parts {
		said := "agrees"
		if !p.Agrees {
			said = "departs"
		}
		if p.Pairs == 0 {
			row(p.What, "nothing to compare")
			continue
		}
		if p.Whole == 0 && p.Worst.Relative == 0 {
			said += fmt.Sprintf(": equal values (%d compared)", p.Pairs)
		} else {
			said += fmt.Sprintf(": %.1e of all together, %.1e at %s (%d compared, within %.0e)", p.Whole, p.Worst.Relative,
				text.Line(cmp.Or(p.Worst.A, "the whole")), p.Pairs, p.Within)
		}
		if p.Worst.Note != "" {
			said += ": " + text.Line(p.Worst.Note)
		}
		if len(p.Left) > 0 {
			said += "; left out, since its gradient is rounding alone: " + listed(p.Left)
		}
		row(p.What, said)
		if p.What == "gradients" {
			r.backward(row)
		}
	}
	alone := func(what string, a, b []string) {
		if len(a)+len(b) > 0 {
			row("unpaired", fmt.Sprintf("%s: %s in A, %s in B", what, listed(a), listed(b)))
		}
	}
	alone("weights", r.Alone.WeightsA, r.Alone.WeightsB)
	var comparedA, comparedB []string
	for _, m := range r.Modules {
		comparedA, comparedB = append(comparedA, m.A), append(comparedB, m.B)
	}
	alone("modules", outside(r.Alone.CallsA, comparedA), outside(r.Alone.CallsB, comparedB))
	for _, p := range firstOf(r.Paired, 3) {
		row("paired", fmt.Sprintf("%s with %s: %s", text.Line(p.A), text.Line(p.B), p.How))
	}
	if n := len(r.Paired) - 3; n > 0 {
		row("", fmt.Sprintf("and %d more in --json", n))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// backward says where gradients begin to differ, and what went another way.
func (r *Result) backward(row func(name, said string)) {
	if b := r.Backward; b != nil {
		said := fmt.Sprintf("on the way back from the loss %s is the first to differ, by %.1e (cosine %.9f)", text.Line(b.Module),
			b.Relative, b.Cosine)
		for i, w := range b.Weights {
			_, part := cutLast(w.A)
			said += fmt.Sprintf("%s %s %.1e", []string{":", ","}[min(i, 1)], text.Line(part), w.Relative)
		}
		if b.Behind == nil {
			said += "; no module with weights is behind it"
		} else {
			said += fmt.Sprintf("; all behind it agree, within %.1e", *b.Behind)
		}
		row("", said)
	}
	counted, other := map[string]int{}, 0
	for _, b := range r.Branches {
		counted[b.At] += b.Of
		if b.Other == 0 {
			continue
		}
		if other++; other <= 4 {
			row("branches", text.Line(b.said())+", both within the tolerance; that alone makes gradients differ")
		}
	}
	switch {
	case other > 4:
		row("", fmt.Sprintf("and %d modules more in --json", other-4))
	case other == 0 && len(counted) > 0:
		row("branches", fmt.Sprintf("of %d values behind a ReLU none has another sign, of %d windows of pools none another largest value",
			counted["relu"], counted["pool"]))
	}
}

// outside are the modules that lie within none whose own output was compared.
func outside(modules, compared []string) []string {
	within := map[string]bool{}
	for _, m := range compared {
		within[m] = m != ""
	}
	return slices.DeleteFunc(slices.Clone(modules), func(m string) bool {
		for m, _ = cutLast(m); m != ""; m, _ = cutLast(m) {
			if within[m] {
				return true
			}
		}
		return false
	})
}

func firstOf[T any](all []T, n int) []T { return all[:min(n, len(all))] }

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	var all []string
	for _, n := range firstOf(names, 4) {
		all = append(all, text.Line(cmp.Or(n, "the model")))
	}
	if len(names) > 4 {
		all = append(all, fmt.Sprintf("%d more", len(names)-4))
	}
	return strings.Join(all, ", ")
}
