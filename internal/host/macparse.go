package host

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// colons reads lines `key: value`, as sysctl and sw_vers print them. The first of equal keys wins.
func colons(text []byte) map[string]string {
	values := map[string]string{}
	lines(text, func(line string) {
		key, value, ok := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		if _, seen := values[key]; ok && !seen && len(values) < 1<<14 {
			values[key] = strings.TrimSpace(value)
		}
	})
	return values
}

// parseSwVers reads sw_vers: "macOS 12.5.1" and the build.
func parseSwVers(text []byte) (release, build string, err error) {
	v := colons(text)
	if v["ProductVersion"] == "" {
		return "", "", keyMissing("sw_vers", "ProductVersion")
	}
	if v["BuildVersion"] == "" {
		return "", "", keyMissing("sw_vers", "BuildVersion")
	}
	return v["ProductVersion"], v["BuildVersion"], nil
}

// parseSwap decodes the sysctl vm.swapusage: u64 total, available, used; u32 page size, encrypted (xnu,
// bsd/sys/sysctl.h).
func parseSwap(raw []byte) (used float64, err error) {
	if len(raw) != 32 {
		return 0, fmt.Errorf("vm.swapusage: %d bytes, not 32", len(raw))
	}
	total, used64 := binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[16:])
	if used64 > total {
		return 0, fmt.Errorf("vm.swapusage: %d bytes used of %d", used64, total)
	}
	return float64(used64), nil
}

// parseSwapText reads what the tool prints for it.
func parseSwapText(text []byte) (used float64, err error) {
	words := strings.Fields(string(text[:min(len(text), 4096)]))
	for i, w := range words {
		if w == "used" && i+2 < len(words) && words[i+1] == "=" {
			return parseSize(words[i+2])
		}
	}
	return 0, keyMissing("vm.swapusage", "used")
}

// parseSize reads 13263.56M, 12K, 4G, 512B: powers of 1024.
func parseSize(s string) (float64, error) {
	scale := 1.0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("BKMGT", s[n-1]); i >= 0 {
			scale, s = math.Pow(1024, float64(i)), s[:n-1]
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v < 1<<50) {
		return 0, fmt.Errorf("%q is no size", cut(s, 40))
	}
	return v * scale, nil
}

// vmStat is the output of vm_stat: counts of pages, by name.
type vmStat struct {
	page   float64 // bytes
	counts map[string]float64
}

// parseVMStat reads vm_stat: `name:` and a count that ends in a full stop. Rows of another form (Object cache) are left
// out.
func parseVMStat(text []byte) (vmStat, error) {
	v := vmStat{counts: map[string]float64{}}
	first := true
	lines(text, func(line string) {
		if first {
			first = false
			if _, rest, ok := strings.Cut(line, "page size of "); ok {
				number, _, _ := strings.Cut(rest, " ")
				v.page, _ = strconv.ParseFloat(number, 64)
			}
			return
		}
		name, count, ok := strings.Cut(line, ":")
		count, dot := strings.CutSuffix(strings.TrimSpace(count), ".")
		if n, err := strconv.ParseUint(count, 10, 64); ok && dot && err == nil && len(v.counts) < 256 {
			v.counts[strings.Trim(name, `"`)] = float64(n)
		}
	})
	if !(v.page >= 1024 && v.page <= 1<<24) {
		return v, keyMissing("vm_stat", "page size of")
	}
	return v, nil
}

// bytes is the sum of rows, in bytes.
func (v vmStat) bytes(names ...string) (float64, error) {
	var sum float64
	for _, n := range names {
		c, ok := v.counts[n]
		if !ok {
			return 0, keyMissing("vm_stat", n)
		}
		sum += c
	}
	return sum * v.page, nil
}

// available is what is not used in the sense of Activity Monitor: anonymous without purgeable, wired, and what the
// compressor occupies. The rest is free or cache of files. (Inactive pages are no free memory on these machines.)
func (v vmStat) available(total float64) (float64, error) {
	used, err := v.bytes("Anonymous pages", "Pages wired down", "Pages occupied by compressor")
	if err != nil {
		return 0, err
	}
	purgeable, err := v.bytes("Pages purgeable")
	if err != nil {
		return 0, err
	}
	return max(0, total-max(0, used-purgeable)), nil
}

