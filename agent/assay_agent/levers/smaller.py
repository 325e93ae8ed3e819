"""smaller: images of half the side, sequences of half the length, where the loader of the training puts its batches together.

Images (rows, channels, height, width) are resized by area. What stands beside them is left where it is a number a row, or scores of classes
(of 0 and 1, or that add up to 1), and follows where it is a mask of their height and width. Sequences are integers (rows, length) of one length,
and all of them are cut. Anything else would have to follow in a way that is not known, and is refused. Whether it can be done is told by the
first rows of the data, before the pass.
"""

from .. import guest
from ..watch.torch import rows as data_rows
from . import loaders, tell

LOOK = 8  # rows
SHORTEST = 4  # side or length that is halved
POSITIONS = ("position", "span", "offset", "length", "index")  # in the name of what would point into a cut sequence
_torch = None


class _Refused(Exception):
    """Why a batch cannot be made smaller."""


def install(torch, asked):
    global _torch
    _torch = torch
    loaders.install(torch)
    loaders.reading.append(_reading)


def _reading(made):
    if "smaller" in made.kept:
        return
    made.kept["smaller"] = True
    loader, where = made.loader(), loaders.named(made)
    try:
        was, now, what = _look(loader)
    except _Refused as why:
        tell("smaller", False, where=where, why=str(why))
        return
    except Exception as err:
        guest.pass_on(err)
        tell("smaller", False, where=where, why="the data set could not be asked for its rows: %s" % repr(err)[:300])
        return
    loader.collate_fn = _Smaller(loader.collate_fn)
    tell("smaller", True, **{"where": where, "from": was, "to": now, "note": what})


