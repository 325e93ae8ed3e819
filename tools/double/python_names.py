"""Write agent/assay_agent/double/names.txt: what of PyTorch's Python side came or went between its releases.

    python tools/double/python_names.py WHEELS > agent/assay_agent/double/names.txt

WHEELS is a folder of macOS wheels of torch (`pip download --no-deps --platform macosx_14_0_arm64 …`); of a series the newest is read.
Nothing is imported and nothing installed: a wheel is read as a zip file, its Python and stub files as syntax. What all series
have is left out. A name of a module counts as there from the series on whose files define it, or speak of it by its whole name before
(what C++ makes is not always in the stubs); as gone after the last whose files define it.
"""

import ast
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "atlas"))
from names import UNREAD, Wheel, public, statements, wheels  # noqa: E402

# Scripts for PyTorch's own building and testing, and programs: nobody imports them for their names.
APART = re.compile(r"torch\.(utils\.(benchmark|bottleneck|tensorboard|collect_env|hipify|mobile_optimizer|show_pickle)|contrib|csrc|"
                   r"distributed\.(elastic|launcher|run|launch)|onnx|for_onnx|ao|quantization|lib|include|share|bin)\b")
# Made by C++, and named in no file of a release that had them: since when they are there was not read.
UNTOLD = set(UNREAD["torch"]) | {"bits16", "bits1x8", "bits2x4", "bits4x2", "bits8"}
SPOKEN = re.compile(r"\btorch(?:\.\w+)+")
SIGNATURE = re.compile(r"_add_docstr\(\s*torch\.\S+,\s*r?\"\"\"\s*(\w+)\(([^)]*)\) ->")
SHORT = (("torch.nn.functional", re.compile(r"\bF\.(\w+)")), ("torch.distributed", re.compile(r"\bdist\.(\w+)")))


class Release:
    """What a wheel says: names (of each public module), functions (dotted name -> names of its parameters, "**" among them where it takes
    any), outside (module, name: what a module imports from elsewhere)."""

    def __init__(self, path):
        self.wheel = Wheel(path)
        self.spoken = set()
        for file in self.wheel.files:
            if file.endswith((".py", ".pyi")):
                text = self.wheel.zip.read(file).decode("utf-8", "replace")
                for dotted in SPOKEN.findall(text):
                    parts = dotted.split(".")
                    self.spoken.update(".".join(parts[:n]) for n in range(2, len(parts) + 1))
                for module, pattern in SHORT:
                    self.spoken.update(module + "." + name for name in pattern.findall(text))
        files = {m for m in map(module_of, self.wheel.files) if m}
        # A folder without a file of its own is a package as well.
        self.modules = sorted(files | {m.rpartition(".")[0] for m in files})
        self.names, self.functions, self.outside = {}, {}, set()
        for module in self.modules:
            self.names[module] = public(self.wheel.names(module) or ())
            if module in files:
                self.read(module)
        text = self.wheel.zip.read("torch/nn/functional.py").decode()
        for name, given in SIGNATURE.findall(text):  # what C++ makes says its parameters in its documentation
            self.functions["torch.nn.functional." + name] = re.findall(r"(\w+)(?: *=|,|:|$)", given)

    def read(self, module):
        """The parameters of a module's functions and of its classes, and what it imports from elsewhere."""
        for node in statements(self.wheel.tree(self.wheel.file(module)).body):
            if isinstance(node, ast.Import):
                self.outside |= {(module, a.asname or a.name) for a in node.names if not a.name.startswith("torch")}
            elif isinstance(node, ast.ImportFrom):
                if not node.level and not (node.module or "").startswith("torch"):
                    self.outside |= {(module, a.asname or a.name) for a in node.names}
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                self.function(module + "." + node.name, node)
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                        self.function(module + "." + node.name, inner)

    def function(self, name, node):
        a = node.args
        mine = [x.arg for x in a.posonlyargs + a.args + a.kwonlyargs] + ["**"] * bool(a.kwarg)
        known = self.functions.setdefault(name, [])  # of overloads those of all
        known += [x for x in mine if x not in known]


def module_of(file):
    """torch.nn.functional of torch/nn/functional.py; "" for what scripts do not import."""
    if not file.startswith("torch/") or not file.endswith(".py"):
        return ""
    name = file[:-3].removesuffix("/__init__").replace("/", ".")
    if any(p.startswith("_") or not p.isidentifier() for p in name.split(".")) or APART.match(name):
        return ""
    return name


def span(has, series):
    """(first, last) of the series that have it; last is "-" where the newest has it."""
    return has[0], "-" if has[-1] == series[-1] else has[-1]


def lines_of(releases):
    series = list(releases)
    table = {}
    for s, release in releases.items():
        for module in release.modules:
            table.setdefault(("module", module), []).append(s)
    modules = {key[1]: has for key, has in table.items()}
    outside = set().union(*(release.outside for release in releases.values()))
    for s, release in releases.items():
        for module, names in release.names.items():
            for name in names:
                if not (module == "torch" and name in UNTOLD or (module, name) in outside or module + "." + name in modules):
                    table.setdefault((module, name), []).append(s)
    grouped = {}
    for (module, name), has in table.items():
        first, last = span(has, series)
        if module == "module":
            if (first, last) != (series[0], "-"):
                grouped.setdefault(("module", first, last), []).append(name)
            continue
        of_module = modules[module]
        at = series.index(first)
        while at and series[at - 1] in of_module and module + "." + name in releases[series[at - 1]].spoken:
            at -= 1
        first = series[at]
        whole = span(of_module, series)
        if (first, last) != whole:  # a name that its module always had goes with it
            grouped.setdefault((module, first, last), []).append(name)
    for s, release in releases.items():
        before = releases[series[max(0, series.index(s) - 1)]].functions
        for name, mine in release.functions.items():
            earlier = before.get(name)
            if earlier and "**" not in earlier:
                new = [p for p in mine if p not in earlier and not p.startswith("_") and p not in ("self", "cls", "**")]
                if new:
                    grouped.setdefault(("parameter", s, name), []).extend(new)
    order = sorted(grouped, key=lambda key: (key[0] != "module", key[0] == "parameter", key[0], series.index(key[1]), key[2]))
    for kind, first, last in order:
        yield " ".join((kind, first, last, *sorted(grouped[kind, first, last])))


def main(folder):
    releases = {s: Release(path) for s, path in wheels(folder)}
    series = list(releases)
    print("# What of PyTorch's Python side came or went between the series", series[0], "and", series[-1] + "; what all of them have is not here.")
    print("# Made by `python tools/double/python_names.py WHEELS` from the Python and stub files of PyTorch's own wheels for macOS (releases.txt of the")
    print("# atlas has each with its sum). Lines: module, first series, last series that have it (- where the newest does), modules;")
    print("# a module's name, first series, last series, its names; parameter, series that it came with, function, parameters.")
    for line in lines_of(releases):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
