package launch

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lastSignal is the highest signal number: _NSIG of the kernel's asm-generic/signal.h. 32 and up are the real-time
// signals.
const lastSignal = syscall.Signal(64)

// marker is the signal that the witness sends itself: of several that wait the kernel hands out that of the lowest
// number first (signal(7)).
const marker = lastSignal

// EndBy ends this process by the signal, as it ends one that never caught it. It returns only where the signal ends no
// process: one that is ignored by default, or any at all where this is the first process of a container (kill(2)). Go's
// runtime keeps its own handlers whatever os/signal is asked for, and a signal may have been ignored or blocked when
// assay was started: so the kernel is asked directly, and the signal goes to this very thread, which has taken it
// before tgkill returns.
func EndBy(s syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // no core dump: the script has made its own
	defaultAction(s)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil)
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s)
}

// stopBy stops this process by a signal that stops one by default, until SIGCONT comes.
func stopBy(s syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old := defaultAction(s)
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s)
	setAction(s, &old, nil)
}

// action is the kernel's struct sigaction: on amd64 and arm64 handler, flags, restorer and a mask of 64 bits. All zero
// it is SIG_DFL.
type action [4]uint64

func defaultAction(s syscall.Signal) (old action) {
	setAction(s, &action{}, &old)
	return old
}

func setAction(s syscall.Signal, to, old *action) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(to)),
		uintptr(unsafe.Pointer(old)), 8, 0, 0)
}
