"""JAX 0.5 or later; Flax, Optax and Equinox with it.

A step of JAX's is a call of a compiled function, and what happens in it nobody outside sees: there is no split into
forward and backward. What is seen on the host is a step's whole length, what was waited for, and what was compiled.
"""

from ..adapter import Adapter
from . import calls, compiles, waits


class _Jax(Adapter):
    hooks = (calls, waits, compiles)

    def build(self, framework):
        return {"file": framework.__file__}


ADAPTER = _Jax()
