package logbook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"assay/internal/evidence"
	clean "assay/internal/text"
	"assay/internal/unit"
)

// NoteFields are what a note can declare beside its text: the headings of the project notes that no evidence can fill.
var NoteFields = [][2]string{{"project", "type of project: Object Detection"}, {"task", "task: Detection"},
	{"architecture", "model that was used"},
	{"issue", "problem that was met"}, {"solution", "how it was solved"}, {"by", "who says so"}}

// Note keeps a person's words about records.
func (b *Book) Note(ctx context.Context, at time.Time, text string, fields map[string]string, about ...string) (string,
	error) {
	if strings.TrimSpace(text) == "" && len(fields) == 0 {
		return "", errors.New("keep a note: it has no text")
	}
	return b.Put(ctx, Record{Kind: KindNote, At: at, Title: text, Fields: fields, About: about})
}

type rejection struct {
	Because string `json:"because"`
}

// Reject keeps a hypothesis that was tried and rejected, with the reason and the runs that showed it.
func (b *Book) Reject(ctx context.Context, at time.Time, hypothesis, because string, about ...string) (string, error) {
	if strings.TrimSpace(hypothesis) == "" || strings.TrimSpace(because) == "" {
		return "", errors.New("reject a hypothesis: it needs its words and a reason")
	}
	doc, err := json.Marshal(rejection{because})
	if err != nil {
		return "", err
	}
	return b.Put(ctx, Record{Kind: KindRejection, At: at, Title: hypothesis, About: about, Document: doc})
}

// Because is the reason of a rejection.
func (r *Record) Because() string {
	var said rejection
	_ = json.Unmarshal(r.Document, &said)
	return said.Because
}

// Markdown writes project notes: an entry for each run, oldest first, and the appendix of rejected hypotheses.
func (b *Book) Markdown(ctx context.Context, w io.Writer, entries []Entry) error {
	var out strings.Builder
	out.WriteString("# Project notes\n\nWritten by `assay log export --markdown`. " +
		"In brackets stands how a figure is known; what nobody declared and no evidence tells is said to be unknown.\n")
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		if e.Kind != KindRun && e.Kind != KindRehearsal {
			continue
		}
		run, err := b.Run(ctx, e.ID)
		if err != nil {
			return err
		}
		notes, err := b.about(ctx, e.ID, KindNote)
		if err != nil {
			return err
		}
		out.WriteString("\n" + projectNote(e, run, notes))
	}
	rejected, err := b.List(ctx, Filter{Kind: KindRejection})
	if err != nil {
		return err
	}
	if len(rejected) > 0 {
		out.WriteString("\n## Appendix: rejected hypotheses\n\n")
		for i := len(rejected) - 1; i >= 0; i-- {
			e := rejected[i]
			r, err := b.Record(ctx, e.ID)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, "- %s: %s  \n  Rejected because: %s", e.At.Format(time.DateOnly), md(r.Title),
				md(r.Because()))
			if len(r.About) > 0 {
				out.WriteString("  \n  Runs:")
				for _, id := range r.About {
					fmt.Fprintf(&out, " `%s`", short(id))
				}
			}
			out.WriteString("\n")
		}
	}
	_, err = io.WriteString(w, out.String())
	return err
}

