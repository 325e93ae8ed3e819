"""What is told of a tensor: hash, statistics, a sketch and a sample of its elements (docs/formats/steps.md).

On the CPU it is told at once, of NumPy's view of the same bytes. What lies elsewhere is told later (Told), many tensors by one copy: a small one
is copied as it is, before anything writes to it, and a large one is summed where it lies, if float64 exists there.
"""

import base64
import math

import numpy

CHUNK = 1 << 18  # elements, and words of the hash, that have signs and keys of their own
BLOCK = 1 << 15  # elements that are looked at together: 256 KiB as float64, which a core's cache holds
BUCKETS = 64
SAMPLE = 256
_GOLDEN = 0.6180339887498949
_WRAP = (1 << 64) - 1


def _drawn():
    """Keys, CHUNK numbers of 64 bits twice over: the outputs of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)."""
    with numpy.errstate(over="ignore"):
        z = (numpy.arange(CHUNK, dtype=numpy.uint64) + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return numpy.tile(z ^ (z >> numpy.uint64(31)), 2)


_KEYS = _drawn()
SIGNS = 1.0 - 2.0 * (_KEYS >> numpy.uint64(63)).astype(numpy.float64)  # +1 or -1: the top bit
_KEYS = _KEYS.view(numpy.int64)


def _begin(at):
    """Where in SIGNS and _KEYS those of element or word at are: those of the first chunk, begun elsewhere."""
    return (at // CHUNK * 0x9E3779B1) % CHUNK + at % CHUNK


def number(value):
    """A float as JSON says it: a string where it is none."""
    value = float(value)
    return value if math.isfinite(value) else str(value)


def _flat(torch, tensor):
    """The elements of a tensor in row-major order, as a dense and real one; its own memory where that can be."""
    t = tensor.detach()
    if t.layout != torch.strided:
        t = t.to_dense()
    if t.is_complex():
        t = torch.view_as_real(t.resolve_conj())
    if t.is_neg():
        t = t.resolve_neg()
    return t.contiguous().reshape(-1)


def _about(tensor):
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).replace("torch.", "")}


def told(torch, tensor, before=None):
    """T of a tensor, wherever it lies; before where that is T of the same bytes. Nothing of it is kept."""
    flat = _flat(torch, tensor)
    if flat.device.type != "cpu":
        flat = _here(torch, flat)
    digest = hashed(_numpy(torch, flat.view(torch.uint8)))
    if before is not None and before["hash"] == digest:
        return before
    made = dict(_about(tensor), hash=digest)
    made.update(summed(_values(torch, flat)))
    return made


def _here(torch, tensor):
    """A tensor's copy on the CPU. torch.Tensor.cpu and its like count as the script's, which would be told of our reads."""
    return torch._C.TensorBase.cpu(tensor)


def _numpy(torch, tensor):
    return torch._C.TensorBase.numpy(tensor)


def _values(torch, flat):
    if flat.is_floating_point() and flat.dtype not in (torch.float32, torch.float64):
        flat = flat.float()  # exact; NumPy knows the half only, and slowly
    return _numpy(torch, flat)


def hashed(data):
    """The hash of bytes (a flat uint8 array), 16 hexadecimal digits: the sum, modulo 2^64, of the words of 4 bytes, each times the key of its place.

    Multilinear hashing (Lemire and Kaser: Strongly universal string hashing is fast, 2014): what differs in one word has another hash in any case, and
    anything else by a chance of 2^-32 at the worst, which is a pair of signs.
    """
    total, size = 0, data.shape[0]
    if size % 4:
        data = numpy.concatenate([data, numpy.zeros(-size % 4, numpy.uint8)])
    words = data.view(numpy.int32)
    held = numpy.empty(min(BLOCK, words.shape[0]), numpy.int64)
    for at in range(0, words.shape[0], BLOCK):
        part = words[at : at + BLOCK]
        x, begin = held[: part.shape[0]], _begin(at)
        numpy.copyto(x, part)
        total += int(numpy.einsum("i,i->", x, _KEYS[begin : begin + part.shape[0]]))
    return "%016x" % (total & _WRAP)


