package audit

import (
	"slices"
	"strings"

	"assay/internal/pyast"
)

// Call is a call whose function is known: an API by its dotted name, or a method of a known value, which has the name that the class gives it
// (torch.Tensor.to, torch.nn.Module.to, torch.optim.Optimizer.step).
type Call struct {
	Node   *pyast.Call // nil for what is no call in the source
	At     pyast.Node  // the function's expression, or what stands for the call: where a finding points
	Path   string
	Self   *Value // of a method
	Func   *Value
	Args   []*Value
	Named  []Named
	Open   bool // *args or **kwargs: there may be more
	Result *Value
	pass   *Pass
	nodes  []pyast.Expr
	unit   *Unit
}

// Named is a keyword argument.
type Named struct {
	Name  string
	Value *Value
	Node  *pyast.Keyword
}

// Arg is the argument at a position (-1: none) or of a name; nil where it is not given.
func (c *Call) Arg(at int, names ...string) *Value {
	for _, n := range c.Named {
		if slices.Contains(names, n.Name) {
			return n.Value
		}
	}
	if at >= 0 && at < len(c.Args) {
		return c.Args[at]
	}
	return nil
}

// ArgNode is the expression of that argument.
func (c *Call) ArgNode(at int, names ...string) pyast.Expr {
	for _, n := range c.Named {
		if slices.Contains(names, n.Name) {
			return n.Node.Value
		}
	}
	switch {
	case at < 0:
	case c.Node == nil && at < len(c.nodes):
		return c.nodes[at]
	case c.Node != nil && at < len(c.Node.Args):
		return c.Node.Args[at]
	}
	return nil
}

// Tensors is where the tensors and modules among the arguments live, 0 when there are none.
func (c *Call) Tensors() Devices {
	var d Devices
	var add func(*Value, int)
	add = func(v *Value, depth int) {
		switch v.Kind {
		case Tensor:
			d |= v.Where
		case Seq:
			for _, i := range v.Items {
				if depth < 4 {
					add(i, depth+1)
				}
			}
		}
	}
	if c.Self != nil {
		switch c.Self.Kind {
		case Tensor, Module:
			d |= c.Self.Where
		}
	}
	for _, a := range c.Args {
		add(a, 0)
	}
	for _, n := range c.Named {
		add(n.Value, 0)
	}
	if d&^Open != 0 {
		d &^= Open // what is known of one argument holds for all: tensors of one call live in one place
	}
	return d
}

// factories make tensors of sizes; those of the second list take their place from their first argument.
var (
	factories = words(`zeros ones empty full rand randn randint randperm arange range linspace logspace eye tensor as_tensor asarray scalar_tensor empty_strided
		tril_indices triu_indices hann_window hamming_window bartlett_window blackman_window kaiser_window complex_ sparse_coo_tensor sparse_csr_tensor normal`)
	likes           = words(`zeros_like ones_like empty_like full_like rand_like randn_like randint_like`)
	contextManagers = words(`no_grad inference_mode enable_grad set_grad_enabled autocast amp.autocast cuda.amp.autocast cpu.amp.autocast profiler.profile
		autograd.set_detect_anomaly autograd.profiler.profile random.fork_rng`)
	nonTensor = words(`size dim ndimension numel nelement item tolist stride data_ptr element_size backward storage untyped_storage get_device register_hook
		is_floating_point is_complex is_contiguous is_pinned is_shared is_sparse has_names storage_offset is_set_to is_signed is_inference share_memory_ retain_grad`)
	keepsDimensions = words(`to cpu cuda float double half bfloat16 long int short bool type clone detach contiguous requires_grad_ unsqueeze transpose permute t repeat exp log
		sin cos abs neg sqrt relu sigmoid tanh fill_ zero_ normal_ uniform_`)
	comparisons = words(`eq ne lt le gt ge equal isnan isinf isfinite logical_and logical_or logical_not logical_xor isclose isin is_nonzero`)
	indices     = words(`argmax argmin argsort nonzero searchsorted bucketize bincount argwhere count_nonzero`)
)

func words(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[w] = true
	}
	return m
}

// typeOf is the dtype that a value used as dtype= names.
func typeOf(v *Value) string {
	switch {
	case v == nil:
		return ""
	case v.Kind == DType:
		return v.Type
	case v.Kind == Str:
		return numpyType(v.Text)
	case v.Kind == API && strings.HasPrefix(v.Path, "builtins."):
		return numpyType(strings.TrimPrefix(v.Path, "builtins."))
	}
	return ""
}

