package rules

import (
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/atlas"
	"assay/internal/audit"
	"assay/internal/facts"
)

// values are arguments by their names.
type values map[string]*abstract.Value

// reached is an operator that a call comes to, whatever else is open, with what is known of its arguments. It is
// facts.Arguments.
type reached struct {
	operator string
	schema   []atlas.Parameter
	given    values     // by the schema's names; nil: given, and not known
	open     bool       // more may be given
	depends  string     // on what it is that the call comes to it; "": on nothing
	instead  []*reached // other overloads that the arguments may mean
	autocast bool       // types are autocast's choice
	result   *abstract.Value
}

func (r *reached) value(position int, name string) (v *abstract.Value, given bool) {
	if position >= 0 && position < len(r.schema) && !slices.ContainsFunc(r.schema, func(p atlas.Parameter) bool {
		return p.Name == name // of two operators of one row, each has it at a place of its own
	}) {
		name = r.schema[position].Name
	}
	v, given = r.given[name]
	return v, given
}

// Tensor is the one at a position, of a list its first.
func (r *reached) Tensor(position int) (facts.Tensor, bool) {
	if position < 0 || position >= len(r.schema) {
		return facts.Tensor{}, false
	}
	v, _ := r.value(position, "")
	if v != nil && v.Kind == abstract.Seq && v.Form == abstract.Listed && len(v.Items) > 0 {
		v = v.Items[0]
	}
	return r.tensor(v)
}

func (r *reached) tensor(v *abstract.Value) (facts.Tensor, bool) {
	if v == nil || v.Kind != abstract.Tensor || v.OrNone {
		return facts.Tensor{}, false
	}
	t := facts.Tensor{DType: v.Type, Rank: -1}
	if r.autocast && (strings.HasPrefix(v.Type, "float") || v.Type == "bfloat16") {
		t.DType = ""
	}
	if v.Shape != nil {
		t.Rank, t.Sizes = len(v.Shape.Sizes), v.Shape.Sizes
		if yes, known := v.Shape.Contiguous(); known && yes {
			t.Contiguous = facts.Yes
		} else if known {
			t.Contiguous = facts.No
		}
	}
	return t, true
}

// Tensors are all operands that are tensors. A fraction among integers makes another type of them: then they are not
// all there is.
func (r *reached) Tensors() (list []facts.Tensor, complete bool) {
	complete = !r.open
	fraction := false
	add := func(v *abstract.Value) {
		if t, ok := r.tensor(v); ok {
			list = append(list, t)
		} else {
			complete = false
		}
	}
	for _, p := range r.schema {
		v, given := r.given[p.Name]
		if !given || v != nil && v.Kind == abstract.None {
			continue
		}
		fraction = fraction || v == nil || v.Kind == abstract.Number && v.Type != "int"
		switch {
		case p.Kind == 'L' && v != nil && v.Kind == abstract.Seq && v.Form == abstract.Listed:
			for _, i := range v.Items {
				add(i)
			}
		case p.Kind == 'T' && v != nil && (v.Kind == abstract.Number || v.Kind == abstract.Bool):
		case p.Kind == 'T' || p.Kind == 'L':
			add(v)
		}
	}
	return list, complete && !fraction
}

// Value of an argument that is no tensor.
func (r *reached) Value(position int, name string) (value any, given, known bool) {
	v, given := r.value(position, name)
	if !given {
		return nil, false, !r.open
	}
	if v == nil || v.Soft || v.OrNone {
		return nil, true, false
	}
	switch v.Kind {
	case abstract.None:
		return nil, true, true
	case abstract.Bool:
		return v.Yes, true, true
	case abstract.Str:
		return v.Text, true, true
	case abstract.DType:
		return v.Type, true, v.Type != ""
	case abstract.Number:
		switch {
		case v.Text == "" || v.Type == "complex":
		case v.Type == "int" && v.Num >= -1<<63 && v.Num < 1<<63:
			return int64(v.Num), true, true
		default:
			return v.Num, true, true
		}
	}
	return nil, true, false
}

// Result is what the operator gives.
func (r *reached) Result() (facts.Tensor, bool) { return r.tensor(r.result) }

