"""A small training that reads its rows from files: what the tests of handoff smoke are made from."""

import os
import pathlib
import sys

import torch
from torch.utils.data import DataLoader, Dataset

batch = int(os.environ.get("BATCH", "16"))
workers = int(os.environ.get("WORKERS", "0"))


class Rows(Dataset):
    def __init__(self, folder):
        self.files = sorted(str(f) for f in pathlib.Path(folder).glob("*.bin"))
        self.rows = torch.cat([torch.frombuffer(bytearray(pathlib.Path(f).read_bytes()), dtype=torch.float32) for f in self.files])
        self.rows = self.rows.reshape(-1, 64)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], int(self.rows[i].sum() > 0)


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for epoch in range(int(os.environ.get("EPOCHS", "2"))):
    for x, y in DataLoader(Rows(sys.argv[1]), batch_size=batch, num_workers=workers, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
