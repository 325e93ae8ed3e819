import contextlib
from contextlib import contextmanager
import torch
from torch import mps

torch.mps.memory_allocated()  # sure: unknown-mps-api
mps.reset_peak_memory_stats()  # sure: unknown-mps-api
torch.backends.mps.is_macos_available()  # sure: unknown-mps-api
net = torch.nn.Linear(3, 3)
fast = torch.compile(net, mode="max-autotune", backend="mps")  # sure: compile-backend
BACKEND = "mps"
fast2 = torch.compile(net, backend=BACKEND)  # sure: compile-backend

@torch.compile(backend="mps")  # sure: compile-backend
def f(x):
    return x

sd = net.state_dict()
sd.to("mps")  # sure: state-dict-moved
best = {"w": net.state_dict()}
best["w"].cuda()  # sure: state-dict-moved
with torch.mps.profiler.metal_capture("x"):  # for 2.7+
    pass
torch.mps.start_capture("x")  # sure: unknown-mps-api
torch.mps.profiler.capture("x")  # sure: unknown-mps-api

@contextmanager
def oom_retry(n=2):
    try:
        yield
    except RuntimeError as e:
        if "out of memory" in str(e):
            torch.mps.empty_cache()
            yield  # sure: context-manager-yields-twice
        else:
            raise

x = torch.randn(2, device="mps:1")  # sure: device-index
y = torch.randn(2).to(torch.device("mps", 1))  # sure: device-index
