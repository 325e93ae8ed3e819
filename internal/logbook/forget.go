package logbook

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/secret"
)

// Forgotten is the error of a record that is not kept, since it was forgotten here.
type Forgotten struct {
	At      time.Time
	Because string
	Instead string // identifier of the record that stands in its place; "": none
}

func (f *Forgotten) Error() string {
	return fmt.Sprintf("the record was forgotten on %s: %s", f.At.Local().Format(time.DateTime), f.Because)
}

// Forgetting says what is to be taken out.
type Forgetting struct {
	Records []string                // identifiers of records that go whole
	Without func(doc []byte) []byte // gives any other document as it may stay; nil: as it is
	Text    func(string) string     // the same for a text; nil: as it is
	At      time.Time
	Because string
}

// Forgot is what was taken out.
type Forgot struct {
	Gone    []Entry  // records that are no more
	Changed []string // identifiers, as they are now, of records that something was taken out of, or that are about such
}

// A tombstone must not tell what was forgotten. The SHA-256 of a document does, where all of it but a short secret is
// still known: whoever tries values finds the one that fits. So nothing that such a hash went into stays: not the
// identifier, not those of its points, not the ledger's hashes from there on. Records that something was taken out of
// are known again by their mark, over parts that stay.

// markOfRun tells a run from others by when it began and what its folder was called.
func markOfRun(run *evidence.Run) string {
	return markOf("run", run.Started, run.ID)
}

func markOf(kind string, at time.Time, name string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "assay.mark/1\x00%s\x00%s\x00%s", kind, at.UTC().Format(time.RFC3339Nano),
		name))
	return hex.EncodeToString(sum[:])
}

// tombstone looks for what was said of a document: nil where it may be kept.
func tombstone(ctx context.Context, q queryer, p *projection, id string) (*Forgotten, error) {
	var found *Forgotten
	allowed := false
	err := each(ctx, q, "SELECT at, because, instead, spared FROM tombstone WHERE mark IN (?, ?) ORDER BY at",
		func(scan func(...any) error) error {
			var at, instead string
			f := &Forgotten{}
			var spared bool
			if err := scan(&at, &f.Because, &instead, &spared); err != nil {
				return err
			}
			allowed = allowed || instead == id
			if !spared {
				f.At, _ = time.Parse(time.RFC3339Nano, at)
				f.Instead = instead
				found = f
			}
			return nil
		}, p.mark, id)
	if err != nil || allowed {
		return nil, err
	}
	return found, nil
}

