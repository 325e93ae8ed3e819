"""What PyTorch's MPS backend refuses although it has the operator: by dtype, rank, shape, value, mode or layout.

`rules_for(name, series, macos)` gives the checks of one operator, as functions of the arguments that __torch_dispatch__
gets. A check returns None or raises the backend's own exception with the backend's own text.

Where the rules come from, in the order in which they are tried:
  facts     the rows of the table of facts whose condition shows in the arguments (facts.py)
  METAL     an operator that runs a kernel of a Metal family has exactly the types for which that family was compiled.
            Which these are was read from the release binaries (kernels.txt, made by tools/double/kernels.py).
  GRAPH     an operator that is built as an MPSGraph maps its operands' dtypes (getMPSDataType in OperationUtils.mm),
            and refuses those without a counterpart.

Not here: what the CPU kernel refuses as well, since the double runs it next and it refuses in the same place; what a
Mac aborts on (Metal asserts, no exception); placement of operands on several devices.
"""

import os

import torch

from . import facts
from .dtypes import (BOOL, COMPLEX, CXX, FLOAT, INTEGER, METAL_NAME, SAME, UNSIGNED, _types, argument, asked,
                     common_dtype, cxx, tensors)
from .facts import split

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

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
    "neg": (("neg_dense_*_*",), 1, "bool aside"),  # refused before any kernel, on any device: UnaryOps.cpp
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


def _operand(kind, args, kwargs):
    """The dtype by which the kernel is chosen, or None where it is not chosen among this family."""
    if kind.startswith("out"):
        dtype = asked(args, kwargs)
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
        return None  # any and all; neg
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

def rules_for(name, series, macos):
    """Checks of an operator by its full name, aten::add.Tensor, in a release (as many of its numbers as are known):
    functions of (args, kwargs) that return None or raise."""
    macos = tuple(macos)
    found = facts.refusals(name, series, macos)
    if not name.startswith("aten::"):
        return found
    series = tuple(series[:2])
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
