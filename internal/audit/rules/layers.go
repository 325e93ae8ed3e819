package rules

import (
	"slices"
	"strings"

	"assay/internal/abstract"
	"assay/internal/audit"
	"assay/internal/facts"
)

// layerFunctions are layers of torch.nn, the function that each calls, and the constructor's parameters in their order;
// those with a ! are not the function's. Source: torch/nn/modules.
var layerFunctions = map[string]string{
	"GELU": "gelu approximate", "ReLU": "relu inplace!", "Softmax": "softmax dim", "LogSoftmax": "log_softmax dim",
	"Softplus": "softplus beta threshold", "Mish": "mish inplace!", "GLU": "glu dim", "LogSigmoid": "logsigmoid",
	"Sigmoid": "sigmoid", "Tanh": "tanh", "AdaptiveAvgPool2d": "adaptive_avg_pool2d output_size",
	"AdaptiveMaxPool2d": "adaptive_max_pool2d output_size return_indices!",
	"AdaptiveAvgPool1d": "adaptive_avg_pool1d output_size",
	"AvgPool2d":         "avg_pool2d kernel_size stride padding ceil_mode count_include_pad divisor_override",
	"MaxPool2d":         "max_pool2d kernel_size stride padding dilation return_indices! ceil_mode",
	"MSELoss":           "mse_loss size_average! reduce! reduction", "HuberLoss": "huber_loss reduction delta",
	"SmoothL1Loss":     "smooth_l1_loss size_average! reduce! reduction beta",
	"CrossEntropyLoss": "cross_entropy weight size_average! ignore_index reduce! reduction label_smoothing",
	"NLLLoss":          "nll_loss weight size_average! ignore_index reduce! reduction",
	"Upsample":         "interpolate size scale_factor mode align_corners",
	"PixelShuffle":     "pixel_shuffle upscale_factor",
	"PixelUnshuffle":   "pixel_unshuffle downscale_factor", "Unfold": "im2col kernel_size dilation padding stride",
	"Fold": "col2im output_size kernel_size dilation padding stride",
}

// throughLayer lists the operators that the call of a layer comes to.
func throughLayer(p *audit.Pass, c *abstract.Call, path string) []*reached {
	layer, made := c.Self, c.Self.Made
	name, ours := strings.CutPrefix(path, "torch.nn.")
	if !ours || made == nil || made.Open || made.Path != path {
		return nil
	}
	a := argumentsOf{p: p, positional: c.Args, named: c.Named, open: c.Open, result: result(p, c)}
	x := a.get(0, "input")
	if x == nil {
		return nil
	}
	parameter := func(sizes ...*abstract.Value) *abstract.Value {
		shape := &abstract.Shape{}
		for _, v := range sizes {
			n, ok := number(v)
			if !ok || v.Soft {
				n = -1
			}
			shape.Sizes = append(shape.Sizes, int64(n))
		}
		return &abstract.Value{Kind: abstract.Tensor, Where: layer.Where, Type: p.LayerType(layer), Shape: shape}
	}
	switch {
	case name == "Linear":
		return a.to("aten::linear", values{"input": x,
			"weight": parameter(made.Arg(1, "out_features"), made.Arg(0, "in_features"))})
	case name == "Embedding":
		a.positional = []*abstract.Value{x, parameter(made.Arg(0, "num_embeddings"), made.Arg(1, "embedding_dim"))}
		a.named = []abstract.Named{{Name: "max_norm", Value: or(made.Arg(3, "max_norm"), zero)}}
		return functions["embedding"](p, a)
	case name == "LayerNorm":
		return a.to("aten::native_layer_norm", values{"input": x, "weight": parameter()})
	case strings.HasPrefix(name, "BatchNorm"):
		return a.to("aten::native_batch_norm", values{"input": x, "weight": parameter(nil),
			"training": {Kind: abstract.Bool, Yes: !layer.Evaluates()}})
	case name == "LSTM":
		if x.Kind != abstract.Tensor {
			return nil
		}
		return a.to("aten::lstm.input", values{"input": x, "hx": a.get(1, "hx"),
			"has_biases": or(made.Arg(3, "bias"), trueValue), "num_layers": or(made.Arg(2, "num_layers"), one),
			"dropout": or(made.Arg(5, "dropout"), zero), "train": {Kind: abstract.Bool, Yes: !layer.Evaluates()},
			"bidirectional": or(made.Arg(6, "bidirectional"), falseValue),
			"batch_first":   or(made.Arg(4, "batch_first"), falseValue),
			"proj_size":     or(made.Arg(7, "proj_size"), zero)})
	case strings.HasPrefix(name, "Conv") && len(name) > 2:
		return throughConvolution(a, name, made, x, parameter)
	}
	words := strings.Fields(layerFunctions[name])
	if len(words) == 0 {
		return nil
	}
	for i, w := range words[1:] {
		w, other := strings.CutSuffix(w, "!")
		v := made.Arg(i, w)
		switch {
		case v == nil:
		case other && w != "inplace" && v.Kind != abstract.None && (v.Kind != abstract.Bool || v.Yes):
			return nil
		case !other:
			a.named = append(a.named, abstract.Named{Name: w, Value: v})
		}
	}
	if special := functions[words[0]]; special != nil {
		return special(p, a)
	}
	return a.operator("aten::" + words[0])
}

