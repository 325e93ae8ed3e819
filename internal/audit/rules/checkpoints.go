package rules

import (
	"assay/internal/audit"
)

// UnsafePickle finds checkpoints that may run code.
var UnsafePickle = &audit.Rule{Name: "unsafe-pickle", Title: "a checkpoint that may run code is loaded", Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
	Why: "A checkpoint is a pickle, and a pickle can run any code when it is loaded. weights_only=True reads tensors and plain containers alone; it is the default from PyTorch 2.6 on.",
	Bad: "weights = torch.load(\"model.pt\", weights_only=False)\n", Good: "weights = torch.load(\"model.pt\", weights_only=True)\n",
	Source: "torch/serialization.py of the releases",
}, Names: named("torch.load"), Call: func(p *audit.Pass, c *audit.Call) {
	if c.Path != "torch.load" || c.Node == nil {
		return
	}
	v := c.Arg(-1, "weights_only")
	switch {
	case v != nil && v.Kind == audit.Bool && !v.Yes && !v.Soft:
		f := audit.Finding{Sure: true, Text: "weights_only=False: the file may run any code", Hint: "load with weights_only=True, or take safetensors"}
		if k := keyword(c, "weights_only"); k != nil {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write weights_only=True", Edits: []audit.Edit{replace(k.Value, "True")}}
		}
		p.Report(c.At, f)
	case v == nil && !c.Open && !p.Target.Since("2.6"):
		f := audit.Finding{Sure: true, Text: "the file may run any code: weights_only is False by default before torch 2.6", Hint: "load with weights_only=True"}
		if end := c.Node.End() - 1; len(c.Node.Args)+len(c.Node.Keywords) > 0 && p.Src.Text[end] == ')' && p.Src.Text[end-1] != ',' && p.Src.Text[end-1] != '\n' && p.Src.Text[end-1] != ' ' {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "add weights_only=True", Edits: []audit.Edit{{From: end, To: end, Text: ", weights_only=True"}}}
		}
		p.Report(c.At, f)
	}
}}

// CheckpointWithoutMap finds checkpoints that are loaded where they were saved.
var CheckpointWithoutMap = &audit.Rule{Name: "checkpoint-without-map-location", Title: "a checkpoint is loaded onto the device that it was saved from", Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
	Why: "torch.load puts tensors where they were when they were saved: a checkpoint from a CUDA machine raises RuntimeError on a Mac (\"Attempting to deserialize object on a CUDA device\").",
	Bad: "weights = torch.load(\"model.pt\")\n", Good: "weights = torch.load(\"model.pt\", map_location=\"cpu\")\n",
	Source: "torch/serialization.py, _validate_device",
}, Names: named("torch.load"), Call: noCUDA(func(p *audit.Pass, c *audit.Call) {
	if c.Path != "torch.load" || c.Open || c.Node == nil || c.Arg(1, "map_location") != nil || p.In("torch.device") != nil {
		return
	}
	f := audit.Finding{Sure: false, Severity: audit.Notice, Text: "if the file was saved on a CUDA machine, this raises here", Hint: "say map_location=\"cpu\", or the device"}
	if end := c.Node.Args; len(end) == 1 {
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "load to the CPU", Edits: []audit.Edit{{From: end[0].End(), To: end[0].End(), Text: ", map_location=\"cpu\""}}}
	}
	p.Report(c.At, f)
})}
