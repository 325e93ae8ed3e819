package rules

import (
	"fmt"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// DeviceIndex finds a second GPU of a Mac.
var DeviceIndex = &audit.Rule{Name: "device-index", Title: "a device index that MPS does not have",
	Severity: audit.Warning, Doc: audit.Doc{
		Why: "A Mac has one MPS device. PyTorch takes mps:1 for mps:0: a model that is spread over two lies on one, " +
			"and .to(\"mps:1\") copies each time.",
		Bad:    "x = x.to(\"mps:1\")\n",
		Good:   "x = x.to(\"mps\")\n",
		Source: "aten/src/ATen/mps/EmptyTensor.cpp and MPSGuardImpl.h",
	}, Calls: asks(named("torch.device"), func(p *audit.Pass, c *abstract.Call) {
		if len(c.Args) != 2 || c.Args[0].Kind != abstract.Str || c.Args[0].Text != "mps" {
			return
		}
		if n, ok := number(c.Args[1]); ok && n != 0 && !c.Args[1].Soft {
			p.Report(c.Node, audit.Finding{Sure: true,
				Text: fmt.Sprintf("mps:%d is taken for mps:0: a Mac has one MPS device", int(n)),
				Hint: "write \"mps\""})
		}
	}), Kinds: []pyast.Kind{pyast.KindConstant}, Node: func(p *audit.Pass, n pyast.Node) {
		k := n.(*pyast.Constant)
		if !k.IsString() || k.End()-k.Pos() > 12 {
			return
		}
		if s := k.StringValue(); strings.HasPrefix(s, "mps:") && s != "mps:0" && len(s) > 4 &&
			strings.Trim(s[4:], "0123456789") == "" {
			p.Report(k, audit.Finding{Sure: true, Text: s + " is taken for mps:0: a Mac has one MPS device",
				Hint: "write \"mps\""})
		}
	}}
