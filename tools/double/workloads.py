"""Training workloads whose peak memory is measured on a GPU and accounted on the double: three steps each, no
downloads.

WORKLOADS is {name: (group, function)}; function(device) trains. A name says model, optimizer, what else, and batch:
`vit_b_16-adamw-bf16-64`. Groups are `fit`, which the rules in cuda_like.py were developed with, `held`, which were only
looked at when those rules were done, and `later`, written and measured after that, of kinds that neither of the others
has.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

WORKLOADS = {}
STEPS = 3


# Training -------------------------------------------------------------------------------------------------------------


def optimizer_for(kind, parameters):
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4)
    if kind == "plainsgd":
        return torch.optim.SGD(parameters, lr=0.01)
    if kind == "adam":
        return torch.optim.Adam(parameters, lr=1e-4)
    if kind == "fusedadamw":
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    if kind == "loopadamw":
        return torch.optim.AdamW(parameters, lr=1e-4, foreach=False)
    if kind == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=1e-4)
    return torch.optim.AdamW(parameters, lr=1e-4)


def train(device, model, batch, loss_of, optimizer, amp=None, clip=None, late_zero=False):
    """Three steps. amp: None, "bf16", or "fp16" with a scaler. late_zero: gradients are dropped after the forward pass,
    not before."""
    device = torch.device(device)
    torch.manual_seed(0)
    model = model().to(device)
    model.train()
    optim = optimizer_for(optimizer, model.parameters())
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(amp, torch.bfloat16)
    scaler = torch.amp.GradScaler(device.type) if amp == "fp16" else None
    for _ in range(STEPS):
        data = [t.to(device) for t in batch()]
        if not late_zero:
            optim.zero_grad()
        with torch.autocast(device.type, dtype=dtype, enabled=amp is not None):
            loss = loss_of(model, *data)
        if late_zero:
            optim.zero_grad()
        if scaler is None:
            loss.backward()
        else:
            scaler.scale(loss).backward()
            if clip:
                scaler.unscale_(optim)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        if scaler is None:
            optim.step()
        else:
            scaler.step(optim)
            scaler.update()
    return float(loss.detach())


def workload(group, name, *args, **kwargs):
    WORKLOADS[name] = (group, lambda device: train(device, *args, **kwargs))


# Images ---------------------------------------------------------------------------------------------------------------


def images(n, side=224, classes=1000):
    return lambda: (torch.randn(n, 3, side, side), torch.randint(0, classes, (n,)))


def classified(model, x, y):
    return F.cross_entropy(model(x), y)


def vision(name, **kwargs):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None, **kwargs)
    return make


def checkpointed_vit():
    """Every block of the encoder is run again in the backward pass."""
    model = vision("vit_b_16")()
    for layer in model.encoder.layers:
        layer.forward = _checkpointed(layer.forward)
    return model


def checkpointed_resnet():
    model = vision("resnet50")()
    for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
        stage.forward = _checkpointed(stage.forward)
    return model


def _checkpointed(forward):
    return lambda *args: checkpoint(forward, *args, use_reentrant=False)


def channels_last_resnet():
    return vision("resnet50")().to(memory_format=torch.channels_last)


def segmented(model, x, y):
    out = model(x)
    loss = F.cross_entropy(out["out"], y)
    return loss + 0.4 * F.cross_entropy(out["aux"], y) if "aux" in out else loss


def masks(n, side):
    return lambda: (torch.randn(n, 3, side, side), torch.randint(0, 21, (n, side, side)))


def segmentation(name, **kwargs):
    def make():
        import torchvision
        return getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=21,
                                                              **kwargs)
    return make


# Language -------------------------------------------------------------------------------------------------------------


def bert(checkpointing=False, **kwargs):
    def make():
        import transformers
        model = transformers.BertForMaskedLM(transformers.BertConfig(**kwargs))
        if checkpointing:
            model.gradient_checkpointing_enable()
        return model
    return make


def gpt2(checkpointing=False, **kwargs):
    def make():
        import transformers
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False, **kwargs))
        if checkpointing:
            model.gradient_checkpointing_enable()
        return model
    return make


def llama(**kwargs):
    def make():
        import transformers
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=32000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8,
            num_key_value_heads=4, use_cache=False, **kwargs))
    return make


def t5():
    import transformers
    return transformers.T5ForConditionalGeneration(transformers.T5Config(decoder_start_token_id=0))


def tokens(n, length, vocabulary):
    return lambda: (torch.randint(0, vocabulary, (n, length)),)


def language(model, ids):
    return model(input_ids=ids, labels=ids).loss


class PlainGPT(nn.Module):
    """A GPT as people write it themselves: fused projections, scaled_dot_product_attention, GELU, tied weights."""

    def __init__(self, vocabulary=16000, length=512, width=512, depth=6, heads=8, dropout=0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "before": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
            "after": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
                                    for _ in range(depth))
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids):
        n, length = ids.shape
        x = self.drop(self.token(ids) + self.place(torch.arange(length, device=ids.device)))
        for b in self.blocks:
            q, k, v = b["qkv"](b["before"](x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
            x = x + self.drop(b["out"](y.transpose(1, 2).reshape(n, length, -1)))
            x = x + self.drop(b["down"](F.gelu(b["up"](b["after"](x)))))
        return self.head(self.last(x))


def next_token(model, ids):
    logits = model(ids)
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


# Diffusion ------------------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, before, after, embedding):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, before), nn.Conv2d(before, after, 3, padding=1)
        self.project = nn.Linear(embedding, after)
        self.norm2, self.conv2 = nn.GroupNorm(32, after), nn.Conv2d(after, after, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.project(F.silu(e))[:, :, None, None]
        return self.skip(x) + self.conv2(self.drop(F.silu(self.norm2(h))))


class Attention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.GroupNorm(32, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width,
                                                                                                           1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(n, c, h, w))


class UNet(nn.Module):
    """The denoiser of a diffusion model: residual blocks with a time embedding, attention at the lower resolutions,
    skip connections."""

    def __init__(self, width=128, factors=(1, 2, 2, 4), attention=(2, 3), checkpointing=False):
        super().__init__()
        self.width, self.checkpointing = width, checkpointing
        e = 4 * width
        self.time = nn.Sequential(nn.Linear(width, e), nn.SiLU(), nn.Linear(e, e))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        widths, c = [width], width
        for level, factor in enumerate(factors):
            for _ in range(2):
                self.down.append(nn.ModuleList([Residual(c, width * factor, e),
                                                Attention(width * factor) if level in attention else nn.Identity()]))
                c = width * factor
                widths.append(c)
            if level < len(factors) - 1:
                self.down.append(nn.Conv2d(c, c, 3, stride=2, padding=1))
                widths.append(c)
        self.middle = nn.ModuleList([Residual(c, c, e), Attention(c), Residual(c, c, e)])
        for level, factor in reversed(list(enumerate(factors))):
            for _ in range(3):
                self.up.append(nn.ModuleList([Residual(c + widths.pop(), width * factor, e),
                                              Attention(width * factor) if level in attention else nn.Identity()]))
                c = width * factor
            if level:
                self.up.append(nn.Conv2d(c, c, 3, padding=1))
        self.norm, self.last = nn.GroupNorm(32, c), nn.Conv2d(c, 3, 3, padding=1)

    def _run(self, block, *args):
        return checkpoint(block, *args, use_reentrant=False) if self.checkpointing else block(*args)

    def forward(self, x, t):
        half = self.width // 2
        angles = t[:, None].float() * torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
        e = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        h = self.first(x)
        kept = [h]
        for block in self.down:
            h = block(h) if isinstance(block, nn.Conv2d) else block[1](self._run(block[0], h, e))
            kept.append(h)
        h = self.middle[2](self.middle[1](self._run(self.middle[0], h, e)), e)
        for block in self.up:
            if isinstance(block, nn.Conv2d):
                h = block(F.interpolate(h, scale_factor=2.0, mode="nearest"))
            else:
                h = block[1](self._run(block[0], torch.cat([h, kept.pop()], 1), e))
        return self.last(F.silu(self.norm(h)))


def denoised(model, x, t, alphas):
    noise = torch.randn_like(x)
    a = alphas[t][:, None, None, None]
    return F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)


def noised(n, side):
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
    return lambda: (torch.randn(n, 3, side, side), torch.randint(0, 1000, (n,)), alphas)


# The list -------------------------------------------------------------------------------------------------------------

# CNN
workload("fit", "resnet18-sgd-8", vision("resnet18"), images(8), classified, "sgd")
workload("fit", "resnet50-sgd-64", vision("resnet50"), images(64), classified, "sgd")
workload("fit", "resnet50-adamw-8", vision("resnet50"), images(8), classified, "adamw")
workload("fit", "resnet50-sgd-bf16-64", vision("resnet50"), images(64), classified, "sgd", "bf16")
workload("held", "resnet50-adamw-fp16-8", vision("resnet50"), images(8), classified, "adamw", "fp16")
workload("held", "resnet50-sgd-bf16-channels_last-64", channels_last_resnet, lambda: (
    torch.randn(64, 3, 224, 224).to(memory_format=torch.channels_last), torch.randint(0, 1000, (64,))), classified,
         "sgd", "bf16")
workload("fit", "resnet50-sgd-checkpoint-64", checkpointed_resnet, images(64), classified, "sgd")
workload("held", "resnet101-sgd-64", vision("resnet101"), images(64), classified, "sgd")
workload("fit", "mobilenet_v3_large-sgd-64", vision("mobilenet_v3_large"), images(64), classified, "sgd")
workload("fit", "vgg16-sgd-8", vision("vgg16"), images(8), classified, "sgd")
workload("held", "vgg11_bn-adamw-64", vision("vgg11_bn"), images(64), classified, "adamw")
workload("fit", "efficientnet_b0-adamw-bf16-64", vision("efficientnet_b0"), images(64), classified, "adamw", "bf16")
workload("held", "efficientnet_b0-rmsprop-8", vision("efficientnet_b0"), images(8), classified, "rmsprop")
workload("fit", "convnext_tiny-adamw-8", vision("convnext_tiny"), images(8), classified, "adamw")
workload("held", "convnext_tiny-adamw-bf16-64", vision("convnext_tiny"), images(64), classified, "adamw", "bf16")
workload("held", "densenet121-sgd-64", vision("densenet121"), images(64), classified, "sgd")
# ViT and Swin
workload("fit", "vit_b_16-adamw-8", vision("vit_b_16"), images(8), classified, "adamw")
workload("held", "vit_b_16-sgd-64", vision("vit_b_16"), images(64), classified, "sgd")
workload("fit", "vit_b_16-adamw-bf16-64", vision("vit_b_16"), images(64), classified, "adamw", "bf16")
workload("fit", "vit_b_16-adamw-checkpoint-64", checkpointed_vit, images(64), classified, "adamw")
workload("fit", "swin_t-adamw-8", vision("swin_t"), images(8), classified, "adamw")
workload("fit", "swin_t-adamw-64", vision("swin_t"), images(64), classified, "adamw")
workload("held", "swin_t-adamw-fp16-64", vision("swin_t"), images(64), classified, "adamw", "fp16", clip=5.0)
workload("held", "swin_v2_t-sgd-8", vision("swin_v2_t"), images(8, 256), classified, "sgd")
# BERT
workload("fit", "bert-adamw-8", bert(), tokens(8, 128, 30522), language, "adamw", clip=1.0)
workload("fit", "bert-adamw-64", bert(), tokens(64, 128, 30522), language, "adamw", clip=1.0)
workload("held", "bert-sgd-64", bert(num_hidden_layers=4), tokens(64, 256, 30522), language, "plainsgd")
workload("fit", "bert-adamw-fp16-64", bert(), tokens(64, 128, 30522), language, "adamw", "fp16", clip=1.0)
workload("held", "bert-adamw-bf16-checkpoint-64", bert(checkpointing=True), tokens(64, 128, 30522), language, "adamw",
         "bf16", clip=1.0)
# GPT
workload("fit", "gpt2-adamw-8", gpt2(), tokens(8, 256, 50257), language, "adamw", clip=1.0)
workload("fit", "gpt2-adamw-bf16-64", gpt2(n_layer=6), tokens(64, 256, 50257), language, "adamw", "bf16", clip=1.0)
workload("held", "gpt2-fusedadamw-checkpoint-8", gpt2(checkpointing=True), tokens(8, 512, 50257), language,
         "fusedadamw", clip=1.0)
workload("fit", "plain_gpt-adamw-8", PlainGPT, tokens(8, 512, 16000), next_token, "loopadamw", clip=1.0)
workload("fit", "plain_gpt-fusedadamw-bf16-64", PlainGPT, tokens(64, 512, 16000), next_token, "fusedadamw", "bf16",
         clip=1.0)
workload("fit", "llama-adamw-bf16-8", llama(), tokens(8, 512, 32000), language, "adamw", "bf16", clip=1.0)
workload("held", "t5-adamw-8", t5, lambda: (torch.randint(0, 32128, (8, 256)),), language, "adamw")
# Segmentation
workload("fit", "fcn_resnet50-sgd-8", segmentation("fcn_resnet50", aux_loss=True), masks(8, 256), segmented, "sgd")
workload("fit", "deeplabv3_resnet50-sgd-bf16-8", segmentation("deeplabv3_resnet50"), masks(8, 320), segmented, "sgd",
         "bf16")
workload("held", "lraspp_mobilenet_v3_large-adamw-64", segmentation("lraspp_mobilenet_v3_large"), masks(64, 224),
         segmented, "adamw")
workload("held", "deeplabv3_resnet50-adamw-64", segmentation("deeplabv3_resnet50"), masks(64, 160), segmented, "adamw")
# Diffusion
workload("fit", "unet-adamw-8", UNet, noised(8, 64), denoised, "adamw", late_zero=True)
workload("held", "unet-adamw-64", UNet, noised(64, 32), denoised, "adamw")
workload("fit", "unet-adamw-bf16-64", UNet, noised(64, 64), denoised, "adamw", "bf16")
workload("held", "unet-adamw-checkpoint-64", lambda: UNet(checkpointing=True), noised(64, 32), denoised, "adamw",
         late_zero=True)

# Written later: other kinds


class Generator(nn.Sequential):
    """A DCGAN's generator and discriminator as one module, for one optimizer step of both losses."""

    def __init__(self, width=64):
        def up(a, b):
            return (nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True))

        super().__init__(nn.ConvTranspose2d(100, 8 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(8 * width),
                         nn.ReLU(True),
                         *up(8 * width, 4 * width), *up(4 * width, 2 * width), *up(2 * width, width),
                         nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())


class DCGAN(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        def down(a, b):
            return (nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True))

        self.generator = Generator(width)
        self.discriminator = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True),
                                           *down(width, 2 * width),
                                           *down(2 * width, 4 * width), *down(4 * width, 8 * width),
                                           nn.Conv2d(8 * width, 1, 4, 1, 0), nn.Flatten())


