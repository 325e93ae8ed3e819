package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/unit"
)

// macReader is everything that is asked of macOS. The real one (platform_darwin.go) is thin; the logic here is tested
// with one that answers from recordings, or not at all.
type macReader interface {
	sysctl(name string) ([]byte, error) // raw bytes: text ends with NUL, numbers are 4 or 8 bytes, little-endian
	tool(ctx context.Context, path string, args ...string) ([]byte, error)
	processes() ([]process, error)
	usage(pid int) (usage, error) // another user's process: fs.ErrPermission; an ended one: os.ErrProcessDone
	executable(pid int) string    // path; "" where it cannot be told
	cpuTicks() ([4]uint32, error) // user, system, idle, nice; they wrap
	thermal() (uint64, error)     // com.apple.system.thermalpressurelevel
	lowPower() (bool, error)      // NSProcessInfo
	powerSource() (string, error) // AC Power, Battery Power, UPS Power
	adapter() (adapter, bool, error)
	gpuCores() (int64, error)
	statfs(path string) (mount, error)
	openGPU() (gpuReader, error) // to be used and closed on the calling thread only
	root() bool                  // powermetrics may be asked
}

// gpuReader owns IOReport, IOAccelerator and SMC.
type gpuReader interface {
	sample() (ioSample, error) // what was gained since the last call
	statistics() (map[string]int64, error)
	table() ([]byte, error)
	systemPower() (float64, error) // W
	close()
}

// macHost is a Mac.
type macHost struct{ r macReader }

const (
	sysctlPath   = "/usr/sbin/sysctl"
	pmsetPath    = "/usr/bin/pmset"
	profilerPath = "/usr/sbin/system_profiler"
	vmStatPath   = "/usr/bin/vm_stat"
	ioregPath    = "/usr/sbin/ioreg"
	swVersPath   = "/usr/bin/sw_vers"
	mountPath    = "/sbin/mount"
	notifyPath   = "/usr/bin/notifyutil"
	metricsPath  = "/usr/bin/powermetrics"

	sampleLimit = 200 * time.Millisecond

	thermalName = "com.apple.system.thermalpressurelevel"
)

// text reads a sysctl that is a string.
func (h *macHost) text(name string) (string, error) {
	b, err := h.r.sysctl(name)
	if err != nil {
		return "", err
	}
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimSpace(s), nil
}

// number reads a sysctl that is a number of 4 or 8 bytes.
func (h *macHost) number(name string) (int64, error) {
	b, err := h.r.sysctl(name)
	if err != nil {
		return 0, err
	}
	switch len(b) {
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b))), nil
	case 8:
		return int64(binary.LittleEndian.Uint64(b)), nil
	}
	return 0, fmt.Errorf("sysctl %s: %d bytes are no number", name, len(b))
}

func (h *macHost) facts(ctx context.Context, paths []string) []evidence.Fact {
	groups := []func(context.Context) []evidence.Fact{h.chipFacts, h.memoryFacts, h.systemFacts, h.powerFacts}
	for _, p := range paths {
		groups = append(groups, func(ctx context.Context) []evidence.Fact {
			return []evidence.Fact{h.mountFact(ctx,
				p)}
		})
	}
	return together(ctx, groups...)
}

func (h *macHost) chipFacts(ctx context.Context) []evidence.Fact {
	chip, err := h.text("machdep.cpu.brand_string")
	source := "sysctl machdep.cpu.brand_string"
	cores, coresErr := h.r.gpuCores()
	coresSource := "IOKit AGXAccelerator gpu-core-count"
	// "Apple processor" is what early releases of macOS 11 say for an M1: no name of a chip.
	if err != nil || chip == "" || chip == "Apple processor" || coresErr != nil {
		p, bad := h.profiler(ctx)
		if bad == nil && p.chip != "" && (err != nil || chip == "" || chip == "Apple processor") {
			chip, err, source = p.chip, nil, "system_profiler chip_type"
		}
		if bad == nil && p.gpuCores > 0 && coresErr != nil {
			cores, coresErr, coresSource = p.gpuCores, nil, "system_profiler sppci_cores"
		}
	}
	facts := []evidence.Fact{factOr("chip", chip, source, err)}

	model, err := h.text("hw.model")
	facts = append(facts, factOr("model", model, "sysctl hw.model", err))

	physical, err := h.number("hw.physicalcpu")
	facts = append(facts, factOr("cpu.cores", fmt.Sprintf("%d physical", physical), "sysctl hw.physicalcpu", err))
	clusters, err := h.clusters()
	facts = append(facts, factOr("cpu.clusters", clusters, "sysctl hw.nperflevels, hw.perflevelN", err))
	return append(facts, factOr("gpu.cores", fmt.Sprint(cores), coresSource, coresErr))
}

