package node

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// zombie is SZOMB of sys/proc.h.
const zombie = 5

func fromKinfo(k *unix.KinfoProc) process {
	return process{pid: int(k.Proc.P_pid), parent: int(k.Eproc.Ppid), dead: k.Proc.P_stat == zombie,
		start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec)}
}

// processes lists those of this user.
func processes() ([]process, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Geteuid())
	if err != nil {
		return nil, fmt.Errorf("sysctl kern.proc.uid: %w", err)
	}
	list := make([]process, 0, len(all))
	for i := range all {
		list = append(list, fromKinfo(&all[i]))
	}
	return list, nil
}

// environOf is the environment that a process was started with, name=value each ended by a NUL. macOS tells none of its
// own programs, such as /bin/sh.
func environOf(pid int) []byte {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil
	}
	return parseProcargs(b)
}

func alive(l like) bool {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", l.pid)
	if err != nil {
		return false
	}
	p := fromKinfo(k)
	return p.like() == l && !p.dead
}

// send sends a signal to this process. Between the look and the call its number could be given out again only where all
// the others had been in between: macOS hands them out in turn.
func send(l like, s syscall.Signal) {
	if alive(l) {
		_ = syscall.Kill(l.pid, s)
	}
}

// adoptOrphans: macOS has launchd adopt them.
func adoptOrphans() bool { return false }

func clock(id int32) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(id, &t) // of a clock that is there
	return time.Duration(t.Nano())
}

// elapsed is the time since the host's start, sleep included: mach_continuous_time (clock_gettime(3)).
func elapsed() time.Duration { return clock(unix.CLOCK_MONOTONIC_RAW) }

// awake is the time since the host's start that it was not asleep: mach_absolute_time.
func awake() time.Duration { return clock(unix.CLOCK_UPTIME_RAW) }

// stayAwake is a command that keeps the host from sleeping while the process lives: a Mac without a user sleeps when
// its time has come, whatever its GPU does.
func stayAwake(pid int) []string {
	return []string{"/usr/bin/caffeinate", "-i", "-w", strconv.Itoa(pid)}
}

// Boot tells one start of the host from the next; "": not known.
func Boot() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}

// network names the kind of network mount that the folder lies on; "": it is the host's own.
func network(folder string) string {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil || s.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(s.Fstypename[:])
}