// result is what a call of an API gives, as far as it matters here.
func (p *Pass) result(c *Call) *Value {
	if v := p.known(c.Path); v != nil {
		return v
	}
	pkg, rest, _ := strings.Cut(c.Path, ".")
	switch pkg {
	case "torch":
		return p.torchCall(c, rest)
	case "numpy":
		return numpyCall(c, rest)
	case "torchvision":
		last := rest[strings.LastIndexByte(rest, '.')+1:]
		switch {
		case strings.HasPrefix(rest, "models.") && (lower(last) || strings.HasPrefix(last, "get_model")):
			return &Value{Kind: Module, Path: c.Path, Where: OnCPU, Made: c}
		case strings.HasPrefix(rest, "models.") && !strings.HasSuffix(last, "_Weights"):
			return &Value{Kind: Module, Path: c.Path, Where: OnCPU, Made: c}
		case strings.HasPrefix(rest, "ops."):
			if lower(last) {
				return &Value{Kind: Tensor, Where: orOpen(c.Tensors())}
			}
			return &Value{Kind: Module, Path: c.Path, Where: OnCPU, Made: c}
		}
	case "timm", "segmentation_models_pytorch":
		if strings.HasSuffix(rest, "create_model") || pkg == "segmentation_models_pytorch" && !lower(rest) {
			return &Value{Kind: Module, Path: c.Path, Where: OnCPU, Made: c}
		}
	case "transformers", "diffusers", "sentence_transformers":
		if class, method, ok := strings.Cut(rest, ".from_"); ok && (strings.Contains(method, "pretrained") || method == "config") {
			if strings.Contains(class, "Model") || strings.Contains(class, "For") || strings.HasSuffix(class, "Pipeline") {
				return &Value{Kind: Module, Path: pkg + "." + class, Where: OnCPU, Made: c, Type: typeOf(c.Arg(-1, "torch_dtype", "dtype"))}
			}
		}
	case "os", "sys", "platform":
		return unknown
	case "mlx":
		if strings.HasPrefix(rest, "core.") {
			return &Value{Where: Open, Made: c}
		}
	case "accelerate":
		return &Value{Kind: Made, Path: c.Path, Made: c}
	}
	if last := c.Path[strings.LastIndexByte(c.Path, '.')+1:]; last != "" && !lower(last) {
		return &Value{Kind: Made, Path: c.Path, Made: c}
	}
	return unknown
}

func lower(name string) bool {
	return name != "" && (name[0] >= 'a' && name[0] <= 'z' || name[0] == '_')
}

func orOpen(d Devices) Devices {
	if d == 0 {
		return Open
	}
	return d
}

// known is what a call or an attribute gives on the target, for those that tell a program where it runs.
func (p *Pass) known(path string) *Value {
	device := p.Target.Device
	switch path {
	case "torch.cuda.is_available", "torch.backends.cuda.is_built", "torch.distributed.is_nccl_available", "torch.cuda.is_bf16_supported",
		"torch.backends.cudnn.is_available", "torch.cuda.is_initialized":
		return boolean(device == "cuda")
	case "torch.xpu.is_available", "torch.npu.is_available", "torch.hpu.is_available", "torch.mtia.is_available":
		return falseVal
	case "torch.backends.mps.is_available", "torch.backends.mps.is_built", "torch.has_mps":
		return boolean(device == "mps")
	case "torch.mps.is_available":
		return boolean(device == "mps")
	case "torch.accelerator.is_available":
		return boolean(device != "cpu")
	case "torch.mps.device_count":
		return &Value{Kind: Number, Num: 1}
	case "torch.cuda.device_count":
		if device != "cuda" {
			return &Value{Kind: Number}
		}
	case "torch.accelerator.current_accelerator":
		return &Value{Kind: Device, Where: deviceOf(device)}
	case "torch.version.cuda", "torch.version.hip":
		if device != "cuda" {
			return noneVal
		}
	case "sys.platform":
		if device == "mps" {
			return text("darwin")
		}
	case "platform.system":
		if device == "mps" {
			return text("Darwin")
		}
	case "platform.machine":
		if device == "mps" {
			return text("arm64")
		}
	case "os.name":
		return text("posix")
	}
	return nil
}

