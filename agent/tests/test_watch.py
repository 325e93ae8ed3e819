"""PyTorch's hooks on scripts that train: what they say against what the script itself counted and printed."""

import json
import math
from types import SimpleNamespace

import pytest

TRAIN = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(80, 4), torch.randint(0, 3, (80,)))
    loader = DataLoader(data, batch_size=8)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def train(epochs, device="cpu", model=model):
        for _ in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()
                print(loss.item())
"""


def line_of(code, text):
    """The number of the line of a watched script that holds a text: watch() puts one line before the code."""
    return next(n for n, line in enumerate(code.strip("\n").splitlines(), 2) if text in line)


def test_a_plain_loop(watch):
    code = TRAIN + "    train(3)\n"
    seen = watch(code)
    assert seen.all("trouble") == []
    assert [row["name"] for row in seen.one("phases")["rows"]] == [
        "data",
        "h2d",
        "forward",
        "backward",
        "optimizer",
        "rest",
    ]
    assert seen.column("number") == list(range(1, 31)) and seen.column("epoch") == [1] * 10 + [2] * 10 + [3] * 10
    phases = [seen.column(name) for name in ("data", "h2d", "forward", "backward", "optimizer", "rest")]
    assert [sum(parts) for parts in zip(*phases)] == seen.column("total")
    for name in ("data", "forward", "backward", "optimizer"):
        assert min(seen.column(name)) > 0, name
    assert set(seen.column("h2d")) == {0} and set(seen.column("kind")) <= {"", "trace"}
    assert set(seen.column("micro")) == {1} and set(seen.column("opts")) == {1} and set(seen.column("evals")) == {0}
    # Every loss, as the script printed it.
    losses = [(s, v) for e in seen.all("loss") for s, v in zip(e["step"], e["value"])]
    assert [s for s, _ in losses] == seen.column("number")
    assert [repr(v) for _, v in losses] == seen.printed
    gradients = [(s, f) for e in seen.all("gradients") for s, f in zip(e["step"], e["finite"])]
    assert gradients == [(1, True), (20, True)]
    loader = seen.one("loader")
    assert (loader["batch"], loader["length"], loader["batches"], loader["workers"]) == (8, 80, 10, 0)
    assert loader["loader"].endswith(".DataLoader") and loader["dataset"].endswith(".TensorDataset")
    assert seen.one("device")["type"] == "cpu"
    shapes = {(e["model"], e["inputs"], e["first"]) for e in seen.all("shape")}
    assert shapes == {("Sequential", "float32[8, 4] on cpu", 1)} and seen.all("shape")[-1]["calls"] == 30
    item = seen.all("syncs")[-1]["rows"]
    where = "%s:%d" % (seen.folder / "script.py", line_of(code, "loss.item()"))
    assert [(call, user, n, waits, inside) for call, user, _, n, _, waits, inside in item] == [
        ("item", where, 30, False, 30)
    ]
    assert [(e["number"], e["step"]) for e in seen.all("epoch")] == [(1, 10), (2, 20), (3, 30)]
    assert all(e["resident"] > 1 << 20 and e["live"] == -1 for e in seen.all("epoch"))
    memory = {name: rows for e in seen.all("memory") for name, rows in e["phases"].items()}
    assert set(memory) == {"data", "forward", "backward", "optimizer"}, "of step 20"
    assert seen.one("bye")["how"] in ("exit", "os._exit")
    assert seen.events[0]["ev"] == "hello"


def test_the_framework_names_itself(watch):
    seen = watch("import torch\nprint(torch.__version__, torch.__file__)")
    framework = seen.one("framework")
    assert [" ".join((framework["version"], framework["file"]))] == seen.printed
    assert framework["name"] == "torch" and framework["mps_built"] is False and framework["threads"] >= 1
    assert seen.one("installed")["ns"] > 0 and seen.all("steps") == []
    assert len(seen.one("phases")["rows"]) == 6, "told to a reader of a run without steps as well"


def test_several_batches_for_one_step(watch):
    seen = watch(
        TRAIN
        + """
    for n, (x, y) in enumerate(loader, 1):
        (nn.functional.cross_entropy(model(x), y) / 2).backward()
        if n % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    )
    assert seen.column("micro") == [2] * 5
    assert seen.all("accumulation")[-1]["grounds"] == {"divided by 2": 5}


