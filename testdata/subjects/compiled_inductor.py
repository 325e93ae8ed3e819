# expect: steps=20 epochs=2 micro=1
"""A model compiled by inductor, the default backend; wants a C++ compiler."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(80, 12), torch.randint(0, 3, (80,))), batch_size=8)
model = torch.compile(nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
print(torch._dynamo.utils.counters["stats"]["unique_graphs"], dict(torch._dynamo.utils.counters["graph_break"]))