// numbers are those of a list, or of one that stands for all; false where one is not known.
func (r *reached) numbers(name string) ([]int64, bool) {
	v, _ := r.value(-1, name)
	if v == nil || v.Soft || v.OrNone {
		return nil, false
	}
	list := []*abstract.Value{v}
	if v.Kind == abstract.Seq {
		if v.Form != abstract.Listed {
			return nil, false
		}
		list = v.Items
	}
	var all []int64
	for _, i := range list {
		n, ok := number(i)
		if !ok || i.Soft {
			return nil, false
		}
		all = append(all, int64(n))
	}
	return all, true
}

// bind gives a call's arguments the names of an operator's schema; false where they do not fit it.
func bind(schema []atlas.Parameter, positional []*abstract.Value, named []abstract.Named,
	open bool) (values, bool) {
	given := values{}
	at := 0
	for i := 0; i < len(positional); i++ {
		if at >= len(schema) || schema[at].Keyword {
			return nil, false
		}
		v := positional[i]
		p := schema[at]
		if p.Kind == 'A' && v.Kind == abstract.Number && i+1 < len(positional) &&
			positional[i+1].Kind == abstract.Number &&
			(at+1 >= len(schema) || schema[at+1].Keyword) { // sizes one by one
			v = &abstract.Value{Kind: abstract.Seq, Items: positional[i:]}
			i = len(positional)
		}
		if !suits(p, v) {
			return nil, false
		}
		given[p.Name] = v
		at++
	}
	for _, n := range named {
		name := n.Name
		if len(schema) > 0 && (name == "input" || name == "self") && schema[0].Name != name &&
			(schema[0].Name == "self" || schema[0].Name == "input" || schema[0].Name == "A") {
			name = schema[0].Name
		}
		switch name {
		case "axis":
			name = "dim"
		case "keepdims":
			name = "keepdim"
		}
		i := slices.IndexFunc(schema, func(p atlas.Parameter) bool { return p.Name == name })
		if i < 0 {
			if name == "out" || name == "device" || name == "generator" {
				continue
			}
			return nil, false
		}
		if _, twice := given[name]; twice || !suits(schema[i], n.Value) {
			return nil, false
		}
		given[name] = n.Value
	}
	for _, p := range schema {
		if _, there := given[p.Name]; !there && !p.Optional && !open {
			return nil, false
		}
	}
	return given, true
}

// suits reports whether a value may be given for a parameter.
func suits(p atlas.Parameter, v *abstract.Value) bool {
	switch v.Kind {
	case abstract.Tensor:
		return strings.IndexByte("TNIFBO", p.Kind) >= 0
	case abstract.Number:
		return strings.IndexByte("TNAF", p.Kind) >= 0 || p.Kind == 'I' && v.Type != "float"
	case abstract.Bool:
		return strings.IndexByte("TNBIF", p.Kind) >= 0
	case abstract.Str:
		return p.Kind == 'S' || p.Kind == 'O'
	case abstract.DType:
		return p.Kind == 'I'
	case abstract.Device:
		return p.Kind == 'O'
	case abstract.Seq:
		return p.Kind == 'A' || p.Kind == 'L' || p.Kind == 'O'
	case abstract.None:
		return true
	}
	return true
}

// ownWay are functions that are written in Python, and do not come to the operator of their name, or whose arguments
// are others. Source: torch/functional.py, torch/_tensor.py, torch/nn/functional.py.
var ownWay = set(`aten::norm aten::unique aten::unique_consecutive aten::embedding aten::embedding_bag aten::to
	aten::type aten::lu aten::split aten::stft aten::istft aten::einsum aten::tensordot aten::dropout aten::alpha_dropout`)

// operatorsOf symbols: what a binary operator of Python calls. Source: torch/_tensor.py, python_variable_methods.cpp.
var symbols = map[string]string{"__add__": "add", "__sub__": "sub", "__mult__": "mul", "__div__": "div",
	"__matmult__": "matmul", "__pow__": "pow", "__mod__": "remainder", "__lshift__": "bitwise_left_shift",
	"__rshift__": "bitwise_right_shift", "__bitand__": "bitwise_and", "__bitor__": "bitwise_or",
	"__bitxor__": "bitwise_xor", "__floordiv__": "floor_divide"}

func result(p *audit.Pass, c *abstract.Call) *abstract.Value {
	if c.Node == nil { // an operator of Python: what it gives is not kept
		return nil
	}
	return p.Result(c)
}

