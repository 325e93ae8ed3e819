"""Whether results are the same: within PyTorch's own tolerances by type.

The tolerances are those of torch/testing/_comparison.py (default_tolerances; its table _DTYPE_PRECISIONS: float16 1e-3 and 1e-5,
bfloat16 1.6e-2 and 1e-5, float32 1.3e-6 and 1e-5, float64 1e-7 and 1e-7, relative and absolute), as the installed release has
them. Integers and bools are the same or are not. NaN equals NaN, an infinity itself.
"""

import torch
from torch.testing._comparison import default_tolerances

HALF = (torch.float16, torch.bfloat16)


def wide(t):
    return t.to(torch.complex128 if t.dtype.is_complex else torch.float64)


def departs(got, want, dtype=None):
    """None where `got` is `want`, both on the CPU; else {"text", …} with by how much and where. dtype: whose tolerances count,
    where not those of `got`."""
    if got.shape != want.shape:
        return {"text": "its shape is %s, the CPU's %s" % (list(got.shape), list(want.shape))}
    rtol, atol = default_tolerances(dtype or got.dtype)
    if rtol == 0 and atol == 0:
        off = got != want
        if not bool(off.any()):
            return None
        at = first(off)
        a, b = got[tuple(at)].item(), want[tuple(at)].item()
        return {"text": "%s where the CPU has %s" % (a, b), "max_abs": float(abs(a - b)), "allowed_abs": 0.0, "allowed_rel": 0.0, "at": at}
    a, b = wide(got), wide(want)
    near = torch.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if bool(near.all()):
        return None
    gap = (a - b).abs()
    gap = torch.where(near | torch.isnan(gap), torch.zeros_like(gap), gap)
    at = unravel(int(gap.argmax()), gap.shape) if bool(gap.any()) else first(~near)
    finite = torch.isfinite(gap)
    rel = torch.where(near, torch.zeros_like(gap), gap / b.abs().clamp_min(1e-300))
    x, y = a[tuple(at)].item(), b[tuple(at)].item()
    return {"text": "%.6g where the CPU has %.6g, %d of %d elements depart" % (number(x), number(y), int((~near).sum()), near.numel()),
            "max_abs": float(gap[finite].max()) if bool(finite.any()) else None,
            "max_rel": float(rel[torch.isfinite(rel)].max()) if bool(torch.isfinite(rel).any()) else None,
            "allowed_abs": atol, "allowed_rel": rtol, "at": at}


def number(x):
    return abs(x) if isinstance(x, complex) else x


def first(mask):
    return [int(n) for n in mask.nonzero()[0]] if mask.dim() else []


def unravel(flat, shape):
    at = []
    for size in reversed(shape):
        at.append(flat % size)
        flat //= size
    return at[::-1]


def error(got, exact):
    """The largest difference of the elements that are finite on both sides; 0 where there are none."""
    gap = (wide(got) - wide(exact)).abs()
    gap = gap[torch.isfinite(gap)]
    return float(gap.max()) if gap.numel() else 0.0


def loosely(got, want):
    """For operators that draw: the same shape and type, and values that lie where the CPU's do, half as far again allowed for."""
    if got.shape != want.shape:
        return {"text": "its shape is %s, the CPU's %s" % (list(got.shape), list(want.shape))}
    if not want.numel() or want.dtype.is_complex:
        return None
    a, b = wide(got), wide(want)
    if bool(torch.isfinite(b).all()) and not bool(torch.isfinite(a).all()):
        return {"text": "values that are not finite, the CPU has none"}
    a, b = a[torch.isfinite(a)], b[torch.isfinite(b)]
    if a.numel() < ENOUGH or b.numel() < ENOUGH:
        return None
    low, high = float(b.min()), float(b.max())
    room = (high - low) / 2 + 1e-6
    if float(a.min()) < low - room or float(a.max()) > high + room:
        return {"text": "values from %.6g to %.6g, the CPU's from %.6g to %.6g" % (float(a.min()), float(a.max()), low, high)}
    return None


ENOUGH = 100  # elements below which the range of what is drawn says nothing


def same_kind(got, want):
    """Whether what is not finite is so on both sides."""
    a, b = wide(got), wide(want)
    return bool((torch.isfinite(a) == torch.isfinite(b)).all())