// clusters lists the levels of cores, fastest first. Recordings of macOS 12 have no names for them.
func (h *macHost) clusters() (string, error) {
	n, err := h.number("hw.nperflevels")
	if err != nil {
		return "", err
	}
	if n < 1 || n > 8 {
		return "", fmt.Errorf("sysctl hw.nperflevels: %d", n)
	}
	var parts []string
	for i := range n {
		count, err := h.number(fmt.Sprintf("hw.perflevel%d.physicalcpu", i))
		if err != nil {
			return "", fmt.Errorf("hw.perflevel%d.physicalcpu: %w", i, err)
		}
		name, err := h.text(fmt.Sprintf("hw.perflevel%d.name", i))
		if err != nil || name == "" {
			name = fmt.Sprintf("level %d", i)
		}
		parts = append(parts, fmt.Sprintf("%d %s", count, name))
	}
	return strings.Join(parts, ", "), nil
}

// profiler asks system_profiler, which takes 0.2–0.3 s: as JSON, and in its text form where that cannot be read.
func (h *macHost) profiler(ctx context.Context) (profile, error) {
	out, err := h.r.tool(ctx, profilerPath, "-json", "SPHardwareDataType", "SPDisplaysDataType")
	if err != nil {
		return profile{}, err
	}
	if p, err := parseProfilerJSON(out); err == nil {
		return p, nil
	}
	out, err = h.r.tool(ctx, profilerPath, "SPHardwareDataType", "SPDisplaysDataType")
	return parseProfiler(out), err
}

func (h *macHost) memoryFacts(context.Context) []evidence.Fact {
	var facts []evidence.Fact
	for _, q := range [][2]string{{"memory.total", "hw.memsize"}, {"memory.usable", "hw.memsize_usable"}} {
		n, err := h.number(q[1])
		facts = append(facts, factOr(q[0], unit.Bytes(float64(n)), "sysctl "+q[1], err))
	}
	// 0 leaves the limit to the system. What it then is only Metal knows: the ratio differs by size and release.
	n, err := h.number("iogpu.wired_limit_mb")
	value := "system's choice"
	if n > 0 {
		value = unit.Bytes(float64(n) * (1 << 20))
	}
	return append(facts, factOr("memory.gpu_limit", value, "sysctl iogpu.wired_limit_mb", err))
}

func (h *macHost) systemFacts(ctx context.Context) []evidence.Fact {
	release, err := h.text("kern.osproductversion")
	build, buildErr := h.text("kern.osversion")
	source := "sysctl kern.osproductversion"
	if err != nil || buildErr != nil {
		if out, bad := h.r.tool(ctx, swVersPath); bad == nil {
			if r, b, bad := parseSwVers(out); bad == nil {
				release, build, err, buildErr, source = r, b, nil, nil, "sw_vers"
			}
		}
	}
	name := "macOS " + release
	if release == "10.16" { // what a process sees under SYSTEM_VERSION_COMPAT=1 or an old SDK (xnu)
		name += " (told for compatibility: the build says the release)"
	}
	facts := []evidence.Fact{factOr("system", name, source, err), factOr("system.build", build, "sysctl kern.osversion",
		buildErr)}

	vm, err := h.number("kern.hv_vmm_present")
	facts = append(facts, factOr("system.virtual", map[bool]string{true: "virtual machine",
		false: "none seen"}[vm == 1], "sysctl kern.hv_vmm_present", err))

	translated, err := h.number("sysctl.proc_translated")
	if errors.Is(err, fs.ErrNotExist) { // Intel, or no Rosetta
		translated, err = 0, nil
	}
	return append(facts, factOr("system.translated", map[bool]string{true: "assay runs under Rosetta",
		false: "no"}[translated == 1], "sysctl sysctl.proc_translated", err))
}

