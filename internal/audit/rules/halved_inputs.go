package rules

import (
	"slices"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/pyast"
)

// HalvedInputs finds inputs cast to half by hand where autocast is switched off.
var HalvedInputs = &audit.Rule{Name: "halved-inputs", Title: "inputs halved by hand around a disabled autocast",
	Claims: []string{"4"}, Severity: audit.Warning, Doc: audit.Doc{
		Why: "Half-precision inputs meet float32 weights: RuntimeError about two dtypes. Autocast casts both where it " +
			"helps; without it the model must be halved as a whole. It is the same whether inputs are cast before the " +
			"region or in it.",
		Bad:  "with torch.autocast(\"mps\", enabled=False):\n    y = model(torch.zeros(3, 4, device=\"mps\").half())\n",
		Good: "with torch.autocast(\"mps\", dtype=torch.float16):\n    y = model(torch.zeros(3, 4, device=\"mps\"))\n",
	}, Calls: []audit.Ask{
		on(named("torch.Tensor.half", "?.half"), halvedInput),
		on(ending("to"), func(p *audit.Pass, c *abstract.Call) {
			if len(c.Args) > 0 && c.Args[0].Kind == abstract.DType && c.Args[0].Type == "float16" {
				halvedInput(p, c)
			}
		}),
	}, Kinds: []pyast.Kind{pyast.KindWith}, Node: func(p *audit.Pass, n pyast.Node) {
		with := n.(*pyast.With)
		if slices.ContainsFunc(with.Items, func(i *pyast.WithItem) bool { return isAutocastOff(p, i.ContextExpr) }) {
			halvedBefore(p, with)
		}
	}}

var autocasts = []string{"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"}

func halvedInput(p *audit.Pass, c *abstract.Call) {
	if c.Self == nil || c.Self.Kind == abstract.Module {
		return
	}
	b := p.In(autocasts...)
	if b == nil || b.Call == nil {
		return
	}
	if isOff(b.Call.Arg(-1, "enabled")) {
		reportHalved(p, c.At)
	}
}

func reportHalved(p *audit.Pass, at pyast.Node) {
	p.Report(at, audit.Finding{Sure: false,
		Text: "inputs are halved while autocast is off: float32 weights will not take them",
		Hint: "switch autocast on and leave the inputs as they are"})
}

func isOff(v *abstract.Value) bool { return v != nil && v.Kind == abstract.Bool && !v.Yes && !v.Soft }

// isAutocastOff reports whether an expression is a call of autocast with enabled=False.
func isAutocastOff(p *audit.Pass, e pyast.Expr) bool {
	call, ok := e.(*pyast.Call)
	if !ok || !slices.Contains(autocasts, p.Value(call.Func).Path) {
		return false
	}
	return slices.ContainsFunc(call.Keywords, func(k *pyast.Keyword) bool {
		return k.Arg == "enabled" && isOff(p.Value(k.Value))
	})
}

// halvedBefore looks, in the statements before a region without autocast, for what halves a name that a call of the
// region is given. Where what is called there is halved as well, it is half throughout, and nothing is wrong.
func halvedBefore(p *audit.Pass, with *pyast.With) {
	given, called := map[string]bool{}, map[string]bool{}
	for _, s := range with.Body {
		pyast.Walk(s, func(n pyast.Node) bool {
			call, ok := n.(*pyast.Call)
			if !ok {
				return true
			}
			if name, ok := call.Func.(*pyast.Name); ok {
				called[name.ID] = true
			}
			for _, a := range call.Args {
				if name, ok := a.(*pyast.Name); ok {
					given[name.ID] = true
				}
			}
			return true
		})
	}
	body := p.File().Body
	if f := p.Func(); f != nil && f.Node != nil {
		body = f.Node.Body
	}
	last := map[string]pyast.Node{} // the cast that stands, by name
	whole := false
	for _, s := range body {
		pyast.Walk(s, func(n pyast.Node) bool {
			if n.Pos() >= with.Pos() {
				return false
			}
			switch n := n.(type) {
			case *pyast.FunctionDef, *pyast.ClassDef:
				return false
			case *pyast.Call:
				if of, ok := halves(p, n); ok {
					name, ok := of.(*pyast.Name)
					whole = whole || ok && called[name.ID]
				}
			case *pyast.Assign:
				for _, t := range n.Targets {
					name, ok := t.(*pyast.Name)
					if !ok || !given[name.ID] {
						continue
					}
					delete(last, name.ID)
					if at := halvingIn(p, n.Value); at != nil {
						last[name.ID] = at
					}
				}
			}
			return true
		})
	}
	if whole {
		return
	}
	for _, at := range last {
		reportHalved(p, at)
	}
}

// halvingIn is the call in an expression of methods that makes it half: x.half(), x.to(torch.float16).to("mps"); nil
// where there is none.
func halvingIn(p *audit.Pass, e pyast.Expr) pyast.Node {
	for {
		call, ok := e.(*pyast.Call)
		if !ok {
			return nil
		}
		if _, ok := halves(p, call); ok {
			return call
		}
		f, ok := call.Func.(*pyast.Attribute)
		if !ok || f.Attr == "float" || f.Attr == "double" {
			return nil
		}
		e = f.Value
	}
}

// halves is what a call makes half.
func halves(p *audit.Pass, call *pyast.Call) (of pyast.Expr, ok bool) {
	f, isMethod := call.Func.(*pyast.Attribute)
	switch {
	case !isMethod:
	case f.Attr == "half" && len(call.Args) == 0:
		return f.Value, true
	case f.Attr == "to" || f.Attr == "type":
		for _, a := range call.Args {
			if t := dtypeOf(p.Value(a)); t != "" {
				return f.Value, t == "float16"
			}
		}
		for _, k := range call.Keywords {
			if k.Arg == "dtype" {
				return f.Value, dtypeOf(p.Value(k.Value)) == "float16"
			}
		}
	}
	return nil, false
}
