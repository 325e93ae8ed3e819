"""GradScaler: the unscaled loss, and the steps that it skipped."""

from ... import guest, wire
from ...timeline import T
from . import numerics
from .optimizer import OPTIMIZER


def install(torch, config):
    amp = getattr(torch, "amp", None)
    # From 2.3 on torch.cuda.amp.GradScaler derives from torch.amp's.
    cls = amp.GradScaler if hasattr(amp, "GradScaler") else torch.cuda.amp.GradScaler
    cls.scale = guest.around(cls.scale, _scales, None)
    cls.step = guest.around(cls.step, _steps, _stepped)


@guest.hook
def _scales(scaler, outputs):
    if T.on and T.mine() and scaler.is_enabled():
        numerics.on_scale(outputs)
    return False


_before = None  # (optimizer, optimizer steps so far) of the call that is under way


@guest.hook
def _steps(scaler, optimizer, *_):
    global _before
    if not T.on or not scaler.is_enabled() or not T.mine():
        return False
    _before = optimizer, T.counts["optimizer"]
    return True


@guest.hook
def _stepped(error):
    global _before
    (optimizer, count), _before = _before, None
    if error is not None or not T.on:
        return
    if T.counts["optimizer"] == count:
        # The optimizer was not called: the gradients were not finite. The step still is one round.
        wire.put({"ev": "skipped", "step": T.number + 1})
        T.optimizer_begin(OPTIMIZER, id(optimizer))
        T.optimizer_end(OPTIMIZER)
    elif not _seen:
        _seen.append(True)
        wire.put({"ev": "scaler"})


_seen = []
