"""Batches, gradients and updates."""

from ... import guest
from ...device import Device
from ...timeline import T

LOAD = T.phase("load", 10, "load", "waiting for the next batch")
LEARN = T.phase("learn", 20, "learn", "gradient and update")

_passes = {"number": 0}


def install(toy, config):
    T.use(Device("abacus", "Abacus 1", toy.synchronize, lambda: (8 * len(toy._queue), 64), (1 << 10, "toy.size")))

    @guest.hook
    def begins(batches):
        _passes["number"] += 1
        return False

    @guest.hook
    def fetches(batches):
        if not T.on or not T.mine() or not T.free():
            return False
        T.fetch_begin()
        return True

    @guest.hook
    def fetched(error):
        batch = (1, _passes["number"])
        T.fetch_end(LOAD, batch if error is None else None)
        if isinstance(error, StopIteration):
            T.pass_ended(batch)

    @guest.hook
    def descends(line, batch):
        if not T.on or not T.mine() or not T.free():
            return False
        T.backward_begin(LEARN)
        return True

    @guest.hook
    def descended(error):
        T.backward_end(LEARN)

    @guest.hook
    def updates(line, rate):
        if not T.on or not T.mine() or not T.free():
            return False
        T.optimizer_begin(LEARN, id(line))
        return True

    @guest.hook
    def updated(error):
        T.optimizer_end(LEARN)

    toy.Batches.__iter__ = guest.around(toy.Batches.__iter__, begins, None)
    toy.Batches.__next__ = guest.around(toy.Batches.__next__, fetches, fetched)
    toy.Line.descend = guest.around(toy.Line.descend, descends, descended)
    toy.Line.update = guest.around(toy.Line.update, updates, updated)
