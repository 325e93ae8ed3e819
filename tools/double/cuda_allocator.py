"""PyTorch's caching allocator on CUDA, as an account of what it would hold: c10/cuda/CUDACachingAllocator.cpp, 2.8 to
2.11."""

from bisect import bisect_left, insort

from assay_agent.double.allocator import MIB, MIN_LARGE, ROUND_LARGE, format_size

# CUDACachingAllocator.cpp: kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge
CUDA_BLOCK, CUDA_SMALL, CUDA_SMALL_SEGMENT, CUDA_LARGE_SEGMENT = 512, MIB, 2 * MIB, 20 * MIB


class CudaBlock:
    """A piece of a segment; its neighbours in the segment are `left` and `right`."""

    __slots__ = ("size", "address", "used", "pool", "left", "right")

    def __init__(self, size, address, pool):
        self.size = size
        self.address = address
        self.used = False
        self.pool = pool  # free blocks: (size, address, block), ascending
        self.left = self.right = None


class CudaAllocator:
    """PyTorch's caching allocator on one CUDA stream, with default settings (no expandable segments, no roundup, no
    graphs).

    total  bytes that segments may take together, None for no limit. What the CUDA context, libraries and other
           processes hold is for the caller to take off.
    current, peak_current    allocated_bytes.all.{current,peak}: torch.cuda.memory_allocated, max_memory_allocated
    reserved, peak_reserved  reserved_bytes.all.{current,peak}

    Best fit by (size, address), as in the source; that cudaMalloc hands out ascending addresses is assumed.
    """

    __slots__ = ("total", "current", "peak_current", "reserved", "peak_reserved", "segments", "refusals", "max_buffer",
                 "_small", "_large", "_address", "_nothing")

    def __init__(self, total=None):
        self.total = total
        self.current = self.peak_current = self.reserved = self.peak_reserved = 0
        self.segments = 0  # held now
        self.refusals = 0  # out-of-memory errors raised
        self.max_buffer = None  # as MetalAllocator's: CUDA knows none
        self._small, self._large = [], []
        self._address = 0
        self._nothing = CudaBlock(0, 0, None)

    def allocate(self, nbytes):
        if nbytes == 0:
            return self._nothing
        size = nbytes + CUDA_BLOCK - 1 & -CUDA_BLOCK
        small = size <= CUDA_SMALL
        pool = self._small if small else self._large
        at = bisect_left(pool, (size,))
        block = pool.pop(at)[2] if at < len(pool) else self._segment(size, pool)
        rest = block.size - size
        # should_split: at least 512 bytes left of a small segment, more than 1 MiB of a large one
        if rest >= CUDA_BLOCK and (small or rest > CUDA_SMALL):
            right = CudaBlock(rest, block.address + size, pool)
            right.left = block
            right.right = block.right
            if block.right is not None:
                block.right.left = right
            block.right = right
            block.size = size
            insort(pool, (rest, right.address, right))
        block.used = True
        current = self.current + block.size
        self.current = current
        if current > self.peak_current:
            self.peak_current = current
        return block

    def free(self, block):
        if not block.used:
            if block is self._nothing:
                return
            raise ValueError("the block is free already")
        block.used = False
        self.current -= block.size
        pool = block.pool
        left, right = block.left, block.right
        if left is not None and not left.used:
            del pool[bisect_left(pool, (left.size, left.address))]
            block.address = left.address
            block.size += left.size
            block.left = left.left
            if block.left is not None:
                block.left.right = block
        if right is not None and not right.used:
            del pool[bisect_left(pool, (right.size, right.address))]
            block.size += right.size
            block.right = right.right
            if block.right is not None:
                block.right.left = block
        insort(pool, (block.size, block.address, block))

    def empty_cache(self):
        """Segments that are one free block go back to the driver."""
        for pool in (self._small, self._large):
            kept = [entry for entry in pool if entry[2].left is not None or entry[2].right is not None]
            self.reserved -= sum(entry[0] for entry in pool) - sum(entry[0] for entry in kept)
            self.segments -= len(pool) - len(kept)
            pool[:] = kept

    @property
    def driver(self):
        """What the driver has handed out, as MetalAllocator's."""
        return self.reserved

    def reset_peak(self):
        self.peak_current = self.current
        self.peak_reserved = self.reserved

    def _segment(self, size, pool):
        if size <= CUDA_SMALL:
            nbytes = CUDA_SMALL_SEGMENT
        elif size < MIN_LARGE:
            nbytes = CUDA_LARGE_SEGMENT
        else:
            nbytes = -(-size // ROUND_LARGE) * ROUND_LARGE
        if self.total is not None and self.reserved + nbytes > self.total:
            self.empty_cache()
            if self.reserved + nbytes > self.total:
                self.refusals += 1
                raise RuntimeError("CUDA out of memory. Tried to allocate " + format_size(nbytes, (2, 8)) + ".")
        block = CudaBlock(nbytes, self._address, pool)
        self._address += nbytes
        self.segments += 1
        self.reserved += nbytes
        if self.reserved > self.peak_reserved:
            self.peak_reserved = self.reserved
        return block
