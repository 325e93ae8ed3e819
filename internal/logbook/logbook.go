// Package logbook keeps what was observed, in one SQLite file that several programs and people can write at once.
//
// What is kept is a document: the evidence of a run (evidence.json, byte for byte), or a record in the common form
// (Record), as a note is. Its identifier is the SHA-256 of its bytes, so that the same document is kept once, wherever
// it comes from, and two logbooks can be merged. Figures, facts and operators are read out of the document into tables
// to query. Series of points that are appended lie beside it, by columns (series.go). Every document and every chunk of
// points has an entry in a chain of hashes; Verify holds the whole to it.
//
// What repeats from run to run is kept once: documents as what they have new against a base (base.go, columns.go), the
// words of tables as forms that all records share (forms.go). Nothing is in a base or a form that is in no record.
//
// Whatever Add and Append have acknowledged is on the disk: write-ahead log, synchronous=FULL. Nothing is ever changed
// or deleted but by Forget, which leaves a tombstone (forget.go). Secrets that can be told as such are taken out of a
// document before it is kept.
package logbook

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"

	"assay/internal/fault"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

const (
	application = 0x61737379 // "assy": what file(1) and sqlite3 find in the header
	patience    = 60 * time.Second
	magic       = "SQLite format 3\x00"
)

// Limit numbers of SQLite that a query needs (sqlite.org/c3ref/c_limit_attached.html).
const (
	limitLength   = 0
	limitColumn   = 2
	limitAttached = 7
)

// A reproject line at the head of a migration says that the tables read out of documents are to be made again.
const reproject = "-- reproject"

// Book is an open logbook.
type Book struct {
	path     string
	db       *sql.DB
	end      func()        // what is to be done when it is closed; nil: nothing
	patience time.Duration // 0: patience; shorter in tests

	writing sync.Mutex           // holds what follows
	ready   map[string]*sql.Stmt // forms.go
	known   map[string]int64     // forms, as of the version of the file that was seen
	seen    int64
}

// Open opens the logbook for writing, makes it where there is none, and brings an older one to this schema. A file that
// is no logbook is refused before anything is written to it or beside it.
func Open(ctx context.Context, path string) (*Book, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open the logbook: %w", err)
	}
	is, err := look(path)
	if err == nil && is == absent {
		if err = create(ctx, path); err == nil {
			is, err = look(path) // another process may have been faster
		}
	}
	if err != nil {
		return nil, err
	}
	if is == absent {
		return nil, fault.Hint(fmt.Errorf("open the logbook %s: a link to a file that is not there", path),
			"remove the link, or make what it points to")
	}
	if is == blank { // in one transaction, before the log is turned on: a kill leaves it empty or whole
		if err := migrateBlank(ctx, path); err != nil {
			return nil, err
		}
	}
	closeToOthers(path)
	return openWrite(ctx, path)
}

func migrateBlank(ctx context.Context, path string) error {
	b, err := open(path, "rwc", "synchronous(FULL)", "fullfsync(1)")
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.retry(ctx, func() error { return b.migrate(ctx, schema()) }); err != nil {
		return fault.Hint(fmt.Errorf("make the logbook %s: %w", path, err), hintOf(err))
	}
	return nil
}

func openWrite(ctx context.Context, path string) (*Book, error) {
	// the last: F_FULLFSYNC, on macOS
	b, err := open(path, "rwc", "journal_mode(WAL)", "synchronous(FULL)", "secure_delete(1)", "fullfsync(1)",
		"cache_size(-16384)") // KiB: indexes of many records
	if err != nil {
		return nil, err
	}
	if err := b.retry(ctx, func() error { return b.migrate(ctx, schema()) }); err != nil {
		b.Close()
		return nil, fault.Hint(fmt.Errorf("open the logbook %s: %w", path, err), hintOf(err))
	}
	return b, nil
}

// create makes a logbook under a temporary name and links it to its own: whoever sees the name sees a whole logbook.
// Where the name is taken meanwhile, what has taken it stays.
func create(ctx context.Context, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return fmt.Errorf("make the logbook: %w", err)
	}
	f.Close()
	defer func() {
		for _, end := range []string{"", "-wal", "-shm", "-journal"} { // what a failure leaves
			os.Remove(f.Name() + end)
		}
	}()
	b, err := openWrite(ctx, f.Name())
	if err == nil {
		err = b.Close() // moves the write-ahead log into the file, and syncs that
	}
	if err == nil {
		if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
			return nil
		} else if err != nil { // a file system without links
			if _, there := os.Lstat(path); errors.Is(there, fs.ErrNotExist) {
				err = os.Rename(f.Name(), path)
			}
		}
	}
	if err != nil {
		return fault.Hint(fmt.Errorf("make the logbook %s: %w", path, err), fault.HintOf(err))
	}
	return nil
}

// closeToOthers closes a logbook that others may read because SQLite makes files so (0644, what earlier assays left);
// any other mode was somebody's choice, as of a team that shares it. A new one is its owner's from the start, and
// SQLite gives the files beside it its permissions.
func closeToOthers(path string) {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(name); err == nil && info.Mode() == 0o644 {
			_ = os.Chmod(name, 0o600) // of another's file: it is theirs to close
		}
	}
}