func throughConvolution(a argumentsOf, name string, made *abstract.Call, x *abstract.Value,
	parameter func(...*abstract.Value) *abstract.Value) []*reached {
	kind, dims := name[:len(name)-2], int(name[len(name)-2]-'0')
	if dims < 1 || dims > 3 || kind != "Conv" && kind != "ConvTranspose" {
		return nil
	}
	at := map[string]int{"stride": 3, "padding": 4, "dilation": 5, "groups": 6, "padding_mode": 8}
	if kind == "ConvTranspose" {
		at = map[string]int{"stride": 3, "padding": 4, "output_padding": 5, "groups": 6, "dilation": 8,
			"padding_mode": 9}
	}
	get := func(name string, otherwise *abstract.Value) *abstract.Value {
		return or(made.Arg(at[name], name), otherwise)
	}
	if mode := made.Arg(at["padding_mode"], "padding_mode"); mode != nil &&
		(mode.Kind != abstract.Str || mode.Text != "zeros") {
		return nil
	}
	kernel := made.Arg(2, "kernel_size")
	sizes := []*abstract.Value{made.Arg(1, "out_channels"), nil}
	if kind == "ConvTranspose" {
		sizes = []*abstract.Value{made.Arg(0, "in_channels"), nil}
	}
	for i := range dims {
		k := kernel
		if k != nil && k.Kind == abstract.Seq && k.Form == abstract.Listed && i < len(k.Items) {
			k = k.Items[i]
		}
		sizes = append(sizes, k)
	}
	return convolved(a, values{"input": x, "weight": parameter(sizes...),
		"stride": get("stride", one), "padding": get("padding", zero), "dilation": get("dilation", one),
		"output_padding": get("output_padding", zero), "groups": get("groups", one),
		"transposed": {Kind: abstract.Bool, Yes: kind == "ConvTranspose"}})
}

