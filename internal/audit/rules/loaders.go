package rules

import (
	"fmt"
	"strings"

	"assay/internal/audit"
	"assay/internal/pyast"
)

// workers is the number of worker processes that a loader is told to have; ok is false where the source does not say.
func workers(c *audit.Call) (n float64, soft, ok bool) {
	v := c.Arg(5, "num_workers")
	if v == nil || v.Kind != audit.Number {
		return 0, false, false
	}
	return v.Num, v.Soft, v.Text != "" || v.Soft
}

// WorkersWithoutGuard finds loaders with workers at the top of a script.
var WorkersWithoutGuard = &audit.Rule{Name: "workers-without-guard", Title: "loader workers without a main guard", Severity: audit.Error, Doc: audit.Doc{
	Why: "On macOS workers are started by spawn: each imports the script anew, and would start workers of its own. Python raises RuntimeError (\"An attempt has been made to start a " +
		"new process before the current process has finished its bootstrapping phase\"). `if __name__ == \"__main__\":` keeps the training out of the import.",
	Bad:    "loader = torch.utils.data.DataLoader(data, num_workers=4)\nfor x in loader:\n    pass\n",
	Good:   "def main():\n    loader = torch.utils.data.DataLoader(data, num_workers=4)\n    for x in loader:\n        pass\n\nif __name__ == \"__main__\":\n    main()\n",
	Source: "Python, multiprocessing: spawn and forkserver",
}, Kinds: []pyast.Kind{pyast.KindFor}, Node: func(p *audit.Pass, n pyast.Node) {
	if loop := n.(*pyast.For); !guarded(p) {
		reportWorkers(p, loop.Iter, p.Value(loop.Iter))
	}
}, Call: func(p *audit.Pass, c *audit.Call) {
	what := ""
	switch c.Path {
	case "builtins.iter":
		if len(c.Args) == 1 && !guarded(p) {
			reportWorkers(p, c.At, c.Args[0])
		}
		return
	case "torch.multiprocessing.spawn":
		what = "torch.multiprocessing.spawn"
	case "multiprocessing.Process.start", "torch.multiprocessing.Process.start":
		what = "a process"
	case "multiprocessing.Pool", "torch.multiprocessing.Pool", "concurrent.futures.ProcessPoolExecutor.map", "concurrent.futures.ProcessPoolExecutor.submit":
		what = "a pool of processes"
	default:
		return
	}
	if guarded(p) || p.Maybe() || strings.Contains(string(p.Src.Text), "set_start_method") {
		return
	}
	p.Report(c.At, audit.Finding{Sure: true, Text: what + " starts while the script is imported: on macOS each process would start its own, and Python raises",
		Hint: "put what the script does under `if __name__ == \"__main__\":`"})
}}

// guarded reports that processes may start here, or that it is not known from where this is called.
func guarded(p *audit.Pass) bool {
	return p.Target.Device == "cuda" || p.InMain() || !p.AtHome() || strings.HasSuffix(p.Src.Path, ".ipynb") || atCall(p)
}

// reportWorkers reports the workers of a loader that is gone through at the top of a script.
func reportWorkers(p *audit.Pass, at pyast.Node, v *audit.Value) {
	loader := loaderOf(v)
	if loader == nil || loader.Made == nil {
		return
	}
	if m := loader.Made.Arg(-1, "multiprocessing_context"); m != nil && m.Kind != audit.None {
		return
	}
	count, soft, ok := workers(loader.Made)
	if !ok || count == 0 {
		return
	}
	p.Report(at, audit.Finding{Sure: !soft, Text: fmt.Sprintf("%d workers are started while the script is imported: on macOS each would start its own, and Python raises", int(count)),
		Hint: "put what the script does under `if __name__ == \"__main__\":`"})
}

// atCall reports whether a function is being interpreted that nobody calls: it is not known from where.
func atCall(p *audit.Pass) bool { return p.Func() != nil && !p.FromTop() }

func loaderOf(v *audit.Value) *audit.Value {
	if v.Kind == audit.Loader {
		return v
	}
	if v.Kind == audit.Seq && (v.Path == "enumerate" || v.Path == "zip") {
		for _, i := range v.Items {
			if l := loaderOf(i); l != nil {
				return l
			}
		}
	}
	return nil
}

