package logbook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"modernc.org/sqlite"

	"assay/internal/evidence"
)

// Point is one value of a series.
type Point struct {
	Name  string
	Step  int64
	Time  int64 // milliseconds since 1970; 0: not known
	Value float64
}

const (
	maxChunk = 1 << 16 // points of a chunk
	maxName  = 250     // bytes of the name of a series
)

// The two are safe for use by several goroutines at once. A decoder without a bound would let a few bytes of a
// stranger's file fill the memory.
var (
	packer   = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)))
	unpacker = must(zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxContent+1), zstd.WithDecoderConcurrency(1)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// pack puts points of one series into columns: steps and times as differences of differences in variable length, then
// the values, byte by byte of all values together (neighbours share their exponents), all in zstd.
func pack(points []Point) []byte {
	raw := make([]byte, 0, 12*len(points))
	var last, gap int64
	for _, p := range points {
		raw = binary.AppendVarint(raw, p.Step-last-gap)
		last, gap = p.Step, p.Step-last
	}
	last, gap = 0, 0
	for _, p := range points {
		raw = binary.AppendVarint(raw, p.Time-last-gap)
		last, gap = p.Time, p.Time-last
	}
	at := len(raw)
	raw = append(raw, make([]byte, 8*len(points))...)
	for i, p := range points {
		v := math.Float64bits(p.Value)
		for b := range 8 {
			raw[at+b*len(points)+i] = byte(v >> (8 * b))
		}
	}
	return packer.EncodeAll(raw, nil)
}

var errChunk = errors.New("a damaged chunk of points")

// unpack is the inverse of pack. n comes from the row; whatever the data are, it takes no more memory than n points do.
func unpack(data []byte, n int) ([]Point, error) {
	if n < 1 || n > maxChunk {
		return nil, errChunk
	}
	var header zstd.Header
	if err := header.Decode(data); err != nil || header.HasFCS && header.FrameContentSize > uint64(28*n) {
		return nil, errChunk
	}
	raw, err := unpacker.DecodeAll(data, make([]byte, 0, 28*n))
	if err != nil || len(raw) < 10*n || len(raw) > 28*n {
		return nil, errChunk
	}
	points := make([]Point, n)
	rest := raw
	column := func(set func(p *Point, v int64)) bool {
		var last, gap int64
		for i := range points {
			d, size := binary.Varint(rest)
			if size <= 0 {
				return false
			}
			rest = rest[size:]
			v := last + gap + d
			gap, last = v-last, v
			set(&points[i], v)
		}
		return true
	}
	if !column(func(p *Point, v int64) { p.Step = v }) || !column(func(p *Point, v int64) { p.Time = v }) ||
		len(rest) != 8*n {
		return nil, errChunk
	}
	for i := range points {
		var v uint64
		for b := range 8 {
			v |= uint64(rest[b*n+i]) << (8 * b)
		}
		points[i].Value = math.Float64frombits(v)
	}
	return points, nil
}

// chunkID is the SHA-256 over everything that a chunk's row says.
func chunkID(owner, name string, n int, first, last int64, data []byte) []byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "assay.chunk/1\x00%s\x00%s\x00%d\x00%d\x00%d\x00", owner, name, n, first, last)
	sum.Write(data)
	return sum.Sum(nil)
}

type chunk struct {
	id          []byte
	name        string
	n           int
	first, last int64
	data        []byte
}

// bySeries sorts points by series, in the order in which they came.
func bySeries(points []Point) (names []string, all map[string][]Point) {
	all = map[string][]Point{}
	for len(points) > 0 { // mostly they stand together
		name, n := points[0].Name, 1
		for n < len(points) && points[n].Name == name {
			n++
		}
		if all[name] == nil {
			names = append(names, name)
		}
		all[name] = append(all[name], points[:n]...)
		points = points[n:]
	}
	return names, all
}

// chunks packs points by series.
func chunks(owner string, points []Point) ([]chunk, error) {
	names, series := bySeries(points)
	var all []chunk
	for _, name := range names {
		if name == "" || len(name) > maxName {
			return nil, fmt.Errorf("a series whose name has %d bytes: 1 to %d", len(name), maxName)
		}
		for rest := series[name]; len(rest) > 0; {
			part := rest[:min(len(rest), maxChunk)]
			rest = rest[len(part):]
			c := chunk{name: name, n: len(part), first: part[0].Step, last: part[0].Step, data: pack(part)}
			for _, p := range part {
				c.first, c.last = min(c.first, p.Step), max(c.last, p.Step)
			}
			c.id = chunkID(owner, name, c.n, c.first, c.last, c.data)
			all = append(all, c)
		}
	}
	return all, nil
}

