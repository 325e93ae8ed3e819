"""torch.accelerator, and what it asks of C++."""

import functools
import sys
import types

import torch

from ..current import current
from .backend import recommended
from .names import have, hide, is_torch
from .streams import Stream

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    C, series = torch._C, double.series
    mps = torch.device("mps")

    def not_generic():
        # Until 2.13 the MPS allocator was none of the kind that torch.accelerator asks (PR 186748).
        if current.double.series < (2, 13):
            raise RuntimeError('device_allocator INTERNAL ASSERT FAILED at "c10/core/CachingDeviceAllocator.h", please '
                               'report a bug to PyTorch. '
                               "Allocator for mps is not a DeviceAllocator.")

    def initialized():
        not_generic()
        return current.double.account is not None

    def empty_cache():
        not_generic()
        current.double.place.ready().empty_cache()

    def reset_peak(index=0):
        not_generic()
        current.double.place.reset_peak()

    def memory_info(index=0):
        not_generic()
        total = recommended()
        return max(0, total - current.double.place.ready().driver), total

    def stats(index=0):
        not_generic()
        account = current.double.place.ready()

        def row(now, peak):
            return {"all": {"current": now, "peak": peak}, "small_pool": {"current": 0, "peak": 0},
                    "large_pool": {"current": 0, "peak": 0}}

        # PR 193838
        active = row(account.current, account.peak_current) if current.double.series >= (2, 15) else row(0, 0)
        return {"allocated_bytes": row(account.current, account.peak_current),
                "reserved_bytes": row(account.reserved, account.peak_reserved),
                "active_bytes": active, "num_ooms": account.refusals}

    def capability(index=0):
        refused = {torch.float64, torch.complex128}
        return {"supported_dtypes": {d for d in vars(torch).values() if isinstance(d, torch.dtype)
                                     and d not in refused}}

    answers = {"_accelerator_getAccelerator": lambda: mps, "_accelerator_getDeviceIndex": lambda: 0,
               "_accelerator_setDeviceIndex": lambda index: None,
               "_accelerator_getStream": lambda index=0: Stream(stream_id=0),
               "_accelerator_setStream": lambda stream: None, "_accelerator_synchronizeDevice": lambda index=0: None,
               "_accelerator_exchangeDevice": lambda index: 0, "_accelerator_maybeExchangeDevice": lambda index: 0,
               "_accelerator_isAllocatorInitialized": initialized, "_accelerator_emptyCache": empty_cache,
               "_accelerator_emptyHostCache": lambda: None, "_accelerator_getDeviceStats": stats,
               "_accelerator_resetAccumulatedStats": lambda index=0: not_generic(),
               "_accelerator_resetPeakStats": reset_peak,
               "_accelerator_getMemoryInfo": memory_info, "_accelerator_getDeviceCapability": capability,
               "_accelerator_getDefaultGenerator": lambda index=0: current.double.stream.default}
    for name, answer in answers.items():
        setattr(C, name, answer)
    if hasattr(C, "_get_accelerator"):
        C._get_accelerator = lambda *args: mps
    if series < (2, 6):
        if "accelerator" in vars(torch):
            hide(torch, "accelerator")
        return
    accelerator = vars(torch).get("accelerator")
    if accelerator is None:
        accelerator = types.ModuleType("torch.accelerator",
                                       "As of PyTorch 2.6 or later, made by assay's double for an older one.")
        accelerator.__all__ = []
        sys.modules["torch.accelerator"] = torch.accelerator = accelerator

    def current_accelerator(check_available=False):
        return mps if not check_available or torch.backends.mps.is_available() else None

    class device_index:
        def __init__(self, device):
            self.idx = device

        def __enter__(self):
            return None

        def __exit__(self, *error):
            return None

    def flat(index=None):
        if not initialized():
            return {}
        return {".".join((a, b, c)): n for a, pools in stats().items() if isinstance(pools, dict) for b,
                row in pools.items()
                for c, n in row.items()}

    def get(key):
        return lambda index=None: flat(index).get(key, 0)

    def device_count():
        return int(torch.backends.mps.is_available())

    names = {
        "device_count": ((2, 6), device_count), "is_available": ((2, 6), lambda: device_count() > 0),
        "current_accelerator": ((2, 6), current_accelerator), "current_device_index": ((2, 6), lambda: 0),
        "current_device_idx": ((2, 6), lambda: 0), "set_device_index": ((2, 6), lambda device: None),
        "set_device_idx": ((2, 6), lambda device: None),
        "current_stream": ((2, 6), lambda device=None: Stream(stream_id=0)),
        "set_stream": ((2, 6), lambda stream: None), "synchronize": ((2, 6), lambda device=None: None),
        "device_index": ((2, 8), device_index),
        "empty_cache": ((2, 9), lambda: empty_cache() if initialized() else None),
        "memory_stats": ((2, 9), flat), "memory_allocated": ((2, 9), get("allocated_bytes.all.current")),
        "max_memory_allocated": ((2, 9), get("allocated_bytes.all.peak")),
        "memory_reserved": ((2, 9), get("reserved_bytes.all.current")),
        "max_memory_reserved": ((2, 9), get("reserved_bytes.all.peak")),
        "reset_accumulated_memory_stats": ((2, 9), lambda index=None: None if initialized() else None),
        "reset_peak_memory_stats": ((2, 9), lambda index=None: reset_peak() if initialized() else None),
        "get_memory_info": ((2, 10), lambda index=None: memory_info()),
        "get_device_capability": ((2, 10), lambda device=None: capability()),
        "Graph": ((2, 12), None), "empty_host_cache": ((2, 12), lambda: None), "random": ((2, 14), None),
        "memory": ((2, 9), None),
    }
    for name, (since, call) in names.items():
        if call is not None and name not in vars(accelerator) and since <= series:
            call.__name__ = call.__qualname__ = name
            call.__module__ = "torch.accelerator"
        have(double, accelerator, name, since, (lambda call: lambda: call)(call))
    code = getattr(accelerator.current_accelerator, "__code__", None)
    if series < (2, 7) and code is not None and "check_available" in code.co_varnames:
        def without_check():
            return mps
        without_check.__name__ = without_check.__qualname__ = "current_accelerator"
        inner = accelerator.current_accelerator

        @functools.wraps(without_check)
        def by_caller(*args, **kwargs):
            caller = sys._getframe(1).f_globals.get("__name__")
            return (inner if is_torch(caller) else without_check)(*args, **kwargs)

        accelerator.current_accelerator = by_caller
    clear = getattr(vars(accelerator).get("get_device_capability"), "cache_clear", None)
    if clear is not None:
        clear()
