"""The devices that JAX computes on, and what their allocators count."""

from ...device import Device


def of(array):
    """The device that holds an array; where several do, one of them."""
    device = min(array.devices(), key=lambda d: d.id)
    stats = _stats(device)
    name = device.device_kind
    if name == device.platform:  # of a CPU
        name = ""
    if not stats:
        return Device(_kind(device), name)
    limit = stats.get("bytes_limit")
    return Device(
        _kind(device),
        name,
        memory=lambda: _account(_stats(device)),
        limit=(limit, "jax.Device.memory_stats") if limit else None,
        peak=lambda: _peak(_stats(device)),
    )


def _kind(device):
    """cpu, cuda, rocm, tpu, mps (jax-mps), metal (jax-metal, which is no longer released). JAX calls both makers' GPUs
    `gpu`; their clients' versions tell which."""
    kind = device.platform.lower()
    if kind == "gpu":
        version = str(getattr(device.client, "platform_version", "")).lower()
        return "rocm" if "rocm" in version else "cuda"
    return kind


def _stats(device):
    """What the allocator says of itself: a dictionary, or None where there is none (CPU)."""
    try:
        return device.memory_stats()
    except (NotImplementedError, RuntimeError):  # a plug-in without it: jaxlib's XlaRuntimeError is a RuntimeError
        return None


def _account(stats):
    stats = stats or {}
    live = stats.get("bytes_in_use", -1)
    return live, stats.get("pool_bytes", stats.get("bytes_reserved") or live)


def _peak(stats):
    stats = stats or {}
    live = stats.get("peak_bytes_in_use", -1)
    return live, stats.get("peak_pool_bytes", live), "jax.Device.memory_stats"
