"""Keras 3, on TensorFlow, JAX, PyTorch and MLX: its `fit` and `train_on_batch`, and loops of one's own with its
optimizers.

On PyTorch forward and backward are PyTorch's own, and its hooks see them. Elsewhere a step of Keras's is one compiled
call, and nobody outside sees forward, backward and update apart.
"""

import sys

from ..adapter import Adapter
from . import fit, functions, updates


class _Keras(Adapter):
    hooks = (fit, updates, functions)

    def build(self, framework):
        name = framework.config.backend()
        module = sys.modules.get("mlx.core" if name == "mlx" else name)
        return {"file": framework.__file__, "backend": name, "backend_version": getattr(module, "__version__", "")}


ADAPTER = _Keras()
