"""Trains, and keeps a checkpoint at its end, whatever became of who started it."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(480, 6), torch.randn(480, 1)), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print(step, loss.item().hex(), flush=True)
        if len(sys.argv) > 1 and step % 20 == 0:
            sys.stdin.readline()  # goes on when it is told to
torch.save([p.detach() for p in model.parameters()], "checkpoint.pt")
raise SystemExit(5)
