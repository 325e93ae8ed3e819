# expect: steps=10 epochs=1 micro=1
"""One call of each kind that makes a host wait for a device, each on a line of its own."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(40, 4), torch.randn(40, 1)), batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    a = loss.item()  # line 17
    b = loss.detach().numpy()  # line 18
    c = loss.tolist()  # line 19
    d = bool(loss > 1e9)  # line 20
    print(loss.detach())  # line 21
    e = float(loss)  # line 22
    f = f"{loss:.3f}"  # line 23
