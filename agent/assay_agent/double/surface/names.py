"""Names of PyTorch's modules: taken away, put there, replaced wherever they were taken over."""

import sys
import warnings

_hidden = {}  # module's name -> {name: value}


def hide(module, *names):
    """Names that the release does not have: an AttributeError for scripts. PyTorch's own modules still get them."""
    kept = _hidden.get(module.__name__)
    if kept is None:
        kept = _hidden[module.__name__] = {}
        before = vars(module).get("__getattr__")
        deprecated = vars(module).get("_deprecated_attrs") or {}

        def __getattr__(name):
            if name in kept:
                if is_torch(sys._getframe(1).f_globals.get("__name__")):
                    return kept[name]
            elif name in deprecated:
                # As PyTorch's own __getattr__ says it, but at the script's line.
                there = deprecated[name]
                warnings.warn("'%s' is deprecated, please use '%s.%s()'" % (name, there.__module__, there.__name__),
                              stacklevel=2)
                return there()
            elif before is not None:
                return before(name)
            raise AttributeError("module '%s' has no attribute '%s'" % (module.__name__, name))

        module.__getattr__ = __getattr__
    for name in names:
        if name in vars(module):
            kept[name] = vars(module)[name]
            delattr(module, name)
            listed = vars(module).get("__all__")
            if isinstance(listed, list) and name in listed:
                listed.remove(name)


def is_torch(name):
    """Whether a module of that name (None: of none) is PyTorch's own."""
    return name is not None and (name == "torch" or name.startswith("torch."))


def have(double, module, name, since, make):
    """The module has the name from a release on: taken away from earlier ones, made where the installed torch lacks it
    (make: a function that gives it, or None where that cannot be done)."""
    if double.series < since:
        hide(module, name)
    elif name not in vars(module):
        made = make() if make is not None else None
        if made is not None:
            setattr(module, name, made)
            if isinstance(vars(module).get("__all__"), list):
                module.__all__.append(name)


def replace(old, new, *names):
    """In every module of PyTorch that has taken the object over by name."""
    for module in list(sys.modules.values()):
        if not (getattr(module, "__name__", None) or "").startswith("torch"):
            continue
        for name in names:
            try:
                if vars(module).get(name) is old:
                    setattr(module, name, new)
            except (TypeError, AttributeError):
                pass


def device_type(device):
    """The type of what may be given as a device: "mps" of "mps:0" and of torch.device("mps"), None of None and of a
    number."""
    if isinstance(device, str):
        return device.partition(":")[0]
    return getattr(device, "type", None)


def cannot(what, double, why="runs Metal code, which cannot be rehearsed without a Mac's GPU"):
    """Raises the error of what no double can do."""
    double.note_use(what + ": cannot be rehearsed")
    raise NotImplementedError("assay: %s %s" % (what, why))


def script_level():
    """The stack level at which the script stands, for warnings: PyTorch's code and ours may lie between."""
    frame, level = sys._getframe(1), 1
    while frame is not None and (frame.f_globals.get("__name__") or "").startswith(("torch.", "assay_agent.")):
        frame, level = frame.f_back, level + 1
    return level
