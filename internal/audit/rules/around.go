package rules

import (
	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/facts"
	"assay/internal/pyast"
	"bytes"
	"path/filepath"
	"slices"
	"strings"
)

// mpsOnly makes a rule look only when MPS is the target.
func mpsOnly(at audit.Look) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) {
		if p.Target.Device == "mps" {
			at(p, c)
		}
	}
}

// noCUDA makes it look when the target has no CUDA.
func noCUDA(at audit.Look) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) {
		if p.Target.Device != "cuda" {
			p.Unless(underCUDA, depends, at, c)
		}
	}
}

// onMetal makes it look at code for TensorFlow, which a Mac runs on Metal.
func onMetal(at audit.Look) audit.Look {
	return func(p *audit.Pass, c *abstract.Call) {
		if p.Target.Device != "cuda" {
			p.Unless(underCUDA, nil, at, c)
		}
	}
}

// underCUDA reports whether an if around asks for CUDA in a way that the source leaves open: `if device.type ==
// "cuda"`, `if args.cuda`. On a machine without CUDA nobody gets there.
func underCUDA(p *audit.Pass) bool {
	// A file or a function that is about CUDA by its name is not reached on a machine without it, unless the file
	// itself calls it.
	if !p.FromTop() {
		name := ""
		if f := p.Func(); f != nil {
			name = f.Name
			if f.Class != nil {
				name += f.Class.Name
			}
			if strings.Contains(strings.ToLower(f.Name), "gpu") {
				return true
			}
		}
		path := p.Package()
		if !bytes.Contains(p.Src().Text, []byte("__main__")) { // no program of its own
			path += filepath.Base(p.Src().Path)
			if name := filepath.Base(p.Src().Path); strings.HasPrefix(name, "test_") && strings.Contains(name, "gpu") {
				return true
			}
		}
		if name = strings.ToLower(name + path); strings.Contains(name, "cuda") || strings.Contains(name, "nccl") ||
			strings.Contains(name, "triton") {
			return true
		}
	}
	if v := p.Global("pytestmark"); v != nil && saysCUDA(p.Text(v)) {
		return true
	}
	// @onlyCUDA, @require_torch_gpu, @pytest.mark.skipif(not torch.cuda.is_available()), on the function or its class
	if f := p.Func(); f != nil && f.Node != nil {
		if p.Within(f.Node, func(f *abstract.Func) bool {
			return decorated(p, f.Node.DecoratorList) || f.Class != nil && f.Class.Module == f.Module &&
				decorated(p, f.Class.Node.DecoratorList)
		}) {
			return true
		}
	}
	return p.Under(func(test pyast.Expr) bool {
		text := p.Text(test) // `if device.type in ("cpu", "mps"): return` leaves CUDA as well
		return saysCUDA(text) || strings.Contains(text, `"mps"`) || strings.Contains(text, "'mps'") ||
			strings.Contains(text, "is_mps") ||
			strings.Contains(text, "is_pinned") || strings.Contains(text, "stream is not None") ||
			boundByCUDA(p, test, 2) || asksElsewhere(p, test)
	})
}

// depends says what else decides whether the code runs; "" is nothing.
func depends(p *audit.Pass) string {
	if p.Guarded() { // try: import flash_attn, and what can be done with it
		return ", unless the import before it fails"
	}
	return byRunner(p)
}

// byRunner says that a test runner decides whether the code runs: in a file of tests, what the file's own top does
// not reach. Its markers, fixtures, configuration and command line skip tests where CUDA is missing, and little of
// that stands in the file.
func byRunner(p *audit.Pass) string {
	if p.FromTop() && !p.InMain() || !isTests(p.Home()) && !isTests(p.Src()) {
		return ""
	}
	return ", unless the tests' runner leaves it out"
}

// isTests reports whether a file is one of tests: by a folder, or by its name, as pytest looks for them, if it holds
// any: a program that evaluates a model may be called test_net.py.
func isTests(src *audit.Source) bool {
	folders := strings.Split(filepath.ToSlash(src.Path), "/")
	name := folders[len(folders)-1]
	if filepath.IsAbs(src.Path) { // the project lies somewhere, whose name says nothing of it
		folders = folders[max(0, len(folders)-3):]
	}
	if name == "conftest.py" || slices.ContainsFunc(folders[:len(folders)-1],
		func(f string) bool { return f == "tests" || f == "test" }) {
		return true
	}
	if !strings.HasPrefix(name, "test_") && !strings.HasSuffix(name, "_test.py") {
		return false
	}
	return bytes.Contains(src.Text, []byte("def test")) || bytes.Contains(src.Text, []byte("unittest")) ||
		bytes.Contains(src.Text, []byte("absltest"))
}

// boundByCUDA reports whether a test is a name that the function around binds to what asks for CUDA: on_gpu =
// x.device.type == "cuda".
func boundByCUDA(p *audit.Pass, test pyast.Expr, depth int) bool {
	if not, ok := test.(*pyast.UnaryOp); ok {
		test = not.Operand
	}
	if all, ok := test.(*pyast.BoolOp); ok {
		return slices.ContainsFunc(all.Values, func(e pyast.Expr) bool { return boundByCUDA(p, e, depth) })
	}
	name, ok := test.(*pyast.Name)
	f := p.Func()
	// the test of a caller in another file
	if !ok || f == nil || f.Node == nil || depth == 0 || f.Module.File != p.File() {
		return false
	}
	found := false
	for _, s := range f.Node.Body {
		pyast.Walk(s, func(n pyast.Node) bool {
			a, ok := n.(*pyast.Assign)
			if !ok {
				_, inner := n.(pyast.Expr) // which binds nothing
				return !found && !inner
			}
			if to, ok := a.Targets[0].(*pyast.Name); ok && len(a.Targets) == 1 && to.ID == name.ID {
				switch v := a.Value.(type) {
				case *pyast.Compare, *pyast.BoolOp:
					found = found || saysCUDA(p.Text(v))
				case *pyast.Attribute:
					found = found || v.Attr == "is_cuda"
				case *pyast.Name:
					found = found || boundByCUDA(p, v, depth-1)
				}
			}
			return false
		})
	}
	return found
}

// asksElsewhere reports whether a test calls a function of the project that asks whether CUDA is available.
func asksElsewhere(p *audit.Pass, test pyast.Expr) bool {
	c, ok := test.(*pyast.Call)
	if f := p.Func(); !ok || f != nil && f.Module.File != p.File() {
		return false
	}
	f := p.Value(c.Func)
	return f.Kind == abstract.Function && f.Func.Node != nil &&
		strings.Contains(f.Func.Module.File.Source(f.Func.Node), "cuda.is_available()")
}

func saysCUDA(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "cuda") || strings.Contains(text, "gpu") || strings.Contains(text, "nccl")
}

func decorated(p *audit.Pass, list []pyast.Expr) bool {
	return slices.ContainsFunc(list, func(d pyast.Expr) bool {
		text := p.Text(d)
		name, _, _ := strings.Cut(text, "(")
		name = last(name)
		// a test that asks for more than every machine has
		return saysCUDA(text) || strings.HasPrefix(name, "skip") || strings.HasPrefix(name, "require")
	})
}

const noCUDAText = "PyTorch for macOS is built without CUDA"

// holds reports whether a fact holds in the release aimed at.
func holds(p *audit.Pass, name string) bool {
	f := facts.Load().Fact(name)
	return f != nil && f.Holds(p.Target.Torch.Version)
}
