"""Trace which operators each Python API of PyTorch reaches, and which operators composed operators call.

    python tools/atlas/trace.py OUTDIR [torchvision | torchaudio | FOLDER]

writes OUTDIR/api.txt (API and direction -> outermost operators) and OUTDIR/calls.txt (composed operator -> operators that it
calls), or for a library's functions OUTDIR/api-LIBRARY.txt, or, with a folder that holds the Python files of older releases
(2.8/torch/nn/functional.py), OUTDIR/api-earlier.txt. What is run are PyTorch's own databases of samples: op_db, the
foreach databases, module_db, optim_db, and a short list of our own for what those lack (EXTRAS, libraries.py); then, for composed
operators and functions that none of those reached, calls that are made from their schemas (inputs.py). It runs on a CPU, under
PyTorch's profiler, whose tree of events shows operators inside operators. What a CPU build does differently from MPS is switched
off where there is a switch; where an operator branches by device, internal/atlas/tables/reroutes.txt says what MPS does, and
that is what is written.

How it is read off:
- Every call of an operator through the dispatcher is an event of the profiler, also inside a composed operator and below
  autograd. A kernel that calls another kernel's C++ function directly makes no event, and needs no kernel of that operator.
- An operator that has a composed kernel and a CPU kernel runs the CPU kernel here. Its composed kernel is then called by itself,
  with the same arguments, since that is what a device without a kernel would run.
- A gradient that autograd computes for an operator with an MPS kernel of its own is not the gradient of what a CPU composes it
  of. Sequence numbers of autograd say which nodes were made inside such an operator, and reroutes.txt what stands for them.

Samples run in a worker process, so that one that hangs or crashes costs its own line and no more.
"""

import ast
import collections
import contextlib
import functools
import inspect
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import types
import typing
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = os.path.join(HERE, "..", "..", "internal", "atlas", "tables")
REROUTES = os.path.join(TABLES, "reroutes.txt")

SAMPLES = 60        # of one entry of a database; most offer fewer
JOB_SECONDS = 180   # nn.Transformer, the slowest entry, takes 6 s on a slow core
FEWER = 12          # with an older release's Python, held against as many with this one's
UNCOUNTED = "assay:uncounted"

# Entries that say nothing about the API that they name.
SKIP = {
    "jiterator_unary": "CUDA only",
    "jiterator_binary": "CUDA only",
    "jiterator_binary_return_by_ref": "CUDA only",
    "jiterator_4inputs_with_extra_args": "CUDA only",
    "jiterator_2inputs_2outputs": "CUDA only",
    "max_pool2d_with_indices_backward": "the entry runs the forward operator as well",
}


# ---- what to run -----------------------------------------------------------------------------------------------------------

def without_cpu(function, older=False):
    """Have a Python function of torch's that asks whether a device is "cpu" be told that it is not."""
    def other(constant):
        if isinstance(constant, tuple):
            return tuple(map(other, constant))
        return "not here" if constant == "cpu" else constant
    constants = function.__code__.co_consts
    if other(constants) == constants and not older:
        raise ValueError("%s asks for no CPU any more: see what MPS does there" % function.__qualname__)
    function.__code__ = function.__code__.replace(co_consts=other(constants))


@functools.cache
def import_torch(older=None):
    """Import torch and its databases, with what only a CPU would take switched off; older: a folder with a release's Python."""
    try:
        import expecttest  # noqa: F401
    except ImportError:  # wanted by common_utils for its base class alone
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stub
    import torch
    if older:
        age(torch, older)
    torch.set_num_threads(1)
    torch.backends.mkldnn.set_flags(False)
    if hasattr(torch.backends, "nnpack"):
        torch.backends.nnpack.set_flags(False)
    # MPS is not among the devices of attention's fast path, which each of these asks after other things that it does.
    for function in (torch.nn.modules.activation._check_arg_device, torch.nn.TransformerEncoderLayer.forward,
                     torch.nn.TransformerEncoder.forward):
        without_cpu(function, older)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    # The CPU takes foreach norms when gradients are clipped; MPS is not in that list: torch/utils/_foreach_utils.py.
    import torch.nn.utils.clip_grad as clip_grad
    clip_grad._device_has_foreach_support = lambda device: False
    clip_grad._has_foreach_support = lambda tensors, device: False
    # torch.norm asks whether the device is "cpu" and takes another way on MPS: torch/functional.py.
    without_cpu(torch.functional.norm, older)
    import torch.testing._internal.common_methods_invocations as database
    # Its work on the state of the generator would be counted.
    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return torch, database


def jobs(torch, database):
    """All entries in a fixed order: (kind, entry, name)."""
    import torch.testing._internal.common_modules as modules
    import torch.testing._internal.common_optimizers as optimizers
    entries = [("op", op, op.name) for op in database.op_db]
    for group in ("unary", "binary", "pointwise", "reduce", "other"):
        for op in getattr(database, "foreach_%s_op_db" % group):
            entries.append(("foreach", op, op.name))
    for info in modules.module_db:
        entries.append(("module", info, info.name))
    for info in optimizers.optim_db:
        entries.append(("optim", info, info.optim_cls.__name__))
    for name in EXTRAS:
        entries.append(("extra", EXTRAS[name], name))
    # What is left when those are done: main asks for the entries of which no line has come yet.
    entries += [("schema", name, name) for name in ever_composed(torch)]
    entries += [("name", bound, bound[0]) for bound in namesakes(torch)]
    return entries


def ever_composed(torch):
    """The overloads that MPS composes in some release and that this torch has."""
    here = set(torch._C._dispatch_get_all_op_names())
    made = {row[0] for row in table("generated.txt") if row[1] == "autogen"}  # around another, which generated.txt names
    return [row[0] for row in table("torch.txt") if "C" in row[1:] and row[0] in here - made]


def table(name):
    """The rows of one of the atlas's tables."""
    with open(os.path.join(TABLES, name)) as lines:
        return [line.split() for line in lines if line.strip() and not line.startswith("#")]


# Names in torch that are operators of other backends alone.
FOREIGN = ("cudnn_", "miopen_", "mkldnn_", "fbgemm_", "quantized_", "sym_")


def namesakes(torch):
    """Public functions and methods with an operator of their name: (Python name, function, names of its overloads)."""
    overloads = {}
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        if full.startswith("aten::"):
            overloads.setdefault(full[len("aten::"):].split(".")[0], []).append(full)
    for prefix, space, before in (("torch", torch, ""), ("torch.Tensor", torch.Tensor, ""), ("torch.special", torch.special, "special_"),
                                  ("torch.nn.functional", torch.nn.functional, ""), ("torch.linalg", torch.linalg, "linalg_"),
                                  ("torch.fft", torch.fft, "fft_")):
        for name in dir(space):
            function = getattr(space, name)
            if name.startswith(("_",) + FOREIGN) or isinstance(function, type) or not callable(function):
                continue
            if before + name in overloads:
                yield prefix + "." + name, function, overloads[before + name]


def spread(items, most):
    """At most so many of the items, in their order. Drawn, since every second sample of a product of options lacks one option."""
    items = list(items)
    if len(items) <= most:
        return items
    return [items[i] for i in sorted(random.Random(0).sample(range(len(items)), most))]


def resolve(torch, name):
    """The public dotted name of a database entry, or None."""
    name = name.removeprefix("torch.")
    for prefix, base in (("torch", torch), ("torch.Tensor", torch.Tensor), ("torch.ops.aten", torch.ops.aten)):
        for suffix in ("", "_") if base is torch.Tensor else ("",):
            at = base
            try:
                for part in (name + suffix).split("."):
                    at = getattr(at, part)
            except (AttributeError, RuntimeError):
                continue
            if base is not torch or callable(at) and not isinstance(at, (type, torch.dtype)):
                return prefix + "." + name + suffix
    return "torch." + name if name.startswith("ops.") else None


def uncounted(torch, make):
    """What make() returns, with its operators left out of the trace."""
    with torch.profiler.record_function(UNCOUNTED):
        return make()


