"""Recordings of steps: the same training recorded twice is the same in every hash, and recording changes no loss."""

import base64
import json
import os
import shutil
import struct

import pytest

pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

from assay_agent.steps import start, tensors  # noqa: E402

from conftest import ROOT  # noqa: E402

KINDS = os.path.join(ROOT, "testdata", "subjects", "steps", "kinds.py")
NAMES = ("resnet", "transformer", "unet", "vit", "lstm", "mobilenet", "gan", "bert", "autocast", "accumulate", "checkpoint")


class Recording:
    def __init__(self, folder):
        with open(folder / "steps.jsonl", encoding="utf-8") as f:
            self.head, *self.lines = [json.loads(line) for line in f]
        self.start = start.Reader(str(folder / "start.safetensors"))

    def all(self, k, **fields):
        return [line for line in self.lines if line["k"] == k and all(line.get(name) == value for name, value in fields.items())]


@pytest.fixture
def record(watch, tmp_path):
    """record(code, name, **asked): the code's first three steps, as a Recording; its .printed is what the script printed."""

    def run(code, name="a", steps=3, **asked):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        seen = watch(code, record=dict({"out": str(tmp_path / name), "seed": 0, "moved": 0, "steps": steps}, **asked))
        made = Recording(tmp_path / name) if (tmp_path / name).exists() else None
        if made is not None:
            made.printed, made.seen = seen.printed, seen
        return made

    run.at = lambda name: str(tmp_path / name)
    return run


def kind(name):
    return "import sys; sys.argv = ['kinds.py', %r]\nexec(compile(open(%r).read(), %r, 'exec'), {'__name__': '__main__'})\n" % (name, KINDS, KINDS)


