"""Training workloads whose peak memory is measured on a GPU and accounted on the double: three steps each, no downloads.

WORKLOADS is {name: (group, function)}; function(device) trains. A name says model, optimizer, what else, and batch:
`vit_b_16-adamw-bf16-64`. Groups are `fit`, which the rules in cuda_like.py were developed with, and `held`, which were only looked
at when those rules were done.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

WORKLOADS = {}
STEPS = 3


# Training ---------------------------------------------------------------------------------------------------------------


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
    """Three steps. amp: None, "bf16", or "fp16" with a scaler. late_zero: gradients are dropped after the forward pass, not before."""
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


# Images -----------------------------------------------------------------------------------------------------------------


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
        return getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=21, **kwargs)
    return make


# Language ---------------------------------------------------------------------------------------------------------------


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
            vocab_size=32000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4,
            use_cache=False, **kwargs))
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
            "after": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)}) for _ in range(depth))
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


# Diffusion --------------------------------------------------------------------------------------------------------------


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
        self.norm, self.qkv, self.out = nn.GroupNorm(32, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(n, c, h, w))


class UNet(nn.Module):
    """The denoiser of a diffusion model: residual blocks with a time embedding, attention at the lower resolutions, skip connections."""

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
                self.down.append(nn.ModuleList([Residual(c, width * factor, e), Attention(width * factor) if level in attention else nn.Identity()]))
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


# The list ---------------------------------------------------------------------------------------------------------------

# CNN
workload("fit", "resnet18-sgd-8", vision("resnet18"), images(8), classified, "sgd")
workload("fit", "resnet50-sgd-64", vision("resnet50"), images(64), classified, "sgd")
workload("fit", "resnet50-adamw-8", vision("resnet50"), images(8), classified, "adamw")
workload("fit", "resnet50-sgd-bf16-64", vision("resnet50"), images(64), classified, "sgd", "bf16")
workload("held", "resnet50-adamw-fp16-8", vision("resnet50"), images(8), classified, "adamw", "fp16")
workload("held", "resnet50-sgd-bf16-channels_last-64", channels_last_resnet, lambda: (
    torch.randn(64, 3, 224, 224).to(memory_format=torch.channels_last), torch.randint(0, 1000, (64,))), classified, "sgd", "bf16")
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
workload("held", "bert-adamw-bf16-checkpoint-64", bert(checkpointing=True), tokens(64, 128, 30522), language, "adamw", "bf16", clip=1.0)
# GPT
workload("fit", "gpt2-adamw-8", gpt2(), tokens(8, 256, 50257), language, "adamw", clip=1.0)
workload("fit", "gpt2-adamw-bf16-64", gpt2(n_layer=6), tokens(64, 256, 50257), language, "adamw", "bf16", clip=1.0)
workload("held", "gpt2-fusedadamw-checkpoint-8", gpt2(checkpointing=True), tokens(8, 512, 50257), language, "fusedadamw", clip=1.0)
workload("fit", "plain_gpt-adamw-8", PlainGPT, tokens(8, 512, 16000), next_token, "loopadamw", clip=1.0)
workload("fit", "plain_gpt-fusedadamw-bf16-64", PlainGPT, tokens(64, 512, 16000), next_token, "fusedadamw", "bf16", clip=1.0)
workload("fit", "llama-adamw-bf16-8", llama(), tokens(8, 512, 32000), language, "adamw", "bf16", clip=1.0)
workload("held", "t5-adamw-8", t5, lambda: (torch.randint(0, 32128, (8, 256)),), language, "adamw")
# Segmentation
workload("fit", "fcn_resnet50-sgd-8", segmentation("fcn_resnet50", aux_loss=True), masks(8, 256), segmented, "sgd")
workload("fit", "deeplabv3_resnet50-sgd-bf16-8", segmentation("deeplabv3_resnet50"), masks(8, 320), segmented, "sgd", "bf16")
workload("held", "lraspp_mobilenet_v3_large-adamw-64", segmentation("lraspp_mobilenet_v3_large"), masks(64, 224), segmented, "adamw")
workload("held", "deeplabv3_resnet50-adamw-64", segmentation("deeplabv3_resnet50"), masks(64, 160), segmented, "adamw")
# Diffusion
workload("fit", "unet-adamw-8", UNet, noised(8, 64), denoised, "adamw", late_zero=True)
workload("held", "unet-adamw-64", UNet, noised(64, 32), denoised, "adamw")
workload("fit", "unet-adamw-bf16-64", UNet, noised(64, 64), denoised, "adamw", "bf16")
workload("held", "unet-adamw-checkpoint-64", lambda: UNet(checkpointing=True), noised(64, 32), denoised, "adamw", late_zero=True)
