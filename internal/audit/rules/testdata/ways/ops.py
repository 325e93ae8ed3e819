import torch as th
import torch.nn as nn
from torch import linalg as LA
from torch.linalg import eigvals as ev, svdvals
from torch.nn import functional as F
import torchvision.ops as tvo
from torchvision.ops import deform_conv2d, nms as suppress

dev = th.device("mps", 0)
a = th.randn(4, 4).to(dev)
e = ev(a)  # sure: missing-operator
e2 = LA.eig(a)  # sure: missing-operator


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.pool = nn.AdaptiveMaxPool3d(2)
        self.off = nn.Conv2d(3, 18, 3)
        self.weight = nn.Parameter(th.randn(8, 3, 3, 3))

    def forward(self, x):
        o = self.off(x)
        return deform_conv2d(x, o, self.weight)  # suspect: missing-operator


net = Net().to(dev)
out = net(th.randn(1, 3, 16, 16, device=dev))
v = a.geqrf()  # sure: missing-operator
vals = th.linalg.lstsq(a, a)  # sure: missing-operator

fold = {"eig": th.linalg.eigvals, "svd": th.linalg.svd}
r = fold["eig"](a)  # sure: missing-operator
ctc = nn.CTCLoss()