func (h *macHost) powerFacts(ctx context.Context) []evidence.Fact {
	batt, battErr := h.r.tool(ctx, pmsetPath, "-g", "batt")
	battSource, batteries := "", []string(nil)
	if battErr == nil {
		battSource, batteries, battErr = parseBatt(batt)
	}
	from, err := h.r.powerSource()
	source := "IOKit IOPSGetProvidingPowerSourceType"
	if err != nil && battErr == nil {
		from, err, source = battSource, nil, "pmset -g batt"
	}
	facts := []evidence.Fact{factOr("power.source", from, source, err), h.adapterFact(ctx)}
	switch {
	case battErr != nil:
		facts = append(facts, noFact("power.battery", "pmset -g batt", reason(battErr)))
	case len(batteries) == 0:
		facts = append(facts, noFact("power.battery", "pmset -g batt", "no battery is listed"))
	default:
		facts = append(facts, fact("power.battery", strings.Join(batteries, "; "), "pmset -g batt"))
	}

	pmset, modeErr := h.r.tool(ctx, pmsetPath, "-g")
	mode, modeLow := "", false
	if modeErr == nil {
		mode, modeLow, modeErr = powerMode(pmset)
	}
	low, err := h.r.lowPower()
	source = "NSProcessInfo isLowPowerModeEnabled"
	if err != nil && modeErr == nil {
		low, err, source = modeLow, nil, "pmset -g"
	}
	return append(facts,
		factOr("power.low_power_mode", map[bool]string{true: "on", false: "off"}[low], source, err),
		factOr("power.profile", mode, "pmset -g", modeErr))
}

func (h *macHost) adapterFact(ctx context.Context) evidence.Fact {
	const source = "IOKit IOPSCopyExternalPowerAdapterDetails"
	const none = "no adapter details: a desktop, or none attached"
	a, ok, err := h.r.adapter()
	if err == nil {
		if !ok {
			return noFact("power.adapter", source, none)
		}
		return fact("power.adapter", a.describe(), source)
	}
	out, bad := h.r.tool(ctx, pmsetPath, "-g", "ac")
	if bad != nil {
		return noFact("power.adapter", source, reason(err))
	}
	watts, bad := parseAC(out)
	if bad == nil && watts == "" {
		return noFact("power.adapter", "pmset -g ac", none)
	}
	return factOr("power.adapter", watts, "pmset -g ac", bad)
}

func (h *macHost) mountFact(ctx context.Context, p string) evidence.Fact {
	name := "mount:" + p
	lexical, err := filepath.Abs(p)
	if err != nil {
		return noFact(name, "statfs", reason(err))
	}
	type place struct {
		mount
		path string
	}
	at, err := within(ctx, mountLimit, func() (place, error) {
		real, err := existing(lexical)
		if err != nil {
			return place{}, err
		}
		m, err := h.r.statfs(real)
		return place{m, real}, err
	})
	if err == nil {
		return fact(name, at.describe()+cloudNote(at.path), "statfs")
	}
	// A dead share hangs in the kernel; the list of mounts is kept there and touches none.
	out, bad := h.r.tool(ctx, mountPath)
	if bad != nil {
		return noFact(name, "statfs", reason(err))
	}
	found, ok := onMount(lexical, parseMounts(out))
	if !ok {
		return noFact(name, "statfs", reason(err))
	}
	return fact(name, found.describe()+" (the path "+reason(err)+")", "mount")
}

// cloudNote marks folders whose files the system may move away: local by statfs, and yet to be fetched.
func cloudNote(path string) string {
	for _, part := range []string{"/Library/Mobile Documents", "/Library/CloudStorage"} {
		if strings.Contains(path+"/", part+"/") {
			return ", cloud folder: files may be evicted"
		}
	}
	return ""
}

func (h *macHost) programs(context.Context) ([]program, error) {
	all, err := h.r.processes()
	if err != nil {
		return nil, err
	}
	var programs []program
	for _, p := range all {
		u, err := h.r.usage(p.pid)
		if err != nil {
			programs = append(programs, program{process: p}) // other users' processes count for the tree only
			continue
		}
		if name := appName(h.r.executable(p.pid)); name != "" {
			p.name = name
		}
		programs = append(programs, program{process: p, bytes: u.footprint})
	}
	return programs, nil
}

