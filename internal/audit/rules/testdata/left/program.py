"""What rules leave alone, beside what they find."""
import argparse
import os

import torch
from torch.utils.cpp_extension import load
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--pin", default=True)
parser.add_argument("--workers", default=16)
parser.add_argument("--ratio", default="9")
args = parser.parse_args()
data = make_data()
os.environ["PYTORCH_MPS_HIGH_WATERMARK_RATIO"] = args.ratio
os.environ["PYTORCH_MPS_LOW_WATERMARK_RATIO"] = "9"  # sure: variable-value


def guarded_by_name(x):
    fast = x.device.type == "cuda"
    if not fast:
        return x
    return x.cuda()


def not_guarded(x):
    ready = x.ready
    if not ready:
        return x
    return x.cuda()  # sure: cuda-call


if __name__ == "__main__":
    torch.device(device="cuda")
    torch.mps._private()
    torch.mps.invented()  # sure: unknown-mps-api
    DataLoader(data, pin_memory=args.pin)
    DataLoader(data, pin_memory=True)  # sure: pinned-memory
    DataLoader(data, num_workers=args.workers)
    DataLoader(data, num_workers=16)  # sure: many-workers
    load("name", sources=["a.cpp"])
    load("name", sources=["a.cpp", "b.cu"])  # sure: cuda-package
    with torch.autocast("mps", enabled=False):
        data.goto(torch.float16)
        data.to(torch.float16)  # suspect: halved-inputs
