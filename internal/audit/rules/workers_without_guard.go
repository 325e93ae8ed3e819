package rules

import (
	"fmt"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// WorkersWithoutGuard finds loaders with workers at the top of a script.
var WorkersWithoutGuard = &audit.Rule{Name: "workers-without-guard", Title: "loader workers without a main guard",
	Claims: []string{"2a"}, Severity: audit.Error, Doc: audit.Doc{
		Why: "On macOS workers are started by spawn: each imports the script anew, and would start workers of its own. " +
			"Python raises RuntimeError (\"An attempt has been made to start a " +
			"new process before the current process has finished its bootstrapping phase\"). `if __name__ == " +
			"\"__main__\":` keeps the training out of the import.",
		Bad: "loader = torch.utils.data.DataLoader(data, num_workers=4)\nfor x in loader:\n    pass\n",
		Good: "def main():\n    loader = torch.utils.data.DataLoader(data, num_workers=4)\n    for x in loader:\n      " +
			"  pass\n\nif __name__ == \"__main__\":\n    main()\n",
		Source: "Python, multiprocessing: spawn and forkserver",
	}, Kinds: []pyast.Kind{pyast.KindFor}, Node: func(p *audit.Pass, n pyast.Node) {
		if loop := n.(*pyast.For); !guarded(p) {
			reportWorkers(p, loop.Iter, p.Value(loop.Iter))
		}
	}, Calls: []audit.Ask{
		on(named("builtins.iter"), func(p *audit.Pass, c *abstract.Call) {
			if len(c.Args) == 1 && !guarded(p) {
				reportWorkers(p, c.At, c.Args[0])
			}
		}),
		on(named("torch.multiprocessing.spawn"), startsAtImport("torch.multiprocessing.spawn")),
		on(named("multiprocessing.Process.start", "torch.multiprocessing.Process.start"), startsAtImport("a process")),
		on(named("multiprocessing.Pool", "torch.multiprocessing.Pool", "concurrent.futures.ProcessPoolExecutor.map",
			"concurrent.futures.ProcessPoolExecutor.submit"), startsAtImport("a pool of processes")),
	}}

// startsAtImport looks at a call that starts processes, called what.
func startsAtImport(what string) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) {
		if guarded(p) || p.Maybe() || isNotebook(p) || strings.Contains(string(p.Src().Text), "set_start_method") {
			return
		}
		p.Report(c.At, audit.Finding{Sure: true, Text: what +
			" starts while the script is imported: on macOS each process would start its own, and Python raises",
			Hint: "put what the script does under `if __name__ == \"__main__\":`"})
	}
}

// reportWorkers reports the workers of a loader that is gone through at the top of a script.
func reportWorkers(p *audit.Pass, at pyast.Node, v *abstract.Value) {
	loader := loaderOf(v)
	if loader == nil || loader.Made == nil {
		return
	}
	if m := loader.Made.Arg(-1, "multiprocessing_context"); m != nil && m.Kind != abstract.None {
		return
	}
	count, soft, ok := workers(loader.Made)
	if !ok || count == 0 || isNotebook(p) {
		return
	}
	p.Report(at, audit.Finding{Sure: !soft, Text: fmt.Sprintf("%d workers are started while the script is imported: "+
		"on macOS each would start its own, and Python raises", int(count)),
		Hint: "put what the script does under `if __name__ == \"__main__\":`"})
}

func loaderOf(v *abstract.Value) *abstract.Value {
	if v.Kind == abstract.Loader {
		return v
	}
	if v.Kind == abstract.Seq && (v.Form == abstract.Enumerated || v.Form == abstract.Zipped) {
		for _, i := range v.Items {
			if l := loaderOf(i); l != nil {
				return l
			}
		}
	}
	return nil
}
