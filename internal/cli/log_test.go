package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/fault"
	"assay/internal/probe"
)

// logSample is the evidence of a real run.
const logSample = "../logbook/testdata/plain.json"

type logRoom struct {
	t        *testing.T
	env      *Env
	out, err bytes.Buffer
}

func newLogRoom(t *testing.T) *logRoom {
	r := &logRoom{t: t}
	r.env = &Env{Stdin: strings.NewReader(""), Stdout: &r.out, Stderr: &r.err, Dir: t.TempDir(), Now: func() time.Time {
		return time.Date(2026, 11, 21,
			12, 0, 0, 0, time.UTC)
	}}
	return r
}

// run gives what the command said on standard output; status is what it should end with.
func (r *logRoom) run(status int, args ...string) string {
	r.t.Helper()
	r.out.Reset()
	r.err.Reset()
	if got := Main(r.env, append([]string{"log"}, args...)); got != status {
		r.t.Fatalf("log %v ended with %d, want %d\n%s%s", args, got, status, &r.out, &r.err)
	}
	return r.out.String()
}

// folder makes a run's folder with the sample in it.
func (r *logRoom) folder(name string, f func(*evidence.Run)) string {
	r.t.Helper()
	doc, err := os.ReadFile(logSample)
	if err != nil {
		r.t.Fatal(err)
	}
	var run evidence.Run
	if err := json.Unmarshal(doc, &run); err != nil {
		r.t.Fatal(err)
	}
	run.ID = name
	if f != nil {
		f(&run)
	}
	if doc, err = json.Marshal(run); err != nil {
		r.t.Fatal(err)
	}
	dir := filepath.Join(r.env.Dir, ".assay", "runs", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "evidence.json"), doc, 0o644); err != nil {
		r.t.Fatal(err)
	}
	return dir
}

func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// TestLogVerifyFindsDamage: one bit of what was kept.
func TestLogVerifyFindsDamage(t *testing.T) {
	r := newLogRoom(t)
	r.folder("first", nil)
	r.run(fault.OK, "import", ".assay/runs")
	r.run(fault.OK, "reject", "more workers help", "--because", "they do not", "first")
	contains(t, r.run(fault.OK, "verify"), "everything is as it was kept")
	path := filepath.Join(r.env.Dir, ".assay", "logbook.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, []byte("they do not"))
	if at < 0 { // packed: the title stands in the clear
		at = bytes.Index(whole, []byte("more workers help"))
	}
	whole[at] ^= 1
	if err := os.WriteFile(path, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	r.run(fault.GateFailed, "verify")
}

func TestRecordRun(t *testing.T) {
	r := newLogRoom(t)
	dir := r.folder("20261121-120000-plain-aabbcc", nil)
	run, _, err := probe.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	res := &probe.Result{Dir: dir, Run: run}
	record := func(opts runOptions) string {
		r.err.Reset()
		recordRun(context.Background(), r.env, opts, res)
		return r.err.String()
	}
	file := filepath.Join(r.env.Dir, ".assay", "logbook.db")
	for _, opts := range []runOptions{{logbook: "off"}, {out: dir}} {
		if said := record(opts); said != "" {
			t.Errorf("%+v: %s", opts, said)
		}
		if _, err := os.Stat(file); err == nil {
			t.Fatalf("%+v made a logbook", opts)
		}
	}
	if said := record(runOptions{}) + record(runOptions{}); said != "" {
		t.Error(said)
	}
	contains(t, r.run(fault.OK, "query", "SELECT count(*) AS n FROM runs", "--csv"), "n\n1\n")
	// A file in the way: one line, and nothing else.
	blocked := filepath.Join(r.env.Dir, "text")
	if err := os.WriteFile(blocked, []byte("not a database"), 0o644); err != nil {
		t.Fatal(err)
	}
	if said := record(runOptions{logbook: blocked}); strings.Count(said, "\n") != 1 || !strings.Contains(said,
		"the run was not recorded in the logbook: ") {
		t.Errorf("%q", said)
	}
}