def substitute(torch, op):
    """The function to call for an entry whose own function does more than call the API."""
    special = {
        "svd_lowrank": lambda a, b, **kw: torch.svd_lowrank(a, **kw),
        "pca_lowrank": lambda a, b, **kw: torch.pca_lowrank(a, **kw),
        "resize_": lambda x, shape: uncounted(torch, x.clone).resize_(shape),
        "resize_as_": lambda x, other: torch.resize_as_(uncounted(torch, x.clone), other),
        "zero_": lambda x: torch.zero_(uncounted(torch, x.clone)),
    }
    if op.name == "linalg.pinv" and op.variant_test_name == "singular":
        return lambda a, b: torch.linalg.pinv(a)
    return special.get(op.name, op.op)


# ---- an older release's Python ---------------------------------------------------------------------------------------------

# Modules whose functions stand between a Python name and the operators.
PYTHON = ("torch/functional.py", "torch/_tensor.py", "torch/nn/functional.py", "torch/nn/init.py", "torch/nn/modules/", "torch/optim/",
          "torch/distributions/", "torch/nn/utils/")


def functions_of(path):
    """{qualified name: its tree, without docstring, annotations and decorators} of a file's functions and methods."""
    found = {}

    def visit(body, prefix):
        for node in body:
            if isinstance(node, ast.ClassDef):
                visit(node.body, prefix + node.name + ".")
            elif isinstance(node, ast.FunctionDef):
                for part in ast.walk(node):
                    if isinstance(part, ast.arg):
                        part.annotation = None
                    if isinstance(part, ast.FunctionDef):
                        part.returns, part.decorator_list = None, []
                if isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
                    node.body = node.body[1:] or [ast.Pass()]
                found[prefix + node.name] = node
    with open(path, encoding="utf-8") as source:
        visit(ast.parse(source.read()).body, "")
    return found


def age(torch, folder):
    """Put the bodies that functions have in another release's files into this torch's functions. Returns how many there are."""
    import importlib
    here, count = os.path.dirname(os.path.dirname(torch.__file__)), 0
    for root, _, names in os.walk(os.path.join(folder, "torch")):
        for name in names:
            path = os.path.join(root, name)
            inside = os.path.relpath(path, folder)
            if not inside.startswith(PYTHON) or not inside.endswith(".py") or not os.path.exists(os.path.join(here, inside)):
                continue
            module = importlib.import_module(inside[:-len(".py")].replace("/", ".").removesuffix(".__init__"))
            now = functions_of(os.path.join(here, inside))
            for word in ("Any", "Callable", "Dict", "List", "Optional", "Sequence", "Tuple", "Union", "cast"):
                module.__dict__.setdefault(word, getattr(typing, word))
            for qualified, tree in functions_of(path).items():
                if qualified not in now:
                    if "." not in qualified and not hasattr(module, qualified):  # a helper that has gone since
                        with contextlib.suppress(Exception):
                            define(tree, module.__dict__)
                elif ast.dump(tree) != ast.dump(now[qualified]):
                    count += graft(torch, module, qualified, tree)
    return count


def define(tree, space):
    exec(compile(ast.fix_missing_locations(ast.Module([tree], [])), "older", "exec"), space)


def graft(torch, module, qualified, tree):
    """Give a function of this torch the code of another release. Returns whether that could be done."""
    at = module
    try:
        for part in qualified.split("."):
            at = inspect.getattr_static(at, part)
    except AttributeError:
        return False
    at = at.__func__ if isinstance(at, (staticmethod, classmethod)) else at.fget if isinstance(at, property) else at
    at = inspect.unwrap(at) if callable(at) else at
    if not isinstance(at, types.FunctionType) or at.__code__.co_freevars:
        return False
    scratch = {}
    with contextlib.suppress(Exception):
        space = dict(module.__dict__)
        define(tree, space)
        scratch = space
    older = scratch.get(tree.name)
    if not isinstance(older, types.FunctionType) or older.__code__.co_freevars:
        return False  # super() of a class
    at.__code__, at.__defaults__, at.__kwdefaults__ = older.__code__, older.__defaults__, older.__kwdefaults__
    return True


# ---- recording -------------------------------------------------------------------------------------------------------------

class Recorder:
    """Runs calls in labelled regions of one profile and reads the operators off afterwards."""

    def __init__(self, torch, reroutes, replays=True):
        self.torch = torch
        self.replays = replays  # composed kernels are called as well
        self.backward_of = reroutes.gradients
        self.regions = []   # (api, direction, autograd's next sequence number when it ended)
        self.failed = {}    # api -> why its last failing sample failed
        self.errors = 0

    def call(self, api, direction, function):
        """Run function in a region of its own. Returns its result, or None when it failed."""
        label = "assay:region:%d" % len(self.regions)
        entry = [api, direction, None]
        self.regions.append(entry)
        try:
            with self.torch.profiler.record_function(label):
                result = function()
        except Exception as error:
            entry[0] = None
            if direction not in ("composite", "operator"):
                self.failed[api] = "%s: %s" % (type(error).__name__, (str(error).strip().splitlines() or [""])[0][:160])
            return None
        entry[2] = self.torch._C._autograd._get_sequence_nr()
        return result

    def reached(self):
        """The APIs that ran at least once."""
        return {api for api, direction, _ in self.regions if direction == "forward"}

    def forward_backward(self, api, function, inputs, processed=None):
        """Record a call and the gradient of what it returns with respect to inputs."""
        torch = self.torch
        result = self.call(api, "forward", function)
        if not inputs or result is None:
            return
        outputs, weights = [], []
        try:
            outputs = [t for t in leaves(torch, result) if t.requires_grad and t.grad_fn is not None]
            if not outputs:
                return
            weights = [torch.ones_like(t) if t.layout == torch.strided else t.detach() for t in outputs]
            if processed is not None:
                # The database says which part of the outputs has a gradient (an eigenvector's phase has none).
                seen = [t for t in leaves(torch, processed(result)) if t.requires_grad]
                ones = [torch.ones_like(t) for t in seen]
                used = torch.autograd.grad(seen, outputs, ones, allow_unused=True, retain_graph=True)
                outputs = [t for t, g in zip(outputs, used) if g is not None]
                weights = [g for g in used if g is not None]
        except Exception as error:
            self.failed[api + " backward"] = "%s: %s" % (type(error).__name__, str(error).splitlines()[0][:160])
            return
        if outputs:
            self.call(api, "backward", lambda: (torch.autograd.grad(outputs, inputs, weights, allow_unused=True), True)[1])

    def profile(self):
        from torch._C._profiler import _ExperimentalConfig
        from torch.autograd import profiler
        return profiler.profile(use_kineto=True, use_cpu=True,
                                experimental_config=_ExperimentalConfig(capture_overload_names=True))

    def read(self, profile, names):
        """Turn the profile's events into counts: apis and calls, as they stand in a job's answer."""
        events = {e.correlation_id(): e for e in profile.kineto_results.events() if not e.is_python_function()}
        apis, calls = {}, {}
        regions = {}
        find_regions(profile.kineto_results.experimental_event_tree(), regions)
        reader = Reader(events, names, self.backward_of)
        intervals = []
        for index, (api, direction, ended) in enumerate(self.regions):
            node = regions.get("assay:region:%d" % index)
            if node is None or api is None:
                continue
            if direction == "operator":
                inside = {}
                reader.count_calls(inside, node)
                if api not in inside and api + " sparse" not in inside:  # it makes no event: what is seen are its calls
                    reader.count(inside, api, set(reader.operators(node)))
                merge(calls, inside)
                continue
            if direction == "composite":
                reader.count(calls, api, set(reader.operators(node)))
                reader.count_calls(calls, node)
                continue
            if direction == "forward":
                intervals = reader.intervals(node, ended)
                roots = set(reader.operators(node))
            else:
                roots = reader.gradients(node, intervals)
            reader.count_calls(calls, node)
            reader.count(apis, api + " " + direction, roots)
        return apis, calls


def find_regions(nodes, into):
    for node in nodes:
        if node.name.startswith("assay:region:"):
            into[node.name] = node
        find_regions(node.children, into)


# Operators that ask a tensor for the parts of a sparse layout: what calls one was given such a tensor.
SPARSE = frozenset("aten::" + name for name in (
    "_nnz", "_indices", "_values", "indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices", "sparse_dim",
    "dense_dim", "_dimI", "_dimV", "_coalesced_", "is_coalesced", "sparse_resize_and_clear_", "sparse_resize_"))


