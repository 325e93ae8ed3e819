package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// HalvedInputs finds inputs cast to half by hand where autocast is switched off.
var HalvedInputs = &audit.Rule{Name: "halved-inputs", Title: "inputs halved by hand around a disabled autocast",
	Severity: audit.Warning, Doc: audit.Doc{
		Why: "Half-precision inputs meet float32 weights: RuntimeError about two dtypes. Autocast casts both where it " +
			"helps; without it the model must be halved as a whole.",
		Bad:  "with torch.autocast(\"mps\", enabled=False):\n    y = model(torch.zeros(3, 4, device=\"mps\").half())\n",
		Good: "with torch.autocast(\"mps\", dtype=torch.float16):\n    y = model(torch.zeros(3, 4, device=\"mps\"))\n",
	}, Calls: []audit.Ask{
		on(named("torch.Tensor.half", "?.half"), halvedInput),
		on(ending("to"), func(p *audit.Pass, c *abstract.Call) {
			if len(c.Args) > 0 && c.Args[0].Kind == abstract.DType && c.Args[0].Type == "float16" {
				halvedInput(p, c)
			}
		}),
	}}

func halvedInput(p *audit.Pass, c *abstract.Call) {
	if c.Self == nil || c.Self.Kind == abstract.Module {
		return
	}
	b := p.In("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast")
	if b == nil || b.Call == nil {
		return
	}
	if e := b.Call.Arg(-1, "enabled"); e != nil && e.Kind == abstract.Bool && !e.Yes && !e.Soft {
		p.Report(c.At, audit.Finding{Sure: false,
			Text: "inputs are halved while autocast is off: float32 weights will not take them",
			Hint: "switch autocast on and leave the inputs as they are"})
	}
}