func (p *Pass) torchCall(c *Call, rest string) *Value {
	last := rest[strings.LastIndexByte(rest, '.')+1:]
	at := OnCPU
	if p.defaultDevice != 0 {
		at = p.defaultDevice
	}
	if d := c.Arg(-1, "device"); d != nil {
		if d.Kind != None {
			at = d.place()
		}
	} else if c.Open {
		at |= Open
	}
	dtype := typeOf(c.Arg(-1, "dtype"))
	switch {
	case rest == "device":
		if d := c.Arg(0, "device", "type"); d != nil {
			return &Value{Kind: Device, Where: d.place(), Soft: d.Soft, Path: d.Path}
		}
	case factories[rest]:
		if dtype == "" && c.Arg(-1, "dtype") == nil {
			dtype = p.dataType(rest, c)
		}
		if in := c.Tensors(); c.Arg(-1, "device") == nil && in != 0 { // torch.as_tensor(x), torch.sparse_coo_tensor(i, v): where those are
			at = in
		}
		v := &Value{Kind: Tensor, Where: at, Type: dtype, Soft: c.Arg(-1, "device") != nil && c.Arg(-1, "device").Soft}
		if len(c.Args) > 0 && c.Args[0].Kind == Number || len(c.Args) > 0 && c.Args[0].Kind == Seq && len(c.Args[0].Items) > 0 {
			if rest != "scalar_tensor" && (rest != "tensor" && rest != "as_tensor" || c.Args[0].Kind == Seq) {
				v.Path = "sized"
			}
		}
		return v
	case rest == "from_numpy" || rest == "frombuffer" || rest == "from_dlpack":
		v := &Value{Kind: Tensor, Where: OnCPU, Type: dtype}
		if a := c.Arg(0); a != nil && a.Kind == Array {
			v.Type = a.Type
		}
		return v
	case likes[rest]:
		v := &Value{Kind: Tensor, Where: orOpen(c.Tensors()), Type: dtype}
		if c.Arg(-1, "device") != nil {
			v.Where = at
		}
		if a := c.Arg(0, "input"); a != nil && dtype == "" {
			v.Type = a.Type
		}
		return v
	case rest == "load" || rest == "hub.load_state_dict_from_url":
		return &Value{Kind: StateDict, Path: "torch.load", Made: c}
	case rest == "hub.load":
		return &Value{Kind: Module, Where: OnCPU, Made: c}
	case rest == "compile" || rest == "jit.script" || rest == "jit.trace" || rest == "jit.freeze":
		if a := c.Arg(0, "model", "obj", "func"); a != nil {
			return a
		}
	case contextManagers[rest]:
		return &Value{Kind: Made, Path: c.Path, Made: c}
	case rest == "Generator.manual_seed" && c.Self != nil:
		return c.Self
	case rest == "Generator":
		return &Value{Kind: Made, Path: "torch.Generator", Made: c}
	case strings.HasPrefix(rest, "utils.data."):
		if last == "random_split" {
			parts := &Value{Kind: Seq, Path: "open"}
			part := &Value{Kind: Made, Path: "torch.utils.data.Subset", Made: c}
			if n := c.Arg(1, "lengths"); n != nil && n.Kind == Seq && n.Path == "" {
				parts.Path = ""
				for range n.Items {
					parts.Items = append(parts.Items, part)
				}
				return parts
			}
			parts.Items = []*Value{part}
			return parts
		}
		if last == "DataLoader" {
			return &Value{Kind: Loader, Path: "torch.utils.data.DataLoader", Made: c}
		}
		return &Value{Kind: Made, Path: c.Path, Made: c}
	case strings.HasPrefix(rest, "optim."):
		if strings.Contains(rest, "lr_scheduler") || strings.Contains(rest, "swa_utils") || lower(last) {
			return &Value{Kind: Made, Path: c.Path, Made: c}
		}
		return &Value{Kind: Optimizer, Path: c.Path, Made: c}
	case strings.HasPrefix(rest, "nn.functional.") || strings.HasPrefix(rest, "nn.init."):
		v := &Value{Kind: Tensor, Where: orOpen(c.Tensors())}
		if a := c.Arg(0, "input"); a != nil && a.Kind == Tensor {
			v.Type = a.Type
		}
		if last == "one_hot" {
			v.Type = "int64"
		}
		return v
	case rest == "nn.Parameter" || rest == "nn.parameter.Parameter" || rest == "autograd.Variable":
		if a := c.Arg(0, "data"); a != nil && a.Kind == Tensor {
			w := *a
			w.Text = "parameter"
			return &w
		}
		return &Value{Kind: Tensor, Where: Open, Text: "parameter"}
	case rest == "nn.DataParallel" || rest == "nn.parallel.DistributedDataParallel" || rest == "nn.parallel.DataParallel":
		v := &Value{Kind: Module, Path: c.Path, Where: OnCPU, Made: c}
		if a := c.Arg(0, "module"); a != nil && a.Kind == Module {
			m := *a
			m.Made = c
			return &m
		}
		return v
	case strings.HasPrefix(rest, "nn.utils."):
		if a := c.Arg(0); a != nil {
			return a
		}
	case strings.HasPrefix(rest, "nn.") && !lower(last):
		v := &Value{Kind: Module, Path: c.Path, Where: at, Made: c}
		v.Items = slices.Clone(c.Args)
		if last == "Sequential" || last == "ModuleList" {
			v.Type = typeOf(c.Arg(-1, "dtype"))
		}
		return v
	case strings.HasPrefix(rest, "cuda.") && !lower(last), strings.HasPrefix(rest, "amp.") && !lower(last):
		return &Value{Kind: Made, Path: c.Path, Made: c}
	case strings.HasPrefix(rest, "Tensor."), strings.HasPrefix(rest, "nn.Module."):
		return p.method(c, last)
	}
	if _, known := p.operators(c.Path); known {
		v := &Value{Kind: Tensor, Where: orOpen(c.Tensors())}
		if rest == "view_as_complex" || rest == "complex" || rest == "polar" {
			if a := c.Arg(0, "input", "real", "abs"); a != nil {
				v.Type = map[string]string{"float64": "complex128", "float32": "complex64"}[a.Type]
			}
			return v
		}
		if c.Arg(-1, "device") != nil {
			v.Where = at
		}
		switch {
		case comparisons[last]:
			v.Type = "bool"
		case indices[last]:
			v.Type = "int64"
		case dtype != "":
			v.Type = dtype
		case len(c.Args) > 0:
			v.Type = c.Args[0].Type
		}
		return v
	}
	if !lower(last) && last != "" {
		return &Value{Kind: Made, Path: c.Path, Made: c}
	}
	return unknown
}