def test_several_batches_and_no_division(watch):
    seen = watch(
        TRAIN
        + """
    for n, (x, y) in enumerate(loader, 1):
        nn.functional.cross_entropy(model(x), y).backward()
        if n % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    )
    assert seen.all("accumulation")[-1]["grounds"] == {"no division among the last operations": 5}


def test_a_closure(watch):
    seen = watch(
        TRAIN
        + """
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    for x, y in loader:
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss
        optimizer.step(closure)
    """
    )
    assert len(seen.column("number")) == 10 and set(seen.column("evals")) == {3} and min(seen.column("optimizer")) > 0


def test_what_is_not_training(watch):
    seen = watch(
        TRAIN
        + """
    train(1)
    with torch.no_grad():
        for x, y in loader:
            model(x)
    train(1)
    print(len(list(loader)))
    """
    )
    assert seen.column("epoch") == [1] * 10 + [2] * 10
    assert [n for n, outside in zip(seen.column("number"), seen.column("outside")) if outside] == [1, 11], (
        "before the first step, and the evaluation"
    )


def test_losses_that_are_not_finite(watch):
    seen = watch(
        TRAIN
        + """
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y) * float("nan")
        loss.backward()
        optimizer.step()
    """
    )
    assert {v for e in seen.all("loss") for v in e["value"]} == {"nan"}
    assert [f for e in seen.all("gradients") for f in e["finite"]] == [False]


def test_a_scaler_that_skips(watch):
    seen = watch(
        TRAIN
        + """
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for n, (x, y) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        print(loss.item())
        scaler.scale(loss if n != 3 else loss * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
    """
    )
    assert [e["step"] for e in seen.all("skipped")] == [3] and seen.all("scaler") == [{"ev": "scaler"}]
    assert seen.column("number") == list(range(1, 11))
    losses = [v for e in seen.all("loss") for v in e["value"]]
    assert [repr(v) for v in losses[:2]] == seen.printed[:2], "unscaled"


def test_retained_tensors_and_graph(watch):
    code = (
        TRAIN
        + """
    kept, total = [], 0.0
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x)
            kept.append(out.detach() + 1)
            loss = nn.functional.cross_entropy(out, y)
            total = total + loss
            loss.backward()
            optimizer.step()
    """
    )
    seen = watch(code)
    assert set(seen.column("kind")) == {"", "trace"}
    alive = {e["epoch"]: e for e in seen.all("alive")}
    lines = {line for line, _, _ in alive[2]["retained"]}
    assert "%s:%d" % (seen.folder / "script.py", line_of(code, "kept.append")) in lines
    assert alive[2]["steps"] == 2 and alive[3]["tensors"] > alive[2]["tensors"]
    graph = alive[3]["graph"]
    assert graph["name"].startswith("total, in ") and graph["additions"] >= 28


def test_the_profilers_window(watch):
    seen = watch(TRAIN + "    train(7)\n", profile="auto")
    profile = seen.one("profile")
    assert (profile["first"], profile["last"], profile["why"]) == (11, 60, "")
    assert [n for n, kind in zip(seen.column("number"), seen.column("kind")) if kind == "profile"] == list(
        range(11, 61)
    )
    with open(seen.folder / profile["file"]) as f:
        names = {e.get("name") for e in json.load(f)["traceEvents"]}
    assert "aten::addmm" in names or "aten::linear" in names


@pytest.mark.full_set
def test_no_window_where_the_script_profiles(watch):
    seen = watch(
        TRAIN
        + """
    from torch.autograd import profiler
    train(1)
    with profiler.profile() as profile:
        train(1)
    print(sum(e.key == "aten::linear" for e in profile.key_averages()))
    """,
        profile="auto",
    )
    profile = seen.one("profile")
    assert (profile["first"], profile["why"]) == (11, "the script started a profiler of its own") and seen.printed[
        -1
    ] == "1"
    seen = watch(
        TRAIN
        + """
    train(2)  # torch.profiler
    """,
        profile="auto",
    )
    assert "the script names torch.profiler" in seen.one("profile")["missing"] and "profile" not in seen.column("kind")


@pytest.mark.parametrize("side", ["data", "forward"])
def test_one_side_alone(watch, side):
    seen = watch(
        TRAIN
        + """
    try:
        train(20)
    except SystemExit as end:
        print("ended", end.code)
    """,
        only=side,
    )
    only = seen.one("only")
    assert only["what"] == side and only["after"] == 11 and len(only["ns"]) >= 5 and min(only["ns"]) > 0
    assert seen.printed[-1] == "ended 0" and "--only " + side in seen.one("stopping")["why"]


def test_as_many_steps_as_asked(watch):
    seen = watch(
        TRAIN
        + """
    try:
        train(2)
    finally:
        print("cleaned up")
    """.replace("finally:", "except SystemExit as end:\n        print(end.code)\n    finally:"),
        steps=4,
    )
    assert seen.column("number") == [1, 2, 3, 4] and seen.printed[-2:] == ["0", "cleaned up"]


def test_a_warning_of_a_fallback(watch):
    code = """
    import warnings
    text = "The operator 'aten::foo' is not currently supported on the MPS backend"
    warnings.warn(text + " and will fall back to run on the CPU.")
    warnings.warn("something else")
    """
    seen = watch(code)
    fallback = seen.one("fallback")
    assert (fallback["operator"], fallback["where"]) == ("aten::foo", "%s:4" % (seen.folder / "script.py",))


def test_a_variable_that_is_set_too_late(watch):
    seen = watch("import os\nos.environ['PYTORCH_ENABLE_MPS_FALLBACK'] = '1'")
    assert seen.one("late") == {"ev": "late", "name": "PYTORCH_ENABLE_MPS_FALLBACK", "then": "", "now": "1"}
    assert watch("pass").all("late") == []


def test_a_forked_child_tells_its_own(watch):
    seen = watch(
        TRAIN
        + """
    import os
    train(1)
    if os.fork() == 0:
        train(1)
        os._exit(0)
    os.wait()
    """
    )
    hellos = seen.all("hello")
    assert len(hellos) == 2 and hellos[0]["token"] != hellos[1]["token"]
    assert len(seen.all("phases")) == 2, "the child's reader has to know them as well"
    assert sorted(seen.column("number")) == sorted(list(range(1, 11)) * 2)


@pytest.mark.full_set
def test_a_compiled_model(watch):
    seen = watch(
        TRAIN
        + """
    train(1, model=torch.compile(model, backend="eager"))
    """
    )
    assert len(seen.all("compile")) == 1 and len(seen.column("number")) == 10
    assert min(seen.column("forward")) > 0 and seen.all("trouble") == []


def test_an_asynchronous_device(watch, double_settings):
    """The stand-in for MPS is waited for as a device is: one step in twenty has its phases synchronised, and its
    allocator is read."""
    seen = watch(
        TRAIN
        + """
    model.to("mps")
    train(4, "mps")
    """,
        double=double_settings(),
    )
    assert seen.one("double")["chip"] == "m1-16gb"
    assert seen.one("device")["type"] == "mps"
    kinds = dict(zip(seen.column("number"), seen.column("kind")))
    assert [n for n, kind in kinds.items() if kind == "sync"] == [20, 40]
    assert min(seen.column("h2d")) > 0, "x and y are copied in every step"
    memory = {}
    for e in seen.all("memory"):
        for name, rows in e["phases"].items():
            memory.setdefault(name, []).extend(rows)
    assert {name: len(rows) for name, rows in memory.items()} == {
        "data": 2,
        "h2d": 4,
        "forward": 2,
        "backward": 2,
        "optimizer": 2,
    }
    assert all(
        live > 0 and pool >= live and resident > 0 for rows in memory.values() for live, pool, resident, _ in rows
    )
    assert max(seen.column("live")) > 0 and seen.all("epoch")[-1]["live"] > 0
    losses = [v for e in seen.all("loss") for v in e["value"]]
    assert [repr(v) for v in losses] == seen.printed and all(map(math.isfinite, losses))
    waits = {call for call, _, _, _, _, waiting, _ in seen.all("syncs")[-1]["rows"] if waiting}
    assert "item" in waits


def test_what_it_costs(watch):
    seen = watch(TRAIN + "    train(2)\n")
    cost = seen.all("cost")[-1]
    assert (
        cost["steps"] == 20
        and cost["counts"]["step"] == 20
        and cost["counts"]["backward"] == 20
        and cost["counts"]["optimizer"] == 20
    )
    assert cost["counts"]["fetch"] == 24, "two passes of ten batches: the start of each, and its end"
    assert cost["hooks_ns"] >= sum(cost["per_call"][name] * n for name, n in cost["counts"].items()) * 0.9
    assert all(0 < ns < 1e6 for ns in cost["per_call"].values())


def test_where_the_data_lies(watch, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"x")
    seen = watch(
        """
    import torch
    from torch.utils.data import DataLoader, Dataset, Subset
    class Files(Dataset):
        def __init__(self, root):
            self.root, self.samples = root, [(root + "/a.bin", 0)]
        def __getitem__(self, i):
            return torch.zeros(1)
    class Counted(Files):
        def __len__(self):
            return len(self.samples)
    class Told(Files):
        def __len__(self):
            print("counted by the script")
            return 4
    for _ in DataLoader(Subset(Files(%r), [0, 1]), batch_size=1):
        pass
    for kind in Counted, Told:
        for _ in DataLoader(kind("x"), batch_size=1, sampler=[0]):
            pass
    """
        % (str(tmp_path),)
    )
    subset, counted, told = seen.all("loader")
    assert subset["paths"] == [str(tmp_path), str(tmp_path) + "/a.bin"] and subset["length"] == 2
    assert counted["length"] == 1 and counted["batches"] == 1
    assert told["length"] is None and seen.printed == [], "a __len__ that does more than count is not asked"


def test_a_thread_that_reads_a_loader_is_not_the_loop(watch):
    seen = watch(
        TRAIN
        + """
    import threading
    train(1)
    reader = threading.Thread(target=lambda: print(len(list(loader))))
    reader.start()
    reader.join()
    train(1)
    """
    )
    assert "10" in seen.printed and seen.all("cost")[-1]["counts"]["fetch"] == 24
    assert seen.column("epoch") == [1] * 10 + [2] * 10


def test_an_epoch_is_over_when_the_next_pass_begins(watch):
    """A loop that leaves its last batch unused, and then evaluates: what the evaluation does is not the epoch's."""
    seen = watch(
        TRAIN
        + """
    kept = []
    def epoch():
        before = None
        for batch in loader:
            if before is not None:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(before[0]), before[1]).backward()
                optimizer.step()
            before = batch
    epoch()
    with torch.no_grad():
        for x, y in loader:
            kept.append(bytearray(8 << 20))
    epoch()
    """
    )
    first, second = seen.all("epoch")
    assert first["step"] == 9 and second["step"] == 18
    assert second["resident"] - first["resident"] > 60 << 20


