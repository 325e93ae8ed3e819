"""The training steps whose times on Macs were published (internal/pace/steps.csv), written again with random data, so
that their operators can be counted on the double:

    python tools/pace/workloads.py NAME ROWS       one of WORKLOADS, with a batch of ROWS

Each does what the publisher's script does between two steps: the same model, optimizer and waits of the host for values
(`item()`). What loads data is left out: the figures' column `loading` says whether the publisher's time has it in.
"""
import sys

import torch
from torch import nn

STEPS = 8  # minimind steps its optimizer once in them


def image_classifier(make, classes, size, rows, optimizer, accuracy):
    """accuracy: the script asks for the share of right answers in each step, a second wait of the host."""
    model = make(num_classes=classes).to("mps")
    stepper = optimizer(model.parameters())

    def step():
        x = torch.rand(rows, 3, size, size).to("mps")
        y = torch.randint(0, classes, (rows,)).to("mps")
        predicted = model(x)
        loss = nn.functional.cross_entropy(predicted, y)
        loss.item()
        stepper.zero_grad()
        loss.backward()
        stepper.step()
        if accuracy:
            (torch.argmax(torch.softmax(predicted, dim=1), dim=1) == y).sum().item()
    return step


def resnet50(size):
    """mrdbourke/mac-ml-speed-test: Adam, loss and accuracy read in each step."""
    import torchvision
    return lambda rows: image_classifier(torchvision.models.resnet50, 101, size, rows,
                                         lambda p: torch.optim.Adam(p, lr=0.001), True)


def resnet18(rows):
    """ml-explore/mlx issue 2770: ResNet-18 on pictures of 224, SGD; the loss read in each step."""
    import torchvision
    return image_classifier(torchvision.models.resnet18, 10, 224, rows,
                            lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), False)


def vgg16(rows):
    """rasbt/machine-learning-notes, benchmark/pytorch-m1-gpu/vgg16-cifar10.py: VGG-16 with batch norm, Adam; the loss
    read in each step."""
    import torchvision
    return image_classifier(torchvision.models.vgg16_bn, 10, 224, rows,
                            lambda p: torch.optim.Adam(p, lr=0.0005), False)


def bert(length):
    """lucadiliello/pytorch-apple-silicon-benchmarks: bert-base-cased for classification, Adam; no value is asked
    for."""
    def made(rows):
        from transformers import BertConfig, BertForSequenceClassification
        model = BertForSequenceClassification(BertConfig(vocab_size=28996)).to("mps")
        model.eval()  # as from_pretrained leaves it
        stepper = torch.optim.Adam(model.parameters(), lr=1e-4)

        def step():
            data = {"input_ids": torch.randint(0, 28996, (rows, length)),
                    "attention_mask": torch.ones(rows, length, dtype=torch.long),
                    "labels": torch.zeros(rows, dtype=torch.long)}
            data = {k: v.to("mps") for k, v in data.items()}
            stepper.zero_grad()
            model(**data).loss.backward()
            stepper.step()
        return step
    return made


