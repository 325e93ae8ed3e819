"""The framework of agent/tests/toy."""

from ..adapter import Adapter
from . import loop


class _Toy(Adapter):
    hooks = (loop,)

    def build(self, framework):
        return {"file": framework.__file__}


ADAPTER = _Toy()