def adversarial(model, real, z):
    fake = model.generator(z)
    to = F.binary_cross_entropy_with_logits
    a, b, c = model.discriminator(real), model.discriminator(fake.detach()), model.discriminator(fake)
    return to(a, torch.ones_like(a)) + to(b, torch.zeros_like(b)) + to(c, torch.ones_like(c))


class Seq2Seq(nn.Module):
    """nn.Transformer as its documentation uses it, post-norm, with a mask."""

    def __init__(self, vocabulary=10000, width=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.body = nn.Transformer(width, 8, 3, 3, 1024, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        return self.head(self.body(self.embedding(source), self.embedding(target), tgt_mask=mask))


def translated(model, source, target):
    return F.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten())


class OldAttention(nn.Module):
    """A GPT's block with attention written out, as before scaled_dot_product_attention: the scores are kept for the
    backward pass."""

    def __init__(self, width=384, heads=6, depth=6, vocabulary=8000, length=256):
        super().__init__()
        self.heads = heads
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(1, length, width))
        self.blocks = nn.ModuleList(nn.ModuleList([nn.LayerNorm(width), nn.Linear(width, 3 * width),
                                                   nn.Linear(width, width), nn.LayerNorm(width),
                                                   nn.Linear(width, 4 * width), nn.Linear(4 * width, width)])
                                    for _ in range(depth))
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.token(ids) + self.place[:, :ids.shape[1]]
        n, t, c = x.shape
        for norm1, qkv, out, norm2, up, down in self.blocks:
            q, k, v = (y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in qkv(norm1(x)).split(c, dim=2))
            scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
            scores = F.dropout(F.softmax(scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), dim=-1), 0.1)
            x = x + out((scores @ v).transpose(1, 2).reshape(n, t, c))
            x = x + F.dropout(down(F.gelu(up(norm2(x)))), 0.1)
        return self.head(x)


