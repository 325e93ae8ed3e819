package rules

import (
	"fmt"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// NumpyOfDeviceTensor finds .numpy() of tensors that are not on the CPU.
var NumpyOfDeviceTensor = &audit.Rule{Name: "numpy-of-device-tensor",
	Title: "numpy() of a tensor that is not on the CPU", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
		Why: "`.numpy()` shares a tensor's memory, and NumPy knows the CPU alone: TypeError (\"can't convert mps:0 " +
			"device type tensor to numpy\").",
		Bad:  "x = torch.zeros(3, device=\"mps\")\na = x.numpy()\n",
		Good: "x = torch.zeros(3, device=\"mps\")\na = x.cpu().numpy()\n",
	}, Calls: []audit.Ask{
		on(named("torch.Tensor.numpy"), func(p *audit.Pass, c *abstract.Call) {
			if isTrue(c.Arg(0, "force")) {
				return
			}
			at := audit.Finding{}
			if a, ok := c.At.(*pyast.Attribute); ok {
				at.From, at.To = int(a.At), a.End()
				at.Fix = &audit.Fix{Safety: audit.Safe, Title: "write .cpu().numpy()",
					Edits: []audit.Edit{{From: int(a.At), To: int(a.At), Text: "cpu()."}}}
			}
			reportNumpy(p, c, c.Self, at)
		}),
		on(named("numpy.array", "numpy.asarray"), func(p *audit.Pass,
			c *abstract.Call) {
			reportNumpy(p, c, c.Arg(0), audit.Finding{})
		}),
		// x * array, which hands the tensor to NumPy
		on(named("torch.Tensor.__array__"), func(p *audit.Pass, c *abstract.Call) {
			v := c.Arg(0)
			if v == nil || v.Kind != abstract.Tensor {
				v = c.Arg(1)
			}
			reportNumpy(p, c, v, audit.Finding{})
		}),
	}}

// reportNumpy reports a tensor that NumPy gets; f says where, and how to mend it, where that is not the call.
func reportNumpy(p *audit.Pass, c *abstract.Call, v *abstract.Value, f audit.Finding) {
	// without CUDA it ends before
	if v == nil || v.Kind != abstract.Tensor || !v.Where.Surely(abstract.OnMPS) &&
		!(p.Target.Device == "cuda" && v.Where.Surely(abstract.OnCUDA)) {
		return
	}
	f.Sure, f.Text, f.Hint = !v.Soft, fmt.Sprintf("the tensor is on %s: TypeError", v.Where),
		"copy it to the CPU first: .cpu().numpy()"
	p.Report(c.At, f)
}
