"""PyTorch's Python side as the release aimed at has it: its version, the names of its modules, modules, parameters.

names.txt has what came or went between releases, made from PyTorch's wheels (tools/double/python_names.py). Scripts, and
libraries but for those that are PyTorch's own, are told the release's version and see what it has. PyTorch's own modules
see the installed ones: the code between the names is theirs. What a script asks for that the release has and the
installed PyTorch has not is no pretence's to give: it is kept as a note.
"""

import functools
import importlib.machinery
import inspect
import opcode
import os
import sys
import types
import weakref

import torch

from ...place import is_user
from ..current import current
from .names import Hidden, Shown, asking, is_read, is_torch, put, script

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    installed = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])
    table = Table(double.series, installed, dict(double.table.beside, torch=double.release))
    _tell_version(double)
    _Paths.table = table
    sys.meta_path[:] = [_Paths if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
    _have_scripted()
    table.apply([m for m in map(sys.modules.get, table.touched) if isinstance(m, types.ModuleType)])


class Table:
    """What a release (series: two numbers) has otherwise than the installed one. `hidden`, `gone`: module -> names that
    it does not have, or has and the installed one has not; `absent`, `gone_modules`: modules, likewise; `parameters`:
    module -> {function or class: parameters that it does not have}; `below`: package -> its absent modules' last names;
    `versions`: package -> the version that scripts are told; `touched`: modules that scripts see otherwise than they
    are."""

    def __init__(self, series, installed, versions):
        self.hidden, self.gone, self.parameters, self.below = {}, {}, {}, {}
        self.absent, self.gone_modules, self.touched = set(), set(), set()
        self.versions = versions
        if series != installed:
            self._read(series, installed)
            self.touched = {*self.hidden, *self.gone, *self.parameters, *self.absent, *self.gone_modules}
            self.touched |= {name.rpartition(".")[0] for name in self.touched}
        self.touched |= {module for name in versions for module in (name, name + ".version")} | {"torch.torch_version"}

    def _read(self, series, installed):
        path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "names.txt")
        spans = {}  # (first, last) -> whether the release has what the installed one has not; None: both or neither
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                kind, first, last, names = line.split(" ", 3)
                if kind == "parameter":
                    if series < _numbers(first) <= installed:
                        module, _, function = last.rpartition(".")
                        lacking = self.parameters.setdefault(module, {})
                        lacking[function] = lacking.get(function, frozenset()).union(names.split())
                    continue
                if kind == "#":
                    continue
                span = first, last
                if span not in spans:
                    there, here = _has(first, last, series), _has(first, last, installed)
                    spans[span] = None if there == here else there
                if spans[span] is None:
                    continue
                if kind == "module":
                    (self.gone_modules if spans[span] else self.absent).update(names.split())
                else:
                    (self.gone if spans[span] else self.hidden).setdefault(kind, []).extend(names.split())
        for name in self.absent:
            above, _, last = name.rpartition(".")
            self.below.setdefault(above, []).append(last)

    def apply(self, modules):
        """Have scripts see modules as the release has them."""
        for module in modules:
            self._apply_names(module)
        narrowed = {}  # function's name -> (function, parameters that it does not have)
        for module in modules:
            for name, lacking in self.parameters.get(module.__name__, {}).items():
                there = vars(module).get(name)
                if isinstance(there, type):
                    made = vars(there).get("__init__")
                    if isinstance(made, types.FunctionType):
                        there.__init__ = without(made, lacking, name + ".__init__")
                elif callable(there):
                    narrowed.setdefault(name, []).append((there, lacking))
        for module in list(sys.modules.values()) if narrowed else ():
            if isinstance(module, types.ModuleType) and is_torch(module.__name__) and "._" not in module.__name__:
                for name in narrowed.keys() & vars(module).keys() - type(module).__dict__.keys():
                    # by the same object: torch.load is torch.serialization.load
                    put(module, *(_Narrowed(name, lacking) for there, lacking in narrowed[name]
                                  if vars(module)[name] is there))

    def _apply_names(self, module):
        name = module.__name__
        if name in self.absent:
            _make_absent(module)
            return
        there = vars(module)
        known = vars(type(module))
        package, _, rest = name.partition(".")
        if package in self.versions and rest in ("", "version", "torch_version"):
            put(module, _version(package, self.versions[package]))
        put(module, *(Hidden(n) for n in self.hidden.get(name, ()) if n in there and n not in known))
        put(module, *(_Below(n) for n in self.below.get(name, ())))
        others = there.get("_deprecated_attrs", ()), there.get("_lazy_modules", ())
        put(module, *(_Gone(n) for n in self.gone.get(name, ()) if n not in there and n not in known
                      and not any(n in names for names in others)))


