"""Hold the double's refusals against what PyTorch's developers know of real Macs.

    python tools/double/truth.py [--torch 2.15] [--wheel torch-2.9.1-...-macosx_11_0_arm64.whl] [--lists test_mps.py]

runs PyTorch's operator database (op_db: operators, their dtypes, sample inputs) on the double, forward and backward,
and its error inputs, and compares each operator and dtype with the lists of expected failures that PyTorch's own tests of
MPS go by (torch/testing/_internal/common_mps.py from 2.8 on, test/test_mps.py before, and the marks in the database
itself). Those tests run on Macs: what is listed fails there, what is not listed works. The page keeps a section for
each release, and --torch replaces one.

The database is that of the release, out of its wheel (--wheel), or else that of the installed torch. Lists come from
the wheel, or from the file of --lists, or from testdata/expected.txt, where those of releases whose wheels carry none
are kept (--keep writes them there). An operator and dtype is one pair, and fails if one of its samples does. The
database's dtypes for MPS are looked at as well, from the release on in which a test holds them to what a Mac does: a
dtype that a CPU has and MPS is not said to have must be refused.

What counts: a pair is expected to be refused where a list has it and not for its values; it is refused where a sample
raises on the double. Precision is the share of the pairs refused that are expected to be, recall the share of the pairs
expected to be refused that are. Pairs that work and are expected to are in neither.

Lists do not say why a test fails. An entry is taken as one of wrong values where its list is called so or a comment of
the developers says so (VALUES below); those are counted apart, since the double's values are the CPU's. What is left
must agree, or have its reason in REASONS. The command ends with status 1 if a disagreement has none.

Work goes on in several processes and is kept in a folder (--work), so that a second call goes on where the first was
stopped.
"""

import argparse
import ast
import collections
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
import types
import unittest
import warnings
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLES, AGENT = os.path.join(ROOT, "internal", "atlas", "tables"), os.path.join(ROOT, "agent")
# test_mps.py, MPS_DTYPES
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "complex64")
GRADIENTS = ("float32", "float16")  # test_mps.py, MPS_GRAD_DTYPES
KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "testdata", "expected.txt")
ERRORS = "error inputs"  # a third direction beside forward and backward
SECONDS = 120  # one operator and dtype, before it counts as hanging


# ---- the double ------------------------------------------------------------------------------------------------------

def table(series):
    """What the Go side writes for a release, from the same files: internal/target/target.go."""
    def column(file, at):
        cells = {}
        with open(os.path.join(TABLES, file)) as lines:
            for line in lines:
                words = line.split()
                if words and words[0] == "operator":
                    i = words.index(at)
                elif words and not words[0].startswith("#") and words[i] != ".":
                    cells[words[0]] = words[i]
        return cells

    ops, structured, calls, lacks = column("torch.txt", series), {}, {}, {}
    with open(os.path.join(TABLES, "generated.txt")) as lines:
        for words in map(str.split, lines):
            if words[0] != "#" and words[1] == "structured":
                structured[words[0]] = words[2]
    with open(os.path.join(TABLES, "calls.txt")) as lines:
        for words in map(str.split, lines):
            if words and words[0] != "#":
                calls[words[0]] = words[1:]

    def walk(op, seen):
        for called in calls.get(op, ()):
            if called.endswith("?") or called in seen:
                continue
            seen.add(called)
            state = ops.get(called)
            missing = called if state in ("-", "S") else walk(called, seen) if state == "C" else ""
            if missing:
                return missing
        return ""

    for op, state in ops.items():
        if state == "C" and walk(op, set()):
            lacks[op] = walk(op, set())
    return {"ops": ops, "structured": structured, "lacks": lacks, "autocast": column("autocast.txt", series),
            "sparse": column("sparse.txt", series), "commit": "0" * 40}


def unpacked(wheel, work):
    """The folder torch/testing/_internal of a wheel, unpacked below the work folder."""
    folder = os.path.join(work, "database")
    inside = "torch/testing/_internal/"
    if not os.path.isdir(folder):
        making = tempfile.mkdtemp(dir=work)
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if name.startswith(inside) and name.endswith(".py"):
                    packed.extract(name, making)
        try:
            os.rename(making, folder)
        except OSError:  # another process was first
            pass
    return os.path.join(folder, *inside.split("/")[:-1])


def database_of(torch, folder, macos):
    """The module common_methods_invocations, of the installed torch or of a release's folder torch/testing/_internal.
    That of another release is met by stand-ins for what the installed torch has no more."""
    import torch.testing._internal as internal
    if folder:
        import torch.onnx
        torch.onnx._CAFFE2_ATEN_FALLBACK = False  # wanted up to 2.4
        for name in [n for n in sys.modules if n.startswith(internal.__name__ + ".")]:
            del sys.modules[name]
        internal.__path__ = [folder]
    from torch.testing._internal import common_utils
    common_utils.MACOS_VERSION = float("%d.%d" % tuple(macos))
    from torch.testing._internal import common_methods_invocations
    return common_methods_invocations


def start(series, macos, work, wheel=""):
    """(torch, the Double, the database): import torch, put the double up, import the database; on a Mac it looks
    different in places."""
    sys.path.insert(0, os.path.join(ROOT, "agent"))
    warnings.simplefilter("ignore")
    try:
        import expecttest  # noqa: F401
    except ImportError:  # wanted by common_utils for its base class alone
        stub = types.ModuleType("expecttest")
        stub.TestCase, stub.ACCEPT = unittest.TestCase, False
        sys.modules["expecttest"] = stub
    import torch
    from assay_agent import wire
    from assay_agent.double import install
    wire.put = lambda event: None
    torch.set_num_threads(1)
    path = os.path.join(work, "table-%d.json" % os.getpid())
    with open(path, "w") as f:
        json.dump(table(series), f)
    try:
        double = install.install(torch, {
            "release": series + ".0", "series": [int(n) for n in series.split(".")], "macos": macos,
            "chip": "m3-ultra-96gb", "memory": 96 << 30,
            "recommended": None, "cores": 60, "chip_name": "Apple M3 Ultra", "shape_only": False, "table": path})
    finally:
        os.unlink(path)
    # From here on torch.__version__ is the release's for this file as well; vars(torch) has the installed one's.
    return torch, double, database_of(torch, unpacked(wheel, work) if wheel else "", macos)


# ---- running it ------------------------------------------------------------------------------------------------------

