package rules

import (
	"fmt"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
)

// CUDAAmp finds mixed precision of the CUDA kind.
var CUDAAmp = &audit.Rule{Name: "cuda-amp", Title: "mixed precision for CUDA alone", Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
	Why: "torch.cuda.amp.autocast and GradScaler warn and switch themselves off without CUDA: nothing is cast or scaled on MPS. torch.amp takes the device; " +
		"autocast knows \"mps\" from PyTorch 2.5 on, GradScaler from 2.3 on as torch.amp.GradScaler.",
	Bad:    "with torch.cuda.amp.autocast():\n    loss = model(x)\n",
	Good:   "with torch.amp.autocast(device.type):\n    loss = model(x)\n",
	Source: "torch/cuda/amp and torch/amp/autocast_mode.py of the releases",
}, Calls: asks(either(under("torch.cuda.amp.", "torch.amp."), named("torch.autocast")), noCUDA(func(p *audit.Pass, c *abstract.Call) {
	rest, ok := strings.CutPrefix(c.Path, "torch.cuda.amp.")
	if !ok && c.Path != "torch.autocast" && !strings.HasPrefix(c.Path, "torch.amp.") {
		return
	}
	without := "nothing is cast to half precision"
	if last(c.Path) == "GradScaler" {
		without = "losses are not scaled"
	}
	known := p.Target.Since("2.5") || last(c.Path) == "GradScaler" && p.Target.Since("2.3")
	tooOld := "autocast knows \"mps\" from torch 2.5 on: before it, cast model and inputs by hand, or train in float32"
	if c.Path == "torch.autocast" || c.Path == "torch.amp.autocast" || c.Path == "torch.amp.GradScaler" {
		if e := c.Arg(-1, "enabled"); e != nil && e.Kind == abstract.Bool && !e.Yes && !e.Soft {
			return
		}
		d := c.Arg(0, "device_type", "device")
		if d == nil && last(c.Path) == "GradScaler" && !c.Open && c.Node != nil {
			p.Report(c.At, audit.Finding{Sure: switchedOn(c.Arg(-1, "enabled")), Text: "GradScaler is CUDA's unless told otherwise, and switches itself off without it: " + without,
				Hint: "give it the device's own type: device.type"})
		}
		if d != nil && d.Kind == abstract.Str && d.Text == "cuda" && !d.Soft {
			f := audit.Finding{Sure: switchedOn(c.Arg(-1, "enabled")), Text: last(c.Path) + "(\"cuda\") switches itself off without CUDA: " + without, Hint: "give it the device's own type: device.type"}
			if !known {
				f.Hint = tooOld
			}
			if name := deviceName(p); name != "" && known {
				f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write " + name + ".type", Edits: []audit.Edit{replace(c.ArgNode(0, "device_type", "device"), name+".type")}}
			}
			p.Report(c.At, f)
		}
		return
	}
	if !ok || c.Node == nil || rest != "autocast" && rest != "GradScaler" {
		return
	}
	if e := c.Arg(0, "enabled"); e != nil && e.Kind == abstract.Bool && !e.Yes && !e.Soft {
		return
	}
	f := audit.Finding{Sure: switchedOn(c.Arg(0, "enabled")), Text: "torch.cuda.amp." + rest + " switches itself off without CUDA: " + without, Hint: "write torch.amp." + rest + " with the device's type"}
	if !known {
		f.Hint = tooOld
	}
	if name := deviceName(p); name != "" && p.Target.Since("2.5") && len(c.Node.Args) == 0 && strings.HasPrefix(p.Text(c.Node.Func), "torch.") {
		arguments := name + ".type"
		for _, k := range c.Node.Keywords {
			arguments += ", " + p.Text(k)
		}
		f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: fmt.Sprintf("write torch.amp.%s(%s.type)", rest, name), Edits: []audit.Edit{replace(c.Node, "torch.amp."+rest+"("+arguments+")")}}
	}
	p.Report(c.At, f)
}))}

// switchedOn reports whether an argument `enabled` is left out, or True unless somebody says otherwise.
func switchedOn(enabled *abstract.Value) bool {
	return enabled == nil || enabled.Kind == abstract.Bool && enabled.Yes
}