def _numbers(text):
    return tuple(int(n) for n in text.split("."))


def _has(first, last, series):
    return _numbers(first) <= series and (last == "-" or series <= _numbers(last))


class _Below(Hidden):
    """A module below a package, which the release does not have."""

    def shown(self, module, frame):
        # Python would go on to sys.modules, where PyTorch's own modules have put it.
        done = frame.f_code.co_code[frame.f_lasti]
        if done == opcode.opmap["IMPORT_NAME"]:  # from package import module
            text = "cannot import name %r from %r (%s)" % (self.name, module.__name__, module.__file__)
            raise ImportError(text, name=module.__name__, path=module.__file__)
        if done == opcode.opmap["IMPORT_FROM"]:  # import package.module as name
            whole = "%s.%s" % (module.__name__, self.name)
            raise ModuleNotFoundError("No module named %r" % whole, name=whole)
        raise AttributeError(self.name)


class _Gone(Hidden):
    """A name that the release has and the installed PyTorch has not."""

    def shown(self, module, frame):
        _note_gone("%s.%s" % (module.__name__, self.name), frame)
        raise AttributeError(self.name)


def _note_gone(what, frame):
    double = current.double
    double.note(what, "python-gone", "PyTorch %s has it, and the installed %s does not: what was asked cannot be "
                "rehearsed" % (double.release, torch.__version__), _line(frame))


def _line(frame):
    return "%s:%d" % (frame.f_code.co_filename, frame.f_lineno)


# The version


def _tell_version(double):
    # As version.py in the wheel for macOS has them; what a release's has not at all is in names.txt.
    values = {"cuda": None, "hip": None, "debug": False, "git_version": double.table.commit}
    put(torch.version, *(Shown(name, functools.partial(lambda value, frame: value, value))
                         for name, value in values.items()))


def _version(package, version):
    """__version__ of a module of the package."""
    def told(frame):
        _asked(package, version, frame)
        return type(torch.__version__)(version) if package == "torch" else version

    return Shown("__version__", told)


def _asked(package, version, frame):
    """Keep who asked for a version: a library, or the script."""
    library = (frame.f_globals.get("__name__") or "").partition(".")[0]
    current.double.told_version(package, version, "the script" if is_user(frame.f_code) else library, _line(frame))


# Modules


def _make_absent(module):
    """A module that the release does not have: loaded by PyTorch's own, and an error for scripts that come by it."""
    before = type(module)
    if "_assay_absent" in before.__dict__:
        return

    def __getattribute__(module, name):
        if not (name.startswith("__") and name.endswith("__")):
            frame = asking()
            if frame is not None and not is_torch(frame.f_globals.get("__name__")) and is_read(frame, name):
                whole = vars(module)["__name__"]
                raise ModuleNotFoundError("No module named %r" % whole, name=whole)
        return before.__getattribute__(module, name)

    made = type(before.__name__, (before,), {
        "__module__": before.__module__, "_assay_absent": True, "__getattribute__": __getattribute__})
    object.__setattr__(module, "__class__", made)


