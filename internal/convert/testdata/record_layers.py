"""Records one small layer of each kind as PyTorch, Keras and MLX hold it, once the three give the same output.

    python record_layers.py first   # torch, keras and tensorflow: writes layers.npz (PyTorch's and Keras's, which agree)
    python record_layers.py second  # mlx: adds MLX's, which agrees as well, and writes layers.json.gz
"""
import gzip
import json
import sys

import numpy

TOLERANCE = 1e-5  # relative to the largest output


def agree(what, a, b):
    worst = numpy.abs(a - b).max() / numpy.abs(a).max()
    assert worst < TOLERANCE, (what, worst)
    return float(worst)


# name: torch's class and arguments, Keras's class and arguments, the shape of an input (channels first), word of --kind
LAYERS = {
    "conv1d": ("Conv1d", (4, 6, 5), {}, "Conv1D", (6, 5), {}, (2, 4, 11), "conv"),
    "conv2d": ("Conv2d", (4, 6, (3, 5)), {}, "Conv2D", (6, (3, 5)), {}, (2, 4, 9, 11), "conv"),
    "conv3d": ("Conv3d", (4, 6, (2, 3, 5)), {}, "Conv3D", (6, (2, 3, 5)), {}, (2, 4, 5, 7, 9), "conv"),
    "grouped": ("Conv2d", (4, 6, 3), {"groups": 2}, "Conv2D", (6, 3), {"groups": 2}, (2, 4, 9, 11), "conv"),
    "depthwise": ("Conv2d", (4, 4, (3, 5)), {"groups": 4}, "DepthwiseConv2D", ((3, 5),), {}, (2, 4, 9, 11), "depthwise"),
    "transpose1d": ("ConvTranspose1d", (4, 6, 5), {"stride": 2}, "Conv1DTranspose", (6, 5), {"strides": 2}, (2, 4, 7), "conv-transpose"),
    "transpose2d": ("ConvTranspose2d", (4, 6, (3, 5)), {"stride": 3}, "Conv2DTranspose", (6, (3, 5)), {"strides": 3}, (2, 4, 5, 7),
                    "conv-transpose"),
    "transpose3d": ("ConvTranspose3d", (4, 6, (2, 3, 5)), {"stride": 2}, "Conv3DTranspose", (6, (2, 3, 5)), {"strides": 2},
                    (2, 4, 3, 4, 5), "conv-transpose"),
    "dense": ("Linear", (7, 6), {}, "Dense", (6,), {}, (2, 7), "dense"),
    "flat": ("Linear", (30, 6), {}, "Dense", (6,), {}, (2, 3, 2, 5), "dense"),  # behind a flatten of 3x2x5
}
# Written out here and nowhere taken from assay: torch's order to the others'.
TO_KERAS = {"conv1d": (2, 1, 0), "conv2d": (2, 3, 1, 0), "conv3d": (2, 3, 4, 1, 0), "grouped": (2, 3, 1, 0), "depthwise": (2, 3, 0, 1),
            "transpose1d": (2, 1, 0), "transpose2d": (2, 3, 1, 0), "transpose3d": (2, 3, 4, 1, 0), "dense": (1, 0)}
TO_MLX = {"conv1d": (0, 2, 1), "conv2d": (0, 2, 3, 1), "conv3d": (0, 2, 3, 4, 1), "grouped": (0, 2, 3, 1), "depthwise": (0, 2, 3, 1),
          "transpose1d": (1, 2, 0), "transpose2d": (1, 2, 3, 0), "transpose3d": (1, 2, 3, 4, 0), "dense": (0, 1)}


def last(x):
    return numpy.moveaxis(x, 1, -1)


def first():
    import keras
    import torch
    rng, kept = numpy.random.default_rng(5), {}
    for name, (cls, args, more, keras_cls, keras_args, keras_more, shape, _) in LAYERS.items():
        layer = getattr(torch.nn, cls)(*args, **more)
        x = rng.standard_normal(shape).astype("f4")
        w = rng.standard_normal(tuple(layer.weight.shape)).astype("f4")
        b = rng.standard_normal(tuple(layer.bias.shape)).astype("f4")
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(w))
            layer.bias.copy_(torch.from_numpy(b))
            y = layer(torch.from_numpy(x.reshape(2, -1) if name == "flat" else x)).numpy()
        if name == "flat":
            k = w.reshape(6, 3, 2, 5).transpose(2, 3, 1, 0).reshape(30, 6)
            inputs = last(x).reshape(2, -1)
        else:
            k, inputs = w.transpose(TO_KERAS[name]), last(x)
        other = getattr(keras.layers, keras_cls)(*keras_args, **keras_more)
        other.build(inputs.shape)
        other.set_weights([k, b])
        z = numpy.array(other(inputs))
        agree(name, last(y), z)
        kept |= {f"{name}.x": x, f"{name}.y": y, f"{name}.torch": w, f"{name}.keras": k, f"{name}.bias": b}
    kept["versions"] = numpy.array([f"torch {torch.__version__}", f"keras {keras.__version__}"])
    numpy.savez("layers.npz", **kept)


def second():
    import mlx.core as mx
    kept, out = numpy.load("layers.npz"), {}
    for name, (_, _, more, _, _, _, _, kind) in LAYERS.items():
        w, b, x = kept[f"{name}.torch"], kept[f"{name}.bias"], last(kept[f"{name}.x"])
        stride, groups = more.get("stride", 1), more.get("groups", 1)
        if name == "flat":
            m = w.reshape(6, 3, 2, 5).transpose(0, 2, 3, 1).reshape(6, 30)
            y = mx.array(x.reshape(2, -1)) @ mx.array(m).T
        else:
            m = w.transpose(TO_MLX[name])
            if name == "dense":
                y = mx.array(x) @ mx.array(m).T
            elif name.startswith("transpose"):
                y = getattr(mx, "conv_transpose" + name[-2:])(mx.array(x), mx.array(m), stride=stride)
            else:
                y = mx.conv_general(mx.array(x), mx.array(m), groups=groups)
        agree(name, last(kept[f"{name}.y"]), numpy.array(y + mx.array(b)))
        out[name] = {"kind": kind, "outputs": len(b)}
        for what, array in (("torch", w), ("keras", kept[f"{name}.keras"]), ("mlx", m)):
            out[name][what] = {"shape": array.shape, "data": numpy.ascontiguousarray(array, "<f4").tobytes().hex()}
    out = {"versions": [*map(str, kept["versions"]), f"mlx {mx.__version__}"], "layers": out}
    with gzip.GzipFile("layers.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps(out, separators=(",", ":")).encode())


{"first": first, "second": second}[sys.argv[1]]()
