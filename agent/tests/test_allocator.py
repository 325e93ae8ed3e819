"""The memory account against cases worked out by hand from the rules in PyTorch's MPSAllocator."""

import random

import pytest

from assay_agent.double import allocator
from assay_agent.double.allocator import (
    GIB, KIB, LARGEST_BUFFERS, METAL_STARTUP, MIB, OBSERVED, PAGE, MetalAllocator, format_size, largest_buffer,
    recommended_max)

RELEASES = [(2, minor) for minor in range(16)]
OLD = [r for r in RELEASES if r < (2, 14)]  # Metal places, blocks keep their size
NEW = [r for r in RELEASES if r >= (2, 14)]  # PyTorch places, splits and merges
HIGH, LOW = "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "PYTORCH_MPS_LOW_WATERMARK_RATIO"
HINT = " Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure)."


def mac(release=(2, 8), recommended=48 * GIB, environ=None, **more):
    return MetalAllocator(release, recommended, environ or {}, macos=(15, 5), **more)


def limited(release, nbytes, low=2.0):
    """Refuses above so many bytes, of which Metal's own are part."""
    return mac(release, nbytes, {HIGH: "1.0", LOW: str(min(low, 1.0))})


# Sizes and heaps


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("nbytes, block, heap", [
    (1, 256, 8 * MIB),
    (8, 256, 8 * MIB),
    (256, 256, 8 * MIB),
    (257, 512, 8 * MIB),
    (30 * KIB + 1, 30 * KIB + 256, 8 * MIB),  # "Tried to allocate 30.25 KB"
    (MIB, MIB, 8 * MIB),
    (2 * MIB, 2 * MIB, 32 * MIB),
    (9 * MIB, 9 * MIB, 32 * MIB),
    (10 * MIB, 10 * MIB, GIB),
    (256 * MIB, 256 * MIB, GIB),
    (512 * MIB, 512 * MIB, 512 * MIB),
    (3 * GIB, 3 * GIB, 3 * GIB),
])
def test_a_block_and_the_heap_made_for_it(release, nbytes, block, heap):
    a = mac(release)
    assert a.driver == METAL_STARTUP == 393216 and a.heaps == 0
    b = a.allocate(nbytes)
    assert (b.size, b.requested) == (block, nbytes)
    assert (a.current, a.reserved, a.driver, a.heaps) == (block, heap, heap + METAL_STARTUP, 1)


def test_a_heap_of_its_own_is_rounded_to_2_mib():
    assert allocator.heap_size(512 * MIB + 1) == (514 * MIB, False)
    assert allocator.heap_size(512 * MIB - 1) == (GIB, True)
    assert allocator.heap_size(20 * MIB, pressure=True) == (20 * MIB, False)
    assert allocator.heap_size(9 * MIB, pressure=True) == (32 * MIB, True)


@pytest.mark.parametrize("nbytes, old, new", [
    (MIB + 1, MIB + 256, MIB + 32 * KIB),  # a 32nd of 1 MiB is 32 KiB
    (3 * MIB + 1, 3 * MIB + 256, 3 * MIB + 64 * KIB),
    (5 * MIB, 5 * MIB, 5 * MIB),
    (100_000_000, 100_000_000, 96 * MIB),  # 95.4 MiB in steps of 2 MiB
    (10 * MIB - 1, 10 * MIB, 10 * MIB),
    (10 * MIB - 300, 10 * MIB - 256, 10 * MIB - 256),  # the bucket's end would cross into the next class of heaps
    (511 * MIB, 511 * MIB, 511 * MIB),  # likewise
    (600 * MIB + 1, 600 * MIB + 256, 608 * MIB),
    (MIB - 1000, MIB - 768, MIB - 768),
])
def test_buckets_from_2_14(nbytes, old, new):
    assert mac((2, 13)).block_size(nbytes) == old
    assert mac((2, 14)).block_size(nbytes) == mac((2, 15)).block_size(nbytes) == new


