"""Steps: what a training computes in its first steps, recorded for `assay compare` (docs/formats/steps.md).

Here the agent is no mere guest: config["record"] asked it to seed the script, to give it the weights and batches of another recording, and to
draw random numbers in the same way on every device. Everything else is the script's. Without config["record"] nothing of this folder is imported.

config["record"]: out, the folder to make; from, another recording's folder or ""; seed; moved, 1 where what is given is moved by one unit in the
last place; steps, how many make the recording whole.
"""

import importlib

from .. import guest, wire
from ..watch.imports import when_imported


def install(config):
    asked = dict(config["record"], double=config.get("double"))
    seed = int(asked.get("seed") or 0)
    when_imported("random", lambda module: module.seed(seed))
    when_imported("numpy.random", lambda module: module.seed(seed % 2**32))
    when_imported("torch", lambda torch: _installed(torch, asked))


def _installed(torch, asked):
    try:
        importlib.import_module(".recorder", __package__).install(torch, asked)
    except Exception as err:
        guest.pass_on(err)
        wire.trouble("steps are not recorded: %r" % (err,))
