package logbook

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

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
		checkBases, checkDocuments, checkChunks,
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

// examined is a document on its way through Verify.
type examined struct {
	stored
	d       *dictionary
	secrets bool
	p       *projection
	err     error
}

// examine does what needs no file.
func (x *examined) examine() {
	if x.err != nil {
		return
	}
	doc, err := x.document(x.d)
	if x.data = nil; err != nil {
		x.err = err
		return
	}
	x.secrets = !bytes.Equal(secret.JSON(doc), doc)
	if x.p, err = project(doc); err != nil {
		x.err = fmt.Errorf("record %s: %w", short(x.id), err)
	}
}

// checkDocuments reads documents and holds tables to them. While the rows of some are compared, the next are unpacked.
func checkDocuments(ctx context.Context, tx *sql.Tx, c *Check, problem func(string, ...any)) error {
	forms, err := keptForms(ctx, tx, problem)
	if err != nil {
		return err
	}
	ids, err := recordIDs(ctx, tx)
	if err != nil {
		return err
	}
	var stones int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM tombstone").Scan(&stones); err != nil {
		return err
	}
	t := &tablesOf{ctx: ctx, w: &inserter{ctx: ctx, tx: tx, stmts: map[string]*sql.Stmt{}}, forms: forms}
	defer t.w.close()
	var running, next []*examined
	for at := 0; ; {
		next = nil
		for held := int64(0); at < len(ids) && len(next) < mostTogether && held < mostHeld; at++ {
			x := &examined{stored: stored{id: ids[at]}}
			x.err = t.read(&x.stored)
			if x.err == nil {
				x.d, x.err = x.dictionary(ctx, tx)
			}
			held += min(max(x.size, 0), MaxContent) + int64(len(x.data))
			next = append(next, x)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		ready := make(chan struct{})
		go func() {
			inParallel(len(next), func(i int) { next[i].examine() })
			close(ready)
		}()
		for _, x := range running {
			c.Records++
			if x.err != nil {
				problem("%v", x.err)
				continue
			}
			c.Bytes += x.size
			for _, r := range x.p.rows["series"] {
				n, _ := r.rest[1].(int64)
				c.Points += int(n)
			}
			if x.secrets {
				c.Secrets++
			}
			if stones > 0 {
				if forgotten, err := tombstone(ctx, tx, x.p, x.id); err != nil || forgotten != nil {
					problem("record %s: it was forgotten and is there (%v)", short(x.id), err)
				}
			}
			if err := t.compare(x.id, x.p, problem); err != nil {
				problem("record %s: %v", short(x.id), err)
			}
		}
		<-ready
		if running = next; len(running) == 0 {
			break
		}
	}
	for _, table := range append([]string{"record", "link", "derived"}, tables...) {
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

// checkBases looks at what others lean on, and says what depends on it.
func checkBases(ctx context.Context, tx *sql.Tx, c *Check, problem func(string, ...any)) error {
	type kept struct {
		base, leaning int64
		sum           []byte
		owned         bool
	}
	var all []kept
	if err := each(ctx, tx, `SELECT base, sum, (SELECT count(*) FROM content c WHERE c.base = b.base), origin IN (SELECT id FROM content)
		FROM base b`, func(scan func(...any) error) error {
		var k kept
		err := scan(&k.base, &k.sum, &k.leaning, &k.owned)
		all = append(all, k)
		return err
	}); err != nil {
		return err
	}
	for _, k := range all {
		whole := map[string]bool{}
		for _, table := range []string{"base", "base_copy"} {
			var data []byte
			if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT CASE WHEN length(data) <= %d THEN data END FROM %s WHERE base = ?",
				2*mostBase, table), k.base).Scan(&data); ctx.Err() != nil {
				return ctx.Err()
			} else if err == nil {
				whole[table] = unpackBase(data, k.sum) != nil
			}
		}
		switch {
		case !whole["base"] && !whole["base_copy"]:
			problem("base %d is damaged, and so is its copy: %d records lean on it and cannot be read", k.base, k.leaning)
		case !whole["base"]:
			problem("base %d is damaged; its copy is whole, and the %d records that lean on it can be read", k.base, k.leaning)
		case !whole["base_copy"]:
			problem("the copy of base %d is damaged; the base is whole, and the %d records that lean on it can be read",
				k.base, k.leaning)
		}
		if !k.owned {
			problem("base %d was taken from a record that is not there", k.base)
		}
	}
	for what, query := range map[string]string{
		"copies of bases belong to none":        "SELECT count(*) FROM base_copy WHERE base NOT IN (SELECT base FROM base)",
		"bases have nothing that leans on them": "SELECT count(*) FROM base WHERE base NOT IN (SELECT base FROM content WHERE base > 0)",
	} {
		var n int
		if err := tx.QueryRowContext(ctx, query).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			problem("%d %s", n, what)
		}
	}
	return nil
}

// tablesOf holds what the tables say about a document to the document.
type tablesOf struct {
	ctx   context.Context
	w     *inserter
	forms kept
}

func (t *tablesOf) read(s *stored) error {
	q, err := t.w.stmt("SELECT size, base, data FROM content WHERE id = ?")
	if err == nil {
		err = q.QueryRowContext(t.ctx, s.id).Scan(&s.size, &s.base, &s.data)
	}
	if err != nil {
		return fmt.Errorf("read record %s: %w", short(s.id), err)
	}
	return nil
}

// rows gives the rows of a query, each in the same room.
func (t *tablesOf) rows(query string, width int, arg any, f func(row []any)) error {
	q, err := t.w.stmt(query)
	if err != nil {
		return err
	}
	rows, err := q.QueryContext(t.ctx, arg)
	if err != nil {
		return err
	}
	defer rows.Close()
	row, into := make([]any, width), make([]any, width)
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		f(row)
	}
	return rows.Err()
}

func (t *tablesOf) compare(id string, p *projection, problem func(string, ...any)) error {
	differs := func(table string) {
		problem("record %s: the table %s does not say what the document says", short(id), table)
	}
	number := int64(0)
	if err := t.rows("SELECT * FROM record WHERE id = ?", 2+len(p.record), id, func(row []any) {
		number, _ = row[0].(int64)
		if !slices.Equal(row[2:], p.record) {
			differs("record")
		}
	}); err != nil {
		return err
	}
	if number == 0 {
		return errors.New("it has no row in the table record")
	}
	for _, table := range tables {
		want, forms := p.rows[table], t.forms[formsOf(table)]
		i, same := 0, true
		if err := t.rows("SELECT * FROM "+table+" WHERE record = ? ORDER BY seq", widths[table], number,
			func(row []any) {
				if i < len(want) {
					form, _ := row[2].(int64)
					sum, there := forms[form]
					same = same && there && row[1] == int64(i) && sum == want[i].sum() && slices.Equal(row[3:],
						want[i].rest)
				}
				i++
			}); err != nil {
			return err
		}
		if !same || i != len(want) {
			differs(table)
		}
	}
	i, same := 0, true
	if err := t.rows("SELECT * FROM link WHERE record = ? ORDER BY rowid", 2, number, func(row []any) {
		same = same && i < len(p.links) && row[1] == p.links[i]
		i++
	}); err != nil {
		return err
	}
	if !same || i != len(p.links) {
		differs("link")
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
	if err := each(ctx, tx, "SELECT 'record ' || id FROM content UNION ALL SELECT 'chunk ' || lower(hex(id)) FROM chunk UNION ALL SELECT 'chunk ' || lower(hex(ref)) FROM derived",
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
