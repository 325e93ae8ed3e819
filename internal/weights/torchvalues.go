package weights

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"assay/internal/pickle"
)

// A torchType is a type of torch's elements.
type torchType struct {
	dtype DType
	size  int64 // of an element in bytes; 0 where torch's own reader has to be asked
	unit  int64 // of what is turned round where the file is big-endian: half an element where that is complex
}

// torchTypes by the name that torch has for a dtype. Types without a name in DType are read as they lie.
var torchTypes = map[string]torchType{
	"float64": {F64, 8, 8}, "float32": {F32, 4, 4}, "float16": {F16, 2, 2}, "bfloat16": {BF16, 2, 2},
	"int64": {I64, 8, 8}, "int32": {I32, 4, 4}, "int16": {I16, 2, 2}, "int8": {I8, 1, 1}, "uint8": {U8, 1, 1},
	"uint16": {U16, 2, 2}, "uint32": {U32, 4, 4}, "uint64": {U64, 8, 8}, "bool": {Bool, 1, 1},
	"complex64": {C64, 8, 4}, "complex128": {C128, 16, 8}, "complex32": {"C32", 4, 2},
	"float8_e4m3fn": {F8E4M3, 1, 1}, "float8_e5m2": {F8E5M2, 1, 1}, "float8_e4m3fnuz": {"F8_E4M3FNUZ", 1, 1},
	"float8_e5m2fnuz": {"F8_E5M2FNUZ", 1, 1}, "float8_e8m0fnu": {"F8_E8M0", 1, 1},
	"float4_e2m1fn_x2": {"F4_E2M1_X2", 1, 1},
	"qint8":            {"QINT8", 1, 1}, "quint8": {"QUINT8", 1, 1}, "qint32": {"QINT32", 4, 4},
	"quint4x2": {"QUINT4X2", 1, 1}, "quint2x4": {"QUINT2X4", 1, 1}, "bits8": {"BITS8", 1, 1},
}

// storageTypes are the dtypes that torch's classes of storage stand for (torch/storage.py,
// _dtype_to_storage_type_map); an untyped one counts bytes.
var storageTypes = map[string]string{
	"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
	"Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
	"ComplexDouble": "complex128", "QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32", "QUInt4x2": "quint4x2",
	"QUInt2x4": "quint2x4", "Untyped": "uint8", "_Untyped": "uint8",
}

// A storageClass is a name such as torch.FloatStorage.
type storageClass struct {
	torchType
	untyped bool
}

// A torchStorage is the memory that tensors are views of.
type torchStorage struct {
	torchType
	elements int64 // of its type, as the pickle says it
	meta     bool  // it has a size and no content
	record   *torchRecord
	start    int64 // byte of the record at which it begins: 0, but for a view of old files
}

// A torchRecord is a run of bytes in the file, or in memory.
type torchRecord struct {
	key    string
	where  string
	size   int64 // in bytes
	known  bool  // where it lies, which old files say after the pickle
	big    bool  // big-endian
	at     io.ReaderAt
	offset int64                         // of at, where the record begins
	stream func() (io.ReadCloser, error) // what opens it where it is compressed, and at is nil
	users  string                        // name of the first tensor that lies in it
}

// A torchView is a tensor as the pickle describes it.
type torchView struct {
	torchType
	storage        *torchStorage
	offset         int64 // in elements
	shape, strides []int64
	odd            string // why its elements cannot be given: "meta tensor"; else empty
}

// Build takes the state that a tensor of old files, or a Parameter, is given: nothing of it is data.
func (v *torchView) Build(pickle.Value) error { return nil }

// A torchStrange is a tensor of a kind whose elements are not given.
type torchStrange struct{ kind string }

// Build takes the state that it is given.
func (s *torchStrange) Build(pickle.Value) error { return nil }

// layout or qscheme, a name that is no type.
type torchWord struct{ name string }

// torchNames gives the names that a file of torch may use.
func torchNames(name string) (pickle.Value, bool) {
	if do, found := torchFunctions[name]; found {
		return &pickle.Function{Name: name, Do: do}, true
	}
	module, last, dotted := cutLast(name)
	if !dotted {
		return nil, false
	}
	if class, found := strings.CutSuffix(last, "Storage"); found &&
		(module == "torch" || module == "torch.cuda" || module == "torch.storage") {
		if dtype, found := storageTypes[class]; found {
			return &storageClass{torchTypes[dtype], dtype == "uint8" && class != "Byte"}, true
		}
	}
	if module != "torch" {
		return nil, false
	}
	if dtype, found := torchTypes[last]; found {
		return &dtype, true
	}
	if strings.HasPrefix(last, "per_") || strings.HasPrefix(last, "sparse_") || last == "strided" ||
		strings.HasSuffix(last, "_format") {
		return &torchWord{name}, true
	}
	return nil, false
}

func cutLast(name string) (before, after string, found bool) {
	at := strings.LastIndexByte(name, '.')
	if at < 0 {
		return "", name, false
	}
	return name[:at], name[at+1:], true
}

// torchFunctions by name, as torch/_utils.py and torch/_weights_only_unpickler.py have them.
var torchFunctions map[string]func(d *pickle.Decoder, args []pickle.Value) (pickle.Value, error)

