"""Weights of MSI-Net in one file for every framework: name -> float32 array, kernels as PyTorch has them, [out, in, height, width].

    python weights.py FILE.safetensors [SEED]                     writes random weights
    python weights.py FILE.safetensors --keras ENCODER            the encoder of a VGG16 of Keras's, the rest as a training
    python weights.py FILE.safetensors --torchvision ENCODER      begins; of torchvision's, made to fit these pictures

ENCODER is what assay convert VGG16 ENCODER --to torch --names msinet gives.
"""

import json
import os
import struct
import sys

import numpy as np

# name, channels in, channels out, kernel, dilation: each with a bias, stride 1 and zeros around, so that a picture keeps
# its size. From model.py of alexanderkroner/saliency at commit bd81e58.
LAYERS = [
    ("conv1.conv1_1", 3, 64, 3, 1), ("conv1.conv1_2", 64, 64, 3, 1),
    ("conv2.conv2_1", 64, 128, 3, 1), ("conv2.conv2_2", 128, 128, 3, 1),
    ("conv3.conv3_1", 128, 256, 3, 1), ("conv3.conv3_2", 256, 256, 3, 1), ("conv3.conv3_3", 256, 256, 3, 1),
    ("conv4.conv4_1", 256, 512, 3, 1), ("conv4.conv4_2", 512, 512, 3, 1), ("conv4.conv4_3", 512, 512, 3, 1),
    ("conv5.conv5_1", 512, 512, 3, 2), ("conv5.conv5_2", 512, 512, 3, 2), ("conv5.conv5_3", 512, 512, 3, 2),
    ("aspp.conv1_1", 1280, 256, 1, 1), ("aspp.conv1_2", 1280, 256, 3, 4), ("aspp.conv1_3", 1280, 256, 3, 8),
    ("aspp.conv1_4", 1280, 256, 3, 12), ("aspp.conv1_5", 1280, 256, 1, 1), ("aspp.conv2", 1280, 256, 1, 1),
    ("decoder.conv1", 256, 128, 3, 1), ("decoder.conv2", 128, 64, 3, 1), ("decoder.conv3", 64, 32, 3, 1),
    ("decoder.conv4", 32, 1, 3, 1),
]  # fmt: skip

# What is taken off the channels red, green, blue. VGG's means are of blue, green, red; MSI-Net has learnt with them in this order.
MEANS = np.array([103.939, 116.779, 123.68], np.float32)


def drawn(seed=7):
    """Random weights: kernels as He and others draw them (standard deviation √(2 / inputs)), biases with 0.5, so that
    no layer is silent and no bias without effect."""
    random, weights = np.random.RandomState(seed), {}
    for name, channels, out, k, _ in LAYERS:
        spread = (2 / (channels * k * k)) ** 0.5
        weights[name + ".weight"] = (spread * random.standard_normal((out, channels, k, k))).astype(np.float32)
        weights[name + ".bias"] = (0.5 * random.standard_normal(out)).astype(np.float32)
    return weights


def begun(path, torchvision, seed=7):
    """The encoder of a file; what is behind it as TensorFlow draws it (Glorot and Bengio, uniform), with biases of 0."""
    random, held = np.random.RandomState(seed), load(path)
    for name, channels, out, k, _ in LAYERS[13:]:
        most = (6 / ((channels + out) * k * k)) ** 0.5
        held[name + ".weight"] = random.uniform(-most, most, (out, channels, k, k)).astype(np.float32)
        held[name + ".bias"] = np.zeros(out, np.float32)
    if torchvision and "conv1.conv1_1.weight" in held:  # trained on RGB / 255 minus these means, by these deviations
        kernel = held["conv1.conv1_1.weight"] / (255 * np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1))
        off = 255 * np.array([0.485, 0.456, 0.406]) - MEANS  # what is taken off too much or too little; wrong in the outermost row
        held["conv1.conv1_1.bias"] = held["conv1.conv1_1.bias"] - (kernel * off.reshape(3, 1, 1)).sum((1, 2, 3))
        held["conv1.conv1_1.weight"] = kernel
    return checked(path, held)


def given():
    """The weights of the file that MSINET_WEIGHTS names, else random ones."""
    path = os.environ.get("MSINET_WEIGHTS")
    return read(path) if path else drawn()


def read(path):
    """The weights of a safetensors file or an .npz, all there and of the right shapes."""
    return checked(path, load(path))


def load(path):
    if path.endswith(".npz"):
        with np.load(path, allow_pickle=False) as held:
            weights = {name: held[name] for name in held.files}
    else:
        with open(path, "rb") as f:
            size = struct.unpack("<Q", f.read(8))[0]
            if size > 1 << 20:
                raise ValueError("%s: no safetensors file of MSI-Net's" % path)
            header, data = json.loads(f.read(size)), f.read()
        weights = {}
        for name, told in header.items():
            if name != "__metadata__":
                first, end = told["data_offsets"]
                kind = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}[told["dtype"]]
                weights[name] = np.frombuffer(data[first:end], kind).reshape(told["shape"])
    return weights


def checked(path, weights):
    for name, channels, out, k, _ in LAYERS:
        for part, shape in (("weight", (out, channels, k, k)), ("bias", (out,))):
            has = weights.get("%s.%s" % (name, part))
            if has is None or has.shape != shape:
                raise ValueError("%s: %s.%s is %s, and should be of shape %s: kernels lie as PyTorch has them" % (
                    path, name, part, "not there" if has is None else "of shape %s" % (has.shape,), shape))
    return {name: np.array(array, np.float32, order="C") for name, array in weights.items()}


def write(path, weights):
    """A safetensors file, or an .npz."""
    if path.endswith(".npz"):
        np.savez(path, **weights)
        return
    header, at = {}, 0
    for name, array in weights.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for array in weights.values():
            f.write(np.ascontiguousarray(array, "<f4").tobytes())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if len(sys.argv) == 4 and sys.argv[2] in ("--keras", "--torchvision"):
        write(sys.argv[1], begun(sys.argv[3], sys.argv[2] == "--torchvision"))
    else:
        write(sys.argv[1], drawn(int(sys.argv[2]) if len(sys.argv) > 2 else 7))
