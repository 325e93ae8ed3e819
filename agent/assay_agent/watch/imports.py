"""Notices when the script has imported a module: nothing is imported on its behalf."""

import importlib.abc
import sys

from .. import guest, wire


_waiting = {}  # module -> the hooks that wait for it


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for modules: finds one with the finders behind, and has its loader do one thing more at the end. It stands
    in sys.meta_path for as long as one is waited for."""

    def find_spec(self, name, path=None, target=None):
        if name not in _waiting:
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
            hooks = _waiting.pop(name, ())
            if not _waiting:
                sys.meta_path[:] = [f for f in sys.meta_path if f is not self]
            try:
                del loader.exec_module  # the module keeps its loader as it would have had it
            except AttributeError:
                pass
            run(module)
            for hook in hooks:
                try:
                    hook(module)
                except Exception as err:
                    guest.pass_on(err)
                    wire.trouble("%s: hooks not installed: %r" % (name, err))

        try:
            loader.exec_module = exec_module
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("%s: its loader cannot be watched: %r" % (name, err))
        return spec


_finder = _Finder()


def when_imported(name, hook):
    """Run hook(module) at the end of the module's import; now, if that is over."""
    if name in sys.modules:
        hook(sys.modules[name])
        return
    _waiting.setdefault(name, []).append(hook)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