def moved(torch, value, to, devices=True):
    """A sample's value on another device, as a leaf; test_mps.py, transform_opinfo_sample_to_cpu. Up to 2.0 the tests
    moved tensors alone, and no names of devices."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(to).requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {k: moved(torch, v, to, devices) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(torch, v, to, devices) for v in value) if type(value) in (list, tuple) else value
    if devices and (isinstance(value, torch.device) or isinstance(value, str) and value in ("mps", "mps:0", "cpu")):
        return to
    return value


class Runner:
    def __init__(self, series, macos, work, samples, wheel=""):
        self.torch, self.double, self.database = start(series, macos, work, wheel)
        self.series = tuple(int(n) for n in series.split("."))
        self.device = "mps:0" if self.series >= (2, 8) else "cpu"
        self.most = samples
        self.same = vars(self.torch)["__version__"].startswith(series + ".")
        self.truth = None  # of the lists, to leave out what they make needless

    def samples(self, op, dtype, grad):
        """On MPS, as the tests make them from 2.8 on; before, on the CPU, and then moved."""
        device = self.device
        conjugated = {"include_conjugated_inputs": True} if dtype.is_complex and op.test_conjugated_samples else {}
        self.torch.manual_seed(1234)
        return op.sample_inputs(device, dtype, requires_grad=grad and (dtype.is_floating_point or dtype.is_complex),
                                **conjugated)

    def call(self, op, x, args, kwargs, grad):
        torch = self.torch
        out = op(x, *args, **kwargs)
        if not grad:
            return
        leaves = torch.utils._pytree.tree_leaves
        outs = [t for t in leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
        ins = [t for t in leaves((x, args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
        if outs and ins:
            self.gradients += 1
            torch.autograd.grad(outs, ins, [torch.ones_like(t) for t in outs], allow_unused=True)

    def on_cpu(self, op, sample, grad):
        """Whether the sample fails on a CPU as well."""
        from assay_agent.double.current import inside
        try:
            x, args, kwargs = (moved(self.torch, v, "cpu") for v in (sample.input, sample.args, sample.kwargs))
            with inside():
                self.call(op, x, args, kwargs, grad)
        except Exception as error:
            return "%s: %s" % (type(error).__name__, str(error).strip().split("\n")[0][:200])
        return ""

    def attempt(self, call, on_cpu):
        """None, or [where, exception, text] of what a call raises: where is double:CAUSE, or cpu if a CPU raises as
        well."""
        before = dict(self.double.refusals)
        try:
            call()
        except Exception as error:
            new = [k for k in self.double.refusals if self.double.refusals[k] != before.get(k)]
            where = "cpu" if on_cpu() else "double:" + (new[-1][1] if new else "")
            return [where, type(error).__name__, str(error).strip().split("\n")[0][:300]]
        return None

    def run(self, op, dtype, grad):
        """{"n": samples, "errors": [[where, exception, text], ...]}: where is double or cpu, if a CPU fails as well."""
        torch = self.torch
        errors, n, self.gradients, cpu = [], 0, 0, ""
        refused = dict(self.double.refusals)
        try:
            samples = list(self.samples(op, dtype, grad))
        except Exception as error:
            if refused == self.double.refusals and not self.same:
                return {"n": 0, "errors": []}  # by another release's code that makes them
            return {"n": 0, "errors": [["samples", type(error).__name__, str(error).strip().split("\n")[0][:300]]]}
        # What runs on the double is tried on a CPU as well where the lists have it failing, and with every sample.
        doubted = self.truth is None or self.truth.of(key_of(op, str(dtype)[6:], grad))[0] != "works"
        if self.most and len(samples) > self.most and (self.truth is None or not doubted):
            step = len(samples) / self.most
            samples = [samples[int(i * step)] for i in range(self.most)]
        for sample in samples:
            n += 1

            def call(sample=sample):
                x, args, kwargs = sample.input, sample.args, sample.kwargs
                if self.device == "cpu":
                    x, args, kwargs = (moved(torch, v, "mps", self.series > (2, 0)) for v in (x, args, kwargs))
                if op.name == "tensor_split" and args and isinstance(args[0], torch.Tensor):
                    args = (args[0].cpu(),) + tuple(args[1:])
                self.call(op, x, args, kwargs, grad)

            row = self.attempt(call, lambda sample=sample: self.on_cpu(op, sample, grad))
            if row is None:
                if doubted and not cpu:
                    cpu = self.on_cpu(op, sample, grad)
            elif row not in errors:
                errors.append(row)
        return {"n": n, "gradients": self.gradients, "cpu": cpu, "errors": errors[:8]}

    def run_errors(self, op):
        """The operator's error inputs, as TestErrorInputs of test_mps.py: like run, where errors has [deviates or
        skipped, exception, text] of the first sample that does not raise what it is to raise. A NotImplementedError
        makes the test one that is skipped (_ignore_not_implemented_error in common_utils.py)."""
        n, errors = 0, []
        try:
            for sample in op.error_inputs("mps:0"):
                n += 1
                at = sample.sample_input
                args = list(at.args)
                if op.name == "tensor_split" and isinstance(args[0], self.torch.Tensor):
                    args[0] = args[0].cpu()
                try:
                    op(at.input, *args, **at.kwargs)
                except NotImplementedError:
                    raise
                except sample.error_type as error:
                    if re.search(sample.error_regex, str(error)):
                        continue
                    errors = [["deviates", type(error).__name__, str(error).strip().split("\n")[0][:300]]]
                else:
                    errors = [["deviates", "", "nothing is raised, where %s is asked for" % sample.error_type.__name__]]
                break
        except NotImplementedError as error:
            errors = [["skipped", "NotImplementedError", str(error).strip().split("\n")[0][:300]]]
        except Exception as error:
            errors = [["deviates", type(error).__name__, str(error).strip().split("\n")[0][:300]]]
        return {"n": n, "errors": errors}

    def jobs(self):
        """(operator, dtype name, whether backward, or ERRORS) of what the tests run, in their order."""
        torch = self.torch
        for op in self.database.op_db:
            if "jiterator" in op.name:
                continue
            if op.error_inputs_func is not None:
                yield op, "", ERRORS
            tested = set(op.supported_dtypes(self.device))
            listed = set(op.dtypes) | tested
            for name in DTYPES:
                if getattr(torch, name) in listed:
                    yield op, name, False
                    if name in GRADIENTS and getattr(torch, name) in tested:
                        yield op, name, True


def key_of(op, dtype, grad):
    return "%s|%s|%s|%s" % (op.name, op.variant_test_name, dtype,
                            ERRORS if grad == ERRORS else "backward" if grad else "forward")


def worker(options, part, runner=None):
    """Do every n-th job that is not done; a line on the standard output before each, and its result in a file after
    it."""
    if runner is None:
        runner = Runner(options.torch, options.macos, options.work, options.samples, options.wheel)
        runner.truth = Truth(runner.torch, runner.database, lists_of(options, runner.torch)[0], options.torch)
    else:
        runner = runner(options.torch, options.macos, options.work, options.samples)
    done = results(options)
    wanted = re.compile(options.only) if options.only else None
    with open(os.path.join(options.work, "part-%d.jsonl" % part), "a") as out:
        for i, (op, dtype, grad) in enumerate(runner.jobs()):
            key = key_of(op, dtype, grad)
            if key in done or i % options.processes != part or wanted and not wanted.search(key):
                continue
            sys.stdout.write(key + "\n")
            sys.stdout.flush()
            if getattr(runner, "truth", None) and runner.truth.of(key)[0] in ("unsaid", "skipped"):
                result = {"n": 0, "errors": []}  # not judged, so not run
            elif grad == ERRORS:
                result = runner.run_errors(op)
            else:
                result = runner.run(op, getattr(runner.torch, dtype), grad)
            out.write(json.dumps([key, result]) + "\n")
            out.flush()


def results(options):
    found = {}
    for name in sorted(os.listdir(options.work)):
        if name.endswith(".jsonl"):
            with open(os.path.join(options.work, name)) as lines:
                for line in lines:
                    try:
                        key, result = json.loads(line)
                    except ValueError:
                        continue  # cut short
                    found[key] = result
    return found


def run_all(options):
    """Workers, each started anew when it dies or hangs; what it was at is then a result as well."""
    running = {}

    def begin(part):
        command = [sys.executable, os.path.abspath(sys.argv[0]), "--worker", str(part)] + options.passed
        with open(os.path.join(options.work, "part-%d.log" % part), "ab") as log:
            running[part] = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1,
                                              env=dict(os.environ, CUDA_VISIBLE_DEVICES="")), "", time.monotonic(), 0]

    def ended(part, how):
        process, at, _, n = running.pop(part)
        process.wait()
        if how is None and process.returncode == 0:
            return
        if not at:
            raise SystemExit("a worker ended before its first operator: see %s"
                             % os.path.join(options.work, "part-%d.log" % part))
        with open(os.path.join(options.work, "died-%d.jsonl" % part), "a") as out:
            out.write(json.dumps([at, {"n": 0,
                                       "errors": [["died", "", how or "ended with status %d" % process.returncode]]}])
                      + "\n")
        begin(part)

    for part in range(options.processes):
        begin(part)
    count, told = 0, time.monotonic()
    while running:
        ready, _, _ = select.select([entry[0].stdout for entry in running.values()], [], [], 5)
        for part, entry in list(running.items()):
            process, at, since, n = entry
            if process.stdout in ready:
                line = process.stdout.readline()
                if not line:
                    ended(part, None)
                    continue
                if line.count("|") != 3:
                    continue  # what an older database prints
                entry[1], entry[2] = line.strip(), time.monotonic()
                count += 1
            elif at and time.monotonic() - since > SECONDS:
                process.kill()
                ended(part, "ran longer than %d s" % SECONDS)
        if time.monotonic() - told > 30:
            told = time.monotonic()
            print("%d pairs; at %s" % (count, "; ".join(e[1] for e in running.values())), file=sys.stderr)


# ---- what the developers' lists say ----------------------------------------------------------------------------------

# Words by which developers say that values differ, and not that an exception is raised.
VALUES = re.compile(r"precision|correctness|mismatch|undefined "
                    r"behavio|random|inconsisten|tolerance|diverge|wrong|ambiguous|disagree|different|"
                    r"uninitiali|flaky|duplicate|is not iterable|non-empty inputs|not working "
                    r"properly|overflow|fast-math|edge case|rounding|"
                    r"in the range|atol|slightly|"
                    r"cpu result|cpu error|cpu output|cpu only|missing index|topk.*return", re.I)


class Entry:
    """What a list says of a key: xfail, skip or works, for these dtypes (None: all); the list, and the comment that
    the key stands under."""

    def __init__(self, kind, dtypes, where, comment):
        self.kind, self.dtypes, self.where, self.comment = kind, dtypes, where, comment

    def of_values(self):
        return "UNDEFINED" in self.where or bool(VALUES.search(self.comment))

    def says(self):
        return (self.where + (": " + self.comment if self.comment else ""))[:160]


def constants_of(function, source, torch):
    """{key: [(list, dtypes or None, comment)]} from the dictionaries and sets in a function of the lists."""
    lines, found = source.split("\n"), collections.defaultdict(list)

    def comment(line):
        """The comment right above a line."""
        said = []
        while line > 1 and lines[line - 2].strip().startswith("#"):
            line -= 1
            said.insert(0, lines[line - 1].strip().lstrip("# "))
        return " ".join(said)

    for node in ast.walk(function):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not isinstance(node.value, (ast.Dict, ast.Set)):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        keys = node.value.keys if isinstance(node.value, ast.Dict) else node.value.elts
        values = node.value.values if isinstance(node.value, ast.Dict) else [None] * len(keys)
        above = ""
        for key, value in zip(keys, values):
            if not isinstance(key, ast.Constant):
                continue
            above = comment(key.lineno) or above  # it holds for the entries below, until the next
            end = (value or key).end_lineno
            beside = " ".join(lines[n - 1].partition("#")[2].strip() for n in sorted({key.lineno, end})).strip()
            names = ast.unparse(value) if value is not None else "None"
            of = None if names == "None" else {
                n for n in DTYPES for d in re.findall(r"torch\.(\w+)", names)
                if getattr(torch, d, None) is getattr(torch, n)}
            found[key.value].append((target.id, of, beside or above))
    return found


DIRECTION = {"mps_ops_modifier": "forward", "mps_ops_grad_modifier": "backward",
             "mps_ops_error_inputs_modifier": ERRORS}
COMPLEX_SAID = "not among the operators with complex numbers"


def read_lists(source, torch, macos):
    """{direction: {key: [Entry]}} from the text of common_mps.py or test_mps.py. Its modifiers are run, each on one
    stand-in for every key that is named and for one that is not, whose entry stands under "": what they say depends on
    macOS. A text of 2.0 has lists of what works instead, and says nothing of the rest."""
    found, tree = {}, ast.parse(source)

    def newer(minor=0):
        return tuple(macos) >= (13, minor)

    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name not in DIRECTION or function.name in found:
            continue
        if not any(isinstance(n, (ast.Dict, ast.Set)) for n in ast.walk(function)):
            continue  # what stands in where MPS is not available
        constants = constants_of(function, source, torch)
        version = float("%d.%d" % tuple(macos))
        backend = types.SimpleNamespace(backends=types.SimpleNamespace(mps=types.SimpleNamespace(
            is_macos13_or_newer=newer, is_available=lambda: True)))
        dtypes = {n: n for n in dir(torch) if isinstance(getattr(torch, n), torch.dtype)}
        vars(backend).update(dtypes)
        names = {"torch": backend, "MACOS_VERSION": version, "product_version": version, "unittest": unittest,
                 "DecorateInfo": lambda d, *_, dtypes=None, **__: (d, dtypes),
                 "MPS_DTYPES": list(DTYPES), "OpInfo": object, "Sequence": list}
        function.returns, function.args.defaults = None, [ast.Constant(None) for _ in function.args.defaults]
        for argument in function.args.args:
            argument.annotation = None
        exec(compile(ast.fix_missing_locations(ast.Module([function], [])), function.name, "exec"), names)
        into = found[DIRECTION[function.name]] = {}
        for key in list(constants) + [""]:
            op = types.SimpleNamespace(name=key, variant_test_name="", decorators=(), error_inputs_func=True)
            list(names[function.name]([op]))
            into[key] = []
            for what, dtypes_of in op.decorators:
                kind = "xfail" if what is unittest.expectedFailure else "skip"
                of = None if dtypes_of is None else {
                    n for n in DTYPES if any(getattr(torch, d) is getattr(torch, n) for d in dtypes_of)}
                if of == set():
                    continue
                # The list that has the key with these dtypes; one for some macOS only where no other does.
                lists = sorted((w.startswith("MACOS"), d != of, w, c) for w, d, c in constants.get(key, ())
                               if "SUPPORTED_COMPLEX" not in w.replace("UNSUPPORTED", ""))
                exact = [at for at in lists if not at[1]] or (lists if of != {"complex64"} else [])
                where, comment = exact[0][2:] if exact else ("complex", COMPLEX_SAID)
                into[key].append(Entry(kind, of, where, comment))
    return found or read_what_works(tree, source, torch)


SHORT = {"b8": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
         "bf16": "bfloat16", "f32": "float32", "c64": "complex64"}


def read_what_works(tree, source, torch):
    """As read_lists, from TestConsistency of 2.0: ALLOWLIST_OP and ALLOWLIST_OP_GRAD say what works, BLOCKLIST and
    VENTURA_BLOCKLIST what is not run. The rest is not run either."""
    found = {}
    for case in ast.walk(tree):
        if isinstance(case, ast.ClassDef) and case.name == "TestConsistency":
            for node in case.body:
                if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
                    continue
                name = node.targets[0].id
                for key, value in zip(node.value.keys, node.value.values):
                    said = ast.unparse(value)
                    if name in ("ALLOWLIST_OP", "ALLOWLIST_OP_GRAD"):
                        at = found.setdefault("backward" if name.endswith("GRAD") else "forward", {})
                        at.setdefault(key.value, []).append(
                            Entry("works", {SHORT.get(d, d) for d in ast.literal_eval(said)}, name, ""))
                    elif name in ("BLOCKLIST", "VENTURA_BLOCKLIST"):
                        of = None if said == "None" else set(re.findall(r"torch\.(\w+)", said))
                        for at in (found.setdefault("forward", {}), found.setdefault("backward", {})):
                            at.setdefault(key.value, []).append(Entry("skip", of, name, ""))
    for at in found.values():
        at[""] = [Entry("skip", None, "not in the list of what is run", "")]
    return found


def keep(lists, series, macos, source, path):
    """Write a release's lists into the file of those that are kept, in place of what it had of that release."""
    lines, head = [], ""
    if os.path.exists(path):
        with open(path) as f:
            head = "".join(line for line in f if line.partition("\t")[0] != series)
    for direction in sorted(lists):
        for key, entries in sorted(lists[direction].items()):
            for entry in entries or [Entry("none", None, "", "")]:
                lines.append("\t".join((series, direction, key, entry.kind,
                                        "all" if entry.dtypes is None else " ".join(sorted(entry.dtypes)),
                                        entry.where, entry.comment[:120].strip())))
    with open(path + ".new", "w") as f:
        f.write(head)
        f.write("%s\tsource\t%s\tmacOS %d.%d\n" % (series, source, *macos))
        f.write("\n".join(lines) + "\n")
    os.replace(path + ".new", path)


