package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/atlas"
	"assay/internal/audit"
	"assay/internal/pyast"
)

const noCUDAText = "PyTorch for macOS is built without CUDA"

// CUDACall finds x.cuda().
var CUDACall = &audit.Rule{Name: "cuda-call", Title: ".cuda() on a machine without CUDA", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
	Why:    "`.cuda()` raises AssertionError (\"Torch not compiled with CUDA enabled\") on a Mac. `.to(device)` goes wherever the program was told to run.",
	Bad:    "model = Net().cuda()\n",
	Good:   "device = torch.device(\"mps\" if torch.backends.mps.is_available() else \"cpu\")\nmodel = Net().to(device)\n",
	Source: "torch/cuda/__init__.py, _lazy_init",
}, Names: ending("cuda"), Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	if last(c.Path) != "cuda" || c.Node == nil || p.Func() != nil && p.Func().Name == "cuda" { // a module's own .cuda() that passes it on
		return
	}
	attr, ok := c.Node.Func.(*pyast.Attribute)
	if !ok {
		if by, ok := c.Node.Func.(*pyast.Call); ok && p.Text(by.Func) == "getattr" && (c.Path == "torch.Tensor.cuda" || c.Path == "torch.nn.Module.cuda") { // getattr(model, "cuda")()
			p.Report(c.At, audit.Finding{Sure: true, Text: ".cuda() fails: " + noCUDAText, Hint: "write .to(device), with a device that the program chooses once", Source: "torch/cuda/__init__.py"})
		}
		return
	}
	sure := true
	switch c.Path {
	case "torch.Tensor.cuda", "torch.nn.Module.cuda":
	case "?.cuda":
		sure = c.Self != nil && c.Self.Kind == audit.Unknown && torchFile(p)
		if !torchFile(p) {
			return
		}
	case "torch.nn.Module.__call__":
		return
	default:
		return
	}
	if p.Within(attr, func(f *audit.Func) bool { return f.Name == "cuda" }) { // lambda x: x.cuda(device), passed on
		return
	}
	receiver := p.Text(attr.Value)
	if p.Under(func(test pyast.Expr) bool { // another library's class may have a .cuda() of its own
		is, ok := test.(*pyast.Call)
		if !ok || len(is.Args) != 2 || p.Text(is.Func) != "isinstance" || p.Text(is.Args[0]) != receiver {
			return false
		}
		class := p.Value(is.Args[1])
		return class.Kind != audit.API || !strings.HasPrefix(class.Path, "torch.")
	}) {
		sure = false
	}
	f := audit.Finding{Sure: sure, Text: ".cuda() fails: " + noCUDAText, Hint: "write .to(device), with a device that the program chooses once", Source: "torch/cuda/__init__.py"}
	f.From, f.To = int(attr.At)-1, c.Node.End()
	if name := deviceName(p); name != "" {
		rest := ""
		for _, k := range c.Node.Keywords {
			if k.Arg == "non_blocking" {
				rest = ", " + p.Text(k)
			}
		}
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write .to(" + name + ")", Edits: []audit.Edit{{From: int(attr.At), To: c.Node.End(), Text: "to(" + name + rest + ")"}}}
	}
	p.Report(c.At, f)
})}

func torchFile(p *audit.Pass) bool { return p.Imported("torch") }

// CUDADevice finds devices named "cuda" that the machine does not have.
var CUDADevice = &audit.Rule{Name: "hard-coded-cuda-device", Title: "a device that is always CUDA", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
	Why:    "A tensor or module that is sent to \"cuda\" raises AssertionError on a Mac. A default on the command line that says \"cuda\" must be given otherwise there each time.",
	Bad:    "x = torch.zeros(3, device=\"cuda\")\n",
	Good:   "device = torch.device(\"mps\" if torch.backends.mps.is_available() else \"cpu\")\nx = torch.zeros(3, device=device)\n",
	Source: "torch/cuda/__init__.py, _lazy_init",
}, Names: either(named("argparse.ArgumentParser.add_argument"), ending("to", "to_empty"), under("torch.")), Call: noCUDA(runCUDADevice)}

