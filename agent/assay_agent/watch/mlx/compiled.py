"""mx.compile: a function that it has traced runs as one graph, in which no Python is called any more.

So what a compiled function is shows while it is traced: gradients and updates that are made within are its own. From
then on each call of it is a gradient, an update, or both. A function may be traced again for other constants, and
updates then or not (accumulation): what it did is kept for each. Where compiling is disabled, functions run as they are
written, and this is as if it was not there.
"""

import os
import sys
from functools import partial

from ... import guest
from ...timeline import T, now
from . import device, gradient, hand, losses, sampled, within

TRACES = 64  # of a function that are kept apart

_places = guest.Places()
_package = ""
_on = True
_disabled = False


class _Function:
    """What is known of one compiled function."""

    def __init__(self, function, captures):
        self.function = function
        self.captures = captures  # arrays that are no arguments of it
        self.did = {}  # its constants -> (gradients, updates) made when it was traced for them
        self.trains = False


def install(mx, config):
    global _package, _disabled
    _package = mx.__file__.rpartition("/")[0] + "/"
    original = vars(mx)["compile"]

    @guest.hook
    def watched(made, args, kwargs, caller):
        if caller.f_code.co_filename.startswith(_package):  # MLX's own (activations) are parts of a model
            return None
        named = dict(zip(("fun", "inputs", "outputs"), args), **kwargs)
        return guest.stand_in(made, _bind, _Function(named.get("fun"), named.get("outputs") is not None))

    def make(*args, **kwargs):
        try:
            made = original(*args, **kwargs)
            return watched(made, args, kwargs, sys._getframe(1)) or made
        except BaseException:
            guest.hide()
            raise

    _disabled = "MLX_DISABLE_COMPILE" in os.environ
    for name in ("disable_compile", "enable_compile"):
        if name in vars(mx):
            guest.Places().put(mx, name, guest.stand_in(vars(mx)[name], _setting(name == "disable_compile")))
    _places.put(mx, "compile", guest.stand_in(original, lambda original, about: make))


def _setting(disables):
    def bind(original, about):
        global _disabled
        _disabled = disables
        return None

    return bind


def switch(on):
    """What the script has compiled already stays: it is the mark of a step."""
    global _on
    _on = on
    _places.switch(on)


def _bind(original, about):
    if _disabled or within.depth or not T.on or T.owner is not None and not T.mine():
        return None
    if not _on and about.did:
        if not about.trains:
            return None
        did = set(about.did.values())
        if len(did) == 1 and within.watched():
            if _mark(about, *did.pop()):
                return guest.at_caller(sys._getframe(3), now, original, _caught, guest.hide_site)
            return None
    seen = within.gradients, within.updates
    return guest.at_caller(sys._getframe(3), _begin, original, partial(_end, about, seen), _failed)


def _mark(about, gradients, updates):
    """While the hooks are off: what a call of the function does, told as it begins. Whether its loss is to be
    caught."""
    catch = gradients and gradient.mark()
    if updates:
        T.optimizer_begin(sampled.GRAPH, id(about))
        T.optimizer_end(sampled.GRAPH)
    return catch


@guest.hook
def _caught(begun, args, result):
    losses.made(_first(result), False)


@guest.hook
def _begin():
    within.depth = 1
    return now()


@guest.hook
def _end(about, seen, t, args, result):
    within.depth = 0
    words = sys._getframe(2).f_locals["kwargs"]  # of the call, which at_caller does not hand over
    constants = tuple(_constant(a) for a in args + tuple(words.values()))
    did = within.gradients - seen[0], within.updates - seen[1]
    about.trains = about.trains or any(did)
    if not any(did):  # it was not traced this time
        did = about.did.get(constants, did)
    if len(about.did) < TRACES or constants in about.did:
        about.did[constants] = did
    if about.trains and within.watched():
        within.compiled_gradients = within.compiled_gradients or did[0] > 0
        within.compiled_updates = within.compiled_updates or did[1] > 0
        _called(about, did, t, args, result)


def _failed():
    within.depth = 0
    guest.hide_site()


def _constant(value):
    """What mx.compile traces a function anew for: a number or a word, and whether there is anything."""
    return value if type(value) in (bool, int, float, str) else value is None


def _called(about, did, t, args, result):
    """A call that made gradients, updates or both is over. It began at t."""
    gradients, updates = did
    sampled.whole("the step is compiled: mx.compile makes one graph of it")
    device.seen(plain=False)
    T.free(0)
    if not T.opened:  # the first step begins with the call in which it is traced
        T.open()
        T.step.start = T.mark = t
    if gradients:
        T.copied(sampled.GRAPH, t)
        if about.captures:
            hand.captured()
        else:
            hand.taken(args[0] if args else None)
        T.backward_begin(sampled.GRAPH)
        T.backward_end(sampled.GRAPH)
        losses.made(_first(result), False)
    if updates:
        T.optimizer_begin(sampled.GRAPH, id(about))
        T.optimizer_end(sampled.GRAPH)
    if _on:
        gradient.shapes(about.function, (None,) + args)


def _first(result):
    """The first of what a compiled step gives is its loss, if anything is."""
    while type(result) in (tuple, list) and result:
        result = result[0]
    return result
