// Package rules holds the audit's rules, a file each, and the list of them.
package rules

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/audit"
	"assay/internal/pyast"
)

// All are the rules, in the order of their pages.
//
// Tried and dropped:
//   - num-workers-not-zero: loaders with workers run on a Mac; what breaks them are the start method and what cannot be pickled, which have rules.
//   - grad-none-instead-of-zero-grad: zero_grad() sets gradients to None since PyTorch 2.0.
//   - channels-multiple-of-8: nobody has shown an effect on MPS.
//   - numpy-seed-in-workers: PyTorch seeds numpy in workers itself; a generator made once and shared has a rule.
var All = []*audit.Rule{
	MissingOperator, WrongResult, Float64OnMPS, TypeNotOnMPS, MixedDevices, NumpyOfDeviceTensor,
	CUDACall, CUDADevice, CUDAFunction, CUDAAmp, CUDATensorType, CUDAPackage, CUDARequired, NCCLBackend, MPSNeverChosen, PinnedMemory, DeviceIndex,
	FallbackSwitchedOn, SetTooLate, Watermark, UnknownVariable, UnknownAPI, CompileBackend, StateDictMoved,
	ClipWithoutUnscale, ScalerWithoutUpdate, HalvedInputs, AccumulationUnscaled, RetainedGraph, EvaluationWithGradients, GeneratorManager,
	WorkersWithoutGuard, UnpicklableInWorkers, TooManyWorkers, SharedGenerator, ForkStart,
	SynchronisationInLoop, CacheFlushInLoop,
	UnsafePickle, CheckpointWithoutMap,
	ChannelsFirst, SessionGraph, ComplexOnMetal, MLXWithoutEval, MLXLayout,
	Requirement,
	audit.UnusedAllow, audit.BareAllow,
}

// mpsOnly makes a rule's function look only when MPS is the target.
func mpsOnly(look func(*audit.Pass, *audit.Call)) func(*audit.Pass, *audit.Call) {
	return func(p *audit.Pass, c *audit.Call) {
		if p.Target.Device == "mps" {
			look(p, c)
		}
	}
}

// noCUDA makes it look when the target has no CUDA.
func noCUDA(look func(*audit.Pass, *audit.Call)) func(*audit.Pass, *audit.Call) {
	return func(p *audit.Pass, c *audit.Call) {
		if p.Target.Device != "cuda" {
			p.Unless(underCUDA, depends, look, c)
		}
	}
}

// onMetal makes it look at code for TensorFlow, which a Mac runs on Metal.
func onMetal(look func(*audit.Pass, *audit.Call)) func(*audit.Pass, *audit.Call) {
	return func(p *audit.Pass, c *audit.Call) {
		if p.Target.Device != "cuda" {
			p.Unless(underCUDA, nil, look, c)
		}
	}
}

// Names of calls that a rule asks for.

func named(names ...string) func(string) bool {
	return func(path string) bool { return slices.Contains(names, path) }
}

func under(prefixes ...string) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) })
	}
}

func ending(names ...string) func(string) bool {
	return func(path string) bool { return slices.Contains(names, last(path)) }
}

func either(of ...func(string) bool) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(of, func(f func(string) bool) bool { return f(path) })
	}
}

const dataLoader = "torch.utils.data.DataLoader"

// last is the part of a dotted name behind its last dot.
func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// deviceName is a name in scope that holds the device to use; "" if there is none.
func deviceName(p *audit.Pass) string {
	for _, name := range []string{"device", "DEVICE", "dev", "torch_device"} {
		v := p.Value(&pyast.Name{ID: name})
		if v.Kind == audit.Device && !v.Where.May(audit.OnCUDA) {
			return name
		}
	}
	return ""
}

// replace is the edit that writes text in the place of a node.
func replace(n pyast.Node, text string) audit.Edit {
	return audit.Edit{From: n.Pos(), To: n.End(), Text: text}
}

// removeKeyword takes name=value out of a call, with the comma that goes with it.
func removeKeyword(p *audit.Pass, call *pyast.Call, k *pyast.Keyword) (audit.Edit, bool) {
	src := p.Src.Text
	from, to := k.Pos(), k.End()
	for i := to; i < call.End(); i++ { // up to the next argument
		switch src[i] {
		case ' ', '\t', '\n', '\r':
			continue
		case ',':
			to = i + 1
			for to < call.End() && (src[to] == ' ' || src[to] == '\t') {
				to++
			}
			return audit.Edit{From: from, To: to}, true
		}
		break
	}
	for i := from - 1; i > call.Pos(); i-- { // the last one: the comma before it
		switch src[i] {
		case ' ', '\t', '\n', '\r':
			continue
		case ',':
			return audit.Edit{From: i, To: to}, true
		case '(':
			return audit.Edit{From: from, To: to}, true
		}
		break
	}
	return audit.Edit{}, false
}

// keyword is the node of a keyword argument; nil if it is not there.
func keyword(c *audit.Call, names ...string) *pyast.Keyword {
	for _, n := range c.Named {
		for _, name := range names {
			if n.Name == name && n.Node != nil && n.Node.Arg == name {
				return n.Node
			}
		}
	}
	return nil
}

// isTrue reports a constant True that nobody can change from outside.
func isTrue(v *audit.Value) bool { return v != nil && v.Kind == audit.Bool && v.Yes && !v.Soft }