func runCUDADevice(p *audit.Pass, c *audit.Call) {
	var v *audit.Value
	var node pyast.Expr
	name := last(c.Path)
	switch {
	case c.Path == "argparse.ArgumentParser.add_argument":
		if v = c.Arg(-1, "default"); v == nil || v.Kind != audit.Str || !strings.HasPrefix(v.Text, "cuda") || !deviceText(v.Text) {
			return
		}
		p.Report(c.ArgNode(-1, "default"), audit.Finding{Severity: audit.Notice, Sure: true, Text: "the default device is " + v.Text + ", which a Mac does not have",
			Hint: "choose the default by what is available: \"cuda\" if torch.cuda.is_available() else \"mps\" if torch.backends.mps.is_available() else \"cpu\""})
		return
	case c.Path == "torch.device":
		return // where it is used is what fails
	case name == "to" || name == "to_empty":
		if c.Path != "torch.Tensor.to" && c.Path != "torch.nn.Module.to" && c.Path != "?.to" {
			return
		}
		v, node = c.Arg(0, "device"), c.ArgNode(0, "device")
		if v == nil || c.Path == "?.to" && v.Kind == audit.Str && !deviceText(v.Text) {
			return
		}
	case c.Path == "torch.load":
		if v, node = c.Arg(1, "map_location"), c.ArgNode(1, "map_location"); v == nil {
			return
		}
	case c.Path == "torch.set_default_device":
		v, node = c.Arg(0, "device"), c.ArgNode(0, "device")
	case strings.HasPrefix(c.Path, "torch.cuda."): // raises or not whatever its argument: cuda-function
		return
	case strings.HasPrefix(c.Path, "torch."):
		v, node = c.Arg(-1, "device"), c.ArgNode(-1, "device")
	}
	if v == nil || node == nil || v.Kind != audit.Str && v.Kind != audit.Device {
		return
	}
	if v.Kind == audit.Str && !deviceText(v.Text) || !onCUDA(v) || v.Path == audit.Follows {
		return
	}
	sure := !v.Soft
	if !p.AtHome() && !strings.Contains(p.Text(node), "cuda") { // the device comes from the file that calls this one: a test, say
		sure = false
	}
	f := audit.Finding{Sure: sure, Text: "this is sent to CUDA, which fails: " + noCUDAText, Hint: "take the device from one place that chooses it by what is available"}
	switch {
	case v.Soft:
		f.Text = "this is sent to CUDA unless the program is told otherwise: " + noCUDAText
		f.Severity = audit.Warning
	case !sure:
		f.Text = "this is sent to CUDA where " + p.Main.Src.Path + " calls it: " + noCUDAText
	}
	if c, literal := node.(*pyast.Constant); literal && c.IsString() {
		if name := deviceName(p); name != "" {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write " + name, Edits: []audit.Edit{replace(node, name)}}
		}
	}
	p.Report(node, f)
}

func deviceText(s string) bool {
	kind, _, _ := strings.Cut(s, ":")
	return kind == "cuda" || kind == "cpu" || kind == "mps"
}

func onCUDA(v *audit.Value) bool {
	if v.Kind == audit.Str {
		return strings.HasPrefix(v.Text, "cuda")
	}
	return v.Where == audit.OnCUDA
}

