package guest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/testkit"
)

// quickPython is a Python that starts in milliseconds: the one of the tests' environment, without its packages.
func quickPython(t *testing.T) []string { return []string{testkit.Python(t), "-S"} }

// watchedPython is the same with the agent in it, which site brings in.
func watchedPython(t *testing.T) []string { return []string{testkit.Python(t)} }

// unrecorded is assay run as these tests want it: quiet, and with its folder below dir.
func unrecorded(t *testing.T, dir string) []string {
	return []string{testkit.Assay(t), "run", "-q", "--logbook", "off", "--out", filepath.Join(dir, "run"), "--"}
}

// ending is how a process ended, or, where it stopped, by what.
func ending(ws syscall.WaitStatus) string {
	switch {
	case ws.Stopped():
		return fmt.Sprintf("stopped by %v", ws.StopSignal())
	case ws.Signaled():
		return fmt.Sprintf("ended by %v", ws.Signal())
	}
	return fmt.Sprintf("status %d", ws.ExitStatus())
}

// talk is a started command whose lines are read one by one.
type talk struct {
	cmd   *exec.Cmd
	lines *bufio.Reader
	in    io.WriteCloser
}

func startTalk(t *testing.T, dir string, args ...string) *talk {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// what hangs fails
	end := time.AfterFunc(5*time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	t.Cleanup(func() { end.Stop(); _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return &talk{cmd: cmd, lines: bufio.NewReader(out), in: in}
}

func (k *talk) line(t *testing.T) string {
	t.Helper()
	line, err := k.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%v after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

// wait waits for a change of the process itself: its end, or with WUNTRACED and WCONTINUED a stop or that it goes on.
func (k *talk) wait(t *testing.T, options int) syscall.WaitStatus {
	t.Helper()
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(k.cmd.Process.Pid, &ws, options, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return ws
	}
}

// everySignal are the 31 of POSIX systems, and on Linux two real-time ones.
func everySignal() []syscall.Signal {
	var all []syscall.Signal
	for s := syscall.Signal(1); s <= 31; s++ {
		all = append(all, s)
	}
	if runtime.GOOS == "linux" {
		all = append(all, 35, 64)
	}
	return all
}

func stopping(s syscall.Signal) bool {
	return s == syscall.SIGSTOP || s == syscall.SIGTSTP || s == syscall.SIGTTIN || s == syscall.SIGTTOU
}

// TestSignalOfTheScript: a script that ends itself by a signal, whatever it was started with, ends assay by that
// signal.
func TestSignalOfTheScript(t *testing.T) {
	const script = `
import os, signal, sys
n = int(sys.argv[1])
if n not in (signal.SIGKILL, signal.SIGSTOP):
    signal.signal(n, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [n])
print("before", flush=True)
os.kill(os.getpid(), n)
print("after")
sys.exit(7)
`
	python := watchedPython(t)
	for _, start := range []struct{ name, shell string }{
		{"plain", `exec "$@"`},
		{"ignored", `trap '' HUP INT QUIT TERM USR1 PIPE ALRM; exec "$@"`}, // as nohup and a shell's background do
		{"cores", `ulimit -c unlimited 2>/dev/null; exec "$@"`},
	} {
		for _, s := range everySignal() {
			if stopping(s) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", start.name, s), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				run := func(args ...string) testkit.Outcome {
					args = append([]string{"bash", "-c", start.shell, "bash"}, args...)
					return testkit.Execute(t, dir, nil, append(args, "-c", script, fmt.Sprint(int(s)))...)
				}
				bare, watched := run(python...), run(append(unrecorded(t, dir), python...)...)
				if bare != watched {
					t.Errorf("bare %+v, watched %+v", bare, watched)
				}
				testkit.LoadRun(t, filepath.Join(dir, "run"))
				if cores, _ := filepath.Glob(filepath.Join(dir, "core*")); len(cores) > 1 {
					t.Errorf("assay left a core of its own: %v", cores)
				}
			})
		}
	}
}

// counting is a script that tells each signal it gets, and ends with the number of them when its input does.
const counting = `
import os, signal, sys, time
got = []
for n in eval(sys.argv[1]):
    signal.signal(n, lambda n, frame: got.append(n))
print("ready", flush=True)
while True:
    try:
        if not os.read(0, 1):
            break
    except InterruptedError:
        pass
time.sleep(0.05)
print(sorted(got), flush=True)
sys.exit(len(got))
`

// TestSignalToAssay: every signal sent to assay, to it alone, does what it does to the bare script.
func TestSignalToAssay(t *testing.T) {
	python := quickPython(t)
	const sleeping = `
import signal, sys
for n in signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ:  # Python's own handling put away
    signal.signal(n, signal.SIG_DFL)
print("ready", flush=True)
input()
print("after")
raise SystemExit(7)
`
	for _, s := range everySignal() {
		if stopping(s) || s == syscall.SIGKILL || s == syscall.SIGPROF || signal.Ignored(s) {
			continue // TestStops, TestCutOff; SIGPROF Go's runtime keeps to itself
		}
		t.Run(fmt.Sprint(int(s)), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			drive := func(args ...string) (string, string) {
				k := startTalk(t, dir, args...)
				ready := k.line(t)
				_ = k.cmd.Process.Signal(s)
				switch s {
				case syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH: // none of them ends a process
					_, _ = k.in.Write([]byte("\n"))
				case 29: // SIGIO on Linux ends one, SIGINFO on a Mac does not
					if runtime.GOOS != "linux" {
						_, _ = k.in.Write([]byte("\n"))
					}
				}
				rest, _ := io.ReadAll(k.lines)
				return ready + string(rest), ending(k.wait(t, 0))
			}
			script := append(append([]string{}, python...), "-c", sleeping)
			bareOut, bare := drive(script...)
			out, watched := drive(append(unrecorded(t, dir), script...)...)
			if bareOut != out || bare != watched {
				t.Errorf("bare %q %s, watched %q %s", bareOut, bare, out, watched)
			}
			testkit.LoadRun(t, filepath.Join(dir, "run"))
		})
	}
}

