"""MSI-Net in PyTorch: where people look in a picture.

    python msinet_torch.py PICTURE MAP.png         MSINET_WEIGHTS names a file of weights; else they are random
    python msinet_torch.py --train EPOCHS FILE     trains on drawn pictures, keeps weights and optimizer in FILE, goes on from it
"""

import os
import sys
from collections import OrderedDict

import pictures
import torch
import weights
from torch import nn
from torch.nn import functional as F

HALF_PIXEL, LEGACY = "half-pixel", "legacy"  # how pictures are doubled: by TensorFlow 2, PyTorch and MLX, or by TensorFlow 1


class Double(nn.Module):
    """Pictures [N, C, H, W] of twice the height and width, between neighbours linear."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        if self.mode == HALF_PIXEL:
            return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        for axis in (2, 3):  # each value, and the mean of it and the next; the last is repeated
            last = x.narrow(axis, x.shape[axis] - 1, 1)
            following = torch.cat([x.narrow(axis, 1, x.shape[axis] - 1), last], axis)
            x = torch.stack([x, (x + following) / 2], axis + 1).flatten(axis, axis + 1)
        return x


class SamePool(nn.Module):
    """The largest of 2 × 2, at every place: beyond the right and the lower edge there is nothing."""

    def forward(self, x):
        return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-torch.inf), 2, 1)


class MSINet(nn.Module):
    """Images [N, 3, H, W], RGB, 0 to 255, H and W multiples of 8; maps [N, 1, H, W], 0 to 1."""

    def __init__(self, resize=HALF_PIXEL):
        super().__init__()
        blocks = OrderedDict()
        for name, channels, out, k, dilation in weights.LAYERS:
            block, layer = name.split(".")
            conv = nn.Conv2d(channels, out, k, padding=dilation * (k // 2), dilation=dilation)
            blocks.setdefault(block, nn.ModuleDict())[layer] = conv
        for name, block in blocks.items():
            self.add_module(name, block)
        self.pool1, self.pool2, self.pool3 = nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d(2)
        self.pool4, self.pool5 = SamePool(), SamePool()
        self.up1, self.up2, self.up3 = Double(resize), Double(resize), Double(resize)
        self.register_buffer("means", torch.from_numpy(weights.MEANS).view(3, 1, 1), persistent=False)

    def forward(self, images):
        x, features = images - self.means, []
        for i in range(1, 6):
            for conv in self.get_submodule("conv%d" % i).values():
                x = F.relu(conv(x))
            x = self.get_submodule("pool%d" % i)(x)
            if i > 2:
                features.append(x)
        x = torch.cat(features, 1)
        aspp = self.aspp
        branches = [F.relu(aspp["conv1_%d" % i](x)) for i in range(1, 5)]
        whole = F.relu(aspp["conv1_5"](x.mean((2, 3), keepdim=True)))
        x = F.relu(aspp["conv2"](torch.cat(branches + [whole.expand_as(branches[0])], 1)))
        for up, conv in zip((self.up1, self.up2, self.up3), ("conv1", "conv2", "conv3")):
            x = F.relu(self.decoder[conv](up(x)))
        x = self.decoder["conv4"](x)
        x = x - x.amin((2, 3), keepdim=True)
        return x / (1e-7 + x.amax((2, 3), keepdim=True))


RESIZE = os.environ.get("MSINET_RESIZE", HALF_PIXEL)


def model(resize=RESIZE):
    net = MSINet(resize)
    net.load_state_dict({name: torch.from_numpy(array) for name, array in weights.given().items()})
    return net


def kld(maps, predicted, e=1e-7):
    """How much is lost where the prediction stands for the map (Kullback and Leibler), over each picture; their mean."""
    t = maps / (e + maps.sum((1, 2, 3), keepdim=True))
    p = predicted / (e + predicted.sum((1, 2, 3), keepdim=True))
    return (t * torch.log(e + t / (e + p))).sum((1, 2, 3)).mean()


def loss(model, images, maps):
    return kld(maps, model(images))


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-5, eps=1e-8)


def inputs():
    return pictures.drawn()[0].transpose(0, 3, 1, 2)


def targets():
    return pictures.drawn()[1].transpose(0, 3, 1, 2)


def train(net, batches, epochs, path):
    """Trains on batches, (images, maps) each; after every epoch weights and optimizer are kept, and found again."""
    adam, done = optimizer(net), 0
    if os.path.exists(path):
        kept = torch.load(path, weights_only=True)
        net.load_state_dict(kept["weights"])
        adam.load_state_dict(kept["optimizer"])
        done = kept["epochs"]
    for epoch in range(done, epochs):
        total = 0.0
        for images, maps in batches:
            adam.zero_grad()
            value = loss(net, images, maps)
            value.backward()
            adam.step()
            total += value.item()
        print("epoch %d of %d: loss %.4f" % (epoch + 1, epochs, total / len(batches)))
        torch.save({"weights": net.state_dict(), "optimizer": adam.state_dict(), "epochs": epoch + 1}, path + ".part")
        os.replace(path + ".part", path)


def device():
    if torch.backends.mps.is_available():
        return "mps"
    return "cuda" if torch.cuda.is_available() else "cpu"


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--train":
        images, maps = (torch.from_numpy(a.transpose(0, 3, 1, 2).copy()).to(device()) for a in pictures.drawn(4))
        train(model().to(device()), [(images[i : i + 1], maps[i : i + 1]) for i in range(4)], int(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) == 3:
        image, size = pictures.read(sys.argv[1])
        with torch.no_grad():
            saliency = model().to(device())(torch.from_numpy(image.transpose(0, 3, 1, 2).copy()).to(device()))
        pictures.write(sys.argv[2], saliency[0, 0].cpu(), size)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
