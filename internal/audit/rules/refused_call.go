package rules

import (
	"fmt"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/facts"
)

// RefusedCall is about calls whose arguments MPS refuses in the release aimed at.
var RefusedCall = &audit.Rule{Name: "refused-call", Title: "a call that MPS refuses as it is made",
	Severity: audit.Error, Doc: audit.Doc{
		Why: "MPS has the operator, and not for these arguments: a dtype, a number of dimensions, a mode that its kernel " +
			"refuses with an exception, or on which the process ends. The finding says with which text. " +
			"PYTORCH_ENABLE_MPS_FALLBACK does not help: it is for operators without a kernel.",
		Bad:    "x = torch.ones(5, 2, 3, device=\"mps\")\ntorch.nn.LSTM(3, 4, proj_size=2).to(\"mps\")(x)\n",
		Good:   "x = torch.ones(5, 2, 3, device=\"mps\")\ntorch.nn.Linear(4, 2).to(\"mps\")(torch.nn.LSTM(3, 4).to(\"mps\")(x)[0])\n",
		Source: "the facts: docs/knowledge.md, `assay ops --api NAME`",
	}, Calls: asks(mostly, mpsOnly(runRefusedCall))}

func runRefusedCall(p *audit.Pass, c *abstract.Call) {
	for _, m := range meets(p, c, facts.Refused, facts.Aborts) {
		if !m.shown {
			continue
		}
		severity := audit.Error
		if m.partly {
			severity = audit.Notice
		}
		what := "raises " + m.Error
		if m.Outcome == facts.Aborts {
			what = "ends the process"
		}
		text := fmt.Sprintf("%s%s on MPS in torch %s %s, since %s", shortName(c.Path), m.pass(), p.Target.Torch.Version,
			what, m.When)
		if m.Text != "" {
			text = fmt.Sprintf("%s%s on MPS in torch %s %s: %s", shortName(c.Path), m.pass(), p.Target.Torch.Version,
				what, varies.ReplaceAllString(m.Text, "…"))
		}
		p.Report(c.At, audit.Finding{Severity: severity, Sure: m.sure, Text: text + m.depends, Hint: m.hint(),
			Source: m.Source, Fact: m.Name})
		return // what it would meet after that, nobody gets to
	}
}
