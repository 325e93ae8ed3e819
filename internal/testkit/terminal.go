package testkit

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Terminal opens a pseudo-terminal: what a program reads and writes at its one end, screen, a test sees and types at
// the other, far. The test is skipped where the machine gives none.
func Terminal(t testing.TB) (far, screen *os.File) {
	t.Helper()
	far, screen, err := openTerminal()
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { far.Close(); screen.Close() })
	return far, screen
}

// OnTerminal makes a command that is not started yet run in a session of its own, at that terminal.
func OnTerminal(cmd *exec.Cmd, screen *os.File) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
}
