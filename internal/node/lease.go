package node

import (
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// A lease is kept in the time of modification of a file, which is no date: it is what elapsed said when somebody last
// asked for the job. That needs no room on a disk, survives whoever wrote it, and knows no clock that can be set.
//
// elapsed goes on while the host sleeps. Who asked for the job does not hear of it meanwhile, and gives it to another
// host when the lease is over by its own clock; a Mac that wakes up must not go on with it as if nothing had happened.
// How long a job has run, and may run, goes by awake: nothing runs in sleep.

// renew gives the lease anew.
func (p folder) renew() error {
	now := time.Unix(0, int64(elapsed()))
	return os.Chtimes(p.file(leaseFile), now, now)
}

// left is what is left of a lease of this length. One that was renewed later than now was renewed before the host's
// last start, or by somebody's touch: it says nothing, and since counts instead.
func (p folder) left(lease, since time.Duration) time.Duration {
	now := elapsed()
	if info, err := os.Stat(p.file(leaseFile)); err == nil {
		if at := time.Duration(info.ModTime().UnixNano()); at <= now {
			since = max(since, at)
		}
	}
	return lease - (now - since)
}

const mostWhy = 1000 // bytes of a reason that are kept

// cancel asks for the end of the job. The first reason stays.
func (p folder) cancel(why string) error {
	path := p.file(cancelFile)
	if _, asked := p.cancelled(); asked {
		return nil
	}
	if len(why) > mostWhy {
		why = why[:mostWhy]
	}
	// On a full disk the reason is lost, and the time is not.
	_ = os.WriteFile(path, []byte(strings.ToValidUTF8(why, "")), 0o600)
	now := time.Unix(1, 0)
	return os.Chtimes(path, now, now)
}

// cancelled says whether somebody asked for the end of the job, and why.
func (p folder) cancelled() (why string, asked bool) {
	f, err := os.OpenFile(p.file(cancelFile), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.ModTime().Unix() == 0 {
		return "", false
	}
	text, _ := io.ReadAll(io.LimitReader(f, mostWhy))
	if len(text) == 0 {
		return Cancelled, true
	}
	return string(text), true
}
