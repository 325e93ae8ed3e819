package logbook

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"modernc.org/sqlite"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/secret"
	clean "assay/internal/text"
)

// Entry is a record as a list shows it.
type Entry struct {
	ID, Kind, Title, Name, Device, Torch, Chip, Resolution, PeakFigure, Signal, Error string
	At                                                                                time.Time
	Batch                                                                             int
	Peak                                                                              *float64
	PeakBasis                                                                         evidence.Basis
	Exit                                                                              *int
	Complete                                                                          bool
	Step                                                                              evidence.Figure // step.time
	About                                                                             []string
}

// Filter chooses records. Zero fields choose all.
type Filter struct {
	Kind   string
	Script string // part of the title
	Device string
	Failed bool // runs that did not end with 0
	Since  time.Time
	About  string // records about this one
	Limit  int    // the newest so many
	All    bool   // also what other records carry with them: kind facts
	Runs   bool   // only runs and rehearsals
}

// List gives records, the newest first.
func (b *Book) List(ctx context.Context, f Filter) ([]Entry, error) {
	if f.Limit <= 0 {
		f.Limit = 1 << 30
	}
	var where []string // only what was asked for, so that an index of it is seen
	var args []any
	and := func(is bool, condition string, arg ...any) {
		if is {
			where, args = append(where, condition), append(args, arg...)
		}
	}
	and(f.Kind != "", "r.kind = ?", f.Kind)
	and(f.Kind == "" && !f.All && !f.Runs, "r.kind <> 'facts'")
	and(f.Runs, "r.kind IN ('run', 'rehearsal')")
	and(f.Script != "", `r.title IN (WITH RECURSIVE t(title) AS (SELECT min(title) FROM record UNION ALL
		SELECT (SELECT min(title) FROM record WHERE title > t.title) FROM t WHERE t.title IS NOT NULL)
		SELECT title FROM t WHERE instr(lower(title), lower(?)) > 0)`, f.Script) // there are few titles
	and(f.Device != "", "r.device = ?", f.Device)
	and(f.Failed, "r.exit <> 0")
	and(!f.Since.IsZero(), "r.at >= ?", stamp(f.Since))
	and(f.About != "", "r.record IN (SELECT l.record FROM link l WHERE l.about = ?)", f.About)
	and(true, "true")
	rows, err := b.db.QueryContext(ctx, `SELECT r.id, r.kind, r.at, coalesce(r.title, ''), coalesce(r.name, ''), coalesce(r.device, ''),
		coalesce(r.torch, ''),
		coalesce(r.chip, ''), coalesce(r.resolution, ''), coalesce(r.peak_figure, ''), coalesce(r.signal, ''), coalesce(r.error, ''), coalesce(r.batch, 0),
		r.peak_memory, coalesce(r.peak_basis, ''), r.exit, coalesce(r.complete, 0),
		f.value, f.low, f.high, coalesce(f.n, 0), coalesce(o.basis, ''), coalesce(o.missing, ''),
		coalesce((SELECT group_concat(about, ' ') FROM link l WHERE l.record = r.record), '')
		FROM (SELECT * FROM record r WHERE `+strings.Join(where, " AND ")+` ORDER BY r.at DESC, r.id LIMIT ?) r
		LEFT JOIN figure f ON f.record = r.record AND f.form IN (SELECT form FROM figure_form WHERE name = 'step.time')
		LEFT JOIN figure_form o ON o.form = f.form
		ORDER BY r.at DESC, r.id, f.seq`, append(args, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("read the logbook: %w", err)
	}
	defer rows.Close()
	var all []Entry
	for rows.Next() {
		var e Entry
		var at, about, missing string
		var value *float64
		step := &e.Step
		if err := rows.Scan(&e.ID, &e.Kind, &at, &e.Title, &e.Name, &e.Device, &e.Torch, &e.Chip, &e.Resolution,
			&e.PeakFigure, &e.Signal, &e.Error,
			&e.Batch,
			&e.Peak, &e.PeakBasis, &e.Exit, &e.Complete, &value, &step.Low, &step.High, &step.N, &step.Basis, &missing,
			&about); err != nil {
			return nil, fmt.Errorf("read the logbook: %w", err)
		}
		if len(all) > 0 && all[len(all)-1].ID == e.ID {
			continue // another figure of that name
		}
		step.Name, step.Unit, step.Value, step.Missing = "step.time", "s", value, missing
		if e.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return nil, fmt.Errorf("read the logbook: record %s: %w", short(e.ID), err)
		}
		e.About = strings.Fields(about)
		all = append(all, e)
	}
	return all, rows.Err()
}

