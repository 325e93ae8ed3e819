# device: cuda
from probe import here
import torch

t = torch.zeros(3, device="cuda")
if t.is_cuda:
    here()  # top
