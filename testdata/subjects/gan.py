# expect: steps=24 epochs=2 micro=1
"""Two models and two optimizers, each stepping once a batch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(96, 6)), batch_size=8)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
critic = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
for epoch in range(2):
    for (real,) in loader:
        n = len(real)
        opt_d.zero_grad()
        loss_real = bce(critic(real), torch.ones(n, 1))
        loss_real.backward()
        fake = generator(torch.randn(n, 4))
        loss_fake = bce(critic(fake.detach()), torch.zeros(n, 1))
        loss_fake.backward()
        opt_d.step()
        opt_g.zero_grad()
        loss_g = bce(critic(fake), torch.ones(n, 1))
        loss_g.backward()
        opt_g.step()
        print((loss_real + loss_fake).item().hex(), loss_g.item().hex())
