"""Which generators of random numbers were given a seed, where, and how often: Python's own and NumPy's here, a
framework's in its folder. Calls are looked at as they are made; no generator is asked for a number.
"""

import os
import sys

from .. import guest, place, process, wire
from .imports import when_imported

ROWS = 64  # different calls that are told

_calls = {}  # (what, value, user's line, library line) -> [times, first step]
_watched = []  # what is looked at in this process
_sent = [None]
_hash = ""


def install(config):
    global _hash
    _hash = os.environ.get("PYTHONHASHSEED", "")  # as Python has read it
    when_imported("random", _random)
    when_imported("numpy.random", _numpy)
    wire.source(_gather)
    process.after_fork(clear)


def clear():
    """A forked child tells its own."""
    _calls.clear()
    _sent[0] = None


def watched(what):
    """From here on calls of it are seen: where none is told, none was made."""
    _watched.append(what)


def seen(what, value, depth, own=False):
    """A seed is given. depth: of the frame that gives it, as place.where counts; own: only where a line of the user's own
    does."""
    user, via = place.where(depth + 1)
    if own and (via or not user):
        return
    key = what, spelled(value), user, via
    row = _calls.get(key)
    if row is None:
        if len(_calls) >= ROWS:
            return
        timeline = sys.modules.get(__package__.rpartition(".")[0] + ".timeline")
        row = _calls[key] = [0, timeline.T.number if timeline is not None else 0]
    row[0] += 1


def spelled(value):
    """A seed as text: a number as it is, of anything else its type; empty where none was given."""
    if value is None:
        return ""
    if type(value) is int or type(value) is float or type(value) is bool:
        return repr(value)[:80]
    kind = type(value)
    if kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0 and value.dtype.kind in "iu":
        return str(int(value))
    if type(value) in (list, tuple) and len(value) <= 8 and all(type(item) is int for item in value):
        return repr(value)[:200]
    return "(%s)" % kind.__name__


def _gather():
    state = sum(row[0] for row in _calls.values()), len(_watched)
    if state == _sent[0]:
        return
    _sent[0] = state
    rows = [[what, value, user, via, n, step] for (what, value, user, via), (n, step) in list(_calls.items())]
    wire.put({"ev": "seeds", "watched": list(_watched), "hash_seed": _hash, "rows": rows})


def _random(module):
    generator = module._inst

    @guest.hook
    def seeds(own, a=None, *_):
        if own is generator:
            seen("random.seed", a, 4)
        return False

    cls = module.Random
    cls.seed = guest.around(cls.seed, seeds, None)
    module.seed = generator.seed  # bound to the method as it now is
    watched("random.seed")


def _numpy(module):
    for name, own in (("seed", False), ("default_rng", True)):
        setattr(module, name, _noting("numpy.random." + name, getattr(module, name), own))
        watched("numpy.random." + name)


def _noting(what, function, own):
    """A function in C, with a look at its first argument before it is called, at its caller's line."""

    @guest.hook
    def look(args, kwargs):
        seen(what, args[0] if args else kwargs.get("seed"), 4, own)

    def noted(*args, **kwargs):
        look(args, kwargs)
        try:
            return guest.at_caller(sys._getframe(1), int, function, _ignore, guest.hide_site)(*args, **kwargs)
        except BaseException:
            guest.hide()
            raise

    noted.__name__ = noted.__qualname__ = function.__name__
    noted.__doc__, noted.__module__ = function.__doc__, "numpy.random"
    return noted


def _ignore(begun, args, result):
    pass
