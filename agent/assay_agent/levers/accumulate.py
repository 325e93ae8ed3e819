"""accumulate: each update's rows in k batches of a k-th, whose gradients add up to those of the whole batch.

A plain loop (zero_grad, backward, step for each batch) is led so: the loader gives a k-th of the rows; the gradient of each loss is weighed by its
share of the update's rows, when backward begins; steps and zero_grad between two updates do nothing, and clipping measures alone. That is the
update of the whole batch only where the loss is a mean over the rows, one optimizer steps once for each batch, and nothing goes by the batch beside
it. Where any of that is not so, it is said, the script's batch is given back, and the loop goes on as it is written.
"""

import functools
import sys
import weakref

from .. import guest, wire
from . import frameworks, loaders, missed, models, tell

_parts = 1
_torch = None
_led = None  # the _Loop
_given_up = False
_normalises = False  # a model has batch normalisation


class _Loop:
    """A plain loop that is led."""

    def __init__(self, made, rows):
        self.made, self.rows = made, rows  # of an update
        self.weights, self.ends = [], []  # of each batch of a pass: its share of the update, and whether that ends there
        self.at = 0  # batches of this pass that were stepped for
        self.open = False  # between two updates
        self.backwards = 0  # since the last step
        self.optimizer = None
        self.first = None  # (a parameter, its gradient) while open: whoever clears gradients by hand replaces it
        self.told = False

    def plan(self, rows, drop_last):
        """For a pass of so many rows."""
        part = self.rows // _parts
        whole, left = divmod(rows, self.rows)
        self.weights = [1 / _parts] * (_parts * whole)
        self.ends = ([False] * (_parts - 1) + [True]) * whole
        if left and not drop_last:
            sizes = [part] * (left // part) + ([left % part] if left % part else [])
            self.weights += [size / left for size in sizes]
            self.ends += [False] * (len(sizes) - 1) + [True]


class _Head:
    """A sampler's first n indices: what the whole batches of a loader that drops the last one have."""

    def __init__(self, sampler, n):
        self.sampler, self.n = sampler, n

    def __iter__(self):
        for at, index in enumerate(self.sampler):
            if at < self.n:  # to its end: it may draw random numbers there
                yield index

    def __len__(self):
        return self.n


def install(torch, asked):
    global _parts, _torch
    _parts, _torch = int(asked["accumulate"]), torch
    if _parts < 2:
        return
    loaders.install(torch)
    frameworks.install(torch, asked)
    loaders.change.append(_change)
    loaders.give_back.append(_give_back)
    loaders.reading.append(_reading)
    models.install(torch)
    models.found.append(_look)
    _lead(torch)


# -- the loader --------------------------------------------------------------------------------------------------------


def _change(made):
    if frameworks.batches or _given_up:
        return
    loader = made.loader()
    why = loaders.own_sampler(loader)
    rows = getattr(loaders.batches(loader), "batch_size", 0)
    if why is None and rows % _parts:
        why = "a batch of %d rows has no %d equal parts" % (rows, _parts)
    there = loaders.rows_of(loader) if why is None else 0
    if why is None and there is None:
        why = "how many rows a pass has is not known: the last update could not be weighed"
    made.kept["accumulate"] = rows, why, loaders.batches(loader).sampler if why is None else None
    if why is None:
        sampler = loaders.batches(loader)
        if sampler.drop_last and there % rows:
            sampler.sampler = _Head(sampler.sampler, there - there % rows)
        loaders.set_rows(loader, rows // _parts)


def _give_back(made):
    rows, why, sampler = made.kept.pop("accumulate", (0, "never changed", None))
    loader = made.loader()
    if why is None and loader is not None:
        loaders.batches(loader).sampler = sampler
        loaders.set_rows(loader, rows)


def _reading(made):
    global _led
    if "accumulate" not in made.kept or _given_up:
        return
    rows, why, sampler = made.kept["accumulate"]
    if frameworks.accumulates:
        if why is not None:
            tell("accumulate", False, where=loaders.named(made), why=why)
        else:
            note = "" if not loaders.watched._length(sampler) % rows else "an update of an epoch's last rows, fewer than the others', weighs them less"
            tell("accumulate", True, **{"where": frameworks.accumulates, "from": rows, "to": rows // _parts, "note": note})
        return
    if why is not None:
        _give_up(why, loaders.named(made))
        return
    if _led is None:
        _led = _Loop(made, rows)
        missed["accumulate"] = "the training did not come to its first update"
    elif _led.made is not made:
        _give_up("the training reads two loaders")
        return
    _led.at, _led.open, _led.backwards = 0, False, 0
    _led.plan(loaders.watched._length(sampler), loaders.batches(made.loader()).drop_last)


def _give_up(why, where=""):
    """Give the script its batches back. What was stepped for between stays as it was."""
    global _led, _given_up
    if _given_up:
        return
    _given_up = True
    if _led is not None:
        where = where or loaders.named(_led.made)
        _give_back(_led.made)
        _led = None
    tell("accumulate", False, where=where, why=why)


def _look(model, args, kwargs):
    global _normalises
    kind = _torch.nn.modules.batchnorm._BatchNorm
    _normalises = _normalises or any(isinstance(m, kind) for m in model.modules())


# -- the loop ----------------------------------------------------------------------------------------------------------


def _lead(torch):
    """Stand in the way of what a loop does with gradients."""
    optimizer = torch.optim.Optimizer

    @guest.hook
    def backward(tensor, gradient=None, *_):
        led = _led
        if led is None or frameworks.accumulates:
            return False
        why = _why_not(tensor, gradient)
        if led.backwards:
            why = "several backward passes make one step: the script accumulates by itself"
        elif led.at >= len(led.weights):
            why = "the loop goes on after the loader's last batch"
        if why:
            _give_up(why)
            return False
        led.backwards += 1
        weight = led.weights[led.at]
        if weight != 1:
            tensor.register_hook(lambda g: g * weight)
        return False

    torch.Tensor.backward = guest.around(torch.Tensor.backward, backward, None)
    making = []

    @guest.hook
    def begin(made, *_):
        making.append(made)
        return True

    @guest.hook
    def end(error):
        made = making.pop()
        cls = type(made)
        if error is None and not getattr(cls.step, "_assay_led", False):
            cls.step = _instead(cls.step, _skips_step)
            cls.step._assay_led = True

    optimizer.__init__ = guest.around(optimizer.__init__, begin, end)
    optimizer.zero_grad = _instead(optimizer.zero_grad, _is_open)
    torch.nn.Module.zero_grad = _instead(torch.nn.Module.zero_grad, _is_open)
    schedulers = torch.optim.lr_scheduler
    for cls in {getattr(schedulers, "LRScheduler", None) or schedulers._LRScheduler, schedulers.ReduceLROnPlateau}:
        if "step" in cls.__dict__:
            cls.step = _instead(cls.step, _schedules)
    for module in (torch.nn.utils, torch.nn.utils.clip_grad):
        module.clip_grad_norm_ = _instead(module.clip_grad_norm_, _never, _measures)
        module.clip_grad_value_ = _instead(module.clip_grad_value_, _between)
    scaler = sys.modules.get("torch.amp.grad_scaler") or sys.modules.get("torch.cuda.amp.grad_scaler")
    scaler.GradScaler.step = _instead(scaler.GradScaler.step, _scales)


def _why_not(loss, gradient):
    """Why the gradient of a loss cannot be weighed; "" where it can: it is a mean over rows."""
    if gradient is not None or loss.dim():
        return "backward is called for more than one number"
    if loss.grad_fn is None:
        return "the loss has no graph"
    nodes, seen = [loss.grad_fn], 0
    while nodes:
        node, seen = nodes.pop(), seen + 1
        name = type(node).__name__
        if getattr(node, "_saved_reduction", None) == 1 or name in ("MeanBackward0", "MeanBackward1"):
            if name.startswith("NllLoss") and not _counts_all(node):
                return "its loss leaves rows out or weighs classes, so that the batches' means are not that of all"
            continue
        following = [n for n, _ in getattr(node, "next_functions", ()) if n is not None]
        if name not in _LINEAR or not following or seen > 1000:
            return "it is not known that the loss is a mean over the rows (%s)" % name
        nodes += following
    return ""


# What leaves a mean a mean, of terms that each are one: sums and multiples.
_LINEAR = ("AddBackward0", "SubBackward0", "NegBackward0", "MulBackward0", "DivBackward0", "ToCopyBackward0", "CloneBackward0", "AliasBackward0",
           "SqueezeBackward0", "ViewBackward0", "UnsafeViewBackward0")


def _valueless():
    """Whether this is a rehearsal that computes no values."""
    return bool((wire.config.get("double") or {}).get("shape_only"))


def _counts_all(node):
    """Whether a cross-entropy counts each of its targets once. Asked of the loop's first batch alone: the answer is a number on the device."""
    if _led is None or _led.told or _led.at or _valueless():
        return True
    try:
        return float(node._saved_total_weight) == node._saved_target.numel()
    except (AttributeError, RuntimeError):
        return True


def _instead(original, skip, otherwise=None):
    """original, or nothing where skip(its first arguments) says so; with otherwise() its arguments are what that gives."""
    skip = guest.hook(skip, False)

    @functools.wraps(original)
    def instead(*args, **kwargs):
        try:
            if skip(*args, **kwargs):
                return None
            if otherwise is not None:
                args, kwargs = otherwise(args, kwargs)
            return original(*args, **kwargs)
        except BaseException:
            guest.hide()
            raise

    return instead


def _skips_step(optimizer, *args, **kwargs):
    led = _led
    if led is None or frameworks.accumulates:
        return False
    if any(v is not None for v in (*args, *kwargs.values())):  # accelerate hands on the None that it was given
        _give_up("the optimizer's step calls a closure")
        return False
    if led.optimizer is None:
        led.optimizer = weakref.ref(optimizer)
    if led.optimizer() is not optimizer:
        _give_up("several optimizers step")
        return False
    if led.backwards != 1 or led.at >= len(led.ends):
        _give_up("steps and backward passes do not alternate")
        return False
    if led.open and led.first is not None and led.first[0].grad is not led.first[1]:
        _give_up("the script clears gradients by hand")
        return False
    ends = led.ends[led.at]
    led.at, led.backwards, led.open = led.at + 1, 0, not ends
    led.first = None
    if led.open:
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None and led.first is None:
                    led.first = p, p.grad
    elif not led.told:
        led.told = True
        notes = ["batch normalisation sees the rows of a part at a time"] if _normalises else []
        if _valueless():
            notes.append("whether the loss leaves rows out is not known without values")
        tell("accumulate", True, **{"where": loaders.named(led.made), "from": led.rows, "to": led.rows // _parts, "note": "; ".join(notes)})
    return led.open


def _is_open(*_, **__):
    return _led is not None and _led.open and not frameworks.accumulates


def _between(*_, **__):
    """Whether the update that gradients are for is not whole yet."""
    led = _led
    return led is not None and not frameworks.accumulates and led.at < len(led.ends) and not led.ends[led.at]


def _never(*_, **__):
    return False


def _measures(args, kwargs):
    """clip_grad_norm_(parameters, max_norm, …): its norm without its clipping."""
    if not _between():
        return args, kwargs
    if len(args) > 1:
        return (args[0], float("inf"), *args[2:]), kwargs
    return args, dict(kwargs, max_norm=float("inf"))


def _schedules(*_, **__):
    if _is_open():
        _give_up("a schedule of the learning rate steps with each batch")
    return False


def _scales(scaler, *_, **__):
    if _led is not None and not frameworks.accumulates and scaler.is_enabled():
        _give_up("a GradScaler unscales gradients with each batch")
    return False
