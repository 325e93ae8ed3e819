"""MLX: mlx-lm's GPT-2 and mlx-image's networks by their own code where they are installed, else written here with the
names that they have (those are held to the packages by names.json.gz)."""
import common
import mlx.core as mx
import numpy
from mlx import nn


class Sequence(nn.Module):
    """Modules by name, one after the other; functions between them."""

    def __init__(self, **layers):
        super().__init__()
        self.update_modules({})
        self.steps = tuple(layers)
        self.between = {}
        for name, layer in layers.items():
            if isinstance(layer, nn.Module):
                setattr(self, name, layer)
            else:
                self.between[name] = layer

    def __call__(self, x):
        for name in self.steps:
            x = self.between[name](x) if name in self.between else self[name](x)
        return x


def flat(x):
    return x.reshape(x.shape[0], -1)


def activated(inputs, outputs, kernel, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm(outputs), nn.ReLU6())


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm(outputs)
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm(outputs))

    def __call__(self, x):
        y = self.bn2(self.conv2(nn.relu(self.bn1(self.conv1(x)))))
        return nn.relu(y + (self.downsample(x) if "downsample" in self else x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm(64)
        self.pool = nn.MaxPool2d(3, 2, 1)
        widths = [64, 64, 128, 256, 512]
        for i, (a, b) in enumerate(zip(widths, widths[1:]), 1):
            setattr(self, f"layer{i}", nn.Sequential(BasicBlock(a, b, 1 if i == 1 else 2), BasicBlock(b, b, 1)))
        self.fc = nn.Linear(512, 10)

    def __call__(self, x):
        x = self.pool(nn.relu(self.bn1(self.conv1(x))))
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((1, 2)))


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        wide = inputs * expand
        head = [activated(inputs, wide, 1)] if expand != 1 else []
        self.conv = nn.Sequential(*head, activated(wide, wide, 3, stride, wide), nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm(outputs))
        self.adds = stride == 1 and inputs == outputs

    def __call__(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        layers, inputs = [activated(3, 32, 3, 2)], 32
        for t, c, n, s in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
            for i in range(n):
                layers.append(Inverted(inputs, c, s if i == 0 else 1, t))
                inputs = c
        self.features = nn.Sequential(*layers, activated(320, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 10))

    def __call__(self, x):
        return self.classifier(self.features(x).mean((1, 2)))


class VGG(nn.Module):
    def __init__(self, norm):
        super().__init__()
        layers, inputs = [], 3
        for v in [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]:
            if v == "M":
                layers.append(nn.MaxPool2d(2, 2))
                continue
            layers += [nn.Conv2d(inputs, v, 3, padding=1), *([nn.BatchNorm(v)] if norm else []), nn.ReLU()]
            inputs = v
        self.features = nn.Sequential(*layers)

    def __call__(self, x):
        return self.features(x)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.query_proj, self.key_proj, self.value_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def __call__(self, x):
        return self.out_proj(attend(self.query_proj(x), self.key_proj(x), self.value_proj(x), self.heads))


def attend(q, k, v, heads):
    batch, length, width = q.shape
    q, k, v = (t.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
    y = mx.softmax(q @ k.transpose(0, 1, 3, 2) / (width // heads) ** 0.5, axis=-1) @ v
    return y.transpose(0, 2, 1, 3).reshape(batch, length, width)


class ViTBlock(nn.Module):
    def __init__(self, width, heads, mlp):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.self_attention = Attention(width, heads)
        self.mlp = Sequence(linear_1=nn.Linear(width, mlp), act=nn.gelu, linear_2=nn.Linear(mlp, width))

    def __call__(self, x):
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class ViTEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos_embedding = mx.zeros((1, 17, 32))
        self.layers = [ViTBlock(32, 4, 48) for _ in range(3)]
        self.ln = nn.LayerNorm(32, 1e-6)

    def __call__(self, x):
        x = x + self.pos_embedding
        for layer in self.layers:
            x = layer(x)
        return self.ln(x)


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.class_token = mx.zeros((1, 1, 32))
        self.conv_proj = nn.Conv2d(3, 32, 8, 8)
        self.encoder = ViTEncoder()
        self.heads = nn.Sequential(nn.Linear(32, 10))

    def __call__(self, x):
        x = self.conv_proj(x).reshape(x.shape[0], -1, 32)
        x = mx.concatenate([mx.repeat(self.class_token, x.shape[0], 0), x], 1)
        return self.heads(self.encoder(x)[:, 0])


class BertSelf(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))

    def __call__(self, x):
        return attend(self.query(x), self.key(x), self.value(x), 2)


class BertOutput(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(inputs, 32), nn.LayerNorm(32, 1e-12)

    def __call__(self, y, x):
        return self.LayerNorm(self.dense(y) + x)


class BertAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.self, self.output = BertSelf(), BertOutput(32)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.intermediate, self.output = BertAttention(), Sequence(dense=nn.Linear(32, 64), act=nn.gelu), BertOutput(64)

    def __call__(self, x):
        x = self.attention.output(self.attention.self(x), x)
        return self.output(self.intermediate(x), x)


class BertEmbeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(50, 32), nn.Embedding(20, 32)
        self.token_type_embeddings, self.LayerNorm = nn.Embedding(2, 32), nn.LayerNorm(32, 1e-12)

    def __call__(self, x):
        places, types = mx.arange(x.shape[1]), mx.zeros_like(x)
        return self.LayerNorm(self.word_embeddings(x) + self.position_embeddings(places) + self.token_type_embeddings(types))


class BertEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = [BertLayer(), BertLayer()]


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.encoder, self.pooler = BertEmbeddings(), BertEncoder(), Sequence(dense=nn.Linear(32, 32))

    def __call__(self, x):
        x = self.embeddings(x)
        for layer in self.encoder.layer:
            x = layer(x)
        return x


def gpt2():
    from mlx_lm.models.gpt2 import Model, ModelArgs
    net = Model(ModelArgs("gpt2", n_ctx=20, n_embd=32, n_head=4, n_layer=3, n_positions=20, layer_norm_epsilon=1e-5, vocab_size=50))
    return net, net.model


def images():
    return Sequence(square=nn.Conv2d(8, 8, 3), point=nn.Conv2d(8, 8, 1), grouped=nn.Conv2d(8, 8, 3, groups=2),
                    depth=nn.Conv2d(8, 8, 3, groups=8), up=nn.ConvTranspose2d(8, 8, 3, 2), relu=nn.relu, flat=flat,
                    dense=nn.Linear(280, 280), top=nn.Linear(280, 5))


def lines():
    return Sequence(one=nn.Conv1d(4, 6, 3), depth=nn.Conv1d(6, 6, 3, groups=6), up=nn.ConvTranspose1d(6, 6, 3, 2), relu=nn.relu, flat=flat,
                    dense=nn.Linear(90, 7))


def volumes():
    return Sequence(one=nn.Conv3d(4, 6, (2, 3, 1)), up=nn.ConvTranspose3d(6, 6, 2, 2), relu=nn.relu, flat=flat, dense=nn.Linear(1152, 7))


class Direction(nn.Module):
    """PyTorch's module of two layers and two directions, as assay names its cells."""

    def __init__(self, cell):
        super().__init__()
        self.l0, self.l0_reverse, self.l1, self.l1_reverse = cell(3, 4), cell(3, 4), cell(8, 4), cell(8, 4)

    def __call__(self, x):
        def states(cell, x):
            y = cell(x)
            return y[0] if isinstance(y, tuple) else y

        for ahead, back in ((self.l0, self.l0_reverse), (self.l1, self.l1_reverse)):
            x = mx.concatenate([states(ahead, x), states(back, x[:, ::-1])[:, ::-1]], -1)
        return x


def resnet18():
    try:
        from mlxim.model.resnet import resnet18
    except ImportError:
        return ResNet18()
    return resnet18(num_classes=10)


def mobilenet_v2():
    try:
        from mlxim.model.mobilenet import mobilenet_v2
    except ImportError:
        return MobileNetV2()
    return mobilenet_v2(num_classes=10)


def vit():
    try:
        from functools import partial

        from mlxim.model.vit.vit import VisionTransformer
    except ImportError:
        return ViT()
    return VisionTransformer(32, 8, 3, 4, 32, 48, num_classes=10, norm_layer=partial(nn.LayerNorm, eps=1e-6))


NETS = {"resnet18": resnet18, "mobilenet_v2": mobilenet_v2, "vgg11": lambda: VGG(False), "vgg11_bn": lambda: VGG(True), "vit": vit,
        "bert": Bert, "gpt2": gpt2, "images": images,
        "lstm": lambda: Sequence(r=Direction(nn.LSTM)), "gru": lambda: Sequence(r=Direction(nn.GRU)), "lines": lines, "volumes": volumes}


def load(name, path, x):
    net = NETS[name]()
    net, called = net if isinstance(net, tuple) else (net, net)
    net.load_weights(path, strict=True)
    net.eval()
    y = called(mx.array(common.last(x)))
    return common.first(numpy.array(y)) if x.ndim > 2 else numpy.array(y)


common.run(None, load)
