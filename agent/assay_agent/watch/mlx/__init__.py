"""MLX: what is watched is `mlx.core`, the module in C that every other of its modules stands on."""

from ..adapter import Adapter
from . import compiled, device, gradient, hand, limits, losses, mode, optimizer, sampled, wait


class _MLX(Adapter):
    hooks = (device, sampled, limits, losses, hand, gradient, compiled, optimizer, mode, wait)

    def build(self, framework):
        return device.build(framework)


ADAPTER = _MLX()
