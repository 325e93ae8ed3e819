package abstract

import (
	"slices"
	"strings"

	"assay/internal/pyast"
)

// operands of an operation that PyTorch has as a function and as a method: the first is the tensor.
type operands struct {
	*Call
	method bool
}

func (o operands) at(i int, names ...string) *Value {
	if !o.method {
		return o.Arg(i, names...)
	}
	if i == 0 {
		return o.Self
	}
	return o.Arg(i-1, names...)
}

// rest are the arguments behind the first so many, those of a method's call behind its tensor.
func (o operands) rest(behind int) []*Value {
	if o.method {
		behind--
	}
	return o.Args[min(behind, len(o.Args)):]
}

// shapeOf is the shape of an argument that is a tensor.
func shapeOf(v *Value) *Shape {
	if v == nil || v.Kind != Tensor || v.OrNone {
		return nil
	}
	return v.Shape
}

// whole is an argument that is a whole number in the source; the other answer where it is left out.
func whole(v *Value, otherwise int64) (int64, bool) {
	if v == nil {
		return otherwise, true
	}
	if v.Kind != Number || v.Type != "int" || v.Text == "" || v.Soft || v.OrNone {
		return 0, false
	}
	return int64(v.Num), true
}

// wholes are numbers that are given one by one, or as a list; one that is not known is unknownSize. ok is false where
// it is not known how many there are.
func wholes(list []*Value, open bool) (sizes []int64, ok bool) {
	if len(list) == 1 && list[0].Kind == Seq {
		if list[0].Form != Listed || list[0].OrNone || list[0].Soft {
			return nil, false
		}
		list = list[0].Items
		if len(list) >= 64 { // those behind are not kept
			return nil, false
		}
	} else if len(list) == 1 && list[0].Kind != Number || open {
		return nil, false
	}
	sizes = make([]int64, len(list))
	for i, v := range list {
		n, known := whole(v, 0)
		if !known {
			if v.Kind == Seq || v.Kind == Tensor && len(list) == 1 {
				return nil, false
			}
			n = unknownSize
		}
		sizes[i] = n
	}
	return sizes, true
}

// unknownSize is a number that is given and not known. -1 in the arguments of view means something.
const unknownSize = -1 << 40

// madeSizes are those that a factory is told, -1 where one is not known; nil where their number is not.
func madeSizes(list []*Value, open bool) []int64 {
	sizes, ok := wholes(list, open)
	if !ok {
		return nil
	}
	for i, n := range sizes {
		if n == unknownSize {
			sizes[i] = -1
		} else if n < 0 {
			return nil
		}
	}
	return sizes
}

// nested are the sizes of a literal list of lists.
func nested(v *Value, depth int) []int64 {
	switch v.Kind {
	case Number, Bool:
		return []int64{}
	case Seq:
		if v.Form != Listed || len(v.Items) >= 64 || depth > maxRank {
			return nil
		}
		if len(v.Items) == 0 {
			return []int64{0}
		}
		inner := nested(v.Items[0], depth+1)
		if inner == nil {
			return nil
		}
		return append([]int64{int64(len(v.Items))}, inner...)
	}
	return nil
}

// factoryShape is the shape of a tensor that is made.
func factoryShape(c *Call, name string) *Shape {
	at := 0
	switch name {
	case "randint": // randint(high, size), randint(low, high, size)
		at = 1
		if len(c.Args) > 2 {
			at = 2
		}
		fallthrough
	case "full":
		if name == "full" {
			at = 0
		}
		size := c.Arg(at, "size")
		if size == nil {
			return nil
		}
		return packedShape(madeSizes([]*Value{size}, c.Open))
	case "zeros", "ones", "empty", "rand", "randn":
		list := c.Args
		if size := c.Arg(-1, "size"); size != nil {
			list = []*Value{size}
		}
		return packedShape(madeSizes(list, c.Open))
	case "eye":
		list := slices.Clone(c.Args[:min(2, len(c.Args))])
		if len(list) == 1 {
			list = append(list, list[0])
		}
		if len(list) != 2 || list[0].Kind == Seq {
			return nil
		}
		return packedShape(madeSizes(list, c.Open))
	case "arange", "linspace", "logspace", "randperm":
		n := int64(-1)
		if end, known := whole(c.Arg(0, "end", "n"), -1); known && end >= 0 && len(c.Args) == 1 &&
			(name == "arange" && c.Arg(-1, "start", "step") == nil || name == "randperm") {
			n = end
		}
		return packedShape([]int64{n})
	case "tensor", "as_tensor", "asarray":
		if a := c.Arg(0, "data", "obj"); a != nil && !a.Soft {
			if a.Kind == Tensor {
				return shapeOf(a)
			}
			return packedShape(nested(a, 0))
		}
	}
	return nil
}