// argumentsOf a call of Python.
type argumentsOf struct {
	p          *audit.Pass
	positional []*abstract.Value
	named      []abstract.Named
	open       bool
	result     *abstract.Value
}

// get is the argument at a position of the Python call, or of a name; nil where it is not given.
func (a argumentsOf) get(at int, names ...string) *abstract.Value {
	for _, n := range a.named {
		if slices.Contains(names, n.Name) {
			return n.Value
		}
	}
	if at >= 0 && at < len(a.positional) {
		return a.positional[at]
	}
	return nil
}

// operator is one by its name, all overloads that the arguments fit, and those below them.
func (a argumentsOf) operator(name string) []*reached {
	table := a.p.Target.Atlas
	overloads := []string{strings.TrimSuffix(name, "_out")}
	if name == overloads[0]+"_out" && table.Schema(overloads[0]) != nil {
		name = overloads[0]
	}
	if table.Schema(name) == nil || !strings.Contains(name, ".") {
		overloads = table.Overloads(name)
	}
	var list, weak []*reached
	for _, o := range overloads {
		schema := table.Schema(o)
		if slices.ContainsFunc(schema, func(q atlas.Parameter) bool { return strings.HasSuffix(q.Name, "names") }) ||
			strings.Contains(strings.ToLower(o), "dimname") || strings.HasSuffix(o, "names_dim") {
			continue
		}
		if given, fits := bind(schema, a.positional, a.named, a.open); fits {
			r := a.reached(a.written(o), given)
			r.schema = schema
			if slices.ContainsFunc(schema, func(q atlas.Parameter) bool {
				v := given[q.Name]
				return v != nil && (q.Kind == 'T' && v.Kind == abstract.Number ||
					strings.IndexByte("NIFB", q.Kind) >= 0 && v.Kind == abstract.Tensor)
			}) {
				weak = append(weak, r)
			} else {
				list = append(list, r)
			}
		}
	}
	if len(list) == 0 { // a number is made a tensor where no overload takes one
		list = weak
	}
	for _, r := range list[:len(list):len(list)] {
		list = append(list, below(a, r)...)
	}
	return list
}

// written is an overload, or the one beside it that writes into out= where that is given.
func (a argumentsOf) written(overload string) string {
	if out := a.get(-1, "out"); out == nil || out.Kind == abstract.None {
		return overload
	}
	if strings.Contains(overload, ".") {
		return overload + "_out"
	}
	return overload + ".out"
}

func (a argumentsOf) reached(operator string, given values) *reached {
	return &reached{operator: operator, schema: a.p.Target.Atlas.Schema(operator), given: given, open: a.open,
		result: a.result, autocast: a.p.In("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast",
			"torch.amp.autocast_mode.autocast") != nil}
}

// to is an operator with arguments by name, and what it comes to. Those that the Python call leaves out are not given.
func (a argumentsOf) to(operator string, given values) []*reached {
	for name, v := range given {
		if v == nil {
			delete(given, name)
		}
	}
	r := a.reached(operator, given)
	return append([]*reached{r}, below(a, r)...)
}

// renamed are operators that call one other with their own arguments, whatever these are. Source: aten/src/ATen/native
// of the releases.
var renamed = map[string]string{
	"aten::linalg_inv": "aten::linalg_inv_ex", "aten::inverse": "aten::linalg_inv",
	"aten::linalg_solve": "aten::_linalg_solve_ex", "aten::linalg_solve_ex": "aten::_linalg_solve_ex",
	"aten::linalg_cholesky":  "aten::linalg_cholesky_ex",
	"aten::linalg_lu_factor": "aten::linalg_lu_factor_ex", "aten::linalg_det": "aten::_linalg_det",
	"aten::det": "aten::linalg_det", "aten::linalg_slogdet": "aten::_linalg_slogdet",
	"aten::slogdet": "aten::linalg_slogdet", "aten::linalg_svd": "aten::_linalg_svd",
	"aten::linalg_eigh":      "aten::_linalg_eigh",
	"aten::special_gammainc": "aten::igamma", "aten::special_gammaincc": "aten::igammac",
	"aten::cummax": "aten::_cummax_helper", "aten::cummin": "aten::_cummin_helper",
	"aten::lstm.input": "aten::_lstm_mps", "aten::cross": "aten::linalg_cross",
	"aten::matrix_exp":  "aten::linalg_matrix_exp",
	"aten::log_sigmoid": "aten::log_sigmoid_forward", "aten::logsigmoid": "aten::log_sigmoid_forward",
	"aten::nll_loss":   "aten::nll_loss_forward",
	"aten::nll_loss2d": "aten::nll_loss2d_forward", "aten::true_divide.Tensor": "aten::div.Tensor",
	"aten::multiply.Tensor": "aten::mul.Tensor", "aten::subtract.Tensor": "aten::sub.Tensor",
	"aten::divide.Tensor": "aten::div.Tensor", "aten::clip": "aten::clamp",
	"aten::absolute": "aten::abs", "aten::negative": "aten::neg",
}

