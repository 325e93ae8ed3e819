package rules

import (
	"strings"

	"assay/internal/audit"
	"assay/internal/pyast"
)

// GeneratorManager finds context managers that yield again after an error.
var GeneratorManager = &audit.Rule{Name: "context-manager-yields-twice",
	Title:  "a context manager that yields again after an error",
	Claims: []string{"11"}, Severity: audit.Error, Doc: audit.Doc{
		Why: "A generator under @contextmanager may yield once. When the block raises and the generator catches that and " +
			"yields again, contextlib raises RuntimeError " +
			"(\"generator didn't stop after throw()\"): the block is not run a second time. A retry is a loop around the block.",
		Bad: "@contextlib.contextmanager\ndef retry():\n    try:\n        yield\n    except RuntimeError:\n        " +
			"torch.mps.empty_cache()\n        yield\n",
		Good: "def retry(step):\n    try:\n        return step()\n    except RuntimeError:\n        " +
			"torch.mps.empty_cache()\n        return step()\n",
		Source: "CPython, Lib/contextlib.py",
	}, Kinds: []pyast.Kind{pyast.KindFunctionDef}, Node: func(p *audit.Pass, n pyast.Node) {
		f := n.(*pyast.FunctionDef)
		manager := false
		for _, d := range f.DecoratorList {
			manager = manager || strings.HasSuffix(p.Text(d), "contextmanager")
		}
		if !manager {
			return
		}
		for _, s := range f.Body {
			pyast.Walk(s, func(n pyast.Node) bool {
				t, ok := n.(*pyast.Try)
				if !ok {
					return true
				}
				if yields(t.Body) == nil {
					return true
				}
				for _, h := range t.Handlers {
					if y := yields(h.Body); y != nil {
						p.Report(y, audit.Finding{Sure: true,
							Text: "after an error in the block this yields a second " +
								"time: RuntimeError, and the block is not run again",
							Hint: "put the retry into a loop around the block"})
					}
				}
				return true
			})
		}
	}}

// yields is the first yield among statements, nil if there is none.
func yields(body []pyast.Stmt) (found pyast.Node) {
	for _, s := range body {
		pyast.Walk(s, func(n pyast.Node) bool {
			switch n.Kind() {
			case pyast.KindYield, pyast.KindYieldFrom:
				if found == nil {
					found = n
				}
			case pyast.KindFunctionDef, pyast.KindLambda, pyast.KindClassDef:
				return false
			}
			return found == nil
		})
	}
	return found
}
