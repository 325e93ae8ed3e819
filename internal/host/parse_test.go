package host

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// TestParsed: what each source says, as one line; what it does not say is an error or left out, and never zero.
func TestParsed(t *testing.T) {
	said := func(parts ...any) string {
		if err, ok := parts[len(parts)-1].(error); ok && err != nil {
			return "error: " + err.Error()
		}
		if parts[len(parts)-1] == nil {
			parts = parts[:len(parts)-1]
		}
		return strings.TrimSpace(fmt.Sprintln(parts...))
	}
	size := func(s string) string { v, err := parseSize(s); return said(v, err) }
	mode := func(s string) string {
		m, low, err := powerMode([]byte("Currently in use:\n" + s))
		return said(m, low, err)
	}
	batt := func(s string) string {
		source, all, err := parseBatt([]byte("Now drawing from 'AC'\n" + s))
		return said(source, strings.Join(all, "|"), err)
	}
	ac := func(s string) string { v, err := parseAC([]byte(s)); return said(v, err) }
	chip := func(s string) string { c, n, v, err := parseCPUInfo([]byte(s)); return said(c, n, v, err) }
	system := func(s string) string { v, err := parseOSRelease([]byte(s)); return said(v, err) }
	cpu := func(s string) string { b, n, err := parseCPU([]byte(s)); return said(b, n, err) }
	pressure := func(s string) string { v, err := parsePressure([]byte(s), "some"); return said(v, err) }
	performance := func(s string) string {
		v, err := parsePerformance([]byte(`"PerformanceStatistics" = ` + s))
		return said(v, err)
	}
	place := func(kind, from string, local *bool) string {
		return mount{point: "/p", kind: kind, from: from, local: local}.describe()
	}
	keyed := func(s string) string { return said(parseKeyed([]byte(s)), nil) }
	processors := func(s string, allowed map[int]bool) string {
		n, b, i, err := parseProcessors([]byte(s), allowed)
		return said(n, b, i, err)
	}
	sched := func(s string) string { v, err := parseSchedstat([]byte(s)); return said(v, err) }
	plist := func(s string) string { v, err := plistNumbers([]byte(s)); return said(v, err) }
	profiler := func(s string) string { p, err := parseProfilerJSON([]byte(s)); return said(p.chip, p.gpuCores, err) }
	smi := func(s string) string { v, err := parseSMI([]byte(s)); return said(v, err) }
	vers := func(s string) string { a, b, err := parseSwVers([]byte(s)); return said(a, b, err) }
	notify := func(s string) string { v, err := parseNotify([]byte(s), "k"); return said(v, err) }
	number := func(s string) string { v, err := ioregNumber([]byte(s), "k"); return said(v, err) }
	groups := func(s string) string { u, m := parseCgroups([]byte(s)); return u + "|" + m }
	yes, no := true, false
	for name, c := range map[string]struct{ got, want string }{
		"size B": {size("512B"), "512"}, "size K": {size("2K"), "2048"}, "size G": {size("1G"), "1.073741824e+09"},
		"size bare": {size("7"), "7"}, "size none": {size(""), `error: "" is no size`},
		"size below zero": {size("-1M"), `error: "-1" is no size`}, "size NaN": {size("NaN"),
			`error: "NaN" is no size`},
		"size beyond": {size("1125899906842624"), `error: "1125899906842624" is no size`},
		"high power":  {mode(" powermode 2\n lowpowermode 1\n"), "high power false"},
		"low power":   {mode(" powermode 1\n"), "low power true"}, "automatic": {mode(" powermode 0\n"),
			"automatic false"},
		"low mode": {mode(" lowpowermode 1\n"), "low power true"}, "low mode off": {mode(" lowpowermode 0\n"),
			"automatic false"},
		"mode unknown":     {mode(" powermode 7\n"), "error: pmset -g: powermode 7 is not known"},
		"low mode unknown": {mode(" lowpowermode 7\n"), "error: pmset -g: lowpowermode 7 is not known"},
		"battery":          {batt(" -B-0 (id=1)\t100%; charged; (no estimate) present: true\n"), "AC 100 %, charged"},
		"battery beyond":   {batt(" -B-0\t101%; charged\n"), "AC"}, "battery below": {batt(" -B-0\t-1%; charged\n"),
			"AC"},
		"battery of none":          {batt(" B-0\t50%; charged\n"), "AC"},
		"battery without per cent": {batt(" -B-0\t50; charged\n"), "AC"},
		"adapter":                  {ac(" Wattage = 94W\n"), "94 W"}, "adapter none": {ac("No adapter attached.\n"),
			""},
		"adapter beyond": {ac(" Wattage = 1001W\n"), `error: pmset -g ac: no "Wattage"`},
		"adapter silent": {ac("x\n"), `error: pmset -g ac: no "Wattage"`},
		"cpu":            {chip("processor : 0\nmodel name : A\nmodel name : B\nflags : fpu hypervisor\n"), "A 1 true"},
		"arm": {chip("processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c\n"),
			"Arm, part 0xd0c 1 false"},
		"arm of others":       {chip("CPU implementer : 0x99\nCPU part : 0x1\n"), "implementer 0x99, part 0x1 0 false"},
		"power":               {chip("cpu : POWER9\n"), "POWER9 0 false"},
		"no chip":             {chip("processor : 0\n"), `error: /proc/cpuinfo: no "model name"`},
		"no hypervisor":       {chip("model name : A\nflags : hypervisors\n"), "A 0 false"},
		"system":              {system("NAME='A'\nPRETTY_NAME=\"A 1\"\n"), "A 1"},
		"system by name":      {system("NAME=A\nVERSION_ID=3\n"), "A 3"},
		"system without name": {system("ID=a\n"), `error: os-release: no "PRETTY_NAME"`},
		"ticks":               {cpu("cpu 1 2 3 4 5 6 7 8 9 10\n"), "27 36"},
		"ticks, old kernel":   {cpu("cpu 1 2 3 4\n"), "6 10"},
		"ticks too few":       {cpu("cpu 1 2 3\n"), `error: /proc/stat: no "cpu"`},
		"ticks of one":        {cpu("cpu0 1 2 3 4\n"), `error: /proc/stat: no "cpu"`},
		"pressure":            {pressure("\nfull total=9\nsome avg10=0 total=2500000\n"), "2.5"},
		"pressure of others": {pressure("full total=9\n"), "error: " + keyMissing("pressure",
			"some … total=").Error()},
		"pressure no number": {pressure("some total=x\n"), "error: " + keyMissing("pressure",
			"some … total=").Error()},
		"statistics":     {performance(`{"a"=1,"b"={"c"=2},"d"=("e"=3),"f"="g","h"=4}`), "map[a:1 h:4]"},
		"statistics cut": {performance(`{"a"=1`), "error: ioreg: PerformanceStatistics is cut off"},
		"name cut":       {performance(`{"a`), "error: ioreg: PerformanceStatistics ends within a name"},
		"no dictionary":  {performance(`7`), "error: ioreg: PerformanceStatistics is no dictionary"},
		"network":        {place("nfs4", "h:/x", nil), "nfs4, network, h:/x on /p"},
		"not local":      {place("x", "none", &no), "x, network on /p"}, "local": {place("x", "x", &yes),
			"x, local on /p"},
		"fuse": {place("fuse.x", "", nil), "fuse.x, user-space file system on /p"},
		"vm":   {place("virtiofs", "tag", nil), "virtiofs, shared by the host of a virtual machine, tag on /p"},
		"9p":   {place("9p", "tag", nil), "9p, shared by the host of a virtual machine, tag on /p"},
		"over": {place("overlay", "overlay", nil), "overlay, layers of a container on /p"},
		"ram":  {place("ramfs", "", &no), "ramfs, memory on /p"}, "auto": {place("autofs", "", nil),
			"autofs, mounted on demand on /p"},
		"smb user":      {place("smbfs", "//ann:pw@nas/x", nil), "smbfs, network, //nas/x on /p"},
		"url user":      {place("webdav", "https://ann:pw@dav/x", nil), "webdav, network, https://dav/x on /p"},
		"ssh user":      {place("fuse.sshfs", "ann@h:/x", nil), "fuse.sshfs, network, h:/x on /p"},
		"at in a path":  {place("ext4", "/dev/a@b:c", nil), "ext4, local, /dev/a@b:c on /p"},
		"at in a share": {place("smbfs", "//nas/a@b", nil), "smbfs, network, //nas/a@b on /p"},
		"at of no host": {place("x", "a@b", nil), "x, local, a@b on /p"},
		"keyed":         {keyed("A: 2 kB\nb 3\nC: 4 MB\nD: x kB\nE: 1 2 3\nF\n"), "map[A:2048 b:3]"},
		"all processors": {processors("cpu 9 9 9 9\ncpu0 100 100 100 100 100 100 100 100 100\nintr 1 2 3 4\n", nil),
			"1 6 2"},
		"one allowed": {processors("cpu0 100 0 0 0\ncpu1 0 0 0 200\ncpu2 1 2 3\n", map[int]bool{1: true, 2: true}),
			"1 0 2"},
		"none allowed": {processors("cpu0 1 0 0 0\n", map[int]bool{}), `error: /proc/stat: no "cpu0"`},
		"waited":       {sched("1 2000000000 3"), "2"}, "waited, cut": {sched("1 2"),
			"error: schedstat: not three numbers"},
		"plist": {plist(`<plist><dict><key>a</key><integer>1</integer><key>a</key><real>2</real><key>b</key><dict><key>c</key>` +
			`<real>3</real><key>d</key><real>nan</real></dict><key>e</key><array><integer>9</integer></array>` +
			`<key>f</key><integer>4</integer></dict></plist>`), "map[a:1 b/c:3 f:4]"},
		"plist none":        {plist("<x/>"), "error: no property list"},
		"plist deep":        {plist("<plist>" + strings.Repeat("<dict>", 18)), "error: nested too deeply"},
		"profiler":          {profiler(`{"SPHardwareDataType":[{"chip_type":"Apple M2"},{"chip_type":"x"}],"SPDisplaysDataType":[{"sppci_model":"Apple M3","sppci_cores":"8"},{"sppci_cores":"9"}]}`), "Apple M2 8"},
		"profiler, big sur": {profiler(`{"SPDisplaysDataType":[{"sppci_model":"AMD"},{"sppci_model":"Apple M1","sppci_cores":"-7"}]}`), "Apple M1 0"},
		"smi unknown":       {smi("[N/A], -1, inf, 2\n\n"), "[{NaN NaN NaN 2.097152e+06}]"},
		"smi other":         {smi("a, b\n1,2,3,4\n"), `error: nvidia-smi: "a, b" is no row of 4 columns`},
		"smi none":          {smi("\n"), "error: nvidia-smi: no device"},
		"versions":          {vers("ProductVersion: 15.1\nBuildVersion: 24B\n"), "15.1 24B"},
		"no build":          {vers("ProductVersion: 15.1\n"), `error: sw_vers: no "BuildVersion"`},
		"no product":        {vers("BuildVersion: 24B\n"), `error: sw_vers: no "ProductVersion"`},
		"notify":            {notify("k 3\nj 4\nk x\nk 5 6\n"), "3"}, "notify none": {notify("j 4\n"),
			`error: notifyutil: no "k"`},
		"ioreg":        {number(`"k (x)" = 1, "k" : 2, "k" = 40}`), "40"},
		"ioreg none":   {number(`"kk" = 1`), `error: ioreg: no "k"`},
		"ioreg text":   {number(`"k" = "x"`), `error: ioreg: "k" is no number`},
		"ioreg below":  {number(`"k" = 18446744073709551615`), "-1"},
		"cgroups":      {groups("4:cpu,memory:/m\n0::/u\n1:name=x:/n\nx\n"), "/u|/m"},
		"cgroups none": {groups("0:x:/u\n"), "|"},
		"escape":       {unescape(`a\040b\9c\04`), `a b\9c\04`},
		"app":          {appName("/x/.app/y"), "y"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	mounts := parseMounts([]byte("/dev/d on / (apfs, local)\nx (y) on /v (z) (nfs)\nbad on /v (x\nnone\n"))
	if len(mounts) != 2 || !*mounts[0].local || *mounts[1].local || mounts[1].point != "/v (z)" ||
		mounts[1].kind != "nfs" {
		t.Errorf("%+v", mounts)
	}
	info := parseMountinfo([]byte("1 2 3 / /a rw - ext4 /dev/x\n1 2 3 / /b - ext4 x\n1 2 3 / /c rw - ext4\nx\n"))
	if len(info) != 1 || info[0].options != "rw" {
		t.Errorf("%+v", info)
	}
	for path, want := range map[string]string{"/a/b": "last", "/a/bc": "root", "/a": "root", "/": "root"} {
		m, ok := onMount(path, []mount{{point: "/", from: "root"}, {point: "/a/b", from: "first"}, {point: "/a/b",
			from: "last"}})
		if !ok || m.from != want {
			t.Errorf("%s: %+v", path, m)
		}
	}
	if _, ok := onMount("/a", []mount{{point: "/b"}}); ok {
		t.Error("a path on no mount has one")
	}
	for text, want := range map[string]string{"1 (a) b) S 1 2 3": "4 fields", "1 a S": "no name", "x (a) S": "stat:",
		") 1 (": "no name"} {
		if _, err := parseStat([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if text := statLine(7, "a", 1, 2, 3, 4, 5); len(strings.Fields(text)) < 24 {
		t.Fatal(text)
	} else if s, err := parseStat([]byte(strings.Join(strings.Fields(text)[:24], " "))); err != nil || s.pages != 5 {
		t.Errorf("the fields that are read, and no more: %+v %v", s, err)
	}
	for text, want := range map[string]int64{"-12x": -12, "": 0, "x": 0, "7": 7} {
		if got := atoi([]byte(text)); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// TestIOReport: energies and residencies of IOReport. What has no unit, no value or did not move is an error.
func TestIOReport(t *testing.T) {
	of := func(channels ...ioChannel) ioSample { return ioSample{seconds: 1, channels: channels} }
	e := func(name, unit string, v int64) ioChannel {
		return ioChannel{group: groupEnergy, name: name, unit: unit, value: v}
	}
	any := func(string) bool { return true }
	for _, c := range []struct {
		s      ioSample
		sum    float64
		coarse bool
		err    string
	}{
		{of(e("a", "nJ", 5e8), e("b", "uJ ", 5e5)), 1, false, ""}, {of(e("a", "mJ", 1000), e("b", "nJ", 0)), 1, true,
			""},
		{of(e("a", "W", 1)), 0, false, "has the unit"}, {of(e("a", "nJ", -1)), 0, false, "has no value"},
		{of(ioChannel{group: "x", name: "a", unit: "nJ"}), 0, false, "no such energy channel"},
		{of(e("a", "nJ", math.MinInt64)), 0, false, "has no value"}, {of(e("a", "nJ", 0)), 0, false, ""},
	} {
		sum, coarse, err := energy(c.s, any)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || !near(sum, c.sum) ||
			coarse != c.coarse {
			t.Errorf("%+v: %v %v %v", c, sum, coarse, err)
		}
	}
	for name, want := range map[string]bool{"GPU": true, "GPU0": true, "GPU0_1": true, "GPU_0": false,
		"GPU SRAM": false,
		"CPU":      false} {
		if gpuEnergyOld(name) != want {
			t.Error(name)
		}
	}
	for _, c := range []struct {
		group, name string
		want        bool
	}{{groupGPU, channelGPU, true}, {groupGPU, "x", false}, {groupEnergy, "GPU Energy", true}, {groupEnergy, "GPU0",
		true},
		{groupEnergy, "DIE_0_CPU Energy", true}, {groupEnergy, "ANE", false}, {"x", channelGPU, false}} {
		if subscribed(c.group, c.name) != c.want {
			t.Errorf("%+v", c)
		}
	}
	g := func(states ...ioState) ioSample {
		return of(ioChannel{group: groupGPU, name: channelGPU, states: states})
	}
	for _, c := range []struct {
		s      ioSample
		busy   float64
		active int
		err    string
	}{
		{g(ioState{"OFF", 1}, ioState{"IDLE", 1}, ioState{"DOWN", 1}, ioState{"P1", 1}), .25, 1, ""},
		{g(ioState{"P1", 0}, ioState{"OFF", 2}), 0, 1, ""}, {g(ioState{"P1", 0}), 0, 0, "did not move"},
		{g(ioState{"P1", -1}), 0, 0, "went backwards"}, {of(), 0, 0, channelGPU},
		{of(ioChannel{group: groupGPU, name: "x", states: []ioState{{"P1", 1}}}), 0, 0, channelGPU},
	} {
		busy, active, err := residency(c.s)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || busy != c.busy ||
			len(active) != c.active {
			t.Errorf("%+v: %v %v %v", c, busy, active, err)
		}
	}
	var m wattMeter
	for _, c := range []struct {
		joules, seconds float64
		coarse          bool
		want            float64
		fails           bool
	}{{4, 2, true, 0, true}, {4, 2.9, true, 0, true}, {2, .1, true, 2, false}, {90, 1, true, 2, false}, {3, 1, false,
		46.5, false},
		{1, 0, false, 46.5, false}} {
		got, err := m.next(c.joules, c.seconds, c.coarse)
		if !near(got, c.want) || (err != nil) != c.fails {
			t.Errorf("%+v: %v %v", c, got, err)
		}
	}
	table := func(fs ...uint32) []byte {
		var b []byte
		for _, f := range fs {
			b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, f), 700)
		}
		return b
	}
	for _, c := range []struct {
		data []byte
		n    int
	}{{table(0, 0, 4e8, 1e8), 2}, {table(4e8, 0), 0}, {table(0), 0}, {nil, 0}, {table(4e8)[:7], 0}, {table(1e8 - 1), 0},
		{table(make([]uint32, 257)...), 0}} {
		got, err := parseVoltageStates(c.data)
		if len(got) != c.n || (err != nil) != (c.n == 0) {
			t.Errorf("%v: %v %v", c.data, got, err)
		}
	}
	if f, err := meanFrequency([]float64{1, 3}, []float64{4e8, 8e8}); err != nil || f != 7e8 {
		t.Errorf("%v %v", f, err)
	}
	if _, err := meanFrequency([]float64{0}, []float64{4e8}); err == nil {
		t.Error("an idle GPU has a frequency")
	}
	if _, err := meanFrequency([]float64{1}, nil); err == nil {
		t.Error("a state without a frequency has one")
	}
}

// TestGPUFigures: the busiest device and its clock, power and memory of all; what none says is not zero.
func TestGPUFigures(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		devices                      []gpuReading
		busy, power, clock, capacity float64
	}{
		{[]gpuReading{{.1, 1, 10, 5}, {.9, 2, 20, 6}, {.5, nan, 30, nan}}, .9, 3, 20, 11},
		{[]gpuReading{{nan, nan, 10, 5}}, nan, nan, 10, 5}, {[]gpuReading{{nan, 1, 10, 5}, {nan, 1, 20, 5}}, nan, 2,
			nan, 10},
		{[]gpuReading{{0, 0, 10, 0}}, 0, 0, 10, 0}, {[]gpuReading{{nan, 1, 10, 5}, {.2, 1, 20, 5}}, .2, 2, 20, 10},
	} {
		for i, want := range []float64{c.busy, c.power, c.clock, c.capacity} {
			if f := gpuFigures(c.devices)[i]; f.value != want && !(math.IsNaN(f.value) && math.IsNaN(want)) {
				t.Errorf("%+v: %s is %v", c.devices, f.name, f.value)
			}
		}
	}
}

// TestMeterBounds: a counter that goes back counts nothing, and a time that did not pass gives no rate.
func TestMeterBounds(t *testing.T) {
	var m cpuMeter
	at := time.Unix(1000, 0)
	m.next(at, map[int]usage{1: {cpu: 5}}, 1)
	if got, ok := m.next(at.Add(time.Second), map[int]usage{1: {cpu: 4}}, 1); !ok || got != 0 {
		t.Errorf("%v %v", got, ok)
	}
	if _, ok := m.next(at.Add(time.Second), map[int]usage{1: {cpu: 9}}, 1); ok {
		t.Error("a rate over no time")
	}
	// A process of the root's session, whatever its parent; and n bounds the list of programs.
	tr := newTree(10)
	if got := tr.update([]process{{pid: 10, start: 1}, {pid: 20, parent: 1, session: 10, start: 2}}); len(got) != 2 {
		t.Errorf("%v", got)
	}
	list := []program{{process{pid: 1, name: "a"}, 1}, {process{pid: 2, name: ""}, 9}, {process{pid: 3, name: "b"}, 1}}
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 2, 9: 2} {
		if got := largest(list, 0, n); len(got) != want || want > 0 && got[0].Name != "a" {
			t.Errorf("%d: %+v", n, got)
		}
	}
	// A home, a host and a user are words of their own; what is short or common stays.
	id := identity{users: []string{"ann", "x", "test"}, hosts: []string{"box"}, homes: []string{"/root", "/h"}}
	got := string(redact([]byte("ann Ann1 1ann annéx (ann) box boxer x test /root /h"), id))
	if want := "<user> Ann1 1ann annéx (<user>) <host> boxer x test /root /h"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWithoutASource: where a file is gone or does not hold its key, its figure is unknown and says which.
func TestWithoutASource(t *testing.T) {
	for _, c := range []struct {
		file, text, figure, why string // text "": the file is gone
	}{
		{"proc/vmstat", "", "host.swap.out", ""}, {"proc/vmstat", "x 1\n", "host.swap.out", "pswpout"},
		{"proc/vmstat", "x 1\n", "host.swap.in", "pswpin"}, {"proc/meminfo", "", "host.swap.used", ""},
		{"proc/meminfo", "MemTotal: 1 kB\n", "host.swap.used", "SwapTotal"},
		{"proc/meminfo", "MemTotal: 1 kB\n", "host.memory.available", "MemAvailable"},
		{"proc/stat", "x\n", "host.cpu", "cpu"}, {"proc/pressure/memory", "x\n", "host.pressure.some", "total="},
		{"proc/self/mountinfo", "", "host.cpu.throttled", "no cgroup v2"},
	} {
		files := linuxFiles()
		if delete(files, c.file); c.text != "" {
			files[c.file] = c.text
		}
		s := fakeRoot(t, files).source(10).(*procSource)
		f := figuresByName(s.sample(t.Context(), time.Unix(1000, 0)))[c.figure]
		s.close()
		if f.Known() || !strings.Contains(f.Missing, c.why) || f.Missing == "" || f.Missing == needsTwo {
			t.Errorf("%s %q: %s is %+v", c.file, c.text, c.figure, f)
		}
	}
	s := fakeRoot(t, linuxFiles()).source(0).(*procSource)
	defer s.close()
	if f := figuresByName(s.sample(t.Context(), time.Unix(1000,
		0)))["process.resident"]; f.Missing != "no process to follow" {
		t.Errorf("%+v", f)
	}
	if _, _, err := fakeRoot(t, nil).cgroup("self"); err == nil {
		t.Error("a cgroup without a file that names it")
	}
	files := linuxFiles()
	delete(files, "proc/self/mountinfo")
	if _, _, err := fakeRoot(t, files).cgroup("self"); err == nil || strings.Contains(err.Error(), "mounted") {
		t.Errorf("%v", err)
	}
	files = linuxFiles()
	files["sys/fs/cgroup/job/memory.max"] = "max\n"
	if _, _, err := fakeRoot(t, files).memoryLimit("self"); err == nil || err.Error() != "no limit is set" {
		t.Errorf("%v", err)
	}
	var last float64
	var at time.Time
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		value, seconds float64
		want           string
	}{{5, 0, needsTwo}, {9, 0, needsTwo}, {13, 2, "2"}, {12, 1, "the counter went backwards"}, {12, 1, "0"}} {
		now = now.Add(time.Duration(c.seconds * float64(time.Second)))
		f := rate("x", "1", c.value, now, &last, &at)
		if got := f.Missing; !f.Known() && got != c.want || f.Known() && fmt.Sprint(*f.Value) != c.want {
			t.Errorf("%+v: %+v", c, f)
		}
	}
	h := &macHost{r: &fakeMac{sysctls: map[string][]byte{"four": {1, 0, 0, 0}, "below": {255, 255, 255, 255},
		"two":   {1, 0},
		"eight": {0, 0, 0, 0, 1, 0, 0, 0}}}}
	for name, want := range map[string]int64{"four": 1, "below": -1, "eight": 1 << 32, "two": 0, "none": 0} {
		if n, err := h.number(name); n != want || (err != nil) != (want == 0) {
			t.Errorf("%s: %d %v", name, n, err)
		}
	}
}
