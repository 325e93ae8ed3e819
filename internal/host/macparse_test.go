package host

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "mac", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// wantMissing checks that an error names what was not there.
func wantMissing(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want one that names %q", err, part)
	}
}

func TestSwap(t *testing.T) {
	used, err := parseSwapText(fixture(t, "sysctl-vm.swapusage-25F84-Mac16,13.txt"))
	if err != nil || !near(used, 13263.56*(1<<20)) {
		t.Errorf("used %v %v", used, err)
	}
	_, err = parseSwapText([]byte("vm.swapusage: total = 1M"))
	wantMissing(t, err, "used")

	raw := make([]byte, 32)
	binary.LittleEndian.PutUint64(raw, 2<<30)
	binary.LittleEndian.PutUint64(raw[16:], 1<<30)
	if used, err := parseSwap(raw); err != nil || used != 1<<30 {
		t.Errorf("raw: %v %v", used, err)
	}
	if _, err := parseSwap(raw[:24]); err == nil {
		t.Error("24 bytes were taken")
	}
	binary.LittleEndian.PutUint64(raw[16:], 3<<30)
	if _, err := parseSwap(raw); err == nil {
		t.Error("more used than there is")
	}
}

func TestVMStat(t *testing.T) {
	v, err := parseVMStat(fixture(t, "vm_stat-25F84-Mac16,13-partial.txt"))
	if err != nil || v.page != 16384 || v.counts["Swapouts"] != 2943660 ||
		v.counts["Pages occupied by compressor"] != 500086 {
		t.Errorf("%+v %v", v, err)
	}
	_, err = v.available(16 << 30)
	wantMissing(t, err, "Anonymous pages")

	v, err = parseVMStat(fixture(t, "vm_stat-4k-pages.txt"))
	if err != nil || v.page != 4096 || v.counts["Translation faults"] != 11477162 || v.counts["Swapouts"] != 0 {
		t.Errorf("%+v %v", v, err)
	}
	const total = 34359738368
	if got, err := v.available(total); err != nil || got != total-(464333+715958+0-11820)*4096 {
		t.Errorf("available %v %v", got, err)
	}

	v, err = parseVMStat(fixture(t, "vm_stat-old-intel-16gb.txt"))
	if _, ok := v.counts["Object cache"]; err != nil || ok || len(v.counts) != 11 {
		t.Errorf("old: %+v %v", v, err)
	}
	_, err = parseVMStat([]byte("nothing\nPages free: 1.\n"))
	wantMissing(t, err, "page size of")
}

func TestPmset(t *testing.T) {
	g := parsePmset(fixture(t, "pmset-g-applesilicon-mbp-2022.txt"))
	now := g["Currently in use"]
	for key, want := range map[string]string{"Sleep On Power Button": "1", "sleep": "1", "displaysleep": "10",
		"lowpowermode":  "0",
		"hibernatefile": "/var/vm/sleepimage"} {
		if now[key] != want {
			t.Errorf("%s = %q, want %q", key, now[key], want)
		}
	}
	if g["System-wide power settings"]["SleepDisabled"] != "1" {
		t.Errorf("header: %v", g)
	}
	if mode, low, err := powerMode(fixture(t, "pmset-g-applesilicon-mbp-2022.txt")); err != nil || low ||
		mode != "automatic" {
		t.Errorf("%q %v %v", mode, low, err)
	}
	custom := parsePmset(fixture(t, "pmset-g-custom-sonoma-m1max-partial.txt"))
	if custom["Battery Power"]["powermode"] != "0" {
		t.Errorf("custom: %v", custom)
	}
	for text, want := range map[string]string{" powermode            2": "high power", " powermode 1": "low power",
		" lowpowermode         1": "low power"} {
		mode, low, err := powerMode([]byte("Currently in use:\n" + text + "\n"))
		if err != nil || mode != want || low != (want == "low power") {
			t.Errorf("%q: %q %v %v", text, mode, low, err)
		}
	}
	// A machine that prints neither row does not say: not the same as off.
	_, _, err := powerMode([]byte("Currently in use:\n standby 1\n"))
	wantMissing(t, err, "lowpowermode")
	_, _, err = powerMode([]byte("Battery Power:\n lowpowermode 1\n"))
	wantMissing(t, err, "Currently in use")
}

