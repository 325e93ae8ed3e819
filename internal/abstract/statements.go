package abstract

import (
	"slices"
	"strings"

	"assay/internal/pyast"
)

// block interprets statements; what follows a return or raise is interpreted as well, as a reader would look at it,
// but binds nothing.
func (in *Interp) block(body []pyast.Stmt) control {
	open := len(in.openTests)
	how := onward
	for _, s := range body {
		if how = in.stmt(s); how != onward {
			break
		}
	}
	in.openTests = in.openTests[:open]
	return how
}

func (in *Interp) stmt(s pyast.Stmt) control {
	if in.nesting > maxNesting || in.steps > maxSteps {
		return onward
	}
	in.nesting++
	how := in.statement(s)
	in.nesting--
	if in.watch.Kinds[s.Kind()] && !in.quiet {
		in.watch.Node(s)
	}
	return how
}

func (in *Interp) statement(s pyast.Stmt) control {
	switch s := s.(type) {
	case *pyast.ExprStmt:
		if s.Value.Kind() == pyast.KindConstant { // a docstring, or …
			return onward
		}
		if in.eval(s.Value).Kind == Never {
			return gone
		}
	case *pyast.Assign:
		v := in.eval(s.Value)
		for _, t := range s.Targets {
			in.bind(t, v, s)
		}
	case *pyast.AnnAssign:
		if s.Value != nil {
			v := in.eval(s.Value)
			if in.env.class {
				v = v.softened()
			}
			in.bind(s.Target, v, s)
		} else if n, ok := s.Target.(*pyast.Name); ok && in.env.class {
			in.env.set(n.ID, in.annotated(s.Annotation))
		}
	case *pyast.AugAssign:
		left := in.quietly(s.Target)
		right := in.eval(s.Value)
		in.bind(s.Target, in.binary(s.Op, left, right, s), s)
	case *pyast.Return:
		v := noneVal
		if s.Value != nil {
			v = in.eval(s.Value)
		}
		if f := in.frame; f != nil {
			if f.returns {
				v = join(f.result, v)
			}
			f.result, f.returns = v, true
		}
		return gone
	case *pyast.Raise:
		if s.Exc != nil {
			in.eval(s.Exc)
		}
		if s.Cause != nil {
			in.eval(s.Cause)
		}
		return gone
	case *pyast.Break, *pyast.Continue:
		return jumped
	case *pyast.If:
		return in.branch(s)
	case *pyast.For:
		in.loop(s)
	case *pyast.While:
		if yes, known := in.eval(s.Test).Truth(); known && !yes {
			return in.block(s.Orelse)
		}
		in.repeat(Loop{Node: s}, func() { in.eval(s.Test); in.block(s.Body) })
		in.block(s.Orelse)
	case *pyast.With:
		return in.with(s)
	case *pyast.Try:
		return in.try(s)
	case *pyast.Match:
		in.eval(s.Subject)
		before := in.env.copy()
		all := in.env.copy()
		for _, c := range s.Cases {
			in.env.values = slices.Clone(before)
			for _, name := range patternNames(c.Pattern, nil) {
				in.env.set(name, unknown)
			}
			if c.Guard != nil {
				in.eval(c.Guard)
			}
			if in.block(c.Body) == onward {
				all = all.join(in.env.values)
			}
		}
		in.env.values = all
	case *pyast.FunctionDef:
		in.define(s)
	case *pyast.ClassDef:
		in.defineClass(s)
	case *pyast.Import:
		for _, a := range s.Names {
			in.noteImport(a.Name, s)
			if a.AsName != "" {
				in.env.set(a.AsName, in.module(a.Name))
			} else {
				top, _, _ := strings.Cut(a.Name, ".")
				in.env.set(top, in.module(top))
				if top != a.Name {
					in.module(a.Name)
				}
			}
		}
	case *pyast.ImportFrom:
		in.importFrom(s, "")
	case *pyast.Global:
		in.outer(s.Names)
	case *pyast.Nonlocal:
		in.outer(s.Names)
	case *pyast.Assert:
		yes, known := in.eval(s.Test).Truth()
		if s.Msg != nil {
			in.eval(s.Msg)
		}
		switch {
		case !known:
			in.assume(s.Test) // for the rest of the block
		case !yes && in.aboutTarget(s.Test):
			return in.ended(s)
		}
	case *pyast.Delete:
		for _, t := range s.Targets {
			if n, ok := t.(*pyast.Name); ok {
				in.env.put(n.ID, nil)
			}
		}
	case *pyast.TypeAlias:
		in.env.set(s.Name.ID, unknown)
	case *pyast.Bad:
		in.block(s.Body)
	}
	return onward
}

