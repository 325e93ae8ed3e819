package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
	"strings"
)

// own are the loops of the function around the Pass, the innermost last.
func own(p *audit.Pass) []abstract.Loop {
	loops := p.Loops()
	for i, l := range loops {
		if l.Func == p.Func() {
			return loops[i:]
		}
	}
	return nil
}

// inner reports whether the Pass is in a loop over batches: over a loader, or one that takes optimizer steps.
func batchLoop(p *audit.Pass) bool {
	for _, l := range p.Loops() {
		if l.Over != nil && overLoader(l.Over) {
			return true
		}
	}
	return false
}

// training reports whether the loop around takes gradients: where a device is not known, only there a finding is worth
// a reader's time.
func training(p *audit.Pass) bool {
	for _, l := range own(p) {
		if f, ok := l.Node.(*pyast.For); ok {
			found := false
			for _, s := range f.Body {
				pyast.Walk(s, func(n pyast.Node) bool {
					if a, ok := n.(*pyast.Attribute); ok && a.Attr == "backward" {
						found = true
					}
					return !found
				})
			}
			if found {
				return true
			}
		}
	}
	return false
}

// sometimes reports whether the code runs in some of the steps only, as by `if i % 100 == 0`.
func sometimes(p *audit.Pass) bool {
	return p.Under(func(test pyast.Expr) bool {
		found := false
		pyast.Walk(test, func(n pyast.Node) bool {
			if b, ok := n.(*pyast.BinOp); ok && b.Op == pyast.Mod {
				found = true
			}
			if n, ok := n.(*pyast.Name); ok {
				name := strings.ToLower(n.ID)
				found = found || strings.Contains(name, "log") || strings.Contains(name, "verbose") ||
					strings.Contains(name, "debug")
			}
			return !found
		})
		return found
	})
}
