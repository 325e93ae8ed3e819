package fleet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/events"
	"assay/internal/node"
)

func opened(t *testing.T, dir string, o Options) *Queue {
	t.Helper()
	o.Folder, o.Runs, o.Name = filepath.Join(dir, "queue"), filepath.Join(dir, "runs"), "q"
	q, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exited(code int) node.State { return node.State{Phase: node.Ended, Exit: &code} }

func anywhere(Task) (bool, string) { return true, "" }

// What a driver had begun is there for the next, whatever it was about to write.
func TestJournalIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	q := opened(t, dir, Options{Retries: 1})
	for _, x := range tasks(4) {
		ok(t, q.Add(x))
	}
	a, found, err := q.Next("a", anywhere)
	if !found || err != nil || a.Task.Name != "01" || a.Number != 1 {
		t.Fatalf("%+v %v", a, err)
	}
	ok(t, q.Began(a.Name))
	b := must[Attempt](t)(q.Take("02", "b"))
	ok(t, q.Ended(b.Name, exited(3)))
	c := must[Attempt](t)(q.Take("03", "c"))
	ok(t, q.Lost(c.Name, "gone"))
	if _, err := Open(Options{Folder: filepath.Join(dir, "queue")}); !errors.Is(err, ErrBusy) {
		t.Errorf("a second driver: %v", err)
	}
	id := q.Owner()
	ok(t, q.Close())
	path := filepath.Join(dir, "queue", JournalName)
	f := must[*os.File](t)(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))
	f.WriteString(`{"take":{"task":"04","name":"torn`)
	f.Close()
	q = opened(t, dir, Options{Retries: 1})
	defer q.Close()
	if q.Owner() != id {
		t.Errorf("it is %s, and was %s", q.Owner(), id)
	}
	want := map[string]string{"01": Placed, "02": Failed, "03": Queued, "04": Queued}
	for _, r := range q.Rows() {
		if r.Phase != want[r.Task.Name] {
			t.Errorf("%s: %s", r.Task.Name, r.Phase)
		}
	}
	open := q.Open()
	if len(open) != 3 || !open[0].Began || open[1].Ended == nil || open[2].Lost != "gone" {
		t.Errorf("%+v", open)
	}
	// Its retries are used up with the next loss.
	c = must[Attempt](t)(q.Take("03", "a"))
	if c.Number != 2 {
		t.Errorf("attempt %d", c.Number)
	}
	ok(t, q.Ended(c.Name, node.State{Phase: node.Ended, Why: WhyLease}))
	if r := q.Rows()[2]; r.Phase != Lost || !strings.Contains(r.Why, "2 of its attempts") {
		t.Errorf("%+v", r)
	}
}

func TestJournalThatIsNone(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, JournalName), []byte("{\"queue\":{\"version\":9}}\n"), 0o600))
	if _, err := Open(Options{Folder: dir}); err == nil || !strings.Contains(err.Error(), ":1: version 9") {
		t.Errorf("%v", err)
	}
	ok(t, os.WriteFile(filepath.Join(dir, JournalName), []byte("what\n"), 0o600))
	if _, _, err := Read(dir, dir); err == nil || !strings.Contains(err.Error(), JournalName+":1:") {
		t.Errorf("%v", err)
	}
}

// No secret is in the journal; a driver that is not told it again leaves the task.
func TestSecretsAreNotJournaled(t *testing.T) {
	dir := t.TempDir()
	const token = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
	task := Task{Name: "1", Command: []string{"train", "--token", token}, Environ: []string{"HF_TOKEN"}, Device: "gpu"}
	o := Options{Environ: []string{"HF_TOKEN=" + token, "OTHER=1"}}
	q := opened(t, dir, o)
	ok(t, q.Add(task))
	a, _, err := q.Next("a", anywhere)
	ok(t, err)
	j := q.Job(a)
	if j.Command[2] != token || strings.Join(j.Environ, " ") != "HF_TOKEN="+token {
		t.Errorf("%+v", j)
	}
	ok(t, q.Back(a.Name, "not begun"))
	ok(t, q.Close())
	b := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "queue", JournalName)))
	if strings.Contains(string(b), token) {
		t.Error("the journal has the secret")
	}
	q = opened(t, dir, o)
	defer q.Close()
	if n := len(q.Queued()); n != 0 {
		t.Errorf("%d tasks would be begun without their secret", n)
	}
	ok(t, q.Add(task))
	if all := q.Queued(); len(all) != 1 || all[0].Command[2] != token {
		t.Errorf("%+v", all)
	}
	task.Command = []string{"another"}
	if err := q.Add(task); err == nil {
		t.Error("another task of the same name was taken")
	}
}

