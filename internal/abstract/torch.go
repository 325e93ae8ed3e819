package abstract

import (
	"slices"
	"strings"
)

// torchFunctions are what functions and classes of PyTorch give, by their names behind "torch.".
var torchFunctions = byName(map[string]outcome{
	"device": torchDevice,
	"zeros_like ones_like empty_like full_like rand_like randn_like randint_like": tensorLike,
	"from_numpy frombuffer from_dlpack":                                           tensorOfArray,
	"load hub.load_state_dict_from_url":                                           loadedState,
	"hub.load":                                                                    hubModule,
	"compile jit.script jit.trace jit.freeze":                                     theModel,
	"Generator":             madeObject,
	"Generator.manual_seed": theGenerator,
	"nn.Parameter nn.parameter.Parameter autograd.Variable":                        asParameter,
	"nn.DataParallel nn.parallel.DataParallel nn.parallel.DistributedDataParallel": wrappedModule,
	`no_grad inference_mode enable_grad set_grad_enabled autocast amp.autocast cuda.amp.autocast cpu.amp.autocast
		profiler.profile autograd.set_detect_anomaly autograd.profiler.profile random.fork_rng`: madeObject,
})

// torchFamilies are what the others give by what their names begin with: the first that fits counts.
var torchFamilies = []struct {
	prefix  string
	classes bool // classes alone
	gives   outcome
}{
	{prefix: "utils.data.", gives: dataUtility},
	{prefix: "optim.", gives: ofOptim},
	{prefix: "nn.functional.", gives: functional},
	{prefix: "nn.init.", gives: functional},
	{prefix: "nn.utils.", gives: theArgument},
	{prefix: "nn.", classes: true, gives: layer},
	{prefix: "cuda.", classes: true, gives: madeObject},
	{prefix: "amp.", classes: true, gives: madeObject},
	{prefix: "Tensor.", gives: methodResult},
	{prefix: "nn.Module.", gives: methodResult},
}

// resultTypes are the dtypes of what operations and methods give whatever they are given.
var resultTypes = byName(map[string]string{
	"eq ne lt le gt ge equal isnan isinf isfinite logical_and logical_or logical_not logical_xor isclose isin " +
		"is_nonzero": "bool",
	"argmax argmin argsort nonzero searchsorted bucketize bincount argwhere count_nonzero": "int64",
})

// factories make tensors; each says the dtype of what it makes where the call names none.
var factories = byName(map[string]func(*Interp, *Call) string{
	"zeros ones empty empty_strided rand randn linspace logspace eye complex_": defaultFloat,
	"hann_window hamming_window bartlett_window blackman_window kaiser_window": defaultFloat,
	"tensor as_tensor asarray scalar_tensor":                                   typeOfData,
	"full":                                                                     typeOfFill,
	"arange range":                                                             typeOfBounds,
	"randint randperm tril_indices triu_indices":                               alwaysInt64,
	"sparse_coo_tensor sparse_csr_tensor normal":                               typeUnknown,
})

func defaultFloat(in *Interp, _ *Call) string { return in.defaultType }
func alwaysInt64(*Interp, *Call) string       { return "int64" }
func typeUnknown(*Interp, *Call) string       { return "" }

func typeOfData(in *Interp, c *Call) string {
	a := c.Arg(0, "data", "obj")
	if a == nil {
		return ""
	}
	switch a.Kind {
	case Array, Tensor:
		return a.Type
	case Number, Seq, Bool:
		return literalType(a, in.defaultType, 0)
	}
	return ""
}

func typeOfFill(in *Interp, c *Call) string {
	if a := c.Arg(1, "fill_value"); a != nil {
		return literalType(a, in.defaultType, 0)
	}
	return ""
}

func typeOfBounds(in *Interp, c *Call) string {
	t := "int64"
	for _, a := range c.Args {
		if k := literalType(a, in.defaultType, 0); k != "int64" {
			t = k
		}
	}
	return t
}

