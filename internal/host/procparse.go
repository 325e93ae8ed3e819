package host

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// userHZ is the unit of processor times in /proc: fixed at 100 a second for programs on every architecture (man 5
// proc).
const userHZ = 100

// stat is what is used of /proc/PID/stat.
type stat struct {
	process
	cpu      float64 // seconds, user and system
	children float64 // the same of children that have ended and were waited for
	pages    float64 // resident
}

// parseStat reads /proc/PID/stat. The name stands in brackets and may hold brackets and blanks: cut at the last one.
func parseStat(text []byte) (stat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, errors.New("stat: no name in brackets")
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:open])))
	if err != nil {
		return stat{}, fmt.Errorf("stat: %w", err)
	}
	// Fields after the name, counted from 0: state 0, ppid 1, pgrp 2, session 3, utime 11, stime 12, cutime 13, cstime
	// 14, starttime 19, rss 21.
	var field [22]int64
	rest, n := text[end+1:], -1
	for word := range bytes.FieldsSeq(rest) {
		if n++; n >= len(field) {
			break
		}
		if n > 0 {
			field[n] = atoi(word)
		}
	}
	if n < len(field)-1 {
		return stat{}, fmt.Errorf("stat: %d fields after the name, not %d", n+1, len(field))
	}
	return stat{
		process: process{pid: pid, parent: int(field[1]), group: int(field[2]), session: int(field[3]),
			start: uint64(field[19]), name: string(text[open+1 : end])},
		cpu:      float64(field[11]+field[12]) / userHZ,
		children: float64(field[13]+field[14]) / userHZ,
		pages:    float64(max(0, field[21])),
	}, nil
}

// atoi reads digits with an optional sign; anything else ends it. The hot path of a sample: no allocation, no error.
func atoi(b []byte) int64 {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	var v int64
	for _, c := range b {
		if c < '0' || c > '9' || v > math.MaxInt64/10-10 {
			break
		}
		v = v*10 + int64(c-'0')
	}
	if negative {
		return -v
	}
	return v
}

// parseKeyed reads lines of `Key:   123 kB` (meminfo, smaps_rollup, status) into bytes, and lines of `key 123` (vmstat,
// memory.stat) into plain numbers. Lines of another form are left out.
func parseKeyed(text []byte) map[string]float64 {
	values := map[string]float64{}
	lines(text, func(line string) {
		words := strings.Fields(line)
		if len(words) < 2 || len(words) > 3 {
			return
		}
		v, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			return
		}
		scale := 1.0
		if len(words) == 3 {
			if words[2] != "kB" {
				return
			}
			scale = 1024
		}
		values[strings.TrimSuffix(words[0], ":")] = float64(v) * scale
	})
	return values
}

// parseCPU reads the first line of /proc/stat: ticks in which some processor was busy, and all ticks.
func parseCPU(text []byte) (busy, total float64, err error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	words := bytes.Fields(line)
	if len(words) < 5 || string(words[0]) != "cpu" {
		return 0, 0, keyMissing("/proc/stat", "cpu")
	}
	// user nice system idle iowait irq softirq steal; the guest columns after them are contained in user and nice.
	for i, w := range words[1:min(len(words), 9)] {
		v := float64(atoi(w))
		total += v
		if i != 3 && i != 4 {
			busy += v
		}
	}
	return busy, total, nil
}

// parsePressure reads one line of a PSI file: seconds in which some (or full) waited, since boot.
func parsePressure(text []byte, kind string) (seconds float64, err error) {
	err = keyMissing("pressure", kind+" … total=")
	lines(text, func(line string) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != kind {
			return
		}
		for _, w := range words[1:] {
			if v, ok := strings.CutPrefix(w, "total="); ok {
				if us, bad := strconv.ParseUint(v, 10, 64); bad == nil {
					seconds, err = float64(us)/1e6, nil
				}
			}
		}
	})
	return seconds, err
}

