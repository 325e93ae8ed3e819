import gc
import torch
from tqdm import tqdm
from torch.utils.data import DataLoader, TensorDataset

device = "mps"
ds = TensorDataset(torch.randn(100, 4), torch.randn(100))
train_loader = DataLoader(ds, batch_size=8, num_workers=16)  # sure: many-workers


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x)


model = Net().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
crit = torch.nn.MSELoss()


def train(epochs):
    running = 0.0
    total_loss = 0
    for epoch in range(epochs):
        bar = tqdm(train_loader)
        for i, (x, y) in enumerate(bar):  # sure: workers-without-guard
            x, y = x.to(device), y.to(device)
            opt.zero_grad()
            loss = crit(model(x).squeeze(), y)
            loss.backward()
            opt.step()
            running += loss.item()  # sure: synchronisation-in-loop
            total_loss += loss  # sure: retained-graph
            bar.set_postfix(loss=loss.item())  # sure: synchronisation-in-loop
            print(f"step {i} loss {loss:.3f}")  # sure: synchronisation-in-loop
            preds = model(x).cpu()  # sure: synchronisation-in-loop
            acc = float(loss)  # sure: synchronisation-in-loop
            if loss > 3:  # sure: synchronisation-in-loop
                break
            torch.mps.empty_cache()  # sure: cache-flush-in-loop
            gc.collect()  # sure: cache-flush-in-loop
            torch.mps.synchronize()  # sure: synchronisation-in-loop


def losses():
    history = []
    for x, y in train_loader:
        x = x.to(device)
        loss = crit(model(x).squeeze(), y.to(device))
        loss.backward()
        opt.step()
        history.append(loss)  # sure: retained-graph
    return sum(history)


def total():
    total = 0
    for x, y in train_loader:
        loss = crit(model(x.to(device)).squeeze(), y.to(device))
        loss.backward()
        total = total + loss  # sure: retained-graph


def evaluate(loader):
    model.eval()
    correct = 0
    for x, y in loader:
        out = model(x.to(device))  # suspect: evaluation-with-gradients
        correct += (out.argmax(1) == y.to(device)).sum()


@torch.no_grad()
def fine(loader):
    model.eval()
    for x, y in loader:
        out = model(x.to(device))


def accumulate(loader, accum=4):
    opt.zero_grad()
    for step, (x, y) in enumerate(loader, start=1):
        loss = crit(model(x.to(device)), y.to(device))
        loss.backward()  # suspect: accumulation-unscaled
        if step % accum == 0:
            opt.step()
            opt.zero_grad()


train(3)


def meters():
    meter = elsewhere.Average()
    for x, y in train_loader:
        loss = crit(model(x.to(device)).squeeze(), y.to(device))
        loss.backward()
        opt.step()
        meter.append(loss)  # suspect: retained-graph
