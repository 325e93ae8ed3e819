package rules

import (
	"bytes"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// workers is the number of worker processes that a loader is told to have; ok is false where the source does not say.
func workers(c *abstract.Call) (n float64, soft, ok bool) {
	v := c.Arg(5, "num_workers")
	if v == nil || v.Kind != abstract.Number {
		return 0, false, false
	}
	return v.Num, v.Soft, v.Text != "" || v.Soft
}

// guarded reports that processes may start here, or that it is not known from where this is called.
func guarded(p *audit.Pass) bool {
	return p.Target.Device == "cuda" || p.InMain() || !p.AtHome() || strings.HasSuffix(p.Src().Path, ".ipynb") ||
		atCall(p)
}

// isNotebook says, when there is something to report, whether the file runs cell by cell: a notebook, or a script in
// the percent format, which editors and jupytext run so.
func isNotebook(p *audit.Pass) bool {
	if strings.HasSuffix(p.Src().Path, ".ipynb") {
		return true
	}
	for _, mark := range []string{"# %%\n", "# %%\r\n", "# %% "} {
		if bytes.HasPrefix(p.Src().Text, []byte(mark)) || bytes.Contains(p.Src().Text, []byte("\n"+mark)) {
			return true
		}
	}
	return false
}

// atCall reports whether a function is being interpreted that nobody calls: it is not known from where.
func atCall(p *audit.Pass) bool { return p.Func() != nil && !p.FromTop() }