// Resolve finds the one record that a word names: the beginning of its identifier, four characters at least, or the
// name of a run's folder.
func (b *Book) Resolve(ctx context.Context, word string) (string, error) {
	prefix := strings.ToLower(word)
	isHex := len(prefix) >= 4 && strings.Trim(prefix, "0123456789abcdef") == ""
	rows, err := b.db.QueryContext(ctx, `SELECT id, kind, at, coalesce(title, '') FROM record WHERE ?1 AND id >= ?2 AND id < ?2 || 'g' OR name = ?3
		ORDER BY at DESC LIMIT 21`,
		truth(isHex), prefix, word)
	if err != nil {
		return "", fmt.Errorf("look for record %s: %w", word, err)
	}
	defer rows.Close()
	var ids, lines []string
	for rows.Next() {
		var id, kind, at, title string
		if err := rows.Scan(&id, &kind, &at, &title); err != nil {
			return "", fmt.Errorf("look for record %s: %w", word, err)
		}
		ids = append(ids, id)
		lines = append(lines, fmt.Sprintf("%s  %s  %s  %s", id[:16], at[:min(16, len(at))], kind,
			clean.Short(title, 50)))
	}
	switch {
	case rows.Err() != nil:
		return "", rows.Err()
	case len(ids) == 0 && len(word) < 4:
		return "", fault.Exit(fault.Hint(fmt.Errorf("no record is called %q", word),
			"write at least four characters of an identifier"), fault.Usage)
	case len(ids) == 0:
		return "", fault.Exit(fault.Hint(fmt.Errorf("no record begins with, or is called, %q", word), "see: assay log"),
			fault.Usage)
	case len(ids) > 1:
		if len(lines) > 20 {
			lines[20] = "and more"
		}
		return "", fault.Exit(fault.Hint(fmt.Errorf("%q is ambiguous", word),
			"candidates:\n  "+strings.Join(lines, "\n  ")), fault.Usage)
	}
	return ids[0], nil
}

// Document is what was kept, byte for byte.
func (b *Book) Document(ctx context.Context, id string) ([]byte, error) {
	return content(ctx, b.db, id)
}

// Run is the evidence of a run or a rehearsal, without the secrets that an earlier assay may have kept in it.
func (b *Book) Run(ctx context.Context, id string) (*evidence.Run, error) {
	doc, err := b.Document(ctx, id)
	if err != nil {
		return nil, err
	}
	doc = secret.JSON(doc)
	run := decodeRun(doc)
	if run == nil {
		run = &evidence.Run{}
		if err := json.Unmarshal(doc, run); err != nil || !run.IsRun() {
			return nil, fault.Exit(fmt.Errorf("record %s is not the evidence of a run", short(id)), fault.Usage)
		}
	}
	run.Document = id
	return run, nil
}

// mostPast is how many earlier runs Past reads of each device.
const mostPast = 100

// Past gives earlier runs and rehearsals of the same subject, whatever the device, and their identifiers: of each
// device so many, those of the same chip, system and release first, then the newest. It is a gate's and a verdict's
// history. A logbook that a team shares may hold many others.
func (b *Book) Past(ctx context.Context, run *evidence.Run) ([]*evidence.Run, []string, error) {
	record := projectRun(run).record // kind, …, device, …, torch, python, system, chip as in the table
	torch, system, chip := record[11], record[13], record[14]
	var ids []string
	err := each(ctx, b.db, `SELECT id FROM (SELECT id, at, torch IS ?2 AND system IS ?3 AND chip IS ?4 AS same,
		row_number() OVER (PARTITION BY kind, device ORDER BY torch IS ?2 AND system IS ?3 AND chip IS ?4 DESC, at DESC) AS place
		FROM record WHERE kind IN ('run', 'rehearsal') AND title IS ?1) WHERE place <= ?5 ORDER BY at DESC, id`,
		func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		}, text(evidence.Title(run)), torch, system, chip, mostPast)
	if err != nil {
		return nil, nil, fmt.Errorf("read the logbook %s: %w", b.path, err)
	}
	var past []*evidence.Run
	for _, id := range ids {
		earlier, err := b.Run(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		past = append(past, earlier)
	}
	return past, ids, nil
}

