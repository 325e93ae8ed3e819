import numpy as np
import torch as th
from torch.utils.data import Dataset, DataLoader
from functools import partial


class Signals(Dataset):
    def __init__(self, n, transform=None):
        self.x = np.random.randn(n, 16)
        self.y = np.linspace(0, 1, n)
        self.transform = transform
        self.rng = np.random.default_rng(7)  # suspect: generator-shared-by-workers

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = th.from_numpy(self.x[i] + self.rng.normal())
        return x, th.tensor(self.y[i])


def as_tensor(a):
    return th.from_numpy(a)


def make_stats():
    mean = np.mean(np.random.rand(100, 3), axis=0)
    return th.from_numpy(mean)


def make_loader(ds, workers=4):
    def collate(batch):
        return th.stack([b[0] for b in batch])
    return DataLoader(ds, batch_size=8, num_workers=workers, collate_fn=collate)  # suspect: unpicklable-in-workers


def make_lambda_loader(ds):
    kw = dict(num_workers=2, worker_init_fn=lambda i: np.random.seed(i))
    return DataLoader(ds, **kw)  # sure: unpicklable-in-workers
