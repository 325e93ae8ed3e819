package rules

import (
	"fmt"
	"strings"

	"assay/internal/audit"
	"assay/internal/pyast"
)

// Float64OnMPS finds float64 that reaches MPS.
var Float64OnMPS = &audit.Rule{Name: "float64-on-mps", Title: "float64 tensor reaches an MPS device", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
	Why: "MPS has no float64: moving such a tensor there, or making one, raises TypeError. NumPy's floats are float64 unless they are told otherwise, so that " +
		"torch.from_numpy and torch.tensor of an array bring float64 in.",
	Bad:    "x = torch.from_numpy(np.zeros(3)).to(\"mps\")\n",
	Good:   "x = torch.from_numpy(np.zeros(3)).float().to(\"mps\")\n",
	Source: "aten/src/ATen/mps/EmptyTensor.cpp; Metal has no double",
}, Names: under("torch."), Call: mpsOnly(runFloat64)}

func runFloat64(p *audit.Pass, c *audit.Call) {
	dtype, sure := arriving(p, c)
	if dtype != "float64" {
		return
	}
	f := audit.Finding{Sure: sure, Text: "float64 reaches MPS here, which has none: TypeError", Hint: "make it float32 first", Source: "aten/src/ATen/mps/EmptyTensor.cpp"}
	if c.Path == "torch.Tensor.to" && c.Node != nil && c.Arg(-1, "dtype") == nil && len(c.Node.Args) == 1 {
		if torchName := p.Value(&pyast.Name{ID: "torch"}); torchName.Kind == audit.API && torchName.Path == "torch" {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "make it float32 on the way", Edits: []audit.Edit{{From: c.Node.Args[0].End(), To: c.Node.Args[0].End(), Text: ", torch.float32"}}}
		}
	} else if last(c.Path) == "double" && c.Node != nil && len(c.Node.Args) == 0 {
		if a, ok := c.Node.Func.(*pyast.Attribute); ok {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write .float()", Edits: []audit.Edit{{From: int(a.At), To: a.End(), Text: "float"}}}
		}
	} else if node := c.ArgNode(-1, "dtype"); node != nil && strings.HasSuffix(p.Text(node), "torch.float64") {
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write torch.float32", Edits: []audit.Edit{replace(node, "torch.float32")}}
	}
	p.Report(c.At, f)
}

// arriving is the dtype of a tensor that a call puts on MPS, "" where it puts none there.
func arriving(p *audit.Pass, c *audit.Call) (dtype string, sure bool) {
	switch name := last(c.Path); {
	case c.Path == "torch.Tensor.to" || c.Path == "torch.Tensor.double" || c.Path == "torch.Tensor.type" || c.Path == "torch.Tensor.cdouble":
		v := p.Result(c)
		if v.Kind != audit.Tensor || !v.Where.May(audit.OnMPS) {
			return "", false
		}
		if c.Self.Where == v.Where && c.Self.Type == v.Type { // it was there before
			return "", false
		}
		return v.Type, v.Where.Surely(audit.OnMPS) && !c.Self.Soft && !softPlace(c)
	case c.Path == "torch.nn.Module.double":
		if c.Self.Where.May(audit.OnMPS) {
			return "float64", c.Self.Where.Surely(audit.OnMPS)
		}
	case c.Path == "torch.nn.Module.to":
		where, to := p.Destination(c)
		if to == "" && c.Self.Type == "float64" {
			to = "float64"
		}
		if where == 0 {
			where = c.Self.Where
		}
		if where.May(audit.OnMPS) && to == "float64" {
			return to, where.Surely(audit.OnMPS) && !softPlace(c)
		}
	case strings.HasPrefix(c.Path, "torch.") && c.Arg(-1, "device") == nil && dtypeOf(c.Arg(-1, "dtype")) != "" && name != "DataLoader":
		where := c.Tensors()
		if c.Self == nil && where == 0 { // made where tensors are made
			v := p.Result(c)
			if v.Kind != audit.Tensor {
				return "", false
			}
			where = v.Where
		}
		if c.Self != nil && c.Self.Kind == audit.Module || !where.May(audit.OnMPS) {
			return "", false
		}
		return dtypeOf(c.Arg(-1, "dtype")), where.Surely(audit.OnMPS) && !(c.Self != nil && c.Self.Soft)
	case strings.HasPrefix(c.Path, "torch.") && c.Arg(-1, "device") != nil && !strings.Contains(c.Path, ".nn."):
		if name == "device" {
			return "", false
		}
		v := p.Result(c)
		if v.Kind == audit.Tensor && v.Where.May(audit.OnMPS) {
			return v.Type, v.Where.Surely(audit.OnMPS) && !softPlace(c)
		}
	}
	return "", false
}

