# expect: steps=24 epochs=2 micro=1
"""One loss, two optimizers: a sparse one for the embedding, AdamW for the rest."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randint(0, 50, (96, 5)), torch.randint(0, 3, (96,))), batch_size=8, shuffle=True)
embedding = nn.EmbeddingBag(50, 16, sparse=True)
head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
optimizers = [torch.optim.SparseAdam(embedding.parameters(), lr=1e-2), torch.optim.AdamW(head.parameters(), lr=1e-2)]
for epoch in range(2):
    for words, labels in loader:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(embedding(words)), labels)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        print(loss.item().hex())
