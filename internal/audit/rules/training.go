package rules

import (
	"strings"

	"assay/internal/audit"
	"assay/internal/pyast"
)

// seen is a call that a rule keeps until the file's end.
type seen struct {
	at   pyast.Node
	fn   *audit.Func
	name string
	sure bool
}

type log struct{ calls []seen }

func (l *log) add(p *audit.Pass, c *audit.Call, sure bool) {
	for _, s := range l.calls {
		if s.at == c.At {
			return
		}
	}
	l.calls = append(l.calls, seen{c.At, p.Func(), last(c.Path), sure})
}

// in lists the calls of a name in a function.
func (l *log) in(fn *audit.Func, names ...string) []seen {
	var list []seen
	for _, s := range l.calls {
		for _, n := range names {
			if s.fn == fn && s.name == n {
				list = append(list, s)
			}
		}
	}
	return list
}

func newLog() *log { return &log{} }

func isScaler(path string) bool { return strings.Contains(path, "GradScaler.") }

// ClipWithoutUnscale finds gradients that are clipped while they are scaled.
var ClipWithoutUnscale = &audit.Rule{Name: "clip-without-unscale", Title: "gradients are clipped while they are scaled", Severity: audit.Error, Doc: audit.Doc{
	Why:    "Under a GradScaler gradients are some 65,536 times too large until scaler.unscale_(optimizer) or scaler.step: clipping before it cuts them all to almost nothing.",
	Bad:    "scaler = torch.amp.GradScaler(\"mps\")\nscaler.scale(loss).backward()\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\nscaler.update()\n",
	Good:   "scaler = torch.amp.GradScaler(\"mps\")\nscaler.scale(loss).backward()\nscaler.unscale_(optimizer)\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\nscaler.update()\n",
	Source: "PyTorch, automatic mixed precision examples",
}, Names: either(isScaler, ending("backward"), named("?.unscale_", "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")), Call: func(p *audit.Pass, c *audit.Call) {
	name := last(c.Path)
	switch {
	case isScaler(c.Path) && (name == "scale" || name == "step" || name == "unscale_"):
	case name == "backward" && c.Node != nil && !strings.Contains(p.Text(c.Node.Func), "scale("): // of a loss that is not scaled
	case c.Path == "?.unscale_":
	case c.Path == "torch.nn.utils.clip_grad_norm_" || c.Path == "torch.nn.utils.clip_grad_value_":
	default:
		return
	}
	if p.AtHome() {
		audit.Note(p, newLog).add(p, c, true)
	}
}, File: func(p *audit.Pass) {
	l := audit.Note(p, newLog)
	for _, s := range l.calls {
		if s.name != "clip_grad_norm_" && s.name != "clip_grad_value_" || len(l.in(s.fn, "step")) == 0 || len(l.in(s.fn, "scale")) == 0 {
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
			p.Report(s.at, audit.Finding{Sure: true, Text: "gradients are clipped before they are unscaled: the limit is met by scaled ones", Hint: "call scaler.unscale_(optimizer) first"})
		}
	}
}}

// ScalerWithoutUpdate finds a GradScaler that never adapts.
var ScalerWithoutUpdate = &audit.Rule{Name: "scaler-without-update", Title: "a GradScaler that is never updated", Severity: audit.Error, Doc: audit.Doc{
	Why:    "scaler.step without scaler.update raises at the next step (\"step() has already been called since the last update()\").",
	Bad:    "scaler = torch.amp.GradScaler(\"mps\")\nscaler.scale(loss).backward()\nscaler.step(optimizer)\n",
	Good:   "scaler = torch.amp.GradScaler(\"mps\")\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n",
	Source: "torch/amp/grad_scaler.py",
}, Names: either(isScaler, named("?.update")), Call: func(p *audit.Pass, c *audit.Call) {
	if name := last(c.Path); p.AtHome() && (isScaler(c.Path) && (name == "step" || name == "update") || c.Path == "?.update") {
		audit.Note(p, newLog).add(p, c, isScaler(c.Path))
	}
}, File: func(p *audit.Pass) {
	l := audit.Note(p, newLog)
	updates := false
	for _, s := range l.calls {
		updates = updates || s.name == "update"
	}
	for _, s := range l.calls {
		if s.name == "step" && !updates {
			p.Report(s.at, audit.Finding{Sure: true, Text: "the scaler steps, and is updated nowhere in this file: the second step raises", Hint: "call scaler.update() after the step"})
			return
		}
	}
}}

