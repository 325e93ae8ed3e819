"""What PyTorch's MPS backend refuses although it has the operator: by dtype, rank, shape, value, mode or layout.

`rules_for(name, series, macos)` gives the checks of one operator, as functions of the arguments that __torch_dispatch__ gets.
A check returns None or raises the backend's own exception with the backend's own text.

Where the rules come from, in the order in which they are tried:
  ROWS      refusals by hand: one line each, with the message as it stands in the release binaries, the first and last series in
            which it stands there, and the file below aten/src/ATen/native/mps/operations that has the check. They are the rows
            of internal/atlas/tables/conditions.toml whose condition shows in the arguments.
  METAL     an operator that runs a kernel of a Metal family has exactly the types for which that family was compiled. Which
            these are was read from the release binaries (kernels.txt, made by tools/double/kernels.py).
  GRAPH     an operator that is built as an MPSGraph maps its operands' dtypes (getMPSDataType in OperationUtils.mm), and
            refuses those without a counterpart.

Not here: what the CPU kernel refuses as well, since the double runs it next and it refuses in the same place; what a Mac aborts
on (Metal asserts, no exception); placement of operands on several devices.
"""

import os

import torch

# ---- dtypes ----------------------------------------------------------------------------------------------------------------

# C++ names, as texts have them (c10/core/ScalarType.h), and Metal's, as kernels have them (scalarToMetalTypeString).
NAMES = {
    "float32": ("Float", "float"), "float16": ("Half", "half"), "bfloat16": ("BFloat16", "bfloat"), "float64": ("Double", None),
    "int8": ("Char", "char"), "uint8": ("Byte", "uchar"), "int16": ("Short", "short"), "int32": ("Int", "int"),
    "int64": ("Long", "long"), "bool": ("Bool", "bool"), "uint16": ("UInt16", "ushort"), "uint32": ("UInt32", "uint"),
    "uint64": ("UInt64", "ulong"), "complex64": ("ComplexFloat", "float2"), "complex32": ("ComplexHalf", "half2"),
    "complex128": ("ComplexDouble", None), "float8_e4m3fn": ("Float8_e4m3fn", None), "float8_e5m2": ("Float8_e5m2", None),
    "float8_e4m3fnuz": ("Float8_e4m3fnuz", None), "float8_e5m2fnuz": ("Float8_e5m2fnuz", None),
    "float8_e8m0fnu": ("Float8_e8m0fnu", None), "quint8": ("QUInt8", None), "qint8": ("QInt8", None), "qint32": ("QInt32", None),
}


def _types(*names):
    return frozenset(getattr(torch, n) for n in names if hasattr(torch, n))


CXX = {getattr(torch, n): names[0] for n, names in NAMES.items() if hasattr(torch, n)}
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


# ---- reading arguments -----------------------------------------------------------------------------------------------------

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


# ---- conditions: functions of (args, kwargs) that return None, or what fills the text ----------------------------------------

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
