//go:build unix

package launch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/fault"
)

// TestMain: this test's binary is the witness as well, and a program that starts a Local of its own.
func TestMain(m *testing.M) {
	switch os.Getenv("ASSAY_TEST_LAUNCH") {
	case "witness":
		Witness(os.Stdin, os.Stdout)
		os.Exit(0)
	case "local":
		os.Exit(beLocal())
	case "script":
		os.Exit(beScript())
	}
	os.Exit(m.Run())
}

// beLocal starts the command of its arguments as assay would, and ends as it ended.
func beLocal() int {
	os.Setenv("ASSAY_TEST_LAUNCH", "witness")
	local := NewLocal([]string{"/usr/bin/env", "ASSAY_TEST_LAUNCH=witness", os.Args[0]})
	defer local.Close()
	path, err := local.Look(os.Args[1], os.Environ(), "/")
	if err != nil {
		return 1
	}
	p, err := local.Start(Command{Path: path, Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin,
		Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		return 1
	}
	<-p.Ended()
	ending, err := p.Ending()
	if err != nil {
		return 1
	}
	return ending.Exit
}

// beScript counts signals, one a line, until SIGTERM.
func beScript() int {
	signals := make(chan os.Signal, 100)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGTERM)
	fmt.Println("ready")
	for n := 0; ; n++ {
		if <-signals == syscall.SIGTERM {
			fmt.Println("got", n)
			return 3
		}
		fmt.Println("got one")
	}
}

// startLocal starts a process that starts the script with a Local, in a group of its own, and gives what the script
// prints.
func startLocal(t *testing.T) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "/usr/bin/env", "ASSAY_TEST_LAUNCH=script", os.Args[0])
	cmd.Env = append(os.Environ(), "ASSAY_TEST_LAUNCH=local")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

func TestLook(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o755, "plain/tool": 0o644, "plain/notes": 0o644,
		"tool": 0o755} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, path string
		want       string // below dir
		exit       int    // of the error
	}{
		{"tool", "PATH=bin", "bin/tool", 0},
		{"tool", "PATH=plain:bin", "bin/tool", 0}, // what cannot be executed is passed over, as execvp does
		{"tool", "PATH=" + dir + "/bin", "bin/tool", 0},
		{"tool", "PATH=:bin", "tool", 0}, // an empty entry is the working folder
		{"./bin/tool", "PATH=", "bin/tool", 0},
		{"bin/tool", "PATH=", "bin/tool", 0},
		{"notes", "PATH=plain", "", fault.NotRunnable},
		{"./plain/notes", "PATH=", "", fault.NotRunnable},
		{"./bin", "PATH=", "", fault.NotRunnable},
		{"nothing", "PATH=bin", "", fault.NotFound},
		{"./nothing", "PATH=bin", "", fault.NotFound},
		{"tool", "HOME=/", "", fault.NotFound},
	} {
		got, err := new(Local).Look(c.name, []string{c.path}, dir)
		if c.exit != 0 {
			if err == nil || fault.CodeOf(err) != c.exit {
				t.Errorf("%s with %s: %q, %v, want status %d", c.name, c.path, got, err, c.exit)
			}
		} else if err != nil || got != filepath.Join(dir, c.want) {
			t.Errorf("%s with %s: %q, %v", c.name, c.path, got, err)
		}
	}
}

func TestEnding(t *testing.T) {
	local := NewLocal(nil)
	defer local.Close()
	defer local.Release()
	for script, want := range map[string]Ending{"exit 7": {Exit: 7}, "true": {},
		"kill -TERM $$": {Exit: 128 + 15, Signal: syscall.SIGTERM}} {
		p, err := local.Start(Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Ended()
		if got, err := p.Ending(); err != nil || got != want {
			t.Errorf("%s: %+v, %v", script, got, err)
		}
		p.Signal(syscall.SIGKILL) // its number may be another process's by now: nobody is hit
	}
	if _, err := local.Start(Command{Path: "/nothing/here"}); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "start /nothing/here") {
		t.Error(err)
	}
}

// TestSignals: a signal to the launcher alone reaches the command once, and so does one to the whole group, which the
// command has already.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(pid int, s syscall.Signal) error
	}{
		{"to it alone", syscall.Kill},
		{"to its group", func(pid int, s syscall.Signal) error { return syscall.Kill(-pid, s) }},
	} {
		cmd, lines := startLocal(t)
		await := func(want string) {
			if line, err := lines.ReadString('\n'); line != want+"\n" {
				t.Errorf("%s: %q, %v, want %q", c.name, line, err, want)
			}
		}
		await("ready")
		// Each another one: two of one number, close upon each other, may reach a process as one.
		for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH} {
			if err := c.send(cmd.Process.Pid, sig); err != nil {
				t.Fatal(err)
			}
			await("got one")
		}
		if err := c.send(cmd.Process.Pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		await("got 3")
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
		if status := cmd.ProcessState.ExitCode(); status != 3 {
			t.Errorf("%s: status %d", c.name, status)
		}
	}
}

// TestWitnessEnds: it ends with its input, and where it is asked what no signal is, so that none is left behind when
// assay is killed.
func TestWitnessEnds(t *testing.T) {
	for _, asked := range []string{"", "\xff", "\x01\x02"} {
		var answers bytes.Buffer
		done := make(chan bool)
		go func() { Witness(strings.NewReader(asked), &answers); close(done) }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("asked %q it goes on", asked)
		}
		if want := "\x01" + strings.Repeat("\x00", len(strings.TrimSuffix(asked, "\xff"))); answers.String() != want {
			t.Errorf("asked %q: %q, want %q", asked, answers.String(), want)
		}
	}
	var none *witness
	none.ready()
	none.close()
	if none.saw(syscall.SIGUSR1) {
		t.Error("nobody saw a signal")
	}
	silent := &witness{quiet: true}
	if silent.saw(syscall.SIGUSR1) {
		t.Error("one that does not answer is asked again")
	}
}

// TestStops: what stops the command as a terminal stops a job stops the launcher too, so that a shell sees its job
// stopped, and it goes on with it; where somebody stops the command alone, the launcher waits.
func TestStops(t *testing.T) {
	cmd, lines := startLocal(t)
	pid := cmd.Process.Pid
	await := func(want string) {
		t.Helper()
		if line, err := lines.ReadString('\n'); line != want+"\n" {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
	}
	send := func(to int, s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(to, s); err != nil {
			t.Fatal(err)
		}
	}
	await("ready")
	send(-pid, syscall.SIGTSTP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the job was stopped, and its launcher is %v, %v", status, err)
	}
	send(-pid, syscall.SIGCONT)
	if _, err := syscall.Wait4(pid, &status, syscall.WCONTINUED, nil); err != nil || !status.Continued() {
		t.Fatalf("%v, %v", status, err)
	}
	send(pid, syscall.SIGUSR1)
	await("got one")
	send(pid, syscall.SIGTERM)
	await("got 1")
	_, _ = io.Copy(io.Discard, lines)
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 3 {
		t.Errorf("status %d", status)
	}
}