// TestSignalOnce: a signal reaches the script as often as it would without assay, whether it was sent to assay alone,
// to its process group, as terminals, shells and timeout do, or to every process there is, as systemd does.
func TestSignalOnce(t *testing.T) {
	python := quickPython(t)
	for _, to := range []string{"process", "group", "each"} {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
			syscall.SIGUSR1, syscall.SIGALRM, syscall.SIGWINCH} {
			if signal.Ignored(s) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", to, s), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				drive := func(args ...string) string {
					k := startTalk(t, dir, append(args, "-c", counting, fmt.Sprintf("[%d]", s))...)
					k.line(t)
					pid := k.cmd.Process.Pid
					switch to {
					case "process":
						_ = syscall.Kill(pid, s)
					case "group":
						_ = syscall.Kill(-pid, s)
					case "each":
						for _, member := range membersOf(t, pid) {
							_ = syscall.Kill(member, s)
						}
					}
					time.Sleep(300 * time.Millisecond) // nothing tells that a second one will not come
					k.in.Close()
					return k.line(t) + " " + ending(k.wait(t, 0))
				}
				bare, watched := drive(python...), drive(append(unrecorded(t, dir), python...)...)
				if bare != watched {
					t.Errorf("bare %s, watched %s", bare, watched)
				}
			})
		}
	}
}

// membersOf are the processes of a group, as ps says.
func membersOf(t *testing.T, group int) []int {
	t.Helper()
	out, err := exec.Command("ps", "-e", "-o", "pid=,pgid=").Output()
	if err != nil {
		t.Skip("ps: ", err)
	}
	var members []int
	for line := range strings.Lines(string(out)) {
		var pid, pgid int
		if _, err := fmt.Sscan(line, &pid, &pgid); err == nil && pgid == group {
			members = append(members, pid)
		}
	}
	return members
}