class Reader:
    """Reads operators off a tree of events."""

    def __init__(self, events, names, backward_of):
        self.events = events
        self.names = names
        self.backward_of = backward_of

    def name(self, node):
        """The operator's full name, or None for what is no operator: nodes of autograd, labels."""
        event = self.events.get(node.correlation_id)
        overload = event.overload_name() if event is not None else ""
        name = node.name + "." + overload if overload else node.name
        if name.startswith("prims::"):
            return None  # PyTorch's own Python is written in these: what they call counts
        return name if name in self.names.all else None

    def sequence(self, node):
        event = self.events.get(node.correlation_id)
        return event.sequence_nr() if event is not None else -1

    def operators(self, node):
        """The outermost operators below a node."""
        for child in node.children:
            if child.name == UNCOUNTED or child.name == "torch::autograd::AccumulateGrad":
                continue
            name = self.name(child)
            if name is not None:
                yield name
            else:
                yield from self.operators(child)

    def count(self, into, key, names):
        entry = into.setdefault(key, [0, {}])
        entry[0] += 1
        for name in names:
            entry[1][name] = entry[1].get(name, 0) + 1

    def count_calls(self, calls, node):
        """Count what composed operators call, everywhere below a node."""
        for child in node.children:
            if child.name == UNCOUNTED:
                continue
            name = self.name(child)
            if name in self.names.composed:
                called = set(self.operators(child))
                self.count(calls, name + " sparse" if called & SPARSE else name, called)
            self.count_calls(calls, child)

    def intervals(self, node, ended):
        """Where an operator ran whose gradient is another one on MPS: (first, end, operator) in autograd's sequence numbers."""
        flat = []
        self.flatten(node, flat, None)
        found = []
        for at, (child, outer) in enumerate(flat):
            name = self.name(child)
            if name not in self.backward_of or outer is not None or self.sequence(child) < 0:
                continue
            end = ended
            for later, above in flat[at + 1:]:
                if above is not child and self.sequence(later) >= 0:
                    end = self.sequence(later)
                    break
            found.append((self.sequence(child), end, name))
        return found

    def flatten(self, node, flat, outer):
        """Nodes in the order in which they began, each with the outermost rerouted operator that it runs in."""
        for child in node.children:
            flat.append((child, outer))
            inner = outer
            if inner is None and self.name(child) in self.backward_of:
                inner = child
            self.flatten(child, flat, inner)

    def gradients(self, node, intervals):
        roots = set()
        for child in node.children:
            inside = [name for first, end, name in intervals if first <= self.sequence(child) < end]
            if inside and child.name.startswith("autograd::engine::evaluate_function"):
                roots.update(self.backward_of[inside[0]])
            elif child.name.endswith("torch::autograd::AccumulateGrad") or child.name == UNCOUNTED:
                continue
            elif self.name(child) is not None:
                roots.add(self.name(child))
            else:
                roots.update(self.operators(child))
        return roots


class Names:
    """Operators by what the dispatcher has for them."""

    def __init__(self, torch):
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        self.all = set(torch._C._dispatch_get_all_op_names())
        self.composed, self.shadowed = set(), {}
        for name in self.all:
            for key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"):
                try:
                    if not has(name, key):
                        continue
                    if has(name, "CPU"):
                        self.shadowed[name] = key
                    else:
                        self.composed.add(name)
                except RuntimeError:  # an operator that is named but not defined
                    pass
                break


def leaves(torch, value):
    """All tensors in a value."""
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def copied(torch, value):
    """The same arguments with tensors of their own."""
    def copy(t):
        if not isinstance(t, torch.Tensor):
            return t
        return t.detach().clone().requires_grad_(t.requires_grad)
    return torch.utils._pytree.tree_map(copy, value)


def replayer(torch, recorder, names):
    """A mode that calls the composed kernel of each operator whose CPU kernel runs."""
    from torch.utils._python_dispatch import TorchDispatchMode
    seen = collections.Counter()

    class Replay(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func.name()
            if name in names.shadowed and seen[name] < 3:
                seen[name] += 1
                try:
                    key = getattr(torch._C.DispatchKey, names.shadowed[name])
                    own_args, own_kwargs = copied(torch, (args, kwargs or {}))
                    recorder.call(name, "composite", lambda: (func._op_dk(key, *own_args, **own_kwargs), True)[1])
                except Exception:
                    pass  # arguments that cannot be copied
            return func(*args, **(kwargs or {}))
    return Replay()


# ---- one entry -------------------------------------------------------------------------------------------------------------

def run_backward(torch, result):
    outputs = [t for t in leaves(torch, result) if t.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])


def dtype_for(torch, op):
    supported = op.supported_dtypes("cpu")
    for dtype in (torch.float32, torch.complex64, torch.int64, torch.int32, torch.bool):
        if dtype in supported:
            return dtype
    return sorted(supported, key=str)[0] if supported else torch.float32


def run_op(torch, recorder, names, op):
    if op.name in SKIP:
        raise ValueError(SKIP[op.name])
    dtype = dtype_for(torch, op)
    grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    function = substitute(torch, op)
    api = resolve(torch, op.name)
    if op.name == "normal" and op.variant_test_name == "in_place":
        api = "torch.Tensor.normal_"
    if api is None:
        raise ValueError("no public name")
    leaf = op.name.rsplit(".", 1)[-1]
    samples = spread(op.sample_inputs("cpu", dtype, requires_grad=grad), SAMPLES)
    ungraded = spread(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES)  # with arguments that gradients rule out

    def run(api, function, samples, inplace=False, processed=False):
        for sample in samples:
            arguments = copied(torch, (sample.input, sample.args, sample.kwargs))
            inputs = [t for t in leaves(torch, arguments) if t.requires_grad]
            first, args, kwargs = arguments
            if inplace:
                if sample.broadcasts_input:
                    continue
                first = torch.utils._pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, first)
            fix = sample.output_process_fn_grad if processed and not inplace else None
            recorder.forward_backward(api, lambda: function(first, *args, **kwargs), inputs, fix)

    run(api, function, samples, processed=True)
    with torch.no_grad():
        for sample in ungraded:
            first, args, kwargs = copied(torch, (sample.input, sample.args, sample.kwargs))
            recorder.call(api, "forward", lambda: (function(first, *args, **kwargs), True)[1])
    replayed = [(function, s) for s in ungraded + samples]
    replayed += [(op.inplace_variant, s) for s in ungraded if op.inplace_variant is not None and not s.broadcasts_input]
    with replayer(torch, recorder, names):
        for variant, sample in replayed if recorder.replays else ():
            first, args, kwargs = copied(torch, (sample.input, sample.args, sample.kwargs))
            with contextlib.suppress(Exception):
                run_backward(torch, variant(first, *args, **kwargs))

    spellings = []
    if op.method_variant is not None and hasattr(torch.Tensor, leaf) and api != "torch.Tensor." + leaf:
        spellings.append(("torch.Tensor." + leaf, op.method_variant, False))
    if op.inplace_variant is not None:
        if op.name.startswith("nn.functional."):
            spellings.append((api + "(inplace=True)", op.inplace_variant, True))
        elif hasattr(torch.Tensor, leaf + "_"):
            spellings.append(("torch.Tensor." + leaf + "_", op.inplace_variant, True))
    for variant, inplace in ((op.operator_variant, False), (op.inplace_operator_variant, True)):
        if variant is not None and hasattr(torch.Tensor, "__%s__" % variant.__name__.strip("_")):
            spellings.append(("torch.Tensor.__%s__" % variant.__name__.strip("_"), variant, inplace))
    for alias in op.aliases or ():
        name = resolve(torch, alias.name)
        if name is not None:
            spellings.append((name, alias.op, False))
        leaf = alias.name.rsplit(".", 1)[-1]
        if alias.method_variant is not None and hasattr(torch.Tensor, leaf):
            spellings.append(("torch.Tensor." + leaf, alias.method_variant, False))
        if alias.inplace_variant is not None and hasattr(torch.Tensor, leaf + "_"):
            spellings.append(("torch.Tensor." + leaf + "_", alias.inplace_variant, True))
    done = {api}
    for name, variant, inplace in spellings:
        if name not in done:
            done.add(name)
            run(name, variant, samples, inplace)
            if name not in recorder.reached() and torch.float64 in op.supported_dtypes("cpu"):  # float_power_ makes float64
                run(name, variant, spread(op.sample_inputs("cpu", torch.float64, requires_grad=grad), SAMPLES), inplace)
    if op.supports_out:
        with torch.no_grad():
            for sample in ungraded:
                first, args, kwargs = copied(torch, (sample.input, sample.args, sample.kwargs))
                try:
                    result = function(first, *args, **kwargs)
                    out = torch.utils._pytree.tree_map(torch.empty_like, result)
                except Exception:
                    continue
                recorder.call(api + "(out=)", "forward", lambda: (function(first, *args, out=out, **kwargs), True)[1])


