"""The learning rate of each parameter group, told where it changes; and how the doors of loggers (watch.logged) read a
tensor."""

import weakref

from ...timeline import T
from .. import logged
from . import numerics

GROUPS = 16  # of an optimizer that are told: more would be a curve for each layer

_torch = None
_known = {}  # id of an optimizer -> [weak reference to it, name, rates of its groups as told, whether they differ]
_names = {}  # class of an optimizer -> how many there are


def install(torch, config):
    global _torch
    _torch = torch
    logged.readers.append(read)
    T.epoch_hooks.append(lambda epoch, t: ended())


def clear():
    """A forked child tells its own."""
    _known.clear()
    _names.clear()


def read(value):
    """A tensor's one value from the host's memory; None where it is no tensor, where a device has it, and where the
    script would see that it was asked."""
    if type(value) not in (_torch.Tensor, _torch.nn.Parameter) or numerics.overridden():
        return None
    if value.device.type != "cpu" or value.layout is not _torch.strided or value.numel() != 1:
        return None
    return numerics._read(value)


def on_step(optimizer):
    """An optimizer is about to step. Called within a hook. In blocks of steps without hooks one in sixteen is looked at."""
    if T.number & 15 and T.bare:
        return
    held = _known.get(id(optimizer))
    if held is None or held[0]() is not optimizer:
        held = _known[id(optimizer)] = _new(optimizer)
    rates, last = [group.get("lr") for group in optimizer.param_groups[:GROUPS]], held[2]
    if rates != last if _plain(rates) else True:
        _tell(held, rates)


def _plain(rates):
    for rate in rates:
        if type(rate) is not float:
            return False
    return True


def _new(optimizer):
    if len(_known) > 64:
        for key, held in list(_known.items()):
            if held[0]() is None:
                del _known[key]
    kind = type(optimizer).__name__
    _names[kind] = _names.get(kind, 0) + 1
    return [weakref.ref(optimizer), kind if _names[kind] == 1 else "%s %d" % (kind, _names[kind]), [], False]


def _tell(held, rates):
    """Rates that are others than those told last. Where a rate is a tensor that changes in place it is read each time.
    Groups that go alike are told as one."""
    values, last = [logged.number(rate) for rate in rates], held[2]
    apart = held[3] or any(value != values[0] for value in values)
    parted, held[3] = apart and not held[3], apart
    for n, value in enumerate(values if apart else values[:1]):
        if value is None:
            continue  # a device has it, or a rule of the optimizer's own
        if parted or n >= len(last) or last[n] != value:
            name = "lr %s, group %d" % (held[1], n) if apart else "lr %s" % held[1]
            logged.told("optimizer", name, value, at=T.number + 1)
    held[2] = values


def ended():
    """At the end of an epoch: also what changed while the hooks were off."""
    for held in list(_known.values()):
        optimizer = held[0]()
        if optimizer is not None:
            _tell(held, [group.get("lr") for group in optimizer.param_groups[:GROUPS]])
