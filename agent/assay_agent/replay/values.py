"""Arguments of a signature (docs/formats/signatures.md): read, held against bounds, drawn by a seed on the CPU, and put on a device.

Every tensor is a view of a storage that is drawn whole, so that strides, offsets, and storages that tensors share are as they
were recorded. A file of signatures is a stranger's: what does not fit is refused before anything is allocated.
"""

import math

import torch

RANK = 64  # dimensions: what PyTorch takes
DEPTH = 8  # of lists in lists
LISTED = 10_000  # values of a list
NAN_EVERY = 16  # where NaN was seen among the values: each such element is one, the first included
# What is drawn where no range was recorded: floats around zero, small indices.
FLOATS, INTS = (-1.0, 1.0), (0, 1)


class Unreplayable(Exception):
    """Why a signature is not replayed, in words for the user."""


def dtype_of(name):
    found = getattr(torch, name, None) if isinstance(name, str) and name.isidentifier() else None
    if not isinstance(found, torch.dtype):
        raise Unreplayable("this torch has no type %.40r" % (name,))
    if found.is_complex or found.is_floating_point or found is torch.bool or not str(found).startswith(("torch.q", "torch.bits")):
        return found
    raise Unreplayable("tensors of %s are not drawn" % name)


def whole(value, least, what):
    if type(value) is not int or value < least or value >= 1 << 62:
        raise Unreplayable("%s is %.40r: no number from %d on" % (what, value, least))
    return value


class Described:
    """A tensor as a signature has it; `where` is its place among all tensors of the call."""

    def __init__(self, given, where):
        if not isinstance(given, dict):
            raise Unreplayable("a tensor is %.40r" % (given,))
        shape, stride = given.get("shape"), given.get("stride")
        if not isinstance(shape, list) or not isinstance(stride, list) or len(shape) != len(stride) or len(shape) > RANK:
            raise Unreplayable("a tensor's shape and strides do not fit each other, or have more than %d dimensions" % RANK)
        self.shape = [whole(n, 0, "a size") for n in shape]
        self.stride = [whole(n, 0, "a stride") for n in stride]
        self.offset = whole(given.get("offset", 0), 0, "an offset")
        self.storage = whole(given.get("storage", 0), 0, "a storage")
        if given.get("layout", "strided") not in ("strided", "torch.strided"):
            raise Unreplayable("tensors of layout %.20s are not drawn" % given.get("layout"))
        self.dtype = dtype_of(given.get("dtype"))
        self.device = given.get("device")
        if self.device not in ("cpu", "cuda", "mps"):
            raise Unreplayable("tensors on %.20r are not drawn" % (self.device,))
        self.values, self.range, self.where = given.get("values"), given.get("range"), where
        reach = self.offset + 1 + sum((n - 1) * s for n, s in zip(self.shape, self.stride)) if math.prod(self.shape) else 0
        if reach > self.storage:
            raise Unreplayable("a tensor reaches element %d of a storage of %d" % (reach, self.storage))

    @property
    def bytes(self):
        return self.storage * self.dtype.itemsize

    def bounds(self):
        """The range that was recorded; None where there is none that can be used."""
        found = self.range
        if not isinstance(found, list) or len(found) != 2 or any(type(n) not in (int, float) for n in found):
            return None
        low, high = found
        return (low, high) if math.isfinite(low) and math.isfinite(high) and low <= high else None