// TestStops: a signal that stops assay stops the script with it, one that continues it continues the script; what stops
// and continues the script alone leaves assay as it is.
func TestStops(t *testing.T) {
	python := quickPython(t)
	for _, s := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		for _, to := range []string{"process", "group"} {
			t.Run(fmt.Sprintf("%v to the %s", s, to), func(t *testing.T) {
				dir := t.TempDir()
				drive := func(args ...string) string {
					k := startTalk(t, dir, append(args, "-c",
						"import os\nprint(os.getpid(), flush=True)\ninput()\nprint('on', flush=True)\nraise SystemExit(5)")...)
					var script int
					_, _ = fmt.Sscan(k.line(t), &script)
					pid := k.cmd.Process.Pid
					target := pid
					if to == "group" {
						target = -pid
					}
					_ = syscall.Kill(target, s)
					story := ending(k.wait(t, syscall.WUNTRACED))
					_, _ = k.in.Write([]byte("\n"))
					story += fmt.Sprintf(", script %s", stateOf(t, script))
					_ = syscall.Kill(target, syscall.SIGCONT)
					return story + ", then " + k.line(t) + " and " + ending(k.wait(t, 0))
				}
				bare, watched := drive(python...), drive(append(unrecorded(t, dir), python...)...)
				if bare != watched {
					t.Errorf("bare: %s\nwatched: %s", bare, watched)
				}
			})
		}
	}
	t.Run("the script alone", func(t *testing.T) {
		dir := t.TempDir()
		k := startTalk(t, dir, append(append(unrecorded(t, dir), python...), "-c",
			"import os\nprint(os.getpid(), flush=True)\ninput()\nraise SystemExit(5)")...)
		var script int
		_, _ = fmt.Sscan(k.line(t), &script)
		_ = syscall.Kill(script, syscall.SIGSTOP)
		_ = syscall.Kill(script, syscall.SIGCONT)
		_, _ = k.in.Write([]byte("\n"))
		if got := ending(k.wait(t, syscall.WUNTRACED)); got != "status 5" {
			t.Error(got)
		}
	})
}

func stateOf(t *testing.T, pid int) string {
	t.Helper()
	out, err := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(pid)).Output()
	if err != nil {
		t.Skip("ps: ", err)
	}
	return strings.TrimSpace(string(out))[:1]
}

// TestSignalsWhileWriting: once the script has ended, a signal loses neither its status nor the evidence.
func TestSignalsWhileWriting(t *testing.T) {
	python, dir := quickPython(t), t.TempDir()
	// The page and the evidence are written when the script has ended: its last line comes before, by its own end of
	// the pipe.
	script := "import os\nprint('ready', flush=True)\nos._exit(9)"
	k := startTalk(t, dir, append(append(unrecorded(t, dir), python...), "-c", script)...)
	k.line(t)
	for i := 0; ; i++ {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(k.cmd.Process.Pid, &ws, syscall.WNOHANG, nil)
		if err != nil {
			t.Fatal(err)
		}
		if pid != 0 {
			if ending(ws) != "status 9" {
				t.Errorf("%s", ending(ws))
			}
			break
		}
		if _, err := os.Stat(filepath.Join(dir, "run", "evidence.json")); err == nil || i > 0 {
			for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGPIPE,
				syscall.SIGSEGV, syscall.SIGABRT} {
				_ = k.cmd.Process.Signal(s)
			}
		} else {
			i--
		}
	}
	testkit.LoadRun(t, filepath.Join(dir, "run"))
}

// TestBrokenOutput: where nobody reads what assay prints, the script's status stands, and the run is kept.
func TestBrokenOutput(t *testing.T) {
	python := quickPython(t)
	for _, c := range []struct{ name, shell string }{
		{"reader gone", `{ "$@" 2>&1 >/dev/null; echo $? >status; } | true`},
		{"full", `"$@" 2>/dev/full >/dev/null; echo $? >status`},
		{"closed", `"$@" 2>&- >&-; echo $? >status`},
		{"no input", `"$@" <&- 2>/dev/null; echo $? >status`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := os.Stat("/dev/full"); err != nil && c.name == "full" {
				t.Skip("no /dev/full here")
			}
			dir := t.TempDir()
			args := []string{"bash", "-c", c.shell, "bash", testkit.Assay(t), "run", "--out", "run", "--logbook",
				"book.db", "--"}
			testkit.Execute(t, dir, nil, append(append(args, python...), "-c", "raise SystemExit(9)")...)
			status, _ := os.ReadFile(filepath.Join(dir, "status"))
			if strings.TrimSpace(string(status)) != "9" {
				t.Errorf("status %q", status)
			}
			testkit.LoadRun(t, filepath.Join(dir, "run"))
			shown := testkit.Execute(t, dir, nil, testkit.Assay(t), "log", "--logbook", "book.db")
			if !strings.Contains(shown.Stdout, "run") || shown.Code != 0 {
				t.Errorf("logbook: %+v", shown)
			}
		})
	}
}