// CUDAFunction finds functions of torch.cuda that raise where there is no CUDA. Those that answer all the same (is_available, device_count,
// empty_cache, memory_allocated, manual_seed…) are left alone: tried with PyTorch 2.3.1 and 2.8.0 without a GPU.
var CUDAFunction = &audit.Rule{Name: "cuda-function", Title: "a function of torch.cuda that fails without CUDA", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
	Why: "The function needs a CUDA device and raises without one: AssertionError (\"Torch not compiled with CUDA enabled\"), or AttributeError where PyTorch was built " +
		"without CUDA. Others of torch.cuda (empty_cache, memory_allocated, manual_seed_all, is_available) do nothing or answer 0, and are not found.",
	Bad:    "torch.cuda.synchronize()\n",
	Good:   "if device.type == \"mps\":\n    torch.mps.synchronize()\n",
	Source: "torch/cuda/__init__.py and torch/cuda/memory.py; tried with 2.3.1 and 2.8.0",
}, Names: under("torch.cuda."), Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	rest, ok := strings.CutPrefix(c.Path, "torch.cuda.")
	if !ok || c.Node == nil || !raising[rest] && !(rest == "is_bf16_supported" && !p.Target.Since("2.4")) {
		return
	}
	if d := c.Arg(0, "device"); rest == "device" && (d == nil || d.Kind != audit.Number && d.Kind != audit.Str || d.Soft) { // None, or less than 0, does nothing
		return
	}
	f := audit.Finding{Sure: true, Text: "torch.cuda." + rest + "() fails: " + noCUDAText, Source: "torch/cuda/__init__.py"}
	switch {
	case neutral[rest] != "" && p.Target.Since("2.9"):
		f.Hint = neutral[rest] + " works on every device"
	case rest == "synchronize":
		f.Hint = "torch.mps.synchronize() waits for the GPU of a Mac"
		if p.Target.Device == "mps" {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write torch.mps.synchronize()", Edits: []audit.Edit{replace(c.Node, "torch.mps.synchronize()")}}
		}
	case strings.Contains(rest, "memory") || rest == "mem_get_info":
		f.Hint = "torch.mps.current_allocated_memory() and torch.mps.driver_allocated_memory() tell the memory of MPS; a peak is measured by assay run"
	default:
		f.Hint = "ask torch.cuda.is_available() first"
	}
	p.Report(c.At, f)
})}

var neutral = map[string]string{"synchronize": "torch.accelerator.synchronize()", "current_device": "torch.accelerator.current_device_index()"}

var raising = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(`synchronize reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats memory_summary
		mem_get_info get_device_name get_device_properties get_device_capability set_device current_device initial_seed get_rng_state set_rng_state init ipc_collect
		Stream current_stream default_stream Event FloatTensor LongTensor HalfTensor DoubleTensor IntTensor ByteTensor BoolTensor BFloat16Tensor utilization
		device set_per_process_memory_fraction can_device_access_peer CUDAGraph graph temperature power_draw nvtx.range_push nvtx.range_pop nvtx.mark`) {
		m[n] = true
	}
	return m
}()

