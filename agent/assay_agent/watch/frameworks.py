"""The frameworks that are watched: each is waited for, and its hooks are installed when the script has imported it."""

import importlib
import time

from .. import guest, process, wire
from .imports import when_imported

# The modules that scripts import, each with a folder of its name beside this file (adapter.py).
FRAMEWORKS = ("torch", "mlx", "jax", "keras")
# The module that has the framework in it, where that is another.
MODULES = {"mlx": "mlx.core"}

_installed = []  # names, in the order in which they were imported


def install(config):
    for name in FRAMEWORKS:
        when_imported(MODULES.get(name, name), lambda framework, name=name: installed(name, framework, config))


def installed(name, framework, config):
    """Install every hook of the framework. One that fails is a line of evidence; the others stand."""
    from ..timeline import T, gather  # a script that imports no framework never pays for them
    from . import blocks, cost, length, memory

    began = time.perf_counter_ns()
    adapter = importlib.import_module("%s.%s" % (__package__, name)).ADAPTER
    guest.libraries.add(name)
    adapter.prepare(framework, config)
    wire.put(dict({"ev": "framework", "name": name, "version": adapter.version(framework)}, **adapter.build(framework)))
    if config.get("tests") or config.get("suite") and not config.get("signatures"):
        for hook in adapter.always:  # tests have no steps: nothing of them is measured
            hook.install(framework, config)
        return
    first = not _installed
    _installed.append(name)
    # What is said of any framework: the account before the hooks, what they cost after them.
    hooks = [memory, length, *adapter.hooks, blocks, cost] if first else adapter.hooks
    if first:
        T.limit_steps = int(config.get("steps") or 0)
        if config.get("for"):
            T.limit_at = time.perf_counter_ns() + int(
                (float(config["for"]) - (time.time() - float(config["wall"]))) * 1e9
            )
        wire.source(length.gather)  # before the steps that it says something of
        wire.source(gather)
        process.after_fork(T.reset)
    for hook in hooks:
        try:
            hook.install(framework, config)
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("%s not installed: %r" % (hook.__name__.rpartition(".")[2], err))
        if hasattr(hook, "clear"):
            process.after_fork(hook.clear)
    blocks.watch(adapter.hooks)
    if first:
        process.finisher(T.finish)
        process.when_back(T.resume)
    wire.put({"ev": "installed", "ns": time.perf_counter_ns() - began})