// Predicate is what is known of a condition that no clause says: those of agent/assay_agent/double/predicates.py,
// by their names there.
func (r *reached) Predicate(name string, with []any) facts.Answer {
	setting := func(i int) any {
		if i < len(with) {
			return with[i]
		}
		return nil
	}
	switch name {
	case "projections":
		n, ok := number(r.given["proj_size"])
		return known(ok && !r.given["proj_size"].Soft, n > 0)
	case "float_bound":
		x, ok := r.Tensor(0)
		if !ok || x.DType == "" {
			return facts.Open
		}
		if strings.HasPrefix(x.DType, "float") || x.DType == "bfloat16" {
			return facts.No
		}
		for _, name := range []string{"min", "max"} {
			if v, _, told := r.Value(-1, name); told {
				if _, fraction := v.(float64); fraction {
					return facts.Yes
				}
			}
		}
		return facts.Open
	case "negative_float":
		for _, w := range with {
			position, _ := w.(int64)
			if v, _, told := r.Value(int(position), ""); told {
				if n, fraction := v.(float64); fraction && n < 0 {
					return facts.Yes
				}
			}
		}
		return facts.Open
	case "layered": // of an LSTM: both, or dropout
		layers, ok := number(r.given["num_layers"])
		if setting(0) == "both" {
			both, _, told := r.Value(-1, "bidirectional")
			if ok && layers > 1 || told && both == true {
				return facts.Yes
			}
			return known(ok && told, false)
		}
		dropout, also := number(r.given["dropout"])
		if ok && layers <= 1 || also && dropout == 0 {
			return facts.No
		}
		train, _, told := r.Value(-1, "train")
		return known(ok && also && told, train == true)
	case "has_elements":
		answer := facts.Yes
		for _, w := range with {
			position, _ := w.(int64)
			t, ok := r.Tensor(int(position))
			switch {
			case ok && slices.Contains(t.Sizes, 0):
				return facts.No
			case !ok || t.Rank < 0 || slices.Contains(t.Sizes, -1):
				answer = facts.Open
			}
		}
		return answer
	case "complex_second", "one_of_two_complex":
		first, second := r.complex(0), r.complex(1)
		if first == facts.Open || second == facts.Open {
			return facts.Open
		}
		if name == "complex_second" {
			return known(true, first == facts.No && second == facts.Yes)
		}
		return known(true, first != second)
	case "batch_above", "axis_over":
		position, axis, limit := int64(0), int64(0), setting(0)
		if name == "axis_over" {
			position, _ = setting(0).(int64)
			axis, _ = setting(1).(int64)
			limit = setting(2)
		}
		t, ok := r.Tensor(int(position))
		most, isNumber := limit.(int64)
		if axis < 0 {
			axis += int64(t.Rank)
		}
		if !ok || !isNumber || t.Rank < 1 || axis < 0 || axis >= int64(t.Rank) || t.Sizes[axis] < 0 {
			return facts.Open
		}
		return known(true, t.Sizes[axis] > most)
	case "negative_dimension":
		dims, ok := r.numbers("dim")
		return known(ok, slices.ContainsFunc(dims, func(d int64) bool { return d < 0 }))
	case "adaptive_pool":
		x, ok := r.Tensor(0)
		out, told := r.numbers("output_size")
		if setting(1) == "backward" { // of the gradient that comes in, and the input
			grad := x
			if x, ok = r.Tensor(1); grad.Rank >= 3 {
				out, told = grad.Sizes[grad.Rank-2:], true
			}
		}
		if !ok || !told || x.Rank < 3 || len(out) < 1 || len(out) > 2 {
			return facts.Open
		}
		h, w := x.Sizes[x.Rank-2], x.Sizes[x.Rank-1]
		oh, ow := out[0], out[len(out)-1]
		if h < 0 || w < 0 || oh <= 0 || ow <= 0 {
			return facts.Open
		}
		mixed := !(h >= oh && w >= ow || h <= oh && w <= ow)
		switch {
		case setting(0) == "mixed":
			return known(true, mixed)
		case h >= oh:
			return known(true, setting(0) == "down" && (h%oh != 0 || w%ow != 0))
		}
		return known(true, setting(0) == "up" && h > 0 && w > 0 && (oh%h != 0 || ow%w != 0))
	case "smaller_side_above":
		x, ok := r.Tensor(0)
		most, isNumber := setting(0).(int64)
		if !ok || !isNumber || x.Rank < 2 || x.Sizes[x.Rank-1] < 0 || x.Sizes[x.Rank-2] < 0 {
			return facts.Open
		}
		return known(true, min(x.Sizes[x.Rank-1], x.Sizes[x.Rank-2]) > most)
	case "matrix_bytes_above":
		x, ok := r.Tensor(0)
		matrices, _ := setting(0).(int64)
		most, isNumber := setting(1).(int64)
		size := map[string]int64{"float16": 2, "bfloat16": 2, "float32": 4, "complex32": 4, "complex64": 8}[x.DType]
		if !ok || !isNumber || x.Rank < 2 || size == 0 || x.Sizes[x.Rank-1] < 0 || x.Sizes[x.Rank-2] < 0 {
			return facts.Open
		}
		return known(true, float64(matrices*size)*float64(x.Sizes[x.Rank-1])*float64(x.Sizes[x.Rank-2]) > float64(most))
	case "convolved_over":
		return r.convolvedOver(setting(0))
	case "far_dimension":
		x, ok := r.Tensor(0)
		position, _ := setting(0).(int64)
		v, given, told := r.Value(int(position), "dim")
		dim := int64(-1)
		if n, isNumber := v.(int64); given && isNumber {
			dim = n
		}
		if !ok || !told || x.Rank < 0 || given && v == nil {
			return facts.Open
		}
		if x.Rank == 0 {
			return facts.No
		}
		rank := int64(x.Rank)
		return known(true, rank-((dim%rank+rank)%rank) > 4)
	case "fft_dimensions":
		dims, ok := r.numbers("dim")
		return known(ok, len(dims) > 4)
	case "index_tensors":
		v := r.given["indices"]
		if v == nil || v.Kind != abstract.Seq || v.Form != abstract.Listed || len(v.Items) >= 64 {
			return facts.Open
		}
		n := 0
		for _, i := range v.Items {
			if i.Kind == abstract.Unknown {
				return facts.Open
			}
			if i.Kind != abstract.None {
				n++
			}
		}
		return known(true, n > 16)
	case "heads_not_divisible":
		q, ok := r.Tensor(0)
		k, also := r.Tensor(1)
		if !ok || !also || q.Rank < 0 || k.Rank < 0 {
			return facts.Open
		}
		if q.Rank != 4 || k.Rank != 4 {
			return facts.No
		}
		if q.Sizes[1] < 0 || k.Sizes[1] < 1 {
			return facts.Open
		}
		return known(true, q.Sizes[1]%k.Sizes[1] != 0)
	case "weights_not_contiguous":
		v, given := r.given["weight"]
		if !given {
			return known(!r.open, false)
		}
		w, ok := r.tensor(v)
		return known(ok && w.Contiguous != facts.Open, w.Contiguous == facts.No)
	case "imaginary":
		for _, w := range with {
			if name, isName := w.(string); isName && r.given[name] != nil && r.given[name].Type == "complex" {
				return known(true, strings.Trim(r.given[name].Text, "-0.j") != "")
			}
		}
		return facts.Open
	case "scaled":
		for _, name := range []string{"grad_scale", "found_inf"} {
			if v := r.given[name]; v != nil && v.Kind == abstract.Tensor {
				return facts.Yes
			}
		}
		return known(!r.open && len(r.given) > 0, false)
	}
	return facts.Open
}

