"""Hold the double against what PyTorch's developers know of real Macs.

    python tools/double/truth.py [--torch 2.15] [--out docs/double-truth.md] [--samples N]

runs PyTorch's operator database (op_db: operators, their dtypes, sample inputs) on the double, forward and backward,
and compares each operator and dtype with the lists of expected failures that PyTorch's own tests of MPS go by
(torch/testing/_internal/common_mps.py, and the marks in the database itself). Those tests run on Macs: what is listed
fails there, what is not listed works.

The installed torch gives the database, and its lists where its series is the one asked for; --lists takes another
release's common_mps.py. An operator and dtype is one pair, and fails if one of its samples does. The database's dtypes
for MPS are looked at as well, from the release on in which a test holds them to what a Mac does: a dtype that a CPU has
and MPS is not said to have must be refused.

Lists do not say why a test fails. An entry is taken as one of wrong values where its list is called so or a comment of
the developers says so (VALUES below); those are counted apart, since the double's values are the CPU's. What is left
must agree, or have its reason in REASONS. The command ends with status 1 if a disagreement has none.

Work goes on in several processes and is kept in a folder (--work), so that a second call goes on where the first was
stopped.
"""

import argparse
import ast
import collections
import copy
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

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLES, AGENT = os.path.join(ROOT, "internal", "atlas", "tables"), os.path.join(ROOT, "agent")
# test_mps.py, MPS_DTYPES
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "complex64")
GRADIENTS = ("float32", "float16")  # test_mps.py, MPS_GRAD_DTYPES
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


def start(series, macos, work):
    """(torch, the Double, the database): import torch, put the double up, import the database; on a Mac it looks
    different in places."""
    sys.path.insert(0, os.path.join(ROOT, "agent"))
    warnings.simplefilter("ignore")
    try:
        import expecttest  # noqa: F401
    except ImportError:  # wanted by common_utils for its base class alone
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase
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
    from torch.testing._internal import common_utils
    common_utils.MACOS_VERSION = float("%d.%d" % tuple(macos))
    from torch.testing._internal import common_methods_invocations as database
    return torch, double, database


# ---- running it ------------------------------------------------------------------------------------------------------

