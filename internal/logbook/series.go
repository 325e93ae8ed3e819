package logbook

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"

	"github.com/klauspost/compress/zstd"
	"modernc.org/sqlite"
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

// chunks sorts points by series, in the order in which they came, and packs them.
func chunks(owner string, points []Point) ([]chunk, error) {
	series := map[string][]Point{}
	var names []string
	for _, p := range points {
		if series[p.Name] == nil {
			if p.Name == "" || len(p.Name) > maxName {
				return nil, fmt.Errorf("a series whose name has %d bytes: 1 to %d", len(p.Name), maxName)
			}
			names = append(names, p.Name)
		}
		series[p.Name] = append(series[p.Name], p)
	}
	var all []chunk
	for _, name := range names {
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
	if len(refs) == 0 {
		return nil
	}
	var hash []byte
	if err := tx.QueryRowContext(ctx, "SELECT hash FROM ledger ORDER BY entry DESC LIMIT 1").Scan(&hash); err != nil &&
		!errors.Is(err, sql.ErrNoRows) {
		return err
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO ledger(kind, ref, hash) VALUES(?,?,?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, ref := range refs {
		hash = link(hash, kind, ref)
		if _, err := insert.ExecContext(ctx, kind, ref, hash); err != nil {
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

// Points reads a record's series by steps; name "" means all.
func (b *Book) Points(ctx context.Context, id, name string) ([]Point, error) {
	rows, err := b.db.QueryContext(ctx, "SELECT name, n, data FROM chunk WHERE owner = ? AND (? = '' OR name = ?) ORDER BY name, first, chunk", id, name,
		name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Point
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
		return string(append(out, ']')), nil
	})
}

func short(id string) string { return id[:min(len(id), 10)] }
