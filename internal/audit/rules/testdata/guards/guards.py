"""What keeps a call from machines without CUDA keeps it out of the findings."""
import argparse

import numpy as np
import pytest
import torch
from elsewhere import HAVE_KERNELS, fast_path, only_cuda

try:
    import fused_ops
except ImportError:
    fused_ops = None


class Timer:
    def __init__(self, x):
        self.x = x

    def name(self):
        if self.x.device.type == "cuda" and torch.cuda.current_device() != self.x.device.index:
            return "another"
        return torch.cuda.get_device_name() if self.x.is_cuda else "none"

    def wait(self):
        if not self.x.is_cuda:
            return
        torch.cuda.synchronize()

    def checked(self):
        assert self.x.is_cuda, "needs a tensor on CUDA"
        torch.cuda.synchronize()

    def budget(self, device):
        if device.type in {"cpu", "mps"}:
            return 0
        return torch.cuda.get_device_properties(device).total_memory

    def start(self):
        torch.cuda.synchronize()  # sure: cuda-function


def spread(batch):
    if not batch.is_cuda:
        out = batch * 2
    else:
        out = (batch * 2).cuda()
    return out


def memory():
    return [torch.cuda.mem_get_info(i) for i in range(torch.cuda.device_count())]


def reset():
    for i in range(torch.cuda.device_count()):
        torch.cuda.reset_peak_memory_stats(i)


@only_cuda
def test_kernel():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.zeros(3).to("cuda")

    Net().cuda()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
class TestKernels:
    def test_sum(self):
        torch.ones(3, device="cuda").sum()


class Storage:
    def cuda(self, device=None):
        return self.apply(lambda x: x.cuda(device))

    def apply(self, f):
        return f(self.data)


def move(modules, device):
    for module in modules:
        if isinstance(module, fast_path.Linear):
            module.cuda(device)  # suspect: cuda-call


def kernels(x):
    if fused_ops is not None:
        return x
    if HAVE_KERNELS:
        return x
    return x.cuda()  # sure: cuda-call


@torch.autocast("cuda", enabled=False)
def exact(x):
    return x


def halved(x):
    with torch.autocast("cuda", dtype=torch.float16):  # sure: cuda-amp
        return x


def main():
    args = argparse.ArgumentParser().parse_args()
    assert torch.cuda.is_available(), "no CPU training"  # sure: cuda-required
    torch.zeros(3).cuda()


if __name__ == "__main__":
    main()


def mixup(x):
    lam = np.random.beta(1.0, 1.0)  # a Python float: no array has a size here
    return lam * x + np.random.rand() * x


mixup(torch.zeros(3, device="mps"))
np.random.rand(3) * torch.zeros(3, device="mps")  # sure: numpy-of-device-tensor


class Sampler:
    def __init__(self, device):
        self.device = device
        self.on_gpu = None

    def run(self, x):
        return x.to(self.device)  # suspect: hard-coded-cuda-device

    def fetch(self, x, stream):
        on_gpu = x.device.type == "cuda"
        if on_gpu:
            torch.cuda.Event()
        if stream is not None:
            torch.cuda.current_stream()
        if x.is_pinned():
            return x.cuda()


def move(x, device):
    return x.to(device)  # suspect: hard-coded-cuda-device


def scale(x):
    window = torch.ones(3)
    return x * (window.cuda() if x.is_cuda else window)


device = torch.device("cuda")
if device.type == "cuda":
    torch.cuda.synchronize()
Sampler(device).run(torch.zeros(3))
move(torch.zeros(3), "cuda")
scale(torch.zeros(3).cuda())  # sure: cuda-call


def fast_attention():
    try:
        import flash_attn
        capable = torch.cuda.get_device_capability()[0] >= 8  # suspect: cuda-function
    except ImportError:
        capable = False
    return capable


def has_kernels():
    return torch.cuda.is_available() and HAVE_KERNELS


def kernels():
    if has_kernels():
        torch.rand(1).to("cuda")


def group(options):
    torch.distributed.new_group([0], backend="nccl" if options else None)  # suspect: nccl-backend


if HAVE_KERNELS.is_available:
    import spconv


def run(gpus):
    if gpus > 1:
        torch.cuda.set_device(0)
    else:
        torch.zeros(3).cuda()  # sure: cuda-call