// TestChildrenLeftBehind: a child that outlives the script and holds its output does not hold assay.
func TestChildrenLeftBehind(t *testing.T) {
	python, dir := watchedPython(t), t.TempDir()
	// The child ends when its input does, which is when this test closes it: after assay has ended, or the test hangs.
	script := `
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; print('child', flush=True); sys.stdin.read()"])
raise SystemExit(3)
`
	k := startTalk(t, dir, append(append(unrecorded(t, dir), python...), "-c", script)...)
	if got := ending(k.wait(t, 0)); got != "status 3" {
		t.Error(got)
	}
	k.in.Close()
	if _, err := io.ReadAll(k.lines); err != nil {
		t.Error(err)
	}
}

// TestTerminal: Ctrl-C, Ctrl-Z, fg and reading from the terminal, in an interactive shell on a terminal of its own.
func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	driver := filepath.Join(dir, "terminal.py")
	if err := os.WriteFile(driver, []byte(terminalDriver), 0o644); err != nil {
		t.Fatal(err)
	}
	python := quickPython(t)
	script := filepath.Join(dir, "asks.py")
	if err := os.WriteFile(script, []byte(terminalScript), 0o644); err != nil {
		t.Fatal(err)
	}
	drive := func(args ...string) testkit.Outcome {
		return testkit.Execute(t, dir, nil, append([]string{python[0], driver}, append(args, script)...)...)
	}
	bare, watched := drive(python...), drive(append(unrecorded(t, dir), python...)...)
	if bare.Stdout != watched.Stdout || bare.Code != 0 || watched.Code != 0 {
		t.Errorf("bare:\n%s%s\nwatched:\n%s%s", bare.Stdout, bare.Stderr, watched.Stdout, watched.Stderr)
	}
	if !bytes.Contains([]byte(watched.Stdout), []byte("got one")) {
		t.Errorf("%s", watched.Stdout)
	}
}

const terminalScript = `
import queue, signal, sys, threading
count = 0
def interrupted(n, frame):
    global count
    count += 1
    print("interrupted", count, flush=True)
signal.signal(signal.SIGINT, interrupted)
# Another thread reads: a signal that comes just before a read begins would wait for the read's end in the one that handles it.
lines = queue.Queue()
def read():
    for _ in range(2):
        lines.put(sys.stdin.readline().strip())
threading.Thread(target=read, daemon=True).start()
def line():
    while True:
        try:
            return lines.get(timeout=0.05)
        except queue.Empty:
            pass
for word in ("first", "second"):
    print("asks", word, flush=True)
    print("got", line(), flush=True)
import os
os._exit(4)
`

// terminalDriver plays a person before a terminal: it types when the words that it waits for have come, and prints
// those.
const terminalDriver = `
import os, pty, shlex, sys, re, time, signal
signal.alarm(300)
pid, fd = pty.fork()
if pid == 0:
    os.environ["PS1"] = "% "
    os.environ["HISTFILE"] = ""
    os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
text = ""
def expect(word):
    global text
    while word not in text:
        try:
            data = os.read(fd, 4096).decode(errors="replace")
        except OSError:
            print("the terminal closed before %r: %r" % (word, text)); sys.exit(1)
        text += data
    text = text[text.index(word) + len(word):]
    print(word.strip())
def type(keys):
    os.write(fd, keys.encode())
type("stty -echo; PS1='% '\n"); expect("% ")
type(shlex.join(sys.argv[1:]) + "\n"); expect("asks first")
type("\x03"); expect("interrupted 1")
type("\x1a"); expect("Stopped")
type("echo shell $((6*7))\n"); expect("shell 42")
type("fg\n"); expect("asks.py"); type("one\n"); expect("got one"); expect("asks second")
type("\x1a"); expect("Stopped")
type("bg; until jobs | grep Stopped; do sleep 0.05; done\n"); expect("Stopped")
type("fg\n"); expect("asks.py"); type("two\n"); expect("got two")
type("echo status $?\n"); expect("status 4")
type("exit\n")
`