def kept(series, path=KEPT):
    """({direction: {key: [Entry]}}, where it is from) of a release, from the file of those that are kept; {} and ""
    where it has none."""
    found, source = {}, ""
    with open(path) as f:
        for line in f:
            words = line.rstrip("\n").split("\t")
            if words[0] == series and words[1] == "source":
                source = "%s, read for %s" % (words[2], words[3])
            elif words[0] == series:
                of, direction, key, kind, dtypes, where, comment = words
                into = found.setdefault(direction, {}).setdefault(key, [])
                if kind != "none":
                    into.append(Entry(kind, None if dtypes == "all" else set(dtypes.split()), where, comment))
    return found, source


# Decorators of the database that leave out a test where a Mac's CPU has not what it takes. Up to 2.7 the tests of MPS
# went by the CPU's.
ELSEWHERE = ("skipCPUIfNoMkl", "skipCPUIfNoMklSparse")


class Truth:
    """What is expected of an operator and dtype: works, raises, values (fails, by its values), skipped."""

    def __init__(self, torch, database, lists, series):
        self.torch, self.lists = torch, lists
        self.ops = {op.name + "|" + op.variant_test_name: op for op in database.op_db}
        # The test that holds the database's dtypes for MPS to what a Mac does ran if some operators are excused from
        # it.
        self.device = "mps" if numbers(series) >= (2, 8) else "cpu"
        self.held = any(self.marks(op, "test_dtypes", "TestCommon") for op in self.ops.values())

    def unmet(self):
        """Keys of the lists that the database has no operator for."""
        names = {key.replace("|", "") for key in self.ops} | {op.name for op in self.ops.values()}
        return sorted({key for of in self.lists.values() for key in of} - names - {""})

    def marks(self, op, test, case="TestConsistency"):
        """The database's own marks of an operator that count in a test on MPS."""
        found = []
        for mark in op.decorators:
            if not hasattr(mark, "cls_name") or mark.device_type not in (self.device, None):
                continue
            if case == "TestCommon" and (mark.device_type, mark.cls_name) != ("mps", case):
                continue
            if mark.cls_name in (None, case) and mark.test_name in (None, test) and getattr(mark, "active_if", True):
                found.append(mark)
        return found

    def entries(self, op, direction, dtype):
        """What the lists say of an operator and dtype. Operators reach the list of gradients through the other one."""
        found = []
        for of in ("forward", "backward") if direction == "backward" else (direction,):
            lists = self.lists.get(of, {})
            entries = lists.get(op.name + op.variant_test_name, lists.get("", ()))
            found += [e for e in entries if e.dtypes is None or dtype in e.dtypes]
        return found

    def runs(self, op, direction, dtype):
        """Whether a test of 2.0 ran, and so passed; None for lists of what fails."""
        lists = self.lists.get(direction, {})
        if not any(e.kind == "works" for of in lists.values() for e in of):
            return None
        allowed = any(e.kind == "works" and dtype in e.dtypes for e in lists.get(op.name, ()))
        return allowed and not any(e.kind == "skip" and (e.dtypes is None or dtype in e.dtypes)
                                   for e in lists.get(op.name + op.variant_test_name, ()))

    def of(self, key):
        """(expected, what the lists say about it)."""
        name, variant, dtype_name, direction = key.split("|")
        op = self.ops.get(name + "|" + variant)
        if op is None or direction not in self.lists and not (direction == "backward" and "forward" in self.lists):
            return "unsaid", ""
        if direction == ERRORS:
            entries = self.entries(op, direction, None)
            return ("raises", entries[0].says()) if entries else ("works", "")
        dtype = getattr(self.torch, dtype_name)
        if dtype not in op.supported_dtypes(self.device):
            if direction == "backward" or not self.held or self.marks(op, "test_dtypes", "TestCommon"):
                return "unsaid", ""
            return "raises", "not among the database's dtypes for MPS"
        runs = self.runs(op, direction, dtype_name)
        if runs is not None:
            return ("works", "") if runs else ("skipped", "not in the list of what is run")
        entries = self.entries(op, direction, dtype_name)
        if any(e.kind == "skip" for e in entries):
            return "skipped", "skipped by the tests"
        if self.device == "cpu" and any(getattr(d, "__name__", "") in ELSEWHERE for d in op.decorators):
            return "skipped", "skipped by the tests"
        for mark in self.marks(op, "test_output_grad_match" if direction == "backward" else "test_output_match"):
            if mark.dtypes is not None and dtype not in mark.dtypes:
                continue
            kinds = [getattr(d, "__name__", "") for d in mark.decorators]
            if "expectedFailure" in kinds:
                entries.append(Entry("xfail", None, "a mark in the database", ""))
            elif any("skip" in repr(d) or "decorator" in k for d, k in zip(mark.decorators, kinds)):
                return "skipped", "skipped by the tests"
        failing = [e for e in entries if e.kind == "xfail"]
        if not failing:
            return "works", ""
        if all(e.where == "complex" for e in failing):
            other = [e for e in self.lists["forward"].get(name + variant, ()) if e.kind == "xfail"
                     and e.where != "complex"]
            if other and other[0].of_values():
                return "values", "%s, for other dtypes: %s" % (other[0].where, other[0].comment[:120])
            return "raises", failing[0].comment
        for entry in failing:
            if not entry.of_values():
                return "raises", entry.says()
        return "values", failing[0].says()


