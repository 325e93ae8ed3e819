import torch


def fixture():
    return torch.zeros(3, device="cuda")  # suspect: hard-coded-cuda-device
