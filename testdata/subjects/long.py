# expect: steps=1500 epochs=3 micro=1
"""Long enough for the hooks to be turned off and on, in epochs with an evaluation, a copy and a trace of the model."""
import copy

import torch
from torch import fx, nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(2000, 8)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True)
held_out = DataLoader(TensorDataset(x[:40], x[:40].sum(1, keepdim=True)), batch_size=8)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)], nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
calls = []
for epoch in range(3):
    model.train()
    for step, (a, b) in enumerate(loader):
        loss = nn.functional.mse_loss(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, step, loss.item().hex())
        if step % 100 == 0:
            calls.append((nn.Module.__call__.__name__, nn.Module.__call__.__code__.co_filename.rpartition("/")[2]))
            traced = fx.symbolic_trace(copy.deepcopy(model))
            print(torch.equal(traced(a), model(a)), len(traced.graph.nodes))
    model.eval()
    with torch.no_grad():
        print(sum(nn.functional.mse_loss(model(a), b).item() for a, b in held_out).hex())
print(set(calls), torch.rand(1).item(), next(model.parameters()).sum().item().hex())
try:
    model(torch.randn(1, 3))
except RuntimeError as error:
    print(type(error).__name__, len(__import__("traceback").extract_tb(error.__traceback__)))
