package logbook

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

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
			kept, added, err := b.Add(ctx, repoint(doc, moved))
			var forgotten *Forgotten
			if errors.As(err, &forgotten) {
				here[id], moved[id] = "", forgotten.Instead // its points may have been called by what was taken out
				m.Forgotten++
				return nil
			}
			if err != nil {
				return err
			}
			here[id], moved[id] = kept, kept
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
			if _, err := unpack(c.data, c.n); err != nil {
				refuse("points of %s: %v", short(owner), err)
				return nil
			}
			if now != owner { // kept without its secrets, under another name
				owner = now
				c.id = chunkID(owner, c.name, c.n, c.first, c.last, c.data)
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
