"""What the agent costs this run beside what the blocks measure (blocks.py): hook calls times what one costs here, and
its longer work, as timed. Of a run that is too short for blocks it is all that is known."""

import time

from .. import guest, process, wire
from ..timeline import T, Timeline

_per_call = {}


def install(framework, config):
    _calibrate()
    process.finisher(report)
    wire.source(_gather)


def _watched():
    """What is watched here: nothing but the watching takes time."""
    return None


def _calibrate():
    """Time the hooks as they stand around a function, on a timeline of their own: nanoseconds a call, the median of 25.
    Before each the processor's caches are filled with something else, as a training step does: a hook that is called
    once a step takes several times what it takes in a loop."""
    other = bytearray(2 << 20)
    t = Timeline()
    phase = t.phase("any", 0, "", "")
    t.mine()
    t.opened = True

    def stands(begin, end):
        def entered():
            begin()
            return True

        return guest.around(_watched, guest.hook(entered), guest.hook(lambda error: end()))

    rounds = {
        "fetch": stands(t.fetch_begin, lambda: t.fetch_end(phase, (1, 1))),
        "module": stands(lambda: (t.mine(), t.module_begin(phase)), lambda: t.module_end(phase)),
        "backward": stands(lambda: (t.mine(), t.backward_begin(phase)), lambda: t.backward_end(phase)),
        "optimizer": stands(lambda: (t.mine(), t.optimizer_begin(phase, 1)), lambda: t.optimizer_end(phase)),
    }
    for name, call in rounds.items():
        spent = []
        for _ in range(25):
            t.step.opts, t.step.refs, t.snapshot, t.in_opt = [], [], None, 0
            t.step.backwards = 1
            bytes(other)
            began = time.perf_counter_ns()
            call()
            spent.append(time.perf_counter_ns() - began)
        _per_call[name] = sorted(spent)[12]
    _per_call["sync"] = 2 * _per_call["module"]  # on a device: two clocks, a wrapper made and a dictionary
    _per_call["copy"] = _per_call["module"]
    _per_call["step"] = _per_call["fetch"]


def report():
    _gather(force=True)


def _gather(force=False):
    if not T.number or (not force and T.number == _last[0]):
        return
    _last[0] = T.number
    hooks = _price(T.counts)
    bare, kept = 0, 0
    if T.blocks is not None:
        bare, kept = T.blocks.bare_steps, _price(T.blocks.kept(T))
    wire.put(
        {
            "ev": "cost",
            "steps": T.number,
            "hooks_ns": int(hooks) + T.memory_ns,
            "heavy_ns": T.heavy_ns,
            "epoch_ns": T.epoch_ns,
            "bare": bare,
            "bare_ns": int(kept),
            "kept_ns": T.kept_ns,
            "thread_ns": wire.sender_ns() - T.sender_before,
            "per_call": {k: round(v) for k, v in _per_call.items()},
            "counts": dict(T.counts),
            "bytes": wire.sent_bytes,
        }
    )


def _price(counts):
    return sum(_per_call.get(name, 0) * count for name, count in counts.items())


_last = [0]
