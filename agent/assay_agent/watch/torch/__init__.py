"""PyTorch 2.0 or later."""

from ..adapter import Adapter
from . import (
    autograd,
    dataloader,
    environment,
    exhausted,
    mode,
    module,
    numerics,
    only,
    optimizer,
    profile,
    rate,
    reached,
    rehearsal,
    retained,
    scaler,
    scheduler,
    seeds,
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
        rate,
        seeds,
        retained,
        profile,
        warned,
        exhausted,
        reached,
        only,
    )
    always = (environment,)

    def prepare(self, framework, config):
        rehearsal.prepare(framework, config)

    def build(self, framework):
        return environment.build(framework)


ADAPTER = _PyTorch()
