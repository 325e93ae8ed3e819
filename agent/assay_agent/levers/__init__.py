"""Levers: what a trial of `assay sweep` has the agent change in a script's training, its source being left as it is.

Here the agent is no mere guest: it was told to change the training, by config["levers"], and says what it did in one event `lever` for each
place. Everything else of the script stays: output, status, tracebacks, warnings of other things. Without config["levers"] nothing of this
folder is imported. docs/levers.md says what each lever does, and where it can do nothing.

A lever is a file beside this one with install(torch, asked), called when the script has imported torch; it answers by tell().
"""

import importlib
import sys

from .. import guest, process, wire
from ..watch.imports import when_imported

ANSWERS = 100  # of a process
_FILES = {  # lever -> the file that has it
    "batch": "batch",
    "accumulate": "accumulate",
    "longest": "longest",
    "checkpoint": "checkpoint",
    "autocast": "autocast",
    "channels_last": "channels_last",
    "smaller": "smaller",
    "foreach_off": "optimizers",
    "fused_off": "optimizers",
}
_asked = {}
_told = set()


def install(config):
    """Have every lever that was asked for wait for torch."""
    asked = config["levers"]
    for name in ("batch", "accumulate", "longest"):
        if asked.get(name):
            _asked[name] = asked[name]
    _asked.update((name, True) for name in asked.get("remedies") or ())
    limits = asked.get("mlx") or {}
    _asked.update((name, True) for name in limits)
    process.finisher(_unanswered)
    process.after_fork(_told.clear)
    if any(name in _FILES for name in _asked):
        when_imported("torch", _installed)
    if limits:
        when_imported("mlx.core", lambda mx: _limited(mx, limits))


def _installed(torch):
    for name in dict.fromkeys(_FILES[name] for name in _asked if name in _FILES):
        try:
            importlib.import_module("." + name, __package__).install(torch, _asked)
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("lever %s not installed: %r" % (name, err))


def _limited(mx, limits):
    try:
        importlib.import_module(".mlx", __package__).install(mx, limits)
    except Exception as err:
        guest.pass_on(err)
        wire.trouble("limits of MLX not set: %r" % (err,))


def tell(lever, done, **more):
    """What came of a lever at one place: more has where, from, to, why, note (docs/formats/events.md). What was told is not told again."""
    event = dict({"ev": "lever", "lever": lever, "done": done}, **{k: v for k, v in more.items() if v})
    key = tuple(event.items())
    if key not in _told and len(_told) < ANSWERS:
        _told.add(key)
        wire.say(event)


def answered(lever):
    """Whether anything was told of the lever."""
    return any(("lever", lever) in key for key in _told)


missed = {}  # lever -> why it found no place, where it knows better than _unanswered


def _unanswered():
    """At the end of a process: of levers that found no place to be pulled at."""
    for name in _asked:
        if answered(name):
            continue
        if name.endswith("_limit"):
            why = "MLX was not imported"
        elif name not in _FILES:
            why = "there is no remedy of that name"
        elif "torch" not in sys.modules:
            others = [m for m in ("mlx", "jax", "keras", "tensorflow") if m in sys.modules]
            why = "the script trains with %s, and levers are for PyTorch" % others[0] if others else "PyTorch was not imported"
        else:
            why = missed.get(name) or "the training came to no place where it could be done"
        tell(name, False, why=why)
