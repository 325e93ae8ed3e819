# expect: steps=30 epochs=3 micro=1
"""A compiled model; the backend traces and guards as the default one does, and needs no C++ compiler."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.line = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.line(self.norm(x)))


loader = DataLoader(TensorDataset(torch.randn(80, 12), torch.randint(0, 3, (80,))), batch_size=8)
model = torch.compile(nn.Sequential(Block(12), Block(12), nn.Linear(12, 3)), backend="aot_eager", fullgraph=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
print(torch._dynamo.utils.counters["stats"]["unique_graphs"], dict(torch._dynamo.utils.counters["graph_break"]))
