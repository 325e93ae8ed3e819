package rules

import (
	"fmt"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// DistributedOnMPS finds collectives of tensors on MPS, and what needs them.
var DistributedOnMPS = &audit.Rule{Name: "distributed-on-mps", Title: "a collective of tensors on MPS",
	Claims: []string{"17"}, Severity: audit.Error, Doc: audit.Doc{
		Why: "No backend of torch.distributed takes tensors on MPS: gloo, the one of macOS, takes those of the CPU. " +
			"DistributedDataParallel and FSDP are made of collectives. Under PYTORCH_ENABLE_MPS_FALLBACK=1 and " +
			"PyTorch up to 2.10 it is worse than an error: a collective works on a copy, and the tensor stays as it is.",
		Bad: "torch.distributed.init_process_group(\"gloo\")\nmodel = torch.nn.Linear(3, 3).to(\"mps\")\n" +
			"model = torch.nn.parallel.DistributedDataParallel(model)\n",
		Good: "torch.distributed.init_process_group(\"gloo\")\n" +
			"model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))   # on the CPU\n",
		Source: "torch/distributed/distributed_c10d.py; pytorch issues 160732, 173808",
	}, Calls: []audit.Ask{
		on(both(under("torch.nn.parallel.", "torch.distributed."),
			ending("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard")), mpsOnly(wrappedOnMPS)),
		on(both(under("torch.distributed."), ending("all_reduce", "broadcast", "all_gather", "reduce", "gather",
			"scatter", "reduce_scatter", "all_to_all", "send", "recv", "isend", "irecv", "all_gather_into_tensor",
			"reduce_scatter_tensor", "all_to_all_single")), mpsOnly(collectiveOnMPS)),
	}}

func wrappedOnMPS(p *audit.Pass, c *abstract.Call) {
	v := c.Arg(0, "module")
	if v == nil || v.Kind != abstract.Module || !v.Where.May(abstract.OnMPS) {
		return
	}
	f := audit.Finding{Sure: v.Where.Surely(abstract.OnMPS) && !v.Soft,
		Text: fmt.Sprintf("%s of a model on MPS: no backend of torch.distributed takes its gradients", last(c.Path)),
		Hint: "train in one process; or keep the model on the CPU, or MLX's mx.distributed for several Macs"}
	if !f.Sure {
		f.Text = strings.Replace(f.Text, "on MPS", "that may be on MPS", 1)
	}
	p.Report(c.At, f)
}

func collectiveOnMPS(p *audit.Pass, c *abstract.Call) {
	if !c.Tensors().Surely(abstract.OnMPS) {
		return
	}
	f := audit.Finding{Sure: true, Text: last(c.Path) + " of a tensor on MPS: no backend of torch.distributed takes it",
		Hint: "reduce a copy on the CPU with gloo, and copy the result back"}
	if !p.Target.Since("2.11.0") {
		f.Text += "; with PYTORCH_ENABLE_MPS_FALLBACK=1 it is left as it is, without an error"
	}
	p.Report(c.At, f)
}
