"""What PyTorch's MPS backend refuses although it has the operator: by dtype, rank, shape, value, mode or layout.

`rules_for(name, series, macos)` gives the checks of one operator, as functions of the arguments that __torch_dispatch__
gets. A check returns None or raises the backend's own exception with the backend's own text.

Where the rules come from, in the order in which they are tried:
  ROWS      refusals by hand: one line each, with the message as it stands in the release binaries, the first and last
            series in which it stands there, and the file below aten/src/ATen/native/mps/operations that has the check.
            They are the rows of internal/atlas/tables/conditions.toml whose condition shows in the arguments.
  METAL     an operator that runs a kernel of a Metal family has exactly the types for which that family was compiled.
            Which these are was read from the release binaries (kernels.txt, made by tools/double/kernels.py).
  GRAPH     an operator that is built as an MPSGraph maps its operands' dtypes (getMPSDataType in OperationUtils.mm),
            and refuses those without a counterpart.

Not here: what the CPU kernel refuses as well, since the double runs it next and it refuses in the same place; what a
Mac aborts on (Metal asserts, no exception); placement of operands on several devices.
"""

import os

import torch

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

# ---- dtypes ----------------------------------------------------------------------------------------------------------

# C++ names, as texts have them (c10/core/ScalarType.h), and Metal's, as kernels have them (scalarToMetalTypeString).
NAMES = {
    "float32": ("Float", "float"), "float16": ("Half", "half"), "bfloat16": ("BFloat16", "bfloat"),
    "float64": ("Double", None),
    "int8": ("Char", "char"), "uint8": ("Byte", "uchar"), "int16": ("Short", "short"), "int32": ("Int", "int"),
    "int64": ("Long", "long"), "bool": ("Bool", "bool"), "uint16": ("UInt16", "ushort"), "uint32": ("UInt32", "uint"),
    "uint64": ("UInt64", "ulong"), "complex64": ("ComplexFloat", "float2"), "complex32": ("ComplexHalf", "half2"),
    "complex128": ("ComplexDouble", None), "float8_e4m3fn": ("Float8_e4m3fn", None),
    "float8_e5m2": ("Float8_e5m2", None),
    "float8_e4m3fnuz": ("Float8_e4m3fnuz", None), "float8_e5m2fnuz": ("Float8_e5m2fnuz", None),
    "float8_e8m0fnu": ("Float8_e8m0fnu", None), "quint8": ("QUInt8", None), "qint8": ("QInt8", None),
    "qint32": ("QInt32", None),
}


def _types(*names):
    """Those of these dtypes that the installed torch has."""
    return frozenset(getattr(torch, n) for n in names if hasattr(torch, n))


CXX = {getattr(torch, n): names[0] for n, names in NAMES.items() if hasattr(torch, n)}
SAME = {"int32_t": "int", "int64_t": "long", "bfloat16_t": "bfloat"}
METAL_NAME = {getattr(torch, n): names[1] for n, names in NAMES.items() if names[1] and hasattr(torch, n)}
FLOAT = _types("float32", "float16", "bfloat16")
COMPLEX = _types("complex64", "complex32", "complex128")
INTEGER = _types("int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
UNSIGNED = _types("uint16", "uint32", "uint64")
BOOL = _types("bool")
INT64 = _types("int64")
F32 = _types("float32")
F32_C64 = _types("float32", "complex64")
INDEX = _types("int32", "int64")


def cxx(dtype):
    return CXX.get(dtype) or str(dtype)[6:]


# ---- reading arguments -----------------------------------------------------------------------------------------------

def tensors(args, kwargs):
    """The tensors among the arguments, lists of tensors included; out= is not an operand."""
    found = []
    for value in list(args) + [v for k, v in kwargs.items() if k != "out" and not k.startswith("out")]:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(v for v in value if isinstance(v, torch.Tensor))
    return found


def argument(args, kwargs, position, name, default=None):
    return args[position] if position < len(args) else kwargs.get(name, default)


def common_dtype(args, kwargs):
    """What the operands of an elementwise operator are computed in, before integers become floats."""
    if (len(args) == 2 and isinstance(args[0], torch.Tensor) and isinstance(args[1], torch.Tensor)
            and args[0].dtype is args[1].dtype):
        return args[0].dtype  # most calls
    found, scalars = [], []
    for value in args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (int, float, complex)):
            scalars.append(value)
    if not found:
        return None
    dtype = found[0].dtype
    if not scalars and all(t.dtype == dtype for t in found):
        return dtype
    result = found[0]
    for other in found[1:] + scalars:
        at = torch.result_type(result, other)
        if isinstance(other, torch.Tensor) and at == other.dtype and other.dim() >= result.dim():
            result = other
        elif at != result.dtype:
            result = torch.empty((1,) * result.dim(), dtype=at, device="meta")
    return result.dtype


# ---- conditions: functions of (args, kwargs) that return None, or what fills the text --------------------------------

def dtype_in(types, *positions):
    """One of these arguments (the first, where none is named) has one of these dtypes."""
    def check(args, kwargs):
        for p in positions or (0,):
            if p < len(args):
                t = args[p]
                if isinstance(t, (list, tuple)) and t:
                    t = t[0]
                if isinstance(t, torch.Tensor) and t.dtype in types:
                    return {"dtype": cxx(t.dtype), "torch": t.dtype}
    return check


def dtype_not_in(types, *positions):
    def check(args, kwargs):
        for p in positions or (0,):
            if p < len(args):
                t = args[p]
                if isinstance(t, (list, tuple)) and t:
                    t = t[0]
                if isinstance(t, torch.Tensor) and t.dtype not in types:
                    return {"dtype": cxx(t.dtype), "torch": t.dtype}
    return check


def common_in(types):
    def check(args, kwargs):
        dtype = common_dtype(args, kwargs)
        if dtype in types:
            return {"dtype": cxx(dtype)}
    return check


def common_not_in(types):
    def check(args, kwargs):
        dtype = common_dtype(args, kwargs)
        if dtype is not None and dtype not in types:
            return {"dtype": cxx(dtype)}
    return check


def any_in(types):
    """Any tensor operand has one of these dtypes; a float64 scalar on the CPU never counts, since it is narrowed."""
    def check(args, kwargs):
        for t in tensors(args, kwargs):
            if t.dtype in types:
                return {"dtype": cxx(t.dtype)}
    return check


def value(position, name, wrong, default=None):
    """An argument that is no tensor has a value that is refused."""
    def check(args, kwargs):
        v = argument(args, kwargs, position, name, default)
        if v is not None and wrong(v):
            return {"value": v}
    return check


def imaginary(*names):
    """A keyword scalar that the backend takes as a double has an imaginary part."""
    def check(args, kwargs):
        return {} if any(isinstance(kwargs.get(n), complex) and kwargs[n].imag for n in names) else None
    return check


def both(*checks):
    """All of them hold; what the first says fills the text."""
    def check(args, kwargs):
        first = None
        for c in checks:
            got = c(args, kwargs)
            if got is None:
                return None
            first = got if first is None else first
        return first
    return check


def not_same_dtype(*positions):
    def check(args, kwargs):
        a, b = args[positions[0]], args[positions[1]]
        if isinstance(b, torch.Tensor) and a.dtype != b.dtype:
            return {"dtype": cxx(a.dtype), "other": cxx(b.dtype), "torch": a.dtype}
    return check


def always(args, kwargs):
    return {}


def _pool_sizes(args, backward):
    if backward:
        return args[1].shape[-2:], args[0].shape[-2:]
    out = args[1]
    return args[0].shape[-2:], (out if isinstance(out, (list, tuple)) else (out, out))


def adaptive_pool(problem, backward=False):
    """AdaptivePooling.mm, set_kernel_params: strides and kernel sizes are whole numbers."""
    def check(args, kwargs):
        (ih, iw), (oh, ow) = _pool_sizes(args, backward)
        if problem == "mixed":
            bad = not (ih >= oh and iw >= ow or ih <= oh and iw <= ow)
        elif ih >= oh:
            bad = problem == "down" and bool(oh and ow) and (ih % oh or iw % ow)
        else:
            bad = problem == "up" and bool(ih and iw) and (oh % ih or ow % iw)
        return {} if bad else None
    return check


