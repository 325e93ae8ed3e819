package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/audit"
	"assay/internal/evidence"
	"assay/internal/pyast"
	"assay/internal/python"
)

// settings are the calls that set an environment variable.
var settings = []string{"os.environ.__setitem__", "os.environ.setdefault", "os.putenv", "os.environ.update"}

// eachSetting calls look for each variable that a call sets: os.environ.update sets several.
func eachSetting(look func(*audit.Pass, *audit.Call)) func(*audit.Pass, *audit.Call) {
	return func(p *audit.Pass, c *audit.Call) {
		if c.Path != "os.environ.update" {
			look(p, c)
			return
		}
		one := func(name string, v *audit.Value) {
			d := *c
			d.Path, d.Args, d.Named = "os.environ.__setitem__", []*audit.Value{{Kind: audit.Str, Text: name}, v}, nil
			look(p, &d)
		}
		for _, a := range c.Args {
			if a.Kind == audit.Dict {
				for _, name := range slices.Sorted(maps.Keys(a.Attrs)) {
					one(name, a.Attrs[name])
				}
			}
		}
		for _, n := range c.Named {
			one(n.Name, n.Value)
		}
	}
}

// importsTorch reports whether torch has been imported, by itself or by a package whose import brings it.
func importsTorch(p *audit.Pass) bool {
	return slices.ContainsFunc([]string{"torch", "torchvision", "torchaudio", "pytorch_lightning", "lightning", "timm", "accelerate", "torch_geometric", "kornia", "torchmetrics", "fastai",
		"ultralytics"}, p.Imported)
}

// setting is an environment variable that a call sets.
func setting(c *audit.Call) (name, value string, ok bool) {
	if !slices.Contains(settings, c.Path) {
		return "", "", false
	}
	n, v := c.Arg(0), c.Arg(1)
	if n == nil || v == nil || n.Kind != audit.Str || n.Soft {
		return "", "", false
	}
	if v.Kind == audit.Str && !v.Soft {
		return n.Text, v.Text, true
	}
	return n.Text, "", true
}

// FallbackSwitchedOn finds the fallback to the CPU switched on in the source.
var FallbackSwitchedOn = &audit.Rule{Name: "fallback-switched-on", Title: "the fallback to the CPU is switched on in the program", Severity: audit.Warning, Doc: audit.Doc{
	Why: "With PYTORCH_ENABLE_MPS_FALLBACK=1 operators that MPS lacks run on the CPU, with one warning a process: a model that is slow for that reason looks as if it ran on the GPU.",
	Bad: "os.environ[\"PYTORCH_ENABLE_MPS_FALLBACK\"] = \"1\"\nimport torch\n", Good: "import torch   # and `PYTORCH_ENABLE_MPS_FALLBACK=1 python train.py` where it is wanted\n",
	Source: "aten/src/ATen/mps/MPSFallback.mm",
}, Names: named(settings...), Call: mpsOnly(eachSetting(func(p *audit.Pass, c *audit.Call) {
	if name, value, ok := setting(c); ok && name == "PYTORCH_ENABLE_MPS_FALLBACK" && value != "0" && value != "" && !importsTorch(p) {
		p.Report(c.At, audit.Finding{Sure: true, Text: "operators that MPS lacks run on the CPU without a word but the first", Hint: "leave it to whoever starts the program; `assay run` lists what falls back"})
	}
}))}

// SetTooLate finds variables that are read while torch is imported and set afterwards.
var SetTooLate = &audit.Rule{Name: "variable-set-too-late", Title: "an environment variable is set after it was read", Severity: audit.Error, Doc: audit.Doc{
	Why: "PyTorch reads PYTORCH_ENABLE_MPS_FALLBACK once, while it is imported; the watermarks when the first tensor is made on MPS. What is set later does nothing.",
	Bad: "import torch\nos.environ[\"PYTORCH_ENABLE_MPS_FALLBACK\"] = \"1\"\n", Good: "os.environ[\"PYTORCH_ENABLE_MPS_FALLBACK\"] = \"1\"\nimport torch\n",
	Source: "aten/src/ATen/mps/MPSFallback.mm: a static initialiser",
}, Names: named(settings...), Call: eachSetting(func(p *audit.Pass, c *audit.Call) {
	name, _, ok := setting(c)
	if !ok || !importsTorch(p) {
		return
	}
	if name == "PYTORCH_ENABLE_MPS_FALLBACK" && p.Target.Device == "mps" {
		p.Report(c.At, audit.Finding{Sure: true, Text: name + " is set after torch was imported, which has read it: it does nothing", Hint: "set it before the first import of torch, or outside the program"})
	}
})}

