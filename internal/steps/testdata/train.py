"""A training of a few steps with a fault in it, for recordings: train.py [--batch N] [--size N] [--steps N] [--tf32] [FAULT].

The net has what faults hide in: convolutions, batch norms, a mask that is made once, a matrix product, a max pool, a dropout at 0.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = argparse.ArgumentParser()
args.add_argument("fault", nargs="?", default="")
args.add_argument("--batch", type=int, default=8)
args.add_argument("--size", type=int, default=8)
args.add_argument("--steps", type=int, default=2)
args.add_argument("--threads", type=int, default=1)
args.add_argument("--wide", type=int, default=8)
args.add_argument("--tf32", action="store_true")
args = args.parse_args()
fault = args.fault
torch.set_num_threads(args.threads)
if args.tf32:
    import tf32

    tf32.install(products=True)
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.conv = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(wide, eps=1e-3 if fault == "epsilon" else 1e-5, momentum=0.2 if fault == "momentum" else 0.1)

    def forward(self, x):
        y = self.conv(x)
        if fault == "swapped":  # height and width
            y = y.transpose(2, 3)
        return torch.relu(self.bn(y)) + x


class Attend(nn.Module):
    def __init__(self, size, wide):
        super().__init__()
        self.query, self.key = nn.Linear(wide, wide), nn.Linear(wide, wide)
        self.mask = None
        self.size = size

    def forward(self, x):  # batch, places, wide
        if self.mask is None:
            n = x.shape[1]
            self.mask = torch.ones(n, n).tril() if fault != "mask" else torch.ones(n, n).triu()
        scores = torch.matmul(self.query(x), self.key(x).transpose(1, 2)) / x.shape[2] ** 0.5
        if fault == "twice":  # transposed once more than it should be
            scores = scores.transpose(1, 2)
        return torch.softmax(scores.masked_fill(self.mask == 0, -1e9), -1) @ x


class Net(nn.Module):
    def __init__(self, size, wide):
        super().__init__()
        self.stem = nn.Conv2d(3, wide, 3, padding=1, bias=fault != "dropped")
        self.first, self.second = Block(wide), Block(wide)
        self.pool = nn.MaxPool2d(2)
        self.attend = Attend(size, wide)
        self.head = nn.Linear(wide, 5)

    def forward(self, x):
        x = self.first(self.stem(x))
        if fault == "turned":  # height and width, between two blocks
            x = x.transpose(2, 3)
        x = self.pool(self.second(x))
        x = self.attend(x.flatten(2).transpose(1, 2))
        return self.head(x.mean(1))


torch.manual_seed(1)
if fault == "dropped":
    stem = nn.Conv2d(3, args.wide, 3, padding=1)  # so that what is drawn after it stays
    torch.manual_seed(1)
net = Net(args.size, args.wide)
generator = torch.Generator().manual_seed(2)
with torch.no_grad():
    for name, p in sorted(net.named_parameters()):
        if name != "stem.bias":
            p.copy_(torch.randn(p.shape, generator=generator) * (0.3 if p.dim() > 1 else 0.1) + (p.dim() == 1))
    if fault != "dropped":
        net.stem.bias.fill_(0.1)
    if fault == "kernel":
        net.second.conv.weight.copy_(net.second.conv.weight.transpose(2, 3).clone())
    if fault == "stale":
        net.second.bn.running_var.fill_(1.7)

if fault in ("large", "backward", "nan"):
    library = torch.library.Library("aten", "IMPL")
if fault == "large":  # a product that is wrong above a size, in its last rows
    library.impl("bmm", lambda a, b: (a.double().unsqueeze(3) * b.double().unsqueeze(1)).sum(2).to(a.dtype)
                 * (torch.arange(a.shape[0]).view(-1, 1, 1) < 8).to(a.dtype).mul(-0.01).add(1.01), "CPU")
if fault == "backward":
    library.impl("threshold_backward", lambda g, x, t: g * (x >= -1), "CPU")
if fault == "nan":
    library.impl("relu", lambda x: torch.where(x > 2.5, torch.full_like(x, float("nan")), x.clamp(min=0)), "CPU")

optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
if fault == "rate":
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
x = torch.randn(args.batch * args.steps, 3, args.size, args.size, generator=generator)
y = torch.randint(0, 5, (args.batch * args.steps,), generator=generator)
if fault == "batch":
    x = x.flip(0)
if fault == "eval":
    net.eval()
half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(fault)
for a, b in DataLoader(TensorDataset(x, y), batch_size=args.batch):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=half or torch.bfloat16, enabled=half is not None):
        loss = nn.functional.cross_entropy(net(a), b)
    loss.backward()
    optimizer.step()
    print(loss.item())