# ---- comparing -------------------------------------------------------------------------------------------------------

# Words by which developers say that the test's CPU side fails, in their release.
CPU_SIDE = re.compile(r"not implemented on CPU|_cpu_out\" not implemented|CPU errors?:|not implemented for 'Half'",
                      re.I)
# Errors for which test_output_match of 2.0 skips the test.
SKIPPED_TEXT = re.compile(r"int64|macos 13|adaptive pool mps", re.I)
NO_GRADIENT = re.compile(r"derivative for|cannot resize variables that require grad")

# Why the double and a list disagree: (what the pair's key matches, what the disagreement matches, series from, until,
# the reason). A reason that begins with these words says that the sources have nothing that would refuse the call: the
# list has it for its values, or for the test's CPU side. They are counted as missed all the same, and beside it.
NO_REFUSAL = "No refusal: "
REASONS = [
    (r"^log_softmax\|with_dtype",
     "works", "2.9", "",
     NO_REFUSAL + "the samples ask for bfloat16 on MPS (sample_inputs_softmax_variant). Every operator on the way has "
     "a "
     "kernel for these types, and float16 and bfloat16 inputs are not listed: results that differ by bfloat16's "
     "rounding."),
    (r"^(softmax\|with_dtype|nn.functional.softmin\|with_dtype|native_group_norm\|).*backward",
     "a mark in the database", "2.9", "",
     NO_REFUSAL + "marked in the database: \"Tensor-likes are not close!\", or likely to differ by another formula of "
     "the gradient."),
    (r"^svd_lowrank\|",
     "works", "2.14", "",
     NO_REFUSAL + "starts from random numbers, and its vectors have any sign; the list says so of pca_lowrank. "
     "_linalg_svd has a kernel since 2.14."),
    (r"^linalg.(householder_product|lstsq)\|.*backward",
     "works", "2.11", "",
     NO_REFUSAL + "listed for a missing operator, which has a kernel since. The gradient is composed of operators that "
     "all have kernels for float32 (matrix products, tril, sums; pinv): what is left is values."),
    (r"^nn.functional.conv_transpose2d\|\|bfloat16",
     "works", "2.6", "",
     "Listed beside conv_transpose3d, whose refusal of bfloat16 names 3-D alone (from 2.8), and before under the words "
     "\"Convolution for integral types is not supported on MPS\". Convolution.mm refuses no bfloat16 in 2-D. On which "
     "side of the test it fails is not known."),
    (r"^nn.functional.max_pool1d\|",
     "works", "2.11", "",
     NO_REFUSAL + "it calls max_pool2d_with_indices, which the list has working for these types, with kernels in the "
     "binaries. The CPU has a way of its own for one dimension (aten/src/ATen/native/MaxPooling.cpp), with other "
     "padding "
     "for integers: values."),
    (r"^max_pool2d_with_indices_backward\|\|bool",
     "max_pool_backward", "2.12", "",
     "The binaries have no kernel max_pool_backward_bool. The test compares with a CPU, which has neither; that it is "
     "not listed does not say that it works."),
    (r"\|bool\|",
     "cpu .* not implemented for 'Bool'", "2.0", "",
     "The CPU has no kernel for bool, and the double computes in a wider type only where it knows that the binaries "
     "have a Metal kernel; these go by MPSGraph or by another operator: a limit of the double."),
    (r"^linalg.pinv\|singular",
     "linalg_qr", "2.0", "2.11",
     "Its samples are made by torch.linalg.qr, which the binaries of the release lack; why the list does not name it "
     "is not settled."),
    (r"^histc\|",
     "works", "2.6", "2.12",
     "The list says: unsupported dtypes. The binaries have a kernel histogramdd_half; which side of the test refuses "
     "is "
     "not settled."),
    (r"^masked.median\|",
     "works", "2.8", "2.12",
     NO_REFUSAL + "nanmedian has a kernel from 2.8 on, without a check that the masked inputs would meet: values."),
    (r"^linalg.(lu_solve)\||^lu_solve\||^(linalg.(det|slogdet)|logdet)\|\|float32\|backward",
     "linalg_lu_solve", "2.9", "2.13",
     "The binaries of these releases have no MPS kernel of linalg_lu_solve; the list no longer names what needs it. "
     "Not settled."),
    (r"^(linalg.)?cholesky(_ex)?\|\|complex64",
     "works", "2.8", "2.13",
     NO_REFUSAL + "no check in the binaries: the kernels read float32 whatever they are given. Values."),
    (r"\|complex64\|",
     "not among the operators with complex numbers", "2.3", "2.14",
     NO_REFUSAL + "the lists name what works with complex numbers; all else is expected to fail, by whatever cause. "
     "This "
     "operator is built as an MPSGraph or of such, and no check or text in the sources or binaries refuses complex "
     "numbers."),
    (r"^aminmax\|.*backward",
     "works", "2.0", "2.8",
     NO_REFUSAL + "tools/autograd/derivatives.yaml of 2.6 has no formula for aminmax, on any device: the test fails "
     "by its "
     "CPU side."),
    (r"^nn.functional.binary_cross_entropy(_with_logits)?\|",
     "log_sigmoid_forward|logit", "2.0", "2.0",
     "The installed release composes it, or its gradient, of an operator that 2.0 does not ask for there: the double "
     "sees "
     "the operators of the installed release."),
    (r"^cholesky_solve\|\|complex64",
     "not among the database's dtypes", "2.12", "2.14",
     "The database does not name the type for MPS; the binaries refuse nothing that the double would see. Not "
     "settled."),
    (r"^unravel_index\|",
     "works", "2.6", "2.7",
     NO_REFUSAL + "it divides int64 and takes remainders (_unravel_index in torch/functional.py), and multiplies no "
     "matrices, whatever the comment above its entry says; BinaryOps.mm computes both in float32: values."),
    (r"^(bernoulli|index_select|masked_scatter|masked_fill|clamp_max|clamp_min|__r(mod|pow|sub)__)\|.*error inputs",
     "works", "2.0", "",
     "MPS computes where an exception is asked for: its kernel lacks a check (of memory that is shared, of a value) "
     "that "
     "the CPU's kernel, which the double runs, has: a limit of the double."),
    (r"^narrow_copy\|.*error inputs",
     "Expected dim <", "2.0", "",
     "A CPU has a kernel of its own with another text (narrow_copy_dense_cpu), MPS composes it of narrow: a fault of "
     "the "
     "double."),
    (r"^nn.functional.softshrink\|.*error inputs",
     "lambda must be", "2.0", "2.14",
     "The check stands outside the MPS backend, and its text is that of the installed release."),
    (r"^combinations\|\|float16\|backward",
     "scalar_type|accumulate case", "2.0", "2.7",
     "PyTorch 2.6 composes it of masked_select (aten/src/ATen/native/Itertools.cpp), the installed release of "
     "subscripts, "
     "whose gradient adds up in place: the double sees the operators of the installed release."),
    (r"^inner\|\|u?int",
     "works", "2.0", "2.6",
     "tensordot of two vectors is a matrix product in 2.6 (aten/src/ATen/native/Linear.cpp), and dot in the installed "
     "release: the double sees the operators of the installed release."),
]


