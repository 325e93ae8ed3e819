package rules

import (
	"slices"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// MLXWithoutEval finds training loops whose graphs are never evaluated.
var MLXWithoutEval = &audit.Rule{Name: "mlx-without-eval", Title: "an MLX loop that never evaluates",
	Severity: audit.Warning, Doc: audit.Doc{
		Why: "MLX is lazy: optimizer.update records what to compute, and nothing runs before mx.eval, or something " +
			"reads a value. Without it the graph grows from step to step.",
		Bad: "import mlx.core as mx\nimport mlx.optimizers as optim\nopt = optim.SGD(0.1)\nfor x in batches:\n    " +
			"opt.update(model, grads)\n",
		Good: "import mlx.core as mx\nimport mlx.optimizers as optim\nopt = optim.SGD(0.1)\nfor x in batches:\n    " +
			"opt.update(model, grads)\n    mx.eval(model.parameters(), opt.state)\n",
		Source: "MLX documentation, Lazy evaluation",
	}, Calls: []audit.Ask{
		on(both(under("mlx.optimizers."), ending("update")), func(p *audit.Pass, c *abstract.Call) {
			if len(own(p)) > 0 {
				noteMLX(p, c, "update", true)
			}
		}),
		on(named("?.update"), func(p *audit.Pass, c *abstract.Call) {
			if len(own(p)) > 0 && len(c.Args) == 2 {
				noteMLX(p, c, "update", false)
			}
		}),
		on(either(named("mlx.core.eval", "mlx.core.async_eval", "mlx.core.compile"), ending("item", "tolist")),
			func(p *audit.Pass, c *abstract.Call) {
				noteMLX(p, c, "eval", true)
			}),
	}, File: func(p *audit.Pass) {
		l := audit.Note(p, newLog)
		for _, s := range l.calls {
			if s.name == "update" && len(l.in(s.fn, "eval")) == 0 {
				// in a function that the loop may call
				elsewhere := slices.ContainsFunc(l.calls, func(e kept) bool { return e.name == "eval" })
				p.Report(s.at, audit.Finding{Sure: s.sure && !elsewhere,
					Text: "nothing in this loop evaluates: the graph grows with every step",
					Hint: "call mx.eval(model.parameters(), optimizer.state) once a step"})
				return
			}
		}
	}}

func noteMLX(p *audit.Pass, c *abstract.Call, as string, sure bool) {
	if p.AtHome() && p.Imported("mlx") {
		l := audit.Note(p, newLog)
		l.calls = append(l.calls, kept{c.At, p.Func(), as, sure})
	}
}
