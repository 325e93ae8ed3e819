"""Memory: what the device's allocator counts, and the process's own, by phase and at the end of each epoch."""

import os
import sys

from .. import process, wire
from ..timeline import T

_phases = {}  # phase -> list of (live, pool, resident, swap)


def install(framework, config):
    T.phase_hook = _phase
    T.open_hooks.append(_sample)
    T.epoch_hooks.append(_epoch)
    process.finisher(_peak)
    wire.source(_gather)


def clear():
    """A forked child tells its own."""
    _phases.clear()


_page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_usage = None


def _read(path):
    """A file of /proc, by descriptor: a file object that is left open, as where the script raises just then, would
    warn."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)


def resident():
    """Bytes of the process: resident set on Linux (/proc/self/statm), physical footprint on macOS; -1: not known."""
    try:
        if sys.platform == "linux":
            return int(_read("/proc/self/statm").split()[1]) * _page
        if sys.platform == "darwin":
            return _footprint()
    except (OSError, ValueError, AttributeError, LookupError):
        pass
    return -1


def _footprint():
    """proc_pid_rusage, flavour 4: ri_phys_footprint is the u64 at byte 72 (xnu, bsd/sys/resource.h)."""
    global _usage
    import ctypes

    if _usage is None:
        _usage = ctypes.CDLL("/usr/lib/libproc.dylib").proc_pid_rusage, ctypes.create_string_buffer(512)
    call, buffer = _usage
    if call(os.getpid(), 4, buffer) != 0:
        return -1
    return int.from_bytes(buffer.raw[72:80], "little")


def _phase(name):
    live, pool = _account()
    _phases.setdefault(name, []).append((live, pool, resident(), swap()))


_swap_usage = None


def swap():
    """Bytes of swap in use on the machine: /proc/meminfo on Linux, sysctl vm.swapusage on macOS; -1: not known."""
    global _swap_usage
    try:
        if sys.platform == "linux":
            rows = dict(line.split(b":", 1) for line in _read("/proc/meminfo").splitlines())
            return (int(rows[b"SwapTotal"].split()[0]) - int(rows[b"SwapFree"].split()[0])) * 1024
        if sys.platform == "darwin":
            import ctypes

            if _swap_usage is None:
                _swap_usage = ctypes.CDLL(None).sysctlbyname, ctypes.create_string_buffer(32), ctypes.c_size_t(32)
            call, buffer, size = _swap_usage
            size.value = 32  # struct xsw_usage: total, available, used (u64 each), page size, encrypted
            if call(b"vm.swapusage", buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) == 0 and size.value == 32:
                return int.from_bytes(buffer.raw[16:24], "little")
    except (OSError, ValueError, AttributeError, LookupError):
        pass
    return -1


def _account():
    """(live, pool) of the device, bytes; -1: not known."""
    return T.device.memory() if T.device.memory is not None else (-1, -1)


def _sample(number, timeline):
    """Where nothing runs asynchronously, the phases of the sampled steps are noted; waiting costs nothing there."""
    if timeline.device.kind and timeline.device.synchronize is None and timeline.sampled:
        timeline.sync = _nothing
    return None


def _nothing():
    pass


def _epoch(epoch, timeline):
    live, pool = _account() if timeline.on else (-1, -1)  # at goodbye what was trained is gone
    wire.put(
        {"ev": "epoch", "number": epoch, "step": timeline.number, "live": live, "pool": pool, "resident": resident()}
    )
    _peak()


def _peak():
    """What the allocator itself keeps: of steps without a reading as well."""
    if T.number and T.device.peak is not None:
        live, pool, source = T.device.peak()
        wire.put({"ev": "peak", "live": live, "pool": pool, "source": source})


def _gather():
    if _phases:
        rows = dict(_phases)
        _phases.clear()
        wire.put({"ev": "memory", "phases": rows})
