"""GradScaler, and the spellings of torch.cuda.amp."""

import functools
import sys
import warnings

import torch

from ..current import current
from ..refuse import FLOAT64
from .names import hide

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    series = double.series
    amp = torch.amp
    module = sys.modules.get("torch.amp.grad_scaler") or sys.modules.get("torch.cuda.amp.grad_scaler")
    scaler = module.GradScaler
    if series < (2, 3):
        hide(amp, "GradScaler")
        hide(torch, "GradScaler")
        if module.__name__ == "torch.amp.grad_scaler":
            hide(module, "GradScaler")
    states = module.OptState
    unscale = scaler.unscale_

    @functools.wraps(unscale)
    def unscale_(self, optimizer):
        scale = getattr(self, "_scale", None)
        if not self._enabled or scale is None or not current.double.place.on_mps(scale):
            return unscale(self, optimizer)
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is states.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is states.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        if current.double.series < (2, 8):
            # scale.double().reciprocal().float()
            raise current.double.refused("aten::_to_copy", "dtype", TypeError(FLOAT64))
        inverse = scale.reciprocal()
        found = torch.full((), 0.0, dtype=torch.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        state["stage"] = states.UNSCALED
        return None

    scaler.unscale_ = unscale_
    cuda_amp = torch.cuda.amp
    for cls, text in ((cuda_amp.autocast, "autocast"), (cuda_amp.GradScaler, "GradScaler")):
        if cls is sys.modules["torch.amp.autocast_mode"].autocast or text == "GradScaler" and series < (2, 3):
            continue
        _deprecated(double.series, cls, "`torch.cuda.amp.%s(args...)` is deprecated. Please use `torch.amp.%s('cuda', "
                                        "args...)` instead." % (text, text))


def _deprecated(series, cls, text):
    """From 2.4 on the CUDA spellings warn; the installed torch may be older or newer than that."""
    warns = getattr(cls, "__deprecated__", None) or getattr(vars(cls).get("__init__"), "__deprecated__", None)
    if series >= (2, 4) and not warns:
        init = cls.__init__

        @functools.wraps(init)
        def __init__(self, *args, **kwargs):
            warnings.warn(text, FutureWarning, stacklevel=2)
            init(self, *args, **kwargs)

        cls.__init__ = __init__
    elif series < (2, 4) and warns:
        for name in ("__new__", "__init__"):
            call = vars(cls).get(name)
            inner = getattr(getattr(call, "__func__", call), "__wrapped__", None)
            if inner is not None:
                setattr(cls, name, staticmethod(inner) if name == "__new__" else inner)