// torchResult is what a call of PyTorch gives.
func torchResult(in *Interp, c *Call, name string) *Value {
	if factories[name] != nil {
		return in.madeTensor(c, name)
	}
	if gives := torchFunctions[name]; gives != nil {
		if v := gives(in, c, name); v != nil {
			return v
		}
		return in.operatorResult(c, name)
	}
	last := lastPart(name)
	for _, f := range torchFamilies {
		if strings.HasPrefix(name, f.prefix) && !(f.classes && lower(last)) {
			if v := f.gives(in, c, name); v != nil {
				return v
			}
			break
		}
	}
	return in.operatorResult(c, name)
}

// newPlace is where a call makes tensors: where it says, else where PyTorch makes them.
func (in *Interp) newPlace(c *Call) Devices {
	at := OnCPU
	if in.defaultDevice != 0 {
		at = in.defaultDevice
	}
	if d := c.Arg(-1, "device"); d != nil {
		if d.Kind != None {
			at = d.Place()
		}
	} else if c.Open {
		at |= Open
	}
	return at
}

func (in *Interp) madeTensor(c *Call, name string) *Value {
	dtype, device := typeOf(c.Arg(-1, "dtype")), c.Arg(-1, "device")
	if dtype == "" && c.Arg(-1, "dtype") == nil {
		dtype = factories[name](in, c)
	}
	at := in.newPlace(c)
	// torch.as_tensor(x), torch.sparse_coo_tensor(i, v): where those are
	if given := c.Tensors(); device == nil && given != 0 {
		at = given
	}
	v := &Value{Kind: Tensor, Where: at, Type: dtype, Soft: device != nil && device.Soft}
	if len(c.Args) > 0 && c.Args[0].Kind == Number || len(c.Args) > 0 && c.Args[0].Kind == Seq &&
		len(c.Args[0].Items) > 0 {
		if name != "scalar_tensor" && (name != "tensor" && name != "as_tensor" || c.Args[0].Kind == Seq) {
			v.Origin = Sized
		}
	}
	v.Shape = factoryShape(c, name)
	if asked := c.Arg(-1, "requires_grad"); asked != nil {
		v.graded = asked.Kind == Bool && asked.Yes
	}
	return v
}

// operatorResult is what an operation gives that the atlas knows: a tensor where its arguments are.
func (in *Interp) operatorResult(c *Call, name string) *Value {
	if !in.world.Operator(c.Path) {
		return nil
	}
	v := &Value{Kind: Tensor, Where: orOpen(c.Tensors())}
	if name == "view_as_complex" || name == "complex" || name == "polar" {
		if a := c.Arg(0, "input", "real", "abs"); a != nil {
			v.Type = map[string]string{"float64": "complex128", "float32": "complex64"}[a.Type]
		}
		return v
	}
	if c.Arg(-1, "device") != nil {
		v.Where = in.newPlace(c)
	}
	dtype := typeOf(c.Arg(-1, "dtype"))
	switch fixed := resultTypes[lastPart(name)]; {
	case fixed != "":
		v.Type = fixed
	case dtype != "":
		v.Type = dtype
	case len(c.Args) > 0:
		v.Type = typeAfter(name, c.Args[0].Type)
		if made := tensorMethods[name]; (name == "sum" || name == "prod" || name == "cumsum" || name == "cumprod") &&
			made.more != nil {
			v = made.more(in, c, v)
		}
	}
	v.Shape, v.graded = operationShape(c, name, false), in.graded(c)
	return v
}

func torchDevice(_ *Interp, c *Call, _ string) *Value {
	d := c.Arg(0, "device", "type")
	if d == nil {
		return nil
	}
	return &Value{Kind: Device, Where: d.Place(), Soft: d.Soft, Follows: d.Follows}
}