// parsePmset reads the sections of pmset -g and pmset -g custom: a row is a key, which may hold blanks, and a value of
// one word, which may be followed by a remark in brackets.
func parsePmset(text []byte) map[string]map[string]string {
	sections := map[string]map[string]string{}
	section := ""
	lines(text, func(line string) {
		if line == "" || len(sections) > 64 {
			return
		}
		if line[0] != ' ' && line[0] != '\t' {
			section = strings.TrimSuffix(strings.TrimSpace(line), ":")
			return
		}
		row, _, _ := strings.Cut(line, " (")
		words := strings.Fields(row)
		if len(words) < 2 {
			return
		}
		if sections[section] == nil {
			sections[section] = map[string]string{}
		}
		if len(sections[section]) < 256 {
			sections[section][strings.Join(words[:len(words)-1], " ")] = words[len(words)-1]
		}
	})
	return sections
}

// powerMode says which mode is in force. Where High Power Mode exists for the source in use, `powermode` stands in the
// place of `lowpowermode`; where neither is printed the machine does not say.
func powerMode(pmset []byte) (mode string, low bool, err error) {
	now := parsePmset(pmset)["Currently in use"]
	if now == nil {
		return "", false, keyMissing("pmset -g", "Currently in use:")
	}
	switch v := now["powermode"]; v {
	case "0":
		return "automatic", false, nil
	case "1":
		return "low power", true, nil
	case "2":
		return "high power", false, nil
	case "":
	default:
		return "", false, fmt.Errorf("pmset -g: powermode %s is not known", cut(v, 20))
	}
	switch v := now["lowpowermode"]; v {
	case "0":
		return "automatic", false, nil
	case "1":
		return "low power", true, nil
	case "":
		return "", false, keyMissing("pmset -g", "lowpowermode")
	default:
		return "", false, fmt.Errorf("pmset -g: lowpowermode %s is not known", cut(v, 20))
	}
}

// parseBatt reads pmset -g batt: where power comes from, and the batteries ("80 %, AC attached; not charging").
func parseBatt(text []byte) (source string, batteries []string, err error) {
	lines(text, func(line string) {
		if _, rest, ok := strings.Cut(line, "Now drawing from '"); ok && source == "" {
			source, _, _ = strings.Cut(rest, "'")
			return
		}
		name, rest, ok := strings.Cut(line, "\t")
		if !ok || !strings.HasPrefix(strings.TrimSpace(name), "-") || len(batteries) >= 16 {
			return
		}
		percent, state, ok := strings.Cut(rest, "%")
		if n, bad := strconv.Atoi(strings.TrimSpace(percent)); !ok || bad != nil || n < 0 || n > 100 {
			return
		}
		// The time may be missing, and so may the line end before "present" (recorded on Big Sur).
		state, _, _ = strings.Cut(state, " present:")
		var parts []string
		for part := range strings.SplitSeq(state, ";") {
			if part = strings.TrimSpace(part); part != "" && part != "(no estimate)" &&
				!strings.HasSuffix(part, "remaining") {
				parts = append(parts, part)
			}
		}
		batteries = append(batteries, strings.TrimSpace(percent)+" %, "+strings.Join(parts, "; "))
	})
	if source == "" {
		return "", nil, keyMissing("pmset -g batt", "Now drawing from")
	}
	return source, batteries, nil
}

// adapter is what a power adapter negotiated; a 96 W brick may report 94.
type adapter struct {
	watts, volts, amperes float64
	name                  string
	wireless              bool
}

// adapterFrom takes the dictionary of IOPSCopyExternalPowerAdapterDetails; false where it describes none.
func adapterFrom(d map[string]any) (adapter, bool) {
	number := func(key string) float64 {
		switch v := d[key].(type) {
		case float64:
			return v
		case int64:
			return float64(v)
		}
		return 0
	}
	a := adapter{watts: number("Watts"), volts: number("AdapterVoltage") / 1000, amperes: number("Current") / 1000}
	a.name, _ = d["Name"].(string)
	a.wireless, _ = d["IsWireless"].(bool)
	return a, a.watts > 0 || a.volts > 0 || a.name != ""
}

func (a adapter) describe() string {
	var parts []string
	if a.watts > 0 {
		parts = append(parts, fmt.Sprintf("%g W", a.watts))
	}
	if a.volts > 0 && a.amperes > 0 {
		parts = append(parts, fmt.Sprintf("%g V × %g A", a.volts, a.amperes))
	}
	if a.wireless {
		parts = append(parts, "wireless")
	}
	if a.name != "" {
		parts = append(parts, a.name)
	}
	return strings.Join(parts, ", ")
}

