package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// FallbackSwitchedOn finds the fallback to the CPU switched on in the source.
var FallbackSwitchedOn = &audit.Rule{Name: "fallback-switched-on",
	Title: "the fallback to the CPU is switched on in the program", Severity: audit.Warning, Doc: audit.Doc{
		Why: "With PYTORCH_ENABLE_MPS_FALLBACK=1 operators that MPS lacks run on the CPU, with one warning a process: a " +
			"model that is slow for that reason looks as if it ran on the GPU.",
		Bad:    "os.environ[\"PYTORCH_ENABLE_MPS_FALLBACK\"] = \"1\"\nimport torch\n",
		Good:   "import torch   # and `PYTORCH_ENABLE_MPS_FALLBACK=1 python train.py` where it is wanted\n",
		Source: "aten/src/ATen/mps/MPSFallback.mm",
	}, Calls: asks(named(settings...), mpsOnly(eachSetting(func(p *audit.Pass, c *abstract.Call, name, value string) {
		if name == "PYTORCH_ENABLE_MPS_FALLBACK" && value != "0" && value != "" && !importsTorch(p) {
			p.Report(c.At, audit.Finding{Sure: true,
				Text: "operators that MPS lacks run on the CPU without a word but the first",
				Hint: "leave it to whoever starts the program; `assay run` lists what falls back"})
		}
	})))}
