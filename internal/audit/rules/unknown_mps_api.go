package rules

import (
	"fmt"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// UnknownAPI finds names of torch.mps that do not exist in the release aimed at.
var UnknownAPI = &audit.Rule{Name: "unknown-mps-api", Title: "a name of torch.mps that does not exist",
	Claims: []string{"8"}, Severity: audit.Error, Doc: audit.Doc{
		Why: "The name was invented after the pattern of torch.cuda, or came with a later release: AttributeError.",
		Bad: "used = torch.mps.memory_allocated()\n", Good: "used = torch.mps.current_allocated_memory()\n",
		Source: "torch/mps and torch/backends/mps in the wheels of every release since 2.0",
	}, Calls: []audit.Ask{
		on(both(under("torch.mps.", "torch.backends.mps.", "import torch.mps.", "import torch.backends.mps."), public),
			unknownName),
		on(named("torch.autocast", "torch.amp.autocast"), func(p *audit.Pass, c *abstract.Call) {
			if d := c.Arg(0, "device_type"); !p.Target.Since("2.5") && d != nil && d.Kind == abstract.Str &&
				d.Text == "mps" {
				p.Report(c.At, audit.Finding{Sure: !d.Soft,
					Text: fmt.Sprintf("autocast knows \"mps\" from torch 2.5 on: RuntimeError in %s",
						p.Target.Torch.Version),
					Hint:   "cast model and inputs by hand, or train in float32",
					Source: "torch/amp/autocast_mode.py of the releases"})
			}
		}),
	}}

// public reports a name that no part of makes private.
func public(path string) bool { return !strings.Contains(path, "._") }

func unknownName(p *audit.Pass, c *abstract.Call) {
	name := strings.TrimPrefix(strings.TrimPrefix(c.Path, "import "), "torch.")
	if p.Under(func(test pyast.Expr) bool { return strings.Contains(p.Text(test), "hasattr") }) {
		return
	}
	at := strings.LastIndexByte(name, '.')
	there, known, _ := p.Target.Atlas.PythonName("torch."+name[:at], name[at+1:])
	since := there.Since
	// getattr(torch, kind).stream() is reached where the kind has streams
	sure := !p.Caught() && (c.Node == nil || strings.Contains(p.Text(c.Node.Func), "mps"))
	switch {
	case known && !p.Target.Since(since):
		p.Report(c.At, audit.Finding{Sure: sure, Text: fmt.Sprintf("torch.%s came with torch %s: AttributeError in %s",
			name, since, p.Target.Torch.Version)})
	case !known && parentKnown(name):
		f := audit.Finding{Sure: sure, Text: fmt.Sprintf("torch.%s does not exist: AttributeError", name)}
		if instead := p.Target.Atlas.Instead("torch." + name); instead != "" {
			f.Hint = "use " + instead
		}
		p.Report(c.At, f)
	}
}

// parentKnown reports that the part before the last dot is a module, not an object that was made:
// torch.mps.Event().record is none of ours.
func parentKnown(name string) bool {
	switch name[:strings.LastIndexByte(name, '.')] {
	case "mps", "backends.mps", "mps.profiler", "mps.event":
		return true
	}
	return false
}