func tensorLike(in *Interp, c *Call, name string) *Value {
	v := &Value{Kind: Tensor, Where: orOpen(c.Tensors()), Type: typeOf(c.Arg(-1, "dtype"))}
	if c.Arg(-1, "device") != nil {
		v.Where = in.newPlace(c)
	}
	if a := c.Arg(0, "input"); a != nil && v.Type == "" {
		v.Type = a.Type
	}
	v.Shape = operationShape(c, name, false)
	return v
}

func tensorOfArray(_ *Interp, c *Call, _ string) *Value {
	v := &Value{Kind: Tensor, Where: OnCPU, Type: typeOf(c.Arg(-1, "dtype"))}
	if a := c.Arg(0); a != nil && a.Kind == Array {
		v.Type = a.Type
	}
	return v
}

func loadedState(_ *Interp, c *Call, _ string) *Value {
	return &Value{Kind: StateDict, Path: c.Path, Made: c}
}

func hubModule(_ *Interp, c *Call, _ string) *Value {
	return &Value{Kind: Module, Where: OnCPU, Made: c}
}

func theModel(_ *Interp, c *Call, _ string) *Value     { return c.Arg(0, "model", "obj", "func") }
func theArgument(_ *Interp, c *Call, _ string) *Value  { return c.Arg(0) }
func theGenerator(_ *Interp, c *Call, _ string) *Value { return c.Self }

func dataUtility(in *Interp, c *Call, name string) *Value {
	switch lastPart(name) {
	case "random_split":
		return splits(c)
	case "DataLoader":
		return &Value{Kind: Loader, Path: "torch.utils.data.DataLoader", Made: c}
	}
	return madeObject(in, c, name)
}

func splits(c *Call) *Value {
	part := &Value{Kind: Made, Path: "torch.utils.data.Subset", Made: c}
	n := c.Arg(1, "lengths")
	if n == nil || n.Kind != Seq || n.Form != Listed {
		return &Value{Kind: Seq, Form: Loose, Items: []*Value{part}}
	}
	return &Value{Kind: Seq, Items: slices.Repeat([]*Value{part}, len(n.Items))}
}

func ofOptim(in *Interp, c *Call, name string) *Value {
	if strings.Contains(name, "lr_scheduler") || strings.Contains(name, "swa_utils") || lower(lastPart(name)) {
		return madeObject(in, c, name)
	}
	return &Value{Kind: Optimizer, Path: c.Path, Made: c}
}

func functional(in *Interp, c *Call, name string) *Value {
	v := &Value{Kind: Tensor, Where: orOpen(c.Tensors())}
	if a := c.Arg(0, "input"); a != nil && a.Kind == Tensor {
		v.Type = typeAfter(lastPart(name), a.Type)
	}
	if t := typeOf(c.Arg(-1, "dtype")); t != "" {
		v.Type = t
	}
	v.Shape, v.graded = operationShape(c, lastPart(name), false), in.graded(c)
	if lastPart(name) == "embedding" {
		if w := c.Arg(1, "weight"); w != nil && w.Kind == Tensor {
			v.Type = w.Type
		}
	}
	if lastPart(name) == "one_hot" {
		v.Type = "int64"
	}
	return v
}

func asParameter(_ *Interp, c *Call, _ string) *Value {
	v := Value{Kind: Tensor, Where: Open}
	if a := c.Arg(0, "data"); a != nil && a.Kind == Tensor {
		v = *a
	}
	v.Role, v.graded = Parameter, true
	return &v
}

func wrappedModule(in *Interp, c *Call, name string) *Value {
	a := c.Arg(0, "module")
	if a == nil || a.Kind != Module {
		return madeModule(in, c, name)
	}
	m := *a
	m.Made = c
	return &m
}

func layer(in *Interp, c *Call, name string) *Value {
	v := &Value{Kind: Module, Path: c.Path, Where: in.newPlace(c), Made: c, Items: slices.Clone(c.Args)}
	if last := lastPart(name); last == "Sequential" || last == "ModuleList" {
		v.Type = typeOf(c.Arg(-1, "dtype"))
	}
	return v
}