// dataType is the dtype that a factory takes from its data.
func (p *Pass) dataType(name string, c *Call) string {
	switch name {
	case "tensor", "as_tensor", "asarray", "scalar_tensor":
		a := c.Arg(0, "data", "obj")
		if a == nil {
			return ""
		}
		switch a.Kind {
		case Array, Tensor:
			return a.Type
		case Number, Seq, Bool:
			return p.literalType(a, p.defaultType)
		}
		return ""
	case "randint", "randperm", "tril_indices", "triu_indices":
		return "int64"
	case "arange", "range":
		t := "int64"
		for _, a := range c.Args {
			if k := p.literalType(a, p.defaultType); k != "int64" {
				t = k
			}
		}
		return t
	case "full":
		if a := c.Arg(1, "fill_value"); a != nil {
			return p.literalType(a, p.defaultType)
		}
		return ""
	case "sparse_coo_tensor", "sparse_csr_tensor", "normal":
		return ""
	}
	return p.defaultType
}

// literalType is the dtype of numbers in the source: real for those with a point.
func (p *Pass) literalType(v *Value, real string) string { return literalType(v, real, 0) }

func literalType(v *Value, real string, depth int) string {
	if depth > 5 { // a list may hold itself
		return ""
	}
	switch v.Kind {
	case Number:
		switch {
		case strings.HasSuffix(v.Text, "j"):
			return "complex64"
		case v.Type == "float":
			return real
		case v.Type == "int":
			return "int64"
		}
	case Bool:
		return "bool"
	case Seq:
		found := ""
		for _, i := range v.Items {
			t := literalType(i, real, depth+1)
			if t == "" {
				return ""
			}
			if found == "" || found == "int64" {
				found = t
			}
		}
		return found
	}
	return ""
}

