"""Notices when the script has imported a framework, and installs the hooks then: nothing is imported on its behalf."""

import importlib.abc
import sys
import time

from .. import guest, process, wire

_config = {}


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for one module: finds it with the finders behind, and has its loader do one thing more at the end."""

    def __init__(self, name, hook):
        self._name = name
        self._hook = hook

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        for finder in [f for f in sys.meta_path if f is not self]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        run = getattr(loader, "exec_module", None)
        if run is None:
            return spec

        def exec_module(module):
            # Only now: whoever merely asks for the spec (runpy does, for -m) imports the module later.
            sys.meta_path[:] = [f for f in sys.meta_path if f is not self]
            try:
                del loader.exec_module  # the module keeps its loader as it would have had it
            except AttributeError:
                pass
            run(module)
            try:
                self._hook(module)
            except Exception as err:
                guest.pass_on(err)
                wire.trouble("%s: hooks not installed: %r" % (name, err))

        try:
            loader.exec_module = exec_module
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("%s: its loader cannot be watched: %r" % (name, err))
        return spec


def when_imported(name, hook):
    """Run hook(module) at the end of the module's import; now, if that is over."""
    if name in sys.modules:
        hook(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, hook))


def install(config):
    global _config
    _config = config
    when_imported("torch", installed)
    if config.get("double"):
        from . import tests
        when_imported("pytest", tests.install)
        process.after_fork(tests.clear)


def installed(torch):
    """Install every hook. One that fails is a line of evidence; the others stand."""
    from ..timeline import T, gather
    from . import (autograd, cost, dataloader, environment, memory, module, numerics, only, optimizer, profile, retained,
                   scaler, transfer, warned)

    began = time.perf_counter_ns()
    if _config.get("double"):
        from ..double import install as double
        double.install(torch, _config["double"])
        process.finisher(double.report)
        process.after_fork(double.clear)
    environment.report(torch, _config)
    T.limit_steps = int(_config.get("steps") or 0)
    if _config.get("for"):
        T.limit_at = time.perf_counter_ns() + int((float(_config["for"]) - (time.time() - float(_config["wall"]))) * 1e9)
    wire.source(gather)
    for hook in (dataloader, module, autograd, optimizer, scaler, transfer, memory, numerics, retained, profile, warned, only,
                 cost):
        try:
            hook.install(torch, _config)
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("%s not installed: %r" % (hook.__name__.rpartition(".")[2], err))
    process.finisher(T.finish)
    process.when_back(T.resume)
    process.finisher(environment.late)
    process.after_fork(T.reset)
    for hook in (transfer, numerics, memory, module, retained, profile):
        process.after_fork(hook.clear)
    wire.put({"ev": "installed", "ns": time.perf_counter_ns() - began})
