"""Kernels written in Python, by torch.library. One is called with the mode off, and what it does must be seen; one for
MPS is called for tensors that are the CPU's here."""

import functools

import torch

from ..current import state
from ..dispatch import OperatorsOnDouble
from ..kernels import PLAIN_KEYS, written_for
from .compiler import touches_mps

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    Library = torch.library.Library
    impl = Library.impl

    def watched(kernel):
        @functools.wraps(kernel)
        def run(*args, **kwargs):
            if state.off or torch._C._len_torch_dispatch_stack():
                return kernel(*args, **kwargs)
            with OperatorsOnDouble():
                return kernel(*args, **kwargs)
        return run

    @functools.wraps(impl)
    def implement(self, op_name, fn, dispatch_key="", **more):
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        plain = callable(fn) and not more.get("with_keyset") and not isinstance(fn, torch._ops.OpOverload)
        if not plain or key not in PLAIN_KEYS + ("MPS",):
            return impl(self, op_name, fn, dispatch_key, **more)
        name = op_name._schema.name if hasattr(op_name, "_schema") else op_name
        overload = getattr(getattr(op_name, "_schema", None), "overload_name", "")
        name = (name if "::" in name else self.ns + "::" + name) + ("." + overload if overload else "")
        kernels = written_for(name)
        first = not kernels
        kernels[key] = fn
        if key not in ("CPU", "MPS"):
            return impl(self, op_name, watched(fn), dispatch_key, **more)
        if not first:
            return None

        def chosen(*args, **kwargs):
            there = touches_mps(None, args, kwargs)
            return kernels["MPS" if there and "MPS" in kernels or "CPU" not in kernels else "CPU"](*args, **kwargs)

        return impl(self, op_name, watched(chosen), "CPU", **more)

    Library.impl = implement
