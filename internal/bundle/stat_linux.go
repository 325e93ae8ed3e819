package bundle

import (
	"syscall"
	"time"
)

// changedAt is when a file's content, name or permissions changed last; no program can set it.
func changedAt(s *syscall.Stat_t) time.Time { return time.Unix(s.Ctim.Unix()) }