// layout is the shape of what an operation gives, whose first operand has the shape x.
type layout func(o operands, x *Shape) *Shape

var layouts = byName(map[string]layout{
	`exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh abs absolute neg
		negative sqrt rsqrt square relu relu6 leaky_relu elu selu celu gelu silu mish sigmoid hardsigmoid hardswish
		hardtanh logsigmoid softplus softsign tanhshrink softshrink hardshrink erf erfc erfinv sign sgn floor ceil
		round trunc frac reciprocal clamp clip clamp_min clamp_max nan_to_num logit lgamma digamma polygamma
		softmax log_softmax softmin dropout alpha_dropout normalize layer_norm batch_norm group_norm instance_norm
		rms_norm cumsum cumprod logcumsumexp tril triu flip roll masked_fill isnan isinf isfinite
		logical_not bitwise_not signbit zeros_like ones_like empty_like full_like rand_like randn_like
		randint_like bernoulli index_fill index_add index_copy scatter scatter_add scatter_reduce argsort
		angle`: alikeShape,
	`to type type_as cpu cuda float double half bfloat16 bool long int short cfloat cdouble clone`:           moved,
	"detach requires_grad_ detach_ fill_ zero_ normal_ uniform_ add_ sub_ mul_ div_ copy_ exp_ clamp_ relu_": unchanged,
	"contiguous": packed, "t": turned, "transpose swapaxes swapdims": transposed, "permute": permuted,
	"movedim moveaxis": movedShape, "unsqueeze": unsqueezed, "squeeze": squeezed, "flatten ravel": flattened,
	"view reshape": reshaped, "expand": expanded, "repeat": repeated, "select": selected, "narrow": narrowed,
	`sum mean prod amax amin logsumexp argmax argmin nansum nanmean std var any all norm count_nonzero`: reducedShape,
	"add sub subtract mul multiply div divide true_divide pow maximum minimum fmod remainder atan2 eq ne lt le gt ge " +
		"logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor": broadcasting,
	"matmul mm bmm mv dot inner": product, "linear": linearShape, "embedding": embeddedShape, "one_hot": oneMore,
	"conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d": convolved,
	`max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
		adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d interpolate pad
		pixel_shuffle pixel_unshuffle index_select gather`: sameRank,
	"cat concat concatenate": joinedShape, "stack": stacked,
})

func alikeShape(_ operands, x *Shape) *Shape { return x.like() }
func unchanged(_ operands, x *Shape) *Shape  { return x }

// moved keeps strides that leave no gaps; a tensor that is where and what it shall be is not copied.
func moved(o operands, x *Shape) *Shape {
	if m := o.Arg(-1, "memory_format"); m != nil {
		return x.format(m)
	}
	if x == nil || x.strides == nil || !x.dense() {
		return x.like()
	}
	return x
}

// dense reports that the elements lie without gaps, in some order of the dimensions.
func (s *Shape) dense() bool {
	order := make([]int, len(s.Sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(s.strides[b] - s.strides[a]) })
	yes, known := (&Shape{Sizes: s.Sizes, strides: s.strides}).permuted(order).Contiguous()
	return known && yes && !slices.Contains(s.strides, 0)
}

// format is the shape in a memory format.
func (s *Shape) format(m *Value) *Shape {
	if s == nil {
		return nil
	}
	switch m.Path {
	case "torch.contiguous_format":
		return packedShape(s.Sizes)
	case "torch.preserve_format":
		return s.like()
	case "torch.channels_last", "torch.channels_last_3d":
		n := len(s.Sizes)
		if n != 4 && n != 5 {
			return nil
		}
		order := []int{0, 2, 3, 1}
		back := []int{0, 3, 1, 2}
		if n == 5 {
			order, back = []int{0, 2, 3, 4, 1}, []int{0, 4, 1, 2, 3}
		}
		last := packedShape(s.permuted(order).Sizes)
		if last == nil {
			return nil
		}
		last.packed = false
		return last.permuted(back)
	}
	return looseShape(s.Sizes)
}