// below lists what an operator calls for sure, with what is known of the arguments.
func below(a argumentsOf, r *reached) []*reached {
	base, _, _ := strings.Cut(r.operator, ".")
	to, known := renamed[r.operator]
	if !known {
		to = renamed[base]
	}
	if to != "" {
		given := values{}
		schema := a.p.Target.Atlas.Schema(to)
		for name, v := range r.given { // by name, the first by its place
			if len(r.schema) > 0 && len(schema) > 0 && name == r.schema[0].Name {
				name = schema[0].Name
			}
			given[name] = v
		}
		return a.to(to, given)
	}
	switch base {
	case "aten::softmax", "aten::log_softmax":
		if d := r.given["dtype"]; d != nil && d.Kind != abstract.None {
			return nil // the input is converted first: aten/src/ATen/native/SoftMax.cpp
		}
		return a.to("aten::_"+strings.TrimPrefix(base, "aten::"), values{"self": r.given["self"],
			"dim": r.given["dim"], "half_to_float": falseValue})
	case "aten::matmul":
		return product(a, r.given["self"], r.given["other"])
	case "aten::adaptive_avg_pool2d":
		if size, ok := r.numbers("output_size"); ok && slices.ContainsFunc(size, func(n int64) bool { return n != 1 }) {
			return a.to("aten::_adaptive_avg_pool2d", values{"self": r.given["self"],
				"output_size": r.given["output_size"]})
		}
	}
	return nil
}

var falseValue = &abstract.Value{Kind: abstract.Bool}

// product is what a @ b calls, by its operands' dimensions. Source: aten/src/ATen/native/LinearAlgebra.cpp,
// _matmul_impl.
func product(a argumentsOf, x, y *abstract.Value) []*reached {
	if x == nil || y == nil || x.Shape == nil || y.Shape == nil {
		return nil
	}
	m, n := len(x.Shape.Sizes), len(y.Shape.Sizes)
	switch {
	case m == 1 && n == 1:
		return a.to("aten::dot", values{"self": x, "tensor": y})
	case m == 2 && n == 1:
		return a.to("aten::mv", values{"self": x, "vec": y})
	case m == 2 && n == 2:
		return a.to("aten::mm", values{"self": x, "mat2": y})
	case m == 3 && n == 3:
		return a.to("aten::bmm", values{"self": x, "mat2": y})
	}
	return nil
}

// functions are those of torch and torch.nn.functional that come to operators of other names or arguments.
var functions map[string]func(*audit.Pass, argumentsOf) []*reached

