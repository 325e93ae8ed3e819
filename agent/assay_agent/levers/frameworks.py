"""Frameworks that have options of their own for what `batch` and `accumulate` do: transformers' Trainer, ultralytics, and for accumulation Lightning,
whose batches are its loaders'."""

import functools

from .. import guest
from ..watch.imports import when_imported
from . import tell

batches = ""  # the option that has the batch
given = 0  # rows that its loader of training is to have
accumulates = ""  # the option that accumulates
_installed = []


def install(torch, asked):
    """For the first lever that asks."""
    if _installed:
        return
    _installed.append(True)
    rows, parts = int(asked.get("batch") or 0), int(asked.get("accumulate") or 1)
    when_imported("transformers.trainer", lambda module: _trainer(module, rows, parts))
    when_imported("ultralytics.engine.trainer", lambda module: _yolo(module, rows, parts))
    if rows:
        when_imported("accelerate.utils.memory", _no_smaller)
    for name in ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"):
        when_imported(name, lambda module: _lightning(module, parts))


def _no_smaller(module):
    """accelerate's find_executable_batch_size, and with it auto_find_batch_size of the Trainer, goes on with nine tenths of the batch where memory
    ran out, down to none. Asked for is this batch: the script's exception goes on."""
    @functools.wraps(module.should_reduce_batch_size)
    def should_reduce_batch_size(exception):
        return False

    module.should_reduce_batch_size = should_reduce_batch_size


def _trainer(module, rows, parts):
    """TrainingArguments.per_device_train_batch_size and gradient_accumulation_steps, which its loader, its log and its schedule go by."""
    trainer, beginning = module.Trainer, []

    @guest.hook
    def begin(self, model=None, args=None, *_):
        global batches, accumulates, given
        if args is None:
            return False
        option = "TrainingArguments.per_device_train_batch_size"
        before = args.per_device_train_batch_size
        batches, whole = option, rows or before
        if rows:
            args.per_device_train_batch_size = rows
            tell("batch", True, **{"where": option, "from": before, "to": rows})
        given = args.train_batch_size
        if parts < 2:
            return False
        accumulates = "TrainingArguments.gradient_accumulation_steps"
        if whole % parts:
            tell("accumulate", False, where=accumulates, why="a batch of %d rows has no %d equal parts" % (whole, parts))
            return False
        args.per_device_train_batch_size = whole // parts
        args.gradient_accumulation_steps *= parts
        given = args.train_batch_size
        beginning.append((self, whole))
        return True

    @guest.hook
    def end(error):
        self, whole = beginning.pop()
        # It then divides no loss itself (Trainer.training_step), and not every model does, though it takes the number.
        note = "the Trainer leaves it to the model to divide the loss: one that does not has gradients %d times as large" % parts
        if not getattr(self, "model_accepts_loss_kwargs", False):
            note = ""
        tell("accumulate", True, **{"where": accumulates, "from": whole, "to": whole // parts, "note": note})

    trainer.__init__ = guest.around(trainer.__init__, begin, end)


def _yolo(module, rows, parts):
    """The option batch of `yolo train` and model.train(), as the trainer has read it. Its loader of evaluation goes by it, too."""
    trainer, beginning = module.BaseTrainer, []

    @guest.hook
    def begin(self, *_):
        beginning.append(self)
        return True

    @guest.hook
    def end(error):
        global batches, accumulates, given
        self = beginning.pop()
        if error is not None:
            return
        batches = accumulates = "YOLO's train(batch=)"
        if rows:
            before, self.args.batch = self.args.batch, rows
            self.batch_size = given = rows
            tell("batch", True, **{"where": batches, "from": max(0, int(before)), "to": rows})
        if parts > 1:
            why = "YOLO accumulates by itself, to its nominal batch (nbs=%s): a smaller batch has about the same updates" % getattr(self.args, "nbs", 64)
            tell("accumulate", False, where=batches, why=why)

    trainer.__init__ = guest.around(trainer.__init__, begin, end)


def _lightning(module, parts):
    """Trainer(accumulate_grad_batches=)."""
    trainer = module.Trainer

    @guest.hook
    def begin(self, model, *_):
        global accumulates
        if parts < 2:
            return False
        option = "Trainer.accumulate_grad_batches"
        if not getattr(model, "automatic_optimization", True):
            accumulates = option
            tell("accumulate", False, where=option, why="automatic_optimization is off: the script steps by itself")
        elif accumulates != option:
            accumulates = option
            self.accumulate_grad_batches *= parts
        return False

    trainer.fit = guest.around(trainer.fit, begin, None)
