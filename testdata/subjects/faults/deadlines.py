"""Two hundred deadlines by signal.setitimer, at random moments of a training over a loader and over a list: each ends its epoch."""
import signal, sys, random, time
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
class Deadline(Exception): pass
fired = caught = 0
def expire(number, frame):
    global fired
    fired += 1
    raise Deadline
signal.signal(signal.SIGALRM, expire)
r = random.Random(1)
m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
o = torch.optim.Adam(m.parameters(), lr=.01)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(8)]
m(batches[0][0]).sum().backward()
o.step()  # a deadline while it makes its state would leave half of one, bare as well
N = 200
n = 0
while caught < N:
    source = DataLoader(data, batch_size=8) if n % 2 else batches
    n += 1
    try:
        signal.setitimer(signal.ITIMER_REAL, r.uniform(0.0001, 0.006))
        for x, y in source:
            loss = torch.nn.functional.mse_loss(m(x), y)
            o.zero_grad()
            loss.backward()
            o.step()
            loss.item()
        while True: time.sleep(0.0005)
    except Deadline:
        caught += 1
        torch.set_grad_enabled(True)  # an optimizer that was interrupted leaves it off
signal.setitimer(signal.ITIMER_REAL, 0)
print(fired, caught, flush=True)
