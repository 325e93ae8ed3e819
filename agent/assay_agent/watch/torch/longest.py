"""The batch that was rehearsed, and the longest that the data would give: sequence lengths vary, and what fits with the
first batches may not fit with the longest.

A length is the number of elements that the batch's first tensor has in a row. What was rehearsed is seen where the model
is called. The data are looked at when the script is over, in the process that trained: so nothing that an item's making
changes (random numbers, a cache, a counter) is the script's any more, and what it prints is not printed. Items are taken
in an order of our own, so that those that time allows are a sample; the longest of them are put together as the loader
puts a batch together.
"""

import random
import time

from ... import guest
from . import rows as data_rows

SECONDS = 3.0  # that it may take; an item that takes longer is the last
LENGTHS = 100  # different ones that are told apart
ALIKE = 256  # of one size, after which no other is looked for
OF = "rows and elements in a row of the first tensor that the model was called with"


class Longest:
    """What is known of the batches of the training loop."""

    def __init__(self, torch):
        self.torch = torch
        self.rows = self.length = 0
        self.lengths = set()  # of the batches that the model was called with
        self.listed = False  # whether the model was called with a list of tensors, a row each
        self.like = None  # (dimensions, whether its numbers are floats) of the first tensor
        self.loader = None  # (dataset, collate_fn, rows of a batch or None where an item is one)

    def called(self, args, kwargs):
        """The model is called with these, gradients on."""
        if self.torch._C._get_tracing_state() is not None:  # torch.jit.trace: sizes are tensors, and to read one warns
            return
        found = self._first((args, kwargs))
        if found is not None:
            tensor, rows, length = found
            self.like = self.like or _like(tensor)
            self.rows, self.length = max(self.rows, rows), max(self.length, length)
            if len(self.lengths) < LENGTHS:
                self.lengths.add(length)

    def read(self, loader):
        """A pass of a loader begins. What it reads is held until the script is over; the first one that is read for
        training stands."""
        if self.loader is None and self.torch.is_grad_enabled():
            held = loader.__dict__
            self.loader = (held.get("dataset"), held.get("collate_fn"), getattr(loader, "batch_size", None),
                           getattr(loader, "batch_sampler", None) is not None)

    def clear(self):
        self.loader = None

    def tell(self):
        """`batch` of the event `account`, or None where no model was called with a tensor."""
        if not self.rows:
            return None
        told = {"rows": self.rows, "of": OF, "length": self.length, "lengths": len(self.lengths), "longest_seen_of": 0}
        try:
            self._look(told)
        except Exception as error:
            guest.pass_on(error)
            told["why"] = "looking at the data failed: %s: %s" % (type(error).__name__, str(error)[:200])
        return told

    def _look(self, told):
        if self.loader is None:
            told["why"] = "no DataLoader was read for training"
            return
        dataset, collate, rows, batches = self.loader
        kind = type(dataset)
        if isinstance(dataset, self.torch.utils.data.IterableDataset):
            told["why"] = "the data are a stream (IterableDataset)"
            return
        if not hasattr(kind, "__getitem__") or not hasattr(kind, "__len__"):
            told["why"] = "the data have no length, or no items by number"
            return
        with data_rows.unheard(self.torch):
            found = told["items"] = len(dataset)
            if not found:
                told["why"] = "there are no items"
                return
            rows = (rows or self.rows) if batches else 1
            seen, longest = self._longest(dataset, found, rows)
            told["longest_seen_of"] = seen
            if not seen:
                told["why"] = "no item could be read"
                return
            batch = collate([item for _, _, item in longest]) if batches and collate is not None else longest[0][2]
        length = self._length_of(batch)
        if length is None:
            told["why"] = "no tensor of the loader's batches is like the one that the model was called with"
            return
        told["longest"] = max(length, self.length)
        if seen < found:
            told["why"] = ("%d of %d items were looked at: no more than %d, %g seconds, and %d that are all of one size"
                           % (seen, found, data_rows.ROWS, SECONDS, ALIKE))

    def _longest(self, dataset, found, rows):
        """(how many items were looked at, the longest of them as (size, position, item))."""
        order = random.Random(0).sample(range(found), min(found, data_rows.ROWS))
        began, longest, seen, sizes = time.monotonic(), [], 0, set()
        for at in order:
            item = dataset[at]
            seen += 1
            size = data_rows.elements(self.torch, item) or 1
            if len(longest) < rows or size > longest[-1][0]:
                longest.append((size, at, item))
                longest.sort(key=lambda known: -known[0])
                del longest[rows:]
            sizes.add(size)
            if time.monotonic() - began > SECONDS or seen >= ALIKE and len(sizes) == 1:
                break
        return seen, longest

    def _length_of(self, batch):
        """The length of a batch's first tensor that is like the model's."""
        todo = [batch]
        while todo:
            thing = todo.pop(0)
            if isinstance(thing, self.torch.Tensor):
                if thing.dim() and thing.shape[0] and _like(thing) == self.like:
                    return _length(thing, thing.shape[0])
            elif isinstance(thing, (list, tuple)):
                # a list of tensors is the rows of a batch where the model takes such; else what was collated, part by part
                if self.listed and self._alike(thing) and _like(thing[0]) == self.like:
                    return max(t.numel() for t in thing)
                todo += thing
            elif hasattr(thing, "values"):  # a dict, transformers' BatchEncoding
                todo += list(thing.values())
        return None

    def _first(self, thing, depth=0):
        """(the first tensor among a call's arguments, its rows, their length), or None; an argument that is a list of
        tensors, as of detectors, is a batch of so many rows."""
        if isinstance(thing, self.torch.Tensor):
            return (thing, thing.shape[0], _length(thing, thing.shape[0])) if thing.dim() and thing.shape[0] else None
        if depth > 3 or not isinstance(thing, (list, tuple, dict)):
            return None
        if depth == 2 and type(thing) is list and self._alike(thing):
            self.listed = True
            return thing[0], len(thing), max(t.numel() for t in thing)
        for part in thing.values() if isinstance(thing, dict) else thing:
            found = self._first(part, depth + 1)
            if found is not None:
                return found
        return None

    def _alike(self, things):
        return bool(things) and all(isinstance(t, self.torch.Tensor) and _like(t) == _like(things[0]) for t in things)


def _like(tensor):
    return tensor.dim(), tensor.is_floating_point()


def _length(tensor, rows):
    return tensor.numel() // rows
