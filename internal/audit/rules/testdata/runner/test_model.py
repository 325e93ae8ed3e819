# What the file's top does not reach is run by a test runner, whose markers and configuration decide what is left out without CUDA.
import torch

SEED = torch.zeros(3).cuda()  # sure: cuda-call


def spawn():
    torch.cuda.synchronize()  # suspect: cuda-function
    return torch.zeros(3, device="cuda")  # suspect: hard-coded-cuda-device


class TestModel:
    def test_forward(self):
        spawn().cuda()  # suspect: cuda-call


def test_float64():
    torch.zeros(3, dtype=torch.float64, device="mps")  # sure: float64-on-mps


def test_program():
    torch.cuda.synchronize()  # suspect: cuda-function


if __name__ == "__main__":
    test_program()


def forward(device="cpu"):
    return torch.zeros(3).to(device)


def test_forward_on_both():
    forward()
    forward("cuda")
