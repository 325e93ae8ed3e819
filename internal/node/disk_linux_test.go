package node

import "syscall"

// mountSmall mounts a disk of 4 MiB.
func mountSmall(at string) error { return syscall.Mount("assay-test", at, "tmpfs", 0, "size=4m") }
