package logbook

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/evidence"
)

// TestColumns: whatever the numbers of a document look like, it comes back byte for byte.
func TestColumns(t *testing.T) {
	list := func(numbers ...string) string { return "[" + strings.Join(numbers, ",\n  ") + "]" }
	many := func(number string) string { return list(slices.Repeat([]string{number}, 40)...) }
	docs := []string{``, `{}`, `1`, `[1,2]`, `{"a": -1}`, `{"a": 1, "a": 2}`, "[1,2\n,3]", `{"a`, `{"a\`, `"`,
		`1e`, `--1`, `{"name": "x", "v": 1}`,
		many("0"), many("-0"), many("0.10"), many("1e5"), many("1E-7"), many("1e-7"), many("5.6e-9"),
		many("1e-07"), many("1e400"), many("9223372036854775807"),
		many("-9223372036854775808"), many("18446744073709551616"), many("0.1234567890123456789"),
		many("1.7976931348623157e308"), many("5e-324"),
		many("2.302585124969482"), many("-2.302585124969482"), many("1e21"), many("1000000000000000000000"),
		many("0.000001"), many("0.0000001"), many("00"), many("1.50"),
		list("1", "-1", "9007199254740993", "0.5", "-3", "1e-9", "3", "4", "5"), list("9223372036854775807",
			"-9223372036854775807", "1", "2", "3", "4", "5", "6", "7"),
		`{"a": "1 2 3", "b\"": 7, "name": "c\\", "d": [7, 8,  9, 10]}`, "{\"a\": \"\x01\"}", "[1, \x02]", strings.Repeat("[", 100) + "7" + strings.Repeat("]", 100)}
	random := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		var numbers []string
		scale := random.IntN(19)
		for range 1 + random.IntN(60) {
			v := random.Int64() >> random.IntN(64)
			numbers = append(numbers, string(appendDecimal(nil, v, random.IntN(1+scale))))
		}
		docs = append(docs, fmt.Sprintf(`{"x": %d, "y": %s}`, random.IntN(9), list(numbers...)))
	}
	docs = append(docs, string(sample(t)))
	c := newCorpus(t, "digits", "plain", "rehearsal")
	for i := range 6 {
		docs = append(docs, string(c.run(i)))
	}
	apart := 0
	for _, doc := range docs {
		head, tail, ok := takeApart([]byte(doc))
		if !ok {
			continue
		}
		got, err := putTogether(slices.Concat(head, tail), len(doc))
		if err != nil || string(got) != doc {
			t.Errorf("%.80q came back as %.80q (%v)", doc, got, err)
		}
		apart++
	}
	if apart < len(docs)-4 {
		t.Errorf("only %d of %d documents were taken apart", apart, len(docs))
	}
}

// FuzzPutTogether: what a stranger's columns say is refused, or is a document of the size that was said; a document
// that was taken apart comes back.
func FuzzPutTogether(f *testing.F) {
	head, tail, _ := takeApart([]byte(`{"name": "a", "v": [1, 2, 3, 0.5, 7, 8, 9, 10, 11], "w": 1e-9}`))
	f.Add(slices.Concat(head, tail), 60)
	f.Add([]byte{3, manyNumbers, 0xff, 1}, 1<<20)
	f.Fuzz(func(t *testing.T, parts []byte, size int) {
		if size < 0 || size > 1<<20 {
			return
		}
		if doc, err := putTogether(parts, size); err == nil && len(doc) != size {
			t.Errorf("%d bytes, and not %d", len(doc), size)
		}
		if head, tail, ok := takeApart(parts); ok {
			if doc, err := putTogether(slices.Concat(head, tail), len(parts)); err == nil && !bytes.Equal(doc, parts) {
				t.Errorf("%q came back as %q", parts, doc)
			}
		}
	})
}

// likeRuns keeps so many runs that are alike; the second is the base's origin.
func likeRuns(t *testing.T, b *Book, n int) (ids []string) {
	t.Helper()
	c := newCorpus(t, "plain")
	for i := range n {
		doc := bytes.ReplaceAll(c.run(7), []byte("-train-000007"), fmt.Appendf(nil, "-train-%06d", i))
		ids = append(ids, keep(t, b, bytes.ReplaceAll(doc, []byte("home/ada"), fmt.Appendf(nil, "home/of%04dada", i))))
	}
	return ids
}