func TestBatt(t *testing.T) {
	source, batteries, err := parseBatt(fixture(t, "pmset-g-batt-bigsur-m1-hold.txt"))
	if err != nil || source != "AC Power" || !slices.Equal(batteries, []string{"80 %, AC attached; not charging"}) {
		t.Errorf("%q %q %v", source, batteries, err)
	}
	// The form with a time, as the source of pmset prints it.
	source, batteries, err = parseBatt([]byte("Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t53%; discharging; 1:05 remaining present: true\n"))
	if err != nil || source != "Battery Power" || !slices.Equal(batteries, []string{"53 %, discharging"}) {
		t.Errorf("%q %q %v", source, batteries, err)
	}
	if _, batteries, err := parseBatt([]byte("Now drawing from 'AC Power'\n")); err != nil || batteries != nil {
		t.Errorf("desktop: %q %v", batteries, err)
	}
	_, _, err = parseBatt(nil)
	wantMissing(t, err, "Now drawing from")
}

func TestAdapter(t *testing.T) {
	a, ok := adapterFrom(map[string]any{"Watts": int64(94), "AdapterVoltage": int64(20000), "Current": int64(4700),
		"IsWireless": false, "Name": "96W USB-C Power Adapter"})
	if !ok || a.describe() != "94 W, 20 V × 4.7 A, 96W USB-C Power Adapter" {
		t.Errorf("%q %v", a.describe(), ok)
	}
	if _, ok := adapterFrom(map[string]any{"FamilyCode": int64(0)}); ok {
		t.Error("an empty description is an adapter")
	}
	if w, err := parseAC([]byte(" Wattage = 96W\n Current = 4700mA\n")); err != nil || w != "96 W" {
		t.Errorf("%q %v", w, err)
	}
	if w, err := parseAC([]byte("No adapter attached.\n")); err != nil || w != "" {
		t.Errorf("%q %v", w, err)
	}
	_, err := parseAC([]byte("?"))
	wantMissing(t, err, "Wattage")
}

func TestIoreg(t *testing.T) {
	text := fixture(t, "ioreg-IOAccelerator-12.6-t6000-partial.txt")
	got, err := parsePerformance(text)
	if err != nil || got["Device Utilization %"] != 2 || got["In use system memory"] != 340983808 || len(got) != 9 {
		t.Errorf("%v %v", got, err)
	}
	if n, err := ioregNumber(fixture(t, "ioreg-AppleARMPE-grep-core-count-m5max-partial.txt"),
		"gpu-core-count"); err != nil || n != 40 {
		t.Errorf("cores %d %v", n, err)
	}
	// Keys are matched whole, and nested dictionaries are passed over.
	got, err = parsePerformance([]byte(`"PerformanceStatistics" = {"In use system memory (driver)"=7,"x"={"In use system memory"=1},"In use system memory"=9}`))
	if err != nil || got["In use system memory"] != 9 {
		t.Errorf("%v %v", got, err)
	}
	_, err = parsePerformance(text[:300])
	wantMissing(t, err, "PerformanceStatistics")
	_, err = parsePerformance([]byte(`"PerformanceStatistics" = {"a"=1,`))
	wantMissing(t, err, "cut off")
	_, err = ioregNumber([]byte(`"gpu-core-count" = <28000000>`), "gpu-core-count")
	wantMissing(t, err, "gpu-core-count")
}

func TestNotify(t *testing.T) {
	text := fixture(t, "notifyutil-thermalpressurelevel-25F84-Mac16,13.txt")
	if level, err := parseNotify(text, thermalName); err != nil || level != 1 {
		t.Errorf("%d %v", level, err)
	}
	_, err := parseNotify([]byte(thermalName+": Failed with code 1000001\n"), thermalName)
	wantMissing(t, err, thermalName)
}