// HalvedInputs finds inputs cast to half by hand where autocast is switched off.
var HalvedInputs = &audit.Rule{Name: "halved-inputs", Title: "inputs halved by hand around a disabled autocast", Severity: audit.Warning, Doc: audit.Doc{
	Why:  "Half-precision inputs meet float32 weights: RuntimeError about two dtypes. Autocast casts both where it helps; without it the model must be halved as a whole.",
	Bad:  "with torch.autocast(\"mps\", enabled=False):\n    y = model(torch.zeros(3, 4, device=\"mps\").half())\n",
	Good: "with torch.autocast(\"mps\", dtype=torch.float16):\n    y = model(torch.zeros(3, 4, device=\"mps\"))\n",
}, Names: ending("half", "to"), Call: func(p *audit.Pass, c *audit.Call) {
	if c.Path != "torch.Tensor.half" && c.Path != "?.half" && !(last(c.Path) == "to" && len(c.Args) > 0 && c.Args[0].Kind == audit.DType && c.Args[0].Type == "float16") {
		return
	}
	if c.Self == nil || c.Self.Kind == audit.Module {
		return
	}
	b := p.In("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast")
	if b == nil || b.Call == nil {
		return
	}
	if e := b.Call.Arg(-1, "enabled"); e != nil && e.Kind == audit.Bool && !e.Yes && !e.Soft {
		p.Report(c.At, audit.Finding{Sure: false, Text: "inputs are halved while autocast is off: float32 weights will not take them", Hint: "switch autocast on and leave the inputs as they are"})
	}
}}

// AccumulationUnscaled finds gradients that are accumulated over batches without dividing the loss.
var AccumulationUnscaled = &audit.Rule{Name: "accumulation-unscaled", Title: "gradients accumulate over batches, and the loss is not divided", Severity: audit.Warning, Doc: audit.Doc{
	Why:  "When optimizer.step() runs every n-th batch, gradients of n batches add up: without loss / n the step is n times as large as for one large batch.",
	Bad:  "for i, x in enumerate(loader):\n    loss = model(x).mean()\n    loss.backward()\n    if (i + 1) % 4 == 0:\n        optimizer.step()\n        optimizer.zero_grad()\n",
	Good: "for i, x in enumerate(loader):\n    loss = model(x).mean() / 4\n    loss.backward()\n    if (i + 1) % 4 == 0:\n        optimizer.step()\n        optimizer.zero_grad()\n",
}, Kinds: []pyast.Kind{pyast.KindFor}, Node: func(p *audit.Pass, n pyast.Node) {
	loop := n.(*pyast.For)
	var backward pyast.Node
	guarded, divided := false, false
	var walk func(body []pyast.Stmt, inTest bool)
	walk = func(body []pyast.Stmt, inTest bool) {
		for _, s := range body {
			switch s := s.(type) {
			case *pyast.If:
				modulo := false
				pyast.Walk(s.Test, func(n pyast.Node) bool {
					if b, ok := n.(*pyast.BinOp); ok && b.Op == pyast.Mod {
						modulo = true
					}
					return true
				})
				walk(s.Body, inTest || modulo)
				walk(s.Orelse, inTest)
				continue
			case *pyast.For:
				continue // its own
			case *pyast.With:
				walk(s.Body, inTest)
				continue
			case *pyast.AugAssign:
				divided = divided || s.Op == pyast.Div || s.Op == pyast.Mult
			}
			pyast.Walk(s, func(n pyast.Node) bool {
				switch n := n.(type) {
				case *pyast.BinOp:
					if n.Op == pyast.Div || n.Op == pyast.Mult && strings.Contains(p.Text(n), "/") {
						divided = true
					}
				case *pyast.Call:
					a, ok := n.Func.(*pyast.Attribute)
					if !ok {
						break
					}
					switch a.Attr {
					case "backward":
						if !inTest && backward == nil {
							backward = n
						}
					case "step":
						text := strings.ToLower(p.Text(a.Value))
						if strings.Contains(text, "optim") || strings.Contains(text, "scaler") || text == "opt" {
							guarded = guarded || inTest
							if !inTest {
								divided = true // it steps at every batch
							}
						}
					case "div", "div_", "mean_over", "accumulate":
						divided = true
					}
				}
				return true
			})
		}
	}
	walk(loop.Body, false)
	if backward != nil && guarded && !divided {
		p.Report(backward, audit.Finding{Sure: false, Text: "the optimizer steps once in several batches, and the loss is not divided by their number", Hint: "divide it before backward: (loss / n).backward()"})
	}
}}

