"""The split of a step. MLX is lazy: a step makes graphs, and all of them are computed where the script evaluates.

So forward, backward and optimizer have no times of their own, and get them in sampled steps of plain loops: there the
loss is evaluated first, then the gradients, then what the optimizer has made of them. These are arrays that the script
evaluates at the step's end; values do not depend on when. What does is the allocator's peak, so that a script that
reads it is left alone. A step that mx.compile has made one graph of cannot be taken apart at all.
"""

import sys

from ... import guest, wire
from ...timeline import T

FORWARD = T.phase("forward", 30, "forward", "graphs of both passes made, the loss evaluated")
GRAPH = T.phase("graph", 35, "graph", "graphs made and handed over, nothing of them computed yet")
BACKWARD = T.phase("backward", 40, "backward", "gradients evaluated")
OPTIMIZER = T.phase("optimizer", 50, "optimizer", "new parameters and the optimizer's state evaluated")
EVALUATION = T.phase("evaluation", 60, "evaluation", "what the script waits for: mx.eval, item and the like")

READS = (b"get_peak_memory", b"get_active_memory", b"get_cache_memory")

_evaluate = _synchronize = None  # mx.eval and mx.synchronize as they were
_due = ()  # what the next boundary evaluates
_said = {}  # phase -> why it has no time
plain = True  # sampled steps are taken apart
_looked = False


def install(mx, config):
    global _evaluate, _synchronize
    _evaluate, _synchronize = mx.eval, mx.synchronize
    _say({"graph": "in sampled steps the graphs count to what they are of"})


def phase(number):
    """What a time counts to that a sampled step takes apart: the phase of that number; in other steps the graph's."""
    return number if T.sync is not None and plain else GRAPH


def number():
    """Of the step that is under way: the one before it is closed when its own optimizer steps."""
    return T.number + len(T.maybe) + (1 if T.snapshot is None else 2)


def due(*arrays):
    """On a sampled step: what is to be evaluated at the next boundary, trees of arrays."""
    global _due
    if plain and T.sync is not None:
        _due = arrays


def evaluate():
    """Device.synchronize of a plain loop."""
    global _due
    arrays, _due = _due, ()
    try:
        if arrays:
            _evaluate(*arrays)
        else:
            _synchronize()  # what the script has queued by mx.async_eval
    except Exception as err:  # within a transformation; and what fails here fails where the script evaluates
        guest.pass_on(err)
        whole("what a step made could not be evaluated apart: %s" % (str(err)[:100],))


def whole(why):
    """Steps are not taken apart from here on."""
    global plain, _due
    if plain:
        plain, _due, T.sync = False, (), None
        _say({name: why for name in ("forward", "backward", "optimizer")})


def _say(reasons):
    _said.update(reasons)
    if "forward" in reasons:
        _said.pop("graph", None)
    wire.put({"ev": "unseen", "phases": dict(_said)})


def look(frame):
    """Once, at the first gradient: whether a file that leads to it reads the allocator's counters."""
    global _looked
    if _looked:
        return
    _looked = True
    files = {getattr(sys.modules.get("__main__"), "__file__", None)}
    while frame is not None:
        files.add(frame.f_code.co_filename)
        frame = frame.f_back
    for name in files:
        try:
            with open(name, "rb") as f:
                text = f.read(4 << 20)
        except (TypeError, OSError, ValueError):
            continue
        if any(word in text for word in READS):
            whole("the script reads the memory that MLX counts, which evaluating in pieces would change")
            return