func init() {
	functions = map[string]func(*audit.Pass, argumentsOf) []*reached{
		"conv1d": convolution(false), "conv2d": convolution(false), "conv3d": convolution(false),
		"conv_transpose1d": convolution(true), "conv_transpose2d": convolution(true),
		"conv_transpose3d": convolution(true),
		"embedding": func(_ *audit.Pass, a argumentsOf) []*reached {
			list := a.to("aten::embedding", values{"weight": a.get(1, "weight"),
				"indices": a.get(0, "input")})
			if n, ok := number(a.get(3, "max_norm")); ok && n > 0 {
				list = append(list, a.to("aten::embedding_renorm_", values{"self": a.get(1, "weight"),
					"indices": a.get(0, "input")})...)
			}
			return list
		},
		"layer_norm": func(_ *audit.Pass, a argumentsOf) []*reached {
			return a.to("aten::native_layer_norm", values{"input": a.get(0, "input"),
				"weight": a.get(2, "weight"), "bias": a.get(3, "bias")})
		},
		"batch_norm":                   batchNorm,
		"grid_sample":                  gridSample,
		"interpolate":                  interpolated,
		"scaled_dot_product_attention": attention,
		"dropout": func(_ *audit.Pass, a argumentsOf) []*reached {
			if t := a.get(2, "training"); t != nil && !isTrue(t) || a.get(3, "inplace") != nil {
				return nil
			}
			return a.to("aten::native_dropout", values{"input": a.get(0, "input"), "p": a.get(1, "p")})
		},
		"cross_entropy": func(_ *audit.Pass, a argumentsOf) []*reached {
			x, target := a.get(0, "input"), a.get(1, "target")
			if x == nil || target == nil || target.Type != "int64" || x.Shape == nil || len(x.Shape.Sizes) > 2 {
				return nil
			}
			return append(a.to("aten::_log_softmax", values{"self": x, "half_to_float": falseValue}),
				a.to("aten::nll_loss_forward", values{"self": x, "target": target})...)
		},
		"nll_loss": func(_ *audit.Pass, a argumentsOf) []*reached {
			x := a.get(0, "input")
			if x == nil || x.Shape == nil || len(x.Shape.Sizes) > 2 && len(x.Shape.Sizes) != 4 {
				return nil
			}
			op := "aten::nll_loss_forward"
			if len(x.Shape.Sizes) == 4 {
				op = "aten::nll_loss2d_forward"
			}
			return a.to(op, values{"self": x, "target": a.get(1, "target")})
		},
		"mse_loss": loss("aten::mse_loss"), "smooth_l1_loss": loss("aten::smooth_l1_loss"),
		"huber_loss": loss("aten::huber_loss"),
		"softmax": func(_ *audit.Pass, a argumentsOf) []*reached {
			return softmaxOf(a, "aten::softmax.int")
		},
		"log_softmax": func(_ *audit.Pass, a argumentsOf) []*reached {
			return softmaxOf(a, "aten::log_softmax.int")
		},
		"logsigmoid": func(_ *audit.Pass, a argumentsOf) []*reached {
			return a.to("aten::log_sigmoid_forward", values{"self": a.get(0, "input")})
		},
		"unique": func(_ *audit.Pass, a argumentsOf) []*reached {
			if a.get(4, "dim") != nil {
				return nil
			}
			return a.to("aten::_unique2", values{"self": a.get(0, "input"),
				"sorted": a.get(1, "sorted"), "return_inverse": a.get(2, "return_inverse"),
				"return_counts": a.get(3, "return_counts")})
		},
		"unique_consecutive": func(_ *audit.Pass, a argumentsOf) []*reached {
			return a.to("aten::unique_consecutive", values{"self": a.get(0, "input")})
		},
		"__getitem__": func(_ *audit.Pass, a argumentsOf) []*reached {
			return indexing(a, "aten::index.Tensor", nil)
		},
		"__setitem__": func(_ *audit.Pass, a argumentsOf) []*reached {
			return indexing(a, "aten::index_put_", a.get(2))
		},
		"bilinear": func(_ *audit.Pass, a argumentsOf) []*reached {
			return a.to("aten::_trilinear", values{"i1": a.get(0, "input1"), "i2": a.get(2, "weight"),
				"i3": a.get(1, "input2")})
		},
		"to": func(_ *audit.Pass, a argumentsOf) []*reached {
			x := a.get(0)
			if x == nil || a.result == nil || x.Where == a.result.Where && x.Type == a.result.Type {
				return nil
			}
			return a.to("aten::_to_copy", values{"self": x,
				"non_blocking": or(a.get(3, "non_blocking"), falseValue)})
		},
		"randn": drawn("aten::normal_"), "rand": drawn("aten::uniform_"),
		"fft.fftn": transform("aten::_fft_c2c"), "fft.ifftn": transform("aten::_fft_c2c"),
		"fft.rfftn": transform("aten::_fft_r2c"),
	}
}

func softmaxOf(a argumentsOf, operator string) []*reached {
	dtype := a.get(-1, "dtype")
	return a.to(operator, values{"self": a.get(0, "input"), "dim": a.get(1, "dim"), "dtype": dtype})
}