func packed(o operands, x *Shape) *Shape {
	if m := o.Arg(0, "memory_format"); m != nil && o.method {
		return x.format(m)
	}
	if x == nil {
		return nil
	}
	return packedShape(x.Sizes)
}

func turned(_ operands, x *Shape) *Shape {
	if x == nil || len(x.Sizes) < 2 {
		return x
	}
	return x.swapped(0, 1)
}

func transposed(o operands, x *Shape) *Shape {
	a, ok := whole(o.at(1, "dim0", "axis0"), 0)
	b, also := whole(o.at(2, "dim1", "axis1"), 0)
	if x == nil || o.at(1, "dim0", "axis0") == nil || o.at(2, "dim1", "axis1") == nil {
		return nil
	}
	if !ok || !also {
		return looseShape(unknownSizes(len(x.Sizes)))
	}
	return x.swapped(a, b)
}

// unknownSizes are so many of them.
func unknownSizes(n int) []int64 { return slices.Repeat([]int64{-1}, n) }

func permuted(o operands, x *Shape) *Shape {
	list := o.rest(1)
	if d := o.Arg(-1, "dims"); d != nil {
		list = []*Value{d}
	}
	dims, ok := wholes(list, o.Open)
	if x == nil || !ok || len(dims) != len(x.Sizes) {
		return nil
	}
	order := make([]int, len(dims))
	seen := map[int]bool{}
	for i, d := range dims {
		a, in := x.axis(d, 0)
		if !in || seen[a] {
			return nil
		}
		order[i], seen[a] = a, true
	}
	return x.permuted(order)
}

func movedShape(o operands, x *Shape) *Shape {
	from, ok := whole(o.at(1, "source"), 0)
	to, also := whole(o.at(2, "destination"), 0)
	if x == nil || !ok || !also || o.at(1, "source") == nil || o.at(2, "destination") == nil {
		return nil
	}
	i, in := x.axis(from, 0)
	j, within := x.axis(to, 0)
	if !in || !within {
		return nil
	}
	var order []int
	for k := range x.Sizes {
		if k != i {
			order = append(order, k)
		}
	}
	return x.permuted(slices.Insert(order, j, i))
}

func unsqueezed(o operands, x *Shape) *Shape {
	d := o.at(1, "dim")
	n, ok := whole(d, 0)
	if x == nil || d == nil || !ok {
		return nil
	}
	if i, in := x.axis(n, 1); in {
		return x.with(i)
	}
	return nil
}

func squeezed(o operands, x *Shape) *Shape {
	d := o.at(1, "dim")
	if x == nil {
		return nil
	}
	if d == nil {
		if slices.Contains(x.Sizes, -1) {
			return nil
		}
		for i := len(x.Sizes) - 1; i >= 0; i-- {
			if x.Sizes[i] == 1 {
				packed := x.packed
				x = x.without(i)
				x.packed = packed
			}
		}
		return x
	}
	n, ok := whole(d, 0)
	i, in := x.axis(n, 0)
	if !ok || !in || x.Sizes[i] == -1 {
		return nil
	}
	if x.Sizes[i] != 1 {
		return x
	}
	packed := x.packed
	x = x.without(i)
	x.packed = packed
	return x
}

func flattened(o operands, x *Shape) *Shape {
	start, ok := whole(o.at(1, "start_dim"), 0)
	end, also := whole(o.at(2, "end_dim"), -1)
	if x == nil || !ok || !also {
		return nil
	}
	if len(x.Sizes) == 0 {
		return packedShape([]int64{1})
	}
	i, in := x.axis(start, 0)
	j, within := x.axis(end, 0)
	if !in || !within || i > j {
		return nil
	}
	n, known := (&Shape{Sizes: x.Sizes[i : j+1]}).elements()
	if !known {
		n = -1
	}
	sizes := append(slices.Clone(x.Sizes[:i]), n)
	sizes = append(sizes, x.Sizes[j+1:]...)
	if yes, known := x.Contiguous(); known && yes {
		return packedShape(sizes)
	}
	return looseShape(sizes)
}

