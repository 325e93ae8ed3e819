package abstract

import (
	"strconv"
	"strings"

	"assay/internal/pyast"
)

func (in *Interp) eval(e pyast.Expr) *Value {
	if e == nil || in.nesting > maxNesting || in.steps > maxSteps {
		return unknown
	}
	in.steps++
	in.nesting++
	v := in.expression(e)
	in.nesting--
	if in.watch.Kinds[e.Kind()] && !in.quiet {
		in.watch.Node(e)
	}
	return v
}

func (in *Interp) expression(e pyast.Expr) *Value {
	switch e := e.(type) {
	case *pyast.Name:
		if v := in.lookup(e.ID); v != nil {
			if v.lazy {
				v = in.resolve(v)
				in.env.set(e.ID, v)
			}
			return v
		}
		return builtin(e.ID)
	case *pyast.Constant:
		return in.constant(e)
	case *pyast.Attribute:
		return in.attribute(in.eval(e.Value), e)
	case *pyast.Call:
		return in.call(e)
	case *pyast.BinOp:
		return in.binary(e.Op, in.eval(e.Left), in.eval(e.Right), e)
	case *pyast.UnaryOp:
		v := in.eval(e.Operand)
		if e.Op == pyast.Not {
			if yes, known := v.Truth(); known {
				return boolean(!yes)
			}
			return unknown
		}
		if v.Kind == Number && e.Op == pyast.USub {
			n := *v
			n.Num = -n.Num
			n.Text = "-" + n.Text
			return &n
		}
		return v
	case *pyast.BoolOp:
		return in.boolOp(e)
	case *pyast.Compare:
		return in.compare(e)
	case *pyast.IfExp:
		yes, known := in.eval(e.Test).Truth()
		if known {
			if yes {
				saved := in.context
				if in.asksForCUDA(e.Test) {
					in.assume(e.Test)
				}
				v := in.eval(e.Body)
				in.context = saved
				return v
			}
			return in.eval(e.Orelse)
		}
		saved := in.context
		in.uncertain = true
		in.assume(e.Test)
		v := join(in.eval(e.Body), in.eval(e.Orelse))
		in.context = saved
		return v
	case *pyast.Tuple:
		return in.sequence(e.Elts)
	case *pyast.List:
		return in.sequence(e.Elts)
	case *pyast.Set:
		return in.sequence(e.Elts)
	case *pyast.Dict:
		d := &Value{Kind: Dict, Attrs: map[string]*Value{}}
		for i, k := range e.Keys {
			v := in.eval(e.Values[i])
			if k == nil {
				for name, a := range v.Attrs {
					d.Attrs[name] = a
				}
			} else if key := in.eval(k); key.Kind == Str {
				d.Attrs[key.Text] = v
			}
		}
		return d
	case *pyast.Subscript:
		return in.subscript(e)
	case *pyast.NamedExpr:
		v := in.eval(e.Value)
		in.env.set(e.Target.ID, v)
		return v
	case *pyast.Lambda:
		return &Value{Kind: Function, Func: &Func{Name: "lambda", Lambda: e, Module: in.unit, env: in.env, Local: true}}
	case *pyast.Starred:
		in.eval(e.Value)
	case *pyast.JoinedStr:
		return in.joined(e)
	case *pyast.Await:
		return in.eval(e.Value)
	case *pyast.Yield:
		in.eval(e.Value)
	case *pyast.YieldFrom:
		in.eval(e.Value)
	case *pyast.ListComp:
		return in.comprehension(e, e.Generators, func() *Value { return in.eval(e.Elt) })
	case *pyast.SetComp:
		return in.comprehension(e, e.Generators, func() *Value { return in.eval(e.Elt) })
	case *pyast.GeneratorExp:
		return in.comprehension(e, e.Generators, func() *Value { return in.eval(e.Elt) })
	case *pyast.DictComp:
		in.comprehension(e, e.Generators, func() *Value { in.eval(e.Key); return in.eval(e.Value) })
		return &Value{Kind: Dict, Attrs: map[string]*Value{}}
	case *pyast.Slice:
		in.eval(e.Lower)
		in.eval(e.Upper)
		in.eval(e.Step)
	}
	return unknown
}

