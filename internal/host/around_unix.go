//go:build linux || darwin

package host

import (
	"runtime"
	"syscall"
)

// niceNow is this process's level. The system call of Linux answers 20 less the level, so that it is never negative;
// that of macOS answers the level itself.
func niceNow() (int, error) {
	v, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err == nil && runtime.GOOS == "linux" {
		v = 20 - v
	}
	return v, err
}