// OpenRead opens a logbook that is there already and changes nothing in it. Its connections cannot write, attach files
// or load code.
func OpenRead(ctx context.Context, path string) (*Book, error) {
	if err := MustBe(path); err != nil {
		return nil, err
	}
	b, err := openForeign(ctx, path, "query_only(1)", "cell_size_check(1)")
	if err != nil {
		return nil, err
	}
	var version int
	err = b.retry(ctx, func() error {
		version, err = b.version(ctx, b.db)
		return err
	})
	switch {
	case err != nil:
		b.Close()
		return nil, fault.Hint(fmt.Errorf("open the logbook %s: %w", path, err), hintOf(err))
	case version < len(schema()):
		b.Close()
		return nil, fault.Hint(fmt.Errorf("open the logbook %s: its schema is version %d, and this assay reads %d",
			path, version, len(schema())),
			"assay log, where it can be written, brings it up to date")
	}
	return b, nil
}

// MustBe refuses what is no logbook to read, and opens nothing for it.
func MustBe(path string) error {
	switch is, err := look(path); {
	case err != nil:
		return err
	case is == absent:
		return fmt.Errorf("open the logbook %s: %w", path, fs.ErrNotExist)
	case is == blank:
		return fault.Hint(fmt.Errorf("open the logbook %s: an empty file", path),
			"--logbook or $ASSAY_LOGBOOK names another; assay run would make a logbook of it")
	}
	return nil
}

// Exists reports whether there is a file with something in it at the path.
func Exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

// IsSQLite reports whether the file is a SQLite database, a logbook or another.
func IsSQLite(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		// before it is opened: a pipe would be waited for
		return false
	}
	head, err := readHeader(path)
	return err == nil && strings.HasPrefix(string(head), magic)
}

// openForeign opens a logbook to read, also where nothing can be written beside it, as on a share: SQLite wants to put
// its index of the write-ahead log there. Where nothing is pending beside it, nobody can be writing from here, and the
// file is taken to stay as it is; else a copy is read.
func openForeign(ctx context.Context, path string, pragmas ...string) (*Book, error) {
	b, err := open(path, "ro", pragmas...)
	if err != nil {
		return nil, err
	}
	var n int
	err = b.retry(ctx, func() error { return b.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&n) })
	var e *sqlite.Error
	if !errors.As(err, &e) || e.Code()&0xff != 14 && e.Code()&0xff != 8 { // CANTOPEN, READONLY
		return b, nil // whatever else is wrong is told by what comes next
	}
	b.Close()
	if size(path+"-wal") == 0 && size(path+"-journal") == 0 {
		return open(path, "ro&immutable=1", pragmas...)
	}
	return openCopy(ctx, path, pragmas...)
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// openCopy opens a copy of a logbook, so that neither the file nor its folder is touched, also while somebody writes to
// it. The copy is of one moment: a writer adds to the log's end, whose last transaction counts only when it is whole,
// and moves the log into the file now and then; where the file has changed while it was copied, it is copied again.
func openCopy(ctx context.Context, path string, pragmas ...string) (*Book, error) {
	dir, err := os.MkdirTemp("", "assay-logbook-") // for this user alone
	if err != nil {
		return nil, fmt.Errorf("copy the logbook %s: %w", path, err)
	}
	to := filepath.Join(dir, "copy.db")
	for range 20 {
		var changed bool
		if changed, err = copyDatabase(path, to); err == nil && !changed {
			b, err := open(to, "rw", pragmas...) // to be recovered from its log
			if err != nil {
				os.RemoveAll(dir)
				return nil, err
			}
			b.path, b.end = path, func() { os.RemoveAll(dir) }
			return b, nil
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		if err != nil {
			break
		}
	}
	os.RemoveAll(dir)
	if err == nil {
		err = errors.New("somebody keeps writing to it")
	}
	return nil, fault.Hint(fmt.Errorf("copy the logbook %s to read it: %w", path, err),
		"try again; $TMPDIR names the folder that the copy is made in")
}

// copyDatabase copies the file and what is pending beside it, and says whether the file changed meanwhile.
func copyDatabase(path, to string) (changed bool, err error) {
	before, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if age := time.Since(before.ModTime()); age >= 0 && age < 20*time.Millisecond {
		// kernels stamp files by a clock of 1 to 10 ms
		return true, nil
	}
	for _, end := range []string{"-wal", "-journal", ""} {
		os.Remove(to + end)
		if err := copyFile(path+end, to+end); err != nil && !(end != "" && errors.Is(err, fs.ErrNotExist)) {
			return false, err
		}
	}
	after, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return !os.SameFile(before, after) || before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()), nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// open makes connections that share no state. Each BEGIN takes the write lock at once, so that a transaction never
// fails half way for want of it.
func open(path, mode string, pragmas ...string) (*Book, error) {
	mode, immutable := strings.CutSuffix(mode, "&immutable=1")
	query := url.Values{"mode": {mode}, "_txlock": {"immediate"},
		"_pragma": append([]string{fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds())},
			pragmas...)}
	if immutable {
		query.Set("immutable", "1")
	}
	dsn := (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: query.Encode()}).String()
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("open the logbook %s: %w", path, err)
	}
	b := &Book{path: path, db: sql.OpenDB(connector)}
	b.db.SetMaxOpenConns(1) // writers of one process queue here rather than at the file's lock
	return b, nil
}