class Audio(nn.Module):
    """Convolutions over a waveform, as for speech commands."""

    def __init__(self, width=64):
        super().__init__()
        layers, before = [], 1
        for size, stride, after in [(80, 16, width), (3, 1, width), (3, 1, 2 * width), (3, 1, 4 * width)]:
            layers += [nn.Conv1d(before, after, size, stride), nn.BatchNorm1d(after), nn.ReLU(), nn.MaxPool1d(4)]
            before = after
        self.body, self.head = nn.Sequential(*layers), nn.Linear(before, 35)

    def forward(self, x):
        return self.head(self.body(x).mean(-1))


def frozen(name):
    """A pretrained backbone of which the last layer alone is trained."""
    def make():
        model = vision(name)()
        for p in model.parameters():
            p.requires_grad = False
        model.fc = nn.Linear(model.fc.in_features, 10)
        return model
    return make


def video(name):
    def make():
        import torchvision
        return getattr(torchvision.models.video, name)(weights=None)
    return make


class Mixer(nn.Module):
    def __init__(self, width=512, patches=196, depth=8):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 16, 16)
        self.blocks = nn.ModuleList(nn.ModuleList([nn.LayerNorm(width), nn.Linear(patches, 256),
                                                   nn.Linear(256, patches), nn.LayerNorm(width),
                                                   nn.Linear(width, 2048), nn.Linear(2048, width)])
                                    for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for norm1, a, b, norm2, c, d in self.blocks:
            x = x + b(F.gelu(a(norm1(x).transpose(1, 2)))).transpose(1, 2)
            x = x + d(F.gelu(c(norm2(x))))
        return self.head(self.norm(x).mean(1))


class AutoEncoder(nn.Module):
    """A variational autoencoder with transposed convolutions."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(),
                                     nn.Conv2d(64, 128, 4, 2, 1), nn.ReLU(), nn.Flatten())
        self.mean, self.spread = nn.Linear(128 * 64, 128), nn.Linear(128 * 64, 128)
        self.back = nn.Linear(128, 128 * 64)
        self.decoder = nn.Sequential(nn.Unflatten(1, (128, 8, 8)), nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ReLU(),
                                     nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1))


def elbo(model, x):
    h = model.encoder(x)
    mean, spread = model.mean(h), model.spread(h)
    out = model.decoder(model.back(mean + torch.randn_like(spread) * torch.exp(0.5 * spread)))
    return F.mse_loss(out, x, reduction="sum") - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())


workload("later", "dcgan-adam-64", DCGAN, lambda: (torch.randn(64, 3, 64, 64), torch.randn(64, 100, 1, 1)), adversarial,
         "adam")
workload("later", "transformer-adamw-64", Seq2Seq,
         lambda: (torch.randint(0, 10000, (64, 64)), torch.randint(0, 10000, (64, 64))), translated, "adamw", clip=1.0)
workload("later", "old_gpt-adamw-8", OldAttention, tokens(8, 256, 8000), next_token, "adamw")
workload("later", "old_gpt-adamw-bf16-64", OldAttention, tokens(64, 256, 8000), next_token, "adamw", "bf16")
workload("later", "audio-sgd-64", Audio, lambda: (torch.randn(64, 1, 16000), torch.randint(0, 35, (64,))), classified,
         "sgd")
workload("later", "frozen_resnet50-adamw-64", frozen("resnet50"), images(64, 224, 10), classified, "adamw")
workload("later", "r3d_18-sgd-8", video("r3d_18"),
         lambda: (torch.randn(8, 3, 16, 112, 112), torch.randint(0, 400, (8,))), classified, "sgd")
workload("later", "mixer-adamw-64", Mixer, images(64), classified, "adamw")
workload("later", "vae-adam-64", AutoEncoder, lambda: (torch.randn(64, 3, 64, 64),), elbo, "adam")
workload("later", "regnet_y_1_6gf-sgd-64", vision("regnet_y_1_6gf"), images(64), classified, "sgd")
workload("later", "wide_resnet50_2-adamw-bf16-8", vision("wide_resnet50_2"), images(8), classified, "adamw", "bf16")
workload("later", "vit_l_16-adamw-bf16-8", vision("vit_l_16"), images(8), classified, "adamw", "bf16")