func dtypeOf(v *audit.Value) string {
	if v == nil || v.Kind != audit.DType {
		return ""
	}
	return v.Type
}

func softPlace(c *audit.Call) bool {
	for _, a := range c.Args {
		if (a.Kind == audit.Device || a.Kind == audit.Str) && a.Soft {
			return true
		}
	}
	d := c.Arg(-1, "device")
	return d != nil && d.Soft
}

// TypeNotOnMPS finds other dtypes that MPS does not have.
var TypeNotOnMPS = &audit.Rule{Name: "dtype-not-on-mps", Title: "a dtype that MPS does not have", Severity: audit.Error, Doc: audit.Doc{
	Why: "MPS has no complex128 and no float8, and bfloat16 only from macOS 14 on; complex64 came with PyTorch 2.1. Making or moving such a tensor raises TypeError; one of float8, or a copy of " +
		"complex128 (before PyTorch 2.12 any), can lie there, and operations on it raise.",
	Bad: "x = torch.zeros(3, dtype=torch.complex128, device=\"mps\")\n", Good: "x = torch.zeros(3, dtype=torch.complex64, device=\"mps\")\n",
	Source: "aten/src/ATen/mps/EmptyTensor.cpp, native/mps/OperationUtils.mm",
}, Names: under("torch."), Call: mpsOnly(func(p *audit.Pass, c *audit.Call) {
	dtype, sure := arriving(p, c)
	hint, kept := "", false // kept: bytes may lie there, and kernels do not take them
	switch dtype {
	case "complex128":
		hint = "complex64 is there"
		switch last(c.Path) {
		case "to", "tensor", "as_tensor", "asarray": // a copy makes its place by empty_strided, which looks at float64 alone
			kept = true
		default:
			kept = !p.Target.Since("2.12")
		}
	case "complex64":
		if p.Target.Since("2.1") {
			return
		}
		hint = "complex64 is on MPS from torch 2.1 on"
	case "float8_e4m3fn", "float8_e5m2":
		hint = "keep such weights on the CPU, or in float16"
		kept = true
	case "bfloat16":
		if p.Target.MacOS[0] == 0 || p.Target.MacOS[0] >= 14 {
			return
		}
		hint = "bfloat16 needs macOS 14; float16 is there"
	default:
		return
	}
	if kept && !(c.Self != nil && c.Self.Kind == audit.Tensor && c.Self.Where.Surely(audit.OnMPS)) { // a conversion there is a kernel
		p.Report(c.At, audit.Finding{Sure: sure, Severity: audit.Warning, Text: dtype + " reaches MPS here: it can lie there, and almost every operation on it raises", Hint: hint})
		return
	}
	p.Report(c.At, audit.Finding{Sure: sure, Text: dtype + " reaches MPS here, which does not have it: TypeError", Hint: hint})
})}