// branch interprets an if: where the target decides the test, the other side is dead.
func (in *Interp) branch(s *pyast.If) control {
	yes, known := in.eval(s.Test).Truth()
	saved := in.context
	in.inMain = in.inMain || isMain(s.Test)
	if known {
		side := s.Body
		if !yes {
			side = s.Orelse
		}
		if yes && in.asksForCUDA(s.Test) {
			in.assume(s.Test)
		}
		how := in.block(side)
		in.openTests = saved.openTests
		if how == gone && in.aboutTarget(s.Test) {
			how = in.ended(s)
		}
		in.context = saved
		return how
	}
	before := in.env.copy()
	in.uncertain = true
	in.assume(s.Test)
	first := in.block(s.Body)
	one := in.env.values
	in.env.values = before
	if in.moreThanOne(s.Test) { // without it, one GPU or none is what is left
		in.openTests = saved.openTests
	}
	second := in.block(s.Orelse)
	in.context = saved
	switch {
	case first == onward && second == onward:
		in.env.merge(one)
	case first == onward:
		in.env.values = one
		in.assume(s.Test) // the rest of the block is reached one way only
	case second == onward:
		in.assume(s.Test)
	case first == gone && second == gone:
		return gone
	default:
		return jumped
	}
	return onward
}

// ended shows the statement where the program gives up on this target.
func (in *Interp) ended(s pyast.Stmt) control {
	if i, ok := s.(*pyast.If); ok && strings.Contains(in.Text(i), "skip(") { // a test that is left out
		return gone
	}
	if !in.quiet && in.watch.End != nil {
		in.watch.End(s)
	}
	if in.frame != nil {
		return gone // on this target the function ends here
	}
	return onward // reported; the rest of the file is looked at as well
}

// repeat interprets a loop's body: quietly first, so that what an earlier turn leaves is known, then aloud.
func (in *Interp) repeat(l Loop, body func()) {
	if in.frame != nil {
		l.Func = in.frame.fn
	}
	saved := in.context
	in.loops = append(in.loops, l)
	in.uncertain = true
	before := in.env.copy()
	if !in.quiet {
		in.quiet = true
		body()
		in.quiet = false
		in.env.merge(before)
	}
	body()
	in.env.merge(before)
	in.context = saved
}

func (in *Interp) loop(s *pyast.For) {
	over := in.eval(s.Iter)
	if over.Kind == Seq && over.Form == Empty {
		in.block(s.Orelse)
		return
	}
	in.repeat(Loop{Node: s, Over: over}, func() {
		in.bind(s.Target, element(over), s)
		in.block(s.Body)
	})
	in.block(s.Orelse)
}

func (in *Interp) with(s *pyast.With) control {
	saved, device := in.context, in.defaultDevice
	for _, item := range s.Items {
		v := in.eval(item.ContextExpr)
		b := Block{}
		if v.Made != nil {
			b.Path, b.Call = v.Made.Path, v.Made
		}
		if c, ok := item.ContextExpr.(*pyast.Call); ok && b.Path == "" {
			if f := in.quietly(c.Func); f.Kind == API {
				b.Path = f.Path
			}
		}
		if v.Kind == API {
			b.Path = v.Path
		}
		if v.Kind == Device {
			b.Path = "torch.device"
			in.defaultDevice = v.Where
		}
		in.blocks = append(in.blocks, b)
		if item.OptionalVars != nil {
			if v.Kind != Made {
				v = unknown
			}
			in.bind(item.OptionalVars, v, s)
		}
	}
	how := in.block(s.Body)
	in.context, in.defaultDevice = saved, device
	return how
}