// CUDAAmp finds mixed precision of the CUDA kind.
var CUDAAmp = &audit.Rule{Name: "cuda-amp", Title: "mixed precision for CUDA alone", Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
	Why: "torch.cuda.amp.autocast and GradScaler warn and switch themselves off without CUDA: nothing is cast or scaled on MPS. torch.amp takes the device; " +
		"autocast knows \"mps\" from PyTorch 2.5 on, GradScaler from 2.3 on as torch.amp.GradScaler.",
	Bad:    "with torch.cuda.amp.autocast():\n    loss = model(x)\n",
	Good:   "with torch.amp.autocast(device.type):\n    loss = model(x)\n",
	Source: "torch/cuda/amp and torch/amp/autocast_mode.py of the releases",
}, Names: either(under("torch.cuda.amp.", "torch.amp."), named("torch.autocast")), Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	rest, ok := strings.CutPrefix(c.Path, "torch.cuda.amp.")
	if !ok && c.Path != "torch.autocast" && !strings.HasPrefix(c.Path, "torch.amp.") {
		return
	}
	without := "nothing is cast to half precision"
	if last(c.Path) == "GradScaler" {
		without = "losses are not scaled"
	}
	known := p.Target.Since("2.5") || last(c.Path) == "GradScaler" && p.Target.Since("2.3")
	tooOld := "autocast knows \"mps\" from torch 2.5 on: before it, cast model and inputs by hand, or train in float32"
	if c.Path == "torch.autocast" || c.Path == "torch.amp.autocast" || c.Path == "torch.amp.GradScaler" {
		if e := c.Arg(-1, "enabled"); e != nil && e.Kind == audit.Bool && !e.Yes && !e.Soft {
			return
		}
		if d := c.Arg(0, "device_type", "device"); d != nil && d.Kind == audit.Str && d.Text == "cuda" && !d.Soft {
			f := audit.Finding{Sure: true, Text: last(c.Path) + "(\"cuda\") switches itself off without CUDA: " + without, Hint: "give it the device's own type: device.type"}
			if !known {
				f.Hint = tooOld
			}
			if name := deviceName(p); name != "" && known {
				f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write " + name + ".type", Edits: []audit.Edit{replace(c.ArgNode(0, "device_type", "device"), name+".type")}}
			}
			p.Report(c.At, f)
		}
		return
	}
	if !ok || c.Node == nil || rest != "autocast" && rest != "GradScaler" {
		return
	}
	if e := c.Arg(0, "enabled"); e != nil && e.Kind == audit.Bool && !e.Yes && !e.Soft {
		return
	}
	f := audit.Finding{Sure: true, Text: "torch.cuda.amp." + rest + " switches itself off without CUDA: " + without, Hint: "write torch.amp." + rest + " with the device's type"}
	if !known {
		f.Hint = tooOld
	}
	if name := deviceName(p); name != "" && p.Target.Since("2.5") && len(c.Node.Args) == 0 && strings.HasPrefix(p.Text(c.Node.Func), "torch.") {
		arguments := name + ".type"
		for _, k := range c.Node.Keywords {
			arguments += ", " + p.Text(k)
		}
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: fmt.Sprintf("write torch.amp.%s(%s.type)", rest, name), Edits: []audit.Edit{replace(c.Node, "torch.amp."+rest+"("+arguments+")")}}
	}
	p.Report(c.At, f)
})}

// CUDATensorType finds torch.cuda.FloatTensor as a type.
var CUDATensorType = &audit.Rule{Name: "cuda-tensor-type", Title: "a tensor type of CUDA", Severity: audit.Error, Doc: audit.Doc{
	Why:    "torch.cuda.FloatTensor and its kind name CUDA's tensors; as a default type, or in .type(), they raise without CUDA.",
	Bad:    "torch.set_default_tensor_type(\"torch.cuda.FloatTensor\")\n",
	Good:   "torch.set_default_device(device)\n",
	Source: "torch/__init__.py, set_default_tensor_type",
}, Names: named("torch.set_default_tensor_type", "torch.Tensor.type", "?.type"), Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	if c.Path != "torch.set_default_tensor_type" && c.Path != "torch.Tensor.type" && c.Path != "?.type" {
		return
	}
	v := c.Arg(0, "dtype", "t")
	if v == nil || v.Soft {
		return
	}
	if v.Kind == audit.Str && strings.HasPrefix(v.Text, "torch.cuda.") && strings.HasSuffix(v.Text, "Tensor") ||
		v.Kind == audit.API && strings.HasPrefix(v.Path, "torch.cuda.") && strings.HasSuffix(v.Path, "Tensor") {
		p.Report(c.At, audit.Finding{Sure: true, Text: "a tensor type of CUDA: " + noCUDAText, Hint: "say device and dtype apart: torch.set_default_device(device), .to(device, dtype)"})
	}
})}

// packages that exist for CUDA alone, and what a Mac has instead. MLX and MPS have what the last column says.
var cudaPackages = map[string]string{
	"flash_attn":            "torch.nn.functional.scaled_dot_product_attention",
	"apex":                  "torch.amp and torch.optim",
	"tensorrt":              "Core ML (coremltools)",
	"torch_tensorrt":        "Core ML (coremltools)",
	"cupy":                  "numpy, or torch tensors on MPS",
	"pycuda":                "",
	"pynvml":                "assay run, which samples the GPU of a Mac",
	"nvidia_smi":            "assay run, which samples the GPU of a Mac",
	"nvidia":                "",
	"triton":                "torch.compile, or kernels in Metal",
	"numba.cuda":            "",
	"cudf":                  "pandas",
	"cuml":                  "scikit-learn",
	"cugraph":               "networkx",
	"vllm":                  "mlx-lm",
	"auto_gptq":             "mlx-lm's quantization",
	"transformer_engine":    "",
	"fused_dense_lib":       "",
	"mamba_ssm":             "",
	"causal_conv1d":         "",
	"MinkowskiEngine":       "",
	"spconv":                "",
	"torch_tensorrt.dynamo": "",
}