// Record is a record in the common form.
func (b *Book) Record(ctx context.Context, id string) (*Record, error) {
	doc, err := b.Document(ctx, id)
	if err != nil {
		return nil, err
	}
	return parseRecord(secret.JSON(doc)) // an earlier assay kept secrets
}

// Table is the answer to a query.
type Table struct {
	Columns []string
	Rows    [][]any // string, int64, float64, []byte or nil
	Cut     bool    // there were more rows than were asked for
}

// Bounds of a query.
const (
	maxCell    = 8 << 20   // bytes of one value that a query may make; a chunk of points as JSON is the largest of ours
	maxColumns = 64        // of a query's answer: a row is held whole before it can be weighed
	maxAnswer  = 256 << 20 // bytes of all values
)

// Query answers SQL. The book must have been opened by OpenRead: its connection cannot write. No other file can be
// attached.
func (b *Book) Query(ctx context.Context, query string, limit int) (*Table, error) {
	noTime := func() bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }
	late := fault.Hint(errors.New("query the logbook: no answer in the time allowed"), "--timeout allows more")
	conn, err := b.db.Conn(ctx)
	switch {
	case err != nil && noTime():
		return nil, late
	case err != nil:
		return nil, fmt.Errorf("query the logbook: %w", err)
	}
	defer conn.Close()
	// VACUUM INTO writes a file and attaches for that: no attaching forbids both.
	for id, v := range map[int]int{limitAttached: 0, limitLength: maxCell, limitColumn: maxColumns} {
		if _, err := sqlite.Limit(conn, id, v); err != nil {
			return nil, fmt.Errorf("query the logbook: %w", err)
		}
	}
	t, err := readTable(ctx, conn, query, limit)
	var e *sqlite.Error
	switch {
	case noTime():
		return nil, late
	case errors.As(err, &e) && e.Code()&0xff == 8: // READONLY
		return nil, fault.Exit(fault.Hint(fmt.Errorf("query the logbook: %w", err),
			"a query reads, and nothing in a logbook is ever changed by one"), fault.Usage)
	case errors.As(err, &e) && e.Code()&0xff == 18: // TOOBIG
		return nil, fault.Exit(fault.Hint(fmt.Errorf("query the logbook: %w", err),
			fmt.Sprintf("one value may have %d MiB: ask for less at a time", maxCell>>20)), fault.Usage)
	case err == nil && len(t.Columns) == 0:
		return nil, fault.Exit(fault.Hint(errors.New("query the logbook: that asks for nothing"),
			"for example: assay log query \"SELECT * FROM runs\""), fault.Usage)
	case err != nil:
		return nil, fault.Exit(fault.Hint(fmt.Errorf("query the logbook: %w", err),
			"the views are runs, figures, facts, operators, findings, notes, records and points: docs/logbook.md"),
			fault.Usage)
	}
	return t, nil
}

func readTable(ctx context.Context, conn *sql.Conn, query string, limit int) (*Table, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t := &Table{}
	if t.Columns, err = rows.Columns(); err != nil {
		return nil, err
	}
	room := maxAnswer
	for rows.Next() {
		if len(t.Rows) == limit {
			t.Cut = true
			return t, nil
		}
		row := make([]any, len(t.Columns))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for _, v := range row {
			switch v := v.(type) {
			case string:
				room -= len(v)
			case []byte:
				room -= len(v)
			}
			room -= 16
		}
		if room < 0 {
			return nil, fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, rows.Err()
}