// number is an argument that is a number in the source.
func number(v *audit.Value) (float64, bool) {
	if v == nil || v.Kind != audit.Number || v.Text == "" {
		return 0, false
	}
	return v.Num, true
}

// own are the loops of the function around the Pass, the innermost last.
func own(p *audit.Pass) []audit.Loop {
	loops := p.Loops()
	for i, l := range loops {
		if l.Func == p.Func() {
			return loops[i:]
		}
	}
	return nil
}

// inner reports whether the Pass is in a loop over batches: over a loader, or one that takes optimizer steps.
func batchLoop(p *audit.Pass) bool {
	for _, l := range p.Loops() {
		if l.Over != nil && overLoader(l.Over) {
			return true
		}
	}
	return false
}

func overLoader(v *audit.Value) bool {
	switch {
	case v.Kind == audit.Loader:
		return true
	case v.Kind == audit.Seq && (v.Path == "enumerate" || v.Path == "zip"):
		for _, i := range v.Items {
			if overLoader(i) {
				return true
			}
		}
	}
	return false
}

// underCUDA reports whether an if around asks for CUDA in a way that the source leaves open: `if device.type == "cuda"`, `if args.cuda`. On a machine
// without CUDA nobody gets there.
func underCUDA(p *audit.Pass) bool {
	// A file or a function that is about CUDA by its name is not reached on a machine without it, unless the file itself calls it.
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
		if !bytes.Contains(p.Src.Text, []byte("__main__")) { // no program of its own
			path += filepath.Base(p.Src.Path)
			if name := filepath.Base(p.Src.Path); strings.HasPrefix(name, "test_") && strings.Contains(name, "gpu") {
				return true
			}
		}
		if name = strings.ToLower(name + path); strings.Contains(name, "cuda") || strings.Contains(name, "nccl") || strings.Contains(name, "triton") {
			return true
		}
	}
	if v := p.Global("pytestmark"); v != nil && saysCUDA(p.Text(v)) {
		return true
	}
	if f := p.Func(); f != nil && f.Node != nil { // @onlyCUDA, @require_torch_gpu, @pytest.mark.skipif(not torch.cuda.is_available()), on the function or its class
		if p.Within(f.Node, func(f *audit.Func) bool {
			return decorated(p, f.Node.DecoratorList) || f.Class != nil && f.Class.Module == f.Module && decorated(p, f.Class.Node.DecoratorList)
		}) {
			return true
		}
	}
	return p.Under(func(test pyast.Expr) bool {
		text := p.Text(test) // `if device.type in ("cpu", "mps"): return` leaves CUDA as well
		return saysCUDA(text) || strings.Contains(text, `"mps"`) || strings.Contains(text, "'mps'") || strings.Contains(text, "is_mps") ||
			strings.Contains(text, "is_pinned") || strings.Contains(text, "stream is not None") || boundByCUDA(p, test, 2) || asksElsewhere(p, test)
	})
}

// depends says what else decides whether the code runs; "" is nothing.
func depends(p *audit.Pass) string {
	if p.Guarded() { // try: import flash_attn, and what can be done with it
		return ", unless the import before it fails"
	}
	return byRunner(p)
}

// byRunner says that a test runner decides whether the code runs: in a file of tests, what the file's own top does not reach. Its markers, fixtures,
// configuration and command line skip tests where CUDA is missing, and little of that stands in the file.
func byRunner(p *audit.Pass) string {
	if p.FromTop() && !p.InMain() || !isTests(p.Main.Src) && !isTests(p.Src) {
		return ""
	}
	return ", unless the tests' runner leaves it out"
}

// isTests reports whether a file is one of tests: by a folder, or by its name, as pytest looks for them, if it holds any: a program that evaluates
// a model may be called test_net.py.
func isTests(src *audit.Source) bool {
	folders := strings.Split(filepath.ToSlash(src.Path), "/")
	name := folders[len(folders)-1]
	if filepath.IsAbs(src.Path) { // the project lies somewhere, whose name says nothing of it
		folders = folders[max(0, len(folders)-3):]
	}
	if name == "conftest.py" || slices.ContainsFunc(folders[:len(folders)-1], func(f string) bool { return f == "tests" || f == "test" }) {
		return true
	}
	if !strings.HasPrefix(name, "test_") && !strings.HasSuffix(name, "_test.py") {
		return false
	}
	return bytes.Contains(src.Text, []byte("def test")) || bytes.Contains(src.Text, []byte("unittest")) || bytes.Contains(src.Text, []byte("absltest"))
}

// boundByCUDA reports whether a test is a name that the function around binds to what asks for CUDA: on_gpu = x.device.type == "cuda".
func boundByCUDA(p *audit.Pass, test pyast.Expr, depth int) bool {
	if not, ok := test.(*pyast.UnaryOp); ok {
		test = not.Operand
	}
	if all, ok := test.(*pyast.BoolOp); ok {
		return slices.ContainsFunc(all.Values, func(e pyast.Expr) bool { return boundByCUDA(p, e, depth) })
	}
	name, ok := test.(*pyast.Name)
	f := p.Func()
	if !ok || f == nil || f.Node == nil || depth == 0 || f.Module.File != p.File() { // the test of a caller in another file
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
	return f.Kind == audit.Function && f.Func.Node != nil && strings.Contains(f.Func.Module.File.Source(f.Func.Node), "cuda.is_available()")
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
		return saysCUDA(text) || strings.HasPrefix(name, "skip") || strings.HasPrefix(name, "require") // a test that asks for more than every machine has
	})
}
