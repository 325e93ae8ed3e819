# expect: steps=30 epochs=1 micro=1
"""A small language model over bytes, with activation checkpointing and gradient clipping."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(0)
text = torch.tensor(list((__doc__ * 40).encode()), dtype=torch.long)


class Windows(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, i):
        at = i * 17 % (len(text) - 33)
        return text[at : at + 32], text[at + 1 : at + 33]


class Model(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed, self.place = nn.Embedding(256, width), nn.Embedding(32, width)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 64, dropout=0.1, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(32))

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight
        for block in self.blocks:
            x = checkpoint(block, x, self.mask, use_reentrant=False)
        return self.head(x)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for ids, target in DataLoader(Windows(), batch_size=4, shuffle=True):
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(loss.item().hex(), norm.item().hex())