def summed(values):
    """stats, sketch and sample of a flat array."""
    size = values.shape[0]
    low, high, total, squares = math.inf, -math.inf, 0.0, 0.0
    nans = infs = zeros = 0
    sketch = numpy.zeros(BUCKETS)
    held = numpy.empty(min(size, BLOCK))
    with numpy.errstate(all="ignore"):
        for at in range(0, size, BLOCK):
            part = values[at : at + BLOCK]
            n = part.shape[0]
            x = held[:n]
            numpy.copyto(x, part, casting="unsafe")
            square = float(numpy.einsum("i,i->", x, x))  # no BLAS, which would take every core for it
            if math.isfinite(square):
                low, high = min(low, float(part.min())), max(high, float(part.max()))
            else:
                nan, finite = numpy.isnan(x), numpy.isfinite(x)
                nans += int(numpy.count_nonzero(nan))
                wrong = n - int(numpy.count_nonzero(finite))
                infs += wrong - int(numpy.count_nonzero(nan))
                zeros -= wrong
                if wrong < n:
                    low, high = min(low, float(x[finite].min())), max(high, float(x[finite].max()))
                x[~finite] = 0
                part = x
                square = float(numpy.einsum("i,i->", x, x))
            zeros += int(numpy.count_nonzero(part == 0))
            total += float(x.sum())
            squares += square
            begin = _begin(at)
            whole = n - n % BUCKETS
            sketch += numpy.einsum("ij,ij->j", x[:whole].reshape(-1, BUCKETS), SIGNS[begin : begin + whole].reshape(-1, BUCKETS))
            if whole < n:
                sketch[: n - whole] += x[whole:] * SIGNS[begin + whole : begin + n]
    made = {"stats": _stats(size, low, high, total, squares, nans, infs, zeros)}
    made.update(sketch=_base64(sketch), sample=_base64(values if size <= SAMPLE else values[places(size)]))
    return made


def _stats(size, low, high, total, squares, nans, infs, zeros):
    stats, finite = {"min": None, "max": None, "mean": None, "rms": None}, size - nans - infs
    if finite:
        stats = {"min": number(low), "max": number(high), "mean": number(total / finite), "rms": number(math.sqrt(squares / finite))}
    stats.update(nan=nans, inf=infs, zero=zeros)
    return stats


def places(size):
    """Where the sampled elements of more than SAMPLE lie."""
    k = (numpy.arange(SAMPLE) + 0.5) * _GOLDEN
    return ((k - numpy.floor(k)) * size).astype(numpy.int64)


def _base64(array):
    return base64.b64encode(numpy.ascontiguousarray(array, dtype="<f8").tobytes()).decode("ascii")