// macSource samples a run on a Mac.
type macSource struct {
	h     *macHost
	pid   int
	cores int
	total float64 // bytes
	tree  *tree
	cpu   cpuMeter
	ticks [4]uint32
	first bool
	vm    *slow
	gpu   *slow

	swaps, swapsIn   float64 // of the goroutine of vm
	swapAt, swapInAt time.Time
}

var (
	vmGives     = []quantity{{"host.memory.available", "B"}, {"host.swap.out", "B/s"}, {"host.swap.in", "B/s"}}
	macGPUGives = []quantity{{"cpu.power", "W"}, {"gpu.busy", "ratio"}, {"gpu.power", "W"}, {"gpu.frequency", "Hz"},
		{"gpu.memory", "B"}, {"power.system", "W"}}
)

func (h *macHost) source(pid int) source {
	s := &macSource{h: h, pid: pid, tree: newTree(pid), first: true, cores: 1}
	if n, err := h.number("hw.ncpu"); err == nil && n > 0 {
		s.cores = int(n)
	}
	if n, err := h.number("hw.memsize"); err == nil {
		s.total = float64(n)
	}
	// host_statistics64 would spare the fork, but macOS 27 refuses the counts that older programs pass, and the kernel
	// gives programs that are not Apple's cached figures (xnu; omlx#1749).
	s.vm = &slow{what: "vm_stat", every: 2 * time.Second, limit: 2 * time.Second, gives: vmGives}
	s.vm.begin(false, func() (func(context.Context) []evidence.Figure, func()) { return s.readVM, func() {} })

	s.gpu = &slow{what: "IOReport", every: 2 * time.Second, limit: 4 * time.Second, gives: macGPUGives}
	s.gpu.begin(true, func() (func(context.Context) []evidence.Figure, func()) {
		g := &macGPU{r: h.r}
		g.gpu, g.err = h.r.openGPU()
		return g.read, g.close
	})
	return s
}

func (s *macSource) close() {
	s.vm.close()
	s.gpu.close()
}

func (s *macSource) readVM(ctx context.Context) []evidence.Figure {
	out, err := s.h.r.tool(ctx, vmStatPath)
	now := time.Now()
	var v vmStat
	if err == nil {
		v, err = parseVMStat(out)
	}
	if err != nil {
		return unknownAll(vmGives, reason(err))
	}
	available, err := v.available(s.total)
	if err == nil && s.total == 0 {
		err = errors.New("hw.memsize is not known")
	}
	figures := []evidence.Figure{figureOr("host.memory.available", available, "B", err)}
	swaps, err := v.bytes("Swapouts")
	if err != nil {
		return append(figures, unknownAll(vmGives[1:], err.Error())...)
	}
	figures = append(figures, rate("host.swap.out", "B/s", swaps, now, &s.swaps, &s.swapAt))
	if swaps, err = v.bytes("Swapins"); err != nil {
		return append(figures, evidence.Unknown("host.swap.in", "B/s", err.Error()))
	}
	return append(figures, rate("host.swap.in", "B/s", swaps, now, &s.swapsIn, &s.swapInAt))
}

func (s *macSource) sample(ctx context.Context, now time.Time) []evidence.Figure {
	ctx, cancel := context.WithTimeout(ctx, sampleLimit) // of the tools that stand in for a missing call
	defer cancel()
	figures := make([]evidence.Figure, 0, 24)
	figures = append(figures, s.processes(now)...)
	process, host := figures[len(figures)-1], s.hostCPU()
	figures = append(figures, host)
	vm := s.vm.latest(now)
	figures = append(figures, vm[0], s.swapUsed(ctx), vm[1], s.pressure())
	gpu := s.gpu.latest(now)
	figures = append(figures, gpu[:5]...)
	figures = append(figures, s.thermal(ctx), gpu[5])
	return append(append(figures, macShares(host, process, s.cores)...), vm[2])
}