// chipNames are the implementers of arm cores, as /proc/cpuinfo numbers them (Linux, arch/arm64/include/asm/cputype.h).
var chipNames = map[string]string{
	"0x41": "Arm", "0x42": "Broadcom", "0x43": "Cavium", "0x46": "Fujitsu", "0x48": "HiSilicon", "0x4e": "NVIDIA",
	"0x50": "Ampere (APM)", "0x51": "Qualcomm", "0x53": "Samsung", "0x61": "Apple", "0x6d": "Microsoft",
	"0xc0": "Ampere",
}

// parseCPUInfo reads /proc/cpuinfo: a name for the chip, the logical processors, and whether a hypervisor announced
// itself.
func parseCPUInfo(text []byte) (chip string, processors int, virtual bool, err error) {
	values := map[string]string{}
	lines(text, func(line string) {
		key, value, ok := strings.Cut(line, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok {
			return
		}
		if key == "processor" {
			processors++
		}
		if _, seen := values[key]; !seen && len(values) < 256 {
			values[key] = value
		}
	})
	virtual = strings.Contains(" "+values["flags"]+" ", " hypervisor ")
	switch {
	case values["model name"] != "":
		chip = values["model name"]
	case values["CPU implementer"] != "":
		chip = chipNames[values["CPU implementer"]]
		if chip == "" {
			chip = "implementer " + values["CPU implementer"]
		}
		chip += ", part " + values["CPU part"]
	case values["cpu"] != "": // POWER
		chip = values["cpu"]
	default:
		err = keyMissing("/proc/cpuinfo", "model name")
	}
	return chip, processors, virtual, err
}

// parseOSRelease reads /etc/os-release.
func parseOSRelease(text []byte) (string, error) {
	values := map[string]string{}
	lines(text, func(line string) {
		if key, value, ok := strings.Cut(line, "="); ok && len(values) < 256 {
			values[key] = strings.Trim(value, `"'`)
		}
	})
	if values["PRETTY_NAME"] != "" {
		return values["PRETTY_NAME"], nil
	}
	if values["NAME"] != "" {
		return strings.TrimSpace(values["NAME"] + " " + values["VERSION_ID"]), nil
	}
	return "", keyMissing("os-release", "PRETTY_NAME")
}

// mount is where a path lies.
type mount struct {
	point, kind, from string
	options           string
	local             *bool // nil: not said
}

// unescape undoes the octal escapes (\040) of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountinfo is one line of /proc/PID/mountinfo.
type mountinfo struct {
	mount
	root string // folder of the file system that is mounted here
}

// parseMountinfo reads /proc/self/mountinfo, in its order: a later mount on the same point hides the earlier one.
func parseMountinfo(text []byte) []mountinfo {
	var all []mountinfo
	lines(text, func(line string) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 || len(all) >= 1<<16 {
			return
		}
		options := l[5]
		if len(r) > 2 {
			options += "," + r[2]
		}
		all = append(all, mountinfo{root: unescape(l[3]),
			mount: mount{point: unescape(l[4]), kind: unescape(r[0]), from: unescape(r[1]), options: options}})
	})
	return all
}

// onMount returns the mount that the absolute path lies on: the longest mount point above it, and the last of equals.
func onMount(path string, all []mount) (mount, bool) {
	var best mount
	found := false
	for _, m := range all {
		under := path == m.point || m.point == "/" || strings.HasPrefix(path, m.point+"/")
		if under && (!found || len(m.point) >= len(best.point)) {
			best, found = m, true
		}
	}
	return best, found
}

// networkKinds are file systems whose data lies on another machine (Linux and macOS names).
var networkKinds = map[string]bool{
	"nfs": true, "nfs4": true, "cifs": true, "smb3": true, "smbfs": true, "afpfs": true, "webdav": true, "ftp": true,
	"ceph": true, "fuse.ceph": true, "lustre": true, "gpfs": true, "beegfs": true, "glusterfs": true,
	"fuse.glusterfs": true,
	"fuse.sshfs":     true, "fuse.s3fs": true, "fuse.gcsfuse": true, "fuse.rclone": true, "afs": true, "ocfs2": true,
	"gfs2":   true,
	"wekafs": true, "pvfs2": true, "orangefs": true, "fuse.juicefs": true,
}