class Told:
    """T of tensors of other devices, told by one copy for many: what told gives has its shape and type at once, and the rest when all is done.

    The sums that a device makes are in another order than NumPy's: of float64, 1e-12 of the root of the sum of squares apart at most. The hash
    and the sample are the same bits.
    """

    SMALL = 1 << 14  # elements up to which a tensor is copied whole: about what NumPy looks at in the time of a device's kernels
    HELD = 32 << 20  # bytes of copies that are held at most, but for one tensor
    ROWS = 512  # tensors that are held at most
    CHUNKS = 8  # that a device looks at together: 16 MiB as float64, of which it holds some five

    def __init__(self, torch):
        self.torch, self.held, self.bytes = torch, [], 0
        self.places = {}  # (device, size) -> where the sampled elements of as many lie
        self.tables = {}  # device -> (signs as int8, keys)

    def told(self, tensor):
        flat = _flat(self.torch, tensor)
        made = _about(tensor)
        if flat.numel() <= self.SMALL or not self.computes(flat.device):
            if tensor.layout == self.torch.strided and flat.data_ptr() == tensor.data_ptr():
                flat = flat.clone()
            self.held.append((made, flat, None))
            self.bytes += flat.numel() * flat.element_size()
        else:
            self.held.append((made, *self.on_device(flat)))
        return made

    def full(self):
        return self.bytes >= self.HELD or len(self.held) >= self.ROWS

    def computes(self, device):
        """Whether the device has float64 and sums of int64 that wrap around: MPS has not."""
        return device.type in ("cuda", "cpu")

    def done(self):
        """Tell all that is held: a copy for each device and kind."""
        torch, held = self.torch, self.held
        self.held, self.bytes = [], 0
        for device in {values.device for _, values, _ in held}:
            small = [(made, flat) for made, flat, digest in held if flat.device == device and digest is None]
            if small:
                data = _here(torch, torch.cat([flat.view(torch.uint8) for _, flat in small]))
                at = 0
                for made, flat in small:
                    size = flat.numel() * flat.element_size()
                    part = torch.empty(flat.shape, dtype=flat.dtype, device="cpu")  # a copy: it is to begin at a whole word
                    part.view(torch.uint8).copy_(data[at : at + size])
                    made["hash"] = hashed(_numpy(torch, part.view(torch.uint8)))
                    made.update(summed(_values(torch, part)))
                    at += size
            large = [(made, values, digest) for made, values, digest in held if values.device == device and digest is not None]
            if large:
                all_values = _numpy(torch, _here(torch, torch.stack([values for _, values, _ in large])))
                digests = _numpy(torch, _here(torch, torch.stack([digest for _, _, digest in large]))).tolist()
                for (made, _, _), values, digest in zip(large, all_values, digests):
                    size = int(values[6])
                    low, high, total, squares = values[:4].tolist()
                    nans, zeros = int(values[4]), int(values[5])
                    infs = size - nans - int(values[7])
                    made["hash"] = "%016x" % (digest & _WRAP)
                    made["stats"] = _stats(size, low, high, total, squares, nans, infs, zeros)
                    made.update(sketch=_base64(values[8 : 8 + BUCKETS]), sample=_base64(values[8 + BUCKETS :]))

    def table(self, device):
        found = self.tables.get(device)
        if found is None:
            def there(array):
                return self.torch.from_numpy(array).to(device)
            found = self.tables[device] = (there(SIGNS.astype(numpy.int8)), there(_KEYS))
        return found

    def on_device(self, flat):
        """(min, max, sum, sum of squares, NaNs, zeros, size, finite ones, sketch, sample) as float64, and the hash as int64, of a flat tensor with
        more elements than SAMPLE; nothing waits for the device."""
        torch, size = self.torch, flat.numel()
        signs, _ = self.table(flat.device)
        parts, sketch = [], torch.zeros(BUCKETS, dtype=torch.float64, device=flat.device)
        step = self.CHUNKS * CHUNK
        for at in range(0, size, step):
            x = flat[at : at + step].double()
            finite = torch.isfinite(x)
            nans = torch.isnan(x).sum()
            zeros = (x == 0).sum()
            low, high = torch.where(finite, x, math.inf).min(), torch.where(finite, x, -math.inf).max()
            x = torch.where(finite, x, 0.0)
            parts.append(torch.stack([low, high, x.sum(), (x * x).sum(), nans.double(), zeros.double(), finite.sum().double()]))
            n = x.numel()
            x *= _along(torch, signs, at, n)
            whole = n - n % BUCKETS
            sketch += x[:whole].view(-1, BUCKETS).sum(0)
            if whole < n:
                sketch[: n - whole] += x[whole:]
        parts = torch.stack(parts)
        size_there = torch.full((1,), float(size), dtype=torch.float64, device=flat.device)
        if (flat.device, size) not in self.places:
            self.places[flat.device, size] = torch.from_numpy(places(size)).to(flat.device)
        sample = flat[self.places[flat.device, size]].double()
        values = torch.cat([parts[:, 0].amin()[None], parts[:, 1].amax()[None], parts[:, 2:6].sum(0), size_there, parts[:, 6].sum()[None],
                            sketch, sample])
        return values, self.digest(flat)

    def digest(self, flat):
        """hashed, where the tensor lies."""
        torch = self.torch
        _, keys = self.table(flat.device)
        if flat.storage_offset() * flat.element_size() % 4:
            flat = flat.clone()
        data = flat.view(torch.uint8)
        if data.numel() % 4:
            data = torch.nn.functional.pad(data, (0, -data.numel() % 4))
        words = data.view(torch.int32)
        total = torch.zeros((), dtype=torch.int64, device=flat.device)
        step = self.CHUNKS * CHUNK
        for at in range(0, words.numel(), step):
            part = words[at : at + step]
            total += (part.long() * _along(torch, keys, at, part.numel())).sum()
        return total


def _along(torch, table, at, n):
    """The n signs or keys from element or word at on, which begins a chunk."""
    return torch.cat([table[_begin(k) :][: min(CHUNK, at + n - k)] for k in range(at, at + n, CHUNK)])
