package fit

import (
	"fmt"
	"io"
	"strings"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/text"
	"assay/internal/unit"
)

// Result is what is said of all Macs asked for: a document of evidence, and the JSON of `assay fits`.
type Result struct {
	evidence.Envelope
	Judged `json:"body"`
}

// Judged is what a result has beyond the envelope.
type Judged struct {
	Release    string      `json:"torch"` // that the double stood for
	Rehearsals []Rehearsal `json:"rehearsals"`
	Chips      []Judgement `json:"chips"`
}

// Rehearsal is one that was judged by, or that failed.
type Rehearsal struct {
	Run     string                    `json:"run"`
	Folder  string                    `json:"folder"`
	Chip    string                    `json:"chip"`
	Data    bool                      `json:"data"` // false: shapes alone
	Steps   int                       `json:"steps"`
	Why     string                    `json:"why"` // it was made
	Ended   string                    `json:"ended,omitempty"`
	Where   string                    `json:"where,omitempty"`
	Refused string                    `json:"refused,omitempty"` // the device's error for want of memory
	Account *evidence.RehearsedMemory `json:"account,omitempty"`
	Host    *int64                    `json:"host,omitempty"`
}

// Of is the row of a rehearsal, and why it was made.
func Of(r Rehearsed, why string) Rehearsal {
	row := Rehearsal{Run: r.Run, Folder: r.Folder, Chip: r.Chip, Data: r.Data, Steps: r.Steps, Why: why, Ended: r.Ended,
		Where: r.Where, Account: r.Account, Host: r.Host}
	if r.Refused != nil {
		row.Refused = r.Refused.Text
	}
	return row
}

// Status is the exit status that the result deserves: 3 where one Mac's memory does not do, else 4 where one is too
// close to call or not known, else 0.
func (r *Result) Status() int {
	worst := fault.OK
	for _, j := range r.Chips {
		switch j.Answer {
		case DoesNot:
			return fault.GateFailed
		case TooClose, NotKnown:
			worst = fault.CannotTell
		}
	}
	return worst
}

// JSON writes the document.
func (r *Result) JSON(out io.Writer) error { return evidence.Write(out, r) }

// KindFit is the kind of document that a Result is.
const KindFit = "fit"

// Text writes what the rehearsals saw, once for all Macs that are judged by the same, and a paragraph for each Mac, in
// lines of at most width columns where their words allow. What strangers wrote moves no cursor and begins no line.
func (r *Result) Text(out io.Writer, width int) error {
	var b strings.Builder
	row := func(name, said string) {
		if said != "" {
			b.WriteString(text.Wrapped(said, fmt.Sprintf("  %-11s ", name), strings.Repeat(" ", 14), width))
		}
	}
	judgedBy, better := "", false
	for i, j := range r.Chips {
		if i > 0 {
			b.WriteByte('\n')
		}
		if a := j.account; a != nil && j.Low != nil && j.Run != judgedBy {
			judgedBy = j.Run
			b.WriteString(text.Wrapped(fmt.Sprintf("%s at the most, rehearsed on %s.", size(a.Peak),
				j.rehearse.Chip), "", "  ", width))
			row("in use", fmt.Sprintf("%s at once, in %s; with what is cached beside, %s to %s by what the account may "+
				"be off", size(a.AllocatedPeak), when(a), size(*j.Low), size(*j.High)))
			row("of it", byKind(a))
			row("also", also(a, j.rehearse.Host))
			row("not reached", unreached(j))
			row("not counted", uncounted(a))
			b.WriteByte('\n')
		}
		b.WriteString(text.Wrapped(fmt.Sprintf("%s: %s. %s.", j.Mac.Chip, j.Answer, capital(j.Why)), "", "  ", width))
		if j.Refusal != nil {
			row("refused", fmt.Sprintf("%s at %s: %s", j.Refused, orUnknown(j.Refusal.Where), j.Refusal.Text))
		}
		for _, m := range j.Margins {
			if name := short[m.Limit]; name != "" {
				row(name, margin(m))
			}
		}
		if j.Batch != nil && j.Batch.Fits > 0 {
			row("batch", fmt.Sprintf("%d rehearsed; up to about %d would get a yes (%s: %s)", j.Batch.Rows, j.Batch.Fits,
				j.Batch.Basis, j.Batch.Why))
		}
		if s := j.Step; s != nil && s.Mid != nil {
			said := fmt.Sprintf("%s to %s, without loading data (%s; bands so made held %d of %d published steps, their "+
				"source left out)", unit.Seconds(*s.Low), unit.Seconds(*s.High), s.Basis, s.Held, s.Figures)
			if len(s.Unknown) > 0 {
				said += "; nothing is known of " + strings.Join(s.Unknown, ", ")
			}
			row("a step", said)
		} else if s != nil {
			row("a step", "not known: "+s.Why)
		}
		for _, try := range j.Try {
			row("try", try)
		}
		better = better || j.Answer == DoesNot || j.Answer == TooClose
	}
	if better {
		b.WriteString("\n" + text.Wrapped("assay sweep --remedies -- COMMAND measures what checkpointing, autocast, "+
			"accumulation and smaller inputs would save.", "", "  ", width))
	}
	b.WriteByte('\n')
	for _, re := range r.Rehearsals {
		how := "shapes alone"
		if re.Data {
			how = "with data"
		}
		ended := ""
		if re.Ended != "" {
			ended = "; " + re.Ended
		}
		b.WriteString(text.Wrapped(fmt.Sprintf("rehearsed on %s, %s, %d steps: %s%s; %s", re.Chip, how, re.Steps,
			re.Why, ended, re.Folder), "", "  ", width))
	}
	_, err := io.WriteString(out, text.Lines(b.String()))
	return err
}

