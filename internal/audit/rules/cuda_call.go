package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// CUDACall finds x.cuda().
var CUDACall = &audit.Rule{Name: "cuda-call", Title: ".cuda() on a machine without CUDA", Severity: audit.Error, Fixable: true, Doc: audit.Doc{
	Why:    "`.cuda()` raises AssertionError (\"Torch not compiled with CUDA enabled\") on a Mac. `.to(device)` goes wherever the program was told to run.",
	Bad:    "model = Net().cuda()\n",
	Good:   "device = torch.device(\"mps\" if torch.backends.mps.is_available() else \"cpu\")\nmodel = Net().to(device)\n",
	Source: "torch/cuda/__init__.py, _lazy_init",
}, Calls: asks(ending("cuda"), noCUDA(func(p *audit.Pass, c *abstract.Call) {
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
		sure = c.Self != nil && c.Self.Kind == abstract.Unknown && torchFile(p)
		if !torchFile(p) {
			return
		}
	case "torch.nn.Module.__call__":
		return
	default:
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
}))}

func torchFile(p *audit.Pass) bool { return p.Imported("torch") }
