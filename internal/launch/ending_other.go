//go:build unix && !linux

package launch

import "syscall"

// lastSignal is the highest signal number: NSIG of macOS's sys/signal.h is one more.
const lastSignal = syscall.Signal(31)

// marker: none. The highest is SIGUSR2, which others send.
const marker = syscall.Signal(0)

// EndBy ends this process by the signal. It returns only where that could not be done.
func EndBy(s syscall.Signal) { endByShell(s) }

// stopBy stops this process until SIGCONT comes. It stops by SIGSTOP: Go's runtime keeps its handler of every other
// signal.
func stopBy(syscall.Signal) { _ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }
