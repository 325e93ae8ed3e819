package logbook

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"assay/internal/fault"
	"assay/internal/secret"
	clean "assay/internal/text"
)

// Check is what Verify found.
type Check struct {
	Records, Chunks, Points int
	Bytes                   int64 // of documents
	// last hash of the ledger: whoever notes it down can tell later that nothing before it is gone
	Head         string
	Size, Unused int64 // bytes of the file, and those of them that hold nothing
	Forgotten    int   // tombstones
	Unscrubbed   int   // times that something was forgotten of which the file may still hold bytes: Scrub
	Secrets      int   // records with secrets in them, kept by an assay that did not take them out
	Problems     []string
}

const mostProblems = 100

// Verify holds every byte that means something to the hashes: documents and chunks to their identifiers, tables to the
// documents that they were read out of, all of them to the ledger, the schema to this assay's. head, if not "", is a
// hash that the ledger must hold: one that an earlier Verify gave.
func (b *Book) Verify(ctx context.Context, head string) (*Check, error) {
	c := &Check{}
	problem := func(format string, args ...any) {
		if len(c.Problems) < mostProblems {
			c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
		}
	}
	// one state of the file, whatever others write meanwhile
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("verify %s: %w", b.path, err), hintOf(err))
	}
	defer tx.Rollback()
	var free, page int64
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(sum(pgsize), 0), coalesce(sum(unused), 0), (SELECT freelist_count FROM pragma_freelist_count),
		(SELECT page_size FROM pragma_page_size) FROM dbstat`).Scan(&c.Size, &c.Unused, &free, &page); err == nil { // where it fails, so do the pages below
		c.Size, c.Unused = c.Size+free*page, c.Unused+free*page
	}
	if err := tx.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM tombstone WHERE NOT spared), (SELECT count(*) FROM unscrubbed)").Scan(&c.Forgotten, &c.Unscrubbed); err != nil {
		problem("the tombstones: %v", err)
	}
	steps := []func(context.Context, *sql.Tx, *Check, func(string, ...any)) error{checkPages, checkSchema,
		checkDocuments, checkChunks,
		func(ctx context.Context, tx *sql.Tx, c *Check, problem func(string, ...any)) error {
			return checkLedger(ctx, tx, c, problem, head)
		}}
	for _, step := range steps {
		if err := step(ctx, tx, c, problem); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			problem("%v", err) // SQLite itself could not read on
		}
	}
	return c, nil
}

func checkPages(ctx context.Context, tx *sql.Tx, c *Check, problem func(string, ...any)) error {
	return each(ctx, tx, "PRAGMA integrity_check(20)", func(scan func(...any) error) error {
		var line string
		err := scan(&line)
		if err == nil && line != "ok" {
			problem("the database's pages: %s", line)
		}
		return err
	})
}

func checkSchema(ctx context.Context, tx *sql.Tx, c *Check, problem func(string, ...any)) error {
	fresh, err := open(":memory:", "memory")
	if err != nil {
		return err
	}
	defer fresh.Close()
	if err := fresh.migrate(ctx, schema()); err != nil {
		return err
	}
	const list = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name"
	read := func(q queryer) (map[string]string, error) {
		found := map[string]string{}
		return found, each(ctx, q, list, func(scan func(...any) error) error {
			var kind, name, table, text string
			err := scan(&kind, &name, &table, &text)
			found[kind+" "+name] = table + "\x00" + text
			return err
		})
	}
	want, err := read(fresh.db)
	if err != nil {
		return err
	}
	got, err := read(tx)
	if err != nil {
		return err
	}
	for name, text := range want {
		if got[name] != text {
			problem("the schema: %s is missing or changed", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			problem("the schema: %s does not belong to a logbook", clean.Short(name, 80))
		}
	}
	return nil
}

// recordIDs are the identifiers of all records that are kept whole, in the order in which they came.
func recordIDs(ctx context.Context, tx *sql.Tx) (ids []string, err error) {
	err = each(ctx, tx, "SELECT id FROM content ORDER BY rowid", func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

func checkDocuments(ctx context.Context, tx *sql.Tx, c *Check, problem func(string, ...any)) error {
	ids, err := recordIDs(ctx, tx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		c.Records++
		doc, err := content(ctx, tx, id)
		if err != nil {
			problem("%v", err)
			continue
		}
		c.Bytes += int64(len(doc))
		if !bytes.Equal(secret.JSON(doc), doc) {
			c.Secrets++
		}
		p, err := project(doc)
		if err != nil {
			problem("record %s: %v", short(id), err)
			continue
		}
		if forgotten, err := tombstone(ctx, tx, p, id); err != nil || forgotten != nil {
			problem("record %s: it was forgotten and is there (%v)", short(id), err)
		}
		if err := compareRows(ctx, tx, id, p, problem); err != nil {
			problem("record %s: %v", short(id), err)
		}
	}
	for _, table := range append([]string{"record"}, tables...) {
		where := "record NOT IN (SELECT record FROM record WHERE id IN (SELECT id FROM content))"
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE "+where).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			problem("%d rows of %s belong to no document", n, table)
		}
	}
	return nil
}

// compareRows holds what the tables say about a document to the document.
func compareRows(ctx context.Context, tx *sql.Tx, id string, p *projection, problem func(string, ...any)) error {
	var number int64
	if err := tx.QueryRowContext(ctx, "SELECT record FROM record WHERE id = ?", id).Scan(&number); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return errors.New("it has no row in the table record")
		}
		return err
	}
	compare := func(table string, want [][]any) error {
		i, differ := 0, false
		err := each(ctx, tx, fmt.Sprintf("SELECT * FROM %s WHERE record = %d ORDER BY rowid", table, number),
			func(scan func(...any) error) error {
				if i >= len(want) {
					differ = true
					return nil
				}
				row := make([]any, len(want[i]))
				into := make([]any, len(row))
				for j := range row {
					into[j] = &row[j]
				}
				if err := scan(into...); err != nil {
					return err
				}
				for j := 1; j < len(row); j++ { // the first is the number
					if row[j] != want[i][j] {
						differ = true
					}
				}
				i++
				return nil
			})
		if err == nil && (differ || i != len(want)) {
			problem("record %s: the table %s does not say what the document says", short(id), table)
		}
		return err
	}
	if err := compare("record", [][]any{append([]any{number, id}, p.record...)}); err != nil {
		return err
	}
	for _, table := range tables {
		var want [][]any
		for _, row := range p.rows[table] {
			want = append(want, append([]any{number}, row...))
		}
		if err := compare(table, want); err != nil {
			return err
		}
	}
	return nil
}

func checkChunks(ctx context.Context, tx *sql.Tx, c *Check, problem func(string, ...any)) error {
	return each(ctx, tx, "SELECT chunk, id, owner, name, n, first, last, data, owner IN (SELECT id FROM content) FROM chunk ORDER BY chunk",
		func(scan func(...any) error) error {
			var number, first, last int64
			var id, data []byte
			var owner, name string
			var n int
			var owned bool
			if err := scan(&number, &id, &owner, &name, &n, &first, &last, &data, &owned); err != nil {
				return err
			}
			c.Chunks++
			c.Points += n
			if !bytes.Equal(id, chunkID(owner, name, n, first, last, data)) {
				problem("points of %s: chunk %d of series %s is not what was kept", short(owner), number,
					clean.Short(name, 60))
			} else if _, err := unpack(data, n); err != nil {
				problem("points of %s: chunk %d of series %s: %v", short(owner), number, clean.Short(name, 60), err)
			}
			if !owned {
				problem("points of %s: there is no such record", short(owner))
			}
			return nil
		})
}

func checkLedger(ctx context.Context, tx *sql.Tx, c *Check, problem func(string, ...any), head string) error {
	var hash []byte
	next, found, gone := int64(1), head == "", int64(0)
	seen := map[string]int{}
	err := each(ctx, tx, "SELECT entry, kind, ref, hash FROM ledger ORDER BY entry",
		func(scan func(...any) error) error {
			var entry int64
			var kind string
			var ref, is []byte
			if err := scan(&entry, &kind, &ref, &is); err != nil {
				return err
			}
			if entry != next {
				problem("the ledger: entry %d follows %d", entry, next-1)
			}
			next = entry + 1
			if hash = link(hash, kind, ref); !bytes.Equal(hash, is) {
				problem("the ledger: entry %d does not follow from the one before it", entry)
				hash = is
			}
			if kind == goneEntry {
				gone = cmp.Or(gone, entry)
			} else {
				seen[kind+" "+hex.EncodeToString(ref)]++
			}
			found = found || hex.EncodeToString(is) == head
			return nil
		})
	if err != nil {
		return err
	}
	c.Head = hex.EncodeToString(hash)
	if !found {
		why := "entries are gone, or this is another logbook"
		if gone > 0 {
			why = fmt.Sprintf("something was forgotten since (log verify tells when), and from entry %d on the ledger was chained anew; or entries are gone", gone)
		}
		problem("the ledger: it does not hold %s any more: %s", clean.Short(head, 64), why)
	}
	if err := each(ctx, tx, "SELECT 'record ' || id FROM content UNION ALL SELECT 'chunk ' || lower(hex(id)) FROM chunk",
		func(scan func(...any) error) error {
			var what string
			if err := scan(&what); err != nil {
				return err
			}
			if seen[what] != 1 {
				problem("the ledger: %s stands in it %d times", clean.Short(what, 18), seen[what])
			}
			delete(seen, what)
			return nil
		}); err != nil {
		return err
	}
	if err := each(ctx, tx, "SELECT DISTINCT event, mark, kind, at, because FROM tombstone",
		func(scan func(...any) error) error {
			var s stone
			if err := scan(&s.event, &s.mark, &s.kind, &s.at, &s.because); err != nil {
				return err
			}
			what := stoneEntry + " " + hex.EncodeToString(s.ref())
			if seen[what] != 1 {
				problem("the ledger: the tombstone of %s stands in it %d times", clean.Short(s.at, 30), seen[what])
			}
			delete(seen, what)
			return nil
		}); err != nil {
		return err
	}
	for what := range seen {
		problem("the ledger: %s was kept and is gone", clean.Short(what, 18))
	}
	return nil
}

func each(ctx context.Context, q queryer, query string, f func(scan func(...any) error) error, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