// Forget takes records, or what Without takes out, from the logbook: from documents, tables, series and the ledger, all
// in one transaction. When the error is nil, nothing of it is left in the file or beside it. Where the file could not
// be cleaned, since another program reads it or assay was killed, the records are gone already, and Scrub, or any later
// Forget, does the rest. Records of kinds note, facts and series that are about nothing but records that go, go with
// them.
func (b *Book) Forget(ctx context.Context, f Forgetting) (*Forgot, error) {
	if f.Text == nil {
		f.Text = func(s string) string { return s }
	}
	f.Because = f.Text(secret.Text(f.Because))
	if strings.TrimSpace(f.Because) == "" {
		return nil, fault.Exit(errors.New("forget: it needs a reason"), fault.Usage)
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	b.known = nil
	var out *Forgot
	err := b.write(ctx, func(tx *sql.Tx) error {
		e := newEdit(ctx, tx, f.At, f.Because)
		out = &Forgot{}
		var err error
		if out.Gone, err = e.withCompanions(f.Records); err != nil {
			return err
		}
		for _, g := range out.Gone {
			if err := e.remove(g.ID); err != nil {
				return err
			}
		}
		if f.Without != nil {
			if err := e.rewrite(f.Without, f.Text); err != nil {
				return err
			}
		}
		for _, id := range e.moved {
			out.Changed = append(out.Changed, id)
		}
		slices.Sort(out.Changed)
		if err := e.finish(); err != nil {
			return err
		}
		passed("rewritten")
		return nil
	})
	passed("committed")
	if err != nil {
		return nil, fault.Hint(fmt.Errorf("forget in the logbook %s: %w", b.path, err), hintOf(err))
	}
	return out, b.Scrub(ctx)
}

// passed is told how far a forgetting, or an upgrade, has come: tests kill it there.
var passed = func(string) {}

// Unscrubbed says how often something was forgotten of which the file may still hold bytes that no table names.
func (b *Book) Unscrubbed(ctx context.Context) (n int, err error) {
	err = b.db.QueryRowContext(ctx, "SELECT count(*) FROM unscrubbed").Scan(&n)
	return n, err
}

// Scrub writes the file anew, without what tables no longer name, and empties the write-ahead log. What the disk, a
// snapshot or a backup has kept of the old bytes is beyond it.
func (b *Book) Scrub(ctx context.Context) error {
	err := b.retry(ctx, func() error {
		_, err := b.db.ExecContext(ctx, "VACUUM")
		return err
	})
	passed("vacuumed")
	for deadline := time.Now().Add(b.wait()); err == nil; {
		var blocked, frames, done int
		if err = b.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &frames,
			&done); err == nil && blocked == 0 {
			break
		}
		if err == nil && time.Now().After(deadline) {
			err = errors.New("another program reads it")
		}
	}
	if err == nil {
		_, err = b.db.ExecContext(ctx, "DELETE FROM unscrubbed")
	}
	if err != nil {
		return fault.Hint(fmt.Errorf("clean the logbook %s: what was forgotten is in no record any more, and bytes of it may still lie in the file: %w", b.path, err),
			"end the programs that have the logbook open, and run assay log forget again")
	}
	return nil
}

// edit is a change of what is kept, within one transaction.
type edit struct {
	ctx     context.Context
	tx      *sql.Tx
	event   string
	at      time.Time
	because string
	moved   map[string]string // identifier → the one that stands in its place
	gone    map[string]bool   // references of the ledger
	marks   map[string]mark   // of documents that others took the place of
	records [][]byte          // new ones
	chunks  [][]byte
	stones  [][]byte
	forms   map[string]int64 // inserter.known
}

// inserter puts rows into the tables of this transaction.
func (e *edit) inserter() *inserter {
	return &inserter{ctx: e.ctx, tx: e.tx, stmts: map[string]*sql.Stmt{}, known: e.forms}
}

type mark struct {
	stone stone
	at    any // of the record, as the table has it
}

func newEdit(ctx context.Context, tx *sql.Tx, at time.Time, because string) *edit {
	return &edit{ctx: ctx, tx: tx, event: rand.Text(), at: at, because: because, moved: map[string]string{},
		gone: map[string]bool{}, marks: map[string]mark{}, forms: map[string]int64{}}
}

func (e *edit) exec(query string, args ...any) error {
	_, err := e.tx.ExecContext(e.ctx, query, args...)
	return err
}

// withCompanions adds to the records named those that are about nothing else.
func (e *edit) withCompanions(ids []string) ([]Entry, error) {
	var all []Entry
	going := map[string]bool{}
	add := func(id, kind, at, title string) {
		going[id] = true
		began, _ := time.Parse(time.RFC3339Nano, at)
		all = append(all, Entry{ID: id, Kind: kind, At: began, Title: title})
	}
	for _, id := range ids {
		var kind, at, title string
		if err := e.tx.QueryRowContext(e.ctx, "SELECT kind, at, coalesce(title, '') FROM record WHERE id = ?",
			id).Scan(&kind, &at, &title); err != nil {
			return nil, fmt.Errorf("record %s: %w", short(id), err)
		}
		if !going[id] {
			add(id, kind, at, title)
		}
	}
	for i := 0; i < len(all); i++ {
		type found struct{ id, kind, at, title, about string }
		var list []found
		err := each(e.ctx, e.tx, `SELECT r.id, r.kind, r.at, coalesce(r.title, ''), (SELECT group_concat(about, ' ') FROM link l WHERE l.record = r.record)
			FROM record r WHERE r.kind IN ('note', 'facts', 'series') AND EXISTS (SELECT 1 FROM link l WHERE l.record = r.record AND l.about = ?)
			ORDER BY r.record`, func(scan func(...any) error) error {
			var f found
			err := scan(&f.id, &f.kind, &f.at, &f.title, &f.about)
			list = append(list, f)
			return err
		}, all[i].ID)
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			others := slices.ContainsFunc(strings.Fields(f.about), func(id string) bool { return !going[id] })
			if !others && !going[f.id] {
				add(f.id, f.kind, f.at, f.title)
			}
		}
	}
	return all, nil
}