func reshaped(o operands, x *Shape) *Shape {
	list := o.rest(1)
	if d := o.Arg(-1, "shape", "size"); d != nil {
		list = []*Value{d}
	}
	if len(list) == 1 && list[0].Kind == DType {
		return x
	}
	sizes, ok := wholes(list, o.Open)
	if !ok {
		return nil
	}
	unknown := make([]bool, len(sizes))
	for i, n := range sizes {
		if unknown[i] = n == unknownSize; unknown[i] {
			sizes[i] = -1
		}
	}
	if x == nil {
		return looseShape(slices.Repeat([]int64{-1}, len(sizes)))
	}
	return x.viewed(sizes, func(i int) bool { return unknown[i] })
}

func expanded(o operands, x *Shape) *Shape {
	sizes, ok := wholes(o.rest(1), o.Open)
	if x == nil || !ok || len(sizes) < len(x.Sizes) {
		return nil
	}
	e := &Shape{Sizes: sizes}
	more := len(sizes) - len(x.Sizes)
	if x.strides != nil {
		e.strides = make([]int64, len(sizes))
	}
	for i, n := range sizes {
		old := int64(1)
		if i >= more {
			old = x.Sizes[i-more]
		}
		if n == -1 {
			sizes[i] = old
		} else if n == unknownSize {
			sizes[i] = -1
		}
		if e.strides != nil && i >= more && sizes[i] == old {
			e.strides[i] = x.strides[i-more]
		}
	}
	if slices.Contains(e.Sizes, -1) {
		e.strides = nil
	}
	return e
}

func repeated(o operands, x *Shape) *Shape {
	times, ok := wholes(o.rest(1), o.Open)
	if x == nil || !ok || len(times) < len(x.Sizes) {
		return nil
	}
	more := len(times) - len(x.Sizes)
	for i, n := range times {
		switch {
		case n == unknownSize || i >= more && x.Sizes[i-more] == -1:
			times[i] = -1
		case i >= more:
			times[i] = n * x.Sizes[i-more]
		}
	}
	return packedShape(times)
}

func selected(o operands, x *Shape) *Shape {
	d, ok := whole(o.at(1, "dim"), 0)
	if x == nil || !ok {
		return nil
	}
	if i, in := x.axis(d, 0); in {
		return x.without(i)
	}
	return nil
}

func narrowed(o operands, x *Shape) *Shape {
	d, ok := whole(o.at(1, "dim"), 0)
	if x == nil || !ok {
		return nil
	}
	n, known := whole(o.at(3, "length"), -1)
	if !known {
		n = -1
	}
	if i, in := x.axis(d, 0); in {
		return x.sliced(i, n, 1)
	}
	return nil
}

func reducedShape(o operands, x *Shape) *Shape {
	d := o.at(1, "dim", "axis")
	if o.Arg(-1, "dim", "axis") == nil && strings.HasSuffix(o.Path, ".norm") {
		d = o.at(2, "dim")
	}
	if x == nil || o.Open {
		return nil
	}
	keep := o.at(2, "keepdim", "keepdims")
	if keep != nil && keep.Kind != Bool || keep != nil && keep.Soft {
		return nil
	}
	if d == nil || d.Kind == None {
		if keep != nil {
			return nil
		}
		return packedShape([]int64{})
	}
	axes, ok := wholes([]*Value{d}, false)
	if !ok || slices.Contains(axes, unknownSize) {
		return nil
	}
	return x.reduced(axes, keep != nil && keep.Yes)
}

func broadcasting(o operands, x *Shape) *Shape {
	other := o.at(1, "other", "exponent")
	if other == nil {
		return nil
	}
	switch other.Kind {
	case Number, Bool:
		return x.like()
	case Tensor:
		return broadcast(x, shapeOf(other))
	}
	return nil
}

func product(o operands, x *Shape) *Shape {
	return productShape(x, shapeOf(o.at(1, "other", "mat2", "tensor", "vec")))
}

// productShape is the shape of a @ b.
func productShape(a, b *Shape) *Shape {
	if a == nil || b == nil || len(a.Sizes) == 0 || len(b.Sizes) == 0 {
		return nil
	}
	x, y := a.Sizes, b.Sizes
	var tail []int64
	if len(x) > 1 {
		tail = append(tail, x[len(x)-2])
	}
	if len(y) > 1 {
		tail = append(tail, y[len(y)-1])
	}
	batch := broadcast(&Shape{Sizes: x[:max(0, len(x)-2)]}, &Shape{Sizes: y[:max(0, len(y)-2)]})
	if batch == nil {
		return nil
	}
	return packedShape(append(slices.Clone(batch.Sizes), tail...))
}