// Append adds points to a record. When it returns nil they are on the disk.
func (b *Book) Append(ctx context.Context, id string, points []Point) error {
	all, err := chunks(id, points)
	if err == nil {
		err = b.write(ctx, func(tx *sql.Tx) error {
			var known int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM content WHERE id = ?",
				id).Scan(&known); err != nil {
				return err
			}
			if known == 0 {
				return errors.New("there is no such record")
			}
			_, err := addChunks(ctx, tx, id, all)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("append %d points to %s: %w", len(points), short(id), err)
	}
	return nil
}

// addChunks adds those that are new, and says how many.
func addChunks(ctx context.Context, tx *sql.Tx, owner string, all []chunk) (int, error) {
	if len(all) == 0 {
		return 0, nil
	}
	insert, err := tx.PrepareContext(ctx,
		"INSERT OR IGNORE INTO chunk(id, owner, name, n, first, last, data) VALUES(?,?,?,?,?,?,?)")
	if err != nil {
		return 0, err
	}
	defer insert.Close()
	var added [][]byte
	for _, c := range all {
		res, err := insert.ExecContext(ctx, c.id, owner, c.name, c.n, c.first, c.last, c.data)
		if err != nil {
			return 0, err
		}
		if n, _ := res.RowsAffected(); n > 0 {
			added = append(added, c.id)
		}
	}
	return len(added), enter(ctx, tx, "chunk", added...)
}

// enter adds entries to the ledger.
func enter(ctx context.Context, tx *sql.Tx, kind string, refs ...[]byte) error {
	w := &inserter{ctx: ctx, tx: tx, stmts: map[string]*sql.Stmt{}}
	defer w.close()
	return w.enter(kind, refs...)
}

func (w *inserter) enter(kind string, refs ...[]byte) error {
	if len(refs) == 0 {
		return nil
	}
	var hash []byte
	if err := w.query(&hash, "SELECT hash FROM ledger ORDER BY entry DESC LIMIT 1"); err != nil &&
		!errors.Is(err, sql.ErrNoRows) {
		return err
	}
	for _, ref := range refs {
		hash = link(hash, kind, ref)
		if _, err := w.exec("INSERT INTO ledger(kind, ref, hash) VALUES(?,?,?)", kind, ref, hash); err != nil {
			return err
		}
	}
	return nil
}

func link(before []byte, kind string, ref []byte) []byte {
	sum := sha256.New()
	sum.Write(before)
	fmt.Fprintf(sum, "\x00%s\x00", kind)
	sum.Write(ref)
	return sum.Sum(nil)
}

// Points reads a record's series by steps; name "" means all: those of its document, and what was appended.
func (b *Book) Points(ctx context.Context, id, name string) ([]Point, error) {
	all, err := b.ownPoints(ctx, id, name)
	if err != nil {
		return nil, err
	}
	rows, err := b.db.QueryContext(ctx, "SELECT name, n, data FROM chunk WHERE owner = ? AND (? = '' OR name = ?) ORDER BY name, first, chunk", id, name,
		name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var of string
		var n int
		var data []byte
		if err := rows.Scan(&of, &n, &data); err != nil {
			return nil, err
		}
		part, err := unpack(data, n)
		if err != nil {
			return nil, fmt.Errorf("series %s of %s: %w", of, short(id), err)
		}
		for i := range part {
			part[i].Name = of
		}
		all = append(all, part...)
	}
	sort.SliceStable(all, func(i, j int) bool {
		if all[i].Name != all[j].Name {
			return all[i].Name < all[j].Name
		}
		return all[i].Step < all[j].Step
	})
	return all, rows.Err()
}

// ownPoints are those that a document has.
func (b *Book) ownPoints(ctx context.Context, id, name string) ([]Point, error) {
	var n int
	err := b.db.QueryRowContext(ctx, `SELECT count(*) FROM record r JOIN series s USING (record) JOIN series_form o USING (form)
		WHERE r.id = ?1 AND (?2 = '' OR o.name = ?2)`, id, name).Scan(&n)
	if err != nil || n == 0 {
		return nil, err
	}
	doc, err := content(ctx, b.db, id)
	if err != nil {
		return nil, err
	}
	all := pointsOf(doc)
	if name != "" {
		all = slices.DeleteFunc(all, func(p Point) bool { return p.Name != name })
	}
	return all, nil
}

// pointsOf reads the points of a document, and nothing else of it where it has the form of today.
func pointsOf(doc []byte) []Point {
	if bytes.Contains(doc[:min(len(doc), 200)], []byte(`"`+evidence.Schema+`"`)) {
		var lean struct {
			Schema  string    `json:"schema"`
			Kind    string    `json:"kind"`
			Started time.Time `json:"started"`
			Body    struct {
				Steps  evidence.StepSeries `json:"steps"`
				Loss   evidence.LossSeries `json:"loss"`
				Logged []evidence.Series   `json:"logged"`
			} `json:"body"`
		}
		if err := json.Unmarshal(doc, &lean); err == nil && lean.Schema == evidence.Schema &&
			lean.Kind == evidence.KindRun {
			run := &evidence.Run{}
			run.Started, run.Steps, run.Loss, run.Logged = lean.Started, lean.Body.Steps, lean.Body.Loss,
				lean.Body.Logged
			return runPoints(run)
		}
	}
	var run evidence.Run
	if err := json.Unmarshal(doc, &run); err != nil || run.Schema != evidence.Schema || run.Kind != evidence.KindRun {
		return nil
	}
	return runPoints(&run)
}

// points_json(n, data) makes a chunk readable for SQL: [[step, milliseconds, value], …], with null for what is not
// finite.
func init() {
	sqlite.MustRegisterDeterministicScalarFunction("points_json", 2, func(_ *sqlite.FunctionContext,
		args []driver.Value) (driver.Value, error) {
		n, isInt := args[0].(int64)
		data, isBlob := args[1].([]byte)
		if !isInt || !isBlob || n < 1 || n > maxChunk {
			return nil, errChunk
		}
		points, err := unpack(data, int(n))
		if err != nil {
			return nil, err
		}
		return pointsJSON(points), nil
	})
	// run_points(id, name, part, size, data, base, and the base's sum, data and copy) is the same of a series that a
	// document has.
	sqlite.MustRegisterDeterministicScalarFunction("run_points", 9, func(_ *sqlite.FunctionContext,
		args []driver.Value) (driver.Value, error) {
		id, _ := args[0].(string)
		name, _ := args[1].(string)
		part, _ := args[2].(int64)
		s := stored{id: id}
		s.size, _ = args[3].(int64)
		s.data, _ = args[4].([]byte)
		if base, ok := args[5].(int64); ok {
			s.base = &base
		}
		all, err := lately.points(&s, func() (*dictionary, error) {
			sum, _ := args[6].([]byte)
			for _, arg := range args[7:] {
				data, _ := arg.([]byte)
				if content := unpackBase(data, sum); content != nil {
					return newDictionary(*s.base, sum, content)
				}
			}
			return nil, errBase
		})
		if err != nil {
			return nil, err
		}
		points := all[name]
		if part < 0 || part*maxChunk >= int64(len(points)) {
			return nil, errChunk
		}
		points = points[part*maxChunk:]
		return pointsJSON(points[:min(len(points), maxChunk)]), nil
	})
}

// lately holds the points of the document that was asked for last: a query asks for one series after the other.
var lately recent

type recent struct {
	sync.Mutex
	id  string
	all map[string][]Point
}

func (r *recent) points(s *stored, base func() (*dictionary, error)) (map[string][]Point, error) {
	r.Lock()
	defer r.Unlock()
	if r.id == s.id && r.all != nil {
		return r.all, nil
	}
	var d *dictionary
	if s.base != nil && *s.base > 0 {
		var err error
		if d, err = base(); err != nil {
			return nil, err
		}
	}
	doc, err := s.document(d)
	if err != nil {
		return nil, err
	}
	_, all := bySeries(pointsOf(doc))
	r.id, r.all = s.id, all
	return all, nil
}

func pointsJSON(points []Point) string {
	out := make([]byte, 0, 40*len(points))
	for i, p := range points {
		if i == 0 {
			out = append(out, "[["...)
		} else {
			out = append(out, ",["...)
		}
		out = strconv.AppendInt(out, p.Step, 10)
		out = append(out, ',')
		if p.Time == 0 {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendInt(out, p.Time, 10)
		}
		out = append(out, ',')
		if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, p.Value, 'g', -1, 64)
		}
		out = append(out, ']')
	}
	return string(append(out, ']'))
}

func short(id string) string { return id[:min(len(id), 10)] }