// cudaKernels are functions and classes of packages that can be imported on a Mac, and what of them has kernels for other devices alone.
// bitsandbytes: backends/*/ops.py of 0.50.2, where optimizer_update_8bit_blockwise is registered for cuda and xpu; functional.get_paged is CUDA's
// managed memory. xformers: device_types in ops/fmha of 0.0.35.
func cudaKernels(path string) (what, instead string) {
	rest, name := "", last(path)
	switch {
	case strings.HasPrefix(path, "bitsandbytes.optim."):
		rest = strings.TrimPrefix(path, "bitsandbytes.optim.")
		if strings.Contains(rest, ".") && lower(name) {
			return "", ""
		}
		if strings.HasSuffix(name, "8bit") {
			return "8-bit optimizers of bitsandbytes have kernels for CUDA and XPU alone: the first step fails", "torch.optim"
		}
		if strings.HasPrefix(name, "Paged") {
			return "paged optimizers of bitsandbytes take CUDA's managed memory", "torch.optim"
		}
	case path == "xformers.ops.memory_efficient_attention":
		return "memory_efficient_attention of xformers has no kernel for MPS: NotImplementedError", "torch.nn.functional.scaled_dot_product_attention"
	}
	return "", ""
}

func lower(name string) bool { return name != "" && name[0] >= 'a' && name[0] <= 'z' }

// CUDAPackage finds imports of packages that need CUDA.
var CUDAPackage = &audit.Rule{Name: "cuda-package", Title: "a package that needs CUDA", Severity: audit.Error, Doc: audit.Doc{
	Why:    "The package has no build for macOS, or none that uses its GPU: the import fails on a Mac. An import in a `try` with `except ImportError` is fine.",
	Bad:    "from flash_attn import flash_attn_func\n",
	Good:   "import torch.nn.functional as F\nout = F.scaled_dot_product_attention(q, k, v)\n",
	Source: "the packages' own pages: Linux or Windows with NVIDIA GPUs",
}, Names: under("import ", "torch.utils.cpp_extension.", "bitsandbytes.", "xformers."), Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	name, ok := strings.CutPrefix(c.Path, "import ")
	if !ok {
		if what, instead := cudaKernels(c.Path); what != "" && c.Node != nil {
			p.Report(c.At, audit.Finding{Sure: !p.Maybe() && p.FromTop(), Text: what, Hint: "a Mac has " + instead, Source: "the packages' sources"})
			return
		}
		if c.Path == "torch.utils.cpp_extension.CUDAExtension" || c.Path == "torch.utils.cpp_extension.load_inline" && c.Arg(-1, "cuda_sources") != nil ||
			c.Path == "torch.utils.cpp_extension.load" && namesKernels(c.Arg(1, "sources")) {
			p.Report(c.At, audit.Finding{Sure: true, Text: "an extension in CUDA cannot be built on a Mac", Hint: "build CppExtension there, or write the kernel in Metal (torch.mps.compile_shader, from 2.7 on)", Source: "torch/utils/cpp_extension.py"})
		}
		return
	}
	top, _, _ := strings.Cut(name, ".")
	instead, known := cudaPackages[name]
	if !known {
		if instead, known = cudaPackages[top]; !known {
			return
		}
		name = top // `from flash_attn.layers import x` is told once, for the package
	}
	if p.Guarded() {
		return
	}
	f := audit.Finding{Sure: !p.Maybe() && p.Func() == nil, Text: fmt.Sprintf("%s needs CUDA: it cannot be used on a Mac", name), Source: "the package's requirements"}
	if !f.Sure {
		f.Severity = audit.Warning
		f.Text = fmt.Sprintf("%s needs CUDA: this import fails on a Mac if it is reached", name)
	}
	if instead != "" {
		f.Hint = "a Mac has " + instead
	}
	p.Report(c.At, f)
})}

