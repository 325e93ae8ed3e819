"""Calls that make the host wait for a device, by the user's line: counted for any framework, and sent as totals."""

from .. import place, process, wire
from ..timeline import T

_points = {}  # (call, user code, line, library code, line) -> [count, ns, waits, changed, in steps]
_installed = []
PLACES = 2000


def install():
    """For the first framework that asks."""
    if not _installed:
        _installed.append(True)
        wire.source(_gather)
        process.after_fork(_points.clear)


def note(call, waits, ns, depth):
    """A call of that name took ns; waits: the host had to wait in it. depth: of the caller's frame, as in place.key,
    from here on."""
    key = (call,) + place.key(depth + 1)
    point = _points.get(key)
    if point is None:
        if len(_points) >= PLACES:
            return
        point = _points[key] = [0, 0, waits, True, 0]
    point[0] += 1
    point[1] += ns
    point[2] = point[2] or waits
    point[3] = True
    if T.step.backwards or T.step.opts:
        point[4] += 1
    T.counts["sync"] += 1


def _gather():
    rows = []
    for key, point in list(_points.items()):
        if point[3]:
            point[3] = False
            user, via = place.text(key[1:])
            rows.append([key[0], user, via, point[0], point[1], point[2], point[4]])
    if rows:
        wire.put({"ev": "syncs", "rows": rows})  # totals so far: the last row of a place counts
