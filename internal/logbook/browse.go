package logbook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"assay/internal/evidence"
)

// What the pages of the logbook ask. They ask the views alone, so that they stand whatever the tables are made of.

// Browse chooses records page by page. Zero fields choose all.
type Browse struct {
	Kind   string // "": runs and rehearsals
	Text   string // part of the title or of the name
	Device string
	Failed bool
	Since  time.Time
	Before string // Next of the page before
	Limit  int    // records of a page
}

// Row is a record in a list.
type Row struct {
	ID, Kind, Title, Name, Device, Framework, Release, Chip, PeakBasis, Signal string
	At                                                                         time.Time
	Batch                                                                      int
	Peak                                                                       *float64 // bytes
	Exit                                                                       *int
	Complete                                                                   bool
	Step                                                                       evidence.Figure // step.time of a run
}

// Page is a page of records, the newest first. Next is what the one behind it begins before; "" where there is none.
type Page struct {
	Rows []Row
	Next string
}

// Browse gives a page of records. Its cost does not grow with the pages before it.
func (b *Book) Browse(ctx context.Context, q Browse) (Page, error) {
	where, args := []string{"1"}, []any{}
	add := func(clause string, values ...any) {
		where, args = append(where, clause), append(args, values...)
	}
	if at, id, ok := strings.Cut(q.Before, " "); ok {
		add("(s.at, s.id) < (?, ?)", at, id)
	}
	if !q.Since.IsZero() {
		add("s.at >= ?", stamp(q.Since))
	}
	if q.Text != "" {
		add("(instr(lower(s.title), lower(?)) > 0 OR instr(lower(coalesce(s.name, '')), lower(?)) > 0)", q.Text, q.Text)
	}
	from := "records s JOIN runs r ON r.id = s.id"
	switch {
	case q.Kind == "":
		add("s.kind IN ('run', 'rehearsal')")
	default:
		add("s.kind = ?", q.Kind)
		if q.Kind != KindRun && q.Kind != KindRehearsal {
			from = "records s LEFT JOIN runs r ON r.id = s.id"
		}
	}
	if q.Device != "" {
		add("r.device = ?", q.Device)
	}
	if q.Failed {
		add("r.exit <> 0")
	}
	rows, err := b.db.QueryContext(ctx, `SELECT s.id, s.kind, s.at, coalesce(s.title, ''), coalesce(s.name, ''),
		coalesce(r.device, ''), coalesce(r.framework, ''), coalesce(r.torch, ''), coalesce(r.chip, ''),
		coalesce(r.peak_basis, ''), coalesce(r.signal, ''), coalesce(r.batch, 0), r.peak_memory, r.exit,
		coalesce(r.complete, 0)
		FROM `+from+` WHERE `+strings.Join(where, " AND ")+` ORDER BY s.at DESC, s.id DESC LIMIT ?`,
		append(args, q.Limit+1)...)
	if err != nil {
		return Page{}, fmt.Errorf("read the logbook: %w", err)
	}
	defer rows.Close()
	var page Page
	var stamps []string
	for rows.Next() {
		var r Row
		var at string
		if err := rows.Scan(&r.ID, &r.Kind, &at, &r.Title, &r.Name, &r.Device, &r.Framework, &r.Release, &r.Chip,
			&r.PeakBasis, &r.Signal, &r.Batch, &r.Peak, &r.Exit, &r.Complete); err != nil {
			return Page{}, fmt.Errorf("read the logbook: %w", err)
		}
		if r.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return Page{}, fmt.Errorf("read the logbook: record %s: %w", short(r.ID), err)
		}
		page.Rows, stamps = append(page.Rows, r), append(stamps, at)
	}
	if err := rows.Err(); err != nil {
		return Page{}, fmt.Errorf("read the logbook: %w", err)
	}
	if len(page.Rows) > q.Limit {
		page.Rows = page.Rows[:q.Limit]
		page.Next = stamps[q.Limit-1] + " " + page.Rows[q.Limit-1].ID
	}
	for i := range page.Rows {
		if page.Rows[i].Step, err = b.figure(ctx, page.Rows[i].ID, "step.time"); err != nil {
			return Page{}, err
		}
	}
	return page, nil
}

// figure is a figure of a record; the zero one where it has none of that name.
func (b *Book) figure(ctx context.Context, id, name string) (evidence.Figure, error) {
	f := evidence.Figure{Name: name}
	var note string
	err := b.db.QueryRowContext(ctx, `SELECT value, unit, low, high, coalesce(n, 0), coalesce(basis, ''),
		coalesce(missing, ''), coalesce(note, '') FROM figures WHERE id = ? AND name = ? LIMIT 1`, id, name).Scan(&f.Value,
		&f.Unit, &f.Low, &f.High, &f.N, &f.Basis, &f.Missing, &note)
	if errors.Is(err, sql.ErrNoRows) {
		return f, nil
	}
	if why, ok := strings.CutPrefix(note, "disturbed: "); ok { // noteOf
		f.Disturbed, _, _ = strings.Cut(why, "; ")
	}
	return f, err
}

