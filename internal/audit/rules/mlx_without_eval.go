package rules

import (
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// MLXWithoutEval finds training loops whose graphs are never evaluated.
var MLXWithoutEval = &audit.Rule{Name: "mlx-without-eval", Title: "an MLX loop that never evaluates", Severity: audit.Warning, Doc: audit.Doc{
	Why:    "MLX is lazy: optimizer.update records what to compute, and nothing runs before mx.eval, or something reads a value. Without it the graph grows from step to step.",
	Bad:    "import mlx.core as mx\nimport mlx.optimizers as optim\nopt = optim.SGD(0.1)\nfor x in batches:\n    opt.update(model, grads)\n",
	Good:   "import mlx.core as mx\nimport mlx.optimizers as optim\nopt = optim.SGD(0.1)\nfor x in batches:\n    opt.update(model, grads)\n    mx.eval(model.parameters(), opt.state)\n",
	Source: "MLX documentation, Lazy evaluation",
}, Calls: asks(either(under("mlx."), ending("update", "item", "tolist")), func(p *audit.Pass, c *abstract.Call) {
	if !p.AtHome() || !p.Imported("mlx") {
		return
	}
	switch {
	case len(own(p)) > 0 && last(c.Path) == "update" && (strings.HasPrefix(c.Path, "mlx.optimizers.") || c.Path == "?.update" && len(c.Args) == 2):
		audit.Note(p, newLog).calls = append(audit.Note(p, newLog).calls, seen{c.At, p.Func(), "update", strings.HasPrefix(c.Path, "mlx.")})
	case c.Path == "mlx.core.eval", c.Path == "mlx.core.async_eval", last(c.Path) == "item", last(c.Path) == "tolist", c.Path == "mlx.core.compile",
		c.Path == "builtins.float", c.Path == "builtins.print", c.Path == "numpy.array", c.Path == "numpy.asarray":
		audit.Note(p, newLog).calls = append(audit.Note(p, newLog).calls, seen{c.At, p.Func(), "eval", true})
	}
}), File: func(p *audit.Pass) {
	l := audit.Note(p, newLog)
	for _, s := range l.calls {
		if s.name == "update" && len(l.in(s.fn, "eval")) == 0 {
			elsewhere := slices.ContainsFunc(l.calls, func(e seen) bool { return e.name == "eval" }) // in a function that the loop may call
			p.Report(s.at, audit.Finding{Sure: s.sure && !elsewhere, Text: "nothing in this loop evaluates: the graph grows with every step", Hint: "call mx.eval(model.parameters(), optimizer.state) once a step"})
			return
		}
	}
}}