def run_foreach(torch, recorder, names, op):
    dtype = torch.float32
    samples = spread(op.sample_inputs("cpu", dtype, noncontiguous=False, allow_higher_dtype_scalars=False), 12)
    # Their functions go by the plain names: torch._foreach_add.__name__ is "add" while the databases are at work.
    for function, api in ((op.method_variant, "torch." + op.name), (op.inplace_variant, "torch." + op.name + "_")):
        if function is None:
            continue
        for sample in samples:
            first, args, kwargs = copied(torch, (sample.input, sample.args, sample.kwargs))
            with torch.no_grad():
                recorder.call(api, "forward", lambda: (function(first, *args, **kwargs), True)[1])


def run_module(torch, recorder, names, info):
    api = "torch." + info.name
    for dtype in (torch.float32, torch.float64, torch.complex64):  # fractional pooling has samples in float64
        if dtype in info.supported_dtypes("cpu") and api not in recorder.reached():
            run_module_in(torch, recorder, names, info, api, dtype)


def run_module_in(torch, recorder, names, info, api, dtype):
    for training in (True, False):
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for sample in spread(inputs, SAMPLES):
            if sample.forward_input is None:
                continue
            try:
                made = sample.constructor_input
                module = info.module_cls(*made.args, **made.kwargs).train(training)
            except Exception as error:
                recorder.failed[api] = "%s: %s" % (type(error).__name__, error)
                continue
            args, kwargs = copied(torch, (sample.forward_input.args, sample.forward_input.kwargs))
            wanted = [p for p in module.parameters() if p.requires_grad]
            wanted += [t for t in leaves(torch, (args, kwargs)) if t.requires_grad]
            recorder.forward_backward(api, lambda: module(*args, **kwargs), wanted)
            if recorder.replays:
                with replayer(torch, recorder, names), contextlib.suppress(Exception):
                    run_backward(torch, module(*args, **kwargs))
            if not training:
                with torch.no_grad():
                    recorder.call(api, "forward", lambda: (module(*args, **kwargs), True)[1])


def run_optim(torch, recorder, names, info):
    base = "torch.optim.%s.step" % info.optim_cls.__name__
    ways = [("", {})] + [("(%s=True)" % way, {way: True}) for way in ("foreach", "fused") if way in info.supported_impls]
    for label, extra in ways:
        for choice in info.optim_inputs_func(device="cpu"):
            if set(choice.kwargs) & {"foreach", "fused", "differentiable", "capturable"}:
                continue
            torch.manual_seed(0)
            params = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(4, 4))]
            for p in params:
                grad = torch.randn_like(p)
                p.grad = grad.to_sparse() if info.only_supports_sparse_grads else grad
            try:
                optimizer = info.optim_cls(params, **dict(copied(torch, choice.kwargs), **extra))
            except Exception as error:
                recorder.failed[base + label] = "%s: %s" % (type(error).__name__, error)
                continue
            closure = None
            if info.step_requires_closure:
                def closure():
                    return uncounted(torch, lambda: sum((p * p).sum() for p in params))

            def two_steps():  # the first makes the state, the second uses it
                optimizer.step(*([closure] if closure else []))
                optimizer.step(*([closure] if closure else []))
                return True
            recorder.call(base + label, "forward", two_steps)


def operator(torch, name):
    """An overload by its full name."""
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), overload or "default")


def is_python(torch, name):
    """Whether a database's entry is a function of torch's that is written in Python."""
    at = torch
    for part in name.split("."):
        at = getattr(at, part, None)
    return isinstance(at, types.FunctionType)


def from_python(torch):
    """Operators that torch/backends/mps/__init__.py registers for MPS, until 2.2 and 2.12: the functions stand there still."""
    return {"aten::native_group_norm_backward": torch._decomp.decompositions.native_group_norm_backward,
            "aten::var_mean.correction": torch._refs.var_mean}


def run_schema(torch, recorder, names, name):
    """An operator that no database reached, by its schema."""
    import inputs
    import torch._refs
    function, direction = operator(torch, name), "operator"
    schema, call = function._schema, function
    if name in from_python(torch):
        call, direction = from_python(torch)[name], "composite"
    elif name in names.shadowed:
        call = functools.partial(function._op_dk, getattr(torch._C.DispatchKey, names.shadowed[name]))
        direction = "composite"
    with torch.no_grad():
        taken = inputs.samples(torch, schema, name, call)
        for args, kwargs in taken:
            recorder.call(name, direction, lambda: (call(*args, **kwargs), True)[1])
    if not taken:
        raise ValueError("no arguments were found that it takes")


def tensors_of(torch, function, *args, **kwargs):
    """The result of a call that gives tensors: what asks something of them (is_complex, can_cast) reaches no kernel."""
    result = function(*args, **kwargs)
    if not leaves(torch, result):
        raise ValueError("it gives no tensor")
    return result


def run_name(torch, recorder, names, bound):
    """A Python name that no database has, by the schemas of the operators that have its name."""
    import inputs
    api, function, overloads = bound
    for overload in overloads:
        schema = operator(torch, overload)._schema
        if any(a.is_out for a in schema.arguments):
            continue
        for args, kwargs in inputs.samples(torch, schema, overload, functools.partial(tensors_of, torch, function)):
            wanted = [t for t in leaves(torch, (args, kwargs)) if t.is_floating_point() and t.layout == torch.strided]
            graded = copied(torch, (args, kwargs))
            own = [t.requires_grad_() for t in leaves(torch, graded) if t.is_floating_point() and t.layout == torch.strided]
            try:
                if not schema.is_mutable and wanted:
                    function(*graded[0], **graded[1])
                    recorder.forward_backward(api, lambda: function(*graded[0], **graded[1]), own)
                    continue
            except Exception:
                pass  # it has no gradient, or none for these
            with torch.no_grad():
                recorder.call(api, "forward", lambda: (function(*args, **kwargs), True)[1])
    if api not in recorder.reached():
        raise ValueError("no arguments were found that it takes")


# ---- what training code calls and no database holds ------------------------------------------------------------------------

EXTRAS = {}  # name -> function of torch that yields calls, each with the tensors that want a gradient


def extra(*names):
    """Register a function of (torch, name) under these names."""
    def keep(function):
        for name in names:
            EXTRAS[name] = functools.partial(function, name=name)
        return function
    return keep


def run_extra(torch, recorder, names, function, name):
    for call, inputs in function(torch):
        recorder.forward_backward(name, call, inputs)
        if recorder.replays:
            with replayer(torch, recorder, names), contextlib.suppress(Exception):
                run_backward(torch, call())


@extra("torch.nn.Embedding(max_norm=)", "torch.nn.functional.embedding(max_norm=)", "torch.nn.EmbeddingBag(max_norm=)")
def embedding(torch, name):
    index = torch.tensor([[0, 2], [1, 2]])
    if "functional" in name:
        weight = torch.randn(4, 3, requires_grad=True)
        yield lambda: torch.nn.functional.embedding(index, weight, max_norm=1.0), [weight]
    else:
        module = (torch.nn.EmbeddingBag if "Bag" in name else torch.nn.Embedding)(4, 3, max_norm=1.0)
        yield lambda: module(index), list(module.parameters())


@extra("torch.nn.functional.affine_grid", "torch.bartlett_window", "torch.blackman_window", "torch.hamming_window",
       "torch.hann_window", "torch.kaiser_window", "torch.vander", "torch.chain_matmul", "torch.range", "torch.conv_tbc",
       "torch.Tensor.fill_diagonal_", "torch.Tensor.baddbmm_", "torch.fake_quantize_per_tensor_affine", "torch.tensor",
       "torch.as_tensor", "torch.manual_seed", "torch.Tensor.tolist", "torch.Tensor.requires_grad_")