class _Paths(importlib.machinery.PathFinder):
    """Stands for importlib's own: scripts do not find the modules that the release lacks, and importlib.metadata tells
    the release's version."""

    table = None

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in cls.table.absent and _is_scripts_import():
            return None
        spec = super().find_spec(name, path, target)
        if spec is None:
            if name in cls.table.gone_modules and _is_scripts_import():
                _note_gone(name, asking())
        elif name in cls.table.touched:
            cls._applied(spec.loader)
        return spec

    @classmethod
    def _applied(cls, loader):
        run = getattr(loader, "exec_module", None)
        if run is None:
            return

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)  # the module keeps its loader as it would have had it
            run(module)
            cls.table.apply([module])

        loader.exec_module = exec_module

    @classmethod
    def find_distributions(cls, *args, **kwargs):
        frame = asking()
        own = frame is None or is_torch(frame.f_globals.get("__name__"))
        for found in super().find_distributions(*args, **kwargs):
            package = str(getattr(getattr(found, "_path", None), "name", "")).partition("-")[0]
            if not own and package in cls.table.versions:
                found = _distribution(found, package, cls.table.versions[package], frame)
            yield found


def _is_scripts_import():
    """Whether it is a script, or a library, that imports: by a statement, or by importlib. C++ imports as well, in
    whatever frame is on."""
    frame = sys._getframe(2)
    by_importlib = False
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name in ("importlib", "importlib.util"):
            by_importlib = True
        elif name.partition(".")[0] not in ("importlib", "_frozen_importlib", "_frozen_importlib_external",
                                            "assay_agent"):
            break
        frame = frame.f_back
    if frame is None or is_torch(frame.f_globals.get("__name__")):
        return False
    return by_importlib or frame.f_code.co_code[frame.f_lasti] in _IMPORTS


_IMPORTS = opcode.opmap["IMPORT_NAME"], opcode.opmap["IMPORT_FROM"]


def _distribution(found, package, version, frame):
    """A package as importlib.metadata found it, and says that version."""
    base = type(found)

    class Told(base):
        @property
        def version(self):
            _asked(package, version, frame)
            return version

        @property
        def metadata(self):
            told = base.metadata.__get__(self)
            told.replace_header("Version", version)
            return told

    Told.__name__, Told.__qualname__, Told.__module__ = base.__name__, base.__qualname__, base.__module__
    found.__class__ = Told
    return found


# Parameters


class _Narrowed(Hidden):
    """A function of which scripts see what does not take some parameters. What somebody puts in its place is seen by
    all, as it is on a Mac."""

    seen = True

    def __init__(self, name, lacking):
        super().__init__(name)
        self.lacking = lacking
        self.call = self.narrow = None

    def __set__(self, module, value):
        vars(module)[self.name] = value
        if script() is not None:
            self.call = self.narrow = value

    def __delete__(self, module):
        if self.name not in vars(module):
            raise AttributeError(self.name)
        del vars(module)[self.name]

    def shown(self, module, frame):
        if self.name not in vars(module):
            raise AttributeError(self.name)
        call = vars(module)[self.name]
        if call is not self.call:  # a hook of ours may have taken its place
            self.call, self.narrow = call, without(call, self.lacking, self.name)
        return self.narrow


_whole = weakref.WeakKeyDictionary()  # what scripts see of a function -> the function


def _have_scripted():
    """TorchScript compiles the function itself: its source has the parameters that scripts do not see."""
    recursive = torch.jit._recursive
    inner = recursive.try_compile_fn

    @functools.wraps(inner)
    def try_compile_fn(fn, loc):
        whole = _whole.get(fn, fn) if isinstance(fn, types.FunctionType) else fn
        return inner(whole, loc)

    recursive.try_compile_fn = try_compile_fn


def without(call, lacking, name):
    """The function for scripts that do not have the parameters `lacking`: a TypeError, as Python words it for `name`.
    PyTorch's own modules may give them."""
    def as_released(*args, **kwargs):
        for given in kwargs:
            if given in lacking and not is_torch(sys._getframe(1).f_globals.get("__name__")):
                raise TypeError("%s() got an unexpected keyword argument '%s'" % (name, given))
        return call(*args, **kwargs)

    as_released = functools.wraps(call)(as_released)
    _whole[as_released] = call
    try:
        signature = inspect.signature(call)
        as_released.__signature__ = signature.replace(
            parameters=[p for p in signature.parameters.values() if p.name not in lacking])
    except (TypeError, ValueError):
        pass
    return as_released
