"""Hold the double against what PyTorch's developers mark for MPS in their database of modules.

    python tools/double/modules.py [--torch 2.15] [--out docs/double-modules.md]

runs torch.testing._internal.common_modules.module_db of the torch installed (torch.nn's modules, with constructor
arguments and inputs) on the double, in the types that the database gives for MPS, in training and evaluation mode where
they differ, and compares with the marks that two tests of PyTorch's test/test_modules.py go by on a Mac: test_forward
(a forward pass, and a comparison with a reference where there is one) and test_non_contiguous_tensors (forward and
backward, with inputs that are contiguous and not). What the tests do is done here as well.

A mark of expected failure says that the test fails on a Mac, no mark that it passes. A mark of a skip says less: the
test is not run, and the mark may be older than the operator. Those are counted apart, with what the double has to say
of each. An older torch's database is run with that torch: PYTHON tools/double/modules.py --torch 2.8. Where the page
has it, its part is kept. The command ends with status 1 if a disagreement has no reason.
"""

import argparse
import ast
import collections
import inspect
import os
import re
import sys
import tempfile
import time

import truth
from truth import ROOT, Runner

FORWARD, BACKWARD = "test_forward", "test_non_contiguous_tensors"


class Module:
    """A module in one mode; named as truth.key_of wants it."""

    def __init__(self, info, training):
        self.info, self.training = info, training
        self.name = info.name
        self.variant_test_name = ("training" if training else "evaluation") if info.train_and_eval_differ else ""


class Modules(Runner):
    def __init__(self, series, macos, work, samples):
        super().__init__(series, macos, work, samples)
        from assay_agent.double.current import inside
        from torch.testing._internal import common_modules, common_utils
        self.inside, self.modules = inside, common_modules
        self.case = common_utils.TestCase()
        self.case.precision = self.case.rel_tol = 1e-5  # test_modules.py, TestModule

    def jobs(self):
        for info in self.modules.module_db:
            for training in (True, False) if info.train_and_eval_differ else (True,):
                for dtype in info.supported_dtypes("mps"):
                    for grad in (False, True):
                        yield Module(info, training), str(dtype).rpartition(".")[2], grad

    def inputs(self, module, dtype, device, grad):
        known = inspect.signature(module.info.module_inputs_func).parameters
        more = {"training": module.training} if "training" in known or "kwargs" in known else {}
        self.torch.manual_seed(1234)
        found = module.info.module_inputs_func(module.info, device=device, dtype=dtype, requires_grad=grad, **more)
        return [i for i in found if i.forward_input is not None]

    def built(self, module, given, dtype, device):
        m = module.info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
        m.to(device).to(dtype)
        m.train(module.training)
        return m

    def forward(self, module, given, dtype, device):
        m = self.built(module, given, dtype, device)
        out = m(*given.forward_input.args, **given.forward_input.kwargs)
        if given.reference_fn is None:
            return None
        return out, given.reference_fn(m, *given.forward_input.args, **given.forward_input.kwargs)

    def backward(self, module, given, dtype, device):
        torch = self.torch

        def apart(value):
            if isinstance(value, torch.Tensor) and value.dim():
                return torch.repeat_interleave(value, 2, dim=-1)[..., ::2].detach().requires_grad_(value.requires_grad)
            if isinstance(value, dict):
                return {k: apart(v) for k, v in value.items()}
            return type(value)(map(apart, value)) if type(value) in (list, tuple) else value

        m = self.built(module, given, dtype, device)
        given_args, given_kwargs = given.forward_input.args, given.forward_input.kwargs
        for args, kwargs in ((given_args, given_kwargs), (apart(given_args), apart(given_kwargs))):
            for out in torch.utils._pytree.tree_leaves(m(*args, **kwargs)):
                if isinstance(out, torch.Tensor) and out.requires_grad:
                    self.gradients += 1
                    out.backward(out.clone().detach_().normal_(), retain_graph=True)

    def run(self, module, dtype, grad):
        """As truth.Runner.run, and the samples counted by outcome."""
        self.gradients, errors, outcomes = 0, [], collections.Counter()
        do = self.backward if grad else self.forward
        try:
            samples = self.inputs(module, dtype, "mps:0", grad)
        except Exception as error:
            return {"n": 0, "outcomes": {"samples": 1},
                    "errors": [["samples", type(error).__name__, str(error).strip().split("\n")[0][:300]]]}
        for i, given in enumerate(samples):
            values = []

            def on_cpu(i=i):
                with self.inside():
                    try:
                        do(module, self.inputs(module, dtype, "cpu", grad)[i], dtype, "cpu")
                    except Exception:
                        return True
                return False

            row = self.attempt(lambda given=given, values=values: values.append(do(module, given, dtype, "mps:0")),
                               on_cpu)
            if row is None and values[0] is not None:
                row = self.compared(module, dtype, *values[0])
            outcomes[row[0] if row else "ok"] += 1
            if row is not None and row not in errors:
                errors.append(row)
        return {"n": len(samples), "gradients": self.gradients, "outcomes": outcomes, "errors": errors[:8]}

    def compared(self, module, dtype, out, reference):
        """The test's own comparison, with values that are the CPU's: where it fails, a mark of expected failure need
        have no other cause."""
        from torch.testing._internal.common_device_type import toleranceOverride
        tolerance = {}
        for mark in active(module, dtype, FORWARD):
            if isinstance(mark, toleranceOverride) and dtype in mark.d:
                tolerance = {"atol": mark.d[dtype].atol, "rtol": mark.d[dtype].rtol}
        try:
            with self.inside():
                self.case.assertEqual(out, reference, **tolerance)
        except AssertionError as error:
            return ["values", "AssertionError", " ".join(str(error).split())[:160]]
        return None


