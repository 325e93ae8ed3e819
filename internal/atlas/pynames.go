package atlas

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"sync"
)

// Name is a public name of one of torch's modules, and the series of PyTorch that have it.
type Name struct {
	Since string // 2.7; "" where that was not read
	Until string // 2.12; "" where the newest has it
}

var moduleNames = sync.OnceValue(func() map[string]map[string]Name {
	m := map[string]map[string]Name{}
	lines := bufio.NewScanner(bytes.NewReader(text("names.txt")))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if m[f[0]] == nil {
			m[f[0]] = map[string]Name{}
		}
		n := Name{Since: strings.TrimLeft(f[1], "?"), Until: strings.TrimLeft(f[2], "-?")}
		for _, name := range f[3:] {
			if old, ok := m[f[0]][name]; !ok || old.Since == "" { // the first span; a later one holds less
				m[f[0]][name] = n
			}
		}
	}
	return m
})

// PythonName says which releases have a name of a module: torch.mps and compile_shader. Where there is none, read says
// whether the module's names were read: then no release has it.
func (a *Atlas) PythonName(module, name string) (n Name, there, read bool) {
	list, read := moduleNames()[module]
	n, there = list[name]
	return n, there, read
}

// insteadOf says what to use for names of torch that circulate and that no release has.
var insteadOf = map[string]string{
	"mps.is_metal_capture_enabled": "torch.mps.profiler.is_metal_capture_enabled()",
	"mps.metal_capture":            "torch.mps.profiler.metal_capture(name)",
	"mps.memory_allocated":         "torch.mps.current_allocated_memory()",
	"mps.max_memory_allocated": "torch.mps.current_allocated_memory(), asked at the end of each phase; assay run " +
		"keeps the peak",
	"mps.memory_reserved":         "torch.mps.driver_allocated_memory()",
	"mps.get_device_name":         "torch.backends.mps.get_name(), from 2.9 on",
	"mps.mem_get_info":            "torch.mps.recommended_max_memory() and torch.mps.driver_allocated_memory()",
	"mps.reset_peak_memory_stats": "nothing: MPS keeps no peak before 2.13",
	"mps.amp":                     "torch.amp with the device type \"mps\"",
	"mps.set_device":              "nothing: there is one device",
	"mps.current_device":          "nothing: there is one device",
	"mps.get_device_properties":   "torch.backends.mps, from 2.9 on",
	"mps.memory_summary":          "torch.mps.current_allocated_memory() and driver_allocated_memory()",
}

// Instead says what to use for a name that circulates and that no release has: torch.mps.memory_allocated; "" where
// nothing is known.
func (a *Atlas) Instead(name string) string { return insteadOf[strings.TrimPrefix(name, "torch.")] }

// Modules lists the modules, in no order, that have a name which is there from some release on.
func (a *Atlas) Modules(name string) []string {
	var list []string
	for module, has := range moduleNames() {
		if _, ok := has[name]; ok {
			list = append(list, module)
		}
	}
	return list
}

// NearName is the name of a module that is nearest to one that it does not have; "" where none is near.
func (a *Atlas) NearName(module, name string) string {
	var list []string
	for n := range moduleNames()[module] {
		list = append(list, n)
	}
	slices.Sort(list)
	if near := nearest(name, list, 1); len(near) > 0 {
		return near[0]
	}
	return ""
}
