package audit

import (
	"strconv"
	"strings"

	"assay/internal/pyast"
)

// Value is what is known of an expression where the Pass is; nothing is reported on the way.
func (p *Pass) Value(e pyast.Expr) *Value {
	quiet := p.quiet
	p.quiet = true
	v := p.eval(e)
	p.quiet = quiet
	return v
}

// read is the value of an expression that is also a target.
func (p *Pass) read(e pyast.Expr) *Value { return p.Value(e) }

func (p *Pass) eval(e pyast.Expr) *Value {
	if e == nil || p.nesting > maxNesting || p.steps > maxSteps {
		return unknown
	}
	p.steps++
	p.nesting++
	v := p.expression(e)
	p.nesting--
	if rules := p.rules.nodes[e.Kind()]; rules != nil && !p.quiet {
		for _, r := range rules {
			p.rule = r
			r.Node(p, e)
		}
	}
	return v
}

func (p *Pass) expression(e pyast.Expr) *Value {
	switch e := e.(type) {
	case *pyast.Name:
		if v := p.lookup(e.ID); v != nil {
			if v.lazy {
				v = p.resolve(v)
				p.env.set(e.ID, v)
			}
			return v
		}
		return builtin(e.ID)
	case *pyast.Constant:
		return p.constant(e)
	case *pyast.Attribute:
		return p.attribute(p.eval(e.Value), e)
	case *pyast.Call:
		return p.call(e)
	case *pyast.BinOp:
		return p.binary(e.Op, p.eval(e.Left), p.eval(e.Right), e)
	case *pyast.UnaryOp:
		v := p.eval(e.Operand)
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
		return p.boolOp(e)
	case *pyast.Compare:
		return p.compare(e)
	case *pyast.IfExp:
		yes, known := p.eval(e.Test).Truth()
		if known {
			if yes {
				if p.asksForCUDA(e.Test) {
					var v *Value
					p.under(e.Test, func() { v = p.eval(e.Body) })
					return v
				}
				return p.eval(e.Body)
			}
			return p.eval(e.Orelse)
		}
		p.maybe++
		var v *Value
		p.under(e.Test, func() { v = join(p.eval(e.Body), p.eval(e.Orelse)) })
		p.maybe--
		return v
	case *pyast.Tuple:
		return p.sequence(e.Elts)
	case *pyast.List:
		return p.sequence(e.Elts)
	case *pyast.Set:
		return p.sequence(e.Elts)
	case *pyast.Dict:
		d := &Value{Kind: Dict, Attrs: map[string]*Value{}}
		for i, k := range e.Keys {
			v := p.eval(e.Values[i])
			if k == nil {
				for name, a := range v.Attrs {
					d.Attrs[name] = a
				}
			} else if key := p.eval(k); key.Kind == Str {
				d.Attrs[key.Text] = v
			}
		}
		return d
	case *pyast.Subscript:
		return p.subscript(e)
	case *pyast.NamedExpr:
		v := p.eval(e.Value)
		p.env.set(e.Target.ID, v)
		return v
	case *pyast.Lambda:
		return &Value{Kind: Function, Func: &Func{Name: "lambda", Lambda: e, Module: p.mod, env: p.env, Local: true}}
	case *pyast.Starred:
		p.eval(e.Value)
	case *pyast.JoinedStr:
		return p.joined(e)
	case *pyast.Await:
		return p.eval(e.Value)
	case *pyast.Yield:
		p.eval(e.Value)
	case *pyast.YieldFrom:
		p.eval(e.Value)
	case *pyast.ListComp:
		return p.comprehension(e, e.Generators, func() *Value { return p.eval(e.Elt) })
	case *pyast.SetComp:
		return p.comprehension(e, e.Generators, func() *Value { return p.eval(e.Elt) })
	case *pyast.GeneratorExp:
		return p.comprehension(e, e.Generators, func() *Value { return p.eval(e.Elt) })
	case *pyast.DictComp:
		p.comprehension(e, e.Generators, func() *Value { p.eval(e.Key); return p.eval(e.Value) })
		return &Value{Kind: Dict, Attrs: map[string]*Value{}}
	case *pyast.Slice:
		p.eval(e.Lower)
		p.eval(e.Upper)
		p.eval(e.Step)
	}
	return unknown
}

