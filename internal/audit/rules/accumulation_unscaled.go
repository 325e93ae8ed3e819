package rules

import (
	"strings"

	"assay/internal/audit"
	"assay/internal/pyast"
)

// AccumulationUnscaled finds gradients that are accumulated over batches without dividing the loss.
var AccumulationUnscaled = &audit.Rule{Name: "accumulation-unscaled",
	Title: "gradients accumulate over batches, and the loss is not divided", Severity: audit.Warning, Doc: audit.Doc{
		Why: "When optimizer.step() runs every n-th batch, gradients of n batches add up: without loss / n the step is " +
			"n times as large as for one large batch.",
		Bad: "for i, x in enumerate(loader):\n    loss = model(x).mean()\n    loss.backward()\n    if (i + 1) % 4 == " +
			"0:\n        optimizer.step()\n        optimizer.zero_grad()\n",
		Good: "for i, x in enumerate(loader):\n    loss = model(x).mean() / 4\n    loss.backward()\n    if (i + 1) % 4 " +
			"== 0:\n        optimizer.step()\n        optimizer.zero_grad()\n",
	}, Kinds: []pyast.Kind{pyast.KindFor}, Node: func(p *audit.Pass, n pyast.Node) {
		loop := n.(*pyast.For)
		var backward pyast.Node
		guarded, divided := false, false
		var walk func(body []pyast.Stmt, inTest bool)
		walk = func(body []pyast.Stmt, inTest bool) {
			for _, s := range body {
				switch s := s.(type) {
				case *pyast.If:
					modulo := false
					pyast.Walk(s.Test, func(n pyast.Node) bool {
						if b, ok := n.(*pyast.BinOp); ok && b.Op == pyast.Mod {
							modulo = true
						}
						return true
					})
					walk(s.Body, inTest || modulo)
					walk(s.Orelse, inTest)
					continue
				case *pyast.For:
					continue // its own
				case *pyast.With:
					walk(s.Body, inTest)
					continue
				case *pyast.AugAssign:
					divided = divided || s.Op == pyast.Div || s.Op == pyast.Mult
				}
				pyast.Walk(s, func(n pyast.Node) bool {
					switch n := n.(type) {
					case *pyast.BinOp:
						if n.Op == pyast.Div || n.Op == pyast.Mult && strings.Contains(p.Text(n), "/") {
							divided = true
						}
					case *pyast.Call:
						a, ok := n.Func.(*pyast.Attribute)
						if !ok {
							break
						}
						switch a.Attr {
						case "backward":
							if !inTest && backward == nil {
								backward = n
							}
						case "step":
							text := strings.ToLower(p.Text(a.Value))
							if strings.Contains(text, "optim") || strings.Contains(text, "scaler") || text == "opt" {
								guarded = guarded || inTest
								if !inTest {
									divided = true // it steps at every batch
								}
							}
						case "div", "div_", "mean_over", "accumulate":
							divided = true
						}
					}
					return true
				})
			}
		}
		walk(loop.Body, false)
		if backward != nil && guarded && !divided {
			p.Report(backward, audit.Finding{Sure: false,
				Text: "the optimizer steps once in several batches, and the loss is not divided by their number",
				Hint: "divide it before backward: (loss / n).backward()"})
		}
	}}