// Watermark finds values that PyTorch refuses or misreads.
var Watermark = &audit.Rule{Name: "variable-value", Title: "an environment variable has a value that does not do what it says", Severity: audit.Error, Doc: audit.Doc{
	Why: "PyTorch reads its variables strictly: a watermark ratio beyond 2, or a low one above the high one, raises when the first tensor is made on MPS; a fallback flag " +
		"that is no number breaks the import; 0 as the high watermark removes the limit, and the system may run out of memory.",
	Bad: "os.environ[\"PYTORCH_MPS_HIGH_WATERMARK_RATIO\"] = \"2.5\"\n", Good: "os.environ[\"PYTORCH_MPS_HIGH_WATERMARK_RATIO\"] = \"1.5\"\n",
	Source: "aten/src/ATen/mps/MPSAllocator.mm; the same table as `assay doctor`",
}, Names: either(named(settings...), named("torch.mps.set_per_process_memory_fraction")), Call: eachSetting(func(p *audit.Pass, c *audit.Call) {
	switch c.Path {
	case "torch.mps.set_per_process_memory_fraction":
		if n, ok := number(c.Arg(0, "fraction")); ok && (n < 0 || n > 2) {
			p.Report(c.At, audit.Finding{Sure: true, Text: "the fraction must be 0 to 2: ValueError", Source: "torch/mps/__init__.py"})
		} else if ok && c.Arg(0, "fraction").Type == "int" {
			p.Report(c.At, audit.Finding{Sure: true, Text: "the fraction must be a float: TypeError for an int", Hint: "write 1.0 for 1", Source: "torch/mps/__init__.py"})
		}
		return
	}
	name, value, ok := setting(c)
	if !ok || value == "" || p.Target.Device == "cuda" {
		return
	}
	set := audit.Note(p, func() *[]string { return new([]string) })
	before := map[string]bool{} // what was wrong already
	if strings.Contains(name, "WATERMARK") {
		for _, f := range python.CheckEnviron(*set, p.Target.Torch.Version, "darwin") {
			before[f.Text] = true
		}
	}
	*set = append(slices.DeleteFunc(*set, func(s string) bool { return strings.HasPrefix(s, name+"=") }), name+"="+value)
	environ := []string{name + "=" + value}
	if strings.Contains(name, "WATERMARK") {
		environ = *set
	}
	for _, f := range python.CheckEnviron(environ, p.Target.Torch.Version, "darwin") {
		if f.Severity == evidence.Note || f.Name == "env-unread" || f.Name == "env-no-effect" || before[f.Text] || strings.HasSuffix(name, "_THREADS") || !strings.Contains(f.Text, name) && !(strings.Contains(name, "WATERMARK") && strings.Contains(f.Text, "WATERMARK")) || strings.Contains(name, "FALLBACK") && value == "1" {
			continue
		}
		severity := audit.Warning
		if f.Severity == evidence.Error {
			severity = audit.Error
		}
		p.Report(c.At, audit.Finding{Sure: true, Severity: severity, Text: f.Text, Hint: f.Hint, Source: "the table of `assay doctor`"})
	}
})}

