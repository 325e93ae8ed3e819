"""Trains where every warning is an error: what the interpreter says of sockets and files left open too."""
import gc

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.Linear(4, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for epoch in range(4):
    for (x,) in DataLoader(TensorDataset(torch.randn(200, 4)), batch_size=8):
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    gc.collect()
    print(loss.item().hex())
