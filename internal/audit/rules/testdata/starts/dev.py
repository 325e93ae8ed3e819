import torch

class Args:
    device = "cuda"
    pass

def pick():
    if torch.cuda.is_available():  # sure: mps-never-chosen
        return torch.device("cuda")
    return torch.device("cpu")

def pick2():
    device = "cpu"
    if torch.cuda.is_available():  # sure: mps-never-chosen
        device = "cuda"
    return device

device = torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")  # sure: mps-never-chosen
use_cuda = torch.cuda.is_available()
dev = "cuda" if use_cuda else "cpu"  # sure: mps-never-chosen
d3 = ["cpu", "cuda"][torch.cuda.is_available()]
if not torch.cuda.is_available():  # sure: cuda-required
    raise SystemExit("no GPU")