// UnknownVariable finds variables that nothing reads.
var UnknownVariable = &audit.Rule{Name: "unread-variable", Title: "an environment variable that nothing reads", Severity: audit.Warning, Doc: audit.Doc{
	Why: "Variables such as PYTORCH_MPS_LOG_LEVEL circulate; no release of PyTorch from 2.0 on reads them.",
	Bad: "os.environ[\"PYTORCH_MPS_LOG_LEVEL\"] = \"2\"\n", Good: "os.environ[\"PYTORCH_MPS_LOG_PROFILE_INFO\"] = \"4\"\n",
	Source: "text constants of the macOS binaries of every release since 2.0",
}, Names: named(settings...), Call: eachSetting(func(p *audit.Pass, c *audit.Call) {
	name, value, ok := setting(c)
	if !ok || !strings.HasPrefix(name, "PYTORCH_") {
		return
	}
	if value == "" {
		value = "1"
	}
	for _, f := range python.CheckEnviron([]string{name + "=" + value}, p.Target.Torch.Version, "darwin") {
		if f.Name == "env-unread" || strings.Contains(f.Name, "unknown") || strings.Contains(f.Name, "stranger") {
			p.Report(c.At, audit.Finding{Sure: f.Name == "env-unread", Text: f.Text, Hint: f.Hint})
		}
	}
})}