def test_many_losses_wait_on_the_device_and_are_read_when_the_script_waits(watch, double_settings):
    """On a device, losses are kept until the script waits for it, at most 512 of them; one that is changed in place
    meanwhile is none."""
    seen = watch(
        TRAIN
        + """
    from assay_agent.watch.torch import numerics
    numerics.observed = lambda: False
    numerics._on_double = False  # as on a Mac: what lies on the device cannot be read without waiting
    model.to("mps")
    fetches = []
    fetch = numerics.fetch
    numerics.fetch = lambda: (fetches.append(len(numerics._waiting)), fetch())[1]
    def many(steps):
        for n in range(steps):
            loss = model(torch.ones(1, 4, device="mps")).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if n == 3:
                with torch.no_grad():
                    loss.add_(1)
    many(19)
    print(len(numerics._waiting))
    torch.ones((), device="mps").item()
    print(len(numerics._waiting))
    many(80)
    """,
        double=double_settings(),
    )
    assert seen.printed == ["19", "19"], "for a few it is not worth it"
    told = sum(len(e["step"]) for e in seen.all("loss")), sum(e["count"] for e in seen.all("loss_unread"))
    assert told[1] == 2 and told[0] >= 70, told


def test_gradients_are_the_agents_own_work(watch):
    """The look at the gradients is in no phase: what it takes is told as the agent's."""
    seen = watch(
        TRAIN
        + """
    import time
    from assay_agent.watch.torch import numerics
    norm = torch._foreach_norm
    def slow(grads):
        time.sleep(0.5)
        return norm(grads)
    torch._foreach_norm = slow
    train(1)
    """
    )
    assert max(seen.column("total")) < 0.4e9 and seen.all("cost")[-1]["heavy_ns"] > 0.5e9


