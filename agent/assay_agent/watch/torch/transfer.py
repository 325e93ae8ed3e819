"""Copies to the device, and calls that make the host wait for it, by the user's line.

On a CPU nothing waits; the calls are counted all the same, since they are what would wait on an asynchronous device,
and only looked up, never wrapped: `loss.item()` runs as it would. On a device the call is wrapped to be timed.
"""

import os
import sys
import time

from ... import guest, place, process, wire
from ...timeline import T
from . import numerics

H2D = T.phase("h2d", 20, "to device", "copies from host to device")
_points = {}  # (call, user file, line, library file, line) -> [count, ns, waits, changed, in steps]
_inside = False  # a timed call is under way: what it calls in turn is part of it
_internals = {}  # file of code -> does it belong to torch
_torch_root = ""
_plain = ()  # the classes of tensors that are asked; a subclass may answer by code of the script's
now = time.perf_counter_ns

CALLS = {
    "item": "item",
    "cpu": "cpu",
    "numpy": "numpy",
    "tolist": "tolist",
    "__bool__": "bool(tensor)",
    "__float__": "float(tensor)",
    "__int__": "int(tensor)",
    "__index__": "index(tensor)",
    "__repr__": "print(tensor)",
    "__format__": "format(tensor)",
}


def install(torch, config):
    global _torch_root, _plain
    _plain = (torch.Tensor, torch.nn.Parameter)
    _torch_root = os.path.dirname(torch.__file__) + os.sep
    cls = torch.Tensor
    for name, call in CALLS.items():
        _put(cls, name, _sync(call, name == "cpu"))
    if torch.cuda.is_available() or torch.backends.mps.is_built() or _other_accelerator(torch):
        # Without a device there is nothing to copy to, and `to` stays the script's own.
        for name in ("to", "cuda"):
            _put(cls, name, _copy)
    for module in (getattr(torch, "cuda", None), getattr(torch, "mps", None), getattr(torch, "accelerator", None)):
        if hasattr(module, "synchronize"):
            module.synchronize = _watch_function(module.synchronize, module.__name__ + ".synchronize")
    wire.source(_gather)
    process.forgetter(clear)


_methods = []  # (class, name, ours, what the class itself had by that name)
_INHERITED = object()


def _put(cls, name, bind):
    ours = guest.Method(getattr(cls, name), bind)
    _methods.append((cls, name, ours, cls.__dict__.get(name, _INHERITED)))
    setattr(cls, name, ours)


def switch(on):
    """The class's own methods, or ours. Those of operators (`__bool__` and the like) stay: each change of one gives the
    class and all below it another version, of which there are a thousand (typeobject.c, update_slot)."""
    for cls, name, ours, former in _methods:
        there = cls.__dict__.get(name, _INHERITED)
        if name.startswith("__") or there is not (former if on else ours):
            continue
        if on:
            setattr(cls, name, ours)
        elif former is _INHERITED:
            delattr(cls, name)
        else:
            setattr(cls, name, former)


def clear():
    """A forked child tells its own."""
    _points.clear()


def _other_accelerator(torch):
    xpu = getattr(torch, "xpu", None)
    return xpu is not None and xpu.is_available()


def _internal(code):
    known = _internals.get(code.co_filename)
    if known is None:
        known = _internals[code.co_filename] = code.co_filename.startswith(_torch_root)
    return known


def _watched():
    return not T.bare and T.on and not _inside and (T.owner is None or T.mine()) and not numerics.overridden()


def _sync(call, no_op_on_cpu):
    def bind(tensor, method):
        if not _watched() or type(tensor) not in _plain:
            return method
        if tensor.is_cpu:
            # PyTorch's own bookkeeping (samplers, step counters) is on the CPU wherever the model is.
            if not no_op_on_cpu and not _internal(sys._getframe(3).f_code):
                _note(call, False, 0, 5)
            return method
        return guest.at_caller(
            sys._getframe(3), _begin, method, guest.hook(lambda t, args, result: _end(call, t, 6)), _failed
        )

    return bind


def _begin():
    global _inside
    _inside = True
    return now()


def _end(call, t, depth):
    global _inside
    ns = now() - t
    _inside = False
    _note(call, True, ns, depth)


def _failed():
    global _inside
    _inside = False
    guest.hide_site()


def _copy(tensor, method):
    if T.busy or type(tensor) not in _plain or not _watched():
        return method
    from_host = tensor.is_cpu

    @guest.hook
    def end(t, args, result):
        if type(result) in _plain and from_host != result.is_cpu:
            if from_host:
                T.copied(H2D, t)
            else:
                _note("to('cpu')", True, now() - t, 5)

    return guest.at_caller(sys._getframe(3), now, method, end, guest.hide_site)


def _note(call, waits, ns, depth):
    key = (call,) + place.key(depth)
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
    if waits:
        numerics.waited()


def _watch_function(function, call):
    began = [0]

    @guest.hook
    def begin(*_):
        if not _watched():
            return False
        began[0] = _begin()
        return True

    @guest.hook
    def end(error):
        global _inside
        _inside = False
        if error is None:
            _note(call, True, now() - began[0], 6)

    made = guest.around(function, begin, end)
    made.__wrapped__ = function  # for the agent's own use
    return made


def _gather():
    rows = []
    for key, point in list(_points.items()):
        if point[3]:
            point[3] = False
            user, via = place.text(key[1:])
            rows.append([key[0], user, via, point[0], point[1], point[2], point[4]])
    if rows:
        wire.put({"ev": "syncs", "rows": rows})  # totals so far: the last row of a place counts
