import argparse
import numpy as np
import torch as th
from torch import nn
import torch.nn.functional as F
from config import CONFIG, TrainConfig, get_device, default_dtype
from data import Signals, as_tensor, make_stats

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="mps")
parser.add_argument("--steps", type=int, default=10)
args = parser.parse_args()

device = get_device()
cfg = TrainConfig()


class Head(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.dev = device
        self.scale = th.ones(4, dtype=CONFIG["dtype"], device=self.dev)  # sure: float64-on-mps

    def forward(self, x):
        return x * self.scale


class Wrapped:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = th.device(cfg.device)

    def put(self, x):
        return x.to(self.device)

    def doubles(self):
        a = np.zeros((4, 4))
        return self.put(th.from_numpy(a))


def to_dev(t):
    return t.to(CONFIG["device"])


def stage(arr, dev="mps"):
    t = th.as_tensor(arr)
    return t.to(dev)


# float64 ways in
stats = make_stats().to(device)  # sure: float64-on-mps
w = th.zeros(3, dtype=cfg.precision).to(device)  # sure: float64-on-mps
noise = th.tensor(np.random.uniform(size=(3,)), device=f"{CONFIG['device']}:0")  # sure: float64-on-mps
t = as_tensor(np.linspace(0, 1, 5))
t = t.to(device)  # sure: float64-on-mps
x = th.randn(3, 4, device=device)
x64 = x.to(default_dtype())  # sure: float64-on-mps
y = x.type(th.DoubleTensor)
z = x.double()  # sure: float64-on-mps
m = nn.Linear(4, 4).to(device).double()  # sure: float64-on-mps
th.set_default_dtype(th.float64)
q = th.ones(3, device=device)  # sure: float64-on-mps
th.set_default_dtype(th.float32)
pos = th.from_numpy(np.arange(0, 10, 0.5)).to(device=device)  # sure: float64-on-mps
angles = th.tensor([1.0, 2.0], dtype=th.double, device="mps")  # sure: float64-on-mps
c = th.view_as_complex(th.randn(3, 2, dtype=th.double))
cc = c.to(device)  # sure: dtype-not-on-mps
h = Head(device)
lin = th.linspace(0, 1, 5, dtype=th.float64, device=th.device("mps"))  # sure: float64-on-mps
