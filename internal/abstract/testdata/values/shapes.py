from probe import shape
import torch
import torch.nn as nn
from torch.nn import functional as F

# A tensor's dimensions, and whether it is contiguous: what is said is compared with PyTorch.
x = torch.zeros(2, 3, 4)
shape(x)  # 2x3x4 contiguous
shape(torch.rand((2, 3)))  # 2x3 contiguous
shape(torch.randn(size=(5,)))  # 5 contiguous
shape(torch.full([2, 2], 7))  # 2x2 contiguous
shape(torch.eye(3))  # 3x3 contiguous
shape(torch.arange(10))  # 10 contiguous
shape(torch.arange(0, 10, 2))  # ? contiguous
shape(torch.tensor([[1, 2], [3, 4], [5, 6]]))  # 3x2 contiguous
shape(torch.tensor(1.0))  # scalar contiguous
shape(torch.randint(0, 5, (4, 2)))  # 4x2 contiguous
shape(torch.zeros_like(x))  # 2x3x4 contiguous
shape(x.transpose(1, 2))  # 2x4x3 strided
shape(x.transpose(0, 1).contiguous())  # 3x2x4 contiguous
shape(x.permute(2, 0, 1))  # 4x2x3 strided
shape(torch.permute(x, (0, 1, 2)))  # 2x3x4 contiguous
shape(torch.zeros(3, 1).t())  # 1x3 contiguous
shape(torch.zeros(3, 2).t())  # 2x3 strided
shape(torch.zeros(3, 2).T)  # 2x3 strided
shape(x.mT)  # 2x4x3 strided
shape(torch.zeros(3, 2).t().clone())  # 2x3 strided
shape(torch.zeros(3, 2).t().half())  # 2x3 strided
shape(x[0])  # 3x4 contiguous
shape(x[:, 0])  # 2x4 strided
shape(x[..., 0])  # 2x3 strided
shape(x[:, None])  # 2x1x3x4 contiguous
shape(x[:1])  # 1x3x4 contiguous
shape(x[:, ::2])  # 2x2x4 strided
shape(x[:, 1:])  # 2x2x4 strided
shape(x[:, :, 0:4])  # 2x3x4 contiguous
shape(x[1, 2, 3])  # scalar contiguous
shape(x[:, ::2] + 1)  # 2x2x4 unknown
shape(x[:, ::2] + x[:, ::2].contiguous())  # 2x2x4 unknown
shape(x + torch.zeros(5, 1, 1, 1))  # 5x2x3x4 contiguous
shape(x * 2)  # 2x3x4 contiguous
shape(x > 0)  # nothing
shape(x.view(6, -1))  # 6x4 contiguous
shape(x.reshape(4, 6))  # 4x6 contiguous
shape(x.reshape((24,)))  # 24 contiguous
shape(x.transpose(1, 2).reshape(24))  # 24 unknown
shape(x.flatten(1))  # 2x12 contiguous
shape(torch.flatten(x))  # 24 contiguous
shape(x.unsqueeze(-1))  # 2x3x4x1 contiguous
shape(torch.unsqueeze(x, 0).squeeze(0))  # 2x3x4 contiguous
shape(torch.zeros(1, 3, 1).squeeze())  # 3 contiguous
shape(torch.zeros(3, 1).expand(3, 4))  # 3x4 strided
shape(torch.zeros(3, 1).repeat(2, 4))  # 6x4 contiguous
shape(x.narrow(2, 0, 2))  # 2x3x2 strided
shape(x.select(0, 1))  # 3x4 contiguous
shape(x.sum(1))  # 2x4 contiguous
shape(x.mean(dim=(0, 2), keepdim=True))  # 1x3x1 contiguous
shape(torch.sum(x))  # scalar contiguous
shape(x @ torch.zeros(4, 5))  # 2x3x5 contiguous
shape(torch.matmul(torch.zeros(7, 1, 3, 4), torch.zeros(2, 4, 5)))  # 7x2x3x5 contiguous
shape(torch.zeros(4) @ torch.zeros(4))  # scalar contiguous
shape(torch.cat([x, x], dim=1))  # 2x6x4 contiguous
shape(torch.stack([x, x], dim=-1))  # 2x3x4x2 contiguous
shape(F.relu(x))  # 2x3x4 contiguous
shape(F.one_hot(torch.tensor([0, 1]), 5))  # 2x5 contiguous
shape(F.embedding(torch.tensor([0, 1]), torch.zeros(7, 3)))  # 2x3 contiguous
shape(F.linear(x, torch.zeros(9, 4)))  # 2x3x9 contiguous
shape(nn.Linear(4, 9)(x))  # 2x3x9 contiguous
shape(nn.Embedding(7, 3)(torch.tensor([[0, 1]])))  # 1x2x3 contiguous
shape(nn.Conv2d(3, 5, 3)(torch.zeros(1, 3, 8, 8)))  # 1x?x?x? unknown
shape(nn.Sequential(nn.Linear(4, 9), nn.ReLU())(x))  # 2x3x9 contiguous
image = torch.zeros(2, 3, 4, 4)
shape(image.to(memory_format=torch.channels_last))  # 2x3x4x4 strided
shape(image.contiguous(memory_format=torch.channels_last))  # 2x3x4x4 strided
shape(image.to(memory_format=torch.channels_last).contiguous())  # 2x3x4x4 contiguous
shape(x.movedim(0, -1))  # 3x4x2 strided
shape(x.new_zeros(5, 6))  # 5x6 contiguous
shape(x.view(unheard_of, 4))  # ?x4 contiguous
shape(torch.zeros(unheard_of, 4))  # ?x4 contiguous
shape(torch.zeros(unheard_of))  # nothing
shape(torch.zeros(*unheard_of))  # nothing
y = torch.zeros(3, 4)
y.unsqueeze_(0)
shape(y)  # nothing
for _ in range(3):
    x = x.unsqueeze(0)
shape(x)  # nothing
