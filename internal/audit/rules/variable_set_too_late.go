package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// SetTooLate finds variables that are read while torch is imported and set afterwards.
var SetTooLate = &audit.Rule{Name: "variable-set-too-late", Title: "an environment variable is set after it was read",
	Claims: []string{"x2"}, Severity: audit.Error, Doc: audit.Doc{
		Why: "PyTorch reads PYTORCH_ENABLE_MPS_FALLBACK once, while it is imported; the watermarks when the first tensor " +
			"is made on MPS. What is set later does nothing.",
		Bad:    "import torch\nos.environ[\"PYTORCH_ENABLE_MPS_FALLBACK\"] = \"1\"\n",
		Good:   "os.environ[\"PYTORCH_ENABLE_MPS_FALLBACK\"] = \"1\"\nimport torch\n",
		Source: "aten/src/ATen/mps/MPSFallback.mm: a static initialiser",
	}, Calls: asks(named(settings...), mpsOnly(eachSetting(func(p *audit.Pass, c *abstract.Call, name, _ string) {
		if name == "PYTORCH_ENABLE_MPS_FALLBACK" && importsTorch(p) {
			p.Report(c.At, audit.Finding{Sure: true, Text: name +
				" is set after torch was imported, which has read it: it does nothing",
				Hint: "set it before the first import of torch, or outside the program"})
		}
	})))}