def distilbert(rows):
    """mrdbourke/mac-ml-speed-test: DistilBERT on 512 tokens, only the last block and the head trained, by transformers'
    Trainer (AdamW, gradients clipped, the loss read now and then)."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification
    model = DistilBertForSequenceClassification(DistilBertConfig()).to("mps")
    for p in model.parameters():
        p.requires_grad = False
    for part in (model.distilbert.transformer.layer[-1], model.pre_classifier, model.classifier):
        for p in part.parameters():
            p.requires_grad = True
    trained = [p for p in model.parameters() if p.requires_grad]
    stepper = torch.optim.AdamW(trained, lr=2e-5, weight_decay=0.01)

    def step():
        out = model(input_ids=torch.randint(0, 30000, (rows, 512)).to("mps"),
                    attention_mask=torch.ones(rows, 512, dtype=torch.long).to("mps"),
                    labels=torch.zeros(rows, dtype=torch.long).to("mps"))
        out.loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        stepper.step()
        model.zero_grad()
    return step


def tiny_bert(rows):
    """LucasSte/MLX-vs-Pytorch, bert_fine_tune.py: two blocks of 128 written out by hand, pairs of sentences of 128 tokens,
    AdamW; no value is asked for."""
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.gamma, self.beta = nn.Parameter(torch.ones(128)), nn.Parameter(torch.zeros(128))

        def forward(self, x):
            u = x.mean(-1, keepdim=True)
            s = (x - u).pow(2).mean(-1, keepdim=True)
            return self.gamma * ((x - u) / torch.sqrt(s + 1e-12)) + self.beta

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Linear(128, 128) for _ in range(4))
            self.wide, self.narrow, self.drop = nn.Linear(128, 512), nn.Linear(512, 128), nn.Dropout(0.1)
            self.norm1, self.norm2 = Norm(), Norm()

        def forward(self, x, mask):
            q, k, v = (t.view(*x.shape[:2], 2, 64).permute(0, 2, 1, 3) for t in (self.q(x), self.k(x), self.v(x)))
            w = q @ k.transpose(-2, -1) / 8.0
            w = torch.where((mask == 1).unsqueeze(1).unsqueeze(2), w, torch.tensor(-1e9, device=w.device))
            a = self.drop(nn.functional.softmax(w, dim=-1)) @ v
            a = self.norm1(self.drop(self.out(a.permute(0, 2, 1, 3).contiguous().view(x.shape))) + x)
            return self.norm2(self.drop(self.narrow(nn.functional.gelu(self.wide(a)))) + a)

    class Task(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place, self.kind = (nn.Embedding(n, 128) for n in (30522, 512, 2))
            self.norm, self.drop = Norm(), nn.Dropout(0.1)
            self.blocks = nn.ModuleList([Block(), Block()])
            self.pool, self.head = nn.Linear(128, 128), nn.Linear(512, 3)

        def forward(self, ids, mask, truth):
            places = torch.arange(ids.size(1), device=ids.device).unsqueeze(0).expand_as(ids)
            x = self.drop(self.norm(self.token(ids) + self.place(places) + self.kind(torch.zeros_like(ids))))
            for block in self.blocks:
                x = block(x, mask)
            a, b = torch.tanh(self.pool(x[:, 0])).view(-1, 2, 128).unbind(1)
            return nn.functional.cross_entropy(self.head(torch.cat((a, b, torch.abs(a - b), a * b), -1)), truth)

    model = Task().to("mps")
    stepper = torch.optim.AdamW(model.parameters(), lr=5e-5)

    def step():
        stepper.zero_grad()
        loss = model(torch.randint(0, 30000, (2 * rows, 128)).to("mps"), torch.ones(2 * rows, 128).to("mps"),
                     torch.rand(rows, 3).to("mps"))
        loss.backward()
        stepper.step()
    return step


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return (self.weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5))).type_as(x)


def minimind(rows):
    """jingyaogong/minimind, trainer/train_pretrain.py: 8 blocks of 512, 512 tokens, AdamW every eighth batch with
    gradients clipped; the loss read every hundredth."""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.o = nn.Linear(512, 512, bias=False), nn.Linear(512, 512, bias=False)
            self.k, self.v = nn.Linear(512, 128, bias=False), nn.Linear(512, 128, bias=False)
            self.gate, self.up = nn.Linear(512, 1408, bias=False), nn.Linear(512, 1408, bias=False)
            self.down, self.norm1, self.norm2 = nn.Linear(1408, 512, bias=False), RMSNorm(512), RMSNorm(512)

        def forward(self, x, cos, sin):
            def turned(t):
                half = torch.cat((-t[..., 32:], t[..., :32]), dim=-1)
                return t * cos.unsqueeze(1) + half * sin.unsqueeze(1)
            y, b = self.norm1(x), x.shape[0]
            q, k = turned(self.q(y).view(b, 512, 8, 64)), turned(self.k(y).view(b, 512, 2, 64))
            k, v = (t[:, :, :, None, :].expand(b, 512, 2, 4, 64).reshape(b, 512, 8, 64)
                    for t in (k, self.v(y).view(b, 512, 2, 64)))
            a = nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                                           is_causal=True)
            x = x + self.o(a.transpose(1, 2).reshape(b, 512, 512))
            y = self.norm2(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))

    body = nn.ModuleDict({"tokens": nn.Embedding(6400, 512), "blocks": nn.ModuleList(Block() for _ in range(8)),
                          "norm": RMSNorm(512)}).to("mps")
    cos, sin = torch.rand(512, 64).to("mps"), torch.rand(512, 64).to("mps")
    stepper = torch.optim.AdamW(body.parameters(), lr=5e-4)
    taken = 0

    def step():
        nonlocal taken
        x, y = (torch.randint(0, 6400, (rows, 512)).to("mps") for _ in range(2))
        h = body["tokens"](x)
        for block in body["blocks"]:
            h = block(h, cos, sin)
        logits = body["norm"](h) @ body["tokens"].weight.T
        (nn.functional.cross_entropy(logits.view(-1, 6400), y.view(-1)) / 8).backward()
        taken += 1
        if taken % 8 == 0:
            nn.utils.clip_grad_norm_(body.parameters(), 1.0)
            stepper.step()
            stepper.zero_grad()
    return step


def mingpt(rows):
    """ml-explore/mlx-examples discussion 1446: karpathy/minGPT's gpt-mini (6 blocks, 6 heads, 192), 128 characters;
    forward and backward pass alone."""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(192), nn.LayerNorm(192)
            self.qkv, self.out = nn.Linear(192, 576), nn.Linear(192, 192)
            self.wide, self.narrow, self.drop = nn.Linear(192, 768), nn.Linear(768, 192), nn.Dropout(0.1)
            self.register_buffer("mask", torch.tril(torch.ones(128, 128)).view(1, 1, 128, 128))

        def forward(self, x):
            b = x.shape[0]
            q, k, v = (t.view(b, 128, 6, 32).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(192, dim=2))
            a = ((q @ k.transpose(-2, -1)) * (1.0 / 32 ** 0.5)).masked_fill(self.mask == 0, float("-inf"))
            a = self.drop(nn.functional.softmax(a, dim=-1)) @ v
            x = x + self.drop(self.out(a.transpose(1, 2).contiguous().view(b, 128, 192)))
            h = self.wide(self.norm2(x))
            h = 0.5 * h * (1.0 + torch.tanh(0.7978845608 * (h + 0.044715 * torch.pow(h, 3.0))))
            return x + self.drop(self.narrow(h))

    model = nn.ModuleDict({"tokens": nn.Embedding(65, 192), "places": nn.Embedding(128, 192),
                           "blocks": nn.ModuleList(Block() for _ in range(6)), "norm": nn.LayerNorm(192),
                           "head": nn.Linear(192, 65, bias=False)}).to("mps")

    def step():
        x, y = (torch.randint(0, 65, (rows, 128)).to("mps") for _ in range(2))
        h = model["tokens"](x) + model["places"](torch.arange(128, device="mps").unsqueeze(0))
        for block in model["blocks"]:
            h = block(h)
        logits = model["head"](model["norm"](h))
        nn.functional.cross_entropy(logits.view(-1, 65), y.view(-1)).backward()
        model.zero_grad()
    return step


def efficientnet(rows):
    """haalven/nn-playingcards, playingcards_training.py: EfficientNet-B0 on pictures of 128, Adam; the loss read in
    each step."""
    import torchvision
    return image_classifier(torchvision.models.efficientnet_b0, 53, 128, rows,
                            lambda p: torch.optim.Adam(p, lr=0.001), False)


WORKLOADS = {
    "resnet50-32": resnet50(32), "resnet50-224": resnet50(224), "resnet18-224": resnet18, "vgg16-224": vgg16,
    "bert-base-128": bert(128), "bert-base-512": bert(512), "distilbert-512": distilbert,
    "tiny-bert-128": tiny_bert,
    "minimind-512": minimind, "mingpt-128": mingpt, "efficientnet-128": efficientnet,
}


def main():
    name, rows = sys.argv[1], int(sys.argv[2])
    step = WORKLOADS[name](rows)
    for _ in range(STEPS):
        step()


if __name__ == "__main__":
    main()
