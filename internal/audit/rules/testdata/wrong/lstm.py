# torch: 2.0
"""Known wrong results whose conditions the arguments show."""
import torch
from torch import nn

x = torch.randn(5, 2, 8, device="mps")
deep = nn.LSTM(8, 16, num_layers=2).to("mps")
both = nn.LSTM(8, 16, bidirectional=True).to("mps")
plain = nn.LSTM(8, 16).to("mps")
deep(x)  # sure: wrong-result
both(x)  # sure: wrong-result
plain(x)
