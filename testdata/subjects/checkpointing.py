# expect: steps=20 epochs=2 micro=1
"""Activations recomputed in the backward pass, in the old way and the new: each block's forward is called twice a step."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.inlet = nn.Linear(12, width)
        self.old = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Dropout(0.1))
        self.new = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.outlet = nn.Linear(width, 3)

    def forward(self, x):
        x = checkpoint(self.old, self.inlet(x), use_reentrant=True)
        return self.outlet(checkpoint_sequential(self.new, 2, x, use_reentrant=False))


loader = DataLoader(TensorDataset(torch.randn(80, 12), torch.randint(0, 3, (80,))), batch_size=8)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
