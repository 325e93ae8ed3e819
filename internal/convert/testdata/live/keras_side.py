"""Keras: keras.applications, and one of each kind of layer."""
import functools
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import common  # noqa: E402
import keras  # noqa: E402
import numpy  # noqa: E402
from keras import layers  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402


def images():
    return keras.Sequential([keras.Input((8, 9, 8)), layers.Conv2D(8, 3, name="square"), layers.Conv2D(8, 1, name="point"),
                             layers.Conv2D(8, 3, groups=2, name="grouped"), layers.DepthwiseConv2D(3, name="depth"),
                             layers.Conv2DTranspose(8, 3, 2, name="up"), layers.ReLU(), layers.Flatten(), layers.Dense(280, name="dense"),
                             layers.Dense(5, name="top")])


def lines():
    return keras.Sequential([keras.Input((11, 4)), layers.Conv1D(6, 3, name="one"), layers.DepthwiseConv1D(3, name="depth"),
                             layers.Conv1DTranspose(6, 3, 2, name="up"), layers.ReLU(), layers.Flatten(), layers.Dense(7, name="dense")])


def volumes():
    return keras.Sequential([keras.Input((3, 5, 4, 4)), layers.Conv3D(6, (2, 3, 1), name="one"), layers.Conv3DTranspose(6, 2, 2, name="up"),
                             layers.ReLU(), layers.Flatten(), layers.Dense(7, name="dense")])


def stacked(cell):
    """PyTorch's module of two layers and two directions."""
    return keras.Sequential([keras.Input((7, 3)), *(layers.Bidirectional(cell(4, return_sequences=True), name=f"l{i}") for i in (0, 1))])


def recurrent():
    return keras.Sequential([keras.Input((7, 5)), layers.LSTM(4, return_sequences=True, name="enc"),
                             layers.Bidirectional(layers.GRU(4, return_sequences=True), name="bi"),
                             layers.Bidirectional(layers.LSTM(3, return_sequences=True), name="both"), layers.Dense(2, name="dense")])


def vgg(name):
    return getattr(keras.applications, name)(weights=None, include_top=False, input_shape=(40, 40, 3))


NETS = {"lstm": lambda: stacked(layers.LSTM), "gru": lambda: stacked(layers.GRU), "images": images, "lines": lines, "volumes": volumes}
APPLICATIONS = {"VGG16": functools.partial(vgg, "VGG16"), "VGG19": functools.partial(vgg, "VGG19"),
                "MobileNetV2": lambda: keras.applications.MobileNetV2(weights=None, input_shape=(64, 64, 3), classes=10, classifier_activation=None),
                "Recurrent": recurrent,
                "Multiple": lambda: keras.Sequential([keras.Input((8, 9, 4)), layers.DepthwiseConv2D(3, depth_multiplier=3, name="depth")]),
                "Multiple1": lambda: keras.Sequential([keras.Input((11, 4)), layers.DepthwiseConv1D(3, depth_multiplier=2, name="depth")])}


def given(net, x):
    return common.first(numpy.asarray(net(common.last(x), training=False)))


def save(net, path):
    net.save_weights(path + ".weights.h5")
    names = {f"{layer.name}/{v.name}": numpy.asarray(v) for layer in net.layers for v in layer.weights}
    if len(names) == len(net.weights):
        save_file(names, path + ".keras.safetensors", {"format": "tf"})


def made():
    rng = numpy.random.default_rng(3)
    for name, make in APPLICATIONS.items():
        net = make()
        for v in net.weights:
            if len(v.shape) > 1:
                fan = numpy.prod(v.shape[:-1]) if "depthwise" not in v.path else numpy.prod(v.shape[:2])
                v.assign(rng.normal(0, (2 / fan) ** 0.5, v.shape))
            else:
                v.assign(rng.uniform(0.8, 1.2, v.shape) if v.name in ("gamma", "moving_variance") else rng.normal(0, 0.1, v.shape))
        x = rng.standard_normal((2, net.input_shape[-1], *net.input_shape[1:-1])).astype("f4")
        yield name, functools.partial(save, net), x, given(net, x)


def load(name, path, x):
    net = {**NETS, **APPLICATIONS}[name]()
    if path.endswith(".h5"):
        net.load_weights(path)
    else:
        weights = load_file(path)
        if name in ("lstm", "gru"):
            for i, layer in enumerate(net.layers):
                layer.set_weights([weights.pop(f"r/l{i}{end}/{v}") for end in ("", "_reverse") for v in ("kernel", "recurrent_kernel", "bias")])
        for layer in net.layers if weights else []:
            layer.set_weights([weights.pop(f"{layer.name}/{v.name}") for v in layer.weights])
        assert not weights, sorted(weights)
    return given(net, x)


common.run(made, load)