DIRECTIONS = ("forward", "backward", ERRORS)
CAUSES = {"double:missing": "for a missing operator", "double:dtype": "by dtype",
          "double:argument": "by another check of the operator",
          "double:device": "by placement", "double:rank": "by rank", "double:memory": "for memory",
          "double:": "by Python code that asks for the device",
          "samples": "in making the samples", "cpu": "as on a CPU", "died": "by ending the process",
          "deviates": "by another outcome than asked for"}


def outcome(result):
    """works, raises, cpu (raises what a CPU raises), none (no sample); of error inputs: works (each raises what it is
    to raise), raises (one does not), skipped."""
    causes = {e[0].partition(":")[0] for e in result["errors"]}
    if causes & {"double", "died", "samples", "deviates"}:
        return "raises"
    if "skipped" in causes:
        return "skipped"
    if causes:
        return "cpu"
    return "works" if result["n"] else "none"


def first(result):
    """What a user would read, of the error that decides."""
    for cause in ("double", "died", "samples", "deviates", "skipped", "cpu"):
        for error in result["errors"]:
            if error[0].startswith(cause):
                return error[0], ("%s: %s" % (error[1], error[2]) if error[1] else error[2])
    return "", ""


def reason(key, text, series):
    for pattern, what, since, until, why in REASONS:
        in_time = numbers(since) <= series and (not until or series <= numbers(until))
        if in_time and re.search(pattern, key) and re.search(what, text):
            return why
    return ""


