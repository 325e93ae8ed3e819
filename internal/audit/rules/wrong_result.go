package rules

import (
	"assay/internal/facts"
	"fmt"
	"strings"

	"assay/internal/abstract"
	"assay/internal/atlas"
	"assay/internal/audit"
)

// WrongResult is about operators that compute wrong values on MPS in the release aimed at.
var WrongResult = &audit.Rule{Name: "wrong-result", Title: "an operator with a known wrong result on MPS",
	Severity: audit.Warning, Doc: audit.Doc{
		Why: "The operator has a bug on MPS in the release aimed at: no error, wrong values. Most show only under a " +
			"condition, which the finding names; the " +
			"audit cannot see values, so that the finding is a note that is suspected. Where the arguments show the " +
			"condition it is a warning.",
		Bad:    "mask = torch.cumsum(x, dim=0)   # under a release whose cumsum is wrong\n",
		Good:   "mask = torch.cumsum(x.cpu(), dim=0).to(x.device)\n",
		Source: "the atlas's table of known bugs: `assay ops NAME`",
	}, Calls: asks(under("torch."), mpsOnly(runWrongResult))}

func runWrongResult(p *audit.Pass, c *abstract.Call) {
	path := strings.TrimSuffix(c.Path, ".__call__")
	where := c.Tensors()
	if !where.Surely(abstract.OnMPS) {
		return
	}
	forward, _, ok := p.Operators(path)
	if !ok {
		return
	}
	for _, n := range forward {
		if n.Sometimes || everywhere[n.Operator] {
			continue
		}
		for _, b := range facts.Load().Ask(p.Target.Atlas, facts.Question{Torch: p.Target.Torch.Version,
			Operators: []atlas.Call{{Operator: n.Operator}}, Outcomes: []facts.Outcome{facts.Wrong}}) {
			at := c.At
			severity, sure := audit.Notice, false
			if meets(c, b.Name) { // shown without --all; sure where the row says when it ended
				severity, sure = audit.Warning, (b.Until != "" || b.Fixed != "") && b.MacOS == "" &&
					!(c.Self != nil && c.Self.Soft)
			}
			p.Report(at, audit.Finding{Severity: severity, Sure: sure,
				Text: fmt.Sprintf("%s on MPS in torch %s: %s, when %s", last(path), p.Target.Torch.Version, b.Wrong,
					b.When),
				Hint: "compare with the CPU where the condition may hold", Source: b.Source})
		}
	}
}
