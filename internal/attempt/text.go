package attempt

import (
	"fmt"
	"io"
	"strings"

	"assay/internal/evidence"
	"assay/internal/text"
	"assay/internal/unit"
)

// Text writes one model at length, or a line for each and the counts, in lines of at most width columns where their
// words allow. What strangers wrote moves no cursor and begins no line.
func (r *Result) Text(out io.Writer, width int) error {
	var b strings.Builder
	if r.Package == "" && len(r.Models) == 1 {
		r.one(&b, r.Models[0], width)
	} else {
		r.list(&b)
	}
	_, err := io.WriteString(out, text.Lines(b.String()))
	return err
}

// basis says where what is printed was seen.
func (r *Result) basis() string {
	if r.Double != nil {
		return fmt.Sprintf("%s, torch %s installed", doubleText(r.Double), r.Torch)
	}
	return fmt.Sprintf("on %s with torch %s", r.On, r.Torch)
}

func (r *Result) one(b *strings.Builder, m *Attempt, width int) {
	head := fmt.Sprintf("%s: %s; %s, %s.", m.Name, m.Outcome, r.Basis, r.basis())
	b.WriteString(text.Wrapped(head, "", "  ", width))
	row := func(name, said string) {
		if said != "" {
			b.WriteString(text.Wrapped(said, fmt.Sprintf("  %-9s ", name), strings.Repeat(" ", 12), width))
		}
	}
	model := strings.Join(m.Inputs, "; ")
	if m.Model != "" {
		model = strings.TrimPrefix(fmt.Sprintf("%s; %s, %d parameters", model, m.Model, m.Parameters), "; ")
	}
	row("input", model)
	row("operator", m.Operator)
	switch m.Outcome {
	case outcomeOK:
	case outcomeWrong, outcomeAborts: // nothing was raised
		row("where", m.Where)
		row(m.Outcome, m.Text)
		row("do", m.Remedy)
	default:
		at := m.Phase
		if m.Where != "" {
			at += " at " + m.Where
		}
		row("where", at)
		row("error", strings.TrimPrefix(m.Error+": "+m.Text, ": "))
		row("do", m.Remedy)
	}
	if f := m.Fallback; f != nil {
		row("fallback", "with PYTORCH_ENABLE_MPS_FALLBACK=1: "+f.told())
	}
	row("CPU", m.CPU)
	if m.Ran != nil && m.Outcome == outcomeOK && m.Fallback == nil {
		row("called", fmt.Sprintf("%d operators %d times, each with a kernel", m.Ran.Operators, m.Ran.Calls))
	}
	if m.Peak > 0 && m.Outcome == outcomeOK {
		row("memory", unit.Bytes(float64(m.Peak))+" at the peak, as Metal's driver counts")
	}
	m.perhaps(row)
	for _, n := range m.Notes {
		row("note", n)
	}
}

// perhaps says in a line each what else was met for sure, and, by their names, which wrong results may be.
func (m *Attempt) perhaps(row func(name, said string)) {
	for _, x := range []struct{ outcome, says string }{{"wrong", "wrong"}, {"aborts", "aborts"}, {"cpu", "on the CPU"},
		{"slow", "slow"}} {
		for i, met := range evidence.MetBy(m.Met, true, x.outcome) {
			if x.outcome == m.Outcome && i == 0 {
				continue // said above
			}
			at := met[0]
			row(x.says, strings.TrimSuffix(fmt.Sprintf("%s at %s, when: %s; %s", at.Operator, at.Where,
				strings.TrimPrefix(at.Wrong+"; "+at.When, "; "), at.Remedy), "; "))
		}
	}
	var names []string
	for _, met := range evidence.MetBy(m.Met, false, outcomeWrong) {
		names = append(names, met[0].Fact+" when "+met[0].When)
	}
	if n := len(names); n > 0 {
		if n > namedPerhaps {
			names = append(names[:namedPerhaps], fmt.Sprintf("%d more in the record (--json)", n-namedPerhaps))
		}
		row("perhaps", fmt.Sprintf("known wrong results that one call does not tell (%d): %s", n, strings.Join(names, "; ")))
	}
}

// namedPerhaps is how many facts that are not sure are named; the record has them all.
const namedPerhaps = 5

// told names the shares that are known.
func (s Shares) told() string {
	var parts []string
	for _, x := range []struct {
		share *float64
		of    string
	}{{s.OfCalls, "calls"}, {s.OfFLOPs, "FLOPs"}, {s.OfTime, "CPU time"}} {
		if x.share != nil {
			parts = append(parts, unit.Format(*x.share, "ratio")+" of the "+x.of)
		}
	}
	return strings.Join(parts, ", ")
}

// listWidth is where the last line of a list is broken; the others, a model each, are not.
const listWidth = 100

func (r *Result) list(b *strings.Builder) {
	name := 0
	for _, m := range r.Models {
		name = max(name, len(m.Name))
	}
	for _, m := range r.Models {
		if !r.printed {
			fmt.Fprintln(b, m.line(name))
		}
	}
	var counts []string
	for _, o := range outcomes {
		if r.Counts[o] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", r.Counts[o], o))
		}
	}
	fmt.Fprintln(b)
	of := r.Package
	if r.Stopped != "" {
		of += ", stopped " + r.Stopped
	}
	sum := fmt.Sprintf("%d models of %s, %s, %s: %s.", len(r.Models), of, r.Basis, r.basis(),
		strings.Join(counts, ", "))
	b.WriteString(text.Wrapped(sum, "", "  ", listWidth))
}

// outcomeWidth is that of the longest outcome: a line is printed before the outcomes of the others are known.
var outcomeWidth = func() int {
	n := 0
	for _, o := range outcomes {
		n = max(n, len(o))
	}
	return n
}()

// line is a model's line in a list whose longest name has so many bytes.
func (m *Attempt) line(name int) string {
	line := fmt.Sprintf("%-*s  %-*s  %s", name, m.Name, outcomeWidth, m.Outcome,
		strings.Join(append(m.why(), m.Notes...), "; "))
	return strings.TrimRight(text.Line(line), " ")
}

// why is a model's outcome in a list, in a few words each.
func (m *Attempt) why() []string {
	switch {
	case m.Outcome == outcomeOK:
		return nil
	case m.Operator == "" || m.Outcome == outcomeCPU:
		return []string{strings.TrimPrefix(m.Error+": "+firstLine(m.Text), ": ")}
	}
	if m.Outcome == outcomeWrong || m.Outcome == outcomeAborts {
		return []string{m.Operator, firstLine(m.Text)}
	}
	why := []string{m.Operator + " in " + m.Phase}
	switch {
	case m.Outcome != outcomeMissing:
		why = append(why, firstLine(m.Text))
	case m.NativeFrom != "":
		why = append(why, "native from "+m.NativeFrom)
	default:
		why = append(why, "in no release")
	}
	if m.Fallback != nil {
		why = append(why, "with the fallback: "+m.Fallback.Outcome)
	}
	return why
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
