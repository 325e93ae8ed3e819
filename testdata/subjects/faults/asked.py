"""Datasets, samplers, losses and warnings whose methods speak when they are asked."""
import torch, warnings, sys
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)
class Data(torch.utils.data.Dataset):
    def __init__(self): self.rows = list(range(40)); self.asked = 0
    def __len__(self): self.asked += 1; print("len"); return len(self.rows)
    def __getitem__(self, i): return torch.full((4,), float(i)), torch.ones(1)
    def __getattr__(self, name):
        print("attr", name); raise AttributeError(name)
class Quiet(torch.utils.data.Dataset):
    def __init__(self): self.n = 40
    def __len__(self): return self.n
    def __getitem__(self, i): return torch.full((4,), float(i)), torch.ones(1)
class Loud(UserWarning):
    def __str__(self): print("str"); return "loud"
class Net(nn.Module):
    def __init__(self): super().__init__(); self.l = nn.Linear(4, 1)
    def parameters(self, recurse=True): print("parameters"); return super().parameters(recurse)
    def forward(self, x): warnings.warn(Loud("x")); return self.l(x)
net = Net(); opt = torch.optim.SGD(net.parameters(), lr=.001)
for d in (Data(), Quiet()):
    for e in range(2):
        for x, y in torch.utils.data.DataLoader(d, batch_size=8, shuffle=True):
            loss = (net(x) - y).pow(2).mean(); opt.zero_grad(); loss.backward(); opt.step()
        print(loss.item().hex())
    print(getattr(d, "asked", None) if isinstance(d, Data) else 0)
class E(Exception):
    def __str__(self): print("E str"); return "e"
raise E()