def others(torch, name):
    base, leaf = (torch.Tensor if ".Tensor." in name else torch), name.rsplit(".", 1)[1]
    x = torch.randn(2, 3, 3, requires_grad=True)
    flat = torch.randn(3)
    arguments = {
        "affine_grid": [(torch.randn(2, 2, 3, requires_grad=True), (2, 1, 4, 4)),
                        (torch.randn(2, 3, 4, requires_grad=True), (2, 1, 4, 4, 4), True)],
        "vander": [(flat,), (flat, 2)], "chain_matmul": [(x[0].detach().requires_grad_(),) * 3], "range": [(0, 3)],
        "conv_tbc": [(x, torch.randn(1, 3, 4, requires_grad=True), torch.randn(4, requires_grad=True))],
        "fill_diagonal_": [(torch.randn(3, 3), 1.0)], "baddbmm_": [(torch.randn(2, 3, 3), x, x)],
        "fake_quantize_per_tensor_affine": [(x, 0.1, 0, 0, 255)],
        "tensor": [(1.0,), ([1.0, 2.0],)], "as_tensor": [([1.0, 2.0],)], "manual_seed": [(0,)],
        "tolist": [(flat,)], "requires_grad_": [(flat,)],
    }.get(leaf, [(8,), (8, False)])
    function = torch.nn.functional.affine_grid if leaf == "affine_grid" else getattr(base, leaf)
    for given in arguments:
        wanted = [a for a in given if isinstance(a, torch.Tensor) and a.requires_grad and a.is_leaf]
        yield lambda: function(*given), [] if leaf == "requires_grad_" else wanted


@extra("torch.conj", "torch.Tensor.conj")
def conjugate(torch, name):
    x = torch.randn(3, dtype=torch.complex64, requires_grad=True)
    yield lambda: (torch.conj(x) if name == "torch.conj" else x.conj()), [x]


@extra("torch.nn.FractionalMaxPool2d", "torch.nn.FractionalMaxPool3d")
def fractional(torch, name):
    dims = int(name[-2])
    module = getattr(torch.nn, "FractionalMaxPool%dd" % dims)(2, output_size=(3,) * dims)
    x = torch.randn((1, 2) + (7,) * dims, requires_grad=True)
    yield lambda: module(x), [x]


@extra("torch.nn.LSTM(PackedSequence)", "torch.nn.GRU(PackedSequence)", "torch.nn.RNN(PackedSequence)")
def packed(torch, name):
    for layers, both in ((1, False), (2, True)):
        module = getattr(torch.nn, name.split("(")[0].split(".")[-1])(3, 4, num_layers=layers, bidirectional=both)
        x = torch.randn(5, 2, 3, requires_grad=True)
        sequence = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]))
        yield lambda: tuple(module(sequence)[0])[0], [sequence.data] + list(module.parameters())


@extra("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pad_packed_sequence", "torch.nn.utils.rnn.pad_sequence",
       "torch.nn.utils.rnn.pack_sequence")
def sequences(torch, name):
    rnn = torch.nn.utils.rnn
    x = torch.randn(5, 2, 3, requires_grad=True)
    for sort in (True, False):
        lengths = torch.tensor([5, 3] if sort else [3, 5])
        parts = [torch.randn(int(n), 3, requires_grad=True) for n in lengths]
        if name.endswith("pack_padded_sequence"):
            yield lambda: rnn.pack_padded_sequence(x, lengths, enforce_sorted=sort).data, [x]
        elif name.endswith("pad_packed_sequence"):
            sequence = rnn.pack_padded_sequence(x, lengths, enforce_sorted=sort)
            yield lambda: rnn.pad_packed_sequence(sequence)[0], [x]
        elif name.endswith("pad_sequence"):
            yield lambda: rnn.pad_sequence(parts, batch_first=sort), parts
        else:
            yield lambda: rnn.pack_sequence(parts, enforce_sorted=sort).data, parts


@extra("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.get_total_norm")
def clipping(torch, name):
    for kind in (2.0, float("inf"), 1.0):
        params = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(4))]
        for p in params:
            p.grad = torch.randn_like(p)
        if name.endswith("clip_grad_norm_"):
            yield lambda: torch.nn.utils.clip_grad_norm_(params, 1.0, norm_type=kind), []
        elif name.endswith("clip_grad_value_"):
            yield lambda: (torch.nn.utils.clip_grad_value_(params, 0.5), True)[1], []
        else:
            yield lambda: torch.nn.utils.get_total_norm([p.grad for p in params], norm_type=kind), []


@extra("torch.optim.Optimizer.zero_grad(set_to_none=False)")
def zero_grad(torch, name):
    params = [torch.nn.Parameter(torch.randn(3, 4))]
    params[0].grad = torch.randn(3, 4)
    optimizer = torch.optim.SGD(params, lr=0.1)
    yield lambda: (optimizer.zero_grad(set_to_none=False), True)[1], []


@extra("torch.amp.GradScaler.scale", "torch.amp.GradScaler.unscale_", "torch.amp.GradScaler.step", "torch.amp.GradScaler.update")
def scaling(torch, name):
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    p = torch.nn.Parameter(torch.randn(3, 4))
    optimizer = torch.optim.SGD([p], lr=0.1)
    loss = (p * p).sum()
    scaled = scaler.scale(loss)
    if name.endswith(".scale"):
        yield lambda: scaler.scale(loss), [loss]
        return
    scaled.backward()
    if name.endswith(".unscale_"):
        yield lambda: (scaler.unscale_(optimizer), True)[1], []
        return
    if name.endswith(".update"):
        scaler.step(optimizer)
        yield lambda: (scaler.update(), True)[1], []
        return
    # The optimizer's own step is counted under its name.
    step = optimizer.step
    optimizer.step = lambda *args, **kwargs: uncounted(torch, step)
    yield lambda: (scaler.step(optimizer), True)[1], []


@extra("torch.Tensor.__setitem__")
def setitem(torch, name):
    mask = torch.tensor([[True, False, True], [False, False, True]])
    rows = torch.tensor([1, 0])
    every = slice(None)
    for index, value in ((0, 1.0), ((every, 1), torch.ones(2)), (mask, 0.0), (mask, torch.ones(3)), (rows, torch.ones(2, 3)),
                         ((Ellipsis, rows), torch.ones(2, 2)), ((None, 0), 2.0), ((every, rows), 1.0)):
        leaf = torch.randn(2, 3, requires_grad=True)
        x = leaf.clone()

        def assign():
            x[index] = value
            return x
        yield assign, [leaf]


@extra(*["torch.nn.init." + n for n in (
    "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_", "sparse_",
    "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_")])
def initialise(torch, name):
    function = getattr(torch.nn.init, name.rsplit(".", 1)[1])
    arguments = {"constant_": {"val": 0.5}, "sparse_": {"sparsity": 0.5}}.get(function.__name__, {})
    tensor = torch.empty((2, 2, 3) if function.__name__ == "dirac_" else (4, 3))
    yield lambda: (function(tensor, **arguments), True)[1], []


@extra("torch.nn.utils.parametrizations.weight_norm", "torch.nn.utils.parametrizations.spectral_norm",
       "torch.nn.utils.parametrizations.orthogonal", "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm")
def parametrized(torch, name):
    at = torch.nn.utils.parametrizations if "parametrizations" in name else torch.nn.utils
    function = getattr(at, name.rsplit(".", 1)[1])
    yield lambda: (function(torch.nn.Linear(3, 4)), True)[1], []
    module = function(torch.nn.Linear(3, 4))

    def weight():  # what the module's forward computes besides its own operators
        for hook in module._forward_pre_hooks.values():
            hook(module, None)
        return module.weight
    yield weight, list(module.parameters())


@extra("torch.optim.swa_utils.AveragedModel.update_parameters")
def averaged(torch, name):
    module = torch.nn.Linear(3, 4)
    for average in (None, torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)):
        model = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=average)
        model.update_parameters(module)
        yield lambda: (model.update_parameters(module), True)[1], []