func (in *Interp) constant(e *pyast.Constant) *Value {
	switch e.What {
	case pyast.Str:
		s := e.StringValue()
		if len(s) > 40 {
			return text(s)
		}
		if v := in.memo.texts[s]; v != nil {
			return v
		}
		s = strings.Clone(s) // the source shall not be kept for it
		return keepValue(in.memo.texts, s, text(s))
	case pyast.Int, pyast.Float, pyast.Complex:
		raw := e.Raw()
		if v := in.memo.numbers[raw]; v != nil {
			return v
		}
		key := strings.Clone(raw)
		raw = strings.ReplaceAll(key, "_", "")
		v := &Value{Kind: Number, Text: raw, Type: "int"}
		switch e.What {
		case pyast.Float:
			v.Type = "float"
			v.Num, _ = strconv.ParseFloat(raw, 64)
		case pyast.Complex:
			v.Type = "complex"
		default:
			if n, err := strconv.ParseInt(raw, 0, 64); err == nil {
				v.Num = float64(n)
			} else {
				v.Num, _ = strconv.ParseFloat(raw, 64)
			}
		}
		return keepValue(in.memo.numbers, key, v)
	case pyast.True:
		return trueVal
	case pyast.False:
		return falseVal
	case pyast.None:
		return noneVal
	}
	return unknown
}

func (in *Interp) sequence(elts []pyast.Expr) *Value {
	v := &Value{Kind: Seq, Items: make([]*Value, 0, min(len(elts), 64))}
	for i, x := range elts {
		item := in.eval(x)
		if _, star := x.(*pyast.Starred); star {
			v.Form = Loose
		}
		if i < 64 {
			v.Items = append(v.Items, item)
		}
	}
	return v
}

func (in *Interp) joined(e *pyast.JoinedStr) *Value {
	var b strings.Builder
	known, soft := true, false
	for _, part := range e.Values {
		switch part := part.(type) {
		case *pyast.Constant:
			b.WriteString(part.StringValue())
		case *pyast.FormattedValue:
			v := in.eval(part.Value)
			soft = soft || v.Soft
			switch {
			case part.FormatSpec != nil || part.Conversion != 0:
				known = false
			case v.Kind == Str:
				b.WriteString(v.Text)
			case v.Kind == Number && v.Text != "":
				b.WriteString(v.Text)
			case v.Kind == Device && b.Len() == 0 && len(e.Values) == 1:
				return v
			default:
				if s := b.String(); len(s) > 1 && strings.HasSuffix(s, ":") && isDevice(s[:len(s)-1]) {
					// f"cuda:{rank}"
					b.WriteString("0")
				} else {
					known = false
				}
			}
		}
	}
	if !known {
		return unknown
	}
	return &Value{Kind: Str, Text: b.String(), Soft: soft}
}

func (in *Interp) comprehension(at pyast.Expr, generators []*pyast.Comprehension, elt func() *Value) *Value {
	saved := in.context
	in.env = &env{outer: in.env}
	for _, g := range generators {
		over := in.eval(g.Iter)
		if over.Kind == Seq && over.Form == Empty {
			in.context = saved
			return &Value{Kind: Seq, Form: Loose}
		}
		l := Loop{Node: at, Over: over}
		if in.frame != nil {
			l.Func = in.frame.fn
		}
		in.loops = append(in.loops, l)
		in.bind(g.Target, element(over), at)
		for _, c := range g.Ifs {
			if _, known := in.eval(c).Truth(); !known {
				in.assume(c)
			}
		}
	}
	v := elt()
	in.context = saved
	return &Value{Kind: Seq, Items: []*Value{v}, Form: Loose}
}

func (in *Interp) boolOp(e *pyast.BoolOp) *Value {
	var last *Value
	open := false
	saved := in.context
	defer func() { in.context = saved }()
	for i, x := range e.Values {
		v := in.eval(x)
		yes, known := v.Truth()
		if known && yes == (e.Op == pyast.Or) {
			if open && v.Kind != Bool {
				return unknown
			}
			return v // decided: the rest is not asked
		}
		if !known && i < len(e.Values)-1 {
			open = true
			in.assume(x)
		}
		last = v
	}
	if open {
		if last.Kind == Str || last.Kind == Device {
			return last.softened()
		}
		return unknown
	}
	return last
}