// complex says whether an operand is a complex tensor or number.
func (r *reached) complex(position int) facts.Answer {
	v, _ := r.value(position, "")
	switch {
	case v == nil || v.Soft || v.OrNone:
		return facts.Open
	case v.Kind == abstract.Number:
		return known(v.Type != "", v.Type == "complex")
	case v.Kind == abstract.Tensor:
		return known(v.Type != "", strings.HasPrefix(v.Type, "complex"))
	}
	return facts.Open
}

// known is an answer where there is one.
func known(told, holds bool) facts.Answer {
	switch {
	case !told:
		return facts.Open
	case holds:
		return facts.Yes
	}
	return facts.No
}

func (r *reached) convolvedOver(limit any) facts.Answer {
	most, ok := limit.(int64)
	x, hasInput := r.Tensor(0)
	w, hasWeight := r.Tensor(1)
	if t, _, told := r.Value(-1, "transposed"); !told || t != false || !ok || !hasWeight || w.Rank < 3 {
		return known(told && t == true, false)
	}
	if w.Sizes[0] > most {
		return facts.Yes
	}
	stride, s := r.numbers("stride")
	padding, q := r.numbers("padding")
	dilation, d := r.numbers("dilation")
	n := w.Rank - 2
	if !hasInput || x.Rank < n || !s || !q || !d {
		return facts.Open
	}
	at := func(list []int64, i int) int64 {
		if len(list) > i {
			return list[i]
		}
		return list[0]
	}
	answer := known(w.Sizes[0] >= 0, false)
	for i := range n {
		size, kernel := x.Sizes[x.Rank-n+i], w.Sizes[2+i]
		if size < 0 || kernel < 0 || at(stride, i) < 1 {
			answer = facts.Open
			continue
		}
		if (size+2*at(padding, i)-at(dilation, i)*(kernel-1)-1)/at(stride, i)+1 > most {
			return facts.Yes
		}
	}
	return answer
}

// reaches lists the operators that a call comes to for sure, with their arguments: those of its own name, and what
// these call whatever they are given. Of several overloads that the arguments may mean each is listed.
func reaches(p *audit.Pass, c *abstract.Call) []*reached {
	path, isModule := strings.CutSuffix(c.Path, ".__call__")
	if isModule && c.Self != nil && c.Self.Kind == abstract.Module {
		return throughLayer(p, c, path)
	}
	positional := c.Args
	method := strings.HasPrefix(path, "torch.Tensor.")
	if method && c.Self != nil {
		positional = append([]*abstract.Value{c.Self}, c.Args...)
	}
	a := argumentsOf{p: p, positional: positional, named: c.Named, open: c.Open, result: result(p, c)}
	name := ""
	switch rest, functional := strings.CutPrefix(path, "torch.nn.functional."); {
	case functional:
		if special := functions[rest]; special != nil {
			return special(p, a)
		}
		if !ownWay["aten::"+rest] {
			name = "aten::" + rest
		}
	case strings.HasPrefix(path, "torch.ops.aten."):
		name = "aten::" + strings.TrimPrefix(path, "torch.ops.aten.")
	case method && symbols[last(path)] != "":
		name = "aten::" + symbols[last(path)]
	case strings.HasPrefix(path, "torch."):
		rest := strings.TrimPrefix(strings.TrimPrefix(path, "torch."), "Tensor.")
		if special := functions[rest]; special != nil {
			return special(p, a)
		}
		if name = p.Namesake(path); ownWay[name] {
			name = ""
		}
	}
	if name == "" {
		return nil
	}
	return a.operator(name)
}
