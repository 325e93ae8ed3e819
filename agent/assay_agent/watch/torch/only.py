"""--only data and --only forward: after some ordinary steps the agent takes the loop over and runs one side alone.

data: batches are fetched as fast as the loader gives them, with no compute between.
forward: the model is called again and again on its last batch, without gradients, with no data between.
Then the run ends with SystemExit(0). The model's state is not the training's any more: these runs measure, they do not
train.
"""

import time

from ... import wire
from ...timeline import T
from . import dataloader, module

ORDINARY = 30  # steps before the takeover
BATCHES = 200
SECONDS = 20.0

_what = None


def install(torch, config):
    global _what
    _what = config.get("only") or None
    if _what == "data":
        dataloader.takeover = _data
    elif _what == "forward":
        module.keep_call = True
        dataloader.takeover = lambda iterator, fetch: _forward(torch)


def _ready():
    """Thirty steps are done, or the first pass of a short loader is over."""
    return T.number >= ORDINARY or T.epoch >= 2


def _end(times, why):
    wire.put({"ev": "only", "what": _what, "ns": times, "after": T.number, "why": why})
    T.finish()
    T.on = True
    T.stop("--only %s: %d batches" % (_what, len(times)))


def _data(iterator, fetch):
    if not _ready() or not T.step.opts:
        return
    times, why, began = [], "", time.perf_counter()
    while len(times) < BATCHES and time.perf_counter() - began < SECONDS:
        t = time.perf_counter_ns()
        try:
            fetch(iterator)
        except StopIteration:
            why = "the loader's pass ended"
            break
        times.append(time.perf_counter_ns() - t)
    if len(times) < 5 and why:
        return  # too near the end of the pass: at the next one
    _end(times, why)


def _forward(torch):
    if not _ready() or not T.step.opts or module.last_call is None:
        return
    model, args, kwargs = module.last_call
    times, began = [], time.perf_counter()
    T.on = False
    wait = T.device.synchronize or (lambda: None)
    try:
        with torch.no_grad():
            while len(times) < BATCHES and time.perf_counter() - began < SECONDS:
                wait()
                t = time.perf_counter_ns()
                model(*args, **kwargs)
                wait()
                times.append(time.perf_counter_ns() - t)
    finally:
        T.on = True
    _end(times, "")