// about gives the records of a kind about this one, oldest first.
func (b *Book) about(ctx context.Context, id, kind string) ([]*Record, error) {
	list, err := b.List(ctx, Filter{Kind: kind, About: id})
	if err != nil {
		return nil, err
	}
	var all []*Record
	for i := len(list) - 1; i >= 0; i-- {
		r, err := b.Record(ctx, list[i].ID)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func projectNote(e Entry, run *evidence.Run, notes []*Record) string {
	said := map[string]string{}
	var solutions, issues []string
	for _, n := range notes {
		for name, v := range n.Fields {
			switch name {
			case "solution":
				solutions = append(solutions, v)
			case "issue":
				issues = append(issues, v)
			default:
				said[name] = v // the last word counts
			}
		}
		if n.Title != "" {
			solutions = append(solutions, n.Title)
		}
	}
	declared := func(name, otherwise string) string {
		if v := said[name]; v != "" {
			return md(v) + " (declared)"
		}
		return otherwise
	}
	architecture := "unknown"
	most := 0
	for _, s := range run.Shapes {
		if s.Steps > most {
			most, architecture = s.Steps, md(s.Model)+" (class of the model that was called)"
		}
	}
	result := "✅ Worked"
	if e.Kind == KindRehearsal {
		result = "✅ Worked in a rehearsal (on the double, no Mac was seen)"
	}
	switch o := run.Outcome; {
	case o.Exit < 0: // assay was killed
		result = "unknown: nobody saw how it ended: " + md(o.Reason)
	case o.Exit != 0 || !o.Started:
		result = strings.Replace(result, "✅ Worked", "❌ Failed", 1) + fmt.Sprintf(": exit status %d", o.Exit)
		if o.Signal != "" {
			result += ", " + md(o.Signal)
		}
	case !o.Complete:
		result += "; the evidence is not complete: " + md(o.Reason)
	}
	if run.Outcome.Error != "" {
		issues = append(issues, run.Outcome.Error)
	}
	for _, f := range run.Findings {
		if f.Severity != evidence.Note {
			issues = append(issues, f.Text)
		}
	}
	for _, f := range run.Fallbacks {
		issues = append(issues, f.Operator+" ran on the CPU: the device has no kernel for it")
	}
	const mostIssues = 8
	if n := len(issues); n > mostIssues {
		issues = append(issues[:mostIssues], fmt.Sprintf("%d more", n-mostIssues))
	}
	batch, resolution := Work(run)
	var b strings.Builder
	project := md(e.Title)
	if said["project"] != "" {
		project = md(said["project"])
	}
	fmt.Fprintf(&b, "### %s - %s\n\n", e.At.Format(time.DateOnly), project)
	fmt.Fprintf(&b, "Task: %s  \n", declared("task", "unknown"))
	fmt.Fprintf(&b, "Architecture: %s  \n", declared("architecture", architecture))
	fmt.Fprintf(&b, "Result: %s  \n", result)
	fmt.Fprintf(&b, "Performance: %s, batch_size=%s  \n", performance(run), known(batch > 0, fmt.Sprint(batch)))
	fmt.Fprintf(&b, "Issues: %s  \n", list(issues))
	fmt.Fprintf(&b, "Solution: %s  \n", list(solutions))
	peak := Peak(run)
	peakText := "unknown"
	if peak.Known() {
		peakText = md(fmt.Sprintf("%s (%s, %s)", unit.Format(*peak.Value, peak.Unit), peak.Name, peak.Basis))
	}
	release := run.Target.Release
	if d := run.Target.Double; d != nil {
		release = d.Release + " as the double stood for it"
	}
	fallback := run.Provenance.Environment["PYTORCH_ENABLE_MPS_FALLBACK"]
	commit := clean.Short(strings.ReplaceAll(short(run.Provenance.Commit), "`", ""), 12)
	fmt.Fprintf(&b,
		"Record: `%s`; %s %s; commit %s (%s); input %s; peak memory %s; PYTORCH\\_ENABLE\\_MPS\\_FALLBACK %s\n",
		short(e.ID),
		md(cmp.Or(run.Target.Framework, "framework")), md(cmp.Or(release, "unknown")),
		known(commit != "", "`"+commit+"`"),
		md(cmp.Or(run.Provenance.Dirty, "unknown")), known(resolution != "", md(resolution)), peakText,
		known(fallback != "", md(fallback), "not set"))
	return b.String()
}

func performance(run *evidence.Run) string {
	with := func(f evidence.Figure, per string, scale float64) string {
		basis := string(f.Basis)
		if f.Disturbed != "" {
			basis += ", disturbed"
		}
		return fmt.Sprintf("%.3g %s (%s)", *f.Value*scale, per, md(basis))
	}
	if f := run.Figure("epoch.time"); f.Known() {
		return with(f, "min/epoch", 1.0/60)
	}
	if f := run.Figure("epoch.estimate"); f.Known() {
		return with(f, "min/epoch estimated", 1.0/60)
	}
	if f := run.Figure("step.time"); f.Known() {
		return with(f, "s/step", 1)
	}
	return "unknown"
}

func known(is bool, value string, otherwise ...string) string {
	switch {
	case is:
		return value
	case len(otherwise) > 0:
		return otherwise[0]
	}
	return "unknown"
}

func list(items []string) string {
	if len(items) == 0 {
		return "none noted"
	}
	for i := range items {
		items[i] = md(items[i])
	}
	return strings.Join(items, "; ")
}

// md makes one line of a stranger's text, with nothing in it that Markdown takes for its own.
func md(s string) string { return clean.Markdown(s, 500) }
