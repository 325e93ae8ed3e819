"""Optimizers choose by the device of their parameters."""

import functools
import sys

import torch
import torch.utils._foreach_utils as utils

from ..current import current
from .names import replace

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    series = double.series
    fused = utils._get_fused_kernels_supported_devices
    listed = fused()
    private = torch._C._get_privateuse1_backend_name()
    if series < (2, 4):
        wanted = ["cuda", "xpu", private]
    elif series < (2, 5):
        wanted = ["cuda", "xpu", "cpu", private]
    else:
        wanted = listed if "mps" in listed else ["mps"] + listed
    if wanted != listed:
        def _get_fused_kernels_supported_devices():
            return list(wanted)

        functools.update_wrapper(_get_fused_kernels_supported_devices, fused)
        replace(fused, _get_fused_kernels_supported_devices, "_get_fused_kernels_supported_devices")
    optimizer = sys.modules.get("torch.optim.optimizer")
    check = vars(optimizer).get("_device_dtype_check_for_fused") if optimizer else None
    if check is not None and series < (2, 5):
        def _device_dtype_check_for_fused(p, cuda_unsupported=False):
            if not (p.device.type in wanted and torch.is_floating_point(p)):
                raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported "
                                   "devices: %s." % wanted)

        replace(check, functools.wraps(check)(_device_dtype_check_for_fused), "_device_dtype_check_for_fused")
    if series < (2, 5):
        for name in ("Adam", "AdamW", "SGD", "Adagrad"):
            _fused_in_constructor(getattr(torch.optim, name), wanted)
    group = getattr(torch._C, "_group_tensors_by_device_and_dtype", None)
    if group is not None:
        torch._C._group_tensors_by_device_and_dtype = _grouping(group)


def _fused_in_constructor(cls, devices):
    """Up to 2.4 fused=True was refused when the optimizer was made, later when it first runs."""
    init = cls.__init__

    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        if any(group.get("fused") for group in self.param_groups) and not all(
                p.device.type in devices and torch.is_floating_point(p) for group in self.param_groups
                for p in group["params"]):
            raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported "
                               "devices: %s." % devices)

    cls.__init__ = __init__


def _grouping(group):
    """C++ sees CPU tensors: name the device of each group, and part those that live on MPS from those that do not."""
    @functools.wraps(group)
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
        first = tensorlistlist[0] if tensorlistlist else ()
        where = [t is not None and current.double.place.on_mps(t) for t in first]
        if not any(where):
            return group(tensorlistlist, with_indices)
        out = {}
        for on in (True, False):
            chosen = [i for i, there in enumerate(where) if there is on]
            if not chosen:
                continue
            lists = [[ts[i] for i in chosen] if ts else ts for ts in tensorlistlist]
            for (device, dtype), (tensors, indices) in group(lists, with_indices).items():
                out[(torch.device("mps", 0) if on else device, dtype)] = (tensors, [chosen[i] for i in indices])
        return out

    return _group_tensors_by_device_and_dtype
