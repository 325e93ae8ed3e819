package rules

import (
	"strings"

	"assay/internal/audit"
	"assay/internal/pyast"
)

// SynchronisationInLoop finds calls that make the CPU wait for the GPU in a loop over batches.
var SynchronisationInLoop = &audit.Rule{Name: "synchronisation-in-loop", Title: "the CPU waits for the GPU in every step", Severity: audit.Warning, Doc: audit.Doc{
	Why: "MPS runs behind the program: the CPU prepares the next kernels while the GPU works. `.item()`, `.cpu()`, `.numpy()`, `.tolist()`, `float()` and printing of a tensor wait until all is done, in every step. " +
		"Keep the tensor, and read it every hundredth step or at the end of the epoch. `assay run` measures what each costs.",
	Bad:    "for x in torch.utils.data.DataLoader(data):\n    loss = model(x.to(\"mps\")).mean()\n    total += loss.item()\n",
	Good:   "for x in torch.utils.data.DataLoader(data):\n    loss = model(x.to(\"mps\")).mean()\n    total += loss.detach()\nprint(total.item())\n",
	Source: "aten/src/ATen/native/mps: a copy to the CPU commits the stream and waits",
}, Names: named("torch.Tensor.item", "torch.Tensor.tolist", "torch.Tensor.numpy", "torch.Tensor.cpu", "torch.Tensor.to", "builtins.float", "builtins.int",
	"builtins.bool", "builtins.print", "torch.mps.synchronize", "torch.accelerator.synchronize"), Call: func(p *audit.Pass, c *audit.Call) {
	if p.Target.Device == "cpu" || !batchLoop(p) || sometimes(p) {
		return
	}
	v := c.Self
	what := last(c.Path)
	switch c.Path {
	case "torch.Tensor.item", "torch.Tensor.tolist", "torch.Tensor.numpy", "torch.Tensor.cpu":
	case "torch.Tensor.to":
		where, _ := p.Destination(c)
		if !where.Surely(audit.OnCPU) {
			return
		}
	case "builtins.float", "builtins.int", "builtins.bool", "builtins.print":
		v = nil
		for _, a := range c.Args {
			if a.Kind == audit.Tensor {
				v = a
			}
		}
	case "torch.mps.synchronize", "torch.accelerator.synchronize":
		p.Report(c.At, audit.Finding{Sure: true, Text: what + "() waits for the GPU in every step", Hint: "leave it to the end of the epoch, or to measurements"})
		return
	default:
		return
	}
	if v == nil || v.Kind != audit.Tensor || !v.Where.May(audit.OnMPS) && v.Where != audit.Open || v.Path == "batch" {
		return
	}
	if v.Where == audit.Open && !training(p) {
		return
	}
	sure := v.Where.Surely(audit.OnMPS) && !v.Soft
	p.Report(c.At, audit.Finding{Sure: sure, Text: what + "() waits for the GPU in every step", Hint: "keep the tensor (detached), and read it once in a while"})
}, Kinds: []pyast.Kind{pyast.KindJoinedStr, pyast.KindIf}, Node: func(p *audit.Pass, n pyast.Node) {
	if len(p.Loops()) == 0 || p.Target.Device == "cpu" || !batchLoop(p) || sometimes(p) {
		return
	}
	switch n := n.(type) {
	case *pyast.JoinedStr:
		for _, part := range n.Values {
			if f, ok := part.(*pyast.FormattedValue); ok && readOnMPS(p, f.Value) {
				p.Report(f.Value, audit.Finding{Sure: true, Text: "writing a tensor out waits for the GPU in every step", Hint: "write it every hundredth step, or at the end of the epoch"})
			}
		}
	case *pyast.If:
		if c, ok := n.Test.(*pyast.Compare); ok && readOnMPS(p, c) {
			p.Report(c, audit.Finding{Sure: true, Text: "a test of a tensor waits for the GPU in every step", Hint: "keep the choice on the GPU (torch.where), or make it once in a while"})
		}
	}
}}

// readOnMPS reports a tensor that is surely on MPS.
func readOnMPS(p *audit.Pass, e pyast.Expr) bool {
	v := p.Value(e)
	return v.Kind == audit.Tensor && v.Where.Surely(audit.OnMPS) && !v.Soft && v.Path != "batch"
}

// training reports whether the loop around takes gradients: where a device is not known, only there a finding is worth a reader's time.
func training(p *audit.Pass) bool {
	for _, l := range own(p) {
		if f, ok := l.Node.(*pyast.For); ok {
			found := false
			for _, s := range f.Body {
				pyast.Walk(s, func(n pyast.Node) bool {
					if a, ok := n.(*pyast.Attribute); ok && a.Attr == "backward" {
						found = true
					}
					return !found
				})
			}
			if found {
				return true
			}
		}
	}
	return false
}

// sometimes reports whether the code runs in some of the steps only, as by `if i % 100 == 0`.
func sometimes(p *audit.Pass) bool {
	return p.Under(func(test pyast.Expr) bool {
		found := false
		pyast.Walk(test, func(n pyast.Node) bool {
			if b, ok := n.(*pyast.BinOp); ok && b.Op == pyast.Mod {
				found = true
			}
			if n, ok := n.(*pyast.Name); ok {
				name := strings.ToLower(n.ID)
				found = found || strings.Contains(name, "log") || strings.Contains(name, "verbose") || strings.Contains(name, "debug")
			}
			return !found
		})
		return found
	})
}

// CacheFlushInLoop finds caches that are emptied in every step.
var CacheFlushInLoop = &audit.Rule{Name: "cache-flush-in-loop", Title: "memory caches are emptied in every step", Severity: audit.Warning, Doc: audit.Doc{
	Why:    "empty_cache() waits for the GPU and gives cached memory back to the system, which the next step asks for again; gc.collect() walks through every object. Neither frees a tensor that is still held.",
	Bad:    "for x in torch.utils.data.DataLoader(data):\n    loss = model(x)\n    torch.mps.empty_cache()\n",
	Good:   "for x in torch.utils.data.DataLoader(data):\n    loss = model(x)\ntorch.mps.empty_cache()\n",
	Source: "aten/src/ATen/mps/MPSAllocator.mm, emptyCache",
}, Names: either(ending("empty_cache"), named("gc.collect")), Call: func(p *audit.Pass, c *audit.Call) {
	switch c.Path {
	case "torch.mps.empty_cache", "torch.cuda.empty_cache", "torch.accelerator.empty_cache", "torch.accelerator.memory.empty_cache", "gc.collect":
	default:
		return
	}
	if !batchLoop(p) || sometimes(p) || p.InHandler() {
		return
	}
	f := audit.Finding{Sure: true, Text: strings.TrimPrefix(c.Path, "torch.") + "() in every step: memory goes back to the system and is asked for again", Hint: "call it between phases at most"}
	if c.Path == "gc.collect" {
		f.Text = "gc.collect() in every step walks through every object, and frees no tensor that is still held"
	}
	if c.Path == "torch.cuda.empty_cache" && p.Target.Device != "cuda" {
		f.Severity = audit.Notice
		f.Text = "torch.cuda.empty_cache() does nothing without CUDA"
		f.Hint = "leave it out"
	}
	p.Report(c.At, f)
}}
