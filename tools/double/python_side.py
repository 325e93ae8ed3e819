"""Hold the names that the double shows against those of PyTorch's own wheels, and write docs/double-names.md.

    PYTHON tools/double/python_side.py WHEELS > docs/double-names.md

PYTHON has torch; WHEELS is as for python_names.py. For each of RELEASES a process puts the double up and is asked, as a script is, for the names
that the wheel of the release lists as its own: those of `__all__` (without one those that are defined), of torch also the functions and
types of its stub files. The other way
round it says which names of its `__all__` no file of that wheel defines or speaks of.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "double"))
from python_names import UNTOLD, Release, statements, wheels  # noqa: E402

RELEASES = ("2.0", "2.4", "2.8", "2.14")
MODULES = """torch torch.nn torch.nn.functional torch.nn.init torch.nn.parallel torch.nn.utils torch.nn.utils.rnn torch.nn.utils.parametrize
torch.nn.attention torch.nn.attention.bias torch.nn.attention.flex_attention torch.optim torch.optim.lr_scheduler torch.optim.swa_utils
torch.amp torch.autograd torch.autograd.graph torch.backends.cuda torch.backends.mps torch.accelerator torch.compiler torch.cpu torch.cuda
torch.distributed torch.distributed.checkpoint torch.distributed.fsdp torch.distributed.tensor torch.distributions torch.export torch.fft
torch.func torch.fx torch.hub torch.jit torch.library torch.linalg torch.masked torch.mps torch.mtia torch.nested
torch.overrides torch.package torch.profiler torch.random torch.serialization torch.sparse torch.special torch.testing torch.utils.checkpoint
torch.utils.cpp_extension torch.utils.data torch.utils.dlpack torch.utils.flop_counter torch.version torch.xpu""".split()

ASK = """
import json, sys, importlib, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import torch
from assay_agent import wire
from assay_agent.double import install
wire.put = lambda event: None
with open(sys.argv[2]) as f:
    settings, asked = json.load(f)
double = install.install(torch, settings)
answers = {}
for module, names in asked.items():
    try:
        there = __import__(module, fromlist=["no_such_name"])
        shown = [n for n in vars(there).get("__all__", ()) if hasattr(there, n)]
        answers[module] = [n for n in names if hasattr(there, n)], shown
    except ImportError:
        answers[module] = None
print(json.dumps([torch.__version__, answers, vars(torch)["__version__"]]))
"""


def listed(release, module):
    """The names that the wheel lists as a module's own, or where it lists none those that its files define; None where it does not have
    the module."""
    wheel = release.wheel
    if module not in release.modules:
        return None
    found = set()
    file = wheel.file(module)
    for node in statements(wheel.tree(file).body) if file else ():
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets) and isinstance(node.value, (ast.List, ast.Tuple)):
            found |= {e.value for e in node.value.elts if isinstance(e, ast.Constant)}
    if module == "torch":
        for file in ("torch/_C/_VariableFunctions.pyi", "torch/_C/__init__.pyi"):
            for node in wheel.tree(file).body:
                if isinstance(node, ast.FunctionDef) and "_VariableFunctions" in file:
                    found.add(node.name)
                elif isinstance(node, ast.AnnAssign) and getattr(node.annotation, "id", "") == "dtype":
                    found.add(node.target.id)
    if not found:
        found = {n for n in release.names[module] if (module, n) not in release.outside and module + "." + n not in release.modules}
    return sorted(n for n in found if not n.startswith("_"))


def shown(series, release, asked, work):
    table, request = os.path.join(work, "table.json"), os.path.join(work, "request.json")
    with open(table, "w") as f:
        json.dump({"ops": {}, "structured": {}, "lacks": {}, "autocast": {}, "sparse": {}, "commit": ""}, f)
    with open(request, "w") as f:
        json.dump([{"release": release, "series": [int(n) for n in series.split(".")], "macos": [15, 5], "chip": "m1-16gb",
                    "chip_name": "Apple M1", "memory": 16 << 30, "recommended": None, "cores": 8, "shape_only": False, "table": table},
                   asked], f)
    done = subprocess.run([sys.executable, "-c", ASK, os.path.join(ROOT, "agent"), request], stdout=subprocess.PIPE, check=True,
                          env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
    return json.loads(done.stdout.splitlines()[-1])


def section(series, path, work):
    release = Release(path)
    version = os.path.basename(path).split("-")[1]
    asked = {m: listed(release, m) or [] for m in MODULES}
    told, answers, installed = shown(series, version, asked, work)
    rows, alike, both = [], 0, 0
    for module in MODULES:
        has, answer = module in release.modules, answers[module]
        if not has or answer is None:
            agree = has == (answer is not None)
            rows.append("| `%s` | %s | %s | | |" % (module, "no such module" if not has else len(asked[module]),
                                                  "none there either" if agree else "**there**" if not has else "**not there**"))
            continue
        there, of_all = answer
        gone = [n for n in asked[module] if n not in there]
        known = release.names[module] | set(asked[module])
        more = [n for n in of_all if n not in known and module + "." + n not in release.spoken and not n.startswith("_")
                and not (module == "torch" and n in UNTOLD)]
        n = len(asked[module])
        alike, both = alike + len(there), both + n + len(more)
        rows.append("| `%s` | %d | %s | %s | %s |" % (module, n, "%.1f %%" % (100 * len(there) / (n + len(more))) if n + len(more) else "-",
                                                    " ".join("`%s`" % x for x in gone), " ".join("`%s`" % x for x in more)))
    print("\n## PyTorch %s\n" % version)
    print("torch %s is installed; `torch.__version__` says %s. Alike: %d of %d names, %.2f %%.\n" % (
        installed, told, alike, both, 100 * alike / both))
    print("| module | names that it lists | shown alike | the double lacks | the double shows besides |\n| --- | --: | --: | --- | --- |")
    print("\n".join(rows))


def main(folder):
    there = dict(wheels(folder))
    print("# The names that the double shows, against PyTorch's wheels\n")
    print("Made by `python tools/double/python_side.py WHEELS`; not edited by hand. What a wheel for macOS lists as a module's names (`__all__`, or where\n"
          "it has none what its files define; of torch also the functions and types of its stub files) is asked of the double as a script asks. What the double lacks, the installed\n"
          "PyTorch has no more, or its system or build has it not: that cannot be pretended, and is noted when a script asks for it. What it shows\n"
          "besides is in its `__all__`, and no file of that wheel defines it or speaks of it; %d names of torch that no file of any wheel has are\n"
          "left out, since nobody can read when they came." % len(UNTOLD))
    with tempfile.TemporaryDirectory() as work:
        for series in RELEASES:
            section(series, there[series], work)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
