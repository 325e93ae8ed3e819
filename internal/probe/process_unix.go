//go:build unix

package probe

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// foreground reports whether a terminal sends its signals to our process group: then the script stays in the group and gets
// Ctrl-C from the terminal itself. Otherwise it gets a group of its own, and signals from us, once.
func foreground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