// UnpicklableInWorkers finds what spawn cannot hand to workers.
var UnpicklableInWorkers = &audit.Rule{Name: "unpicklable-in-workers", Title: "loader workers get what cannot be pickled", Severity: audit.Error, Doc: audit.Doc{
	Why:    "On macOS a loader's dataset, collate_fn and worker_init_fn are pickled and sent to each worker. Lambdas, and functions and classes that are defined within a function, cannot be: AttributeError or PicklingError.",
	Bad:    "loader = torch.utils.data.DataLoader(data, num_workers=4, collate_fn=lambda b: b)\n",
	Good:   "def collate(b):\n    return b\n\nloader = torch.utils.data.DataLoader(data, num_workers=4, collate_fn=collate)\n",
	Source: "Python, pickle: what can be pickled; multiprocessing: spawn",
}, Names: named(dataLoader), Call: func(p *audit.Pass, c *audit.Call) {
	if c.Path != "torch.utils.data.DataLoader" || p.Target.Device == "cuda" {
		return
	}
	n, soft, ok := workers(c)
	if !ok || n == 0 && !soft {
		return
	}
	if m := c.Arg(-1, "multiprocessing_context"); m != nil && m.Kind != audit.None {
		return
	}
	for _, name := range []string{"collate_fn", "worker_init_fn", "dataset"} {
		at := -1
		if name == "dataset" {
			at = 0
		}
		v := c.Arg(at, name)
		if v == nil {
			continue
		}
		what := unpicklable(v, 0)
		if what == "" {
			continue
		}
		p.Report(c.ArgNode(at, name), audit.Finding{Sure: !soft, Text: name + " holds " + what + ", which cannot be sent to workers on macOS", Hint: "define it at the top of a module"})
	}
}}

func unpicklable(v *audit.Value, depth int) string {
	if depth > 4 {
		return ""
	}
	switch v.Kind {
	case audit.Function:
		if v.Func.Lambda != nil {
			return "a lambda"
		}
		if v.Func.Local && v.Self == nil {
			return "a function defined within a function (" + v.Func.Name + ")"
		}
	case audit.Instance:
		if v.Class.Local {
			return "an object of a class defined within a function (" + v.Class.Name + ")"
		}
		if v.Class.Method("__getstate__") != nil || v.Class.Method("__reduce__") != nil {
			return ""
		}
		for _, a := range v.Attrs {
			if what := unpicklable(a, depth+1); what != "" {
				return what
			}
		}
	case audit.Made:
		if v.Made == nil || !strings.HasPrefix(v.Path, "torchvision.") && !strings.HasPrefix(v.Path, "torch.utils.data.") {
			return ""
		}
		for _, a := range v.Made.Args {
			if what := unpicklable(a, depth+1); what != "" {
				return what
			}
		}
		for _, a := range v.Made.Named {
			if what := unpicklable(a.Value, depth+1); what != "" {
				return what
			}
		}
	case audit.Seq:
		for _, i := range v.Items {
			if what := unpicklable(i, depth+1); what != "" {
				return what
			}
		}
	}
	return ""
}

// TooManyWorkers finds more workers than a Mac has use for.
var TooManyWorkers = &audit.Rule{Name: "many-workers", Title: "many loader workers", Severity: audit.Notice, Doc: audit.Doc{
	Why: "On macOS each worker is a fresh interpreter that imports torch again (some 200 MB and a second or two), and holds the dataset once more. Beyond the number of fast cores they take memory and give nothing: measure with `assay run`.",
	Bad: "loader = torch.utils.data.DataLoader(data, num_workers=32)\n", Good: "loader = torch.utils.data.DataLoader(data, num_workers=4, persistent_workers=True)\n",
	Source: "Python, multiprocessing: spawn",
}, Names: named(dataLoader), Call: func(p *audit.Pass, c *audit.Call) {
	if c.Path != "torch.utils.data.DataLoader" || p.Target.Device == "cuda" {
		return
	}
	if n, soft, ok := workers(c); ok && !soft && n > 12 {
		p.Report(c.ArgNode(5, "num_workers"), audit.Finding{Sure: true, Text: fmt.Sprintf("%d workers: each imports torch and holds the dataset once more", int(n)), Hint: "measure 2, 4 and 8 with `assay run`"})
	}
}}