// RetainedGraph finds losses that are added up with their graphs.
var RetainedGraph = &audit.Rule{Name: "retained-graph", Title: "losses are added up with their graphs", Severity: audit.Warning, Fixable: true, Doc: audit.Doc{
	Why:    "A loss that backward went through still belongs to its graph: adding losses up over an epoch keeps what every step left, and memory grows step by step.",
	Bad:    "total = 0.0\nfor x in torch.utils.data.DataLoader(data):\n    loss = model(x).mean()\n    loss.backward()\n    total += loss\n",
	Good:   "total = 0.0\nfor x in torch.utils.data.DataLoader(data):\n    loss = model(x).mean()\n    loss.backward()\n    total += loss.detach()\n",
	Source: "PyTorch FAQ, \"My model reports out of memory\"",
}, Kinds: []pyast.Kind{pyast.KindAugAssign, pyast.KindAssign, pyast.KindCall}, Node: func(p *audit.Pass, n pyast.Node) {
	if len(p.Loops()) == 0 {
		return
	}
	target, name := added(p, n)
	if name == nil || !strings.Contains(strings.ToLower(name.ID), "loss") || len(own(p)) == 0 {
		return
	}
	loop, ok := own(p)[len(own(p))-1].Node.(*pyast.For)
	if !ok || p.In("torch.no_grad", "torch.inference_mode") != nil {
		return
	}
	node, _ := n.(*pyast.Assign)
	backward, total := false, false
	for _, b := range loop.Body {
		pyast.Walk(b, func(n pyast.Node) bool {
			if c, ok := n.(*pyast.Call); ok {
				if a, ok := c.Func.(*pyast.Attribute); ok && a.Attr == "backward" {
					text := p.Text(a.Value)
					backward = backward || strings.Contains(text, name.ID)
					total = total || strings.Contains(text, target)
				}
			}
			if a, ok := n.(*pyast.Assign); ok && a != node && p.Text(a.Targets[0]) == target { // begun anew
				total = true
			}
			if a, ok := n.(*pyast.Assign); ok && len(a.Targets) == 1 && p.Text(a.Targets[0]) == name.ID {
				text := p.Text(a.Value)
				if strings.HasSuffix(text, ".item()") || strings.HasPrefix(text, "float(") || strings.HasSuffix(text, ".detach()") {
					total = true
				}
			}
			return true
		})
	}
	if !backward || total {
		return
	}
	f := audit.Finding{Sure: p.Value(name).Kind == audit.Tensor, Text: "the sum keeps the graph of every loss: memory grows with each step", Hint: "add loss.detach(), and .item() once at the end"}
	if _, list := n.(*pyast.Call); list {
		f.Text = "the list keeps the graph of every loss: memory grows with each step"
	}
	f.Fix = &audit.Fix{Safety: audit.Safe, Title: "add " + name.ID + ".detach()", Edits: []audit.Edit{{From: name.End(), To: name.End(), Text: ".detach()"}}}
	if !f.Sure {
		f.Fix.Safety = audit.Unsafe
	}
	p.Report(n, f)
}}

// added is what a statement adds a name's value to: total += loss, total = total + loss, losses.append(loss).
func added(p *audit.Pass, n pyast.Node) (target string, name *pyast.Name) {
	switch n := n.(type) {
	case *pyast.AugAssign:
		if _, ok := n.Target.(*pyast.Name); ok && n.Op == pyast.Add {
			name, _ = n.Value.(*pyast.Name)
			target = p.Text(n.Target)
		}
	case *pyast.Assign:
		sum, ok := n.Value.(*pyast.BinOp)
		if !ok || sum.Op != pyast.Add || len(n.Targets) != 1 {
			return "", nil
		}
		to, isName := n.Targets[0].(*pyast.Name)
		left, also := sum.Left.(*pyast.Name)
		if isName && also && left.ID == to.ID {
			name, _ = sum.Right.(*pyast.Name)
			target = to.ID
		}
	case *pyast.Call:
		if f, ok := n.Func.(*pyast.Attribute); ok && f.Attr == "append" && len(n.Args) == 1 {
			name, _ = n.Args[0].(*pyast.Name)
			target = p.Text(f.Value)
		}
	}
	return target, name
}

