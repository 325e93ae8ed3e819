"""MSI-Net in MLX: where people look in a picture.

    python msinet_mlx.py PICTURE MAP.png           MSINET_WEIGHTS names a file of weights; else they are random
    python msinet_mlx.py --train EPOCHS FILE       trains on drawn pictures, keeps weights and optimizer in FILE, goes on from it
"""

import os
import sys

import mlx.core as mx
import pictures
import weights
from mlx import nn, optimizers
from mlx.utils import tree_flatten, tree_unflatten

HALF_PIXEL, LEGACY = "half-pixel", "legacy"  # how pictures are doubled: by TensorFlow 2, PyTorch and MLX, or by TensorFlow 1


class Double(nn.Module):
    """Pictures [N, H, W, C] of twice the height and width, between neighbours linear."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        self._between = nn.Upsample(2, mode="linear", align_corners=False)

    def __call__(self, x):
        if self.mode == HALF_PIXEL:
            return self._between(x)
        for axis in (1, 2):  # each value, and the mean of it and the next; the last is repeated
            following = mx.take(x, mx.minimum(mx.arange(x.shape[axis]) + 1, x.shape[axis] - 1), axis)
            x = mx.stack([x, (x + following) / 2], axis + 1).flatten(axis, axis + 1)
        return x


class SamePool(nn.Module):
    """The largest of 2 × 2, at every place: beyond the right and the lower edge there is nothing."""

    def __init__(self):
        super().__init__()
        self._largest = nn.MaxPool2d(2, 1)

    def __call__(self, x):
        return self._largest(mx.pad(x, [(0, 0), (0, 1), (0, 1), (0, 0)], constant_values=-float("inf")))


class Conv(nn.Conv2d):
    """A convolution that keeps the size. In float64 (assay golden --float64) it is summed up, shift by shift: MLX's own
    raises where it is dilated, and has the precision of float32 where it is not."""

    def __call__(self, x):
        if x.dtype != mx.float64:
            return super().__call__(x)
        d, k, (height, width) = self.dilation, self.weight.shape[1], x.shape[1:3]
        around = d * (k // 2)
        x = mx.pad(x, [(0, 0), (around, around), (around, around), (0, 0)])
        shifts = [(i, j) for i in range(k) for j in range(k)]
        return self.bias + sum(x[:, d * i : d * i + height, d * j : d * j + width] @ self.weight[:, i, j].T for i, j in shifts)


class Block(nn.Module):
    """Layers by their names."""


class MSINet(nn.Module):
    """Images [N, H, W, 3], RGB, 0 to 255, H and W multiples of 8; maps [N, H, W, 1], 0 to 1."""

    def __init__(self, resize=HALF_PIXEL):
        super().__init__()
        for name, channels, out, k, dilation in weights.LAYERS:
            block, layer = name.split(".")
            if block not in self:
                self[block] = Block()
            self[block][layer] = Conv(channels, out, k, padding=dilation * (k // 2), dilation=dilation)
        self.pool1, self.pool2, self.pool3 = nn.MaxPool2d(2, 2), nn.MaxPool2d(2, 2), nn.MaxPool2d(2, 2)
        self.pool4, self.pool5 = SamePool(), SamePool()
        self.up1, self.up2, self.up3 = Double(resize), Double(resize), Double(resize)

    def __call__(self, images):
        x, features = images - mx.array(weights.MEANS), []
        for i in range(1, 6):
            for conv in self["conv%d" % i].values():
                x = nn.relu(conv(x))
            x = self["pool%d" % i](x)
            if i > 2:
                features.append(x)
        x = mx.concatenate(features, -1)
        branches = [nn.relu(self.aspp["conv1_%d" % i](x)) for i in range(1, 5)]
        whole = nn.relu(self.aspp["conv1_5"](x.mean((1, 2), keepdims=True)))
        branches.append(mx.broadcast_to(whole, branches[0].shape))
        x = nn.relu(self.aspp["conv2"](mx.concatenate(branches, -1)))
        for up, conv in zip((self.up1, self.up2, self.up3), ("conv1", "conv2", "conv3")):
            x = nn.relu(self.decoder[conv](up(x)))
        x = self.decoder["conv4"](x)
        x = x - x.min((1, 2), keepdims=True)
        return x / (1e-7 + x.max((1, 2), keepdims=True))


RESIZE = os.environ.get("MSINET_RESIZE", HALF_PIXEL)


def model(resize=RESIZE):
    net = MSINet(resize)
    held = ((name, mx.array(a.transpose(0, 2, 3, 1) if a.ndim == 4 else a)) for name, a in weights.given().items())
    net.load_weights(list(held), strict=True)
    return net


def total(x):
    """The sum over each picture, one axis after the other: in one go MLX's CPU loses four digits of it."""
    return x.sum(3, keepdims=True).sum(2, keepdims=True).sum(1, keepdims=True)


def kld(maps, predicted, e=1e-7):
    """How much is lost where the prediction stands for the map (Kullback and Leibler), over each picture; their mean."""
    t = maps / (e + total(maps))
    p = predicted / (e + total(predicted))
    return total(t * mx.log(e + t / (e + p))).mean()


def loss(model, images, maps):
    return kld(maps, model(images))


def optimizer(model):
    return optimizers.Adam(learning_rate=1e-5, eps=1e-8, bias_correction=True)  # without it, the first steps are three times too long


def inputs():
    return pictures.drawn()[0]


def targets():
    return pictures.drawn()[1]


def train(net, batches, epochs, path):
    """Trains on batches, (images, maps) each; after every epoch weights and optimizer are kept, and found again."""
    adam, done, step = optimizer(net), 0, nn.value_and_grad(net, loss)
    if os.path.exists(path):
        kept, told = mx.load(path, format="safetensors", return_metadata=True)
        kept = tree_unflatten(list(kept.items()))
        net.update(kept["weights"])
        adam.state, done = kept["optimizer"], int(told["epochs"])
    for epoch in range(done, epochs):
        losses = 0.0
        for images, maps in batches:
            value, gradients = step(net, images, maps)
            adam.update(net, gradients)
            mx.eval(net.parameters(), adam.state)
            losses += value.item()
        print("epoch %d of %d: loss %.4f" % (epoch + 1, epochs, losses / len(batches)))
        kept = dict(tree_flatten({"weights": net.parameters(), "optimizer": adam.state}))
        mx.save_safetensors(path + ".part.safetensors", kept, {"epochs": str(epoch + 1)})
        os.replace(path + ".part.safetensors", path)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--train":
        images, maps = map(mx.array, pictures.drawn(4))
        train(model(), [(images[i : i + 1], maps[i : i + 1]) for i in range(4)], int(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) == 3:
        image, size = pictures.read(sys.argv[1])
        pictures.write(sys.argv[2], model()(mx.array(image))[0, :, :, 0], size)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