@extra(*["torch.nn." + n for n in (
    "AlphaDropout", "FeatureAlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ChannelShuffle", "CrossMapLRN2d",
    "Flatten", "Unflatten", "Fold", "Unfold", "Hardsigmoid", "Identity", "PixelShuffle", "PixelUnshuffle", "RReLU", "SyncBatchNorm",
    "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d", "NLLLoss2d", "LazyLinear", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d")])
def layers(torch, name):
    leaf = name.rsplit(".", 1)[1]
    sizes = {"1": (2, 4, 8), "2": (2, 4, 8, 8), "3": (2, 4, 4, 4, 4)}
    size = sizes.get(leaf.rstrip("d")[-1], sizes["2"])
    made = {"ChannelShuffle": [(2,)], "CrossMapLRN2d": [(2,)], "Unflatten": [(1, (2, 2))], "Fold": [((4, 4), 2)], "Unfold": [(2,)],
            "PixelShuffle": [(2,)], "PixelUnshuffle": [(2,)], "UpsamplingNearest2d": [(None, 2)], "UpsamplingBilinear2d": [(None, 2)],
            "LazyLinear": [(3,)], "Upsample": [(None, 2, mode) for mode in ("nearest", "bilinear", "bicubic", "nearest-exact")],
            "SyncBatchNorm": [(4,)]}.get(leaf, [()])
    for arguments in made:
        for training in (True, False):
            if leaf == "SyncBatchNorm" and training:
                continue  # it wants a GPU
            module = getattr(torch.nn, leaf)(*arguments).train(training)
            if leaf == "Fold":
                x = torch.randn(2, 8, 9, requires_grad=True)
            elif leaf == "LazyLinear":
                x = torch.randn(2, 4, requires_grad=True)
            else:
                x = torch.randn(size, requires_grad=True)
            given = (x, torch.randint(0, 4, (2, 8, 8))) if leaf == "NLLLoss2d" else (x,)
            with torch.no_grad():
                module(*given)  # a lazy one takes its sizes
            yield lambda: module(*given), [x] + list(module.parameters())
    if leaf == "Upsample":
        for mode, x in (("linear", torch.randn(2, 4, 8)), ("trilinear", torch.randn(2, 4, 4, 4, 4)), ("nearest", torch.randn(2, 4, 8)),
                        ("nearest", torch.randn(2, 4, 4, 4, 4))):
            x.requires_grad_()
            yield lambda: torch.nn.Upsample(scale_factor=2, mode=mode)(x), [x]


@extra("torch.nn.MaxUnpool1d", "torch.nn.MaxUnpool2d", "torch.nn.MaxUnpool3d")
def unpooling(torch, name):
    n = int(name[-2])
    pool = getattr(torch.nn, "MaxPool%dd" % n)(2, return_indices=True)
    values, indices = pool(torch.randn((2, 3) + (4,) * n))
    values.requires_grad_()
    yield lambda: getattr(torch.nn, name.rsplit(".", 1)[1])(2)(values, indices), [values]


@extra("torch.nn.CosineSimilarity", "torch.nn.PairwiseDistance", "torch.nn.TripletMarginLoss", "torch.nn.TripletMarginWithDistanceLoss")
def distances(torch, name):
    given = [torch.randn(4, 3, requires_grad=True) for _ in range(3 if "Triplet" in name else 2)]
    yield lambda: getattr(torch.nn, name.rsplit(".", 1)[1])()(*given), given


@extra("torch.nn.EmbeddingBag")
def bag(torch, name):
    index, offsets = torch.tensor([0, 2, 1, 2]), torch.tensor([0, 2])
    for mode in ("sum", "mean", "max"):
        module = torch.nn.EmbeddingBag(4, 3, mode=mode)
        yield lambda: module(index, offsets), list(module.parameters())
        yield lambda: module(index.view(2, 2)), list(module.parameters())


@extra("torch.nn.AdaptiveLogSoftmaxWithLoss")
def adaptive_softmax(torch, name):
    module, x = torch.nn.AdaptiveLogSoftmaxWithLoss(6, 8, [3, 5]), torch.randn(9, 6, requires_grad=True)
    yield lambda: module(x, torch.arange(9) % 8).loss, [x] + list(module.parameters())


@extra("torch.nn.TransformerDecoder")
def decoder(torch, name):
    module = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.1), 2)
    x, memory = torch.randn(3, 2, 8, requires_grad=True), torch.randn(4, 2, 8, requires_grad=True)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(3)
    for training in (True, False):
        module.train(training)
        yield lambda: module(x, memory), [x, memory] + list(module.parameters())
        yield lambda: module(x, memory, tgt_mask=mask), [x, memory] + list(module.parameters())


@extra("torch.nn.TransformerEncoder(eval,src_key_padding_mask=)")
def padded(torch, name):
    """In eval with a padding mask: the encoder asks whether the mask is left-aligned before it asks for the device."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module, x = torch.nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 4, 8)
    mask = torch.tensor([[False] * 4, [False, False, True, True]])
    yield lambda: module(x, src_key_padding_mask=mask), []


@extra(*["torch.nn.functional." + n for n in (
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "dropout1d",
    "gumbel_softmax", "fold", "upsample", "relu_", "elu_", "celu_", "selu_", "leaky_relu_", "hardtanh_", "rrelu_", "threshold_")])
def functions(torch, name):
    leaf = name.rsplit(".", 1)[1]
    function = getattr(torch.nn.functional, leaf)
    size = next((size for n, size in (("1d", (2, 4, 8)), ("3d", (2, 4, 5, 5, 5))) if n in leaf), (2, 4, 8, 8))
    leaf_ = torch.randn((2, 8, 9) if leaf == "fold" else size, requires_grad=True)
    arguments = {"gumbel_softmax": [(), (1.0, True)], "fold": [((4, 4), 2)], "upsample": [(None, 2), (None, 2, "bilinear")],
                 "dropout1d": [()], "threshold_": [(0.1, 1.0)], "lp_pool1d": [(2.0, 2)], "lp_pool2d": [(2.0, 2)],
                 "lp_pool3d": [(2.0, 2)], "fractional_max_pool2d_with_indices": [(2, 3)],
                 "fractional_max_pool3d_with_indices": [(2, 3)]}.get(leaf, [()] if leaf.endswith("_") else [(2,)])
    for given in arguments:
        if leaf.endswith("_"):
            yield lambda: function(uncounted(torch, leaf_.clone), *given), [leaf_]
        else:
            yield lambda: function(leaf_, *given), [leaf_]


@extra("torch.Tensor.__truediv__", "torch.Tensor.__rtruediv__", "torch.Tensor.__floordiv__", "torch.Tensor.__rfloordiv__",
       "torch.Tensor.__itruediv__", "torch.Tensor.__ifloordiv__", "torch.Tensor.__pos__", "torch.Tensor.__reversed__",
       "torch.Tensor.__contains__", "torch.Tensor.__iter__", "torch.Tensor.__bool__", "torch.Tensor.__float__",
       "torch.Tensor.__int__", "torch.Tensor.__index__", "torch.Tensor.new_tensor", "torch.Tensor.backward",
       "torch.Tensor.type", "torch.Tensor.__deepcopy__")
def methods(torch, name):
    leaf = name.rsplit(".", 1)[1]
    x = torch.rand(3, 4, requires_grad=True)
    for given in {"__contains__": [(0.5,)], "new_tensor": [([1.0],)], "type": [(torch.float64,)], "__deepcopy__": [({},)]}.get(
            leaf, [(2.0,), (torch.rand(3, 4) + 1,)] if "div" in leaf else [()]):
        if leaf in ("__bool__", "__float__", "__int__", "__index__"):
            number = torch.tensor(1 if leaf == "__index__" else 1.0)
            yield lambda: (getattr(number, leaf)(), True)[1], []
        elif leaf.startswith("__i") and "div" in leaf:
            yield lambda: getattr(uncounted(torch, x.clone), leaf)(*given), [x]
        elif leaf == "__iter__":
            yield lambda: list(x), [x]
        elif leaf == "backward":
            loss = uncounted(torch, lambda: (x * x).sum())
            yield lambda: (loss.backward(), True)[1], []
        else:
            yield lambda: getattr(x, leaf)(*given), [x]


def distribution(torch, kind):
    """A distribution of each kind with parameters that want a gradient, and these."""
    d = torch.distributions
    a, b = (torch.rand(3) + 0.5).requires_grad_(), (torch.rand(3) + 0.5).requires_grad_()
    p = (torch.rand(3) / 2 + 0.2).requires_grad_()
    square = torch.eye(3).requires_grad_()
    made = {
        "Bernoulli": (d.Bernoulli, [p]), "Beta": (d.Beta, [a, b]), "Binomial": (lambda p: d.Binomial(4, p), [p]),
        "Categorical": (d.Categorical, [a]), "Cauchy": (d.Cauchy, [a, b]), "Chi2": (d.Chi2, [a]),
        "ContinuousBernoulli": (d.ContinuousBernoulli, [p]), "Dirichlet": (d.Dirichlet, [a]), "Exponential": (d.Exponential, [a]),
        "FisherSnedecor": (d.FisherSnedecor, [a, b]), "Gamma": (d.Gamma, [a, b]), "Geometric": (d.Geometric, [p]),
        "Gumbel": (d.Gumbel, [a, b]), "HalfCauchy": (d.HalfCauchy, [a]), "HalfNormal": (d.HalfNormal, [a]),
        "InverseGamma": (d.InverseGamma, [a, b]), "Kumaraswamy": (d.Kumaraswamy, [a, b]), "Laplace": (d.Laplace, [a, b]),
        "LKJCholesky": (lambda a: d.LKJCholesky(3, a[0]), [a]), "LogNormal": (d.LogNormal, [a, b]),
        "LogisticNormal": (d.LogisticNormal, [a, b]), "Multinomial": (lambda p: d.Multinomial(4, p), [p]),
        "MultivariateNormal": (d.MultivariateNormal, [a, square]), "NegativeBinomial": (lambda p: d.NegativeBinomial(4, p), [p]),
        "Normal": (d.Normal, [a, b]), "OneHotCategorical": (d.OneHotCategorical, [p]),
        "OneHotCategoricalStraightThrough": (d.OneHotCategoricalStraightThrough, [p]), "Pareto": (d.Pareto, [a, b]),
        "Poisson": (d.Poisson, [a]), "RelaxedBernoulli": (lambda p: d.RelaxedBernoulli(torch.tensor([0.5]), p), [p]),
        "RelaxedOneHotCategorical": (lambda p: d.RelaxedOneHotCategorical(torch.tensor([0.5]), p), [p]),
        "StudentT": (d.StudentT, [a]), "Uniform": (lambda b: d.Uniform(-b, b), [b]), "VonMises": (d.VonMises, [a, b]),
        "Weibull": (d.Weibull, [a, b]), "Wishart": (lambda s: d.Wishart(torch.tensor(4.0), s), [square]),
        "LowRankMultivariateNormal": (lambda a, b: d.LowRankMultivariateNormal(a, torch.eye(3)[:, :1], b), [a, b]),
    }
    make, parameters = made[kind]
    return make(*parameters), parameters


@extra(*["torch.distributions.%s.%s" % (kind, method) for kind in (
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet", "Exponential",
    "FisherSnedecor", "Gamma", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "Laplace",
    "LKJCholesky", "LogNormal", "LogisticNormal", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical",
    "StudentT", "Uniform", "VonMises", "Weibull", "Wishart", "LowRankMultivariateNormal")
    for method in ("sample", "rsample", "log_prob", "entropy")])
def distributions(torch, name):
    _, _, kind, method = name.split(".")
    made, parameters = uncounted(torch, lambda: distribution(torch, kind))
    if method == "rsample" and not made.has_rsample:
        return
    with torch.no_grad():
        value = uncounted(torch, made.sample)
    try:
        uncounted(torch, made.entropy if method == "entropy" else made.sample)
    except NotImplementedError:
        return
    for shape in ((), (2,)):
        call = {"log_prob": lambda: made.log_prob(value), "entropy": lambda: made.entropy()}.get(
            method, lambda: getattr(made, method)(shape))
        yield call, [] if method == "sample" else parameters


# ---- worker and parent -----------------------------------------------------------------------------------------------------

def work(library):
    """Answer job numbers on stdin with JSON lines on what was stdout. library: that alone; a folder: another release's Python."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # samples print
    older = library if library and os.path.isdir(library) else None
    torch, database = import_torch(older)
    library = None if older else library
    reroutes = Reroutes(open(REROUTES).read())
    if library:
        import libraries
        entries = [("extra", call, name) for name, call in libraries.calls(library).items()]
    else:
        entries = jobs(torch, database)
    if older:
        entries = [(kind, entry, name) for kind, entry, name in entries
                   if kind in ("module", "optim", "extra") or kind == "op" and is_python(torch, name)]
        globals()["SAMPLES"] = FEWER
    names = Names(torch)
    import numpy
    answers.write(json.dumps([(kind, name) for kind, _, name in entries]) + "\n")
    answers.write(json.dumps(sorted(names.composed | set(names.shadowed))) + "\n")
    answers.flush()
    import warnings
    warnings.simplefilter("ignore")
    runs = {"op": run_op, "foreach": run_foreach, "module": run_module, "optim": run_optim, "schema": run_schema, "name": run_name}
    for line in sys.stdin:
        kind, entry, name = entries[int(line)]
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        recorder = Recorder(torch, reroutes, replays=not older)
        trouble = None
        with recorder.profile() as profile:
            try:
                if kind == "extra":
                    run_extra(torch, recorder, names, entry, name)
                else:
                    runs[kind](torch, recorder, names, entry)
            except Exception as error:
                trouble = "%s: %s" % (type(error).__name__, (str(error).strip().splitlines() or [""])[0][:160])
        apis, calls = recorder.read(profile, names)
        answers.write(json.dumps({"apis": apis, "calls": calls, "failed": recorder.failed, "trouble": trouble}) + "\n")
        answers.flush()


class Worker:
    """A process that runs jobs."""

    def __init__(self, library):
        env = dict(os.environ, PYTHONHASHSEED="0", KINETO_LOG_LEVEL="99", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker"] + library, env=env, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.entries = json.loads(self.process.stdout.readline())
        self.composed = set(json.loads(self.process.stdout.readline()))

    def run(self, number):
        """The answer to a job, or a string that says why there is none; then the worker is gone."""
        self.process.stdin.write("%d\n" % number)
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], JOB_SECONDS)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        if ready:
            return "its process ended with status %d" % self.process.wait()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        return "no answer within %d s" % JOB_SECONDS