def moved(torch, value, to):
    """A sample's value on another device, as a leaf; test_mps.py, transform_opinfo_sample_to_cpu."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(to).requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {k: moved(torch, v, to) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(torch, v, to) for v in value) if type(value) in (list, tuple) else value
    if isinstance(value, torch.device) or isinstance(value, str) and value in ("mps", "mps:0", "cpu"):
        return to
    return value


class Runner:
    def __init__(self, series, macos, work, samples):
        self.torch, self.double, self.database = start(series, macos, work)
        self.series = tuple(int(n) for n in series.split("."))
        self.device = "mps:0" if self.series >= (2, 8) else "cpu"
        self.most = samples

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
        try:
            samples = list(self.samples(op, dtype, grad))
        except Exception as error:
            return {"n": 0, "errors": [["samples", type(error).__name__, str(error).strip().split("\n")[0][:300]]]}
        if self.most and len(samples) > self.most:
            step = len(samples) / self.most
            samples = [samples[int(i * step)] for i in range(self.most)]
        for sample in samples:
            n += 1

            def call(sample=sample):
                x, args, kwargs = sample.input, sample.args, sample.kwargs
                if self.device == "cpu":
                    x, args, kwargs = (moved(torch, v, "mps") for v in (x, args, kwargs))
                if op.name == "tensor_split" and args and isinstance(args[0], torch.Tensor):
                    args = (args[0].cpu(),) + tuple(args[1:])
                self.call(op, x, args, kwargs, grad)

            row = self.attempt(call, lambda sample=sample: self.on_cpu(op, sample, grad))
            if row is None:
                cpu = cpu or self.on_cpu(op, sample, grad)
            elif row not in errors:
                errors.append(row)
        return {"n": n, "gradients": self.gradients, "cpu": cpu, "errors": errors[:8]}

    def jobs(self):
        """(operator, dtype name, whether backward) of what the tests run, in their order."""
        torch = self.torch
        for op in self.database.op_db:
            if "jiterator" in op.name:
                continue
            tested = set(op.supported_dtypes(self.device))
            listed = set(op.dtypes) | tested
            for name in DTYPES:
                if getattr(torch, name) in listed:
                    yield op, name, False
                    if name in GRADIENTS and getattr(torch, name) in tested:
                        yield op, name, True


def key_of(op, dtype, grad):
    return "%s|%s|%s|%s" % (op.name, op.variant_test_name, dtype, "backward" if grad else "forward")


def worker(options, part, runner=None):
    """Do every n-th job that is not done; a line on the standard output before each, and its result in a file after
    it."""
    runner = (runner or Runner)(options.torch, options.macos, options.work, options.samples)
    done = results(options)
    wanted = re.compile(options.only) if options.only else None
    with open(os.path.join(options.work, "part-%d.jsonl" % part), "a") as out:
        for i, (op, dtype, grad) in enumerate(runner.jobs()):
            key = key_of(op, dtype, grad)
            if key in done or i % options.processes != part or wanted and not wanted.search(key):
                continue
            sys.stdout.write(key + "\n")
            sys.stdout.flush()
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
    """A key in one of the lists: its list, its line, and the comment that it stands under."""

    def __init__(self, where, line, comment, dtypes):
        self.where, self.line, self.comment, self.dtypes = where, line, comment, dtypes

    def of_values(self):
        return "UNDEFINED" in self.where or bool(VALUES.search(self.comment))


def read_lists(source):
    """{function: {key: [Entry]}} from the text of common_mps.py (or test_mps.py): dictionaries and sets in its
    modifiers."""
    lines = source.split("\n")
    found = collections.defaultdict(lambda: collections.defaultdict(list))

    def comment(line):
        """The comment right above a line."""
        said = []
        while line > 1 and lines[line - 2].strip().startswith("#"):
            line -= 1
            said.insert(0, lines[line - 1].strip().lstrip("# "))
        return " ".join(said)

    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("mps_ops"):
            continue
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
                beside = " ".join(lines[n - 1].partition("#")[2].strip() for n in sorted({key.lineno, end}))
                found[function.name][key.value].append(Entry(target.id, key.lineno, (beside.strip() or above), value))
    return found


class Truth:
    """What is expected of an operator and dtype: works, raises, values (fails, by its values), skipped."""

    def __init__(self, torch, database, path, series):
        import torch.testing._internal.common_mps as installed
        self.torch = torch
        self.path = path or installed.__file__
        with open(self.path) as f:
            source = f.read()
        self.entries = read_lists(source)
        names = {"__name__": "torch.testing._internal.common_mps_asked", "__package__": "torch.testing._internal"}
        exec(compile(source, self.path, "exec"), names)
        self.ops = {}
        for op in database.op_db:
            forward = copy.copy(op)
            names["mps_ops_modifier"]([forward])
            backward = copy.copy(forward)
            if "mps_ops_grad_modifier" in names:
                names["mps_ops_grad_modifier"]([backward])
            self.ops[op.name + "|" + op.variant_test_name] = (op, forward, backward)
        # The test that holds the database's dtypes for MPS to what a Mac does ran if some operators are excused from
        # it.
        self.device = "mps" if numbers(series) >= (2, 8) else "cpu"
        self.held = any(self.marks(op, op, "test_dtypes", "TestCommon") for op, _, _ in self.ops.values())

    def marks(self, original, op, test, case="TestConsistency"):
        """The marks of an operator that count in a test on MPS: (mark, whether it comes from the lists)."""
        own = len(original.decorators)
        found = []
        for i, mark in enumerate(op.decorators):
            if not hasattr(mark, "cls_name"):
                continue
            listed = i >= own
            if not listed and mark.device_type not in (self.device, None):
                continue
            if not listed and case == "TestCommon" and (mark.device_type, mark.cls_name) != ("mps", case):
                continue
            if mark.cls_name in (None, case) and mark.test_name in (None, test) and getattr(mark, "active_if", True):
                found.append((mark, listed))
        return found

    def of(self, key):
        """(expected, what the lists say about it)."""
        name, variant, dtype_name, direction = key.split("|")
        op, forward, backward = self.ops[name + "|" + variant]
        dtype = getattr(self.torch, dtype_name)
        if dtype not in op.supported_dtypes(self.device):
            if direction == "backward" or not self.held or self.marks(op, op, "test_dtypes", "TestCommon"):
                return "unsaid", ""
            return "raises", "not among the database's dtypes for MPS"
        marked = backward if direction == "backward" else forward
        expected, said = "works", ""
        for mark, listed in self.marks(op, marked,
                                       "test_output_grad_match" if direction == "backward" else "test_output_match"):
            if mark.dtypes is not None and dtype not in mark.dtypes:
                continue
            kinds = [getattr(d, "__name__", "") for d in mark.decorators]
            if "expectedFailure" not in kinds:
                if any("skip" in repr(d) or "decorator" in k for d, k in zip(mark.decorators, kinds)):
                    return "skipped", "skipped by the tests"
                continue
            expected, said = "raises", self.say(name + variant, dtype,
                                                direction) if listed else "a mark in the database"
            if said.startswith("values: "):
                return "values", said[8:]
        return expected, said

    def say(self, key, dtype, direction):
        entries = []
        for function, lists in self.entries.items():
            if "error_inputs" in function or "grad" in function and direction == "forward":
                continue
            for entry in lists.get(key, ()):
                names = ast.unparse(entry.dtypes) if entry.dtypes is not None else "None"
                supported = "SUPPORTED" in entry.where and "UNSUPPORTED" not in entry.where
                if supported or "SKIP" in entry.where or "SPARSE" in entry.where:
                    continue
                if names == "None" or str(dtype) in names or dtype.is_complex and "COMPLEX" in entry.where:
                    entries.append(entry)
        if not entries:
            others = [e for lists in self.entries.values() for e in lists.get(key, ()) if "COMPLEX" not in e.where]
            if dtype.is_complex and others and others[0].of_values():
                return "values: %s, for other dtypes: %s" % (others[0].where, others[0].comment[:120])
            return "not among the operators with complex numbers" if dtype.is_complex else "listed"
        entry = next((e for e in entries if not e.of_values()), entries[0])
        said = entry.where + (": " + entry.comment if entry.comment else "")
        return ("values: " if entry.of_values() else "") + said[:160]


# ---- comparing -------------------------------------------------------------------------------------------------------

NO_GRADIENT = re.compile(r"derivative for|cannot resize variables that require grad")

# Why the double and a list disagree: (what the pair's key matches, what the disagreement matches, series from, until,
# the reason).
REASONS = [
    (r"^log_softmax\|with_dtype",
     "works", "2.9", "",
     "The samples ask for bfloat16 on MPS (sample_inputs_softmax_variant). Every operator on the way has a kernel for "
     "these types, and float16 and bfloat16 inputs are not listed: results that differ by bfloat16's rounding, no "
     "refusal."),
    (r"^(softmax\|with_dtype|nn.functional.softmin\|with_dtype|native_group_norm\|).*backward",
     "a mark in the database", "2.9", "",
     "Marked in the database: \"Tensor-likes are not close!\", or likely to differ by another formula of the gradient. "
     "Wrong values, no refusal."),
    (r"^svd_lowrank\|",
     "works", "2.14", "",
     "Starts from random numbers, and its vectors have any sign; the list says so of pca_lowrank. _linalg_svd has a "
     "kernel since 2.14. Other values, no refusal."),
    (r"^linalg.(householder_product|lstsq)\|.*backward",
     "works", "2.11", "",
     "Listed for a missing operator, which has a kernel since. The gradient is composed of operators that all have "
     "kernels for float32 (matrix products, tril, sums; pinv): what is left is values, no refusal that the binaries "
     "would show."),
    (r"^nn.functional.conv_transpose2d\|\|bfloat16",
     "works", "2.8", "",
     "Listed since 2.8 beside conv_transpose3d, whose refusal of bfloat16 names 3-D alone; no text in the binaries "
     "refuses a 2-D one. On which side of the test it fails is not known."),
    (r"^nn.functional.max_pool1d\|",
     "works", "2.11", "",
     "It calls max_pool2d_with_indices, which the list has working for these types, with kernels in the binaries. The "
     "CPU has a way of its own for one dimension (aten/src/ATen/native/MaxPooling.cpp), with other padding for "
     "integers: values."),
    (r"^max_pool2d_with_indices_backward\|\|bool",
     "max_pool_backward", "2.12", "",
     "The binaries have no kernel max_pool_backward_bool. The test compares with a CPU, which has neither; that it is "
     "not listed does not say that it works."),
    (r"^(nan)?quantile\|\|float32\|backward",
     "float64", "2.13", "",
     "The CPU's formula keeps ranks in float64 for the gradient; on MPS they are float32 (a branch by device in "
     "aten/src/ATen/native/Sorting.cpp). The double sees it in the forward pass only: a fault of the double."),
    (r"\|bool\|",
     "cpu .* not implemented for 'Bool'", "2.0", "",
     "The CPU has no kernel for bool, and the double computes in a wider type only where it knows that the binaries "
     "have a Metal kernel; these go by MPSGraph or by another operator: a limit of the double."),
    (r"^renorm\|.*backward",
     "float64", "2.0", "",
     "renorm_backward adds up in the accumulate type of the device, float64 on a CPU and float32 on MPS "
     "(torch/csrc/autograd/FunctionsManual.cpp). The double cannot tell it from a script's own float64: a fault of the "
     "double."),
    (r"^linalg.pinv\|hermitian",
     "works", "2.0", "2.12",
     "pinv is one operator on a CPU, so that the eigenvalues that it asks for are not seen: a fault of the double."),
    (r"^linalg.pinv\|singular",
     "linalg_qr", "2.0", "2.11",
     "Its samples are made by torch.linalg.qr, which the binaries of the release lack; why the list does not name it "
     "is not settled."),
    (r"^histc\|",
     "works", "2.8", "2.12",
     "The list says: unsupported dtypes. The binaries have a kernel histogramdd_half; which side of the test refuses "
     "is not settled."),
    (r"^arange\|\|uint8",
     "works", "2.8", "2.11",
     "A sample takes a negative float as uint8, which is undefined in C++: it raises on a Mac, and not here."),
    (r"^masked.median\|",
     "works", "2.8", "2.12",
     "nanmedian has a kernel from 2.8 on, without a check that the masked inputs would meet: values."),
    (r"^linalg.(lu_solve)\||^lu_solve\||^(linalg.(det|slogdet)|logdet)\|\|float32\|backward",
     "linalg_lu_solve", "2.9", "2.13",
     "The binaries of these releases have no MPS kernel of linalg_lu_solve; the list no longer names what needs it. "
     "Not settled."),
    (r"^(linalg.)?cholesky(_ex)?\|\|complex64",
     "works", "2.8", "2.13",
     "No check in the binaries: the kernels read float32 whatever they are given. Values."),
    (r"\|complex64\|",
     "not among the operators with complex numbers", "2.3", "2.12",
     "The lists name what works with complex numbers; all else is expected to fail, by whatever cause. This operator "
     "is built as an MPSGraph, and no check or text in the binaries refuses complex numbers."),
]


CAUSES = {"double:missing": "for a missing operator", "double:dtype": "by dtype",
          "double:argument": "by another check of the operator",
          "double:device": "by placement", "double:rank": "by rank", "double:memory": "for memory",
          "double:": "by Python code that asks for the device",
          "samples": "in making the samples", "cpu": "as on a CPU", "died": "by ending the process"}


def outcome(result):
    """works, raises, cpu (raises what a CPU raises), none (no sample)."""
    causes = {e[0].partition(":")[0] for e in result["errors"]}
    if causes & {"double", "died", "samples"}:
        return "raises"
    if causes:
        return "cpu"
    return "works" if result["n"] else "none"


def first(result):
    """What a user would read, of the error that decides."""
    for cause in ("double", "died", "samples", "cpu"):
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
    counts = {"forward": collections.Counter(), "backward": collections.Counter()}
    causes = {"forward": collections.Counter(), "backward": collections.Counter()}
    rows, valued, excused = [], [], []
    series = numbers(options.torch)
    for key, result in sorted(results(options).items()):
        if options.only and not re.search(options.only, key):
            continue
        direction = key.rpartition("|")[2]
        expected, said = truth.of(key)
        got = outcome(result)
        cause, text = first(result)
        if expected in ("unsaid", "skipped") or got == "none":
            counts[direction]["unsaid" if expected == "unsaid" else "skipped" if expected == "skipped"
                              else "no samples"] += 1
        elif direction == "backward" and (not result.get("gradients") and got == "works" or got == "cpu"
                                          and NO_GRADIENT.search(text)):
            counts[direction]["no gradient"] += 1
        elif expected == "raises" and got == "works" and result.get("cpu"):
            counts[direction]["cpu fails"] += 1
            excused.append((key, result["cpu"]))
        elif expected == "values":
            counts[direction]["values"] += 1
            valued.append((key, said, got, text))
        elif expected == "raises" and got in ("raises", "cpu") or expected == got == "works":
            counts[direction]["agree " + expected] += 1
            if got == "raises":
                causes[direction][cause] += 1
        else:
            counts[direction]["differ " + expected] += 1
            if expected == "works" and got == "cpu":
                counts[direction]["cpu"] += 1
            rows.append((key, expected, said, got, text, reason(key, "%s %s %s" % (got, text, said), series)))
    return counts, causes, rows, valued, excused


def share(counter):
    agree = counter["agree works"] + counter["agree raises"]
    whole = agree + counter["differ works"] + counter["differ raises"]
    return whole, agree, 100 * agree / whole if whole else 0.0


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


def write_report(options, torch, truth, out):
    counts, causes, rows, valued, excused = compare(options, truth)

    def put(*lines):
        out.write("\n".join(lines) + "\n")

    unexplained = [r for r in rows if not r[5]]
    put("## PyTorch %s, macOS %d.%d" % (options.torch, *options.macos), "",
        "Run with torch %s, its operator database%s."
        % (torch.__version__.partition("+")[0], ", %d samples of an entry at most" % options.samples
                                                        if options.samples else " and all its samples"), "",
        "| | pairs | agree | share | fail on both | work on both | double refuses, list does not | list expects "
        "failure, double works |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |")
    total = collections.Counter()
    for direction in ("forward", "backward", "both"):
        c = counts.get(direction, total)
        total.update(c if direction != "both" else {})
        whole, agree, percent = share(c)
        put("| %s | %d | %d | %.2f %% | %d | %d | %d | %d |"
            % (direction, whole, agree, percent, c["agree raises"], c["agree works"],
                                                              c["differ works"],
                                                              c["differ raises"]))
    put("", "Not counted: %d pairs expected to fail by their values, %d whose test fails by its CPU side, which "
        "refuses the type, %d that the tests skip, %d without a gradient or a sample, %d about which nothing is said." %
        (total["values"], total["cpu fails"], total["skipped"], total["no gradient"] + total["no samples"],
         total["unsaid"]),
        "Of the refusals that agree: " + ", ".join("%d %s" % (n, CAUSES.get(cause, cause))
                                                  for cause,
                                                   n in (causes["forward"] + causes["backward"]).most_common()) + ".",
        "")
    if rows:
        put("### Disagreements, by reason", "")
        by_reason = collections.defaultdict(list)  # reason -> lines
        for (name, direction, expected, got, why, _, said), dtypes in grouped(rows).items():
            by_reason[why].append("- `%s`, %s, %s: %s%s%s" % (
                name, direction, " ".join(d for d, _ in dtypes),
                "works on a Mac; the double: " if expected == "works" else "the list expects a failure; ",
                dtypes[0][1][:200] if got in ("raises", "cpu") else "the double works",
                " (the list: %s)" % said if said and not why else ""))
        for why in sorted(by_reason):
            put("**%s**" % (why or "UNEXPLAINED"), "", *by_reason[why], "")
    if valued:
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
    if excused:
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
    return share(total), unexplained


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


HEAD = """# The double against PyTorch's expected failures on Macs

