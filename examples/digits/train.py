"""Train a small vision transformer on scikit-learn's handwritten digits (1797 images of 8 × 8, in the package itself)."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class DigitTransformer(nn.Module):
    """A vision transformer over the sixteen 2 × 2 patches of an 8 × 8 image."""

    def __init__(self, width=64, heads=4, depth=2, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(1, width, kernel_size=2, stride=2)
        self.position = nn.Parameter(0.5 * torch.randn(1, 16, width))
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        """images: [N, 1, 8, 8], -1 to 1. Returns logits [N, classes]."""
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.position
        return self.head(self.encoder(tokens).mean(dim=1))


def best_device():
    if torch.backends.mps.is_available():
        return "mps"
    return "cuda" if torch.cuda.is_available() else "cpu"


def load(batch, workers, seed):
    """Training and validation loaders: 1437 and 360 images."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    train, val = order[:1437], order[1437:]
    shuffle = torch.Generator().manual_seed(seed)
    keep = workers > 0  # workers that live from epoch to epoch
    return (
        DataLoader(
            TensorDataset(images[train], labels[train]), batch, shuffle=True, generator=shuffle, num_workers=workers, persistent_workers=keep
        ),
        DataLoader(TensorDataset(images[val], labels[val]), batch, num_workers=workers, persistent_workers=keep),
    )


def train_epoch(model, loader, optimizer, schedule, device):
    """One pass; returns the mean loss. The sum stays on the device: item() in the loop would wait for it at every step."""
    model.train()
    total = torch.zeros((), device=device)
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.detach()
    return total.item() / len(loader)


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = torch.zeros((), dtype=torch.int64, device=device)
    for images, labels in loader:
        right += (model(images.to(device)).argmax(dim=1) == labels.to(device)).sum()
    return right.item() / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.set_num_threads(1)  # on the CPU, a model this small only waits for more threads
    torch.manual_seed(args.seed)
    train, val = load(args.batch, args.workers, args.seed)
    model = DigitTransformer().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=args.epochs * len(train))
    for epoch in range(1, args.epochs + 1):
        loss = train_epoch(model, train, optimizer, schedule, args.device)
        print(f"epoch {epoch}  loss {loss:.4f}  validation accuracy {accuracy(model, val, args.device):.1%}")


if __name__ == "__main__":
    main()
