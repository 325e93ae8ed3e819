"""Out of memory, as it is raised: a script that catches it, and goes on with less than it was to train on, ends well by its status alone.

Seen are exceptions that pass through a call of a model or a backward pass. CUDA's allocator counts all that it raised, and is asked at the end."""

import sys

from ... import guest, place, process, wire

TEXTS = ("out of memory", "Invalid buffer size", "can't allocate memory")  # MPSAllocator.mm, CUDACachingAllocator.cpp, alloc_cpu.cpp
KINDS = 20  # of a process that are told

_counts = {}  # (text, where) -> times


def install(torch, config):
    process.finisher(_of_cuda)


def clear():
    """A forked child has caught nothing."""
    _counts.clear()


def note(error):
    """An exception has ended a watched call, of which only the outermost is watched."""
    if not isinstance(error, (RuntimeError, MemoryError)):
        return
    name, text = process.said(error)
    if not any(words in text for words in TEXTS) and not name.endswith("OutOfMemoryError"):
        return
    _tell(text[:2000], place.of_error(error), 1)


def _tell(text, where, count):
    key = text, where
    if key in _counts or len(_counts) < KINDS:
        _counts[key] = _counts.get(key, 0) + count
        wire.put({"ev": "out_of_memory", "text": text, "where": where, "count": _counts[key]})


@guest.hook
def _of_cuda():
    torch = sys.modules["torch"]
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    raised = sum(torch.cuda.memory_stats(device).get("num_ooms", 0) for device in range(torch.cuda.device_count()))
    if raised > sum(_counts.values()):
        _tell("CUDA out of memory: torch.cuda.memory_stats counts num_ooms", "", raised - sum(_counts.values()))
