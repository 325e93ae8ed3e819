package rules

import (
	"assay/internal/audit"
)

// ScalerWithoutUpdate finds a GradScaler that never adapts.
var ScalerWithoutUpdate = &audit.Rule{Name: "scaler-without-update", Title: "a GradScaler that is never updated",
	Severity: audit.Error, Doc: audit.Doc{
		Why: "scaler.step without scaler.update raises at the next step (\"step() has already been called since the " +
			"last update()\").",
		Bad: "scaler = torch.amp.GradScaler(\"mps\")\nscaler.scale(loss).backward()\nscaler.step(optimizer)\n",
		Good: "scaler = torch.amp.GradScaler(\"mps\")\nscaler.scale(loss).backward()\n" +
			"scaler.step(optimizer)\nscaler.update()\n",
		Source: "torch/amp/grad_scaler.py",
	}, Calls: asks(either(both(isScaler, ending("step", "update")), named("?.update")), note),
	File: func(p *audit.Pass) {
		l := audit.Note(p, newLog)
		updates := false
		for _, s := range l.calls {
			updates = updates || s.name == "update"
		}
		for _, s := range l.calls {
			if s.name == "step" && !updates {
				p.Report(s.at, audit.Finding{Sure: true,
					Text: "the scaler steps, and is updated nowhere in this file: the second step raises",
					Hint: "call scaler.update() after the step"})
				return
			}
		}
	}}
