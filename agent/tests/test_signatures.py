"""The recorder of signatures in unmodified scripts, against an independent logger of the same calls, and against runs without it."""

import json

import pytest

pytest.importorskip("torch")

TRAINING = """
    import torch
    from torch import nn
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(144, 3))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    def train(steps):
        for step in range(steps):
            x, y = torch.randn(2, 3, 8, 8), torch.randint(0, 3, (2,))
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item().hex())
        print(sum(p.sum().item() for p in model.parameters()).hex(), torch.rand(1).item().hex())
"""


@pytest.fixture
def record(watch):
    """record(code, **settings): Watched, whose signatures are the rows with their last counts."""

    def run(code, **settings):
        seen = watch(code, signatures=True, **settings)
        assert seen.all("trouble") == []
        seen.signatures = [e["s"] for e in seen.all("signature")]
        for event in seen.all("signatures"):
            for number, count in event["counts"]:
                seen.signatures[number]["count"] = count
        seen.last = seen.all("signatures")[-1]
        return seen

    return run


def named(seen, op):
    return [s for s in seen.signatures if s["op"] == "aten::" + op]


def test_a_training_computes_the_same(record, watch):
    seen, bare = record(TRAINING + "    train(12)\n"), watch(TRAINING + "    train(12)\n")
    assert seen.printed == bare.printed and len(seen.printed) == 13
    phases = {s["op"]: s["phase"] for s in seen.signatures}
    assert phases["aten::convolution"] == "forward" and phases["aten::convolution_backward"] == "backward"
    assert phases["aten::addcdiv_"] == "update" if "aten::addcdiv_" in phases else phases["aten::_foreach_addcdiv_"] == "update"
    (convolution,) = named(seen, "convolution")
    x, weight = convolution["args"][0]["t"], convolution["args"][1]["t"]
    assert (x["shape"], x["stride"], x["storage"], x["dtype"]) == ([2, 3, 8, 8], [192, 64, 8, 1], 384, "float32")
    assert weight["grad"] and x["values"] == "floats" and x["range"][0] < -1 < 1 < x["range"][1]
    assert convolution["out"][0]["shape"] == [2, 4, 6, 6]
    assert seen.last["why"] == "" and seen.last["steps"] == 12 and 3 <= seen.last["looked"] <= 12
    assert seen.last["seen"] == sum(s["count"] for s in seen.signatures)


LOGGER = """
    import json
    from torch.utils._python_dispatch import TorchDispatchMode
    called = []
    class Logger(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            flat = torch.utils._pytree.tree_leaves((args, kwargs))
            called.append((func._schema.name, func._schema.overload_name,
                           [list(t.shape) for t in flat if isinstance(t, torch.Tensor)],
                           [list(t.stride()) for t in flat if isinstance(t, torch.Tensor)]))
            return func(*args, **(kwargs or {}))
"""


def shapes(value, found):
    if isinstance(value, dict) and "t" in value:
        found.append((value["t"]["shape"], value["t"]["stride"]))
    elif isinstance(value, dict) and "l" in value:
        for item in value["l"]:
            shapes(item, found)
    return found


@pytest.mark.full_set
def test_all_calls_of_an_independent_logger(record):
    """The logger is a mode of the script's own, above the recorder's: each call that it sees goes on to it."""
    seen = record(TRAINING + LOGGER + """
    del called[:]
    with Logger():
        x, y = torch.randn(2, 3, 8, 8), torch.randint(0, 3, (2,))
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch.stack([x, x[:, :, ::2].repeat(1, 1, 2, 1)]).sum((0, 1))
    print(json.dumps(called))
    """)
    theirs = {json.dumps([op, overload, sh, st]) for op, overload, sh, st in json.loads(seen.printed[-1]) if not op.startswith("profiler::")}
    ours = set()
    for s in seen.signatures:
        found = []
        for v in [*s["args"], *s["kwargs"].values()]:
            shapes(v, found)
        ours.add(json.dumps([s["op"], s["overload"], [sh for sh, _ in found], [st for _, st in found]]))
    assert theirs - ours == set() and len(theirs) > 30


