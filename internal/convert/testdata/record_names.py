"""Adds the names and shapes of more networks to names.json.gz, from this folder, in an environment that has the
framework.

    python record_names.py torch   # torchvision, timm and transformers, on the meta device
    python record_names.py keras   # keras.applications, and their .weights.h5 by h5py
    python record_names.py mlx     # mlx-image
"""
import gzip
import json
import os
import sys
import tempfile


def torch():
    import timm
    import torch
    import torchvision
    import transformers
    bert, gpt2 = transformers.BertConfig, transformers.GPT2Config
    with torch.device("meta"):
        for name in ("resnet18", "resnet101", "vgg11", "vgg13", "vgg19", "vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn", "vit_l_16",
                     "mobilenet_v3_small", "mobilenet_v3_large"):
            yield name + " torch", torchvision.models.get_model(name).state_dict()
        yield "resnext50_32x4d torch", torchvision.models.resnext50_32x4d().state_dict()
        yield "vit_base_patch16_224 timm", timm.create_model("vit_base_patch16_224").state_dict()
        # google/bert_uncased_L-2_H-128_A-2 and gpt2-medium, by their configurations
        tiny = bert(num_hidden_layers=2, hidden_size=128, num_attention_heads=2, intermediate_size=512)
        yield "bert-tiny torch", transformers.BertModel(tiny).state_dict()
        yield "gpt2-medium torch", transformers.GPT2Model(gpt2(n_layer=24, n_embd=1024, n_head=16)).state_dict()


def keras():
    import h5py
    import keras
    for name in ("VGG19",):
        model = getattr(keras.applications, name)(weights=None)
        yield name + " keras", {f"{layer.name}/{v.name}": v for layer in model.layers for v in layer.weights}
        with tempfile.TemporaryDirectory() as folder:
            model.save_weights(path := os.path.join(folder, "x.weights.h5"))
            found, layers = {}, {}
            with h5py.File(path) as f:
                def visit(at, thing):
                    if isinstance(thing, h5py.Dataset):
                        found[at] = thing
                    elif "name" in thing.attrs:
                        layers[at.removesuffix("/vars")] = str(thing.attrs["name"])
                f.visititems(visit)
                yield name + " h5", {at: thing for at, thing in found.items() if "optimizer" not in at}
            yield name + " layers", layers


def mlx():
    from mlx.utils import tree_flatten
    from mlxim.model import mobilenet, resnet, vit
    for name, make in (("resnet18", resnet.resnet18), ("resnet101", resnet.resnet101), ("vit_large_patch16_224", vit.vit_large_patch16_224),
                       ("mobilenet_v3_small", mobilenet.mobilenet_v3_small), ("mobilenet_v3_large", mobilenet.mobilenet_v3_large)):
        yield name + " mlx", dict(tree_flatten(make().parameters()))


with gzip.open("names.json.gz") as f:
    names = json.load(f)
for name, found in {"torch": torch, "keras": keras, "mlx": mlx}[sys.argv[1]]():
    names[name] = {at: v if isinstance(v, str) else list(v.shape) for at, v in found.items()}
with gzip.GzipFile("names.json.gz", "wb", mtime=0) as f:
    f.write(json.dumps(names, separators=(",", ":")).encode())
