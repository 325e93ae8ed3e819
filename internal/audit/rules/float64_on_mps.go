package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// Float64OnMPS finds float64 that reaches MPS.
var Float64OnMPS = &audit.Rule{Name: "float64-on-mps", Title: "float64 tensor reaches an MPS device",
	Claims: []string{"x1"}, Severity: audit.Error, Fixable: true, Doc: audit.Doc{
		Why: "MPS has no float64: moving such a tensor there, or making one, raises TypeError. NumPy's floats are " +
			"float64 unless they are told otherwise, so that " +
			"torch.from_numpy and torch.tensor of an array bring float64 in.",
		Bad:    "x = torch.from_numpy(np.zeros(3)).to(\"mps\")\n",
		Good:   "x = torch.from_numpy(np.zeros(3)).float().to(\"mps\")\n",
		Source: "aten/src/ATen/mps/EmptyTensor.cpp; Metal has no double",
	}, Calls: asks(under("torch."), mpsOnly(runFloat64))}

func runFloat64(p *audit.Pass, c *abstract.Call) {
	dtype, sure := arriving(p, c)
	if dtype != "float64" {
		return
	}
	fact := refusedType(p, dtype)
	if fact == nil {
		return
	}
	f := audit.Finding{Sure: sure, Text: "float64 reaches MPS here, which has none: " + fact.Error,
		Hint: "make it float32 first", Source: fact.Source, Fact: fact.Name}
	if c.Path == "torch.Tensor.to" && c.Node != nil && c.Arg(-1, "dtype") == nil && len(c.Node.Args) == 1 {
		if torchName := p.Value(&pyast.Name{ID: "torch"}); torchName.Kind == abstract.API && torchName.Path == "torch" {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "make it float32 on the way",
				Edits: []audit.Edit{{From: c.Node.Args[0].End(), To: c.Node.Args[0].End(), Text: ", torch.float32"}}}
		}
	} else if last(c.Path) == "double" && c.Node != nil && len(c.Node.Args) == 0 {
		if a, ok := c.Node.Func.(*pyast.Attribute); ok {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write .float()",
				Edits: []audit.Edit{{From: int(a.At), To: a.End(), Text: "float"}}}
		}
	} else if node := c.ArgNode(-1, "dtype"); node != nil && strings.HasSuffix(p.Text(node), "torch.float64") {
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write torch.float32",
			Edits: []audit.Edit{replace(node, "torch.float32")}}
	}
	p.Report(c.At, f)
}
