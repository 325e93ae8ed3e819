"""What the double refuses beside refuse.py's ROWS: strides, empty tensors, values that a matrix has, and what lies
inside operators that PyTorch composes.

LATER has rows of the same form as ROWS and is asked before them: where both speak of a call, what stands here is what a
Mac meets first. A macOS may also be given as ">= 15.0".
"""

import torch
from torch._prims_common import suggest_memory_format

from . import refuse
from .current import inside
from .refuse import COMPLEX, NOT_FLOAT, accumulates, both, cxx, dtype_in, dtype_not_in

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

R, T = RuntimeError, TypeError

# ---- strides ---------------------------------------------------------------------------------------------------------
# From 2.5 on, under macOS 15 or later, a tensor that is not contiguous, or does not begin where its storage does, is
# given to an MPSGraph by its strides: Placeholder in OperationUtils.mm views it in the shape that the graph wants
# (getTensorView: t.view), and a view that cannot be had is an error. Before, it was gathered into a contiguous copy.

VIEW = ("view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead.")
MACOS_15 = ">= 15.0"


def _cannot_be_viewed(tensor, shape):
    """Whether Placeholder fails to view a tensor in that shape."""
    if tensor.is_contiguous() and not tensor.storage_offset():
        return False
    with inside():
        try:
            tensor.detach().view(shape)
        except RuntimeError:
            return True
    return False


def _is_channels_last(tensor):
    return tensor.dim() == 4 and suggest_memory_format(tensor) == torch.channels_last


def _channels_last_shape(tensor):
    n, c, h, w = tensor.shape
    return n, h, w, c


def _channels_last_cannot_be_viewed(tensor):
    return _is_channels_last(tensor) and _cannot_be_viewed(tensor, _channels_last_shape(tensor))


def channels_last_gradient(args, kwargs):
    """convolution_backward (grad_output, input, weight, …, transposed at 7) of a tensor in channels-last order: the
    gradient of the result; of a transposed convolution the input, where the gradient of the weight is asked for.
    Convolutions over one axis run as over two, of an input that is made contiguous before."""
    grad, x, weight = args[:3]
    if not x.numel():
        return None
    transposed = refuse.argument(args, kwargs, 7, "transposed", False)
    wanted = refuse.argument(args, kwargs, 10, "output_mask", (True, True, True))
    if transposed:
        looked_at = x if wanted[1] and weight.dim() != 3 else None
    else:
        looked_at = grad.unsqueeze(2) if weight.dim() == 3 else grad
        looked_at = looked_at if wanted[0] or wanted[1] else None
    return {} if looked_at is not None and _channels_last_cannot_be_viewed(looked_at) else None


def channels_of_channels_last(args, kwargs):
    """A convolution of some channels of a tensor in channels-last order: strides of that order, with gaps."""
    x = args[0]
    if x.dim() != 4 or refuse.argument(args, kwargs, 6, "transposed", False):
        return None
    return {} if not x.is_contiguous(memory_format=torch.channels_last) and _channels_last_cannot_be_viewed(x) else None


def channels_last(position):
    """That argument lies in channels-last order."""
    def check(args, kwargs):
        return {} if _channels_last_cannot_be_viewed(args[position]) else None
    return check


def not_flat(args, kwargs):
    """argmax or argmin over all elements of a tensor that cannot be viewed as one axis."""
    if refuse.argument(args, kwargs, 1, "dim") is not None or not args[0].numel():
        return None
    return {} if _cannot_be_viewed(args[0], (-1,)) else None


def not_flat_loss(args, kwargs):
    """smooth_l1_loss with a mean or a sum, of an input or a target that cannot be viewed as one axis."""
    if not refuse.argument(args, kwargs, 2, "reduction", 1) or not args[0].numel():
        return None
    return {} if any(_cannot_be_viewed(t, (-1,)) for t in args[:2]) else None


# ---- empty tensors ---------------------------------------------------------------------------------------------------
# Placeholder also asserts that the tensor's buffer has bytes. Kernels that do not look for empty tensors themselves meet
# that. An empty part of a tensor that has bytes passes.

_SOURCES = {True: "/Users/runner/work/pytorch/pytorch/pytorch/aten/src/ATen/native/",  # to 2.11
            False: "/Users/runner/work/pytorch/pytorch/aten/src/ATen/native/"}
# The line of the assertion in OperationUtils.mm, as it stands in the wheels: 2.0.1, 2.1.2, 2.2.2, 2.3.1, 2.4.1, 2.5.1,
# 2.6.0, 2.7.1, 2.8.0, 2.9.1, 2.10.0, 2.11.0, 2.12.1.
_LINES = {"2.0": 283, "2.1": 327, "2.2": 341, "2.3": 383, "2.4": 387, "2.5": 524, "2.6": 530, "2.7": 565, "2.8": 566,
          "2.9": 551, "2.10": 554, "2.11": 555, "2.12": 525}