def numbers(series):
    return tuple(int(n) for n in series.split("."))


def compare(options, truth):
    """Counters of outcomes and of causes by direction; the disagreements: (key, expected, said, got, error text,
    reason); what is set aside."""
    counts = {d: collections.Counter() for d in DIRECTIONS}
    causes = {d: collections.Counter() for d in DIRECTIONS}
    rows, valued, excused = [], [], []
    series = numbers(options.torch)
    for key, result in sorted(results(options).items()):
        if options.only and not re.search(options.only, key):
            continue
        direction = key.rpartition("|")[2]
        expected, said = truth.of(key)
        got = outcome(result)
        cause, text = first(result)
        if series == (2, 0) and expected == "works" and SKIPPED_TEXT.search(text):
            expected = "skipped"
        if expected in ("unsaid", "skipped") or got in ("none", "skipped"):
            counts[direction]["unsaid" if expected == "unsaid" else "no samples" if got == "none" and
                              expected != "skipped" else "skipped"] += 1
        elif direction == "backward" and (not result.get("gradients") and got == "works" or got == "cpu"
                                          and NO_GRADIENT.search(text)):
            counts[direction]["no gradient"] += 1
        elif direction != ERRORS and (expected == "raises" and (got == "cpu" or got == "works" and result.get("cpu"))
                                      or expected == "works" and got == "cpu" and not options.same
                                      or got == "works" and expected in ("raises", "values") and CPU_SIDE.search(said)):
            counts[direction]["cpu fails"] += 1
            excused.append((key, result.get("cpu") or text or said))
        elif expected == "values" and direction != ERRORS:
            counts[direction]["values " + ("works" if got == "works" else "raises")] += 1
            valued.append((key, said, got, text))
        elif expected == "raises" and got == "raises" or expected == got == "works":
            counts[direction]["agree " + expected] += 1
            if got == "raises":
                causes[direction][cause] += 1
        else:
            counts[direction]["differ " + expected] += 1
            why = reason(key, "%s %s %s" % (got, text, said), series)
            counts[direction]["no refusal"] += expected == "raises" and why.startswith(NO_REFUSAL)
            rows.append((key, expected, said, got, text, why))
    return counts, causes, rows, valued, excused


