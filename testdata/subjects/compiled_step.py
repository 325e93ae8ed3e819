# expect: steps=6 epochs=0
"""A whole training step and the optimizer compiled: no hook may break the graph."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Linear(6, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


@torch.compile(backend="aot_eager", fullgraph=True)
def forward(x, y):
    return nn.functional.mse_loss(model(x), y) * x.sum().sign()


@torch.compile(backend="aot_eager")
def step():
    optimizer.step()


for _ in range(6):
    x, y = torch.rand(8, 6), torch.rand(8, 2)
    optimizer.zero_grad()
    loss = forward(x, y)
    loss.backward()
    step()
    print(loss.item().hex())
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
