# expect: steps=30 exit=0 children=2 spawned=10
"""Starts Python twice: by subprocess, and by multiprocessing's spawn, where the child trains as well."""
import multiprocessing
import subprocess
import sys

import torch
from torch import nn


def train(steps, name):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, steps + 1):
        x = torch.randn(8, 6)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, step, loss.item().hex(), flush=True)


def child(queue):
    train(10, "spawned")
    queue.put("done")


def main():
    train(20, "parent")
    done = subprocess.run([sys.executable, "-c", "import sys; print('subprocess', sys.argv[1:], sys.path[0] == ''); sys.exit(6)", "a b", "--c"])
    print("subprocess ended with", done.returncode, flush=True)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print("spawned", queue.get(timeout=120))
    process.join()
    print("spawned ended with", process.exitcode, flush=True)
    train(10, "parent")


if __name__ == "__main__":
    main()