// SharedGenerator finds random generators that every worker gets a copy of.
var SharedGenerator = &audit.Rule{Name: "generator-shared-by-workers", Title: "every worker draws the same random numbers", Severity: audit.Warning, Doc: audit.Doc{
	Why: "A generator that a dataset makes in __init__ goes to every worker as a copy in the same state: all workers draw the same numbers, and the same again in every epoch. " +
		"PyTorch seeds torch, random and numpy.random in each worker, but not generators of one's own.",
	Bad:    "class Noisy(torch.utils.data.Dataset):\n    def __init__(self):\n        self.rng = np.random.default_rng(0)\n    def __getitem__(self, i):\n        return self.rng.normal()\n",
	Good:   "class Noisy(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        return np.random.default_rng(i).normal()\n",
	Source: "torch/utils/data/_utils/worker.py",
}, Kinds: []pyast.Kind{pyast.KindClassDef}, Node: func(p *audit.Pass, n pyast.Node) {
	v := p.Value(&pyast.Name{ID: n.(*pyast.ClassDef).Name})
	if v.Kind != audit.ClassDef || v.Class.Node != n || !v.Class.Derives("torch.utils.data.Dataset") {
		return
	}
	init, get := v.Class.Method("__init__"), v.Class.Method("__getitem__")
	if init == nil || get == nil || init.Node == nil || get.Node == nil || init.Module != get.Module || init.Class != v.Class {
		return
	}
	for _, s := range init.Node.Body {
		a, ok := s.(*pyast.Assign)
		if !ok || len(a.Targets) != 1 {
			continue
		}
		c, ok := a.Value.(*pyast.Call)
		target, isAttr := a.Targets[0].(*pyast.Attribute)
		if !ok || !isAttr {
			continue
		}
		switch f := p.Value(c.Func); f.Path {
		case "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator", "random.Random":
			used := false
			for _, s := range get.Node.Body {
				pyast.Walk(s, func(n pyast.Node) bool {
					if u, ok := n.(*pyast.Attribute); ok && u.Attr == target.Attr {
						used = true
					}
					return true
				})
			}
			if used {
				p.Report(a, audit.Finding{Sure: false, Text: "each worker gets a copy of this generator in the same state, and draws the same numbers", Hint: "make it in the worker (worker_init_fn), or of the index"})
			}
		}
	}
}}

// ForkStart finds the start method that macOS cannot bear.
var ForkStart = &audit.Rule{Name: "fork-start", Title: "processes are started by fork", Severity: audit.Warning, Doc: audit.Doc{
	Why: "On macOS a forked child may not use Objective-C, Metal or Accelerate: it crashes or hangs as soon as it touches torch's MPS. Python starts by spawn there since 3.8.",
	Bad: "import multiprocessing\nimport torch\nmultiprocessing.set_start_method(\"fork\")\n", Good: "import multiprocessing\nimport torch\nmultiprocessing.set_start_method(\"spawn\")\n",
	Source: "Python, multiprocessing: contexts and start methods; objc4, objc-initialize.mm",
}, Names: either(ending("set_start_method", "get_context"), named("os.fork", dataLoader)), Call: func(p *audit.Pass, c *audit.Call) {
	if p.Target.Device == "cuda" || !p.Imported("torch") {
		return
	}
	switch c.Path {
	case "multiprocessing.set_start_method", "multiprocessing.get_context", "torch.multiprocessing.set_start_method", "torch.multiprocessing.get_context":
		if v := c.Arg(0, "method"); v != nil && v.Kind == audit.Str && v.Text == "fork" {
			p.Report(c.At, audit.Finding{Sure: !v.Soft && !p.Maybe() && last(c.Path) == "set_start_method", Text: "a forked process crashes or hangs on macOS once it uses Metal", Hint: "start by \"spawn\""})
		}
	case "os.fork":
		p.Report(c.At, audit.Finding{Sure: false, Text: "a forked process crashes or hangs on macOS once it uses Metal", Hint: "start a fresh process: subprocess, or multiprocessing by spawn"})
	case "torch.utils.data.DataLoader":
		if v := c.Arg(-1, "multiprocessing_context"); v != nil && v.Kind == audit.Str && v.Text == "fork" {
			p.Report(c.ArgNode(-1, "multiprocessing_context"), audit.Finding{Sure: !v.Soft, Text: "a forked worker crashes or hangs on macOS once it uses Metal or Accelerate", Hint: "leave it out: macOS starts by spawn"})
		}
	}
}}