def active(module, dtype, test):
    return module.info.get_decorators("TestModule", test, "mps", dtype,
                                      {"module_info": module.info, "dtype": dtype, "training": module.training})


def expected(module, dtype, test, macos, said):
    """raises, values (fails, by the developers' remark for its values), skipped or works."""
    skipped = False
    for mark in active(module, dtype, test):
        name = getattr(mark, "__qualname__", type(mark).__name__)
        if "expectedFailure" in name:
            return "values" if any(truth.VALUES.search(s) for at, s in said if at == test) else "raises"
        if name == "skipIfMPSOnMacOS13" and macos[0] != 13:
            continue
        skipped = skipped or name in ("skipMPS", "skipIfMPS", "skipIfMPSOnMacOS13") or name.startswith("skip.")
    return "skipped" if skipped else "works"


def remarks(common_modules):
    """{module's class: [(test or "", the comment right above its mark)]}"""
    source = inspect.getsource(common_modules)
    lines, found = source.split("\n"), collections.defaultdict(list)
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "ModuleInfo":
            continue
        for mark in ast.walk(call):
            if not isinstance(mark, ast.Call) or getattr(mark.func, "id", "") != "DecorateInfo":
                continue
            line, above = mark.lineno, []
            while lines[line - 2].strip().startswith("#"):
                line -= 1
                above.insert(0, lines[line - 1].strip().lstrip("# "))
            found[ast.unparse(call.args[0]).replace("torch.",
                                                    "")].append((mark.args[2].value if len(mark.args) > 2 else "",
                                                                 " ".join(above)))
    return found


# Why the double and the marks disagree: (what the key matches, what the disagreement matches, series from, until, the
# reason).
REASONS = []


def first(result):
    for cause in ("double", "died", "samples", "cpu", "values"):
        for error in result["errors"]:
            if error[0].startswith(cause):
                return error[0], ("%s: %s" % (error[1], error[2]) if error[1] else error[2])
    return "", ""