// memo keeps values that many expressions share, for one worker: nothing in them belongs to a file.
type memo struct {
	texts   map[string]*Value    // by content
	numbers map[string]*Value    // by how they are written
	members map[[2]string]*Value // of APIs, by path and name
	methods map[string]*Value    // of unknown values, by name
}

// keepValues bounds each of the maps.
const keepValues = 20_000

func newMemo() *memo {
	return &memo{map[string]*Value{}, map[string]*Value{}, map[[2]string]*Value{}, map[string]*Value{}}
}

func keepValue[K comparable](in map[K]*Value, key K, v *Value) *Value {
	if len(in) >= keepValues {
		clear(in)
	}
	in[key] = v
	return v
}

func (p *Pass) constant(e *pyast.Constant) *Value {
	switch e.What {
	case pyast.Str:
		s := e.StringValue()
		if len(s) > 40 {
			return text(s)
		}
		if v := p.memo.texts[s]; v != nil {
			return v
		}
		s = strings.Clone(s) // the source shall not be kept for it
		return keepValue(p.memo.texts, s, text(s))
	case pyast.Int, pyast.Float, pyast.Complex:
		raw := e.Raw()
		if v := p.memo.numbers[raw]; v != nil {
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
		return keepValue(p.memo.numbers, key, v)
	case pyast.True:
		return trueVal
	case pyast.False:
		return falseVal
	case pyast.None:
		return noneVal
	}
	return unknown
}

func (p *Pass) sequence(elts []pyast.Expr) *Value {
	v := &Value{Kind: Seq, Items: make([]*Value, 0, min(len(elts), 64))}
	for i, x := range elts {
		item := p.eval(x)
		if _, star := x.(*pyast.Starred); star {
			v.Path = "open"
		}
		if i < 64 {
			v.Items = append(v.Items, item)
		}
	}
	return v
}

func (p *Pass) joined(e *pyast.JoinedStr) *Value {
	var b strings.Builder
	known, soft := true, false
	for _, part := range e.Values {
		switch part := part.(type) {
		case *pyast.Constant:
			b.WriteString(part.StringValue())
		case *pyast.FormattedValue:
			v := p.eval(part.Value)
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
				if s := b.String(); len(s) > 1 && strings.HasSuffix(s, ":") && isDevice(s[:len(s)-1]) { // f"cuda:{rank}"
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

func (p *Pass) comprehension(at pyast.Expr, generators []*pyast.Comprehension, elt func() *Value) *Value {
	outer := p.env
	p.env = &env{outer: outer}
	depth, tests := len(p.loops), len(p.tests)
	for _, g := range generators {
		over := p.eval(g.Iter)
		if over.Kind == Seq && over.Text == "empty" {
			p.env, p.loops, p.tests = outer, p.loops[:depth], p.tests[:tests]
			return &Value{Kind: Seq, Path: "open"}
		}
		l := Loop{Node: at, Over: over}
		if p.frame != nil {
			l.Func = p.frame.fn
		}
		p.loops = append(p.loops, l)
		p.bind(g.Target, p.element(over), at)
		for _, c := range g.Ifs {
			if _, known := p.eval(c).Truth(); !known {
				p.tests = append(p.tests, openTest{c, p.mod})
			}
		}
	}
	v := elt()
	p.tests = p.tests[:tests]
	p.loops = p.loops[:depth]
	p.env = outer
	return &Value{Kind: Seq, Items: []*Value{v}, Path: "open"}
}

func (p *Pass) boolOp(e *pyast.BoolOp) *Value {
	var last *Value
	open := false
	tests := len(p.tests)
	defer func() { p.tests = p.tests[:tests] }()
	for i, x := range e.Values {
		v := p.eval(x)
		yes, known := v.Truth()
		if known && yes == (e.Op == pyast.Or) {
			if open && v.Kind != Bool {
				return unknown
			}
			return v // decided: the rest is not asked
		}
		if !known && i < len(e.Values)-1 {
			open = true
			p.tests = append(p.tests, openTest{x, p.mod})
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

func (p *Pass) compare(e *pyast.Compare) *Value {
	left := p.eval(e.Left)
	if len(e.Comparators) != 1 {
		for _, c := range e.Comparators {
			p.eval(c)
		}
		return unknown
	}
	right := p.eval(e.Comparators[0])
	if left.Kind == Tensor || right.Kind == Tensor {
		if e.Ops[0] != pyast.Is && e.Ops[0] != pyast.IsNot && e.Ops[0] != pyast.In && e.Ops[0] != pyast.NotIn {
			if !p.quiet && left.Kind == right.Kind {
				p.pseudo("torch.Tensor.__compare__", e, nil, []*Value{left, right})
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
		case a.Kind == Device && b.Kind == Str || a.Kind == Str && b.Kind == Device || a.Kind == Device && b.Kind == Device:
			x, y := a.place(), b.place()
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
		if a.Kind == Str && b.Kind == Seq && b.Path == "" {
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
			return boolean(map[pyast.Op]bool{pyast.Gt: x > y, pyast.Lt: x < y, pyast.GtE: x >= y, pyast.LtE: x <= y}[e.Ops[0]])
		}
	}
	return unknown
}

func single(d Devices) bool { return d != Open && d&(d-1) == 0 && d != 0 }

func placesOf(list ...*Value) Devices {
	var d Devices
	for _, v := range list {
		if v.Kind == Tensor {
			d |= v.Where
		}
	}
	if d&^Open != 0 {
		d &^= Open
	}
	return d
}

func (p *Pass) binary(op pyast.Op, a, b *Value, at pyast.Node) *Value {
	if a.Kind == Tensor || b.Kind == Tensor {
		if !p.quiet && a.Kind == Tensor && b.Kind == Tensor {
			name := "torch.Tensor.__" + strings.ToLower(op.String()) + "__"
			p.pseudo(name, at, nil, []*Value{a, b})
		}
		if !p.quiet && (a.Kind == Array && a.Path == "sized" || b.Kind == Array && b.Path == "sized") {
			p.pseudo("torch.Tensor.__array__", at, nil, []*Value{a, b})
		}
		v := &Value{Kind: Tensor, Where: orOpen(placesOf(a, b))}
		v.Type = promote(a, b, op)
		v.Path = a.Path
		if a.Kind != Tensor {
			v.Path = b.Path
		}
		if v.Path == "batch" {
			v.Path = ""
		}
		return v
	}
	if (a.Kind == Array || b.Kind == Array) && a.Kind != Tensor && b.Kind != Tensor {
		v := &Value{Kind: Array, Type: a.Type}
		switch {
		case a.Kind == Array && b.Kind == Array:
			if a.Type != b.Type {
				v.Type = ""
				if a.Type == "float64" || b.Type == "float64" {
					v.Type = "float64"
				}
			}
		case b.Kind == Array:
			v.Type = b.Type
		}
		if op == pyast.Div && (strings.HasPrefix(v.Type, "int") || strings.HasPrefix(v.Type, "uint")) {
			v.Type = "float64"
		}
		return v
	}
	switch {
	case a.Kind == Str && b.Kind == Str && op == pyast.Add:
		return &Value{Kind: Str, Text: a.Text + b.Text, Soft: a.Soft || b.Soft}
	case a.Kind == Str && op == pyast.Add && isDevice(strings.TrimSuffix(a.Text, ":")) && strings.HasSuffix(a.Text, ":"): // "cuda:" + str(rank)
		return &Value{Kind: Str, Text: a.Text + "0", Soft: a.Soft}
	case a.Kind == Number && b.Kind == Number && a.Text != "" && b.Text != "":
		v := &Value{Kind: Number, Type: a.Type, Soft: a.Soft || b.Soft}
		if b.Type == "float" || op == pyast.Div {
			v.Type = "float"
		}
		switch op {
		case pyast.Add:
			v.Num = a.Num + b.Num
		case pyast.Sub:
			v.Num = a.Num - b.Num
		case pyast.Mult:
			v.Num = a.Num * b.Num
		case pyast.Div:
			if b.Num == 0 {
				return unknown
			}
			v.Num = a.Num / b.Num
		case pyast.FloorDiv:
			if b.Num == 0 {
				return unknown
			}
			v.Num = float64(int64(a.Num / b.Num))
		default:
			return &Value{Kind: Number, Type: v.Type, Soft: true}
		}
		v.Text = strconv.FormatFloat(v.Num, 'g', -1, 64)
		return v
	case a.Kind == Seq && b.Kind == Seq && op == pyast.Add:
		return &Value{Kind: Seq, Items: append(append([]*Value{}, a.Items...), b.Items...), Path: a.Path + b.Path}
	case a.Kind == Seq && op == pyast.Mult:
		return &Value{Kind: Seq, Items: a.Items, Path: "open"}
	}
	return unknown
}

// promote is the dtype of an operation between tensors, or a tensor and a number, where it is clear.
func promote(a, b *Value, op pyast.Op) string {
	if a.Kind == Tensor && b.Kind == Tensor {
		switch {
		case a.Type == b.Type:
			return a.Type
		case a.Type == "float64" || b.Type == "float64":
			return ""
		}
		return ""
	}
	t := a
	n := b
	if a.Kind != Tensor {
		t, n = b, a
	}
	if strings.HasPrefix(t.Type, "int") || t.Type == "bool" || strings.HasPrefix(t.Type, "uint") {
		if op == pyast.Div || n.Kind == Number && n.Type == "float" {
			return "float32"
		}
		if n.Kind != Number {
			return ""
		}
	}
	if n.Kind == Array {
		return ""
	}
	return t.Type
}

func (p *Pass) subscript(e *pyast.Subscript) *Value {
	base, index := p.eval(e.Value), p.eval(e.Slice)
	switch base.Kind {
	case Tensor, Array:
		return base
	case Seq:
		if index.Kind == Number && base.Path == "" && index.Text != "" {
			i := int(index.Num)
			if i < 0 {
				i += len(base.Items)
			}
			if i >= 0 && i < len(base.Items) {
				return base.Items[i]
			}
		}
		if _, slice := e.Slice.(*pyast.Slice); slice {
			return &Value{Kind: Seq, Items: base.Items, Path: "open"}
		}
		if base.Path == "open" || base.Path == "parameters" {
			return p.element(base)
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
		if base.Path == "torch.nn.ModuleList" || base.Path == "torch.nn.Sequential" || base.Path == "torch.nn.ModuleDict" {
			if index.Kind == Number && len(base.Items) > int(index.Num) && index.Num >= 0 {
				if m := base.Items[int(index.Num)]; m.Kind == Module {
					return p.child(base, m)
				}
			}
			return &Value{Kind: Module, Where: base.Where}
		}
	case StateDict:
		return &Value{Kind: Tensor, Where: orOpen(base.Where), Type: base.Type}
	}
	return unknown
}

// child is a part of a module, which lives where the whole does.
func (p *Pass) child(whole, part *Value) *Value {
	if whole.Where == part.Where || part.Where&^OnCPU != 0 && part.Where != Open && !whole.Where.May(OnMPS) {
		return part
	}
	if whole.Where == OnCPU || whole.Where == 0 {
		return part
	}
	c := *part
	c.Where = whole.Where
	c.Soft = c.Soft || whole.Soft
	return &c
}

var builtinValues = map[string]*Value{}

func init() {
	for _, name := range strings.Fields(`print len range enumerate zip float int bool str list tuple dict set sum min max abs sorted open map filter isinstance hasattr getattr
		setattr super property staticmethod classmethod type repr format round iter next any all reversed divmod id input exit quit object complex bytes vars
		globals locals eval exec compile __import__ Exception RuntimeError ValueError ImportError NotImplementedError`) {
		builtinValues[name] = &Value{Kind: API, Path: "builtins." + name}
	}
}

func builtin(name string) *Value {
	if v := builtinValues[name]; v != nil {
		return v
	}
	return unknown
}

// Plain is the Text of a tensor that is an attribute of a module, and neither a parameter nor a buffer.
const Plain = "plain"

// moves reports whether a class has its own way of moving what it holds.
func moves(c *Class) bool {
	return c != nil && (c.lookup("_apply") != nil || c.lookup("to") != nil || c.lookup("cuda") != nil || c.lookup("__getattr__") != nil)
}

// Follows is the Path of a device that was asked of a tensor or a module: what is sent there goes where the other is, wherever that may be.
const Follows = "follows"

func (p *Pass) attribute(base *Value, e *pyast.Attribute) *Value {
	name := e.Attr
	if base == unknown {
		if v := p.memo.methods[name]; v != nil {
			return v
		}
		name = strings.Clone(name)
		return keepValue(p.memo.methods, name, &Value{Kind: API, Path: "?." + name, Self: unknown})
	}
	switch base.Kind {
	case API:
		key := [2]string{base.Path, name}
		v := p.memo.members[key]
		if v == nil {
			key = [2]string{strings.Clone(base.Path), strings.Clone(name)}
			v = keepValue(p.memo.members, key, p.apiMember(key[0], key[1], canonical(key[0]+"."+key[1])))
		}
		if base.Mod != nil && v.Kind == API {
			if v := p.member(base.Mod, name); v != nil {
				return v
			}
			return unknown
		}
		return v
	case Tensor:
		switch name {
		case "device":
			return &Value{Kind: Device, Where: base.Where, Soft: base.Soft, Path: Follows}
		case "dtype":
			return &Value{Kind: DType, Type: base.Type}
		case "data", "grad", "T", "H", "mT", "mH", "real", "imag":
			return base
		case "shape", "ndim", "layout", "names", "grad_fn", "itemsize", "nbytes", "requires_grad", "is_leaf":
			return unknown
		case "is_cuda":
			if single(base.Where) {
				return boolean(base.Where == OnCUDA)
			}
			return unknown
		case "is_mps":
			if single(base.Where) {
				return boolean(base.Where == OnMPS)
			}
			return unknown
		}
		return &Value{Kind: API, Path: "torch.Tensor." + name, Self: base}
	case Array:
		switch name {
		case "T", "real", "imag", "flat":
			return base
		case "dtype":
			return &Value{Kind: DType, Type: base.Type}
		case "shape", "ndim", "size":
			return unknown
		}
		return &Value{Kind: API, Path: "numpy.ndarray." + name, Self: base}
	case Module:
		if v := base.Attrs[name]; v != nil {
			if v.Kind == Module {
				return p.child(base, v)
			}
			if v.Kind == Tensor && v.Where == OnCPU && base.Where != OnCPU && (v.Text != Plain || moves(base.Class)) { // a parameter or buffer
				t := *v
				t.Where = base.Where
				return &t
			}
			return v
		}
		if base.Class != nil {
			if v := base.Class.lookup(name); v != nil {
				return p.bound(v, base)
			}
		}
		if name == "device" {
			return &Value{Kind: Device, Where: base.Where, Path: Follows}
		}
		if name == "training" {
			return unknown
		}
		return &Value{Kind: API, Path: "torch.nn.Module." + name, Self: base}
	case Instance:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		if base.Class != nil {
			if v := base.Class.lookup(name); v != nil {
				return p.bound(v, base)
			}
		}
		return &Value{Kind: API, Path: "?." + name, Self: base}
	case ClassDef:
		if v := base.Class.lookup(name); v != nil {
			return v
		}
	case Parsed:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		return unknown
	case Device:
		if name == "type" {
			if single(base.Where) && base.Where != OnOther {
				return &Value{Kind: Str, Text: base.Where.String(), Soft: base.Soft}
			}
			return &Value{Kind: Device, Where: base.Where, Soft: base.Soft}
		}
		return unknown
	case Optimizer:
		return &Value{Kind: API, Path: "torch.optim.Optimizer." + name, Self: base}
	case Loader:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		return &Value{Kind: API, Path: "torch.utils.data.DataLoader." + name, Self: base}
	case StateDict:
		return &Value{Kind: API, Path: "state_dict." + name, Self: base}
	case Dict:
		return &Value{Kind: API, Path: "dict." + name, Self: base}
	case Seq:
		return &Value{Kind: API, Path: "list." + name, Self: base}
	case Str:
		return &Value{Kind: API, Path: "str." + name, Self: base}
	case Made:
		if v := base.Attrs[name]; v != nil {
			return v
		}
		if base.Path == "super" {
			for _, b := range base.Class.Bases {
				if b.Kind == ClassDef {
					if v := b.Class.lookup(name); v != nil {
						return p.bound(v, base.Self)
					}
				}
			}
			if base.Self != nil && base.Self.Kind == Module {
				return &Value{Kind: API, Path: "torch.nn.Module." + name, Self: base.Self}
			}
			return &Value{Kind: API, Path: "?." + name, Self: base.Self}
		}
		return &Value{Kind: API, Path: base.Path + "." + name, Self: base}
	}
	return &Value{Kind: API, Path: "?." + name, Self: base}
}

// apiMember is a name of an API, as an import binds it.
func (p *Pass) apiMember(base, name, path string) *Value {
	if v := p.known(path); v != nil && !calledNames[path] {
		return v
	}
	if dtype := dtypeNames[name]; dtype != "" && base == "torch" {
		return &Value{Kind: DType, Type: dtype, Path: path}
	}
	if base == "numpy" && (dtypeNames[name] != "" || numpyTypes[name] != "") {
		return &Value{Kind: DType, Type: numpyType(name), Path: path}
	}
	return &Value{Kind: API, Path: path}
}

// calledNames are those of known() that are functions: as an attribute they are not yet asked.
var calledNames = map[string]bool{}

func init() {
	for _, n := range strings.Fields(`torch.cuda.is_available torch.backends.cuda.is_built torch.distributed.is_nccl_available torch.cuda.is_bf16_supported
		torch.backends.cudnn.is_available torch.cuda.is_initialized torch.xpu.is_available torch.npu.is_available torch.hpu.is_available torch.mtia.is_available
		torch.backends.mps.is_available torch.backends.mps.is_built torch.mps.is_available torch.accelerator.is_available torch.mps.device_count
		torch.cuda.device_count torch.accelerator.current_accelerator platform.system platform.machine`) {
		calledNames[n] = true
	}
}

// bound is a member of a class as an instance gives it.
func (p *Pass) bound(v *Value, self *Value) *Value {
	if v.Kind != Function || v.Path == "static" {
		return v
	}
	if v.Path == "property" {
		return p.apply(v.Func, self, nil, nil, false)
	}
	return &Value{Kind: Function, Func: v.Func, Self: self, Path: v.Path}
}

// canonical is the name under which an API is documented.
func canonical(path string) string {
	pkg, rest, ok := strings.Cut(path, ".")
	if !ok {
		return path
	}
	last := rest[strings.LastIndexByte(rest, '.')+1:]
	switch pkg {
	case "torch":
		switch {
		case strings.HasPrefix(rest, "nn.modules.") && !lower(last):
			return "torch.nn." + last
		case strings.HasPrefix(rest, "distributions.") && strings.Count(rest, ".") == 2 && !lower(last):
			return "torch.distributions." + last
		case rest == "serialization.load" || rest == "serialization.save":
			return "torch." + last
		case rest == "nn.parameter.Parameter":
			return "torch.nn.Parameter"
		case strings.HasPrefix(rest, "functional."):
			return "torch." + last
		case strings.HasPrefix(rest, "optim.") && strings.Count(rest, ".") == 2 && !lower(last) && !strings.Contains(rest, "lr_scheduler") && !strings.Contains(rest, "swa_utils"):
			return "torch.optim." + last
		case strings.HasPrefix(rest, "utils.data.") && strings.Count(rest, ".") == 3 && !lower(last):
			return "torch.utils.data." + last
		case strings.HasPrefix(rest, "distributed.distributed_c10d."):
			return "torch.distributed." + last
		case strings.HasPrefix(rest, "amp.autocast_mode.") || strings.HasPrefix(rest, "amp.grad_scaler."):
			return "torch.amp." + last
		case strings.HasPrefix(rest, "cuda.amp.autocast_mode.") || strings.HasPrefix(rest, "cuda.amp.grad_scaler."):
			return "torch.cuda.amp." + last
		}
	case "tensorflow":
		if after, found := strings.CutPrefix(rest, "keras"); found && (after == "" || after[0] == '.') {
			return "keras" + after
		}
		if after, found := strings.CutPrefix(rest, "python.keras"); found && (after == "" || after[0] == '.') {
			return "keras" + after
		}
	case "pytorch_lightning":
		return path
	}
	return path
}