// method is what a method of a tensor or a module gives.
func (p *Pass) method(c *Call, name string) *Value {
	self := c.Self
	if self == nil {
		return unknown
	}
	if self.Kind == Module {
		switch name {
		case "to", "cuda", "cpu", "mps", "half", "float", "double", "bfloat16", "type", "to_empty":
			p.move(self, c, name)
			return self
		case "eval", "train", "requires_grad_", "apply", "share_memory":
			return self
		case "parameters", "buffers":
			return &Value{Kind: Seq, Path: "parameters", Items: []*Value{{Kind: Tensor, Where: self.Where, Type: self.Type}}}
		case "state_dict":
			return &Value{Kind: StateDict, Path: "state_dict", Where: self.Where, Type: self.Type, Made: c}
		}
		return unknown
	}
	v := &Value{Kind: Tensor, Where: self.Where, Type: self.Type, Soft: self.Soft}
	if self.Path == "sized" && keepsDimensions[name] {
		v.Path = "sized"
	}
	switch name {
	case "to":
		where, dtype := p.destination(c)
		if where != 0 {
			v.Where, v.Soft = where, c.softPlace()
		}
		if dtype != "" {
			v.Type = dtype
		}
	case "cuda":
		v.Where = OnCUDA
	case "cpu":
		v.Where = OnCPU
	case "double":
		v.Type = "float64"
	case "float":
		v.Type = "float32"
	case "half":
		v.Type = "float16"
	case "bfloat16", "bool":
		v.Type = name
	case "long":
		v.Type = "int64"
	case "int":
		v.Type = "int32"
	case "short":
		v.Type = "int16"
	case "cfloat":
		v.Type = "complex64"
	case "cdouble":
		v.Type = "complex128"
	case "type":
		a := c.Arg(0, "dtype")
		if a == nil {
			return unknown
		}
		v.Type = typeOf(a)
		if a.Kind == Str {
			v.Type = legacyType(a.Text)
		}
	case "type_as":
		if a := c.Arg(0, "other"); a != nil && a.Kind == Tensor {
			v.Where, v.Type = a.Where, a.Type
		} else {
			v.Where, v.Type = Open, ""
		}
	case "numpy", "__array__":
		return &Value{Kind: Array, Type: self.Type}
	case "item":
		return unknown
	case "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "new":
		if d := c.Arg(-1, "device"); d != nil {
			v.Where = d.place()
		}
		if t := typeOf(c.Arg(-1, "dtype")); t != "" {
			v.Type = t
		}
	case "sum", "cumsum", "prod", "cumprod":
		if strings.HasPrefix(v.Type, "int") || v.Type == "bool" {
			v.Type = "int64"
		}
		if t := typeOf(c.Arg(-1, "dtype")); t != "" {
			v.Type = t
		}
	case "size":
		return unknown
	default:
		if nonTensor[name] {
			return unknown
		}
		if comparisons[name] {
			v.Type = "bool"
		}
		if indices[name] {
			v.Type = "int64"
		}
	}
	return v
}

// legacyType reads torch.cuda.FloatTensor and its kind.
func legacyType(name string) string {
	name = strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "Tensor")
	return dtypeNames[strings.ToLower(name)]
}