def compare(options, runner):
    counts = {d: collections.Counter() for d in ("forward", "backward")}
    samples = {d: collections.Counter() for d in ("forward", "backward")}
    rows, skipped, valued = [], [], []
    done, said = truth.results(options), remarks(runner.modules)
    series = truth.numbers(options.torch)
    for module, dtype, grad in runner.jobs():
        key = truth.key_of(module, dtype, grad)
        if options.only and not re.search(options.only, key):
            continue
        result = done[key]
        direction = "backward" if grad else "forward"
        samples[direction].update(result.get("outcomes") or {"died": 1})
        cause, text = first(result)
        got = "works" if not cause else "values" if cause == "values" else "raises"
        want = expected(module, getattr(runner.torch, dtype), BACKWARD if grad else FORWARD, options.macos,
                        said[module.name])
        if not result["n"] and got == "works":
            counts[direction]["no sample"] += 1
        elif want == "skipped":
            counts[direction]["skipped"] += 1
            skipped.append((key, got, text))
        elif want == "values" or got == "values":
            counts[direction]["values " + ("works" if want == "works" else "raises")] += 1
            counts[direction]["both values"] += want != "works" and got == "values"
            valued.append((key, want, text))
        elif want == got:
            counts[direction]["agree " + want] += 1
        else:
            counts[direction]["differ " + want] += 1
            why = next((w for pattern, what, since, until,
                        w in REASONS if re.search(pattern, key) and re.search(what, got + " " + text)
                        and truth.numbers(since) <= series and (not until or series <= truth.numbers(until))), "")
            rows.append((key, want, text, why))
    return counts, samples, rows, skipped, valued


WORDS = dict(truth.CAUSES, ok="run", values="run, values off the reference")


def together(rows):
    """Rows alike but for mode, type or direction."""
    found = collections.OrderedDict()
    for key, *rest in rows:
        name, mode, dtype, direction = key.split("|")
        at = found.setdefault((name,) + tuple(rest), [])
        at.append(", ".join(w for w in (direction, mode, dtype) if w))
    return found


def write_report(options, runner, put):
    counts, samples, rows, skipped, valued = compare(options, runner)
    unexplained = [r for r in rows if not r[3]]
    put("## PyTorch %s, macOS %d.%d" % (options.torch, *options.macos), "",
        "Run with torch %s and its module database. A row of the database in one mode, type and direction is one test; "
        "it fails if one sample does." %
        vars(runner.torch)["__version__"].partition("+")[0], "",
        "| | tests | agree | share | fail on both | pass on both | double refuses, no mark | marked as failing, double "
        "runs |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |")
    total = collections.Counter()
    for direction in ("forward", "backward", "both"):
        c = counts.get(direction, total)
        total.update(c if direction != "both" else {})
        whole, agree, percent = truth.share(c)
        put("| %s | %d | %d | %.2f %% | %d | %d | %d | %d |"
            % (direction, whole, agree, percent, c["agree raises"], c["agree works"],
                                                              c["differ works"], c["differ raises"]))
    told = collections.Counter(got for _, got, _ in skipped)
    put("", "Counted apart: %d tests marked to be skipped (the double refuses %d, runs %d); %d marked as failing by "
        "their values (a remark of the developers says so, or the test's comparison with a reference fails with the "
        "CPU's own values too, as %d do); %d whose comparison fails with the CPU's values and is not marked; %d "
        "without a sample." %
        (total["skipped"], told["raises"], total["skipped"] - told["raises"], total["values raises"],
                                                    total["both values"], total["values works"], total["no sample"]),
        "",
        "Samples by outcome:", "", "| | samples | %s |"
        % " | ".join(WORDS[c] for c in WORDS if samples["forward"][c] + samples["backward"][c]),
        "| --- | --: |" + " --: |" * len([c for c in WORDS if samples["forward"][c] + samples["backward"][c]]))
    for direction, c in samples.items():
        put("| %s | %d | %s |" % (direction, sum(c.values()),
                                  " | ".join(str(c[w]) for w in WORDS
                                             if samples["forward"][w] + samples["backward"][w])))
    put("")
    if rows:
        put("### Disagreements, by reason", "")
        by_reason = collections.defaultdict(list)
        for (name, want, text, why), where in together(rows).items():
            by_reason[why].append("- `%s` (%s): %s"
                                  % (name, "; ".join(where), "no mark; the double: " + text[:200] if want == "works"
                                                      else "marked as failing; the double runs it"))
        for why in sorted(by_reason):
            put("**%s**" % (why or "UNEXPLAINED"), "", *by_reason[why], "")
    said = remarks(runner.modules)
    if skipped:
        put("### Skipped by the tests", "",
            "With the developers' remark, where there is one right above a mark. What says "
            "\"not broadcast compatible\" ends the process in Metal's graph compiler,",
            "with no exception (issue 119108): the double runs such a call.", "")
        for (name, got, text), where in together(skipped).items():
            remark = "; ".join(s for at, s in said[name] if at in ("", FORWARD, BACKWARD) and s)
            put("- `%s` (%s): the double %s%s"
                % (name, "; ".join(where), {"raises": "refuses: " + text[:160]}.get(got, "runs it"),
                                                  ". Remark: " + remark if remark else ""))
        put("")
    if valued:
        put("### Failing by their values", "",
            "What becomes of the comparison that test_forward makes, in the type of the test, with the CPU's values.",
            "")
        for (name, want, text), where in together((k, w, re.sub(r" *\(?up to .*| at index.*", "", t)) for k, w,
                                                  t in valued).items():
            put("- `%s` (%s): %s; %s" % (name, "; ".join(where),
                                         "not marked" if want == "works" else "marked as failing",
                                         text[:140] or "passes"))
        put("")
    return truth.share(total), unexplained


