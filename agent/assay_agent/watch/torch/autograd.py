"""Backward: torch.autograd.backward (which Tensor.backward calls) and torch.autograd.grad."""

from ... import guest
from ...timeline import T, now
from . import numerics
from .module import FORWARD

BACKWARD = T.phase("backward", 40, "backward", "gradients")


def compiling_test(torch):
    """A test that torch._dynamo folds to True while it traces: what follows it is not compiled into the graph."""
    test = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return test if test is not None else (lambda: False)


def install(torch, config):
    module = torch.autograd
    compiling = compiling_test(torch)

    @guest.hook
    def backward(tensors, *_):
        if compiling() or not T.on or not T.mine() or not T.free():
            return False
        if not T.bare or now() >= numerics.due[0]:
            numerics.on_backward(tensors)
        else:
            numerics.passed[0] += 1
        T.backward_begin(FORWARD)
        return True

    @guest.hook
    def grad(*_):
        if compiling() or not T.on or not T.mine() or not T.free():
            return False
        T.backward_begin(FORWARD)
        return True

    @guest.hook
    def end(error):
        T.backward_end(BACKWARD)

    module.backward = guest.around(module.backward, backward, end)
    module.grad = guest.around(module.grad, grad, end)
