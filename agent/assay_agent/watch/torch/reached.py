"""What of a training the run came to: an evaluation of what trains, and a checkpoint. Of the memory that they take a run
that came to neither says nothing.

Both count from the first step of an optimizer on (or of an update by hand): before it there is no state of the optimizer's,
so that a check at the start, as Lightning makes, is no evaluation here.

Evaluated: a model that has parameters which train was called with gradients off; or in evaluation mode, having been put
into it since the first step. So was a copy of it (an average of its weights), where it was put into evaluation mode for that.
Saved: torch.save or safetensors.torch.save_file was given as many numbers as the largest parameter has that trains, or more.

Nothing more is looked at once both were seen. With the hooks off (blocks.py) a call is seen where a model was put into
evaluation mode before it, or a loader is read with gradients off.
"""

import weakref

from ... import guest, process, wire
from ...modules import tensors_in
from ...timeline import T
from ..imports import when_imported
from . import module as forward

ARMS = 50  # times that the class's call is watched with the hooks off
THINGS = 100_000  # that are looked at in what is saved

_torch = None
evaluated = saved = False
beside = None  # (begin(), end(error)) of who else is told of torch.save: the double
_optimizers = {}  # id -> weak reference to one that has stepped
_trained = {}  # id -> weak reference to a module that was called in training
_others = {}  # id -> weak reference to a module that is known not to train
_aside = None  # weak reference to the model last put into evaluation mode
_arms = 0
_armed = False


def install(torch, config):
    global _torch
    _torch = torch
    forward.called = _called
    T.close_hooks.append(lambda number, step, timeline: _know(step.refs))
    process.finisher(_tell)
    torch.save = torch.serialization.save = guest.around(torch.serialization.save, _saves, _has_saved)
    when_imported("safetensors.torch", _watch_safetensors)


def clear():
    """A forked child tells its own."""
    global evaluated, saved, _aside, _arms, _armed
    evaluated = saved = _armed = False
    _aside, _arms = None, 0
    for known in (_optimizers, _trained, _others):
        known.clear()
    forward.called = _called


@guest.hook
def _tell():
    """Of a process that has trained with PyTorch's own hooks."""
    if T.led[0] in ("", "torch") and (T.number or T.backwards):
        wire.put({"ev": "reached", "evaluated": evaluated, "saved": saved})


def _know(refs):
    """Optimizers of a step."""
    for ref in refs:
        optimizer = ref and ref()
        if optimizer is not None and id(optimizer) not in _optimizers:
            _optimizers[id(optimizer)] = ref
            _others.clear()


def _parameters():
    """Parameters that train, so far; none before the first step."""
    _know(T.step.refs)
    for ref in list(_optimizers.values()):
        for group in getattr(ref(), "param_groups", ()):
            yield from group["params"]


def _by_hand():
    """Whether parameters are updated without an optimizer, as far as is known: one may still come."""
    return T.by_hand or bool(T.maybe) or T.passed is not None


def _trains(module):
    if _by_hand():
        return any(p.requires_grad for p in tensors_in(module, "_parameters"))
    mine = {id(p) for p in _parameters()}
    return bool(mine) and any(id(p) in mine for p in tensors_in(module, "_parameters"))


def _is_copy(module):
    """Whether a module has the parameters of one that was called in training, in number and size."""
    size = _size(module)
    return any(model is not None and size == _size(model) for model in [ref() for ref in _trained.values()])


def _size(module):
    sizes = [p.numel() for p in tensors_in(module, "_parameters")]
    return len(sizes), sum(sizes)


# -- evaluation --------------------------------------------------------------------------------------------------------


@guest.hook
def _called(module, grad):
    """A module is called from outside any other; grad: gradients are on."""
    global evaluated
    if grad and module.__dict__.get("training", True):
        if id(module) not in _trained and len(_trained) < 100:
            _trained[id(module)] = weakref.ref(module)
        if _armed:
            _disarm()
        return
    aside = _aside and _aside()
    if grad and aside is None or not _optimizers and not T.step.refs and not _by_hand():
        return
    held = _others.get(id(module))
    if held is not None and held() is module and module is not aside:
        return
    if _trains(module) or module is aside and _is_copy(module):
        evaluated = True
        forward.called = None
        _disarm()
        wire.put({"ev": "reached", "evaluated": evaluated, "saved": saved})
    elif len(_others) < 1000:
        _others[id(module)] = weakref.ref(module)


def put_aside(module):
    """A model is put into evaluation mode, a step having been made."""
    global _aside
    if not evaluated:
        _aside = weakref.ref(module)
        arm()


def arm():
    """What is called next may be an evaluation: with the hooks off, it is to be seen."""
    global _arms, _armed
    if not evaluated and not _armed and T.bare and not forward.compiling and _arms < ARMS:
        _arms += 1
        _armed = True
        forward.switch(True)


def _disarm():
    global _armed
    if _armed and T.bare:
        forward.switch(False)
    _armed = False


# -- checkpoints -------------------------------------------------------------------------------------------------------


def _watch_safetensors(module):
    module.save_file = guest.around(module.save_file, _saves_file, None)


@guest.hook
def _saves(thing, *_):
    if beside is not None:
        beside[0]()
    _look(thing)
    return beside is not None


@guest.hook
def _has_saved(error):
    beside[1](error)


@guest.hook
def _saves_file(tensors, *_):
    _look(tensors)
    return False


def _look(thing):
    """Whether what is saved is a checkpoint of what trains."""
    global saved
    if saved:
        return
    largest = max((p.numel() for p in _parameters()), default=0)
    if not largest and _by_hand():
        models = [m for m in (ref() for ref in _trained.values()) if m is not None]
        largest = max((p.numel() for m in models for p in tensors_in(m, "_parameters")), default=0)
    if largest and _numbers(thing) >= largest:
        saved = True
        wire.put({"ev": "reached", "evaluated": evaluated, "saved": saved})


def _numbers(thing):
    """Elements of the tensors in a thing: in containers, and in modules."""
    todo, found = [thing], 0
    for _ in range(THINGS):
        if not todo:
            break
        one = todo.pop()
        if type(one) in (_torch.Tensor, _torch.nn.Parameter):  # what a subclass is asked may be the script's own code
            found += one.numel()
        elif isinstance(one, _torch.nn.Module):
            todo += tensors_in(one, "_parameters", "_buffers")
        elif isinstance(one, dict):
            todo += dict.values(one)
        elif type(one) in (list, tuple) and len(one) < THINGS:
            todo += one
    return found
