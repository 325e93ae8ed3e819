package file

import (
	"os"
	"syscall"
)

// WriteEarly has the disk begin to write n bytes of a file from at, which are in the system's memory already, and does
// not wait for it: a Sync that comes later has less to wait for. It promises nothing.
func WriteEarly(f *os.File, at, n int64) {
	const rangeWrite = 2 // SYNC_FILE_RANGE_WRITE of linux/fs.h
	_ = syscall.SyncFileRange(int(f.Fd()), at, n, rangeWrite)
}