// parseAC reads pmset -g ac: "94 W", or "" where no adapter is attached (PowerManagement, pmset.c).
func parseAC(text []byte) (string, error) {
	if bytes.Contains(text, []byte("No adapter attached")) {
		return "", nil
	}
	watts := ""
	lines(text, func(line string) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "Wattage" {
			watts = strings.TrimSuffix(strings.TrimSpace(value), "W")
		}
	})
	if n, err := strconv.Atoi(watts); err != nil || n < 0 || n > 1000 {
		return "", keyMissing("pmset -g ac", "Wattage")
	}
	return watts + " W", nil
}

// ioregNumber finds `"key" = 40` in the text of ioreg.
func ioregNumber(text []byte, key string) (int64, error) {
	v, err := ioregValue(text, key)
	if err != nil {
		return 0, err
	}
	digits := v[:len(v)-len(bytes.TrimLeft(v, "0123456789"))]
	// Negatives appear as 2^64−n.
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("ioreg: %q is no number", key)
	}
	return int64(n), nil
}

// ioregValue returns the text after the first `"key" =`. The key is matched whole: newer systems have both "In use
// system memory" and "In use system memory (driver)".
func ioregValue(text []byte, key string) ([]byte, error) {
	quoted := []byte(`"` + key + `"`)
	for rest := text; ; {
		i := bytes.Index(rest, quoted)
		if i < 0 {
			return nil, keyMissing("ioreg", key)
		}
		rest = rest[i+len(quoted):]
		if after := bytes.TrimLeft(rest, " "); len(after) > 0 && after[0] == '=' {
			return bytes.TrimLeft(after[1:], " "), nil
		}
	}
}

// parsePerformance reads the numbers of PerformanceStatistics from `ioreg -r -d 1 -w 0 -c IOAccelerator`.
func parsePerformance(text []byte) (map[string]int64, error) {
	v, err := ioregValue(text, "PerformanceStatistics")
	if err != nil {
		return nil, err
	}
	v, _, _ = bytes.Cut(v, []byte("\n"))
	if len(v) == 0 || v[0] != '{' {
		return nil, errors.New("ioreg: PerformanceStatistics is no dictionary")
	}
	statistics := map[string]int64{}
	depth := 0
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '{', '(':
			depth++
		case '}', ')':
			if depth--; depth == 0 {
				return statistics, nil
			}
		case '"':
			end := bytes.IndexByte(v[i+1:], '"')
			if end < 0 {
				return nil, errors.New("ioreg: PerformanceStatistics ends within a name")
			}
			name := string(v[i+1 : i+1+end])
			i += end + 1
			if depth == 1 && i+1 < len(v) && v[i+1] == '=' && len(statistics) < 256 {
				digits := v[i+2:]
				digits = digits[:len(digits)-len(bytes.TrimLeft(digits, "0123456789"))]
				if n, err := strconv.ParseUint(string(digits), 10, 64); err == nil {
					statistics[name] = int64(n)
				}
			}
		}
	}
	return nil, errors.New("ioreg: PerformanceStatistics is cut off")
}

// parseNotify reads notifyutil -g NAME, which prints `NAME 1`.
func parseNotify(text []byte, name string) (uint64, error) {
	err := keyMissing("notifyutil", name)
	var state uint64
	lines(text, func(line string) {
		words := strings.Fields(line)
		if len(words) == 2 && words[0] == name {
			if v, bad := strconv.ParseUint(words[1], 10, 64); bad == nil {
				state, err = v, nil
			}
		}
	})
	return state, err
}

// profile is what system_profiler says of the chip.
type profile struct {
	chip     string
	gpuCores int64 // 0: not said
}

// parseProfiler reads the text of system_profiler SPHardwareDataType SPDisplaysDataType. "Total Number of Cores" means
// CPU cores in the first and GPU cores below "Graphics/Displays:".
func parseProfiler(text []byte) profile {
	var p profile
	section := ""
	lines(text, func(line string) {
		if line != "" && line[0] != ' ' {
			section = strings.TrimSuffix(strings.TrimSpace(line), ":")
			return
		}
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case !ok:
		case key == "Chip" && section == "Hardware" && p.chip == "":
			p.chip = value
		case key == "Total Number of Cores" && section == "Graphics/Displays" && p.gpuCores == 0:
			p.gpuCores = max(0, atoi([]byte(value)))
		}
	})
	return p
}

