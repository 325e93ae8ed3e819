# expect: steps=64 epochs=4 micro=1 retained=21 graph=total
"""Keeps every step's loss with its graph: memory grows."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(128, 12), torch.randn(128, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
history = []
for epoch in range(4):
    total = 0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
        history.append(model(x[:1]))
    print(total.item().hex())
