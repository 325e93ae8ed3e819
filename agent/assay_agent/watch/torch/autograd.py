"""Backward: torch.autograd.backward (which Tensor.backward calls) and torch.autograd.grad."""

from ... import guest
from ...timeline import T, now
from . import exhausted, hand, numerics
from .module import FORWARD

BACKWARD = T.phase("backward", 40, "backward", "gradients")


def compiling_test(torch):
    """A test that torch._dynamo folds to True while it traces: what follows it is not compiled into the graph."""
    test = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return test if test is not None else (lambda: False)


def clear():
    """A forked child has trained nothing."""
    hand.clear()


def install(torch, config):
    module = torch.autograd
    hand.install(torch, numerics.content)
    compiling = compiling_test(torch)

    @guest.hook
    def backward(tensors, *_):
        if compiling() or not T.on:
            return False
        if T.lean:
            lean(tensors)
            return False
        if not T.trains() or not T.free():
            return False
        leaf = None if T.counts["optimizer"] else hand.begins(tensors)
        if not T.bare or now() >= numerics.due[0]:
            numerics.on_backward(tensors, leaf)
        else:
            numerics.pass_over()
        T.backward_begin(FORWARD)
        return True

    def lean(tensors):
        """What is looked at with nothing else being told."""
        if not T.mine():
            return
        if now() >= numerics.due[0]:
            numerics.on_backward(tensors)
        else:
            numerics.pass_over()
        T.look_at_memory()

    @guest.hook
    def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, *_):
        if compiling() or T.lean or not T.on or not T.trains() or not T.free():
            return False
        whole = False
        if not T.counts["optimizer"]:
            whole, leaf = hand.begins_for(inputs, create_graph)
            if whole:
                numerics.on_backward(outputs, leaf)
        T.backward_begin(FORWARD, whole)
        return True

    @guest.hook
    def end(error):
        if T.whole and not T.counts["optimizer"]:
            hand.over()
        T.backward_end(BACKWARD)
        if error is not None:
            exhausted.note(error)

    module.backward = guest.around(module.backward, backward, end)
    module.grad = guest.around(module.grad, grad, end)
