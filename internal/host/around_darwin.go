package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func loadNow() (float64, error) {
	b, err := unix.SysctlRaw("vm.loadavg")
	if err != nil {
		return 0, fmt.Errorf("sysctl vm.loadavg: %w", err)
	}
	return parseLoadSysctl(b)
}