func init() {
	notGiven := func(kind string) func(*pickle.Decoder, []pickle.Value) (pickle.Value, error) {
		return func(_ *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
			if kind == "sparse" && len(args) > 0 {
				if word, ok := args[0].(*torchWord); ok {
					return &torchStrange{"sparse tensor (" + word.name + ")"}, nil
				}
			}
			return &torchStrange{kind + " tensor"}, nil
		}
	}
	torchFunctions = map[string]func(d *pickle.Decoder, args []pickle.Value) (pickle.Value, error){
		"torch._utils._rebuild_tensor":                        rebuildTensor,
		"torch._utils._rebuild_tensor_v2":                     rebuildTensor,
		"torch._utils._rebuild_tensor_v3":                     rebuildTensor,
		"torch._utils._rebuild_parameter":                     rebuildParameter,
		"torch._utils._rebuild_parameter_with_state":          rebuildParameter,
		"torch.nn.parameter.Parameter":                        rebuildParameter,
		"torch.nn.parameter.Buffer":                           rebuildParameter,
		"torch._utils._rebuild_meta_tensor_no_storage":        rebuildMeta,
		"torch._utils._rebuild_qtensor":                       notGiven("quantised"),
		"torch._utils._rebuild_sparse_tensor":                 notGiven("sparse"),
		"torch._utils._rebuild_sparse_csr_tensor":             notGiven("sparse"),
		"torch._utils._rebuild_nested_tensor":                 notGiven("nested"),
		"torch._utils._rebuild_wrapper_subclass":              notGiven("wrapped"),
		"torch._utils._rebuild_device_tensor_from_numpy":      rebuildFromOther,
		"torch._utils._rebuild_device_tensor_from_cpu_tensor": rebuildFromOther,
		"torch._utils._rebuild_xla_tensor":                    rebuildFromOther,
		"torch._tensor._rebuild_from_type_v2":                 rebuildFromType,
		"torch._tensor._rebuild_from_type":                    rebuildFromType,
		"torch.tensor._rebuild_from_type":                     rebuildFromType,
		"torch.nn.backends.thnn._get_thnn_function_backend":   thnnBackend,
		"torch.Size":                         sizeOf,
		"torch.device":                       asText(":"),
		"torch.serialization._get_layout":    layoutOf,
		"torch.jit._pickle.build_intlist":    firstArgument,
		"torch.jit._pickle.build_boollist":   firstArgument,
		"torch.jit._pickle.build_doublelist": firstArgument,
		"torch.jit._pickle.build_tensorlist": firstArgument,
		"torch.jit._pickle.restore_type_tag": firstArgument,
	}
}

func torchArgument[T any](args []pickle.Value, i int, what string) (T, error) {
	var none T
	if i >= len(args) {
		return none, fmt.Errorf("it has no %s", what)
	}
	v, ok := args[i].(T)
	if !ok {
		return none, fmt.Errorf("its %s is none", what)
	}
	return v, nil
}

// rebuildTensor is that of (storage, offset, size, stride, requires_grad, hooks[, dtype of v3][, metadata]).
func rebuildTensor(_ *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
	from, err := torchArgument[*torchStorage](args, 0, "storage")
	if err != nil {
		return nil, err
	}
	offset, err := torchArgument[int64](args, 1, "offset")
	if err != nil {
		return nil, err
	}
	v := &torchView{torchType: from.torchType, storage: from, offset: offset}
	if err := v.dimensions(args, 2, 3); err != nil {
		return nil, err
	}
	for _, arg := range args[min(6, len(args)):] {
		switch arg := arg.(type) {
		case *torchType:
			v.torchType = *arg
		case *pickle.Dict:
			for _, bit := range []string{"conj", "neg"} {
				if set, found := arg.Get(bit); found && set == true {
					v.odd = "tensor whose " + bit + " bit is set"
				}
			}
		}
	}
	if from.meta {
		v.odd = "meta tensor"
	}
	return v, v.bounds()
}

func (v *torchView) dimensions(args []pickle.Value, shape, strides int) error {
	for _, at := range []int{shape, strides} {
		what := map[int]string{shape: "size", strides: "stride"}[at]
		if at >= len(args) {
			return fmt.Errorf("it has no %s", what)
		}
		dims, ok := pickle.Ints(args[at])
		if !ok {
			return fmt.Errorf("its %s is no tuple of at most 64 integers", what)
		}
		if slices.ContainsFunc(dims, func(d int64) bool { return d < 0 }) {
			return fmt.Errorf("its %s %v is negative", what, dims)
		}
		if at == shape {
			v.shape = dims
		} else {
			v.strides = dims
		}
	}
	if len(v.shape) != len(v.strides) {
		return fmt.Errorf("it has the size %v and the stride %v", v.shape, v.strides)
	}
	return nil
}

// A view may repeat elements (stride 0), and a file of a few bytes may so describe any number of them.
const (
	maxRepeats  = 1 << 12 // bytes given for each byte of the storage
	freeRepeats = 1 << 30 // bytes that may be given whatever the storage has
)

