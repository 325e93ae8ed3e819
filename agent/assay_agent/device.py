"""What the timeline has to know of the device that trains: a framework's hook hands it to Timeline.use."""


class Device:
    """A device, and how to ask it. What is asked is asked on the training thread."""

    __slots__ = ("kind", "name", "synchronize", "memory", "limit", "peak")

    def __init__(self, kind, name="", synchronize=None, memory=None, limit=None, peak=None):
        """kind: its type, as the framework names it: cpu, cuda, mps; empty: not known yet.
        name: its own; empty where it gives none.
        synchronize: () waits for what was queued; None where nothing runs behind the script's back.
        memory: () -> (live, pool), bytes that tensors hold and that the allocator holds; None where nobody counts.
        limit: (bytes that a process can have of it, the call that said so), or None.
        peak: () -> (live, pool, the call that said so), highest so far; None where the allocator keeps none."""
        self.kind, self.name = kind, name
        self.synchronize, self.memory, self.limit, self.peak = synchronize, memory, limit, peak
