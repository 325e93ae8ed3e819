package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
)

// fakeRoot is a folder with files of /proc and /sys. The texts are made after the kernel's documentation and this
// project's own machines.
func fakeRoot(t testing.TB, files map[string]string) *procHost {
	root := t.TempDir()
	h := &procHost{root: root, read: os.ReadFile, tool: func(context.Context, string, ...string) ([]byte,
		error) {
		return nil, errAbsent
	}}
	for name, text := range files {
		writeFile(t, filepath.Join(root, name), text)
	}
	return h
}

func writeFile(t testing.TB, path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// statLine is /proc/PID/stat with the fields that are read.
func statLine(pid int, name string, parent, group, ticks, start, pages int) string {
	return fmt.Sprintf("%d (%s) S %d %d 1 0 -1 4194560 100 0 0 0 %d 0 0 0 20 0 1 0 %d 1000 %d 18446744073709551615\n",
		pid, name, parent, group, ticks, start, pages)
}

const testMountinfo = `22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
30 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw
41 22 0:50 / /mnt/data\040set rw,relatime - nfs4 nas:/export/data rw,vers=4.2,addr=10.0.0.7
42 22 0:51 / /mnt/remote rw - fuse.sshfs someone@server:/data rw,user_id=0
43 22 0:52 / /scratch rw - tmpfs tmpfs rw,size=1024k
`

func linuxFiles() map[string]string {
	return map[string]string{
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9354\nflags\t\t: fpu sse hypervisor lm\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 9354\n",
		"proc/meminfo": "MemTotal:       16384 kB\nMemFree:   100 kB\nMemAvailable:    8192 kB\nSwapTotal:  2048 kB\nSwapFree:   1024 kB\nHugePages_Total: 0\n",
		"proc/vmstat":  "pswpin 5\npswpout 10\n", "proc/stat": "cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n",
		"proc/pressure/memory":               "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4\n",
		"proc/self/mountinfo":                testMountinfo,
		"proc/self/cgroup":                   "0::/job/inner\n",
		"proc/10/cgroup":                     "0::/job/inner\n",
		"proc/sys/kernel/osrelease":          "6.12.0-1-amd64\n",
		"etc/os-release":                     "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n",
		"sys/fs/cgroup/job/inner/memory.max": "max\n", "sys/fs/cgroup/job/memory.max": "4194304\n",
		"sys/fs/cgroup/job/memory.current": "3145728\n",
		"sys/fs/cgroup/job/memory.stat":    "anon 1\ninactive_file 1048576\n",
		"sys/fs/cgroup/job/cpu.max":        "150000 100000\n", "sys/fs/cgroup/job/inner/cpu.max": "max 100000\n",
		"sys/class/dmi/id/sys_vendor": "ACME\n", "sys/class/dmi/id/product_name": "Box 3\n",
		"sys/class/power_supply/AC/type": "Mains\n", "sys/class/power_supply/AC/online": "0\n",
		"sys/class/power_supply/BAT0/type": "Battery\n", "sys/class/power_supply/BAT0/status": "Discharging\n",
		"sys/class/power_supply/BAT0/capacity":                 "71\n",
		"sys/firmware/acpi/platform_profile":                   "low-power\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
		"sys/devices/system/cpu/cpu0/cpu_capacity":             "1024\n",
		"sys/devices/system/cpu/cpu1/cpu_capacity":             "512\n",
		"proc/1/stat": statLine(1, "init", 0, 1, 5, 1, 10), "proc/10/stat": statLine(10, "python (3)", 1, 10, 200, 100,
			50),
		"proc/11/stat":         statLine(11, "worker) R 1", 10, 10, 100, 110, 20),
		"proc/12/stat":         statLine(12, "other", 1, 12, 100, 120, 99),
		"proc/10/status":       "Name:\tpython\nVmHWM:\t     900 kB\n",
		"proc/10/smaps_rollup": "0000 [rollup]\nPss: 100 kB\nPss_Dirty: 5 kB\nSwapPss: 20 kB\n",
		"proc/11/smaps_rollup": "Pss: 30 kB\nSwapPss: 0 kB\n",
	}
}

func TestLinuxFacts(t *testing.T) {
	h := fakeRoot(t, linuxFiles())
	h.smi = "nvidia-smi"
	h.tool = func(_ context.Context, path string, args ...string) ([]byte, error) {
		return []byte("NVIDIA H200, 143771, 570.86.15\nNVIDIA H200, 143771, 570.86.15\n"), nil
	}
	facts := h.facts(t.Context(), []string{"/proc/nowhere/at/all"})
	checkFacts(t, facts, map[string]string{"chip": "AMD EPYC 9354", "model": "ACME Box 3", "cpu.cores": "2 logical",
		"cpu.clusters": "1 of capacity 1024, 1 of capacity 512", "gpu": "2 × NVIDIA H200", "gpu.memory": "2 × 140 GiB",
		"gpu.driver":   "570.86.15",
		"memory.total": "16.0 MiB", "memory.limit": "4.00 MiB", "system": "Debian GNU/Linux 13 (trixie)",
		"system.build":   "Linux 6.12.0-1-amd64",
		"system.virtual": "virtual machine", "power.source": "battery", "power.battery": "71 %, discharging",
		"power.low_power_mode": "on (profile low-power)", "power.profile": "low-power, governor powersave",
		"mount:/proc/nowhere/at/all": "ext4, local, /dev/nvme0n1p1 on /"})
	if usable := factsByName(facts)["cpu.usable"].Value; !strings.HasSuffix(usable, "the time of 1.5") {
		t.Errorf("usable %q", usable)
	}
	checkFacts(t, fakeRoot(t, nil).facts(t.Context(), []string{"/"}), map[string]string{"chip": "", "memory.total": "",
		"gpu": "", "power.source": "", "mount:/": ""})

	var all []mount
	for _, m := range parseMountinfo([]byte(testMountinfo)) {
		all = append(all, m.mount)
	}
	for path, want := range map[string]string{
		"/mnt/data set/x": "nfs4, network, nas:/export/data on /mnt/data set",
		"/mnt/datas":      "ext4, local, /dev/nvme0n1p1 on /",
		"/mnt/remote":     "fuse.sshfs, network, server:/data on /mnt/remote",
		"/scratch/a":      "tmpfs, memory on /scratch"} {
		m, _ := onMount(path, all)
		if got := m.describe(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestCgroupV1(t *testing.T) {
	// The path is told from the host's root, and the container sees its own folder as the root of the hierarchy.
	h := fakeRoot(t, map[string]string{
		"proc/self/cgroup":                               "4:cpu,memory:/docker/abc/sub\n0::/\n",
		"proc/self/mountinfo":                            "30 22 0:26 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 22 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes":     "1073741824\n",
		"sys/fs/cgroup/memory/sub/memory.limit_in_bytes": "9223372036854771712\n",
	})
	limit, folder, err := h.memoryLimit("self")
	if err != nil || limit != 1<<30 || folder != "/sys/fs/cgroup/memory" {
		t.Errorf("%v %q %v", limit, folder, err)
	}
}

// settle waits until a slow reading that was asked for has been stored.
func settle(s *slow) {
	for {
		s.mu.Lock()
		busy := s.busy
		s.mu.Unlock()
		if !busy {
			return
		}
		runtime.Gosched()
	}
}

func TestLinuxSampler(t *testing.T) {
	h := fakeRoot(t, linuxFiles())
	h.smi = "nvidia-smi"
	h.tool = func(context.Context, string, ...string) ([]byte, error) {
		return []byte("37, 312.5, 1755, 1024\n[N/A], [N/A], 210, 3\n"), nil
	}
	page := float64(os.Getpagesize())
	nan := math.NaN()
	s := h.source(10).(*procSource)
	defer s.close()
	at := time.Unix(1000, 0)
	checkFigures(t, s.sample(t.Context(), at), map[string]float64{"process.footprint": nan,
		"process.resident": 70 * page,
		"process.workers":  20 * page, "process.peak": 900 * 1024, "process.cpu": nan, "host.cpu": nan,
		"host.memory.available": 2 << 20,
		"host.swap.used":        1 << 20, "host.swap.out": nan, "host.pressure": nan, "host.pressure.some": nan,
		"thermal.pressure": nan, "power.system": nan})
	settle(s.pss)
	settle(s.gpu)

	for name, text := range map[string]string{
		"proc/10/stat": statLine(10, "python", 1, 10, 300, 100, 60), "proc/11/stat": statLine(11, "orphan", 1, 11, 150,
			110, 20),
		"proc/13/stat": statLine(13, "new", 11, 13, 50, 500, 1),
		"proc/stat":    "cpu  140 0 60 840 60 0 0 0 7 0\n", "proc/vmstat": "pswpout 30\n",
		"proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n",
	} {
		writeFile(t, filepath.Join(h.root, name), text)
	}
	figures := s.sample(t.Context(), at.Add(2*time.Second))
	checkFigures(t, figures, map[string]float64{"process.resident": 81 * page, "process.workers": 21 * page,
		"process.pss": 150 * 1024,
		"process.cpu": 1, "host.cpu": 0.5, "host.swap.out": 20 * page / 2, "host.pressure.some": 0.25,
		"gpu.busy": 0.37, "gpu.power": 312.5, "gpu.frequency": 1755e6, "gpu.memory": 1027 << 20})
	if n := figuresByName(figures)["gpu.memory"].Note; n != "sum of 2 GPUs" {
		t.Errorf("note %q", n)
	}
	var names []string
	for _, f := range figures {
		names = append(names, f.Name)
	}
	if want := "process.footprint process.resident process.workers process.pss process.peak process.cpu host.cpu host.memory.available host.swap.used host.swap.out host.pressure host.pressure.some gpu.busy gpu.power gpu.frequency gpu.memory thermal.pressure power.system process.waiting host.cpu.others host.cpu.free host.cpu.throttled thermal.throttled host.swap.in"; strings.Join(names, " ") != want {
		t.Errorf("order: %q", names)
	}

	os.RemoveAll(filepath.Join(h.root, "proc/10"))
	os.RemoveAll(filepath.Join(h.root, "proc/11"))
	os.RemoveAll(filepath.Join(h.root, "proc/13"))
	if f := figuresByName(s.sample(t.Context(),
		at.Add(3*time.Second)))["process.resident"]; f.Missing != "the process has ended" {
		t.Errorf("%+v", f)
	}
}

func TestSMI(t *testing.T) {
	for text, want := range map[string]string{"": "no device", "No devices were found\n": "no row of 4",
		"1, 2, 3\n": "no row of 4"} {
		_, err := parseSMI([]byte(text))
		wantMissing(t, err, want)
	}
	for name, want := range map[string]gpuReading{"nvidia-smi-query-580.159.04-h200.csv": {0, 77.88, 345e6, 0}} {
		text, err := os.ReadFile(filepath.Join("testdata", "linux", name))
		if err != nil {
			t.Fatal(err)
		}
		if all, err := parseSMI(text); err != nil || len(all) != 1 || all[0] != want {
			t.Errorf("%s: %+v %v", name, all, err)
		}
	}
	text, err := os.ReadFile("testdata/linux/nvidia-smi-facts-580.159.04-h200.csv")
	if err != nil {
		t.Fatal(err)
	}
	if name, memory, driver, err := parseSMIFacts(text); err != nil || name != "NVIDIA H200" || memory != "140 GiB" ||
		driver != "580.159.04" {
		t.Errorf("%q %q %q %v", name, memory, driver, err)
	}
	all, err := parseSMI([]byte("0, [N/A], 210, 3\n"))
	if err != nil || all[0].busy != 0 || !math.IsNaN(all[0].power) || all[0].frequency != 210e6 {
		t.Errorf("%+v %v", all, err)
	}
	if _, _, _, err := parseSMIFacts([]byte("NVIDIA-SMI has failed\n")); err == nil {
		t.Error("a failure is a device")
	}
}

func TestSlow(t *testing.T) {
	gate := make(chan []evidence.Figure)
	ended := false
	s := &slow{what: "the tool", every: 5 * time.Second, limit: time.Second, gives: gpuGives}
	s.begin(false, func() (func(context.Context) []evidence.Figure, func()) {
		return func(ctx context.Context) []evidence.Figure {
			select {
			case f := <-gate:
				return f
			case <-ctx.Done():
				return nil
			}
		}, func() { ended = true }
	})
	at := time.Unix(1000, 0)
	say := func(want string) {
		t.Helper()
		f := s.latest(at)
		got := f[0].Missing
		if f[0].Known() {
			got = fmt.Sprint(*f[0].Value)
		}
		if got != want || len(f) != len(gpuGives) {
			t.Errorf("at %v: %q, want %q", at.Unix(), got, want)
		}
	}
	say("first reading of the tool is not back yet")
	gate <- []evidence.Figure{measured("gpu.busy", 0.5, "ratio")}
	settle(s)
	at = at.Add(4 * time.Second)
	say("0.5") // not due
	if f := s.latest(at)[1]; f.Missing != "not given by the tool" {
		t.Errorf("%+v", f)
	}
	at = at.Add(time.Second)
	say("0.5") // due: asked again, the old answer stands
	at = at.Add(20 * time.Second)
	say("the tool has stopped answering")
	s.close()
	if !ended {
		t.Error("the handles were not given back")
	}
}

func TestSamplerOfThisProcess(t *testing.T) {
	s := NewSampler(os.Getpid())
	for range 2 {
		names := map[string]bool{}
		for _, f := range s.Sample(t.Context()) {
			if names[f.Name] {
				t.Errorf("%s twice", f.Name)
			}
			names[f.Name] = true
			if runtime.GOOS == "linux" && f.Name == "process.resident" && !(f.Known() && *f.Value > 1<<20) {
				t.Errorf("%+v", f)
			}
		}
	}
	s.Close()
	s.Close()
	if s.Sample(t.Context()) != nil {
		t.Error("a closed sampler gives figures")
	}
	apps, err := Apps(t.Context(), os.Getpid(), 3)
	if err != nil || len(apps) > 3 {
		t.Errorf("%v %v", apps, err)
	}
	checkFacts(t, Facts(t.Context(), t.TempDir()), nil)
}

func TestToolLimits(t *testing.T) {
	var b bounded
	for range 3 {
		if n, err := b.Write(make([]byte, toolOutput/2+1)); n != toolOutput/2+1 || err != nil {
			t.Errorf("%d %v", n, err)
		}
	}
	if b.kept.Len() != toolOutput {
		t.Errorf("%d bytes kept", b.kept.Len())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := within(ctx, time.Hour, func() (int, error) { select {} }); err == nil {
		t.Error("a call that hangs was waited for")
	}
	if got := reason(&os.PathError{Op: "open", Path: "x", Err: os.ErrNotExist}); got != "not on this system" {
		t.Errorf("%q", got)
	}
	if got := reason(errors.Join(os.ErrPermission)); got != "not permitted" {
		t.Errorf("%q", got)
	}
}

func FuzzLinuxParsers(f *testing.F) {
	for _, text := range linuxFiles() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		parseStat(text)
		parseKeyed(text)
		parseCPU(text)
		parsePressure(text, "some")
		parseCPUInfo(text)
		parseOSRelease(text)
		for _, m := range parseMountinfo(text) {
			_ = m.describe()
		}
		if all, err := parseSMI(text); err == nil {
			gpuFigures(all)
		}
		parseSMIFacts(text)
		parseCgroups(text)
	})
}

// BenchmarkSample is the cost of one sample of this process with 600 others on the machine, of which 20 are the run's.
func BenchmarkSample(b *testing.B) {
	files := linuxFiles()
	for pid := 100; pid < 700; pid++ {
		parent := 1
		if pid < 120 {
			parent = 10
		}
		files["proc/"+strconv.Itoa(pid)+"/stat"] = statLine(pid, "p", parent, pid, 1, pid, 100)
		files["proc/"+strconv.Itoa(pid)+"/smaps_rollup"] = "Pss: 1 kB\n"
	}
	h := fakeRoot(b, files)
	if real, ok := any(thisMachine()).(*procHost); ok {
		h.read = real.read
	}
	s := h.source(10)
	defer s.close()
	b.ReportAllocs()
	for b.Loop() {
		s.sample(b.Context(), time.Now())
	}
}

// BenchmarkSampleHere samples the real machine.
func BenchmarkSampleHere(b *testing.B) {
	s := NewSampler(os.Getppid())
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		s.Sample(b.Context())
	}
}