// describe says in one line what kind of place a mount is.
func (m mount) describe() string {
	var where string
	switch {
	case networkKinds[m.kind]:
		where = "network"
	case strings.HasPrefix(m.kind, "fuse") || strings.HasPrefix(m.kind, "macfuse") ||
		strings.HasPrefix(m.kind, "osxfuse"):
		where = "user-space file system" // may be local or not: the kernel does not know (macFUSE lacks the local flag)
	case m.kind == "9p" || m.kind == "virtiofs" || m.kind == "vboxsf" || m.kind == "vmhgfs":
		where = "shared by the host of a virtual machine"
	case m.kind == "overlay":
		where = "layers of a container"
	case m.kind == "tmpfs" || m.kind == "ramfs":
		where = "memory"
	case m.kind == "autofs":
		where = "mounted on demand"
	case m.local != nil && !*m.local:
		where = "network"
	default:
		where = "local"
	}
	text := m.kind + ", " + where
	if from := anonymousSource(m.from); from != "" && from != "none" && from != m.kind {
		text += ", " + from
	}
	return text + " on " + m.point
}

// gpuReading is one line of nvidia-smi.
type gpuReading struct {
	busy, power, frequency, memory float64 // ratio, W, Hz, B; NaN: not given
}

// smiFields are asked of nvidia-smi, in this order, for gpuReading.
const smiFields = "utilization.gpu,power.draw,clocks.sm,memory.used"

// parseSMI reads `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`: per cent, W, MHz, MiB. `[N/A]` is not zero.
func parseSMI(text []byte) ([]gpuReading, error) {
	var all []gpuReading
	var err error
	lines(text, func(line string) {
		if strings.TrimSpace(line) == "" || len(all) >= 1024 {
			return
		}
		words := strings.Split(line, ",")
		if len(words) != 4 {
			err = fmt.Errorf("nvidia-smi: %q is no row of 4 columns", cut(line, 60))
			return
		}
		var v [4]float64
		for i, scale := range []float64{0.01, 1, 1e6, 1 << 20} {
			x, bad := strconv.ParseFloat(strings.TrimSpace(words[i]), 64)
			if bad != nil || math.IsInf(x, 0) || x < 0 {
				x = math.NaN()
			}
			v[i] = x * scale
		}
		all = append(all, gpuReading{v[0], v[1], v[2], v[3]})
	})
	if err == nil && len(all) == 0 {
		err = errors.New("nvidia-smi: no device")
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// gpuFigures folds the devices into one figure each: the busiest device and its clock, power and memory summed.
func gpuFigures(devices []gpuReading) []figureValue {
	busy, frequency, power, memory := math.NaN(), math.NaN(), math.NaN(), math.NaN()
	for _, d := range devices {
		if !(d.busy <= busy) && !math.IsNaN(d.busy) {
			busy, frequency = d.busy, d.frequency
		}
		power, memory = plus(power, d.power), plus(memory, d.memory)
	}
	if math.IsNaN(busy) && len(devices) == 1 {
		frequency = devices[0].frequency
	}
	return []figureValue{{"gpu.busy", "ratio", busy, "busiest of %d GPUs"}, {"gpu.power", "W", power, "sum of %d GPUs"},
		{"gpu.frequency", "Hz", frequency, "busiest of %d GPUs"}, {"gpu.memory", "B", memory, "sum of %d GPUs"}}
}

type figureValue struct {
	name, unit string
	value      float64
	note       string
}

// plus adds, where NaN is nothing.
func plus(a, b float64) float64 {
	switch {
	case math.IsNaN(b):
		return a
	case math.IsNaN(a):
		return b
	}
	return a + b
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// parseCgroups reads /proc/PID/cgroup: the path in the unified hierarchy (v2) and in the memory hierarchy (v1).
func parseCgroups(text []byte) (unified, memory string) {
	lines(text, func(line string) {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			return
		}
		if parts[0] == "0" && parts[1] == "" {
			unified = parts[2]
		}
		for c := range strings.SplitSeq(parts[1], ",") {
			if c == "memory" {
				memory = parts[2]
			}
		}
	})
	return unified, memory
}
