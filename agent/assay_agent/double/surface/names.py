"""Names of PyTorch's modules: taken away, put there, replaced wherever they were taken over.

A name that is taken away stays in the module's own dict, where the module's functions look it up, and PyTorch's own
modules still get it as an attribute. To scripts it is an AttributeError, or what is shown to them instead: the module's
class is one of its own, with a data descriptor for each such name.
"""

import importlib
import opcode
import sys

# torchvision and torchaudio are built for one release of torch: the installed one.
_OWN = frozenset(("torch", "functorch", "torchgen", "torchvision", "torchaudio", "assay_agent"))


def is_torch(name):
    """Whether a module of that name (None: of none) is PyTorch's own, or made for the installed PyTorch alone."""
    return name is not None and name.partition(".")[0] in _OWN


def _is_import(name):
    return name is not None and name.partition(".")[0] in ("importlib", "_frozen_importlib",
                                                           "_frozen_importlib_external")


def asking(depth=1):
    """The frame that asks: the innermost one, `depth` frames above the caller's or further out, that is not the import
    system's; None where there is none."""
    frame = sys._getframe(depth + 1)
    while frame is not None and _is_import(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame


def script(depth=1):
    """The frame that asks (as of asking) where it is a script's or a library's; None where it is PyTorch's own."""
    frame = asking(depth + 1)
    return None if frame is None or is_torch(frame.f_globals.get("__name__")) else frame


def is_read(frame, name):
    """Whether it is the frame's own code that reads the attribute, rather than C++ that it has called: a function of
    TorchScript asks for torch.compiler.is_exporting. Where the code reads attributes by calls as well, that is not
    known, and it counts as the code's own unless the name is one of those that C++ asks for."""
    code = frame.f_code
    if code.co_code[frame.f_lasti] in _READS:
        return True
    return name not in _CXX and not _CALLS.isdisjoint(code.co_names)


_READS = frozenset(opcode.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "IMPORT_NAME", "IMPORT_STAR")
                   if name in opcode.opmap)
_CALLS = frozenset(("getattr", "hasattr", "attrgetter", "getmembers", "import_module", "patch", "reduce"))


# Of the names that came after 2.0 those that libtorch_python has as a text and asks of a public module.
_CXX = frozenset(("is_exporting", "DTensor", "DTensorSpec", "Partial", "Placement", "Replicate"))


class Hidden:
    """A name that scripts do not see."""

    seen = False  # whether scripts see something by that name

    def __init__(self, name):
        self.name = name
        self.given = {}  # what a script has put there itself, by name

    def __get__(self, module, cls=None):
        if module is None:
            return self
        frame = script()
        if frame is None:
            if self.name in vars(module):
                return vars(module)[self.name]
        elif self.name in self.given:
            return self.given[self.name]
        elif self.seen or is_read(frame, self.name):
            return self.shown(module, frame)
        elif self.name in vars(module):
            return vars(module)[self.name]
        # Python then asks the module's own __getattr__, if it has one, and says what it says of any other name.
        raise AttributeError(self.name)

    def __set__(self, module, value):
        if script() is None:
            vars(module)[self.name] = value
        else:
            self.given[self.name] = value

    def __delete__(self, module):
        kept = vars(module) if script() is None else self.given
        if self.name not in kept:
            raise AttributeError(self.name)
        del kept[self.name]

    def shown(self, module, frame):
        """What a script's frame gets; AttributeError for nothing."""
        raise AttributeError(self.name)


class Shown(Hidden):
    """A name that scripts see another value of: show(frame) gives it."""

    seen = True

    def __init__(self, name, show):
        super().__init__(name)
        self.show = show

    def shown(self, module, frame):
        return self.show(frame)


class _Listed:
    """__all__ of a module that has hidden names, without them for scripts."""

    def __get__(self, module, cls=None):
        if module is None:
            return self
        listed = vars(module).get("__all__")
        if script() is None:
            if listed is None:
                raise AttributeError("__all__")
            return listed
        if listed is None:  # for `import *`, which would stumble over a hidden name
            return [name for name in vars(module) if not name.startswith("_") and not _is_hidden(module, name)]
        return type(listed)(name for name in listed if not _is_hidden(module, name))

    def __set__(self, module, value):
        vars(module)["__all__"] = value

    def __delete__(self, module):
        del vars(module)["__all__"]


def _is_hidden(module, name):
    there = type(module).__dict__.get(name)
    return isinstance(there, Hidden) and not there.seen and name not in there.given


def _dir(module):
    names = super(type(module), module).__dir__()
    return names if script() is None else [name for name in names if not _is_hidden(module, name)]


def _reduce(module, protocol=None):
    # cloudpickle knows modules by their exact class
    return importlib.import_module, (module.__name__,)


def put(module, *names):
    """Have scripts see each Hidden (or Shown) of these instead of what the module has by that name."""
    if "__all__" not in type(module).__dict__:
        before = type(module)
        made = type(before.__name__, (before,), {
            "__module__": before.__module__, "__all__": _Listed(), "__dir__": _dir, "__reduce_ex__": _reduce})
        object.__setattr__(module, "__class__", made)  # torch.compiler.config takes assignments for settings
    for name in names:
        setattr(type(module), name.name, name)


def hide(module, *names):
    """Names that the release does not have: an AttributeError for scripts. PyTorch's own modules still get them."""
    put(module, *(Hidden(name) for name in names if name in vars(module)))


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
