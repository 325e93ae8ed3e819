package rules

import (
	"fmt"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// NumpyOfDeviceTensor finds .numpy() of tensors that are not on the CPU.
var NumpyOfDeviceTensor = &audit.Rule{Name: "numpy-of-device-tensor", Title: "numpy() of a tensor that is not on the CPU", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
	Why:  "`.numpy()` shares a tensor's memory, and NumPy knows the CPU alone: TypeError (\"can't convert mps:0 device type tensor to numpy\").",
	Bad:  "x = torch.zeros(3, device=\"mps\")\na = x.numpy()\n",
	Good: "x = torch.zeros(3, device=\"mps\")\na = x.cpu().numpy()\n",
}, Calls: asks(named("torch.Tensor.numpy", "torch.Tensor.__array__", "numpy.array", "numpy.asarray"), func(p *audit.Pass, c *abstract.Call) {
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
		if a := c.Arg(1); v == nil || v.Kind != abstract.Tensor {
			v = a
		}
	default:
		return
	}
	if v == nil || v.Kind != abstract.Tensor || !v.Where.Surely(abstract.OnMPS) && !(p.Target.Device == "cuda" && v.Where.Surely(abstract.OnCUDA)) { // without CUDA it ends before
		return
	}
	f := audit.Finding{Sure: !v.Soft, Text: fmt.Sprintf("the tensor is on %s: TypeError", v.Where), Hint: "copy it to the CPU first: .cpu().numpy()"}
	if a, ok := c.At.(*pyast.Attribute); ok && name == "torch.Tensor.numpy" {
		f.Fix = &audit.Fix{Safety: audit.Safe, Title: "write .cpu().numpy()", Edits: []audit.Edit{{From: int(a.At), To: int(a.At), Text: "cpu()."}}}
		f.From, f.To = int(a.At), a.End()
	}
	p.Report(c.At, f)
})}
