package steps

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"assay/internal/evidence"
	"assay/internal/golden"
	"assay/internal/text"
)

// JSON writes the document.
func (r *Result) JSON(out io.Writer) error { return evidence.Write(out, r) }

// listed is how many of a list the text tells; the rest is in the JSON.
const listed = 6

// Text writes what was found, in lines of at most width columns where their words allow.
func (r *Result) Text(out io.Writer, width int) error {
	var b strings.Builder
	row := func(name, said string) {
		b.WriteString(text.Wrapped(said, fmt.Sprintf("%-12s ", name), strings.Repeat(" ", 13), width))
	}
	more := func(n int) {
		if n > 0 {
			row("", fmt.Sprintf("and %d more in --json", n))
		}
	}
	for _, s := range []struct {
		name string
		Side
	}{{"A", r.A}, {"B", r.B}} {
		said := fmt.Sprintf("%s: torch %s on %s, %s", text.Line(s.Path), text.Line(cmp.Or(s.Torch, "?")),
			text.Line(cmp.Or(s.Device, "?")), counted(s.Steps, "step"))
		if s.Batch != nil {
			said += fmt.Sprintf(" of %d", *s.Batch)
		}
		if !s.Complete {
			said += "; not whole: " + text.Line(s.Why)
		}
		row(s.name, said)
	}
	b.WriteString("\n")
	row(r.Answer, text.Line(r.Why))
	for _, by := range r.Batches {
		said := "a batch that is not told"
		if by.Batch != nil {
			said = fmt.Sprintf("batch %d", *by.Batch)
		}
		said += ": " + by.Answer
		if by.Where != "" {
			said += ", first in " + text.Line(by.Where)
		}
		row("batch", said)
	}
	if r.Fed != nil && r.Answer != golden.NotKnown {
		row("fed", r.Fed.told())
	}
	for _, of := range []struct {
		name string
		Judged
	}{{"operator", r.Operators}, {"module", r.Modules}, {"weight", r.Weights}} {
		if r.Answer == golden.NotKnown {
			break // what comes of another start is no finding
		}
		if of.First != nil {
			row(of.name, of.First.told())
		}
		for _, o := range of.Others[:min(len(of.Others), 3)] {
			row("", fmt.Sprintf("and by itself %s by %.1e", text.Line(o.title()), o.Relative))
		}
	}
	b.WriteString("\n")
	var begins int
	for _, s := range r.Start {
		if begins++; begins > 3*listed {
			continue
		}
		said := s.Why
		if said == "" || s.Weighs == toldOnly && s.A != "" {
			said = fmt.Sprintf("%s: %s in A, %s in B", s.Name, s.A, s.B)
		}
		row(s.What, text.Line(said))
	}
	more(begins - 3*listed)
	for _, s := range r.Settings[:min(len(r.Settings), listed)] {
		row("setting", fmt.Sprintf("%s of %s: %s and %s", text.Line(s.What), text.Line(cmp.Or(s.Module, "the model")),
			text.Line(s.A), text.Line(s.B)))
	}
	more(len(r.Settings) - listed)
	for _, of := range []struct {
		name string
		Judged
	}{{"operators", r.Operators}, {"modules", r.Modules}, {"gradients", r.Gradients}, {"weights", r.Weights}} {
		row(of.name, of.counts())
	}
	alike := r.alike()
	for _, like := range alike[:min(len(alike), listed)] {
		u := like[0]
		said := fmt.Sprintf("in %s, step %d, %s: %s in A, %s in B; judged by modules there",
			text.Line(cmp.Or(u.Module, "the model")), u.Step, text.Line(u.Phase), names(u.A), names(u.B))
		if n := len(like) - 1; n > 0 {
			said += fmt.Sprintf("; so in %s more", counted(n, "place"))
		}
		row("unaligned", said)
	}
	more(len(alike) - listed)
	if len(r.AloneA)+len(r.AloneB) > 0 {
		row("alone", fmt.Sprintf("%s in A, %s in B", names(r.AloneA), names(r.AloneB)))
	}
	for _, t := range r.Ties[:min(len(r.Ties), 3)] {
		row("tie", fmt.Sprintf("%s went another way, where what it read is %.1e off: no fault of its own",
			text.Line(t.title()), t.InputOff))
	}
	more(len(r.Ties) - 3)
	for _, t := range r.Random[:min(len(r.Random), 1)] {
		row("random", text.Line(t.title())+" drew other numbers")
	}
	r.grown(row)
	row("judged by", r.Tolerance)
	row("", fmt.Sprintf("equal is what the hashes say; sizes of tensors with more than %d elements are estimates, %.0f %% one "+
		"standard error, and depart where they are three of them beyond", sampleNumbers, 100*sketchError))
	_, err := io.WriteString(out, b.String())
	return err
}

