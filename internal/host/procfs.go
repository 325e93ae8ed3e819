package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/evidence"
	"assay/internal/unit"
)

// procHost is a Linux host, read below a root so that tests can use a folder.
type procHost struct {
	root string // "" on a real host
	tool toolFunc
	self func() float64                    // processor seconds of assay itself; nil: not counted
	smi  string                            // path of nvidia-smi; "" where there is none
	read func(path string) ([]byte, error) // of small files of /proc and /sys
}

func (h *procHost) file(p string) ([]byte, error) { return h.read(h.root + p) }

// word reads a file of one value.
func (h *procHost) word(p string) (string, error) {
	b, err := h.file(p)
	return strings.TrimSpace(string(b)), err
}

func (h *procHost) facts(ctx context.Context, paths []string) []evidence.Fact {
	groups := []func(context.Context) []evidence.Fact{h.chipFacts, h.gpuFacts, h.memoryFacts, h.systemFacts,
		h.powerFacts}
	for _, p := range paths {
		groups = append(groups, func(ctx context.Context) []evidence.Fact {
			return []evidence.Fact{h.mountFact(ctx,
				p)}
		})
	}
	return together(ctx, groups...)
}

func (h *procHost) chipFacts(context.Context) []evidence.Fact {
	text, err := h.file("/proc/cpuinfo")
	var chip string
	var processors int
	if err == nil {
		chip, processors, _, err = parseCPUInfo(text)
	}
	facts := []evidence.Fact{factOr("chip", chip, "/proc/cpuinfo", err)}

	vendor, _ := h.word("/sys/class/dmi/id/sys_vendor")
	model, err := h.word("/sys/class/dmi/id/product_name")
	if err != nil { // boards with a device tree
		model, err = h.word("/proc/device-tree/model")
		model = strings.Trim(model, "\x00")
	}
	facts = append(facts, factOr("model", strings.TrimSpace(vendor+" "+model), "/sys/class/dmi/id/product_name", err))

	if processors > 0 {
		facts = append(facts, fact("cpu.cores", strconv.Itoa(processors)+" logical", "/proc/cpuinfo"))
	} else {
		facts = append(facts, noFact("cpu.cores", "/proc/cpuinfo", "no processor is listed"))
	}
	facts = append(facts, h.clusterFact(processors))
	usable := fmt.Sprintf("%d of this process's processors", runtime.NumCPU())
	if quota, err := h.cpuQuota(); err == nil {
		usable = fmt.Sprintf("%s, cgroup grants the time of %.3g", usable, quota)
	}
	return append(facts, fact("cpu.usable", usable, "affinity mask, cgroup cpu.max"))
}

// clusterFact counts the cores of each capacity: 1024 is the fastest kind.
func (h *procHost) clusterFact(processors int) evidence.Fact {
	const source = "/sys/devices/system/cpu/cpu*/cpu_capacity"
	count := map[int64]int{}
	for i := range min(processors, 4096) {
		if c, err := h.word(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cpu_capacity", i)); err == nil {
			count[atoi([]byte(c))]++
		}
	}
	if len(count) == 0 {
		return noFact("cpu.clusters", source, "this system does not tell kinds of cores apart")
	}
	var capacities []int64
	for c := range count {
		capacities = append(capacities, c)
	}
	slices.Sort(capacities)
	slices.Reverse(capacities)
	var parts []string
	for _, c := range capacities {
		parts = append(parts, fmt.Sprintf("%d of capacity %d", count[c], c))
	}
	return fact("cpu.clusters", strings.Join(parts, ", "), source)
}

// cpuQuota is the lowest cpu.max up the tree of cgroups (v2), in processors.
func (h *procHost) cpuQuota() (float64, error) {
	folders, v2, err := h.cgroup("self")
	if err != nil || !v2 {
		return 0, errors.New("no cgroup v2")
	}
	least := math.Inf(1)
	for _, f := range folders {
		text, err := h.file(f + "/cpu.max")
		words := strings.Fields(string(text))
		if err != nil || len(words) != 2 {
			continue
		}
		if quota, period := atoi([]byte(words[0])), atoi([]byte(words[1])); words[0] != "max" && period > 0 {
			least = min(least, float64(quota)/float64(period))
		}
	}
	if math.IsInf(least, 1) {
		return 0, errors.New("no limit")
	}
	return least, nil
}

