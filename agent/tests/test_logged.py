"""What a script logs itself is told once, as it was logged, and its loggers get what they would have got."""

import os
import subprocess
import sys
import textwrap

import pytest

from assay_agent import wire
from assay_agent.watch import logged

LOGGERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "loggers")  # modules of the shape of the real ones


def told(watched):
    """{(door, name): [(step, the script's step, value), …]}"""
    found = {}
    for e in watched.all("logged"):
        own = e.get("own") or [None] * len(e["step"])
        found.setdefault((e["door"], e["name"]), []).extend(zip(e["step"], own, e["value"]))
    return found


DOORS = """
    import sys
    sys.path.insert(0, %r)
    import torch

    class OnDevice(torch.Tensor):  # stands for a tensor that a device has: the host would wait for its value
        pass

    def on_device(value):
        tensor = torch.tensor(value).as_subclass(OnDevice)
        tensor.__class__.__name__ = "Tensor"
        return tensor

    from lightning.fabric.loggers.csv_logs import _ExperimentWriter
    from lightning.pytorch.trainer.connectors.logger_connector.logger_connector import _LoggerConnector
    from mlflow.tracking._tracking_service.client import Metric, TrackingServiceClient
    from tensorboardX.writer import SummaryWriter
    from transformers.trainer import Trainer
    from wandb.sdk.wandb_run import Run
    import types

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    board, flow, run = SummaryWriter(), TrackingServiceClient(), Run()
    board.add_scalar("before", 0.1, 7)
    for i in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        optimizer.step()
        board.add_scalar("a", i / 4, 10 * i)
    board.add_scalars("pair", {"x": 1, "y": torch.tensor(2.0)}, 3)
    flow.log_metric("run", "m", 0.25, step=4)
    flow.log_batch("run", [Metric("b", 1, 5), Metric("c", float("inf"), 5)])
    run.log({"w": 3, "deep": {"er": torch.tensor([4.0])}, "text": "no", "device": on_device(1.0), "many": torch.ones(2)})
    run.log({"w": 5}, step=9)
    try:
        flow.log_metric("run", "failed", None)
    except ValueError as error:
        tb = error.__traceback__
        while tb:
            print(tb.tb_frame.f_code.co_name, tb.tb_lineno)
            tb = tb.tb_next
    trainer = Trainer([lambda logs, step: board.add_scalar("train/loss", logs["loss"], step),
                       lambda logs, step: run.log(logs, step)])
    trainer.state.global_step = 6
    trainer.log({"loss": 0.75, "note": "text"})
    connector = _LoggerConnector(types.SimpleNamespace(loggers=[_ExperimentWriter(), _ExperimentWriter()]))
    connector.log_metrics({"acc": on_device(0.5), "f": 0.125}, 8)
    _ExperimentWriter().log_metrics({"fabric": 1.5}, 1)
"""


@pytest.mark.full_set
def test_doors(watch):
    code = DOORS % LOGGERS
    watched = watch(code)
    bare = subprocess.run([sys.executable, "-c", "\n" + textwrap.dedent(code).lstrip("\n")], capture_output=True,
                          text=True, check=True)  # at the lines at which the watched script has it
    assert watched.printed == bare.stdout.splitlines(), "what the loggers get, and the frames of what they raise"
    assert told(watched) == {
        ("optimizer", "lr SGD"): [(1, None, 0.5)],
        ("TensorBoard", "before"): [(0, 7, 0.1)],
        ("TensorBoard", "a"): [(1, 0, 0.0), (2, 10, 0.25), (3, 20, 0.5)],
        ("TensorBoard", "pair/x"): [(3, 3, 1.0)],
        ("TensorBoard", "pair/y"): [(3, 3, 2.0)],
        ("MLflow", "m"): [(3, 4, 0.25)],
        ("MLflow", "b"): [(3, 5, 1.0)],
        ("MLflow", "c"): [(3, 5, "inf")],
        ("W&B", "w"): [(3, None, 3.0), (3, 9, 5.0)],
        ("W&B", "deep.er"): [(3, None, 4.0)],
        ("Trainer", "loss"): [(3, 6, 0.75)],
        ("Lightning", "acc"): [(3, 8, 0.5)],
        ("Lightning", "f"): [(3, 8, 0.125)],
        ("Lightning", "fabric"): [(3, 1, 1.5)],
    }
    (unread,) = watched.all("logged_unread")
    assert (unread["door"], unread["name"], unread["count"]) == ("W&B", "device", 1)
    assert not watched.all("trouble")


@pytest.fixture
def said(monkeypatch):
    found = []
    monkeypatch.setattr(wire, "put", found.append)
    logged.clear()
    yield found
    logged.clear()


