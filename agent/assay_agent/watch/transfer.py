"""Copies to the device, and calls that make the host wait for it, by the user's line.

On a CPU nothing waits; the calls are listed all the same, since they are what would wait on an asynchronous device.
"""

import functools
import os
import sys
import time

from .. import place, wire
from ..timeline import T
from . import numerics

original = {}  # the methods as they were, for the agent's own use
_points = {}  # (call, user code, line, library code, line) -> [count, ns, waits, changed, in steps]
_inside = False
now = time.perf_counter_ns


def install(torch, config):
    global _torch_root
    _torch_root = os.path.dirname(torch.__file__) + os.sep
    cls = torch.Tensor
    for name in ("item", "cpu", "numpy", "tolist", "__bool__", "__float__", "__int__", "__index__", "__repr__", "__format__",
                 "nonzero", "to", "cuda"):
        original[name] = getattr(cls, name)
    for name in ("item", "cpu", "numpy", "tolist", "__bool__", "__float__", "__int__", "__index__", "__repr__", "__format__"):
        _watch_method(cls, name, {"__bool__": "bool(tensor)", "__float__": "float(tensor)", "__int__": "int(tensor)",
                                  "__index__": "index(tensor)", "__repr__": "print(tensor)",
                                  "__format__": "format(tensor)"}.get(name, name))
    if torch.cuda.is_available() or torch.backends.mps.is_built() or _other_accelerator(torch):
        # Without a device there is nothing to copy to, and `to` stays the script's own.
        for name in ("to", "cuda"):
            _watch_copy(cls, name)
    for module in (getattr(torch, "cuda", None), getattr(torch, "mps", None), getattr(torch, "accelerator", None)):
        if hasattr(module, "synchronize"):
            _watch_function(module, "synchronize", module.__name__ + ".synchronize")
    wire.source(_gather)


def _other_accelerator(torch):
    xpu = getattr(torch, "xpu", None)
    return xpu is not None and xpu.is_available()


_internals = {}  # code object -> does it belong to torch
_torch_root = ""


def _internal(code):
    known = _internals.get(code)
    if known is None:
        known = _internals[code] = code.co_filename.startswith(_torch_root)
    return known


def _note(call, waits, ns):
    global _inside
    key = (call,) + place.key(3)
    point = _points.get(key)
    if point is None:
        if len(_points) >= 2000:
            return
        point = _points[key] = [0, 0, waits, True, 0]
    point[0] += 1
    point[1] += ns
    point[2] = point[2] or waits
    point[3] = True
    if T.step.backwards or T.step.opts:
        point[4] += 1
    T.counts["sync"] += 1
    if waits and call in ("item", "cpu", "tolist", "bool(tensor)", "float(tensor)") and len(numerics._waiting) >= 64:
        numerics.fetch()  # the device has just been waited for


def _watch_method(cls, name, call):
    method = getattr(cls, name)

    @functools.wraps(method)
    def watched(self, *args, **kwargs):
        global _inside
        if _inside or not T.on or (T.owner is not None and not T.mine()):
            return method(self, *args, **kwargs)
        waits = not self.is_cpu
        if not waits and (name == "cpu" or _internal(sys._getframe(1).f_code)):
            # A no-op; or PyTorch's own bookkeeping (samplers, step counters), on the CPU wherever the model is.
            return method(self, *args, **kwargs)
        _inside = True
        t = now()
        try:
            return method(self, *args, **kwargs)
        finally:
            _inside = False
            _note(call, waits, now() - t)

    setattr(cls, name, watched)


def _watch_copy(cls, name):
    method = getattr(cls, name)

    @functools.wraps(method)
    def watched(self, *args, **kwargs):
        global _inside
        if not T.on or T.busy or _inside:
            return method(self, *args, **kwargs)
        from_host = self.is_cpu
        t = now()
        result = method(self, *args, **kwargs)
        if from_host != result.is_cpu and (T.owner is None or T.mine()):
            if from_host:
                T.copied(t)
            else:
                _note("to('cpu')", True, now() - t)
        return result

    setattr(cls, name, watched)


def _watch_function(module, name, call):
    function = getattr(module, name)

    @functools.wraps(function)
    def watched(*args, **kwargs):
        global _inside
        if _inside or not T.on or (T.owner is not None and not T.mine()):
            return function(*args, **kwargs)
        _inside = True
        t = now()
        try:
            return function(*args, **kwargs)
        finally:
            _inside = False
            _note(call, True, now() - t)

    setattr(module, name, watched)


def _gather():
    rows = []
    for key, point in list(_points.items()):
        if point[3]:
            point[3] = False
            user, via = place.text(key[1:])
            rows.append([key[0], user, via, point[0], point[1], point[2], point[4]])
    if rows:
        wire.put({"ev": "syncs", "rows": rows})  # totals so far: the last row of a place counts