func loss(operator string) func(*audit.Pass, argumentsOf) []*reached {
	return func(_ *audit.Pass, a argumentsOf) []*reached {
		return a.to(operator, values{"self": a.get(0, "input"), "target": a.get(1, "target"),
			"beta": a.get(-1, "beta"), "delta": a.get(-1, "delta"),
			"reduction": coded(a.get(-1, "reduction"), 1, "none", "mean", "sum")})
	}
}

// transform: every dimension is transformed where none is named.
func transform(operator string) func(*audit.Pass, argumentsOf) []*reached {
	return func(_ *audit.Pass, a argumentsOf) []*reached {
		x, dim := a.get(0, "input"), a.get(2, "dim")
		if a.get(1, "s") != nil || x == nil || x.Shape == nil {
			return nil
		}
		if dim == nil {
			dim = &abstract.Value{Kind: abstract.Seq}
			for i := range x.Shape.Sizes {
				dim.Items = append(dim.Items, &abstract.Value{Kind: abstract.Number, Type: "int", Num: float64(i),
					Text: "0"})
			}
		}
		return a.to(operator, values{"self": x, "dim": dim})
	}
}

// convolution: the functions' arguments stand in the order of the operator's, but for those of transposed ones.
func convolution(isTransposed bool) func(*audit.Pass, argumentsOf) []*reached {
	return func(_ *audit.Pass, a argumentsOf) []*reached {
		given := values{"input": a.get(0, "input"), "weight": a.get(1, "weight"),
			"bias": a.get(2, "bias"), "stride": or(a.get(3, "stride"), one), "padding": or(a.get(4, "padding"), zero),
			"dilation": or(a.get(5, "dilation"), one), "groups": or(a.get(6, "groups"), one), "transposed": falseValue}
		if isTransposed {
			given["output_padding"], given["groups"] = or(a.get(5, "output_padding"), zero), or(a.get(6, "groups"), one)
			given["dilation"], given["transposed"] = or(a.get(7, "dilation"), one), trueValue
		}
		return convolved(a, given)
	}
}

// convolved is aten::convolution, and the kernels of MPS below it.
func convolved(a argumentsOf, given values) []*reached {
	return a.to("aten::convolution", given)
}

var (
	trueValue = &abstract.Value{Kind: abstract.Bool, Yes: true}
	zero      = &abstract.Value{Kind: abstract.Number, Type: "int", Text: "0"}
	one       = &abstract.Value{Kind: abstract.Number, Type: "int", Text: "1", Num: 1}
)

func or(v, otherwise *abstract.Value) *abstract.Value {
	if v == nil {
		return otherwise
	}
	return v
}

func batchNorm(_ *audit.Pass, a argumentsOf) []*reached {
	return a.to("aten::native_batch_norm", values{"input": a.get(0, "input"),
		"weight": a.get(3, "weight"), "bias": a.get(4, "bias"), "training": or(a.get(5, "training"), falseValue)})
}

// coded is the number that stands for one of these names.
func coded(v *abstract.Value, otherwise int, names ...string) *abstract.Value {
	n := otherwise
	if v != nil {
		if n = slices.Index(names, v.Text); v.Kind != abstract.Str || v.Soft || n < 0 {
			return &abstract.Value{}
		}
	}
	return &abstract.Value{Kind: abstract.Number, Type: "int", Num: float64(n), Text: "n"}
}

// drawn: a factory of random numbers fills a tensor in place.
func drawn(operator string) func(*audit.Pass, argumentsOf) []*reached {
	return func(_ *audit.Pass, a argumentsOf) []*reached {
		return a.to(operator, values{"self": a.result})
	}
}

// gridSample: torch/nn/functional.py gives the modes as numbers.
func gridSample(_ *audit.Pass, a argumentsOf) []*reached {
	x, grid := a.get(0, "input"), a.get(1, "grid")
	rank := 0
	for _, v := range []*abstract.Value{x, grid} {
		if v != nil && v.Shape != nil {
			rank = len(v.Shape.Sizes)
		}
	}
	op := map[int]string{4: "aten::grid_sampler_2d", 5: "aten::grid_sampler_3d"}[rank]
	if op == "" {
		return nil
	}
	return a.to(op, values{"input": x, "grid": grid,
		"interpolation_mode": coded(a.get(2, "mode"), 0, "bilinear", "nearest", "bicubic"),
		"padding_mode":       coded(a.get(3, "padding_mode"), 0, "zeros", "border", "reflection")})
}

