# expect: steps=120 exit=0
"""Copies and pickles what it has trained; the bytes must be those of a bare run."""
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



import copy
import hashlib
import io
import pickle
import pickletools


def sha(data):
    return hashlib.sha256(data).hexdigest()


def named(data):
    return sorted({arg for op, arg, _ in pickletools.genops(data) if op.name == "GLOBAL"})


def saved(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


train()
twin = copy.deepcopy(model)
twin_optimizer = copy.deepcopy(optimizer)
print("state", sha(b"".join(t.numpy().tobytes() for t in model.state_dict().values())))
print("torch.save state", sha(saved(model.state_dict())))
print("torch.save model", sha(saved(model)), sha(saved(twin)))
print("torch.save optimizer", sha(saved(optimizer.state_dict())))
for thing in (model, optimizer, twin, twin_optimizer, loader):  # by name: the bytes of a pickled tensor carry its address
    print("pickle", named(pickle.dumps(thing, protocol=2)))
model = pickle.loads(pickle.dumps(model))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train()