func (in *Interp) try(s *pyast.Try) control {
	before, saved := in.env.copy(), in.context
	for _, h := range s.Handlers {
		for _, name := range exceptionNames(h.Type, nil) {
			takes := exceptions[name]
			in.importsCaught = in.importsCaught || takes.imports
			in.errorsCaught = in.errorsCaught || takes.calls
		}
	}
	how := in.block(s.Body)
	in.context = saved
	if how == onward {
		how = in.block(s.Orelse)
	}
	after := in.env.copy()
	left := how != onward
	for _, h := range s.Handlers {
		in.env.values = slices.Clone(before)
		in.env.merge(after) // the body may have come anywhere
		if h.Name != "" {
			in.env.set(h.Name, unknown)
		}
		in.uncertain, in.inHandler = true, true
		how := in.block(h.Body)
		in.context = saved
		if how == onward {
			if left {
				after, left = in.env.copy(), false
			} else {
				after = after.join(in.env.values)
			}
		}
	}
	in.env.values = after
	if end := in.block(s.Finalbody); end != onward {
		return end
	}
	if left {
		return how
	}
	return onward
}

// define binds a function. Its body is interpreted where it is called, and once more by itself if nobody calls it.
func (in *Interp) define(s *pyast.FunctionDef) {
	f := &Func{Name: s.Name, Node: s, Module: in.unit, env: in.env, Local: in.frame != nil}
	if old := in.unit.funcs[s]; old != nil { // the second turn of a loop, or another call of the function around
		f = old
		f.env = in.env
	} else {
		in.unit.funcs[s] = f
		in.unit.order = append(in.unit.order, f)
	}
	for _, d := range s.Args.Defaults {
		in.eval(d)
	}
	for _, d := range s.Args.KwDefaults {
		if d != nil {
			in.eval(d)
		}
	}
	v := &Value{Kind: Function, Func: f}
	for i := len(s.DecoratorList) - 1; i >= 0; i-- {
		d := in.eval(s.DecoratorList[i])
		if (d.Kind == API || d.Kind == Made) && (d.Path == "torch.no_grad" || d.Path == "torch.inference_mode") {
			f.noGrad = true
		}
		switch {
		case d.Kind == API && (d.Path == "builtins.property" || strings.HasSuffix(d.Path, "cached_property")):
			v = &Value{Kind: Function, Func: f, Binding: AsProperty}
		case d.Kind == API && d.Path == "builtins.staticmethod":
			v = &Value{Kind: Function, Func: f, Binding: AsStatic}
		case d.Kind == API && d.Path == "builtins.classmethod":
			v = &Value{Kind: Function, Func: f, Binding: AsClass}
		}
	}
	in.env.set(s.Name, v)
}

func (in *Interp) defineClass(s *pyast.ClassDef) {
	c := in.unit.classes[s]
	if c == nil {
		c = &Class{Name: s.Name, Node: s, Module: in.unit, Local: in.frame != nil}
		c.define = func(name string) { in.defineLater(c.env, c.Module, name) }
		in.unit.classes[s] = c
	}
	c.Bases = nil
	for _, b := range s.Bases {
		c.Bases = append(c.Bases, in.eval(b))
	}
	for _, k := range s.Keywords {
		in.eval(k.Value)
	}
	for _, d := range s.DecoratorList {
		in.eval(d)
	}
	saved := in.context
	scope := &env{outer: in.env, class: true}
	in.env = scope
	if scope.outer.unit != nil {
		scope.defs = s.Body
		for _, s := range s.Body {
			if _, def := s.(*pyast.FunctionDef); !def {
				if in.stmt(s) != onward {
					break
				}
			}
		}
	} else {
		in.block(s.Body)
	}
	c.env = scope
	in.context = saved
	for _, v := range scope.all {
		if v.Kind == Function && v.Func.Class == nil {
			v.Func.Class = c
		}
	}
	in.env.set(s.Name, &Value{Kind: ClassDef, Class: c})
}
