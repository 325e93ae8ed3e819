# expect: steps=20 epochs=2 micro=1 nonfinite=13
"""The loss is not finite at step 13 and stays so."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.rand(40, 4), torch.rand(40, 1)), batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
for epoch in range(2):
    for x, y in loader:
        step += 1
        loss = nn.functional.mse_loss(model(x), y)
        if step == 13:
            loss = loss / 0
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