func (h *procHost) gpuFacts(ctx context.Context) []evidence.Fact {
	const source = "nvidia-smi --query-gpu=name,memory.total,driver_version"
	if h.smi == "" {
		why := "no nvidia-smi on this machine"
		return []evidence.Fact{noFact("gpu", source, why), noFact("gpu.memory", source, why),
			noFact("gpu.driver", source, why)}
	}
	out, err := h.tool(ctx, h.smi, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
	var names, memories, driver string
	if err == nil {
		names, memories, driver, err = parseSMIFacts(out)
	}
	return []evidence.Fact{factOr("gpu", names, source, err), factOr("gpu.memory", memories, source, err),
		factOr("gpu.driver", driver, source, err)}
}

// parseSMIFacts reads one row a device: name, MiB, driver.
func parseSMIFacts(text []byte) (names, memories, driver string, err error) {
	type device struct{ name, memory string }
	count := map[device]int{}
	var order []device
	lines(text, func(line string) {
		words := strings.Split(line, ",")
		if len(words) != 3 || len(order) >= 1024 {
			return
		}
		d := device{name: strings.TrimSpace(words[0]), memory: "unknown"}
		if mib, bad := strconv.ParseFloat(strings.TrimSpace(words[1]), 64); bad == nil {
			d.memory = unit.Bytes(mib * (1 << 20))
		}
		driver = strings.TrimSpace(words[2])
		if count[d]++; count[d] == 1 {
			order = append(order, d)
		}
	})
	if len(order) == 0 {
		return "", "", "", fmt.Errorf("nvidia-smi: %q is no row of 3 columns", cut(strings.TrimSpace(string(text)), 80))
	}
	var n, m []string
	for _, d := range order {
		n = append(n, times(count[d], d.name))
		m = append(m, times(count[d], d.memory))
	}
	return strings.Join(n, ", "), strings.Join(m, ", "), driver, nil
}

func times(n int, what string) string {
	if n == 1 {
		return what
	}
	return fmt.Sprintf("%d × %s", n, what)
}

func (h *procHost) memoryFacts(context.Context) []evidence.Fact {
	text, err := h.file("/proc/meminfo")
	total, ok := parseKeyed(text)["MemTotal"]
	if err == nil && !ok {
		err = keyMissing("/proc/meminfo", "MemTotal")
	}
	facts := []evidence.Fact{factOr("memory.total", unit.Bytes(total), "/proc/meminfo MemTotal", err)}
	const source = "cgroup memory.max"
	limit, _, err := h.memoryLimit("self")
	switch {
	case err != nil:
		return append(facts, noFact("memory.limit", source, reason(err)))
	case ok && limit >= total:
		return append(facts, noFact("memory.limit", source, "the limit is above what the machine has"))
	}
	return append(facts, fact("memory.limit", unit.Bytes(limit), source))
}

// cgroup returns the folders of the cgroup of a process, its own first and then up to the root, and whether they are
// v2.
func (h *procHost) cgroup(pid string) (folders []string, v2 bool, err error) {
	text, err := h.file("/proc/" + pid + "/cgroup")
	if err != nil {
		return nil, false, err
	}
	unified, memory := parseCgroups(text)
	text, err = h.file("/proc/self/mountinfo")
	if err != nil {
		return nil, false, err
	}
	var at, root string
	for _, m := range parseMountinfo(text) {
		options := "," + m.options + ","
		switch {
		case m.kind == "cgroup" && strings.Contains(options, ",memory,") && memory != "":
			at, root, v2 = m.point, m.root, false
		case m.kind == "cgroup2" && unified != "" && (at == "" || v2):
			at, root, v2 = m.point, m.root, true
		}
	}
	if at == "" {
		return nil, false, errors.New("no memory cgroup is mounted")
	}
	below := memory
	if v2 {
		below = unified
	}
	// A container mounts its own cgroup as the root of the hierarchy, while the path may still be told from the host's
	// root.
	below = path.Clean("/" + strings.TrimPrefix(below, strings.TrimSuffix(root, "/")))
	for {
		folders = append(folders, path.Join(at, below))
		if below == "/" || len(folders) > 64 {
			return folders, v2, nil
		}
		below = path.Dir(below)
	}
}

// memoryLimit is the lowest limit up the tree, bytes, with the folder that sets it.
func (h *procHost) memoryLimit(pid string) (limit float64, folder string, err error) {
	folders, v2, err := h.cgroup(pid)
	if err != nil {
		return 0, "", err
	}
	name := "/memory.limit_in_bytes"
	if v2 {
		name = "/memory.max"
	}
	limit, seen := math.Inf(1), false
	for _, f := range folders {
		w, err := h.word(f + name)
		if err != nil {
			continue
		}
		seen = true
		// v1 says "no limit" with the largest multiple of a page below 2^63.
		if v, bad := strconv.ParseFloat(w, 64); bad == nil && v < 1<<60 && v < limit {
			limit, folder = v, f
		}
	}
	switch {
	case !seen:
		return 0, "", errors.New("the cgroup has no memory controller")
	case math.IsInf(limit, 1):
		return 0, "", errors.New("no limit is set")
	}
	return limit, folder, nil
}

func (h *procHost) systemFacts(context.Context) []evidence.Fact {
	text, err := h.file("/etc/os-release")
	if err != nil {
		text, err = h.file("/usr/lib/os-release")
	}
	var name string
	if err == nil {
		name, err = parseOSRelease(text)
	}
	facts := []evidence.Fact{factOr("system", name, "/etc/os-release", err)}
	kernel, err := h.word("/proc/sys/kernel/osrelease")
	facts = append(facts, factOr("system.build", "Linux "+kernel, "/proc/sys/kernel/osrelease", err))

	const source = "/proc/cpuinfo hypervisor flag, /sys/class/dmi, container marks"
	info, err := h.file("/proc/cpuinfo")
	_, _, virtual, _ := parseCPUInfo(info)
	product, _ := h.word("/sys/class/dmi/id/product_name")
	for _, mark := range []string{"KVM", "Virtual", "VMware", "QEMU", "HVM domU"} {
		virtual = virtual || strings.Contains(product, mark)
	}
	value := "none seen"
	if virtual {
		value = "virtual machine"
	}
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv", "/run/systemd/container"} {
		if _, bad := h.file(mark); bad == nil {
			value = strings.TrimPrefix(value+" and container", "none seen and ")
			break
		}
	}
	return append(facts, factOr("system.virtual", value, source, err))
}

