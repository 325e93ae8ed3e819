"""Notices when the script has imported a module: nothing is imported on its behalf."""

import importlib.abc
import sys

from .. import guest, wire


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
