"""torch.mps and torch.backends.mps: what they ask of C++."""

import functools
import os
import threading
import time

import torch

from ..current import current
from ..errors import availability_error
from .names import cannot, have

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    C = torch._C

    def newer(major, minor=0):
        return current.double.macos[:2] >= (int(major), int(minor))

    answers = {
        "_has_mps": True, "_mps_is_available": _is_available,
        "_mps_is_in_bad_fork": lambda: current.double.stream.bad_fork,
        "_mps_is_on_macos_or_newer": newer, "_mps_is_on_macos_13_or_newer": lambda minor=0: newer(13, minor),
        "_mps_get_name": lambda: current.double.chip_name or "Apple GPU", "_mps_get_core_count": _cores,
        "_mps_maxBufferLength": lambda: int(current.double.place.ready().max_buffer or 0),
        "_mps_deviceSynchronize": lambda: None, "_mps_synchronize": lambda: None,
        "_mps_emptyCache": lambda: current.double.place.ready().empty_cache(),
        "_mps_setMemoryFraction": lambda f: current.double.place.ready().set_fraction(f),
        "_mps_currentAllocatedMemory": lambda: current.double.place.ready().current,
        "_mps_driverAllocatedMemory": lambda: current.double.place.ready().driver,
        "_mps_recommendedMaxMemory": recommended,
        "_mps_compileShader": _metal("torch.mps.compile_shader"),
        "_mps_loadMetalllib": _metal("torch.mps.load_metallib"),
        "_mps_loadMetallibFromPath": _metal("torch.mps.load_metallib"),
        "_mps_host_alias_storage": _metal("torch.mps._host_alias_storage"),
    }
    answers.update(_event_answers())
    answers.update(_profiler_answers())
    for name, answer in answers.items():
        setattr(C, name, answer)
    if hasattr(C, "has_mps"):
        C.has_mps = True
    if "has_mps" in vars(torch):
        torch.has_mps = True
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
    current.forget.append(_forget)
    _forget()
    backend = torch.backends.mps
    have(double, backend, "is_macos_or_newer", (2, 3), _is_macos_or_newer)
    have(double, backend, "get_name", (2, 9), _get_name)
    have(double, backend, "get_core_count", (2, 9), _get_core_count)


def _is_available():
    return availability_error(current.double.series, current.double.macos) is None


def _cores():
    if current.double.cores:
        return int(current.double.cores)
    current.double.note_use("torch.backends.mps.get_core_count(): the number of GPU cores is not known, 0 was answered")
    return 0


def recommended():
    """torch.mps.recommended_max_memory(), bytes."""
    if current.double.recommended is None:
        current.double.note_use("torch.mps.recommended_max_memory(): not known for this chip, 0 was answered")
        return 0
    return int(current.double.recommended)


def _metal(what):
    return lambda *args, **kwargs: cannot(what, current.double)


def _forked():
    current.double.stream.bad_fork = current.double.account is not None


def _forget():
    """What torch.backends.mps keeps of its answers."""
    for name in ("is_available", "is_macos_or_newer", "is_macos13_or_newer", "get_name", "get_core_count"):
        clear = getattr(vars(torch.backends.mps).get(name), "cache_clear", None)
        if clear is not None:
            clear()


def _is_macos_or_newer():
    @functools.lru_cache()
    def is_macos_or_newer(major, minor):
        return torch._C._mps_is_on_macos_or_newer(major, minor)
    return is_macos_or_newer


def _get_name():
    @functools.lru_cache()
    def get_name():
        return torch._C._mps_get_name()
    return get_name


def _get_core_count():
    @functools.lru_cache()
    def get_core_count():
        return torch._C._mps_get_core_count()
    return get_core_count


def _event_answers():
    """Events by the clock of this machine: nothing runs asynchronously here, so an event has happened when it is
    recorded."""
    events = {}  # id -> [timing, nanoseconds]
    lock = threading.Lock()
    last = [0]

    def acquire(enable_timing):
        with lock:
            last[0] += 1
            events[last[0]] = [bool(enable_timing), 0]
            return last[0]

    def record(number):
        events[number][1] = time.perf_counter_ns()

    def elapsed(start, end):
        a, b = events[start], events[end]
        if current.double.series >= (2, 15) and not (a[1] and b[1]):
            raise RuntimeError("Both events must be recorded before calculating elapsed time")
        if not (a[0] and b[0] and a[1] and b[1]):
            raise RuntimeError("Events were not created with argument 'enable_timing=True'")
        if b[1] <= a[1]:
            raise RuntimeError("End event %d was not recorded after start event %d" % (end, start))
        return (b[1] - a[1]) * 1e-6

    return {"_mps_acquireEvent": acquire, "_mps_releaseEvent": lambda number: events.pop(number, None),
            "_mps_recordEvent": record,
            "_mps_waitForEvent": lambda number: None, "_mps_queryEvent": lambda number: True,
            "_mps_synchronizeEvent": lambda number: None, "_mps_elapsedTimeOfEvents": elapsed}


def _profiler_answers():
    tracing = [False]
    capturing = [False]

    def start(mode, wait=False):
        for token in mode.split(","):
            if token not in ("interval", "event"):
                raise RuntimeError("Invalid Signpost trace mode: " + token)
        if tracing[0]:
            raise RuntimeError("Tracing Signposts is already enabled ")
        tracing[0] = True
        current.double.note_use("torch.mps.profiler: no signposts are made on the double")

    def stop():
        tracing[0] = False

    def start_capture(name):
        capturing[0] = True
        current.double.note_use("torch.mps.profiler.metal_capture: nothing is captured on the double")

    def stop_capture():
        capturing[0] = False

    return {"_mps_profilerStartTrace": start, "_mps_profilerStopTrace": stop,
            "_mps_isCaptureEnabled": lambda: os.environ.get("MTL_CAPTURE_ENABLED") == "1",
            "_mps_isCapturing": lambda: capturing[0],
            "_mps_startCapture": start_capture, "_mps_stopCapture": stop_capture}
