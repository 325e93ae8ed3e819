"""The memory account of the double: what PyTorch's allocator would hold, keep and refuse, byte by byte.

All sizes are bytes, ratios are shares of `recommended` (Metal's recommendedMaxWorkingSetSize), releases are tuples of
ints such as (2, 8). Nothing is allocated here; nothing imports torch.

`MetalAllocator` follows aten/src/ATen/mps/MPSAllocator.{h,mm} of PyTorch, as three generations:
  2.0 to 2.13   a freed buffer keeps its size, is cached, and is used again by best fit; Metal places buffers in heaps
  2.13          the same, but all memory is shared between CPU and GPU: no private pools
  2.14, 2.15    sizes are rounded into buckets (PR #187441); PyTorch places blocks itself, splits and merges them
                (PR #190438, #188045)

Read in the source: size classes, pools, search order, limits, texts, what is released when, what each counter counts.
Not established, and what stands here instead:
  - Metal's own rounding (heapBufferSizeAndAlign) is taken as 256 bytes at every size. Published out-of-memory texts of
  Apple
    silicon ask for 256 bytes, 21.50 KiB and 30.25 KB (the last is 121 x 256) and for 26.79 MiB, which is
    no multiple of a 16 KiB page: so neither small nor large buffers are rounded to pages. Apple does not document it.
  - Where Metal puts a buffer inside one of its heaps (to 2.13): the first gap that is large enough. Only which heap
  becomes
    empty first depends on it.
  - Which of several cached blocks of one size is used: the one freed last. PyTorch takes the lowest address of an
  object. - A block is never "still in use by the GPU": there is no GPU. PyTorch may release a busy block later, or pass
  it over. - A heap of the size asked for can always be made. A Mac swaps; when it gives up is not known.
  - `min_split` in 2.14 (256 bytes below 1 MiB, else 1 MiB): taken from a port of that allocator to another project; the
  header
    that holds it was not available. 2.14 and 2.15 are taken to share the one version of the code that was.
  - From 2.1 "MPS allocated" is taken to count heaps, and requests up to 8 bytes to come from the shared pool. The older
  of two
    versions of the source does neither; both were changed in a fork in mid 2023 (kulinseth/pytorch #453, #433), after
    2.0 and before 2.1 was cut. In which release they arrived is not established.
"""

import re
import struct
from bisect import bisect_left, insort

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# MPSAllocator.h: kMaxSmallAlloc, kMinLargeAlloc, kRoundLarge, kSmallHeap, kLargeHeap, kXLargeHeap (unified memory),
# kMaxScalarAlloc
MAX_SMALL, MIN_LARGE, ROUND_LARGE = MIB, 10 * MIB, 2 * MIB
SMALL_HEAP, LARGE_HEAP, XLARGE_HEAP = 8 * MIB, 32 * MIB, GIB
MAX_SCALAR = 8

ALIGNMENT = 256  # smallest block seen; see the note above
PAGE = 16 * KIB  # vm_page_size of macOS on arm64

# driver_allocated_memory() of a process that has allocated nothing: 393216 in pytorch #152550, and "other allocations:
# 384.00 KiB" in an out-of-memory text of macOS 26. It grows with MPSGraph and kernels: see MetalAllocator.other.
METAL_STARTUP = 393216

HIGH_RATIO, LOW_RATIO, MAX_RATIO = 1.7, 1.4, 2.0  # MPSAllocator.h: default_{high,low}_watermark_ratio, ..._upper_bound
NEAR_LIMIT = MIB  # getLowWatermarkValue() is whole MiB: less than one left counts as pressure

_UNLIMITED = 1 << 63
_ANY_RUN = 1 << 63


# Blocks, pools and heaps ----------------------------------------------------------------------------------------------


class Block:
    """What allocate() hands out. `size` is what the counters count, `requested` what was asked for."""

    __slots__ = ("size", "requested", "used", "home", "heap", "offset", "next", "placed", "freed_at")

    def __init__(self, size, home, heap, offset):
        self.size = size
        self.requested = 0
        self.used = False
        self.home = home  # blocks of this size in its pool
        self.heap = heap
        self.offset = offset
        self.next = None  # to its right in the heap (from 2.14)
        self.placed = False  # has a Metal buffer, and is not mere room (from 2.14)
        self.freed_at = 0  # the pool's clock


