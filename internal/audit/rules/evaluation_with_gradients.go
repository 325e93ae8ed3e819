package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// EvaluationWithGradients finds evaluation loops that keep graphs.
var EvaluationWithGradients = &audit.Rule{Name: "evaluation-with-gradients", Title: "evaluation builds graphs that nobody uses", Severity: audit.Warning, Doc: audit.Doc{
	Why:  "After model.eval() PyTorch still keeps what a backward pass would need: evaluation takes the memory of training. torch.no_grad() or torch.inference_mode() leaves it out.",
	Bad:  "def evaluate(model, loader):\n    model.eval()\n    for x, y in loader:\n        out = model(x)\n",
	Good: "@torch.no_grad()\ndef evaluate(model, loader):\n    model.eval()\n    for x, y in loader:\n        out = model(x)\n",
}, Calls: asks(either(ending("eval", "train", "backward", "set_grad_enabled", "requires_grad_", "__call__"), named("torch.autograd.grad")), func(p *audit.Pass, c *abstract.Call) {
	name := last(c.Path)
	if !p.AtHome() || p.Func() == nil {
		return
	}
	l := audit.Note(p, newLog)
	switch {
	case name == "eval" && (c.Path == "torch.nn.Module.eval" || c.Path == "?.eval") && len(c.Args) == 0:
		l.add(p, c, true)
	case name == "train" && (c.Path == "torch.nn.Module.train" || c.Path == "?.train"), name == "backward", name == "set_grad_enabled", name == "requires_grad_":
		l.add(p, c, true)
	case c.Path == "torch.autograd.grad":
		l.calls = append(l.calls, seen{c.At, p.Func(), "backward", true})
	case strings.HasSuffix(c.Path, "__call__") && c.Self != nil && c.Self.Kind == abstract.Module && p.In("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled") == nil && batchLoop(p):
		if c.Self.Path == "" || !strings.HasPrefix(c.Self.Path, "torch.nn.") || c.Self.Path == "torch.nn.Sequential" {
			l.calls = append(l.calls, seen{c.At, p.Func(), "model", c.Self.Soft})
		}
	}
}), File: func(p *audit.Pass) {
	l := audit.Note(p, newLog)
	told := map[*abstract.Func]bool{}
	for _, s := range l.calls {
		if s.name != "model" || told[s.fn] || len(l.in(s.fn, "eval")) == 0 || len(l.in(s.fn, "train", "backward", "set_grad_enabled", "requires_grad_")) > 0 {
			continue
		}
		if l.in(s.fn, "eval")[0].at.Pos() > s.at.Pos() {
			continue
		}
		told[s.fn] = true
		p.Report(s.at, audit.Finding{Sure: false, Text: "the model is in evaluation, and graphs are kept for a backward pass", Hint: "put torch.no_grad() or torch.inference_mode() around it"})
	}
}}
