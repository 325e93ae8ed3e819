"""PyTorch: torchvision's and transformers' networks by their own code, and one of each kind of layer."""
import functools

import common
import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

INDICES = {"bert", "gpt2"}


class Flat(nn.Sequential):
    """Names as attributes have them."""

    def __init__(self, **layers):
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)


class Bert(transformers.BertModel):
    def forward(self, x):
        return super().forward(x).last_hidden_state


class GPT2(transformers.GPT2Model):
    def forward(self, x):
        return super().forward(x).last_hidden_state


def vit():
    return torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=3, num_heads=4, hidden_dim=32, mlp_dim=48,
                                                num_classes=10)


def images():
    """Kinds that deceive: a square kernel of as many inputs as outputs, 1 × 1, groups, depthwise, transposed, and a dense
    layer behind a flatten as wide as it is deep."""
    return Flat(square=nn.Conv2d(8, 8, 3), point=nn.Conv2d(8, 8, 1), grouped=nn.Conv2d(8, 8, 3, groups=2), depth=nn.Conv2d(8, 8, 3, groups=8),
                up=nn.ConvTranspose2d(8, 8, 3, stride=2), relu=nn.ReLU(), flat=nn.Flatten(), dense=nn.Linear(8 * 5 * 7, 8 * 5 * 7),
                top=nn.Linear(8 * 5 * 7, 5))


def lines():
    return Flat(one=nn.Conv1d(4, 6, 3), depth=nn.Conv1d(6, 6, 3, groups=6), up=nn.ConvTranspose1d(6, 6, 3, stride=2), relu=nn.ReLU(),
                flat=nn.Flatten(), dense=nn.Linear(6 * 15, 7))


def volumes():
    return Flat(one=nn.Conv3d(4, 6, (2, 3, 1)), up=nn.ConvTranspose3d(6, 6, 2, stride=2), relu=nn.ReLU(), flat=nn.Flatten(),
                dense=nn.Linear(6 * 4 * 6 * 8, 7))


class Recurrent(nn.Sequential):
    """Recurrent layers one upon the other, and a dense one; steps of time last."""

    def __init__(self, **layers):
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        x = x.transpose(1, 2)
        for layer in self:
            x = layer(x)[0] if isinstance(layer, nn.RNNBase) else layer(x)
        return x.transpose(1, 2)


def recurrent(*layers):
    """What layers.Bidirectional and others of Keras's are here: class, inputs, outputs, directions."""
    return Recurrent(**{name: getattr(nn, cls)(a, b, batch_first=True, bidirectional=both) for name, cls, a, b, both in layers},
                     dense=nn.Linear(6, 2))


def keras_mobilenet():
    """As keras.applications computes it: padding at the bottom and right where the stride is 2, 1e-3 in a batch norm."""
    net = torchvision.models.mobilenet_v2(num_classes=10)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-3
        if isinstance(module, nn.Conv2d) and module.stride == (2, 2):
            module.padding = (0, 0)
            module.register_forward_pre_hook(lambda _, x: (nn.functional.pad(x[0], (0, 1, 0, 1)),))
    return net


class VGGFeatures(nn.Module):
    """VGG without its top, which keras.applications calls include_top=False."""

    def __init__(self, name):
        super().__init__()
        self.features = torchvision.models.get_model(name).features

    def forward(self, x):
        return self.features(x)


NETS = {
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=10), (2, 3, 40, 40)),
    "mobilenet_v2": (lambda: torchvision.models.mobilenet_v2(num_classes=10), (2, 3, 40, 40)),
    "vgg11": (lambda: VGGFeatures("vgg11"), (2, 3, 40, 40)),
    "vgg11_bn": (lambda: VGGFeatures("vgg11_bn"), (2, 3, 40, 40)),
    "vit": (vit, (2, 3, 32, 32)),
    "bert": (lambda: Bert(transformers.BertConfig(vocab_size=50, num_hidden_layers=2, hidden_size=32, num_attention_heads=2,
                                                  intermediate_size=64, max_position_embeddings=20)), (2, 9)),
    "gpt2": (lambda: GPT2(transformers.GPT2Config(vocab_size=50, n_layer=3, n_embd=32, n_head=4, n_positions=20)), (2, 9)),
    "lstm": (lambda: Recurrent(r=nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)), (2, 3, 7)),
    "gru": (lambda: Recurrent(r=nn.GRU(3, 4, 2, bidirectional=True, batch_first=True)), (2, 3, 7)),
    "images": (images, (2, 8, 8, 9)),
    "lines": (lines, (2, 4, 11)),
    "volumes": (volumes, (2, 4, 3, 5, 4)),
}
MADE_BY_KERAS = {"VGG16": lambda: VGGFeatures("vgg16"), "VGG19": lambda: VGGFeatures("vgg19"), "MobileNetV2": keras_mobilenet,
                 "Multiple": lambda: Flat(depth=nn.Conv2d(4, 12, 3, groups=4)), "Multiple1": lambda: Flat(depth=nn.Conv1d(4, 8, 3, groups=4)),
                 "Recurrent": lambda: recurrent(("enc", "LSTM", 5, 4, False), ("bi", "GRU", 4, 4, True), ("both", "LSTM", 8, 3, True))}


def randomise(net, seed):
    """Weights that tell each from each other; those of norms about one, so that nothing explodes."""
    torch.manual_seed(seed)
    for name, tensor in net.state_dict().items():
        if tensor.is_floating_point():
            if tensor.ndim > 1:
                tensor.normal_(0, (2 / tensor[0].numel()) ** 0.5)
            elif "var" in name or name.endswith("weight"):
                tensor.uniform_(0.8, 1.2)
            else:
                tensor.normal_(0, 0.1)
    return net.eval()


def given(net, x):
    with torch.no_grad():
        return net(torch.from_numpy(x)).numpy()


def save(net, path):
    save_file({k: v.contiguous() for k, v in net.state_dict().items()}, path + ".safetensors", {"format": "pt"})
    torch.save(net.state_dict(), path + ".pt")


def made():
    for seed, (name, (make, shape)) in enumerate(NETS.items()):
        net = randomise(make(), seed)
        x = torch.randint(0, 50, shape).numpy() if name in INDICES else torch.randn(shape).numpy()
        yield name, functools.partial(save, net), x, given(net, x)


def load(name, path, x):
    net = (MADE_BY_KERAS.get(name) or NETS[name][0])().eval()
    weights = torch.load(path, weights_only=True) if path.endswith(".pt") else load_file(path)
    counts = {k: v for k, v in net.state_dict().items() if k.endswith("num_batches_tracked")}
    net.load_state_dict({**weights, **{k: v for k, v in counts.items() if k not in weights}}, strict=True)
    return given(net, x)


common.run(made, load)
