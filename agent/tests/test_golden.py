"""What a golden file of PyTorch's holds (docs/formats/golden.md). The oracle is PyTorch itself: the same net, run by hand."""

import json
import math
import struct
import sys

import numpy
import pytest
import torch

from assay_agent.golden import record

NET = """
import numpy, torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=2, dilation=2)
        self.bn = nn.BatchNorm2d(4, eps=1e-3, momentum=0.3)
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Conv2d(4, 1, 1, bias=False)

    def forward(self, x):
        return self.head(self.act(self.bn(self.conv(x * 2))))

def model():
    torch.manual_seed(3)
    return Net()

def inputs():
    return numpy.linspace(0, 1, 3 * 5 * 6, dtype="float32").reshape(1, 3, 5, 6)

def targets():
    return numpy.ones((1, 1, 5, 6), "float32")

def loss(model, x, wanted):
    return (model(x) - wanted).square().mean() * SCALE

def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)

SCALE = 1.0
"""


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """recorded(source, **request): (what the file says of itself, its tensors)."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setitem(sys.modules, "net", None)
    for name in ("keras", "mlx.nn"):  # what another test may have imported
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(source, **asked):
        path, out = tmp_path / "net.py", tmp_path / "net.golden"
        path.write_text(source)
        request = {"file": str(path), "function": "model", "inputs": "", "shape": [], "scale": 1, "layout": "", "eval": False, "float64": False,
                   "device": "cpu", "steps": 2, "timed": 0, "rate": 1e-3, "out": str(out)}
        record.record(dict(request, **asked))
        data = out.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        meta = json.loads(header.pop("__metadata__")["golden"], parse_constant=lambda word: pytest.fail(word))
        tensors = {}
        for name, told in header.items():
            first, end = (8 + size + at for at in told["data_offsets"])
            assert told["dtype"] == ("F64" if asked.get("float64") else "F32")
            tensors[name] = numpy.frombuffer(data[first:end], "<f8" if asked.get("float64") else "<f4").reshape(told["shape"])
        return meta, tensors

    return run


def by_hand():
    space = {}
    exec(NET, space)
    net = space["model"]()
    return space, net.train(), torch.from_numpy(space["inputs"]()), torch.from_numpy(space["targets"]())


def same(has, wanted):
    assert has.shape == tuple(wanted.shape) and numpy.array_equal(has, wanted.detach().numpy())


def test_what_a_net_computes(recorded):
    meta, tensors = recorded(NET)
    space, net, x, wanted = by_hand()
    for name, value in net.state_dict().items():
        if not name.endswith("tracked"):
            same(tensors["weight/" + name], value)
    same(tensors["target/0"], wanted)
    assert [c["module"] for c in meta["calls"]] == ["conv", "bn", "act", "head", ""]
    # What a layer gave is recorded before one that writes in place changes it.
    conv = net.conv(x * 2)
    bn = net.bn(conv)
    for i, value in enumerate((conv, bn, torch.relu(bn), net.head(torch.relu(bn)))):
        same(tensors["call/%d" % i], value)
    same(tensors["fed/0"], x * 2)
    assert [c["from"] for c in meta["calls"][:4]] == [-1, 0, 1, 2]


def test_gradients_and_updates_begin_where_the_weights_were(recorded):
    meta, tensors = recorded(NET)
    space, net, x, wanted = by_hand()
    optimizer = space["optimizer"](net)
    for step in (1, 2):
        optimizer.zero_grad()
        loss = space["loss"](net, x, wanted)
        loss.backward()
        if step == 1:
            for name, parameter in net.named_parameters():
                same(tensors["gradient/" + name], parameter.grad)
        optimizer.step()
        assert meta["losses"][step - 1] == loss.item()
        for name, value in net.state_dict().items():
            if not name.endswith("tracked"):
                same(tensors["update/%d/%s" % (step, name)], value)


def test_all_is_of_float64_where_that_is_asked(recorded):
    try:
        meta, tensors = recorded(NET, float64=True, steps=1)
    finally:
        torch.set_default_dtype(torch.float32)
    space, net, x, wanted = by_hand()
    loss = space["loss"](net.double(), x.double(), wanted.double())
    loss.backward()
    assert meta["float64"] and meta["losses"] == [loss.item()]
    same(tensors["gradient/conv.weight"], net.conv.weight.grad)
    same(tensors["input/0"], x.double())  # the same values as in float32, and no others drawn
    assert "head.weight" in {name.partition("/")[2] for name in tensors}


def test_settings(recorded):
    meta, _ = recorded(NET, steps=0)
    told = {m["module"]: m["values"] for m in meta["modules"]}
    assert told["bn"]["epsilon"] == 1e-3 and told["bn"]["momentum"] == 0.3
    assert told["conv"]["dilation"] == [2, 2] and told["conv"]["padding"] == [2, 2]
    assert meta["optimizer"]["class"] == "SGD" and meta["optimizer"]["rate"] == 0.5
    assert (meta["layout"], meta["framework"], meta["losses"]) == ("NCHW", "torch", [])


def test_a_loss_that_is_not_finite_is_told(recorded):
    meta, tensors = recorded(NET.replace("SCALE = 1.0", "SCALE = float('nan')"), steps=1)
    assert meta["losses"] == ["nan"] and math.isnan(tensors["gradient/conv.weight"][0, 0, 0, 0])


def test_inputs_in_another_layout_are_turned(recorded, tmp_path):
    own = numpy.arange(2 * 5 * 6 * 3, dtype="float32").reshape(2, 5, 6, 3)
    numpy.save(str(tmp_path / "x.npy"), own)
    _, tensors = recorded(NET.replace("def targets", "def no_targets").replace("def loss", "def no_loss"), steps=0,
                          inputs=str(tmp_path / "x.npy"), layout="NHWC")
    assert numpy.array_equal(tensors["input/0"], own.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("change, why", [
    (("def inputs", "def no_inputs"), "no inputs: give --input"),
    (("return Net()", "return 7"), "gives a int, which is no model of PyTorch, Keras or MLX"),
    (("def model", "def net"), "has no model"),
])  # fmt: skip
def test_what_is_refused(recorded, change, why):
    with pytest.raises(record.Refused, match=why):
        recorded(NET.replace(*change))