def by_the_page(tensor):
    """The hash as docs/formats/steps.md has it, of at most 2^18 words of 4 bytes, in Python's own numbers."""
    data = tensor.numpy().tobytes()
    total, wrap = 0, (1 << 64) - 1
    for i, word in enumerate(struct.unpack("<%di" % -(-len(data) // 4), data + bytes(-len(data) % 4))):
        z = (i + 1) * 0x9E3779B97F4A7C15 & wrap
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & wrap
        z = (z ^ z >> 27) * 0x94D049BB133111EB & wrap
        total += (z ^ z >> 31) * word
    return "%016x" % (total & wrap)


def computed(recording):
    return [line for line in recording.lines if line["k"] != "end"]


@pytest.mark.full_set
@pytest.mark.parametrize("name", NAMES)
def test_the_same_twice_and_as_without(record, watch, name):
    a = record(kind(name))
    b = record(kind(name), "b", **{"from": record.at("a")})
    assert a.head["complete"] and b.head["complete"], (a.head["why"], b.head["why"])
    assert computed(a) == computed(b)
    assert b.head["started_from"] == a.head["start"] and b.head["unfit"] == [] and b.head["batches"]["kept"] == 0
    assert [x for e in (a.seen, b.seen) for x in e.all("trouble")] == []
    assert {line["phase"] for line in a.all("op")} >= {"forward", "backward", "update"}
    assert all(n in {line["n"] for line in a.all("weight")} for n in (0, 1, 2, 3))
    if name in ("resnet", "unet", "lstm", "autocast", "accumulate", "gan"):  # those without dropout, whose masks are ours
        bare = watch(kind(name).replace("import sys;", "import sys, torch; torch.manual_seed(0);"))
        assert a.printed == bare.printed


CODE = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))
data = TensorDataset(torch.randn(40, 4), torch.randint(0, 3, (40,)))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for x, y in DataLoader(data, batch_size=5):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def test_what_stands_in_a_recording(record):
    import torch

    a = record(CODE)
    ops = a.all("op", n=1)
    assert [line["value"] for line in a.all("loss")] == [pytest.approx(float(text)) for text in a.printed[:3]]
    assert a.head["batch"] == 5 and [line["n"] for line in a.all("step")] == [1, 2, 3]
    assert a.start.names("batch/") == ["batch/%d/%d" % (n, i) for n in (1, 2, 3) for i in (0, 1)]
    first = next(line for line in ops if line["op"] == "aten::addmm")
    assert first["module"] == "0" and first["in"][:2] == [["weight", "0.bias"], ["batch", 1, 0]]
    assert a.lines[first["in"][2][1]]["op"] == "aten::t"  # a view has a row of its own
    relu = next(line for line in ops if line["op"] == "aten::relu_")
    assert relu["in"] == [["op", first["i"], 0]]
    assert {line["module"] for line in ops if line["phase"] == "backward" and line["op"] == "aten::threshold_backward"} == {"1"}
    # The second step reads the weight that the first one's update wrote.
    second = next(line for line in a.all("op", n=2) if line["op"] == "aten::addmm")
    wrote = a.lines[second["in"][0][1]]
    assert wrote["phase"] == "update" and wrote["op"].startswith(("aten::add_", "aten::_foreach_add_"))
    # T, against torch's own.
    weight = a.start.tensor(torch, "weight/0.weight")
    t = a.all("weight", n=0, what="0.weight")[0]["t"]
    assert t["hash"] == by_the_page(weight)
    assert t["stats"]["mean"] == pytest.approx(weight.double().mean().item()) and t["shape"] == [8, 4]
    assert struct.unpack("<32d", base64.b64decode(t["sample"])) == tuple(weight.flatten().double().tolist())


@pytest.mark.full_set
def test_begins_where_the_other_began(record):
    """Another seed, and other weights and data: the second side has the first one's."""
    a = record(CODE)
    b = record("import torch\ntorch.manual_seed(99)\n" + CODE, "b", **{"from": record.at("a")})
    assert a.printed[:3] == b.printed[:3] and computed(a) == computed(b)
    alone = record("import torch\ntorch.manual_seed(99)\n" + CODE, "c")
    assert alone.printed[:3] != a.printed[:3]


@pytest.mark.full_set
def test_the_newer_switch_of_tf32_is_read(record):
    """Where a script set it, PyTorch raises at whoever reads the older one."""
    import torch

    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this PyTorch has the older switch alone")
    a = record("import torch\ntorch.backends.cuda.matmul.fp32_precision = 'tf32'\ntorch.backends.cudnn.conv.fp32_precision = 'ieee'\n" + CODE)
    assert a.head["complete"] and a.head["policy"]["matmul_tf32"] is True and a.head["policy"]["cudnn_tf32"] is False


@pytest.mark.full_set
def test_moved_by_one_unit(record):
    import torch

    a = record(CODE)
    m = record(CODE, "m", moved=1, **{"from": record.at("a")})
    x, y = (r.start.tensor(torch, "batch/1/0") for r in (a, m))
    assert ((x == y) | (torch.nextafter(x, y) == y)).all() and not (x == y).all()
    assert m.head["moved"] == 1 and m.head["moved_what"] == "inputs"
    assert torch.equal(a.start.tensor(torch, "batch/1/1"), m.start.tensor(torch, "batch/1/1"))


@pytest.mark.full_set
def test_another_model_is_refused(record):
    record(CODE)
    loop = CODE.index("for x, y")
    code = CODE[:loop] + "try:\n" + "".join("    " + line + "\n" for line in CODE[loop:].splitlines()) + "except SystemExit: pass\n"
    b = record(code.replace("8", "9"), "b", **{"from": record.at("a")})
    assert b.head["failed"] and "its weights are not those of the recording" in b.head["why"] and b.printed == []


@pytest.mark.full_set
def test_fewer_steps_than_asked(record):
    a = record(CODE, steps=30)
    assert not a.head["complete"] and not a.head["failed"] and a.head["why"] == "it ended after 8 of 30 steps"


@pytest.mark.full_set
def test_without_a_loader(record):
    code = CODE.replace("DataLoader(data, batch_size=5)", "[data[i:i + 5] for i in range(0, 40, 5)]")
    a = record(code)
    b = record("import torch\ntorch.manual_seed(5)\n" + code, "b", **{"from": record.at("a")})
    assert a.start.names("batch/") == ["batch/1/0", "batch/2/0", "batch/3/0"]
    assert [line["n"] for line in a.all("loss")] == [1, 2, 3]
    x = next(line for line in b.all("op") if line["op"] == "aten::addmm")
    assert x["out"] == next(line for line in a.all("op") if line["op"] == "aten::addmm")["out"]


@pytest.mark.full_set
def test_running_statistics_are_seen(record):
    """native_batch_norm writes them without its schema saying so."""
    import torch

    a = record(CODE.replace("nn.ReLU(inplace=True)", "nn.BatchNorm1d(8)") + "torch.save(net.state_dict(), %r)\n" % record.at("net.pt"), steps=8)
    told = {(line["n"], line["what"]): line["t"] for line in a.all("weight")}
    last = torch.load(record.at("net.pt"))
    for name in ("1.running_mean", "1.running_var", "0.weight"):
        assert len({told[n, name]["hash"] for n in range(9)}) == 9
        assert told[8, name]["hash"] == by_the_page(last[name])
    norm = [line for line in a.all("op", n=2) if "batch_norm" in line["op"] and line["phase"] == "forward"][0]
    before = a.lines[norm["in"][3][1]]
    assert before["n"] == 1 and before["op"] == norm["op"]  # what it reads is what the first step's call wrote


@pytest.mark.full_set
def test_workers_draw_as_without_us(record, watch):
    code = CODE.replace("batch_size=5", "batch_size=5, num_workers=1")
    assert record(code).printed == watch("import torch\ntorch.manual_seed(0)\n" + code).printed


@pytest.mark.full_set
def test_compiled_is_refused(record):
    code = CODE.replace("optimizer =", "net = torch.compile(net, backend='eager')\noptimizer =")
    a = record(code)
    assert a is None or a.head["failed"] and "torch.compile" in a.head["why"]


def test_a_sketch_tells_how_far_two_are_apart():
    """An estimate of the norm of a difference, within 12 % in one standard error: 1/sqrt(2·64) (tensors.py)."""
    random = numpy.random.RandomState(0)
    for size in (1000, tensors.CHUNK * 3 + 17):
        x = random.standard_normal(size)
        y = x + 1e-3 * random.standard_normal(size)
        a, b = (numpy.frombuffer(base64.b64decode(tensors.summed(v)["sketch"])) for v in (x, y))
        assert numpy.linalg.norm(a - b) == pytest.approx(numpy.linalg.norm(x - y), rel=0.35)  # four standard errors
        # A shift of all, whose signs would add up if chunks had the same.
        shifted = numpy.frombuffer(base64.b64decode(tensors.summed(x + 1)["sketch"]))
        assert numpy.linalg.norm(shifted - a) == pytest.approx(numpy.sqrt(size), rel=0.35)


def kinds():
    """Tensors of many types and sizes, some with what is no number."""
    import torch

    for shape, dtype in (((0,), "float32"), ((), "float64"), ((5, 7), "float32"), ((20001,), "uint8"), ((33333,), "bool"), ((300, 77), "float16"),
                         ((40001,), "bfloat16"), ((40000,), "int64"), ((30000,), "complex64"), ((20001,), "float64"), ((3, tensors.CHUNK + 5), "float32")):
        t = (torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 3).to(getattr(torch, dtype))
        yield t
        if t.is_floating_point() and t.numel() > 9:
            t = t.clone()
            t.view(-1)[[1, 5, 9]] = torch.tensor([float("nan"), float("-inf"), 0], dtype=t.dtype)
            yield t
    yield torch.arange(60000.0).view(200, 300).t()[3:, 1:]
    yield torch.randn(5, 30000)[1:, 1::3]


@pytest.mark.parametrize("computes", (True, False))
def test_a_device_tells_what_the_cpu_tells(monkeypatch, computes):
    """Told, on the CPU in the place of a GPU, or of one without float64: of what is written to behind it, and many at once."""
    import torch

    monkeypatch.setattr(tensors.Told, "computes", lambda self, device: computes)
    monkeypatch.setattr(tensors.Told, "CHUNKS", 2)
    later = tensors.Told(torch)
    pairs = []
    for t in kinds():
        there = t.clone(memory_format=torch.preserve_format)
        pairs.append((tensors.told(torch, t), later.told(there)))
        there.zero_()
    later.done()
    assert not later.held and not later.bytes
    for here, there in pairs:
        sketches = [numpy.frombuffer(base64.b64decode(made.pop("sketch"))) for made in (here, there)]
        stats = [{k: -1e9 if v is None else v for k, v in made.pop("stats").items()} for made in (here, there)]
        assert here == there
        size = max(1, numpy.prod(here["shape"]))
        numpy.testing.assert_allclose(*sketches, rtol=0, atol=1e-12 * abs(stats[0]["rms"]) * size)
        assert stats[0] == pytest.approx(stats[1], rel=1e-12, abs=1e-12 * abs(stats[0]["rms"]))


def test_a_hash_is_that_of_the_page():
    import torch

    for t in (torch.randn(7), torch.arange(5, dtype=torch.int16), torch.zeros(3), torch.randn(70001)):
        assert tensors.told(torch, t)["hash"] == by_the_page(t)
    x = torch.randn(1000)
    y = x.clone()
    y[[3, 800]] *= -1
    assert tensors.told(torch, x)["hash"] != tensors.told(torch, y)["hash"]


@pytest.mark.full_set
def test_a_recording_of_another_device_is_the_same(record):
    """The lines wait for what a device has; what they say is what the CPU's say."""
    later = "import assay_agent.steps.recorder as r\nr.Recorder.made = lambda self, tensor, before=None: self.later.told(tensor)\n"
    a, b = record(CODE, steps=2), record("import torch\n" + later + CODE, "b", steps=2)
    assert computed(a) == computed(b) and b.head["complete"]


def test_what_is_no_number_is_counted():
    made = tensors.summed(numpy.array([1.0, numpy.nan, numpy.inf, 0.0, -3.0]))
    assert made["stats"] == {"min": -3.0, "max": 1.0, "mean": pytest.approx(-2 / 3), "rms": pytest.approx((10 / 3) ** 0.5),
                             "nan": 1, "inf": 1, "zero": 1}
    assert tensors.summed(numpy.array([numpy.nan]))["stats"]["min"] is None
    assert tensors.summed(numpy.array([]))["stats"]["mean"] is None


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, struct.pack("<Q", 1 << 40) + b"{}", struct.pack("<Q", 2) + b"{}"])
def test_no_safetensors_file(tmp_path, data):
    path = tmp_path / "start.safetensors"
    path.write_bytes(data)
    if data.endswith(b"{}") and data[0] == 2:
        assert start.Reader(str(path)).names("") == []
    else:
        with pytest.raises(ValueError, match="no safetensors header"):
            start.Reader(str(path))


def test_a_tensor_outside_its_file(tmp_path):
    text = json.dumps({"weight/x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (tmp_path / "s").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(ValueError, match="lies outside the file"):
        start.Reader(str(tmp_path / "s"))
