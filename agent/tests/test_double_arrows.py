"""The files of the double in the order in which they stand on each other: each imports only those above it in the
list."""

import ast
import os

import pytest

from conftest import ROOT

FOLDER = os.path.join(ROOT, "agent", "assay_agent", "double")

ORDER = """
__init__ current allocator flops dtypes predicates facts refuse parts errors kernels ledger place shapes generators operators dispatch double releases
surface/__init__ surface/names surface/autocast surface/backend surface/generators surface/streams surface/mps
surface/accelerator surface/storages surface/cuda surface/scaler surface/processes surface/descriptors surface/loader
surface/compiler surface/distributed surface/optimizers surface/library surface/tracing surface/tensors
surface/release
install
""".split()

# What the double may import of the rest of the agent.
AGENT = ("guest", "modules", "place", "wire")


def files():
    """Names of the files below FOLDER, without .py."""
    found = []
    for folder, _, names in os.walk(FOLDER):
        found += [os.path.relpath(os.path.join(folder, n), FOLDER)[:-3].replace(os.sep, "/") for n in names
                  if n.endswith(".py")]
    return found


def tree_of(name):
    with open(os.path.join(FOLDER, name + ".py"), encoding="utf-8") as f:
        return ast.parse(f.read())


def imports(name, tree):
    """(file, line) for each import of the agent's own in a file, those within functions as well. A file outside FOLDER
    begins with `../`."""
    package = name.split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [a.name for a in node.names if a.name.startswith("assay_agent")]
            assert not named, "%s.py:%d names the package" % (name, node.lineno)
        if not isinstance(node, ast.ImportFrom):
            continue
        assert not (node.module or "").startswith("assay_agent"), "%s.py:%d names the package" % (name, node.lineno)
        if not node.level:
            continue
        up = node.level - 1
        folder = package[:len(package) - up] if up <= len(package) else [".."]
        for alias in node.names:
            module = folder + (node.module.split(".") if node.module else [])
            whole = "/".join(module + [alias.name])
            yield (whole if exists(whole) else "/".join(module)), node.lineno


def exists(path):
    return os.path.exists(os.path.join(FOLDER, path + ".py")) or os.path.isdir(os.path.join(FOLDER, path))


def against_the_order(name, tree):
    above = ORDER[:ORDER.index(name)]
    for wanted, line in imports(name, tree):
        if wanted.startswith("../"):
            if wanted[3:] not in AGENT:
                yield "%s.py:%d takes %s of the agent" % (name, line, wanted)
        elif wanted not in above:
            yield "%s.py:%d imports %s, which does not stand above it" % (name, line, wanted)


def looked_up(name, tree):
    """Places where a name of our own is asked for with a default, or is set in a module from a function: what is not
    there must be an error."""
    own = {"double", "current"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            own.update(a.asname or a.name for a in node.names)
    ours = {inner for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
            root = root_of(node.args[0])
            if root in own or root == "self" and node in ours:
                yield "%s.py:%d %s" % (name, node.lineno, ast.unparse(node))
        if isinstance(node, ast.Name) and node.id in ("globals", "__package__"):
            yield "%s.py:%d %s" % (name, node.lineno, node.id)
        if isinstance(node, ast.Global):
            yield "%s.py:%d global %s" % (name, node.lineno, ", ".join(node.names))
        if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name)
                and t.value.id in own - {"double", "current"} for t in node.targets):
            yield "%s.py:%d %s" % (name, node.lineno, ast.unparse(node))


def root_of(node):
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return getattr(node, "id", "")


def test_every_file_has_its_place():
    assert sorted(files()) == sorted(ORDER)


def test_arrows_run_one_way():
    wrong = [w for name in ORDER for w in against_the_order(name, tree_of(name))]
    assert not wrong, "\n".join(wrong)


def test_own_names_are_not_looked_up():
    wrong = [w for name in ORDER for w in looked_up(name, tree_of(name))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name, source, why", [
    ("place", "def f():\n    from . import dispatch", "place.py:2 imports dispatch, which does not stand above it"),
    ("surface/names", "from ..surface import tensors",
     "surface/names.py:1 imports surface/tensors, which does not stand above it"),
    ("surface/names", "from .. import install", "surface/names.py:1 imports install, which does not stand above it"),
    ("surface/streams", "from ..dispatch import torch\nfrom ... import timeline",
     "surface/streams.py:2 takes ../timeline of the agent"),
    ("dispatch", "from .dispatch import x", "dispatch.py:1 imports dispatch, which does not stand above it"),
])
def test_a_wrong_arrow_is_seen(name, source, why):
    assert list(against_the_order(name, ast.parse(source))) == [why]


@pytest.mark.parametrize("source, seen", [
    ("from . import refuse\ngetattr(refuse, 'note_for', None)", ["x.py:2 getattr(refuse, 'note_for', None)"]),
    ("class A:\n    def f(self):\n        return hasattr(self.place, 'live')", ["x.py:3 hasattr(self.place, 'live')"]),
    ("def f():\n    global series", ["x.py:2 global series"]),
    ("from . import place\nplace.account = 1", ["x.py:2 place.account = 1"]),
    ("import torch\ntorch.mps = getattr(torch, 'mps', None)", []),
])
def test_a_look_up_is_seen(source, seen):
    assert list(looked_up("x", ast.parse(source))) == seen