def test_buckets_waste_a_32nd_at_most():
    a = mac((2, 14))
    for nbytes in range(MIB + 1, 700 * MIB, 7_654_321):
        size = a.block_size(nbytes)
        assert nbytes <= size <= nbytes + nbytes / 32 + 256
        assert a.block_size(size) == size


def test_largest_buffer():
    a = mac((2, 8), max_buffer=9534832640)
    a.allocate(9534832639)
    with pytest.raises(RuntimeError) as e:
        a.allocate(9534832640)
    assert str(e.value) == "Invalid buffer size: 8.88 GiB"
    with pytest.raises(RuntimeError, match=r"^Invalid buffer size: 8\.88 GB$"):
        mac((2, 7), max_buffer=9534832640).allocate(9534832640)
    # A bucket stops short of it.
    assert mac((2, 14), max_buffer=97 * MIB).block_size(96 * MIB + 1) == 96 * MIB + 256


@pytest.mark.parametrize("release", RELEASES)
def test_nothing_is_charged_for_no_bytes(release):
    a = mac(release)
    b = a.allocate(0)
    assert b.size == 0
    a.free(b)
    a.free(b)
    assert a.driver == METAL_STARTUP and a.current == 0


# Pools


def test_pools_until_2_12():
    a = mac((2, 12))
    a.allocate(256)
    assert a.reserved == 8 * MIB
    a.allocate(8)  # scalars stand in the shared pool
    a.allocate(4)
    assert a.reserved == 16 * MIB
    a.allocate(9)
    a.allocate(2 * MIB)
    assert a.reserved == 16 * MIB + 32 * MIB


def test_pools_from_2_13():
    a = mac((2, 13))
    a.allocate(256)
    a.allocate(8)
    assert a.reserved == 8 * MIB
    a.allocate(2 * MIB)
    assert a.reserved == 40 * MIB


def test_2_0_knows_no_rule_for_small_tensors():
    a = mac((2, 0))
    a.allocate(256)
    a.allocate(8)
    assert a.reserved == 8 * MIB


# Blocks used again, to 2.13


@pytest.mark.parametrize("release", OLD)
def test_a_larger_cached_block_counts_with_its_own_size(release):
    a = mac(release)
    big = a.allocate(5 * MIB)
    a.free(big)
    assert (a.current, a.cached, a.driver) == (0, 5 * MIB, 32 * MIB + METAL_STARTUP)
    b = a.allocate(3 * MIB)
    assert b is big and b.requested == 3 * MIB
    assert (a.current, a.cached, a.new_blocks) == (5 * MIB, 0, 1)


@pytest.mark.parametrize("release", OLD)
def test_best_fit(release):
    a = mac(release)
    blocks = {size: a.allocate(size * MIB) for size in (7, 3, 5)}
    for b in blocks.values():
        a.free(b)
    assert a.allocate(4 * MIB) is blocks[5]
    assert a.allocate(4 * MIB) is blocks[7]
    assert a.allocate(MIB + 1) is blocks[3]
    assert a.new_blocks == 3


@pytest.mark.parametrize("release", OLD)
def test_a_block_is_used_up_to_32_mib_above_the_request(release):
    a = mac(release)
    b = a.allocate(60 * MIB)
    a.free(b)
    assert a.allocate(28 * MIB) is b
    a.free(b)
    assert a.allocate(28 * MIB - 1024) is not b  # the heap has room: the cached block stays
    assert a.cached == 60 * MIB and a.heaps == 1


@pytest.mark.parametrize("release", OLD)
def test_an_oversize_block_makes_room_when_no_heap_has_any(release):
    a = mac(release)
    b = a.allocate(600 * MIB)  # a heap of its own
    a.free(b)
    a.allocate(12 * MIB)
    assert (a.current, a.cached, a.heaps, a.reserved) == (12 * MIB, 0, 1, 600 * MIB)
    a.allocate(500 * MIB)
    assert a.heaps == 1  # in the room it left


