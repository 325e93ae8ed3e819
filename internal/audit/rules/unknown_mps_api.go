package rules

import (
	"fmt"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// mpsNames are the public names of torch.mps and torch.backends.mps and the release that brought them; read from the
// releases' Python files.
var mpsNames = func() map[string]string {
	m := map[string]string{}
	for since, names := range map[string]string{
		"2.0": `mps.get_rng_state mps.set_rng_state mps.manual_seed mps.seed mps.synchronize mps.empty_cache
			mps.set_per_process_memory_fraction mps.current_allocated_memory mps.driver_allocated_memory
			backends.mps.is_built backends.mps.is_available backends.mps.is_macos13_or_newer`,
		"2.1": `mps.profiler mps.profiler.start mps.profiler.stop mps.profiler.profile mps.event mps.Event mps.event.Event`,
		"2.3": `backends.mps.is_macos_or_newer`,
		"2.4": `mps.device_count`,
		"2.5": `mps.recommended_max_memory mps.is_available`,
		"2.7": `mps.compile_shader mps.profiler.is_capturing_metal mps.profiler.is_metal_capture_enabled
			mps.profiler.metal_capture`,
		"2.9":  `backends.mps.get_name backends.mps.get_core_count`,
		"2.13": `mps.load_metallib`,
		"2.15": `mps.Stream mps.stream mps.current_stream mps.default_stream mps.set_stream`,
	} {
		for _, n := range strings.Fields(names) {
			m[n] = since
		}
	}
	return m
}()

// insteadOf says what to use for names that circulate.
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

// UnknownAPI finds names of torch.mps that do not exist in the release aimed at.
var UnknownAPI = &audit.Rule{Name: "unknown-mps-api", Title: "a name of torch.mps that does not exist",
	Claims: []string{"8"}, Severity: audit.Error, Doc: audit.Doc{
		Why: "The name was invented after the pattern of torch.cuda, or came with a later release: AttributeError.",
		Bad: "used = torch.mps.memory_allocated()\n", Good: "used = torch.mps.current_allocated_memory()\n",
		Source: "torch/mps and torch/backends/mps in the wheels of every release since 2.0",
	}, Calls: []audit.Ask{
		on(both(under("torch.mps.", "torch.backends.mps.", "import torch.mps.", "import torch.backends.mps."), public),
			unknownName),
		on(named("torch.autocast", "torch.amp.autocast"), func(p *audit.Pass, c *abstract.Call) {
			if d := c.Arg(0, "device_type"); !p.Target.Since("2.5") && d != nil && d.Kind == abstract.Str &&
				d.Text == "mps" {
				p.Report(c.At, audit.Finding{Sure: !d.Soft,
					Text: fmt.Sprintf("autocast knows \"mps\" from torch 2.5 on: RuntimeError in %s",
						p.Target.Torch.Version),
					Hint:   "cast model and inputs by hand, or train in float32",
					Source: "torch/amp/autocast_mode.py of the releases"})
			}
		}),
	}}

// public reports a name that no part of makes private.
func public(path string) bool { return !strings.Contains(path, "._") }

func unknownName(p *audit.Pass, c *abstract.Call) {
	name := strings.TrimPrefix(strings.TrimPrefix(c.Path, "import "), "torch.")
	if p.Under(func(test pyast.Expr) bool { return strings.Contains(p.Text(test), "hasattr") }) {
		return
	}
	since, known := mpsNames[name]
	// getattr(torch, kind).stream() is reached where the kind has streams
	sure := !p.Caught() && (c.Node == nil || strings.Contains(p.Text(c.Node.Func), "mps"))
	switch {
	case known && !p.Target.Since(since):
		p.Report(c.At, audit.Finding{Sure: sure, Text: fmt.Sprintf("torch.%s came with torch %s: AttributeError in %s",
			name, since, p.Target.Torch.Version)})
	case !known && parentKnown(name):
		f := audit.Finding{Sure: sure, Text: fmt.Sprintf("torch.%s does not exist: AttributeError", name)}
		if instead := insteadOf[name]; instead != "" {
			f.Hint = "use " + instead
		}
		p.Report(c.At, f)
	}
}

// parentKnown reports that the part before the last dot is a module, not an object that was made:
// torch.mps.Event().record is none of ours.
func parentKnown(name string) bool {
	switch name[:strings.LastIndexByte(name, '.')] {
	case "mps", "backends.mps", "mps.profiler", "mps.event":
		return true
	}
	return false
}