def _look(loader):
    """(side or length before, after, what it is) of the batch that the first rows make."""
    if isinstance(loader.dataset, _torch.utils.data.IterableDataset):
        raise _Refused("the data set gives its rows in an order of its own: none can be looked at before")
    if loader.batch_sampler is None:
        raise _Refused("batch_size=None: the data set makes its batches itself")
    with data_rows.unheard(_torch):
        sampler = loaders.batches(loader).sampler
        reached = getattr(sampler, "indices", None)  # of a subset
        indices = list(reached[:LOOK]) if isinstance(reached, (list, tuple)) else range(min(LOOK, len(loader.dataset)))
        batch = loader.collate_fn([loader.dataset[i] for i in indices])
        kind = _kind(batch)
        if kind is None:
            raise _Refused("it is smaller than %d already" % SHORTEST)
        return kind.size, -(-kind.size // 2), kind.what


class _Smaller:
    """A collate_fn whose batches are smaller. It may be called in a worker."""

    def __init__(self, collate):
        self.collate = collate

    def __call__(self, rows):
        batch = self.collate(rows)
        try:
            kind = _kind(batch)
            return batch if kind is None else _rebuilt(batch, kind.change)
        except _Refused:  # the first rows were not like these
            return batch


class _Images:
    def __init__(self, height, width, masks):
        self.height, self.width = height, width
        self.size = max(height, width)
        self.what = "image side, by area" + ("; masks by the nearest" if masks else "") + "; the loss is of other data"

    def change(self, tensor):
        shape = tuple(tensor.shape)
        if shape[-2:] != (self.height, self.width) or tensor.dim() not in (3, 4):
            return tensor
        whole = tensor if tensor.dim() == 4 else tensor[:, None]
        mask = tensor.dim() == 3 or _is_mask(tensor)
        size = -(-self.height // 2), -(-self.width // 2)
        result = _torch.nn.functional.interpolate(whole.float(), size=size, mode="nearest" if mask else "area")
        result = result if tensor.is_floating_point() else result.round()
        return (result if tensor.dim() == 4 else result[:, 0]).to(tensor.dtype)


class _Sequences:
    def __init__(self, tensors, length):
        self.length = self.size = length
        self.what = "length of the sequences, cut; the loss is of other data"
        half = -(-length // 2)
        # The half that has something to learn: rows may be padded on the left, or their first part be left out of the loss.
        ends = [t for name, t in tensors if t.dim() == 2 and ("mask" in name or "label" in name)]
        empty = any(bool((t[:, :half] == (-100 if t.dtype == _torch.int64 and bool((t < 0).any()) else 0)).all()) for t in ends)
        self.part = slice(length - half, None) if empty else slice(None, half)

    def change(self, tensor):
        return tensor[:, self.part] if tensor.dim() == 2 else tensor


def _kind(batch):
    """How a batch is made smaller; None where it is small already."""
    tensors = []
    _leaves(batch, "", tensors)
    if not tensors:
        raise _Refused("its batches hold no tensors")
    if any(not t.dim() for _, t in tensors) or len({len(t) for _, t in tensors}) > 1:
        raise _Refused("its tensors are not of one number of rows each: boxes, or rows of sizes of their own, would have to follow")
    images = [t for _, t in tensors if t.dim() == 4 and not _is_mask(t)]
    if images:
        return _of_images(tensors, images)
    return _of_sequences(tensors)


def _of_images(tensors, images):
    sizes = {tuple(t.shape[-2:]) for t in images}
    channels = {t.shape[1] for t in images}
    if len(sizes) > 1 or max(channels) > 16 or not all(t.is_floating_point() or t.dtype == _torch.uint8 for t in images):
        raise _Refused("its tensors of four dimensions are not images of one size (rows, channels, height, width)")
    (size,), masks = sizes, False
    for name, t in tensors:
        if tuple(t.shape[-2:]) == size and (t.dim() == 3 and not t.is_floating_point() or t.dim() == 4):
            masks = masks or t.dim() == 3 or _is_mask(t)
        elif not (t.dim() == 1 or t.dim() == 2 and _scores(t)):
            raise _Refused("beside the images stand %s%s: boxes, points or masks would have to follow" % (name and name + ", ", _form(t)))
    return _Images(*size, masks) if min(size) >= SHORTEST else None


def _of_sequences(tensors):
    long = [t for _, t in tensors if t.dim() > 1]
    for t in long:
        if t.dim() > 2 or t.is_floating_point() or t.is_complex():
            raise _Refused("%s: not known which of its dimensions could be shortened" % _form(t))
    if not long:
        raise _Refused("its batches hold neither images nor sequences")
    if len({t.shape[1] for t in long}) > 1:
        raise _Refused("its sequences are not of one length")
    for name, t in tensors:
        if t.dim() == 1 and any(word in name for word in POSITIONS):
            raise _Refused("%s would point into what is cut" % name)
    length = long[0].shape[1]
    return _Sequences(tensors, length) if length >= SHORTEST else None


def _is_mask(t):
    """Whether all is 0 or 1, in one channel, or of a type that no image has."""
    if t.dtype in (_torch.bool, _torch.int64, _torch.int32):
        return True
    return t.dim() == 4 and t.shape[1] == 1 and t.dtype != _torch.uint8 and bool(((t == 0) | (t == 1)).all()) and bool((t == 1).any())


def _scores(t):
    """Whether rows are scores of classes."""
    if bool(((t == 0) | (t == 1)).all()):
        return True
    return t.is_floating_point() and bool((t >= 0).all()) and bool(((t.sum(1) - 1).abs() < 1e-3).all())


def _form(t):
    return "%s%s" % (str(t.dtype).replace("torch.", ""), list(t.shape))


def _leaves(thing, name, found, depth=0):
    """(name, tensor) of all in a batch; refused is what is not put together of tuples, dictionaries and tensors."""
    if isinstance(thing, _torch.Tensor):
        found.append((name, thing))
    elif depth < 3 and isinstance(thing, (tuple, list)):
        if type(thing) is not tuple and len(thing) > 1 and depth and all(isinstance(t, _torch.Tensor) for t in thing):
            raise _Refused("it holds a list of tensors, of sizes of their own: what belongs to each would have to follow")
        for part in thing:
            _leaves(part, name, found, depth + 1)
    elif depth < 3 and hasattr(thing, "items"):
        for key, part in thing.items():
            _leaves(part, str(key), found, depth + 1)
    elif not isinstance(thing, (str, bytes, int, float, type(None))):
        raise _Refused("it holds a %s, which would have to follow" % type(thing).__qualname__)


def _rebuilt(thing, change):
    if isinstance(thing, _torch.Tensor):
        return change(thing)
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*(_rebuilt(t, change) for t in thing))
    if isinstance(thing, (tuple, list)):
        return type(thing)(_rebuilt(t, change) for t in thing)
    if hasattr(thing, "items"):
        for key in list(thing.keys()):  # in place: a BatchEncoding keeps its class
            thing[key] = _rebuilt(thing[key], change)
    return thing
