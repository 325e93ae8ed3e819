"""Trains a network whose step takes a wanted time, and times its own steps: the same clock bare and under any tool.

    step.py --target-ms 2                    finds the width that comes nearest; prints it
    step.py --width 96 --steps 1000          trains that width; prints one JSON line
    step.py --net resnet --loop list …       another network, another kind of loop

Steps are timed in blocks, with the device synchronised at the end of each: a clock read between two steps would say
nothing of a GPU.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

BATCH = {"cpu": 64, "mps": 1024, "cuda": 4096}
BATCHES = 50  # of an epoch, where the loop has epochs
BLOCK = 10
WARM = 2 * BLOCK  # allocator, lazy state of the optimizer, first epoch of the loader


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.line = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + F.gelu(self.line(self.norm(x)))


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.relu, self.short = nn.ReLU(), nn.Identity()
        if stride > 1 or inside != outside:
            self.short = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet(width):
    """ResNet-18's depth on small images: at small widths what it costs is the launching of many small kernels."""
    layers, inside = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()], width
    for stage in range(4):
        for block in range(2):
            outside = width << stage
            layers.append(Residual(inside, outside, 2 if stage and not block else 1))
            inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 10)), (3, 32, 32)


def line(width):
    return nn.Sequential(nn.Linear(32, width), *(Block(width) for _ in range(4)), nn.Linear(width, 10)), (32,)


NETS = {"line": line, "resnet": resnet}


class Trainer:
    """Each loop is a generator that yields after each step, so that one clock times them all."""

    def __init__(self, net, width, device, batch):
        torch.manual_seed(0)
        self.device, self.batch = device, batch or BATCH[torch.device(device).type]
        model, self.shape = NETS[net](width)
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def synchronize(self):
        kind = torch.device(self.device).type
        if kind != "cpu":
            getattr(torch, kind).synchronize()

    def data(self, n):
        return torch.randn(n, *self.shape), torch.randint(0, 10, (n,))

    def update(self, model, optimizer, x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def loader(self):
        """Epochs over a DataLoader."""
        data = TensorDataset(*self.data(BATCHES * self.batch))
        # Whole batches by one index: collating thousands of rows one by one would drown the step.
        sampler = BatchSampler(RandomSampler(data), self.batch, drop_last=True)
        loader = DataLoader(data, sampler=sampler, batch_size=None)
        while True:
            for x, y in loader:
                yield self.update(self.model, self.optimizer, x.to(self.device), y.to(self.device))

    def list(self):
        """Epochs over a list of batches that lie on the device."""
        batches = [[part.to(self.device) for part in self.data(self.batch)] for _ in range(8)]
        while True:
            for x, y in batches:
                yield self.update(self.model, self.optimizer, x, y)

    def generator(self):
        """A generator that copies one batch ahead."""

        def ahead():
            pool = [self.data(self.batch) for _ in range(8)]
            coming = [part.to(self.device, non_blocking=True) for part in pool[0]]
            number = 0
            while True:
                batch, number = coming, number + 1
                coming = [part.to(self.device, non_blocking=True) for part in pool[number % 8]]
                yield batch

        for x, y in ahead():
            yield self.update(self.model, self.optimizer, x, y)

    def forever(self):
        """while step < N, each batch drawn where it is needed; the loss is read in one step of ten."""
        step = 0
        x, y = (part.to(self.device) for part in self.data(8 * self.batch))
        while True:
            drawn = torch.randint(0, len(x), (self.batch,), device=self.device)
            loss = self.update(self.model, self.optimizer, x[drawn], y[drawn])
            step += 1
            if step % 10 == 0:
                loss.item()
            yield loss

    def hand(self):
        """No optimizer: the parameters are changed by hand."""
        x, y = (part.to(self.device) for part in self.data(self.batch))
        while True:
            loss = F.cross_entropy(self.model(x), y)
            self.model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p in self.model.parameters():
                    p -= 1e-4 * p.grad
            yield loss

    def two(self):
        """Two models in turn, each with an optimizer, as a GAN has them."""
        other = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1)).to(self.device)
        judge = torch.optim.AdamW(other.parameters(), lr=1e-4)
        x, _ = (part.to(self.device) for part in self.data(self.batch))
        real = torch.randn(self.batch, 10, device=self.device)
        while True:
            made = self.model(x)
            judge.zero_grad()
            (other(made.detach()).mean() - other(real).mean()).backward()
            judge.step()
            self.optimizer.zero_grad()
            loss = -other(made).mean()
            loss.backward()
            self.optimizer.step()
            yield loss


LOOPS = ("loader", "list", "generator", "forever", "hand", "two")


def train(trainer, loop, steps, around):
    """Seconds of each whole block of steps, seconds of them all, and the last loss."""
    running = getattr(trainer, loop)()
    blocks, loss = [], None
    for _ in range(WARM):
        with around(trainer.model):
            next(running)
    trainer.synchronize()
    began = started = time.perf_counter()
    for done in range(1, steps + 1):
        with around(trainer.model):
            loss = next(running)
        if done % BLOCK == 0:
            trainer.synchronize()
            now = time.perf_counter()
            blocks.append(now - started)
            started = now
    return blocks, started - began, loss.item()


def nothing(_model):
    return contextlib.nullcontext()


def calibrate(target, net, device, batch):
    """The width, a multiple of 16, whose step comes nearest to the target. The smallest where even that takes longer."""

    def took(width):
        blocks, _, _ = train(Trainer(net, width, device, batch), "list", 4 * BLOCK, nothing)
        return min(blocks) / BLOCK  # the least disturbed: other programs only ever add

    low, high = 16, 16
    while took(high) < target and high < 16384:
        low, high = high, 2 * high
    while high - low > max(16, low // 16):
        middle = (low + high) // 32 * 16
        if took(middle) < target:
            low = middle
        else:
            high = middle
    return low


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--net", choices=sorted(NETS), default="line")
    parser.add_argument("--loop", choices=LOOPS, default="loader")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--target-ms", type=float)
    parser.add_argument("--width", type=int)
    parser.add_argument("--steps", type=int, default=200, help="a multiple of %d" % BLOCK)
    parser.add_argument("--profiler", action="store_true", help="PyTorch's own profiler around the whole training")
    parser.add_argument("--traceml", action="store_true", help="mark steps for TraceML, as it asks of a plain loop")
    args = parser.parse_args()
    torch.set_num_threads(1)

    if args.width is None:
        print(json.dumps({"width": calibrate(args.target_ms / 1000, args.net, args.device, args.batch)}))
        return

    around, profiler = nothing, contextlib.nullcontext()
    if args.traceml:
        import traceml_ai

        traceml_ai.init(mode="auto")
        around = traceml_ai.trace_step
    if args.profiler:
        from torch import profiler as engine  # assay leaves the engine to a script that names it with its package

        kinds = [engine.ProfilerActivity.CPU]
        if args.device.startswith("cuda"):
            kinds.append(engine.ProfilerActivity.CUDA)
        profiler = engine.profile(activities=kinds)
    with profiler:
        trainer = Trainer(args.net, args.width, args.device, args.batch)
        blocks, seconds, loss = train(trainer, args.loop, args.steps, around)
    step = [block / BLOCK for block in blocks]
    print(
        json.dumps(
            {
                "median": statistics.median(step),
                "mean": seconds / args.steps,
                "steps": args.steps,
                "loss": loss.hex(),
                "torch": torch.__version__,
                "device": torch.cuda.get_device_name() if args.device.startswith("cuda") else args.device,
            }
        )
    )


if __name__ == "__main__":
    main()
