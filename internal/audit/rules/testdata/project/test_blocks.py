import torch
from blocks import Block, like, positions

positions(3, torch.device("cuda"))
x = torch.zeros(4, 4).cuda()  # sure: cuda-call
like(x)
Block().cuda()(x)  # sure: cuda-call