// change is what a method makes of the tensor or the module that it is called on.
type change struct {
	where   Devices // where it is then; 0: where it was
	dtype   string  // "": as it was
	sized   bool    // what has dimensions has them still
	nothing bool    // it gives no tensor
	more    func(in *Interp, c *Call, v *Value) *Value
}

// reshapes are methods that change a tensor's own dimensions.
var reshapes = byName(map[string]bool{"unsqueeze_ squeeze_ transpose_ t_ swapaxes_ swapdims_ resize_ resize_as_ set_ as_strided_": true})

var tensorMethods = byName(map[string]change{
	"to":       {sized: true, more: toDestination},
	"cuda":     {sized: true, where: OnCUDA},
	"cpu":      {sized: true, where: OnCPU},
	"double":   {sized: true, dtype: "float64"},
	"float":    {sized: true, dtype: "float32"},
	"half":     {sized: true, dtype: "float16"},
	"bfloat16": {sized: true, dtype: "bfloat16"},
	"bool":     {sized: true, dtype: "bool"},
	"long":     {sized: true, dtype: "int64"},
	"int":      {sized: true, dtype: "int32"},
	"short":    {sized: true, dtype: "int16"},
	"cfloat":   {dtype: "complex64"},
	"cdouble":  {dtype: "complex128"},
	"type":     {sized: true, more: toType},
	"type_as":  {more: likeOther},
	"clone detach contiguous requires_grad_ unsqueeze transpose permute t repeat": {sized: true},
	"exp log sin cos abs neg sqrt relu sigmoid tanh fill_ zero_ normal_ uniform_": {sized: true},
	"new_zeros new_ones new_empty new_full new_tensor new":                        {more: newBeside},
	"sum cumsum prod cumprod": {more: summed},
	"numpy __array__":         {more: asArray},
	"size dim ndimension numel nelement item tolist stride data_ptr element_size get_device":  {nothing: true},
	"backward storage untyped_storage storage_offset register_hook retain_grad share_memory_": {nothing: true},
	"is_floating_point is_complex is_contiguous is_pinned is_shared is_sparse has_names":      {nothing: true},
	"is_set_to is_signed is_inference": {nothing: true},
})

// moduleMethods change the module itself, for everything that names it.
var moduleMethods = byName(map[string]change{
	"to to_empty": {more: toDestination},
	"cuda":        {where: OnCUDA},
	"cpu":         {where: OnCPU},
	"half":        {dtype: "float16"},
	"bfloat16":    {dtype: "bfloat16"},
	"float":       {dtype: "float32"},
	"double":      {dtype: "float64"},
	"eval":        {more: evaluating},
	"train":       {more: training},
	"mps type requires_grad_ apply share_memory": {},
	"parameters buffers":                         {more: parametersOf},
	"state_dict":                                 {more: stateOf},
})

// methodResult is what a method of a tensor or a module gives.
func methodResult(in *Interp, c *Call, name string) *Value {
	self, method := c.Self, lastPart(name)
	if self == nil {
		return unknown
	}
	var v *Value
	var made change
	if self.Kind == Module {
		known := false
		if made, known = moduleMethods[method]; !known {
			return unknown
		}
		v = self
	} else {
		v = &Value{Kind: Tensor, Where: self.Where, Type: typeAfter(method, self.Type), Soft: self.Soft,
			Shape: operationShape(c, method, true), graded: in.graded(c) && method != "detach"}
		if method == "requires_grad_" {
			asked := c.Arg(0, "requires_grad")
			v.graded = asked == nil || asked.Kind == Bool && asked.Yes
			self.graded = v.graded && !in.uncertain
		}
		if reshapes[method] { // the tensor itself, for everything that names it
			self.Shape = nil
		}
		made = tensorMethods[method]
		if fixed := resultTypes[method]; fixed != "" {
			made.dtype = fixed
		}
		if self.Origin == Sized && made.sized {
			v.Origin = Sized
		}
	}
	if made.nothing {
		return unknown
	}
	if made.where != 0 {
		v.Where = made.where
	}
	if made.dtype != "" {
		if v.Type = made.dtype; v.Kind == Module && in.uncertain && made.dtype != "float64" {
			v.Type = severalTypes
		}
	}
	if made.more != nil {
		return made.more(in, c, v)
	}
	return v
}

