"""longest: the rows that are longest make the first batch of each pass, so that the largest memory of the data is met at once.

A row is as long as the largest of its tensors, arrays, lists or texts has elements. The data set is asked for its rows as the loader would ask, with
the random numbers put back after it; one of many rows is asked for some, drawn evenly, and the answer says so.
"""

import time

from .. import guest
from ..watch.torch import rows as data_rows
from . import loaders, tell

SECONDS = 30.0  # that this may take
MOST = 50_000_000  # indices of a pass, which are put into an order
_torch = None


def install(torch, asked):
    global _torch
    _torch = torch
    loaders.install(torch)
    loaders.reading.append(_reading)


class _LongestFirst:
    """A sampler whose first indices are those of the longest rows; the others follow in their order."""

    def __init__(self, sampler, first):
        self.sampler, self.first = sampler, first

    def __iter__(self):
        ahead, found, rest = set(self.first), set(), []
        for index in self.sampler:
            if index in ahead:
                ahead.discard(index)
                found.add(index)
            else:
                rest.append(index)
        yield from (index for index in self.first if index in found)
        yield from rest

    def __len__(self):
        return len(self.sampler)


def _reading(made):
    if "longest" in made.kept:
        return
    made.kept["longest"] = True
    where = loaders.named(made)
    loader = made.loader()
    why = loaders.own_sampler(loader)
    if why is None and isinstance(loader.dataset, _torch.utils.data.IterableDataset):
        why = "the data set gives its rows in an order of its own"
    if why is None and not 0 < (loaders.rows_of(loader) or 0) <= MOST:
        why = "how many rows a pass draws is not known, or it draws without end"
    if why is not None:
        tell("longest", False, where=where, why=why)
        return
    try:
        lengths, there = _lengths(loader)
    except Exception as err:
        guest.pass_on(err)
        tell("longest", False, where=where, why="the data set could not be asked for its rows: %s" % repr(err)[:300])
        return
    if not lengths:
        tell("longest", False, where=where, why="no row of the data has a length")
        return
    batches = loaders.batches(loader)
    rows = batches.batch_size
    first = sorted(lengths, key=lengths.get, reverse=True)[:rows]
    note = "" if len(lengths) == there else "of %d rows of %d, drawn evenly" % (len(lengths), there)
    shortest, longest = min(lengths.values()), lengths[first[0]]
    if shortest == longest:
        note = "; ".join(filter(None, ["all rows have one length", note]))
    else:
        batches.sampler = _LongestFirst(batches.sampler, first)
    tell("longest", True, **{"where": where, "from": shortest, "to": longest, "note": note})


def _lengths(loader):
    """(index → length of the row, how many rows there are) of a data set; random numbers stay as they were."""
    with data_rows.unheard(_torch):
        sampler = loaders.batches(loader).sampler
        reached = getattr(sampler, "indices", None)  # of a subset
        there = len(loader.dataset)
        indices = list(reached) if isinstance(reached, (list, tuple)) else range(there)
        step = max(1, -(-len(indices) // data_rows.ROWS))
        lengths, until = {}, time.monotonic() + SECONDS
        for index in indices[::step]:
            length = data_rows.elements(_torch, loader.dataset[index])
            if length:
                lengths[index] = length
            if time.monotonic() > until:
                raise TimeoutError("asking for rows takes longer than %.0f s: %d of %d were had" % (SECONDS, len(lengths), there))
        return lengths, len(indices)
