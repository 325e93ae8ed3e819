"""Module.train and Module.eval: when a model is evaluated, and when it trains again."""

from ... import guest
from ...timeline import T
from . import reached
from .autograd import compiling_test

_outermost = None  # the module whose train() is under way: those of its parts are a part of it


def install(torch, config):
    cls = torch.nn.Module
    compiling = compiling_test(torch)

    def begin(module, mode=True):
        # Each part of a model is asked as well: they are told from here.
        return _outermost is None and begins(module, mode)

    @guest.hook
    def begins(module, mode):
        global _outermost
        if compiling() or not T.on or not T.number and not T.over() or not T.mine():
            return False
        _outermost = module
        if mode is False:
            reached.put_aside(module)
            if module.__dict__.get("training"):
                T.evaluates(id(module))
        elif mode is True:
            T.evaluated(id(module))
        return True

    @guest.hook
    def end(error):
        global _outermost
        _outermost = None

    cls.train = guest.around(cls.train, begin, end)
