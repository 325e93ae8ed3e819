# expect: steps=40 epochs=1 micro=1
"""A stream of unknown length."""
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(1)
        while True:
            x = torch.randn(6, generator=generator)
            yield x, x.sum().unsqueeze(0)


model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for i, (x, y) in enumerate(DataLoader(Stream(), batch_size=4)):
    if i == 40:
        break
    loss = (model(x) - y).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