Made by `python tools/double/truth.py`; not edited by hand. PyTorch tests its MPS backend with a database of operators, and keeps lists of what fails
there (torch/testing/_internal/common_mps.py). Here the same database ran on the double, on Linux, and each operator and dtype was compared: a pair
fails if one of its samples raises. The lists are those of the same release; no rule of the double is taken from them. Under an environment with an
older torch, `--torch` with its series makes the same report from the lists of that release (PyTorch 2.8 and later carry them).

"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default="2.15", help="series of PyTorch that the double is to be (default 2.15)")
    parser.add_argument("--macos", default="15.5")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "double-truth.md"))
    parser.add_argument("--samples", type=int, default=0, help="of each operator and dtype, at most (default: all)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--lists", default="", help="common_mps.py of the release, where another torch is installed")
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
    began = time.monotonic()
    run_all(options)
    torch, _, database = start(options.torch, options.macos, options.work)
    if not options.lists and not torch.__version__.startswith(options.torch + "."):
        raise SystemExit("torch %s is installed: its lists are not those of %s; --lists takes them"
                         % (torch.__version__, options.torch))
    truth = Truth(torch, database, options.lists, options.torch)
    with open(options.out, "w") as out:
        out.write(HEAD)
        (whole, agree, percent), unexplained = write_report(options, torch, truth, out)
    print("%d pairs, %d agree, %.2f %%; %d disagreements without a reason; %.0f s" %
          (whole, agree, percent, len(unexplained), time.monotonic() - began))
    if unexplained:
        sys.exit(1)


if __name__ == "__main__":
    main()