func origin(t *testing.T, b *Book) (base int64, id string) {
	t.Helper()
	if err := b.db.QueryRow("SELECT base, origin FROM base").Scan(&base, &id); err != nil {
		t.Fatal(err)
	}
	return base, id
}

// TestForgetABase: the record that a base was taken from goes, and what was its own is nowhere: not in the base, not in
// a form, not in a set. Those that leaned on it stay as they are.
func TestForgetABase(t *testing.T) {
	for name, f := range map[string]func(id string) Forgetting{
		"whole": func(id string) Forgetting {
			return Forgetting{Records: []string{id}, At: time.Now(), Because: "private"}
		},
		"a value": func(string) Forgetting { return without("of0001ada") },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			b := mustOpen(t, path)
			ids := likeRuns(t, b, 5)
			_, from := origin(t, b)
			if from != ids[1] || !leaves(t, path, "of0001ada") {
				t.Fatal("the base is another's: this tests nothing")
			}
			docs := map[string][]byte{}
			for _, id := range ids {
				docs[id], _ = b.Document(ctx, id)
			}
			done, err := b.Forget(ctx, f(ids[1]))
			if err != nil || len(done.Gone)+len(done.Changed) != 1 {
				t.Fatalf("%+v %v", done, err)
			}
			if leaves(t, path, "of0001ada") {
				t.Error("it is still there")
			}
			c := sound(t, b)
			if c.Records+len(done.Gone) != 5 {
				t.Errorf("%+v", c)
			}
			for _, id := range ids {
				if doc, err := b.Document(ctx, id); id != ids[1] && (err != nil || !bytes.Equal(doc, docs[id])) {
					t.Errorf("%s: %v", short(id), err)
				}
			}
			if _, from := origin(t, b); from == ids[1] {
				t.Error("the base is still of the record that is gone")
			}
		})
	}
}

// TestForgetAllThatLean: with the last record of them the base and the forms go.
func TestForgetAllThatLean(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	if _, err := b.Forget(ctx, Forgetting{Records: likeRuns(t, b, 3), At: time.Now(), Because: "private"}); err != nil {
		t.Fatal(err)
	}
	sound(t, b)
	for _, table := range []string{"base", "base_copy", "content", "record", "figure", "figure_form", "fact",
		"fact_form", "fact_set",
		"facts_of", "operator", "operator_form", "finding_form", "series", "series_form"} {
		var n int
		if err := b.db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil || n > 0 {
			t.Errorf("%d rows in %s (%v)", n, table, err)
		}
	}
}

