package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"

	"assay/internal/evidence"
)

// Subjects is the folder testdata/subjects: training scripts as users write them.
func Subjects() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..", "testdata", "subjects")
}

// Outcome of a command: what a person who started it can tell.
type Outcome struct {
	Stdout, Stderr string
	Code           int
	Signal         syscall.Signal
}

// Execute runs a command to its end, in a folder, with variables added to the environment.
func Execute(t *testing.T, dir string, environ []string, args ...string) Outcome {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environ...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return OutcomeOf(cmd, stdout.String(), stderr.String())
}

// OutcomeOf says how a command that was waited for ended.
func OutcomeOf(cmd *exec.Cmd, stdout, stderr string) Outcome {
	o := Outcome{Stdout: stdout, Stderr: stderr}
	o.end(cmd.ProcessState.Sys().(syscall.WaitStatus))
	return o
}

// end takes over how a process ended; the status of one that was killed is -1.
func (o *Outcome) end(ws syscall.WaitStatus) {
	o.Code = ws.ExitStatus()
	if ws.Signaled() {
		o.Signal = ws.Signal()
	}
}

// LoadRun reads the evidence of a run that has ended, and wants its page to be there.
func LoadRun(t *testing.T, dir string) *evidence.Run {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "evidence.json"))
	if err != nil {
		t.Fatal(err)
	}
	var run evidence.Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		t.Error(err)
	}
	return &run
}

// volatile is what differs between two runs of the same script: process ids, clocks, addresses.
var volatile = regexp.MustCompile(`0x[0-9a-f]{6,}|\d{10,}|[A-Z]\d{4} \d\d:\d\d:\d\d\.\d+ \d+|\d\d:\d\d:\d\d|\d{3,}:\d{3,}`)

// SameBehaviour runs a subject bare and under assay, each in a start of its own, and compares what came out, byte for
// byte.
func SameBehaviour(t *testing.T, script string, environ ...string) *evidence.Run {
	t.Helper()
	dir := filepath.Dir(filepath.Join(Subjects(), script))
	return sameAs(t, Execute(t, dir, environ, Python(t), filepath.Base(script)), script, environ...)
}

// SameTraining is SameBehaviour for a script that trains, and neither looks at its process nor leaves a traceback: in
// the short set the bare half is a fork (Bare).
func SameTraining(t *testing.T, script string, environ ...string) *evidence.Run {
	t.Helper()
	dir := filepath.Dir(filepath.Join(Subjects(), script))
	return sameAs(t, Bare(t, dir, environ, filepath.Base(script)), script, environ...)
}

// sameAs runs a subject under assay and compares what came out with what came of the bare one, byte for byte.
func sameAs(t *testing.T, bare Outcome, script string, environ ...string) *evidence.Run {
	t.Helper()
	python, assay := Python(t), Assay(t)
	dir := filepath.Dir(filepath.Join(Subjects(), script))
	out := filepath.Join(t.TempDir(), "run")
	name := filepath.Base(script)
	watched := Execute(t, dir, environ, assay, "run", "-q", "--out", out, "--", python, name)
	if bare.Code != watched.Code || bare.Signal != watched.Signal {
		t.Errorf("status: bare %d %v, watched %d %v\n%s", bare.Code, bare.Signal, watched.Code, watched.Signal,
			watched.Stderr)
	}
	for _, s := range []struct{ name, bare, watched string }{{"stdout", bare.Stdout, watched.Stdout},
		{"stderr", bare.Stderr, watched.Stderr}} {
		if s.bare == s.watched { // the ordinary case, and 100 MB of it take the expression many seconds
			continue
		}
		b, w := volatile.ReplaceAllString(s.bare, "…"), volatile.ReplaceAllString(s.watched, "…")
		if b != w {
			t.Errorf("%s differs\nbare:\n%s\nwatched:\n%s", s.name, Tail(b), Tail(w))
		}
	}
	run := LoadRun(t, out)
	for _, p := range run.Processes {
		if len(p.Trouble) > 0 {
			t.Errorf("trouble in %s: %q", p.Role, p.Trouble)
		}
	}
	return run
}

// Tail is the end of a long output.
func Tail(s string) string { return s[max(0, len(s)-1500):] }
