package rules

import (
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// CUDADevice finds devices named "cuda" that the machine does not have.
var CUDADevice = &audit.Rule{Name: "hard-coded-cuda-device", Title: "a device that is always CUDA",
	Severity: audit.Error, Fixable: true, Doc: audit.Doc{
		Why: "A tensor or module that is sent to \"cuda\" raises AssertionError on a Mac. A default on the command " +
			"line that says \"cuda\" must be given otherwise there each time.",
		Bad: "x = torch.zeros(3, device=\"cuda\")\n",
		Good: "device = torch.device(\"mps\" if torch.backends.mps.is_available() else \"cpu\")\nx = torch.zeros(3, " +
			"device=device)\n",
		Source: "torch/cuda/__init__.py, _lazy_init",
	}, Calls: []audit.Ask{
		on(named("argparse.ArgumentParser.add_argument"), noCUDA(cudaByDefault)),
		on(named("torch.Tensor.to", "torch.nn.Module.to", "?.to", "torch.set_default_device"),
			noCUDA(cudaArgument(0, "device"))),
		on(named("torch.load"), noCUDA(cudaArgument(1, "map_location"))),
		on(both(under("torch."), not(either(
			under("torch.cuda."),  // raises or not whatever its argument: cuda-function
			named("torch.device"), // where it is used is what fails
			ending("to", "to_empty")))), noCUDA(cudaArgument(-1, "device"))),
	}}

func cudaByDefault(p *audit.Pass, c *abstract.Call) {
	v := c.Arg(-1, "default")
	if v == nil || v.Kind != abstract.Str || !strings.HasPrefix(v.Text, "cuda") || !deviceText(v.Text) {
		return
	}
	p.Report(c.ArgNode(-1, "default"), audit.Finding{Severity: audit.Notice, Sure: true,
		Text: "the default device is " + v.Text + ", which a Mac does not have",
		Hint: "choose the default by what is available: " +
			"\"cuda\" if torch.cuda.is_available() else \"mps\" if torch.backends.mps.is_available() else \"cpu\""})
}

// cudaArgument looks at the argument at a position, or of a name, that says where something goes.
func cudaArgument(at int, name string) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) { sentToCUDA(p, c.Arg(at, name), c.ArgNode(at, name)) }
}

func sentToCUDA(p *audit.Pass, v *abstract.Value, node pyast.Expr) {
	if v == nil || node == nil || v.Kind != abstract.Str && v.Kind != abstract.Device {
		return
	}
	if v.Kind == abstract.Str && !deviceText(v.Text) || !onCUDA(v) || v.Follows {
		return
	}
	sure := !v.Soft
	// the device comes from the file that calls this one: a test, say
	if !p.AtHome() && !strings.Contains(p.Text(node), "cuda") {
		sure = false
	}
	handed := sure && handedIn(p, node)
	if handed {
		if byRunner(p) != "" { // test_forward(self, device="cpu"), which another test calls for CUDA
			return
		}
		sure = false
	}
	f := audit.Finding{Sure: sure, Text: "this is sent to CUDA, which fails: " + noCUDAText,
		Hint: "take the device from one place that chooses it by what is available"}
	switch {
	case v.Soft:
		f.Text = "this is sent to CUDA unless the program is told otherwise: " + noCUDAText
		f.Severity = audit.Warning
	case handed:
		f.Text = "a caller gives CUDA as this device, which fails: " + noCUDAText
	case !sure:
		f.Text = "this is sent to CUDA where " + p.Home().Path + " calls it: " + noCUDAText
	}
	if c, literal := node.(*pyast.Constant); literal && c.IsString() {
		if name := deviceName(p); name != "" {
			f.Fix = &audit.Fix{Safety: audit.Unsafe, Title: "write " + name, Edits: []audit.Edit{replace(node, name)}}
		}
	}
	p.Report(node, f)
}

// handedIn reports whether a device comes from the caller: a parameter of a function around, or an attribute that
// __init__ takes from one. A notebook's functions have no other callers.
func handedIn(p *audit.Pass, node pyast.Expr) bool {
	if isNotebook(p) {
		return false
	}
	switch n := node.(type) {
	case *pyast.Name:
		return p.Within(node, func(f *abstract.Func) bool {
			return takes(f, n.ID) && !binds(p, f, n.ID) && !defaultsToCUDA(p, f, n.ID)
		})
	case *pyast.Attribute:
		self, ok := n.Value.(*pyast.Name)
		f := p.Func()
		if !ok || f == nil || f.Class == nil || f.Class.Module != f.Module || self.ID != "self" {
			return false
		}
		made := f.Class.Method("__init__")
		if made == nil || made.Node == nil || made.Module != f.Module {
			return false
		}
		from := false
		for _, s := range made.Node.Body {
			pyast.Walk(s, func(s pyast.Node) bool {
				if a, ok := s.(*pyast.Assign); ok && len(a.Targets) == 1 && p.Text(a.Targets[0]) == p.Text(node) {
					given, ok := a.Value.(*pyast.Name)
					from = from || ok && takes(made, given.ID)
				}
				return !from
			})
		}
		return from
	}
	return false
}

// takes reports whether a function has a parameter of that name.
func takes(f *abstract.Func, name string) bool {
	if f.Node == nil {
		return false
	}
	a := f.Node.Args
	return slices.ContainsFunc(slices.Concat(a.Posonlyargs, a.Args, a.Kwonlyargs),
		func(p *pyast.Arg) bool { return p.Arg == name })
}

// defaultsToCUDA reports whether a parameter is CUDA by the function's own default.
func defaultsToCUDA(p *audit.Pass, f *abstract.Func, name string) bool {
	a := f.Node.Args
	all := slices.Concat(a.Posonlyargs, a.Args)
	for i, d := range a.Defaults {
		if all[len(all)-len(a.Defaults)+i].Arg == name {
			return strings.Contains(p.Text(d), "cuda")
		}
	}
	for i, d := range a.KwDefaults {
		if a.Kwonlyargs[i].Arg == name && d != nil {
			return strings.Contains(p.Text(d), "cuda")
		}
	}
	return false
}

// binds reports whether the function itself gives a name a value.
func binds(p *audit.Pass, f *abstract.Func, name string) bool {
	found := false
	for _, s := range f.Node.Body {
		pyast.Walk(s, func(s pyast.Node) bool {
			if a, ok := s.(*pyast.Assign); ok {
				found = found || slices.ContainsFunc(a.Targets, func(t pyast.Expr) bool { return p.Text(t) == name })
			}
			return !found
		})
	}
	return found
}

func deviceText(s string) bool {
	kind, _, _ := strings.Cut(s, ":")
	return kind == "cuda" || kind == "cpu" || kind == "mps"
}

func onCUDA(v *abstract.Value) bool {
	if v.Kind == abstract.Str {
		return strings.HasPrefix(v.Text, "cuda")
	}
	return v.Where == abstract.OnCUDA
}