// interpolated: one operator for each mode and number of dimensions.
func interpolated(_ *audit.Pass, a argumentsOf) []*reached {
	x, m := a.get(0, "input"), a.get(3, "mode")
	mode := "nearest"
	if m != nil {
		if m.Kind != abstract.Str || m.Soft {
			return nil
		}
		mode = m.Text
	}
	if x == nil || x.Shape == nil {
		return nil
	}
	aa := a.get(6, "antialias")
	if aa != nil && aa.Kind != abstract.Bool {
		return nil
	}
	d := len(x.Shape.Sizes) - 2
	op := ""
	switch {
	case d >= 1 && d <= 3 && mode == "nearest":
		op = "upsample_nearest" + string(rune('0'+d)) + "d"
	case d >= 1 && d <= 3 && mode == "nearest-exact":
		op = "_upsample_nearest_exact" + string(rune('0'+d)) + "d"
	case d == 1 && mode == "linear", d == 2 && (mode == "bilinear" || mode == "bicubic"), d == 3 && mode == "trilinear":
		if op = "upsample_" + mode + string(rune('0'+d)) + "d"; isTrue(aa) {
			op = "_" + op + "_aa"
		}
	default:
		return nil
	}
	name := "input"
	if len(a.p.Target.Atlas.Schema("aten::"+op)) > 0 {
		name = a.p.Target.Atlas.Schema("aten::" + op)[0].Name
	}
	given := values{name: x, "align_corners": a.get(4, "align_corners")}
	list := a.to("aten::"+op, given)
	if len(a.p.Target.Atlas.Schema("aten::"+op+".vec")) > 0 {
		given = values{"input": x, "align_corners": a.get(4, "align_corners")}
		list = append(list, a.to("aten::"+op+".vec", given)...)
	}
	return list
}

// attention: without gradients the kernel of MPS is taken. Source: aten/src/ATen/native/transformers/attention.cpp.
func attention(p *audit.Pass, a argumentsOf) []*reached {
	given := values{"query": a.get(0, "query"), "key": a.get(1, "key"), "value": a.get(2, "value"),
		"attn_mask": a.get(3, "attn_mask"), "dropout_p": a.get(4, "dropout_p"), "is_causal": a.get(5, "is_causal")}
	list := a.to("aten::scaled_dot_product_attention", given)
	if n, ok := number(or(given["dropout_p"], zero)); !ok || n != 0 {
		return list
	}
	inputs := []*abstract.Value{given["query"], given["key"], given["value"]}
	if !p.Target.Since("2.8") && slices.ContainsFunc(inputs, func(v *abstract.Value) bool {
		yes, known := false, false
		if v != nil {
			yes, known = v.Shape.Contiguous()
		}
		return !known || !yes
	}) { // earlier releases take another way then
		return list
	}
	if slices.ContainsFunc(inputs, func(v *abstract.Value) bool { return v != nil && v.Graded() }) {
		return list
	}
	for _, r := range a.to("aten::_scaled_dot_product_attention_math_for_mps", given) {
		if p.In("torch.no_grad", "torch.inference_mode") == nil && (p.Func() != nil || p.Trains()) {
			r.depends = ", where no gradient is asked for"
		}
		list = append(list, r)
	}
	return list
}

// indexing by tensors, lists and masks; by numbers and slices it is a view.
func indexing(a argumentsOf, operator string, set *abstract.Value) []*reached {
	x, index := a.get(0), a.get(1)
	if x == nil || index == nil {
		return nil
	}
	parts := &abstract.Value{Kind: abstract.Seq, Items: []*abstract.Value{index}}
	if index.Kind == abstract.Seq {
		parts = index
	}
	if !slices.ContainsFunc(parts.Items, func(v *abstract.Value) bool { return v.Kind == abstract.Tensor }) {
		return nil
	}
	given := values{"self": x, "indices": parts, "values": set}
	if set != nil {
		given["accumulate"] = falseValue
	}
	return a.to(operator, given)
}
