package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// CheckpointWithoutMap finds checkpoints that are loaded where they were saved.
var CheckpointWithoutMap = &audit.Rule{Name: "checkpoint-without-map-location",
	Title: "a checkpoint is loaded onto the device that it was saved from", Severity: audit.Warning, Fixable: true,
	Doc: audit.Doc{
		Why: "torch.load puts tensors where they were when they were saved: a checkpoint from a CUDA machine raises " +
			"RuntimeError on a Mac (\"Attempting to deserialize object on a CUDA device\").",
		Bad: "weights = torch.load(\"model.pt\")\n", Good: "weights = torch.load(\"model.pt\", map_location=\"cpu\")\n",
		Source: "torch/serialization.py, _validate_device",
	}, Calls: asks(named("torch.load"), noCUDA(func(p *audit.Pass, c *abstract.Call) {
		if c.Open || c.Node == nil || c.Arg(1, "map_location") != nil || p.In("torch.device") != nil {
			return
		}
		f := audit.Finding{Sure: false, Severity: audit.Notice,
			Text: "if the file was saved on a CUDA machine, this raises here",
			Hint: "say map_location=\"cpu\", or the device"}
		if end := c.Node.Args; len(end) == 1 {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "load to the CPU",
				Edits: []audit.Edit{{From: end[0].End(), To: end[0].End(), Text: ", map_location=\"cpu\""}}}
		}
		p.Report(c.At, f)
	}))}
