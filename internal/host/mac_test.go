package host

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/catalogue"
	"assay/internal/evidence"
)

// fakeMac answers from maps; what they lack is not there.
type fakeMac struct {
	sysctls map[string][]byte
	tools   map[string][]byte // by base name and arguments
	list    []process
	used    map[int]usage
	ticks   [4]uint32
	low     func() (bool, error)
	gpu     *fakeGPU
	isRoot  bool
	broken  error // of usage
}

var errAbsent = errors.New("not in this fake")

func (f *fakeMac) sysctl(name string) ([]byte, error) {
	if v, ok := f.sysctls[name]; ok {
		return v, nil
	}
	return nil, fs.ErrNotExist
}

func (f *fakeMac) tool(_ context.Context, path string, args ...string) ([]byte, error) {
	key := strings.Join(append([]string{path[strings.LastIndex(path, "/")+1:]}, args...), " ")
	if v, ok := f.tools[key]; ok {
		return v, nil
	}
	return nil, errAbsent
}
func (f *fakeMac) processes() ([]process, error) { return f.list, nil }
func (f *fakeMac) usage(pid int) (usage, error) {
	if f.broken != nil {
		return usage{}, f.broken
	}
	if u, ok := f.used[pid]; ok {
		return u, nil
	}
	return usage{}, fs.ErrPermission
}
func (f *fakeMac) executable(pid int) string {
	return "/Applications/App " + strconv.Itoa(pid) + ".app/Contents/MacOS/x"
}
func (f *fakeMac) cpuTicks() ([4]uint32, error) { return f.ticks, nil }
func (f *fakeMac) thermal() (uint64, error)     { return 0, errAbsent }
func (f *fakeMac) lowPower() (bool, error) {
	if f.low == nil {
		return false, errAbsent
	}
	return f.low()
}
func (f *fakeMac) powerSource() (string, error)    { return "", errAbsent }
func (f *fakeMac) adapter() (adapter, bool, error) { return adapter{}, false, errAbsent }
func (f *fakeMac) gpuCores() (int64, error)        { return 0, errAbsent }
func (f *fakeMac) statfs(string) (mount, error)    { return mount{}, errAbsent }
func (f *fakeMac) root() bool                      { return f.isRoot }
func (f *fakeMac) openGPU() (gpuReader, error) {
	if f.gpu == nil {
		return nil, errors.New("no IOKit")
	}
	return f.gpu, nil
}

// sysctlsOf turns the text of the tool back into raw answers: numbers of 8 bytes, text with NUL.
func sysctlsOf(text []byte) map[string][]byte {
	raw := map[string][]byte{}
	for key, value := range colons(text) {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			raw[key] = binary.LittleEndian.AppendUint64(nil, uint64(n))
		} else {
			raw[key] = append([]byte(value), 0)
		}
	}
	return raw
}

func u32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

type fakeGPU struct {
	samples    []ioSample
	stats      map[string]int64
	watts      float64
	frequency  []byte
	closed     bool
	sampleErr  error
	statsErr   error
	systemFail error
}

func (g *fakeGPU) sample() (ioSample, error) {
	if g.sampleErr != nil {
		return ioSample{}, g.sampleErr
	}
	if len(g.samples) == 0 {
		return ioSample{}, errFirstSample
	}
	s := g.samples[0]
	g.samples = g.samples[1:]
	return s, nil
}
func (g *fakeGPU) statistics() (map[string]int64, error) { return g.stats, g.statsErr }
func (g *fakeGPU) table() ([]byte, error)                { return g.frequency, nil }
func (g *fakeGPU) systemPower() (float64, error)         { return g.watts, g.systemFail }
func (g *fakeGPU) close()                                { g.closed = true }

func factsByName(all []evidence.Fact) map[string]evidence.Fact {
	m := map[string]evidence.Fact{}
	for _, f := range all {
		m[f.Name] = f
	}
	return m
}

func figuresByName(all []evidence.Figure) map[string]evidence.Figure {
	m := map[string]evidence.Figure{}
	for _, f := range all {
		m[f.Name] = f
	}
	return m
}

func checkFacts(t *testing.T, facts []evidence.Fact, want map[string]string) {
	t.Helper()
	got := factsByName(facts)
	for name, value := range want {
		if got[name].Value != value {
			t.Errorf("%s = %q (%s), want %q", name, got[name].Value, got[name].Missing, value)
		}
	}
	for _, f := range facts {
		if (f.Value == "") == (f.Missing == "") {
			t.Errorf("%s has value %q and reason %q", f.Name, f.Value, f.Missing)
		}
		if f.Source == "" {
			t.Errorf("%s has no source", f.Name)
		}
	}
}

