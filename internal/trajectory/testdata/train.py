"""A small classifier that is trained as it is told, for comparing two runs of one training."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
p.add_argument("--lr", type=float, default=0.05)
p.add_argument("--batch", type=int, default=16)
p.add_argument("--epochs", type=int, default=3)
p.add_argument("--amp", default="off")
p.add_argument("--spoil", type=int, default=0, help="from this step on the loss is NaN")
p.add_argument("--fail", type=int, default=0, help="at this step the script fails")
p.add_argument("--device", default="cpu")
a = p.parse_args()

torch.manual_seed(7)
x = torch.randn(256, 3, 8, 8)
y = x.mean((1, 2, 3)).mul(40).long().clamp(-1, 1) + 1
torch.manual_seed(a.seed)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 3)).to(a.device)
optimizer = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9)
loader = DataLoader(TensorDataset(x, y), batch_size=a.batch, shuffle=True)
kind = {"off": torch.bfloat16, "float16": torch.float16, "bfloat16": torch.bfloat16}[a.amp]
step = 0
for _ in range(a.epochs):
    for images, labels in loader:
        step += 1
        with torch.autocast(a.device, dtype=kind, enabled=a.amp != "off"):
            logits = model(images.to(a.device))
        loss = nn.functional.cross_entropy(logits.float(), labels.to(a.device))
        if step == a.spoil:
            loss = loss * float("nan")
        if step == a.fail:
            raise RuntimeError("the disk is full")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
