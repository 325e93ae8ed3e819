"""Says how deep its stack is, where its warnings are said to come from, and how deep it can recurse: everywhere a hook stands around."""
import inspect
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(0)


def look(where, *levels):
    print(where, len(inspect.stack(0)), deepest(0))
    for level in levels:
        warnings.warn("%s %d" % (where, level), stacklevel=level)


def deepest(n):
    try:
        return deepest(n + 1)
    except RecursionError:
        return n


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(4, 4), 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 3:
            look("forward", 1, 2, 3, 4, 5, 6, 7)
        return Through.apply(self.linear(x))


class Through(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        Through.calls += 1
        if Through.calls == 3:
            look("backward", 1, 2, 3, 4, 5, 6, 7)
        return gradient


class Data(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 5:
            look("item", 2, 4, 5, 6, 7)
        return torch.ones(4) * index


class Step(torch.optim.SGD):
    def step(self, closure=None):
        look("step", 2, 3, 4)
        return super().step(closure)


model = Model()
optimizer = Step(model.parameters(), lr=0.01)
for epoch in range(2):
    for x in DataLoader(Data(), batch_size=4):
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
look("module", 1, 2)
torch.autograd.backward(model(x).sum(), grad_variables=None)
try:
    torch.autograd.backward(torch.ones(2))
except RuntimeError:
    import traceback

    traceback.print_exc()