// alike are the places without partners, those of the same operators together.
func (r *Result) alike() [][]Unaligned {
	var groups [][]Unaligned
	of := map[string]int{}
	for _, u := range r.Unaligned {
		what := fmt.Sprintf("%s %q %q", u.Phase, u.A, u.B)
		i, ok := of[what]
		if !ok {
			i, of[what] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], u)
	}
	return groups
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	said := text.Line(strings.Join(list[:min(len(list), 4)], ", "))
	if n := len(list) - 4; n > 0 {
		said += fmt.Sprintf(" and %d more", n)
	}
	return said
}

// told says what is known of a row that departs.
func (r *Row) told() string {
	said := fmt.Sprintf("%s is off by %.1e, where %.1e are let", strings.TrimSuffix(r.title(), ","), r.Relative,
		r.limit())
	if r.What == "weight" {
		said = fmt.Sprintf("%s is moved otherwise by step %d: by %.1e of its update, where %.1e are let", r.Name, r.Step,
			r.Relative, r.limit())
	}
	if r.Share > 0 && r.Share < 1 {
		said += fmt.Sprintf(", in %.0f %% of the elements sampled", 100*r.Share)
	}
	if r.Note != "" {
		said += " (" + r.Note + ")"
	}
	switch {
	case r.Input == agrees && r.InputOff == 0:
		said += "; its input is equal"
	case r.Input == agrees:
		said += fmt.Sprintf("; its input agrees (%.1e)", r.InputOff)
	case r.Input == departs:
		said += fmt.Sprintf("; its input departs already, by %.1e", r.InputOff)
	default:
		said += "; its input is not known"
	}
	if r.InputFrom != "" && (r.Input != agrees || r.InputOff > 0) {
		said += ", from " + r.InputFrom
	}
	if r.InputNote != "" {
		said += ": " + r.InputNote
	}
	if r.Origin != "" {
		said += "; that began at " + r.Origin
	}
	return text.Line(said)
}

// limit is the difference beyond which a row departs: where it is an estimate, that of its tolerance that is surely
// beyond.
func (r *Row) limit() float64 {
	if r.Exact {
		return r.Tolerance
	}
	return r.Tolerance * sure
}

func (j Judged) counts() string {
	if j.Compared == 0 {
		return "nothing to compare"
	}
	said := fmt.Sprintf("%d compared, %d equal, %d within, %d beyond", j.Compared, j.Equal, j.Within, j.Beyond)
	if j.Left > 0 {
		said += fmt.Sprintf(", %d left out, since the gradient is rounding alone: %s", j.Left, names(j.LeftOut))
	}
	if j.Largest != nil {
		said += fmt.Sprintf("; within, the nearest to its limit is %.1e of %.1e at %s", j.Largest.Relative,
			j.Largest.limit(), text.Line(strings.TrimSuffix(j.Largest.title(), ",")))
	}
	if u := j.Unequal; u != nil && (j.First == nil || u.A != j.First.A) {
		said += fmt.Sprintf("; the first that is not equal is %s", text.Line(strings.TrimSuffix(u.title(), ",")))
	}
	return said
}

// grown tells how the difference grows through the first step, and over the steps.
func (r *Result) grown(row func(name, said string)) {
	for _, phase := range []string{"forward", "backward"} {
		var sizes []float64
		var first, last *Depth
		for i := range r.Depth {
			if d := &r.Depth[i]; d.Phase == phase {
				if first == nil {
					first = d
				}
				last, sizes = d, append(sizes, d.Median)
			}
		}
		if first != nil && last != nil && some(sizes) {
			row(phase, fmt.Sprintf("%s  %.1e at %s to %.1e at %s (medians of %d pieces of step 1)", sparks(sizes), first.Median,
				text.Line(first.From), last.Median, text.Line(last.To), len(sizes)))
		}
	}
	var sizes []float64
	var said []string
	for i, s := range r.Steps {
		sizes = append(sizes, s.Loss)
		if i < listed || i == len(r.Steps)-1 {
			said = append(said, fmt.Sprintf("step %d: loss %.1e, gradients %.1e, updates %.1e", s.Step, s.Loss,
				s.Gradients, s.Updates))
		}
	}
	if r.apart() {
		row("by step", sparks(sizes)+"  "+strings.Join(said, "; "))
	}
}

// apart says whether any step is.
func (r *Result) apart() bool {
	for _, s := range r.Steps {
		if s.Loss+s.Gradients+s.Updates > 0 {
			return true
		}
	}
	return false
}

func some(sizes []float64) bool {
	for _, s := range sizes {
		if s > 0 {
			return true
		}
	}
	return false
}

// sparks draws sizes on a scale of powers of ten: the lowest mark is 1e-8 and less, each next one ten times as much.
func sparks(sizes []float64) string {
	marks := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, s := range sizes {
		place := 0
		if s > 0 {
			place = max(0, min(len(marks)-1, int(math.Floor(math.Log10(s)))+8))
		}
		b.WriteRune(marks[place])
	}
	return b.String()
}
