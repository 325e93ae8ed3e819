package serve

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"assay/internal/catalogue"
	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/gate"
	"assay/internal/logbook"
	"assay/internal/report"
	clean "assay/internal/text"
	"assay/internal/unit"
)

// Bounds of what one page shows.
const (
	perPage    = 50
	mostOver   = 30  // runs of a page over time
	mostWord   = 200 // characters of a search
	mostShown  = 200 // notes about one record, figures of one
	mostTitles = 100 // subjects to choose from
	perBatch   = 100 // records that an export reads at once
)

// row is a record in a list.
type row struct {
	ID, Short, Kind, Title, Name, At, When, Device, Release, Batch, Step, StepBasis, Peak, PeakBasis, State, Chip,
	Disturbed string
}

func rowOf(r logbook.Row) row {
	out := row{ID: r.ID, Short: r.ID[:min(len(r.ID), 10)], Kind: r.Kind, Title: clean.Short(r.Title, 120),
		Name: clean.Short(r.Name, 80), At: r.At.UTC().Format(time.RFC3339), When: r.At.UTC().Format("2006-01-02 15:04"),
		Device: clean.Short(r.Device, 40), Release: clean.Short(strings.TrimSpace(r.Framework+" "+r.Release), 40)}
	if r.Title == "" {
		out.Title = orElse(out.Name, "without a title")
	}
	if r.Batch > 0 {
		out.Batch = fmt.Sprint(r.Batch)
	}
	if r.Step.Known() {
		out.Step, out.StepBasis = unit.Seconds(*r.Step.Value), string(r.Step.Basis)
		out.Disturbed = clean.Short(r.Step.Disturbed, 200)
	}
	if r.Peak != nil {
		out.Peak, out.PeakBasis = unit.Bytes(*r.Peak), clean.Short(r.PeakBasis, 20)
	}
	switch {
	case r.Kind != logbook.KindRun && r.Kind != logbook.KindRehearsal:
	case r.Signal != "":
		out.State, out.Chip = clean.Short(r.Signal, 20), "bad"
	case r.Exit != nil && *r.Exit != 0:
		out.State, out.Chip = fmt.Sprintf("status %d", *r.Exit), "bad"
	case !r.Complete:
		out.State, out.Chip = "incomplete", "open"
	default:
		out.State, out.Chip = "finished", "good"
	}
	return out
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

type runsPage struct {
	*frame
	Rows                      []row
	Next                      string
	Text, Kind, Device, Since string
	Failed, Asked, Empty      bool
	Cut                       string // of files: that there are more
}

// runs lists them, the newest first.
func (s *Site) runs(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p := &runsPage{frame: &frame{Title: "Runs", Here: "runs"}, Text: cut(q.Get("text")), Kind: cut(q.Get("kind")),
		Device: cut(q.Get("device")), Since: cut(q.Get("since")), Failed: q.Get("failed") != ""}
	p.Asked = p.Text != "" || p.Kind != "" || p.Device != "" || p.Since != "" || p.Failed
	ask := logbook.Browse{Kind: p.Kind, Text: p.Text, Device: p.Device, Failed: p.Failed, Before: q.Get("before"),
		Limit: perPage}
	if p.Kind != "" && p.Kind != logbook.KindRun && p.Kind != logbook.KindRehearsal {
		return errNoPage
	}
	if p.Since != "" {
		at, err := time.Parse(time.DateOnly, p.Since)
		if err != nil {
			return &status{http.StatusBadRequest, "A day is written as 2026-11-23."}
		}
		ask.Since = at
	}
	if _, id, ok := strings.Cut(ask.Before, " "); ask.Before != "" && (!ok || !fullID.MatchString(id)) {
		return errNoPage
	}
	err := s.read(r.Context(), func(book *logbook.Book) error {
		list, err := s.browse(r.Context(), book, ask)
		for _, x := range list.Rows {
			p.Rows = append(p.Rows, rowOf(x))
		}
		switch {
		case list.Next != "" && s.files:
			p.Cut = fmt.Sprintf("The newest %d alone are here.", MostExported)
		case list.Next != "":
			q.Set("before", list.Next)
			p.Next = "?" + q.Encode()
		}
		return err
	})
	if err != nil {
		return err
	}
	p.Empty = len(p.Rows) == 0
	s.write(w, r, http.StatusOK, "runs", p)
	return nil
}

// browse gives a page; of files everything that is in them, of which Next says that there is more.
func (s *Site) browse(ctx context.Context, book *logbook.Book, ask logbook.Browse) (logbook.Page, error) {
	if !s.files {
		return book.Browse(ctx, ask)
	}
	ask.Limit = perBatch
	var all logbook.Page
	for {
		page, err := book.Browse(ctx, ask)
		if err != nil {
			return all, err
		}
		for _, x := range page.Rows {
			if s.leaves(x.ID) {
				continue
			}
			if len(all.Rows) == MostExported {
				all.Next = "more"
				return all, nil
			}
			all.Rows = append(all.Rows, x)
		}
		if ask.Before = page.Next; ask.Before == "" {
			return all, nil
		}
	}
}

func cut(s string) string { return clean.Short(strings.TrimSpace(s), mostWord) }

type tile struct{ Name, Doc, Value, Basis, Detail string }

type finding struct{ Severity, Text, Where, Hint, Basis string }

type note struct {
	ID, Kind, When, Text, Because string
	Fields                        []pair
	About                         []pair
}

type pair struct{ Name, Value, Source string }

type recordPage struct {
	*frame
	Row        row
	ID         string
	Tiles      []tile
	Findings   []finding
	Conditions []pair
	Notes      []note
	Gates      []gateCell
	Policy     string
	Command    string
	Before     *row // an earlier run of the same, to hold it beside
	Over       template.HTML
	IsRun      bool
	Figures    []tile
	Sweep      string
	Alone      *note
}

// record shows one: of a run what matters, and what else the logbook has about it.
func (s *Site) record(w http.ResponseWriter, r *http.Request) error {
	return s.read(r.Context(), func(book *logbook.Book) error {
		id, err := s.resolve(r, book, r.PathValue("id"))
		if err != nil {
			return err
		}
		if id != r.PathValue("id") && !s.files {
			http.Redirect(w, r, "/record/"+id, http.StatusSeeOther)
			return nil
		}
		p, err := s.recordOf(r.Context(), book, id)
		if err != nil {
			return err
		}
		s.write(w, r, http.StatusOK, "record", p)
		return nil
	})
}

func (s *Site) resolve(r *http.Request, book *logbook.Book, word string) (string, error) {
	if len(word) > mostWord {
		return "", errNoPage
	}
	return book.Resolve(r.Context(), word)
}

// chosen are the figures of a run's page, those of most use first.
var chosen = []string{"step.time", "epoch.time", "epoch.estimate", "memory.live.peak", "memory.pool.peak",
	"memory.footprint.peak", "memory.resident.peak", "loss.last"}

func (s *Site) recordOf(ctx context.Context, book *logbook.Book, id string) (*recordPage, error) {
	p := &recordPage{frame: &frame{Root: "../"}, ID: id}
	run, err := book.Run(ctx, id)
	if err != nil {
		return p, s.otherRecord(ctx, book, id, p)
	}
	p.IsRun, p.Here = true, "runs"
	p.Row = rowOf(logbook.RowOf(id, run))
	p.Title = p.Row.Title
	p.Command = clean.Short(strings.Join(run.Subject.Command, " "), 2000)
	for _, name := range chosen {
		if f := run.Figure(name); f.Known() {
			p.Tiles = append(p.Tiles, tileOf(f))
		}
	}
	for _, f := range run.Findings {
		p.Findings = append(p.Findings, finding{string(f.Severity), clean.Lines(f.Text), clean.Line(f.Where),
			clean.Lines(f.Hint), string(f.Basis)})
	}
	slices.SortStableFunc(p.Findings, func(a, b finding) int { return severity(a.Severity) - severity(b.Severity) })
	extra, err := book.About(ctx, id, logbook.KindFacts)
	if err != nil {
		return nil, err
	}
	for _, f := range logbook.Conditions(run, extra) {
		value := clean.Short(f.Value, 300)
		if value == "" {
			value = "unknown: " + clean.Short(f.Missing, 300)
		}
		p.Conditions = append(p.Conditions, pair{clean.Short(f.Name, 80), value, clean.Short(f.Source, 120)})
	}
	for _, kind := range []string{logbook.KindNote, logbook.KindRejection} {
		about, err := book.About(ctx, id, kind)
		if err != nil {
			return nil, err
		}
		for _, n := range about[:min(len(about), mostShown)] {
			p.Notes = append(p.Notes, noteOf(n))
		}
	}
	if rep := s.judged(id, run); rep != nil {
		p.Policy = orElse(clean.Short(rep.Policy, 80), "without a name")
		for i := range rep.Gates {
			p.Gates = append(p.Gates, gateOf(&rep.Gates[i]))
		}
	}
	self := logbook.RowOf(id, run)
	of := logbook.Subject{Title: self.Title, Kind: self.Kind, Device: self.Device}
	like, err := book.Of(ctx, of, run.Started, mostOver)
	if err != nil {
		return nil, err
	}
	like = slices.DeleteFunc(like, func(x logbook.Row) bool { return s.leaves(x.ID) })
	slices.Reverse(like) // oldest first
	values, u, err := book.Values(ctx, like, "step.time")
	if err != nil {
		return nil, err
	}
	p.Over = report.Over{ID: "over-step", Title: "step.time",
		Note: "this run, on the right, and those of the same before it", Unit: u, Value: values}.Plot()
	if i := slices.IndexFunc(like, func(r logbook.Row) bool { return r.ID == id }); i > 0 {
		earlier := rowOf(like[i-1])
		p.Before = &earlier
	}
	return p, nil
}

func severity(s string) int {
	return slices.Index([]string{string(evidence.Error), string(evidence.Warning), string(evidence.Note)}, s)
}

func tileOf(f evidence.Figure) tile {
	t := tile{Name: f.Name, Doc: doc(f.Name), Value: unit.Format(*f.Value, f.Unit), Basis: string(f.Basis)}
	if f.Low != nil && f.High != nil {
		t.Detail = unit.Format(*f.Low, f.Unit) + " to " + unit.Format(*f.High, f.Unit)
	}
	if f.Disturbed != "" {
		t.Detail = strings.TrimPrefix(t.Detail+"; disturbed: "+clean.Short(f.Disturbed, 120), "; ")
	}
	return t
}

// doc says what a figure is.
func doc(name string) string {
	f, _ := catalogue.Find(name)
	return f.Doc
}

// otherRecord is a record that is no run: a note, a sweep, whatever else a command keeps.
func (s *Site) otherRecord(ctx context.Context, book *logbook.Book, id string, p *recordPage) error {
	doc, err := book.Document(ctx, id)
	if err != nil {
		return err
	}
	if p.Sweep = s.o.Sweep(doc); p.Sweep != "" {
		p.Here, p.Title, p.Row.Kind = "sweeps", "Sweep", "sweep"
		return nil
	}
	n, err := book.Record(ctx, id)
	if err != nil {
		return fault.Exit(errors.New("this record is no run, sweep or note: assay log show prints it"), fault.Usage)
	}
	one := noteOf(n)
	one.ID = id
	p.Here, p.Alone, p.Title = "notes", &one, n.Kind
	p.Row.Kind, p.Row.When = n.Kind, one.When
	for _, f := range n.Facts {
		p.Conditions = append(p.Conditions, pair{clean.Short(f.Name, 80), clean.Short(orElse(f.Value,
			"unknown: "+f.Missing), 300),
			clean.Short(f.Source, 120)})
	}
	for _, f := range n.Figures[:min(len(n.Figures), mostShown)] {
		if f.Known() {
			p.Figures = append(p.Figures, tileOf(f))
		}
	}
	return nil
}

func noteOf(r *logbook.Record) note {
	n := note{Kind: r.Kind, When: r.At.UTC().Format("2006-01-02 15:04"), Text: clean.Lines(clean.Short(r.Title, 4000))}
	if r.Kind == logbook.KindRejection {
		n.Because = clean.Short(r.Because(), 2000)
	}
	for _, f := range logbook.NoteFields {
		if v := r.Fields[f[0]]; v != "" {
			n.Fields = append(n.Fields, pair{Name: f[0], Value: clean.Short(v, 500)})
		}
	}
	for _, id := range r.About[:min(len(r.About), 20)] {
		n.About = append(n.About, pair{Name: id, Value: id[:10]})
	}
	return n
}

// report is the whole report of a run.
func (s *Site) report(w http.ResponseWriter, r *http.Request) error {
	return s.read(r.Context(), func(book *logbook.Book) error {
		id, err := s.resolve(r, book, r.PathValue("id"))
		if err != nil {
			return err
		}
		run, err := book.Run(r.Context(), id)
		if err != nil {
			return err
		}
		return s.sendReport(w, r, run, nil)
	})
}

// beside is the report of a run beside an earlier one.
func (s *Site) beside(w http.ResponseWriter, r *http.Request) error {
	return s.read(r.Context(), func(book *logbook.Book) error {
		runs := make([]*evidence.Run, 2)
		for i, word := range []string{r.PathValue("id"), r.PathValue("other")} {
			id, err := s.resolve(r, book, word)
			if err != nil {
				return err
			}
			if runs[i], err = book.Run(r.Context(), id); err != nil {
				return err
			}
		}
		return s.sendReport(w, r, runs[0], runs[1])
	})
}

func (s *Site) sendReport(w http.ResponseWriter, r *http.Request, run, other *evidence.Run) error {
	page, err := s.o.Page(run, other)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", ofReport())
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	return page.Write(w, run)
}

type listPage struct {
	*frame
	Rows []row
	Next string
}

func (s *Site) sweeps(w http.ResponseWriter, r *http.Request) error {
	return s.list(w, r, "sweep", &listPage{frame: &frame{Title: "Sweeps", Here: "sweeps"}})
}

func (s *Site) list(w http.ResponseWriter, r *http.Request, kind string, p *listPage) error {
	before := r.URL.Query().Get("before")
	err := s.read(r.Context(), func(book *logbook.Book) error {
		list, err := s.browse(r.Context(), book, logbook.Browse{Kind: kind, Before: before, Limit: perPage})
		for _, x := range list.Rows {
			p.Rows = append(p.Rows, rowOf(x))
		}
		if list.Next != "" && !s.files {
			p.Next = "?before=" + url.QueryEscape(list.Next)
		}
		return err
	})
	if err == nil {
		s.write(w, r, http.StatusOK, kind+"s", p)
	}
	return err
}

type notesPage struct {
	*frame
	Notes []note
	Cut   string // that there are more
}

// notes are what people wrote, and the hypotheses that were rejected.
func (s *Site) notes(w http.ResponseWriter, r *http.Request) error {
	p := &notesPage{frame: &frame{Title: "Notes", Here: "notes"}}
	err := s.read(r.Context(), func(book *logbook.Book) error {
		for _, kind := range []string{logbook.KindNote, logbook.KindRejection} {
			list, err := s.browse(r.Context(), book, logbook.Browse{Kind: kind, Limit: mostShown})
			if err != nil {
				return err
			}
			if list.Next != "" {
				p.Cut = fmt.Sprintf("The newest %d of each kind are here: assay log --kind %s lists all.", mostShown, kind)
			}
			for _, x := range list.Rows {
				rec, err := book.Record(r.Context(), x.ID)
				if err != nil {
					return err
				}
				n := noteOf(rec)
				n.ID = x.ID
				p.Notes = append(p.Notes, n)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(p.Notes, func(a, b note) int { return strings.Compare(b.When, a.When) })
	s.write(w, r, http.StatusOK, "notes", p)
	return nil
}

type searchPage struct {
	*frame
	Text, Answer, Why, Hint, What, Example, Where string
}

func (s *Site) atlas(w http.ResponseWriter, r *http.Request) error {
	return s.search(w, r, s.o.Ops, &searchPage{frame: &frame{Title: "Atlas", Here: "atlas"},
		What:    "operators, functions and facts",
		Example: "ctc_loss", Where: "assay ops"})
}

func (s *Site) models(w http.ResponseWriter, r *http.Request) error {
	return s.search(w, r, s.o.Models, &searchPage{frame: &frame{Title: "Models", Here: "models"}, What: "models",
		Example: "resnet", Where: "assay models"})
}

func (s *Site) search(w http.ResponseWriter, r *http.Request, find func(context.Context, string) (string, error),
	p *searchPage) error {
	p.Text = cut(r.URL.Query().Get("text"))
	if p.Text != "" || p.Here == "models" {
		answer, err := find(r.Context(), p.Text)
		if err != nil {
			p.Why, p.Hint = sentence(err.Error()), fault.HintOf(err)
		}
		p.Answer = answer
	}
	s.write(w, r, http.StatusOK, "search", p)
	return nil
}

type gateCell struct{ Name, Rule, Outcome, Chip, Says string }

func gateOf(g *gate.Result) gateCell {
	c := gateCell{Name: clean.Short(g.Name, 80), Rule: clean.Short(strings.Join(strings.Fields(g.Rule), " "), 300),
		Outcome: string(g.Outcome), Chip: gateChip(g.Outcome)}
	var says []string
	for _, a := range g.Answers {
		says = append(says, clean.Short(a.Text, 200))
	}
	c.Says = strings.Join(says, "; ")
	return c
}

func gateChip(o gate.Outcome) string {
	switch o {
	case gate.Pass:
		return "good"
	case gate.Fail:
		return "bad"
	case gate.Unknown:
		return "open"
	}
	return "off"
}

func (s *Site) judged(id string, run *evidence.Run) *gate.Report {
	if s.o.Gates == nil {
		return nil
	}
	return s.gates.of(id, func() *gate.Report { return s.o.Gates(run) })
}

type overPage struct {
	*frame
	Titles         []string
	Chosen, Policy string
	Runs           []row
	Gates          []overGate
	Plots          []template.HTML
	None           string
	Others         []otherPage
}

type overGate struct {
	Name, Rule string
	Cells      []gateCell
}

// overFigures are drawn over time.
var overFigures = []string{"step.time", "memory.pool.peak",
	"memory.resident.peak", "loss.last"}

// subjects are what was run; of files, what is in them.
func (s *Site) subjects(ctx context.Context, book *logbook.Book) ([]logbook.Subject, error) {
	all, err := s.titles.of(ctx, book, func(ctx context.Context) ([]logbook.Subject, error) {
		return book.Subjects(ctx, mostTitles)
	})
	if err != nil || s.only == nil {
		return all, err
	}
	var shown []logbook.Subject
	for _, x := range all {
		list, err := book.Of(ctx, x, time.Time{}, mostOver)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(r logbook.Row) bool { return !s.leaves(r.ID) }) {
			shown = append(shown, x)
		}
	}
	return shown, nil
}

func subjectWords(x logbook.Subject) string {
	words := clean.Short(x.Title, 120)
	if x.Kind == logbook.KindRehearsal {
		words += ", rehearsed"
	}
	if x.Device != "" {
		words += " on " + clean.Short(x.Device, 40)
	}
	return words
}

// overTime shows how the gates came out for the newest runs of a subject, and some figures over them.
func (s *Site) overTime(w http.ResponseWriter, r *http.Request) error {
	p := &overPage{frame: &frame{Title: "Gates over time", Here: "gates"}, Chosen: cut(r.URL.Query().Get("of")),
		Policy: clean.Short(s.o.Policy, 200)}
	err := s.read(r.Context(), func(book *logbook.Book) error {
		subjects, err := s.subjects(r.Context(), book)
		if err != nil {
			return err
		}
		var of *logbook.Subject
		for i, x := range subjects {
			shown := subjectWords(x)
			p.Titles = append(p.Titles, shown)
			p.Others = append(p.Others, otherPage{shown, gatesFile(i), shown == p.Chosen || p.Chosen == "" && i == 0})
			if of == nil && (shown == p.Chosen || p.Chosen == "") {
				of, p.Chosen = &subjects[i], shown
			}
		}
		if of == nil {
			p.None = "No run of that is in the logbook."
			return nil
		}
		return s.over(r.Context(), book, *of, p)
	})
	if err != nil {
		return err
	}
	s.write(w, r, http.StatusOK, "gates", p)
	return nil
}

func (s *Site) over(ctx context.Context, book *logbook.Book, of logbook.Subject, p *overPage) error {
	list, err := book.Of(ctx, of, time.Time{}, mostOver)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(x logbook.Row) bool { return s.leaves(x.ID) })
	slices.Reverse(list)
	for i, x := range list {
		p.Runs = append(p.Runs, rowOf(x))
		rep, known := s.gates.get(x.ID)
		if !known && s.o.Gates != nil {
			run, err := book.Run(ctx, x.ID)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil { // damaged: its own page says how, and the others are shown
				p.Runs[i].State, p.Runs[i].Chip = "cannot be read", "bad"
				continue
			}
			rep = s.judged(x.ID, run)
		}
		if rep == nil {
			continue
		}
		for j := range rep.Gates {
			c := gateOf(&rep.Gates[j])
			at := slices.IndexFunc(p.Gates, func(g overGate) bool { return g.Name == c.Name })
			if at < 0 {
				at = len(p.Gates)
				p.Gates = append(p.Gates, overGate{c.Name, c.Rule, make([]gateCell, len(list))})
			}
			p.Gates[at].Cells[i] = c
		}
	}
	for _, name := range overFigures {
		values, u, err := book.Values(ctx, list, name)
		if err != nil {
			return err
		}
		plot := report.Over{ID: "over-" + strings.ReplaceAll(name, ".", "-"), Title: name,
			Note: "runs in the order of the table", Unit: u, Value: values}.Plot()
		if plot != "" {
			p.Plots = append(p.Plots, plot)
		}
	}
	return nil
}

// otherPage is the page of another subject.
type otherPage struct {
	Text, Link string
	Here       bool
}
