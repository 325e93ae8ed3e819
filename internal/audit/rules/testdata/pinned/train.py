"""A device that the command line gives, and batches pinned where it is CUDA."""
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
args = parser.parse_args()
device_type = "cuda" if "cuda" in args.device else "cpu"  # suspect: mps-never-chosen


def get_batch(pinned):
    x = torch.zeros(4, 8)
    if device_type == "cuda":
        x = x.pin_memory().to(args.device, non_blocking=True)
    if pinned:
        x = x.pin_memory()  # suspect: pinned-memory
    return x


get_batch(True)
