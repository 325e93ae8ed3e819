"""Optimizers: `update` and `apply_gradients` of mlx.optimizers.Optimizer, whatever class it is of."""

import weakref

from ... import guest
from ...timeline import T
from ..imports import when_imported
from . import losses, sampled, within

_on = True
_under_way = []  # (optimizer, model, gradients) of an update on a sampled step


def install(mx, config):
    when_imported("mlx.optimizers.optimizers", _watch)


def switch(on):
    """They are the mark of a step, and stay."""
    global _on
    _on = on


def _watch(module):
    cls = module.Optimizer

    @guest.hook
    def update(optimizer, model, gradients):
        return _begin(optimizer, model, gradients)

    @guest.hook
    def apply(optimizer, gradients, parameters):
        if T.in_opt:
            return False  # of an update, or of the optimizers of a MultiOptimizer
        return _begin(optimizer, None, gradients)

    @guest.hook
    def end(error):
        _end()

    cls.update = guest.around(cls.update, update, end)
    for owner in (cls, getattr(module, "MultiOptimizer", None)):
        if owner is not None and "apply_gradients" in vars(owner):
            owner.apply_gradients = guest.around(owner.apply_gradients, apply, end)


def _begin(optimizer, model, gradients):
    if within.depth:
        within.updates += T.mine()
        return False
    if not _on and within.compiled_updates or not within.watched():
        return False
    if model is None:
        sampled.whole("apply_gradients is called by itself: which parameters it makes is not seen")
    if T.sync is not None and sampled.plain:
        sampled.due(gradients)  # what was made of them since: clipped, scaled, gathered
        _under_way[:] = [(optimizer, model, gradients)]
    T.optimizer_begin(sampled.phase(sampled.OPTIMIZER), id(optimizer), weakref.ref(optimizer))
    if _under_way:
        losses.gradients(gradients)
    return True


def _end():
    if not T.in_opt:
        return
    if _under_way:
        optimizer, model, gradients = _under_way.pop()
        sampled.due(_updated(model, gradients), optimizer.state)
    T.optimizer_end(sampled.phase(sampled.OPTIMIZER))


def _updated(model, gradients):
    """Of a model's tree those leaves that a tree of gradients has."""
    if isinstance(gradients, dict):
        return [_updated(model[key], inner) for key, inner in gradients.items() if key in model]
    if isinstance(gradients, (list, tuple)):
        return [_updated(part, inner) for part, inner in zip(model, gradients)]
    return model