// MixedDevices finds operations between tensors of two devices.
var MixedDevices = &audit.Rule{Name: "mixed-devices", Title: "tensors of two devices in one operation", Severity: audit.Error, Doc: audit.Doc{
	Why:  "An operation takes its tensors from one device: PyTorch raises RuntimeError otherwise. Only tensors without dimensions may come from the CPU.",
	Bad:  "x = torch.zeros(3, device=\"mps\")\ny = x + torch.ones(3)\n",
	Good: "x = torch.zeros(3, device=\"mps\")\ny = x + torch.ones(3, device=x.device)\n",
}, Names: under("torch"), Call: func(p *audit.Pass, c *audit.Call) {
	if !strings.HasPrefix(c.Path, "torch") || len(c.Args)+len(c.Named) == 0 {
		return
	}
	var on, cpu *audit.Value
	see := func(v *audit.Value) {
		if v == nil || v.Kind != audit.Tensor || v.Soft {
			return
		}
		switch {
		case v.Where.Surely(audit.OnMPS) || v.Where.Surely(audit.OnCUDA) && p.Target.Device == "cuda": // without CUDA it ends before
			on = v
		case v.Where.Surely(audit.OnCPU):
			cpu = v
		}
	}
	operation := strings.HasPrefix(c.Path, "torch.Tensor.__") || together[last(c.Path)]
	model := strings.HasSuffix(c.Path, ".__call__") && c.Self != nil && c.Self.Kind == audit.Module
	switch {
	case strings.HasPrefix(c.Path, "torch.Tensor.__"):
	case model && (strings.HasPrefix(c.Path, "torch.nn.") || strings.HasPrefix(c.Path, "torchvision.models.")):
		if c.Self.Where.Surely(audit.OnMPS) && !c.Self.Soft {
			on = c.Self
		}
	case strings.HasPrefix(c.Path, "torch.nn.functional.") && last(c.Path) != "ctc_loss", together[last(c.Path)] && (strings.HasPrefix(c.Path, "torch.Tensor.") || strings.Count(c.Path, ".") == 1):
		see(c.Self)
	case generates[c.Path]:
		reportGenerator(p, c)
		return
	default:
		return
	}
	for _, a := range c.Args {
		if a.Kind == audit.Seq {
			for _, i := range a.Items {
				see(i)
			}
		}
		see(a)
	}
	for _, n := range c.Named {
		see(n.Value)
	}
	if on == nil || cpu == nil || p.Maybe() && (!model || p.Under(func(pyast.Expr) bool { return true })) && cpu.Made == nil && cpu.Path != "batch" && !sized(cpu) {
		return
	}
	if operation && !sized(cpu) && cpu.Path != "batch" {
		return // it may have no dimensions
	}
	what := "a tensor on the CPU meets one on " + on.Where.String()
	if model {
		what = "the model is on " + on.Where.String() + ", and its input on the CPU"
	}
	p.Report(c.At, audit.Finding{Sure: cpu.Path != "batch" && (sized(cpu) || model), Text: what + ": RuntimeError", Hint: "move it first: .to(device)"})
}}

// together are operations that take all their tensors from one device: tried with each on a rehearsal of PyTorch 2.8. Copies, shapes taken from another
// tensor, lengths of sequences and torch.equal are none of them.
var together = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(`matmul mm bmm addmm addmv baddbmm dot mv outer einsum cat concat stack hstack vstack add sub mul div true_divide pow remainder fmod
		maximum minimum fmax fmin max min where lerp addcmul addcdiv atan2 hypot cdist gather scatter scatter_add index_select masked_fill masked_select index_add
		clamp quantile allclose isclose logical_and logical_or eq ne lt le gt ge stft add_ sub_ mul_ div_ pow_ masked_fill_ scatter_ scatter_add_ index_add_ lerp_
		addcmul_ addcdiv_ cross kron`) {
		m[n] = true
	}
	return m
}()

// generates are functions that draw from a generator, which lives where their tensor does.
var generates = map[string]bool{"torch.rand": true, "torch.randn": true, "torch.randint": true, "torch.randperm": true, "torch.normal": true, "torch.bernoulli": true,
	"torch.multinomial": true, "torch.utils.data.DataLoader": true, "torch.utils.data.random_split": true}