class _Size:
    """The free blocks of one size in one pool."""

    __slots__ = ("size", "pool", "blocks", "listed")

    def __init__(self, size, pool):
        self.size = size
        self.pool = pool
        self.blocks = []
        self.listed = False  # in pool.sizes; an empty one is taken out when a search meets it


class _Pool:
    __slots__ = ("name", "small", "kinds", "sizes", "available", "clock", "heaps", "min_split")

    def __init__(self, name, small):
        self.name = name
        self.small = small
        self.kinds = {}  # size -> _Size
        self.sizes = []  # sizes with free blocks, ascending
        self.available = 0  # bytes in them
        self.clock = 0  # searches so far: the age of a block is counted in them
        self.heaps = []  # to 2.13: (largest gap, serial, heap), ascending; from 2.14: heaps, oldest first
        self.min_split = ALIGNMENT if small else MAX_SMALL

    def kind(self, size):
        kind = self.kinds.get(size)
        if kind is None:
            kind = self.kinds[size] = _Size(size, self)
        return kind

    def at_least(self, size):
        """The smallest size with a free block that is not below `size`, or None."""
        sizes = self.sizes
        at = bisect_left(sizes, size)
        while at < len(sizes):
            kind = self.kinds[sizes[at]]
            if kind.blocks:
                return kind
            kind.listed = False
            del sizes[at]
        return None

    def add(self, block):
        kind = block.home
        if not kind.listed:
            kind.listed = True
            insort(self.sizes, kind.size)
        kind.blocks.append(block)
        self.available += block.size

    def remove(self, block):
        blocks = block.home.blocks
        if blocks[-1] is block:
            blocks.pop()
        else:
            blocks.remove(block)
        self.available -= block.size

    def free_blocks(self):
        """By size, oldest first within one."""
        return [block for size in list(self.sizes) for block in self.kinds[size].blocks]


class _Heap:
    """A Metal heap. To 2.13 it keeps its gaps and how many buffers stand in it, from 2.14 its blocks by offset."""

    __slots__ = ("serial", "total", "several", "buffers", "gaps", "available", "first", "run")

    def __init__(self, serial, total, several):
        self.serial = serial
        self.total = total
        self.several = several  # made to be shared by several buffers
        self.buffers = 0
        self.gaps = [(0, total)]  # (start, end), ascending
        self.available = total
        self.first = None
        self.run = total  # no more than this much in one stretch is free

    def take(self, size):
        gaps = self.gaps
        for at, (start, end) in enumerate(gaps):
            if end - start >= size:
                if end - start == size:
                    del gaps[at]
                else:
                    gaps[at] = (start + size, end)
                self.buffers += 1
                self._measure()
                return start
        raise AssertionError("a heap without room was chosen")

    def put(self, start, size):
        end = start + size
        gaps = self.gaps
        at = bisect_left(gaps, (start,))
        if at < len(gaps) and gaps[at][0] == end:
            end = gaps.pop(at)[1]
        if at and gaps[at - 1][1] == start:
            at -= 1
            start = gaps.pop(at)[0]
        gaps.insert(at, (start, end))
        self.buffers -= 1
        self._measure()

    def _measure(self):
        # heapAvailableSize(): maxAvailableSizeWithAlignment:vm_page_size, so a gap counts from its first whole page
        most = 0
        for start, end in self.gaps:
            room = end - (start + PAGE - 1 & -PAGE)
            if room > most:
                most = room
        self.available = most

    def blocks(self):
        block = self.first
        while block is not None:
            yield block
            block = block.next


