package logbook

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"

	"assay/internal/fault"
	clean "assay/internal/text"
)

// Merged counts what Merge did.
type Merged struct {
	Records, Chunks int // new here
	Known           int // records that were here already
	Refused         []string
}

// IsLogbook reports whether the file is a SQLite database.
func IsLogbook(path string) bool { return sniff(path) == nil && Exists(path) }

// Merge takes every record and every chunk of another logbook into this one. The other is a stranger's: only documents and chunks are read, each is
// held to its hash, and the rest is made from them. Doing it again changes nothing.
func (b *Book) Merge(ctx context.Context, path string) (*Merged, error) {
	if err := sniff(path); err != nil {
		return nil, err
	}
	other, err := openForeign(ctx, path, "query_only(1)", "trusted_schema(0)", "cell_size_check(1)")
	if err != nil {
		return nil, err
	}
	defer other.Close()
	wrap := func(err error) error {
		return fault.Hint(fmt.Errorf("import the logbook %s: %w", path, err), hintOf(err))
	}
	if _, err := other.version(ctx, other.db); err != nil {
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
	here := map[string]bool{}
	err = each(ctx, other.db, fmt.Sprintf("SELECT id, size, CASE WHEN length(data) <= %d THEN data END FROM content ORDER BY rowid", MaxContent),
		func(scan func(...any) error) error {
			var id string
			var size int64
			var data []byte
			if err := scan(&id, &size, &data); err != nil {
				return err
			}
			if !fullID.MatchString(id) {
				refuse("a record with the identifier %q", clean.Short(id, 64))
				return nil
			}
			doc, err := unpackContent(id, size, data)
			if err != nil {
				refuse("%v", err)
				return nil
			}
			if _, err := project(doc); err != nil {
				refuse("record %s: %v", short(id), err)
				return nil
			}
			_, added, err := b.Add(ctx, doc)
			if err != nil {
				return err
			}
			here[id] = true
			if added {
				m.Records++
			} else {
				m.Known++
			}
			return nil
		})
	if err != nil {
		return nil, wrap(err)
	}
	batch := map[string][]chunk{}
	held := 0
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
			switch {
			case !here[owner]:
				refuse("points of %s, of which there is no record", clean.Short(owner, 10))
				return nil
			case c.name == "" || len(c.name) > maxName || string(c.id) != string(chunkID(owner, c.name, c.n, c.first, c.last, c.data)):
				refuse("points of %s: the chunk %s is not what was kept", short(owner), hex.EncodeToString(c.id[:min(5, len(c.id))]))
				return nil
			}
			if _, err := unpack(c.data, c.n); err != nil {
				refuse("points of %s: %v", short(owner), err)
				return nil
			}
			batch[owner] = append(batch[owner], c)
			if held += len(c.data); held > 8<<20 {
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

// addForeign adds chunks that are new here.
func (b *Book) addForeign(ctx context.Context, owner string, all []chunk) (n int, err error) {
	err = b.write(ctx, func(tx *sql.Tx) error {
		n, err = addChunks(ctx, tx, owner, all)
		return err
	})
	return n, err
}
