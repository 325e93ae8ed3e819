package rules

import (
	"fmt"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// TooManyWorkers finds more workers than a Mac has use for.
var TooManyWorkers = &audit.Rule{Name: "many-workers", Title: "many loader workers",
	Claims: []string{"2b"}, Severity: audit.Notice,
	Doc: audit.Doc{
		Why: "On macOS each worker is a fresh interpreter that imports torch again (some 200 MB and a second or two), " +
			"and holds the dataset once more. Beyond the number of fast cores they take memory and give nothing: measure " +
			"with `assay run`.",
		Bad:    "loader = torch.utils.data.DataLoader(data, num_workers=32)\n",
		Good:   "loader = torch.utils.data.DataLoader(data, num_workers=4, persistent_workers=True)\n",
		Source: "Python, multiprocessing: spawn",
	}, Calls: asks(named(dataLoader), func(p *audit.Pass, c *abstract.Call) {
		if p.Target.Device == "cuda" {
			return
		}
		if n, soft, ok := workers(c); ok && !soft && n > 12 {
			p.Report(c.ArgNode(5, "num_workers"), audit.Finding{Sure: true,
				Text: fmt.Sprintf("%d workers: each imports torch and holds the dataset once more", int(n)),
				Hint: "measure 2, 4 and 8 with `assay run`"})
		}
	})}
