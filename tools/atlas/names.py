"""Write internal/atlas/tables/names.txt: the names of torch's modules, and the releases of PyTorch that have them.

    python tools/atlas/names.py WHEELS > internal/atlas/tables/names.txt

WHEELS is a folder of macOS wheels of torch; of a series the newest is read. Nothing is imported: names are read from the Python
and stub files. `--check RELEASE` compares what was read of a release with dir() of the torch that is installed, which has to be it.
"""

import ast
import os
import re
import sys
import zipfile

MODULES = """torch torch.accelerator torch.amp torch.autograd torch.backends torch.backends.cuda torch.backends.cudnn torch.backends.mps
torch.compiler torch.cpu torch.cuda torch.cuda.amp torch.distributions torch.export torch.fft torch.func torch.hub
torch.jit torch.library torch.linalg torch.mps torch.mps.event torch.mps.profiler torch.nested torch.nn
torch.nn.attention torch.nn.functional torch.nn.init torch.nn.parallel torch.nn.utils torch.nn.utils.rnn torch.onnx torch.optim
torch.optim.lr_scheduler torch.profiler torch.quantization torch.random torch.serialization torch.special torch.testing
torch.utils torch.utils.data torch.version torch.xpu""".split()

# Made while torch is imported, and in no file by their names: in which releases was not read.
UNREAD = {"torch": """AVG ArgumentSpec Capsule Code CompleteArgumentSpec DeepCopyMemoTable ExcludeDispatchKeyGuard ExecutionPlan FatalError
    Gradient OperatorInfo PyObjectType SUM ScriptClass ScriptClassFunction ScriptDictIterator ScriptDictKeyIterator ScriptListIterator
    ScriptObjectProperty StaticModule Storage bit cpp int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7
    get_autocast_ipu_dtype get_autocast_xla_dtype is_autocast_ipu_enabled is_autocast_xla_enabled set_autocast_ipu_dtype
    set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled""".split(), "torch.backends": ["m"], "torch.backends.cudnn": ["m"]}


class Wheel:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path)
        self.files = set(self.zip.namelist())
        self.trees = {}

    def tree(self, file):
        if file not in self.trees:
            self.trees[file] = ast.parse(self.zip.read(file)) if file in self.files else None
        return self.trees[file]

    def file(self, module):
        base = module.replace(".", "/")
        for name in (base + "/__init__.py", base + ".py"):
            if name in self.files:
                return name
        return None

    def names(self, module, star=False, seen=()):
        """The names of a module, or with star those that `from module import *` takes; None where it has no file."""
        file = self.file(module)
        if file is None or module in seen:
            return None
        found, listed = set(), None
        package = module if file.endswith("__init__.py") else module.rpartition(".")[0]
        for node in statements(self.tree(file).body):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Import):
                found |= {(a.asname or a.name.partition(".")[0]) for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                parts = package.split(".")
                source = node.module or ""
                if node.level:
                    source = ".".join(parts[:len(parts) - node.level + 1] + ([node.module] if node.module else []))
                for a in node.names:
                    if a.name != "*":
                        found.add(a.asname or a.name)
                    else:
                        found |= self.names(source, star=True, seen=(*seen, module)) or set()
                if source.startswith(module + "."):
                    found.add(source[len(module) + 1:].partition(".")[0])
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for t in targets:
                    for n in ast.walk(t):
                        if isinstance(n, ast.Name):
                            found.add(n.id)
                            if n.id == "__all__" and isinstance(node.value, (ast.List, ast.Tuple)):
                                more = {e.value for e in node.value.elts if isinstance(e, ast.Constant)}
                                listed = (listed or set()) | more if isinstance(node, ast.AugAssign) else more
            elif isinstance(node, (ast.For, ast.With)):
                pass
        if star:
            return listed if listed is not None else {n for n in found if not n.startswith("_")}
        prefix = module.replace(".", "/") + "/"
        for name in self.files:  # modules below it, which are its attributes once they are imported
            if name.startswith(prefix) and name.endswith(".py"):
                first = name[len(prefix):].partition("/")
                found.add(first[0].removesuffix(".py") if not first[1] else first[0])
        if module == "torch":
            found |= self.stubs("torch/_C/__init__.pyi") | self.stubs("torch/_C/_VariableFunctions.pyi")
        for below, stub in (("torch.nn.functional", "torch/_C/_nn.pyi"), ("torch.distributed", "torch/_C/_distributed_c10d.pyi")):
            if module == below:
                found |= self.stubs(stub)
        return found | (listed or set())

    def stubs(self, file):
        tree = self.tree(file)
        found = set()
        for node in statements(tree.body) if tree else ():
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Assign):
                found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        return found


def statements(body):
    """The statements at the top of a module, those under if, try and with as well."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers"):
            if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.ExceptHandler)):
                yield from statements(getattr(node, part, []))


def public(names):
    return {n for n in names if not n.startswith("_") and n.isidentifier()}


def wheels(folder):
    newest = {}
    for name in sorted(os.listdir(folder)):
        m = re.match(r"torch-(2\.\d+)\.(\d+)\S*macosx.*\.whl$", name)
        if m and int(m[2]) >= newest.get(m[1], (-1, ""))[0]:
            newest[m[1]] = int(m[2]), os.path.join(folder, name)
    return sorted(((s, p) for s, (_, p) in newest.items()), key=lambda r: int(r[0].split(".")[1]))


def main(folder, *more):
    table, series = {}, []
    for release, path in wheels(folder):
        if more and release != more[1]:
            continue
        series.append(release)
        wheel = Wheel(path)
        for module in MODULES:
            for name in public(wheel.names(module) or ()):
                table.setdefault((module, name), []).append(release)
    if more:
        return check(table)
    print("# Names of torch's modules by the series of PyTorch that have them: where a name is missing here, no release has it.")
    print("# Made by `python tools/atlas/names.py WHEELS` from the Python and stub files of the macOS wheels", series[0], "to", series[-1] + ".")
    print("# A line: module, first series, last series (- where the newest has it), names. ?: it is there, and since when was not read.")
    for module, names in UNREAD.items():
        print(module, "?", "?", *sorted(n for n in names if (module, n) not in table))
    lines = {}
    for (module, name), has in table.items():
        last = "-" if has[-1] == series[-1] else has[-1]
        lines.setdefault((MODULES.index(module), module, series.index(has[0]), has[0], last), []).append(name)
    for (_, module, _, first, last), names in sorted(lines.items()):
        print(module, first, last, *sorted(names))
    return 0


def check(table):
    import importlib
    wrong = 0
    for module in MODULES:
        there = public(dir(importlib.import_module(module)))
        read = {n for m, n in table if m == module} | set(UNREAD.get(module, ()))
        lost = sorted(there - read)
        wrong += len(lost)
        print(module, len(there), "names;", len(lost), "not read:", *lost[:40])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