// destination is what .to(…) asks for: a place (0: it stays) and a dtype ("": it keeps its own).
func (p *Pass) destination(c *Call) (Devices, string) {
	var where Devices
	dtype := typeOf(c.Arg(-1, "dtype"))
	if d := c.Arg(-1, "device"); d != nil && d.Kind != None {
		where = d.place()
	}
	for i, a := range c.Args[:min(2, len(c.Args))] {
		switch a.Kind {
		case DType:
			dtype = a.Type
		case Device, Str, Number:
			if i == 0 {
				where = a.place()
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

// move changes where a module lives, for everything that names it.
func (p *Pass) move(m *Value, c *Call, name string) {
	switch name {
	case "cuda":
		m.Where = OnCUDA
	case "cpu":
		m.Where = OnCPU
	case "half", "bfloat16":
		m.Type = map[string]string{"half": "float16", "bfloat16": "bfloat16"}[name]
	case "float":
		m.Type = "float32"
	case "double":
		m.Type = "float64"
	case "to", "to_empty":
		where, dtype := p.destination(c)
		if where != 0 {
			m.Where, m.Soft = where, c.softPlace()
		}
		if dtype != "" {
			m.Type = dtype
		}
	}
}

// numpy's functions that make float64 unless told otherwise.
var numpyFloat64 = words(`zeros ones empty full linspace logspace geomspace eye identity hanning hamming blackman bartlett kaiser
	random.rand random.randn random.random random.random_sample random.normal random.uniform random.standard_normal random.beta random.gamma random.exponential`)

// numpy's draws that give a Python float where no size is asked for: how many parameters stand before the size.
var numpyDraws = map[string]int{"random.rand": 0, "random.randn": 0, "random.random": 0, "random.random_sample": 0, "random.normal": 2, "random.uniform": 2,
	"random.standard_normal": 0, "random.beta": 2, "random.gamma": 2, "random.exponential": 1}

func numpyCall(c *Call, rest string) *Value {
	if before, draw := numpyDraws[rest]; draw && len(c.Args) <= before && !c.Open && c.Arg(-1, "size") == nil {
		isNumber := func(v *Value) bool { return v.Kind == Number }
		for _, n := range c.Named {
			if !isNumber(n.Value) {
				return unknown
			}
		}
		for _, a := range c.Args { // arrays are drawn for element by element
			if !isNumber(a) {
				return unknown
			}
		}
		return &Value{Kind: Number, Type: "float", Soft: true}
	}
	dtype := c.Arg(-1, "dtype")
	given := typeOf(dtype)
	array := func(t string) *Value {
		if dtype != nil {
			t = given
		}
		v := &Value{Kind: Array, Type: t}
		if c.Self == nil && len(c.Args) > 0 && (numpyFloat64[rest] || rest == "array" && c.Args[0].Kind == Seq && len(c.Args[0].Items) > 0) {
			v.Path = "sized"
		}
		return v
	}
	switch {
	case rest == "ndarray.astype" && c.Self != nil:
		return &Value{Kind: Array, Type: typeOf(c.Arg(0, "dtype"))}
	case strings.HasPrefix(rest, "ndarray.") && c.Self == nil:
		return array("")
	case strings.HasPrefix(rest, "ndarray."):
		switch name := strings.TrimPrefix(rest, "ndarray."); name {
		case "tolist", "item", "tobytes", "tofile", "dump", "fill", "sort", "nonzero":
			return unknown
		case "mean", "std", "var":
			if strings.HasPrefix(c.Self.Type, "int") || strings.HasPrefix(c.Self.Type, "uint") || c.Self.Type == "bool" {
				return array("float64")
			}
			return array(c.Self.Type)
		case "argmax", "argmin", "argsort":
			return array("int64")
		default:
			return array(c.Self.Type)
		}
	case numpyFloat64[rest]:
		if dtype == nil && rest != "full" {
			at := map[string]int{"zeros": 1, "ones": 1, "empty": 1}[rest]
			if at > 0 && len(c.Args) > at { // dtype is the second argument
				return &Value{Kind: Array, Type: typeOf(c.Args[at])}
			}
		}
		if c.Open {
			return array("")
		}
		if rest == "full" {
			return array("")
		}
		return array("float64")
	case rest == "array" || rest == "asarray" || rest == "ascontiguousarray" || rest == "asanyarray":
		a := c.Arg(0, "object", "a")
		if dtype == nil && len(c.Args) > 1 {
			return &Value{Kind: Array, Type: typeOf(c.Args[1])}
		}
		if a == nil || c.Open {
			return array("")
		}
		switch a.Kind {
		case Array, Tensor:
			return array(a.Type)
		case Seq:
			for _, i := range a.Items {
				if i.Kind == Array {
					return array(i.Type)
				}
			}
			return array(literalType(a, "float64", 0))
		}
		return array("")
	case rest == "arange":
		t := ""
		for _, a := range c.Args {
			switch literalType(a, "float64", 0) {
			case "float64":
				t = "float64"
			case "int64":
				if t == "" {
					t = "int64"
				}
			}
		}
		return array(t)
	case rest == "random.randint" || rest == "random.permutation" || rest == "random.choice":
		return array(map[bool]string{true: "int64"}[rest == "random.randint"])
	case dtypeNames[rest] != "" || numpyTypes[rest] != "": // np.float32(x)
		return &Value{Kind: Array, Type: numpyType(rest)}
	case lower(rest) && !strings.Contains(rest, "."):
		if len(c.Args) > 0 {
			switch a := c.Args[0]; a.Kind {
			case Array:
				return array(a.Type)
			case Seq:
				for _, i := range a.Items {
					if i.Kind == Array {
						return array(i.Type)
					}
				}
			}
		}
		return array("")
	}
	return unknown
}

// Result is what a call gives, without its having been made.
func (p *Pass) Result(c *Call) *Value {
	if c.Result != nil {
		return c.Result
	}
	if c.Self != nil && c.Self.Kind == Module { // would move it
		m := *c.Self
		d := *c
		d.Self = &m
		return p.result(&d)
	}
	return p.result(c)
}

// Destination is what .to(…) asks for: a place, 0 where the call names none, and a dtype.
func (p *Pass) Destination(c *Call) (Devices, string) { return p.destination(c) }

// softPlace reports whether the device that the call names may be another: an option's default.
func (c *Call) softPlace() bool {
	if d := c.Arg(-1, "device"); d != nil {
		return d.Soft
	}
	return len(c.Args) > 0 && c.Args[0].Soft
}
