"""batch: rows of a batch of the training, by the framework's own option where it has one, else by the DataLoader."""

from .. import guest
from ..watch.imports import when_imported
from . import loaders, tell

rows = 0  # as asked for; 0: as the script has it
parts = 1  # batches that each of these is given in (accumulate)
_option = None  # the framework's option that was set


def install(torch, asked):
    global rows
    rows = int(asked["batch"])
    loaders.install(torch)
    loaders.change.append(_change)
    loaders.give_back.append(_give_back)
    loaders.reading.append(_reading)
    when_imported("transformers.trainer", _trainer)
    when_imported("ultralytics.engine.trainer", _yolo)


def by_option(where, before, after):
    """A framework's option has the batch now: the loaders that it makes are as it wants them."""
    global _option
    _option = where
    tell("batch", True, **{"where": where, "from": before, "to": after})


def _change(made):
    loader = made.loader()
    if _option:
        return
    sampler = loader.batch_sampler
    made.kept["batch"] = before, why = getattr(sampler, "batch_size", None), _refused(loader)
    if why is None and before != rows:
        loaders.set_rows(loader, rows)


def _refused(loader):
    why = loaders.own_sampler(loader)
    if why is None:
        there = loaders.rows_of(loader)
        if there is not None and there < rows:
            why = "the data has %d rows, fewer than a batch of %d" % (there, rows)
    return why


def _give_back(made):
    before, why = made.kept.pop("batch", (None, "never changed"))
    if why is None:
        loaders.set_rows(made.loader(), before)


def _reading(made):
    if "batch" not in made.kept:
        return
    before, why = made.kept["batch"]
    where = loaders.named(made)
    if why is not None:
        tell("batch", False, where=where, why=why)
    else:
        tell("batch", True, **{"where": where, "from": before, "to": rows})


# -- frameworks with an option of their own ----------------------------------------------------------------------------


def _trainer(module):
    """transformers: TrainingArguments.per_device_train_batch_size, which its loader, its log and its schedule go by."""
    trainer = module.Trainer

    @guest.hook
    def begin(self, model=None, args=None, *_):
        if args is not None:
            before, args.per_device_train_batch_size = args.per_device_train_batch_size, rows
            by_option("TrainingArguments.per_device_train_batch_size", before, rows)
        return False

    trainer.__init__ = guest.around(trainer.__init__, begin, None)


def _yolo(module):
    """ultralytics: the option batch of `yolo train` and model.train(), as the trainer has read it. Its loader of evaluation goes by it, too."""
    trainer, beginning = module.BaseTrainer, []

    @guest.hook
    def begin(self, *_):
        beginning.append(self)
        return True

    @guest.hook
    def end(error):
        self = beginning.pop()
        if error is None:
            before, self.args.batch = self.args.batch, rows
            self.batch_size = rows
            by_option("batch= of YOLO's train", before, rows)

    trainer.__init__ = guest.around(trainer.__init__, begin, end)
