"""The device that MLX computes on, and what its allocator counts."""

from ...device import Device
from ...timeline import T
from . import sampled

_mx = None
_plain = True  # a plain loop, whose sampled steps are evaluated piece by piece


def install(mx, config):
    global _mx
    _mx = mx


def build(mx):
    """Of the event `framework`. Reads what MLX says of itself, and computes nothing."""
    return {
        "file": mx.__file__,
        "default_device": kind_of(mx),
        "metal": bool(mx.metal.is_available()),
        "device_name": str(facts(mx).get("device_name", "")),
        "architecture": str(facts(mx).get("architecture", "")),
    }


def kind_of(mx):
    """The default device's type, as MLX names it: cpu, gpu."""
    return str(mx.default_device().type).rpartition(".")[2]


def facts(mx):
    """What MLX says of the default device: its name, and on a GPU the sizes of its memory; {} where the release does
    not say."""
    ask = getattr(mx, "device_info", None) or getattr(mx.metal, "device_info", None)
    try:
        return dict(ask()) if ask is not None else {}
    except (RuntimeError, ValueError):  # older releases: Metal's facts, and no Metal
        return {}


def seen(plain=True):
    """The training loop is about to compute: say on which device, where that is not said yet.

    plain: its sampled steps are evaluated piece by piece."""
    global _plain
    kind = kind_of(_mx)
    if T.device.kind == kind and T.device.memory is not None and plain == _plain:
        return
    _plain = plain
    T.lead("mlx")
    known = facts(_mx)
    size = known.get("max_recommended_working_set_size")
    live, cache, most = _counters(_mx)
    T.use(
        Device(
            kind,
            str(known.get("device_name", "")),
            sampled.evaluate if plain else None,
            lambda: _account(live(), cache()),
            (int(size), "max_recommended_working_set_size of mx.device_info") if size else None,
            lambda: (most(), -1, "mx.get_peak_memory"),
        )
    )


def _account(live, cached):
    return live, live + cached


def _counters(mx):
    """(active, cache, peak): functions that give bytes. Before 0.22 they stood in mx.metal."""
    names = ("get_active_memory", "get_cache_memory", "get_peak_memory")
    return [getattr(mx, name, None) or getattr(mx.metal, name) for name in names]
