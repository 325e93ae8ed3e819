package models

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"assay/internal/facts"
	"assay/internal/text"
	"assay/internal/unit"
)

// Schema and AdviceSchema name the versions of the JSON forms.
const (
	Schema       = "assay.models/1"
	AdviceSchema = "assay.advice/1"
)

// Record is what `assay models --json` prints.
type Record struct {
	Schema   string        `json:"schema"`
	Torch    string        `json:"torch"` // the release that states speak of
	Why      string        `json:"torch_from"`
	Basis    string        `json:"basis"` // rehearsed
	Made     []Made        `json:"made"`  // what the table was made with
	Releases []string      `json:"releases"`
	Asked    *Asked        `json:"asked,omitempty"` // an id of the hub that the model stands for
	Models   []RecordModel `json:"models"`
}

// RecordModel is a model of a Record.
type RecordModel struct {
	Name       string       `json:"name"`
	Task       string       `json:"task"`
	Family     string       `json:"family"`
	Package    string       `json:"package"`
	Input      string       `json:"input"`
	Carried    string       `json:"carried"` // shapes, or values where it asks for values
	Parameters int64        `json:"parameters"`
	State      string       `json:"state"`
	Reason     string       `json:"reason,omitempty"`
	Since      string       `json:"since"`
	RunsFrom   string       `json:"runs_from,omitempty"` // the first later release in which it runs
	Peaks      []RecordPeak `json:"peaks"`
	Facts      []string     `json:"facts"`
	Perhaps    []string     `json:"perhaps"`
	Spans      []Span       `json:"spans"`
	CPU        string       `json:"cpu,omitempty"`
}

// RecordPeak is a peak of a RecordModel, in bytes; null where it is not known.
type RecordPeak struct {
	Batch int    `json:"batch"`
	Bytes *int64 `json:"bytes"`
	Why   string `json:"why,omitempty"`
}

// JSON writes the record of answers; asked is nil where a model was not asked for by an id of the hub.
func (t *Table) JSON(w io.Writer, torch, why string, asked *Asked, answers []Answer) error {
	r := Record{Schema, torch, why, "rehearsed", t.Made, t.Releases, asked, []RecordModel{}}
	for _, a := range answers {
		m := a.Model
		one := RecordModel{m.Name, m.Task, m.Family, m.Package, m.Input, m.Carried, m.Parameters, a.State, a.Why,
			a.Since, a.Later, nil, append([]string{}, a.Facts...), append([]string{}, a.Perhaps...), m.Spans, m.CPU}
		for _, p := range m.Peaks {
			peak := RecordPeak{Batch: p.Batch, Why: p.Why}
			if p.Bytes > 0 {
				peak.Bytes = &p.Bytes
			}
			one.Peaks = append(one.Peaks, peak)
		}
		r.Models = append(r.Models, one)
	}
	return encode(w, r)
}

