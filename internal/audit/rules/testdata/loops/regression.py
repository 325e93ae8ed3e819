import numpy as np
import torch
from torch import nn

x_train = np.array([[3.3], [4.4]], dtype=np.float32)
model = nn.Linear(1, 1).to("mps")
for epoch in range(3):
    inputs = torch.from_numpy(x_train)
    outputs = model(inputs)  # sure: mixed-devices
    outputs = model(inputs.to("mps"))
