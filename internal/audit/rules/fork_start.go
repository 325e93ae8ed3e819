package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
)

// ForkStart finds the start method that macOS cannot bear.
var ForkStart = &audit.Rule{Name: "fork-start", Title: "processes are started by fork", Severity: audit.Warning, Doc: audit.Doc{
	Why: "On macOS a forked child may not use Objective-C, Metal or Accelerate: it crashes or hangs as soon as it touches torch's MPS. Python starts by spawn there since 3.8.",
	Bad: "import multiprocessing\nimport torch\nmultiprocessing.set_start_method(\"fork\")\n", Good: "import multiprocessing\nimport torch\nmultiprocessing.set_start_method(\"spawn\")\n",
	Source: "Python, multiprocessing: contexts and start methods; objc4, objc-initialize.mm",
}, Calls: asks(either(ending("set_start_method", "get_context"), named("os.fork", dataLoader)), func(p *audit.Pass, c *abstract.Call) {
	if p.Target.Device == "cuda" || !p.Imported("torch") {
		return
	}
	switch c.Path {
	case "multiprocessing.set_start_method", "multiprocessing.get_context", "torch.multiprocessing.set_start_method", "torch.multiprocessing.get_context":
		if v := c.Arg(0, "method"); v != nil && v.Kind == abstract.Str && v.Text == "fork" {
			p.Report(c.At, audit.Finding{Sure: !v.Soft && !p.Maybe() && last(c.Path) == "set_start_method", Text: "a forked process crashes or hangs on macOS once it uses Metal", Hint: "start by \"spawn\""})
		}
	case "os.fork":
		p.Report(c.At, audit.Finding{Sure: false, Text: "a forked process crashes or hangs on macOS once it uses Metal", Hint: "start a fresh process: subprocess, or multiprocessing by spawn"})
	case "torch.utils.data.DataLoader":
		if v := c.Arg(-1, "multiprocessing_context"); v != nil && v.Kind == abstract.Str && v.Text == "fork" {
			p.Report(c.ArgNode(-1, "multiprocessing_context"), audit.Finding{Sure: !v.Soft, Text: "a forked worker crashes or hangs on macOS once it uses Metal or Accelerate", Hint: "leave it out: macOS starts by spawn"})
		}
	}
})}