@pytest.mark.full_set
def test_the_profiler_saw_the_same(record):
    """PyTorch's own account of a step: each operator that it has below autograd with those shapes is a signature."""
    seen = record(TRAINING + """
    import json
    from torch.profiler import profile, ProfilerActivity
    x, y = torch.randn(2, 3, 8, 8), torch.randint(0, 3, (2,))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        nn.functional.cross_entropy(model(x), y).backward()
    print(json.dumps([[e.name, e.input_shapes] for e in p.events() if e.name.startswith("aten::")]))
    """)
    ours = {(s["op"], json.dumps([v["t"]["shape"] if isinstance(v, dict) and "t" in v else [] for v in s["args"]])) for s in seen.signatures}
    theirs = {(name, json.dumps(sh[: next((i for i, s in enumerate(sh) if not s), len(sh))])) for name, sh in json.loads(seen.printed[-1])}
    ops = {"aten::convolution", "aten::convolution_backward", "aten::native_batch_norm", "aten::native_batch_norm_backward", "aten::addmm", "aten::mm",
           "aten::_log_softmax", "aten::nll_loss_forward", "aten::nll_loss_backward", "aten::threshold_backward"}
    seen_by = {name: {sh for n, sh in theirs if n == name} for name in ops}
    for name in ops:
        for sh in seen_by[name]:
            assert any(n == name and json.loads(o)[: len(json.loads(sh))] == json.loads(sh) for n, o in ours), (name, sh)
    assert sum(map(bool, seen_by.values())) >= 8


def test_no_data_of_the_script(record):
    """Secrets in tensors, names, texts and objects: none is in what is sent, in whatever form."""
    seen = record("""
    import torch
    class Hunter2(torch.nn.Module):
        def forward(self, swordfish):
            return swordfish * 2
    secret = torch.tensor([8675309867, 8675309868]), torch.tensor([3.14159265, 2.71828182]), torch.tensor([ord(c) for c in "swordfish"])
    library = torch.library.Library("mine", "DEF")
    library.define("keep(Tensor x, str name, int[] places) -> Tensor")
    library.impl("keep", lambda x, name, places: x + 1, "CPU")
    for t in secret:
        Hunter2()(t)
        torch.ops.mine.keep(t, "hunter2", [1, 2])
    torch.tensor(4111111111111111) + 0
    torch.einsum("ij,jk->ik", torch.ones(2, 2), torch.ones(2, 2))
    torch.div(torch.ones(2), 3, rounding_mode="floor")
    """)
    text = json.dumps([e for e in seen.events if e["ev"].startswith("signature")])
    for word in ("8675309", "86753098", "3.1415", "2.718", "swordfish", "Hunter2", "hunter2", "411111", "script.py"):
        assert word not in text, word
    assert {a if isinstance(a, str) else a.get("symbol") for s in seen.signatures if s["op"] == "mine::keep" for a in s["args"][1:2]} == {
        "a text of the script's own"
    }
    assert [s["kwargs"] for s in named(seen, "div") if s["overload"] in ("Tensor_mode", "Scalar_mode")] == [{"rounding_mode": "floor"}]
    assert seen.last["why"] == ""


def test_what_the_script_sees_of_it(record, watch):
    """Warnings at the script's own lines, errors with the script's own frames, a loop's random numbers, the stack of modes."""
    code = """
    import traceback, warnings, threading, torch
    warnings.simplefilter("always")
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
    def fail(*a):
        try:
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        except RuntimeError:
            traceback.print_exc(file=__import__("sys").stdout)
    fail()
    with warnings.catch_warnings(record=True) as told:
        torch.ones(3, requires_grad=True).sum().backward()
        out = torch.empty(2)
        torch.add(torch.ones(3), 1, out=out)
        torch.ones(2, 3).to_sparse_csr()
    for w in told:
        print(w.filename, w.lineno, w.category.__name__)
    class Own(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            print(func)
            return func(*args, **(kwargs or {}))
    with Own():
        torch.ones(2) + 1
    with torch.inference_mode():
        print(torch.nn.functional.linear(torch.ones(1, 2), torch.ones(2, 2), torch.ones(2)))
        fail()
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    x = torch.ones(3, requires_grad=True)
    def hook(grad):
        raise ValueError("a hook of the script's")
    x.register_hook(hook)
    try:
        (x * 2).sum().backward()
    except ValueError:
        traceback.print_exc(file=__import__("sys").stdout)
    print(torch.func.vmap(torch.func.grad(lambda v: (v * v).sum()))(torch.arange(6.).reshape(2, 3)))
    print(torch.rand(1).shape, torch.initial_seed() is not None)
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        print(torch.nn.Linear(7, 11)(torch.ones(5, 7)).shape)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    print((nested + 1).size(0), torch.ones(2, 2).to_sparse().sum())
    """
    seen, bare = record(code), watch(code)
    assert seen.printed == bare.printed and "ValueError: a hook of the script's" in seen.printed
    assert any("script.py" in line and line.endswith("UserWarning") for line in bare.printed)
    (error,) = [s for s in named(seen, "mm") if s["args"][1]["t"]["shape"] == [2, 3]]
    assert error["out"] == [] and error["count"] >= 3  # in inference mode and in a thread as well
    assert not any(v["t"]["shape"] == [5, 7] for s in seen.signatures for v in s["args"] if isinstance(v, dict) and "t" in v)
    assert {"sparse_coo", "nested"} <= {v["t"]["layout"] for s in seen.signatures for v in s["args"] if isinstance(v, dict) and "t" in v}
    assert named(seen, "addmm")  # of linear in inference mode
    assert seen.last["why"] == ""


