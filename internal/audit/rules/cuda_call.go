package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// CUDACall finds x.cuda().
var CUDACall = &audit.Rule{Name: "cuda-call", Title: ".cuda() on a machine without CUDA", Severity: audit.Error,
	Fixable: true, Doc: audit.Doc{
		Why: "`.cuda()` raises AssertionError (\"Torch not compiled with CUDA enabled\") on a Mac. `.to(device)` goes " +
			"wherever the program was told to run.",
		Bad: "model = Net().cuda()\n",
		Good: "device = torch.device(\"mps\" if torch.backends.mps.is_available() else \"cpu\")\nmodel = " +
			"Net().to(device)\n",
		Source: "torch/cuda/__init__.py, _lazy_init",
	}, Calls: []audit.Ask{
		on(named("torch.Tensor.cuda", "torch.nn.Module.cuda"), noCUDA(func(p *audit.Pass, c *abstract.Call) {
			if c.Node != nil {
				reportCUDACall(p, c, true)
			}
		})),
		on(named("?.cuda"), noCUDA(func(p *audit.Pass, c *abstract.Call) {
			if _, method := c.At.(*pyast.Attribute); method && c.Node != nil && p.Imported("torch") {
				reportCUDACall(p, c, c.Self != nil && c.Self.Kind == abstract.Unknown)
			}
		})),
	}}

func reportCUDACall(p *audit.Pass, c *abstract.Call, sure bool) {
	if p.Func() != nil && p.Func().Name == "cuda" { // a module's own .cuda() that passes it on
		return
	}
	f := audit.Finding{Sure: true, Text: ".cuda() fails: " + noCUDAText,
		Hint:   "write .to(device), with a device that the program chooses once",
		Source: "torch/cuda/__init__.py"}
	attr, ok := c.Node.Func.(*pyast.Attribute)
	if !ok {
		if by, ok := c.Node.Func.(*pyast.Call); ok && p.Text(by.Func) == "getattr" { // getattr(model, "cuda")()
			p.Report(c.At, f)
		}
		return
	}
	if p.Within(attr, func(f *abstract.Func) bool { return f.Name == "cuda" }) { // lambda x: x.cuda(device), passed on
		return
	}
	receiver := p.Text(attr.Value)
	if p.Under(func(test pyast.Expr) bool { // another library's class may have a .cuda() of its own
		is, ok := test.(*pyast.Call)
		if !ok || len(is.Args) != 2 || p.Text(is.Func) != "isinstance" || p.Text(is.Args[0]) != receiver {
			return false
		}
		class := p.Value(is.Args[1])
		return class.Kind != abstract.API || !strings.HasPrefix(class.Path, "torch.")
	}) {
		sure = false
	}
	f.Sure, f.From, f.To = sure, int(attr.At)-1, c.Node.End()
	if name := deviceName(p); name != "" {
		rest := ""
		for _, k := range c.Node.Keywords {
			if k.Arg == "non_blocking" {
				rest = ", " + p.Text(k)
			}
		}
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write .to(" + name + ")",
			Edits: []audit.Edit{{From: int(attr.At), To: c.Node.End(), Text: "to(" + name + rest + ")"}}}
	}
	p.Report(c.At, f)
}
