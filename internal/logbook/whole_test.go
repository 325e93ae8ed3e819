package logbook

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// changes are all ways in which a statement changes a table.
func changes(t *testing.T, b *Book, f func(change string)) {
	t.Helper()
	for _, change := range []string{"INSERT ON content", "UPDATE ON content", "DELETE ON content", "INSERT ON record",
		"DELETE ON record", "INSERT ON link", "DELETE ON link", "INSERT ON figure", "DELETE ON figure",
		"UPDATE ON chunk", "DELETE ON chunk", "INSERT ON ledger", "UPDATE ON ledger", "INSERT ON tombstone",
		"UPDATE ON tombstone", "INSERT ON unscrubbed"} {
		if _, err := b.db.Exec("CREATE TRIGGER full BEFORE " + change +
			" BEGIN SELECT RAISE(ABORT, 'no space left'); END"); err != nil {
			t.Fatal(err)
		}
		f(change)
		if _, err := b.db.Exec("DROP TRIGGER full"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForgetIsWhole: where any row of it cannot be written, Forget says so and everything is as it was.
func TestForgetIsWhole(t *testing.T) {
	b := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	scatter(t, b)
	if _, err := b.Forget(ctx, without(hushed)); err != nil {
		t.Fatal(err)
	}
	run, err := b.Resolve(ctx, "with")
	if err != nil {
		t.Fatal(err)
	}
	before, ids := sound(t, b), allIDs(t, b)
	for _, of := range []struct {
		what      string
		forget    Forgetting
		untouched []string // by it
	}{
		{"a value", without("cannot use"), []string{"INSERT ON content", "DELETE ON content", "DELETE ON chunk"}},
		{"a record", Forgetting{Records: []string{run}, At: time.Now(), Because: "x"}, []string{"INSERT ON content",
			"UPDATE ON content", "INSERT ON record", "INSERT ON link", "INSERT ON figure", "UPDATE ON chunk"}},
	} {
		changes(t, b, func(change string) {
			if slices.Contains(of.untouched, change) {
				return
			}
			done, err := b.Forget(ctx, of.forget)
			if err == nil || done != nil || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("%s, %s: %v, %v", of.what, change, done, err)
			}
		})
		if c := sound(t, b); c.Head != before.Head || c.Records != before.Records || c.Forgotten != before.Forgotten ||
			!slices.Equal(allIDs(t, b), ids) {
			t.Errorf("%s: %+v, before %+v", of.what, c, before)
		}
	}
	if _, err := b.Forget(ctx, Forgetting{Records: []string{strings.Repeat("ab", 32)}, Because: "x"}); err == nil {
		t.Error("a record that there is not was forgotten")
	}
	for _, because := range []string{"", " \n"} {
		if _, err := b.Forget(ctx, Forgetting{Records: []string{run}, Because: because}); err == nil {
			t.Errorf("forgotten because of %q", because)
		}
	}
	if done, err := b.Forget(ctx, Forgetting{Records: []string{run, run}, At: time.Now(), Because: "x"}); err != nil ||
		len(done.Gone) != 2 {
		t.Errorf("named twice: %+v, %v", done, err)
	}
	// A value that a record cannot be told without is not taken out of it.
	if _, err := b.Forget(ctx, without("assay.evidence")); err == nil ||
		!strings.Contains(err.Error(), "would not be") {
		t.Errorf("%v", err)
	}
	sound(t, b)
}

// TestMergeIsWhole: where what another logbook has forgotten cannot be forgotten here, or what it holds cannot be
// kept, that is said, and no part of a forgetting stays.
func TestMergeIsWhole(t *testing.T) {
	dir := t.TempDir()
	a, b := mustOpen(t, filepath.Join(dir, "a.db")), mustOpen(t, filepath.Join(dir, "b.db"))
	scatter(t, a)
	gone := keep(t, a, another(t, "gone", nil))
	if _, err := b.Merge(ctx, a.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Forget(ctx, without(hushed)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Forget(ctx, Forgetting{Records: []string{gone}, At: time.Now(), Because: "x"}); err != nil {
		t.Fatal(err)
	}
	state := func() (s [2]int) {
		if err := b.db.QueryRow("SELECT (SELECT count(*) FROM ledger), (SELECT count(*) FROM tombstone)").Scan(&s[0],
			&s[1]); err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := state()
	changes(t, b, func(change string) {
		if slices.Contains([]string{"INSERT ON content", "UPDATE ON tombstone"}, change) {
			return // nothing of it changes so
		}
		if _, err := b.Merge(ctx, a.Path()); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: %v", change, err)
		}
		if now := state(); now != before {
			t.Errorf("%s: %v, before %v", change, now, before)
		}
	})
	sound(t, b)
	if m, err := b.Merge(ctx, a.Path()); err != nil || m.Adopted != 5 {
		t.Errorf("%+v, %v", m, err)
	}
	sound(t, b)
	keep(t, a, another(t, "new", nil))
	for _, change := range []string{"INSERT ON content", "INSERT ON chunk"} {
		c := mustOpen(t, filepath.Join(dir, strings.Fields(change)[2]+".db"))
		if _, err := c.db.Exec("CREATE TRIGGER full BEFORE " + change +
			" BEGIN SELECT RAISE(ABORT, 'no space left'); END"); err != nil {
			t.Fatal(err)
		}
		if m, err := c.Merge(ctx, a.Path()); err == nil || m != nil {
			t.Errorf("%s: %+v, %v", change, m, err)
		}
	}
}

// TestRowsThatCannotBeRead: a row that is not of its kind is said, in whatever is done, and is never passed over.
func TestRowsThatCannotBeRead(t *testing.T) {
	path, twin := filepath.Join(t.TempDir(), "a.db"), another(t, "gone", nil)
	made := mustOpen(t, path)
	scatter(t, made)
	id := keep(t, made, twin)
	if _, err := made.Forget(ctx, Forgetting{Records: []string{id}, At: time.Now(), Because: "x"}); err != nil {
		t.Fatal(err)
	}
	made.Close()
	data := mustRead(t, path)
	for _, c := range []struct {
		row                     string
		forget, add, ofStranger bool // what has to fail besides the check
	}{
		{"UPDATE chunk SET n = 'many'", true, false, true},
		{"UPDATE chunk SET first = 'x'", true, false, true},
		{"UPDATE content SET size = 'x'", true, false, true},
		{"UPDATE tombstone SET spared = 'x'", false, true, false},
		{"UPDATE ledger SET hash = 1", false, false, false},
		{"DROP TABLE unscrubbed", true, false, false},
		{"DROP TABLE tombstone", true, true, false},
		{"DROP TABLE ledger", true, true, false},
		{"DROP TABLE link", true, false, false},
		{"DROP TABLE chunk", true, false, true},
		{"DROP TABLE content", true, true, true},
		{"ALTER TABLE chunk RENAME TO was; CREATE VIEW chunk AS SELECT * FROM was", true, false, true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.db"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		b := mustOpen(t, filepath.Join(dir, "a.db"))
		if _, err := b.db.Exec(c.row); err != nil {
			t.Fatalf("%s: %v", c.row, err)
		}
		if found, err := b.Verify(ctx, ""); err != nil ||
			len(found.Problems) == 0 && !strings.Contains(c.row, "spared") { // of which the ledger says nothing
			t.Errorf("%s: verify: %+v, %v", c.row, found, err)
		}
		if done, err := b.Forget(ctx, without(hushed)); c.forget && (err == nil || done != nil) {
			t.Errorf("%s: forget: %+v, %v", c.row, done, err)
		}
		if _, added, err := b.Add(ctx, twin); c.add && err == nil || added && c.add {
			t.Errorf("%s: add: %v, %v", c.row, added, err)
		}
		if m, err := mustOpen(t, filepath.Join(dir, "b.db")).Merge(ctx, b.Path()); (err != nil) != c.ofStranger {
			t.Errorf("%s: merge: %+v, %v", c.row, m, err)
		}
	}
}

// TestStonesOfAStranger: what has the form of a tombstone is followed, and what lacks it in one point is passed over.
func TestStonesOfAStranger(t *testing.T) {
	dir := t.TempDir()
	mine, theirs := mustOpen(t, filepath.Join(dir, "a.db")), mustOpen(t, filepath.Join(dir, "b.db"))
	if _, err := mine.Note(ctx, time.Unix(1, 0), "a note", nil); err != nil {
		t.Fatal(err)
	}
	id := allIDs(t, mine)[0]
	good := []any{strings.Repeat("A", 26), id, "note", "2026-11-21T12:00:00Z", "token=pw9", "", 0}
	for i, bad := range map[int]any{0: "lower", 1: "short", 2: "Not a kind!", 3: "yesterday", 5: "../x"} {
		row := slices.Clone(good)
		row[i] = bad
		if _, err := theirs.db.Exec("INSERT INTO tombstone VALUES(?,?,?,?,?,?,?)", row...); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := mine.Merge(ctx, theirs.Path()); err != nil || m.Adopted != 0 || len(allIDs(t, mine)) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if c := sound(t, mine); c.Forgotten != 0 {
		t.Errorf("%+v", c)
	}
	if _, err := theirs.db.Exec("INSERT INTO tombstone VALUES(?,?,?,?,?,?,?)", good...); err != nil {
		t.Fatal(err)
	}
	if m, err := mine.Merge(ctx, theirs.Path()); err != nil || m.Adopted != 1 || len(allIDs(t, mine)) != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	var because string
	if err := mine.db.QueryRow("SELECT because FROM tombstone").Scan(&because); err != nil ||
		because != "token=(redacted)" {
		t.Errorf("%q, %v", because, err)
	}
	sound(t, mine)
}
