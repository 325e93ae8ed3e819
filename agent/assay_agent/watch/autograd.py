"""Backward: torch.autograd.backward (which Tensor.backward calls) and torch.autograd.grad."""

import functools

from .. import guest
from ..timeline import T
from . import numerics


def compiling_test(torch):
    """A test that torch._dynamo folds to True while it traces: what follows it is not compiled into the graph."""
    test = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return test if test is not None else (lambda: False)


def install(torch, config):
    module = torch.autograd
    compiling = compiling_test(torch)

    def watched(call, keeps_loss):
        @functools.wraps(call)
        def wrapped(*args, **kwargs):
            if compiling() or T.busy or not T.on or not T.mine():
                return call(*args, **kwargs)
            if keeps_loss:
                numerics.on_backward(args[0] if args else kwargs.get("tensors"))
            T.backward_begin()
            try:
                result = call(*args, **kwargs)
            except BaseException:
                T.backward_end()
                guest.hide()
                raise
            T.backward_end()
            return result

        return wrapped

    module.backward = watched(module.backward, True)
    module.grad = watched(module.grad, False)
