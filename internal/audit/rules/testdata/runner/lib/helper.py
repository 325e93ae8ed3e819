# The test of an if in one file stands around what another does: each is read in its own source. This file is longer than train.py, on purpose: a
# place in it lies behind the end of the other, and would be read there as nonsense, or not at all. So this comment goes on for a while, until it is
# longer than all of train.py.
import torch


def run():
    ready = torch.zeros(3).sum() > 0
    torch.cuda.synchronize()  # sure: cuda-function
    return ready