func (s *macSource) processes(now time.Time) []evidence.Figure {
	missing := func(why string) []evidence.Figure {
		return unknownAll([]quantity{{"process.footprint", "B"}, {"process.resident", "B"}, {"process.workers", "B"},
			{"process.peak", "B"}, {"process.cpu", "ratio"}}, why)
	}
	if s.pid <= 0 {
		return missing("no process to follow")
	}
	all, err := s.h.r.processes()
	if err != nil {
		return missing(reason(err))
	}
	pids := s.tree.update(all)
	if len(pids) == 0 {
		return missing("the process has ended")
	}
	use := make(map[int]usage, len(pids))
	var footprint, resident, workers float64
	closed, why := 0, "the process has ended"
	for _, pid := range pids {
		u, err := s.h.r.usage(pid)
		switch {
		case errors.Is(err, fs.ErrPermission):
			closed++
			continue
		case errors.Is(err, os.ErrProcessDone):
			continue
		case err != nil:
			why = reason(err)
			continue
		}
		u.start = s.tree.members[pid]
		use[pid] = u
		footprint += u.footprint
		resident += u.resident
		if pid != s.pid {
			workers += u.footprint
		}
	}
	if len(use) == 0 {
		if closed > 0 {
			return missing("another user's processes: not permitted")
		}
		return missing(why)
	}
	figures := []evidence.Figure{measured("process.footprint", footprint, "B"),
		measured("process.resident", resident, "B"),
		measured("process.workers", workers, "B")}
	if closed > 0 {
		for i := range figures {
			figures[i].Note = fmt.Sprintf("without %d processes of other users", closed)
		}
	}
	if root, ok := use[s.pid]; ok && root.peak > 0 {
		figures = append(figures, measured("process.peak", root.peak, "B"))
	} else {
		figures = append(figures, evidence.Unknown("process.peak", "B",
			"the process has ended, or the kernel keeps no maximum"))
	}
	if ratio, ok := s.cpu.next(now, use, s.cores); ok {
		return append(figures, measured("process.cpu", ratio, "ratio"))
	}
	return append(figures, evidence.Unknown("process.cpu", "ratio", needsTwo))
}

func (s *macSource) hostCPU() evidence.Figure {
	ticks, err := s.h.r.cpuTicks()
	if err != nil {
		return evidence.Unknown("host.cpu", "ratio", reason(err))
	}
	busy, total := 0.0, 0.0
	for i := range ticks {
		gained := float64(ticks[i] - s.ticks[i]) // unsigned: right across the wrap
		total += gained
		if i != 2 {
			busy += gained
		}
	}
	first := s.first
	s.ticks, s.first = ticks, false
	if first || total == 0 {
		return evidence.Unknown("host.cpu", "ratio", needsTwo)
	}
	return measured("host.cpu", busy/total, "ratio")
}

func (s *macSource) swapUsed(ctx context.Context) evidence.Figure {
	raw, err := s.h.r.sysctl("vm.swapusage")
	var used float64
	if err == nil {
		if used, err = parseSwap(raw); err != nil { // another layout: the tool knows its own
			var text []byte
			if text, err = s.h.r.tool(ctx, sysctlPath, "vm.swapusage"); err == nil {
				used, err = parseSwapText(text)
			}
		}
	}
	return figureOr("host.swap.used", used, "B", err)
}

// pressure is the level of the kernel. It can stay normal while swap is nearly full (continuum#3877): one axis of
// several.
func (s *macSource) pressure() evidence.Figure {
	level, err := s.h.number("kern.memorystatus_vm_pressure_level")
	if err == nil && level != 1 && level != 2 && level != 4 {
		err = fmt.Errorf("kern.memorystatus_vm_pressure_level: %d is no level", level)
	}
	return figureOr("host.pressure", float64(level), "level", err)
}

func (s *macSource) thermal(ctx context.Context) evidence.Figure {
	level, err := s.h.r.thermal()
	if err != nil {
		var out []byte
		if out, err = s.h.r.tool(ctx, notifyPath, "-g", thermalName); err == nil {
			level, err = parseNotify(out, thermalName)
		}
	}
	if err == nil && level > 4 {
		err = fmt.Errorf("%s: %d is no level", thermalName, level)
	}
	return figureOr("thermal.pressure", float64(level), "level", err)
}

// macGPU reads the GPU and the power meters, on the goroutine that opened them.
type macGPU struct {
	r        macReader
	gpu      gpuReader
	err      error // of opening
	cpu, gpw wattMeter
	asked    bool // the frequencies were asked for
	table    []float64
	tableErr error
}

func (g *macGPU) close() {
	if g.gpu != nil {
		g.gpu.close()
	}
}

var errFirstSample = errors.New(needsTwo)