// mpsNames are the public names of torch.mps and torch.backends.mps and the release that brought them; read from the releases' Python files.
var mpsNames = func() map[string]string {
	m := map[string]string{}
	for since, names := range map[string]string{
		"2.0": `mps.get_rng_state mps.set_rng_state mps.manual_seed mps.seed mps.synchronize mps.empty_cache mps.set_per_process_memory_fraction
			mps.current_allocated_memory mps.driver_allocated_memory backends.mps.is_built backends.mps.is_available backends.mps.is_macos13_or_newer`,
		"2.1":  `mps.profiler mps.profiler.start mps.profiler.stop mps.profiler.profile mps.event mps.Event mps.event.Event`,
		"2.3":  `backends.mps.is_macos_or_newer`,
		"2.4":  `mps.device_count`,
		"2.5":  `mps.recommended_max_memory mps.is_available`,
		"2.7":  `mps.compile_shader mps.profiler.is_capturing_metal mps.profiler.is_metal_capture_enabled mps.profiler.metal_capture`,
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
	"mps.max_memory_allocated":     "torch.mps.current_allocated_memory(), asked at the end of each phase; assay run keeps the peak",
	"mps.memory_reserved":          "torch.mps.driver_allocated_memory()",
	"mps.get_device_name":          "torch.backends.mps.get_name(), from 2.9 on",
	"mps.mem_get_info":             "torch.mps.recommended_max_memory() and torch.mps.driver_allocated_memory()",
	"mps.reset_peak_memory_stats":  "nothing: MPS keeps no peak before 2.13",
	"mps.amp":                      "torch.amp with the device type \"mps\"",
	"mps.set_device":               "nothing: there is one device",
	"mps.current_device":           "nothing: there is one device",
	"mps.get_device_properties":    "torch.backends.mps, from 2.9 on",
	"mps.memory_summary":           "torch.mps.current_allocated_memory() and driver_allocated_memory()",
}

// UnknownAPI finds names of torch.mps that do not exist in the release aimed at.
var UnknownAPI = &audit.Rule{Name: "unknown-mps-api", Title: "a name of torch.mps that does not exist", Severity: audit.Error, Doc: audit.Doc{
	Why: "The name was invented after the pattern of torch.cuda, or came with a later release: AttributeError.",
	Bad: "used = torch.mps.memory_allocated()\n", Good: "used = torch.mps.current_allocated_memory()\n",
	Source: "torch/mps and torch/backends/mps in the wheels of every release since 2.0",
}, Names: either(under("torch.mps.", "torch.backends.mps.", "import torch.mps.", "import torch.backends.mps."), named("torch.autocast", "torch.amp.autocast")), Call: func(p *audit.Pass, c *audit.Call) {
	if (c.Path == "torch.autocast" || c.Path == "torch.amp.autocast") && !p.Target.Since("2.5") {
		if d := c.Arg(0, "device_type"); d != nil && d.Kind == audit.Str && d.Text == "mps" {
			p.Report(c.At, audit.Finding{Sure: !d.Soft, Text: fmt.Sprintf("autocast knows \"mps\" from torch 2.5 on: RuntimeError in %s", p.Target.Torch.Version), Hint: "cast model and inputs by hand, or train in float32",
				Source: "torch/amp/autocast_mode.py of the releases"})
		}
		return
	}
	name, ok := strings.CutPrefix(strings.TrimPrefix(c.Path, "import "), "torch.")
	if !ok || !strings.HasPrefix(name, "mps.") && !strings.HasPrefix(name, "backends.mps.") || strings.Contains(name, "._") || strings.HasSuffix(name, "__set__") {
		return
	}
	if p.Under(func(test pyast.Expr) bool { return strings.Contains(p.Text(test), "hasattr") }) {
		return
	}
	since, known := mpsNames[name]
	// getattr(torch, kind).stream() is reached where the kind has streams
	sure := !p.Caught() && (c.Node == nil || strings.Contains(p.Text(c.Node.Func), "mps"))
	switch {
	case known && !p.Target.Since(since):
		p.Report(c.At, audit.Finding{Sure: sure, Text: fmt.Sprintf("torch.%s came with torch %s: AttributeError in %s", name, since, p.Target.Torch.Version)})
	case !known && parentKnown(name):
		f := audit.Finding{Sure: sure, Text: fmt.Sprintf("torch.%s does not exist: AttributeError", name)}
		if instead := insteadOf[name]; instead != "" {
			f.Hint = "use " + instead
		}
		p.Report(c.At, f)
	}
}}

// parentKnown reports that the part before the last dot is a module, not an object that was made: torch.mps.Event().record is none of ours.
func parentKnown(name string) bool {
	switch name[:strings.LastIndexByte(name, '.')] {
	case "mps", "backends.mps", "mps.profiler", "mps.event":
		return true
	}
	return false
}

// CompileBackend finds torch.compile with a backend that does not exist.
var CompileBackend = &audit.Rule{Name: "compile-backend", Title: "torch.compile with a backend that does not exist", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
	Why: "There is no torch.compile backend called \"mps\": it raises InvalidBackend at the first call. Inductor generates Metal code itself, as a prototype, from torch 2.7 on.",
	Bad: "model = torch.compile(model, backend=\"mps\")\n", Good: "model = torch.compile(model)\n", Source: "torch/_dynamo/backends/registry.py of the releases",
}, Names: named("torch.compile", "torch.nn.Module.compile"), Call: func(p *audit.Pass, c *audit.Call) {
	if c.Path != "torch.compile" && c.Path != "torch.nn.Module.compile" {
		return
	}
	v := c.Arg(-1, "backend")
	if v == nil || v.Kind != audit.Str || v.Text != "mps" && v.Text != "metal" {
		return
	}
	f := audit.Finding{Sure: !v.Soft, Text: fmt.Sprintf("there is no backend %q: InvalidBackend at the first call", v.Text), Hint: "leave it out; \"aot_eager\" runs everywhere"}
	if k := keyword(c, "backend"); k != nil {
		if edit, ok := removeKeyword(p, c.Node, k); ok {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "leave the backend out", Edits: []audit.Edit{edit}}
		}
	}
	p.Report(c.At, f)
}}

// StateDictMoved finds .to() on a dictionary of weights.
var StateDictMoved = &audit.Rule{Name: "state-dict-moved", Title: ".to() of a state dict, which has none", Severity: audit.Error, Doc: audit.Doc{
	Why: "state_dict() gives a dictionary, and torch.load of one as well: AttributeError. The module is what moves, or map_location says where weights go.",
	Bad: "weights = model.state_dict().to(\"mps\")\n", Good: "model.to(\"mps\")\n",
}, Names: under("state_dict."), Call: func(p *audit.Pass, c *audit.Call) {
	if n := last(c.Path); strings.HasPrefix(c.Path, "state_dict.") && (n == "to" || n == "cuda" || n == "half" || n == "float") {
		sure := c.Self != nil && c.Self.Path == "state_dict"
		f := audit.Finding{Sure: sure, Text: "a state dict has no ." + n + "(): AttributeError", Hint: "move the module, or load with map_location"}
		if !sure {
			f.Severity = audit.Notice
			f.Text = "if the file holds a state dict, it has no ." + n + "(): AttributeError"
		}
		p.Report(c.At, f)
	}
}}
