package logbook

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"assay/internal/evidence"
	"assay/internal/fault"
)

var update = flag.Bool("update", false, "rewrite golden files")

var ctx = context.Background()

// writerVariable makes this test binary a program that writes to the logbook it names, and says a line for each thing
// that was acknowledged.
const writerVariable = "ASSAY_TEST_LOGBOOK_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVariable); path != "" {
		if err := write(path, os.Getenv("ASSAY_TEST_WRITER"), os.Getenv("ASSAY_TEST_ROUNDS")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if path := os.Getenv(forgetVariable); path != "" {
		if err := forgetAndDie(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// write keeps notes, each with points, until it has done so many rounds, or is killed.
func write(path, who, rounds string) error {
	most := math.MaxInt
	if rounds != "" {
		if _, err := fmt.Sscan(rounds, &most); err != nil {
			return err
		}
	}
	fmt.Println("opening")
	b, err := Open(ctx, path)
	if err != nil {
		return err
	}
	for i := range most {
		id, err := b.Put(ctx, Record{Kind: KindNote, At: time.Unix(int64(i), 0),
			Title: fmt.Sprintf("note %d of %s, with enough words to fill a page: %s",
				i, who, strings.Repeat("x", i%3000))})
		if err != nil {
			return err
		}
		fmt.Println("record", id)
		var points []Point
		for j := range 500 {
			points = append(points, Point{"loss", int64(j), int64(1000 * j), float64(i) + 1/float64(j+1)})
		}
		if err := b.Append(ctx, id, points); err != nil {
			return err
		}
		fmt.Println("points", id)
	}
	return b.Close()
}

func writer(t *testing.T, path, who string, rounds int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerVariable+"="+path, "ASSAY_TEST_WRITER="+who)
	if rounds > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("ASSAY_TEST_ROUNDS=%d", rounds))
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func sound(t *testing.T, b *Book) *Check {
	t.Helper()
	c, err := b.Verify(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Problems {
		t.Error(p)
	}
	return c
}

func mustOpen(t *testing.T, path string) *Book {
	t.Helper()
	b, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestKilled: a writer is killed after the n-th acknowledged line, the first time while it makes the file. Whatever it
// acknowledged is there.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logbook.db")
	random := rand.New(rand.NewPCG(7, 1))
	acknowledged := map[string]bool{}
	for round := range 15 {
		cmd, lines := writer(t, path, fmt.Sprint("writer ", round), 0)
		for n := 1 + round%2*random.IntN(40); n > 0 && lines.Scan(); n-- {
			if lines.Text() != "opening" {
				acknowledged[lines.Text()] = true
			}
		}
		if err := cmd.Process.Kill(); err != nil { // SIGKILL
			t.Fatal(err)
		}
		for lines.Scan() { // written before it died
			if lines.Text() != "opening" {
				acknowledged[lines.Text()] = true
			}
		}
		_ = cmd.Wait()
	}
	b := mustOpen(t, path)
	c := sound(t, b)
	for line := range acknowledged {
		what, id, _ := strings.Cut(line, " ")
		if what == "record" {
			if _, err := b.Record(ctx, id); err != nil {
				t.Errorf("acknowledged and lost: %v", err)
			}
			continue
		}
		if points, err := b.Points(ctx, id, "loss"); err != nil || len(points) != 500 {
			t.Errorf("acknowledged and lost: 500 points of %s: %d, %v", id, len(points), err)
		}
	}
	if len(acknowledged) < 50 {
		t.Fatalf("only %d things were acknowledged", len(acknowledged))
	}
	t.Logf("%d acknowledged, %d records kept", len(acknowledged), c.Records)
}

// TestManyWriters: programs that make the file at the same moment and write at the same time.
func TestManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "logbook.db")
	const writers, rounds = 6, 20
	var all []*exec.Cmd
	var outputs []*bufio.Scanner
	for i := range writers {
		cmd, lines := writer(t, path, fmt.Sprint(i), rounds)
		all, outputs = append(all, cmd), append(outputs, lines)
	}
	for i, cmd := range all {
		for outputs[i].Scan() {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("writer %d: %v", i, err)
		}
	}
	if c := sound(t, mustOpen(t, path)); c.Records != writers*rounds || c.Points != 500*writers*rounds {
		t.Errorf("%+v", c)
	}
}

func sample(t *testing.T) []byte {
	t.Helper()
	doc, err := os.ReadFile("testdata/plain.json")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// another is the sample run with another name, changed by f.
func another(t *testing.T, name string, f func(*evidence.Run)) []byte {
	t.Helper()
	var run evidence.Run
	if err := json.Unmarshal(sample(t), &run); err != nil {
		t.Fatal(err)
	}
	run.ID = name
	if f != nil {
		f(&run)
	}
	doc, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func keep(t *testing.T, b *Book, doc []byte) string {
	t.Helper()
	id, _, err := b.Add(ctx, doc)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// dump is all that the tables say.
func dump(path string) (string, error) {
	b, err := open(path, "ro")
	if err != nil {
		return "", err
	}
	defer b.Close()
	var out strings.Builder
	for _, table := range append([]string{"content", "record", "chunk", "ledger", "sqlite_master", "link", "base",
		"base_copy", "fact",
		"figure_form", "fact_form", "fact_set", "operator_form", "finding_form", "series_form", "derived"}, tables...) {
		columns := "*"
		if table == "sqlite_master" {
			columns = "type, name, sql" // rootpage is a matter of layout
		}
		rows, err := b.db.Query("SELECT " + columns + " FROM " + table + " ORDER BY 1, 2")
		if err != nil {
			return "", err
		}
		names, _ := rows.Columns()
		for rows.Next() {
			row, into := make([]any, len(names)), make([]any, len(names))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				rows.Close()
				return "", err
			}
			fmt.Fprintf(&out, "%s %q\n", table, row)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// TestVerifyFindsAFlippedBit: bits are flipped all over the file. Wherever that changes what a reader would be told,
// Verify says so.
func TestVerifyFindsAFlippedBit(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "logbook.db")
	b := mustOpen(t, path)
	id := keep(t, b, sample(t))
	keep(t, b, another(t, "of a base", nil))
	if _, err := b.Note(ctx, time.Unix(1, 0), "a note", nil, id); err != nil {
		t.Fatal(err)
	}
	if err := b.Append(ctx, id, []Point{{"extra", 7, 0, 1.5}}); err != nil {
		t.Fatal(err)
	}
	c := sound(t, b)
	if c.Records != 3 || c.Points < 100 || c.Chunks != 1 {
		t.Fatalf("%+v", c)
	}
	if err := b.Close(); err != nil { // the write-ahead log goes into the file
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := dump(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 9))
	changed, harmless := 0, 0
	for i := range 200 {
		at := random.IntN(len(whole))
		flipped := slices.Clone(whole)
		flipped[at] ^= 1 << (i % 8)
		name := filepath.Join(folder, "flipped.db")
		if err := os.WriteFile(name, flipped, 0o644); err != nil {
			t.Fatal(err)
		}
		after, dumpErr := dump(name)
		found := false
		if b, err := OpenRead(ctx, name); err != nil {
			found = true
		} else {
			c, err := b.Verify(ctx, "")
			found = err != nil || len(c.Problems) > 0
			b.Close()
		}
		switch {
		case found:
			changed++
		case dumpErr != nil || after != before:
			t.Errorf("bit %d of byte %d changes what the tables say, and Verify does not find it", i%8, at)
		default:
			harmless++ // free space, counters
		}
		os.Remove(name + "-wal")
		os.Remove(name + "-shm")
	}
	if changed < 30 {
		t.Errorf("only %d of 200 flips were found", changed)
	}
	t.Logf("%d found, %d change nothing that is kept", changed, harmless)
}

// TestVerifyFindsWhatSQLCanDo: changes that leave the database itself in order.
func TestVerifyFindsWhatSQLCanDo(t *testing.T) {
	for _, change := range []string{
		"UPDATE figure SET value = value * 0.9 WHERE form IN (SELECT form FROM figure_form WHERE name = 'step.time')",
		"UPDATE figure SET value = 1 WHERE value IS NULL",
		"UPDATE figure_form SET basis = 'measured' WHERE basis IS NULL",
		"UPDATE figure SET told = '[\"1\"]' WHERE told IS NOT NULL",
		"UPDATE record SET torch = '2.9.0'",
		"DELETE FROM operator WHERE seq = 0",
		"UPDATE operator SET seq = -seq",
		"INSERT INTO figure(record, seq, form) VALUES(1, 999, 1)",
		"INSERT INTO figure(record, seq, form) VALUES(99, 0, 1)",
		"INSERT INTO figure_form(sum, name, unit) VALUES(x'00', 'x', 's')",
		"UPDATE fact SET value = 'x' WHERE fact_set = 1 AND seq = 0",
		"UPDATE fact SET form = form + 1 WHERE fact_set = 1 AND seq = 0",
		"DELETE FROM fact WHERE fact_set = 1",
		"DELETE FROM fact_form WHERE form = 1",
		"UPDATE facts_of SET form = form + 1 WHERE record = 1 AND seq = 0",
		"UPDATE series SET n = n + 1 WHERE seq = 0",
		"UPDATE series_form SET name = 'x' WHERE form = 1",
		"UPDATE base SET data = substr(data, 2)",
		"DELETE FROM base",
		"UPDATE base_copy SET data = x'00'",
		"DELETE FROM base_copy",
		"UPDATE base SET origin = 'x'",
		"UPDATE content SET base = 9 WHERE base > 0",
		"INSERT INTO derived VALUES(x'00', 1)",
		"UPDATE chunk SET first = first + 1 WHERE chunk = 1",
		"UPDATE chunk SET owner = (SELECT id FROM content ORDER BY rowid DESC LIMIT 1) WHERE chunk = 1",
		"DELETE FROM chunk WHERE chunk = 2",
		"DELETE FROM ledger WHERE entry = 2",
		"UPDATE link SET about = (SELECT id FROM content ORDER BY rowid DESC LIMIT 1)",
		"DELETE FROM content WHERE rowid = 1; DELETE FROM record WHERE record = 1",
		"DROP VIEW figures; CREATE VIEW figures AS SELECT 1",
		"CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM figure; END",
	} {
		path := filepath.Join(t.TempDir(), "logbook.db")
		b := mustOpen(t, path)
		id := keep(t, b, sample(t))
		keep(t, b, another(t, "of a base", nil))
		if _, err := b.Note(ctx, time.Unix(1, 0), "a note", nil, id); err != nil {
			t.Fatal(err)
		}
		if err := b.Append(ctx, id, []Point{{"extra", 7, 0, 1.5}, {"more", 7, 0, 1.5}}); err != nil {
			t.Fatal(err)
		}
		sound(t, b)
		if _, err := b.db.Exec(change); err != nil {
			t.Fatalf("%s: %v", change, err)
		}
		if c, err := b.Verify(ctx, ""); err != nil || len(c.Problems) == 0 {
			t.Errorf("%s: %v %v", change, c, err)
		}
	}
}

// TestVerifyHead: the newest record taken away with its entry leaves a sound logbook; only the hash that was noted
// before tells.
func TestVerifyHead(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	for i := range 2 {
		if _, err := b.Note(ctx, time.Unix(int64(i), 0), "a note", nil); err != nil {
			t.Fatal(err)
		}
	}
	head := sound(t, b).Head
	if _, err := b.db.Exec("DELETE FROM content WHERE rowid = 2; DELETE FROM record WHERE record = 2; DELETE FROM ledger WHERE entry = 2"); err != nil {
		t.Fatal(err)
	}
	sound(t, b)
	if c, err := b.Verify(ctx, head); err != nil || len(c.Problems) != 1 {
		t.Errorf("%v %v", c, err)
	}
}

func TestMerge(t *testing.T) {
	folder := t.TempDir()
	first, second := mustOpen(t, filepath.Join(folder, "a.db")), mustOpen(t, filepath.Join(folder, "b.db"))
	both := keep(t, first, sample(t))
	keep(t, second, sample(t))
	onlyFirst := keep(t, first, another(t, "one", nil))
	onlySecond := keep(t, second, another(t, "two", nil))
	note, err := second.Note(ctx, time.Unix(5, 0), "seen on the second machine", nil, both)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Append(ctx, onlySecond, []Point{{"extra", 1, 0, 2}}); err != nil {
		t.Fatal(err)
	}
	m, err := first.Merge(ctx, second.Path())
	if err != nil || m.Records != 2 || m.Known != 1 || m.Chunks != 1 || m.Refused != nil {
		t.Fatalf("%+v %v", m, err)
	}
	if m, err = first.Merge(ctx, second.Path()); err != nil || m.Records != 0 || m.Chunks != 0 || m.Known != 3 {
		t.Errorf("again: %+v %v", m, err)
	}
	if m, err = second.Merge(ctx, first.Path()); err != nil || m.Records != 1 {
		t.Errorf("back: %+v %v", m, err)
	}
	for _, b := range []*Book{first, second} {
		sound(t, b)
		list, err := b.List(ctx, Filter{})
		var ids []string
		for _, e := range list {
			ids = append(ids, e.ID)
		}
		want := []string{both, onlyFirst, onlySecond, note}
		slices.Sort(ids)
		slices.Sort(want)
		if err != nil || !slices.Equal(ids, want) {
			t.Errorf("%v, want %v (%v)", ids, want, err)
		}
		if points, err := b.Points(ctx, onlySecond, "extra"); err != nil || len(points) != 1 || points[0].Value != 2 {
			t.Errorf("%v %v", points, err)
		}
	}
}

// TestMergeRefusesWhatIsNotWhatItSays: a stranger's logbook.
func TestMergeRefusesWhatIsNotWhatItSays(t *testing.T) {
	folder := t.TempDir()
	mine, theirs := mustOpen(t, filepath.Join(folder, "mine.db")), mustOpen(t, filepath.Join(folder, "theirs.db"))
	good := keep(t, theirs, sample(t))
	bomb := packer.EncodeAll(make([]byte, 64<<20), nil)
	for _, change := range []struct {
		text string
		args []any
	}{
		{"INSERT INTO content(id, size, data) VALUES('" + strings.Repeat("ab", 32) + "', 3, x'00')", nil},
		{"INSERT INTO content(id, size, data) VALUES('" + strings.Repeat("cd", 32) + "', 100, ?)", []any{bomb}},
		{"INSERT INTO content(id, size, data) VALUES('../../etc/passwd', 3, x'00')", nil},
		{"INSERT INTO chunk(id, owner, name, n, first, last, data) VALUES(x'01', '" + good +
			"', 'loss', 60000, 0, 0, ?)", []any{bomb}},
		{"INSERT INTO chunk(id, owner, name, n, first, last, data) VALUES(?, '" + good + "', 'loss', 60000, 0, 0, ?)",
			[]any{chunkID(good, "loss", 60000, 0,
				0, bomb), bomb}},
	} {
		if _, err := theirs.db.Exec(change.text, change.args...); err != nil {
			t.Fatal(err)
		}
	}
	m, err := mine.Merge(ctx, theirs.Path())
	if err != nil || m.Records != 1 || len(m.Refused) != 5 {
		t.Errorf("%+v %v", m, err)
	}
	sound(t, mine)
}

// TestMergeComparesHashes: a whole document under a hash that is not its own is refused, and so are points of a record
// that is not there.
func TestMergeComparesHashes(t *testing.T) {
	folder := t.TempDir()
	mine, theirs := mustOpen(t, filepath.Join(folder, "mine.db")), mustOpen(t, filepath.Join(folder, "theirs.db"))
	good := keep(t, theirs, sample(t))
	forged, orphan := strings.Repeat("ab", 32), strings.Repeat("ef", 32)
	doc := another(t, "forged", nil)
	points := pack([]Point{{"extra", 1, 0, 2}})
	for _, change := range []struct {
		text string
		args []any
	}{
		{"INSERT INTO content(id, size, data) VALUES(?, ?, ?)", []any{forged, len(doc), packer.EncodeAll(doc, nil)}},
		{"INSERT INTO chunk(id, owner, name, n, first, last, data) VALUES(?, ?, 'extra', 1, 1, 1, ?)",
			[]any{chunkID(orphan, "extra", 1, 1, 1, points), orphan, points}},
		{"INSERT INTO chunk(id, owner, name, n, first, last, data) VALUES(?, ?, 'extra', 1, 1, 1, ?)",
			[]any{chunkID(good, "extra", 1, 1, 2, points), good, points}},
	} {
		if _, err := theirs.db.Exec(change.text, change.args...); err != nil {
			t.Fatal(err)
		}
	}
	if doc, err := theirs.Document(ctx, forged); err == nil || doc != nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("a document that is not what was kept is read: %d bytes, %v", len(doc), err)
	}
	m, err := mine.Merge(ctx, theirs.Path())
	if err != nil || m.Records != 1 || len(m.Refused) != 3 {
		t.Errorf("%+v %v", m, err)
	}
	said := strings.Join(m.Refused, "\n")
	for _, want := range []string{"record " + forged[:10], "points of " + orphan[:9], "is not what was kept"} {
		if !strings.Contains(said, want) {
			t.Errorf("it is not said that %q was refused: %s", want, said)
		}
	}
	for _, owner := range []string{good, orphan} {
		if points, err := mine.Points(ctx, owner, "extra"); len(points) != 0 {
			t.Errorf("points of %s were taken in: %v %v", owner[:6], points, err)
		}
	}
	sound(t, mine)
}

// TestAddIsWhole: where any row of a record cannot be written, Add says so and keeps nothing of it.
func TestAddIsWhole(t *testing.T) {
	for _, table := range append([]string{"content", "record", "ledger", "link", "figure_form", "fact_form",
		"fact_set", "fact",
		"operator_form", "finding_form", "series_form"}, tables...) {
		b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
		about, err := b.Note(ctx, time.Unix(0, 0), "before", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.db.Exec("CREATE TRIGGER full BEFORE INSERT ON " + table +
			" BEGIN SELECT RAISE(ABORT, 'no space left'); END"); err != nil {
			t.Fatal(err)
		}
		if table == "link" {
			_, err = b.Note(ctx, time.Unix(1, 0), "about", nil, about)
		} else {
			_, _, err = b.Add(ctx, another(t, "after", func(run *evidence.Run) {
				run.Findings = []evidence.Finding{{Name: "x", Severity: evidence.Note, Text: "x",
					Basis: evidence.Measured}}
			}))
		}
		if err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: %v", table, err)
		}
		if _, err := b.db.Exec("DROP TRIGGER full"); err != nil {
			t.Fatal(err)
		}
		if c := sound(t, b); c.Records != 1 {
			t.Errorf("%s: %d records", table, c.Records)
		}
		keep(t, b, sample(t)) // what the transaction knew of forms is not taken for there
		sound(t, b)
	}
}

// TestNotKnownIsNoPoint: −1 stands for not known in the columns of a run, and nothing is kept of it; 0 is a value.
func TestNotKnownIsNoPoint(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	id := keep(t, b, another(t, "x", func(run *evidence.Run) {
		n := 4
		run.Steps = evidence.StepSeries{Number: []int{1, 2, 3, 4}, Start: make([]float64, n),
			Total: []float64{1, 1, 1, 1}, Live: []float64{-1, 5, 0, -1},
			Pool: []float64{-1, -1, -1, -1}}
	}))
	live, err := b.Points(ctx, id, "memory.live")
	if err != nil || len(live) != 2 || live[0].Step != 2 || live[0].Value != 5 || live[1].Step != 3 ||
		live[1].Value != 0 {
		t.Errorf("memory.live: %+v %v", live, err)
	}
	if pool, err := b.Points(ctx, id, "memory.pool"); err != nil || len(pool) != 0 {
		t.Errorf("memory.pool: %+v %v", pool, err)
	}
	if total, err := b.Points(ctx, id, "step.time"); err != nil || len(total) != 4 {
		t.Errorf("step.time: %+v %v", total, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	made := func(name, text string) string {
		path := filepath.Join(folder, name)
		db, err := sql.Open("sqlite", path)
		if err == nil {
			_, err = db.Exec(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		db.Close()
		return path
	}
	newer := filepath.Join(folder, "newer.db")
	b := mustOpen(t, newer)
	if _, err := b.db.Exec(fmt.Sprintf("PRAGMA user_version=%d", len(schema())+1)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	text := filepath.Join(folder, "text.db")
	if err := os.WriteFile(text, []byte("this is no database, and somebody wants to keep it\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		newer: fmt.Sprintf("its schema is version %d, and this assay knows %d",
			len(schema())+1, len(schema())),
		made("other.db", "CREATE TABLE x(y)"):     "not a logbook of assay",
		made("app.db", "PRAGMA application_id=5"): "not a logbook of assay",
		text: "not a SQLite database",
	} {
		before, _ := os.ReadFile(path)
		for _, open := range []func(context.Context, string) (*Book, error){Open, OpenRead} {
			if b, err := open(ctx, path); err == nil || !strings.Contains(err.Error(), want) ||
				fault.HintOf(err) == "" {
				t.Errorf("%s: %v, want %q and a hint", filepath.Base(path), err, want)
				if b != nil {
					b.Close()
				}
			}
		}
		if after, _ := os.ReadFile(path); path == text && !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
	// An empty file is what a kill leaves of a logbook that was about to be made.
	empty := filepath.Join(folder, "empty.db")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	sound(t, mustOpen(t, empty))
}

// TestEarlierVersions: testdata/vN.db was made by the assay that had schema N (-update makes that of the newest, once).
// Each opens, and says what it said.
func TestEarlierVersions(t *testing.T) {
	newest := fmt.Sprintf("testdata/v%d.db", len(schema()))
	if _, err := os.Stat(newest); *update && errors.Is(err, os.ErrNotExist) {
		b := mustOpen(t, newest)
		id := keep(t, b, sample(t))
		if _, err := b.Reject(ctx, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), "more workers help", "they do not",
			id); err != nil {
			t.Fatal(err)
		}
		if err := b.Append(ctx, id, []Point{{"extra", 7, 0, 1.5}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.db.Exec("PRAGMA journal_mode=DELETE"); err != nil { // one file
			t.Fatal(err)
		}
		b.Close()
	}
	for n := 1; n <= len(schema()); n++ {
		data, err := os.ReadFile(fmt.Sprintf("testdata/v%d.db", n))
		if err != nil {
			t.Fatalf("%v (go test ./internal/logbook -run TestEarlierVersions -update makes it)", err)
		}
		path := filepath.Join(t.TempDir(), "logbook.db")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		b := mustOpen(t, path)
		sound(t, b)
		list, err := b.List(ctx, Filter{})
		if err != nil || len(list) != 2 {
			t.Fatalf("version %d: %v %v", n, list, err)
		}
		r, err := b.Record(ctx, list[slices.IndexFunc(list, func(e Entry) bool { return e.Kind == KindRejection })].ID)
		if err != nil || r.Title != "more workers help" || r.Because() != "they do not" {
			t.Errorf("version %d: %+v %v", n, r, err)
		}
		doc, err := b.Document(ctx, r.About[0])
		if err != nil || !bytes.Equal(doc, sample(t)) {
			t.Errorf("version %d: the evidence is not what was kept (%v)", n, err)
		}
		if p, err := b.Points(ctx, r.About[0], "extra"); err != nil || len(p) != 1 || p[0].Value != 1.5 {
			t.Errorf("version %d: %v %v", n, p, err)
		}
	}
}

// TestMigrate: the mechanism, with migrations that there are not yet.
func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logbook.db")
	b := mustOpen(t, path)
	id := keep(t, b, sample(t))
	want, err := dump(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := append(slices.Clone(schema()), "CREATE TABLE added(x); CREATE TABLE added(x);")
	if err := b.migrate(ctx, broken); err == nil {
		t.Fatal("a migration that fails half way was taken for done")
	}
	if got, err := dump(path); err != nil || got != want {
		t.Errorf("a migration that failed left something: %v", err)
	}
	// The tables are made again from the documents: what stood in them does not matter.
	if _, err := b.db.Exec("DELETE FROM figure; UPDATE record SET torch = 'wrong'"); err != nil {
		t.Fatal(err)
	}
	more := append(slices.Clone(schema()), reproject+"\nCREATE TABLE added(x);")
	if err := b.migrate(ctx, more); err != nil {
		t.Fatal(err)
	}
	var version, n int
	var torch string
	if err := b.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != len(more) {
		t.Errorf("version %d, %v", version, err)
	}
	if err := b.db.QueryRow("SELECT count(*) FROM added").Scan(&n); err != nil {
		t.Error(err)
	}
	if err := b.db.QueryRow("SELECT torch, (SELECT count(*) FROM figures f WHERE f.id = r.id) FROM runs r WHERE id = ?",
		id).Scan(&torch,
		&n); err != nil || torch == "wrong" || n < 20 {
		t.Errorf("%s, %d figures, %v", torch, n, err)
	}
	if _, err := Open(ctx, path); err == nil {
		t.Error("a logbook newer than the program was opened")
	}
}

func TestResolve(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	var ids []string
	byPrefix := map[string][]string{}
	for i := range 400 {
		id, err := b.Note(ctx, time.Unix(int64(i), 0), "n", nil)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		byPrefix[id[:4]] = append(byPrefix[id[:4]], id)
	}
	run := keep(t, b, another(t, "20261121-train-1f2e3d", nil))
	for prefix, of := range byPrefix {
		got, err := b.Resolve(ctx, prefix)
		if len(of) == 1 && !strings.HasPrefix(run, prefix) && (err != nil || got != of[0]) {
			t.Errorf("%s: %s %v", prefix, got, err)
		}
		if len(of) > 1 && (err == nil || !strings.Contains(fault.HintOf(err), of[0][:16]) ||
			!strings.Contains(fault.HintOf(err), of[1][:16])) {
			t.Errorf("%s names %d records: %q %v %s", prefix, len(of), got, err, fault.HintOf(err))
		}
	}
	for word, want := range map[string]string{ids[0]: ids[0], strings.ToUpper(ids[1][:20]): ids[1],
		"20261121-train-1f2e3d": run} {
		if got, err := b.Resolve(ctx, word); err != nil || got != want {
			t.Errorf("%s: %s %v", word, got, err)
		}
	}
	for _, word := range []string{"", "f", "%", "zzzz", "' OR 1=1 --", strings.Repeat("0", 64)} {
		if got, err := b.Resolve(ctx, word); err == nil {
			t.Errorf("%q found %s", word, got)
		}
	}
}

func TestQuery(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logbook.db")
	w := mustOpen(t, path)
	id := keep(t, w, sample(t))
	b, err := OpenRead(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	table, err := b.Query(ctx, "SELECT name, torch, batch, peak_basis FROM runs", 10)
	if err != nil || len(table.Rows) != 1 || table.Rows[0][1] != "2.3.1+cu121" || table.Rows[0][3] != "measured" {
		t.Errorf("%+v %v", table, err)
	}
	// The points are those of the evidence.
	var run evidence.Run
	if err := json.Unmarshal(sample(t), &run); err != nil {
		t.Fatal(err)
	}
	table, err = b.Query(ctx, "SELECT step, value FROM points WHERE id = '"+id+"' AND name = 'loss' ORDER BY step", 1e6)
	if err != nil || len(table.Rows) != len(run.Loss.Step) {
		t.Fatalf("%v %v", table, err)
	}
	for i, row := range table.Rows {
		if row[0] != int64(run.Loss.Step[i]) || row[1] != *run.Loss.Value[i] {
			t.Fatalf("point %d: %v", i, row)
		}
	}
	if table, err = b.Query(ctx, "SELECT * FROM points", 5); err != nil || len(table.Rows) != 5 || !table.Cut {
		t.Errorf("%d rows, cut %v, %v", len(table.Rows), table.Cut, err)
	}
	for text, hint := range map[string]string{"": "SELECT * FROM runs",
		"PRAGMA user_version=9":      "nothing in a logbook is ever changed",
		"SELECT zeroblob(900000000)": "at a time", "SELECT " + strings.Repeat("zeroblob(8000000), ", 64) +
			"1": "the views are"} {
		if _, err := b.Query(ctx, text, 10); err == nil || !strings.Contains(fault.HintOf(err), hint) ||
			fault.CodeOf(err) != fault.Usage {
			t.Errorf("%.40q: %v (%s)", text, err, fault.HintOf(err))
		}
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.db")
	for _, text := range []string{"DELETE FROM record", "PRAGMA query_only=0; DELETE FROM record",
		"SELECT 1; DROP TABLE record", "ATTACH '" + other +
			"' AS o",
		"VACUUM INTO '" + other +
			"'", "CREATE TEMP TABLE x AS SELECT 1", "PRAGMA user_version=9",
		"PRAGMA journal_mode=DELETE; DELETE FROM record", "SELECT load_extension('x')",
		"SELECT zeroblob(900000000)"} {
		_, _ = b.Query(ctx, text, 10)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a query changed the file (%v)", err)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a query made another file")
	}
	limited, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := b.Query(limited, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c", 1); err == nil ||
		!strings.Contains(err.Error(), "time") {
		t.Errorf("a query without end: %v", err)
	}
	over, stop := context.WithTimeout(ctx, -1) // the time was over before the query began
	defer stop()
	if _, err := b.Query(over, "SELECT 1", 1); err == nil || !strings.Contains(err.Error(), "in the time allowed") {
		t.Errorf("a query without time: %v", err)
	}
}

func TestPack(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 3, 1000, maxChunk} {
		var points []Point
		for i := range n {
			p := Point{Step: int64(i), Time: 1795244100000 + int64(i)*31, Value: random.NormFloat64()}
			if i%97 == 5 {
				p = Point{Step: int64(random.Uint64()), Time: int64(random.Uint64()),
					Value: []float64{math.NaN(), math.Inf(-1), math.MaxFloat64, math.Copysign(0,
						-1)}[i%4]}
			}
			points = append(points, p)
		}
		got, err := unpack(pack(points), n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i].Step != points[i].Step || got[i].Time != points[i].Time ||
				math.Float64bits(got[i].Value) != math.Float64bits(points[i].Value) {
				t.Fatalf("point %d of %d: %v, was %v", i, n, got[i], points[i])
			}
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(pack([]Point{{Step: 1, Value: 2}, {Step: 2, Value: 3}}), 2)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		if points, err := unpack(data, n); err == nil && len(points) != n {
			t.Errorf("%d points, %d said", len(points), n)
		}
	})
}

// scaled is the sample with all its times longer by a ratio, as a run with that much noise would have them.
func scaled(t *testing.T, name string, ratio float64, f func(*evidence.Run)) []byte {
	return another(t, name, func(run *evidence.Run) {
		for i := range run.Figures {
			if fig := &run.Figures[i]; fig.Unit == "s" && fig.Value != nil {
				v := *fig.Value * ratio
				fig.Value = &v
			}
		}
		if f != nil {
			f(run)
		}
	})
}

func stepChange(d *Diff) FigureChange {
	return d.Figures[slices.IndexFunc(d.Figures, func(f FigureChange) bool { return f.Name == "step.time" })]
}

// TestDiffByRuns: five runs a side whose times scatter by 2 %. A slow-down of 10 % is found, and of pairs without any
// at most one in ten is called one. The interval of the change is one of 95 %: it holds the true one in nine of ten
// trials at least, and is no wider than such a scatter makes it.
func TestDiffByRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 5))
	group := func(slower float64) *Group {
		g := &Group{Like: map[string][]float64{}}
		for i := range 5 {
			var run evidence.Run
			if err := json.Unmarshal(scaled(t, fmt.Sprint(i), slower*math.Exp(0.02*random.NormFloat64()), nil),
				&run); err != nil {
				t.Fatal(err)
			}
			g.IDs, g.Runs = append(g.IDs, fmt.Sprint(i)), append(g.Runs, &run)
		}
		return g
	}
	found, wrong, held := 0, 0, 0
	const trials = 40
	for range trials {
		a := group(1)
		slow := stepChange(Compare(a, group(1.1)))
		if !slow.Noise {
			found++
		}
		switch {
		case slow.Low == nil || slow.High == nil || *slow.High-*slow.Low > 0.3:
			t.Fatalf("no interval, or a wide one: %+v", slow)
		case *slow.Low <= 0.1 && 0.1 <= *slow.High:
			held++
		}
		if !stepChange(Compare(a, group(1))).Noise {
			wrong++
		}
	}
	if held < trials*9/10 {
		t.Errorf("of %d intervals %d hold the change that was made", trials, held)
	}
	if found < trials*9/10 || wrong > trials/10 {
		t.Errorf("of %d slow-downs %d found; of %d pairs that are alike %d called different", trials, found, trials,
			wrong)
	}
}

func TestDiff(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	x := keep(t, b, another(t, "x", nil))
	change := func(run *evidence.Run) {
		run.Target.Release = "2.4.0"
		run.Provenance.Commit = "feedbeef"
		run.Provenance.Packages = append(run.Provenance.Packages[1:], "newcomer==1.0")
		run.Operators = append(run.Operators[1:], evidence.Operator{Name: "aten::newcomer", Calls: 3})
		run.Provenance.Environment["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"
	}
	y := keep(t, b, scaled(t, "y", 1.1, change))
	diff := func(x, y string) *Diff {
		t.Helper()
		p, err := b.Group(ctx, x)
		if err != nil {
			t.Fatal(err)
		}
		q, err := b.Group(ctx, y)
		if err != nil {
			t.Fatal(err)
		}
		return Compare(p, q)
	}
	var run evidence.Run
	if err := json.Unmarshal(sample(t), &run); err != nil {
		t.Fatal(err)
	}
	d := diff(x, y)
	said := fmt.Sprint(d.Environment, d.Operators)
	gone, _, _ := strings.Cut(run.Provenance.Packages[0], "==")
	for _, want := range []string{"{target torch 2.3.1+cu121 2.4.0}", "feedbeef}", "{package newcomer  1.0}",
		"{package " + gone + " ",
		"{environment PYTORCH_ENABLE_MPS_FALLBACK  1}",
		"{" + run.Operators[0].Name + " vanished", "{aten::newcomer appeared"} {
		if !strings.Contains(said, want) {
			t.Errorf("the difference does not say %q: %s", want, said)
		}
	}
	if len(d.Environment) != 5 || len(d.Operators) != 2 {
		t.Errorf("more than what changed: %s", said)
	}
	if f := stepChange(d); math.Abs(f.Change-0.1) > 1e-9 || !f.Noise {
		t.Errorf("with one run a side 10 %% may be noise: %+v", f)
	}
	// More runs made like x, which scatter little: now the same difference is told from noise.
	for i, noise := range []float64{1.01, 0.99, 1.005, 0.995} {
		keep(t, b, scaled(t, fmt.Sprint("like", i), noise, nil))
	}
	if f := stepChange(diff(x, y)); f.Noise || f.P > 0.05 || f.Low == nil || *f.Low < 0.05 || *f.High > 0.15 {
		t.Errorf("five runs differ by 1 %%, and this one by 10 %%: %+v", f)
	}
	// The same run against itself.
	if d := diff(x, x); len(d.Environment) != 0 || len(d.Operators) != 0 || stepChange(d).Noise ||
		stepChange(d).Change != 0 {
		t.Errorf("a run against itself: %+v", d)
	}
}

// TestGroupTakesRunsThatAreAlike: the noise of a figure is taken from runs of the same source that are alike and ended
// well, from undisturbed figures, and from the newest, however many others a team keeps.
func TestGroupTakesRunsThatAreAlike(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	first := keep(t, b, another(t, "first", nil))
	step := func(value float64, f func(*evidence.Run)) func(*evidence.Run) {
		return func(run *evidence.Run) {
			for i := range run.Figures {
				if run.Figures[i].Name == "step.time" {
					run.Figures[i].Value = &value
				}
			}
			if f != nil {
				f(run)
			}
		}
	}
	keep(t, b, another(t, "alike, elsewhere on the disk", step(1, func(run *evidence.Run) {
		run.Subject.Script = "/srv/" + run.Subject.Script[strings.LastIndex(run.Subject.Script, "/")+1:]
	})))
	for name, f := range map[string]func(*evidence.Run){
		"command": func(run *evidence.Run) { run.Subject.Command = append(run.Subject.Command, "--fast") },
		"device":  func(run *evidence.Run) { run.Target.Device = "mps" },
		"release": func(run *evidence.Run) { run.Target.Release = "1.0" },
		"batch":   func(run *evidence.Run) { run.Provenance.Datasets[0].Batch++ },
		"workers": func(run *evidence.Run) { run.Provenance.Datasets[0].Workers++ },
		"commit":  func(run *evidence.Run) { run.Provenance.Commit = "feedbeef" },
		"copy":    func(run *evidence.Run) { run.Provenance.Dirty = "dirty (1 file)" },
		"python":  func(run *evidence.Run) { run.Target.Python = "3.99.0" },
		"failed":  func(run *evidence.Run) { run.Outcome.Exit = 1 },
		"disturbed": func(run *evidence.Run) {
			for i := range run.Figures {
				run.Figures[i].Disturbed = "cpu contention"
			}
		},
	} {
		keep(t, b, another(t, name, step(9, f)))
	}
	for i := range evidence.MostAlike {
		keep(t, b, another(t, fmt.Sprint("theirs ", i), step(9, func(run *evidence.Run) {
			run.Started, run.Target.Release = run.Started.Add(time.Duration(i+1)*time.Hour), "1.0"
		})))
	}
	g, err := b.Group(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	own := *g.Runs[0].Figure("step.time").Value
	got := slices.Sorted(slices.Values(g.Like["step.time"]))
	if want := slices.Sorted(slices.Values([]float64{own, 1})); !slices.Equal(got, want) {
		t.Errorf("the step times of runs like it are %v, want %v", got, want)
	}
	for i := range evidence.MostAlike + 3 {
		keep(t, b, another(t, fmt.Sprint("ours ", i), step(2,
			func(run *evidence.Run) { run.Started = run.Started.Add(time.Duration(i+1) * time.Hour) })))
	}
	if g, err = b.Group(ctx, first); err != nil || len(g.Like["step.time"]) != evidence.MostAlike ||
		slices.Contains(g.Like["step.time"], 1) {
		t.Errorf("%d step times, %v: want the newest %d", len(g.Like["step.time"]), g.Like["step.time"],
			evidence.MostAlike)
	}
}

func TestPast(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	keep(t, b, another(t, "older", nil))
	keep(t, b, another(t, "newer", func(run *evidence.Run) { run.Started = run.Started.Add(time.Hour) }))
	keep(t, b, another(t, "elsewhere", func(run *evidence.Run) { run.Target.Device = "mps" }))
	keep(t, b, another(t, "something else", func(run *evidence.Run) { run.Subject.Script = "other.py" }))
	var run evidence.Run
	if err := json.Unmarshal(sample(t), &run); err != nil {
		t.Fatal(err)
	}
	past, ids, err := b.Past(t.Context(), &run)
	if err != nil || len(past) != 3 || len(ids) != 3 {
		t.Fatalf("%d runs, %v", len(past), err)
	}
	for i := range past { // whatever the device, and no other script; the newest first
		if (past[i].ID == "newer") != (i == 0) || past[i].ID == "something else" {
			t.Errorf("%d: %s", i, past[i].ID)
		}
		if kept, err := b.Run(t.Context(), ids[i]); err != nil || kept.ID != past[i].ID {
			t.Errorf("record %s is %v, not %s: %v", ids[i], kept, past[i].ID, err)
		}
	}
}

// TestPastOfATeam: however many newer runs of other machines there are, those of this one are found.
func TestPastOfATeam(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	keep(t, b, another(t, "ours", nil))
	for i := range mostPast + 5 {
		keep(t, b, another(t, fmt.Sprintf("theirs-%d", i), func(run *evidence.Run) {
			run.Started = run.Started.Add(time.Duration(i+1) * time.Hour)
			run.Target.Release = "1.0"
		}))
	}
	var run evidence.Run
	if err := json.Unmarshal(sample(t), &run); err != nil {
		t.Fatal(err)
	}
	past, _, err := b.Past(t.Context(), &run)
	if err != nil || len(past) != mostPast || past[mostPast-1].ID != "ours" {
		t.Errorf("%d runs, the last %s, %v", len(past), past[len(past)-1].ID, err)
	}
}

func TestMarkdown(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	id := keep(t, b, sample(t))
	failed := keep(t, b, another(t, "failed", func(run *evidence.Run) {
		run.Started = run.Started.Add(time.Hour)
		run.Outcome.Exit, run.Outcome.Error = 1, "RuntimeError: <script>alert(1)</script>\n# not a heading | `x`"
		run.Figures = []evidence.Figure{evidence.Unknown("step.time", "s", "ended before its first step")}
	}))
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	if _, err := b.Note(ctx, at, "", map[string]string{"project": "Object Detection", "task": "Detection",
		"architecture": "YOLOv8",
		"issue":        "Initially tried Faster RCNN, got ROI operation error",
		"solution":     "Switched to YOLO, trained successfully"}, id); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reject(ctx, at, "pin_memory makes copies faster", "no difference over five runs", id,
		failed); err != nil {
		t.Fatal(err)
	}
	list, err := b.List(ctx, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := b.Markdown(ctx, &out, list); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/notes.md.golden"
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Error(d)
	}
}

func TestParquet(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	id := keep(t, b, sample(t))
	var run evidence.Run
	if err := json.Unmarshal(sample(t), &run); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := b.FiguresParquet(ctx, &out, []string{id}); err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.Read[FigureRow](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(rows) != len(run.Figures) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, r := range rows {
		f := run.Figures[i]
		if r.Name != f.Name || r.Unit != f.Unit || r.Basis != string(f.Basis) || r.Missing != f.Missing ||
			(r.Value == nil) != (f.Value == nil) ||
			r.Value != nil && *r.Value != *f.Value {
			t.Errorf("%+v, kept %+v", r, f)
		}
	}
	out.Reset()
	if err := b.PointsParquet(ctx, &out, []string{id}); err != nil {
		t.Fatal(err)
	}
	points, err := parquet.Read[PointRow](bytes.NewReader(out.Bytes()), int64(out.Len()))
	want, _ := b.Points(ctx, id, "")
	if err != nil || len(points) != len(want) {
		t.Fatalf("%d points of %d, %v", len(points), len(want), err)
	}
	for i, p := range points {
		if p.Name != want[i].Name || p.Step != want[i].Step || p.Time != want[i].Time || p.Value != want[i].Value {
			t.Fatalf("%+v, kept %+v", p, want[i])
		}
	}
}

func TestCSVIsNoFormula(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	id := keep(t, b, another(t, "=cmd|'/c calc'!A1", nil))
	var out strings.Builder
	if err := b.FiguresCSV(ctx, &out, []string{id}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), ",=cmd") || !strings.Contains(out.String(), "'=cmd") {
		t.Error("a run's name is a formula")
	}
}

func TestAddRefuses(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	for _, doc := range []string{"", "[]", "{}", `{"schema":"assay.evidence/9"}`, `{"schema":"assay.record/1"}`,
		`{"schema":"assay.record/1","kind":"run","at":"2026-01-01T00:00:00Z"}`,
		`{"schema":"assay.record/1","kind":"../x","at":"2026-01-01T00:00:00Z"}`,
		`{"schema":"assay.record/1","kind":"note","about":["x"]}`, `{"schema":"assay.evidence/1","figures":"x"}`} {
		if id, _, err := b.Add(ctx, []byte(doc)); err == nil {
			t.Errorf("%s was kept as %s", doc, id)
		}
	}
	if err := b.Append(ctx, strings.Repeat("0", 64), []Point{{"x", 1, 1, 1}}); err == nil {
		t.Error("points were kept of a record that there is not")
	}
	if c := sound(t, b); c.Records != 0 || c.Chunks != 0 {
		t.Errorf("%+v", c)
	}
}

// TestManyGoroutines: one program's goroutines share a Book, and merging goes on meanwhile.
func TestManyGoroutines(t *testing.T) {
	folder := t.TempDir()
	b, other := mustOpen(t, filepath.Join(folder, "a.db")), mustOpen(t, filepath.Join(folder, "b.db"))
	keep(t, other, sample(t))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5 {
				id, err := b.Note(ctx, time.Unix(int64(j), 0), fmt.Sprintf("%d of %d", j, i), nil)
				if err == nil {
					err = b.Append(ctx, id, []Point{{"loss", 1, 2, 3}})
				}
				if err == nil && j == 2 {
					_, err = b.Merge(ctx, other.Path())
				}
				if err == nil {
					_, err = b.List(ctx, Filter{})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if c := sound(t, b); c.Records != 41 {
		t.Errorf("%+v", c)
	}
}

// interrupted lets something happen between two queries.
type interrupted struct {
	queryer
	calls   int
	between func()
}

func (q *interrupted) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if q.calls++; q.calls == 2 {
		q.between()
	}
	return q.queryer.QueryRowContext(ctx, query, args...)
}

// TestMadeMeanwhile: a logbook that another process makes while this one looks at the file is found empty or whole, and
// not taken for somebody else's.
func TestMadeMeanwhile(t *testing.T) {
	for i := range 12 {
		path := filepath.Join(t.TempDir(), fmt.Sprint(i, ".db"))
		b, err := open(path, "rwc")
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		version, err := b.version(ctx, &interrupted{queryer: b.db, between: func() { mustOpen(t, path) }})
		if err != nil || version != 0 && version != len(schema()) {
			t.Errorf("version %d, %v", version, err)
		}
	}
}

// TestWeighed: a document that would be hundreds of times as large in memory is refused before anything is made of it.
func TestWeighed(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	bomb := []byte(`{"schema":"` + evidence.Schema + `","figures":[` + strings.Repeat("{},", maxObjects) + `{}]}`)
	if _, _, err := b.Add(ctx, bomb); err == nil || !strings.Contains(err.Error(), "objects") {
		t.Errorf("%v", err)
	}
	if objects, values := weigh([]byte(`{"a,{": "b\",{", "c": [1, 2]}`)); objects != 1 || values != 3 {
		t.Errorf("%d objects, %d values", objects, values)
	}
}

// TestNotesOfACutOffRun: where assay itself was killed nobody knows whether the script failed.
func TestNotesOfACutOffRun(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	keep(t, b, another(t, "cut", func(run *evidence.Run) {
		run.Outcome = evidence.Outcome{Started: true, Exit: -1, Reason: "assay itself was ended before the run was"}
	}))
	list, err := b.List(ctx, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := b.Markdown(ctx, &out, list); err != nil || strings.Contains(out.String(), "Failed") ||
		!strings.Contains(out.String(), "nobody saw how it ended") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestOtherKinds: evidence of a kind that this logbook has never heard of is kept by its envelope, with figures told
// apart by their labels; what does not say what and when it is, is not.
func TestOtherKinds(t *testing.T) {
	ctx := t.Context()
	b := mustOpen(t, filepath.Join(t.TempDir(), "l.db"))
	doc := evidence.Document[map[string]int]{Envelope: evidence.NewEnvelope("sweep"), Body: map[string]int{"tried": 2}}
	doc.ID, doc.Started, doc.Subject.Script = "sweep-1", time.Unix(1000, 0), "/p/train.py"
	for _, batch := range []string{"16", "32"} {
		fig := evidence.Known("step.time", 0.1, "s", evidence.Measured)
		fig.Labels = evidence.Labels{"batch": batch}
		doc.Figures = append(doc.Figures, fig)
	}
	doc.Findings = append(doc.Findings, evidence.Finding{Name: "too-large", Severity: evidence.Note,
		Text: "64 does not fit", Basis: evidence.Measured})
	add := func(doc any) (string, error) {
		data, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		id, _, err := b.Add(ctx, data)
		return id, err
	}
	id, err := add(doc)
	if err != nil {
		t.Fatal(err)
	}
	list, err := b.List(ctx, Filter{})
	if err != nil || len(list) != 1 || list[0].Kind != "sweep" || list[0].ID != id {
		t.Errorf("%+v, %v", list, err)
	}
	rows, err := b.db.QueryContext(ctx, "SELECT name FROM figures UNION SELECT text FROM findings ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil || fmt.Sprint(names) != "[64 does not fit step.time{batch=16} step.time{batch=32}]" {
		t.Errorf("%q, %v", names, err)
	}
	if _, err := b.Run(ctx, id); err == nil {
		t.Error("a sweep was taken for a run")
	}
	for name, change := range map[string]func(*evidence.Envelope){
		"no kind":         func(e *evidence.Envelope) { e.Kind = "" },
		"no word":         func(e *evidence.Envelope) { e.Kind = "../x" },
		"a record's kind": func(e *evidence.Envelope) { e.Kind = KindNote },
		"no time":         func(e *evidence.Envelope) { e.Started = time.Time{} },
	} {
		other := doc
		change(&other.Envelope)
		if _, err := add(other); err == nil {
			t.Errorf("%s: kept", name)
		}
	}
	sound(t, b)
}

// TestLoggedCurves: what a script logged itself is a series of its record, by door and name, with the steps of the run;
// a name that is too long is kept as far as it can be, and a value that was not finite is no number.
func TestLoggedCurves(t *testing.T) {
	long, half := strings.Repeat("é", 200), 0.5
	b := mustOpen(t, filepath.Join(t.TempDir(), "logbook.db"))
	id := keep(t, b, another(t, "curves", func(run *evidence.Run) {
		run.Logged = []evidence.Series{{Door: "W&B", Name: "val/acc", Step: []int{2, 4}, Value: []*float64{&half, nil}},
			{Door: "MLflow", Name: long, Step: []int{1}, Value: []*float64{&half}}}
	}))
	points, err := b.Points(ctx, id, "W&B/val/acc")
	if err != nil || len(points) != 2 || points[0].Step != 2 || points[0].Value != half ||
		!math.IsNaN(points[1].Value) {
		t.Errorf("%+v %v", points, err)
	}
	if points, err = b.Points(ctx, id, "MLflow/"+long[:2*121]); err != nil || len(points) != 1 {
		t.Errorf("%+v %v", points, err)
	}
	sound(t, b)
}
