"""How long what the script does will be, as something of it says: which loader its epochs are counted by, and what a
progress bar counts. Looked at by the sending thread, from what others hold: no hook, nothing on the training thread.

A bar that is being drawn is told as well: who draws there wants no line of ours between.
"""

import sys

from .. import wire
from ..timeline import T

LEAST = 5  # steps over which a bar and the loop must have gone on alike

_told = [0]  # the loader
_bar = [False, False]  # that one is drawn, that its length is known: told
_seen = {}  # id of a bar -> what it and the loop had counted when it was first seen


def clear():
    """A forked child tells its own."""
    _told[0], _bar[:] = 0, [False, False]
    _seen.clear()


def gather():
    """Before each batch of events: what is new of it."""
    if not T.number:
        return
    primary = T.primary
    if primary and primary != _told[0] and isinstance(primary, int):
        _told[0] = primary
        wire.put({"ev": "length", "loader": primary})
    if not _bar[0] or not _bar[1]:
        _bars()


def _bars():
    for bar in _tqdm():
        if getattr(bar, "disable", True):
            continue
        _drawn("tqdm")
        _count(bar)
    if _rich():
        _drawn("rich")


def _drawn(by):
    if not _bar[0]:
        _bar[0] = True
        wire.put({"ev": "bar", "by": by})


def _tqdm():
    """The bars of tqdm that there are now: it keeps them in a set of weak references, to place them below one
    another."""
    module = sys.modules.get("tqdm.std")
    try:
        return list(module.tqdm._instances) if module is not None else []
    except (AttributeError, RuntimeError, TypeError):  # one was made just now
        return []


def _rich():
    """Whether rich draws a live display on its own console: one that is not there is not made by asking."""
    module = sys.modules.get("rich")
    console = getattr(module, "_console", None)
    return bool(getattr(console, "_live_stack", None) or getattr(console, "_live", None))


def _count(bar):
    """Where no loader says how long the loop is, a bar that goes on with its steps does."""
    n, total, number = getattr(bar, "n", None), getattr(bar, "total", None), T.number
    if _bar[1] or T.epoch or not isinstance(n, int) or not isinstance(total, int) or len(_seen) > 100:
        return
    n0, number0 = _seen.setdefault(id(bar), (n, number))
    if n < n0:  # another bar, at the place of one that is gone
        _seen[id(bar)] = (n, number)
        return
    steps = number - number0
    if steps < LEAST or abs(n - n0 - steps) > max(1, steps // 10):  # a bar notes several iterations at once
        return
    _bar[1] = True
    wire.put({"ev": "length", "of": "loop", "steps": total, "by": "the script's progress bar"})
