"""Gradients: what mx.value_and_grad and mx.grad give, and with them mlx.nn.value_and_grad, which calls the first.

The call makes the graphs of both passes and computes neither.
"""

import sys
from functools import partial

from ... import guest, wire
from ...timeline import T, now
from . import device, hand, losses, sampled, within

_mx = None
_places = guest.Places()
_seen = {}  # (name, signature) -> [first step, calls, changed]
_checks = 0
_on = True


def install(mx, config):
    global _mx
    _mx = mx
    for name, value in (("value_and_grad", True), ("grad", False)):
        original = vars(mx)[name]
        _places.put(mx, name, guest.stand_in(original, _maker(original, value)))
    wire.source(_gather)


def clear():
    """A forked child tells its own."""
    _seen.clear()


def switch(on):
    """What the script has made already stays: it is the mark of a step."""
    global _on
    _on = on
    _places.switch(on)


def _maker(original, value):
    """bind() of mx.value_and_grad or mx.grad; value: what it makes gives the function's value too."""

    @guest.hook
    def watched(made, function):
        return guest.stand_in(made, _bind, (value, function))

    def make(*args, **kwargs):
        try:
            made = original(*args, **kwargs)
            return watched(made, args[0] if args else kwargs.get("fun")) or made
        except BaseException:
            guest.hide()
            raise

    return lambda original, about: make


def _bind(original, about):
    if within.depth:
        within.gradients += T.mine()
        return None
    if not _on and within.compiled_gradients or not within.watched():
        return None
    if not _on:
        if mark():
            return guest.at_caller(sys._getframe(3), now, original, partial(_caught, about), guest.hide_site)
        return None
    frame = sys._getframe(3)
    return guest.at_caller(frame, partial(_begin, frame), original, partial(_end, about), _failed)


@guest.hook
def mark():
    """While the hooks are off: a gradient is taken, and the step before it is over. Whether its loss is to be
    caught."""
    catch = losses.late()
    T.module_begin(sampled.GRAPH)
    T.module_end(sampled.GRAPH)
    T.backward_begin(sampled.GRAPH)
    T.backward_end(sampled.GRAPH)
    return catch


@guest.hook
def _caught(about, begun, args, result):
    if about[0]:
        losses.made(_loss(result), False)


@guest.hook
def _begin(frame):
    sampled.look(frame)
    device.seen(sampled.plain)
    T.free(0)
    T.module_begin(sampled.phase(sampled.FORWARD))
    within.depth = 1


@guest.hook
def _end(about, begun, args, result):
    within.depth = 0
    value, function = about
    _ended(value, function, args, result)


def _failed():
    if within.depth:
        within.depth = 0
        T.busy = max(0, T.busy - 1)
    guest.hide_site()


def _ended(value, function, args, result):
    if not value:
        sampled.whole("mx.grad gives no loss: forward and backward are one")
    loss = _loss(result) if value else None
    forward, backward = sampled.phase(sampled.FORWARD), sampled.phase(sampled.BACKWARD)
    sampled.due(loss)
    T.module_end(forward)
    hand.taken(args[0] if args else None)
    T.backward_begin(forward)
    sampled.due(result[1] if value else result)
    T.backward_end(backward)
    losses.made(loss, T.sync is not None and sampled.plain)
    shapes(function, args)


def _loss(result):
    """The function's value: an array, or the first of several."""
    loss = result[0]
    return loss[0] if type(loss) is tuple else loss


def shapes(function, args):
    """Note what went into the model: each of the first 64 calls, then every 16th."""
    global _checks
    _checks += 1
    if _checks > 64 and _checks % 16:
        return
    arrays = []
    for thing in args[1:] if len(args) > 1 else args:  # the first are the parameters
        _collect(thing, arrays)
    key = (_name(function), tuple((str(a.dtype), tuple(a.shape)) for a in arrays[:8]))
    known = _seen.get(key)
    if known is not None:
        known[1] += 1
        known[2] = True
    elif len(_seen) < 64:
        _seen[key] = [sampled.number(), 1, True]


def _name(function):
    """Of the model that mlx.nn.value_and_grad closes over, or of the function."""
    code = getattr(function, "__code__", None)
    if code is not None and getattr(function, "__module__", "") == "mlx.nn.utils" and "model" in code.co_freevars:
        return type(function.__closure__[code.co_freevars.index("model")].cell_contents).__qualname__
    return str(getattr(function, "__name__", type(function).__qualname__))


def _collect(thing, out, level=0):
    if level > 3 or len(out) >= 8:
        return
    if type(thing) is _mx.array:
        out.append(thing)
    elif type(thing) in (list, tuple):
        for item in thing:
            _collect(item, out, level + 1)
    elif type(thing) is dict:
        for item in thing.values():
            _collect(item, out, level + 1)


def _gather():
    for (name, signature), known in list(_seen.items()):
        if known[2]:
            known[2] = False
            inputs = ", ".join(
                "%s%s on %s" % (d.rpartition(".")[2], list(s), T.device.kind) for d, s in signature
            )
            wire.put({"ev": "shape", "model": name, "inputs": inputs, "first": known[0], "calls": known[1]})