// short are the limits that the page names, as it names them. The wired limit is the working set there.
var short = map[string]string{"recommended working set": "working set", "high watermark": "watermark",
	"largest buffer": "buffer", "unified memory": "memory"}

func size(n int64) string { return unit.Bytes(float64(n)) }

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown line"
	}
	return s
}

func when(a *evidence.RehearsedMemory) string {
	if a.At.Step == 0 {
		return fmt.Sprintf("%s before the first step", a.At.Phase)
	}
	return fmt.Sprintf("step %d, %s", a.At.Step, a.At.Phase)
}

func byKind(a *evidence.RehearsedMemory) string {
	var parts []string
	for _, kind := range []struct {
		name string
		n    int64
	}{{"weights", a.Kinds.Weights}, {"gradients", a.Kinds.Gradients}, {"optimizer", a.Kinds.Optimizer},
		{"activations", a.Kinds.Activations}, {"workspace", a.Kinds.Workspace}, {"data", a.Kinds.Data},
		{"other", a.Kinds.Other}} {
		if kind.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", kind.name, size(kind.n)))
		}
	}
	return strings.Join(parts, ", ")
}

// also says the peaks of the parts of the run, the end of a step, and the script's own memory.
func also(a *evidence.RehearsedMemory, host *int64) string {
	var parts []string
	for _, p := range a.Pieces {
		parts = append(parts, fmt.Sprintf("%s %s", p.What, size(p.Peak)))
	}
	if a.Steady != nil {
		parts = append(parts, "end of a step "+size(*a.Steady))
	}
	if host != nil {
		parts = append(parts, fmt.Sprintf("the script's own processes %s, measured on this machine", size(*host)))
	}
	return strings.Join(parts, ", ")
}

func margin(m Margin) string {
	if m.Most == nil {
		return "not known: " + m.Why
	}
	left := size(max(*m.Left, 0)) + " left"
	if *m.Left < 0 {
		left = size(-*m.Left) + " too much"
	}
	said := fmt.Sprintf("%s of %s, %s", size(*m.Need), size(*m.Most), left)
	if m.Source != "" {
		said += " (" + m.Source + ")"
	}
	return said
}

// uncounted says what no account of PyTorch's memory has, where the script's batches are of a kind that makes it large.
func uncounted(a *evidence.RehearsedMemory) string {
	if a.Batch == nil || a.Batch.Lengths < 2 {
		return ""
	}
	return fmt.Sprintf("the batches came in %d lengths, and what MPSGraph may keep for each is in no account: in published "+
		"reports of such training it was one to ten times what PyTorch had (docs/fits.md)", a.Batch.Lengths)
}

// unreached says what the rehearsal did not see, so that nobody takes the answer to be about it.
func unreached(j Judgement) string {
	a := j.account
	if a == nil {
		return ""
	}
	var parts []string
	if !a.Evaluated {
		parts = append(parts, "an evaluation")
	}
	if !a.Saved {
		parts = append(parts, "saving a checkpoint")
	}
	said := strings.Join(parts, " and ")
	if said != "" {
		said += fmt.Sprintf(" within the %d steps rehearsed: what they take is not counted; more --steps reach further",
			j.rehearse.Steps)
	}
	if b := a.Batch; b == nil || b.Longest == nil {
		why := "nobody looked"
		if b != nil && b.Why != "" {
			why = b.Why
		}
		if said != "" {
			said += ". "
		}
		said += "Whether the data have a longer batch is not known: " + why
	}
	return said
}
