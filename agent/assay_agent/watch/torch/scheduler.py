"""Schedulers of the learning rate: one that steps now and then does so once an epoch."""

from ... import guest
from ...timeline import T
from ..imports import when_imported


def install(torch, config):
    when_imported("torch.optim.lr_scheduler", _watch)


def _watch(module):
    @guest.hook
    def begin(*_):
        if T.on and T.mine():
            T.may_end_epoch("scheduler")
        return False

    for cls in [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]:
        if cls.__name__ != "Optimizer" and "step" in vars(cls):
            cls.step = guest.around(cls.step, begin, None)