// Tally counts records.
type Tally struct {
	Kind, Device, Outcome string // Outcome: finished, failed, incomplete; "" of what is no run
	N                     int
}

// Tallies count the records by kind, and runs by device and by how they ended.
func (b *Book) Tallies(ctx context.Context) ([]Tally, error) {
	var all []Tally
	err := each(ctx, b.db, `SELECT kind, device, outcome, count(*) FROM (
		SELECT kind, coalesce(device, '') AS device, CASE WHEN exit <> 0 THEN 'failed' WHEN complete THEN 'finished'
		ELSE 'incomplete' END AS outcome FROM runs) GROUP BY 1, 2, 3
		UNION ALL SELECT kind, '', '', count(*) FROM records WHERE kind NOT IN ('run', 'rehearsal') GROUP BY 1`,
		func(scan func(...any) error) error {
			var t Tally
			err := scan(&t.Kind, &t.Device, &t.Outcome, &t.N)
			all = append(all, t)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read the logbook: %w", err)
	}
	return all, nil
}

// Subject is something that was run, more than once perhaps: what was measured on one device, or rehearsed, is not
// comparable with what was on another.
type Subject struct {
	Title, Kind, Device string
	Runs                int
}

// Subjects are what was run, that of the newest run first.
func (b *Book) Subjects(ctx context.Context, limit int) ([]Subject, error) {
	var all []Subject
	err := each(ctx, b.db, `SELECT s.title, s.kind, coalesce(r.device, ''), count(*) FROM records s
		JOIN runs r ON r.id = s.id WHERE s.title IS NOT NULL GROUP BY 1, 2, 3 ORDER BY max(s.at) DESC LIMIT ?`,
		func(scan func(...any) error) error {
			var s Subject
			err := scan(&s.Title, &s.Kind, &s.Device, &s.Runs)
			all = append(all, s)
			return err
		}, limit)
	if err != nil {
		return nil, fmt.Errorf("read the logbook: %w", err)
	}
	return all, nil
}

// RowOf is a run as a list shows it, without the figure of its steps.
func RowOf(id string, run *evidence.Run) Row {
	kind := KindRun
	if run.Rehearsal != nil {
		kind = KindRehearsal
	}
	r := Row{ID: id, Kind: kind, Title: evidence.Title(run), Name: run.ID, At: run.Started,
		Device: evidence.Device(run), Framework: run.Target.Framework, Release: run.Target.Release,
		Complete: run.Outcome.Complete, Step: run.Figure("step.time")}
	exit := run.Outcome.Exit
	r.Exit = &exit
	r.Signal = run.Outcome.Signal
	if peak := Peak(run); peak.Known() {
		r.Peak, r.PeakBasis = peak.Value, string(peak.Basis)
	}
	r.Batch, _ = Work(run)
	return r
}

// Of gives the newest runs of a subject, the newest first.
func (b *Book) Of(ctx context.Context, s Subject, limit int) ([]Row, error) {
	var all []Row
	err := each(ctx, b.db, `SELECT s.id, s.kind, s.at, coalesce(s.name, ''), coalesce(r.device, ''), r.exit,
		coalesce(r.signal, ''), coalesce(r.complete, 0) FROM records s JOIN runs r ON r.id = s.id WHERE s.title = ?1
		AND s.kind = ?2 AND r.device IS ?3 ORDER BY s.at DESC, s.id DESC LIMIT ?4`, func(scan func(...any) error) error {
		r := Row{Title: s.Title}
		var at string
		if err := scan(&r.ID, &r.Kind, &at, &r.Name, &r.Device, &r.Exit, &r.Signal, &r.Complete); err != nil {
			return err
		}
		var err error
		r.At, err = time.Parse(time.RFC3339Nano, at)
		all = append(all, r)
		return err
	}, s.Title, s.Kind, text(s.Device), limit)
	if err != nil {
		return nil, fmt.Errorf("read the logbook: %w", err)
	}
	return all, nil
}

// Values gives a figure of records; NaN where it is not known.
func (b *Book) Values(ctx context.Context, rows []Row, name string) (values []float64, unit string, err error) {
	for _, r := range rows {
		f, err := b.figure(ctx, r.ID, name)
		if err != nil {
			return nil, "", fmt.Errorf("read the logbook: %w", err)
		}
		v := math.NaN()
		if f.Known() {
			v, unit = *f.Value, f.Unit
		}
		values = append(values, v)
	}
	return values, unit, nil
}
