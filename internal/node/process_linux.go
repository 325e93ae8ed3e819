package node

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processes lists those of this user.
func processes() ([]process, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	uid := uint32(os.Geteuid())
	var all []process
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		var s syscall.Stat_t
		if syscall.Stat("/proc/"+name, &s) != nil || s.Uid != uid {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		p, err := parseStat(text)
		if err != nil {
			return nil, fmt.Errorf("/proc/%s/stat: %w", name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// environOf is the environment that a process was started with, name=value each ended by a NUL.
func environOf(pid int) []byte {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	return text
}

// alive looks one process up; ok is false where it has ended.
func alive(l like) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(l.pid) + "/stat")
	if err != nil {
		return false
	}
	p, err := parseStat(text)
	return err == nil && p.start == l.start && !p.dead
}

// send sends a signal to this process and to no later one of its number.
func send(l like, s syscall.Signal) {
	fd, err := unix.PidfdOpen(l.pid, 0)
	if err != nil {
		if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
			return
		}
		if alive(l) { // a kernel before 5.3, or a sandbox without the call
			_ = syscall.Kill(l.pid, s)
		}
		return
	}
	defer unix.Close(fd)
	if alive(l) { // from here on its number is not given out again
		_ = unix.PidfdSendSignal(fd, s, nil, 0)
	}
}

// adoptOrphans has processes below this one whose parent ends become children of this one.
func adoptOrphans() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

func clock(id int32) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(id, &t) // of a clock that is there; EFAULT and EINVAL are all that it can answer
	return time.Duration(t.Nano())
}

// elapsed is the time since the host's start, sleep included.
func elapsed() time.Duration { return clock(unix.CLOCK_BOOTTIME) }

// awake is the time since the host's start that it was not asleep.
func awake() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

// stayAwake is a command that keeps the host from sleeping while the process lives; nil: none is needed.
func stayAwake(int) []string { return nil }

// Boot tells one start of the host from the next; "": not known.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// network names the kind of network mount that the folder lies on; "": none that is known as one. Numbers of statfs(2).
func network(folder string) string {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return ""
	}
	switch uint32(s.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "smb"
	case unix.AFS_SUPER_MAGIC:
		return "afs"
	}
	return ""
}
