import numpy as np
import torch
from torch import nn

DEV = "mps" if torch.backends.mps.is_available() else "cpu"


class Pos(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.table = torch.arange(n).float()

    def forward(self, x):
        return x + self.table  # sure: mixed-devices


model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to(DEV)
y = model(torch.randn(2, 4))  # sure: mixed-devices
x = torch.randn(2, 4, device=DEV)
mask = torch.ones(2, 4)
z = x * mask  # sure: mixed-devices
w = torch.cat([x, torch.zeros(2, 4)])  # sure: mixed-devices
p = Pos(4).to(DEV)
p(x)
loss = nn.functional.mse_loss(model(x), torch.zeros(2, 4))  # sure: mixed-devices
n = model(x).detach().numpy()  # sure: numpy-of-device-tensor
arr = np.asarray(x)  # sure: numpy-of-device-tensor
idx = x.argmax(dim=1).numpy()  # sure: numpy-of-device-tensor
