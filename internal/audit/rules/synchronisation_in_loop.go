package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
	"slices"
)

// SynchronisationInLoop finds calls that make the CPU wait for the GPU in a loop over batches.
var SynchronisationInLoop = &audit.Rule{Name: "synchronisation-in-loop",
	Title: "the CPU waits for the GPU in every step", Severity: audit.Warning, Doc: audit.Doc{
		Why: "MPS runs behind the program: the CPU prepares the next kernels while the GPU works. `.item()`, `.cpu()`, " +
			"`.numpy()`, `.tolist()`, `float()` and printing of a tensor wait until all is done, in every step. " +
			"Keep the tensor, and read it every hundredth step or at the end of the epoch. `assay run` measures what " +
			"each costs.",
		Bad: "for x in torch.utils.data.DataLoader(data):\n    loss = model(x.to(\"mps\")).mean()\n    total += " +
			"loss.item()\n",
		Good: "for x in torch.utils.data.DataLoader(data):\n    loss = model(x.to(\"mps\")).mean()\n    total += " +
			"loss.detach()\nprint(total.item())\n",
		Source: "aten/src/ATen/native/mps: a copy to the CPU commits the stream and waits",
	}, Calls: []audit.Ask{
		on(named("torch.Tensor.item", "torch.Tensor.tolist", "torch.Tensor.numpy", "torch.Tensor.cpu"),
			eachStep(func(p *audit.Pass, c *abstract.Call) { reportRead(p, c, c.Self) })),
		on(named("torch.Tensor.to"), eachStep(func(p *audit.Pass, c *abstract.Call) {
			if where, _ := p.Destination(c); where.Surely(abstract.OnCPU) {
				reportRead(p, c, c.Self)
			}
		})),
		on(named("builtins.float", "builtins.int", "builtins.bool", "builtins.print"),
			eachStep(func(p *audit.Pass, c *abstract.Call) {
				for _, a := range slices.Backward(c.Args) {
					if a.Kind == abstract.Tensor {
						reportRead(p, c, a)
						return
					}
				}
			})),
		on(named("torch.mps.synchronize", "torch.accelerator.synchronize"),
			eachStep(func(p *audit.Pass, c *abstract.Call) {
				p.Report(c.At, audit.Finding{Sure: true, Text: last(c.Path) + "() waits for the GPU in every step",
					Hint: "leave it to the end of the epoch, or to measurements"})
			})),
	}, Kinds: []pyast.Kind{pyast.KindJoinedStr, pyast.KindIf}, Node: waitingNode}

// eachStep makes a rule look at what runs in every step of a loop over batches.
func eachStep(at audit.Look) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) {
		if p.Target.Device != "cpu" && batchLoop(p) && !sometimes(p) {
			at(p, c)
		}
	}
}

// reportRead reports a tensor that a call reads on the CPU.
func reportRead(p *audit.Pass, c *abstract.Call, v *abstract.Value) {
	if v == nil || v.Kind != abstract.Tensor || !v.Where.May(abstract.OnMPS) && v.Where != abstract.Open ||
		v.Origin == abstract.Batch {
		return
	}
	if v.Where == abstract.Open && !training(p) {
		return
	}
	sure := v.Where.Surely(abstract.OnMPS) && !v.Soft
	p.Report(c.At, audit.Finding{Sure: sure, Text: last(c.Path) + "() waits for the GPU in every step",
		Hint: "keep the tensor (detached), and read it once in a while"})
}

func waitingNode(p *audit.Pass, n pyast.Node) {
	if len(p.Loops()) == 0 || p.Target.Device == "cpu" || !batchLoop(p) || sometimes(p) {
		return
	}
	switch n := n.(type) {
	case *pyast.JoinedStr:
		for _, part := range n.Values {
			if f, ok := part.(*pyast.FormattedValue); ok && readOnMPS(p, f.Value) {
				p.Report(f.Value, audit.Finding{Sure: true,
					Text: "writing a tensor out waits for the GPU in every step",
					Hint: "write it every hundredth step, or at the end of the epoch"})
			}
		}
	case *pyast.If:
		if c, ok := n.Test.(*pyast.Compare); ok && readOnMPS(p, c) {
			p.Report(c, audit.Finding{Sure: true, Text: "a test of a tensor waits for the GPU in every step",
				Hint: "keep the choice on the GPU (torch.where), or make it once in a while"})
		}
	}
}

// readOnMPS reports a tensor that is surely on MPS.
func readOnMPS(p *audit.Pass, e pyast.Expr) bool {
	v := p.Value(e)
	return v.Kind == abstract.Tensor && v.Where.Surely(abstract.OnMPS) && !v.Soft && v.Origin != abstract.Batch
}
