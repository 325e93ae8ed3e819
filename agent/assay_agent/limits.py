"""A program: what PyTorch's MPS allocator may take on each of some Macs, without torch and without a rehearsal.

On standard input a JSON list of Macs, {"memory": bytes of unified memory, "macos": [major, minor]}; on standard
output one of the same length, each with `recommended` (bytes of Metal's recommended working set, null where it is not
known), `ground` (observed, derived, null), `seen` (where the figure was read, "" where it was derived), `high` and
`low` (bytes at which the allocator refuses, and begins to give back; null where there is no such limit),
`largest_buffer` (bytes of Metal's largest buffer, null where it is not known), `largest_ground` and `largest_seen`
(the same of it), and `rest` (bytes that Metal leaves to all else on the smallest Mac that is sold). The watermark
ratios are the environment's, as PyTorch reads them. The figures and their sources stand in double/allocator.py.
"""

import json
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # last: it hides nothing of Python's

from assay_agent.double import allocator  # noqa: E402

SMALLEST = 8 << 30, (15, 0)  # the smallest memory of double/allocator.py's OBSERVED, and the macOS it was seen on


def limits(memory, macos, environ):
    """What stands in the answer of one Mac. RuntimeError where the environment has ratios that PyTorch refuses."""
    recommended, ground = allocator.recommended_max(memory, macos)
    account = allocator.MetalAllocator((2, 0), recommended, environ)  # the limits are the same in each release
    smallest, _ = allocator.recommended_max(*SMALLEST)
    era = 15 if macos[0] < 26 else 26
    largest, largest_ground = allocator.largest_buffer(memory, macos)
    seen, largest_seen = (
        next((where for gib, of, _, where in rows if known == "observed" and (gib << 30, of) == (memory, era)), "")
        for rows, known in ((allocator.OBSERVED, ground), (allocator.LARGEST_BUFFERS, largest_ground)))
    return {"recommended": recommended, "ground": ground, "seen": seen,
            "largest_buffer": largest, "largest_ground": largest_ground, "largest_seen": largest_seen,
            "high": _known(account.limit, recommended), "low": _known(account.low_limit, recommended),
            "high_ratio": account.high_ratio, "rest": SMALLEST[0] - smallest}


def _known(limit, recommended):
    return limit if recommended is not None and limit < 1 << 62 else None


if __name__ == "__main__":
    json.dump([limits(mac["memory"], tuple(mac["macos"]), os.environ) for mac in json.load(sys.stdin)], sys.stdout)
