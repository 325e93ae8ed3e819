package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/testkit"
)

// lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// running is the folder of a run that is under way, as assay run keeps it.
type running struct {
	dir  string
	file *os.File
}

// begin makes the folder: from here on somebody writes it.
func begin(t *testing.T, dir string) *running {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	r := &running{dir, file}
	r.write(`{"c":0,"e":{"ev":"start","id":"r","wall":"2026-01-02T03:04:05Z","subject":{"kind":"script","script":"train.py","dir":"/p"},"asked":"auto"}}`)
	return r
}

func (r *running) write(format string, a ...any) { fmt.Fprintf(r.file, format+"\n", a...) }

func (r *running) framework() {
	r.write(`{"c":1,"e":{"ev":"hello","version":1,"pid":7,"python":"3.12.1","wall":1767323045.0,"clock":0}}`)
	r.write(`{"c":1,"e":{"ev":"torch","version":"2.8.0"}}`)
	r.write(`{"c":1,"e":{"ev":"loader","id":1,"loader":"DataLoader","batches":20}}`)
	r.write(`{"c":1,"e":{"ev":"length","loader":1}}`)
}

// epoch writes so many steps of 20 ms of an epoch of twenty.
func (r *running) epoch(number, steps int) {
	for i := range steps {
		n := (number-1)*20 + i + 1
		r.write(`{"c":1,"e":{"ev":"steps","number":[%d],"start":[%d],"total":[20000000],"rest":[20000000],"data":[0],"h2d":[0],"forward":[0],"backward":[0],`+
			`"optimizer":[0],"epoch":[%d],"micro":[1],"evals":[0],"kind":[""],"live":[-1],"pool":[-1],"opts":[1],"outside":[0]}}`, n, n*20000000, number)
		r.write(`{"c":1,"e":{"ev":"loss","step":[%d],"value":[%g]}}`, n, 1/float64(n))
	}
}

// end writes the end, as assay run does before it writes the evidence.
func (r *running) end() {
	r.write(`{"c":1,"e":{"ev":"bye","how":"exit","clock":500000000}}`)
	r.write(`{"c":0,"e":{"ev":"exit","wall":"2026-01-02T03:04:09Z","code":0}}`)
	r.file.Close()
}

// looking is an assay show --follow that goes on.
type looking struct {
	out    func() string
	stderr *lockedBuffer
	done   chan int
}

// look starts one in a folder, with a clock that is a hundred times as fast: a second in ten milliseconds.
func look(env *Env, out func() string, args ...string) *looking {
	l := &looking{out, &lockedBuffer{}, make(chan int, 1)}
	began := time.Now()
	env.Stdin, env.Stderr = strings.NewReader(""), l.stderr
	env.Now = func() time.Time { return began.Add(100 * time.Since(began)) }
	go func() { l.done <- Main(env, append([]string{"show", "--follow"}, args...)) }()
	return l
}