// namesKernels reports whether a list of sources has one in CUDA.
func namesKernels(v *audit.Value) bool {
	if v == nil {
		return false
	}
	return v.Kind == audit.Str && strings.HasSuffix(v.Text, ".cu") || slices.ContainsFunc(v.Items, namesKernels)
}

// CUDARequired finds where a program gives up without CUDA.
var CUDARequired = &audit.Rule{Name: "cuda-required", Title: "the program ends without CUDA", Severity: audit.Error, Doc: audit.Doc{
	Why:  "A test for CUDA ends the program, or the function, on every Mac, before anything that would have run on MPS.",
	Bad:  "if not torch.cuda.is_available():\n    raise RuntimeError(\"needs a GPU\")\n",
	Good: "device = torch.device(\"mps\" if torch.backends.mps.is_available() else \"cpu\")\n",
}, Node: func(p *audit.Pass, n pyast.Node) {
	if a, ok := n.(*pyast.Assert); ok {
		if p.Target.Device != "cuda" && strings.Contains(p.Text(a.Test), "cuda") {
			p.Report(a.Test, audit.Finding{Sure: p.Func() == nil || p.FromTop() && !p.Maybe(), Text: "the program ends here without CUDA", Hint: "accept MPS: torch.backends.mps.is_available()"})
		}
		return
	}
	s := n.(*pyast.If)
	body := s.Body
	if yes, known := p.Value(s.Test).Truth(); known && !yes {
		body = s.Orelse
	}
	if p.Target.Device == "cuda" || len(body) == 0 || !strings.Contains(p.Text(s.Test), "cuda") {
		return
	}
	switch end := body[len(body)-1].(type) {
	case *pyast.Raise:
	case *pyast.ExprStmt:
		_ = end
	default:
		return // a return: the function has another way
	}
	p.Report(s.Test, audit.Finding{Sure: p.Func() == nil || p.FromTop() && !p.Maybe(), Text: "the program ends here without CUDA", Hint: "accept MPS: torch.backends.mps.is_available()"})
}}

// NCCLBackend finds distributed starts with NCCL.
var NCCLBackend = &audit.Rule{Name: "nccl-backend", Title: "the distributed backend NCCL", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
	Why:    "PyTorch for macOS has no NCCL: init_process_group raises. It has gloo, for tensors on the CPU: collectives of MPS tensors raise as well.",
	Bad:    "torch.distributed.init_process_group(\"nccl\")\n",
	Good:   "torch.distributed.init_process_group(\"nccl\" if torch.cuda.is_available() else \"gloo\")\n",
	Source: "torch/distributed/distributed_c10d.py",
}, Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	at := 0
	switch c.Path {
	case "torch.distributed.init_process_group":
	case "torch.distributed.new_group":
		at = -1
	default:
		return
	}
	v := c.Arg(at, "backend")
	if v == nil || v.Kind != audit.Str || !strings.Contains(v.Text, "nccl") {
		return
	}
	node := c.ArgNode(at, "backend")
	f := audit.Finding{Sure: !v.Soft, Text: "NCCL is not in PyTorch for macOS: the start of the group fails", Hint: "gloo works, with tensors on the CPU"}
	if k, ok := node.(*pyast.Constant); ok && k.IsString() && v.Text == "nccl" {
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "choose gloo where there is no CUDA", Edits: []audit.Edit{replace(node, p.Text(node)+" if torch.cuda.is_available() else \"gloo\"")}}
		if !strings.HasPrefix(p.Text(c.At), "torch.") { // torch itself may not be a name here
			f.Fix.Safety = audit.Manual
		}
	}
	p.Report(node, f)
})}

