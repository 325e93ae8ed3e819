package logbook

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/secret"
)

// hushed stands in documents in places where no rule would tell it, as a value that nobody knew to be secret.
const hushed = "plum-Orchard-77"

// forgetVariable makes this test binary a program that forgets in the logbook it names, and is killed at a step.
const forgetVariable = "ASSAY_TEST_FORGET"

func forgetAndDie(path string) error {
	step := os.Getenv("ASSAY_TEST_FORGET_STEP")
	passed = func(at string) {
		if at == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	b, err := Open(ctx, path)
	if err != nil {
		return err
	}
	defer b.Close()
	_, err = b.Forget(ctx, without(hushed))
	return err
}

func without(value string) Forgetting {
	v := secret.NewValue(value)
	return Forgetting{Without: v.JSON, Text: v.Text, At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Because: "it was " + value}
}

// leaves looks for a text in a logbook's files, byte by byte, and in what they keep compressed.
func leaves(t *testing.T, path, text string) bool {
	t.Helper()
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		data, err := os.ReadFile(name)
		if err == nil && bytes.Contains(data, []byte(text)) {
			return true
		}
		for at := 0; ; at++ { // every zstd frame that can still be made out, in a table or not
			next := bytes.Index(data[at:], []byte{0x28, 0xb5, 0x2f, 0xfd})
			if next < 0 {
				break
			}
			at += next
			if doc, _ := unpacker.DecodeAll(data[at:], nil); bytes.Contains(doc, []byte(text)) {
				return true
			}
		}
	}
	b, err := OpenRead(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, id := range allIDs(t, b) {
		doc, err := b.Document(ctx, id)
		if err != nil || bytes.Contains(doc, []byte(text)) {
			return true
		}
	}
	return false
}

func allIDs(t *testing.T, b *Book) (ids []string) {
	t.Helper()
	list, err := b.List(ctx, Filter{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

// scatter keeps the value in every kind of place.
func scatter(t *testing.T, b *Book) (run, plain string) {
	t.Helper()
	run = keep(t, b, another(t, "with", func(r *evidence.Run) {
		r.Subject.Command = append(r.Subject.Command, "--name", hushed)
		r.Provenance.Environment["TORCH_NOTE"] = hushed
		r.Outcome.Error = "ValueError: cannot use " + hushed
		r.Findings = append(r.Findings, evidence.Finding{Name: "x", Severity: evidence.Note, Text: hushed,
			Basis: evidence.Measured})
		r.Figures = append(r.Figures, evidence.Unknown("x.y", "s", "failed: "+hushed))
	}))
	plain = keep(t, b, another(t, "without", func(r *evidence.Run) { r.Started = r.Started.Add(time.Hour) }))
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if _, err := b.Note(ctx, at, "tried "+hushed+" first", map[string]string{"issue": hushed}, run, plain); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Note(ctx, at.Add(1), "about it, and free of it", nil, run); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reject(ctx, at.Add(2), "the name matters", "not "+hushed, run); err != nil {
		t.Fatal(err)
	}
	if err := b.Append(ctx, run, []Point{{"metric of " + hushed, 1, 2, 3}, {"loss", 9, 9, 9}}); err != nil {
		t.Fatal(err)
	}
	return run, plain
}

// TestForgetAValue: nothing of it is left, in the clear or compressed, nor a hash that could tell whether a guess is
// right; all else stays.
func TestForgetAValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	b := mustOpen(t, path)
	run, plain := scatter(t, b)
	before, err := b.Document(ctx, run)
	if err != nil {
		t.Fatal(err)
	}
	points, err := b.Points(ctx, run, "")
	if err != nil {
		t.Fatal(err)
	}
	head := sound(t, b).Head
	if !leaves(t, path, hushed) {
		t.Fatal("the value does not stand in the file: this tests nothing")
	}
	old := allIDs(t, b)
	done, err := b.Forget(ctx, without(hushed))
	if err != nil || len(done.Changed) != 4 || len(done.Gone) != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if leaves(t, path, hushed) {
		t.Error("the value is still there")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range old {
		sum, _ := hex.DecodeString(id)
		if there := bytes.Contains(data, []byte(id)) || bytes.Contains(data, sum); there != (id == plain) {
			t.Errorf("the hash %s: there %v", id, there)
		}
	}
	if sum, _ := hex.DecodeString(head); bytes.Contains(data, sum) {
		t.Error("the ledger's hash of before is still there")
	}
	c := sound(t, b)
	if c.Records != 5 || c.Forgotten != 4 || c.Unscrubbed != 0 {
		t.Errorf("%+v", c)
	}
	now, err := b.Resolve(ctx, "with")
	if err != nil {
		t.Fatal(err)
	}
	after, err := b.Document(ctx, now)
	if err != nil || string(after) != strings.ReplaceAll(string(before), hushed, secret.Mark) {
		t.Errorf("more than the value changed (%v)", err)
	}
	kept, err := b.Points(ctx, now, "")
	if err != nil || len(kept) != len(points) {
		t.Errorf("%d points of %d, %v", len(kept), len(points), err)
	}
	about, err := b.List(ctx, Filter{About: now})
	if err != nil || len(about) != 3 {
		t.Errorf("%d records are about it, %v", len(about), err)
	}
	// The same again changes nothing.
	if done, err = b.Forget(ctx, without(hushed)); err != nil || len(done.Changed) != 0 || sound(t, b).Forgotten != 4 {
		t.Errorf("%+v, %v", done, err)
	}
	if c, err := b.Verify(ctx, head); err != nil || len(c.Problems) != 1 ||
		!strings.Contains(c.Problems[0], "something was forgotten since") {
		t.Errorf("%v, %v", c.Problems, err)
	}
	// Neither the document nor a logbook that holds it brings it back.
	var forgotten *Forgotten
	if _, _, err := b.Add(ctx, before); !errors.As(err, &forgotten) || forgotten.Instead != now ||
		strings.Contains(err.Error(), hushed) {
		t.Errorf("%v", err)
	}
}

// TestForgetARecord: it goes with what is about it alone.
func TestForgetARecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	b := mustOpen(t, path)
	run, plain := scatter(t, b)
	doc, _ := b.Document(ctx, run)
	done, err := b.Forget(ctx, Forgetting{Records: []string{run}, At: time.Now(), Because: "private"})
	if err != nil || len(done.Gone) != 2 || done.Gone[0].ID != run || done.Gone[1].Title != "about it, and free of it" {
		t.Fatalf("%+v, %v", done, err)
	}
	c := sound(t, b)
	if c.Records != 3 || c.Forgotten != 2 {
		t.Errorf("%+v", c)
	}
	if _, err := b.Document(ctx, plain); err != nil {
		t.Error(err)
	}
	if leaves(t, path, "cannot use "+hushed) || leaves(t, path, "about it, and free of it") ||
		leaves(t, path, "metric of") {
		t.Error("something of the record is still there")
	}
	if sum := sha256.Sum256(doc); bytes.Contains(mustRead(t, path), sum[:]) {
		t.Error("the document's hash is still there")
	}
	// The same run, folded another time, is the same record.
	var run2 evidence.Run
	if err := json.Unmarshal(doc, &run2); err != nil {
		t.Fatal(err)
	}
	run2.Outcome.Error = "other words"
	other, _ := json.Marshal(run2)
	var forgotten *Forgotten
	for _, doc := range [][]byte{doc, other} {
		if _, _, err := b.Add(ctx, doc); !errors.As(err, &forgotten) || forgotten.Instead != "" {
			t.Errorf("%v", err)
		}
	}
	if _, err := b.Forget(ctx, Forgetting{Records: []string{run}, At: time.Now(), Because: "private"}); err == nil {
		t.Error("forgotten twice")
	}
	if _, err := b.Forget(ctx, Forgetting{Records: []string{plain}}); err == nil {
		t.Error("forgotten without a reason")
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestForgetAndMerge: what was forgotten in one logbook does not come back from another, and goes there too.
func TestForgetAndMerge(t *testing.T) {
	dir := t.TempDir()
	mine, theirs := filepath.Join(dir, "mine.db"), filepath.Join(dir, "theirs.db")
	a, b := mustOpen(t, mine), mustOpen(t, theirs)
	scatter(t, a)
	if _, err := b.Merge(ctx, mine); err != nil {
		t.Fatal(err)
	}
	theirRun, _ := b.Resolve(ctx, "with")
	if _, err := b.Note(ctx, time.Now(), "a colleague's own words", nil, theirRun); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Forget(ctx, without(hushed)); err != nil {
		t.Fatal(err)
	}
	m, err := a.Merge(ctx, theirs)
	if err != nil || m.Records != 1 || m.Chunks != 0 || m.Forgotten != 3 || len(m.Refused) != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if leaves(t, mine, hushed) {
		t.Error("it came back")
	}
	run, _ := a.Resolve(ctx, "with")
	if notes, err := a.List(ctx, Filter{Kind: KindNote, About: run}); err != nil || len(notes) != 3 {
		t.Errorf("%d notes about it, %v", len(notes), err)
	}
	sound(t, a)
	// And the other way.
	if m, err = b.Merge(ctx, mine); err != nil || m.Adopted != 4 || len(m.Refused) != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if leaves(t, theirs, hushed) {
		t.Error("the other logbook still holds it")
	}
	sound(t, b)
	for range 2 {
		if m, err = b.Merge(ctx, mine); err != nil || m.Records+m.Adopted+m.Forgotten+m.Chunks != 0 {
			t.Errorf("%+v, %v", m, err)
		}
		if m, err = a.Merge(ctx, theirs); err != nil || m.Records+m.Adopted+m.Chunks > 1 {
			t.Errorf("%+v, %v", m, err)
		}
	}
	if x, y := allIDs(t, a), allIDs(t, b); !sameSet(x, y) {
		t.Errorf("%q\n%q", x, y)
	}
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// TestForgetOnBothSides: two who take different values out of one run cannot give each other a copy: it goes whole.
func TestForgetOnBothSides(t *testing.T) {
	dir := t.TempDir()
	mine, theirs := filepath.Join(dir, "mine.db"), filepath.Join(dir, "theirs.db")
	a, b := mustOpen(t, mine), mustOpen(t, theirs)
	doc := another(t, "both", func(r *evidence.Run) { r.Outcome.Error = hushed + " and quince-Garden-88" })
	keep(t, a, doc)
	keep(t, b, doc)
	if _, err := a.Forget(ctx, without(hushed)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Forget(ctx, without("quince-Garden-88")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Merge(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Merge(ctx, mine); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{mine, theirs} {
		if leaves(t, path, hushed) || leaves(t, path, "quince-Garden-88") {
			t.Errorf("%s holds one of them", path)
		}
	}
	sound(t, a)
	sound(t, b)
}

// TestForgetKilled: after a kill it is forgotten or it is not, and the same again completes it.
func TestForgetKilled(t *testing.T) {
	for _, step := range []string{"rewritten", "committed", "vacuumed"} {
		t.Run(step, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			b := mustOpen(t, path)
			scatter(t, b)
			records := sound(t, b).Records
			b.Close()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), forgetVariable+"="+path, "ASSAY_TEST_FORGET_STEP="+step)
			if out, err := cmd.CombinedOutput(); err == nil ||
				cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("not killed: %v %s", err, out)
			}
			b = mustOpen(t, path)
			c := sound(t, b)
			if c.Records != records || (c.Forgotten > 0) != (step != "rewritten") ||
				(c.Unscrubbed > 0) != (step != "rewritten") {
				t.Errorf("after the kill: %+v", c)
			}
			if _, err := b.Forget(ctx, without(hushed)); err != nil {
				t.Fatal(err)
			}
			if leaves(t, path, hushed) {
				t.Error("the value is still there")
			}
			if c = sound(t, b); c.Unscrubbed != 0 || c.Forgotten != 4 || c.Records != records {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestForgetWhileRead: a program that reads an older state holds the bytes; that is said, and the next forgetting does
// the rest.
func TestForgetWhileRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	b := mustOpen(t, path)
	b.patience = time.Millisecond
	scatter(t, b)
	other, err := OpenRead(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM content").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.Exec("PRAGMA busy_timeout = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Forget(ctx, without(hushed)); err == nil || !strings.Contains(err.Error(),
		"may still lie in the file") {
		t.Errorf("%v", err)
	}
	if n, err := b.Unscrubbed(ctx); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	_ = tx.Rollback()
	if err := b.Scrub(ctx); err != nil || leaves(t, path, hushed) {
		t.Errorf("%v", err)
	}
}

// TestForgetAmongWriters: others write meanwhile; what they were told is kept is there.
func TestForgetAmongWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	b := mustOpen(t, path)
	scatter(t, b)
	var writers []*exec.Cmd
	for i := range 3 {
		cmd, lines := writer(t, path, fmt.Sprint("w", i), 12)
		lines.Scan() // it has begun
		writers = append(writers, cmd)
		go func() {
			for lines.Scan() {
			}
		}()
	}
	if _, err := b.Forget(ctx, without(hushed)); err != nil {
		t.Fatal(err)
	}
	for _, w := range writers {
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	}
	if err := b.Scrub(ctx); err != nil || leaves(t, path, hushed) {
		t.Errorf("%v", err)
	}
	if c := sound(t, b); c.Records != 5+3*12 || c.Chunks < 3*12 {
		t.Errorf("%+v", c)
	}
}

// TestNoSecretIsKept: by whatever way a document comes, secrets that can be told are not in what is kept, and links
// hold.
func TestNoSecretIsKept(t *testing.T) {
	const key = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
	dir := t.TempDir()
	old := filepath.Join(dir, "old.db")
	b := mustOpen(t, old)
	run := keep(t, b, another(t, "r", func(r *evidence.Run) {
		r.Subject.Command = []string{"python", "t.py", "--name",
			hushed}
	}))
	if _, err := b.Note(ctx, time.Now(), "with "+key+" and postgres://u:"+hushed+"@h/x", nil, run); err != nil {
		t.Fatal(err)
	}
	if leaves(t, old, key) {
		t.Error("a note holds a key")
	}
	// As an earlier assay kept it: the same rows, without the rule.
	doc := another(t, "raw", func(r *evidence.Run) {
		r.Subject.Command = []string{"python", "t.py", "--api-key", hushed,
			"--x", key}
	})
	plantRaw(t, b, doc)
	note, _ := json.Marshal(Record{Schema: RecordSchema, Kind: KindNote, At: time.Now(), Title: "about the raw one",
		About: []string{sumOf(doc)}})
	plantRaw(t, b, note)
	if c := sound(t, b); c.Secrets != 1 {
		t.Errorf("%d records with secrets, want 1", c.Secrets)
	}
	fresh := filepath.Join(dir, "new.db")
	c := mustOpen(t, fresh)
	m, err := c.Merge(ctx, old)
	if err != nil || m.Records != 4 || len(m.Refused) != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if leaves(t, fresh, key) || leaves(t, fresh, "--api-key\",\""+hushed) {
		t.Error("merging brought a secret")
	}
	raw, _ := c.Resolve(ctx, "raw")
	if about, err := c.List(ctx, Filter{About: raw}); err != nil || len(about) != 1 {
		t.Errorf("%d records about it, %v", len(about), err)
	}
	if points, err := c.Points(ctx, raw, ""); err != nil || len(points) == 0 {
		t.Errorf("%d points, %v", len(points), err)
	}
	sound(t, c)
	if m, err = c.Merge(ctx, old); err != nil || m.Records != 0 || m.Chunks != 0 {
		t.Errorf("again: %+v, %v", m, err)
	}
	if run, err := b.Run(ctx, sumOf(doc)); err != nil || slices.Contains(run.Subject.Command, hushed) {
		t.Errorf("an export would hold it: %v, %v", run, err)
	}
	if _, err := b.Forget(ctx, Forgetting{Without: secret.JSON, Text: secret.Text, At: time.Now(),
		Because: "kept earlier"}); err != nil {
		t.Fatal(err)
	}
	if leaves(t, old, key) || sound(t, b).Secrets != 0 {
		t.Error("the earlier record still holds it")
	}
}

func sumOf(doc []byte) string {
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}

// plantRaw keeps a document as an assay did that took no secrets out.
func plantRaw(t *testing.T, b *Book, doc []byte) {
	t.Helper()
	p, err := project(doc)
	if err != nil {
		t.Fatal(err)
	}
	id := sumOf(doc)
	sum, _ := hex.DecodeString(id)
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO content(id, size, data) VALUES(?,?,?)", id, len(doc),
		packer.EncodeAll(doc, nil)); err != nil {
		t.Fatal(err)
	}
	w := &inserter{ctx: ctx, tx: tx, stmts: map[string]*sql.Stmt{}, known: map[string]int64{}}
	defer w.close()
	if _, err := w.insert(0, id, p); err != nil {
		t.Fatal(err)
	}
	err = w.enter("record", sum)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestLogbookIsItsOwners: new files and those that SQLite left open are closed; a mode that somebody chose stays.
func TestLogbookIsItsOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in", "a.db")
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	b := mustOpen(t, path)
	keep(t, b, sample(t))
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if mode(name) != 0o600 {
			t.Errorf("%s: %o", name, mode(name))
		}
	}
	if mode(filepath.Dir(path)) != 0o700 {
		t.Errorf("%o", mode(filepath.Dir(path)))
	}
	b.Close()
	for was, want := range map[os.FileMode]os.FileMode{0o644: 0o600, 0o660: 0o660, 0o640: 0o640} {
		if err := os.Chmod(path, was); err != nil {
			t.Fatal(err)
		}
		mustOpen(t, path).Close()
		if mode(path) != want {
			t.Errorf("%o became %o, want %o", was, mode(path), want)
		}
	}
}