def heap_size(size, pressure=False):
    """(bytes, whether several buffers share it) of the heap made for a block: HeapBlock::createHeapBlock, unified
    memory."""
    if size <= MAX_SMALL:
        return SMALL_HEAP, True
    if size < MIN_LARGE:
        return LARGE_HEAP, True
    if size < XLARGE_HEAP // 2 and not pressure:
        return XLARGE_HEAP, True
    return -(-size // ROUND_LARGE) * ROUND_LARGE, False


# MPS ------------------------------------------------------------------------------------------------------------------


class MetalAllocator:
    """PyTorch's MPS allocator in `release`, on a Mac whose working set is recommended to stay below `recommended`
    bytes.

    recommended  None where it is not known: then there is no limit, and no pressure.
    environ      read once, as PyTorch does at the first allocation: PYTORCH_MPS_{HIGH,LOW}_WATERMARK_RATIO. An unusable
                 pair raises PyTorch's RuntimeError here. PyTorch tries again at the next allocation: so should the
                 caller.
    macos        kept for the record; the allocator itself does not ask for it.
    max_buffer   Metal's maxBufferLength, None where it is not known: then a request of any size passes.

    current, peak_current    torch.mps.current_allocated_memory(): the sizes of blocks in use. To 2.13 a larger cached
                             block that is used again counts with its own size; from 2.14 the rest is split off unless
                             it is below min_split.
    reserved, peak_reserved  all heaps; from 2.13 torch.accelerator's reserved bytes
    driver, peak_driver      torch.mps.driver_allocated_memory(): heaps and `other`
    other                    what Metal holds outside the allocator's heaps; may be set, by whoever models MPSGraph and
                             kernels
    cached                   free blocks kept for later; from 2.14 with the unused room of heaps, so that
                             current + cached == reserved (before, <=)
    Before 2.13 PyTorch had no peaks: they are ours.

    Callers take turns. free() alone may also come from a finalizer that runs inside allocate(): it is then done at its
    end.
    """

    __slots__ = (
        "release", "recommended", "macos", "max_buffer", "current", "peak_current", "reserved", "peak_reserved",
        "peak_driver",
        "high_ratio", "low_ratio", "limit", "low_limit", "garbage_collections", "new_blocks", "new_heaps",
        "released_heaps",
        "refusals", "_other", "_kinds", "_pools", "_small", "_large", "_shared_small", "_shared_large", "_nothing",
        "_busy", "_late", "_places", "_buckets")

    def __init__(self, release, recommended, environ, macos=None, max_buffer=None):
        self.release = tuple(release)
        self.recommended = recommended
        self.macos = macos
        self.max_buffer = max_buffer
        self.current = self.peak_current = self.reserved = self.peak_reserved = 0
        self._other = self.peak_driver = METAL_STARTUP
        self.garbage_collections = 0  # times that cached memory was given back because the low mark was passed
        self.new_blocks = self.new_heaps = self.released_heaps = 0
        self.refusals = 0  # out-of-memory errors raised
        self._kinds = {}  # bytes asked for -> _Size: the fast path
        self._nothing = Block(0, None, None, 0)
        self._busy = False
        self._late = []
        self._places = self._buckets = self.release >= (2, 14)
        self._make_pools()
        self._set_high(_ratio(environ, "PYTORCH_MPS_HIGH_WATERMARK_RATIO", HIGH_RATIO))
        self._set_low(_ratio(environ, "PYTORCH_MPS_LOW_WATERMARK_RATIO", LOW_RATIO))

    def _make_pools(self):
        self._shared_small, self._shared_large = _Pool("shared", True), _Pool("shared", False)
        self._pools = [self._shared_small, self._shared_large]
        if self.release < (2, 13):
            self._small, self._large = _Pool("private", True), _Pool("private", False)
            self._pools[:0] = [self._small, self._large]
        else:
            self._small, self._large = self._shared_small, self._shared_large

    def _set_high(self, ratio):
        if not 0.0 <= ratio <= MAX_RATIO:
            raise RuntimeError("invalid high watermark ratio %g" % ratio)
        known = ratio > 0.0 and self.recommended is not None
        self.limit = int(ratio * self.recommended) if known else _UNLIMITED
        self.high_ratio = ratio

    def _set_low(self, ratio):
        if not 0.0 <= ratio <= (self.high_ratio or MAX_RATIO):
            raise RuntimeError("invalid low watermark ratio %g" % ratio)
        known = ratio > 0.0 and self.recommended is not None
        self.low_limit = int(ratio * self.recommended) if known else _UNLIMITED
        self.low_ratio = ratio

    def set_fraction(self, fraction):
        """torch.mps.set_per_process_memory_fraction: sets the high ratio, and does not look at the low one."""
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if fraction < 0 or fraction > 2:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~2")
        self._set_high(fraction)

    # Counters

    @property
    def driver(self):
        return self.reserved + self._other

    @property
    def other(self):
        return self._other

    @other.setter
    def other(self, nbytes):
        self._other = nbytes
        self._heaps_grew()

    @property
    def cached(self):
        return sum(pool.available for pool in self._pools)

    @property
    def searches(self):
        """Allocations, but for those refused before a pool was looked at."""
        return sum(pool.clock for pool in self._pools)

    @property
    def heaps(self):
        return sum(len(pool.heaps) for pool in self._pools)

    def reset_peak(self):
        self.peak_current = self.current
        self.peak_reserved = self.reserved
        self.peak_driver = self.driver

    def _heaps_grew(self):
        if self.reserved > self.peak_reserved:
            self.peak_reserved = self.reserved
        driver = self.reserved + self._other
        if driver > self.peak_driver:
            self.peak_driver = driver

    # Allocation

    def allocate(self, nbytes):
        """The Block that a tensor of `nbytes` bytes would stand in, or PyTorch's RuntimeError. Nothing is charged for 0
        bytes."""
        kind = self._kinds.get(nbytes)
        if kind is not None:
            blocks = kind.blocks
            if blocks:
                size = kind.size
                if self.reserved + self._other + size <= self.limit:
                    # A block of the very size is the best fit in every release.
                    block = blocks.pop()
                    pool = kind.pool
                    pool.available -= size
                    pool.clock += 1
                    block.used = True
                    block.requested = nbytes
                    current = self.current + size
                    self.current = current
                    if current > self.peak_current:
                        self.peak_current = current
                    return block
        elif nbytes == 0:
            return self._nothing
        else:
            kind = self._kind_of(nbytes)
        return self._allocate(kind, nbytes)

    def block_size(self, nbytes):
        """What a request counts as: get_allocation_size. RuntimeError when it is not below Metal's largest buffer."""
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        if self.max_buffer is not None and nbytes >= self.max_buffer:
            raise RuntimeError("Invalid buffer size: " + format_size(nbytes, self.release))
        size = nbytes + ALIGNMENT - 1 & -ALIGNMENT
        if not self._buckets or size <= MAX_SMALL:
            return size
        grain = max(1 << size.bit_length() - 1 >> 5, PAGE)  # 32 buckets to a power of two
        rounded = size + grain - 1 & -grain
        # Not across a class of heaps, and not past the largest buffer.
        if (self.max_buffer is not None and rounded >= self.max_buffer) or _tier(rounded) != _tier(size):
            return size
        return rounded

    def _kind_of(self, nbytes):
        size = self.block_size(nbytes)
        if (2, 1) <= self.release < (2, 13) and nbytes <= MAX_SCALAR:
            pool = self._shared_small
        else:
            pool = self._small if size <= MAX_SMALL else self._large
        if len(self._kinds) >= 1 << 16:  # a run whose sizes never repeat
            self._kinds.clear()
        kind = self._kinds[nbytes] = pool.kind(size)
        return kind

    def _allocate(self, kind, nbytes):
        self._busy = True
        try:
            block = self._place(kind) if self._places else self._search(kind)
            if block is None:
                self.refusals += 1
                raise RuntimeError(self._out_of_memory(kind))
            block.used = True
            block.requested = nbytes
            self.current += block.size
            if self.current > self.peak_current:
                self.peak_current = self.current
        finally:
            self._busy = False
            while self._late:
                self.free(self._late.pop())
        return block

    def free(self, block):
        """Back to its pool. ValueError when it is there already."""
        if not block.used or self._busy:
            if not block.used and block is not self._nothing:
                raise ValueError("the block is free already")
            if block.used:
                self._late.append(block)
            return
        block.used = False
        kind = block.home
        size = kind.size
        self.current -= size
        pool = kind.pool
        pool.available += size
        block.freed_at = pool.clock
        block.heap.run = _ANY_RUN
        if not kind.listed:
            kind.listed = True
            insort(pool.sizes, size)
        kind.blocks.append(block)

    def empty_cache(self):
        """torch.mps.empty_cache(): heaps in which no block is in use go back to Metal.

        To 2.13 it goes by cached blocks: a heap that garbage collection has left without any is not seen, until it has
        been used once more.
        """
        self._busy = True
        try:
            self._release_all()
        finally:
            self._busy = False
            while self._late:
                self.free(self._late.pop())

    def _release_all(self):
        for pool in self._pools:
            if self._places:
                self._release_free_heaps(pool, _UNLIMITED)
            else:
                for block in pool.free_blocks():
                    self._release(block)

    def _fits(self, size):
        # Only the block is held against the limit, not the heap that may have to be made for it.
        return self.reserved + self._other + size <= self.limit

    def _pressed(self, pool):
        return not pool.small and self.low_limit != _UNLIMITED and self.low_limit - self.driver < NEAR_LIMIT

    def _new_heap(self, size, pressure):
        total, several = heap_size(size, pressure)
        self.new_heaps += 1
        self.reserved += total
        self._heaps_grew()
        return _Heap(self.new_heaps, total, several)

    def _drop_heap(self, heap):
        self.reserved -= heap.total
        self.released_heaps += 1

    def _out_of_memory(self, kind):
        def text(size):
            return format_size(size, self.release)

        held = self.reserved
        if self.release < (2, 1):  # buffers, not heaps: the room left in heaps was "other"
            held = self.current + self.cached
        where = f"(MPS allocated: {text(held)}, other allocations: {text(self.driver - held)}"
        asked = f"Tried to allocate {text(kind.size)} on {kind.pool.name} pool."
        if self.high_ratio > 0.0:
            return (f"MPS backend out of memory {where}, max allowed: {text(self.limit)}). {asked} "
                    "Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations "
                    "(may cause system failure).")
        return f"MPS backend out of memory {where}). {asked}"

    # 2.0 to 2.13: alloc_buffer_block, get_free_buffer, alloc_buffer, release_buffer, garbage_collect_cached_buffers

    def _search(self, kind):
        pool, size = kind.pool, kind.size
        pressure = self._pressed(pool)
        if self._fits(size):
            pool.clock += 1
            found = pool.at_least(size)
            if found is not None:
                block = found.blocks[-1]
                if found.size <= size + LARGE_HEAP:
                    pool.remove(block)
                    return block
                if not self._has_room(pool, size):
                    # Oversize: make room for the smaller block in its heap.
                    self._release(block, drop_heap=False)
                    pressure = False
        if pressure and size < pool.available:
            self._collect(pool)
        block = self._cut(kind, pressure)
        if block is None and self._release_enough(pool, size):
            block = self._cut(kind, pressure)
        if block is None:
            self._release_all()
            block = self._cut(kind, pressure)
        return block

    @staticmethod
    def _has_room(pool, size):
        return bool(pool.heaps) and pool.heaps[-1][0] >= size

    def _cut(self, kind, pressure):
        """A new block, from the heap whose largest gap fits best, or from a new heap."""
        pool, size = kind.pool, kind.size
        if not self._fits(size):
            return None
        at = bisect_left(pool.heaps, (size,))
        if at < len(pool.heaps):
            heap = pool.heaps.pop(at)[2]
        else:
            heap = self._new_heap(size, pressure)
        block = Block(size, kind, heap, heap.take(size))
        insort(pool.heaps, (heap.available, heap.serial, heap))
        self.new_blocks += 1
        return block

    def _release(self, block, drop_heap=True):
        """A cached block back to its heap, and a heap that is empty then to Metal."""
        pool, heap = block.home.pool, block.heap
        pool.remove(block)
        del pool.heaps[bisect_left(pool.heaps, (heap.available, heap.serial))]
        heap.put(block.offset, block.size)
        if drop_heap and not heap.buffers:
            self._drop_heap(heap)
        else:
            insort(pool.heaps, (heap.available, heap.serial, heap))

    def _collect(self, pool):
        """Cached blocks that are no younger than the average, smallest first, until the low mark is reached."""
        target = self.driver - self.low_limit
        if target < 0:
            return
        blocks = pool.free_blocks()
        if not blocks:
            return
        clock = pool.clock
        age = sum(clock - block.freed_at for block in blocks)
        reclaimed = 0
        again = True
        while reclaimed < target and again and blocks:
            threshold = age / len(blocks)
            again = False
            kept = []
            for at, block in enumerate(blocks):
                if reclaimed >= target:
                    kept.extend(blocks[at:])
                    break
                if clock - block.freed_at >= threshold:
                    again = True
                    reclaimed += block.size
                    age -= clock - block.freed_at
                    # A heap for several buffers stays, even when it is empty.
                    self._release(block, drop_heap=not block.heap.several)
                else:
                    kept.append(block)
            blocks = kept
        if reclaimed:
            self.garbage_collections += 1

    def _release_enough(self, pool, size):
        """release_available_cached_buffers: the best fit, or else the largest ones until they add up to the request."""
        found = pool.at_least(size)
        if found is not None:
            self._release(found.blocks[-1])
            return True
        released = 0
        for block in reversed(pool.free_blocks()):
            if released >= size:
                break
            released += block.size
            self._release(block)
        return 0 < size <= released

    # From 2.14: get_free_buffer, split_free_block, merge_free_blocks, coalesce_free_blocks, alloc_heap,
    # release_free_heaps

    def _place(self, kind):
        pool, size = kind.pool, kind.size
        pressure = self._pressed(pool)
        block = self._find(kind)
        if block is None:
            if pressure and size < pool.available:
                target = self.driver - self.low_limit
                if target > 0 and self._release_free_heaps(pool, target):
                    self.garbage_collections += 1
            block = self._from_new_heap(kind, pressure)
        if block is None and self._release_free_heaps(pool, size):
            block = self._from_new_heap(kind, pressure)
        if block is None:
            self._release_all()
            block = self._find(kind) or self._from_new_heap(kind, pressure)
        return block

    def _find(self, kind):
        pool, size = kind.pool, kind.size
        if not self._fits(size):
            return None
        pool.clock += 1
        found = pool.at_least(size)
        if found is None:
            return self._merge(kind)
        # First a buffer that can be used as it is, even if room fits better.
        at = bisect_left(pool.sizes, found.size)
        while at < len(pool.sizes) and pool.sizes[at] - size < pool.min_split:
            for block in reversed(pool.kinds[pool.sizes[at]].blocks):
                if block.placed:
                    return self._split(block, kind)
            at += 1
        return self._split(found.blocks[-1], kind)

    def _split(self, block, kind):
        pool = kind.pool
        pool.remove(block)
        rest = block.size - kind.size
        if rest >= pool.min_split:
            right = Block(rest, pool.kind(rest), block.heap, block.offset + kind.size)
            right.freed_at = pool.clock
            right.next = block.next
            block.next = right
            block.size = kind.size
            block.home = kind
            block.placed = False  # its buffer spanned the rest
            pool.add(right)
        if not block.placed:
            block.placed = True
            self.new_blocks += 1
        return block

    def _merge(self, kind):
        """One block out of free neighbours, in the oldest heap that has enough of them in a row."""
        pool, size = kind.pool, kind.size
        for heap in pool.heaps:
            if heap.run < size:
                continue
            longest = run = 0
            first = None
            for block in heap.blocks():
                if block.used:
                    run, first = 0, None
                    continue
                first = first or block
                run += block.size
                longest = max(longest, run)
                if run >= size:
                    return self._split(self._joined(pool, first, block, run), kind)
            heap.run = longest
        return None

    @staticmethod
    def _joined(pool, first, last, size):
        if first is last:
            return first
        after = last.next
        pool.remove(first)
        block = first.next
        while block is not after:
            pool.remove(block)
            block = block.next
        first.next = after
        first.size = size
        first.home = pool.kind(size)
        first.placed = False
        pool.add(first)
        return first

    def _from_new_heap(self, kind, pressure):
        if not self._fits(kind.size):
            return None
        pool = kind.pool
        heap = self._new_heap(kind.size, pressure)
        pool.heaps.append(heap)
        heap.first = Block(heap.total, pool.kind(heap.total), heap, 0)
        pool.add(heap.first)
        return self._split(heap.first, kind)

    def _release_free_heaps(self, pool, target):
        """Heaps in which nothing is in use, oldest first, until they add up to `target`. Returns the bytes given
        back."""
        released = 0
        kept = []
        for heap in pool.heaps:
            if released >= target or any(block.used for block in heap.blocks()):
                kept.append(heap)
                continue
            for block in heap.blocks():
                pool.remove(block)
            released += heap.total
            self._drop_heap(heap)
        pool.heaps = kept
        return released


def _tier(size):
    return (size > MAX_SMALL) + (size >= MIN_LARGE) + (size >= XLARGE_HEAP // 2)


# What strtod() reads at the start of a text; anything else is 0.
_NUMBER = re.compile(
    r"[ \t\n\v\f\r]*([+-]?(?:inf(?:inity)?|nan|0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?))", re.IGNORECASE)


def _ratio(environ, name, default):
    """An environment variable as PyTorch reads it (strtod): `1.5GB` is 1.5, `high` is 0, and so is an empty value."""
    text = environ.get(name)
    if text is None:
        return default
    match = _NUMBER.match(text)
    if match is None:
        return 0.0
    number = match.group(1).lower()
    return float.fromhex(number) if "0x" in number else float(number)


# Texts ----------------------------------------------------------------------------------------------------------------


def format_size(size, release):
    """A size as PyTorch's messages print it. To 2.7 KB, MB and GB, which mean powers of 1024 (MPSAllocator.mm, through
    float32); from 2.8 KiB, MiB and GiB (c10's format_size). A unit is left only when it is exceeded: `1024.00 MB`."""
    if size <= KIB:
        return f"{size} bytes"
    old = tuple(release) < (2, 8)
    number = struct.unpack("f", struct.pack("f", size))[0] if old else float(size)
    letter, unit = ("K", KIB) if size <= MIB else ("M", MIB) if size <= GIB else ("G", GIB)
    return "%.2f %s" % (number / unit, letter + ("B" if old else "iB"))


# The working set of a Mac ---------------------------------------------------------------------------------------------

# (GiB of unified memory, macOS it was seen on or before (15) or from (26), what was printed, where). `MB` in
# llama.cpp's newer logs is 10^6 bytes, in its older ones 2^20 (here MiB). "max allowed" is 1.7 times the value, as
# PyTorch prints it. Where a log names no macOS, the figure itself says which: both rules are met by several machines
# whose macOS is named.
OBSERVED = (
    (8, 15, "max allowed: 9.07 GB", "datalab-to/surya #254; lllyasviel/Fooocus #980 (macOS 14)"),
    (16, 15, "10922.67 MiB", "abetlen/llama-cpp-python #687"),
    (16, 15, "max allowed: 18.13 GB", "pinokiocomputer/pinokio #941 (macOS 14.7.5); Langchain-Chatchat #533 (macOS "
                                      "13.2.1)"),
    (18, 15, "12884.92 MB", "log of whisper.cpp, M3 Pro"),
    (24, 15, "17179.89 MB", "logs of llama.cpp"),
    (24, 15, "max allowed: 27.20 GiB", "Comfy-Org/ComfyUI #7440"),
    (32, 15, "21845.34 MiB", "ollama/ollama #434 (M2 Max); ggml-org/llama.cpp #2011 (M1 Max)"),
    (32, 15, "22906.50 MB", "logs of llama.cpp"),
    (32, 15, "max allowed: 36.27 GB", "pytorch/pytorch #145151"),
    (36, 15, "28991.03 MB", "log of llama.cpp, M4 Max, macOS 15.7.7"),
    (48, 15, "38654.71 MB", "log of llama.cpp; tinygrad/tinygrad #9225 (36.00 GB, limit 61.20 GB)"),
    (64, 15, "max allowed: 81.60 GB", "BoBo0037/bobo-fun #8 (M1 Max)"),
    (96, 15, "73728.00 MiB", "ggml-org/llama.cpp #3213 (M2 Max)"),
    (128, 15, "max allowed: 163.20 GiB", "Comfy-Org/ComfyUI #9308 (M3 Max)"),
    (16, 26, "12713115648 bytes", "log of llama.cpp, M4; 12713.12 MB in many"),
    (16, 26, "max allowed: 20.13 GiB", "PyTorch's text in a report of January 2026"),
    (18, 26, "14302.25 MB", "llama.cpp's log in the tests of another program, M3 Pro"),
    (24, 26, "19069.67 MB", "logs of llama.cpp, M4"),
    (32, 26, "26800.60 MB", "logs of llama.cpp, M4 and M2"),
    (36, 26, "30150.67 MB", "log of llama.cpp"),
    (48, 26, "40200.90 MB", "logs of llama.cpp, M4 Pro and M5 Pro"),
    (64, 26, "55662.79 MB", "log of llama.cpp"),
    (128, 26, "115448.73 MB", "log of llama.cpp"),
    (128, 26, "107.52 GiB", "antirez/ds4 #893 (M5 Max, macOS 26)"),
)


# (GiB of unified memory, macOS as above, bytes of MTLDevice's maxBufferLength, where).
LARGEST_BUFFERS = (
    (8, 15, 4294967296, "ggml-org/llama.cpp #1706 (Mac mini)"),
    (32, 15, 17179869184, "ggml-org/llama.cpp #1815 and Blaizzy/mlx-vlm #123 (M2); riccardomusmeci/mlx-llm #22 (M1)"),
    (64, 15, 38654705664, "gfx-rs/wgpu #2502 (M1 Max: 36864 MB)"),
    (192, 15, 115964116992, "ml-explore/mlx #1060 (M2 Ultra, its working set raised by hand to 180000 MiB)"),
    (16, 26, 9534832640, "as MLX or MTLDevice printed it on an M2, an M3 (macOS 26.5.1) and an M4"),
    (24, 26, 14302248960, "as MTLDevice printed it on an M5 Pro, beside a working set of 19069665280"),
    (32, 26, 20100448256, "as MLX printed it on an M1 Max (macOS 26.5.2), and MTLDevice on an M2 Max"),
    (36, 26, 22613000192, "as MLX printed it on an M3 Pro, beside a working set of 30150672384"),
    (48, 26, 30150672384, "as MTLDevice printed it on an M4 Pro, beside a working set of 40200896512; "
                          "lmstudio-ai/lmstudio-bug-tracker #2240"),
    (64, 26, 41747087360, "as MLX printed it on an M5 Max, and MTLDevice on an M4 Pro (macOS 27), both with a working "
                          "set raised by hand to 56 GiB"),
    (128, 26, 86586540032, "as MLX printed it on an M5 Max, beside a working set of 115448725504"),
)


def largest_buffer(memory, macos):
    """(bytes, how it is known) of Metal's maxBufferLength, for so many bytes of unified memory; as recommended_max.

    The rule was found in the figures, and holds on each of them: three quarters of the recommended working set that the
    Mac was sold with, rounded down to a page. A working set that was changed by hand does not change it.
    """
    recommended, _ = recommended_max(memory, macos)
    if recommended is None:
        return None, None
    era = 15 if _major(macos) < 26 else 26
    seen = any(row[0] == memory / GIB and row[1] == era for row in LARGEST_BUFFERS)
    return recommended * 3 // 4 // PAGE * PAGE, "observed" if seen else "derived"


def recommended_max(memory, macos, wired_limit_mb=0):
    """(bytes, how it is known) of Metal's recommendedMaxWorkingSetSize, for so many bytes of unified memory.

    macos           (15, 5), 26, "14.7"
    wired_limit_mb  the sysctl iogpu.wired_limit_mb, in MiB: when it is not 0 it replaces the default (ds4 #893: 114688
                    gave 112.00 GiB)
    "observed"      this size was seen on that macOS, and the value prints as what was seen (see OBSERVED for how
                    finely)
    "derived"       between sizes that follow one rule, or above the last one that was seen to (to macOS 15: three
                    quarters)
    (None, None)    no ground: ask the machine

    The rules were found in the figures, they are not Apple's: to macOS 15 two thirds up to 32 GiB (and one page over)
    and three quarters from 36 GiB; from macOS 26 shares of 74, 78, 81 and 84 %, rounded up to a page.
    """
    if wired_limit_mb > 0:
        return wired_limit_mb * MIB, "derived"
    major = _major(macos)
    if major is None or 16 <= major < 26:  # there was no macOS 16 to 25
        return None, None
    gib = memory / GIB
    if major < 26:
        if 8 <= gib <= 32:
            value = (memory * 2 // 3 // PAGE + 1) * PAGE
        elif gib >= 36:
            value = memory * 3 // 4
        else:
            return None, None
    else:
        share = next((s for low, high, s in ((16, 24, 74), (32, 48, 78), (64, 64, 81), (128, 128, 84))
                      if low <= gib <= high), None)
        if share is None:
            return None, None
        value = -(-memory * share // (100 * PAGE)) * PAGE
    era = 15 if major < 26 else 26
    seen = any(row[0] == gib and row[1] == era for row in OBSERVED)
    return value, "observed" if seen else "derived"


def _major(macos):
    if isinstance(macos, str):
        macos = macos.split(".")
    if isinstance(macos, (tuple, list)):
        macos = macos[0] if macos else None
    try:
        return int(macos)
    except (TypeError, ValueError):
        return None
