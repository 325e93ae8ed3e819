package logbook

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

// projectAgain makes the tables anew from the documents, with the numbers that records have, and packs documents that
// an earlier assay kept as they were.
func projectAgain(ctx context.Context, tx *sql.Tx) error {
	numbers := map[string]int64{}
	if err := each(ctx, tx, "SELECT record, id FROM record", func(scan func(...any) error) error {
		var n int64
		var id string
		err := scan(&n, &id)
		numbers[id] = n
		return err
	}); err != nil {
		return err
	}
	ids, err := recordIDs(ctx, tx)
	if err != nil {
		return err
	}
	for _, table := range append([]string{"record", "link"}, tables...) {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
			return err
		}
	}
	w := &inserter{ctx: ctx, tx: tx, stmts: map[string]*sql.Stmt{}, known: map[string]int64{}}
	defer w.close()
	var chunked int
	if err := w.query(&chunked, "SELECT count(*) FROM (SELECT 1 FROM chunk LIMIT 1)"); err != nil {
		return err
	}
	for at := 0; at < len(ids); {
		var some []*renewal
		for held := int64(0); at < len(ids) && len(some) < mostTogether && held < mostHeld; at++ {
			r := &renewal{stored: stored{id: ids[at]}}
			if err := tx.QueryRowContext(ctx, "SELECT size, base, data FROM content WHERE id = ?", r.id).Scan(&r.size, &r.base,
				&r.data); err != nil {
				return fmt.Errorf("read record %s: %w", short(r.id), err)
			}
			if r.d, err = r.dictionary(ctx, tx); err != nil {
				return err
			}
			held += r.size
			some = append(some, r)
		}
		inParallel(len(some), func(i int) { some[i].prepare() })
		for _, r := range some {
			if r.err != nil {
				return r.err
			}
			if r.parts != nil && r.parts.head != nil {
				base, data, err := r.parts.leanest(w, r.id)
				if err != nil {
					return err
				}
				if _, err := w.exec("UPDATE content SET base = ?, data = ? WHERE id = ?", base, data, r.id); err != nil {
					return err
				}
			}
			number, err := w.insert(numbers[r.id], r.id, r.p)
			if err != nil {
				return err
			}
			if chunked > 0 && len(r.p.rows["series"]) > 0 {
				if err := w.derive(number, r.id, r.doc); err != nil {
					return err
				}
			}
		}
	}
	return sweep(ctx, tx)
}

// renewal is a document whose rows are made again.
type renewal struct {
	stored
	d     *dictionary
	doc   []byte
	p     *projection
	parts *parts // of one that was kept as it was
	err   error
}

func (r *renewal) prepare() {
	if r.doc, r.err = r.document(r.d); r.err != nil {
		return
	}
	if r.p, r.err = project(r.doc); r.err != nil {
		r.err = fmt.Errorf("record %s: %w", short(r.id), r.err)
		return
	}
	if r.base == nil {
		r.parts = apart(r.doc).of(r.p)
	}
}

// derive takes out the chunks that an earlier assay kept of points that stand in the document. The ledger still names
// them: derived says which those are.
func (w *inserter) derive(number int64, id string, doc []byte) error {
	type kept struct {
		number, n int64
		name      string
		ref, data []byte
	}
	var all []kept
	if err := each(w.ctx, w.tx, "SELECT chunk, id, name, n, data FROM chunk WHERE owner = ? ORDER BY chunk",
		func(scan func(...any) error) error {
			var k kept
			err := scan(&k.number, &k.ref, &k.name, &k.n, &k.data)
			all = append(all, k)
			return err
		}, id); err != nil || len(all) == 0 {
		return err
	}
	own := ownSums(doc)
	for _, k := range all {
		points, err := unpack(k.data, int(k.n))
		if err != nil || !own[pointsSum(k.name, points)] {
			continue // verify says what is damaged
		}
		if _, err := w.exec("DELETE FROM chunk WHERE chunk = ?", k.number); err != nil {
			return err
		}
		if _, err := w.exec("INSERT OR IGNORE INTO derived(ref, record) VALUES(?,?)", k.ref, number); err != nil {
			return err
		}
	}
	return nil
}

// ownSums tells the chunks of points that a document has, as pointsSum calls them.
func ownSums(doc []byte) map[string]bool {
	sums := map[string]bool{}
	names, all := bySeries(pointsOf(doc))
	for _, name := range names {
		for rest := all[name]; len(rest) > 0; {
			n := min(len(rest), maxChunk)
			sums[pointsSum(name, rest[:n])] = true
			rest = rest[n:]
		}
	}
	return sums
}

// pointsSum is of points what they say, however they are packed.
func pointsSum(name string, points []Point) string {
	out := make([]byte, 0, 24*len(points))
	for _, p := range points {
		out = binary.LittleEndian.AppendUint64(out, uint64(p.Step))
		out = binary.LittleEndian.AppendUint64(out, uint64(p.Time))
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(p.Value))
	}
	sum := sha256.Sum256(out)
	return name + "\x00" + hex.EncodeToString(sum[:])
}