// bounds holds the view against its storage.
func (v *torchView) bounds() error {
	n, ok := Product(v.shape)
	if !ok || n > math.MaxInt64/v.size {
		return fmt.Errorf("its size %v has more elements than can be counted", v.shape)
	}
	have := v.storage.bytes()
	if v.offset < 0 || v.offset > have/v.size {
		return fmt.Errorf("it begins at element %d of a storage of %d", v.offset, have/v.size)
	}
	if n == 0 {
		return nil
	}
	last := v.offset
	for i, d := range v.shape {
		if d > 1 && v.strides[i] > (math.MaxInt64-last)/(d-1) {
			return fmt.Errorf("its size %v and stride %v pass what can be counted", v.shape, v.strides)
		}
		last += (d - 1) * v.strides[i]
	}
	if last >= have/v.size {
		return fmt.Errorf("its size %v and stride %v from element %d reach element %d of a storage of %d", v.shape,
			v.strides, v.offset, last, have/v.size)
	}
	if bytes := n * v.size; bytes > freeRepeats && bytes/maxRepeats > have {
		return fmt.Errorf("its size %v makes %d bytes of a storage of %d", v.shape, bytes, have)
	}
	return nil
}

// bytes that the pickle says it has; the product was held against an int64 where it was made.
func (s *torchStorage) bytes() int64 { return s.elements * s.size }

func rebuildMeta(_ *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
	dtype, err := torchArgument[*torchType](args, 0, "dtype")
	if err != nil {
		return nil, err
	}
	v := &torchView{torchType: *dtype, odd: "meta tensor"}
	if err := v.dimensions(args, 1, 2); err != nil {
		return nil, err
	}
	if _, ok := Product(v.shape); !ok {
		return nil, fmt.Errorf("its size %v has more elements than can be counted", v.shape)
	}
	return v, nil
}

// rebuildParameter gives the tensor that a parameter holds.
func rebuildParameter(_ *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
	if len(args) == 0 {
		return nil, errors.New("it has no tensor")
	}
	switch args[0].(type) {
	case *torchView, *torchStrange, *pickle.Array:
		return args[0], nil
	}
	return nil, errors.New("its tensor is none")
}

// rebuildFromOther is that of (tensor or array, dtype, device, requires_grad), as devices without storages have it.
func rebuildFromOther(_ *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
	if len(args) < 2 {
		return nil, errors.New("it has no dtype")
	}
	dtype, _ := args[1].(*torchType)
	if dtype == nil {
		return nil, errors.New("its dtype is none")
	}
	switch from := args[0].(type) {
	case *torchView:
		if from.dtype == dtype.dtype {
			return from, nil
		}
	case *pickle.Array:
		if have, _ := numpyType(from); have.dtype == dtype.dtype {
			return from, nil
		}
	default:
		return nil, errors.New("its tensor is none")
	}
	return &torchStrange{"tensor kept in another type than its own (" + string(dtype.dtype) + ")"}, nil
}

// rebuildFromType is that of (function, class, arguments, state): a class derived from Tensor.
func rebuildFromType(d *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
	if len(args) < 3 {
		return nil, fmt.Errorf("it has %d arguments where it takes 4", len(args))
	}
	inner, ok := args[2].(*pickle.Tuple)
	if !ok {
		return nil, errors.New("its arguments are no tuple")
	}
	return d.Call(args[0], inner.Items)
}

func sizeOf(_ *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
	if len(args) == 0 {
		return &pickle.Tuple{}, nil
	}
	switch from := args[0].(type) {
	case *pickle.Tuple:
		return from, nil
	case *pickle.List:
		return &pickle.Tuple{Items: from.Items}, nil
	}
	return nil, errors.New("it is made of what is no tuple")
}

// asText joins plain arguments.
func asText(between string) func(*pickle.Decoder, []pickle.Value) (pickle.Value, error) {
	return func(d *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
		words := make([]string, 0, 2)
		for _, arg := range args[:min(2, len(args))] {
			s, ok := pickle.Text(arg, 100)
			if !ok {
				return nil, errors.New("its argument is no plain value")
			}
			words = append(words, s)
		}
		return strings.Join(words, between), nil
	}
}

func layoutOf(_ *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
	name, err := torchArgument[string](args, 0, "name")
	if err != nil {
		return nil, err
	}
	return &torchWord{name[:min(len(name), 100)]}, nil
}

// thnnBackend stands in modules that were pickled whole before 1.3, and holds nothing.
func thnnBackend(*pickle.Decoder, []pickle.Value) (pickle.Value, error) { return nil, nil }

func firstArgument(_ *pickle.Decoder, args []pickle.Value) (pickle.Value, error) {
	if len(args) == 0 {
		return nil, errors.New("it has no arguments")
	}
	return args[0], nil
}

// numpyType of an array's elements, false where they are no numbers.
func numpyType(a *pickle.Array) (torchType, bool) {
	t, found := torchTypes[map[string]string{
		"f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
		"u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "b1": "bool", "c8": "complex64",
		"c16": "complex128",
	}[a.DType.String()]]
	return t, found && a.Data != nil
}
