"""Closes every descriptor at step 10, then writes files of its own."""
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


import os
import tempfile

folder = tempfile.mkdtemp()
files = []


def close(step):
    if step == 10:
        os.closerange(3, 4096)
        for i in range(40):
            files.append(open(os.path.join(folder, str(i)), "w+"))
    if step > 10:
        for f in files:
            f.write("line %d\n" % step)
            f.flush()


train(2, close)
want = "".join("line %d\n" % s for s in range(11, 121))
for f in files:
    f.seek(0)
    assert f.read() == want, f.name
print("files exact")
