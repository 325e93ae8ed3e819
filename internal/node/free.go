package node

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// freeBytes is how much this user may still write where the folder lies.
func freeBytes(folder string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return 0, err
	}
	return int64(uint64(st.Bavail) * uint64(st.Bsize)), nil
}

// bootID tells one start of this host from the next: "" where the system does not say.
func bootID() string {
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil { // Linux
		return strings.TrimSpace(string(id))
	}
	id, err := bootSession()
	if err != nil {
		return ""
	}
	return id
}
