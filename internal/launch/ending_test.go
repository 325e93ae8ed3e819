//go:build unix

package launch

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

func endsBy(t *testing.T, variable string, end func(syscall.Signal)) {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		end(syscall.Signal(n))
		os.Exit(128 + n)
	}
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		switch s {
		case syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, 32, 33:
			continue
		}
		cmd := exec.Command("bash", "-c", `trap '' HUP INT TERM USR1; exec "$@"`, "bash", os.Args[0],
			"-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(int(s)))
		_ = cmd.Run()
		ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
		harmless := s == syscall.SIGCHLD || s == syscall.SIGCONT || s == syscall.SIGURG || s == syscall.SIGWINCH
		if ends := ws.Signaled() && ws.Signal() == s && !ws.CoreDump(); !ends &&
			!(harmless && ws.ExitStatus() == 128+int(s)) {
			t.Errorf("signal %d: %v", s, cmd.ProcessState)
		}
	}
}

// TestEndByShell: the way of ending that Macs use, on this system: in a process of its own, which this test is when it
// is told the signal.
func TestEndByShell(t *testing.T) { endsBy(t, "ASSAY_TEST_END_BY_SHELL", endByShell) }

// TestEndBy: the same for this system's own way.
func TestEndBy(t *testing.T) { endsBy(t, "ASSAY_TEST_END_BY", EndBy) }
