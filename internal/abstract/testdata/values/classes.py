from probe import see
import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    size = 4

    def __init__(self, width=8):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.mask = torch.ones(width)
        self.register_buffer("steps", torch.zeros(1))
        self.scale = nn.Parameter(torch.ones(1))
        see(width)  # number 8; then number 16; then number 8 soft
        see(super().forward)  # api torch.nn.Module.forward

    def forward(self, x):
        see(self.layer)  # module mps torch.nn.Linear
        return self.layer(x)

    @property
    def place(self):
        return self.layer.weight

    @staticmethod
    def made():
        return torch.zeros(3)

    @classmethod
    def like(cls):
        return 5


net = Net()
see(net)  # module cpu Net
see(Net(16).layer)  # module cpu torch.nn.Linear
see(net.mask)  # tensor cpu float32 sized plain
net.to("mps")
see(net.mask)  # tensor cpu float32 sized plain
see(net.steps)  # tensor mps float32 sized buffer
see(net.scale)  # tensor mps float32 sized parameter
see(net(torch.zeros(3, device="mps")))  # tensor mps float32
see(net.made())  # tensor cpu float32 sized
see(Net.made())  # tensor cpu float32 sized
see(net.size)  # number 4
see(net.place)  # api torch.nn.Module.weight


class Moves(nn.Module):  # what it holds goes with it
    def __init__(self):
        self.mask = torch.ones(3)

    def _apply(self, fn):
        pass


moving = Moves()
moving.to("mps")
see(moving.mask)  # tensor mps float32 sized plain


class First:
    def which(self):
        return 1


class Second:
    def which(self):
        return 2

    def other(self):
        return 3


class Both(First, Second):
    pass


see(Both().which())  # number 1
see(Both().other())  # number 3
see(Both().none())  # unknown


class Child(First):
    def which(self):
        return super().which()


see(Child().which())  # number 1


class Lone(nn.Module):
    def forward(self, x, y: torch.Tensor):
        see(x)  # tensor open soft
        see(isinstance(x, torch.Tensor))  # unknown
        see(isinstance(y, torch.Tensor))  # true
        see(isinstance(y, np.ndarray))  # false


class Point:
    x: int = 3
    y: torch.Tensor


see(Point(y=1).y)  # number 1
see(Point().x)  # number 3 soft
see(Point().y)  # tensor open


def local():
    class Inner(nn.Module):
        pass
    return Inner()


see(local())  # module cpu Inner

holder = First()
holder.place = "cpu"
if unheard_of:
    holder.place = "mps"
see(holder.place)  # device cpu or mps

for turn in range(3):  # a class that is its own base, twice
    class Knot(Knot, Knot):
        pass
    see(Knot().which())  # unknown
