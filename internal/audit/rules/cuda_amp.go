package rules

import (
	"fmt"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// CUDAAmp finds mixed precision of the CUDA kind.
var CUDAAmp = &audit.Rule{Name: "cuda-amp", Title: "mixed precision for CUDA alone",
	Claims: []string{"3"}, Severity: audit.Warning,
	Fixable: true, Doc: audit.Doc{
		Why: "torch.cuda.amp.autocast and GradScaler warn and switch themselves off without CUDA: nothing is cast or " +
			"scaled on MPS. torch.amp takes the device; " +
			"autocast knows \"mps\" from PyTorch 2.5 on, GradScaler from 2.3 on as torch.amp.GradScaler.",
		Bad:    "with torch.cuda.amp.autocast():\n    loss = model(x)\n",
		Good:   "with torch.amp.autocast(device.type):\n    loss = model(x)\n",
		Source: "torch/cuda/amp and torch/amp/autocast_mode.py of the releases",
	}, Calls: []audit.Ask{
		on(named("torch.autocast", "torch.amp.autocast", "torch.amp.GradScaler"), noCUDA(ampOfDevice)),
		on(named("torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler"), noCUDA(ampOfCUDA)),
	}}

// withoutAmp says what is left out where a part of mixed precision is off, and, where the release is too old for MPS,
// what to do instead.
func withoutAmp(p *audit.Pass, name string) (left, tooOld string) {
	left = "nothing is cast to half precision"
	since := "2.5"
	if name == "GradScaler" {
		left, since = "losses are not scaled", "2.3"
	}
	if !p.Target.Since(since) {
		tooOld = "autocast knows \"mps\" from torch 2.5 on: before it, cast model and inputs by hand, or train in float32"
	}
	return left, tooOld
}

func ampOfDevice(p *audit.Pass, c *abstract.Call) {
	if switchedOff(c.Arg(-1, "enabled")) {
		return
	}
	name := last(c.Path)
	left, tooOld := withoutAmp(p, name)
	const ownType = "give it the device's own type: device.type"
	d := c.Arg(0, "device_type", "device")
	if d == nil && name == "GradScaler" && !c.Open && c.Node != nil {
		p.Report(c.At, audit.Finding{Sure: switchedOn(c.Arg(-1, "enabled")),
			Text: "GradScaler is CUDA's unless told otherwise, and switches itself off without it: " + left,
			Hint: ownType})
	}
	if d == nil || d.Kind != abstract.Str || d.Text != "cuda" || d.Soft {
		return
	}
	f := audit.Finding{Sure: switchedOn(c.Arg(-1, "enabled")),
		Text: name + "(\"cuda\") switches itself off without CUDA: " + left, Hint: ownType}
	if tooOld != "" {
		f.Hint = tooOld
	} else if device := deviceName(p); device != "" {
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write " + device + ".type",
			Edits: []audit.Edit{replace(c.ArgNode(0, "device_type", "device"), device+".type")}}
	}
	p.Report(c.At, f)
}

func ampOfCUDA(p *audit.Pass, c *abstract.Call) {
	if c.Node == nil || switchedOff(c.Arg(0, "enabled")) {
		return
	}
	name := last(c.Path)
	left, tooOld := withoutAmp(p, name)
	f := audit.Finding{Sure: switchedOn(c.Arg(0, "enabled")),
		Text: "torch.cuda.amp." + name + " switches itself off without CUDA: " + left,
		Hint: "write torch.amp." + name + " with the device's type"}
	if tooOld != "" {
		f.Hint = tooOld
	}
	device := deviceName(p)
	if device != "" && p.Target.Since("2.5") && len(c.Node.Args) == 0 &&
		strings.HasPrefix(p.Text(c.Node.Func), "torch.") {
		arguments := device + ".type"
		for _, k := range c.Node.Keywords {
			arguments += ", " + p.Text(k)
		}
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: fmt.Sprintf("write torch.amp.%s(%s.type)", name, device),
			Edits: []audit.Edit{replace(c.Node, "torch.amp."+name+"("+arguments+")")}}
	}
	p.Report(c.At, f)
}

// switchedOff reports whether an argument `enabled` is False, whatever a user says.
func switchedOff(enabled *abstract.Value) bool {
	return enabled != nil && enabled.Kind == abstract.Bool && !enabled.Yes && !enabled.Soft
}

// switchedOn reports whether an argument `enabled` is left out, or True unless somebody says otherwise.
func switchedOn(enabled *abstract.Value) bool {
	return enabled == nil || enabled.Kind == abstract.Bool && enabled.Yes
}
