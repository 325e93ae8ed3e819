import torch


def positions(n, device):
    return torch.arange(n, device=device)  # suspect: hard-coded-cuda-device


def like(x):
    return torch.zeros(3, device=x.device)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        return x * self.scale + positions(4, x.device)
