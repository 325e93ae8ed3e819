# expect: steps=30 epochs=3 micro=1
"""Evaluation between epochs; the best state is saved and loaded again; the whole model is pickled, copied, and its bytes summed."""
import copy
import hashlib
import io
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
data = TensorDataset(torch.randn(120, 12), torch.randint(0, 3, (120,)))
train, val = torch.utils.data.random_split(data, [80, 40])
loader, check = DataLoader(train, batch_size=8, shuffle=True), DataLoader(val, batch_size=20)
model = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=30)
best = 0.0
with tempfile.TemporaryDirectory() as folder:
    for epoch in range(3):
        model.train()
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
            print(loss.item().hex())
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in check)
        print("right", right)
        if right >= best:
            best = right
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder + "/best.pt")
    state = torch.load(folder + "/best.pt", weights_only=True)
model.load_state_dict(state["model"])
twin = copy.deepcopy(model)
whole = io.BytesIO()
torch.save(twin, whole)
print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest(), len(whole.getvalue()))
print(sorted(model.__dict__), [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()])
