package rules

import (
	"fmt"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// CompileBackend finds torch.compile with a backend that does not exist.
var CompileBackend = &audit.Rule{Name: "compile-backend", Title: "torch.compile with a backend that does not exist",
	Claims: []string{"5"}, Severity: audit.Error, Fixable: true, Doc: audit.Doc{
		Why: "There is no torch.compile backend called \"mps\": it raises InvalidBackend at the first call. Inductor " +
			"generates Metal code itself, as a prototype, from torch 2.7 on.",
		Bad: "model = torch.compile(model, backend=\"mps\")\n", Good: "model = torch.compile(model)\n",
		Source: "torch/_dynamo/backends/registry.py of the releases",
	}, Calls: asks(named("torch.compile", "torch.nn.Module.compile"), func(p *audit.Pass, c *abstract.Call) {
		v := c.Arg(-1, "backend")
		if v == nil || v.Kind != abstract.Str || v.Text != "mps" && v.Text != "metal" {
			return
		}
		f := audit.Finding{Sure: !v.Soft, Text: fmt.Sprintf("there is no backend %q: InvalidBackend at the first call",
			v.Text), Hint: "leave it out; \"aot_eager\" runs everywhere"}
		if k := keyword(c, "backend"); k != nil {
			if edit, ok := removeKeyword(p, c.Node, k); ok {
				f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "leave the backend out", Edits: []audit.Edit{edit}}
			}
		}
		p.Report(c.At, f)
	})}
