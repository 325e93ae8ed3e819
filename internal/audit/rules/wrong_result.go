package rules

import (
	"fmt"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/facts"
)

// WrongResult is about operators that compute wrong values on MPS in the release aimed at.
var WrongResult = &audit.Rule{Name: "wrong-result", Title: "an operator with a known wrong result on MPS",
	Severity: audit.Error, Doc: audit.Doc{
		Why: "The operator has a bug on MPS in the release aimed at: no error, wrong values. Where the arguments show the " +
			"condition, or there is none, the finding is sure. Where a function is known for it and its arguments " +
			"do not tell, as with the gradients of R-CNN, it is a warning that is suspected; all other conditions, " +
			"which only values tell, make a note that is suspected.",
		Bad:    "x = torch.rand(1, 1, 7, 7, device=\"mps\")\ntorch.nn.functional.avg_pool2d(x, 2, ceil_mode=True)   # up to torch 2.8\n",
		Good:   "x = torch.rand(1, 1, 7, 7, device=\"mps\")\ntorch.nn.functional.avg_pool2d(x, 2)\n",
		Source: "the facts: docs/knowledge.md, `assay ops --api NAME`",
	}, Calls: asks(mostly, mpsOnly(runWrongResult))}

// everywhere are operators that every program has: a note at each would hide the rest.
var everywhere = map[string]bool{"aten::copy_": true, "aten::_to_copy": true, "aten::fill_.Scalar": true,
	"aten::mul.Tensor": true, "aten::add.Tensor": true,
	"aten::linear": true, "aten::addmm": true, "aten::mm": true, "aten::bmm": true, "aten::clone": true,
	"aten::sum": true, "aten::mean": true, "aten::matmul": true}

func runWrongResult(p *audit.Pass, c *abstract.Call) {
	say := func(f *facts.Fact, pass, depends string, severity audit.Severity, sure bool) {
		p.Report(c.At, audit.Finding{Severity: severity, Sure: sure,
			Text: fmt.Sprintf("%s%s on MPS in torch %s: %s, when %s", shortName(c.Path), pass, p.Target.Torch.Version,
				f.Wrong, f.When) + depends,
			Hint: met{Fact: f}.hint(), Source: f.Source, Fact: f.Name})
	}
	told := map[string]bool{}
	for _, m := range meets(p, c, facts.Wrong) {
		severity := audit.Error
		switch {
		case m.partly:
			severity = audit.Notice
		case !m.sure:
			severity = audit.Warning
		}
		told[m.Name] = true
		say(m.Fact, m.pass(), m.depends, severity, m.sure)
	}
	if !c.Tensors().Surely(abstract.OnMPS) {
		return
	}
	for _, s := range p.Said(trimCall(c.Path)) { // whatever else this function is known for
		if s.Outcome == facts.Wrong && s.If == nil && s.Operator != "" && !s.Sometimes && !s.Backward &&
			s.Direction != "backward" && !everywhere[s.Operator] && !told[s.Name] {
			say(s.Fact, "", "", audit.Notice, false)
		}
	}
}
