"""Element types by their names, and what operators' arguments are: read by the facts (facts.py) and by what a release's
kernels take (refuse.py)."""

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


def asked(args, kwargs):
    """The dtype that a factory is asked for, by dtype= or by out=."""
    out = kwargs.get("out")
    if isinstance(out, torch.Tensor):
        return out.dtype
    dtype = kwargs.get("dtype")
    return dtype if isinstance(dtype, torch.dtype) else torch.get_default_dtype()