// parseProfilerJSON reads the same report with -json. sppci_cores is a string; the name may be a key of a translation
// (kHW_AppleM1Item, Big Sur), so that chip_type and sppci_model are taken.
func parseProfilerJSON(text []byte) (profile, error) {
	var report struct {
		Hardware []struct {
			Chip string `json:"chip_type"`
		} `json:"SPHardwareDataType"`
		Displays []struct {
			Model string `json:"sppci_model"`
			Cores string `json:"sppci_cores"`
		} `json:"SPDisplaysDataType"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return profile{}, fmt.Errorf("system_profiler: %w", err)
	}
	var p profile
	for _, h := range report.Hardware {
		if p.chip == "" {
			p.chip = h.Chip
		}
	}
	for _, d := range report.Displays {
		if p.chip == "" && strings.HasPrefix(d.Model, "Apple ") {
			p.chip = d.Model
		}
		if p.gpuCores == 0 {
			p.gpuCores = max(0, atoi([]byte(d.Cores)))
		}
	}
	return p, nil
}

// parseMounts reads mount: `FROM on POINT (type, flag, …)`. FROM and POINT may hold blanks and brackets, so the flags
// are cut from the right. `NFS exported` is a flag of a disk that is served to others.
func parseMounts(text []byte) []mount {
	var all []mount
	lines(text, func(line string) {
		open := strings.LastIndex(line, " (")
		from, point, ok := strings.Cut(line[:max(open, 0)], " on /")
		if !ok || !strings.HasSuffix(line, ")") || len(all) >= 1<<14 {
			return
		}
		flags := strings.Split(line[open+2:len(line)-1], ", ")
		local := false
		for _, f := range flags[1:] {
			local = local || f == "local"
		}
		all = append(all, mount{point: "/" + point, from: from, kind: flags[0], options: strings.Join(flags[1:], ","),
			local: &local})
	})
	return all
}

// powermetrics is one sample of the tool of that name, which runs for root only.
type powermetrics struct {
	busy, frequency, power float64 // of the GPU: ratio, Hz, W
}

// parsePowermetrics reads the first document of powermetrics -f plist; documents are parted by NUL. The GPU's
// dictionary may name a key twice: the first is the hardware's. Its freq_hz is in MHz, whatever the name says; energy
// is in mJ, and gpu_power beside it is another figure (1.2 % apart on an Ultra).
func parsePowermetrics(text []byte) (powermetrics, error) {
	text, _, _ = bytes.Cut(bytes.TrimLeft(text, "\x00\n "), []byte{0})
	values, err := plistNumbers(text)
	if err != nil {
		return powermetrics{}, fmt.Errorf("powermetrics: %w", err)
	}
	for _, key := range []string{"elapsed_ns", "gpu/freq_hz", "gpu/idle_ratio", "gpu/gpu_energy"} {
		if _, ok := values[key]; !ok {
			return powermetrics{}, keyMissing("powermetrics", key)
		}
	}
	if values["elapsed_ns"] <= 0 {
		return powermetrics{}, errors.New("powermetrics: no time elapsed")
	}
	return powermetrics{
		busy:      min(1, max(0, 1-values["gpu/idle_ratio"])),
		frequency: values["gpu/freq_hz"] * 1e6,
		power:     values["gpu/gpu_energy"] / 1e3 / (values["elapsed_ns"] / 1e9),
	}, nil
}

// plistNumbers collects the numbers of nested dictionaries under their path; the first of equal paths wins. Arrays are
// passed over.
func plistNumbers(text []byte) (map[string]float64, error) {
	values := map[string]float64{}
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict = true
	var path []string // key that leads to each open dictionary
	key, seen := "", false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if !seen {
				return nil, errors.New("no property list")
			}
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "plist":
				seen = true
			case "dict":
				if len(path) > 16 {
					return nil, errors.New("nested too deeply")
				}
				path, key = append(path, key), ""
			case "key", "integer", "real":
				var s string
				if err := d.DecodeElement(&s, &t); err != nil {
					return nil, err
				}
				if t.Name.Local == "key" {
					key = s
					continue
				}
				name := key
				for i := len(path) - 1; i > 0; i-- {
					name = path[i] + "/" + name
				}
				v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
				if _, taken := values[name]; err == nil && !taken && !math.IsNaN(v) && !math.IsInf(v, 0) &&
					len(values) < 4096 {
					values[name] = v
				}
			default: // arrays, strings, dates, booleans
				if err := d.Skip(); err != nil {
					return nil, err
				}
			}
		case xml.EndElement:
			if t.Name.Local == "dict" && len(path) > 0 {
				path = path[:len(path)-1]
			}
		}
	}
}
