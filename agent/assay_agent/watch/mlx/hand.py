"""Updates by hand: whether parameters have changed since the last gradient, where no optimizer of MLX's steps.

Arrays do not change as a rule: an update makes new ones, and the first leaf stands for all. Only an array that is
handed over by itself may have been updated in place (`w -= …`), which nothing tells. Of a compiled function that
captures its state nothing is seen: it is taken to gather, until so many calls have passed without an update that
nothing is going to be gathered for.
"""

import weakref

from ...timeline import T

GATHERED = 64  # calls

_mx = None
_calls = 0  # of compiled functions that capture their state
_last = _leaf = None  # weak references to the leaf at which the last gradient was taken, and this one
_alone = False  # it is an array by itself


def install(mx, config):
    global _mx
    _mx = mx


def clear():
    """A forked child has trained nothing."""
    global _last, _leaf
    _last = _leaf = None


def taken(parameters):
    """A gradient is taken at these parameters: a tree of arrays."""
    global _last, _leaf, _alone
    T.touched = touched
    leaf = _first(parameters)
    _alone = leaf is parameters
    _last, _leaf = _leaf, None if leaf is None else weakref.ref(leaf)


def captured():
    """A compiled function has taken a gradient at parameters that it captures."""
    global _last, _leaf, _alone, _calls
    T.touched = touched
    _calls += 1
    _last = _leaf = None
    _alone = _calls > GATHERED


def _first(tree):
    if type(tree) is _mx.array:
        return tree
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        return None
    for inner in tree:
        leaf = _first(inner)
        if leaf is not None:
            return leaf
    return None


def touched():
    """Whether the parameters have changed since the last gradient. True where that cannot be told."""
    if _alone or _leaf is None:
        return _alone
    last = None if _last is None else _last()
    return last is None or last is not _leaf()
