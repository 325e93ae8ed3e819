"""Counts what its modes, its Tensor subclass, its own profiler window and its saved-tensor hooks see."""
import torch, collections
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
torch.set_num_threads(1); torch.manual_seed(0)
seen = collections.Counter()
class F(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen["f:" + getattr(func, "__qualname__", str(func))] += 1
        return func(*args, **(kwargs or {}))
class D(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen["d:" + str(func)] += 1
        return func(*args, **(kwargs or {}))
class S(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen["s:" + getattr(func, "__qualname__", str(func)) + str(getattr(func, "__self__", ""))[:60]] += 1
        return super().__torch_function__(func, types, args, kwargs or {})
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.SGD(model.parameters(), lr=.01)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=8)
def epoch(wrap=lambda x: x):
    for x, y in data:
        loss = nn.functional.mse_loss(model(wrap(x)), y)
        opt.zero_grad(); loss.backward(); opt.step()
        float(loss); loss.item()
for n in range(12):
    epoch()
    with F(): epoch()
    with D(): epoch()
    epoch(lambda x: x.as_subclass(S))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.update(["pack"]) or t, lambda t: seen.update(["unpack"]) or t):
        for i in range(2):
            (nn.functional.mse_loss(model(torch.ones(3, 4)), torch.ones(3, 1)) / 2).backward()
        opt.step()
for k in sorted(seen): print(k, seen[k])
with torch.profiler.profile() as p:
    for _ in range(10): epoch()
for e in sorted(p.key_averages(), key=lambda e: e.key): print(e.key, e.count)
