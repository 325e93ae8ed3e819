# expect: steps=24 epochs=3 micro=1
"""Two worker processes load the data."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.tensor([i / 64.0]), torch.tensor([(i / 64.0) ** 2])


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(Squares(), batch_size=8, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item().hex())


if __name__ == "__main__":
    main()