func linearShape(o operands, x *Shape) *Shape {
	out := int64(-1)
	if w := shapeOf(o.at(1, "weight")); w != nil && len(w.Sizes) == 2 {
		out = w.Sizes[0]
	}
	return lastSize(x, out)
}

// lastSize is the shape of a new tensor that differs in its last size.
func lastSize(x *Shape, n int64) *Shape {
	if x == nil || len(x.Sizes) == 0 {
		return nil
	}
	sizes := slices.Clone(x.Sizes)
	sizes[len(sizes)-1] = n
	return packedShape(sizes)
}

func embeddedShape(o operands, x *Shape) *Shape {
	n := int64(-1)
	if w := shapeOf(o.at(1, "weight")); w != nil && len(w.Sizes) == 2 {
		n = w.Sizes[1]
	}
	if x == nil {
		return nil
	}
	return packedShape(append(slices.Clone(x.Sizes), n))
}

func oneMore(o operands, x *Shape) *Shape {
	n, ok := whole(o.at(1, "num_classes"), -1)
	if x == nil {
		return nil
	}
	if !ok {
		n = -1
	}
	return packedShape(append(slices.Clone(x.Sizes), n))
}

func convolved(o operands, x *Shape) *Shape {
	w := shapeOf(o.at(1, "weight"))
	if x == nil || w == nil || len(w.Sizes) < 3 {
		return nil
	}
	sizes := unknownSizes(len(x.Sizes))
	if len(x.Sizes) == len(w.Sizes) {
		sizes[0] = x.Sizes[0]
	}
	return looseShape(sizes)
}

func sameRank(_ operands, x *Shape) *Shape {
	if x == nil {
		return nil
	}
	return looseShape(unknownSizes(len(x.Sizes)))
}