func (g *macGPU) read(ctx context.Context) []evidence.Figure {
	f := map[string]evidence.Figure{}
	set := func(name, unit string, value float64, err error) { f[name] = figureOr(name, value, unit, err) }

	var sample ioSample
	var statistics map[string]int64
	err, statErr, powerErr := g.err, g.err, g.err
	var system float64
	if g.gpu != nil {
		sample, err = g.gpu.sample()
		statistics, statErr = g.gpu.statistics()
		system, powerErr = g.gpu.systemPower()
	}
	if statErr != nil {
		if out, bad := g.r.tool(ctx, ioregPath, "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"); bad == nil {
			statistics, statErr = parsePerformance(out)
		}
	}
	set("power.system", "W", system, powerErr)

	if err == nil {
		g.fromIOReport(sample, set)
	} else {
		for _, q := range macGPUGives[:4] {
			set(q.name, q.unit, 0, err)
		}
		if !errors.Is(err, errFirstSample) && g.r.root() {
			g.fromPowermetrics(ctx, f)
		}
	}
	if busy, ok := statistics["Device Utilization %"]; ok && !f["gpu.busy"].Known() &&
		!errors.Is(err, errFirstSample) && busy >= 0 && busy <= 100 {
		v := measured("gpu.busy", float64(busy)/100, "ratio")
		v.Note = "IOAccelerator: one instant, may jump"
		f["gpu.busy"] = v
	}
	memory, ok := statistics["In use system memory"]
	if statErr == nil && !ok {
		statErr = keyMissing("PerformanceStatistics", "In use system memory")
	}
	set("gpu.memory", "B", float64(memory), statErr)

	// Energies are a model, and have been impossible at times: a GPU with 87 W in a machine that drew 52 (stats#2854).
	if p := f["gpu.power"]; p.Known() && powerErr == nil && system > 0 && *p.Value > 1.1*system {
		p.Note = fmt.Sprintf("doubtful: the whole machine drew %.3g W", system)
		f["gpu.power"] = p
	}
	figures := make([]evidence.Figure, len(macGPUGives))
	for i, q := range macGPUGives {
		figures[i] = f[q.name]
	}
	return figures
}

func (g *macGPU) fromIOReport(sample ioSample, set func(name, unit string, value float64, err error)) {
	if !(sample.seconds > 0) || math.IsInf(sample.seconds, 0) {
		for _, q := range macGPUGives[:4] {
			set(q.name, q.unit, 0, errors.New("no time passed between two readings"))
		}
		return
	}
	busy, active, busyErr := residency(sample)
	set("gpu.busy", "ratio", busy, busyErr)

	if !g.asked {
		g.asked = true
		raw, err := g.gpu.table()
		if err == nil {
			g.table, err = parseVoltageStates(raw)
		}
		g.tableErr = err
	}
	frequency, err := 0.0, errors.Join(busyErr, g.tableErr)
	if err == nil {
		frequency, err = meanFrequency(active, g.table)
	}
	set("gpu.frequency", "Hz", frequency, err)

	gained, coarse, err := energy(sample, gpuEnergy)
	if err != nil {
		gained, coarse, err = energy(sample, gpuEnergyOld)
	}
	var watts float64
	if err == nil {
		watts, err = g.gpw.next(gained, sample.seconds, coarse)
	}
	if err == nil && watts == 0 && busyErr == nil && busy > 0.05 {
		err = errors.New("stale: the energy counter stood still while the GPU was busy")
	}
	set("gpu.power", "W", watts, err)

	gained, coarse, err = energy(sample, cpuEnergy)
	watts = 0
	if err == nil {
		watts, err = g.cpu.next(gained, sample.seconds, coarse)
	}
	if err == nil && watts == 0 { // macOS 27.0 (macmon#76, stats#3608)
		err = errors.New("stale: the energy counter stood still")
	}
	set("cpu.power", "W", watts, err)
}

// fromPowermetrics is the last resort, where assay is root already. It measures one second of its own.
func (g *macGPU) fromPowermetrics(ctx context.Context, f map[string]evidence.Figure) {
	out, err := g.r.tool(ctx, metricsPath, "-n", "1", "-i", "1000", "--samplers", "gpu_power", "-f", "plist")
	if err != nil {
		return
	}
	p, err := parsePowermetrics(out)
	if err != nil {
		return
	}
	for _, v := range []evidence.Figure{measured("gpu.busy", p.busy, "ratio"), measured("gpu.power", p.power, "W"),
		measured("gpu.frequency", p.frequency, "Hz")} {
		v.Note = "powermetrics"
		f[v.Name] = v
	}
}

