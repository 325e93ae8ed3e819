# expect: steps=60 exit=0
"""Traces and profiles its own calls; what it set must stay set, and count what it counts in a bare run."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(480, 6), torch.randn(480, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train(epochs=1, after=lambda step: None):
    step = 0
    for epoch in range(epochs):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(step, loss.item().hex(), flush=True)
            after(step)



import sys

lines, calls = {}, {}


def tracer(frame, event, arg):
    if frame.f_code.co_filename != __file__:
        return None
    key = frame.f_code.co_name, event
    lines[key] = lines.get(key, 0) + 1
    return tracer


def profiler(frame, event, arg):
    if frame.f_code.co_filename == __file__ and event in ("call", "return"):
        key = frame.f_code.co_name, event
        calls[key] = calls.get(key, 0) + 1


def look(step):
    assert sys.gettrace() is tracer and sys.getprofile() is profiler, step


sys.settrace(tracer)
sys.setprofile(profiler)
train(after=look)
sys.setprofile(None)
sys.settrace(None)
print(sorted(lines.items()), sorted(calls.items()))
