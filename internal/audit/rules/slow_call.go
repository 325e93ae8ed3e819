package rules

import (
	"fmt"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/facts"
)

// SlowCall is about calls that MPS sends to the CPU by itself, or computes in a slower way.
var SlowCall = &audit.Rule{Name: "slow-call", Title: "a call that MPS sends to the CPU, or computes in a slower way",
	Severity: audit.Warning, Doc: audit.Doc{
		Why: "The operator has a kernel that copies to the CPU and back whatever PYTORCH_ENABLE_MPS_FALLBACK says, or one " +
			"that is slower than the one beside it. Nothing is raised and no value is wrong: the step is longer.",
		Bad:    "x = torch.randn(4, 4, device=\"mps\")\ntorch.linalg.svd(x)   # under a release that sends it to the CPU\n",
		Good:   "x = torch.randn(4, 4)\ntorch.linalg.svd(x)\n",
		Source: "the facts: docs/knowledge.md, `assay ops --api NAME`",
	}, Calls: asks(mostly, mpsOnly(runSlowCall))}

func runSlowCall(p *audit.Pass, c *abstract.Call) {
	for _, m := range meets(p, c, facts.CPU, facts.Slow) {
		if !m.shown {
			continue
		}
		severity, what := audit.Warning, "goes to the CPU by itself"
		if m.partly {
			severity = audit.Notice
		}
		if m.Outcome == facts.Slow {
			severity, what = audit.Notice, "is slower than it could be"
		}
		text := fmt.Sprintf("%s%s %s on MPS in torch %s: %s", shortName(c.Path), m.pass(), what,
			p.Target.Torch.Version, m.When)
		p.Report(c.At, audit.Finding{Severity: severity, Sure: m.sure, Text: text + m.depends, Hint: m.Remedy,
			Source: m.Source, Fact: m.Name})
		return
	}
}