class Arguments:
    """The arguments of one signature. home: the type of device that it was recorded on, as tensors name it."""

    def __init__(self, signature, home):
        self.home, self.tensors = home, []
        args, kwargs = signature.get("args"), signature.get("kwargs") or {}
        if not isinstance(args, list) or not isinstance(kwargs, dict) or len(args) + len(kwargs) > 200:
            raise Unreplayable("its arguments are no list of at most 200")
        self.args = [self._read(a, 0) for a in args]
        self.kwargs = {k: self._read(kwargs[k], 0) for k in sorted(kwargs)}  # aliases count tensors in this order
        self.groups = self._groups(signature.get("alias") or [])

    def _read(self, given, depth):
        if depth > DEPTH:
            raise Unreplayable("its lists are deeper than %d" % DEPTH)
        if given is None or type(given) in (bool, int, float):
            return given
        if isinstance(given, str):
            if len(given) > 1000:
                raise Unreplayable("a text of %d characters" % len(given))
            return given
        if not isinstance(given, dict) or len(given) != 1:
            raise Unreplayable("an argument is %.40r" % (given,))
        (kind, value), = given.items()
        if kind == "t":
            described = Described(value, len(self.tensors))
            self.tensors.append(described)
            if len(self.tensors) > LISTED:
                raise Unreplayable("more than %d tensors" % LISTED)
            return described
        if kind == "l":
            if not isinstance(value, list) or len(value) > LISTED:
                raise Unreplayable("a list of more than %d" % LISTED)
            return [self._read(v, depth + 1) for v in value]
        if kind == "float" and value in ("nan", "inf", "-inf"):
            return float(value)
        if kind == "complex" and isinstance(value, list) and len(value) == 2:
            return complex(*(float(v) for v in value))
        if kind == "dtype":
            return dtype_of(value)
        if kind == "device":
            return Place(value)
        if kind == "layout" and value == "strided":
            return torch.strided
        if kind == "memory_format" and value in ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format"):
            return getattr(torch, value)
        if kind == "generator":
            return None  # the default one: random operators are compared by shape, type and range
        if kind == "symbol":
            raise Unreplayable("an argument cannot be replayed: %.80s" % (value,))
        raise Unreplayable("an argument is of kind %.40r" % (kind,))

    def _groups(self, alias):
        """Lists of tensors' places, one a storage."""
        of = {}
        for group in alias if isinstance(alias, list) else ():
            if not isinstance(group, list) or any(type(n) is not int or not 0 <= n < len(self.tensors) or n in of for n in group):
                raise Unreplayable("its aliases name tensors that are not there, or one twice")
            for n in group:
                of[n] = group
        groups, seen = [], set()
        for n in range(len(self.tensors)):
            if n not in seen:
                group = of.get(n) or [n]
                seen.update(group)
                groups.append(group)
        for group in groups:
            if len({self.tensors[n].bytes for n in group}) > 1:
                raise Unreplayable("tensors share a storage, and say that it has different sizes")
        return groups

    def bytes(self):
        return sum(self.tensors[group[0]].bytes for group in self.groups)

    def on_cpu(self, described):
        """Whether a tensor or a device of the call stays on the CPU, beside others on the device."""
        return self.home != "cpu" and described.device == "cpu"

    def draw(self, seed):
        """Storages on the CPU, one a group, as they were recorded; the same for the same seed."""
        return [self._drawn(self.tensors[group[0]], seed * 1_000_003 + i) for i, group in enumerate(self.groups)]

    @staticmethod
    def _drawn(t, seed):
        random = torch.Generator().manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
        n, kind, bounds = t.storage, t.values, t.bounds()
        if kind == "zero":
            return torch.zeros(n, dtype=t.dtype)
        if kind == "one":
            return torch.ones(n, dtype=t.dtype)
        if t.dtype is torch.bool:
            share = min(max(bounds[0], 0.0), 1.0) if bounds else 0.5
            return torch.rand(n, generator=random) < share
        if not (t.dtype.is_floating_point or t.dtype.is_complex):
            limits = torch.iinfo(t.dtype)
            low, high = bounds or INTS
            low, high = max(int(low), limits.min), min(int(high), limits.max)
            if high < low:
                low = high = 0
            low, high = (min(max(v, -(1 << 61)), 1 << 61) for v in (low, high))  # what randint can tell apart
            return torch.randint(low, high + 1, (n,), generator=random, dtype=torch.int64).to(t.dtype)
        low, high = bounds or FLOATS
        wide = torch.float64 if t.dtype in (torch.float64, torch.complex128) else torch.float32

        def real():
            if kind == "constant":
                return torch.full((n,), float(low), dtype=wide)
            if kind == "ints":
                span = int(min(high - low, 1 << 52))
                return torch.randint(0, span + 1, (n,), generator=random).to(wide) + float(low)
            return (torch.rand(n, generator=random, dtype=wide) * (float(high) - float(low)) + float(low)).clamp_(float(low), float(high))

        drawn = torch.complex(real(), real()) if t.dtype.is_complex else real()
        if kind == "nan":
            drawn[::NAN_EVERY] = math.nan
        return drawn.to(t.dtype)

    def views(self, storages):
        """The tensors of the call as views of their storages, by their places."""
        found = [None] * len(self.tensors)
        for group, base in zip(self.groups, storages):
            for n in group:
                t = self.tensors[n]
                flat = base if base.dtype is t.dtype else base.view(t.dtype)
                found[n] = flat.as_strided(t.shape, t.stride, t.offset)
        return found

    def filled(self, views, device):
        """args and kwargs with tensors in their places; devices become `device`, but where the CPU was meant."""
        def put(value):
            if isinstance(value, Described):
                return views[value.where]
            if isinstance(value, list):
                return [put(v) for v in value]
            if isinstance(value, Place):
                return torch.device("cpu" if self.on_cpu(value) else device)
            return value

        return [put(a) for a in self.args], {k: put(v) for k, v in self.kwargs.items()}


class Place:
    """A device among the arguments."""

    def __init__(self, device):
        self.device = device if device in ("cpu", "mps", "cuda", "meta") else None
        if self.device is None:
            raise Unreplayable("a device is %.40r" % (device,))
