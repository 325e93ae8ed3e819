package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// UnsafePickle finds checkpoints that may run code.
var UnsafePickle = &audit.Rule{Name: "unsafe-pickle", Title: "a checkpoint that may run code is loaded",
	Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
		Why: "A checkpoint is a pickle, and a pickle can run any code when it is loaded. weights_only=True reads tensors " +
			"and plain containers alone; it is the default from PyTorch 2.6 on.",
		Bad:    "weights = torch.load(\"model.pt\", weights_only=False)\n",
		Good:   "weights = torch.load(\"model.pt\", weights_only=True)\n",
		Source: "torch/serialization.py of the releases",
	}, Calls: asks(named("torch.load"), func(p *audit.Pass, c *abstract.Call) {
		if c.Node == nil {
			return
		}
		v := c.Arg(-1, "weights_only")
		switch {
		case v != nil && v.Kind == abstract.Bool && !v.Yes && !v.Soft:
			f := audit.Finding{Sure: true, Text: "weights_only=False: the file may run any code",
				Hint: "load with weights_only=True, or take safetensors"}
			if k := keyword(c, "weights_only"); k != nil {
				f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write weights_only=True",
					Edits: []audit.Edit{replace(k.Value, "True")}}
			}
			p.Report(c.At, f)
		case v == nil && !c.Open && !p.Target.Since("2.6"):
			f := audit.Finding{Sure: true,
				Text: "the file may run any code: weights_only is False by default before torch 2.6",
				Hint: "load with weights_only=True"}
			if end := c.Node.End() - 1; len(c.Node.Args)+len(c.Node.Keywords) > 0 && p.Src().Text[end] == ')' &&
				p.Src().Text[end-1] != ',' && p.Src().Text[end-1] != '\n' && p.Src().Text[end-1] != ' ' {
				f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "add weights_only=True",
					Edits: []audit.Edit{{From: end, To: end, Text: ", weights_only=True"}}}
			}
			p.Report(c.At, f)
		}
	})}
