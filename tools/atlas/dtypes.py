"""Which element types MPS takes in each operator, by release, as the double has it.

    python tools/atlas/dtypes.py internal/atlas/tables

writes types.txt. Arguments are those with which PyTorch's databases of samples, run on a CPU, reach the operator (op_db and
module_db, forward and backward), or that inputs.py finds. They are cast to each type in turn, and the checks that the double makes
of the operator in a release are asked (assay_agent/double/refuse.py): what they let pass is written, with ? where the CPU's kernel
refuses it: the double leaves to the CPU what that refuses. float16 and bfloat16 go by float32 there.
"""

import base64
import contextlib
import functools
import importlib.util
import io
import json
import os
import random
import signal
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = os.path.join(HERE, "..", "..", "internal", "atlas", "tables")
sys.path[:0] = [os.path.join(HERE, "..", "..", "agent"), HERE]
# test_mps.py, MPS_DTYPES
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "complex64")
MACOS = (26, 0)  # conditions of older ones are in assay ops as well
CALLS = 4        # of each operator that are cast


def load_trace():
    """trace.py beside this, whose name a module of the standard library has as well."""
    spec = importlib.util.spec_from_file_location("atlas_trace", os.path.join(HERE, "trace.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def capture(torch, trace, database, wanted):
    """{(base, overload): [(overload, args, kwargs)]} of the operators that the databases' samples reach."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from assay_agent.double.facts import split
    found = {}

    class Capture(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func.name()
            key = split(name)
            if name.startswith("aten::") and key in wanted and len(found.setdefault(key, [])) < CALLS:
                with contextlib.suppress(Exception):
                    found[key].append((func, *trace.copied(torch, (args, kwargs or {}))))
            return func(*args, **(kwargs or {}))

    def run(call):
        with contextlib.suppress(Exception), Capture():
            trace.run_backward(torch, call())

    for op in database.op_db:
        if op.name in trace.SKIP:
            continue
        with contextlib.suppress(Exception):
            dtype = trace.dtype_for(torch, op)
            grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
            for sample in trace.spread(op.sample_inputs("cpu", dtype, requires_grad=grad), 8):
                for variant in (op.op, op.inplace_variant):
                    if variant is not None:
                        first, args, kwargs = trace.copied(torch, (sample.input, sample.args, sample.kwargs))
                        if variant is not op.op:
                            first = first.detach()
                        run(functools.partial(variant, first, *args, **kwargs))
    import torch.testing._internal.common_modules as modules
    for info in modules.module_db:
        with contextlib.suppress(Exception):
            for sample in trace.spread(info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True,
                                                               training=True), 4):
                made = sample.constructor_input
                module = info.module_cls(*made.args, **made.kwargs)
                given = sample.forward_input
                run(functools.partial(module, *given.args, **given.kwargs))
    return found


def cast(torch, value, dtype):
    """The arguments with the tensors of their main type in another: that of the first floating tensor, or of the first."""
    all_tensors = trace_leaves(torch, value)
    main = next((t.dtype for t in all_tensors if t.is_floating_point() or t.is_complex()), None)
    main = main or (all_tensors[0].dtype if all_tensors else None)

    def one(t):
        return t.detach().to(dtype) if isinstance(t, torch.Tensor) and t.dtype == main else t
    return torch.utils._pytree.tree_map(one, value)


def trace_leaves(torch, value):
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def taken(torch, func, calls, dtype):
    """The calls in a type, as (args, kwargs), and whether the CPU takes one of them; those alone, then."""
    good, others = [], []
    for call in calls:
        args, kwargs = cast(torch, call, dtype)
        ran = cast(torch, call, torch.float32) if dtype in (torch.float16, torch.bfloat16) else (args, kwargs)
        try:
            func(*torch.utils._pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, ran[0]), **ran[1])
            good.append((args, kwargs))
        except Exception:
            others.append((args, kwargs))
    return good or others, bool(good)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python tools/atlas/dtypes.py OUTDIR")
    warnings.simplefilter("ignore")
    trace = load_trace()
    torch, database = trace.import_torch()
    from assay_agent.double import refuse
    from assay_agent.double.facts import split
    import inputs
    with open(os.path.join(TABLES, "torch.txt")) as lines:
        releases = next(line.split()[1:] for line in lines if line.startswith("operator"))
    structured = {row[0] for row in trace.table("generated.txt") if row[1] == "structured"}
    wanted, native = {}, {}
    for name, *cells in trace.table("torch.txt"):
        if name == "operator" or not name.startswith("aten::"):
            continue
        kernels = [c == "N" or c == "C" and name in structured for c in cells]
        if any(kernels):
            wanted.setdefault(split(name), []).append(name)
            known = native.setdefault(split(name), [False] * len(cells))
            native[split(name)] = [a or b for a, b in zip(known, kernels)]
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # forked processes have no threads
    found = capture(torch, trace, database, wanted)
    here, rows, left = set(torch._C._dispatch_get_all_op_names()), [], 0
    with torch.no_grad():
        for key in sorted(wanted):
            names = [n for n in wanted[key] if n in here]
            calls = [(args, kwargs) for _, args, kwargs in found.get(key, [])]
            func = found[key][0][0] if calls else None
            if not calls and names and not any(w in names[0] for w in ("sparse", "quantize", "cudnn", "mkldnn")):
                func = trace.operator(torch, names[0])
                calls = drawn(torch, inputs, func, names[0])
            calls = [call for call in calls if trace_leaves(torch, call)]
            if not calls:
                left += 1
                continue
            full = "aten::" + key[0] + ("." + key[1] if key[1] else "")
            kept = [c for c, (f, *_) in zip(calls, found[key]) if f is func] if found.get(key) else calls
            accepted_in = apart(functools.partial(types_by_release, torch, refuse, full, func, kept, releases))
            if accepted_in is None:  # cast arguments crashed the CPU's kernel
                left += 1
                continue
            spans = []
            for release, kernel in zip(releases, native[key]):
                words = " ".join(accepted_in[release]) if kernel else None
                if spans and spans[-1][2] == words:
                    spans[-1][1] = release
                else:
                    spans.append([release, release, words])
            rows += [(full, a + "-" + b, words or "-") for a, b, words in spans if words is not None]
    head = [
        "# Operator, releases from and to, element types that MPS takes in them, of " + " ".join(DTYPES) + ".",
        "# An operator stands for its forms in place and with out=. Derived from the double's checks, asked with samples of PyTorch's",
        "# databases, of which one that passes is enough; on macOS %d. ? says that it is not known, since the CPU refuses the type. Made" % (
            MACOS[0]),
        "# by tools/atlas/dtypes.py with torch %s; %d operators with a kernel have no line: no sample reached them." % (
            trace.version_of("torch"), left),
    ]
    trace.write(os.path.join(sys.argv[1], "types.txt"), head + trace.columns(rows))
    print("dtypes: %d operators, %d lines, %d without a sample" % (len({r[0] for r in rows}), len(rows), left), file=sys.stderr)


def types_by_release(torch, refuse, name, func, calls, releases):
    """{release: types that pass its checks}, ? behind one that the CPU refuses."""
    by_type = {d: taken(torch, func, calls, getattr(torch, d)) for d in DTYPES}
    return {release: [d if ran else d + "?" for d, (given, ran) in by_type.items()
                      if accepted(torch, refuse, name, tuple(map(int, release.split("."))), given, d)] for release in releases}


def drawn(torch, inputs, func, name):
    """Arguments that inputs.py finds: in a process of its own, since what is drawn may crash a kernel."""
    def found():
        text = io.BytesIO()
        torch.save(inputs.samples(torch, func._schema, name, func)[:2], text)
        return base64.b64encode(text.getvalue()).decode()
    text = apart(found)
    return torch.load(io.BytesIO(base64.b64decode(text)), weights_only=False) if text else []


def apart(function):
    """What a function returns in a process of its own, as JSON; None where that dies or hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        with contextlib.suppress(Exception):
            os.write(writing, json.dumps(function()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def accepted(torch, refuse, name, series, calls, dtype):
    """Whether one of the calls passes what a release checks of the operator and of new tensors."""
    try:
        refuse.allocate_check(getattr(torch, dtype), 1, series, MACOS)
        rules = refuse.rules_for(name, series, MACOS)
    except Exception:
        return False
    for args, kwargs in calls:
        try:
            for rule in rules:
                rule(args, kwargs)
            return True
        except Exception:
            continue
    return False


if __name__ == "__main__":
    main()
