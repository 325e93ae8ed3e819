"""The agent: a guest in somebody's training process that watches it and tells `assay run` what it sees.

It needs nothing but the standard library and the framework that the script itself imports. It never changes results, output,
exit status or signals. Every failure of its own ends as a line of evidence (`trouble`), never as the script's.

Python 3.9 or later, PyTorch 2.0 or later.
"""

import json
import os
import sys

PROTOCOL = 2
VARIABLE = "ASSAY_AGENT"  # JSON: socket, run folder, and what the run was asked to do


def start():
    """Read the configuration, say hello, and wait for a framework to be imported."""
    text = os.environ.get(VARIABLE)
    if not text:
        return
    from . import process, wire
    from .watch import frameworks, logged, seeds, threads

    config = json.loads(text)
    if not config.get("socket"):  # a rehearsal's failed tests, once more on the CPU: nothing else is watched
        from .watch import suite, tests

        wire.silent = True
        frameworks.install(config)
        if config.get("tests"):
            tests.again(config["tests"])
        else:
            suite.install(config["suite"])
        return
    wire.open(config, PROTOCOL)
    process.install()
    frameworks.install(config)
    logged.install(config)
    seeds.install(config)
    threads.install(config)
    if config.get("levers"):  # a trial: the only part of the agent that changes a training, as it was told to
        from . import levers

        levers.install(config)
    if config.get("signatures"):
        from . import signatures

        signatures.install(config)
    if config.get("record"):  # a side of `assay compare`: seeded, and given another's weights and batches
        from . import steps

        steps.install(config)
    if config.get("suite"):
        from .watch import suite

        suite.install(config["suite"])
    elif config.get("double") or config.get("signatures"):  # where a failed test has to be told from the end of a script
        from .watch import tests

        tests.install()
    if config.get("releases"):  # the tests of a rehearsal, asked of other releases as well
        from .watch import releases

        releases.install()
    if sys.flags.verbose:
        wire.trouble("python -v: the import messages name the agent's modules")