// clear takes a record's rows out of the tables; it gives the record's number.
func (e *edit) clear(id string) (number int64, err error) {
	if err := e.tx.QueryRowContext(e.ctx, "SELECT record FROM record WHERE id = ?", id).Scan(&number); err != nil {
		return 0, fmt.Errorf("record %s: %w", short(id), err)
	}
	for _, table := range append([]string{"record", "link"}, tables...) {
		if err := e.exec("DELETE FROM "+table+" WHERE record = ?", number); err != nil {
			return 0, err
		}
	}
	e.gone["record "+id] = true
	if err := each(e.ctx, e.tx, "SELECT ref FROM derived WHERE record = ?", func(scan func(...any) error) error {
		var ref []byte
		err := scan(&ref)
		e.gone["chunk "+hex.EncodeToString(ref)] = true
		return err
	}, number); err != nil {
		return 0, err
	}
	return number, e.exec("DELETE FROM derived WHERE record = ?", number)
}

// remove takes a record out whole, and leaves a tombstone.
func (e *edit) remove(id string) error {
	doc, err := content(e.ctx, e.tx, id)
	if err != nil {
		return err
	}
	p, err := project(doc)
	if err != nil {
		return err
	}
	mark := id // nothing of the document is left that its hash could be held against
	if p.kind == KindRun || p.kind == KindRehearsal {
		mark = p.mark // the same run folded another time is the same record
	}
	if err := e.drop(id); err != nil {
		return err
	}
	return e.bury(stone{event: e.event, mark: mark, kind: p.kind, at: stamp(e.at), because: e.because})
}

// drop takes a record out with its points.
func (e *edit) drop(id string) error {
	if _, err := e.clear(id); err != nil {
		return err
	}
	var refs [][]byte
	if err := each(e.ctx, e.tx, "SELECT id FROM chunk WHERE owner = ?", func(scan func(...any) error) error {
		var ref []byte
		err := scan(&ref)
		refs = append(refs, ref)
		return err
	}, id); err != nil {
		return err
	}
	for _, ref := range refs {
		e.gone["chunk "+hex.EncodeToString(ref)] = true
	}
	if err := e.exec("DELETE FROM chunk WHERE owner = ?", id); err != nil {
		return err
	}
	if err := e.exec("UPDATE tombstone SET instead = '' WHERE instead = ?", id); err != nil {
		return err
	}
	return e.exec("DELETE FROM content WHERE id = ?", id)
}

// bury adds a tombstone.
func (e *edit) bury(s stone) error {
	var before int
	if err := e.tx.QueryRowContext(e.ctx, "SELECT count(*) FROM tombstone WHERE event = ? AND mark = ?", s.event,
		s.mark).Scan(&before); err != nil {
		return err
	}
	if before == 0 {
		e.stones = append(e.stones, s.ref())
	}
	return e.exec("INSERT INTO tombstone(event, mark, kind, at, because, instead, spared) VALUES(?,?,?,?,?,?,?)",
		s.event, s.mark, s.kind, s.at, s.because,
		s.instead, truth(s.spared))
}

