"""Train a small vision transformer on scikit-learn's handwritten digits (1797 images of 8 × 8, in the package itself)."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class DigitTransformer(nn.Module):
    """A vision transformer over the sixteen 2 × 2 patches of an 8 × 8 image."""

    def __init__(self, width=64, heads=4, depth=3, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(1, width, kernel_size=2, stride=2)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(1, 17, width))
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, images):
        """images: [N, 1, 8, 8], 0 to 1. Returns logits [N, classes]."""
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls.expand(len(tokens), -1, -1), tokens], dim=1) + self.position
        return self.head(self.encoder(tokens)[:, 0])


def best_device():
    if torch.backends.mps.is_available():
        return "mps"
    return "cuda" if torch.cuda.is_available() else "cpu"


def load(batch, workers, seed):
    """Training and validation loaders: 1437 and 360 images."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    train, val = order[:1437], order[1437:]
    shuffle = torch.Generator().manual_seed(seed)
    return (
        DataLoader(TensorDataset(images[train], labels[train]), batch, shuffle=True, num_workers=workers, generator=shuffle),
        DataLoader(TensorDataset(images[val], labels[val]), batch, num_workers=workers),
    )


def train_epoch(model, loader, optimizer, device):
    """One pass; returns the mean loss. The sum stays on the device: item() in the loop would wait for it at every step."""
    model.train()
    total = torch.zeros((), device=device)
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total.item() / len(loader)


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = torch.zeros((), dtype=torch.int64, device=device)
    for images, labels in loader:
        right += (model(images.to(device)).argmax(1) == labels.to(device)).sum()
    return right.item() / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train, val = load(args.batch, args.workers, args.seed)
    model = DigitTransformer().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(1, args.epochs + 1):
        loss = train_epoch(model, train, optimizer, args.device)
        print(f"epoch {epoch}  loss {loss:.4f}  validation accuracy {accuracy(model, val, args.device):.1%}")


if __name__ == "__main__":
    main()
