package logbook

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"assay/internal/evidence"
)

// What the pages of the logbook ask: each by an index, so that a logbook of 100,000 records answers as one of a
// hundred.

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

// Bounds of a search by a part of a title.
const (
	mostTitles  = 5000 // titles are looked through
	mostMatches = 200  // of them are taken
	lookedAt    = 30   // newest runs of a title, for the devices that it ran on
)

// Browse gives a page of records. Its cost does not grow with the pages before it.
func (b *Book) Browse(ctx context.Context, q Browse) (Page, error) {
	where, args := []string{}, []any{}
	add := func(clause string, values ...any) {
		where, args = append(where, clause), append(args, values...)
	}
	if at, id, ok := strings.Cut(q.Before, " "); ok {
		add("(at, id) < (?, ?)", at, id)
	}
	if !q.Since.IsZero() {
		add("at >= ?", stamp(q.Since))
	}
	if q.Kind == "" {
		add("+kind IN ('run', 'rehearsal')") // the sign: by time, not by kind
	} else {
		add("kind = ?", q.Kind)
	}
	if q.Device != "" {
		add("device = ?", q.Device)
	}
	if q.Failed {
		add("exit <> 0")
	}
	rest := " AND " + strings.Join(where, " AND ") + " ORDER BY at DESC, id DESC LIMIT ?"
	args = append(args, q.Limit+1)
	var rows []Row
	var err error
	if q.Text == "" {
		rows, err = b.rows(ctx, "true"+rest, args)
	} else {
		rows, err = b.named(ctx, q, rest, args)
	}
	if err != nil {
		return Page{}, fmt.Errorf("read the logbook: %w", err)
	}
	page := Page{Rows: rows}
	if len(rows) > q.Limit {
		page.Rows = rows[:q.Limit]
		last := rows[q.Limit-1]
		page.Next = stamp(last.At) + " " + last.ID
	}
	for i := range page.Rows {
		if page.Rows[i].Step, err = b.figure(ctx, page.Rows[i].ID, "step.time"); err != nil {
			return Page{}, fmt.Errorf("read the logbook: %w", err)
		}
	}
	return page, nil
}