// reportGenerator finds generators of another device than the tensor's.
func reportGenerator(p *audit.Pass, c *audit.Call) {
	where := audit.OnCPU // of a generator that is not given: the tensor's own
	g := c.Arg(-1, "generator")
	if strings.HasPrefix(c.Path, "torch.utils.data.") {
		if p.DefaultDevice() != audit.OnMPS || last(c.Path) == "DataLoader" && !isTrue(c.Arg(-1, "shuffle")) {
			return
		}
		if g != nil && g.Kind != audit.None {
			return
		}
		p.Report(c.At, audit.Finding{Sure: last(c.Path) == "DataLoader", Text: "torch.set_default_device is MPS, and the generator that shuffles is the CPU's: RuntimeError",
			Hint: "give it generator=torch.Generator(device=\"mps\"), or no default device"})
		return
	}
	if g == nil || g.Kind != audit.Made || g.Path != "torch.Generator" || g.Made == nil || g.Soft {
		return
	}
	if d := g.Made.Arg(0, "device"); d != nil {
		where = p.Place(d)
	}
	made := c.Tensors()
	if made == 0 {
		made = p.Result(c).Where
	}
	if d := c.Arg(-1, "device"); d != nil && d.Soft {
		return
	}
	if where.Surely(audit.OnCPU) && made.Surely(audit.OnMPS) || where.Surely(audit.OnMPS) && made.Surely(audit.OnCPU) {
		p.Report(c.At, audit.Finding{Sure: true, Text: fmt.Sprintf("the generator is on %s, and the tensor on %s: RuntimeError", where, made), Hint: "make the generator there: torch.Generator(device=device)"})
	}
}

// sized reports whether a tensor was made here with a size, so that it has dimensions.
func sized(v *audit.Value) bool { return v.Path == "sized" }

// NumpyOfDeviceTensor finds .numpy() of tensors that are not on the CPU.
var NumpyOfDeviceTensor = &audit.Rule{Name: "numpy-of-device-tensor", Title: "numpy() of a tensor that is not on the CPU", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
	Why:  "`.numpy()` shares a tensor's memory, and NumPy knows the CPU alone: TypeError (\"can't convert mps:0 device type tensor to numpy\").",
	Bad:  "x = torch.zeros(3, device=\"mps\")\na = x.numpy()\n",
	Good: "x = torch.zeros(3, device=\"mps\")\na = x.cpu().numpy()\n",
}, Names: named("torch.Tensor.numpy", "torch.Tensor.__array__", "numpy.array", "numpy.asarray"), Call: func(p *audit.Pass, c *audit.Call) {
	v := c.Self
	name := c.Path
	switch name {
	case "torch.Tensor.numpy":
		if isTrue(c.Arg(0, "force")) {
			return
		}
	case "numpy.array", "numpy.asarray":
		v = c.Arg(0)
	case "torch.Tensor.__array__": // x * array, which hands the tensor to NumPy
		v = c.Arg(0)
		if a := c.Arg(1); v == nil || v.Kind != audit.Tensor {
			v = a
		}
	default:
		return
	}
	if v == nil || v.Kind != audit.Tensor || !v.Where.Surely(audit.OnMPS) && !v.Where.Surely(audit.OnCUDA) {
		return
	}
	f := audit.Finding{Sure: !v.Soft, Text: fmt.Sprintf("the tensor is on %s: TypeError", v.Where), Hint: "copy it to the CPU first: .cpu().numpy()"}
	if a, ok := c.At.(*pyast.Attribute); ok && name == "torch.Tensor.numpy" {
		f.Fix = &audit.Fix{Safety: audit.Safe, Title: "write .cpu().numpy()", Edits: []audit.Edit{{From: int(a.At), To: int(a.At), Text: "cpu()."}}}
		f.From, f.To = int(a.At), a.End()
	}
	p.Report(c.At, f)
}}