def _internal(condition, file, line, series, text=""):
    """The text of an internal assertion of a release."""
    old = tuple(int(n) for n in series.split(".")) < (2, 12)
    return ('%s INTERNAL ASSERT FAILED at "%s%s":%d, please report a bug to PyTorch. %s'
            % (condition, _SOURCES[old], file, line, text))


def without_bytes(*positions):
    """One of these arguments is a tensor whose storage is empty."""
    def check(args, kwargs):
        for p in positions:
            t = args[p] if p < len(args) else None
            if isinstance(t, torch.Tensor) and not t.untyped_storage().nbytes():
                return {}
    return check


def _elements(position):
    def check(args, kwargs):
        return {} if args[position].numel() else None
    return check


def _empty_rows(operators, check, first, last, source):
    releases = list(_LINES)
    for series in releases[releases.index(first):releases.index(last) + 1]:
        yield (operators, check, R,
               _internal("[srcBuf length] > 0", "mps/OperationUtils.mm", _LINES[series], series,
                         "Placeholder tensor is empty!"), series, series, None, source)


# ---- types and values ------------------------------------------------------------------------------------------------

IMPROVED = (" to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement "
            "request to PyTorch.)")
ATOMIC = refuse._types("float32", "int32", "bool")
# What runs binaryOpTensor, and is not in ROWS (add, sub, mul, div, rsub).
BINARY = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "fmod",
          "remainder", "floor_divide", "pow.Tensor_Tensor", "pow.Tensor_Scalar", "atan2", "hypot", "logaddexp",
          "logaddexp2", "xlogy")


def one_of_two_complex(args, kwargs):
    """A product of a complex number and a real one: `1j * x`, `c * 2`."""
    kinds = [a.is_complex() if isinstance(a, torch.Tensor) else isinstance(a, complex) for a in args[:2]]
    return {} if kinds[0] != kinds[1] else None


def complex_second(args, kwargs):
    """A real tensor and a complex one, or a complex number."""
    first, second = args[:2]
    if not isinstance(first, torch.Tensor) or first.is_complex():
        return None
    if isinstance(second, torch.Tensor):
        return {"dtype": cxx(second.dtype)} if second.is_complex() else None
    return {"dtype": "ComplexDouble"} if isinstance(second, complex) else None


def unequal_elements(args, kwargs):
    """isin of two types, neither tensor empty."""
    a, b = args[:2]
    return {} if a.dtype is not b.dtype and a.numel() and b.numel() else None


def singular(name):
    """_linalg_check_errors (infos, name of the function, whether it is one matrix) of a matrix that is singular."""
    def check(args, kwargs):
        infos, function = args[:2]
        if function != name:
            return None
        with inside():
            bad = infos.flatten().nonzero().flatten()
            if not bad.numel():
                return None
            first = int(bad[0])
        return {"n": first + 1, "value": "" if refuse.argument(args, kwargs, 2, "is_matrix")
                else ": (Batch element %d)" % first}
    return check


# The line in BatchLinearAlgebra.cpp, as it stands in the wheels 2.7.1, 2.8.0, 2.9.1. Metal's status of a singular matrix
# is -2, which PyTorch took for LAPACK's "argument 2".
_SOLVE = [(("_linalg_check_errors",), singular("torch.linalg.solve"), R,
           _internal("false", "BatchLinearAlgebra.cpp", line, series,
                     "torch.linalg.solve{value}: Argument 2 has illegal value. Most certainly there is a bug in the "
                     "implementation calling the backend library."), series, series, None,
           "pytorch issue 163962; pytorch PR 165254") for series, line in (("2.7", 1605), ("2.8", 1614), ("2.9", 1614))]

INDEX_PUT = ("index_put", "_index_put_impl_", "_unsafe_index_put")
MM = "MPS device does not support mm for non-float inputs"

