package logbook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
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
	ledger := "SELECT count(*) FROM ledger WHERE kind = 'chunk' LIMIT 1"
	var chunked int
	if err := w.query(&chunked, ledger); err != nil {
		return err
	}
	for _, id := range ids {
		s := stored{id: id}
		if err := tx.QueryRowContext(ctx, "SELECT size, base, data FROM content WHERE id = ?", id).Scan(&s.size, &s.base,
			&s.data); err != nil {
			return fmt.Errorf("read record %s: %w", short(id), err)
		}
		d, err := s.dictionary(ctx, tx)
		if err != nil {
			return err
		}
		doc, err := s.document(d)
		if err != nil {
			return err
		}
		p, err := project(doc)
		if err != nil {
			return fmt.Errorf("record %s: %w", short(id), err)
		}
		number := numbers[id]
		if s.base == nil {
			if packed := apart(doc).of(p); packed.head != nil {
				base, data, err := packed.leanest(w, id)
				if err != nil {
					return err
				}
				if _, err := w.exec("UPDATE content SET base = ?, data = ? WHERE id = ?", base, data, id); err != nil {
					return err
				}
			}
		}
		if number, err = w.insert(number, id, p); err != nil {
			return err
		}
		if chunked > 0 && len(p.rows["series"]) > 0 {
			if err := w.derive(number, id, doc); err != nil {
				return err
			}
		}
	}
	return sweep(ctx, tx)
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
	var out bytes.Buffer
	for _, p := range points {
		fmt.Fprintf(&out, "%d %d %x\n", p.Step, p.Time, p.Value)
	}
	sum := sha256.Sum256(out.Bytes())
	return name + "\x00" + hex.EncodeToString(sum[:])
}
