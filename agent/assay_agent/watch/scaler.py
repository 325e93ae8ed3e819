"""GradScaler: the unscaled loss, and the steps that it skipped."""

import functools

from .. import guest, wire
from ..timeline import T
from . import numerics


def install(torch, config):
    classes = []
    amp = getattr(torch, "amp", None)
    if hasattr(amp, "GradScaler"):
        classes.append(amp.GradScaler)  # 2.3 and later; torch.cuda.amp.GradScaler derives from it
    else:
        classes.append(torch.cuda.amp.GradScaler)
    for cls in classes:
        _watch(cls)


def _watch(cls):
    scale, step = cls.scale, cls.step

    @functools.wraps(scale)
    def watched_scale(self, outputs):
        try:
            result = scale(self, outputs)
        except BaseException:
            guest.hide()
            raise
        try:
            if self.is_enabled():
                numerics.on_scale(outputs, result)
        except Exception as err:
            wire.trouble("scaler: %r" % (err,))
        return result

    @functools.wraps(step)
    def watched_step(self, optimizer, *args, **kwargs):
        before = T.counts["optimizer"]
        try:
            result = step(self, optimizer, *args, **kwargs)
        except BaseException:
            guest.hide()
            raise
        if T.on and self.is_enabled() and T.mine():
            if T.counts["optimizer"] == before:
                # The optimizer was not called: the gradients were not finite. The step still is one round.
                wire.put({"ev": "skipped", "step": T.number + 1})
                T.optimizer_begin(id(optimizer))
                T.optimizer_end()
            elif not _seen:
                _seen.append(True)
                wire.put({"ev": "scaler"})
        return result

    cls.scale, cls.step = watched_scale, watched_step


_seen = []
