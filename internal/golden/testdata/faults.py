"""Golden files of one small net, right and with each fault that a port may have, made by the recorder itself.

    python faults.py AGENT FOLDER [torch|mlx]

AGENT is the folder that holds assay_agent. Faults have the names that faults_test.go gives them.
"""

import os
import sys

agent, folder = sys.argv[1:3]
framework = sys.argv[3] if len(sys.argv) > 3 else "torch"
sys.path.insert(0, agent)
from assay_agent.golden import record  # noqa: E402

TORCH = """
import numpy, torch
from torch import nn
from torch.nn import functional as F
FAULT = {fault!r}

class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g / 2 if FAULT == "gradient of a function of one's own" else g

class SamePool(nn.Module):
    def forward(self, x):
        around = (1, 0, 1, 0) if FAULT == "pool padded on the other side" else (0, 1, 0, 1)
        return F.max_pool2d(F.pad(x, around, value=-torch.inf), 2, 1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(4, eps=1e-3 if FAULT == "epsilon of a batch norm" else 1e-5,
                                  momentum=0.01 if FAULT == "momentum of a batch norm" else 0.1)
        self.act = nn.ReLU(inplace=True)
        self.pool = SamePool()
        self.branch2 = nn.Conv2d(4, 4, 3, padding=2, dilation=2)
        d = 2 if FAULT == "dilation of 2 for 4" else 4
        self.branch4 = nn.Conv2d(4, 4, 3, padding=d, dilation=d)
        self.mix = nn.Conv2d(8, 4, 1, bias=FAULT != "dropped bias")
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=FAULT == "align_corners")
        self.head = nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x):
        means = [103.9, 116.8, 123.7]
        if FAULT == "means in the order of BGR":
            means.reverse()
        x = (x - torch.tensor(means).view(3, 1, 1)) / 64
        x = self.pool(self.act(self.bn1(self.conv1(x))))
        both = [Own.apply(self.branch2(x)), self.branch4(x)]
        if FAULT == "branches in another order":
            both.reverse()
        return self.head(self.up(torch.relu(self.mix(torch.cat(both, 1)))))

def model():
    net, random = Net(), numpy.random.RandomState(5)
    weights = {{}}
    for name, has in [(n, v) for n, v in Net_right().items()]:
        value = torch.from_numpy(random.standard_normal(has).astype("float32")) * 0.3
        weights[name] = value.abs() + 0.5 if name.endswith("running_var") else value
    for name, order in (("kernel with height and width exchanged", ("branch2.weight", (0, 1, 3, 2))),
                        ("kernel transposed twice", ("branch4.weight", (1, 0, 2, 3)))):
        if FAULT == name:
            weights[order[0]] = weights[order[0]].permute(order[1]).contiguous()
    if FAULT == "flipped kernel":
        weights["conv1.weight"] = weights["conv1.weight"].flip(2)
    own = net.state_dict()
    net.load_state_dict({{n: weights.get(n, own[n]) for n in own}})
    return net

def Net_right():
    global FAULT
    kept, FAULT = FAULT, ""
    try:
        return {{n: tuple(v.shape) for n, v in Net().state_dict().items() if not n.endswith("tracked")}}
    finally:
        FAULT = kept

def inputs():
    return numpy.random.RandomState(3).uniform(0, 255, (1, 3, 6, 8)).astype("float32")

def targets():
    return numpy.random.RandomState(4).standard_normal((1, 2, 12, 16)).astype("float32")

def loss(net, x, wanted):
    return F.mse_loss(net(x), wanted)

def optimizer(net):
    return torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-2 if FAULT == "Adam's epsilon" else 1e-8)
"""

MLX = """
import numpy
import mlx.core as mx
from mlx import nn, optimizers

def model():
    net, random = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1)), numpy.random.RandomState(5)
    net.load_weights([(n, mx.array(0.3 * random.standard_normal(s).astype("float32"))) for n, s in (
        ("layers.0.weight", (4, 3, 3, 3)), ("layers.0.bias", (4,)), ("layers.2.weight", (2, 3, 3, 4)), ("layers.2.bias", (2,)))])
    return net

def inputs():
    return numpy.random.RandomState(3).standard_normal((2, 8, 12, 3)).astype("float32")

def optimizer(net):
    return optimizers.Adam(1e-3, bias_correction={fault!r} == "")
"""

FAULTS = {
    "torch": ["", "kernel with height and width exchanged", "kernel transposed twice", "flipped kernel",
              "epsilon of a batch norm", "momentum of a batch norm", "dropped bias", "means in the order of BGR",
              "pool padded on the other side", "align_corners", "dilation of 2 for 4", "branches in another order",
              "gradient of a function of one's own", "Adam's epsilon"],
    "mlx": ["", "Adam without bias correction"],
}

for i, fault in enumerate(FAULTS[framework]):
    source = os.path.join(folder, "net%d.py" % i)
    with open(source, "w") as f:
        f.write({"torch": TORCH, "mlx": MLX}[framework].format(fault=fault))
    record.record({"file": source, "function": "model", "inputs": "", "shape": [], "scale": 1, "layout": "", "eval": False, "float64": False,
                   "device": "cpu", "steps": 1, "timed": 0, "rate": 1e-3,
                   "out": os.path.join(folder, (fault or "right") + ".safetensors")})