func (h *procHost) powerFacts(context.Context) []evidence.Fact {
	const source = "/sys/class/power_supply"
	var states []string
	battery := noFact("power.battery", source, "no battery is listed")
	supplies, _ := os.ReadDir(h.root + source)
	mains := ""
	for _, s := range supplies {
		dir := source + "/" + s.Name()
		kind, _ := h.word(dir + "/type")
		if scope, _ := h.word(dir + "/scope"); scope == "Device" { // a mouse's own battery
			continue
		}
		switch kind {
		case "Mains", "USB", "USB_C":
			if online, err := h.word(dir + "/online"); err == nil && mains != "mains" {
				mains = map[bool]string{true: "mains", false: "battery"}[online != "0"]
			}
		case "Battery":
			status, _ := h.word(dir + "/status")
			percent, err := h.word(dir + "/capacity")
			if err == nil {
				states = append(states, percent+" %, "+strings.ToLower(status))
			}
			if mains == "" && status == "Discharging" {
				mains = "battery"
			}
		}
	}
	facts := []evidence.Fact{noFact("power.source", source,
		"no power supply is listed: a desktop, a server or a container")}
	if mains != "" {
		facts[0] = fact("power.source", mains, source)
	}
	if len(states) > 0 {
		battery = fact("power.battery", strings.Join(states, "; "), source)
	}
	facts = append(facts, battery)

	const profile = "/sys/firmware/acpi/platform_profile"
	p, err := h.word(profile)
	if err == nil {
		low := "off"
		if p == "low-power" || p == "quiet" {
			low = "on (profile " + p + ")"
		}
		facts = append(facts, fact("power.low_power_mode", low, profile))
	} else {
		facts = append(facts, noFact("power.low_power_mode", profile, reason(err)))
	}
	const governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
	g, gerr := h.word(governor)
	switch {
	case err == nil && gerr == nil:
		facts = append(facts, fact("power.profile", p+", governor "+g, profile+", "+governor))
	case err == nil:
		facts = append(facts, fact("power.profile", p, profile))
	default:
		facts = append(facts, factOr("power.profile", "governor "+g, governor, gerr))
	}
	return facts
}

