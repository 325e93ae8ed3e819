"""What lies inside operators that PyTorch composes: a CPU has a kernel for the whole, or runs the parts below where a
mode looks. What the part refuses is refused here, and what calls it for some arguments only is known by those.
"""

import torch

from . import facts, refuse
from .current import inside
from .dtypes import COMPLEX, argument, asked

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

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


def _as_asked(args, kwargs):
    """The type of what a factory makes: dtype=, that of the tensor to be like, else the default."""
    dtype = kwargs.get("dtype")
    if dtype is not None:
        return dtype
    if args and isinstance(args[0], torch.Tensor):
        return args[0].dtype
    return asked(args, kwargs)


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
            filled = argument(args, kwargs, position, "fill_value", value)
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
    base = facts.split(name)[0]
    if not name.startswith("aten::") or base not in _PARTS:
        return []
    return _PARTS[base](name, tuple(series[:2]), tuple(macos))


def _nothing_to_do(args, kwargs):
    return not args[0].numel() or not args[0].dim()


def _without_eigenvalues(args, kwargs):
    return not kwargs.get("hermitian") or not args[0].numel()


# Operators that call another for some arguments only (calls.txt marks that with ?): the part, and the calls that do not
# reach it. aten/src/ATen/native/ReduceOps.cpp, cummax_out; BinaryOps.cpp, ldexp; LinearAlgebra.cpp, linalg_pinv.
_REACHED = {"aten::cummax": ("aten::_cummax_helper", _nothing_to_do),
            "aten::cummax.out": ("aten::_cummax_helper", _nothing_to_do),
            "aten::cummin": ("aten::_cummin_helper", _nothing_to_do),
            "aten::cummin.out": ("aten::_cummin_helper", _nothing_to_do),
            "aten::linalg_pinv.atol_rtol_tensor": ("aten::_linalg_eigh.eigenvalues", _without_eigenvalues)}


def part_of(name):
    """(an operator that this one calls, which calls of this one do not reach it), or (None, None)."""
    return _REACHED.get(name, (None, None))

