"""Losses, and whether gradients are finite: read where the script has evaluated them, and nowhere else.

The loss of a step is held by a weak reference, so that its graph lives no longer than without us. It is read when the
script has just waited and the loss is one of what it waited for, or is seen to be evaluated: a graph of it
(mx.export_to_dot) then has no operation in it.
"""

import math
import weakref

from ... import wire
from ...timeline import T, now
from . import sampled

READING = 0.005  # of the time, at most, goes to losses while the hooks are off
CATCHING = 5_000  # ns that it takes to have a call's result, on a machine of 2026 that is busy
LOOKS = 3  # at a graph that the script's waiting left as it was: a long one takes time to look at

_mx = None
_item = None  # mx.array.item as it was
_made = None  # (step, weak reference to its loss)
_losses = []  # (step, value)
_gradients = []  # (step, finite)
_unread = 0
_passed = 0  # that were not caught while the hooks were off
_next = 0  # when the next loss is looked at, while the hooks are off
_vain = 0  # looks at a loss that was not evaluated


def install(mx, config):
    global _mx, _item
    _mx, _item = mx, vars(mx.array)["item"]
    wire.source(_gather)


def clear():
    """A forked child tells its own."""
    global _made
    _made = None
    _losses[:] = _gradients[:] = []


def made(loss, evaluated):
    """A step's loss has been made. evaluated: on a sampled step it has its value already."""
    global _made, _unread
    if _made is not None:
        _unread += 1
    _made = None
    if type(loss) is not _mx.array or loss.size != 1 or not _mx.issubdtype(loss.dtype, _mx.floating):
        return
    _made = (sampled.number(), weakref.ref(loss))
    if evaluated:
        _read(loss)


def waited(things):
    """The script has waited for things: trees of arrays."""
    global _vain
    if _made is None:
        return
    loss = _made[1]()
    if loss is None:
        return
    if _among(loss, things) or _vain < LOOKS and _evaluated(loss):
        _read(loss)
    else:
        _vain += 1


def late():
    """While the hooks are off, as a step begins: the loss of the last one may have been evaluated by now. Whether this
    step's is to be caught: as many are as take READING of the time."""
    global _next, _passed
    began = now()
    loss = None if _made is None else _made[1]()
    if loss is not None:
        if _evaluated(loss):
            _read(loss)
        _next = now() + int((now() - began + CATCHING) / READING)
    if began < _next:
        _passed += 1
        return False
    return True


def _among(loss, things, level=0):
    for thing in things:
        if thing is loss:
            return True
        if level < 2 and type(thing) in (list, tuple) and len(thing) < 64 and _among(loss, thing, level + 1):
            return True
    return False


def _evaluated(loss):
    if not hasattr(_mx, "export_to_dot"):
        return False
    graph = _Text()
    _mx.export_to_dot(graph, loss)
    return "shape=rectangle" not in graph.text


class _Text:
    """A file in memory."""

    text = ""

    def write(self, text):
        self.text += text
        return len(text)


def _read(loss):
    global _made, _vain
    step, _made, _vain = _made[0], None, 0
    _losses.append((step, float(_item(loss))))


def gradients(tree):
    """On a sampled step, when they have been evaluated: whether they are finite. No part of the step."""
    began = T.boundary()
    try:
        arrays = [a for a in _leaves(tree, []) if _mx.issubdtype(a.dtype, _mx.inexact)]
        if arrays:
            finite = _mx.all(_mx.stack([_mx.all(_mx.isfinite(a)) for a in arrays]))
            _gradients.append((sampled.number(), bool(_item(finite))))
    finally:
        t = T.boundary()
        T.heavy_ns += t - began
        T.skip(began, t)


def _leaves(tree, out):
    if type(tree) is _mx.array:
        out.append(tree)
    elif isinstance(tree, dict):
        for inner in tree.values():
            _leaves(inner, out)
    elif isinstance(tree, (list, tuple)):
        for inner in tree:
            _leaves(inner, out)
    return out


def _gather():
    global _losses, _gradients, _unread, _passed
    losses, _losses = _losses, []
    if losses:
        wire.put(
            {
                "ev": "loss",
                "step": [s for s, _ in losses],
                "value": [v if math.isfinite(v) else repr(v) for _, v in losses],
            }
        )
    grads, _gradients = _gradients, []
    if grads:
        wire.put({"ev": "gradients", "step": [s for s, _ in grads], "finite": [f for _, f in grads]})
    if _unread:
        n, _unread = _unread, 0
        wire.put({"ev": "loss_unread", "count": n})
    if _passed:
        n, _passed = _passed, 0
        wire.put({"ev": "loss_passed", "count": n})