// MPSNeverChosen finds the choice between CUDA and the CPU that leaves MPS out.
var MPSNeverChosen = &audit.Rule{Name: "mps-never-chosen", Title: "the choice of a device leaves MPS out", Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
	Why:  "Without CUDA the program runs on the CPU, although the Mac has a GPU that PyTorch can use.",
	Bad:  "device = \"cuda\" if torch.cuda.is_available() else \"cpu\"\n",
	Good: "device = \"cuda\" if torch.cuda.is_available() else \"mps\" if torch.backends.mps.is_available() else \"cpu\"\n",
}, Kinds: []pyast.Kind{pyast.KindIfExp, pyast.KindIf}, Node: func(p *audit.Pass, n pyast.Node) {
	if s, ok := n.(*pyast.If); ok {
		chosenByIf(p, s)
		return
	}
	e := n.(*pyast.IfExp)
	if p.Target.Device != "mps" || !strings.Contains(p.Text(e.Test), "cuda") {
		return
	}
	if yes, known := p.Value(e.Test).Truth(); known && yes {
		return
	}
	body, other := p.Value(e.Body), p.Value(e.Orelse)
	if !namesCUDA(body) || !(other.Kind == audit.Str && other.Text == "cpu" || other.Kind == audit.Device && other.Where == audit.OnCPU) {
		return
	}
	_, known := p.Value(e.Test).Truth()
	f := audit.Finding{Sure: known, Text: "on a Mac this is the CPU: MPS is never chosen", Hint: "ask torch.backends.mps.is_available() as well"}
	if k, ok := e.Orelse.(*pyast.Constant); ok && k.IsString() && strings.HasPrefix(p.Text(e.Test), "torch.") {
		quote := p.Text(k)[:1]
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "choose MPS where it is available", Edits: []audit.Edit{
			{From: e.Orelse.Pos(), To: e.Orelse.Pos(), Text: quote + "mps" + quote + " if torch.backends.mps.is_available() else "}}}
	}
	p.Report(e, f)
}}

var knowsMPS = regexp.MustCompile(`["']mps|\bmps\.`)

// chosenByIf finds `if torch.cuda.is_available(): device = "cuda"` in a file that knows nothing of MPS, where the name is the CPU otherwise.
func chosenByIf(p *audit.Pass, s *pyast.If) {
	if p.Target.Device != "mps" || len(s.Body) == 0 || !strings.Contains(p.Text(s.Test), "cuda") {
		return
	}
	if yes, known := p.Value(s.Test).Truth(); !known || yes {
		return
	}
	var chosen, other pyast.Expr
	switch b := s.Body[len(s.Body)-1].(type) {
	case *pyast.Assign:
		chosen, other = b.Value, b.Targets[0] // what the name holds now
	case *pyast.Return:
		chosen = b.Value
		if len(s.Orelse) == 1 {
			if r, ok := s.Orelse[0].(*pyast.Return); ok {
				other = r.Value
			}
		} else if f := p.Func(); f != nil && f.Node != nil { // the return behind it
			for i, t := range f.Node.Body {
				if t == pyast.Stmt(s) && i+1 < len(f.Node.Body) {
					if r, ok := f.Node.Body[i+1].(*pyast.Return); ok {
						other = r.Value
					}
				}
			}
		}
	}
	if chosen == nil || other == nil {
		return
	}
	if cpu := p.Value(other); namesCUDA(p.Value(chosen)) && (cpu.Kind == audit.Str && cpu.Text == "cpu" || cpu.Kind == audit.Device && cpu.Where == audit.OnCPU) && !knowsMPS.Match(p.Src.Text) {
		p.Report(s.Test, audit.Finding{Sure: true, Text: "on a Mac this is the CPU: MPS is never chosen", Hint: "ask torch.backends.mps.is_available() as well"})
	}
}

func namesCUDA(v *audit.Value) bool {
	return v.Kind == audit.Str && strings.HasPrefix(v.Text, "cuda") || v.Kind == audit.Device && v.Where == audit.OnCUDA
}

