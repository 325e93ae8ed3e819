"""What is told of a tensor: hash, statistics, a sketch and a sample of its elements (docs/formats/steps.md)."""

import base64
import hashlib
import math

import numpy

CHUNK = 1 << 18  # elements that are looked at together: 2 MiB as float64, which a core's cache holds
BUCKETS = 64
SAMPLE = 256
_GOLDEN = 0.6180339887498949


def _signs():
    """+1 or -1 for each of CHUNK places, twice over: the top bit of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
    generators, 2014)."""
    with numpy.errstate(over="ignore"):
        z = (numpy.arange(CHUNK, dtype=numpy.uint64) + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    signs = 1.0 - 2.0 * (z >> numpy.uint64(63)).astype(numpy.float64)
    return numpy.concatenate([signs, signs])


SIGNS = _signs()


def signs(chunk, n):
    """The signs of the n elements of a chunk: those of the first, begun elsewhere."""
    at = (chunk * 0x9E3779B1) % CHUNK
    return SIGNS[at : at + n]


def number(value):
    """A float as JSON says it: a string where it is none."""
    value = float(value)
    return value if math.isfinite(value) else str(value)


def told(torch, tensor, before=None):
    """T of a dense or sparse tensor, wherever it lies; before where that is T of the same bytes. Reads it a chunk at a time; nothing is kept."""
    t = tensor.detach()
    if t.layout != torch.strided:
        t = t.to_dense()
    if t.device.type != "cpu":
        t = t.cpu()
    if t.is_complex():
        t = torch.view_as_real(t.resolve_conj())
    shape, dtype = list(tensor.shape), str(tensor.dtype).replace("torch.", "")
    if t.is_neg():
        t = t.resolve_neg()
    flat = t.contiguous().reshape(-1)
    digest = hashlib.blake2b(flat.view(torch.uint8).numpy(), digest_size=8).hexdigest()
    if before is not None and before["hash"] == digest:
        return before
    if flat.is_floating_point() and flat.dtype not in (torch.float16, torch.float32, torch.float64):
        values = flat.float().numpy()
    else:
        values = flat.numpy()
    made = {"shape": shape, "dtype": dtype, "hash": digest}
    made.update(summed(values))
    return made


def summed(values):
    """stats, sketch and sample of a flat array."""
    size = values.shape[0]
    low, high, total, squares = math.inf, -math.inf, 0.0, 0.0
    nans = infs = zeros = 0
    sketch = numpy.zeros(BUCKETS)
    for chunk, at in enumerate(range(0, size, CHUNK)):
        x = values[at : at + CHUNK].astype(numpy.float64)
        n = x.shape[0]
        with numpy.errstate(all="ignore"):
            square = float((x * x).sum())  # no BLAS, which would take every core for it
        if not math.isfinite(square):
            nan, finite = numpy.isnan(x), numpy.isfinite(x)
            nans += int(nan.sum())
            infs += n - int(finite.sum()) - int(nan.sum())
            kept = x[finite]
            zeros -= n - kept.shape[0]
            if kept.shape[0]:
                low, high = min(low, float(kept.min())), max(high, float(kept.max()))
            x[~finite] = 0
            with numpy.errstate(all="ignore"):
                square = float((x * x).sum())
        else:
            low, high = min(low, float(x.min())), max(high, float(x.max()))
        zeros += n - int(numpy.count_nonzero(x))
        total += float(x.sum())
        squares += square
        x *= signs(chunk, n)
        whole = n - n % BUCKETS
        sketch += x[:whole].reshape(-1, BUCKETS).sum(0)
        sketch[: n - whole] += x[whole:]
    finite = size - nans - infs
    stats = {"min": None, "max": None, "mean": None, "rms": None}
    if finite:
        stats = {"min": number(low), "max": number(high), "mean": number(total / finite), "rms": number(math.sqrt(squares / finite))}
    stats.update(nan=nans, inf=infs, zero=zeros)
    if size <= SAMPLE:
        sample = values
    else:
        k = (numpy.arange(SAMPLE) + 0.5) * _GOLDEN
        sample = values[((k - numpy.floor(k)) * size).astype(numpy.int64)]
    return {"stats": stats, "sketch": _base64(sketch), "sample": _base64(sample)}


def _base64(array):
    return base64.b64encode(numpy.ascontiguousarray(array, dtype="<f8").tobytes()).decode("ascii")
