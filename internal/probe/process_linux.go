package probe

import "syscall"

func childAttributes(interactive bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !interactive, Pdeathsig: syscall.SIGKILL}
}