func TestSwVers(t *testing.T) {
	release, build, err := parseSwVers(fixture(t, "sw_vers-21G83.txt"))
	if err != nil || release != "12.5.1" || build != "21G83" {
		t.Errorf("%q %q %v", release, build, err)
	}
	_, _, err = parseSwVers([]byte("ProductVersion:\t\t15.5\n"))
	wantMissing(t, err, "BuildVersion")
}

func TestProfiler(t *testing.T) {
	// The CPU's "Total Number of Cores" stands first, and must not be taken for the GPU's.
	text := append(fixture(t, "system_profiler-mini-SPHardwareDataType-Mac14,10.txt"),
		fixture(t, "system_profiler-SPDisplaysDataType-m3.txt")...)
	if p := parseProfiler(text); p.chip != "Apple M2 Pro" || p.gpuCores != 10 {
		t.Errorf("%+v", p)
	}
	if p := parseProfiler(fixture(t, "system_profiler-mini-SPHardwareDataType-Mac14,10.txt")); p.gpuCores != 0 {
		t.Errorf("CPU cores were taken: %+v", p)
	}
	p, err := parseProfilerJSON([]byte(`{"SPHardwareDataType":[{"chip_type":"Apple M1"}],"SPDisplaysDataType":[{"_name":"kHW_AppleM1Item","sppci_cores":"8"}]}`))
	if err != nil || p != (profile{"Apple M1", 8}) {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := parseProfilerJSON(fixture(t,
		"system_profiler-SPDisplaysDataType-m3pro-partial.json.txt")); err == nil {
		t.Error("half a document was taken")
	}
}

func TestMounts(t *testing.T) {
	for _, c := range []struct{ file, path, want string }{
		{"mount-10.14.6-intel-afp.txt", "/Volumes/brazil/data",
			"afpfs, network, //MyCloudEX2Ultra._afpovertcp._tcp.local/brazil on /Volumes/brazil"},
		{"mount-10.14.6-intel-afp.txt", "/Volumes/brazilian", "apfs, local, /dev/disk1s1 on /"},
		{"mount-10.14.6-intel.txt", "/home/someone", "autofs, mounted on demand, map auto_home on /home"},
		{"mount-10.15-data-nfs-exported.txt", "/System/Volumes/Data/x",
			"apfs, local, /dev/disk1s1 on /System/Volumes/Data"},
		{"mount-bigsur-macfuse.txt", "/Volumes/Test/a",
			"macfuse, user-space file system, fsapfsmount@macfuse0 on /Volumes/Test"},
	} {
		m, ok := onMount(c.path, parseMounts(fixture(t, c.file)))
		if got := m.describe(); !ok || got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	m := parseMounts([]byte("//u:secret@nas/My (old) share on /Volumes/My (old) share (smbfs, nodev, nosuid)\n"))
	if len(m) != 1 || m[0].point != "/Volumes/My (old) share" || m[0].kind != "smbfs" || *m[0].local {
		t.Errorf("%+v", m)
	}
	if got := m[0].describe(); strings.Contains(got, "secret") || strings.Contains(got, "u:") {
		t.Errorf("a password was kept: %q", got)
	}
}

func TestPowermetrics(t *testing.T) {
	p, err := parsePowermetrics(fixture(t, "powermetrics-22E252-MacBookPro17,1.plist"))
	if err != nil || !near(p.busy, 1-0.983341) || !near(p.frequency, 714.836e6) || !near(p.power, 0.031/2.01917875) {
		t.Errorf("%+v %v", p, err)
	}
	ultra := fixture(t, "powermetrics-23E224-Mac14,14-edited.plist")
	if p, err = parsePowermetrics(append([]byte{0}, append(ultra, 0, 'x')...)); err != nil ||
		!near(p.busy, 1-0.0536782) || !near(p.power, 73.491/1.023721416) {
		t.Errorf("%+v %v", p, err)
	}
	_, err = parsePowermetrics([]byte("<plist><dict><key>elapsed_ns</key><integer>1</integer></dict></plist>"))
	wantMissing(t, err, "gpu/freq_hz")
	if _, err = parsePowermetrics([]byte(strings.Repeat("<dict>", 100))); err == nil {
		t.Error("deep nesting was taken")
	}
}

// models reads the lists of energy channels; each gets the value 1.
func models(t *testing.T, name string) ioSample {
	s := ioSample{seconds: 1}
	lines(fixture(t, name), func(line string) {
		if channel, unit, ok := strings.Cut(line, "\t"); ok && !strings.HasPrefix(line, "#") {
			s.channels = append(s.channels, ioChannel{group: groupEnergy, name: channel, unit: unit, value: 1})
		}
	})
	return s
}

func TestEnergyChannels(t *testing.T) {
	for _, c := range []struct {
		file          string
		all, asked    int
		cpu, gpu, old float64
	}{
		{"ioreport-energy-model-26A428-Mac13,2-m1ultra.tsv", 321, 4, 2e-3, 1e-9, 1e-3},
		{"ioreport-energy-model-26A428-Mac17,7-m5max.tsv", 364, 3, 1e-3, 1e-9, 1e-3},
	} {
		s := models(t, c.file)
		asked := 0
		for _, ch := range s.channels {
			if subscribed(ch.group, ch.name) {
				asked++
			}
		}
		if len(s.channels) != c.all || asked != c.asked {
			t.Errorf("%s: %d channels, %d asked for", c.file, len(s.channels), asked)
		}
		for _, q := range []struct {
			match  func(string) bool
			want   float64
			coarse bool
		}{{cpuEnergy, c.cpu, true}, {gpuEnergy, c.gpu, false}, {gpuEnergyOld, c.old, true}} {
			got, coarse, err := energy(s, q.match)
			if err != nil || !near(got, q.want) || coarse != q.coarse {
				t.Errorf("%s: %v J, coarse %v, %v; want %v", c.file, got, coarse, err, q.want)
			}
		}
	}
	s := ioSample{channels: []ioChannel{{group: groupEnergy, name: "GPU Energy", unit: "mJ ", value: 2}}}
	if got, _, err := energy(s, gpuEnergy); err != nil || got != 2e-3 {
		t.Errorf("blank after the unit: %v %v", got, err)
	}
	s.channels[0].unit = "ticks"
	_, _, err := energy(s, gpuEnergy)
	wantMissing(t, err, "ticks")
	s.channels[0] = ioChannel{group: groupEnergy, name: "GPU Energy", unit: "nJ", value: math.MinInt64}
	_, _, err = energy(s, gpuEnergy)
	wantMissing(t, err, "no value")
}

// The trace says which power its author's tool computed from the same steps.
func TestEnergyTrace(t *testing.T) {
	n := 0
	lines(fixture(t, "ioreport-energy-trace-m1ultra-partial.txt"), func(line string) {
		_, rest, ok := strings.Cut(line, "GPU Energy dv=")
		if !ok {
			return
		}
		nj, rest, _ := strings.Cut(rest, "nJ dts=")
		ms, rest, _ := strings.Cut(rest, "ms")
		_, rest, _ = strings.Cut(rest, " gpu=")
		want, _, _ := strings.Cut(rest, "W")
		value, _ := strconv.ParseInt(nj, 10, 64)
		elapsed, _ := strconv.ParseFloat(ms, 64)
		joules, coarse, err := energy(ioSample{channels: []ioChannel{{group: groupEnergy, name: "GPU Energy",
			unit: "nJ", value: value}}}, gpuEnergy)
		if err != nil {
			t.Fatal(err)
		}
		var m wattMeter
		watts, err := m.next(joules, elapsed/1000, coarse)
		if got := strconv.FormatFloat(watts, 'f', 2, 64); err != nil || got != want {
			t.Errorf("%s W %v, want %s", got, err, want)
		}
		n++
	})
	if n != 3 {
		t.Errorf("%d rows", n)
	}
}

func TestWattMeterCoarse(t *testing.T) {
	var m wattMeter
	for i, c := range []struct {
		joules, seconds, want float64
		known                 bool
	}{{0, 2, 0, false}, {20, 2, 0, false}, {40, 2, 10, true}, {0, 2, 10, true}, {0, 4, 0, true}} {
		got, err := m.next(c.joules, c.seconds, true)
		if (err == nil) != c.known || got != c.want {
			t.Errorf("step %d: %v %v", i, got, err)
		}
	}
}

func TestResidency(t *testing.T) {
	s := ioSample{channels: []ioChannel{{group: groupGPU, name: channelGPU,
		states: []ioState{{"OFF", 600}, {"P1", 100}, {"P2", 0}, {"P3", 300}}}}}
	busy, active, err := residency(s)
	if err != nil || busy != 0.4 || !slices.Equal(active, []float64{100, 0, 300}) {
		t.Errorf("%v %v %v", busy, active, err)
	}
	if f, err := meanFrequency(active, []float64{400e6, 800e6, 1200e6}); err != nil || f != 1000e6 {
		t.Errorf("%v %v", f, err)
	}
	_, err = meanFrequency(active, []float64{1, 2})
	wantMissing(t, err, "3 active states and 2 frequencies")
	_, _, err = residency(ioSample{})
	wantMissing(t, err, channelGPU)
	s.channels[0].states = []ioState{{"OFF", 0}, {"P1", 0}}
	_, _, err = residency(s)
	wantMissing(t, err, "did not move")
}

func TestVoltageStates(t *testing.T) {
	// The GPU's table of an M2 Ultra, as macmon printed it: volts and frequencies, the first pair no state.
	var volts, hertz []string
	lines(fixture(t, "macmon-debug-pmgr-m2ultra-68-partial.txt"), func(line string) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "voltage-states9: "); ok {
			if v, ok := strings.CutPrefix(rest, "(v) "); ok {
				volts = strings.Fields(v)
			} else if f, ok := strings.CutPrefix(rest, "(f) "); ok {
				hertz = strings.Fields(f)
			}
		}
	})
	var raw bytes.Buffer
	for i := range hertz {
		f, _ := strconv.ParseUint(hertz[i], 10, 32)
		v, _ := strconv.ParseUint(volts[i], 10, 32)
		binary.Write(&raw, binary.LittleEndian, []uint32{uint32(f), uint32(v)})
	}
	table, err := parseVoltageStates(raw.Bytes())
	if err != nil || len(table) != 8 || table[0] != 444e6 || table[7] != 1398e6 {
		t.Errorf("%v %v", table, err)
	}
	// Periods of an M1 Ultra's table without -sram, and kHz: no frequencies in Hz.
	for _, v := range []uint32{109226, 1020000} {
		raw := binary.LittleEndian.AppendUint32(nil, v)
		if _, err := parseVoltageStates(append(raw, 1, 2, 0, 0)); err == nil {
			t.Errorf("%d was taken for Hz", v)
		}
	}
	for _, n := range []int{0, 7, 8} {
		if _, err := parseVoltageStates(make([]byte, n)); err == nil {
			t.Errorf("%d zero bytes are a table", n)
		}
	}
}

func FuzzMacParsers(f *testing.F) {
	files, _ := filepath.Glob("testdata/mac/*.txt")
	for _, name := range files {
		text, _ := os.ReadFile(name)
		f.Add(text)
	}
	f.Add([]byte("<plist><dict><key>gpu</key><dict><key>freq_hz</key><real>1</real></dict></dict></plist>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		parseSwap(text)
		parseSwapText(text)
		if v, err := parseVMStat(text); err == nil {
			if a, err := v.available(1 << 34); err == nil && !(a >= 0 && a <= 1<<34) {
				t.Errorf("available %v", a)
			}
		}
		powerMode(text)
		parseBatt(text)
		parseAC(text)
		parsePerformance(text)
		ioregNumber(text, "gpu-core-count")
		parseNotify(text, thermalName)
		parseProfiler(text)
		parseProfilerJSON(text)
		if p, err := parsePowermetrics(text); err == nil && !(p.busy >= 0 && p.busy <= 1) {
			t.Errorf("busy %v", p.busy)
		}
		if table, err := parseVoltageStates(text); err == nil && len(table) == 0 {
			t.Error("an empty table without an error")
		}
		for _, m := range parseMounts(text) {
			_ = m.describe()
		}
	})
}