// macRecordings are the outputs of which testdata/mac has too few, by the names that its files have.
func (h *macHost) recordings() []recording {
	tool := func(name, path string, args ...string) recording {
		return recording{name, strings.TrimSpace(filepath.Base(path) + " " + strings.Join(args, " ")),
			func(ctx context.Context) ([]byte, error) { return h.r.tool(ctx, path, args...) }}
	}
	all := []recording{
		tool("sw_vers", swVersPath),
		tool("sysctl-hw-cpu", sysctlPath, "hw", "machdep.cpu"),
		tool("sysctl-memory", sysctlPath, "vm.swapusage", "kern.memorystatus_vm_pressure_level",
			"kern.memorystatus_level",
			"iogpu.wired_limit_mb", "kern.hv_vmm_present"),
		tool("vm_stat", vmStatPath),
		tool("memory_pressure", "/usr/bin/memory_pressure", "-Q"),
		tool("pmset-g", pmsetPath, "-g"),
		tool("pmset-g-batt", pmsetPath, "-g", "batt"),
		tool("pmset-g-ac", pmsetPath, "-g", "ac"),
		tool("pmset-g-custom", pmsetPath, "-g", "custom"),
		tool("pmset-g-therm", pmsetPath, "-g", "therm"),
		tool("notifyutil-thermalpressurelevel", notifyPath, "-g", thermalName),
		tool("mount", mountPath),
		tool("system_profiler-SPHardwareDataType", profilerPath, "-detailLevel", "mini", "SPHardwareDataType"),
		tool("system_profiler-SPDisplaysDataType.json", profilerPath, "-json", "SPDisplaysDataType"),
		tool("ioreg-IOAccelerator", ioregPath, "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"),
		tool("ioreg-pmgr", ioregPath, "-r", "-d", "1", "-w", "0", "-n", "pmgr"),
		tool("footprint-self", "/usr/bin/footprint", "-f", "bytes", "--noCategories", "-p", strconv.Itoa(os.Getpid())),
		{"ioreport", "two IOReport samples, a second apart", h.recordIOReport},
	}
	if h.r.root() {
		all = append(all,
			tool("powermetrics.plist", metricsPath, "-n", "1", "-i", "1000", "--samplers",
				"gpu_power,cpu_power,thermal", "-f", "plist"),
			tool("powermetrics", metricsPath, "-n", "1", "-i", "1000", "--samplers", "gpu_power,cpu_power,thermal"))
	}
	return all
}

// recordIOReport writes the channels that the sampler reads, as a table.
func (h *macHost) recordIOReport(ctx context.Context) ([]byte, error) {
	var sample ioSample
	var table []byte
	var tableErr error
	// The handles are private to the thread that opened them.
	s := &slow{what: "IOReport", every: time.Hour, limit: 4 * time.Second}
	done := make(chan error, 1)
	s.begin(true, func() (func(context.Context) []evidence.Figure, func()) {
		g, err := h.r.openGPU()
		if err != nil {
			return func(context.Context) []evidence.Figure { done <- err; return nil }, func() {}
		}
		return func(ctx context.Context) []evidence.Figure {
			if _, err := g.sample(); err != nil && !errors.Is(err, errFirstSample) {
				done <- err
				return nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			var err error
			sample, err = g.sample()
			table, tableErr = g.table()
			done <- err
			return nil
		}, g.close
	})
	defer s.close()
	s.latest(time.Now())
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-done:
		if err != nil {
			return nil, err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seconds\t%g\n", sample.seconds)
	slices.SortStableFunc(sample.channels, func(a, b ioChannel) int {
		return strings.Compare(a.group+a.name,
			b.group+b.name)
	})
	for _, c := range sample.channels {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%d", c.group, c.subgroup, c.name, c.unit, c.value)
		for _, st := range c.states {
			fmt.Fprintf(&b, "\t%s=%d", st.name, st.ticks)
		}
		b.WriteByte('\n')
	}
	if tableErr != nil {
		fmt.Fprintf(&b, "voltage-states9\t%s\n", reason(tableErr))
	} else {
		fmt.Fprintf(&b, "voltage-states9\t%x\n", table)
	}
	return []byte(b.String()), nil
}
