# expect: steps=60 epochs=3 micro=1
"""A plain loop: three epochs of twenty batches."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batches", type=int, default=20)
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(16 * args.batches, 12), torch.randint(0, 3, (16 * args.batches,)))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3)).to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for epoch in range(args.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.to(args.device)), y.to(args.device))
        loss.backward()
        optimizer.step()
        print(float(loss).hex())