def test_calls_inside_a_module_are_part_of_it(watch):
    seen = watch(TRAIN + "    train(1)\n")
    assert seen.all("cost")[-1]["counts"]["module"] == 10, "the outermost call alone"


def test_which_model_is_looked_at(watch):
    """Of calls the first 64 and then every 16th; a loss is no model."""
    seen = watch(
        TRAIN
        + """
    class Loss(nn.Module):
        def forward(self, x, y):
            return nn.functional.cross_entropy(x, y)
    criterion = Loss()
    for _ in range(4):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    """
    )
    assert {e["model"] for e in seen.all("shape")} == {"Sequential"}
    assert seen.all("shape")[-1]["calls"] == 32, "of the first 64 calls, of both; then one of the sixteenth, the loss's"


def test_a_division_further_back(watch):
    seen = watch(
        TRAIN
        + """
    for n, (x, y) in enumerate(loader, 1):
        ((nn.functional.cross_entropy(model(x), y) / 2).exp().log()).backward()
        if n % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    )
    assert seen.all("accumulation")[-1]["grounds"] == {"divided by 2": 5}


def test_where_a_call_would_wait(watch):
    """Within a step, before its optimizer too; not in PyTorch's own bookkeeping."""
    code = (
        TRAIN
        + """
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        float(loss)
        optimizer.step()
    torch.ones(()).item()
    loss.detach().cpu()
    """
    )
    seen = watch(code)
    rows = {}
    for e in seen.all("syncs"):  # totals so far, of the places that were called again
        rows.update({(call, user.rpartition(":")[2]): (n, inside) for call, user, _, n, _, _, inside in e["rows"]})
    assert rows == {
        ("float(tensor)", str(line_of(code, "float(loss)"))): (10, 10),
        ("item", str(line_of(code, "torch.ones(())"))): (1, 0),
    }


def test_a_graph_that_is_no_chain_of_its_own(watch):
    seen = watch(TRAIN + "    train(2)\n")
    assert all(e["graph"] is None for e in seen.all("alive"))


def test_a_warning_of_another_detour(watch):
    code = """
    import warnings
    warnings.warn("linalg: the kernel is missing, falling back to the CPU. It is slow")
    """
    seen = watch(code)
    assert seen.one("fallback")["operator"].startswith("linalg")


TOGGLE = """
    import torch
    from assay_agent.watch import blocks
    from assay_agent.timeline import T
    Module, Tensor = torch.nn.Module, torch.Tensor
    def stands():
        inherited = [name for name in ("item", "tolist", "cpu", "numpy") if name in Tensor.__dict__]
        return Module.__call__ is Module._wrapped_call_impl, Module.__call__.__closure__ is not None, len(inherited)
    """


def test_hooks_that_are_off_are_gone(watch):
    seen = watch(
        TOGGLE
        + """
    print(*stands())
    before = Tensor.item, Tensor.cpu
    blocks.switch(False); T.bare = True
    print(*stands(), Tensor.item is before[0], Tensor.cpu is before[1], Tensor.item.__objclass__.__name__)
    x = torch.nn.Linear(2, 1)(torch.ones(2)).item()
    blocks.switch(True); T.bare = False
    print(*stands())
    blocks.switch(False); blocks.switch(False); blocks.switch(True); blocks.switch(True)
    print(*stands())
    """
    )
    assert seen.printed == [
        "True True 4",
        "True False 0 True True TensorBase",
        "True True 4",
        "True True 4",
    ]
    assert seen.all("trouble") == []


def test_what_the_script_puts_there_stays(watch):
    seen = watch(
        TOGGLE
        + """
    def theirs(self, *args, **kwargs):
        return self.forward(*args, **kwargs)
    def item(self):
        return 7
    blocks.switch(False)
    ours = Module.__call__
    Module.__call__ = theirs
    Tensor.item = item
    blocks.switch(True)
    print(Module.__call__ is theirs, Tensor.item is item, torch.ones(1).item())
    Module.__call__ = ours
    del Tensor.item
    blocks.switch(False)
    blocks.switch(True)
    print(*stands())
    Module.__call__ = theirs
    blocks.switch(False)
    print(Module.__call__ is theirs)
    """
    )
    assert seen.printed == ["True True 7", "True True 4", "True"]


def test_a_compiled_model_is_not_changed_again(watch):
    seen = watch(
        TOGGLE
        + """
    from torch._dynamo.utils import counters
    model = torch.nn.Linear(2, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    net = torch.compile(model, backend="eager")
    criterion = torch.compile(lambda a: (a * a).mean(), backend="eager")
    for on in (True, False) * 4:
        blocks.switch(on); T.bare = not on
        for _ in range(3):
            loss = criterion(net(torch.ones(4, 2)))
            opt.zero_grad(); loss.backward(); opt.step()
        print(stands()[1], dict(counters["frames"]), dict(counters["graph_break"]))
    """
    )
    assert set(seen.printed) == {"False {'total': 2, 'ok': 2} {}"}
    assert seen.all("trouble") == []


def test_losses_are_read_with_the_hooks_off(watch):
    """All of them, where reading one takes less than a fifth of a per cent of a step; those that are passed over are counted."""
    code = (
        TRAIN
        + """
    from assay_agent.timeline import T
    from assay_agent.watch.torch import numerics
    T.bare = True
    numerics.READING = %s
    train(3)
    """
    )
    every = watch(code % "1e9")
    assert len([v for e in every.all("loss") for v in e["value"]]) == 30 and every.all("loss_passed") == []
    some = watch(code % "1e-9")
    read = sum(len(e["value"]) for e in some.all("loss"))
    assert read == 1 and sum(e["count"] for e in some.all("loss_passed")) == 29
    assert all(e["count"] for e in some.all("loss_passed"))


@pytest.mark.parametrize("kind, took, ends", [("cuda", 0.7, True), ("cuda", 0.3, False), ("cpu", 0.7, False)])
def test_a_window_that_slows_a_device_down_ends_sooner(monkeypatch, kind, took, ends):
    """Twenty steps are enough where the engine takes more than 0.4 s of them; of a step of 10 ms these are 0.2 s."""
    from assay_agent.watch.torch import profile

    stopped, t = [], SimpleNamespace(device=SimpleNamespace(kind=kind))
    monkeypatch.setattr(profile, "stop", lambda why, number=None: stopped.append((number, why)))
    monkeypatch.setattr(profile.time, "perf_counter", lambda: 100.0 + took)
    for name, value in (("_state", "on"), ("_first", 11), ("_began", 100.0), ("_pace", 0.01)):
        monkeypatch.setattr(profile, name, value)
    profile._close(29, None, t)
    assert stopped == []
    profile._close(30, None, t)
    assert bool(stopped) == ends and (not ends or stopped[0][0] == 30 and "20 are enough" in stopped[0][1])
    profile._close(60, None, t)
    assert stopped[-1] == (60, "")


# -- loops without a loader, and without an optimizer ------------------------------------------------------------------

MODEL = """
    import torch
    from torch import nn
    torch.set_num_threads(1)
    torch.manual_seed(0)
    batches = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(20)]
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    def loss_of(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        print(loss.item())
        return loss
"""

UPDATES = {
    "by data": """
            model.zero_grad()
            loss_of(x, y).backward()
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-0.1)
    """,
    "in place": """
            loss_of(x, y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
                    p.grad.zero_()
    """,
    "by autograd.grad": """
            gradients = torch.autograd.grad(loss_of(x, y), model.parameters())
            with torch.no_grad():
                for p, g in zip(model.parameters(), gradients):
                    p -= 0.1 * g
    """,
}


@pytest.mark.parametrize("way", UPDATES)
def test_updates_by_hand(watch, way):
    seen = watch(MODEL + "    for epoch in range(3):\n        for x, y in batches:" + UPDATES[way])
    assert seen.column("number") == list(range(1, 61)) and seen.column("epoch")[19:21] == [1, 2]
    loop = seen.all("loop")[-1]
    assert (loop["steps"], loop["epochs"], loop["name"], loop["loader"]) == ("hand", "loop", "epoch", 0)
    losses = [(s, v) for e in seen.all("loss") for s, v in zip(e["step"], e["value"])]
    assert [s for s, _ in losses] == seen.column("number") and [repr(v) for _, v in losses] == seen.printed
    assert seen.one("device")["type"] == "cpu" and seen.all("trouble") == []


def test_functional_steps(watch):
    """Parameters that are new tensors each time; an inner derivative is a part of its step."""
    seen = watch(
        MODEL
        + """
    from torch.func import functional_call, grad, grad_and_value
    def f(p, x, y):
        inner = grad(lambda q: nn.functional.cross_entropy(functional_call(model, q, (x,)), y))(p)
        q = {name: p[name] - 0.1 * g for name, g in inner.items()}
        return nn.functional.cross_entropy(functional_call(model, q, (x,)), y)
    p = dict(model.named_parameters())
    for x, y in 3 * batches:
        g, loss = grad_and_value(f)(p, x, y)
        p = {name: p[name] - 0.1 * g[name] for name in p}
        print(loss.item())
    """
    )
    assert len(seen.column("number")) == 60 and seen.all("loop")[-1]["steps"] == "hand"
    values = [v for e in seen.all("loss") for v in e["value"]]
    assert [repr(v) for v in values] == seen.printed and seen.all("trouble") == []


GRADIENTS = {
    "nothing is done with": "loss_of(x, y).backward()",
    "are of the inputs": "x = x.clone().requires_grad_(); torch.autograd.grad(loss_of(x, y), x)",
    "attack the inputs": "x = x.clone().requires_grad_(); model.zero_grad(); loss_of(x, y).backward(); x.grad.sign()",
}


@pytest.mark.parametrize("what", GRADIENTS)
def test_gradients_that_train_nothing(watch, what):
    seen = watch(MODEL + "    for x, y in 4 * batches:\n        %s\n" % GRADIENTS[what])
    loop = seen.one("loop")
    assert seen.all("steps") == [] and loop["steps"] == "" and loop["backward"]


def test_the_device_under_a_mode_of_pytorchs_own(watch):
    """torch.set_default_device is a function mode: what is asked of a tensor is no news to the script."""
    seen = watch(
        MODEL.replace("    batches", "    torch.set_default_device('cpu')\n    batches")
        + """
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()
    """
    )
    assert seen.one("device")["type"] == "cpu"
    assert [repr(v) for e in seen.all("loss") for v in e["value"]] == seen.printed


def test_backward_of_what_is_no_scalar(watch):
    seen = watch(MODEL + "    y = model(batches[0][0])\n    y.backward(torch.ones_like(y))\n")
    assert seen.one("device")["type"] == "cpu" and seen.all("loss") == []


@pytest.mark.parametrize(
    "between, how",
    [
        ("scheduler.step()", "scheduler"),
        ("model.eval(); model.train()", "evaluation"),
        (
            "model.eval()\n            with torch.no_grad():\n                for x, y in val: model(x)\n"
            "            model.train()",
            "evaluation",
        ),
        ("pass", ""),
    ],
)
def test_epochs_in_a_loop_alone(watch, between, how):
    """`while step <`: a scheduler or an evaluation now and then; one of those with a loader of its own."""
    seen = watch(
        MODEL
        + """
    from torch.utils.data import DataLoader, TensorDataset
    val = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24)), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer)
    step = 0
    while step < 30:
        x, y = batches[step %% 20]
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()
        step += 1
        if step %% 10 == 0:
            %s
    """
        % between
    )
    assert len(seen.column("number")) == 30 and seen.all("loop")[-1]["epochs"] == how
    assert seen.column("epoch") == ([0] * 10 + [2] * 10 + [3] * 10 if how else [0] * 30)
    assert seen.all("loop")[-1]["loader"] == 0 and seen.all("trouble") == []


def test_an_endless_loader(watch):
    """A sampler with 10¹⁰ draws: a pass of it is no epoch, and an evaluation tells one."""
    seen = watch(
        TRAIN
        + """
    from torch.utils.data import RandomSampler
    loader = DataLoader(data, batch_size=8, sampler=RandomSampler(data, replacement=True, num_samples=10**10))
    for n, (x, y) in enumerate(loader, 1):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if n % 10 == 0:
            model.eval(); model.train()
        if n == 30:
            break
    """
    )
    assert seen.one("loader")["endless"] and seen.column("epoch") == [0] * 10 + [2] * 10 + [3] * 10
    loop = seen.all("loop")[-1]
    assert (loop["epochs"], loop["loader"]) == ("evaluation", 1)


def test_training_in_a_thread_after_the_first_has_called_the_model(watch):
    seen = watch(
        TRAIN
        + """
    import threading
    model(torch.randn(2, 4))
    thread = threading.Thread(target=train, args=(2,))
    thread.start()
    thread.join()
    """
    )
    assert seen.column("epoch") == [1] * 10 + [2] * 10


def test_a_loader_that_another_thread_reads(watch):
    """The steps are known; no loader is said to give them their batches."""
    seen = watch(
        TRAIN
        + """
    import queue, threading
    def ahead():
        batches = queue.Queue(4)
        def read():
            for batch in loader:
                batches.put(batch)
            batches.put(None)
        threading.Thread(target=read).start()
        while (batch := batches.get()) is not None:
            yield batch
    for _ in range(2):
        pass
    for e in range(3):
        for x, y in ahead():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    """
    )
    assert len(seen.column("number")) == 30 and seen.all("loop")[-1]["epochs"] == "loop"
    assert seen.column("epoch") == [0] * 10 + [2] * 10 + [3] * 10


def test_the_device_is_where_the_parameters_are(watch):
    """The loss is worked out on the CPU: only the parameters tell. The meta device stands for one that is none."""
    seen = watch(
        """
    import torch
    there = torch.nn.Parameter(torch.ones(4, device="meta"))
    here = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([here, there], lr=0.1, foreach=False)
    for _ in range(3):
        here.sum().backward()
        optimizer.step()
    """
    )
    assert [e["type"] for e in seen.all("device")] == ["cpu", "meta"]


def test_the_device_of_a_model_that_is_only_called(watch):
    seen = watch(MODEL + "    with torch.no_grad():\n        model(batches[0][0])\n")
    assert seen.one("device")["type"] == "cpu" and seen.all("steps") == []
    loop = seen.one("loop")
    assert (loop["module"], loop["backward"]) == (False, False)