class Reroutes:
    """reroutes.txt: what MPS calls where a CPU calls something else. Its own comment describes it."""

    def __init__(self, text):
        self.calls, self.gradients = {}, {}
        for line in text.splitlines():
            line = line.split("#")[0].strip()
            if not line:
                continue
            fields = [f.strip() for f in line.split("|")]
            name, where, cpu, mps = fields[0], fields[1], fields[2].split(), fields[3].split()
            if where == "forward":
                self.calls.setdefault(name, []).append((cpu, mps))
            elif where == "gradient":
                self.gradients[name] = mps
            elif where != "note":
                raise ValueError("reroutes.txt: what is %r in %r" % (where, line))


def merge(into, counts):
    for key, (n, names) in counts.items():
        entry = into.setdefault(key, [0, {}])
        entry[0] += n
        for name, k in names.items():
            entry[1][name] = entry[1].get(name, 0) + k


def marked(entry):
    """Names with ? on those that only some of the calls reached."""
    n, names = entry
    result = set()
    for name, k in names.items():
        sure = k == n and not name.endswith("?")
        result.add(name if sure else name.rstrip("?") + "?")
    return result


def rerouted(names, rows):
    """What a composed operator calls on MPS, from what it called here and its rows of reroutes.txt."""
    for cpu, mps in rows:
        gone = {n.rstrip("?") for n in list(cpu) + list(mps)}
        names = set() if cpu == ["*"] else {n for n in names if n.rstrip("?") not in gone}
        names |= set(mps)
    return names


def delegates(composed):
    """The overload that the composed kernel of a structured operator calls."""
    import torchgen
    path = os.path.join(os.path.dirname(torchgen.__file__), "packaged", "ATen", "native", "native_functions.yaml")
    found, name = {}, None
    for line in open(path):
        if line.startswith("- func: "):
            name = "aten::" + line[len("- func: "):].split("(")[0]
        elif line.startswith("  structured_delegate: ") and name in composed:
            found[name] = "aten::" + line.split(": ")[1].strip()
    return found


