package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// NCCLBackend finds distributed starts with NCCL.
var NCCLBackend = &audit.Rule{Name: "nccl-backend", Title: "the distributed backend NCCL",
	Claims: []string{"17"}, Severity: audit.Error,
	Fixable: true, Doc: audit.Doc{
		Why: "PyTorch for macOS has no NCCL: init_process_group raises. It has gloo, for tensors on the CPU: " +
			"collectives of MPS tensors raise as well.",
		Bad:    "torch.distributed.init_process_group(\"nccl\")\n",
		Good:   "torch.distributed.init_process_group(\"nccl\" if torch.cuda.is_available() else \"gloo\")\n",
		Source: "torch/distributed/distributed_c10d.py",
	}, Calls: []audit.Ask{
		on(named("torch.distributed.init_process_group"), noCUDA(backendAt(0))),
		on(named("torch.distributed.new_group"), noCUDA(backendAt(-1))),
	}}

// backendAt looks at the backend that a call names, at a position or by the name.
func backendAt(at int) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) { reportBackend(p, c, at) }
}

func reportBackend(p *audit.Pass, c *abstract.Call, at int) {
	v := c.Arg(at, "backend")
	if v == nil || v.Kind != abstract.Str || !strings.Contains(v.Text, "nccl") {
		return
	}
	node := c.ArgNode(at, "backend")
	f := audit.Finding{Sure: !v.Soft && !v.OrNone,
		Text: "NCCL is not in PyTorch for macOS: the start of the group fails",
		Hint: "gloo works, with tensors on the CPU"}
	if v.OrNone {
		f.Text = "NCCL is not in PyTorch for macOS: the start of the group fails where it is chosen"
	}
	if k, ok := node.(*pyast.Constant); ok && k.IsString() && v.Text == "nccl" {
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "choose gloo where there is no CUDA",
			Edits: []audit.Edit{replace(node, p.Text(node)+" if torch.cuda.is_available() else \"gloo\"")}}
		if !strings.HasPrefix(p.Text(c.At), "torch.") { // torch itself may not be a name here
			f.Fix.Safety = audit.Manual
		}
	}
	p.Report(node, f)
}
