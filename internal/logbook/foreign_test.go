package logbook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/fault"
)

// stranger is a folder with a file that is no logbook to write to.
type stranger struct {
	name string
	path string // of the file
	says string // of the error
}

// strangers makes files of every kind that a path may point to by mistake, each in a folder of its own.
func strangers(t *testing.T) []stranger {
	t.Helper()
	root := t.TempDir()
	var all []stranger
	at := func(name, says string) string {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "file.db")
		all = append(all, stranger{name, path, says})
		return path
	}
	write := func(path string, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	made := func(path string, statements ...string) *sql.DB {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { db.Close() })
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		return db
	}
	// alive copies a database while its program is in the middle of something.
	alive := func(path string, statements ...string) {
		from := filepath.Join(t.TempDir(), "live.db")
		made(from, statements...)
		for _, end := range []string{"", "-wal", "-shm", "-journal"} {
			if data, err := os.ReadFile(from + end); err == nil {
				write(path+end, data)
			}
		}
	}
	const browser = "CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url TEXT); INSERT INTO moz_places(url) VALUES('https://example.org/')"
	other := "not a logbook"
	made(at("tables", other), browser).Close()
	made(at("application", other), "PRAGMA application_id=252006674", browser).Close()
	made(at("version", other), "PRAGMA user_version=77").Close()
	made(at("no-tables", other), "VACUUM").Close()
	made(at("wal-closed", other), "PRAGMA journal_mode=WAL", browser).Close()
	alive(at("wal-pending", other), "PRAGMA journal_mode=WAL", browser)
	alive(at("wal-all-in-it", other), "PRAGMA journal_mode=WAL", "PRAGMA wal_autocheckpoint=0", browser,
		"PRAGMA user_version=3")
	alive(at("journal-hot", other), browser, "PRAGMA cache_size=2", "BEGIN", "INSERT INTO moz_places(url) "+
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 3000) SELECT hex(zeroblob(200)) FROM n")
	if _, err := os.Stat(all[len(all)-1].path + "-journal"); err != nil {
		t.Fatal("no hot journal was made")
	}
	write(at("text", "not a SQLite database"), []byte("this is no database, and somebody wants to keep it\n"))
	write(at("few-bytes", "not a SQLite database"), []byte("SQL"))
	write(at("header-alone", "cut off"), []byte(magic+"\x10\x00\x02\x02"))
	if err := os.Mkdir(at("folder", "not a file"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe", "not a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	newer := at("newer", fmt.Sprintf("its schema is version %d, and this assay knows %d", len(schema())+1,
		len(schema())))
	b := mustOpen(t, newer)
	if _, err := b.db.Exec(fmt.Sprintf("PRAGMA user_version=%d", len(schema())+1)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	cut := at("truncated", "cut off")
	b = mustOpen(t, cut)
	keep(t, b, sample(t))
	b.Close()
	if err := os.Truncate(cut, 3*4096+100); err != nil {
		t.Fatal(err)
	}
	return all
}

// photograph is everything in a folder: names, bytes, modes and times.
func photograph(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %v %d %v", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " %s", fmt.Sprintf("%x", sha256.Sum256(data)))
		}
		fmt.Fprintln(&out)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestForeignFilesStayAsTheyAre: whatever is pointed at, what is no logbook of ours is byte for byte as it was, and
// nothing new lies beside it.
func TestForeignFilesStayAsTheyAre(t *testing.T) {
	mine := mustOpen(t, filepath.Join(t.TempDir(), "mine.db"))
	for _, s := range strangers(t) {
		dir := filepath.Dir(s.path)
		before := photograph(t, dir)
		check := func(what string, err error) {
			if err == nil || !strings.Contains(err.Error(), s.says) || !strings.Contains(err.Error(), s.path) {
				t.Errorf("%s, %s: %v, want %q and the path", s.name, what, err, s.says)
			} else if fault.HintOf(err) == "" && s.says != "cut off" {
				t.Errorf("%s, %s: %v: says not what to do", s.name, what, err)
			}
			if after := photograph(t, dir); after != before {
				t.Errorf("%s, %s: changed\n%s\nto\n%s", s.name, what, before, after)
			}
		}
		for name, open := range map[string]func(context.Context, string) (*Book, error){"Open": Open,
			"OpenRead": OpenRead} {
			b, err := open(ctx, s.path)
			check(name, err)
			if b != nil {
				b.Close()
			}
		}
		_, err := mine.Merge(ctx, s.path)
		check("Merge", err)
	}
}

// TestMergeTouchesNothing: another logbook is read without a trace, also while its owner writes to it, and what it has
// committed is taken over.
func TestMergeTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	path := filepath.Join(dir, "theirs.db")
	theirs := mustOpen(t, path)
	id := keep(t, theirs, sample(t))
	var notes []string
	for i := range 5 { // in the write-ahead log alone
		note, err := theirs.Note(ctx, time.Unix(int64(i), 0), fmt.Sprint("note ", i), nil, id)
		if err != nil {
			t.Fatal(err)
		}
		notes = append(notes, note)
	}
	for _, state := range []string{"live", "closed", "closed, in a folder that cannot be written"} {
		switch state {
		case "closed":
			theirs.Close()
		case "closed, in a folder that cannot be written":
			for _, p := range []string{path, dir} {
				info, _ := os.Stat(p)
				if err := os.Chmod(p, info.Mode()&0o555); err != nil {
					t.Fatal(err)
				}
				defer os.Chmod(p, 0o755)
			}
		}
		before := photograph(t, dir)
		mine := mustOpen(t, filepath.Join(t.TempDir(), "mine.db"))
		m, err := mine.Merge(ctx, path)
		if err != nil || m.Records != 6 || len(m.Refused) > 0 {
			t.Fatalf("%s: %+v, %v", state, m, err)
		}
		if after := photograph(t, dir); after != before {
			t.Errorf("%s: changed\n%s\nto\n%s", state, before, after)
		}
		for _, note := range notes {
			if _, err := mine.Record(ctx, note); err != nil {
				t.Errorf("%s: %v", state, err)
			}
		}
		sound(t, mine)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "assay-logbook-*")); len(left) > 0 {
		t.Errorf("copies were left: %v", left)
	}
}

// TestCommittedInTheLogAlone: a logbook whose writer was killed before anything was moved into the file is known by its
// log.
func TestCommittedInTheLogAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new.db")
	b, err := open(path, "rwc", "journal_mode(WAL)") // as earlier assays made it
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.migrate(ctx, schema()); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(dir, "killed.db")
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + end)
		if err != nil {
			t.Fatal(err)
		}
		if end == "" && bytes.Contains(data, []byte("assy")) {
			t.Fatal("the file has the mark already: it is no longer only in the log")
		}
		if err := os.WriteFile(killed+end, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sound(t, mustOpen(t, killed))
}

// TestMadeWhole: whoever finds a new logbook finds a whole one, and nothing else is left of its making.
func TestMadeWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "logbook.db")
	b := mustOpen(t, path)
	b.Close()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if is, err := look(path); is != ours || err != nil {
		t.Errorf("%v, %v", is, err)
	}
}
