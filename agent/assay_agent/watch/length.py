"""How long what the script does will be, as something of it says: which loader its epochs are counted by, and what a
progress bar counts. That a bar is being drawn is told as well: who draws there wants no line of ours between.
"""

import sys

from .. import wire
from ..timeline import T

FIRST = 10  # step at which bars are looked at first
LAST = 1 << 14  # and last, after every power of two between: one counts in stretches of a tenth of a second

_told = [0, False]  # the loader; that a bar is drawn
_seen = {}  # id of a bar -> what it had counted at the first look


def install(framework, config):
    T.close_hooks.append(_count)


def clear():
    """A forked child tells its own."""
    _told[:] = 0, False


def gather():
    """Before each batch of events, on the sending thread: what is new of it."""
    if not T.number:
        return
    primary = T.primary
    if primary and primary != _told[0] and isinstance(primary, int):
        _told[0] = primary
        wire.put({"ev": "length", "loader": primary})
    if not _told[1]:
        by = "tqdm" if _tqdm() else "rich" if _rich() else None
        if by:
            _told[1] = True
            wire.put({"ev": "bar", "by": by})


def _tqdm():
    """The bars of tqdm that are drawn now: it keeps them in a set of weak references, to place them below one another.
    Only the references are given: a bar that this thread held would be closed by it, were it the last to let go."""
    module = sys.modules.get("tqdm.std")
    return getattr(getattr(getattr(module, "tqdm", None), "_instances", None), "data", ())


def _rich():
    """Whether rich draws a live display on its own console: one that is not there is not made by asking."""
    console = getattr(sys.modules.get("rich"), "_console", None)
    return bool(getattr(console, "_live_stack", None) or getattr(console, "_live", None))


def _count(number, step, timeline):
    """Where no loader says how long the loop is, a bar that goes on with its steps does. On the training thread, which
    is mostly the one that draws it, and then no bar outlives it by this."""
    if number < FIRST or number > FIRST and number & (number - 1):
        return
    done = number >= LAST or timeline.epoch > 0
    for reference in list(_tqdm()):
        bar = reference()
        n, total = getattr(bar, "n", None), getattr(bar, "total", None)
        if done or not isinstance(n, int) or not isinstance(total, int):
            continue
        if number == FIRST:
            _seen[id(bar)] = n
            continue
        went, steps = n - _seen.get(id(bar), number), number - FIRST
        if abs(went - steps) <= max(1, steps // 10):
            done = True
            wire.put({"ev": "length", "of": "loop", "steps": total, "by": "the script's progress bar"})
    if done:
        _seen.clear()
        timeline.close_hooks = [hook for hook in timeline.close_hooks if hook is not _count]