func (h *procHost) mountFact(ctx context.Context, p string) evidence.Fact {
	const source = "/proc/self/mountinfo"
	name := "mount:" + p
	text, err := h.file(source)
	if err != nil {
		return noFact(name, source, reason(err))
	}
	var all []mount
	for _, m := range parseMountinfo(text) {
		all = append(all, m.mount)
	}
	lexical, err := filepath.Abs(p)
	if err != nil {
		return noFact(name, source, reason(err))
	}
	real, err := within(ctx, mountLimit, func() (string, error) { return existing(lexical) })
	if err != nil { // a dead share: say what is mounted there without touching it
		m, ok := onMount(lexical, all)
		if !ok {
			return noFact(name, source, reason(err))
		}
		return fact(name, m.describe()+" (the path "+err.Error()+")", source)
	}
	m, ok := onMount(real, all)
	if !ok {
		return noFact(name, source, "no mount point above the path")
	}
	return fact(name, m.describe(), source)
}

// existing resolves the path, or the nearest parent of it that exists.
func existing(p string) (string, error) {
	for {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return real, nil
		}
		up := filepath.Dir(p)
		if up == p || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return "", err
		}
		p = up
	}
}

// procTable lists all processes. Reading every stat costs some 10 µs each, so that parents are remembered: a sample
// reads those of new pids, and every sixteenth one reads all again, in case a pid went to another process unseen.
type procTable struct {
	h     *procHost
	known map[int]process
	age   int
}

const rescan = 16

func (t *procTable) list() ([]process, error) {
	dir, err := os.Open(t.h.root + "/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return nil, err
	}
	if t.age++; t.age%rescan == 0 {
		t.known = nil
	}
	fresh := make(map[int]process, len(t.known)+16)
	all := make([]process, 0, len(t.known)+16)
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		pid := int(atoi([]byte(name)))
		p, ok := t.known[pid]
		if !ok {
			s, err := t.h.stat(pid)
			if err != nil { // ended meanwhile, or hidden
				continue
			}
			p = s.process
		}
		fresh[pid] = p
		all = append(all, p)
	}
	t.known = fresh
	return all, nil
}

