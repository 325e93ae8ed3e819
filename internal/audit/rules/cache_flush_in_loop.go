package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// CacheFlushInLoop finds caches that are emptied in every step.
var CacheFlushInLoop = &audit.Rule{Name: "cache-flush-in-loop", Title: "memory caches are emptied in every step",
	Severity: audit.Warning, Doc: audit.Doc{
		Why: "empty_cache() waits for the GPU and gives cached memory back to the system, which the next step asks " +
			"for again; gc.collect() walks through every object. Neither frees a tensor that is still held.",
		Bad:    "for x in torch.utils.data.DataLoader(data):\n    loss = model(x)\n    torch.mps.empty_cache()\n",
		Good:   "for x in torch.utils.data.DataLoader(data):\n    loss = model(x)\ntorch.mps.empty_cache()\n",
		Source: "aten/src/ATen/mps/MPSAllocator.mm, emptyCache",
	}, Calls: asks(named("torch.mps.empty_cache", "torch.cuda.empty_cache", "torch.accelerator.empty_cache",
		"torch.accelerator.memory.empty_cache",
		"gc.collect"), func(p *audit.Pass, c *abstract.Call) {
		if !batchLoop(p) || sometimes(p) || p.InHandler() {
			return
		}
		f := audit.Finding{Sure: true, Text: strings.TrimPrefix(c.Path, "torch.") +
			"() in every step: memory goes back to the system and is asked for again",
			Hint: "call it between phases at most"}
		if c.Path == "gc.collect" {
			f.Text = "gc.collect() in every step walks through every object, and frees no tensor that is still held"
		}
		if c.Path == "torch.cuda.empty_cache" && p.Target.Device != "cuda" {
			f.Severity = audit.Notice
			f.Text = "torch.cuda.empty_cache() does nothing without CUDA"
			f.Hint = "leave it out"
		}
		p.Report(c.At, f)
	})}
