# torch: 2.15
"""What arguments show: dtype, rank, sizes, strides and modes, through operators, layers and projects' own functions."""
import torch
from torch import nn
from torch.nn import functional as F

i = torch.arange(6, device="mps")
f = torch.rand(2, 3, device="mps")
F.softmax(i, 0)  # sure: refused-call
F.softmax(i.float(), 0)
i.softmax(0)  # sure: refused-call
torch.mm(f, f.t().half())  # sure: refused-call
f @ f.t().half()  # sure: refused-call
f @ f.t()
nn.Softmax(dim=0)(i)  # sure: refused-call
nn.Softmax(dim=1)(f)
with torch.autocast("mps"):
    f @ f.t().half()
F.mse_loss(i, i)  # sure: refused-call
nn.MSELoss()(i, i)  # sure: refused-call
nn.MSELoss()(f, f)
lstm = nn.LSTM(3, 4, proj_size=2).to("mps")
lstm(f)  # sure: refused-call
nn.LSTM(3, 4).to("mps")(f)
F.adaptive_avg_pool2d(torch.rand(1, 1, 7, 7, device="mps"), 3)  # sure: refused-call
nn.AdaptiveAvgPool2d(3).to("mps")(torch.rand(1, 1, 6, 6, device="mps"))
nn.AdaptiveAvgPool2d((3, 3)).to("mps")(torch.rand(1, 1, 7, 7, device="mps"))  # sure: refused-call
nn.AdaptiveAvgPool2d(1).to("mps")(torch.rand(1, 1, 7, 7, device="mps"))
torch.zeros([1] * 17, device="mps")  # sure: refused-call
torch.zeros([1] * 16, device="mps")
torch.zeros([1] * 17)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose3d(1, 1, 2)

    def forward(self, x):
        return self.up(x)  # sure: refused-call


Net().half().to("mps")(torch.rand(1, 1, 2, 2, 2, dtype=torch.float16, device="mps"))  # raises


def chosen(x, how):
    return F.grid_sample(x, torch.zeros(1, 2, 2, 2, 3, device="mps"), mode=how)  # sure: refused-call


chosen(torch.rand(1, 1, 2, 2, 2, device="mps"), "bicubic")  # raises


def given(x: torch.Tensor):
    F.softmax(x.to("mps"), 0)
    F.softmax(x.to("mps").long(), 0)  # sure: refused-call


try:
    F.softmax(i, 0)  # suspect: refused-call
except RuntimeError:
    pass