@pytest.mark.full_set
def test_compiled_as_without_us(record, watch):
    code = """
    import torch
    torch.manual_seed(1)
    graphs = []
    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 1))
    compiled = torch.compile(model, backend=backend)
    for _ in range(3):
        print(compiled(torch.ones(2, 4)).sum().item().hex())
    print(len(graphs))
    """
    seen, bare = record(code), watch(code)
    assert seen.printed == bare.printed and seen.printed[-1] == "1"


@pytest.mark.full_set
def test_numbers_that_change_are_one_signature(record):
    """Each step's own numbers, and each row's own place, come to a few signatures; the calls are counted all the same."""
    seen = record("""
    import torch
    table = torch.randn(100, 4)
    for i in range(100):
        table[i] * (0.5 + i)
    """)
    assert len(named(seen, "mul")) == 8 and sum(s["count"] for s in named(seen, "mul")) == 100
    assert len(named(seen, "select")) == 8 and seen.last["alike"] == 2 * 92
    assert seen.last["seen"] == sum(s["count"] for s in seen.signatures)


def test_aliases_and_places(record):
    seen = record("""
    import torch
    x = torch.arange(12).reshape(3, 4)
    torch.add(x[1:], x[:2], alpha=3)
    torch.cat([x, x.t().contiguous().t(), x])
    torch.where(x > 5, x, torch.tensor(0))
    torch.empty(3).uniform_()
    class Own(torch.Generator): pass  # as the double's
    torch.randperm(4, generator=Own())
    """)
    assert named(seen, "randperm")[0]["kwargs"]["generator"] == {"generator": True}
    (add,) = [s for s in named(seen, "add") if s["kwargs"] == {"alpha": 3}]
    assert add["alias"] == [[0, 1]] and add["args"][0]["t"]["offset"] == 4 and add["args"][0]["t"]["storage"] == 12
    assert (add["args"][0]["t"]["range"], add["args"][1]["t"]["range"]) == ([4, 11], [0, 7])
    (cat,) = named(seen, "cat")
    assert [v["t"]["stride"] for v in cat["args"][0]["l"]] == [[4, 1], [1, 3], [4, 1]] and cat["alias"] == [[0, 2]]
    (where,) = named(seen, "where")
    (fill,) = named(seen, "uniform_")
    assert (fill["args"][0]["t"]["values"], fill["args"][0]["t"]["range"]) == ("unknown", None)
    assert where["args"][0]["t"]["values"] == "bools" and where["args"][2]["t"]["values"] == "zero"


def test_a_failure_of_ours_ends_the_recording_alone(record, watch):
    code = """
    import sys, torch
    recorder = sys.modules.get("assay_agent.signatures.record")
    if recorder:
        def broken(*a):
            raise KeyError("ours")
        recorder._key = broken
    print((torch.ones(3) * 2).sum().item())
    """
    seen, bare = record(code), watch(code)
    assert seen.printed == bare.printed == ["6.0"]
    assert "the recorder failed: KeyError('ours')" in seen.last["why"]


@pytest.mark.full_set
def test_bounded(record):
    seen = record("""
    import sys, torch
    recorder = sys.modules["assay_agent.signatures.record"]
    recorder.MOST = 20
    for n in range(100):
        torch.ones(n)
    print("done")
    """)
    assert seen.printed == ["done"] and len(seen.signatures) == 20 and seen.last["why"] == "more than 20 signatures"


@pytest.mark.full_set
def test_processes_of_the_run(record):
    """A loader's workers are left out, forked or spawned; a forked child that trains is recorded."""
    seen = record("""
    import os, torch
    from torch.utils.data import DataLoader, TensorDataset
    class Rows(torch.utils.data.Dataset):
        def __len__(self): return 4
        def __getitem__(self, i): return torch.full((7, 3), i).flip(0)
    for batch in DataLoader(Rows(), batch_size=2, num_workers=1):
        batch.neg()
    child = os.fork()
    if not child:
        model = torch.nn.Linear(5, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            model(torch.ones(3, 5)).sum().backward()
            optimizer.step()
        os._exit(0)
    os.waitpid(child, 0)
    """)
    assert named(seen, "neg") and not named(seen, "flip")
    assert [s["args"][1]["t"]["shape"] for s in named(seen, "addmm")][:1] == [[3, 5]]