func (in *Interp) compare(e *pyast.Compare) *Value {
	left := in.eval(e.Left)
	if len(e.Comparators) != 1 {
		for _, c := range e.Comparators {
			in.eval(c)
		}
		return unknown
	}
	right := in.eval(e.Comparators[0])
	if left.Kind == Tensor || right.Kind == Tensor {
		if e.Ops[0] != pyast.Is && e.Ops[0] != pyast.IsNot && e.Ops[0] != pyast.In && e.Ops[0] != pyast.NotIn {
			if !in.quiet && left.Kind == right.Kind {
				in.pseudo("torch.Tensor.__compare__", e, nil, []*Value{left, right})
			}
			return &Value{Kind: Tensor, Where: orOpen(placesOf(left, right)), Type: "bool"}
		}
		return unknown
	}
	if left.Soft || right.Soft {
		return unknown
	}
	a, b := left, right
	switch e.Ops[0] {
	case pyast.Eq, pyast.NotEq, pyast.Is, pyast.IsNot:
		equal, known := false, false
		switch {
		case a.Kind == Str && b.Kind == Str:
			equal, known = a.Text == b.Text, true
		case a.Kind == Number && b.Kind == Number && a.Text+b.Text != "":
			equal, known = a.Num == b.Num, true
		case a.Kind == None && b.Kind == None:
			equal, known = true, true
		case a.Kind == None && b.mayBeNone() || b.Kind == None && a.mayBeNone():
		case a.Kind == None || b.Kind == None:
			known = a.Kind != Str && b.Kind != Str && a.Kind != Number && b.Kind != Number
		case a.Kind == Device && b.Kind == Str || a.Kind == Str && b.Kind == Device || a.Kind == Device &&
			b.Kind == Device:
			x, y := a.Place(), b.Place()
			if single(x) && single(y) {
				equal, known = x == y, true
			} else if x&y == 0 && (x|y)&Open == 0 {
				known = true
			}
		}
		if known {
			return boolean(equal == (e.Ops[0] == pyast.Eq || e.Ops[0] == pyast.Is))
		}
	case pyast.In, pyast.NotIn:
		if a.Kind == Str && b.Kind == Seq && b.Form == Listed {
			found := false
			for _, i := range b.Items {
				if i.Kind != Str {
					return unknown
				}
				found = found || i.Text == a.Text
			}
			return boolean(found == (e.Ops[0] == pyast.In))
		}
		if a.Kind == Str && b.Kind == Str {
			return boolean(strings.Contains(b.Text, a.Text) == (e.Ops[0] == pyast.In))
		}
	case pyast.Gt, pyast.Lt, pyast.GtE, pyast.LtE:
		if a.Kind == Number && b.Kind == Number && (a.Text != "" || b.Text != "") && a.Type+b.Type != "" {
			x, y := a.Num, b.Num
			return boolean(map[pyast.Op]bool{pyast.Gt: x > y, pyast.Lt: x < y, pyast.GtE: x >= y,
				pyast.LtE: x <= y}[e.Ops[0]])
		}
	}
	return unknown
}

func (in *Interp) subscript(e *pyast.Subscript) *Value {
	base, index := in.eval(e.Value), in.eval(e.Slice)
	switch base.Kind {
	case Tensor:
		return in.indexed(base, index, e)
	case Array:
		return base
	case Seq:
		if index.Kind == Number && base.Form == Listed && index.Text != "" {
			i := int(index.Num)
			if i < 0 {
				i += len(base.Items)
			}
			if i >= 0 && i < len(base.Items) {
				return base.Items[i]
			}
		}
		if _, slice := e.Slice.(*pyast.Slice); slice {
			return &Value{Kind: Seq, Items: base.Items, Form: Loose}
		}
		if base.Form == Loose {
			return element(base)
		}
	case Dict:
		if index.Kind == Str {
			if v := base.Attrs[index.Text]; v != nil {
				return v
			}
		}
	case API:
		if base.Path == "os.environ" {
			return &Value{Kind: Str, Soft: true}
		}
		if strings.HasPrefix(base.Path, "typing.") || strings.HasPrefix(base.Path, "builtins.") {
			return unknown
		}
	case Module:
		if base.Path == "torch.nn.ModuleList" || base.Path == "torch.nn.Sequential" ||
			base.Path == "torch.nn.ModuleDict" {
			if index.Kind == Number && len(base.Items) > int(index.Num) && index.Num >= 0 {
				if m := base.Items[int(index.Num)]; m.Kind == Module {
					return in.child(base, m)
				}
			}
			return &Value{Kind: Module, Where: base.Where}
		}
	case StateDict:
		return &Value{Kind: Tensor, Where: orOpen(base.Where), Type: base.Type}
	}
	return unknown
}