func TestMacFacts(t *testing.T) {
	f := &fakeMac{sysctls: sysctlsOf(fixture(t, "sysctl-hw-cpu-sequoia-m4max.txt")), tools: map[string][]byte{
		"pmset -g":      fixture(t, "pmset-g-applesilicon-mbp-2022.txt"),
		"pmset -g batt": fixture(t, "pmset-g-batt-bigsur-m1-hold.txt"),
		"pmset -g ac":   []byte(" Wattage = 96W\n"),
		"sw_vers":       fixture(t, "sw_vers-21G83.txt"),
		"system_profiler SPHardwareDataType SPDisplaysDataType": fixture(t,
			"system_profiler-SPDisplaysDataType-m3.txt"),
		"system_profiler -json SPHardwareDataType SPDisplaysDataType": fixture(t,
			"system_profiler-SPDisplaysDataType-m3pro-partial.json.txt"),
		"mount": fixture(t, "mount-10.14.6-intel-afp.txt"),
	}}
	f.sysctls["hw.nperflevels"] = u32(2)
	f.sysctls["hw.model"] = []byte("Mac16,6\x00")
	f.sysctls["kern.hv_vmm_present"] = u32(0)
	f.sysctls["iogpu.wired_limit_mb"] = u32(0)
	h := &macHost{f}
	checkFacts(t, h.facts(t.Context(), []string{"/Volumes/brazil/x"}), map[string]string{
		"chip": "Apple M4 Max", "model": "Mac16,6", "cpu.cores": "16 physical",
		"cpu.clusters": "12 Performance, 4 Efficiency",
		"gpu.cores":    "10", "memory.total": "64.0 GiB", "memory.gpu_limit": "system's choice",
		"system":       "macOS 12.5.1",
		"system.build": "21G83", "system.virtual": "none seen", "system.translated": "no", "power.source": "AC Power",
		"power.adapter": "96 W", "power.battery": "80 %, AC attached; not charging", "power.low_power_mode": "off",
		"power.profile":           "automatic",
		"mount:/Volumes/brazil/x": "afpfs, network, //MyCloudEX2Ultra._afpovertcp._tcp.local/brazil on /Volumes/brazil (the path not in this fake)",
	})

	// Monterey names no clusters; early Big Sur no chip: then system_profiler is asked, and without it the words stay.
	f = &fakeMac{sysctls: sysctlsOf(fixture(t, "sysctl-hw-cpu-monterey-m2.txt")),
		low: func() (bool, error) { return true, nil }}
	f.sysctls["hw.nperflevels"] = u32(2)
	f.sysctls["kern.osproductversion"], f.sysctls["kern.osversion"] = []byte("10.16\x00"), []byte("21G83\x00")
	checkFacts(t, (&macHost{f}).facts(t.Context(), nil), map[string]string{"cpu.clusters": "4 level 0, 4 level 1",
		"memory.total":         "16.0 GiB",
		"system":               "macOS 10.16 (told for compatibility: the build says the release)",
		"power.low_power_mode": "on",
		"power.profile":        ""})
	f = &fakeMac{sysctls: sysctlsOf(fixture(t, "sysctl-hw-cpu-bigsur-m1.txt")), tools: map[string][]byte{
		"system_profiler -json SPHardwareDataType SPDisplaysDataType": []byte(`{"SPHardwareDataType":[{"chip_type":"Apple M1"}]}`)}}
	checkFacts(t, (&macHost{f}).facts(t.Context(), nil), map[string]string{"chip": "Apple M1", "gpu.cores": "",
		"cpu.clusters": ""})

	// Nothing answers: every fact says why.
	checkFacts(t, (&macHost{&fakeMac{}}).facts(t.Context(), []string{"/x"}),
		map[string]string{"chip": "", "mount:/x": ""})
}

func checkFigures(t *testing.T, figures []evidence.Figure, want map[string]float64) {
	t.Helper()
	for _, f := range figures { // what the pages, gates and the logbook know it by
		if row, ok := catalogue.Find(f.Name); !ok || row.From != catalogue.Sample || row.Unit != f.Unit {
			t.Errorf("%s in %s: the catalogue does not have it so", f.Name, f.Unit)
		}
	}
	got := figuresByName(figures)
	for name, value := range want {
		f, ok := got[name]
		switch {
		case !ok:
			t.Errorf("%s is not given", name)
		case math.IsNaN(value):
			if f.Known() {
				t.Errorf("%s = %v, want a reason", name, *f.Value)
			}
		case !f.Known():
			t.Errorf("%s is missing (%s), want %v", name, f.Missing, value)
		case !near(*f.Value, value):
			t.Errorf("%s = %v, want %v", name, *f.Value, value)
		}
	}
	for _, f := range figures {
		if f.Known() == (f.Missing != "") || f.Known() && f.Basis != evidence.Measured || f.Unit == "" {
			t.Errorf("malformed figure %+v", f)
		}
	}
}

