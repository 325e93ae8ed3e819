"""Calls in which the script waits for what it has queued, by its line: mx.eval and whatever reads an array.

NumPy reads an array's memory without asking a method (`numpy.array(x)`), and is not seen.
"""

import sys
from functools import partial

from ... import guest, place, wire
from ...timeline import T, now
from . import losses, sampled, within

METHODS = {
    "item": "item",
    "tolist": "tolist",
    "__array__": "numpy",
    "__bool__": "bool(array)",
    "__float__": "float(array)",
    "__int__": "int(array)",
    "__index__": "index(array)",
    "__repr__": "print(array)",
    "__format__": "format(array)",
    "__dlpack__": "dlpack",
}
FUNCTIONS = {"eval": "mx.eval", "synchronize": "mx.synchronize"}

_points = {}  # (call, user code, line, library code, line) -> [count, ns, changed, in steps]
_places = guest.Places()
_on = True
_done = None  # gradients and updates until the last wait
_inside = False  # a timed call is under way: what it calls in turn is part of it


def install(mx, config):
    for name, call in FUNCTIONS.items():
        if name in vars(mx):
            _places.put(mx, name, guest.stand_in(vars(mx)[name], _function(call)))
    for name, call in METHODS.items():
        if name in vars(mx.array):
            _places.put(mx.array, name, guest.Method(vars(mx.array)[name], _method(call)))
    wire.source(_gather)


def clear():
    """A forked child tells its own."""
    _points.clear()


def switch(on):
    """What the script has taken as its own (`from mlx.core import eval`) stays ours, and does nothing."""
    global _on
    _on = on
    _places.switch(on)


def _watched():
    return _on and T.on and not _inside and not within.depth and (T.owner is None or T.mine())


def _function(call):
    def bind(original, about):
        return _timed(call, original, None, sys._getframe(3)) if _watched() else None

    return bind


def _method(call):
    def bind(array, method):
        return _timed(call, method, array, sys._getframe(3)) if _watched() else None

    return bind


def _timed(call, original, array, frame):
    return guest.at_caller(frame, _begin, original, partial(_end, call, array), _failed)


@guest.hook
def _begin():
    global _inside
    _inside = True
    return now()


@guest.hook
def _end(call, array, t, args, result):
    global _inside
    _inside = False
    _note(call, t)
    losses.waited(args if array is None else (array,))


def _failed():
    global _inside
    _inside = False
    guest.hide_site()


def _note(call, t):
    global _done
    T.took(sampled.EVALUATION, t)
    done = T.counts["backward"], T.counts["optimizer"]
    if _done != done:
        _done = done
        T.computed()
    key = (call,) + place.key(5)
    point = _points.get(key)
    if point is None:
        if len(_points) >= 2000:
            return
        point = _points[key] = [0, 0, True, 0]
    point[0] += 1
    point[1] += now() - t
    point[2] = True
    if T.step.backwards or T.step.opts:
        point[3] += 1
    T.counts["sync"] += 1


def _gather():
    rows = []
    for key, point in list(_points.items()):
        if point[2]:
            point[2] = False
            user, via = place.text(key[1:])
            rows.append([key[0], user, via, point[0], point[1], True, point[3]])
    if rows:
        wire.put({"ev": "syncs", "rows": rows})  # totals so far: the last row of a place counts