def _convolved(args, kwargs):
    """The sizes of what a convolution returns, or None where the arguments do not fit."""
    x, w = args[0], args[1]
    stride, padding, dilation = args[3], args[4], args[5]
    if argument(args, kwargs, 6, "transposed", False):
        return None
    n = w.dim() - 2
    at = lambda v, i: v[i] if len(v) > i else v[0]
    space = [(x.shape[x.dim() - n + i] + 2 * at(padding, i) - at(dilation, i) * (w.shape[2 + i] - 1) - 1)
             // at(stride, i) + 1 for i in range(n)]
    return ([x.shape[0]] if x.dim() > n + 1 else []) + [w.shape[0]] + space


def convolution_over(limit):
    def check(args, kwargs):
        sizes = _convolved(args, kwargs)
        return {} if sizes and max(sizes) > limit else None
    return check


def gradient_over(limit):
    def check(args, kwargs):
        return {} if max(args[0].shape, default=0) > limit else None
    return check


def convolution(transposed, dims=None, types=None):
    """aten::convolution of that kind. The dtype is the input's."""
    def check(args, kwargs):
        if bool(argument(args, kwargs, 6, "transposed", False)) != transposed:
            return None
        if dims is not None and args[1].dim() != dims + 2:
            return None
        return {} if types is None or args[0].dtype in types else None
    return check


def convolution_backward(transposed, dims=None, types=None):
    """aten::convolution_backward: grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed."""
    def check(args, kwargs):
        if bool(argument(args, kwargs, 7, "transposed", False)) != transposed:
            return None
        if dims is not None and args[2].dim() != dims + 2:
            return None
        return {} if types is None or args[0].dtype in types else None
    return check


def far_dimension(position, default=-1):
    """The dimension lies more than 4 from the end of the shape."""
    def check(args, kwargs):
        t = args[0]
        dim = argument(args, kwargs, position, "dim", default)
        return {} if t.dim() and t.dim() - dim % t.dim() > 4 else None
    return check


def numel_over(limit, position=0):
    def check(args, kwargs):
        t = args[position]
        t = t[0] if isinstance(t, (list, tuple)) else t
        n = t.numel()
        return {"n": n} if n > limit else None
    return check


def mask_not_bool(position):
    return dtype_not_in(BOOL, position)


def projections(args, kwargs):
    """nn.LSTM with proj_size: the hidden state is narrower than the cell state."""
    hx = args[1]
    return {} if len(hx) == 2 and hx[0].shape[-1] != hx[1].shape[-1] else None


def index_tensors(args, kwargs):
    """More than 16 tensors in one subscript, None not counted."""
    return {} if sum(1 for t in args[1] or () if t is not None) > 16 else None


def accumulates(types):
    """index_put with accumulate=True on another dtype."""
    def check(args, kwargs):
        if argument(args, kwargs, 3, "accumulate", False) and args[0].dtype not in types:
            return {"dtype": cxx(args[0].dtype)}
    return check


def reduces(types, *modes):
    """scatter_reduce.two or index_reduce: self, dim, index, src, reduce."""
    def check(args, kwargs):
        if argument(args, kwargs, 4, "reduce") in modes and (types is None or args[0].dtype in types):
            return {"dtype": cxx(args[0].dtype), "value": args[4] if len(args) > 4 else ""}
    return check


def fft_dimensions(args, kwargs):
    n = len(args[1])
    return {"n": n} if n > 4 else None


def heads_not_divisible(args, kwargs):
    q, k = args[0], args[1]
    if q.dim() != 4 or k.dim() != 4 or not k.shape[1] or not q.shape[1] % k.shape[1]:
        return None
    return {"n": q.shape[1], "other": k.shape[1]}


def not_contiguous(*positions):
    def check(args, kwargs):
        given = (args[p] for p in positions if p < len(args) and args[p] is not None)
        return {} if any(not t.is_contiguous() for t in given) else None
    return check


def weights_not_contiguous(args, kwargs):
    w = kwargs.get("weight")
    return {} if w is not None and not w.is_contiguous() else None


def truncated_division(args, kwargs):
    return {} if argument(args, kwargs, 2, "rounding_mode") == "trunc" and args[0].dtype == torch.float16 else None


def result_in(types):
    """The dtype that a factory is asked for, by dtype= or by out=."""
    def check(args, kwargs):
        dtype = _asked(args, kwargs)
        return {"dtype": cxx(dtype)} if dtype in types else None
    return check


def _asked(args, kwargs):
    out = kwargs.get("out")
    if isinstance(out, torch.Tensor):
        return out.dtype
    dtype = kwargs.get("dtype")
    return dtype if isinstance(dtype, torch.dtype) else torch.get_default_dtype()


# ---- refusals by hand ------------------------------------------------------------------------------------------------
# (operators, condition, exception, text, first series, last series, macOS below which, file). An operator without an
# overload stands for all of its overloads, also out= and in place. {dtype} is the C++ name of the offending dtype.

R, T, N = RuntimeError, TypeError, NotImplementedError
NOT_FLOAT = INTEGER | BOOL
POOL = "Adaptive pool MPS: "
POOL_TAIL = (" Non-divisible input sizes are not implemented on MPS device yet. For now, you can manually transfer "
             "tensor to cpu in this case. Please refer to "
             "[this issue](https://github.com/pytorch/pytorch/issues/96056)")
OVER_65536 = "Output channels > 65536 not supported at the MPS device. "
OVER_65536_TAIL = ("As a temporary fix, you can set the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use "
                   "the CPU as a fallback for this op. WARNING: this will be slower than running natively on MPS.")
TOPK = "On-going issue on MPSGraph topk when ndims() - axis > 4, see issue #154890"
AVG_POOL, AVG_POOL_BACK = ("_adaptive_avg_pool2d", "adaptive_avg_pool2d"), ("_adaptive_avg_pool2d_backward",)
SCATTER = ("scatter.src", "scatter.value", "scatter_add", "scatter.reduce", "scatter.value_reduce")
CONV = ("convolution", "_convolution", "convolution_overrideable")

ROWS = [
    # Pooling
    (AVG_POOL, adaptive_pool("mixed"), R, POOL + "Input height and width must both be greater than, or equal to, or "
     "lesser than output height and width", "2.0", "", None, "AdaptivePooling.mm"),
    (("adaptive_max_pool2d",), adaptive_pool("mixed"), R, POOL + "Input height and width must both be greater than, or "
     "equal to, or lesser than output height and width", "2.0", "2.13", None, "AdaptivePooling.mm"),
    (AVG_POOL_BACK, adaptive_pool("mixed", True), R, POOL + "Input height and width must both be greater than, or "
     "equal to, or lesser than output height and width", "2.0", "", None, "AdaptivePooling.mm"),
    (AVG_POOL, adaptive_pool("down"), R, POOL + "input sizes must be divisible by output sizes.", "2.0", "2.3", None,
     "AdaptivePooling.mm"),
    (AVG_POOL_BACK, adaptive_pool("down", True), R, POOL + "input sizes must be divisible by output sizes.", "2.0",
     "2.3", None, "AdaptivePooling.mm"),
    (AVG_POOL, adaptive_pool("down"), R, POOL + "input sizes must be divisible by output sizes." + POOL_TAIL, "2.4", "",
     None, "AdaptivePooling.mm; pytorch issue 96056"),
    (AVG_POOL_BACK, adaptive_pool("down", True), R, POOL + "input sizes must be divisible by output sizes." + POOL_TAIL,
     "2.4", "", None, "AdaptivePooling.mm"),
    (AVG_POOL, adaptive_pool("up"), R, POOL + "output sizes must be divisible by input sizes.", "2.0", "2.3", None,
     "AdaptivePooling.mm"),
    (AVG_POOL_BACK, adaptive_pool("up", True), R, POOL + "output sizes must be divisible by input sizes.", "2.0", "2.3",
     None, "AdaptivePooling.mm"),
    (AVG_POOL, adaptive_pool("up"), R, POOL + "output sizes must be divisible by input sizes." + POOL_TAIL, "2.4", "",
     None, "AdaptivePooling.mm; pytorch issue 96056"),
    (AVG_POOL_BACK, adaptive_pool("up", True), R, POOL + "output sizes must be divisible by input sizes." + POOL_TAIL,
     "2.4", "", None, "AdaptivePooling.mm"),
    (("adaptive_max_pool2d",), dtype_in(COMPLEX), N, "Adaptive max pooling for complex is not supported for MPS",
     "2.14", "", None, "AdaptivePooling.mm"),
    (("adaptive_max_pool2d_backward",), dtype_in(COMPLEX), N,
     "Adaptive max pooling backward for complex is not supported for MPS",
     "2.14", "", None, "AdaptivePooling.mm"),
    (("avg_pool2d",), dtype_in(COMPLEX), N, "Not implemented for complex", "2.10", "", None, "Pooling.mm"),
    (("max_pool2d", "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "max_pool2d_backward"),
     dtype_in(COMPLEX), N, "Max pooling for complex is not supported for MPS", "2.10", "", None, "Pooling.mm"),
    (("max_pool2d_with_indices", "avg_pool2d", "max_pool2d", "max_pool3d_with_indices", "avg_pool3d"),
     numel_over(2**31 - 1), N,
     "MPS pooling does not support tensors that require 64-bit indexing", "2.15", "", None, "Pooling.mm"),

    # Elementwise
    (("add", "sub", "mul", "div", "rsub"), any_in(COMPLEX), T, "Complex types are unsupported on MPS", "2.1", "2.2",
     None, "BinaryOps.mm"),
    (("add", "sub", "mul", "div", "rsub"), any_in(COMPLEX), T, "Complex types are supported starting from MacOS 14.0+",
     "2.3", "2.8", "14.0", "BinaryOps.mm"),
    (("add", "sub", "mul", "div"), any_in(_types("uint8")), R,
     "MPS support binary op with uint8 natively starting from macOS 13.0",
     "2.0", "2.4", "13.0", "BinaryOps.mm"),
    (("exp", "sqrt", "abs", "neg"), dtype_in(_types("uint8")), R,
     "MPS support unary op with uint8 natively starting from macOS 13.0",
     "2.0", "2.4", "13.0", "UnaryOps.mm"),
    (("angle",), dtype_in(COMPLEX), R, "MPS does not support angle with complex input on macOS13", "2.8", "2.8", "14.0",
     "UnaryOps.mm"),
    (("addcmul",), dtype_in(BOOL), N, "addcmul_mps not implemented for 'Bool'", "2.15", "", None, "PointwiseOps.mm"),
    (("atan2",), any_in(INT64), R, "MPS does not support atan2 op with int64 input", "2.0", "2.6", None,
     "BinaryOps.mm"),
    (("pow",), any_in(INT64), R, "MPS does not support pow op with int64 input", "2.0", "2.0", None, "BinaryOps.mm"),
    (("sigmoid",), dtype_in(INT64), R, "MPS does not support sigmoid op with int64 input", "2.0", "2.7", None,
     "UnaryOps.mm"),
    (("log1p",), dtype_in(INT64), R, "MPS does not support log1p op with int64 input", "2.0", "2.7", None,
     "UnaryOps.mm"),
    (("div.Tensor_mode", "div.Scalar_mode"), truncated_division, R,
     "MPS: does not support trunc_divide op with float16 input", "2.1", "2.7", None, "BinaryOps.mm"),
    (("bitwise_left_shift", "__lshift__", "__ilshift__"), common_not_in(INTEGER - UNSIGNED), N,
     "bitwise_left_shift not implemented for {dtype}", "2.13", "", None, "BinaryKernel.mm"),
    (("bitwise_right_shift", "__rshift__", "__irshift__"), common_not_in(INTEGER - UNSIGNED), N,
     "bitwise_right_shift not implemented for {dtype}", "2.13", "", None, "BinaryKernel.mm"),
    (("frac",), dtype_not_in(FLOAT), R, "frac_out_mps is only implemented for floating types", "2.0", "", None,
     "UnaryOps.mm"),
    (("gcd",), common_not_in(INTEGER - UNSIGNED | BOOL), N, "gcd_mps not implemented for {dtype}", "2.11", "", None,
     "BinaryKernel.mm"),
    (("lcm",), common_not_in(INTEGER - UNSIGNED | BOOL), N, "lcm_mps not implemented for {dtype}", "2.13", "", None,
     "BinaryKernel.mm"),
    (("igamma",), common_not_in(FLOAT), T, "igamma_mps not implemented for {dtype}", "2.14", "", None,
     "BinaryKernel.mm"),
    (("igammac",), common_not_in(FLOAT), T, "igammac_mps not implemented for {dtype}", "2.14", "", None,
     "BinaryKernel.mm"),
    (("nextafter",), common_not_in(FLOAT), T, "nextafter_mps not implemented for non-floating types", "2.2", "", None,
     "BinaryKernel.mm"),
    (("logaddexp2",), common_in(COMPLEX), N, '"logaddexp2_mps" not implemented for \'{dtype}\'', "2.14", "", None,
     "BinaryKernel.mm"),
    (("relu",), dtype_in(COMPLEX), R, "relu is not supported for complex types", "2.12", "2.14", None, "Activation.mm"),
    (("masked_fill",), mask_not_bool(1), R, "expected mask dtype to be Bool but got {dtype}", "2.0", "", None,
     "Indexing.mm"),
    (("masked_fill",), numel_over(2**32), R, "masked_fill not supported for tensors of more than 2**32 elements", "2.7",
     "", None, "Indexing.mm"),
    (("lgamma",), dtype_in(_types("float64")), R, "MPS does not support lgamma_out op with scalar type: Double", "2.2",
     "2.11", None, "Gamma.mm"),
    (("polygamma",), value(0, "n", lambda n: isinstance(n, int) and n < 0), R,
     "Polygamma is implemented only for nonnegative real numbers", "2.2", "2.11", None, "Gamma.mm"),

    # Activations
    (("gelu", "gelu_backward"), dtype_in(NOT_FLOAT), R, "GELU is only implemented for floating types", "2.0", "2.12",
     None, "Activation.mm"),
    (("glu", "log_sigmoid_forward", "mish", "_log_softmax"), dtype_in(INT64), N,
     "MPS doesn't know how to do exponent_i64", "2.10", "2.13", None, "Activation.mm"),
    (("mish", "mish_backward"), dtype_in(COMPLEX), N, "Mish for complex is not supported for MPS", "2.10", "2.13", None,
     "Activation.mm"),
    (("softplus",), dtype_in(INT64), N, "Not implemented for long", "2.10", "2.14", None, "Activation.mm"),
    (("softplus",), dtype_not_in(FLOAT), N, "softplus not implemented for {dtype}", "2.15", "", None,
     "ActivationKernel.mm"),
    (("softplus_backward",), dtype_not_in(FLOAT, 1), N, "softplus_backward not implemented for {dtype}", "2.15", "",
     None, "ActivationKernel.mm"),
    (("_softmax",), value(2, "half_to_float", bool), R, "softmax with half to float conversion is not supported on MPS",
     "2.0", "2.14", None, "SoftMax.mm"),
    (("_softmax",), value(2, "half_to_float", bool), R, "softmax with half to float conversion is not supported on MPS",
     "2.15", "", None, "SoftMax.mm"),
    (("_log_softmax",), value(2, "half_to_float", bool), R,
     "log_softmax with half to float conversion is not supported on MPS",
     "2.15", "", None, "SoftMax.mm"),
    (("_softmax",), dtype_not_in(FLOAT), R, "softmax only supported for floating types", "2.10", "2.14", None,
     "SoftMax.mm"),
    (("_log_softmax", "_log_softmax_backward_data"), dtype_in(BOOL), N, "log_softmax for bool is not supported for MPS",
     "2.10", "", None, "Activation.mm"),
    (("_log_softmax", "_log_softmax_backward_data"), dtype_in(COMPLEX), N,
     "log_softmax for complex is not supported for MPS", "2.10", "", None, "Activation.mm"),
    (("_softmax",), dtype_not_in(FLOAT), N, "softmax not implemented on MPS for {dtype}", "2.15", "", None,
     "SoftMax.mm"),
    (("_log_softmax",), dtype_not_in(FLOAT), N, "log_softmax not implemented on MPS for {dtype}", "2.15", "", None,
     "SoftMax.mm"),

    # Reductions, scans, sorting
    (("amax",), dtype_in(COMPLEX), R, "amax is not defined for complex types", "2.10", "2.12", None, "ReduceOps.mm"),
    (("amin",), dtype_in(COMPLEX), R, "amin is not defined for complex types", "2.10", "2.12", None, "ReduceOps.mm"),
    (("aminmax",), dtype_in(COMPLEX), R, "aminmax is not defined for complex types", "2.10", "2.12", None,
     "ReduceOps.mm"),
    (("nansum",), dtype_in(COMPLEX), R, "nansum on MPS does not support complex inputs", "2.8", "2.12", None,
     "ReduceOps.mm"),
    (("norm", "linalg_vector_norm"), dtype_in(COMPLEX), R, "norm ops are not supported for complex yet", "2.3", "2.11",
     None, "ReduceOps.mm"),
    (("argmax",), dtype_in(COMPLEX | BOOL), R, "argmax: not implemented for {dtype}", "2.13", "", None, "ReduceOps.mm"),
    (("argmin",), dtype_in(COMPLEX | BOOL), R, "argmin: not implemented for {dtype}", "2.13", "", None, "ReduceOps.mm"),
    (("argmax",), numel_over(2**31 - 1), N,
     "argmax: tensors requiring 64-bit indexing are not supported on MPS (numel={n})", "2.14",
     "2.14", None, "ReduceOps.mm"),
    (("argmin",), numel_over(2**31 - 1), N,
     "argmin: tensors requiring 64-bit indexing are not supported on MPS (numel={n})", "2.14",
     "2.14", None, "ReduceOps.mm"),
    (("linalg_vector_norm",), numel_over(2**31 - 1), N,
     "MPS norm: tensors requiring 64-bit indexing are not supported (numel={n})", "2.14", "2.14", None, "ReduceOps.mm"),
    (("sum", "any", "all", "nansum"), numel_over(2**31 - 1), N,
     "reduction: tensors requiring 64-bit indexing are not supported (numel={n})", "2.14", "2.14", None,
     "ReduceOps.mm"),
    (("max.dim", "min.dim"), dtype_in(INT64), R, "MPS does not support min/max ops with int64 input", "2.0", "2.0",
     None, "ReduceOps.mm"),
    (("median",), dtype_in(INT64), R, "MPS does not support median op with int64 input", "2.0", "2.0", None,
     "ReduceOps.mm"),
    (("median", "nanmedian"), dtype_in(BOOL | COMPLEX), N, "median_mps not implemented for {dtype}", "2.14", "", None,
     "Sort.mm"),
    (("cumsum",), dtype_in(INT64), R, "MPS does not support cumsum op with int64 input", "2.0", "2.0", None,
     "UnaryOps.mm"),
    (("cumsum",), dtype_in(INT64), R, "MPS does not support cumsum_out_mps op with int64 input. Support has been added "
                                      "in macOS 13.3",
     "2.1", "2.8", "13.3", "UnaryOps.mm"),
    (("cumsum", "cumprod"), dtype_in(COMPLEX), R, "cumulative ops are not yet supported for complex", "2.3", "2.11",
     None, "UnaryOps.mm"),
    (("_cummax_helper",), dtype_in(COMPLEX), N, "\"cummax\" not implemented for '{dtype}'", "2.14", "", None,
     "ScanKernel.mm"),
    (("_cummin_helper",), dtype_in(COMPLEX), N, "\"cummin\" not implemented for '{dtype}'", "2.14", "", None,
     "ScanKernel.mm"),
    (("topk",), far_dimension(2), R, TOPK, "2.8", "2.12", None, "Sort.mm; pytorch issue 154890"),
    (("kthvalue",), far_dimension(2), R, TOPK, "2.9", "2.12", None, "Sort.mm; pytorch issue 154890"),
    (("kthvalue",), dtype_in(COMPLEX), N, "kthvalue is not implemented for complex types", "2.10", "2.12", None,
     "Sort.mm"),
    (("kthvalue",), dtype_in(COMPLEX | BOOL | UNSIGNED), N, "kthvalue_mps not implemented for {dtype}", "2.14", "",
     None, "Sort.mm"),
    (("_unique2", "unique_consecutive"), dtype_in(COMPLEX | UNSIGNED), R,
     "unique is not supported on MPS for dtype {dtype}", "2.14", "", None, "Unique.mm"),
    (("bincount",), dtype_in(BOOL), N, "bincount is not supported for Bool", "2.10", "", None, "SummaryOps.mm"),
    (("histc",), dtype_not_in(FLOAT | INTEGER - UNSIGNED), N, "\"histc_mps\" not implemented for '{dtype}'", "2.15", "",
     None, "HistogramKernel.mm"),
    (("_histogramdd_from_bin_tensors", "_histogramdd_from_bin_cts"), dtype_not_in(FLOAT), N,
     "\"histogram_mps\" not implemented for '{dtype}'", "2.15", "", None, "HistogramKernel.mm"),
    (("_histogramdd_from_bin_tensors", "_histogramdd_from_bin_cts", "histogram"), weights_not_contiguous, R,
     "histogramdd(): weight should be contiguous on MPS", "2.1", "2.11", None, "HistogramKernel.mm"),
    (("nonzero",), numel_over(2**31 - 1), R,
     "nonzero is not supported for tensors with more than INT_MAX elements,   file a support "
     "request", "2.0", "2.3", None, "Indexing.mm"),
    (("nonzero",), numel_over(2**31 - 1), R,
     "nonzero is not supported for tensors with more than INT_MAX elements,   See "
     "https://github.com/pytorch/pytorch/issues/51871", "2.4", "2.11", None, "Indexing.mm"),
    (("nonzero",), numel_over(2**31 - 1), R,
     "nonzero is not supported for tensors with more than INT_MAX elements, See "
     "https://github.com/pytorch/pytorch/issues/51871", "2.12", "2.13", None, "Indexing.mm"),
    (("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor"), dtype_in(NOT_FLOAT), R,
     "isin_Tensor_Tensor_out only works on floating types on MPS for pre MacOS_14_0. Received dtype: {dtype}", "2.4",
     "2.8", "14.0", "TensorCompare.mm"),

    # Matrix products and linear algebra
    (("mm",), not_same_dtype(0, 1), R, "expected mat1 and mat2 to have the same dtype, but got: {dtype} != {other}",
     "2.7", "", None, "LinearAlgebra.mm"),
    (("bmm",), not_same_dtype(0, 1), R, "Expected arguments of same type but got {dtype} and {other}", "2.12", "", None,
     "LinearAlgebra.mm"),
    (("mm",), dtype_in(NOT_FLOAT), R, "MPS device does not support mm for non-float inputs", "2.0", "2.6", None,
     "LinearAlgebra.mm"),
    (("bmm",), dtype_in(NOT_FLOAT), R, "MPS device does not support bmm for non-float inputs", "2.0", "2.6", None,
     "LinearAlgebra.mm"),
    (("addmm",), dtype_in(NOT_FLOAT), R, "MPS device does not support addmm for non-float input", "2.0", "2.8", None,
     "LinearAlgebra.mm"),
    (("addmm",), imaginary("alpha", "beta"), R, "value cannot be converted to type double without overflow", "2.3",
     "2.12", None, "LinearAlgebra.mm, addmm_out_mps_impl: alpha.toDouble(); c10/util/TypeCast.h"),
    (("addbmm", "baddbmm"), imaginary("alpha", "beta"), R, "value cannot be converted to type double without overflow",
     "2.3", "2.10", None, "LinearAlgebra.mm, addbmm_or_baddbmm_out_mps_impl: alpha.toDouble(); c10/util/TypeCast.h"),
    (("addbmm", "baddbmm"), dtype_in(NOT_FLOAT), R,
     "MPS device does not support addbmm or baddbmm for non-float inputs", "2.0",
     "2.10", None, "LinearAlgebra.mm"),
    (("addbmm", "baddbmm"), dtype_in(BOOL), R, "MPS device does not support addbmm or baddbmm for this input type",
     "2.11", "", None, "LinearAlgebra.mm"),
    (("addr",), dtype_not_in(FLOAT), R, "MPS device does not support addr for non-float input", "2.0", "", None,
     "LinearAlgebra.mm"),
    (("dot",), dtype_in(INT64), R, "MPS: dot op doesn't support int64 input", "2.0", "2.6", None, "Blas.mm"),
    (("dot",), dtype_in(INT64), R, "MPS: dot op doesn't support int64 input on MacOS13", "2.7", "2.8", "14.0",
     "Blas.mm"),
    (("linear",), dtype_in(NOT_FLOAT), R, "MPS device does not support linear for non-float inputs", "2.0", "", None,
     "Linear.mm"),
    (("linear",), dtype_in(NOT_FLOAT, 1), R, "MPS device does not support linear for non-float weights", "2.4", "",
     None, "Linear.mm"),
    (("linear",), dtype_in(NOT_FLOAT, 2), R, "MPS device does not support linear for non-float bias", "2.4", "", None,
     "Linear.mm"),
    (("linear",), dtype_in(COMPLEX, 0, 1), R, "mps linear does not support complex types", "2.8", "2.11", None,
     "Linear.mm"),
    (("linear_backward",), dtype_in(NOT_FLOAT, 1), R,
     "MPS device does not support linear backward for non-float inputs", "2.0", "",
     None, "Linear.mm"),
    (("cholesky_inverse",), dtype_not_in(F32), R, "cholesky_inverse: MPS only supports float type!", "2.11", "", None,
     "LinearAlgebra.mm"),
    (("_compute_linear_combination",), dtype_not_in(FLOAT | _types("complex64")), T,
     "_compute_linear_combination: unsupported dtype "
     "{dtype} on MPS, expected float32, float16, bfloat16 or complex64", "2.14", "", None, "FunctionOfAMatrixUtils.mm"),
    (("geqrf",), dtype_not_in(F32), R, "geqrf: MPS currently supports float32 only", "2.14", "", None,
     "LinearAlgebra.mm"),
    (("linalg_cholesky_ex",), dtype_not_in(F32), R, "linalg.cholesky: Input tensor must be float32", "2.7", "2.7", None,
     "LinearAlgebra.mm"),
    (("linalg_cholesky_ex",), dtype_not_in(F32_C64), R,
     "linalg.cholesky: MPS supports float32 and complex64, but got {dtype}",
     "2.14", "", None, "LinearAlgebra.mm"),
    (("linalg_cross",), dtype_in(BOOL), N, "linalg.cross: not implemented for 'Bool'", "2.14", "", None,
     "CrossKernel.mm"),
    (("linalg_inv_ex",), dtype_in(COMPLEX), R, "linalg_inv: not supported for complex types yet!", "2.3", "", None,
     "LinearAlgebra.mm"),
    (("linalg_lu_factor_ex", "linalg_lu_factor"), dtype_in(COMPLEX), R,
     "linalg.lu_factor(): MPS doesn't support complex types.", "2.5", "2.14", None, "LinearAlgebra.mm"),
    (("linalg_lu_factor_ex", "linalg_lu_factor"), dtype_not_in(F32_C64), R,
     "linalg.lu_factor(): MPS supports float32 and complex64 inputs, got {dtype}", "2.15", "", None,
     "LinearAlgebra.mm"),
    (("linalg_lu_factor_ex", "linalg_lu_factor"), value(99, "pivot", lambda p: not p, True), R,
     "linalg.lu_factor(): MPS doesn't allow pivot == False.", "2.5", "", None, "LinearAlgebra.mm"),
    (("linalg_lu_solve",), dtype_not_in(F32), R, "linalg.lu_solve(): MPS only supports float32.", "2.14", "2.14", None,
     "LinearAlgebra.mm"),
    (("linalg_lu_solve",), dtype_not_in(F32_C64), R,
     "linalg.lu_solve(): MPS only supports float32 and complex64, got {dtype}",
     "2.15", "", None, "LinearAlgebra.mm"),
    (("linalg_matrix_exp",), always, R, "linalg.matrix_exp on MPS requires macOS 15.0 or newer", "2.14", "", "15.0",
     "FunctionOfAMatrixUtils.mm"),
    (("linalg_qr",), dtype_not_in(F32), R, "linalg_qr: MPS currently supports float32 only", "2.12", "2.13", None,
     "LinearAlgebra.mm"),
    (("linalg_qr",), dtype_not_in(F32), R, "geqrf: MPS currently supports float32 only", "2.14", "", None,
     "aten/src/ATen/native/BatchLinearAlgebra.cpp, linalg_qr_out: it calls geqrf_stub"),
    (("_linalg_solve_ex",), dtype_in(COMPLEX), R, "linalg.lu_factor(): MPS doesn't support complex types.", "2.7",
     "2.9", None, "LinearAlgebra.mm"),
    (("_linalg_det", "_linalg_slogdet", "linalg_lu"), dtype_in(COMPLEX), R,
     "linalg.lu_factor(): MPS doesn't support complex types.", "2.7",
     "2.14", None, "aten/src/ATen/native/BatchLinearAlgebra.cpp: they call linalg_lu_factor_ex"),
    (("_linalg_solve_ex",), dtype_not_in(FLOAT), R, "linalg.lu_factor(): MPS only supports floats.", "2.10", "2.13",
     None, "LinearAlgebra.mm"),
    (("linalg_solve_triangular", "triangular_solve"), dtype_in(COMPLEX), R,
     "linalg.solve.triangular(); Not supported for complex yet!", "2.3", "2.9",
     None, "LinearAlgebra.mm"),
    (("linalg_solve_triangular", "triangular_solve"), dtype_not_in(F32), R,
     "linalg.solve.triangular(); Only float is supported!", "2.10",
     "2.14", None, "LinearAlgebra.mm"),
    (("linalg_solve_triangular", "triangular_solve"), dtype_not_in(F32_C64), R,
     "linalg.solve_triangular(): MPS only supports float32 and complex64, got {dtype}", "2.15", "", None,
     "LinearAlgebra.mm"),
    (("_linalg_svd",), value(99, "driver", bool), R, "linalg.svd: driver= is not supported on MPS.", "2.14", "", None,
     "LinearAlgebra.mm"),
    (("_linalg_svd",), dtype_not_in(F32_C64), R,
     "linalg.svd: the MPS backend supports only float32 and complex64. Got {dtype}. Move "
     "the tensor to CPU for other dtypes.", "2.14", "", None, "LinearAlgebra.mm"),

    # Convolution
    (CONV, convolution(False, None, NOT_FLOAT), R, "Convolution is supported only for Floating types", "2.0", "", None,
     "Convolution.mm"),
    (CONV, convolution(True, None, NOT_FLOAT), R, "Convolution is supported only for Floating types", "2.0", "", None,
     "Convolution.mm"),
    (("_mps_convolution", "_mps_convolution_transpose"), dtype_in(NOT_FLOAT), R,
     "Convolution is supported only for Floating types", "2.0", "", None, "Convolution.mm"),
    (CONV, convolution(False, 3), R, "Conv3D is not supported on MPS", "2.0", "2.2", None, "Convolution.mm"),
    (CONV, convolution(False, 3), R, "Conv3D is only supported on MPS for MacOS_13_2 or newer", "2.3", "2.8", "13.2",
     "Convolution.mm"),
    (CONV, convolution(True, 3), R, "ConvTranspose 3D is not supported on MPS", "2.0", "2.7", None, "Convolution.mm"),
    (CONV, convolution(True, 3, _types("float16", "bfloat16")), R,
     "ConvTranspose 3D with BF16 or FP16 types is not supported on MPS",
     "2.8", "", None, "Convolution.mm"),
    (CONV, convolution_over(65536), N, OVER_65536 + OVER_65536_TAIL, "2.5", "2.5", None,
     "Convolution.mm; pytorch issue 142515"),
    (CONV, convolution_over(65536), N, OVER_65536, "2.6", "", "15.1", "Convolution.mm; pytorch PR 140726"),
    (("convolution_backward",), gradient_over(65536), N, OVER_65536 + OVER_65536_TAIL, "2.5", "2.5", None,
     "Convolution.mm"),
    (("convolution_backward",), gradient_over(65536), N, OVER_65536, "2.6", "", "15.1", "Convolution.mm"),
    (("convolution_backward",), convolution_backward(True, 3, _types("float16", "bfloat16")), R,
     "ConvTranspose 3D with BF16 or FP16 types is not supported on MPS", "2.8", "", None, "Convolution.mm"),

    # Sampling, resizing, padding
    (("grid_sampler_2d",), value(3, "padding_mode", lambda m: m == 1), R, "MPS: Unsupported Border padding mode", "2.1",
     "2.10", None, "GridSampler.mm"),
    (("grid_sampler_2d",), value(2, "interpolation_mode", lambda m: m == 2), R,
     "MPS: Unsupported Bicubic interpolation", "2.1", "2.10", None, "GridSampler.mm"),
    (("grid_sampler_2d",), dtype_in(COMPLEX), N, "grid_sampler_2d is not supported for complex on MPS", "2.10", "",
     None, "GridSampler.mm"),
    (("grid_sampler_2d_backward",), dtype_in(COMPLEX), N,
     "grid_sampler_2d_backward is not supported for complex on MPS", "2.13", "",
     None, "GridSampler.mm"),
    (("grid_sampler_3d",), value(2, "interpolation_mode", lambda m: m == 1), R,
     "grid_sampler_3d: Unsupported Nearest interpolation", "2.9", "2.12", None, "GridSampler.mm"),
    (("grid_sampler_3d",), value(2, "interpolation_mode", lambda m: m == 2), R,
     "grid_sampler_3d: Unsupported Bicubic interpolation", "2.15", "", None, "GridSampler.mm"),
    (("grid_sampler_3d_backward",), value(3, "interpolation_mode", lambda m: m not in (0, 1)), N,
     "grid_sampler_3d backward on MPS only supports bilinear and nearest interpolation", "2.13", "", None,
     "GridSampler.mm"),
    (("_upsample_bicubic2d_aa",), dtype_in(NOT_FLOAT), R,
     "_upsample_bicubic2d_aa_out_mps only supports floating-point dtypes", "2.8",
     "", None, "UpSample.mm"),
    (("_upsample_bilinear2d_aa",), dtype_in(NOT_FLOAT), R,
     "_upsample_bilineard2d_aa_out_mps only supports floating-point dtypes",
     "2.7", "", None, "UpSample.mm"),
    (("upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d", "upsample_linear1d",
      "_upsample_nearest_exact1d",
      "_upsample_nearest_exact2d"), dtype_in(COMPLEX), N, "upsample for MPS does not support complex inputs", "2.10",
     "2.14", None, "UpSample.mm"),

    # Indexing
    (("index.Tensor", "index_put", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"), index_tensors, R,
     "Current limit allows up to 16 indices to be used in MPS indexing kernels", "2.0", "", None, "Indexing.mm"),
    (("index_put", "_index_put_impl_", "_unsafe_index_put"), accumulates(_types("float32", "int32")), R,
     "Unsupported data type for accumulate case: {dtype}", "2.0", "2.7", None, "Indexing.mm"),
    (("gather",), value(3, "sparse_grad", bool), R, "sparse_grad not supported in MPS yet", "2.0", "2.12", None,
     "ScatterGather.mm"),
    (("gather",), dtype_in(COMPLEX), R, "gather(): Yet not supported for complex", "2.3", "2.11", None,
     "ScatterGather.mm"),
    (SCATTER, dtype_in(COMPLEX), R, "scatter(): Yet not supported for complex", "2.3", "2.11", None,
     "ScatterGather.mm"),
    (("scatter_reduce.two",), dtype_in(COMPLEX), R, "scatter(): Yet not supported for complex", "2.3", "2.11", None,
     "ScatterGather.mm"),
    (("scatter_reduce.two",), reduces(BOOL, "mean"), R, "scatter_reduce: reduce='mean' not implemented for 'Bool'",
     "2.13", "", None, "ScatterGather.mm"),
    (("scatter_reduce.two",), reduces(INT64, "amin", "amax"), R, "not supported for torch.int64", "2.6", "2.12", None,
     "ScatterGather.mm"),
    (("scatter_reduce.two",), reduces(_types("int32"), "amin", "amax"), R, "torch.int32 is only supported on MacOS15+",
     "2.6", "2.12", "15.0", "ScatterGather.mm"),
    (("scatter_reduce.two", "scatter.reduce"), reduces(INT64, "prod", "multiply"), R,
     "Failed to create function state object for: scatter_prod_dense_long_long", "2.13", "", None, "ScatterGather.mm"),
    (("scatter_reduce.two",), reduces(INT64, "amin", "amax"), R,
     "scatter_reduce(amin/amax) on int64 requires macOS 15 or newer",
     "2.13", "2.14", "15.0", "ScatterGather.mm"),
    (("scatter_reduce_.two",), both(reduces(INT64, "amin", "amax"), not_contiguous(0)), R,
     "scatter_reduce(amin/amax) on int64 requires contiguous self", "2.13", "", None, "ScatterGather.mm"),
    (("index_select",), dtype_in(COMPLEX), R, "index_select(): Yet not supported for complex", "2.3", "2.3", None,
     "Indexing.mm"),
    (("index_add",), dtype_in(INT64), R, "index_add(): Expected non int64 dtype for source.", "2.0", "2.8", None,
     "Indexing.mm"),
    (("index_fill.int_Scalar", "index_fill.int_Tensor"), dtype_in(COMPLEX), R,
     "index_fill_(): Complex types are yet not supported", "2.9", "2.11", None, "Indexing.mm"),
    (("index_fill.int_Scalar", "index_fill.int_Tensor"), dtype_not_in(INDEX, 2), R,
     "index_fill_(): Expected dtype int32 or int64 for index", "2.1", "2.11", None, "Indexing.mm"),
    (("index_reduce",), dtype_in(INT64), R, "index_reduce for MPS does not support torch.long dtype", "2.12", "", None,
     "Indexing.mm"),
    (("index_reduce",), dtype_in(COMPLEX), R, "index_reduce for MPS does not support torch.cfloat dtype", "2.12", "",
     None, "Indexing.mm"),
    (("repeat",), dtype_in(COMPLEX), R, "repeat(): Not supported for complex yet!", "2.3", "2.11", None, "Repeat.mm"),
    (("repeat_interleave.Tensor",), dtype_not_in(INDEX), R, "repeats has to be Long or Int tensor", "2.0", "", None,
     "Repeat.mm"),
    (("_embedding_bag", "_embedding_bag_forward_only"), lambda a, k: None if a[1].dim() == 1 else {"n": a[1].dim()}, R,
     "input has to be a 1D Tensor, but got Tensor of dimension {n}", "2.10", "", None, "EmbeddingBag.mm"),

    # Normalisation, losses, dropout, recurrence, attention
    (("native_batch_norm", "_native_batch_norm_legit"), dtype_in(COMPLEX), N,
     "Batch norm for complex is not supported for MPS", "2.10", "2.13", None, "Normalization.mm"),
    (("native_batch_norm", "_native_batch_norm_legit"), dtype_in(INT64), N, "Long batch norm is not supported with MPS",
     "2.10", "2.13", None, "Normalization.mm"),
    (("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"), dtype_not_in(FLOAT), N,
     "batch_norm is not implemented for {dtype}", "2.14", "", None, "Normalization.mm"),
    (("native_layer_norm",), dtype_in(INT64), N, "Not implemented for long on MPS", "2.10", "", None,
     "Normalization.mm"),
    (("native_dropout",), dtype_in(NOT_FLOAT), R,
     "native_dropout_mps: input must be a floating-point or complex tensor, got {dtype}",
     "2.13", "", None, "Dropout.mm"),
    (("huber_loss",), dtype_in(COMPLEX), N, "huber_loss for complex is not supported for MPS", "2.10", "", None,
     "LossOps.mm"),
    (("huber_loss", "smooth_l1_loss"), dtype_in(INT64), N, "MPS doesn't know how to do square_i64", "2.10", "", None,
     "LossOps.mm"),
    (("mse_loss",), dtype_not_in(FLOAT), R, "mse_loss: only defined for floating types", "2.6", "", None, "LossOps.mm"),
    (("smooth_l1_loss_backward",), value(4, "beta", lambda b: b < 0), R,
     "smooth_l1_loss_backward does not support negative values for beta.", "2.0", "", None, "LossOps.mm"),
    (("nll_loss_forward", "nll_loss2d_forward"), dtype_in(COMPLEX), N, "nlld_loss for complex is not supported for MPS",
     "2.10", "2.14", None, "LossOps.mm"),
    (("nll_loss_forward", "nll_loss2d_forward"), dtype_not_in(FLOAT), N, "nll_loss is not implemented for {dtype}",
     "2.15", "", None, "LossOps.mm"),
    (("_lstm_mps", "lstm.input"), projections, R, "LSTM with projections is not currently supported with MPS.", "2.0",
     "", None, "RnnOps.mm"),
    (("_scaled_dot_product_attention_math_for_mps",), dtype_not_in(FLOAT), N,
     "scaled_dot_product_attention for MPS does not support dtype {dtype}", "2.10", "", None, "Attention.mm"),
    (("_scaled_dot_product_attention_math_for_mps",), value(4, "dropout_p", lambda p: p != 0), R,
     "_scaled_dot_product_attention_math_for_mps: dropout_p != 0.0 is not supported", "2.5", "2.7", None,
     "Attention.mm"),
    (("_scaled_dot_product_attention_math_for_mps",), not_contiguous(0, 1, 2), R,
     "_scaled_dot_product_attention_math_for_mps: query, key, and value must be contiguous", "2.5", "2.7", None,
     "Attention.mm"),
    (("_scaled_dot_product_attention_math_for_mps",), value(4, "dropout_p", lambda p: p != 0), N,
     "scaled_dot_product_attention for MPS does not support dropout.", "2.13", "", None, "Attention.mm"),
    (("_scaled_dot_product_attention_math_for_mps",), heads_not_divisible, R,
     "For GQA, q_heads ({n}) must be divisible by k_heads ({other})", "2.13", "", None, "Attention.mm"),

    # Random numbers and factories
    (("bernoulli.float", "bernoulli.p"), value(1, "p", lambda p: not 0 <= p <= 1, 0.5), R,
     "bernoulli_mps_ expects p to be in [0, 1], but got p={value}", "2.0", "", None, "Distributions.mm"),
    (("bernoulli",), dtype_in(COMPLEX), N, "bernoulli is not implemented for complex types on MPS", "2.15", "", None,
     "Distributions.mm"),
    (("exponential",), value(1, "lambd", lambda v: not v > 0), R, "exponential_mps_: lambda must be greater than zero",
     "2.0", "2.0", None, "Distributions.mm"),
    (("random.from",), both(value(1, "from", lambda v: v == -2**63), lambda a,
                            k: None if argument(a, k, 2, "to") is not None else {}),
     R, "random_mps_ currently does not handle the lowest() -> max() range", "2.0", "2.12", None, "Distributions.mm"),
    (("normal_",), dtype_not_in(FLOAT | COMPLEX), T, "normal_kernel_mps not implemented for '{dtype}'", "2.13", "",
     None, "Distributions.mm"),
    (("logspace",), result_in(NOT_FLOAT), N, "logspace is not implemented for integral dtypes on MPS", "2.15", "", None,
     "RangeFactories.mm"),

    # Fourier transforms
    (("_fft_c2c", "_fft_c2r", "_fft_r2c"), always, R, "FFT operations are only supported on MacOS 14+", "2.3", "2.8",
     "14.0", "FastFourierTransform.mm"),
    (("_fft_c2c", "_fft_c2r", "_fft_r2c"), fft_dimensions, R,
     "MPS FFT only supports transforming up to 4 dimensions, but got {n}",
     "2.14", "", None, "FastFourierTransform.mm"),
    (("_fft_r2c",), dtype_not_in(_types("float32", "float16")), R, "Only float and half dtypes are supported", "2.10",
     "", None, "FastFourierTransform.mm"),

    # Optimizers
    (("_fused_adam_", "_fused_adamw_", "_fused_sgd_"), dtype_not_in(_types("float32", "float16")), R,
     "Only float and half are supported", "2.5", "2.5", None, "FusedOptimizerOps"),
    (("_fused_adam_", "_fused_adamw_", "_fused_sgd_"), dtype_not_in(FLOAT), R,
     "Only float, bfloat and half are supported", "2.6", "", None, "FusedOptimizerOps"),
    (("_fused_adam_", "_fused_adamw_", "_fused_sgd_"),
     lambda a, k: {} if k.get("grad_scale") is not None or k.get("found_inf") is not None else None, R,
     "grad_scale and found_inf are not supported on MPS", "2.5", "2.7", None, "FusedOptimizerOps"),

    # Quantised weights
    (("_convert_weight_to_int4pack",), value(1, "innerKTiles", lambda n: n not in (2, 4, 8)), R,
     "_convert_weight_to_int4pack_mps : innerKTiles need to be 2, 4, or 8, got {value}", "2.5", "", None,
     "Quantized.mm"),
    (("_weight_int4pack_mm",), dtype_not_in(_types("int32"), 1), R,
     "_weight_int4pack_mm_mps : expect B to be int32 tensor.", "2.4", "",
     None, "Quantized.mm"),
]

# ---- Metal kernels ---------------------------------------------------------------------------------------------------
# Operator -> families of kernels.txt, of which the first that a release has counts; the field of their types that is
# the input's; and what the input is: "common" (operands promoted), "first" (the first operand), "out" (what a factory
# makes). An elementwise operator whose family bears its own name needs no line: see _family.

METAL = {
    "complex": (("make_complex_dense_*_*",), 1, "common"),
    "div.Tensor": (("div_true_dense_*_*",), 1, "common"), "div.Scalar": (("div_true_dense_*_*",), 1, "common"),
    "div.Tensor_mode": (("div_trunc_dense_*_*",), 1, "common"),
    "div.Scalar_mode": (("div_trunc_dense_*_*",), 1, "common"), "floor_divide": (("div_floor_dense_*_*",), 1, "common"),
    "rsub": (("sub_dense_*_*",), 1, "common"),
    "where": (("where_dense_*_*",), 0, "branches"),
    "lerp.Scalar": (("lerp_alpha_dense_*_*_*",), 0, "first"), "lerp.Tensor": (("lerp_dense_*_*",), 0, "first"),
    "silu": (("silu_dense_*_*",), 1, "complex aside"),
    "addcmul": (("addcmul_dense_*_*_*",), 0, "common"), "addcdiv": (("addcdiv_dense_*_*_*",), 0, "common"),
    "log_sigmoid_forward": (("log_sigmoid_forward_dense_*_*",), 1, "common"),
    "elu": (("elu_dense_*_*_ELUParams_*",), 0, "first"),
    "elu_backward": (("elu_backward_dense_*_*_ELUBackwardParams_*",), 0, "first"),
    "nan_to_num": (("nan_to_num_dense_*_*_NanToNumParams_*",), 0, "integers aside"),
    "round.decimals": (("round_decimals_dense_*_*_*",), 0, "first"),
    "mv": (("matmul_*",), 0, "wide"), "addmv": (("matmul_*",), 0, "wide"),
    "mm": (("matmul_*",), 0, "wide"), "addmm": (("addmm_*",), 0, "first"), "bmm": (("naive_bmm_*",), 0, "wide"),
    "linalg_cross": (("cross_dense_*", "cross_*"), 0, "first"),
    "cumsum": (("cumsum_innermost_*",), 0, "sums"), "cumprod": (("cumprod_innermost_*",), 0, "scan"),
    "_cummax_helper": (("cummax_innermost_*",), 0, "first"), "_cummin_helper": (("cummin_innermost_*",), 0, "first"),
    "_logcumsumexp": (("logcumsumexp_innermost_*",), 0, "first"),
    "sum": (("sum_reduction_*_*",), 0, "first"), "prod": (("prod_reduction_*_*",), 0, "product"),
    "nansum": (("nansum_reduction_*_*", "sum_reduction_*_*"), 0, "integers aside"),
    "var": (("var_reduction_*_*",), 0, "complex aside"), "std": (("std_reduction_*_*",), 0, "complex aside"),
    "any": (("any_reduction_*_*",), 0, "first"), "all": (("all_reduction_*_*",), 0, "first"),
    "amax": (("max_reduction_*_*",), 0, "bool aside"), "amin": (("min_reduction_*_*",), 0, "bool aside"),
    "count_nonzero": (("count_nonzero_reduction_*_*",), 0, "first"),
    "avg_pool2d": (("avg_pool_*",), 0, "first"), "avg_pool3d": (("avg_pool_*",), 0, "first"),
    "avg_pool3d_backward": (("avg_pool_backward_*",), 0, "first"),
    "max_pool2d_with_indices": (("max_pool_*",), 0, "first"), "max_pool3d_with_indices": (("max_pool_*",), 0, "first"),
    "max_pool2d": (("max_pool_*",), 0, "first"),
    "max_pool2d_with_indices_backward": (("max_pool_backward_*",), 0, "first"),
    "max_pool3d_with_indices_backward": (("max_pool_backward_*",), 0, "first"),
    "max_unpool2d": (("max_unpool_*",), 0, "first"), "max_unpool3d": (("max_unpool_*",), 0, "first"),
    "arange": (("arange_*_i32",), 0, "out"), "linspace": (("linspace_*_i32",), 0, "out"),
    "logspace": (("logspace_*_i32",), 0, "out, complex aside"), "eye": (("eye_*",), 0, "out"),
    "upsample_nearest1d": (("upsample_nearest1d_*",), 0, "first"),
    "upsample_nearest2d": (("upsample_nearest2d_*",), 0, "first"),
    "_upsample_nearest_exact1d": (("upsample_nearest_exact1d_*",), 0, "first"),
    "_upsample_nearest_exact2d": (("upsample_nearest_exact2d_*",), 0, "first"),
    "upsample_nearest3d": (("upsample_nearest_3d_*",), 0, "first"),
    "_upsample_nearest_exact3d": (("upsample_nearest_exact_3d_*",), 0, "first"),
    "upsample_nearest3d_backward": (("upsample_nearest_3d_backward_*",), 0, "first"),
    "_upsample_nearest_exact3d_backward": (("upsample_nearest_exact_3d_backward_*",), 0, "first"),
    "upsample_linear1d": (("upsample_linear1d_*",), 0, "first"),
    "upsample_bilinear2d": (("upsample_bilinear2d_*",), 0, "first"),
    "upsample_bicubic2d": (("upsample_bicubic2d_*",), 0, "first"),
    "upsample_trilinear3d": (("upsample_trilinear_*",), 0, "first"),
    "upsample_trilinear3d_backward": (("upsample_trilinear_backward_*",), 0, "first"),
    "upsample_bicubic2d_backward": (("upsample_bicubic2d_backward_*",), 0, "first"),
    "im2col": (("im2col_*_u32", "im2col_*"), 0, "first"),
    "col2im": (("col2im_kernel_*_u32", "col2im_kernel_*"), 0, "first"),
    "renorm": (("renorm_*",), 0, "first"),
    "tril": (("tril_*_*",), 1, "first"), "triu": (("triu_*_*",), 1, "first"),
    "searchsorted": (("searchsorted_*_*",), 0, "searched"), "bucketize": (("searchsorted_*_*",), 0, "searched"),
    "repeat_interleave.Tensor": (("repeat_interleave_*",), 0, "index"),
    "index_copy": (("index_copy_dense_*_*_#", "index_copy_dense_*_*"), 0, "first"),
    "index_add": (("index_add_*_*",), 0, "first"),
    "index_fill.int_Scalar": (("index_fill_dense_*",), 0, "first"),
    "index_fill.int_Tensor": (("index_fill_dense_*",), 0, "first"),
    "gather": (("gather_dense_*_*",), 0, "first"),
    "scatter_add": (("scatter_add_dense_*_*",), 0, "first"),
    "scatter.src": (("scatter_set_*_*",), 0, "first"), "scatter.value": (("scatter_set_*_*",), 0, "first"),
    "native_layer_norm": (("layer_norm_single_row_i32_*", "layer_norm_single_row_*"), 0, "first"),
    "native_dropout": (("dropout_fwd_*",), 0, "first"),
    "_embedding_bag": (("embedding_bag_*_*",), 0, "first"),
    "_embedding_bag_forward_only": (("embedding_bag_*_*",), 0, "first"),
    "_ctc_loss": (("ctc_loss_*_*_*",), 0, "first"),
    "nonzero": (("scatter_nonzero_indices_*_*", "scatter_nonzero_indices_*"), 0, "first"),
    "_unique2": (("unique_mark_boundaries_*",), 0, "first"),
    "linalg_householder_product": (("orgqr_*",), 0, "first"),
    "index_put": (("index_put_accumulate_*",), 0, "accumulates"),
    "_index_put_impl": (("index_put_accumulate_*",), 0, "accumulates"),
    "_unsafe_index_put": (("index_put_accumulate_*",), 0, "accumulates"),
    "_unsafe_masked_index_put_accumulate": (("index_put_accumulate_*",), 0, "first"),
    "unfold_backward": (("unfold_backward_*",), 0, "first"),
    "geometric": (("geometric_*",), 0, "first"), "cauchy": (("cauchy_*",), 0, "first"),
    "log_normal": (("log_normal_*",), 0, "first"),
    "exponential": (("exponential_*",), 0, "first"), "uniform": (("uniform_dist_*",), 0, "complex aside"),
    "random": (("random_*_*",), 1, "first"),
    "_standard_gamma": (("standard_gamma_*",), 0, "first"), "poisson": (("poisson_*",), 0, "first"),
    "grid_sampler_3d": (("grid_sampler_3d_bilinear_zeros_i32_*", "grid_sampler_3d_zeros_*", "grid_sampler_3d_*"), 0,
                        "first"),
    "grid_sampler_2d": (("grid_sampler_2d_bilinear_zeros_i32_*", "grid_sampler_2d_bilinear_zeros_*"), 0, "first"),
    "reflection_pad1d": (("reflection_pad1d_forward_*_i32",), 0, "first"),
    "reflection_pad2d": (("reflection_pad2d_forward_*_i32",), 0, "first"),
    "reflection_pad3d": (("reflection_pad3d_forward_*_i32",), 0, "first"),
    "replication_pad1d": (("replication_pad1d_forward_*",), 0, "first"),
    "replication_pad2d": (("replication_pad2d_forward_*_i32",), 0, "first"),
    "replication_pad3d": (("replication_pad3d_forward_*_i32",), 0, "first"),
    "constant_pad_nd": (("constant_pad_nd_*_u32",), 0, "first"),
    "histc": (("histc_atomic_global_*", "histogramdd_*"), 0, "first"),
    "_histogramdd_from_bin_tensors": (("histogramdd_*",), 0, "first"),
    "_histogramdd_from_bin_cts": (("histogramdd_*",), 0, "first"),
}
for _n in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not"):
    METAL[_n] = ((_n + "_dense_*_*",), 1, "common")
for _n in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0", "modified_bessel_i1",
           "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1"):
    METAL["special_" + _n] = ((_n + "_forward_dense_*_*",), 1, "common")
# Integers are copied (ceil, floor, trunc, round, nan_to_num), compared as maximum and minimum, or are never infinite.
for _n in ("ceil", "floor", "trunc", "fmax", "fmin", "isposinf", "isneginf"):
    METAL[_n] = ((_n + "_dense_*_*",), 1, "integers aside")
for _n in ("softshrink", "hardshrink", "leaky_relu"):
    METAL[_n] = ((_n + "_dense_*_*_*",), 1, "common")

_kernels = {}


def _read_kernels():
    """{family: [(first series, last series or None, types)]} from kernels.txt."""
    if not _kernels:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.txt")
        with open(path, encoding="ascii") as lines:
            for line in lines:
                if line.startswith("#"):
                    continue
                span, types, families = (part.strip() for part in line.split("|"))
                first, _, last = span.partition("-")
                types = [tuple(t.split(",")) for t in types.split()]
                for family in families.split():
                    _kernels.setdefault(family, []).append((_series(first), _series(last), types))
    return _kernels


def _series(text):
    return tuple(int(n) for n in text.split(".")[:2]) if text else None


def types_of(families, series):
    """(family, its types) of the first of the families that a release has."""
    table = _read_kernels()
    for family in families:
        for first, last, types in table.get(family, ()):
            if first <= series and (last is None or series <= last):
                return family, types
    return None, ()


def _family(name):
    """The line of METAL for an operator, by overload or base name, or the elementwise family of its own name."""
    base, overload = split(name)
    for key in (base + "." + overload, base):
        if key in METAL:
            return METAL[key]
    plain = base[len("special_"):] if base.startswith("special_") else base
    return ((plain + "_dense_*_*", plain + "_dense_*_*_*"), 1, "common")


def split(name):
    """("add", "Tensor") for aten::add.Tensor, aten::add_.Tensor and aten::add.out alike."""
    base, _, overload = name.partition("::")[2].partition(".")
    if base.endswith("_") and not base.endswith("__"):
        base = base[:-1]
    for suffix in ("_out", "out"):
        if overload.endswith(suffix):
            overload = overload[:-len(suffix)]
    return base, overload


def _operand(kind, args, kwargs):
    """The dtype by which the kernel is chosen, or None where it is not chosen among this family."""
    if kind.startswith("out"):
        dtype = _asked(args, kwargs)
        return None if kind != "out" and dtype in COMPLEX else dtype
    if kind == "branches":
        return common_dtype(args[1:], kwargs)
    if kind == "common":
        return common_dtype(args, kwargs)
    t = args[0]
    if isinstance(t, (list, tuple)):
        t = t[0] if t else None
    if not isinstance(t, torch.Tensor):
        return None
    dtype = t.dtype
    if kind == "accumulates" and not argument(args, kwargs, 3, "accumulate", False):
        return None
    if kind == "wide" and dtype in FLOAT | COMPLEX:
        return None  # only integers run the naive kernel
    if kind == "sums" and (dtype in COMPLEX or dtype in INTEGER | BOOL and dtype not in UNSIGNED):
        return None  # complex numbers by their real and imaginary parts
    if kind in ("scan", "product", "integers aside") and dtype in INTEGER | BOOL and dtype not in UNSIGNED:
        return None  # added up in int64
    if kind == "bool aside" and dtype in BOOL:
        return None  # any and all
    if kind == "complex aside" and dtype in COMPLEX:
        return None  # by their real and imaginary parts
    return dtype


def has_kernel(name, series, dtype):
    """Whether an operator's Metal family is compiled for a type."""
    families, field, _ = _family(name)
    return METAL_NAME.get(dtype) in {SAME.get(t[field], t[field]) for t in types_of(families, tuple(series[:2]))[1]}


def metal_rule(name, series):
    families, field, kind = _family(name)
    family, types = types_of(families, series)
    if family is None:
        return None
    allowed = {SAME.get(t[field], t[field]) for t in types}
    allowed = frozenset(d for d, m in METAL_NAME.items() if m in allowed)
    if kind == "scan" and torch.float32 not in allowed:
        return None  # made for complex numbers alone: the rest goes by MPSGraph, as in 2.12
    outputs = {t[field]: t[0] for t in types if len(t) == 2 and field == 1}
    same = all(len(set(t)) == 1 for t in types)

    def rule(args, kwargs):
        dtype = _operand(kind, args, kwargs)
        if dtype is None or dtype in allowed or dtype == torch.float64:
            return
        metal = METAL_NAME.get(dtype)
        if metal is None:
            raise RuntimeError("Undefined type " + cxx(dtype))
        words, n = [], 0
        for word in family.split("_"):
            if word == "*":
                if kind == "searched" and n:
                    word = "int" if kwargs.get("out_int32") else "long"
                elif n != field and not same:
                    word = outputs.get(metal, "bool" if "bool" in outputs.values() else metal)
                else:
                    word = metal
                n += 1
            words.append(word)
        raise RuntimeError("Failed to create function state object for: " + "_".join(words).replace("_#", "_1"))
    return rule


# ---- MPSGraph --------------------------------------------------------------------------------------------------------

# Operators that look at no element, or copy bytes: no dtype is mapped for them.
BYTES = frozenset("""
    empty empty_strided empty_like new_empty new_empty_strided _copy_from _copy_from_and_resize copy _to_copy clone
    set resize resize_as zero is_set_to record_stream _local_scalar_dense is_pinned _pin_memory pin_memory
    _reshape_alias _unsafe_view _reshape_copy lift lift_fresh unfold squeeze_copy detach alias sym_size sym_stride
    sym_numel sym_storage_offset
""".split())


def is_view(name):
    """Its result shares memory with an argument that it does not write: the alias marks of the schema say so."""
    base, _, overload = name.partition("::")[2].partition(".")
    try:
        schema = getattr(getattr(torch.ops.aten, base), overload or "default")._schema
    except (AttributeError, RuntimeError):
        return False
    marks = [a.alias_info for a in schema.arguments if getattr(a, "alias_info", None) is not None]
    return bool(marks) and not any(m.is_write for m in marks)


def unmapped(series, macos):
    """{dtype: (exception, text)} of what getMPSDataType refuses in a release."""
    text = "Trying to convert {} to the MPS backend but it does not have support for that dtype."
    refused = {d: (TypeError, text.format(cxx(d))) for d in CXX if d not in METAL_NAME and d != torch.float64}
    if series < (2, 9):
        refused.update((d, (TypeError, text.format(cxx(d)))) for d in UNSIGNED)
    if series < (2, 1):
        refused[torch.bfloat16] = (TypeError, text.format("BFloat16"))
    if series < (2, 3):
        refused.update((d, (TypeError, text.format(cxx(d)))) for d in COMPLEX)
    elif series < (2, 9) and macos < (14, 0):
        refused[torch.bfloat16] = (TypeError, "MPS bfloat16 type is supported on MacOS 14.0 or newer.")
        refused.update((d, (TypeError, "MPS complex types are only supported on MacOS 14.0 or newer."))
                       for d in _types("complex64", "complex32"))
    return refused


def graph_rule(name, series, macos):
    base, _ = split(name)
    if base in BYTES or is_view(name):
        return None
    refused = unmapped(series, macos)

    def rule(args, kwargs):
        for t in tensors(args, kwargs):
            if t.dtype in refused:
                error, text = refused[t.dtype]
                raise error(text)
    return rule


def cast_rule(base, series, macos):
    """A copy on MPS to another type is a cast, by MPSGraph or a kernel: it maps both types (Copy.mm, copy_cast_mps); a
    plain copy moves bytes."""
    refused = unmapped(series, macos)
    if series >= (2, 1):
        refused.pop(torch.bfloat16, None)  # refused before, as the new tensor is made

    def rule(args, kwargs):
        if base == "copy":
            types = (args[0].dtype, args[1].dtype)
        elif kwargs.get("device") is not None or kwargs.get("dtype") is None:
            return
        else:
            types = (kwargs["dtype"], args[0].dtype)
        if types[0] != types[1]:
            for t in types:
                if t in refused:
                    error, text = refused[t]
                    raise error(text)
    return rule


# ---- the interface ---------------------------------------------------------------------------------------------------

def _applies(first, last, bound, series, macos):
    """Whether a row speaks of a release and a macOS. bound: None, the macOS below which it applies, or ">= 15.0"."""
    if not (_series(first) <= series and (not last or series <= _series(last))):
        return False
    if bound is None:
        return True
    limit = tuple(int(n) for n in bound.removeprefix(">= ").split("."))
    return tuple(macos) >= limit if bound.startswith(">= ") else tuple(macos) < limit


def _row_rule(check, error, text):
    def rule(args, kwargs):
        found = check(args, kwargs)
        if found is not None:
            raise error(text.format(**found) if found else text)
    return rule


def _rows(rows, name, series, macos):
    base, overload = split(name)
    full = name.partition("::")[2]
    for row in rows:
        if _applies(row[4], row[5], row[6], series, macos):
            for operator in row[0]:
                if operator == base or operator == full or operator == base + "." + overload:
                    yield row
                    break


_beside = []  # rows of other files, asked before ROWS


def read_beside(rows):
    """Have rules_for ask these rows before ROWS."""
    _beside.extend(rows)


def rules_for(name, series, macos):
    """Checks of an operator by its full name, aten::add.Tensor: functions of (args, kwargs) that return None or
    raise."""
    namespace = name.partition("::")[0]
    if namespace != "aten":
        return []
    series, macos = tuple(series[:2]), tuple(macos)
    found = [_row_rule(row[1], row[2], row[3]) for row in _rows(_beside + ROWS, name, series, macos)]
    base, _ = split(name)
    if base in ("_to_copy", "copy"):
        return found + [cast_rule(base, series, macos)]
    metal = None if base in BYTES or is_view(name) else metal_rule(name, series)
    last = metal or graph_rule(name, series, macos)
    return found + [last] if last else found


FLOAT64 = ("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
           "Please use float32 instead.")


def allocate_check(dtype, ndim, series, macos, strided_copy=False):
    """Whether a tensor can be made on MPS. aten/src/ATen/mps/EmptyTensor.cpp, empty_mps; strided_copy:
    empty_strided_mps, by which .to("mps") and copies that keep strides make theirs, and which looks at less."""
    series, macos = tuple(series[:2]), tuple(macos)
    if not strided_copy and ndim > 16 and series >= (2, 1):
        raise RuntimeError("MPS supports tensors with dimensions <= 16, but got %d." % ndim)
    if dtype == torch.float64 or dtype == torch.complex128 and series >= (2, 12) and not strided_copy:
        raise TypeError(FLOAT64)
    if dtype == torch.bfloat16:
        # Reported for .to() as well: Comfy-Org/ComfyUI issue 5224, pytorch/torchchat issue 616.
        if (2, 1) <= series < (2, 3):
            raise TypeError("BFloat16 is not supported on MPS")
        if (2, 3) <= series < (2, 9) and macos < (14, 0):
            raise TypeError("MPS BFloat16 is only supported on MacOS 14 or newer")
