package logbook

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"assay/internal/secret"
)

// FigureRow is one row of an export: a figure of a record, with what is needed to tell the record from others.
type FigureRow struct {
	ID         string   `parquet:"id,dict"`
	Kind       string   `parquet:"kind,dict"`
	At         string   `parquet:"at,dict"`
	Title      string   `parquet:"title,dict"`
	Run        string   `parquet:"run,dict"`
	Device     string   `parquet:"device,dict"`
	Torch      string   `parquet:"torch,dict"`
	Chip       string   `parquet:"chip,dict"`
	System     string   `parquet:"system,dict"`
	Commit     string   `parquet:"commit,dict"`
	Batch      *int64   `parquet:"batch,optional"`
	Resolution string   `parquet:"resolution,dict"`
	Exit       *int64   `parquet:"exit,optional"`
	Name       string   `parquet:"name,dict"`
	Value      *float64 `parquet:"value,optional"`
	Unit       string   `parquet:"unit,dict"`
	Low        *float64 `parquet:"low,optional"`
	High       *float64 `parquet:"high,optional"`
	N          int64    `parquet:"n"`
	Basis      string   `parquet:"basis,dict"`
	Window     string   `parquet:"window,dict"`
	Note       string   `parquet:"note,dict"`
	Missing    string   `parquet:"missing,dict"`
}

// PointRow is one point of an export. Value is NaN where it was not finite.
type PointRow struct {
	ID    string  `parquet:"id,dict"`
	Name  string  `parquet:"name,dict"`
	Step  int64   `parquet:"step,delta"`
	Time  int64   `parquet:"time_ms,delta"`
	Value float64 `parquet:"value"`
}

// figureList are figures with the words of their forms, as the view figures has them, and with their places.
const figureList = `SELECT f.record, f.seq, o.name, f.value, o.unit, f.low, f.high, f.n, o.basis, o.steps, o.missing,
	CASE WHEN f.told IS NULL THEN o.note ELSE printf(o.note, f.told ->> 0, f.told ->> 1, f.told ->> 2, f.told ->> 3, f.told ->> 4,
	f.told ->> 5, f.told ->> 6, f.told ->> 7) END AS note FROM figure f JOIN figure_form o USING (form)`

// eachFigure reads the figures of the records, in their order.
func (b *Book) eachFigure(ctx context.Context, ids []string, f func(*FigureRow) error) error {
	for _, id := range ids {
		var rows []FigureRow
		err := each(ctx, b.db, `SELECT r.id, r.kind, r.at, coalesce(r.title, ''), coalesce(r.name, ''), coalesce(r.device, ''), coalesce(r.torch, ''),
			coalesce(r.chip, ''),
			coalesce(r.system, ''), coalesce(r.commit_id, ''),
			r.batch, coalesce(r.resolution, ''), r.exit, f.name, f.value, f.unit, f.low, f.high, coalesce(f.n, 0), coalesce(f.basis, ''),
			coalesce(f.steps, ''), coalesce(f.note, ''), coalesce(f.missing, '') FROM record r JOIN (`+figureList+`) f USING (record)
			WHERE r.id = ? ORDER BY f.seq`,
			func(scan func(...any) error) error {
				var r FigureRow
				err := scan(&r.ID, &r.Kind, &r.At, &r.Title, &r.Run, &r.Device, &r.Torch, &r.Chip, &r.System, &r.Commit,
					&r.Batch, &r.Resolution, &r.Exit,
					&r.Name, &r.Value,
					&r.Unit, &r.Low, &r.High, &r.N, &r.Basis, &r.Window, &r.Note, &r.Missing)
				rows = append(rows, r)
				return err
			}, id)
		if err != nil {
			return fmt.Errorf("export %s: %w", short(id), err)
		}
		for i := range rows {
			for _, text := range []*string{&rows[i].Title, &rows[i].Note, &rows[i].Missing} {
				// an earlier assay kept secrets
				*text = secret.Text(*text)
			}
			if err := f(&rows[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// FiguresCSV writes a line for each figure of the records.
func (b *Book) FiguresCSV(ctx context.Context, w io.Writer, ids []string) error {
	out := csv.NewWriter(w)
	out.Write([]string{"id", "kind", "at", "title", "run", "device", "torch", "chip", "system", "commit", "batch",
		"resolution", "exit", "name", "value",
		"unit", "low", "high", "n",
		"basis", "window", "note", "missing"})
	err := b.eachFigure(ctx, ids, func(r *FigureRow) error {
		return out.Write([]string{Cell(r.ID), Cell(r.Kind), Cell(r.At), Cell(r.Title), Cell(r.Run), Cell(r.Device),
			Cell(r.Torch), Cell(r.Chip), Cell(r.System),
			Cell(r.Commit), whole(r.Batch), Cell(r.Resolution), whole(r.Exit),
			Cell(r.Name), real(r.Value), Cell(r.Unit), real(r.Low), real(r.High), strconv.FormatInt(r.N,
				10), Cell(r.Basis), Cell(r.Window), Cell(r.Note), Cell(r.Missing)})
	})
	out.Flush()
	if err == nil {
		err = out.Error()
	}
	return err
}

// PointsCSV writes a line for each point of the records.
func (b *Book) PointsCSV(ctx context.Context, w io.Writer, ids []string) error {
	out := csv.NewWriter(w)
	out.Write([]string{"id", "name", "step", "time_ms", "value"})
	for _, id := range ids {
		points, err := b.Points(ctx, id, "")
		if err != nil {
			return err
		}
		for _, p := range points {
			value := ""
			if !math.IsNaN(p.Value) {
				value = real(&p.Value)
			}
			if err := out.Write([]string{Cell(id), Cell(p.Name), strconv.FormatInt(p.Step, 10),
				strconv.FormatInt(p.Time, 10), value}); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// FiguresParquet writes a row for each figure of the records.
func (b *Book) FiguresParquet(ctx context.Context, w io.Writer, ids []string) error {
	out := parquet.NewGenericWriter[FigureRow](w, parquet.Compression(&parquet.Zstd))
	err := b.eachFigure(ctx, ids, func(r *FigureRow) error {
		_, err := out.Write([]FigureRow{*r})
		return err
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// PointsParquet writes a row for each point of the records.
func (b *Book) PointsParquet(ctx context.Context, w io.Writer, ids []string) error {
	out := parquet.NewGenericWriter[PointRow](w, parquet.Compression(&parquet.Zstd))
	for _, id := range ids {
		points, err := b.Points(ctx, id, "")
		if err != nil {
			return err
		}
		rows := make([]PointRow, 0, len(points))
		for _, p := range points {
			rows = append(rows, PointRow{id, p.Name, p.Step, p.Time, p.Value})
		}
		if _, err := out.Write(rows); err != nil {
			return err
		}
	}
	return out.Close()
}

// Cell keeps a spreadsheet from taking a text for a formula (OWASP, CSV Injection): one that begins with = + - @, their
// wide forms, a tab or a line end, with or without blanks and what nothing shows before it, gets an apostrophe in
// front. A text that is a number, as -1.5, stays as it is.
func Cell(s string) string {
	first := strings.TrimLeftFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) ||
			unicode.Is(unicode.Cf, r)
	})
	r, _ := utf8.DecodeRuneInString(first)
	if strings.ContainsRune("=+-@\uFF1D\uFF0B\uFF0D\uFF20\u2212", r) && first != "" && !numeral.MatchString(s) ||
		s != "" && strings.ContainsRune("\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

var numeral = regexp.MustCompile(`^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,4})?$`)

func whole(v *int64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(*v, 10)
}

func real(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}