def share(counter):
    agree = counter["agree works"] + counter["agree raises"]
    whole = agree + counter["differ works"] + counter["differ raises"]
    return whole, agree, 100 * agree / whole if whole else 0.0


def precision_and_recall(counter):
    """Of refusals, as texts: a share of nothing is none, and where nothing is expected there is neither."""
    hits, false, missed = (counter[k] for k in ("agree raises", "differ works", "differ raises"))
    if not hits + missed:
        return "–", "–"
    return tuple("%.1f %%" % (100 * hits / of) if of else "–" for of in (hits + false, hits + missed))


def grouped(rows):
    """Rows that differ by dtype alone, together."""
    found = collections.OrderedDict()
    for key, expected, said, got, text, why in rows:
        name, variant, dtype, direction = key.split("|")
        text = re.sub(r"_(bfloat|half|float|uchar|char|short|int|long|bool)\b", "_T", text)
        at = (name + (" " + variant if variant else ""), direction, expected, got, why, text if not why else "",
              said if not why else "")
        found.setdefault(at, []).append((dtype, text))
    return found


def write_report(options, torch, truth, database, put):
    counts, causes, rows, valued, excused = compare(options, truth)
    unexplained = [r for r in rows if not r[5]]
    put("## PyTorch %s, macOS %d.%d" % (options.torch, *options.macos), "",
        "Run with torch %s on the operator database %s%s. Lists: %s."
        % (vars(torch)["__version__"].partition("+")[0], database,
           ", %d samples at most of a pair expected to run" % options.samples if options.samples else ", all its "
           "samples",
           options.source), "",
        "| | expected to be refused | refused | both | precision | recall | refused, and listed as working | listed, "
        "and "
        "not refused | of these, no refusal in the sources | neither |",
        "| --- |" + " --: |" * 9)
    total = counts["forward"] + counts["backward"]
    for direction, c in (("forward", counts["forward"]), ("backward", counts["backward"]), ("both", total),
                         (ERRORS, counts[ERRORS])):
        hits, false, missed = (c[k] for k in ("agree raises", "differ works", "differ raises"))
        put("| %s | %d | %d | %d | %s | %s | %d | %d | %d | %d |"
            % (direction, hits + missed, hits + false, hits, *precision_and_recall(c), false, missed, c["no refusal"],
               c["agree works"]))
    unmet = truth.unmet()
    put("", "Counted apart: %d pairs expected to fail by their values, of which the double refuses %d; %d whose test "
        "fails by its CPU side; %d that the tests skip, of which error inputs %d; %d without a gradient or a sample; "
        "%d "
        "about which nothing is said; %d names in the lists that the database has not." %
        (total["values works"] + total["values raises"], total["values raises"], total["cpu fails"],
         total["skipped"] + counts[ERRORS]["skipped"], counts[ERRORS]["skipped"],
         total["no gradient"] + total["no samples"], total["unsaid"] + counts[ERRORS]["unsaid"], len(unmet)),
        *(["Of the refusals that agree: "
           + ", ".join("%d %s" % (n, CAUSES.get(cause, cause))
                       for cause, n in (causes["forward"] + causes["backward"]).most_common()) + "."]
          if total["agree raises"] else []), "")
    if rows:
        put("### Disagreements, by reason", "")
        by_reason = collections.defaultdict(list)  # reason -> lines
        for (name, direction, expected, got, why, _, said), dtypes in grouped(rows).items():
            by_reason[why].append("- `%s`, %s, %s: %s%s%s" % (
                name, direction, " ".join(d for d, _ in dtypes),
                "works on a Mac; the double: " if expected == "works" else "the list expects a failure; ",
                dtypes[0][1][:200] if got in ("raises", "cpu") else "the double works" if direction != ERRORS
                else "on the double each raises what it is to raise",
                " (the list: %s)" % said if said and not why else ""))
        for why in sorted(by_reason):
            put("**%s**" % (why or "UNEXPLAINED"), "", *by_reason[why], "")
    if valued and options.values:
        bugs = wrong_values(numbers(options.torch))
        put("### Expected to fail by their values", "",
            "The double computes what a CPU computes; it knows of wrong values from the facts.", "")
        seen = collections.OrderedDict()
        for key, said, _, _ in valued:
            name, variant, dtype, direction = key.split("|")
            seen.setdefault((name + (" " + variant if variant else ""), direction, said), []).append(dtype)
        for (name, direction, said), dtypes in seen.items():
            known = bugs.get(name.split(" ")[0].split(".")[-1])
            put("- `%s`, %s, %s: %s%s" % (name, direction, " ".join(dtypes), said,
                                          "; facts: " + ", ".join(known) if known else ""))
        put("")
    if excused and options.values:
        put("### Expected to fail, where a CPU refuses", "",
            "The tests compare with a CPU: where it raises, they fail whatever MPS does. "
            "The double computes these in a wider type, since nothing in the backend refuses them.", "")
        seen = collections.OrderedDict()
        for key, text in excused:
            name, variant, dtype, direction = key.split("|")
            text = re.sub(r"'(Half|BFloat16|Bool|Byte|Char|Short|Int|Long)'", "T", text)
            seen.setdefault((name + (" " + variant if variant else ""), direction, text), []).append(dtype)
        for (name, direction, text), dtypes in seen.items():
            put("- `%s`, %s, %s: %s" % (name, direction, " ".join(dtypes), text))
        put("")
    return total, unexplained


