from probe import here
import torch

t = torch.zeros(3, device="cuda")
if t.is_cuda:
    here()  # if t.is_cuda
here() if t.is_cuda else 1  # if t.is_cuda
if t.device.type == "cuda":
    here()  # if t.device.type == "cuda"
here()  # top
