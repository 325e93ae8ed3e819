"""PyTorch 2.0 or later."""

from ..adapter import Adapter
from . import (
    autograd,
    dataloader,
    environment,
    mode,
    module,
    numerics,
    only,
    optimizer,
    profile,
    rehearsal,
    retained,
    scaler,
    scheduler,
    transfer,
    warned,
)


class _PyTorch(Adapter):
    hooks = (
        environment,
        dataloader,
        module,
        autograd,
        optimizer,
        scaler,
        mode,
        scheduler,
        transfer,
        numerics,
        retained,
        profile,
        warned,
        only,
    )

    def prepare(self, framework, config):
        rehearsal.prepare(framework, config)

    def build(self, framework):
        return environment.build(framework)


ADAPTER = _PyTorch()
