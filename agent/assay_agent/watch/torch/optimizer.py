"""Optimizers: PyTorch's own hooks around every Optimizer.step, whatever class it is of."""

import weakref

from ... import guest
from ...timeline import T
from . import module as forward
from . import numerics, rate
from .autograd import compiling_test

OPTIMIZER = T.phase("optimizer", 50, "optimizer", "parameter update")


def install(torch, config):
    from torch.optim import optimizer as module

    compiling = compiling_test(torch)

    @guest.hook
    def steps(optimizer):
        T.free(0)
        if not T.bare:
            numerics.on_step(optimizer)
        T.optimizer_begin(OPTIMIZER, id(optimizer), weakref.ref(optimizer))
        rate.on_step(optimizer)  # the step before is closed now, where no fetch has closed it

    @guest.hook
    def stepped():
        T.optimizer_end(OPTIMIZER)

    @guest.hook
    def leaned(optimizer):
        if T.on:
            rate.on_step(optimizer)
            T.lean_step(id(optimizer))

    def begin(optimizer, args, kwargs):
        # First of all: a compiled step traces this hook, and must find nothing in it.
        if compiling() or T.lean or not T.on or not T.trains():
            return None
        return steps(optimizer)

    def end(optimizer, args, kwargs):
        if compiling() or not (T.in_opt or T.lean) or not T.mine():
            return
        if T.lean:
            leaned(optimizer)
        else:
            stepped()

    def unseen():
        """Whether something was compiled and an optimizer made, which leaves its mark on its class's step."""
        todo = [module.Optimizer] if forward.compiling else []
        while todo:
            cls = todo.pop()
            if getattr(cls.__dict__.get("step"), "hooked", False):
                return True
            todo += type.__subclasses__(cls)
        return False

    T.unseen = unseen
    T.leans = True
    module.register_optimizer_step_pre_hook(begin)
    module.register_optimizer_step_post_hook(end)
