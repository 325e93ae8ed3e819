"""Puts the double into the script's process, when its torch has been imported."""

import json

from .. import wire
from . import allocator, modes, place, surface


def install(torch, settings):
    """Install everything; settings are those of docs/formats/double.md. What could not be installed is evidence, not an error."""
    with open(settings["table"]) as f:
        settings["loaded"] = json.load(f)
    recommended = settings.get("recommended")
    known = "declared"
    if recommended is None:
        recommended, known = allocator.recommended_max(settings["memory"], tuple(settings["macos"]))
        settings["recommended"] = recommended

    def make():
        if settings.get("like") == "cuda":  # to hold the account against a real NVIDIA GPU: tools/double/memory.py
            return allocator.CudaAllocator()
        return allocator.MetalAllocator(tuple(settings["series"]), recommended, _environ(), tuple(settings["macos"]))

    place.install(torch, settings, make)
    limits = list(surface.install(torch, settings, place) or ())
    modes.install(torch, settings)
    if settings.get("like") == "cuda":
        from . import cuda_like
        cuda_like.install(torch, settings)
    wire.put({"ev": "double", "release": settings["release"], "installed": torch.__version__, "macos": list(settings["macos"]),
              "chip": settings.get("chip", ""), "memory": settings.get("memory"), "recommended": recommended, "recommended_known": known or "",
              "limits": limits})


def _environ():
    import os
    return os.environ


def clear():
    """A forked child tells of itself alone."""
    for counts in modes.ops.values():
        counts[0] = counts[1] = 0
        if counts[3] is not None:
            counts[3] = 0
    modes.fallbacks.clear()
    modes.refusals.clear()
    modes.notes.clear()


def report():
    """The events of what was seen so far: operators, fallbacks, refusals, notes."""
    wire.put({"ev": "ops", "rows": [dict({"op": name, "n": c[0], "state": c[2], "cpu_ns": c[1]}, **({} if c[3] is None else {"flops": c[3]}))
                                    for name, c in sorted(modes.ops.items()) if c[0]]})
    for (op, where), (n, ns, nbytes) in sorted(modes.fallbacks.items()):
        wire.put({"ev": "fallback_op", "op": op, "where": where, "n": n, "cpu_ns": ns, "bytes": nbytes})
    for (op, cause, kind, text, where), n in sorted(modes.refusals.items()):
        wire.put({"ev": "refused", "op": op, "cause": cause, "error": kind, "text": text, "where": where, "n": n})
    for (op, kind, text, where), n in sorted(modes.notes.items()):
        wire.put({"ev": "note", "op": op, "kind": kind, "text": text, "where": where, "n": n})
