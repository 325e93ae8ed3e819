"""Records small recurrent layers as PyTorch, Keras and MLX hold them, once the three give the same output.

    python record_recurrent.py first   # torch, keras and tensorflow: writes recurrent.npz
    python record_recurrent.py second  # mlx: adds MLX's, which agrees as well, and writes recurrent.json.gz

Keras and MLX have no stack and no two directions in one module of weights: the names are those of assay, the outputs those
of the layers put together. Where one bias is all that is held, PyTorch's second is zero; of a GRU to MLX its reset and
update parts are.
"""
import gzip
import json
import sys

import numpy

TOLERANCE = 1e-5  # relative to the largest output
WIDE, WIDTH, STEPS = 3, 4, 6
# name: PyTorch's class, layers, directions, biases
NETS = {"lstm": ("LSTM", 1, 1, True), "lstm2": ("LSTM", 2, 1, True), "bilstm": ("LSTM", 2, 2, True), "lstm_plain": ("LSTM", 1, 1, False),
        "gru": ("GRU", 1, 1, True), "bigru": ("GRU", 1, 2, True), "gru2": ("GRU", 2, 1, True), "rnn": ("RNN", 1, 1, True)}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def agree(what, a, b):
    assert a.shape == b.shape and abs(a - b).max() / abs(a).max() < TOLERANCE, (what, abs(a - b).max())


def cells(layers, directions):
    for layer in range(layers):
        for end in ("", "_reverse")[:directions]:
            yield layer, f"l{layer}{end}", end


def put(layers, directions, cell, x):
    """The layers one upon the other: cell(name, x) gives a direction, whose second reads and gives from the end."""
    for layer in range(layers):
        ways = [cell(f"l{layer}", x)]
        if directions == 2:
            ways.append(cell(f"l{layer}_reverse", x[:, ::-1])[:, ::-1])
        x = numpy.concatenate(ways, -1)
    return x


def turned(w, axis):
    """A GRU's r, z, n as z, r, n."""
    r, z, n = numpy.split(w, 3, axis)
    return numpy.concatenate([z, r, n], axis)


def first():
    import keras
    import torch
    rng, kept = numpy.random.default_rng(9), {}
    for net, (cls, layers, directions, bias) in NETS.items():
        module = getattr(torch.nn, cls)(WIDE, WIDTH, layers, bias=bias, bidirectional=directions == 2, batch_first=True)
        state = {k: rng.standard_normal(tuple(v.shape)).astype("f4") for k, v in module.state_dict().items()}
        for k in state:
            if k.startswith("bias_hh"):
                state[k][:2 * WIDTH if cls == "GRU" else None] = 0
        module.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
        x = rng.standard_normal((2, STEPS, WIDE)).astype("f4")
        y = module(torch.from_numpy(x))[0].detach().numpy()
        held = {}
        sole = layers == directions == 1
        for _, at, end in cells(layers, directions):
            weights = [state["weight_ih_" + at].T, state["weight_hh_" + at].T]
            if cls == "GRU":
                weights = [turned(w, -1) for w in weights]
            if bias and cls == "GRU":
                weights.append(turned(numpy.stack([state["bias_ih_" + at], state["bias_hh_" + at]]), -1))
            elif bias:
                weights.append(state["bias_ih_" + at])
            for name, w in zip(("kernel", "recurrent_kernel", "bias"), weights):
                held["r/" + ("" if sole else at + "/") + name] = w

        def cell(at, x):
            layer = getattr(keras.layers, "SimpleRNN" if cls == "RNN" else cls)(WIDTH, return_sequences=True, use_bias=bias)
            layer.build(x.shape)
            prefix = "r/" + ("" if sole else at + "/")
            layer.set_weights([held[prefix + v.name] for v in layer.weights])
            return numpy.array(layer(x))

        agree(net, y, put(layers, directions, cell, x))
        kept |= {f"{net}|torch|r.{k}": v for k, v in state.items()} | {f"{net}|keras|{k}": v for k, v in held.items()}
        kept |= {f"{net}|x|": x, f"{net}|y|": y}
    kept["versions"] = numpy.array([f"torch {torch.__version__}", f"keras {keras.__version__}"])
    numpy.savez("recurrent.npz", **kept)


def second():
    import mlx.core as mx
    from mlx import nn
    kept, out = numpy.load("recurrent.npz"), {}
    for net, (cls, layers, directions, bias) in NETS.items():
        sole = layers == directions == 1
        sides = {side: {k.split("|")[2]: kept[k] for k in kept if k.startswith(f"{net}|{side}|")} for side in ("torch", "keras")}
        held = {}
        for _, at, end in cells(layers, directions):
            prefix = "r." + ("" if sole else at + ".")
            state = {k: sides["torch"].get(f"r.{k}_{at}") for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
            held[prefix + ("Wxh" if cls == "RNN" else "Wx")] = state["weight_ih"]
            held[prefix + ("Whh" if cls == "RNN" else "Wh")] = state["weight_hh"]
            if bias and cls == "GRU":
                held[prefix + "b"], held[prefix + "bhn"] = state["bias_ih"], state["bias_hh"][2 * WIDTH:]
            elif bias:
                held[prefix + "bias"] = state["bias_ih"]

        def cell(at, x):
            layer = getattr(nn, cls)(x.shape[-1], WIDTH, bias=bias)
            prefix = "r." + ("" if sole else at + ".")
            layer.load_weights([(k[len(prefix):], mx.array(v)) for k, v in held.items() if k.startswith(prefix) and "." not in k[len(prefix):]])
            y = layer(mx.array(numpy.ascontiguousarray(x)))
            return numpy.array(y[0] if cls == "LSTM" else y)

        agree(net, kept[f"{net}|y|"], put(layers, directions, cell, kept[f"{net}|x|"]))
        sides["mlx"] = held
        out[net] = {side: {k: {"shape": v.shape, "data": numpy.ascontiguousarray(v, "<f4").tobytes().hex()} for k, v in tensors.items()}
                    for side, tensors in sides.items()}
    with gzip.GzipFile("recurrent.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps({"versions": [*map(str, kept["versions"]), f"mlx {mx.__version__}"], "nets": out}, separators=(",", ":")).encode())


{"first": first, "second": second}[sys.argv[1]]()