LATER = [
    # Strides
    (("convolution_backward",), channels_last_gradient, R, VIEW, "2.5", "2.5", MACOS_15,
     "Convolution.mm; pytorch issues 140902, 142344; pytorch PR 143196"),
    (("convolution", "_convolution"), channels_of_channels_last, R, VIEW, "2.5", "2.8", MACOS_15,
     "Convolution.mm, _mps_convolution_impl: inputPlaceholder"),
    (("native_batch_norm_backward", "batch_norm_backward"), channels_last(1), R, VIEW, "2.5", "2.13", MACOS_15,
     "Normalization.mm; pytorch issues 156792, 175189; pytorch PR 188371"),
    (("argmax", "argmin"), not_flat, R, VIEW, "2.5", "2.12", MACOS_15,
     "ReduceOps.mm, argmax_argmin_out_mps; pytorch issue 160740; pytorch PR 187051"),
    (("smooth_l1_loss",), not_flat_loss, R, VIEW, "2.5", "2.13", MACOS_15, "LossOps.mm, smooth_l1_loss_template"),

    # Empty tensors
    *_empty_rows(("smooth_l1_loss",), without_bytes(0, 1), "2.0", "2.6",
                 "LossOps.mm; pytorch issue 123171; pytorch PR 148133"),
    *_empty_rows(("addbmm", "baddbmm"), without_bytes(0, 1, 2), "2.6", "2.12",
                 "LinearAlgebra.mm; pytorch issue 188765; pytorch PR 188808"),
    *_empty_rows(("index_add",), both(_elements(2), without_bytes(0, 3)), "2.6", "2.12",
                 "Indexing.mm, index_add_mps_out; pytorch issue 186972"),
    *_empty_rows(("grid_sampler_2d",), without_bytes(0, 1), "2.6", "2.10", "GridSampler.mm; kornia issue 4032"),
    *_empty_rows(("mse_loss", "huber_loss", "dot"), without_bytes(0, 1), "2.6", "2.6", "LossOps.mm, Blas.mm"),

    # Indexing
    (INDEX_PUT, accumulates(ATOMIC), R,
     "Expected inputTensor.scalar_type() == ScalarType::Float || inputTensor.scalar_type() == ScalarType::Int || "
     "inputTensor.scalar_type() == ScalarType::Bool" + IMPROVED, "2.0", "2.2", None, "Indexing.mm, validateInputData"),
    (INDEX_PUT, accumulates(ATOMIC), R,
     "Expected scalar_type == ScalarType::Float || inputTensor.scalar_type() == ScalarType::Int || "
     "scalar_type == ScalarType::Bool" + IMPROVED, "2.3", "2.7", None, "Indexing.mm, validateInputData"),
    (("_unsafe_masked_index_put_accumulate",), both(_elements(0), dtype_not_in(ATOMIC)), R,
     "Expected scalar_type == ScalarType::Float || inputTensor.scalar_type() == ScalarType::Int || "
     "scalar_type == ScalarType::Bool" + IMPROVED, "2.5", "2.7", None,
     "Indexing.mm, validateInputData; TensorAdvancedIndexing.cpp"),
    (("isin.Tensor_Tensor",), unequal_elements, R,
     "Expected elements.dtype() == test_elements.dtype()" + IMPROVED, "2.4", "2.7", None,
     "TensorCompare.mm, isin_Tensor_Tensor_out_mps"),

    # Matrix products of integers: addmv_out_mps_impl calls mm
    (("mv",), dtype_in(NOT_FLOAT), R, MM, "2.0", "2.6", None, "Blas.mm, LinearAlgebra.mm"),
    (("addmv",), dtype_in(NOT_FLOAT, 1), R, MM, "2.0", "2.6", None, "Blas.mm, LinearAlgebra.mm"),

    # Complex numbers
    (("mul",), one_of_two_complex, R,
     _internal("c10::isComplexType(input.scalar_type()) && c10::isComplexType(other.scalar_type())",
               "mps/operations/BinaryKernel.mm", 340, "2.2"), "2.2", "2.2", None,
     "BinaryKernel.mm, complex_mul_out; pytorch issue 119088; pytorch PR 119120"),
    (BINARY, dtype_in(COMPLEX), T, "Complex types are unsupported on MPS", "2.1", "2.2", None,
     "BinaryOps.mm, binaryOpTensor"),
    (BINARY + ("add", "sub", "mul", "div"), complex_second, T,
     "Trying to convert {dtype} to the MPS backend but it does not have support for that dtype.", "2.0", "2.2", None,
     "BinaryOps.mm, binaryOpTensor; OperationUtils.mm, getMPSScalarType"),

    # Singular matrices
    *_SOLVE,
    (("_linalg_check_errors",), singular("torch.linalg.lu_factor"), R,
     "lu_factor(): LU factorization failure at the {n} sample with status: -2. See https://developer.apple.com/"
     "documentation/metalperformanceshaders/mpsmatrixdecompositionstatus for details.", "2.5", "2.6", None,
     "LinearAlgebra.mm, linalg_lu_factor_out_mps_impl"),
]

# Singular matrices that MPS does not notice: function, first and last series. linalg_inv_ex zeroes infos (Inverse.mm);
# lu_factor from 2.7 to 2.9: pytorch issue 165870.
_UNNOTICED = (("linalg.inv", (2, 0), (2, 6)), ("torch.linalg.lu_factor", (2, 7), (2, 9)))