func TestFilesComeHome(t *testing.T) {
	dir := t.TempDir()
	q := opened(t, dir, Options{})
	defer q.Close()
	ok(t, q.Add(tasks(1)[0]))
	a, _, err := q.Next("a", anywhere)
	ok(t, err)
	for _, bad := range []string{"../x", "a/b", ".hidden", "", "-"} {
		if _, err := q.Append(a.Name, bad, 0, []byte("x")); err == nil {
			t.Errorf("%q was written", bad)
		}
	}
	if _, err := q.Append(a.Name, events.FileName, 5, []byte("x")); err == nil {
		t.Error("a gap was taken")
	}
	for _, piece := range []struct {
		at   int64
		b    string
		have int64
	}{{0, "one\n", 4}, {0, "one\n", 4}, {2, "e\ntwo\n", 8}, {8, "", 8}} {
		have, err := q.Append(a.Name, events.FileName, piece.at, []byte(piece.b))
		if err != nil || have != piece.have {
			t.Errorf("%d %v, and %d was meant", have, err, piece.have)
		}
	}
	tail, err := events.Open(q.Folder(a.Name))
	ok(t, err)
	defer tail.Close()
	if tail.Abandoned() {
		t.Error("who follows the run takes it for abandoned")
	}
	if _, err := q.Append(a.Name, "evidence.json", 0, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(q.Folder(a.Name), "evidence.json")
	if _, err := os.Stat(path); err == nil {
		t.Error("a file stands in its place before it is whole")
	}
	if err := q.Whole(a.Name, "evidence.json", 3); err == nil {
		t.Error("a file that is not whole was put into its place")
	}
	ok(t, q.Whole(a.Name, "evidence.json", 2))
	ok(t, q.Whole(a.Name, "evidence.json", 2))
	if _, err := q.Append(a.Name, "report.html", 0, []byte("<p>")); err != nil {
		t.Fatal(err)
	}
	ok(t, q.Ended(a.Name, exited(0)))
	if err := q.Settled(a.Name); err == nil {
		t.Error("settled before its files were here")
	}
	ok(t, q.Home(a.Name))
	ok(t, q.Settled(a.Name))
	var names []string
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(q.Folder(a.Name))) {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "events.jsonl evidence.json" {
		t.Errorf("there are %s", got)
	}
	if !tail.Abandoned() || !q.Finished() {
		t.Error("the run still goes on")
	}
}

func TestCancelIsHeeded(t *testing.T) {
	dir := t.TempDir()
	q := opened(t, dir, Options{RetryFailed: 1})
	for _, x := range tasks(4) {
		ok(t, q.Add(x))
	}
	a, _, err := q.Next("a", anywhere)
	ok(t, err)
	folder := filepath.Join(dir, "queue")
	ok(t, Ask(folder, "01", "02", "none"))
	ok(t, q.Heed())
	if r := q.Rows(); r[0].Phase != Placed || r[0].Stop == "" || r[1].Phase != Cancelled {
		t.Errorf("%+v", r[:2])
	}
	ok(t, q.Ended(a.Name, node.State{Phase: node.Ended, Why: WhyCancelled}))
	if r := q.Rows()[0]; r.Phase != Cancelled {
		t.Errorf("%+v", r)
	}
	ok(t, Ask(folder))
	ok(t, q.Heed())
	ok(t, q.Close())
	q = opened(t, dir, Options{RetryFailed: 1})
	defer q.Close()
	ok(t, q.Add(Task{Name: "05", Command: []string{"x"}, Device: "gpu"}))
	ok(t, q.Heed()) // what was asked before is not asked of it
	if got := len(q.Queued()); got != 1 {
		t.Errorf("%d tasks wait", got)
	}
	for i, want := range []string{Queued, Failed} {
		a := must[Attempt](t)(q.Take("05", "a"))
		ok(t, q.Ended(a.Name, exited(1)))
		if r := q.Rows()[4]; r.Phase != want {
			t.Errorf("after %d failures: %s", i+1, r.Phase)
		}
	}
}