func TestMacSampler(t *testing.T) {
	nan := math.NaN()
	f := &fakeMac{sysctls: map[string][]byte{"hw.ncpu": u32(8), "hw.memsize": binary.LittleEndian.AppendUint64(nil,
		16<<30),
		"kern.memorystatus_vm_pressure_level": u32(2), "vm.swapusage": make([]byte, 40)},
		tools: map[string][]byte{"sysctl vm.swapusage": fixture(t, "sysctl-vm.swapusage-25F84-Mac16,13.txt"),
			"notifyutil -g " + thermalName: fixture(t, "notifyutil-thermalpressurelevel-25F84-Mac16,13.txt")},
		list: []process{{pid: 1, start: 1}, {pid: 10, parent: 1, start: 5}, {pid: 11, parent: 10, start: 6},
			{pid: 12, parent: 10, start: 7}},
		used: map[int]usage{10: {cpu: 5, resident: 60, footprint: 100, peak: 150},
			11: {cpu: 1, resident: 20, footprint: 30}},
		ticks: [4]uint32{math.MaxUint32 - 9, 0, 100, 0}}
	h := &macHost{f}
	s := h.source(10).(*macSource)
	defer s.close()
	at := time.Unix(1000, 0)
	checkFigures(t, s.sample(t.Context(), at), map[string]float64{"process.footprint": 130, "process.resident": 80,
		"process.workers": 30,
		"process.peak":    150, "process.cpu": nan, "host.cpu": nan, "host.swap.used": 13263.56 * (1 << 20),
		"host.pressure":    2,
		"thermal.pressure": 1, "gpu.busy": nan})

	f.used[10] = usage{cpu: 9, footprint: 100}
	f.ticks = [4]uint32{20, 30, 140, 0} // 30, across the wrap; 30; 40 idle
	got := s.sample(t.Context(), at.Add(2*time.Second))
	checkFigures(t, got, map[string]float64{"process.cpu": 2, "host.cpu": 0.6, "process.peak": nan})
	if n := figuresByName(got)["process.footprint"].Note; !strings.Contains(n, "1 processes of other users") {
		t.Errorf("note %q", n)
	}

	f.broken = errors.New("proc_pid_rusage is not in this macOS")
	if why := figuresByName(s.sample(t.Context(),
		at.Add(3*time.Second)))["process.footprint"].Missing; why != f.broken.Error() {
		t.Errorf("reason %q", why)
	}

	f.list, f.sysctls["kern.memorystatus_vm_pressure_level"] = f.list[:1], u32(3)
	got = s.sample(t.Context(), at.Add(3*time.Second))
	checkFigures(t, got, map[string]float64{"process.footprint": nan, "host.pressure": nan})
	if why := figuresByName(got)["process.footprint"].Missing; why != "the process has ended" {
		t.Errorf("reason %q", why)
	}
}

func TestMacVM(t *testing.T) {
	f := &fakeMac{tools: map[string][]byte{"vm_stat": fixture(t, "vm_stat-4k-pages.txt")}}
	s := &macSource{h: &macHost{f}, total: 32 << 30}
	checkFigures(t, s.readVM(t.Context()),
		map[string]float64{"host.memory.available": (32 << 30) - (464333+715958-11820)*4096,
			"host.swap.out": math.NaN()})
	checkFigures(t, s.readVM(t.Context()), map[string]float64{"host.swap.out": 0})
	f.tools = nil
	checkFigures(t, s.readVM(t.Context()), map[string]float64{"host.memory.available": math.NaN(),
		"host.swap.out": math.NaN()})
}

