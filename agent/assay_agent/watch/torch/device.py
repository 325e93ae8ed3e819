"""The devices that PyTorch trains on: how to wait for them, and what their allocators count."""

from ...device import Device


def of(torch, kind):
    """The device of that type."""
    if kind == "cpu":
        return Device(kind)
    if kind == "cuda":
        return _cuda(torch)
    if kind == "mps":
        return _mps(torch)
    return Device(kind, synchronize=getattr(getattr(torch, kind, None), "synchronize", None))


def _own(function):
    """A function that transfer.py watches, as it was."""
    return getattr(function, "__wrapped__", function)


def _mps(torch):
    mps = torch.mps
    name = getattr(torch.backends.mps, "get_name", None)  # 2.9
    limit = getattr(mps, "recommended_max_memory", None)  # 2.5
    live, pool = mps.current_allocated_memory, mps.driver_allocated_memory
    return Device(
        "mps",
        name() if name else "",
        _own(mps.synchronize),
        lambda: (live(), pool()),
        (limit(), "torch.mps.recommended_max_memory") if limit else None,
    )


def _cuda(torch):
    cuda = torch.cuda
    wait = _own(cuda.synchronize)

    def synchronize():
        if not cuda.is_current_stream_capturing():  # a graph, which waiting would spoil
            wait()

    limit = cuda.get_device_properties(cuda.current_device()).total_memory, "torch.cuda.get_device_properties"
    part = getattr(cuda, "get_per_process_memory_fraction", None)
    part = part() if part else 1.0
    if 0 < part < 1:  # the script has given itself less
        limit = int(part * limit[0]), "torch.cuda.set_per_process_memory_fraction"
    return Device(
        "cuda",
        cuda.get_device_name(),
        synchronize,
        _cuda_account(torch),
        limit,
        lambda: (cuda.max_memory_allocated(), cuda.max_memory_reserved(), "torch.cuda.max_memory_allocated"),
    )


def _cuda_account(torch):
    """(allocated, reserved) from one reading: torch.cuda.memory_allocated() flattens the whole account in Python each
    time."""
    raw = getattr(torch._C, "_cuda_memoryStats", None)
    device = torch.cuda.current_device()
    if raw is None:
        return lambda: (torch.cuda.memory_allocated(), torch.cuda.memory_reserved())

    def read():
        stats = raw(device)
        return stats["allocated_bytes"]["all"]["current"], stats["reserved_bytes"]["all"]["current"]

    return read
