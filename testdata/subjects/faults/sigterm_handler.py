# expect: steps=60 exit=5 signal=SIGTERM
"""Says ready and waits; its own handler of SIGTERM and SIGINT cleans up and exits with 5."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(480, 6), torch.randn(480, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train(epochs=1, after=lambda step: None):
    step = 0
    for epoch in range(epochs):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(step, loss.item().hex(), flush=True)
            after(step)



import signal
import sys
import time


def handler(number, frame):
    print("cleaning up after", signal.Signals(number).name, flush=True)
    time.sleep(0.3)
    print("clean", flush=True)
    sys.exit(5)


signal.signal(signal.SIGTERM, handler)
signal.signal(signal.SIGINT, handler)
train()
print("ready", flush=True)
while True:
    time.sleep(0.05)