def write(path, lines):
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w") as out:
        out.writelines(line.rstrip() + "\n" for line in lines)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def columns(rows):
    """Rows of cells, all but the last padded to a common width."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return ["  ".join([cell.ljust(width) for cell, width in zip(row, widths)] + [row[-1]]) for row in rows]


def run_all(arguments):
    """What all jobs of a worker answered, added up: (the worker, apis, calls, why an API failed, why an operator)."""
    worker = Worker(arguments)
    entries = worker.entries
    apis, calls, failed, operators = {}, {}, {}, {}
    for number, (kind, name) in enumerate(entries):
        if kind == "schema" and (name in calls or name + " sparse" in calls) or kind == "name" and name + " forward" in apis:
            continue
        answer = worker.run(number)
        why = answer if isinstance(answer, str) else answer["trouble"]
        if why:
            full = name if kind == "schema" or name.startswith("torch.") else "torch." + name
            (operators if kind == "schema" else failed).setdefault(full, why)
            print("trace: %s: %s" % (full, why), file=sys.stderr)
        if isinstance(answer, str):
            worker = Worker(arguments)
            continue
        merge(apis, answer["apis"])
        merge(calls, answer["calls"])
        for api, why in answer["failed"].items():
            failed.setdefault(api, why)
    worker.process.stdin.close()
    worker.process.wait()
    return worker, apis, calls, failed, operators


def earlier(outdir, folder):
    """Write api-earlier.txt: what Python names call with the Python of releases whose files lie in folder/SERIES/torch. It is held
    against a run with this torch's own files, which takes as few samples."""
    import importlib.util
    now = {(row[0], row[1]): row[2:] for row in table("api.txt")}
    order = sorted(os.listdir(folder), key=lambda s: [int(n) for n in s.split(".")])
    site = os.path.dirname(os.path.dirname(importlib.util.find_spec("torch").origin))
    base, failed_now = called(site)
    lines = {}
    for series in order:
        print("trace: with the Python of %s" % series, file=sys.stderr)
        functions = functions_in(os.path.join(folder, series))
        then, failed = called(os.path.join(folder, series))
        for key in then:
            api = key[0]
            if not there(functions, api) or key not in base or key not in now or failed.get(api) != failed_now.get(api) or set(then[key]) == set(base[key]):
                continue
            names = {n.rstrip("?"): n for n in now[key] if n != "-"}
            for gone in set(base[key]) - set(then[key]):
                names.pop(gone, None)
            for new in set(then[key]) - set(base[key]):
                names[new] = then[key][new]
            lines.setdefault(key, []).append((series, " ".join(sorted(names.values())) or "-"))
        write_earlier(outdir, order, lines)


def functions_in(folder):
    """{qualified name: tree} of all functions of a release's files that stand between a Python name and the operators."""
    found = {}
    for root, _, names in os.walk(os.path.join(folder, "torch")):
        for name in names:
            path = os.path.join(root, name)
            if os.path.relpath(path, folder).startswith(PYTHON) and name.endswith(".py"):
                found.update(functions_of(path))
    return found


def there(functions, api):
    """Whether a release has the function, or the class and the argument, that a name has."""
    plain, _, argument = api.rstrip(")").partition("(")
    kind, _, leaf = plain.rpartition(".")
    kind = kind.rpartition(".")[2]
    if argument and plain.endswith(".step"):
        made = functions.get(kind + ".__init__")
        return made is not None and any(a.arg == argument.partition("=")[0] for a in made.args.args + made.args.kwonlyargs)
    return leaf in functions or kind + "." + leaf in functions or any(name.startswith((leaf + ".", kind + ".")) for name in functions)


def called(folder):
    """{(API, direction): {operator: the same, ? behind it where some samples alone reach it}}, and how many samples of each failed."""
    _, apis, _, failed, _ = run_all([folder])
    found = {}
    for key, entry in apis.items():
        found[tuple(key.rsplit(" ", 1))] = {n.rstrip("?"): n for n in marked(entry)}
    return found, {name.split(" ")[0]: why for name, why in failed.items()}


def write_earlier(outdir, order, lines):
    rows = []
    for (api, direction), found in sorted(lines.items()):
        at = 0
        while at < len(found):
            end = at
            while end + 1 < len(found) and found[end + 1][1] == found[at][1] and \
                    order.index(found[end + 1][0]) == order.index(found[end][0]) + 1:
                end += 1
            rows.append((api, direction, found[at][0] + "-" + found[end][0], found[at][1]))
            at = end + 1
    head = [
        "# Python API, forward or backward, releases from and to -> the operators that a call makes, where these releases' own Python calls",
        "# others than that of api.txt. Their files were taken from the wheels, and their functions' code put into torch %s, which ran" % (
            version_of("torch")),
        "# as for api.txt: composed operators and kernels are those of that release. A function that could not be put in, or whose samples",
        "# failed then, has no line. Made by tools/atlas/trace.py.",
    ]
    write(os.path.join(outdir, "api-earlier.txt"), head + columns(rows or [("#", "", "", "")]))


def main():
    if sys.argv[1:2] == ["--worker"]:
        return work(sys.argv[2:] and sys.argv[2])
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-") or sys.argv[2:] not in ([], ["torchvision"], ["torchaudio"]) \
            and not os.path.isdir(sys.argv[-1]):
        sys.exit("usage: python tools/atlas/trace.py OUTDIR [torchvision | torchaudio | FOLDER]")
    if os.path.isdir("".join(sys.argv[2:])):
        return earlier(sys.argv[1], sys.argv[2])
    outdir, library = sys.argv[1], sys.argv[2:]
    reroutes = Reroutes(open(REROUTES).read())
    worker, apis, calls, failed, operators = run_all(library)
    version = " and ".join("%s %s" % (name, version_of(name)) for name in ["torch"] + library)
    rows = []
    for key in sorted(apis):
        api, direction = key.rsplit(" ", 1)
        if not api.startswith("torch.ops."):  # these are operators by name
            rows.append((api, direction, " ".join(sorted(marked(apis[key]))) or "-"))
    lines = rows
    untraced = {}
    for api, why in sorted(failed.items()):
        if api.endswith("(out=)") or api.startswith("torch.ops."):
            continue
        name, _, direction = api.partition(" ")
        if not any(key.startswith(name + " ") for key in apis) or direction and name + " backward" not in apis:
            untraced[api] = why
    head = [
        "# Python API -> the outermost operators that a call makes: those with no other operator above them.",
        "# ? marks operators that only some of the traced samples reached; - says that there were none.",
        "# A call with arguments in brackets is that call alone: torch.optim.Adam.step(fused=True), torch.add(out=).",
        "# What composed operators call in turn: calls.txt. Method and samples: tools/atlas/trace.py, which makes this file.",
        "# Traced with %s for Linux on a CPU; reroutes.txt is applied, so that operators are those of MPS." % version,
    ]
    tail = ["# not traced: %s: %s" % (api, untraced[api]) for api in sorted(untraced)]
    write(os.path.join(outdir, "-".join(["api"] + library) + ".txt"), head + columns(rows) + tail)
    if library:
        return

    # What an operator does with sparse tensors is told only of those that are never given others.
    for key in [key for key in calls if key.endswith(" sparse")]:
        calls.setdefault(key[:-len(" sparse")], calls.pop(key))
    for name, out in delegates(worker.composed).items():
        calls.setdefault(name, [1, {out: 1}])
    rows = []
    for name in sorted(set(calls) | set(reroutes.calls)):
        names = rerouted(marked(calls.get(name, [0, {}])), reroutes.calls.get(name, []))
        rows.append((name, " ".join(sorted(names)) or "-"))
    head = [
        "# Composed operator -> the operators that it calls directly, as traced.",
        "# ? marks those that only some of the traced calls reached; - says that it called none. Calls with sparse tensors are left out",
        "# where there were others.",
        "# Where the CPU has a kernel of its own and MPS may not, this is what the composed kernel calls; that of a structured",
        "# operator which no sample reached calls its structured_delegate, as native_functions.yaml says.",
        "# Traced with %s for Linux on a CPU by tools/atlas/trace.py; reroutes.txt is applied." % version,
    ]
    left = sorted(set(operators) - {row[0] for row in rows})
    tail = ["# not traced: %s: %s" % (name, operators[name]) for name in left]
    write(os.path.join(outdir, "calls.txt"), head + columns(rows) + tail)
    directions = collections.Counter(row[1] for row in lines)
    print("trace: %d APIs with %d forward and %d backward lines, %d composed operators. Not traced: %d APIs, %d operators" % (
        len({row[0] for row in lines}), directions["forward"], directions["backward"], len(rows), len(untraced), len(left)),
        file=sys.stderr)


def version_of(package):
    import importlib.metadata
    return importlib.metadata.version(package)


if __name__ == "__main__":
    main()
