package host

import (
	"context"
	"os"
	"os/exec"
	"strings"

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

// awake reads it of Linux.
func (h *procHost) awake(ctx context.Context, look func(string) (string, error)) []evidence.Fact {
	var facts []evidence.Fact
	states, err := h.word("/sys/power/state")
	sleep := noFact("sleep", "/sys/power/state, systemctl is-enabled sleep.target",
		"what a desktop's settings do after a while is not told")
	switch {
	case err != nil || !strings.Contains(states, "mem") && !strings.Contains(states, "standby"):
		sleep = fact("sleep", "never (the kernel offers no sleep)", "/sys/power/state")
	default:
		if path, err := look("systemctl"); err == nil {
			out, _ := h.tool(ctx, path, "is-enabled", "sleep.target")
			if strings.TrimSpace(string(out)) == "masked" {
				sleep = fact("sleep", "never (sleep.target is masked)", "systemctl is-enabled sleep.target")
			}
		}
	}
	facts = append(facts, sleep)
	if path, err := look("systemd-inhibit"); err == nil {
		facts = append(facts, fact("sleep.inhibitor", path, "PATH"))
	} else {
		facts = append(facts, noFact("sleep.inhibitor", "PATH", "no systemd-inhibit"))
	}
	return append(facts, noFact("restart.power-loss", "", "a setting of the firmware, which Linux does not show"),
		noFact("disk.encryption", "", "not looked at on Linux"))
}
