"""A script that was written where every machine had an NVIDIA GPU."""

import torch

model = torch.nn.Linear(4, 1).cuda()
loss = model(torch.randn(16, 4).cuda()).square().mean()
loss.backward()
print("loss", loss.item())