// await waits until it has said something.
func (l *looking) await(t *testing.T, text string) {
	t.Helper()
	limit, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for !strings.Contains(l.out()+l.stderr.String(), text) {
		select {
		case status := <-l.done:
			t.Fatalf("ended with %d before it said %q:\n%s%s", status, text, l.out(), l.stderr)
		case <-limit.Done():
			t.Fatalf("did not say %q:\n%s%s", text, l.out(), l.stderr)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (l *looking) ends(t *testing.T) {
	t.Helper()
	if status := <-l.done; status != 0 {
		t.Errorf("status %d: %s", status, l.stderr)
	}
}

// TestFollow: a run that is under way is told from its file, as lines for a pipe, and as a whole when it has ended;
// nobody but the file is asked.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	run := begin(t, dir)
	var out lockedBuffer
	l := look(&Env{Stdout: &out, Dir: dir}, out.String, dir)
	l.await(t, "train.py: no Python has begun yet")
	run.framework()
	l.await(t, "no training step yet")
	run.epoch(1, 20)
	l.await(t, "step 20, epoch 1: 20 of 20 steps, 100 %, 400 ms in all, 20.0 ms a step, loss 0.05")
	run.epoch(2, 5)
	l.await(t, "step 25, epoch 2: 5 of 20 steps, 25 %, about 300 ms to go (300–300 ms)")
	run.end()
	l.ends(t)
	s := out.String()
	if strings.Contains(s, "\x1b") || !strings.Contains(s[strings.LastIndex(s, "train.py"):], "ran to its end") {
		t.Errorf("%s", s)
	}
}

// TestFollowCutOff: where assay run was killed nobody writes the run any more, and what came until then is shown.
func TestFollowCutOff(t *testing.T) {
	dir := t.TempDir()
	run := begin(t, dir)
	run.framework()
	run.epoch(1, 8)
	var out lockedBuffer
	l := look(&Env{Stdout: &out, Dir: dir}, out.String, dir)
	l.await(t, "step 8")
	fmt.Fprint(run.file, `{"c":1,"e":{"ev":"lo`)
	run.file.Close() // as the kernel does
	l.ends(t)
	if s := out.String(); !strings.Contains(l.stderr.String(), "the run was cut off") ||
		!strings.Contains(words(s), "8 training steps in 1 epoch, which was not completed") {
		t.Errorf("%s\n%s", s, l.stderr)
	}
}

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestFollowTheNext: without a run named it is the one that is under way, or the next: not one that has ended.
func TestFollowTheNext(t *testing.T) {
	dir := t.TempDir()
	old := begin(t, filepath.Join(dir, runsFolder, "20260101-000000-old-abcdef"))
	old.framework()
	old.end()
	var out lockedBuffer
	l := look(&Env{Stdout: &out, Dir: dir}, out.String)
	l.await(t, "no run is under way below")
	run := begin(t, filepath.Join(dir, runsFolder, "20260102-000000-new-abcdef"))
	run.framework()
	run.epoch(1, 20)
	l.await(t, "step 20")
	run.end()
	l.ends(t)
	if strings.Count(l.stderr.String(), "waiting") != 2 { // once, in one line
		t.Errorf("%s", l.stderr)
	}
}

// TestFollowNothing: a folder that is not there, or is none of a run, is one clear error; evidence alone is shown.
func TestFollowNothing(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"gone"}, {dir}} {
		var out, stderr bytes.Buffer
		env := &Env{Stdout: &out, Stderr: &stderr, Dir: dir, Now: time.Now}
		if status := Main(env, append([]string{"show", "--follow"}, args...)); status != 1 ||
			!strings.Contains(stderr.String(), "name the folder of a run that assay run has begun") {
			t.Errorf("%q: %d %s", args, status, &stderr)
		}
	}
}

// TestFollowOnATerminal: the run is drawn in place, no wider and no higher than the terminal, which may change its
// size; colours where they are wanted.
func TestFollowOnATerminal(t *testing.T) {
	for _, environ := range [][]string{nil, {"NO_COLOR=1"}} {
		dir := t.TempDir()
		run := begin(t, dir)
		run.framework()
		run.epoch(1, 20)
		far, screen := testkit.Terminal(t)
		resize := func(columns, rows uint16) {
			if err := unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ,
				&unix.Winsize{Row: rows, Col: columns}); err != nil {
				t.Fatal(err)
			}
		}
		resize(70, 9)
		var seen lockedBuffer
		go func() { _, _ = io.Copy(&seen, far) }()
		l := look(&Env{Stdout: screen, Dir: dir, Environ: environ}, seen.String, dir)
		l.await(t, "epoch 1: 20 of 20")
		run.epoch(2, 5)
		l.await(t, "epoch 2: 5 of 20")
		narrow := len(seen.String())
		resize(34, 6)
		l.await(t, clearScreen+cursorHome) // drawn anew, though nothing has come
		run.epoch(3, 3)
		l.await(t, "epoch 3: 3 of 5")
		drawn := seen.String()
		run.end()
		l.ends(t)
		l.await(t, "ran to its end")
		if coloured := strings.Contains(drawn, "\x1b[1m"); coloured != (environ == nil) {
			t.Errorf("%q: colours: %v", environ, coloured)
		}
		for _, part := range []struct {
			text          string
			columns, rows int
		}{{drawn[:narrow], 70, 9}, {drawn[strings.LastIndex(drawn, clearScreen):], 34, 6}} {
			for _, frame := range strings.Split(part.text, cursorHome) {
				frame = strings.ReplaceAll(escapes.ReplaceAllString(frame, ""), "\r", "")
				if n := strings.Count(frame, "\n"); n >= part.rows {
					t.Errorf("%d lines in a terminal of %d:\n%s", n, part.rows, frame)
				}
				for line := range strings.Lines(frame) {
					if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > part.columns {
						t.Errorf("%d columns in a terminal of %d: %s", n, part.columns, line)
					}
				}
			}
		}
	}
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// TestFollowIntoAClosedPipe: where the reader goes away, the looking ends.
func TestFollowIntoAClosedPipe(t *testing.T) {
	dir := t.TempDir()
	run := begin(t, dir)
	run.framework()
	run.epoch(1, 20)
	cmd := exec.Command(testkit.Assay(t), "show", "--follow", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	run.end()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("%v", err)
	}
}
