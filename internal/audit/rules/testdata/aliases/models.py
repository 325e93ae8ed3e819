from __future__ import annotations
import functools
import typing as t
from dataclasses import dataclass, field
from functools import partial, lru_cache

import numpy as np
import torch as pt
import torch.nn as nn
import torch.utils.data as data
from torch.optim import AdamW as Opt

mk = partial(pt.zeros, dtype=pt.float64)
DEVICES = {"train": "mps", "eval": "cpu"}
DEV, OTHER = "mps", "cpu"
(h, w) = (4, 5)


@dataclass
class Cfg:
    lr: float = 1e-3
    device: pt.device = field(default_factory=lambda: pt.device("mps"))
    where: str = "mps"


class Base(nn.Module):
    device = pt.device("mps")

    def make(self, *shape):
        return pt.zeros(*shape, device=self.device)


class Child(Base):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.pool = nn.AdaptiveAvgPool3d((2, 2, 2))
        self.offsets = [pt.ones(4) for _ in range(3)]

    def forward(self, x):
        y = self.make(2, 4)
        z = y + pt.ones(2, 4)  # sure: mixed-devices
        return self.lin(z) + x


def on(device=DEV):
    def wrap(f):
        @functools.wraps(f)
        def inner(*a, **k):
            return f(*a, **k).to(device)
        return inner
    return wrap


@lru_cache(maxsize=None)
def table(n):
    return pt.arange(n, dtype=pt.double)


def ship(x, *, to=DEVICES["train"]):
    return x.to(to)  # sure: float64-on-mps


a = mk(3).to(DEV)  # sure: float64-on-mps
b = table(5).to("mps")  # sure: float64-on-mps
c = ship(pt.from_numpy(np.ones((h, w))))
cfg = Cfg()
d = pt.tensor(np.eye(3)).to(cfg.where)  # suspect: float64-on-mps
model = Child().to(cfg.where)
e = model(pt.zeros(2, 4, device="mps"))
f = {k: pt.from_numpy(v).to("mps") for k, v in {"x": np.zeros(3)}.items()}
x, y = pt.randn(3, device=DEV), pt.randn(3, device=OTHER)
g = x * y  # sure: mixed-devices
if (n := pt.randn(3, device=DEV)) is not None:
    n.numpy()  # sure: numpy-of-device-tensor
arr = [t_.numpy() for t_ in [x, n]]  # sure: numpy-of-device-tensor
vals = list(map(lambda q: q.numpy(), [x]))
for name, q in zip(["a"], [x]):
    q.numpy()  # sure: numpy-of-device-tensor
match DEV:
    case "mps":
        s = pt.linalg.eigvals(pt.randn(3, 3, device=DEV))  # sure: missing-operator
with pt.device("mps"):
    k = pt.arange(0., 3., dtype=pt.float64)  # sure: float64-on-mps
    m = nn.Linear(3, 3)
    m(pt.zeros(1, 3))
u = x.new_zeros(3, dtype=pt.float64)  # sure: float64-on-mps
v = pt.stack([x, y])  # sure: mixed-devices
o = pt.as_tensor([1.0, 2.0], dtype=getattr(pt, "float64"), device=DEV)  # sure: float64-on-mps
r = pt.zeros(3, dtype=getattr(pt, "float" + "64")).to(DEV)  # sure: float64-on-mps
gen = pt.Generator(); gen.manual_seed(0)
p = pt.randperm(10, generator=gen, device=DEV)  # sure: mixed-devices
ts = pt.tensor([[1, 2], [3, 4]], dtype=pt.float64); ts = ts.mps() if hasattr(ts, "mps") else ts.to(DEV)  # sure: float64-on-mps
