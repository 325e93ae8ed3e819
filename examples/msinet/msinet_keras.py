"""MSI-Net in Keras 3, on TensorFlow, JAX or PyTorch (KERAS_BACKEND): where people look in a picture.

    python msinet_keras.py PICTURE MAP.png         MSINET_WEIGHTS names a file of weights; else they are random
    python msinet_keras.py --train EPOCHS FOLDER   trains on drawn pictures, keeps weights and optimizer in FOLDER, goes on from it
"""

import os
import sys

import keras
import pictures
import weights
from keras import layers, ops

HALF_PIXEL, LEGACY = "half-pixel", "legacy"  # how pictures are doubled: by TensorFlow 2, PyTorch and MLX, or by TensorFlow 1


def axes():
    """Of height and width, and of channels, in the data format that Keras is set to."""
    return ((2, 3), 1) if keras.config.image_data_format() == "channels_first" else ((1, 2), 3)


class Double(layers.Layer):
    """Pictures of twice the height and width, between neighbours linear."""

    def __init__(self, mode, **kwargs):
        super().__init__(**kwargs)
        self.mode = mode

    def call(self, x):
        # Of our own, since TensorFlow's resize gives float32 whatever it is given. The edges are repeated.
        for axis in axes()[0]:
            n = x.shape[axis]
            before = ops.take(x, [max(i - 1, 0) for i in range(n)], axis)
            behind = ops.take(x, [min(i + 1, n - 1) for i in range(n)], axis)
            halves = [x, (x + behind) / 2] if self.mode == LEGACY else [(before + 3 * x) / 4, (3 * x + behind) / 4]
            x = ops.reshape(ops.stack(halves, axis + 1), x.shape[:axis] + (2 * n,) + x.shape[axis + 1 :])
        return x


class MSINet(keras.Model):
    """Images [N, H, W, 3], RGB, 0 to 255, H and W multiples of 8; maps [N, H, W, 1], 0 to 1; channels first where Keras is set so."""

    def __init__(self, resize=HALF_PIXEL, **kwargs):
        super().__init__(**kwargs)
        self.convs = {}
        for name, _, out, k, dilation in weights.LAYERS:
            self.convs[name] = layers.Conv2D(
                out, k, padding="same", dilation_rate=dilation, activation=None if name == "decoder.conv4" else "relu",
                name=name.replace(".", "_"))
        self.pools = [layers.MaxPooling2D(2, 2, name="pool%d" % i) for i in (1, 2, 3)]
        self.pools += [layers.MaxPooling2D(2, 1, "same", name="pool%d" % i) for i in (4, 5)]
        self.ups = [Double(resize, name="up%d" % i) for i in (1, 2, 3)]

    def call(self, images):
        around, channels = axes()
        means = ops.reshape(ops.convert_to_tensor(weights.MEANS, images.dtype), [3 if i == channels else 1 for i in range(4)])
        x, features = images - means, []
        for i, pool in enumerate(self.pools, 1):
            for name, conv in self.convs.items():
                if name.startswith("conv%d." % i):
                    x = conv(x)
            x = pool(x)
            if i > 2:
                features.append(x)
        x = ops.concatenate(features, channels)
        branches = [self.convs["aspp.conv1_%d" % i](x) for i in range(1, 5)]
        whole = self.convs["aspp.conv1_5"](ops.mean(x, around, keepdims=True))
        branches.append(ops.broadcast_to(whole, branches[0].shape))
        x = self.convs["aspp.conv2"](ops.concatenate(branches, channels))
        for i, up in enumerate(self.ups, 1):
            x = self.convs["decoder.conv%d" % i](up(x))
        x = self.convs["decoder.conv4"](x)
        x = x - ops.min(x, around, keepdims=True)
        return x / (1e-7 + ops.max(x, around, keepdims=True))


RESIZE = os.environ.get("MSINET_RESIZE", HALF_PIXEL)


def model(resize=RESIZE, height=48, width=80):
    net, held = MSINet(resize, name="msinet"), weights.given()
    net(ops.zeros((1, 3, height, width) if axes()[1] == 1 else (1, height, width, 3)))  # so that layers have weights
    for name, conv in net.convs.items():
        conv.set_weights([held[name + ".weight"].transpose(2, 3, 1, 0), held[name + ".bias"]])
    return net


def kld(maps, predicted, e=1e-7):
    """How much is lost where the prediction stands for the map (Kullback and Leibler), over each picture; their mean."""
    t = maps / (e + ops.sum(maps, (1, 2, 3), keepdims=True))
    p = predicted / (e + ops.sum(predicted, (1, 2, 3), keepdims=True))
    return ops.mean(ops.sum(t * ops.log(e + t / (e + p)), (1, 2, 3)))


def loss(model, images, maps):
    return kld(maps, model(images))


def optimizer(model):
    return keras.optimizers.Adam(1e-5, epsilon=1e-8)  # not the same as elsewhere: see README.md


def placed(array):
    """Pictures with their channels where Keras is set to have them."""
    return array.transpose(0, 3, 1, 2).copy() if axes()[1] == 1 else array


def inputs():
    return placed(pictures.drawn()[0])


def targets():
    return placed(pictures.drawn()[1])


def train(net, images, maps, epochs, folder):
    """Trains on images and maps, one at a time; after every epoch weights and optimizer are kept, and found again."""
    net.compile(optimizer(net), kld)
    net.fit(images, maps, batch_size=1, epochs=epochs, shuffle=True, verbose=2,
            callbacks=[keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)])


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--train":
        images, maps = map(placed, pictures.drawn(4))
        train(model(), images, maps, int(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) == 3:
        image, size = pictures.read(sys.argv[1])
        saliency = ops.convert_to_numpy(model(height=240, width=320)(placed(image)))
        pictures.write(sys.argv[2], saliency.squeeze(), size)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