// PinnedMemory finds pinned memory, which MPS does not use.
var PinnedMemory = &audit.Rule{Name: "pinned-memory", Title: "pinned memory, which MPS does not use", Severity: audit.Notice, Doc: audit.Doc{
	Why:    "Memory of a Mac is one for CPU and GPU. A loader with pin_memory=True warns and goes on without; it is of no use there.",
	Bad:    "loader = DataLoader(data, pin_memory=True)\n",
	Good:   "loader = DataLoader(data, pin_memory=torch.cuda.is_available())\n",
	Source: "torch/utils/data/dataloader.py",
}, Fixable: true, Names: named(dataLoader, "torch.Tensor.pin_memory"), Call: mpsOnly(func(p *audit.Pass, c *audit.Call) {
	if c.Path == "torch.Tensor.pin_memory" && c.Self != nil && c.Self.Where.Surely(audit.OnCPU) && holds(p, "pin-memory") {
		p.Report(c.At, audit.Finding{Severity: audit.Error, Sure: !c.Self.Soft, Text: "pin_memory() raises RuntimeError on a Mac", Hint: "leave it out: CPU and GPU share memory", Source: "assay ops aten::_pin_memory"})
		return
	}
	if c.Path != "torch.utils.data.DataLoader" {
		return
	}
	k := keyword(c, "pin_memory")
	if k == nil || !isTrue(c.Arg(-1, "pin_memory")) {
		return
	}
	f := audit.Finding{Sure: true, Text: "pinned memory is not used on MPS: the loader warns and goes on without", Hint: "write pin_memory=torch.cuda.is_available()"}
	if v := p.Value(&pyast.Name{ID: "torch"}); v.Kind == audit.API && v.Path == "torch" {
		f.Fix = &audit.Fix{Safety: audit.Safe, Title: "pin where there is CUDA", Edits: []audit.Edit{replace(k.Value, "torch.cuda.is_available()")}}
	}
	p.Report(k, f)
})}

// holds reports whether a condition of the atlas holds in the release aimed at.
func holds(p *audit.Pass, name string) bool {
	return slices.ContainsFunc(p.Target.Atlas.Conditions(), func(c atlas.Condition) bool { return c.Name == name && c.Holds(p.Target.Torch.Version) })
}

// DeviceIndex finds a second GPU of a Mac.
var DeviceIndex = &audit.Rule{Name: "device-index", Title: "a device index that MPS does not have", Severity: audit.Warning, Doc: audit.Doc{
	Why:    "A Mac has one MPS device. PyTorch takes mps:1 for mps:0: a model that is spread over two lies on one, and .to(\"mps:1\") copies each time.",
	Bad:    "x = x.to(\"mps:1\")\n",
	Good:   "x = x.to(\"mps\")\n",
	Source: "aten/src/ATen/mps/EmptyTensor.cpp and MPSGuardImpl.h",
}, Call: func(p *audit.Pass, c *audit.Call) {
	if c.Path != "torch.device" || len(c.Args) != 2 || c.Args[0].Kind != audit.Str || c.Args[0].Text != "mps" {
		return
	}
	if n, ok := number(c.Args[1]); ok && n != 0 && !c.Args[1].Soft {
		p.Report(c.Node, audit.Finding{Sure: true, Text: fmt.Sprintf("mps:%d is taken for mps:0: a Mac has one MPS device", int(n)), Hint: "write \"mps\""})
	}
}, Kinds: []pyast.Kind{pyast.KindConstant}, Node: func(p *audit.Pass, n pyast.Node) {
	k := n.(*pyast.Constant)
	if !k.IsString() || k.End()-k.Pos() > 12 {
		return
	}
	if s := k.StringValue(); strings.HasPrefix(s, "mps:") && s != "mps:0" && len(s) > 4 && strings.Trim(s[4:], "0123456789") == "" {
		p.Report(k, audit.Finding{Sure: true, Text: s + " is taken for mps:0: a Mac has one MPS device", Hint: "write \"mps\""})
	}
}}
