package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// EvaluationWithGradients finds evaluation loops that keep graphs.
var EvaluationWithGradients = &audit.Rule{Name: "evaluation-with-gradients",
	Title: "evaluation builds graphs that nobody uses", Severity: audit.Warning, Doc: audit.Doc{
		Why: "After model.eval() PyTorch still keeps what a backward pass would need: evaluation takes the memory of " +
			"training. torch.no_grad() or torch.inference_mode() leaves it out.",
		Bad: "def evaluate(model, loader):\n    model.eval()\n    for x, y in loader:\n        out = model(x)\n",
		Good: "@torch.no_grad()\ndef evaluate(model, loader):\n    model.eval()\n    for x, y in loader:\n        out = " +
			"model(x)\n",
	}, Calls: []audit.Ask{
		on(named("torch.nn.Module.eval", "?.eval"), func(p *audit.Pass, c *abstract.Call) {
			if len(c.Args) == 0 {
				noteInFunction(p, c)
			}
		}),
		on(named("torch.nn.Module.train", "?.train"), noteInFunction),
		on(ending("backward", "set_grad_enabled", "requires_grad_"), noteInFunction),
		on(named("torch.autograd.grad"), func(p *audit.Pass, c *abstract.Call) {
			if l := logInFunction(p); l != nil {
				l.calls = append(l.calls, kept{c.At, p.Func(), "backward", true})
			}
		}),
		on(ending("__call__"), func(p *audit.Pass, c *abstract.Call) {
			l := logInFunction(p)
			if l == nil || c.Self == nil || c.Self.Kind != abstract.Module || !batchLoop(p) ||
				p.In("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled") != nil {
				return
			}
			if !strings.HasPrefix(c.Self.Path, "torch.nn.") || c.Self.Path == "torch.nn.Sequential" {
				l.calls = append(l.calls, kept{c.At, p.Func(), "model", c.Self.Soft})
			}
		}),
	}, File: func(p *audit.Pass) {
		l := audit.Note(p, newLog)
		reported := map[*abstract.Func]bool{}
		for _, s := range l.calls {
			if s.name != "model" || reported[s.fn] || len(l.in(s.fn, "eval")) == 0 ||
				len(l.in(s.fn, "train", "backward", "set_grad_enabled", "requires_grad_")) > 0 {
				continue
			}
			if l.in(s.fn, "eval")[0].at.Pos() > s.at.Pos() {
				continue
			}
			reported[s.fn] = true
			p.Report(s.at, audit.Finding{Sure: false,
				Text: "the model is in evaluation, and graphs are kept for a backward pass",
				Hint: "put torch.no_grad() or torch.inference_mode() around it"})
		}
	}}

// logInFunction is the rule's log where a function of the file that is checked is looked at; nil elsewhere.
func logInFunction(p *audit.Pass) *log {
	if !p.AtHome() || p.Func() == nil {
		return nil
	}
	return audit.Note(p, newLog)
}

func noteInFunction(p *audit.Pass, c *abstract.Call) {
	if l := logInFunction(p); l != nil {
		l.add(p, c, true)
	}
}
