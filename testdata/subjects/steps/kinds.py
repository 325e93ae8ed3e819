"""Ten kinds of training, small: python kinds.py KIND. Prints each step's losses as they are, bit for bit."""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

DEVICE = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
STEPS = 5


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(c, c // 2, 1), nn.Conv2d(c // 2, c // 2, 3, padding=1), nn.Conv2d(c // 2, c, 1)
        self.na, self.nb, self.nc = nn.BatchNorm2d(c // 2), nn.BatchNorm2d(c // 2), nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.nb(self.b(self.relu(self.na(self.a(x))))))
        out = self.nc(self.c(out))
        out += x
        return self.relu(out)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 5, 1)

    def forward(self, x):
        down = F.relu(self.down(x))
        up = self.up(F.relu(self.middle(F.max_pool2d(down, 2))))
        return self.out(torch.cat([down, up], 1)).mean((2, 3))


class Tokens(nn.Module):
    """A transformer over tokens; what is masked is a buffer."""

    def __init__(self, dropout=0.1, causal=True):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Parameter(torch.randn(12, 32) * 0.1)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 50)
        self.register_buffer("mask", torch.triu(torch.full((12, 12), float("-inf")), 1) if causal else None)

    def forward(self, x):
        return self.head(self.layers(self.words(x) + self.places, mask=self.mask))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = Tokens(causal=False)
        self.norm, self.pooled = nn.LayerNorm(50), nn.Linear(50, 5)

    def forward(self, x):
        return self.pooled(torch.tanh(self.norm(self.tokens(x))[:, 0]))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.kind = nn.Conv2d(3, 32, 4, stride=4), nn.Parameter(torch.zeros(1, 1, 32))
        self.attention, self.norm = nn.MultiheadAttention(32, 4, batch_first=True), nn.LayerNorm(32)
        self.head = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 5))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.kind.expand(len(x), -1, -1), x], 1)
        y = self.norm(x)
        return self.head((x + self.attention(y, y, y, need_weights=False)[0])[:, 0])


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.head = nn.Embedding(50, 16), nn.LSTM(16, 24, 2, batch_first=True), nn.Linear(24, 5)

    def forward(self, x):
        return self.head(self.rnn(self.words(x))[0][:, -1])


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(192, 64), nn.Dropout(0.3), nn.Linear(64, 5)

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        return self.last(checkpoint(lambda y: self.drop(torch.relu(self.first(y))), x.flatten(1), use_reentrant=False))


def resnet():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), Bottleneck(16), nn.MaxPool2d(2), Bottleneck(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(16, 5))


def mobilenet():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Hardswish(), nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16),
                         nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 5))


def images(n=48):
    return TensorDataset(torch.randn(n, 3, 8, 8), torch.randint(0, 5, (n,)))


def classify(model, data, optimizer=lambda p: torch.optim.SGD(p, 0.05, momentum=0.9), amp=False, every=1):
    model = model.to(DEVICE)
    optimizer, loss_of, done = optimizer(model.parameters()), nn.CrossEntropyLoss(), 0
    for i, (x, y) in enumerate(DataLoader(data, batch_size=4, shuffle=True)):
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=amp):
            out = model(x.to(DEVICE))
            loss = loss_of(out.flatten(0, -2), y.to(DEVICE).flatten())
        (loss / every).backward()
        print(loss.item().hex())
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            if done == STEPS:
                break


def gan():
    draws, judges = (nn.Sequential(nn.Linear(a, 32), nn.LeakyReLU(0.2), nn.Linear(32, b)).to(DEVICE) for a, b in ((8, 16), (16, 1)))
    of_draws, of_judges = torch.optim.Adam(draws.parameters(), 1e-3), torch.optim.Adam(judges.parameters(), 1e-3)
    loss_of = nn.BCEWithLogitsLoss()
    for (real,) in DataLoader(TensorDataset(torch.randn(40, 16)), batch_size=8):
        real, ones, zeros = real.to(DEVICE), torch.ones(8, 1, device=DEVICE), torch.zeros(8, 1, device=DEVICE)
        made = draws(torch.randn(8, 8, device=DEVICE))
        of_judges.zero_grad()
        judged = loss_of(judges(real), ones) + loss_of(judges(made.detach()), zeros)
        judged.backward()
        of_judges.step()
        of_draws.zero_grad()
        drawn = loss_of(judges(made), ones)
        drawn.backward()
        of_draws.step()
        print(judged.item().hex(), drawn.item().hex())


def tokens(n=48, labels=12):
    return TensorDataset(torch.randint(0, 50, (n, 12)), torch.randint(0, 5 if labels == 1 else 50, (n, labels)))


def adamw(parameters):
    return torch.optim.AdamW(parameters, 1e-3)


KINDS = {
    "resnet": lambda: classify(resnet(), images()),
    "transformer": lambda: classify(Tokens(), tokens(), adamw),
    "unet": lambda: classify(UNet(), images()),
    "vit": lambda: classify(ViT(), images(), adamw),
    "lstm": lambda: classify(LSTM(), tokens(labels=1)),
    "mobilenet": lambda: classify(mobilenet(), images()),
    "gan": gan,
    "bert": lambda: classify(Bert(), tokens(labels=1), adamw),
    "autocast": lambda: classify(resnet(), images(), amp=True),
    "accumulate": lambda: classify(UNet(), images(), every=2),
    "checkpoint": lambda: classify(Checkpointed(), images()),
}

if __name__ == "__main__":
    torch.manual_seed(7)
    KINDS[sys.argv[1]]()