def test_names_are_bounded(said):
    for n in range(logged.SERIES + 3):
        logged.told("W&B", "layer %d" % n, 1.0)
    logged.told("W&B", "layer 0", 2.0)
    logged._gather()
    assert len([e for e in said if e["ev"] == "logged"]) == logged.SERIES
    assert [e for e in said if e["ev"] == "logged_unread"] == [
        {"ev": "logged_unread", "door": "", "name": "", "count": 3}]
    said.clear()
    logged._gather()
    assert said == [], "told once"
    logged.told("W&B", "another", 1.0)
    logged.told("W&B", "layer 1", 3.0)
    logged._gather()
    assert [e["name"] for e in said] == ["layer 1", ""], "those that are known are told on"


def test_numbers():
    numpy = pytest.importorskip("numpy")
    for value, want in ((1, 1.0), (True, 1.0), (0.5, 0.5), (numpy.float32(0.5), 0.5), (numpy.array([3]), 3.0),
                        (numpy.array([1, 2]), None), (numpy.array("x"), None), ("1", None), (None, None), (10**400, None)):
        assert logged.number(value) == want, value

    class Mine(float):
        def __float__(self):
            raise AssertionError("the script's own code")

    assert logged.number(Mine(1)) is None


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-30, 16777216.0, 3.4e38, float("inf")])
def test_single_precision_as_it_was_written(value):
    numpy = pytest.importorskip("numpy")
    single = numpy.float32(value)
    short = logged.shortest(float(single))
    assert numpy.float32(short) == single
    assert repr(short) == str(float(str(single))), "as NumPy shortens it"


def test_learning_rates(watch):
    watched = watch("""
        import torch
        a, b = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        one = torch.optim.SGD([{"params": [a.weight]}, {"params": [a.bias]}], lr=0.5)
        two = torch.optim.SGD(b.parameters(), lr=torch.tensor(0.25))
        for i in range(6):
            (a(torch.ones(1, 2)) + b(torch.ones(1, 2))).sum().backward()
            if i == 2:
                one.param_groups[1]["lr"] = 0.125
            if i == 4:
                two.param_groups[0]["lr"].fill_(1.0)
            one.step()
            two.step()
    """)
    assert told(watched) == {
        ("optimizer", "lr SGD"): [(1, None, 0.5)],
        ("optimizer", "lr SGD, group 0"): [(3, None, 0.5)],
        ("optimizer", "lr SGD, group 1"): [(3, None, 0.125)],
        ("optimizer", "lr SGD 2"): [(1, None, 0.25), (5, None, 1.0)],
    }


SEEDS = """
    import random, traceback
    import numpy
    import torch
    random.seed(3)
    for seed in (4, 5):
        numpy.random.seed(seed)
    generator = numpy.random.default_rng(6)
    torch.manual_seed(7)
    other = random.Random(8)
    try:
        numpy.random.seed(-1)
    except ValueError as error:
        frames = traceback.extract_tb(error.__traceback__)
        print(error, [(frame.name, frame.lineno) for frame in frames])
    print(numpy.random.seed.__name__, numpy.random.default_rng.__doc__[:20], random.seed.__self__ is random._inst)
    print(random.random(), numpy.random.rand(), generator.random(), torch.rand(1), other.random())
    print(random.getstate()[1][:3], numpy.random.get_state()[1][:3], torch.get_rng_state()[:16])
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = True
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    print(torch.rand(1), model.weight)
"""


@pytest.mark.full_set
def test_seeds(watch):
    watched = watch(SEEDS)
    bare = subprocess.run([sys.executable, "-c", "\n" + textwrap.dedent(SEEDS).lstrip("\n")], capture_output=True,
                          text=True, check=True)
    assert watched.printed == bare.stdout.splitlines(), "no generator was asked for a number"
    told = watched.all("seeds")[-1]
    assert sorted(told["watched"]) == ["numpy.random.default_rng", "numpy.random.seed", "random.seed", "torch.manual_seed"]
    line = "%s:%%d" % (watched.folder / "script.py")
    assert told["rows"] == [
        ["random.seed", "3", line % 5, "", 1, 0], ["numpy.random.seed", "4", line % 7, "", 1, 0],
        ["numpy.random.seed", "5", line % 7, "", 1, 0], ["numpy.random.default_rng", "6", line % 8, "", 1, 0],
        ["torch.manual_seed", "7", line % 9, "", 1, 0], ["numpy.random.seed", "-1", line % 12, "", 1, 0]]
    settings = {name: (value, before) for name, value, before in watched.all("settings")[0]["rows"]}
    assert settings["torch.initial_seed"][0] == "7" != settings["torch.initial_seed"][1]
    assert settings["torch.use_deterministic_algorithms"] == ("warn only", "off")
    assert settings["torch.backends.cudnn.benchmark"] == ("True", "False")
    assert len(watched.all("settings")) == 1, "and nothing has changed at the end"
    assert not watched.all("trouble")
