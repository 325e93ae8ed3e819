"""torch.Generator is replaced by a class that makes generators of the CPU or of MPS."""

import functools

import torch

from ..current import current
from ..errors import cuda_error
from ..generators import Base, OfMPS
from .names import device_type, replace

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


class _Either(type(Base)):
    def __instancecheck__(cls, it):
        return isinstance(it, Base) if cls is Generator else type.__instancecheck__(cls, it)

    def __subclasscheck__(cls, it):
        return issubclass(it, Base) if cls is Generator else type.__subclasscheck__(cls, it)


class Generator(Base, metaclass=_Either):
    def __new__(cls, device=None):
        kind = device_type(device)
        if kind == "mps" or isinstance(device, int) and not isinstance(device, bool):
            current.double.check_available()
            return OfMPS()
        if kind == "cuda":
            raise cuda_error()
        if cls is not Generator:
            return Base.__new__(cls, "cpu" if device is None else device)
        return Base("cpu" if device is None else device)


Generator.__module__ = "torch._C"
Generator.__doc__ = Base.__doc__


def install(double):
    torch._C._mps_get_default_generator = lambda: current.double.stream.default
    current.forget.append(_forget)
    _forget()
    replace(Base, Generator, "Generator")
    torch._C.Generator = torch.Generator = Generator
    for name in ("manual_seed", "seed"):
        call = getattr(torch, name)
        replace(call, _seeding(call), name)


def _forget():
    """torch.mps keeps the default generator that it was given."""
    if getattr(torch.mps, "_default_mps_generator", None) is not None:
        torch.mps._default_mps_generator = current.double.stream.default


def _seeding(call):
    @functools.wraps(call)
    def seeding(*args, **kwargs):
        out = call(*args, **kwargs)
        current.double.stream.seeded()
        return out
    return seeding
