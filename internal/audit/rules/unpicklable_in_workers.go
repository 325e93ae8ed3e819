package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// UnpicklableInWorkers finds what spawn cannot hand to workers.
var UnpicklableInWorkers = &audit.Rule{Name: "unpicklable-in-workers",
	Title: "loader workers get what cannot be pickled", Severity: audit.Error, Doc: audit.Doc{
		Why: "On macOS a loader's dataset, collate_fn and worker_init_fn are pickled and sent to each worker. " +
			"Lambdas, and functions and classes that are defined within a function, cannot be: AttributeError or PicklingError.",
		Bad: "loader = torch.utils.data.DataLoader(data, num_workers=4, collate_fn=lambda b: b)\n",
		Good: "def collate(b):\n    return b\n\nloader = torch.utils.data.DataLoader(data, num_workers=4, " +
			"collate_fn=collate)\n",
		Source: "Python, pickle: what can be pickled; multiprocessing: spawn",
	}, Calls: asks(named(dataLoader), func(p *audit.Pass, c *abstract.Call) {
		if p.Target.Device == "cuda" {
			return
		}
		n, soft, ok := workers(c)
		if !ok || n == 0 && !soft {
			return
		}
		if m := c.Arg(-1, "multiprocessing_context"); m != nil && m.Kind != abstract.None {
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
			p.Report(c.ArgNode(at, name), audit.Finding{Sure: !soft,
				Text: name + " holds " + what + ", which cannot be sent to workers on macOS",
				Hint: "define it at the top of a module"})
		}
	})}

func unpicklable(v *abstract.Value, depth int) string {
	if depth > 4 {
		return ""
	}
	switch v.Kind {
	case abstract.Function:
		if v.Func.Lambda != nil {
			return "a lambda"
		}
		if v.Func.Local && v.Self == nil {
			return "a function defined within a function (" + v.Func.Name + ")"
		}
	case abstract.Instance:
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
	case abstract.Made:
		if v.Made == nil || !strings.HasPrefix(v.Path, "torchvision.") &&
			!strings.HasPrefix(v.Path, "torch.utils.data.") {
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
	case abstract.Seq:
		for _, i := range v.Items {
			if what := unpicklable(i, depth+1); what != "" {
				return what
			}
		}
	}
	return ""
}