// spare says of other records with the mark of one that something was taken out of that they stay: notes of one moment,
// say.
func (e *edit) spare(s stone, at any) error {
	var ids []string
	if err := each(e.ctx, e.tx, `SELECT id FROM record r WHERE kind = ? AND at = ? AND NOT EXISTS (SELECT 1 FROM tombstone t WHERE t.mark = ? AND t.instead = r.id)`,
		func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		}, s.kind, at, s.mark); err != nil {
		return err
	}
	for _, id := range ids {
		doc, err := content(e.ctx, e.tx, id)
		if err != nil {
			return err
		}
		if p, err := project(doc); err == nil && p.mark == s.mark {
			s.instead, s.spared = id, true
			if err := e.bury(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// ref is what the ledger says of a tombstone. What stands in the place of a record may change later, and is no part of
// it.
func (s stone) ref() []byte {
	sum := sha256.Sum256([]byte("assay.tombstone/1\x00" + strings.Join([]string{s.event, s.mark, s.kind, s.at,
		s.because}, "\x00")))
	return sum[:]
}

// replace puts a document in the place of another, and leaves a tombstone.
func (e *edit) replace(id string, p *projection, doc []byte, name func(string) string) error {
	if err := e.put(id, p, doc, name); err != nil {
		return err
	}
	now, err := project(doc)
	if err != nil {
		return err
	}
	s := stone{event: e.event, mark: now.mark, kind: p.kind, at: stamp(e.at), because: e.because, instead: e.moved[id]}
	e.marks[now.mark] = mark{s, p.record[1]}
	return e.bury(s)
}

// put puts a document in the place of another: it keeps its number and its points, as name calls them, or without those
// that it calls "".
func (e *edit) put(id string, p *projection, doc []byte, name func(string) string) error {
	now, err := project(doc)
	if err != nil || now.kind != p.kind || now.record[1] != p.record[1] {
		return fault.Exit(fault.Hint(fmt.Errorf("record %s would not be a %s any more: the value stands in the names of its fields", short(id), p.kind),
			"forget the record whole"), fault.Usage)
	}
	sum := sha256.Sum256(doc)
	fresh := hex.EncodeToString(sum[:])
	number, err := e.clear(id)
	if err != nil {
		return err
	}
	var there int
	if err := e.tx.QueryRowContext(e.ctx, "SELECT count(*) FROM content WHERE id = ?", fresh).Scan(&there); err != nil {
		return err
	}
	if there > 0 { // a copy without it was kept before
		err = e.exec("DELETE FROM content WHERE id = ?", id)
	} else if err = e.exec("UPDATE content SET id = ?, size = ?, base = NULL, data = ? WHERE id = ?", fresh, len(doc),
		packer.EncodeAll(doc, nil), id); err == nil { // lean packs it when the bases are clean
		e.records = append(e.records, sum[:])
		_, err = e.inserter().insert(number, fresh, now)
	}
	if err != nil {
		return err
	}
	type row struct {
		number int64
		c      chunk
	}
	var rows []row
	if err := each(e.ctx, e.tx, "SELECT chunk, id, name, n, first, last, data FROM chunk WHERE owner = ?",
		func(scan func(...any) error) error {
			var r row
			err := scan(&r.number, &r.c.id, &r.c.name, &r.c.n, &r.c.first, &r.c.last, &r.c.data)
			rows = append(rows, r)
			return err
		}, id); err != nil {
		return err
	}
	for _, r := range rows {
		e.gone["chunk "+hex.EncodeToString(r.c.id)] = true
		called := name(r.c.name)
		ref := chunkID(fresh, called, r.c.n, r.c.first, r.c.last, r.c.data)
		var there int
		if err := e.tx.QueryRowContext(e.ctx, "SELECT count(*) FROM chunk WHERE id = ?", ref).Scan(&there); err != nil {
			return err
		}
		if there > 0 || called == "" {
			err = e.exec("DELETE FROM chunk WHERE chunk = ?", r.number)
		} else {
			err = e.exec("UPDATE chunk SET id = ?, owner = ?, name = ? WHERE chunk = ?", ref, fresh, called, r.number)
			e.chunks = append(e.chunks, ref)
		}
		if err != nil {
			return err
		}
	}
	e.moved[id] = fresh
	return e.exec("UPDATE tombstone SET instead = ?, spared = 0 WHERE instead = ?", fresh, id)
}

// rewrite puts in the place of every document what without makes of it, and of records about such ones what names them
// as they are called now.
func (e *edit) rewrite(without func([]byte) []byte, name func(string) string) error {
	for again := true; again; {
		again = false
		ids, err := recordIDs(e.ctx, e.tx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			doc, err := content(e.ctx, e.tx, id)
			if err != nil {
				return err
			}
			clean := e.repoint(without(doc))
			if bytes.Equal(clean, doc) {
				continue
			}
			p, err := project(doc)
			if err != nil {
				return err
			}
			if err := e.replace(id, p, clean, name); err != nil {
				return err
			}
			again = true // a record before this one may be about it
		}
	}
	return nil
}

// repoint names in a record in the common form what it is about as that is called now.
func (e *edit) repoint(doc []byte) []byte {
	return repoint(doc, e.moved)
}

func repoint(doc []byte, moved map[string]string) []byte {
	if len(moved) == 0 || !bytes.Contains(doc, []byte(`"`+RecordSchema+`"`)) {
		return doc
	}
	r, err := parseRecord(doc)
	if err != nil || r.Schema != RecordSchema {
		return doc
	}
	for _, id := range r.About {
		if now := moved[id]; now != "" {
			doc = bytes.ReplaceAll(doc, []byte(id), []byte(now))
		}
	}
	return doc
}

// finish chains the ledger anew from the first entry that is gone, and enters what is new. The entries stay, so that
// their number tells; what they named does not.
func (e *edit) finish() error {
	for _, m := range e.marks {
		if err := e.spare(m.stone, m.at); err != nil {
			return err
		}
	}
	if len(e.gone) == 0 && len(e.stones) == 0 {
		return nil
	}
	type entry struct {
		number int64
		kind   string
		ref    []byte
	}
	var rest []entry // from the first that is gone
	var hash []byte
	if err := each(e.ctx, e.tx, "SELECT entry, kind, ref, hash FROM ledger ORDER BY entry",
		func(scan func(...any) error) error {
			var n entry
			var is []byte
			if err := scan(&n.number, &n.kind, &n.ref, &is); err != nil {
				return err
			}
			if e.gone[n.kind+" "+hex.EncodeToString(n.ref)] {
				n.kind, n.ref = goneEntry, make([]byte, sha256.Size)
				if _, err := rand.Read(n.ref); err != nil {
					return err
				}
			} else if len(rest) == 0 {
				hash = is
				return nil
			}
			rest = append(rest, n)
			return nil
		}); err != nil {
		return err
	}
	for _, n := range rest {
		hash = link(hash, n.kind, n.ref)
		if err := e.exec("UPDATE ledger SET kind = ?, ref = ?, hash = ? WHERE entry = ?", n.kind, n.ref, hash,
			n.number); err != nil {
			return err
		}
	}
	for _, of := range []struct {
		kind string
		refs [][]byte
	}{{"record", e.records}, {"chunk", e.chunks}, {stoneEntry, e.stones}} {
		var still [][]byte
		for _, ref := range of.refs { // a record may have been replaced twice
			if !e.gone[of.kind+" "+hex.EncodeToString(ref)] {
				still = append(still, ref)
			}
		}
		if err := enter(e.ctx, e.tx, of.kind, still...); err != nil {
			return err
		}
	}
	if err := e.lean(); err != nil {
		return err
	}
	return e.exec("INSERT OR IGNORE INTO unscrubbed(event) VALUES(?)", e.event)
}

// lean takes out what others have of a record that is gone or changed: a base that was taken from it, and forms that
// nobody else has. Documents that leaned on such a base, and those that are new, are packed again.
func (e *edit) lean() error {
	w := e.inserter()
	defer w.close()
	var stale []int64
	if err := each(e.ctx, e.tx, "SELECT base, origin FROM base", func(scan func(...any) error) error {
		var base int64
		var origin string
		err := scan(&base, &origin)
		if e.gone["record "+origin] {
			stale = append(stale, base)
		}
		return err
	}); err != nil {
		return err
	}
	var again []string
	list := func(query string, args ...any) error {
		return each(e.ctx, e.tx, query, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			again = append(again, id)
			return err
		}, args...)
	}
	for _, base := range stale {
		if err := list("SELECT id FROM content WHERE base = ? ORDER BY rowid", base); err != nil {
			return err
		}
	}
	for _, id := range again {
		doc, err := content(e.ctx, e.tx, id)
		if err != nil {
			return err
		}
		if _, err := w.exec("UPDATE content SET base = NULL, data = ? WHERE id = ?", packer.EncodeAll(doc, nil),
			id); err != nil {
			return err
		}
	}
	for _, base := range stale {
		if err := e.exec("DELETE FROM base WHERE base = ?", base); err != nil {
			return err
		}
		if err := e.exec("DELETE FROM base_copy WHERE base = ?", base); err != nil {
			return err
		}
	}
	if len(e.records) > 0 { // new ones
		if err := list("SELECT id FROM content WHERE base IS NULL ORDER BY rowid"); err != nil {
			return err
		}
	}
	for _, id := range again {
		var base any
		if err := w.query(&base, "SELECT base FROM content WHERE id = ?", id); err != nil || base != nil {
			if err != nil {
				return err
			}
			continue
		}
		doc, err := content(e.ctx, e.tx, id)
		if err != nil {
			return err
		}
		p, err := project(doc)
		if err != nil {
			return err
		}
		packed := apart(doc).of(p)
		if packed.head == nil {
			continue
		}
		base, data, err := packed.leanest(w, id)
		if err != nil {
			return err
		}
		if _, err := w.exec("UPDATE content SET base = ?, data = ? WHERE id = ?", base, data, id); err != nil {
			return err
		}
	}
	// a base on which nobody leans any more is nobody's
	if err := e.exec("DELETE FROM base WHERE base NOT IN (SELECT base FROM content WHERE base > 0)"); err != nil {
		return err
	}
	if err := e.exec("DELETE FROM base_copy WHERE base NOT IN (SELECT base FROM base)"); err != nil {
		return err
	}
	return sweep(e.ctx, e.tx)
}

// Kinds of entries of the ledger that forgetting makes.
const (
	goneEntry  = "gone"      // was a record or points; its reference is random
	stoneEntry = "tombstone" // SHA-256 of what the tombstone says
)

// stone is a tombstone as another logbook has it.
type stone struct {
	event, mark, kind, at, because, instead string
	spared                                  bool
}

const mostStones = 1 << 20

var eventWord = regexp.MustCompile(`^[A-Z2-7]{20,64}$`) // of rand.Text

// stones reads the tombstones of another logbook, by mark. They are a stranger's: what has not the form of one is
// passed over.
func (b *Book) stones(ctx context.Context) (map[string][]stone, error) {
	all := map[string][]stone{}
	var there int
	err := b.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tombstone'").Scan(&there)
	if err != nil || there == 0 {
		return all, err
	}
	err = each(ctx, b.db, fmt.Sprintf("SELECT substr(event,1,80), substr(mark,1,80), substr(kind,1,40), substr(at,1,40), substr(because,1,%d), substr(instead,1,80), spared <> 0 "+
		"FROM tombstone ORDER BY rowid LIMIT %d", maxText, mostStones), func(scan func(...any) error) error {
		var s stone
		if err := scan(&s.event, &s.mark, &s.kind, &s.at, &s.because, &s.instead, &s.spared); err != nil {
			return err
		}
		_, timeErr := time.Parse(time.RFC3339Nano, s.at)
		if eventWord.MatchString(s.event) && fullID.MatchString(s.mark) && kindWord.MatchString(s.kind) &&
			timeErr == nil && (s.instead == "" || fullID.MatchString(s.instead)) {
			s.because = secret.Text(s.because)
			all[s.mark] = append(all[s.mark], s)
		}
		return nil
	})
	return all, err
}

// adopt forgets what another logbook has forgotten. Where both forgot, and neither knows what the other took out, the
// record goes whole: each copy still holds what was taken out of the other. document and series give what the other has
// by an identifier, and are not to be trusted. It says how many records went or changed.
func (b *Book) adopt(ctx context.Context, theirs map[string][]stone, document func(id string) []byte,
	series func(id string) []string) (n int, err error) {
	if len(theirs) == 0 {
		return 0, nil
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	b.known = nil
	err = b.write(ctx, func(tx *sql.Tx) error {
		n = 0
		events, allowed := map[string]map[string]bool{}, map[string]map[string]bool{} // by mark, here
		if err := each(ctx, tx, "SELECT mark, event, instead FROM tombstone", func(scan func(...any) error) error {
			var mark, event, instead string
			if err := scan(&mark, &event, &instead); err != nil {
				return err
			}
			if events[mark] == nil {
				events[mark], allowed[mark] = map[string]bool{}, map[string]bool{}
			}
			events[mark][event] = true
			allowed[mark][instead] = true
			return nil
		}); err != nil {
			return err
		}
		news := map[string][]stone{}
		for mark, list := range theirs {
			there := map[string]bool{}
			unknown := false
			for _, s := range list {
				there[s.event] = true
				unknown = unknown || !events[mark][s.event]
			}
			if !unknown {
				continue // all of it was known here
			}
			for event := range events[mark] {
				if there[event] {
					continue
				}
				for i := range list { // they do not know of this one: only what both let stand stays
					if !allowed[mark][list[i].instead] {
						list[i].instead, list[i].spared = "", false
					}
				}
			}
			news[mark] = list
		}
		if len(news) == 0 {
			return nil
		}
		e := newEdit(ctx, tx, time.Now(), "")
		ids, err := recordIDs(ctx, tx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			doc, err := content(ctx, tx, id)
			if err != nil {
				return err
			}
			p, err := project(doc)
			if err != nil {
				return err
			}
			list := slices.Concat(news[p.mark], news[id])
			var places []string // that another document can take
			stays := len(list) == 0
			for _, s := range list {
				stays = stays || s.instead == id
				if s.instead != "" && !s.spared && !slices.Contains(places, s.instead) {
					places = append(places, s.instead)
				}
			}
			if stays {
				continue
			}
			n++
			var instead []byte
			if len(places) == 1 {
				instead = document(places[0])
			}
			if now, err := project(instead); err != nil || now.mark != p.mark || sumText(instead) != places[0] {
				if err := e.drop(id); err != nil {
					return err
				}
				continue
			}
			names := series(places[0]) // another name may be what was taken out
			if err := e.put(id, p, instead, func(s string) string {
				if slices.Contains(names, s) {
					return s
				}
				return ""
			}); err != nil {
				return err
			}
		}
		for mark, list := range news {
			for instead := range allowed[mark] { // ours that they do not let stand
				if !slices.ContainsFunc(list, func(s stone) bool { return s.instead == instead }) {
					if err := e.exec("UPDATE tombstone SET instead = '', spared = 0 WHERE mark = ? AND instead = ?",
						mark, instead); err != nil {
						return err
					}
				}
			}
			for _, s := range list {
				if events[mark][s.event] {
					continue
				}
				if err := e.bury(s); err != nil {
					return err
				}
			}
		}
		if len(e.moved) > 0 {
			e.event, e.because = rand.Text(), "what it is about was forgotten in another logbook"
			if err := e.rewrite(func(doc []byte) []byte { return doc },
				func(s string) string { return s }); err != nil {
				return err
			}
		}
		return e.finish()
	})
	if err == nil && n > 0 {
		err = b.Scrub(ctx)
	}
	return n, err
}

func sumText(doc []byte) string {
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}
