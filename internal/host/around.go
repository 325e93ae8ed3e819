package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"assay/internal/evidence"
)

// around says at which level a run is scheduled, and how many files it may open. Both are handed down to what a
// process starts, so that assay's own are those of the run.
func around(ctx context.Context) []evidence.Fact {
	level, err := niceNow()
	facts := []evidence.Fact{factOr("process.nice", strconv.Itoa(level), "getpriority(2)", err)}
	// Go's runtime raises the limit for itself, and gives programs that it starts the former one back: one is asked.
	out, err := runTool(ctx, "/bin/sh", "-c", "ulimit -n")
	var files string
	if err == nil {
		files, err = parseFiles(out)
	}
	return append(facts, factOr("limit.files", files, "ulimit -n", err))
}

// parseFiles reads what ulimit -n prints: a number, or unlimited.
func parseFiles(text []byte) (string, error) {
	word := strings.TrimSpace(string(text))
	if word == "unlimited" {
		return "1000000000 (no limit)", nil
	}
	if n, err := strconv.ParseUint(word, 10, 64); err != nil || n == 0 {
		return "", fmt.Errorf("ulimit: %q is no number of files", cut(word, 40))
	}
	return word, nil
}

// Load is the number of processes that run or wait to, as a mean over the last minute. What Linux calls so also counts
// those that wait for a disk.
func Load(ctx context.Context) evidence.Figure {
	v, err := within(ctx, mountLimit, loadNow)
	return figureOr("host.load", v, "1", err)
}

// parseLoadavg reads /proc/loadavg: means of one, five and fifteen minutes, and more.
func parseLoadavg(text []byte) (float64, error) {
	first, _, _ := strings.Cut(string(text), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil || !(v >= 0 && v < 1e9) {
		return 0, fmt.Errorf("/proc/loadavg: %q is no load", cut(first, 20))
	}
	return v, nil
}

// parseLoadSysctl reads the bytes of vm.loadavg: three u32 of fixed point and, aligned to 8 bytes, their scale (xnu,
// bsd/sys/resource.h, struct loadavg).
func parseLoadSysctl(b []byte) (float64, error) {
	if len(b) < 24 {
		return 0, fmt.Errorf("sysctl vm.loadavg: %d bytes", len(b))
	}
	word := func(at int) uint64 {
		var v uint64
		for i := 7; i >= 0; i-- {
			v = v<<8 | uint64(b[at+i])
		}
		return v
	}
	scale := word(16)
	if scale == 0 {
		return 0, errors.New("sysctl vm.loadavg: no scale")
	}
	return float64(uint32(word(0))) / float64(scale), nil
}
