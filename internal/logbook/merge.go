package logbook

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"assay/internal/fault"
	"assay/internal/secret"
	clean "assay/internal/text"
)

// Merged counts what Merge did.
type Merged struct {
	Records, Chunks int // new here
	Known           int // records that were here already
	Forgotten       int // records that are not taken in, since they were forgotten here
	Adopted         int // records of this logbook that went or changed, since the other has forgotten them
	Refused         []string
}

// Merge takes every record and every chunk of another logbook into this one. The other is a stranger's: only documents
// and chunks are read, each is held to its hash, and the rest is made from them. Doing it again changes nothing.
// Neither the other file nor its folder is touched, also where somebody is writing to it.
func (b *Book) Merge(ctx context.Context, path string) (*Merged, error) {
	if err := MustBe(path); err != nil {
		return nil, err
	}
	other, err := openCopy(ctx, path, "query_only(1)", "trusted_schema(0)", "cell_size_check(1)")
	if err != nil {
		return nil, err
	}
	defer other.Close()
	wrap := func(err error) error {
		return fault.Hint(fmt.Errorf("import the logbook %s: %w", path, err), hintOf(err))
	}
	version, err := other.version(ctx, other.db)
	if err != nil {
		return nil, wrap(err)
	}
	// A view of that name could be anything.
	var tables int
	if err := other.db.QueryRowContext(ctx,
		"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('content', 'chunk')").Scan(&tables); err != nil {
		return nil, wrap(err)
	}
	if tables != 2 {
		return nil, wrap(fmt.Errorf("no tables of a logbook in it"))
	}
	m := &Merged{}
	refuse := func(format string, args ...any) {
		if len(m.Refused) < mostProblems {
			m.Refused = append(m.Refused, fmt.Sprintf(format, args...))
		}
	}
	stones, err := other.stones(ctx)
	if err != nil {
		return nil, wrap(err)
	}
	if m.Adopted, err = b.adopt(ctx, stones, func(id string) []byte {
		if doc, err := content(ctx, other.db, id); err == nil {
			return secret.JSON(doc)
		}
		return nil
	}, func(id string) (names []string) {
		_ = each(ctx, other.db, "SELECT DISTINCT substr(name, 1, 300) FROM chunk WHERE owner = ?",
			func(scan func(...any) error) error {
				var name string
				err := scan(&name)
				names = append(names, name)
				return err
			}, id)
		return names
	}); err != nil {
		return m, wrap(err)
	}
	// identifier there → identifier here; the second also of what was forgotten here
	here, moved := map[string]string{}, map[string]string{}
	own := map[string]map[string]bool{} // of an earlier assay's logbook, which kept the points of documents beside them
	var waiting []*arrival
	held := int64(0)
	keep := func(some []*arrival) error {
		news := make([]*newcomer, 0, len(some))
		for _, a := range some {
			news = append(news, a.n)
		}
		if err := b.keep(ctx, news...); err != nil {
			return err
		}
		for _, a := range some {
			if a.n.forgotten != nil {
				// its points may have been called by what was taken out
				here[a.id], moved[a.id] = "", a.n.forgotten.Instead
				m.Forgotten++
				continue
			}
			here[a.id], moved[a.id] = a.n.id, a.n.id
			if a.n.added {
				m.Records++
			} else {
				m.Known++
			}
			if version < 3 && len(a.n.p.rows["series"]) > 0 {
				own[a.id] = ownSums(a.n.parts.doc)
			}
		}
		return nil
	}
	flushWaiting := func() error {
		inParallel(len(waiting), func(i int) { waiting[i].prepare() })
		var some []*arrival
		for _, a := range waiting {
			if a.about != nil { // it says how those that it is about are called here
				if slices.ContainsFunc(some, func(other *arrival) bool { return slices.Contains(a.about, other.id) }) {
					if err := keep(some); err != nil {
						return err
					}
					some = nil
				}
				if doc := a.n.parts.doc; !bytes.Equal(repoint(doc, moved), doc) {
					a.n, a.err = prepare(repoint(doc, moved))
				}
			}
			if a.err != nil {
				refuse("%v", a.err)
				continue
			}
			some = append(some, a)
		}
		waiting, held = nil, 0
		return keep(some)
	}
	baseColumn := "base"
	if version < 3 {
		baseColumn = "NULL"
	}
	var numbers []int64
	err = each(ctx, other.db, "SELECT rowid FROM content ORDER BY rowid", func(scan func(...any) error) error {
		var n int64
		err := scan(&n)
		numbers = append(numbers, n)
		return err
	})
	read := fmt.Sprintf("SELECT substr(id, 1, 80), size, %s, CASE WHEN length(data) <= %d THEN data END FROM content WHERE rowid = ?",
		baseColumn, MaxContent)
	for i := 0; err == nil && i < len(numbers); i++ {
		a := &arrival{}
		if err = other.db.QueryRowContext(ctx, read, numbers[i]).Scan(&a.id, &a.size, &a.base, &a.data); err != nil {
			break
		}
		if !fullID.MatchString(a.id) {
			refuse("a record with the identifier %q", clean.Short(a.id, 64))
			continue
		}
		var damaged error
		if a.d, damaged = a.dictionary(ctx, other.db); damaged != nil {
			if err = ctx.Err(); err == nil {
				refuse("%v", damaged)
			}
			continue
		}
		waiting = append(waiting, a)
		held += min(max(a.size, 0), MaxContent) + int64(len(a.data))
		if held > mostHeld || len(waiting) == mostTogether {
			err = flushWaiting()
		}
	}
	if err == nil {
		err = flushWaiting()
	}
	if err != nil {
		return nil, wrap(err)
	}
	batch := map[string][]chunk{}
	held = 0
	flush := func() error {
		for owner, all := range batch {
			n, err := b.addForeign(ctx, owner, all)
			if err != nil {
				return err
			}
			m.Chunks += n
		}
		clear(batch)
		held = 0
		return nil
	}
	err = each(ctx, other.db, fmt.Sprintf("SELECT id, owner, name, n, first, last, CASE WHEN length(data) <= %d THEN data END FROM chunk ORDER BY chunk",
		32*maxChunk),
		func(scan func(...any) error) error {
			var c chunk
			var owner string
			if err := scan(&c.id, &owner, &c.name, &c.n, &c.first, &c.last, &c.data); err != nil {
				return err
			}
			now, seen := here[owner]
			switch {
			case seen && now == "":
				return nil // forgotten here
			case !seen:
				refuse("points of %s, of which there is no record", clean.Short(owner, 10))
				return nil
			case c.name == "" || len(c.name) > maxName || string(c.id) != string(chunkID(owner, c.name, c.n, c.first,
				c.last, c.data)):
				refuse("points of %s: the chunk %s is not what was kept", short(owner),
					hex.EncodeToString(c.id[:min(5, len(c.id))]))
				return nil
			}
			points, err := unpack(c.data, c.n)
			if err != nil {
				refuse("points of %s: %v", short(owner), err)
				return nil
			}
			if own[owner] != nil && own[owner][pointsSum(c.name, points)] {
				return nil // the document has them
			}
			if now != owner { // kept without its secrets, under another name
				owner = now
				c.id = chunkID(owner, c.name, c.n, c.first, c.last, c.data)
			}
			batch[owner] = append(batch[owner], c)
			if held += int64(len(c.data)); held > 8<<20 {
				return flush()
			}
			return nil
		})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return nil, wrap(err)
	}
	return m, nil
}

// Bounds of what Merge keeps in one transaction. Nothing of an import is acknowledged before it is over.
const (
	mostTogether = 64
	mostHeld     = 8 << 20 // bytes of documents
)

// arrival is a document of another logbook on its way into this one; its identifier is that of there.
type arrival struct {
	stored
	d     *dictionary
	about []string // what a record in the common form is about, as that is called there
	n     *newcomer
	err   error // why it is refused
}

func (a *arrival) prepare() {
	doc, err := a.document(a.d)
	if a.data = nil; err != nil {
		a.err = err
		return
	}
	if a.n, err = prepare(doc); err != nil {
		a.err = fmt.Errorf("record %s: %w", short(a.id), err)
		return
	}
	a.about = a.n.p.links
}

// inParallel calls f for each of n, as many at once as there are processors, and a few at most: what somebody else's
// document asks for can be large.
func inParallel(n int, f func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0), 4) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
}

// addForeign adds chunks that are new here.
func (b *Book) addForeign(ctx context.Context, owner string, all []chunk) (n int, err error) {
	err = b.write(ctx, func(tx *sql.Tx) error {
		n, err = addChunks(ctx, tx, owner, all)
		return err
	})
	return n, err
}
