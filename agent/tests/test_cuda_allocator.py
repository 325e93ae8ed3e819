"""CUDA's memory account (tools/double/cuda_allocator.py) against cases worked out by hand from the rules in PyTorch's
CUDACachingAllocator."""

import importlib.util
import os
import random

import pytest

from conftest import ROOT

_SPEC = importlib.util.spec_from_file_location("cuda_allocator",
                                               os.path.join(ROOT, "tools", "double", "cuda_allocator.py"))
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)
CudaAllocator = _MODULE.CudaAllocator
MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize("nbytes, block, segment", [
    (1, 512, 2 * MIB),
    (512, 512, 2 * MIB),
    (513, 1024, 2 * MIB),
    (MIB, MIB, 2 * MIB),
    (MIB + 1, MIB + 512, 20 * MIB),
    (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
    (10 * MIB, 10 * MIB, 10 * MIB),
    (11 * MIB, 12 * MIB, 12 * MIB),  # the MiB that is left is not more than 1 MiB
    (100_000_000, 96 * MIB, 96 * MIB),
])
def test_cuda_blocks_and_segments(nbytes, block, segment):
    c = CudaAllocator()
    assert c.allocate(nbytes).size == block
    assert (c.current, c.peak_current, c.reserved, c.peak_reserved) == (block, block, segment, segment)


def test_cuda_splits_and_merges():
    c = CudaAllocator()
    x, y, z = (c.allocate(4 * MIB) for _ in range(3))
    assert (c.current, c.reserved) == (12 * MIB, 20 * MIB)
    c.free(x)
    c.free(z)  # joins the 8 MiB at the end
    assert c.allocate(9 * MIB).address == z.address
    assert c.reserved == 20 * MIB
    c.free(y)  # joins x
    assert c.allocate(8 * MIB).address == 0
    assert c.reserved == 20 * MIB
    c.allocate(4 * MIB)
    assert c.reserved == 40 * MIB


def test_cuda_best_fit_prefers_the_smaller_then_the_lower():
    c = CudaAllocator()
    blocks = [c.allocate(size) for size in (1024, 512, 2048, 512, 1024, 512)]
    for at in (0, 2, 4):
        c.free(blocks[at])
    assert c.allocate(700).address == blocks[0].address
    assert c.allocate(700).address == blocks[4].address
    b = c.allocate(700)
    assert b.address == blocks[2].address and b.size == 1024


def test_cuda_gives_back_whole_segments():
    c = CudaAllocator(total=64 * MIB)
    a, b = c.allocate(30 * MIB), c.allocate(600)
    c.free(a)
    c.allocate(40 * MIB)  # 32 + 40 would be too much
    assert (c.reserved, c.peak_reserved, c.segments) == (42 * MIB, 42 * MIB, 2)
    with pytest.raises(RuntimeError, match=r"^CUDA out of memory\. Tried to allocate 24\.00 MiB\.$"):
        c.allocate(23 * MIB)
    c.free(b)
    with pytest.raises(ValueError):
        c.free(b)
    c.empty_cache()
    assert (c.reserved, c.segments) == (40 * MIB, 1)
    c.reset_peak()
    assert (c.peak_current, c.peak_reserved) == (40 * MIB, 40 * MIB)


@pytest.mark.parametrize("seed", range(4))
def test_cuda_balances(seed):
    r = random.Random(seed)
    c = CudaAllocator(total=GIB)
    live = []
    for _ in range(3000):
        if live and r.random() < 0.5:
            c.free(live.pop(r.randrange(len(live))))
        else:
            try:
                live.append(c.allocate(r.randint(0, 1 << r.randint(1, 27))))
            except RuntimeError:
                pass
        assert c.current == sum(b.size for b in live) <= c.reserved <= GIB
        free = sum(entry[0] for pool in (c._small, c._large) for entry in pool)
        assert c.current + free == c.reserved
    for b in live:
        c.free(b)
    c.empty_cache()
    assert (c.current, c.reserved, c.segments, c._small, c._large) == (0, 0, 0, [], [])
