"""Trains a network whose step takes a wanted time, and times its own steps: the same clock bare and under any tool.

    step.py --target-ms 2                    finds the width that comes nearest; prints it
    step.py --width 96 --steps 1000          trains that width; prints one JSON line

Steps are timed in blocks, with the device synchronised at the end of each: a clock read between two steps would say nothing of a GPU.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

BATCH = {"cpu": 64, "mps": 1024, "cuda": 4096}
BLOCK = 10
WARM = 2 * BLOCK  # allocator, lazy state of the optimizer, first epoch of the loader


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.line = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + nn.functional.gelu(self.line(self.norm(x)))


class Trainer:
    def __init__(self, width, device):
        torch.manual_seed(0)
        self.device = device
        batch = BATCH[torch.device(device).type]
        data = TensorDataset(torch.randn(50 * batch, 32), torch.randint(0, 10, (50 * batch,)))
        # Whole batches by one index: collating thousands of rows one by one would drown the step.
        self.loader = DataLoader(data, sampler=BatchSampler(RandomSampler(data), batch, drop_last=True), batch_size=None)
        self.model = nn.Sequential(nn.Linear(32, width), *(Block(width) for _ in range(4)), nn.Linear(width, 10)).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def synchronize(self):
        kind = torch.device(self.device).type
        if kind != "cpu":
            getattr(torch, kind).synchronize()

    def train(self, steps, around):
        """Seconds of each whole block of steps, and the last loss."""
        done, blocks = 0, []
        self.synchronize()
        started = time.perf_counter()
        while done < steps:
            for x, y in self.loader:
                with around(self.model):
                    loss = nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                done += 1
                if done % BLOCK == 0:
                    self.synchronize()
                    now = time.perf_counter()
                    blocks.append(now - started)
                    started = now
                if done == steps:
                    break
        return blocks, loss.item()


def nothing(_model):
    return contextlib.nullcontext()


def calibrate(target, device):
    """The width, a multiple of 16, whose step comes nearest to the target. The smallest where even that takes longer."""

    def took(width):
        blocks, _ = Trainer(width, device).train(4 * BLOCK, nothing)
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
    parser.add_argument("--target-ms", type=float)
    parser.add_argument("--width", type=int)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--profiler", action="store_true", help="torch.profiler around the whole training")
    parser.add_argument("--traceml", action="store_true", help="mark steps for TraceML, as it asks of a plain loop")
    args = parser.parse_args()
    torch.set_num_threads(1)

    if args.width is None:
        print(json.dumps({"width": calibrate(args.target_ms / 1000, args.device)}))
        return

    around, profiler = nothing, contextlib.nullcontext()
    if args.traceml:
        import traceml_ai

        traceml_ai.init(mode="auto")
        around = traceml_ai.trace_step
    if args.profiler:
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if args.device.startswith("cuda"):
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        profiler = torch.profiler.profile(activities=kinds)
    trainer = Trainer(args.width, args.device)
    with profiler:
        trainer.train(WARM, around)
        blocks, loss = trainer.train(args.steps, around)
    step = [block / BLOCK for block in blocks]
    print(
        json.dumps(
            {
                "median": statistics.median(step),
                "mean": statistics.fmean(step),
                "steps": args.steps,
                "loss": loss.hex(),
                "torch": torch.__version__,
                "device": torch.cuda.get_device_name() if args.device.startswith("cuda") else args.device,
            }
        )
    )


if __name__ == "__main__":
    main()