@pytest.mark.parametrize("release", OLD)
def test_a_heap_counts_what_begins_at_a_page(release):
    a = mac(release)
    for _ in range(7):
        a.allocate(MIB)
    a.allocate(300)  # takes a page of the last MiB
    a.allocate(MIB - PAGE)
    assert a.heaps == 1
    a.allocate(300)  # no whole page is left
    assert a.heaps == 2


@pytest.mark.parametrize("release", OLD)
def test_the_heap_that_fits_best_is_filled_first(release):
    a = mac(release)
    a.allocate(9 * MIB), a.allocate(9 * MIB), a.allocate(9 * MIB)
    first = a.allocate(9 * MIB)  # second heap
    assert a.heaps == 2
    b = a.allocate(4 * MIB)
    assert b.heap is not first.heap


# Blocks split and merged, from 2.14


@pytest.mark.parametrize("release", NEW)
def test_the_rest_of_a_block_is_split_off(release):
    a = mac(release)
    big = a.allocate(6 * MIB)
    rest = a.allocate(26 * MIB - MIB // 2)  # in the same heap: it has the room
    assert a.heaps == 1
    a.free(rest)
    a.free(big)
    b = a.allocate(3 * MIB)
    assert (b.size, a.current, a.heaps) == (3 * MIB, 3 * MIB, 1)
    assert a.current + a.cached == a.reserved


@pytest.mark.parametrize("release", NEW)
def test_less_than_1_mib_is_not_split_off(release):
    a = mac(release)
    blocks = [a.allocate(4 * MIB) for _ in range(8)]
    a.free(blocks[3])
    b = a.allocate(3 * MIB + 64 * KIB)
    assert b is blocks[3] and b.size == 4 * MIB and a.current == 32 * MIB
    a.free(b)
    c = a.allocate(3 * MIB)
    assert c.size == 3 * MIB and a.current == 31 * MIB


@pytest.mark.parametrize("release", NEW)
def test_small_blocks_are_split_to_256_bytes(release):
    a = mac(release)
    b = a.allocate(1000)
    a.allocate(MIB)
    a.free(b)
    c = a.allocate(700)
    assert c.size == 768 and a.current == MIB + 768


@pytest.mark.parametrize("release", NEW)
def test_a_ready_buffer_comes_before_room_that_fits_better(release):
    a = mac(release)
    left, ready = a.allocate(8 * MIB), a.allocate(4 * MIB + 512 * KIB)
    fill = a.allocate(9 * MIB), a.allocate(7 * MIB)  # 3.5 MiB of 32 are left
    assert a.heaps == 1
    a.free(ready)
    a.free(left)
    a.allocate(4 * MIB - 128 * KIB)  # 4.5 MiB with a buffer, 3.5 of room too small, 8 larger
    assert ready.used and ready.size == 4 * MIB + 512 * KIB
    a.free(ready)
    a.allocate(3 * MIB + 512 * KIB)
    assert not ready.used and a.heaps == 1  # 3.5 MiB of room: the ready one is 1 MiB larger
    assert len(fill) == 2


@pytest.mark.parametrize("release", NEW)
def test_free_neighbours_are_merged_when_nothing_else_fits(release):
    a = mac(release)
    blocks = [a.allocate(4 * MIB) for _ in range(8)]
    for at in (1, 2, 5):
        a.free(blocks[at])
    b = a.allocate(8 * MIB)
    assert b is blocks[1] and (a.heaps, a.current) == (1, 28 * MIB)
    a.allocate(8 * MIB)
    assert a.heaps == 2


def test_varying_sizes_grow_the_cache_until_2_13_only():
    """PR #188045: reserved memory grows to the sum of the shapes seen, and no more when blocks merge."""
    def grown(release):
        a = mac(release)
        for size in range(11, 211):
            a.free(a.allocate(size * MIB))
        return a.reserved
    assert grown((2, 13)) >= 20 * GIB
    assert grown((2, 14)) == GIB


# Limits


@pytest.mark.parametrize("release", RELEASES)
def test_defaults(release):
    a = mac(release, 10 * GIB)
    assert (a.high_ratio, a.low_ratio, a.limit, a.low_limit) == (1.7, 1.4, 17 * GIB, 14 * GIB)


@pytest.mark.parametrize("environ, text", [
    ({HIGH: "0.8"}, "invalid low watermark ratio 1.4"),  # the trap
    ({HIGH: "1.39"}, "invalid low watermark ratio 1.4"),
    ({HIGH: "0.8", LOW: "0.9"}, "invalid low watermark ratio 0.9"),
    ({HIGH: "2.1"}, "invalid high watermark ratio 2.1"),
    ({HIGH: "-1"}, "invalid high watermark ratio -1"),
    ({HIGH: "nan"}, "invalid high watermark ratio nan"),
    ({HIGH: "inf"}, "invalid high watermark ratio inf"),
    ({HIGH: "0x1p4"}, "invalid high watermark ratio 16"),
    ({HIGH: "0", LOW: "2.01"}, "invalid low watermark ratio 2.01"),
    ({LOW: "-0.5"}, "invalid low watermark ratio -0.5"),
    ({LOW: "1.8"}, "invalid low watermark ratio 1.8"),
    ({HIGH: "3", LOW: "3"}, "invalid high watermark ratio 3"),
    ({HIGH: "1000000"}, "invalid high watermark ratio 1e+06"),
])
@pytest.mark.parametrize("release", [(2, 0), (2, 8), (2, 15)])
def test_unusable_ratios(release, environ, text):
    with pytest.raises(RuntimeError) as e:
        mac(release, environ=environ)
    assert str(e.value) == text


@pytest.mark.parametrize("environ, high, low", [
    ({HIGH: "1.4"}, 1.4, 1.4),
    ({HIGH: "0.0"}, 0.0, 1.4),
    ({HIGH: ""}, 0.0, 1.4),  # strtod("") is 0: no limit
    ({HIGH: "none"}, 0.0, 1.4),
    ({HIGH: "0.8", LOW: "0.6"}, 0.8, 0.6),
    ({HIGH: " 1.5GB", LOW: "1,3"}, 1.5, 1.0),
    ({HIGH: "2", LOW: "0"}, 2.0, 0.0),
    ({HIGH: "+1.5e0", LOW: ".5"}, 1.5, 0.5),
])
def test_ratios_are_read_as_strtod_does(environ, high, low):
    a = mac(recommended=10 * GIB, environ=environ)
    assert (a.high_ratio, a.low_ratio) == (high, low)
    assert a.limit == (int(high * 10 * GIB) if high else 1 << 63)


def test_fraction():
    a = mac(recommended=10 * GIB)
    for wrong in (1, "0.5", None, True):
        with pytest.raises(TypeError) as e:
            a.set_fraction(wrong)
        assert str(e.value) == "Invalid type for fraction argument, must be `float`"
    for wrong in (-0.1, 2.5):
        with pytest.raises(ValueError) as e:
            a.set_fraction(wrong)
        assert str(e.value) == f"Invalid fraction value: {wrong}. Allowed range: 0~2"
    with pytest.raises(RuntimeError, match="^invalid high watermark ratio nan$"):
        a.set_fraction(float("nan"))
    a.set_fraction(0.5)  # below the low ratio: not checked here
    assert (a.limit, a.low_ratio) == (5 * GIB, 1.4)
    with pytest.raises(RuntimeError, match="max allowed: 5.00 GiB"):
        a.allocate(6 * GIB)
    a.set_fraction(0.0)
    a.allocate(60 * GIB)


def test_an_unknown_working_set_sets_no_limit():
    a = mac(recommended=None)
    a.allocate(1000 * GIB)
    with pytest.raises(RuntimeError, match="invalid low watermark"):
        mac(recommended=None, environ={HIGH: "0.5"})


# Out of memory


@pytest.mark.parametrize("release, pool, a, b, c, d", [
    ((2, 0), "private", "512.00 MB", "384.00 KB", "1.00 GB", "608.00 MB"),
    ((2, 7), "private", "512.00 MB", "384.00 KB", "1.00 GB", "608.00 MB"),
    ((2, 8), "private", "512.00 MiB", "384.00 KiB", "1.00 GiB", "608.00 MiB"),
    ((2, 12), "private", "512.00 MiB", "384.00 KiB", "1.00 GiB", "608.00 MiB"),
    ((2, 13), "shared", "512.00 MiB", "384.00 KiB", "1.00 GiB", "608.00 MiB"),
    ((2, 15), "shared", "512.00 MiB", "384.00 KiB", "1.00 GiB", "608.00 MiB"),
])
def test_the_text(release, pool, a, b, c, d):
    m = limited(release, GIB + 4096)
    m.allocate(512 * MIB)
    with pytest.raises(RuntimeError) as e:
        m.allocate(608 * MIB)
    assert str(e.value) == (f"MPS backend out of memory (MPS allocated: {a}, other allocations: {b}, max allowed: {c}). "
                            f"Tried to allocate {d} on {pool} pool.{HINT}")
    assert m.refusals == 1 and m.current == 512 * MIB


def test_allocated_means_heaps_except_in_2_0():
    def text(release):
        m = limited(release, GIB)
        m.free(m.allocate(2 * MIB))
        m.allocate(3 * MIB)
        with pytest.raises(RuntimeError) as e:
            m.allocate(GIB)
        return str(e.value)
    # The cached block has been given up by then, the heap is still needed.
    assert "(MPS allocated: 3.00 MB, other allocations: 29.38 MB, max" in text((2, 0))
    assert "(MPS allocated: 32.00 MB, other allocations: 384.00 KB, max" in text((2, 7))
    assert "on private pool" in text((2, 7))


def test_small_scalars_fail_on_the_shared_pool():
    """pinokio #941: `Tried to allocate 256 bytes on shared pool`."""
    m = limited((2, 6), METAL_STARTUP)
    with pytest.raises(RuntimeError, match="Tried to allocate 256 bytes on shared pool"):
        m.allocate(4)
    with pytest.raises(RuntimeError, match="Tried to allocate 256 bytes on private pool"):
        m.allocate(12)


@pytest.mark.parametrize("release", RELEASES)
def test_the_limit_is_held_against_the_block_not_its_heap(release):
    m = limited(release, 100 * MIB)
    m.allocate(50 * MIB)
    assert m.driver == GIB + METAL_STARTUP  # far above the limit
    with pytest.raises(RuntimeError, match="MPS allocated: 50.00 M" if release == (2, 0)
                       else "MPS allocated: 1024.00 M"):
        m.allocate(1000)


@pytest.mark.parametrize("release", RELEASES)
def test_cached_heaps_are_released_before_failing(release):
    m = limited(release, 3 * GIB + METAL_STARTUP)
    m.allocate(608 * MIB)
    m.free(m.allocate(GIB))
    m.free(m.allocate(300))
    assert m.heaps == 3
    m.allocate(2432 * MIB)
    small = 8 * MIB if release >= (2, 14) else 0  # one pool is enough there; before, all are emptied
    assert (m.current, m.reserved, m.refusals) == (3040 * MIB, 3040 * MIB + small, 0)


@pytest.mark.parametrize("release", RELEASES)
def test_even_a_cached_block_is_refused_above_the_limit(release):
    """get_free_buffer looks at the limit first: a cached block is then released, so that it can be made anew."""
    m = limited(release, 2 * GIB)
    m.free(m.allocate(GIB))
    m.other += 512 * MIB
    m.allocate(GIB)
    assert m.released_heaps == 1 and m.current == GIB
    m.other += 3 * GIB
    with pytest.raises(RuntimeError, match="out of memory"):
        m.allocate(256)


def test_no_limit_no_figure():
    m = mac((2, 8), GIB, {HIGH: "0.0"})
    m.allocate(5 * GIB)
    assert m.limit == 1 << 63 and "max allowed" not in m._out_of_memory(m._large.kind(MIB))
    assert m._out_of_memory(m._large.kind(2 * MIB)) == (
        "MPS backend out of memory (MPS allocated: 5.00 GiB, other allocations: 384.00 KiB). "
        "Tried to allocate 2.00 MiB on private pool.")


# Pressure


@pytest.mark.parametrize("release", RELEASES)
def test_under_pressure_a_large_block_gets_a_heap_of_its_own(release):
    m = mac(release, GIB)  # low mark 1.4 GiB
    m.set_fraction(2.0)
    m.allocate(512 * MIB)
    m.allocate(20 * MIB)
    m.allocate(504 * MIB)  # into the first heap: no growth
    assert m.driver == GIB + 512 * MIB + METAL_STARTUP
    m.allocate(505 * MIB)
    assert m.reserved == GIB + 512 * MIB + 506 * MIB


@pytest.mark.parametrize("release", OLD)
def test_garbage_collection_takes_blocks_of_average_age_and_more(release):
    m = mac(release, 2 * GIB)  # low mark 2867.2 MiB
    m.set_fraction(2.0)
    a, b, c = (m.allocate(size * MIB) for size in (520, 600, 700))
    m.free(a)
    m.allocate(900 * MIB)
    m.free(b)
    m.allocate(1000 * MIB)
    m.free(c)
    assert m.reserved == 3720 * MIB and m.garbage_collections == 0
    m.allocate(950 * MIB)  # ages 3, 2, 1: those of at least 2 go, smallest first, until 853 MiB are found
    assert m.garbage_collections == 1
    assert m.reserved == (700 + 900 + 1000 + 950) * MIB and m.cached == 700 * MIB


@pytest.mark.parametrize("release", OLD)
def test_garbage_collection_frees_heaps_of_single_blocks(release):
    m = mac(release, GIB)
    blocks = [m.allocate((520 + 2 * i) * MIB) for i in range(3)]  # 1566 MiB
    for b in blocks[:2]:
        m.free(b)
    m.set_fraction(2.0)
    m.allocate(530 * MIB)  # nothing fits, 530 < 1042 cached
    assert m.garbage_collections == 1
    assert not blocks[0].used and m.reserved == (522 + 524 + 530) * MIB
    assert m.cached == 522 * MIB


@pytest.mark.parametrize("release", NEW)
def test_garbage_collection_gives_back_whole_heaps(release):
    m = mac(release, GIB)
    blocks = [m.allocate((512 + 16 * i) * MIB) for i in range(3)]  # 512 528 544
    m.set_fraction(2.0)
    m.free(blocks[0])
    m.free(blocks[1])
    m.allocate(576 * MIB)
    assert m.garbage_collections == 1 and m.reserved == (528 + 544 + 576) * MIB


def test_pressure_begins_less_than_1_mib_below_the_low_mark():
    m = mac((2, 8), 100 * MIB, {HIGH: "2.0", LOW: "1.0"})
    m.other = 99 * MIB
    assert not m._pressed(m._large) and not m._pressed(m._small)
    m.other = 99 * MIB + 1
    assert m._pressed(m._large) and not m._pressed(m._small)


# Counters


@pytest.mark.parametrize("release", RELEASES)
def test_peaks(release):
    a = mac(release)
    b = a.allocate(3 * MIB)
    c = a.allocate(600 * MIB)
    a.free(c)
    a.empty_cache()
    assert (a.current, a.peak_current) == (3 * MIB, 603 * MIB if release < (2, 14) else 3 * MIB + c.size)
    assert (a.driver, a.peak_driver) == (32 * MIB + METAL_STARTUP, a.peak_reserved + METAL_STARTUP)
    a.reset_peak()
    assert (a.peak_current, a.peak_reserved, a.peak_driver) == (a.current, a.reserved, a.driver)
    a.free(b)
    a.empty_cache()
    assert (a.current, a.cached, a.heaps, a.driver) == (0, 0, 0, METAL_STARTUP)
    assert a.searches == 2 and a.new_heaps == a.released_heaps == 2


def test_what_others_hold_counts_as_driver_memory():
    a = mac()
    a.other += GIB
    a.other -= MIB
    assert a.driver == GIB - MIB + METAL_STARTUP and a.peak_driver == GIB + METAL_STARTUP and a.reserved == 0


@pytest.mark.parametrize("release", RELEASES)
def test_a_block_is_freed_once(release):
    a = mac(release)
    b = a.allocate(100)
    a.free(b)
    with pytest.raises(ValueError):
        a.free(b)
    with pytest.raises(ValueError):
        a.allocate(-1)
    assert a.current == 0 and a.cached >= 256


def test_a_finalizer_may_free_inside_an_allocation(monkeypatch):
    a = mac()
    dying = a.allocate(5 * MIB)
    search = MetalAllocator._search

    def interrupted(self, kind):
        self.free(dying)
        assert dying.used
        return search(self, kind)
    monkeypatch.setattr(MetalAllocator, "_search", interrupted)
    b = a.allocate(5 * MIB)
    assert b is not dying and not dying.used and a.current == 5 * MIB


def in_heaps(a):
    """What the account says, added up from the blocks in the heaps (from 2.14) or from gaps."""
    used = free = 0
    for pool in a._pools:
        assert pool.available == sum(b.size for b in pool.free_blocks())
        assert all(k.size == b.size and b.home is k and not b.used for k in pool.kinds.values() for b in k.blocks)
        assert pool.sizes == sorted(set(pool.sizes))
        for entry in pool.heaps:
            heap = entry if a._places else entry[2]
            if a._places:
                at = 0
                for b in heap.blocks():
                    assert b.offset == at and b.size > 0
                    at += b.size
                    used, free = (used + b.size, free) if b.used else (used, free + b.size)
                assert at == heap.total
            else:
                assert entry[:2] == (heap.available, heap.serial)
                assert heap.gaps == sorted(heap.gaps) and all(s < e for s, e in heap.gaps)
                assert all(e < s for (_, e), (s, _) in zip(heap.gaps, heap.gaps[1:]))
                used += heap.total - sum(e - s for s, e in heap.gaps)
    return used, free


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("seed", range(4))
def test_the_account_balances(release, seed):
    r = random.Random(seed)
    a = mac(release, GIB, {HIGH: "1.7", LOW: r.choice(["1.4", "0.5", "0"])})
    live = []
    refused = 0
    sizes = [r.randint(1, 1 << r.randint(3, 30)) for _ in range(40)]
    for step in range(1500):
        if live and r.random() < 0.5:
            a.free(live.pop(r.randrange(len(live))))
        elif r.random() < 0.01:
            a.empty_cache()
        else:
            nbytes = r.choice(sizes) if r.random() < 0.7 else r.randint(1, 64 * MIB)
            try:
                b = a.allocate(nbytes)
            except RuntimeError as e:
                assert "MPS backend out of memory" in str(e)
                assert str(e).startswith("MPS backend out of memory (MPS allocated: ")
                refused += 1
                continue
            assert b.size >= nbytes and b.used
            live.append(b)
        assert a.current == sum(b.size for b in live)
        assert 0 <= a.cached and a.current + a.cached <= a.reserved
        if a._places:
            assert a.current + a.cached == a.reserved
        assert a.driver == a.reserved + METAL_STARTUP >= a.current
        assert a.peak_current >= a.current and a.peak_driver >= a.driver and a.heaps == a.new_heaps - a.released_heaps
        if step % 100 == 0:
            used, free = in_heaps(a)
            assert used == (a.current if a._places else a.current + a.cached) and free == (a.cached if a._places else 0)
    assert refused == a.refusals
    for b in live:
        a.free(b)
    a.empty_cache()
    assert a.current == a.cached == 0
    if release >= (2, 14) or not (a.garbage_collections or a.refusals):
        assert (a.heaps, a.driver) == (0, METAL_STARTUP)
    # Otherwise empty heaps may be left: see below.
    assert a.reserved == sum(h.total for pool in a._pools for _, _, h in pool.heaps if not h.buffers)


@pytest.mark.parametrize("release", OLD)
def test_garbage_collection_leaves_empty_heaps_that_empty_cache_cannot_see(release):
    m = mac(release, GIB)
    m.set_fraction(2.0)
    blocks = m.allocate(400 * MIB), m.allocate(500 * MIB)
    for b in blocks:
        m.free(b)
    m.other += 870 * MIB  # 460 MiB above the low mark
    with pytest.raises(RuntimeError, match="MPS allocated: 0 bytes" if release == (2, 0)
                       else "MPS allocated: 1024.00 M"):
        m.allocate(510 * MIB)  # refused although the heap is empty: the heap counts in full
    assert m.garbage_collections == 1 and m.cached == 0
    m.empty_cache()
    assert (m.reserved, m.heaps) == (GIB, 1)
    m.free(m.allocate(20 * MIB))  # into that heap
    m.empty_cache()
    assert (m.reserved, m.heaps) == (0, 0)


# Texts


@pytest.mark.parametrize("size, old, new", [
    (0, "0 bytes", "0 bytes"),
    (1024, "1024 bytes", "1024 bytes"),
    (1025, "1.00 KB", "1.00 KiB"),
    (30976, "30.25 KB", "30.25 KiB"),
    (MIB, "1024.00 KB", "1024.00 KiB"),
    (GIB, "1024.00 MB", "1024.00 MiB"),
    (GIB + 1, "1.00 GB", "1.00 GiB"),
    (int(1.7 * 11453251584), "18.13 GB", "18.13 GiB"),
])
def test_sizes_in_messages(size, old, new):
    assert format_size(size, (2, 0)) == format_size(size, (2, 7)) == old
    assert format_size(size, (2, 8)) == format_size(size, (2, 15)) == new


# The working set


@pytest.mark.parametrize("gib, era, printed, source", OBSERVED)
def test_the_working_set_prints_as_it_was_seen(gib, era, printed, source):
    value, known = recommended_max(gib * GIB, era)
    assert known == "observed" and value % PAGE == 0 and source
    if printed.startswith("max allowed: "):
        release = (2, 8) if printed.endswith("iB") else (2, 7)
        assert format_size(int(1.7 * value), release) == printed[len("max allowed: "):]
    elif printed.endswith(" bytes"):
        assert f"{value} bytes" == printed
    else:
        number, unit = printed.split()
        assert "%.2f" % (value / {"MB": 10 ** 6, "MiB": MIB, "GiB": GIB}[unit]) == number


@pytest.mark.parametrize("gib, era, printed, source", LARGEST_BUFFERS)
def test_the_largest_buffer_is_what_was_seen(gib, era, printed, source):
    assert largest_buffer(gib * GIB, era) == (printed, "observed") and source


def test_the_largest_buffer_of_other_macs():
    assert largest_buffer(36 * GIB, 15) == (21743271936, "derived")  # 20.25 GiB
    assert largest_buffer(8 * GIB, 26) == (None, None)  # nor is the working set known


@pytest.mark.parametrize("gib, macos, value, known", [
    (192, (15, 2), 144 * GIB, "derived"),
    (512, "14.7", 384 * GIB, "derived"),
    (20, 13, 14316568576, "derived"),
    (33, 15, None, None),
    (4, 15, None, None),
    (8, 26, None, None),
    (96, (26, 1), None, None),
    (192, 26, None, None),
    (256, 27, None, None),
    (16, (27, 0), 12713115648, "observed"),
    (40, 26, 33500758016, "derived"),
    (16, 20, None, None),
    (16, None, None, None),
    (16, "", None, None),
])
def test_the_working_set_where_it_was_not_seen(gib, macos, value, known):
    assert recommended_max(gib * GIB, macos) == (value, known)


def test_the_wired_limit_replaces_the_default():
    assert recommended_max(128 * GIB, 26, wired_limit_mb=114688) == (112 * GIB, "derived")