// named gives the records with a part of their title, or a name of just that: title by title, of which there are few.
func (b *Book) named(ctx context.Context, q Browse, rest string, args []any) ([]Row, error) {
	titles, err := b.titles(ctx)
	if err != nil {
		return nil, err
	}
	all, err := b.rows(ctx, "name = ?"+rest, append([]any{q.Text}, args...))
	if err != nil {
		return nil, err
	}
	n := 0
	for _, title := range titles {
		if !strings.Contains(strings.ToLower(title), strings.ToLower(q.Text)) {
			continue
		}
		if n++; n > mostMatches {
			break
		}
		of, err := b.rows(ctx, "title = ?"+strings.Replace(rest, "device", "+device", 1), append([]any{title}, args...))
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	slices.SortFunc(all, func(x, y Row) int {
		return cmp.Or(strings.Compare(stamp(y.At), stamp(x.At)), strings.Compare(y.ID, x.ID))
	})
	all = slices.CompactFunc(all, func(x, y Row) bool { return x.ID == y.ID })
	return all[:min(len(all), q.Limit+1)], nil
}

// titles are those that there are, without reading each record of one.
func (b *Book) titles(ctx context.Context) ([]string, error) {
	var all []string
	err := each(ctx, b.db, `WITH RECURSIVE t(title) AS (SELECT min(title) FROM record UNION ALL
		SELECT (SELECT min(title) FROM record WHERE title > t.title) FROM t WHERE t.title IS NOT NULL)
		SELECT title FROM t WHERE title IS NOT NULL LIMIT ?`, func(scan func(...any) error) error {
		var title string
		err := scan(&title)
		all = append(all, title)
		return err
	}, mostTitles)
	return all, err
}

// rows reads records, without the figures of their steps.
func (b *Book) rows(ctx context.Context, where string, args []any) ([]Row, error) {
	var all []Row
	err := each(ctx, b.db, `SELECT id, kind, at, coalesce(title, ''), coalesce(name, ''), coalesce(device, ''),
		coalesce(framework, ''), coalesce(torch, ''), coalesce(chip, ''), coalesce(peak_basis, ''), coalesce(signal, ''),
		coalesce(batch, 0), peak_memory, exit, coalesce(complete, 0) FROM record WHERE `+where,
		func(scan func(...any) error) error {
			var r Row
			var at string
			if err := scan(&r.ID, &r.Kind, &at, &r.Title, &r.Name, &r.Device, &r.Framework, &r.Release, &r.Chip,
				&r.PeakBasis, &r.Signal, &r.Batch, &r.Peak, &r.Exit, &r.Complete); err != nil {
				return err
			}
			var err error
			if r.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
				return fmt.Errorf("record %s: %w", short(r.ID), err)
			}
			all = append(all, r)
			return nil
		}, args...)
	return all, err
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

// Stand tells one state of the logbook from another: it is another text once a record has come or was forgotten. It
// costs little, whatever the logbook holds.
func (b *Book) Stand(ctx context.Context) (string, error) {
	var n int
	var last []byte
	err := b.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM record),
		(SELECT hash FROM ledger ORDER BY entry DESC LIMIT 1)`).Scan(&n, &last)
	if err != nil {
		return "", fmt.Errorf("read the logbook: %w", err)
	}
	return fmt.Sprintf("%d %x", n, last), nil
}

// Tallies count the records by kind, and runs by device and by how they ended.
func (b *Book) Tallies(ctx context.Context) ([]Tally, error) {
	var all []Tally
	err := each(ctx, b.db, `SELECT kind, coalesce(device, ''), CASE WHEN kind NOT IN ('run', 'rehearsal') THEN ''
		WHEN exit <> 0 THEN 'failed' WHEN complete THEN 'finished' ELSE 'incomplete' END AS outcome, sum(n)
		FROM (SELECT kind, device, exit, complete, count(*) AS n FROM record GROUP BY kind, device, exit, complete)
		GROUP BY 1, 2, 3`,
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
type Subject struct{ Title, Kind, Device string }

// Subjects are what was run, that of the newest run first. Of a title the newest runs tell on which devices.
func (b *Book) Subjects(ctx context.Context, limit int) ([]Subject, error) {
	titles, err := b.titles(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the logbook: %w", err)
	}
	type dated struct {
		Subject
		at string
	}
	var all []dated
	for _, title := range titles {
		seen := map[Subject]bool{}
		err := each(ctx, b.db, `SELECT kind, coalesce(device, ''), at FROM record WHERE title = ?
			AND +kind IN ('run', 'rehearsal') ORDER BY at DESC LIMIT ?`, func(scan func(...any) error) error {
			s, at := Subject{Title: title}, ""
			err := scan(&s.Kind, &s.Device, &at)
			if !seen[s] {
				seen[s] = true
				all = append(all, dated{s, at})
			}
			return err
		}, title, lookedAt)
		if err != nil {
			return nil, fmt.Errorf("read the logbook: %w", err)
		}
	}
	slices.SortStableFunc(all, func(x, y dated) int { return strings.Compare(y.at, x.at) })
	var subjects []Subject
	for _, s := range all[:min(len(all), limit)] {
		subjects = append(subjects, s.Subject)
	}
	return subjects, nil
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

// Of gives the newest runs of a subject that began no later than until, the newest first; the zero time: all of them.
func (b *Book) Of(ctx context.Context, s Subject, until time.Time, limit int) ([]Row, error) {
	where, args := "title = ? AND +kind = ? AND +device IS ?", []any{s.Title, s.Kind, text(s.Device)}
	if !until.IsZero() {
		where, args = where+" AND at <= ?", append(args, stamp(until))
	}
	all, err := b.rows(ctx, where+" ORDER BY at DESC, id DESC LIMIT ?", append(args, limit))
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
