# expect: steps=30 epochs=3 micro=1 skipped=7,17
"""Autocast and a GradScaler; two batches overflow and their steps are skipped."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(80, 12), torch.randn(80, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
step = 0
for epoch in range(3):
    for x, y in loader:
        step += 1
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y)
        scaled = scaler.scale(loss)
        if step in (7, 17):
            scaled = scaled * float("inf")
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        print(float(loss).hex(), scaler.get_scale())
