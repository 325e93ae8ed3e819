package rules

import (
	"fmt"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// MixedDevices finds operations between tensors of two devices.
var MixedDevices = &audit.Rule{Name: "mixed-devices", Title: "tensors of two devices in one operation",
	Claims: []string{"x5"}, Severity: audit.Error, Doc: audit.Doc{
		Why: "An operation takes its tensors from one device: PyTorch raises RuntimeError otherwise. Only tensors " +
			"without dimensions may come from the CPU.",
		Bad:  "x = torch.zeros(3, device=\"mps\")\ny = x + torch.ones(3)\n",
		Good: "x = torch.zeros(3, device=\"mps\")\ny = x + torch.ones(3, device=x.device)\n",
	}, Calls: asks(under("torch"), func(p *audit.Pass, c *abstract.Call) {
		if !strings.HasPrefix(c.Path, "torch") || len(c.Args)+len(c.Named) == 0 {
			return
		}
		var on, cpu *abstract.Value
		see := func(v *abstract.Value) {
			if v == nil || v.Kind != abstract.Tensor || v.Soft {
				return
			}
			switch {
			// without CUDA it ends before
			case v.Where.Surely(abstract.OnMPS) || v.Where.Surely(abstract.OnCUDA) && p.Target.Device == "cuda":
				on = v
			case v.Where.Surely(abstract.OnCPU):
				cpu = v
			}
		}
		operation := strings.HasPrefix(c.Path, "torch.Tensor.__") || together[last(c.Path)]
		model := strings.HasSuffix(c.Path, ".__call__") && c.Self != nil && c.Self.Kind == abstract.Module
		switch {
		case strings.HasPrefix(c.Path, "torch.Tensor.__"):
		case model && (strings.HasPrefix(c.Path, "torch.nn.") || strings.HasPrefix(c.Path, "torchvision.models.")):
			if c.Self.Where.Surely(abstract.OnMPS) && !c.Self.Soft {
				on = c.Self
			}
		case strings.HasPrefix(c.Path, "torch.nn.functional.") && last(c.Path) != "ctc_loss",
			together[last(c.Path)] && (strings.HasPrefix(c.Path, "torch.Tensor.") || strings.Count(c.Path, ".") == 1):
			see(c.Self)
		case generates[c.Path]:
			reportGenerator(p, c)
			return
		default:
			return
		}
		for _, a := range c.Args {
			if a.Kind == abstract.Seq {
				for _, i := range a.Items {
					see(i)
				}
			}
			see(a)
		}
		for _, n := range c.Named {
			see(n.Value)
		}
		if on == nil || cpu == nil || p.Maybe() && (!model || p.Under(func(pyast.Expr) bool { return true })) &&
			cpu.Made == nil && cpu.Origin != abstract.Batch && !sized(cpu) {
			return
		}
		if operation && !sized(cpu) && cpu.Origin != abstract.Batch {
			return // it may have no dimensions
		}
		what := "a tensor on the CPU meets one on " + on.Where.String()
		if model {
			what = "the model is on " + on.Where.String() + ", and its input on the CPU"
		}
		p.Report(c.At, audit.Finding{Sure: cpu.Origin != abstract.Batch && (sized(cpu) || model),
			Text: what + ": RuntimeError", Hint: "move it first: .to(device)"})
	})}

// reportGenerator finds generators of another device than the tensor's.
func reportGenerator(p *audit.Pass, c *abstract.Call) {
	where := abstract.OnCPU // of a generator that is not given: the tensor's own
	g := c.Arg(-1, "generator")
	if strings.HasPrefix(c.Path, "torch.utils.data.") {
		if p.DefaultDevice() != abstract.OnMPS || last(c.Path) == "DataLoader" && !isTrue(c.Arg(-1, "shuffle")) {
			return
		}
		if g != nil && g.Kind != abstract.None {
			return
		}
		p.Report(c.At, audit.Finding{Sure: last(c.Path) == "DataLoader",
			Text: "torch.set_default_device is MPS, and the generator that shuffles is the CPU's: RuntimeError",
			Hint: "give it generator=torch.Generator(device=\"mps\"), or no default device"})
		return
	}
	if g == nil || g.Kind != abstract.Made || g.Path != "torch.Generator" || g.Made == nil || g.Soft {
		return
	}
	if d := g.Made.Arg(0, "device"); d != nil {
		where = d.Place()
	}
	made := c.Tensors()
	if made == 0 {
		made = p.Result(c).Where
	}
	if d := c.Arg(-1, "device"); d != nil && d.Soft {
		return
	}
	if where.Surely(abstract.OnCPU) && made.Surely(abstract.OnMPS) || where.Surely(abstract.OnMPS) &&
		made.Surely(abstract.OnCPU) {
		p.Report(c.At, audit.Finding{Sure: true,
			Text: fmt.Sprintf("the generator is on %s, and the tensor on %s: RuntimeError", where, made),
			Hint: "make the generator there: torch.Generator(device=device)"})
	}
}

// sized reports whether a tensor was made here with a size, so that it has dimensions.
func sized(v *abstract.Value) bool { return v.Origin == abstract.Sized }
