# expect: steps=15 epochs=0 micro=1 evals=some
"""LBFGS with a closure, on all data at once: no loader, several evaluations a step."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.linspace(-2, 2, 64).unsqueeze(1)
y = torch.sin(2 * x)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=6, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    return loss


for step in range(15):
    print(float(optimizer.step(closure)).hex())