func TestMacGPU(t *testing.T) {
	nan := math.NaN()
	table := append(append(u32(0), u32(400)...), append(append(u32(400e6), u32(600)...),
		append(u32(1200e6), u32(900)...)...)...)
	window := func(off, p1, p2, gpuNJ, cpuMJ int64) ioSample {
		return ioSample{seconds: 2, channels: []ioChannel{
			{group: groupGPU, subgroup: subGPU, name: channelGPU, states: []ioState{{"OFF", off}, {"P1", p1},
				{"P2", p2}}},
			{group: groupEnergy, name: "GPU Energy", unit: "nJ", value: gpuNJ},
			{group: groupEnergy, name: "GPU0", unit: "mJ", value: 999},
			{group: groupEnergy, name: "DIE_0_CPU Energy", unit: "mJ", value: cpuMJ},
			{group: groupEnergy, name: "DIE_1_CPU Energy", unit: "mJ", value: cpuMJ}}}
	}
	stats := map[string]int64{"Device Utilization %": 98, "In use system memory": 340983808}
	gpu := &fakeGPU{stats: stats, watts: 50, frequency: table, samples: []ioSample{
		window(25, 25, 50, 40e9, 30e3), window(1, 1, 1, 10, 0), window(0, 0, 10, 0, 6e3), window(10, 10, 0, 130e9, 0)}}
	g := &macGPU{gpu: gpu, r: &fakeMac{}}
	checkFigures(t, g.read(t.Context()), map[string]float64{"gpu.busy": 0.75, "gpu.power": 20,
		"gpu.frequency": (25*400e6 + 50*1200e6) / 75,
		"gpu.memory":    340983808, "power.system": 50, "cpu.power": nan})
	g.read(t.Context())
	// A counter that stood still while the GPU was busy is stale; three windows of 2 s make one of the steps of CPU
	// energy.
	checkFigures(t, g.read(t.Context()), map[string]float64{"gpu.busy": 1, "gpu.power": nan,
		"cpu.power": 2 * (30 + 6) / 6.0})
	if p := figuresByName(g.read(t.Context()))["gpu.power"]; !p.Known() || *p.Value != 65 ||
		!strings.Contains(p.Note, "doubtful") {
		t.Errorf("%+v", p)
	}
	// The first reading of IOReport is a start; the utilisation beside it is not used for it.
	checkFigures(t, g.read(t.Context()), map[string]float64{"gpu.busy": nan, "gpu.memory": 340983808})
	g.close()
	if !gpu.closed {
		t.Error("not closed")
	}

	// Without IOReport: IOAccelerator, and as root powermetrics.
	g = &macGPU{gpu: &fakeGPU{stats: stats, sampleErr: errors.New("no IOReport"), systemFail: errors.New("no SMC")},
		r: &fakeMac{}}
	checkFigures(t, g.read(t.Context()), map[string]float64{"gpu.busy": 0.98, "gpu.power": nan, "gpu.frequency": nan,
		"power.system": nan})
	g.r = &fakeMac{isRoot: true, tools: map[string][]byte{
		"powermetrics -n 1 -i 1000 --samplers gpu_power -f plist": fixture(t,
			"powermetrics-23E224-Mac14,14-edited.plist")}}
	checkFigures(t, g.read(t.Context()), map[string]float64{"gpu.busy": 1 - 0.0536782,
		"gpu.power": 73.491 / 1.023721416, "gpu.frequency": 1360.85e6})
	// Without IOKit: the tool.
	g = &macGPU{err: errors.New("no IOKit"), r: &fakeMac{tools: map[string][]byte{
		"ioreg -r -d 1 -w 0 -c IOAccelerator": fixture(t, "ioreg-IOAccelerator-12.6-t6000-partial.txt")}}}
	checkFigures(t, g.read(t.Context()), map[string]float64{"gpu.busy": 0.02, "gpu.memory": 340983808,
		"gpu.power": nan})
	g = &macGPU{err: errors.New("no IOKit"), r: &fakeMac{}}
	checkFigures(t, g.read(t.Context()), map[string]float64{"gpu.busy": nan, "gpu.memory": nan, "power.system": nan})
}

func TestMacPrograms(t *testing.T) {
	f := &fakeMac{list: []process{{pid: 10, parent: 1, start: 5, name: "x"},
		{pid: 11, parent: 10, start: 6, name: "root's"}, {pid: 12, parent: 11, start: 7}},
		used: map[int]usage{10: {footprint: 5}, 12: {footprint: 9}}}
	programs, err := (&macHost{f}).programs(t.Context())
	got := largest(programs, 10, 5)
	if err != nil || len(got) != 2 || got[0].Name != "App 12" || !got[0].Ours || got[0].Bytes != 9 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestMacRecording(t *testing.T) {
	f := &fakeMac{gpu: &fakeGPU{sampleErr: errors.New("no IOReport")}}
	_, err := (&macHost{f}).recordIOReport(t.Context())
	wantMissing(t, err, "no IOReport")
	if !f.gpu.closed {
		t.Error("not closed")
	}
}
