"""Calls that make the host wait for a result, by the user's line: block_until_ready, device_get, and whatever reads a
value: float(), item, tolist, numpy, print.

JAX queues what it is told on every platform, the CPU too: whether a call had to wait is asked of the array.
"""

import sys

from ... import guest
from ...timeline import T, now
from .. import points
from . import calls

READS = {
    "item": "item",
    "tolist": "tolist",
    "tobytes": "tobytes",
    "__array__": "numpy",
    "__float__": "float(array)",
    "__int__": "int(array)",
    "__bool__": "bool(array)",
    "__index__": "index(array)",
    "__complex__": "complex(array)",
    "__repr__": "print(array)",
    "__str__": "print(array)",
    "__format__": "format(array)",
}
LOSSES = ("item", "__float__", "__array__")  # by which scripts read one
_wait = None  # the phase, once something has waited
_inside = None  # the call that is under way: what it calls in turn is part of it
_put = []  # (owner, name, the function as it was, ours)


def install(jax, config):
    points.install()
    cls = calls.arrays(jax)
    for name, call in READS.items():
        function = cls.__dict__.get(name)
        if hasattr(function, "__code__"):
            _watch(cls, name, guest.around(function, *_reading(call, name in LOSSES)))
    block = cls.__dict__.get("block_until_ready")
    if block is not None:
        _watch(cls, "block_until_ready", guest.Method(block, _blocking))
    for name, begin in (("block_until_ready", _asked("block_until_ready")), ("device_get", _asked("device_get"))):
        function = getattr(sys.modules["jax._src.api"], name)
        made = guest.around(function, *begin)
        for owner in (sys.modules["jax._src.api"], jax):
            if getattr(owner, name, None) is function:
                _watch(owner, name, made)


def switch(on):
    """Give JAX its own functions back, or put ours in their place; what the script has put there stays. Those by which
    a loss is read look for losses all the same."""
    for owner, name, theirs, ours in _put:
        if name in LOSSES:
            continue
        there = owner.__dict__.get(name)
        if there is (theirs if on else ours):
            setattr(owner, name, ours if on else theirs)


def _watch(owner, name, made):
    _put.append((owner, name, owner.__dict__[name], made))
    setattr(owner, name, made)


def _free():
    return T.on and _inside is None and (T.owner is None or T.mine())


def _ready(array):
    # Of an array that was deleted (given away, donate_argnums) jaxlib must not be asked: 0.10.2 falls over.
    return array.is_deleted() or array.is_ready()


def _reading(call, number):
    """The hooks around a method that reads an array's value."""

    @guest.hook
    def begin(array, *_):
        global _inside
        if not _free() or T.bare and (not number or id(array) not in calls.scalars):
            return False
        _inside = array, not _ready(array), now()
        return True

    @guest.hook
    def end(error):
        global _inside
        (array, waits, t), _inside = _inside, None
        if error is not None:
            return
        if not T.bare:
            _over(call, waits, t, 6)
        if number and calls.scalars and id(array) in calls.scalars:
            calls.read(array, float(array._npy_value) if array._npy_value is not None else float(array._value))

    return begin, end


def _asked(call):
    """The hooks around a function that waits for a tree of arrays."""

    @guest.hook
    def begin(tree):
        global _inside
        if not _free():
            return False
        _inside = None, True, now()
        return True

    @guest.hook
    def end(error):
        global _inside
        (_, waits, t), _inside = _inside, None
        if error is None:
            _over(call, waits, t, 6)

    return begin, end


def _blocking(array, method):
    if not _free():
        return method
    waits = not _ready(array)

    def begin():
        global _inside
        _inside = array, waits, now()

    def end(t, args, result):
        global _inside
        (_, waits, t), _inside = _inside, None
        _over("block_until_ready", waits, t, 4)

    def failed():
        global _inside
        _inside = None
        guest.hide_site()

    return guest.at_caller(sys._getframe(3), begin, method, guest.hook(end), failed)


def _over(call, waits, t, depth):
    """A call that began at t is over."""
    global _wait
    points.note(call, waits, now() - t, depth)
    if waits and T.owner is not None and calls.ours() and not T.busy and T.opened:
        if _wait is None:
            _wait = T.phase("wait", 65, "wait", "the script waits for a result of the device")
        T.took(_wait, t)