// EvaluationWithGradients finds evaluation loops that keep graphs.
var EvaluationWithGradients = &audit.Rule{Name: "evaluation-with-gradients", Title: "evaluation builds graphs that nobody uses", Severity: audit.Warning, Doc: audit.Doc{
	Why:  "After model.eval() PyTorch still keeps what a backward pass would need: evaluation takes the memory of training. torch.no_grad() or torch.inference_mode() leaves it out.",
	Bad:  "def evaluate(model, loader):\n    model.eval()\n    for x, y in loader:\n        out = model(x)\n",
	Good: "@torch.no_grad()\ndef evaluate(model, loader):\n    model.eval()\n    for x, y in loader:\n        out = model(x)\n",
}, Names: either(ending("eval", "train", "backward", "set_grad_enabled", "requires_grad_", "__call__"), named("torch.autograd.grad")), Call: func(p *audit.Pass, c *audit.Call) {
	name := last(c.Path)
	if !p.AtHome() || p.Func() == nil {
		return
	}
	l := audit.Note(p, newLog)
	switch {
	case name == "eval" && (c.Path == "torch.nn.Module.eval" || c.Path == "?.eval") && len(c.Args) == 0:
		l.add(p, c, true)
	case name == "train" && (c.Path == "torch.nn.Module.train" || c.Path == "?.train"), name == "backward", name == "set_grad_enabled", name == "requires_grad_":
		l.add(p, c, true)
	case c.Path == "torch.autograd.grad":
		l.calls = append(l.calls, seen{c.At, p.Func(), "backward", true})
	case strings.HasSuffix(c.Path, "__call__") && c.Self != nil && c.Self.Kind == audit.Module && p.In("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled") == nil && batchLoop(p):
		if c.Self.Path == "" || !strings.HasPrefix(c.Self.Path, "torch.nn.") || c.Self.Path == "torch.nn.Sequential" {
			l.calls = append(l.calls, seen{c.At, p.Func(), "model", c.Self.Soft})
		}
	}
}, File: func(p *audit.Pass) {
	l := audit.Note(p, newLog)
	told := map[*audit.Func]bool{}
	for _, s := range l.calls {
		if s.name != "model" || told[s.fn] || len(l.in(s.fn, "eval")) == 0 || len(l.in(s.fn, "train", "backward", "set_grad_enabled", "requires_grad_")) > 0 {
			continue
		}
		if l.in(s.fn, "eval")[0].at.Pos() > s.at.Pos() {
			continue
		}
		told[s.fn] = true
		p.Report(s.at, audit.Finding{Sure: false, Text: "the model is in evaluation, and graphs are kept for a backward pass", Hint: "put torch.no_grad() or torch.inference_mode() around it"})
	}
}}

// GeneratorManager finds context managers that yield again after an error.
var GeneratorManager = &audit.Rule{Name: "context-manager-yields-twice", Title: "a context manager that yields again after an error", Severity: audit.Error, Doc: audit.Doc{
	Why: "A generator under @contextmanager may yield once. When the block raises and the generator catches that and yields again, contextlib raises RuntimeError " +
		"(\"generator didn't stop after throw()\"): the block is not run a second time. A retry is a loop around the block.",
	Bad:    "@contextlib.contextmanager\ndef retry():\n    try:\n        yield\n    except RuntimeError:\n        torch.mps.empty_cache()\n        yield\n",
	Good:   "def retry(step):\n    try:\n        return step()\n    except RuntimeError:\n        torch.mps.empty_cache()\n        return step()\n",
	Source: "CPython, Lib/contextlib.py",
}, Kinds: []pyast.Kind{pyast.KindFunctionDef}, Node: func(p *audit.Pass, n pyast.Node) {
	f := n.(*pyast.FunctionDef)
	manager := false
	for _, d := range f.DecoratorList {
		manager = manager || strings.HasSuffix(p.Text(d), "contextmanager")
	}
	if !manager {
		return
	}
	for _, s := range f.Body {
		pyast.Walk(s, func(n pyast.Node) bool {
			t, ok := n.(*pyast.Try)
			if !ok {
				return true
			}
			if yields(t.Body) == nil {
				return true
			}
			for _, h := range t.Handlers {
				if y := yields(h.Body); y != nil {
					p.Report(y, audit.Finding{Sure: true, Text: "after an error in the block this yields a second time: RuntimeError, and the block is not run again", Hint: "put the retry into a loop around the block"})
				}
			}
			return true
		})
	}
}}

// yields is the first yield among statements, nil if there is none.
func yields(body []pyast.Stmt) (found pyast.Node) {
	for _, s := range body {
		pyast.Walk(s, func(n pyast.Node) bool {
			switch n.Kind() {
			case pyast.KindYield, pyast.KindYieldFrom:
				if found == nil {
					found = n
				}
			case pyast.KindFunctionDef, pyast.KindLambda, pyast.KindClassDef:
				return false
			}
			return found == nil
		})
	}
	return found
}
