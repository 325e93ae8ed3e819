"""NumPy computes in float64, and so does what is made of its arrays."""

import numpy
import torch

device = "mps" if torch.backends.mps.is_available() else "cpu"
data = torch.from_numpy(numpy.linspace(0, 1, 64).reshape(16, 4))
model = torch.nn.Linear(4, 1, dtype=torch.float64)
loss = model.to(device)(data.to(device)).square().mean()
loss.backward()
print("loss", loss.item())
