//go:build unix

package launch

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestSignalName: a signal is named as a shell names it; one without a name keeps its number.
func TestSignalName(t *testing.T) {
	for s, want := range map[syscall.Signal]string{1: "SIGHUP", 9: "SIGKILL", 15: "SIGTERM", 0: "signal 0",
		120: "signal 120"} {
		if got := SignalName(s); got != want {
			t.Errorf("%d: %q, want %q", int(s), got, want)
		}
	}
}

// TestCaught: what cannot be caught, tells of our own children or is the runtime's is left alone; all else is passed
// on.
func TestCaught(t *testing.T) {
	left := map[syscall.Signal]bool{syscall.SIGKILL: true, syscall.SIGSTOP: true, syscall.SIGCHLD: true,
		syscall.SIGURG: true, syscall.SIGPROF: true, 32: true, 33: true, 34: true}
	stops := map[syscall.Signal]bool{syscall.SIGTSTP: true, syscall.SIGTTIN: true, syscall.SIGTTOU: true}
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		if caught(s) == left[s] || jobStop(s) != stops[s] {
			t.Errorf("%d: caught %v, stops a job %v", int(s), caught(s), jobStop(s))
		}
	}
}

// TestNobodyKnowsHowItEnded: a command that somebody else has waited for did not end well: how it ended is not known.
func TestNobodyKnowsHowItEnded(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exit 3")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	c := &child{cmd: cmd, ended: make(chan struct{}), stops: make(chan syscall.Signal, 1)}
	c.wait()
	<-c.Ended()
	if ending, err := c.Ending(); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("%+v, %v", ending, err)
	}
	c.stopped(syscall.SIGTSTP)
	c.stopped(0) // nobody follows: it waits for nobody
	job := jobs{}
	if !job.stopped(c) || job.by != syscall.SIGTSTP || !job.stopped(c) {
		t.Errorf("stopped by %v", job.by)
	}
	c.stopped(0)
	if job.stopped(c) {
		t.Error("it was continued")
	}
}

// TestNoWitness: with no witness, or one that does not start or has gone, nothing was seen, and every signal is passed
// on.
func TestNoWitness(t *testing.T) {
	for _, command := range [][]string{nil, {"/nothing/here"}} {
		w := newWitness(command)
		if w != nil {
			t.Errorf("%q: a witness", command)
		}
		w.ready()
		if w.saw(syscall.SIGTERM) {
			t.Errorf("%q saw a signal", command)
		}
		w.close()
	}
	w := newWitness([]string{"/bin/sh", "-c", "exit 0"})
	w.ready()
	if w.saw(syscall.SIGTERM) || !w.quiet {
		t.Error("one that has ended saw a signal, or is asked again")
	}
	w.close()
}

// TestWitnessAnswers: it says of each signal that reached it so once, of others not, of the highest number but its own
// marker too; a question that is none ends it.
func TestWitnessAnswers(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ASSAY_TEST_LAUNCH=witness")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1)
	if _, err := io.ReadFull(out, answer); err != nil || answer[0] != 1 {
		t.Fatalf("it is not ready: %v, %v", answer, err)
	}
	for _, c := range []struct {
		send, ask syscall.Signal
		want      byte
	}{{syscall.SIGUSR1, syscall.SIGUSR1, 1}, {0, syscall.SIGUSR1, 0}, {syscall.SIGUSR2, syscall.SIGTERM, 0},
		{0, syscall.SIGUSR2, 1}, {lastSignal - 1, lastSignal - 1, 1}} {
		if c.send > 0 {
			if err := syscall.Kill(cmd.Process.Pid, c.send); err != nil {
				t.Fatal(err)
			}
		}
		in.Write([]byte{byte(c.ask)})
		if _, err := io.ReadFull(out, answer); err != nil || answer[0] != c.want {
			t.Errorf("sent %d, asked for %d: %d, %v", int(c.send), int(c.ask), answer[0], err)
		}
	}
	in.Write([]byte{byte(lastSignal) + 1})
	if n, err := out.Read(answer); err != io.EOF {
		t.Errorf("no signal: %d bytes, %v", n, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
