//go:build unix && !linux

package probe

import "syscall"

// childAttributes: these systems have no parent-death signal, so a script outlives an assay that is killed with SIGKILL.
func childAttributes(interactive bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !interactive}
}
