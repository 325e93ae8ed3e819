"""Pinned memory in a DataLoader: refused with a warning from 2.7 on, ignored before."""

import functools
import warnings

import torch
import torch.utils.data.dataloader as dataloader

from ..current import current
from .names import script_level

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    base = dataloader._BaseDataLoaderIter
    init = base.__init__

    @functools.wraps(init)
    def __init__(self, loader):
        pin, device = loader.pin_memory, loader.pin_memory_device
        if not pin and not device:
            init(self, loader)
            return
        before, keep = _pinning(current.double.series, pin, device), (pin, device)
        for text in before[0]:
            warnings.warn(text, stacklevel=script_level())
        loader.pin_memory, loader.pin_memory_device = False, ""
        try:
            init(self, loader)
        finally:
            loader.pin_memory, loader.pin_memory_device = keep
        self._pin_memory, self._pin_memory_device = before[1], before[2]

    base.__init__ = __init__


def _pinning(series, pin, device):
    """(warnings, whether it pins, on which device) of an iterator over a DataLoader."""
    available = torch.backends.mps.is_available()
    unused = "'pin_memory' argument is set as true but not supported on MPS now, device pinned memory won't be used."
    nothing = ("'pin_memory' argument is set as true but no accelerator is found, "
               "then device pinned memory won't be used.")
    if series < (2, 7):
        if not device:
            return [], False, None
        if not pin:
            return ["pin memory device is set and pin_memory flag is not used then device pinned memory won't be used"
                    "please set pin_memory to true, if you need to use the device pin memory"], False, None
        return [], True, device
    if series < (2, 9):
        if device:
            if not pin:
                text = ("'pin_memory_device' is set but 'pin_memory' argument is not set, then device pinned memory "
                        "won't be used.please set 'pin_memory' to true, if you need to use the device pin memory")
                return [text], False, None
            return [], True, device
        return [unused if available else nothing], False, None
    if not pin:
        return [], False, None
    said = []
    if device:
        said.append("pin_memory_device is deprecated, the current accelerator will be used as the device,"
                    "ignore pin_memory_device='%s'." % device)
    said.append(unused if available else nothing)
    return said, False, "mps" if available else None
