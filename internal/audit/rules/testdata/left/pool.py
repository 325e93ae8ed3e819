import multiprocessing

import torch
from torch.utils.data import DataLoader

if ready:
    multiprocessing.Pool()
multiprocessing.Pool()  # sure: workers-without-guard
torch.zeros(3, device="mps").numpy(force=True)
torch.zeros(3, device="mps").numpy()  # sure: numpy-of-device-tensor
knot = []
knot.append(knot)
DataLoader(knot, num_workers=2)
DataLoader([[lambda: 1]], num_workers=2)  # sure: unpicklable-in-workers
