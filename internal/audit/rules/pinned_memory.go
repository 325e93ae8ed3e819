package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// PinnedMemory finds pinned memory, which MPS does not use.
var PinnedMemory = &audit.Rule{Name: "pinned-memory", Title: "pinned memory, which MPS does not use",
	Claims: []string{"x7"}, Severity: audit.Notice, Doc: audit.Doc{
		Why: "Memory of a Mac is one for CPU and GPU. A loader with pin_memory=True warns and goes on without; it is " +
			"of no use there.",
		Bad:    "loader = DataLoader(data, pin_memory=True)\n",
		Good:   "loader = DataLoader(data, pin_memory=torch.cuda.is_available())\n",
		Source: "torch/utils/data/dataloader.py",
	}, Fixable: true, Calls: []audit.Ask{
		on(named(dataLoader), mpsOnly(noCUDA(pinningLoader))),
		on(named("torch.Tensor.pin_memory"), mpsOnly(noCUDA(func(p *audit.Pass, c *abstract.Call) {
			if c.Self != nil && c.Self.Where.Surely(abstract.OnCPU) && holds(p, "pin-memory") {
				p.Report(c.At, audit.Finding{Severity: audit.Error, Sure: !c.Self.Soft,
					Text: "pin_memory() raises RuntimeError on a Mac",
					Hint: "leave it out: CPU and GPU share memory", Source: "assay ops aten::_pin_memory"})
			}
		}))),
	}}

func pinningLoader(p *audit.Pass, c *abstract.Call) {
	k := keyword(c, "pin_memory")
	if k == nil || !isTrue(c.Arg(-1, "pin_memory")) {
		return
	}
	f := audit.Finding{Sure: true, Text: "pinned memory is not used on MPS: the loader warns and goes on without",
		Hint: "write pin_memory=torch.cuda.is_available()"}
	if v := p.Value(&pyast.Name{ID: "torch"}); v.Kind == abstract.API && v.Path == "torch" {
		f.Fix = &audit.Fix{Safety: audit.Safe, Title: "pin where there is CUDA",
			Edits: []audit.Edit{replace(k.Value, "torch.cuda.is_available()")}}
	}
	p.Report(k, f)
}