// JSON writes the advice.
func (a *Advice) JSON(w io.Writer) error {
	return encode(w, struct {
		Schema string `json:"schema"`
		Basis  string `json:"basis"`
		*Advice
	}{AdviceSchema, "rehearsed", a})
}

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// List writes a line for each answer, and their counts.
func (t *Table) List(w io.Writer, torch string, answers []Answer, width int) error {
	var b strings.Builder
	name, state := len("model"), len("torch "+torch)
	for _, a := range answers {
		name, state = max(name, len(a.Model.Name)), max(state, len(a.State))
	}
	fmt.Fprintf(&b, "%-*s  %-*s  %8s  %9s  %9s  %s\n", name, "model", state, "torch "+torch, "weights", "batch 1",
		"batch 8", "why")
	counts := map[string]int{}
	for _, a := range answers {
		counts[a.State]++
		why := a.Why
		if a.Later != "" {
			why = strings.TrimPrefix(why+"; runs in "+a.Later, "; ")
		}
		line := fmt.Sprintf("%-*s  %-*s  %8s  %9s  %9s  %s", name, a.Model.Name, state, a.State,
			millions(a.Model.Parameters), a.Model.peak(1), a.Model.peak(8),
			text.Short(why, max(width, 120)-name-state-36))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	var said []string
	for _, s := range States {
		if counts[s] > 0 {
			said = append(said, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	sum := fmt.Sprintf("%d models: %s; %s.", len(answers), strings.Join(said, ", "), t.how())
	b.WriteString("\n" + text.Wrapped(sum, "", "  ", width))
	_, err := io.WriteString(w, text.Lines(b.String()))
	return err
}

// peak is the peak at a batch as a list shows it.
func (m *Model) peak(batch int) string {
	if p, known := m.Peak(batch); known {
		return unit.Bytes(float64(p))
	}
	return "unknown"
}

// millions is a number of parameters as a list shows it; of few it shows thousands.
func millions(n int64) string {
	if n < 1e5 {
		return fmt.Sprintf("%.0f k", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f M", float64(n)/1e6)
}

// Full writes one answer at length; asked is nil where it was not asked for by an id of the hub.
func (t *Table) Full(w io.Writer, asked *Asked, a Answer, width int) error {
	var b strings.Builder
	m := a.Model
	b.WriteString(text.Wrapped(fmt.Sprintf("%s: %s on torch %s", m.Name, a.State, a.Release), "", "  ", width))
	row := func(name, said string) {
		if said != "" {
			b.WriteString(text.Wrapped(said, fmt.Sprintf("  %-9s ", name), strings.Repeat(" ", 12), width))
		}
	}
	if asked != nil {
		row("asked", fmt.Sprintf("%s, which is not in the table itself: %s stands for it by its architecture (%s). "+
			"Parameters, memory and sizes below are those of %s", asked.ID, m.Name, asked.About, m.Name))
	}
	row("is", fmt.Sprintf("%s of %s, for %s; %s parameters; %s a row", m.Family, m.Package, m.Task,
		millions(m.Parameters), m.Input))
	if part := m.Part(); part != "" {
		row("part", part+" of it were rehearsed: the operators are those of the whole, parameters and memory are not")
	}
	row("why", a.Why)
	if a.Later != "" {
		row("runs", "from torch "+a.Later)
	}
	for i, line := range t.History(m) {
		if i == 0 {
			row("releases", line)
			continue
		}
		row("", line)
	}
	for _, p := range m.Peaks {
		said := "unknown: " + p.Why
		if p.Bytes > 0 {
			said = unit.Bytes(float64(p.Bytes))
		}
		newest := t.Releases[len(t.Releases)-1]
		row(fmt.Sprintf("batch %d", p.Batch), said+", two steps of AdamW in float32 on torch "+newest)
	}
	for _, name := range a.Facts {
		if f := facts.Load().Fact(name); f != nil {
			row(string(f.Outcome), strings.TrimSuffix(name+": "+f.Wrong, ": ")+"; assay ops "+name)
		}
	}
	if n := len(a.Perhaps); n > 0 {
		row("perhaps", fmt.Sprintf("known wrong results that one call does not tell (%d): %s", n,
			strings.Join(a.Perhaps, ", ")))
	}
	if m.CPU != "" {
		row("CPU", m.CPU)
	}
	if operators := m.Operators(); len(operators) > 0 {
		row("more", "assay ops "+strings.Join(operators, ", assay ops "))
	}
	row("known", t.how()+". Tensors carried "+m.Carried)
	_, err := io.WriteString(w, text.Lines(b.String()))
	return err
}

// Text writes the advice.
func (a *Advice) Text(w io.Writer, width int) error {
	var b strings.Builder
	head := fmt.Sprintf("%s on a Mac with %d GiB under macOS %d, torch %s; Metal recommends a working set of %s there (%s)",
		a.Task, a.Limit.GiB, a.Limit.MacOS, a.Torch, unit.Bytes(float64(a.Limit.Bytes)), a.Limit.Known)
	b.WriteString(text.Wrapped(head, "", "  ", width))
	ofAll := a.ofAll()
	for i, m := range a.List {
		fmt.Fprintf(&b, "\n%d  %s  %s of %s, %s parameters\n", i+1, m.Name, m.Family, m.Package, millions(m.Parameters))
		for _, r := range m.Reasons {
			b.WriteString(text.Wrapped(r, "   - ", "     ", width))
		}
		own := slices.DeleteFunc(slices.Clone(m.Perhaps), func(f string) bool { return slices.Contains(ofAll, f) })
		if len(own) > 0 {
			said := "no wrong result is met for sure; perhaps: " + strings.Join(own, ", ")
			b.WriteString(text.Wrapped(said, "   - ", "     ", width))
		}
	}
	if len(ofAll) > 0 {
		said := "known wrong results that each of these meets perhaps, for one call does not tell: " +
			strings.Join(ofAll, ", ") + "; assay ops NAME tells what one is"
		b.WriteString("\n" + text.Wrapped(said, "", "  ", width))
	}
	if len(a.List) == 0 {
		b.WriteString("\nnone of the table's does\n")
	}
	if len(a.Also) > 0 {
		also := "as well, of the same families or after these: " + strings.Join(a.Also, ", ")
		b.WriteString("\n" + text.Wrapped(also, "", "  ", width))
	}
	if len(a.LeftOut) > 0 {
		b.WriteString("\nleft out\n")
		for _, l := range a.LeftOut {
			b.WriteString(text.Wrapped(l.Name+": "+l.Why, "  ", "    ", width))
		}
	}
	end := "in the order of: state, the batch that fits, since when, least memory. Not known here: " +
		strings.Join(a.Unknown, "; ") + "."
	b.WriteString("\n" + text.Wrapped(end, "", "  ", width))
	_, err := io.WriteString(w, text.Lines(b.String()))
	return err
}