def wrong_values(series):
    """{operator's plain name: [names of facts]} of what a release gets wrong."""
    sys.path.insert(0, AGENT)
    from assay_agent.double import facts
    found = collections.defaultdict(list)
    with open(os.path.join(AGENT, "assay_agent", "double", "facts.json"), encoding="utf-8") as f:
        for row in json.load(f):
            if row["outcome"] == "wrong" and facts.holds(row, tuple(series), (15, 5)):
                for op in row["meets"]:
                    found[op.partition("::")[2].partition(".")[0].rstrip("_")].append(row["name"])
    return found


HEAD = """# The double's refusals against PyTorch's expected failures on Macs

Made by `python tools/double/truth.py`, a release at a time; not edited by hand. PyTorch tests its MPS backend with a database of operators, and keeps
lists of what fails there (torch/testing/_internal/common_mps.py, before 2.8 test/test_mps.py). Here the database ran on the double, on Linux, under
torch 2.15 for every release. No rule of the double is taken from the lists.

What is counted. A **pair** is an operator (with its variant) and a dtype, forward or with its gradient. It is **expected to be refused** where a list
of that release has it as an expected failure, and neither the list's name nor a developer's comment says that it fails by its values. It is **refused**
where one of its samples raises on the double, and not on a CPU. **Precision** is the share of the refused pairs that are expected to be, **recall** the share
of the expected ones that are refused. Pairs that work on both sides, most of the database, are in neither ("neither" in the tables).
Where the sources of the release have nothing that refuses a missed pair, its reason below says so ("No refusal: …"); it counts as missed all the same, in a column of its own. What cannot
be judged is counted apart: failures by values (by the list's name or a comment), tests whose CPU side fails, tests that are skipped, pairs without a sample.
**Error inputs** are calls that must raise a given exception with a given text; a list (mps_ops_error_inputs_modifier) has the operators for which
MPS does not, and the double agrees where one of its calls does not either. A pair there is an operator.
The list of 2.0 says what works and nothing of the rest: of that release only refusals of what works can be counted, and no share.
2.1 to 2.5 and 2.7 are not in the table: their lists are in no wheel, and could not be had. Any other that is not there was not run yet (CONTRIBUTING.md has the command).

"""


def overview(parts):
    """The table of releases on top of the page, from the tables of its sections."""
    lines = ["| release | expected | refused | both | precision | recall | error inputs listed | deviate | both | "
             "precision | recall |", "| --- |" + " --: |" * 10]
    for series in sorted(parts, reverse=True):
        cells = {row.split(" | ")[0].strip("| "): [c.strip(" |") for c in row.split(" | ")[1:6]]
                 for row in parts[series].split("\n") if row.startswith(("| both |", "| %s |" % ERRORS))}
        lines.append("| %d.%d | %s |" % (*series, " | ".join(cells["both"] + cells[ERRORS])))
    return "\n".join(lines) + "\n\n"


def lists_of(options, torch):
    """({direction: {key: [Entry]}}, where they are from) of the release asked for."""
    if options.lists:
        with open(options.lists) as f:
            return read_lists(f.read(), torch, options.macos), os.path.basename(options.lists)
    if options.wheel and numbers(options.torch) >= (2, 8):
        with zipfile.ZipFile(options.wheel) as packed:
            source = packed.read("torch/testing/_internal/common_mps.py").decode()
        return read_lists(source, torch, options.macos), "common_mps.py of " + os.path.basename(options.wheel)
    if vars(torch)["__version__"].startswith(options.torch + "."):
        import torch.testing._internal.common_mps as installed
        with open(installed.__file__) as f:
            return read_lists(f.read(), torch, options.macos), "common_mps.py of torch " + \
                vars(torch)["__version__"].partition("+")[0]
    lists, source = kept(options.torch)
    if not lists:
        raise SystemExit("torch %s is installed: its lists are not those of %s; --wheel (2.8 and later) or --lists "
                         "takes them" % (vars(torch)["__version__"], options.torch))
    return lists, source + ", kept in testdata/expected.txt"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default="2.15", help="series of PyTorch that the double is to be (default 2.15)")
    parser.add_argument("--macos", default="15.5")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "double-truth.md"))
    parser.add_argument("--samples", type=int, default=0, help="of an operator and dtype that the lists have as "
                                                               "working, at most (default: all)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--wheel", default="", help="a wheel of the release, for its operator database, and its lists "
                                                    "from 2.8 on (default: those of the installed torch)")
    parser.add_argument("--lists", default="", help="common_mps.py or test_mps.py of the release")
    parser.add_argument("--keep", default="", metavar="SOURCE",
                        help="only write what --lists says into testdata/expected.txt, with these words on where it "
                             "is from")
    parser.add_argument("--values", action="store_true", help="also list what is expected to fail by its values, and "
                                                              "where a CPU refuses")
    parser.add_argument("--only", default="", help="a regular expression for operator|variant|dtype|direction")
    parser.add_argument("--work", default="", help="folder of what is done (default: below the temporary folder)")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.passed = sys.argv[1:]
    options.work = options.work or os.path.join(tempfile.gettempdir(),
                                                "assay-truth-%s-%s-%d"
                                                % (options.torch, options.macos, options.samples))
    options.macos = [int(n) for n in (options.macos + ".0").split(".")[:2]]
    os.makedirs(options.work, exist_ok=True)
    if options.worker is not None:
        return worker(options, options.worker)
    if options.keep:
        import torch
        return keep(lists_of(options, torch)[0], options.torch, options.macos, options.keep, KEPT)
    began = time.monotonic()
    run_all(options)
    torch, _, database = start(options.torch, options.macos, options.work, options.wheel)
    lists, options.source = lists_of(options, torch)
    options.same = vars(torch)["__version__"].startswith(options.torch + ".")
    truth = Truth(torch, database, lists, options.torch)
    parts = {}
    if os.path.exists(options.out):
        with open(options.out) as f:
            for part in f.read().split("\n## PyTorch ")[1:]:
                parts[numbers(part.partition(",")[0])] = "## PyTorch " + part.rstrip("\n") + "\n"
    lines = []
    total, unexplained = write_report(
        options, torch, truth, "of " + os.path.basename(options.wheel) if options.wheel else "of the same",
        lambda *more: lines.extend(more))
    parts[numbers(options.torch)] = "\n".join(lines).rstrip("\n") + "\n"
    with open(options.out, "w") as out:
        out.write(HEAD + overview(parts) + "\n".join(parts[series] for series in sorted(parts, reverse=True)))
    print("%s: precision %s, recall %s of refusals; %d disagreements without a reason; %.0f s" %
          (options.torch, *precision_and_recall(total), len(unexplained), time.monotonic() - began))
    if unexplained:
        sys.exit(1)


if __name__ == "__main__":
    main()