func (h *procHost) stat(pid int) (stat, error) {
	text, err := h.file("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

func (h *procHost) programs(context.Context) ([]program, error) {
	all, err := (&procTable{h: h}).list()
	if err != nil {
		return nil, err
	}
	page := float64(os.Getpagesize())
	var programs []program
	for _, p := range all {
		if s, err := h.stat(p.pid); err == nil {
			programs = append(programs, program{process: s.process, bytes: s.pages * page})
		}
	}
	return programs, nil
}

// procSource samples a run on Linux.
type procSource struct {
	h     *procHost
	pid   int
	table procTable
	tree  *tree
	cpu   cpuMeter

	busy, total     float64 // of /proc/stat
	swapOut, stall  float64
	swapAt, stallAt time.Time

	cgroups  bool // looked for
	limit    float64
	limitDir string

	share sharing

	gpu *slow
	pss *slow
	// pids of the run, for the reading beside
	shared chan []int
}

var (
	gpuGives = []quantity{{"gpu.busy", "ratio"}, {"gpu.power", "W"}, {"gpu.frequency", "Hz"}, {"gpu.memory", "B"}}
	pssGives = []quantity{{"process.pss", "B"}}
)

func (h *procHost) source(pid int) source {
	s := &procSource{h: h, pid: pid, tree: newTree(pid), table: procTable{h: h}, shared: make(chan []int, 1)}
	if h.smi != "" {
		s.gpu = &slow{what: "nvidia-smi", every: 5 * time.Second, limit: 4 * time.Second, gives: gpuGives}
		s.gpu.begin(false, func() (func(context.Context) []evidence.Figure, func()) { return s.readGPU, func() {} })
	}
	// smaps_rollup walks every mapping: milliseconds for a large process (facts: Linux,
	// Documentation/filesystems/proc.rst).
	s.pss = &slow{what: "smaps_rollup", every: 10 * time.Second, limit: 5 * time.Second, gives: pssGives}
	s.pss.begin(false, func() (func(context.Context) []evidence.Figure, func()) { return s.readPSS, func() {} })
	return s
}

func (s *procSource) close() {
	if s.gpu != nil {
		s.gpu.close()
	}
	s.pss.close()
}

func (s *procSource) readGPU(ctx context.Context) []evidence.Figure {
	out, err := s.h.tool(ctx, s.h.smi, "--query-gpu="+smiFields, "--format=csv,noheader,nounits")
	var devices []gpuReading
	if err == nil {
		devices, err = parseSMI(out)
	}
	if err != nil {
		return unknownAll(gpuGives, reason(err))
	}
	var figures []evidence.Figure
	for _, v := range gpuFigures(devices) {
		f := measured(v.name, v.value, v.unit)
		if math.IsNaN(v.value) {
			f = evidence.Unknown(v.name, v.unit, "nvidia-smi says N/A")
		} else if len(devices) > 1 {
			f.Note = fmt.Sprintf(v.note, len(devices))
		}
		figures = append(figures, f)
	}
	return figures
}

func (s *procSource) readPSS(ctx context.Context) []evidence.Figure {
	var pids []int
	select {
	case pids = <-s.shared:
	default:
	}
	var sum float64
	var err error
	read := 0
	for _, pid := range pids {
		if ctx.Err() != nil {
			err = fmt.Errorf("%d of %d processes in %v", read, len(pids), s.pss.limit)
			break
		}
		text, bad := s.h.file("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
		values := parseKeyed(text)
		pss, ok := values["Pss"]
		if bad == nil && ok {
			sum += pss + values["SwapPss"]
			read++
		} else if bad != nil && !errors.Is(bad, fs.ErrNotExist) {
			err = bad
		}
	}
	switch {
	case err != nil:
		return unknownAll(pssGives, reason(err))
	case read == 0:
		return unknownAll(pssGives, "no process of the run could be read")
	}
	return []evidence.Figure{measured("process.pss", sum, "B")}
}

func (s *procSource) sample(_ context.Context, now time.Time) []evidence.Figure {
	figures := make([]evidence.Figure, 0, 26)
	processes, pids, own := s.processes(now)
	figures = append(figures, processes...)
	figures = append(figures, s.hostCPU(), s.available(), s.swapUsed(), s.swapRate(now),
		evidence.Unknown("host.pressure", "level", "Linux has no level; see host.pressure.some"), s.stalled(now))
	if s.gpu != nil {
		figures = append(figures, s.gpu.latest(now)...)
	} else {
		figures = append(figures, unknownAll(gpuGives, "no nvidia-smi on this machine")...)
	}
	figures = append(figures,
		evidence.Unknown("thermal.pressure", "level", "Linux reports temperatures, no level"),
		evidence.Unknown("power.system", "W", "no meter of the whole machine is read on Linux"))
	return append(figures, s.shares(now, pids, own)...)
}

// processes gives the figures of the run's own tree, its members, and their processor time with that of children that
// have ended, in seconds.
func (s *procSource) processes(now time.Time) (figures []evidence.Figure, members []int, own float64) {
	footprint := evidence.Unknown("process.footprint", "B", "Linux has no footprint; see process.resident")
	missing := func(why string) []evidence.Figure {
		return []evidence.Figure{footprint, evidence.Unknown("process.resident", "B", why),
			evidence.Unknown("process.workers", "B", why),
			evidence.Unknown("process.pss", "B", why), evidence.Unknown("process.peak", "B", why),
			evidence.Unknown("process.cpu", "ratio", why)}
	}
	if s.pid <= 0 {
		return missing("no process to follow"), nil, 0
	}
	all, err := s.table.list()
	if err != nil {
		return missing(reason(err)), nil, 0
	}
	pids := s.tree.update(all)
	use := make(map[int]usage, len(pids))
	page := float64(os.Getpagesize())
	var sum, workers float64
	for _, pid := range pids {
		st, err := s.h.stat(pid)
		if err != nil {
			continue
		}
		s.table.known[pid] = st.process
		resident := st.pages * page
		use[pid] = usage{cpu: st.cpu, resident: resident, start: st.start}
		sum += resident
		own += st.cpu + st.children
		if pid != s.pid {
			workers += resident
		}
	}
	if len(use) == 0 {
		return missing("the process has ended"), nil, 0
	}
	figures = []evidence.Figure{footprint, measured("process.resident", sum, "B"),
		measured("process.workers", workers, "B")}

	select { // the newest list of pids, for the next reading of smaps_rollup
	case <-s.shared:
	default:
	}
	s.shared <- pids
	figures = append(figures, s.pss.latest(now)...)

	status, err := s.h.file("/proc/" + strconv.Itoa(s.pid) + "/status")
	peak, ok := parseKeyed(status)["VmHWM"]
	if err == nil && !ok {
		err = errors.New("the process has ended")
	}
	figures = append(figures, figureOr("process.peak", peak, "B", err))
	elapsed := now.Sub(s.cpu.at).Seconds()
	s.share.spent = 0
	if ratio, ok := s.cpu.next(now, use, runtime.NumCPU()); ok {
		s.share.spent = ratio * elapsed
		return append(figures, measured("process.cpu", ratio, "ratio")), pids, own
	}
	return append(figures, evidence.Unknown("process.cpu", "ratio", needsTwo)), pids, own
}

func (s *procSource) hostCPU() evidence.Figure {
	text, err := s.h.file("/proc/stat")
	if err != nil {
		return evidence.Unknown("host.cpu", "ratio", reason(err))
	}
	busy, total, err := parseCPU(text)
	if err != nil {
		return evidence.Unknown("host.cpu", "ratio", err.Error())
	}
	b, t := busy-s.busy, total-s.total
	first := s.total == 0
	s.busy, s.total = busy, total
	if first || t <= 0 {
		return evidence.Unknown("host.cpu", "ratio", needsTwo)
	}
	return measured("host.cpu", min(1, max(0, b/t)), "ratio")
}

// available is MemAvailable, or what the cgroup leaves where that is less. File cache that the cgroup can drop counts
// as left.
func (s *procSource) available() evidence.Figure {
	text, err := s.h.file("/proc/meminfo")
	available, ok := parseKeyed(text)["MemAvailable"]
	if err == nil && !ok {
		err = keyMissing("/proc/meminfo", "MemAvailable")
	}
	if err != nil {
		return evidence.Unknown("host.memory.available", "B", reason(err))
	}
	f := measured("host.memory.available", available, "B")
	if !s.cgroups {
		s.cgroups = true
		pid := "self"
		if s.pid > 0 {
			pid = strconv.Itoa(s.pid)
		}
		if s.limit, s.limitDir, err = s.h.memoryLimit(pid); err != nil {
			s.limitDir = ""
		}
	}
	if s.limitDir == "" {
		return f
	}
	used, err := s.h.word(s.limitDir + "/memory.current")
	cache := "inactive_file"
	if err != nil {
		used, err = s.h.word(s.limitDir + "/memory.usage_in_bytes")
		cache = "total_inactive_file"
	}
	if err != nil {
		return f
	}
	stat, _ := s.h.file(s.limitDir + "/memory.stat")
	left := s.limit - float64(atoi([]byte(used))) + parseKeyed(stat)[cache]
	if left < available {
		f = measured("host.memory.available", max(0, left), "B")
		f.Note = "what the cgroup's limit leaves"
	}
	return f
}

func (s *procSource) swapUsed() evidence.Figure {
	text, err := s.h.file("/proc/meminfo")
	values := parseKeyed(text)
	total, ok := values["SwapTotal"]
	if err == nil && !ok {
		err = keyMissing("/proc/meminfo", "SwapTotal")
	}
	return figureOr("host.swap.used", total-values["SwapFree"], "B", err)
}

func (s *procSource) swapRate(now time.Time) evidence.Figure {
	text, err := s.h.file("/proc/vmstat")
	pages, ok := parseKeyed(text)["pswpout"]
	if err == nil && !ok {
		err = keyMissing("/proc/vmstat", "pswpout")
	}
	if err != nil {
		return evidence.Unknown("host.swap.out", "B/s", reason(err))
	}
	return rate("host.swap.out", "B/s", pages*float64(os.Getpagesize()), now, &s.swapOut, &s.swapAt)
}

func (s *procSource) stalled(now time.Time) evidence.Figure {
	text, err := s.h.file("/proc/pressure/memory")
	if err != nil {
		return evidence.Unknown("host.pressure.some", "ratio", "the kernel keeps no pressure figures: "+reason(err))
	}
	seconds, err := parsePressure(text, "some")
	if err != nil {
		return evidence.Unknown("host.pressure.some", "ratio", err.Error())
	}
	return rate("host.pressure.some", "ratio", seconds, now, &s.stall, &s.stallAt)
}

// rate is the growth of a counter in a second since the value kept in last, which it replaces.
func rate(name, unit string, value float64, now time.Time, last *float64, at *time.Time) evidence.Figure {
	elapsed, grown, first := now.Sub(*at).Seconds(), value-*last, at.IsZero()
	*last, *at = value, now
	switch {
	case first || elapsed <= 0:
		return evidence.Unknown(name, unit, needsTwo)
	case grown < 0:
		return evidence.Unknown(name, unit, "the counter went backwards")
	}
	return measured(name, grown/elapsed, unit)
}
