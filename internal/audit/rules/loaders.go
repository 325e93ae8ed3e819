package rules

import (
	"strings"

	"assay/internal/audit"
)

// workers is the number of worker processes that a loader is told to have; ok is false where the source does not say.
func workers(c *audit.Call) (n float64, soft, ok bool) {
	v := c.Arg(5, "num_workers")
	if v == nil || v.Kind != audit.Number {
		return 0, false, false
	}
	return v.Num, v.Soft, v.Text != "" || v.Soft
}

// guarded reports that processes may start here, or that it is not known from where this is called.
func guarded(p *audit.Pass) bool {
	return p.Target.Device == "cuda" || p.InMain() || !p.AtHome() || strings.HasSuffix(p.Src.Path, ".ipynb") || atCall(p)
}

// atCall reports whether a function is being interpreted that nobody calls: it is not known from where.
func atCall(p *audit.Pass) bool { return p.Func() != nil && !p.FromTop() }
