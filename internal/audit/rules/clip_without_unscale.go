package rules

import (
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// ClipWithoutUnscale finds gradients that are clipped while they are scaled.
var ClipWithoutUnscale = &audit.Rule{Name: "clip-without-unscale", Title: "gradients are clipped while they are scaled",
	Severity: audit.Error, Doc: audit.Doc{
		Why: "Under a GradScaler gradients are some 65,536 times too large until scaler.unscale_(optimizer) or " +
			"scaler.step: clipping before it cuts them all to almost nothing.",
		Bad: "scaler = torch.amp.GradScaler(\"mps\")\nscaler.scale(loss).backward()\n" +
			"torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n" +
			"scaler.step(optimizer)\nscaler.update()\n",
		Good: "scaler = torch.amp.GradScaler(\"mps\")\nscaler.scale(loss).backward()\nscaler.unscale_(optimizer)\n" +
			"torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n" +
			"scaler.step(optimizer)\nscaler.update()\n",
		Source: "PyTorch, automatic mixed precision examples",
	}, Calls: []audit.Ask{
		on(both(isScaler, ending("scale", "step", "unscale_")), note),
		on(ending("backward"), func(p *audit.Pass, c *abstract.Call) {
			if c.Node != nil && !strings.Contains(p.Text(c.Node.Func), "scale(") { // of a loss that is not scaled
				note(p, c)
			}
		}),
		on(named("?.unscale_", "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_"), note),
	}, File: func(p *audit.Pass) {
		l := audit.Note(p, newLog)
		for _, s := range l.calls {
			if s.name != "clip_grad_norm_" && s.name != "clip_grad_value_" || len(l.in(s.fn, "step")) == 0 ||
				len(l.in(s.fn, "scale")) == 0 {
				continue
			}
			before := false
			for _, u := range l.in(s.fn, "unscale_") {
				before = before || u.at.Pos() < s.at.Pos()
			}
			plain, scaled := -1, -1 // the last of each before it
			for _, b := range l.in(s.fn, "backward", "scale") {
				switch {
				case b.at.Pos() > s.at.Pos():
				case b.name == "scale":
					scaled = max(scaled, b.at.Pos())
				default:
					plain = max(plain, b.at.Pos())
				}
			}
			if !before && scaled > plain {
				p.Report(s.at, audit.Finding{Sure: true,
					Text: "gradients are clipped before they are unscaled: the limit is met by scaled ones",
					Hint: "call scaler.unscale_(optimizer) first"})
			}
		}
	}}
