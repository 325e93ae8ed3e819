package host

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"assay/internal/evidence"
)

func loadNow() (float64, error) {
	b, err := unix.SysctlRaw("vm.loadavg")
	if err != nil {
		return 0, fmt.Errorf("sysctl vm.loadavg: %w", err)
	}
	return parseLoadSysctl(b)
}

func awakeNow(ctx context.Context) []evidence.Fact {
	return macAwake(ctx, runTool, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
}