def unnoticed(name, series):
    """Of _linalg_check_errors: whether a call is one in which MPS has noticed nothing; None for other operators."""
    if name != "aten::_linalg_check_errors":
        return None
    series = tuple(series[:2])
    functions = {function for function, first, last in _UNNOTICED if first <= series <= last}
    return lambda args: args[1] in functions


# ---- inside composed operators ---------------------------------------------------------------------------------------
# A CPU has a kernel for the whole where PyTorch composes it on MPS, or runs the parts below where a mode looks. What
# the part refuses is refused here.


def _as_asked(args, kwargs):
    """The type of what a factory makes: dtype=, that of the tensor to be like, else the default."""
    dtype = kwargs.get("dtype")
    if dtype is not None:
        return dtype
    if args and isinstance(args[0], torch.Tensor):
        return args[0].dtype
    return refuse._asked(args, kwargs)


def _stand_in(dtype):
    with inside():
        return torch.empty(1, dtype=dtype, device="meta")


def _fills(position, value=None):
    """Rules of a factory that fills: zeros are written byte by byte, other values through an MPSGraph."""
    def rules(name, series, macos):
        refused = refuse.unmapped(series, macos)
        if series >= (2, 3):
            refused = {d: e for d, e in refused.items() if d not in COMPLEX}  # filled by their real and imaginary parts

        def rule(args, kwargs):
            filled = refuse.argument(args, kwargs, position, "fill_value", value)
            dtype = kwargs.get("dtype")
            if dtype is None and not (args and isinstance(args[0], torch.Tensor)) and not isinstance(filled, float):
                return  # the type follows the value
            dtype = _as_asked(args, kwargs)
            if filled and dtype in refused:
                error, text = refused[dtype]
                raise error(text)
        return [rule]
    return rules


def _draws(part):
    """Rules of a factory that draws: those of the operator that it calls on what it has made."""
    def rules(name, series, macos):
        inner = refuse.rules_for(part, series, macos)

        def rule(args, kwargs):
            made = _stand_in(_as_asked(args, kwargs))
            for check in inner:
                check((made,), {})
        return [rule] if inner else []
    return rules


def _masks(name, series, macos):
    """_unsafe_masked_index: masked_fill of what was indexed."""
    inner = refuse.rules_for("aten::masked_fill.Scalar", series, macos)

    def rule(args, kwargs):
        made, mask = _stand_in(args[0].dtype), _stand_in(torch.bool)
        for check in inner:
            check((made, mask, 0), {})
    return [rule]


def _helps(part):
    """Rules of the part, on the same tensor."""
    def rules(name, series, macos):
        inner = refuse.rules_for(part, series, macos)

        def rule(args, kwargs):
            if args[0].numel() and args[0].dim():
                for check in inner:
                    check(args, kwargs)
        return [rule] if inner else []
    return rules


_PARTS = {
    "full": _fills(1), "full_like": _fills(1), "new_full": _fills(2), "ones": _fills(99, 1), "ones_like": _fills(99, 1),
    "new_ones": _fills(99, 1),
    "randn": _draws("aten::normal_"), "randn_like": _draws("aten::normal_"), "rand": _draws("aten::uniform_"),
    "rand_like": _draws("aten::uniform_"), "randint": _draws("aten::random_.from"),
    "randint_like": _draws("aten::random_.from"),
    "_unsafe_masked_index": _masks,
    "cummax": _helps("aten::_cummax_helper"), "cummin": _helps("aten::_cummin_helper"),
}


def part_rules(name, series, macos):
    """Checks of what lies inside a composed operator, as refuse.rules_for gives those of the operator itself."""
    base = refuse.split(name)[0]
    if not name.startswith("aten::") or base not in _PARTS:
        return []
    return _PARTS[base](name, tuple(series[:2]), tuple(macos))


def _nothing_to_do(args, kwargs):
    return not args[0].numel() or not args[0].dim()


# Operators that call another for some arguments only (calls.txt marks that with ?): the part, and the calls that do not
# reach it. aten/src/ATen/native/ReduceOps.cpp, cummax_out; BinaryOps.cpp, ldexp.
_REACHED = {"aten::cummax": ("aten::_cummax_helper", _nothing_to_do),
            "aten::cummax.out": ("aten::_cummax_helper", _nothing_to_do),
            "aten::cummin": ("aten::_cummin_helper", _nothing_to_do),
            "aten::cummin.out": ("aten::_cummin_helper", _nothing_to_do)}


def part_of(name):
    """(an operator that this one calls, which calls of this one do not reach it), or (None, None)."""
    return _REACHED.get(name, (None, None))


refuse.read_beside(LATER)
