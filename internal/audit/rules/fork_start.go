package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// ForkStart finds the start method that macOS cannot bear.
var ForkStart = &audit.Rule{Name: "fork-start", Title: "processes are started by fork", Severity: audit.Warning,
	Doc: audit.Doc{
		Why: "On macOS a forked child may not use Objective-C, Metal or Accelerate: it crashes or hangs as soon as it " +
			"touches torch's MPS. Python starts by spawn there since 3.8.",
		Bad:    "import multiprocessing\nimport torch\nmultiprocessing.set_start_method(\"fork\")\n",
		Good:   "import multiprocessing\nimport torch\nmultiprocessing.set_start_method(\"spawn\")\n",
		Source: "Python, multiprocessing: contexts and start methods; objc4, objc-initialize.mm",
	}, Calls: []audit.Ask{
		on(named("multiprocessing.set_start_method", "torch.multiprocessing.set_start_method"),
			besideTorch(func(p *audit.Pass, c *abstract.Call) {
				startByFork(p, c, !p.Maybe())
			})),
		on(named("multiprocessing.get_context", "torch.multiprocessing.get_context"),
			besideTorch(func(p *audit.Pass, c *abstract.Call) {
				startByFork(p, c, false)
			})),
		on(named("os.fork"), besideTorch(func(p *audit.Pass, c *abstract.Call) {
			p.Report(c.At, audit.Finding{Sure: false,
				Text: "a forked process crashes or hangs on macOS once it uses Metal",
				Hint: "start a fresh process: subprocess, or multiprocessing by spawn"})
		})),
		on(named(dataLoader), besideTorch(func(p *audit.Pass, c *abstract.Call) {
			if v := c.Arg(-1, "multiprocessing_context"); v != nil && v.Kind == abstract.Str && v.Text == "fork" {
				p.Report(c.ArgNode(-1, "multiprocessing_context"), audit.Finding{Sure: !v.Soft,
					Text: "a forked worker crashes or hangs on macOS once it uses Metal or Accelerate",
					Hint: "leave it out: macOS starts by spawn"})
			}
		})),
	}}

// besideTorch makes a rule look at programs that import torch, and are to run on a Mac.
func besideTorch(at audit.Look) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) {
		if p.Target.Device != "cuda" && p.Imported("torch") {
			at(p, c)
		}
	}
}

func startByFork(p *audit.Pass, c *abstract.Call, sure bool) {
	if v := c.Arg(0, "method"); v != nil && v.Kind == abstract.Str && v.Text == "fork" {
		p.Report(c.At, audit.Finding{Sure: sure && !v.Soft,
			Text: "a forked process crashes or hangs on macOS once it uses Metal", Hint: "start by \"spawn\""})
	}
}