// Path of the file.
func (b *Book) Path() string { return b.path }

// Close ends the use of the logbook.
func (b *Book) Close() error {
	err := b.db.Close()
	if b.end != nil {
		b.end()
	}
	return err
}

// write runs f in a transaction. When it returns nil, what f wrote is on the disk.
func (b *Book) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	return b.retry(ctx, func() error {
		tx, err := b.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			_ = tx.Rollback()
			return err
		}
		return tx.Commit()
	})
}

// retry repeats f while somebody else holds the file. SQLite itself waits at most locks; not while another process
// turns the write-ahead log on, or recovers after a kill.
func (b *Book) retry(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := f()
		if !busy(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

// wait is how long another program may hold the file.
func (b *Book) wait() time.Duration {
	if b.patience > 0 {
		return b.patience
	}
	return patience
}

// busy tells SQLITE_BUSY (5) and SQLITE_LOCKED (6) with all their extended codes.
func busy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == 5 || e.Code()&0xff == 6)
}

func hintOf(err error) string {
	var e *sqlite.Error
	switch {
	case fault.HintOf(err) != "":
		return fault.HintOf(err)
	case busy(err):
		return "another program has kept it locked for a minute; nothing was written"
	case errors.As(err, &e) && e.Code()&0xff == 11, errors.As(err, &e) && e.Code()&0xff == 26: // CORRUPT, NOTADB
		return "the file is damaged: assay log import reads what evidence.json files of .assay/runs still hold into a new one"
	case errors.As(err, &e) && e.Code()&0xff == 8: // READONLY
		return "the file, or its folder, cannot be written"
	}
	return ""
}

// schema is the list of migrations: the first makes version 1, the second brings version 1 to 2, and so on.
func schema() []string {
	entries, err := schemaFiles.ReadDir("schema")
	if err != nil {
		panic(err) // embedded
	}
	var all []string
	for i, e := range entries {
		if e.Name() != fmt.Sprintf("%03d.sql", i+1) {
			panic("schema/" + e.Name() + ": migrations are numbered without gaps")
		}
		text, err := schemaFiles.ReadFile("schema/" + e.Name())
		if err != nil {
			panic(err)
		}
		all = append(all, string(text))
	}
	return all
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// version reads which schema the file has; 0 for an empty file. One that this assay does not know, and somebody else's
// database, are errors.
func (b *Book) version(ctx context.Context, q queryer) (int, error) {
	var version, app, tables int
	// In one statement, and so of one state of the file: another process may just be making it.
	if err := q.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id),
		count(*) FROM sqlite_master`).Scan(&version, &app, &tables); err != nil {
		return 0, err
	}
	switch {
	case app != application && (tables > 0 || version > 0 || app != 0):
		return 0, fault.Hint(errors.New("a SQLite database, and not a logbook of assay"),
			"--logbook names another file; nothing was changed in this one")
	case version > len(schema()):
		return 0, fault.Hint(fmt.Errorf("its schema is version %d, and this assay knows %d", version, len(schema())),
			"a newer assay wrote it: use that one; nothing was changed")
	case version == 0 && tables > 0:
		return 0, errors.New("a logbook without a version: damaged")
	}
	return version, nil
}

// migrate brings the file to the last of the migrations, all in one transaction: a kill leaves the old version or the
// new one.
func (b *Book) migrate(ctx context.Context, migrations []string) error {
	from, err := b.version(ctx, b.db)
	if err != nil || from == len(migrations) {
		return err
	}
	if from > 0 {
		// What the old tables held still stands in the documents: pages that they leave need not be written over.
		if _, err := b.db.ExecContext(ctx, "PRAGMA secure_delete=0"); err != nil {
			return err
		}
		defer b.db.ExecContext(context.WithoutCancel(ctx), "PRAGMA secure_delete=1")
	}
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	version, err := b.version(ctx, tx) // another process may have been faster
	if err != nil {
		return err
	}
	again := false
	for i, text := range migrations[min(version, len(migrations)):] {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("schema %d: %w", version+i+1, err)
		}
		again = again || strings.HasPrefix(text, reproject)
	}
	if again && version > 0 {
		if err := projectAgain(ctx, tx); err != nil {
			return err
		}
		passed("projected")
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", application,
		len(migrations))); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil || !again || version == 0 {
		return err
	}
	// The file is as large as it was, and mostly free. Where there is no room to write it anew, it stays so: what is
	// free is used again.
	passed("upgraded")
	_, _ = b.db.ExecContext(ctx, "VACUUM")
	return nil
}
