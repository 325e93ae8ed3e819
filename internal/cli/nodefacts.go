package cli

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/internal/evidence"
	"assay/internal/file"
	"assay/internal/host"
	"assay/internal/node"
)

// samplerWait is how long the first answer about memory is waited for: on a Mac a tool of the system gives it.
const samplerWait = 2 * time.Second

// nodeFacts says what this host is like. Its sampler is kept from one question to the next: rates need two readings.
type nodeFacts struct {
	root    string
	mu      sync.Mutex
	sampler *host.Sampler
}

func (n *nodeFacts) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sampler != nil {
		n.sampler.Close()
	}
}

func (n *nodeFacts) facts(ctx context.Context, ask node.Ask) (node.Facts, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sampler == nil {
		n.sampler = host.NewSampler(0)
	}
	facts := host.Facts(ctx, append([]string{n.root}, ask.Paths...)...)
	f := node.Facts{CPUs: runtime.NumCPU(), Clock: time.Now(), Holds: node.Holds(n.root)}
	f.Host, _ = os.Hostname()
	named := map[string]string{}
	for _, x := range facts {
		named[x.Name] = x.Value
		f.More = append(f.More, node.Fact{Name: x.Name, Value: x.Value, Source: x.Source, Missing: x.Missing})
	}
	for _, p := range ask.Paths { // for assay fleet run --needs-path
		there, at := node.Fact{Name: "path " + p, Source: "stat"}, p
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			at = filepath.Join(file.Home(os.Environ()), rest)
		}
		switch a := pathThere(p, at); {
		case a.There:
			there.Value = "there"
		case a.Error != "":
			there.Missing = a.Error
		default:
			there.Missing = "no such file or folder"
		}
		f.More = append(f.More, there)
	}
	f.Chip, f.GPU = named["chip"], named["gpu"]
	if total, ok := bytesOf(named["memory.total"]); ok {
		f.Memory = total
	}
	if memory, ok := bytesOf(named["gpu.memory"]); ok {
		f.GPUMemory = &memory
	}
	f.Device = "cpu"
	switch {
	case runtime.GOOS == "darwin" && runtime.GOARCH == "arm64":
		f.Device = "mps"
		if f.GPU == "" {
			f.GPU = f.Chip
		}
	case f.GPU != "":
		f.Device = "cuda"
	}
	switch source := strings.ToLower(named["power.source"]); {
	case strings.Contains(source, "battery"):
		f.Power = "battery"
	case source != "":
		f.Power = "mains"
	}
	if low, _, _ := strings.Cut(named["power.low_power_mode"], " "); low == "on" || low == "off" {
		on := low == "on"
		f.LowPower = &on
	}
	f.Load = valueOf(host.Load(ctx))
	if free, err := node.Free(n.root); err == nil {
		f.DiskFree = &free
	}
	n.sampled(ctx, &f)
	return f, nil
}

// levels of heat, as the host room numbers them.
var levels = []string{"nominal", "moderate", "heavy", "trapping", "sleeping"}

// sampled adds what a sampler gives.
func (n *nodeFacts) sampled(ctx context.Context, f *node.Facts) {
	for end := time.Now().Add(samplerWait); ; {
		for _, x := range n.sampler.Sample(ctx) {
			v := valueOf(x)
			switch {
			case v == nil:
			case x.Name == "host.memory.available":
				b := int64(*v)
				f.Available = &b
			case x.Name == "thermal.pressure" && *v >= 0 && int(*v) < len(levels):
				f.Thermal = levels[int(*v)]
			}
		}
		if f.Available != nil || time.Now().After(end) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func valueOf(f evidence.Figure) *float64 {
	if f.Missing != "" {
		return nil
	}
	return f.Value
}

// bytesOf reads what unit.Bytes wrote, to its three digits; a Mac's memory is exact so.
func bytesOf(s string) (int64, bool) {
	number, name, _ := strings.Cut(s, " ")
	size, known := map[string]float64{"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}[name]
	v, err := strconv.ParseFloat(number, 64)
	return int64(v * size), known && err == nil && v >= 0 && v < 1e6
}
