# expect: steps=60 exit=0
"""Profiles its own steps 15 to 25, inside any window that somebody else may have opened."""
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



from torch.profiler import ProfilerActivity, profile, schedule


def ready(prof):
    counts = {e.key: e.count for e in prof.key_averages()}
    print("profiled", counts["aten::addmm"], counts["Optimizer.step#SGD.step"], counts["ProfilerStep*"])


with profile(
    activities=[ProfilerActivity.CPU], schedule=schedule(skip_first=14, wait=0, warmup=1, active=10, repeat=1), on_trace_ready=ready
) as prof:
    train(after=lambda step: prof.step())