// TestDamagedBase: of a base and its copy either is enough. Where both are damaged, those that lean on them are lost,
// each is named, and nothing else is.
func TestDamagedBase(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	ids := likeRuns(t, b, 4)
	note, err := b.Note(ctx, time.Unix(1, 0), "a note", nil, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	cold := func() { // what this process holds of bases is no part of the file
		dictionaries.Lock()
		clear(dictionaries.of)
		dictionaries.order = nil
		dictionaries.Unlock()
	}
	damage := func(table string) {
		if _, err := b.db.Exec("UPDATE " + table + " SET data = substr(data, 1, length(data)/2) || x'00' || substr(data, length(data)/2 + 2)"); err != nil {
			t.Fatal(err)
		}
		cold()
	}
	damage("base")
	for _, id := range ids {
		if _, err := b.Document(ctx, id); err != nil {
			t.Error(err)
		}
	}
	c, err := b.Verify(ctx, "")
	if err != nil || len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "its copy is whole, and the 3 records") {
		t.Errorf("%q %v", c.Problems, err)
	}
	keep(t, b, another(t, "kept meanwhile", nil))
	damage("base_copy")
	if c, err = b.Verify(ctx, ""); err != nil || len(c.Problems) != 5 || !strings.Contains(c.Problems[0],
		"4 records lean on it and cannot be read") {
		t.Errorf("%q %v", c.Problems, err)
	}
	for i, id := range ids {
		if _, err := b.Document(ctx, id); (err != nil) != (i > 0) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := b.Document(ctx, note); err != nil {
		t.Error(err)
	}
	// A new run does not lean on what is damaged.
	last := keep(t, b, newCorpus(t, "plain").run(7))
	if _, err := b.Document(ctx, last); err != nil {
		t.Error(err)
	}
	// Another logbook takes what there is, and says what it does not.
	other := mustOpen(t, filepath.Join(t.TempDir(), "b.db"))
	if m, err := other.Merge(ctx, b.Path()); err != nil || m.Records != 3 || len(m.Refused) != 4 {
		t.Errorf("%+v %v", m, err)
	}
	sound(t, other)
}

// TestManyLean: no more lean on one base than is said.
func TestManyLean(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	likeRuns(t, b, 3)
	base, _ := origin(t, b)
	if _, err := b.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?)
		INSERT INTO content(id, size, base, data) SELECT printf('%064x', i), 1, ?, x'00' FROM n`, mostLeaning, base); err != nil {
		t.Fatal(err)
	}
	id := keep(t, b, newCorpus(t, "plain").run(7))
	var on int64
	if err := b.db.QueryRow("SELECT base FROM content WHERE id = ?", id).Scan(&on); err != nil || on == base ||
		on == 0 {
		t.Errorf("it leans on %d: %v", on, err)
	}
}

// TestMergeOfBases: what leans on a base is taken in, whatever leans on what here; a base that is not what it says, or
// asks for more than it may, is refused with those that lean on it, and takes no memory.
func TestMergeOfBases(t *testing.T) {
	mine := mustOpen(t, filepath.Join(t.TempDir(), "mine.db"))
	theirs := mustOpen(t, filepath.Join(t.TempDir(), "theirs.db"))
	likeRuns(t, mine, 1)
	ids := likeRuns(t, theirs, 4)
	if m, err := mine.Merge(ctx, theirs.Path()); err != nil || m.Records != 3 || m.Known != 1 || len(m.Refused) > 0 {
		t.Fatalf("%+v %v", m, err)
	}
	sound(t, mine)
	bomb := packer.EncodeAll(make([]byte, 128<<20), nil)
	lying := func(parts []byte) []byte { return packer.EncodeAll(parts, nil) }
	long := binary.AppendUvarint([]byte{5, manyNumbers, 0xff, 0xff, 0x7f, 0}, 1) // two million numbers
	for i, change := range []string{
		"UPDATE base SET data = ?; DELETE FROM base_copy",
		"UPDATE base SET sum = x'00'",
		"UPDATE content SET base = 1 << 40 WHERE base > 0",
		"UPDATE content SET base = -1 WHERE base > 0",
		"UPDATE content SET base = 'x' WHERE base > 0",
		"UPDATE content SET data = ?, size = 1000 WHERE base > 0",
		"UPDATE content SET data = ?, size = 1 << 40, base = 0 WHERE base > 0",
		"UPDATE content SET data = ?, size = -1, base = 0 WHERE base > 0",
	} {
		path := filepath.Join(t.TempDir(), "bad.db")
		bad := mustOpen(t, path)
		if _, err := bad.Merge(ctx, theirs.Path()); err != nil {
			t.Fatal(err)
		}
		data := bomb
		if i == 6 {
			data = lying(long)
		}
		args := []any{data}[:strings.Count(change, "?")]
		if _, err := bad.db.Exec(change, args...); err != nil {
			t.Fatal(err)
		}
		bad.Close()
		dictionaries.Lock()
		clear(dictionaries.of)
		dictionaries.order = nil
		dictionaries.Unlock()
		into := mustOpen(t, filepath.Join(t.TempDir(), "into.db"))
		m, err := into.Merge(ctx, path)
		if i == 4 { // a text in a column of numbers: the file itself is not in order
			if err == nil {
				t.Errorf("%s: %+v", change, m)
			}
			continue
		}
		if err != nil || m.Records != 1 || len(m.Refused) != len(ids)-1 {
			t.Errorf("%s: %+v %v", change, m, err)
		}
		sound(t, into)
	}
}

// TestViewsOfEarlierVersions: testdata/views.txt is what all views said of v1.db and v2.db to the assay that made
// schema 2. The same is said of them when they are brought up to date.
func TestViewsOfEarlierVersions(t *testing.T) {
	want, err := os.ReadFile("testdata/views.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"v1.db", "v2.db"} {
		path := filepath.Join(t.TempDir(), name)
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		b := mustOpen(t, path)
		if got := viewsOf(t, b); got != string(want) {
			t.Errorf("%s: the views say something else", name)
		}
		var chunks int
		if err := b.db.QueryRow("SELECT count(*) FROM chunk").Scan(&chunks); err != nil || chunks != 1 {
			t.Errorf("%s: %d chunks, and one was appended (%v)", name, chunks, err)
		}
		// The record goes with what the ledger said of its chunks.
		id, err := b.Resolve(ctx, idOf(t, b))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Forget(ctx, Forgetting{Records: []string{id}, At: time.Now(), Because: "private"}); err != nil {
			t.Fatal(err)
		}
		sound(t, b)
	}
}

func idOf(t *testing.T, b *Book) string {
	t.Helper()
	list, err := b.List(ctx, Filter{Runs: true})
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	return list[0].ID
}

func viewsOf(t *testing.T, b *Book) string {
	t.Helper()
	b, err := OpenRead(ctx, b.Path()) // a query sets limits
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var out strings.Builder
	for _, view := range []string{"records", "runs", "figures", "facts", "operators", "findings", "notes",
		"points", "forgotten"} {
		err := each(ctx, b.db, "SELECT name FROM pragma_table_info('"+view+"') ORDER BY cid",
			func(scan func(...any) error) error {
				var n string
				err := scan(&n)
				fmt.Fprintf(&out, "%s.%s\n", view, n)
				return err
			})
		if err != nil {
			t.Fatal(err)
		}
		table, err := b.Query(ctx, "SELECT * FROM "+view, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, row := range table.Rows {
			lines = append(lines, fmt.Sprintf("%s %v\n", view, row))
		}
		slices.Sort(lines)
		out.WriteString(strings.Join(lines, ""))
	}
	return out.String()
}

// TestUpgradeKilled: a kill in the middle of an upgrade leaves the old logbook or the new one, and the next opening has
// the new.
func TestUpgradeKilled(t *testing.T) {
	data, err := os.ReadFile("testdata/v2.db")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/views.txt")
	if err != nil {
		t.Fatal(err)
	}
	for step, is := range map[string]int{"projected": 2, "upgraded": 3} {
		path := filepath.Join(t.TempDir(), "a.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), forgetVariable+"="+path, "ASSAY_TEST_FORGET_STEP="+step)
		if out, err := cmd.CombinedOutput(); err == nil ||
			cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("not killed: %v %s", err, out)
		}
		old, err := open(path, "ro")
		if err != nil {
			t.Fatal(err)
		}
		var version, figures int
		err = old.db.QueryRow("SELECT user_version, (SELECT count(*) FROM figure) FROM pragma_user_version").Scan(&version, &figures)
		if old.Close(); err != nil || version != is || figures < 20 {
			t.Errorf("%s: version %d, %d figures, %v", step, version, figures, err)
		}
		b := mustOpen(t, path)
		sound(t, b)
		if viewsOf(t, b) != string(want) {
			t.Errorf("%s: the views say something else", step)
		}
	}
}

// TestMergeOfEarlierVersion: the points of documents, which an earlier assay kept beside them, are not kept twice.
func TestMergeOfEarlierVersion(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	for range 2 {
		m, err := b.Merge(ctx, "testdata/v2.db")
		if err != nil || len(m.Refused) > 0 || m.Chunks > 1 {
			t.Fatalf("%+v %v", m, err)
		}
	}
	want, _ := os.ReadFile("testdata/views.txt")
	if got := viewsOf(t, b); got != string(want) {
		t.Error("the views say something else")
	}
	sound(t, b)
}

// TestNotesNumbers: a note stands in the views as the document has it, whatever numbers and signs are in it.
func TestNotesNumbers(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	notes := []string{"", "of 95 %, at step 75: 603.5 ms", "%s %d 7", "100%", "1 2 3 4 5 6 7 8",
		"1 2 3 4 5 6 7 8 9", "0x1F; 1.2.3", "ünïcode 7 ›"}
	keep(t, b, another(t, "notes", func(run *evidence.Run) {
		run.Figures = nil
		for i, note := range notes {
			f := evidence.Unknown(fmt.Sprintf("f.%d", i), "s", "x")
			f.Note = note
			run.Figures = append(run.Figures, f)
		}
	}))
	table, err := b.Query(ctx, "SELECT coalesce(note, '') FROM figures ORDER BY name", 100)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range table.Rows {
		if row[0] != notes[i] {
			t.Errorf("%q is told as %q", notes[i], row[0])
		}
	}
	sound(t, b)
}