// tensorsOf are the shapes of a list of tensors; false where it is not known which there are.
func tensorsOf(v *Value) ([]*Shape, bool) {
	if v == nil || v.Kind != Seq || v.Form != Listed || len(v.Items) == 0 || len(v.Items) >= 64 {
		return nil, false
	}
	var list []*Shape
	for _, i := range v.Items {
		s := shapeOf(i)
		if s == nil {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

func joinedShape(o operands, _ *Shape) *Shape {
	list, ok := tensorsOf(o.at(0, "tensors"))
	d, known := whole(o.at(1, "dim", "axis"), 0)
	if !ok || !known {
		return nil
	}
	i, in := list[0].axis(d, 0)
	if !in {
		return nil
	}
	sizes := slices.Clone(list[0].Sizes)
	for _, s := range list[1:] {
		if len(s.Sizes) != len(sizes) {
			return nil
		}
		if s.Sizes[i] < 0 || sizes[i] < 0 {
			sizes[i] = -1
		} else {
			sizes[i] += s.Sizes[i]
		}
	}
	return packedShape(sizes)
}

func stacked(o operands, _ *Shape) *Shape {
	list, ok := tensorsOf(o.at(0, "tensors"))
	d, known := whole(o.at(1, "dim", "axis"), 0)
	if !ok || !known {
		return nil
	}
	i, in := list[0].axis(d, 1)
	if !in {
		return nil
	}
	return packedShape(slices.Insert(slices.Clone(list[0].Sizes), i, int64(len(o.at(0, "tensors").Items))))
}

// operationShape is the shape of what an operation gives, by its name behind torch, Tensor or nn.functional.
func operationShape(c *Call, name string, method bool) *Shape {
	gives := layouts[name]
	if gives == nil {
		return nil
	}
	o := operands{c, method}
	return gives(o, shapeOf(o.at(0, "input", "self")))
}

// keepsType are operations whose result is of the first operand's type, whichever that is. Of others that is known
// for floating point alone: a root of integers is a float, a spectrum of floats is complex.
var keepsType = byName(map[string]bool{
	`view reshape flatten unflatten squeeze unsqueeze transpose swapaxes swapdims t permute movedim moveaxis expand
		expand_as repeat repeat_interleave contiguous clone detach detach_ requires_grad_ roll flip tril triu diag
		diagonal narrow select index_select gather take masked_select masked_fill masked_fill_ clamp clip clamp_
		clamp_min clamp_max neg relu relu_ amax amin cat concat stack hstack vstack chunk split unfold pad
		zeros_like ones_like empty_like rand_like randn_like full_like randint_like fill_ zero_ copy_ add_ sub_ mul_
		scatter scatter_ scatter_add scatter_add_ index_add index_add_ index_copy index_copy_ index_fill index_fill_
		new_zeros new_ones new_empty new_full new_tensor new type_as to cpu cuda cumsum cumprod sum prod view_as
		reshape_as broadcast_to matmul mm bmm mv dot addmm tile meshgrid random_ pin_memory resolve_conj
		bitwise_not bitwise_and bitwise_or bitwise_xor unbind`: true,
})

// givesOtherType are operations whose result is not of the first operand's type though that is of floating point, or
// that give several tensors of different types.
var givesOtherType = byName(map[string]bool{
	`where embedding embedding_bag max min sort topk kthvalue mode median nanmedian cummax cummin unique
		unique_consecutive aminmax frexp complex polar view_as_complex stft multi_head_attention_forward
		quantize_per_tensor to_sparse histogram qr svd eig eigvals eigh lu multinomial one_hot`: true,
})

// typeAfter is the type of what an operation gives whose first operand is of a type.
func typeAfter(name, dtype string) string {
	switch {
	case keepsType[name]:
		return dtype
	case givesOtherType[name], strings.HasPrefix(name, "fft."), strings.HasPrefix(name, "linalg."):
		return ""
	case strings.HasPrefix(dtype, "float"), dtype == "bfloat16":
		return dtype
	}
	return ""
}

// viewOf is an attribute of a tensor that is the same memory seen otherwise.
func viewOf(x *Value, name string) *Value {
	v := *x
	switch {
	case name == "real" || name == "imag":
		v.Type, v.Shape = realType(x.Type), nil
		if x.Type == v.Type {
			v.Shape = x.Shape
		}
	case x.Shape == nil || len(x.Shape.Sizes) < 2:
	case name == "T":
		order := make([]int, len(x.Shape.Sizes))
		for i := range order {
			order[i] = len(order) - 1 - i
		}
		v.Shape = x.Shape.permuted(order)
	default:
		v.Shape = x.Shape.swapped(-2, -1)
	}
	return &v
}

// realType is the type of a complex number's parts.
func realType(dtype string) string {
	switch dtype {
	case "complex32":
		return "float16"
	case "complex64":
		return "float32"
	case "complex128":
		return "float64"
	}
	return dtype
}

// LayerType is the type of the parameters of a layer of torch.nn; "" where it is not known.
func (in *Interp) LayerType(layer *Value) string {
	switch {
	case layer.Kind != Module || layer.Type == severalTypes || !strings.HasPrefix(layer.Path, "torch.nn."):
		return ""
	case layer.Type != "":
		return layer.Type
	case layer.Made == nil || layer.Made.Open:
		return ""
	}
	if d := layer.Made.Arg(-1, "dtype"); d != nil && d.Kind != None {
		return typeOf(d)
	}
	return in.defaultType
}

// Graded reports whether a gradient is surely asked of a tensor.
func (v *Value) Graded() bool { return v.Kind == Tensor && v.graded }

// graded reports whether what a call gives has a gradient: that of an argument, or of a layer's parameters.
func (in *Interp) graded(c *Call) bool {
	for _, b := range in.blocks {
		if b.Path == "torch.no_grad" || b.Path == "torch.inference_mode" {
			return false
		}
	}
	some := c.Self != nil && (c.Self.graded || in.LayerType(c.Self) != "" && c.Path != "torch.nn.Module.__call__")
	for _, a := range c.Args {
		some = some || a.graded
	}
	for _, n := range c.Named {
		some = some || n.Value.graded
	}
	return some
}

// Evaluates reports whether a module is known to be in its mode for evaluation.
func (v *Value) Evaluates() bool { return v.Kind == Module && v.evaluates }

// alikeLayers give a tensor of their input's type and dimensions.
var alikeLayers = byName(map[string]bool{`ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid Hardsigmoid Hardswish
	Hardtanh LogSigmoid Softplus Softsign Tanh Tanhshrink Softshrink Hardshrink Softmax LogSoftmax Softmin Dropout
	Dropout1d Dropout2d Dropout3d AlphaDropout Identity LayerNorm BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm
	InstanceNorm1d InstanceNorm2d InstanceNorm3d RMSNorm PReLU`: true})

// layerGives adds to a result what is known of what a layer of torch.nn makes of its input.
func (in *Interp) layerGives(c *Call, v *Value) {
	layer := c.Self
	v.graded = in.graded(c)
	name, ok := strings.CutPrefix(layer.Path, "torch.nn.")
	x := c.Arg(0, "input")
	if !ok || x == nil || x.Kind != Tensor || layer.Made == nil {
		return
	}
	shape := shapeOf(x)
	switch {
	case alikeLayers[name]:
		v.Shape, v.Type = shape.like(), typeAfter("relu", x.Type)
	case name == "Linear":
		n, known := whole(layer.Made.Arg(1, "out_features"), -1)
		if !known {
			n = -1
		}
		v.Shape, v.Type = lastSize(shape, n), typeAfter("linear", x.Type)
	case name == "Embedding":
		n, known := whole(layer.Made.Arg(1, "embedding_dim"), -1)
		if !known {
			n = -1
		}
		if shape != nil {
			v.Shape = packedShape(append(slices.Clone(shape.Sizes), n))
		}
		v.Type = in.LayerType(layer)
	case strings.HasPrefix(name, "Conv") || strings.Contains(name, "Pool"):
		if shape != nil && !strings.Contains(name, "Fractional") {
			v.Shape = looseShape(unknownSizes(len(shape.Sizes)))
			if dims := int(name[max(0, len(name)-2)] - '0'); strings.HasSuffix(name, "d") &&
				len(shape.Sizes) == dims+2 {
				v.Shape.Sizes[0] = shape.Sizes[0] // the batch
			}
		}
		v.Type = typeAfter("pool", x.Type)
	case name == "Flatten":
		v.Type = x.Type
		if start, ok := whole(layer.Made.Arg(0, "start_dim"), 1); ok && shape != nil && int(start) < len(shape.Sizes) &&
			start >= 0 && layer.Made.Arg(1, "end_dim") == nil {
			v.Shape = looseShape(unknownSizes(int(start) + 1))
		}
	}
	for _, b := range in.blocks { // which type comes out is autocast's choice
		if strings.HasSuffix(b.Path, "autocast") {
			v.Type = ""
		}
	}
}

// indexed is what x[index] gives.
func (in *Interp) indexed(x, index *Value, e *pyast.Subscript) *Value {
	if x.Shape == nil {
		return x
	}
	v := *x
	v.Shape = nil
	parts := []pyast.Expr{e.Slice}
	if t, ok := e.Slice.(*pyast.Tuple); ok {
		parts = t.Elts
	}
	taken := 0
	for _, part := range parts {
		if c, ok := part.(*pyast.Constant); ok && (c.What == pyast.None || c.What == pyast.Ellipsis) {
			continue
		}
		taken++
	}
	s, at := x.Shape, 0
	for _, part := range parts {
		if s == nil || at > len(s.Sizes) {
			return &v
		}
		switch p := part.(type) {
		case *pyast.Slice:
			if at >= len(s.Sizes) {
				return &v
			}
			s = in.slice(s, at, p)
			at++
			continue
		case *pyast.Constant:
			switch p.What {
			case pyast.None:
				s = s.with(at)
				at++
				continue
			case pyast.Ellipsis:
				at += len(x.Shape.Sizes) - taken
				continue
			}
		}
		item := in.quietly(part)
		if item.Kind != Number || item.Type != "int" || at >= len(s.Sizes) { // a list, a mask, what is not known
			return &v
		}
		s = s.without(at)
	}
	v.Shape = s
	return &v
}

// slice is the shape of which a part of one dimension is taken.
func (in *Interp) slice(s *Shape, at int, p *pyast.Slice) *Shape {
	bound := func(e pyast.Expr, otherwise int64) (int64, bool) {
		if e == nil {
			return otherwise, true
		}
		v := in.quietly(e)
		if v.Kind == None {
			return otherwise, true
		}
		return whole(v, otherwise)
	}
	size := s.Sizes[at]
	step, ok := bound(p.Step, 1)
	if !ok || step < 1 {
		return nil
	}
	start, known := bound(p.Lower, 0)
	end, also := bound(p.Upper, size)
	if known && start == 0 && p.Upper == nil && step == 1 {
		return s
	}
	if !known || !also || size < 0 {
		cut := s.sliced(at, -1, step)
		cut.strides = nil
		return cut
	}
	clip := func(n int64) int64 {
		if n < 0 {
			n += size
		}
		return max(0, min(n, size))
	}
	start, end = clip(start), clip(end)
	return s.sliced(at, max(0, (end-start+step-1)/step), step)
}
