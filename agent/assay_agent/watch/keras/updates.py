"""Optimizers of Keras's: `apply` is one update wherever it is called eagerly; where it is being traced, what is traced
is a function that updates."""

import sys

from ... import guest
from ...timeline import T
from . import backend, functions

_phase = []  # of the optimizer, once it has stepped: PyTorch's, where that computes


def install(keras, config):
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    BaseOptimizer.apply = guest.around(BaseOptimizer.apply, _applies, _applied)
    BaseOptimizer.stateless_apply = guest.around(BaseOptimizer.stateless_apply, _stateless, _applied)


@guest.hook
def _applies(optimizer, grads, trainable_variables=None):
    if not T.on or not (T.owner is None or T.mine()) or backend.whole() and T.in_whole():
        return False
    if backend.name() == "torch":
        compiler = getattr(sys.modules["torch"], "compiler", None)
        if compiler is not None and getattr(compiler, "is_compiling", bool)():
            return False
    elif backend.name() == "tensorflow":
        if functions.traced(list(trainable_variables or ())[:1]):
            return False
    elif any([hook("keras") for hook in T.update_hooks]):
        return False
    if not T.mine() or not T.free():
        return False
    backend.leads(list(trainable_variables or ())[:1], eager=True)
    if not _phase:
        _phase.append(T.phase("optimizer", 50, "optimizer", "parameter update"))
    T.optimizer_begin(_phase[0], id(optimizer))
    return True


@guest.hook
def _applied(error):
    T.optimizer_end(_phase[0])


@guest.hook
def _stateless(optimizer, optimizer_variables, grads, trainable_variables):
    return _applies(optimizer, grads, trainable_variables)