// evaluating and training are the mode of a module, which they change for everything that names it.
func evaluating(in *Interp, _ *Call, m *Value) *Value {
	m.evaluates = !in.uncertain || m.evaluates
	return m
}

func training(_ *Interp, c *Call, m *Value) *Value {
	mode := c.Arg(0, "mode")
	m.evaluates = mode != nil && mode.Kind == Bool && !mode.Yes && !mode.Soft
	return m
}

func toDestination(in *Interp, c *Call, v *Value) *Value {
	where, dtype := in.Destination(c)
	if where != 0 {
		v.Where, v.Soft = where, c.softPlace()
	}
	if dtype != "" {
		v.Type = dtype
	}
	return v
}

func toType(_ *Interp, c *Call, v *Value) *Value {
	a := c.Arg(0, "dtype")
	if a == nil {
		return unknown
	}
	v.Type = typeOf(a)
	if a.Kind == Str {
		v.Type = legacyType(a.Text)
	}
	return v
}

func likeOther(_ *Interp, c *Call, v *Value) *Value {
	v.Where, v.Type = Open, ""
	if a := c.Arg(0, "other"); a != nil && a.Kind == Tensor {
		v.Where, v.Type = a.Where, a.Type
	}
	return v
}

func newBeside(_ *Interp, c *Call, v *Value) *Value {
	if d := c.Arg(-1, "device"); d != nil {
		v.Where = d.Place()
	}
	if t := typeOf(c.Arg(-1, "dtype")); t != "" {
		v.Type = t
	}
	list := c.Args
	if size := c.Arg(-1, "size"); size != nil {
		list = []*Value{size}
	}
	switch lastPart(c.Path) {
	case "new_zeros", "new_ones", "new_empty":
		v.Shape = packedShape(madeSizes(list, c.Open))
	}
	return v
}

func summed(_ *Interp, c *Call, v *Value) *Value {
	if strings.HasPrefix(v.Type, "int") || v.Type == "bool" {
		v.Type = "int64"
	}
	if t := typeOf(c.Arg(-1, "dtype")); t != "" {
		v.Type = t
	}
	return v
}

func asArray(_ *Interp, _ *Call, v *Value) *Value { return &Value{Kind: Array, Type: v.Type} }

func parametersOf(_ *Interp, _ *Call, m *Value) *Value {
	t := m.Type
	if t == severalTypes {
		t = ""
	}
	return &Value{Kind: Seq, Form: Loose, Items: []*Value{{Kind: Tensor, Where: m.Where, Type: t}}}
}

func stateOf(_ *Interp, c *Call, m *Value) *Value {
	return &Value{Kind: StateDict, Path: c.Path, Where: m.Where, Type: m.Type, Made: c}
}

// Destination is what .to(…) asks for: a place, 0 where the call names none, and a dtype, "" where it names none.
func (in *Interp) Destination(c *Call) (Devices, string) {
	var where Devices
	dtype := typeOf(c.Arg(-1, "dtype"))
	if d := c.Arg(-1, "device"); d != nil && d.Kind != None {
		where = d.Place()
	}
	for i, a := range c.Args[:min(2, len(c.Args))] {
		switch a.Kind {
		case DType:
			dtype = a.Type
		case Device, Str, Number:
			if i == 0 {
				where = a.Place()
			}
		case Tensor:
			where, dtype = a.Where, a.Type
		case None, Bool:
		default:
			if i == 0 {
				where = Open
			}
		}
	}
	return where, dtype
}
