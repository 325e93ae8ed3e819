"""The DataLoaders that a training draws from, for the levers that change them.

Which loader trains is told in this order:
  1. one that is read where gradients are off is evaluation's, and is left, or given back, as the script made it;
  2. one that shuffles (its sampler is not the sequential one) trains;
  3. where none shuffles, the first that the script made, or the first that it reads with gradients on.
"""

import weakref

from .. import guest, place
from ..watch.torch import dataloader as watched
from . import missed

change = []  # (made) -> None: changes the loader of a Made; called when it is known, or likely, to train
give_back = []  # (made) -> None: takes that back
reading = []  # (made) -> None: called before each pass of a loader that trains


class Made:
    """A DataLoader, where the script made it, and what levers keep of it."""

    __slots__ = ("loader", "where", "shuffles", "changed", "trains", "kept")

    def __init__(self, loader, where, shuffles):
        self.loader, self.where, self.shuffles = weakref.ref(loader), where, shuffles
        self.changed = self.trains = False
        self.kept = {}  # lever -> what it needs to give back, or to say


_made = []  # in the order in which they were made
_changed = {}  # id -> (weak reference to a batch sampler that was changed, what levers keep of its loader)
_beginning = []
_installed = []


def install(torch):
    """For the first lever that asks."""
    if _installed:
        return
    _installed.append(True)
    from torch.utils.data import DataLoader, SequentialSampler

    for lever in ("batch", "accumulate", "longest", "smaller"):
        missed[lever] = "no DataLoader was read with gradients on: the script makes its batches itself, or did not come to train"

    @guest.hook
    def begin(loader, *_):
        _beginning.append((loader, place.where(3)[0]))
        return True

    @guest.hook
    def end(error):
        loader, where = _beginning.pop()
        if error is not None:
            return
        # Where a batch sampler was handed in, the loader's own sampler is one that nobody asks.
        sampler = getattr(batches(loader), "sampler", None) or getattr(loader, "sampler", None)
        shuffles = not isinstance(sampler, SequentialSampler) and getattr(sampler, "shuffle", True) is not False
        if type(sampler).__name__ == "_InfiniteConstantSampler":  # of an IterableDataset: it does not say
            shuffles = False
        made = Made(loader, where, shuffles)
        _made[:] = [m for m in _made if m.loader() is not None][-1000:] + [made]
        others = [m for m in _made if m.changed]
        if shuffles or not others:
            _change(made)
        if shuffles:
            for m in others:
                if not m.shuffles and not m.trains:
                    _give_back(m)

    @guest.hook
    def read(loader):
        made = next((m for m in _made if m.loader() is loader), None)
        if made is None:
            return False
        if not torch.is_grad_enabled():
            if not made.trains:
                _give_back(made)
            return False
        if not made.changed and not any(m.trains or m.shuffles for m in _made if m.loader() is not None):
            _change(made)
        if made.changed:
            made.trains = True
            for act in reading:
                act(made)
        return False

    DataLoader.__init__ = guest.around(DataLoader.__init__, begin, end)
    DataLoader._get_iterator = guest.around(DataLoader._get_iterator, read, None)


def _change(made):
    made.changed = True
    sampler = _innermost(batches(made.loader()))
    held = _changed.get(id(sampler))
    if held is not None and held[0]() is sampler:  # a loader made of another one, as accelerate's prepare does
        made.kept = held[1]
        return
    for act in change:
        act(made)
    if hasattr(type(sampler), "__weakref__"):  # a list of indices is none that we change
        _changed[id(sampler)] = weakref.ref(sampler), made.kept


def _innermost(sampler):
    """The batch sampler that accelerate's take their batches of: whole ones, of as many rows."""
    while type(sampler).__module__ == "accelerate.data_loader" and not getattr(sampler, "split_batches", False) and hasattr(sampler, "batch_sampler"):
        sampler = sampler.batch_sampler
    return sampler


def _give_back(made):
    if made.changed:
        made.changed = False
        for act in reversed(give_back):
            act(made)


def named(made):
    """The loader as events name it."""
    return "DataLoader at %s" % made.where if made.where else "DataLoader"


def batches(loader):
    """What puts the loader's batches together; None where its data set does. With batch_size=None it may be its sampler."""
    from torch.utils.data import BatchSampler

    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None and isinstance(getattr(loader, "sampler", None), BatchSampler):
        sampler = loader.sampler
    return sampler


def rows_of(loader):
    """How many rows a pass draws; None where that is not known, or asking would run the script's own code."""
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset):
        return None
    sampler = getattr(batches(loader), "sampler", None)
    if sampler is None or not watched._counts(sampler) or not watched._counts(loader.dataset):
        return None
    return watched._length(sampler)


def own_sampler(loader):
    """Why the loader's batches cannot be changed; None where they can: its batch sampler is PyTorch's own."""
    from torch.utils.data import BatchSampler

    sampler = batches(loader)
    if sampler is None:
        return "batch_size=None: the data set makes its batches itself"
    if type(sampler) is not BatchSampler:
        return "its batch sampler, %s, puts batches together itself" % type(sampler).__qualname__
    return None


def set_rows(loader, rows):
    """Have the loader give batches of so many rows. DataLoader refuses the assignment, since its sampler is made already: that is changed here."""
    batches(loader).batch_size = rows
    if loader.__dict__.get("batch_size") is not None:
        loader.__dict__["batch_size"] = rows
