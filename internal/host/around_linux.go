package host

import (
	"context"
	"os"
	"os/exec"

	"assay/internal/evidence"
)

func loadNow() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	return parseLoadavg(text)
}

func awakeNow(ctx context.Context) []evidence.Fact {
	return (&procHost{tool: runTool, read: readSmall}).awake(ctx, exec.LookPath)
}
