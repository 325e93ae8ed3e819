package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// SharedGenerator finds random generators that every worker gets a copy of.
var SharedGenerator = &audit.Rule{Name: "generator-shared-by-workers",
	Title: "every worker draws the same random numbers", Severity: audit.Warning, Doc: audit.Doc{
		Why: "A generator that a dataset makes in __init__ goes to every worker as a copy in the same state: all workers " +
			"draw the same numbers, and the same again in every epoch. " +
			"PyTorch seeds torch, random and numpy.random in each worker, but not generators of one's own.",
		Bad: "class Noisy(torch.utils.data.Dataset):\n    def __init__(self):\n        self.rng = " +
			"np.random.default_rng(0)\n    def __getitem__(self, i):\n        return self.rng.normal()\n",
		Good: "class Noisy(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        return " +
			"np.random.default_rng(i).normal()\n",
		Source: "torch/utils/data/_utils/worker.py",
	}, Kinds: []pyast.Kind{pyast.KindClassDef}, Node: func(p *audit.Pass, n pyast.Node) {
		v := p.Value(&pyast.Name{ID: n.(*pyast.ClassDef).Name})
		if v.Kind != abstract.ClassDef || v.Class.Node != n || !v.Class.Derives("torch.utils.data.Dataset") {
			return
		}
		init, get := v.Class.Method("__init__"), v.Class.Method("__getitem__")
		if init == nil || get == nil || init.Node == nil || get.Node == nil || init.Module != get.Module ||
			init.Class != v.Class {
			return
		}
		for _, s := range init.Node.Body {
			a, ok := s.(*pyast.Assign)
			if !ok || len(a.Targets) != 1 {
				continue
			}
			c, ok := a.Value.(*pyast.Call)
			target, isAttr := a.Targets[0].(*pyast.Attribute)
			if !ok || !isAttr {
				continue
			}
			switch f := p.Value(c.Func); f.Path {
			case "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator", "random.Random":
				used := false
				for _, s := range get.Node.Body {
					pyast.Walk(s, func(n pyast.Node) bool {
						if u, ok := n.(*pyast.Attribute); ok && u.Attr == target.Attr {
							used = true
						}
						return true
					})
				}
				if used {
					p.Report(a, audit.Finding{Sure: false,
						Text: "each worker gets a copy of this generator in the same state, and draws the same numbers",
						Hint: "make it in the worker (worker_init_fn), or of the index"})
				}
			}
		}
	}}