HEAD = """# The double against PyTorch's module database

Made by `python tools/double/modules.py`; not edited by hand. PyTorch tests torch.nn's modules on Macs with a database of constructor arguments and
inputs, and marks what fails there or is left out (torch/testing/_internal/common_modules.py). Here the same database ran on the double, on Linux, and
did what two of those tests do: test_forward and, with gradients, test_non_contiguous_tensors. No rule of the double is taken from the marks.

"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default="2.15", help="series of PyTorch that the double is to be, and that is "
                                                        "installed (default 2.15)")
    parser.add_argument("--macos", default="15.5")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "double-modules.md"))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="a regular expression for module|mode|dtype|direction")
    parser.add_argument("--work", default="", help="folder of what is done (default: below the temporary folder)")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.passed, options.samples = sys.argv[1:], 0
    options.work = options.work or os.path.join(tempfile.gettempdir(),
                                                "assay-modules-%s-%s" % (options.torch, options.macos))
    options.macos = [int(n) for n in (options.macos + ".0").split(".")[:2]]
    os.makedirs(options.work, exist_ok=True)
    if options.worker is not None:
        return truth.worker(options, options.worker, Modules)
    began = time.monotonic()
    truth.run_all(options)
    runner = Modules(options.torch, options.macos, options.work, 0)
    if not vars(runner.torch)["__version__"].startswith(options.torch + "."):
        raise SystemExit("torch %s is installed: its database is not that of %s"
                         % (vars(runner.torch)["__version__"], options.torch))
    parts = {}
    if os.path.exists(options.out):
        with open(options.out) as f:
            for part in f.read().split("\n## PyTorch ")[1:]:
                parts[truth.numbers(part.partition(",")[0])] = "## PyTorch " + part.rstrip("\n") + "\n"
    lines = []
    (whole, agree, percent), unexplained = write_report(options, runner, lambda *more: lines.extend(more))
    parts[truth.numbers(options.torch)] = "\n".join(lines).rstrip("\n") + "\n"
    with open(options.out, "w") as out:
        out.write(HEAD + "\n".join(parts[series] for series in sorted(parts, reverse=True)))
    print("%d tests, %d agree, %.2f %%; %d disagreements without a reason; %.0f s" %
          (whole, agree, percent, len(unexplained), time.monotonic() - began))
    if unexplained:
        sys.exit(1)


if __name__ == "__main__":
    main()
