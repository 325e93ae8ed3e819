package host

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
)

// TestShares: what others had is what the run's processors did, less the run's own time with that of children that have
// ended, and assay's.
func TestShares(t *testing.T) {
	files := linuxFiles()
	// Processors 0 and 1 are the run's; 2 belongs to somebody else and is busy all the time.
	files["proc/10/status"] = "Name:\tpython\nVmHWM:\t     900 kB\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"
	files["proc/stat"] = "cpu  9 9 9 9\ncpu0 100 0 0 500 0 0 0 0 0 0\ncpu1 100 0 0 500 0 0 0 0 0 0\ncpu2 900 0 0 0 0 0 0 0 0 0\n"
	files["proc/10/task/10/schedstat"] = "5000000000 1000000000 77\n"
	files["proc/10/task/14/schedstat"] = "5000000000 2000000000 77\n"
	files["sys/fs/cgroup/job/cpu.stat"] = "usage_usec 5\nnr_throttled 1\nthrottled_usec 1000000\n"
	files["sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_total_time_ms"] = "500\n"
	h := fakeRoot(t, files)
	self := 1.0
	h.self = func() float64 { return self }
	s := h.source(10).(*procSource)
	defer s.close()
	at, nan := time.Unix(1000, 0), math.NaN()
	checkFigures(t, s.sample(t.Context(), at), map[string]float64{"process.waiting": nan, "host.cpu.others": nan,
		"host.cpu.free":      nan,
		"host.cpu.throttled": nan, "thermal.throttled": nan, "host.swap.in": nan})
	settle(s.pss)

	// In two seconds: 3.0 of 4 processor seconds were busy, of them 1.2 s the run's, 0.3 s those of a child that came
	// and went between, 0.1 s assay's.
	self = 1.1
	withChildren := strings.Replace(statLine(10, "python", 1, 10, 320, 100, 50), " 320 0 0 0 ", " 320 0 30 0 ", 1)
	for name, text := range map[string]string{"proc/10/stat": withChildren,
		"proc/stat": "cpu  9 9 9 9\ncpu0 240 0 0 560 0 0 0 0 0 0\n" +
			"cpu1 240 0 0 540 0 0 0 20 0 0\ncpu2 1100 0 0 0 0 0 0 0 0 0\n",
		"proc/10/task/10/schedstat":  "5000000000 1500000000 80\n",
		"proc/10/task/15/schedstat":  "100000000 100000000 3\n",
		"sys/fs/cgroup/job/cpu.stat": "throttled_usec 1500000\n", "proc/vmstat": "pswpin 25\npswpout 10\n",
		"sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_total_time_ms": "900\n"} {
		writeFile(t, filepath.Join(h.root, name), text)
	}
	os.RemoveAll(filepath.Join(h.root, "proc/10/task/14"))
	checkFigures(t, s.sample(t.Context(), at.Add(2*time.Second)),
		map[string]float64{"host.cpu.others": (3.0 - 1.5 - 0.1) / 2, "host.cpu.free": 0.5,
			"process.waiting": (0.5 + 0.1) / 2, "host.cpu.throttled": 0.25, "thermal.throttled": 0.2,
			"host.swap.in": 20 * float64(os.Getpagesize()) / 2})

	if all, err := parseCPUList("0-2,7\n"); err != nil || len(all) != 4 || !all[7] || all[3] {
		t.Errorf("%v %v", all, err)
	}
	for _, text := range []string{"", "a", "3-1", "-1", "0-99999999"} {
		if all, err := parseCPUList(text); err == nil {
			t.Errorf("%q is read as %v", text, all)
		}
	}
}

func TestMacShares(t *testing.T) {
	known := func(v float64) evidence.Figure { return measured("x", v, "ratio") }
	checkFigures(t, macShares(known(0.75), known(2), 8), map[string]float64{"host.cpu.others": 4, "host.cpu.free": 2})
	checkFigures(t, macShares(known(0.1), known(2), 8), map[string]float64{"host.cpu.others": 0, "host.cpu.free": 7.2})
	checkFigures(t, macShares(known(0.1), evidence.Unknown("process.cpu", "ratio", needsTwo), 8),
		map[string]float64{"host.cpu.others": math.NaN()})
}
