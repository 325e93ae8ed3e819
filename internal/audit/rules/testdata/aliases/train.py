import os, sys
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, random_split
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.utils import clip_grad_norm_ as clip
from models import Child

class Trainer:
    cfg = dict(device="cuda:0", workers=8, amp=True)

    def __init__(self, model, loader: DataLoader):
        self.model, self.loader = model, loader
        self.device = self.cfg["device"]
        self.opt = optim.SGD(model.parameters(), lr=0.1)
        self.losses = []
        self.scaler = torch.amp.GradScaler("mps")

    def fit(self):
        self.model.to(self.device)  # sure: hard-coded-cuda-device
        for x, y in self.loader:
            x = x.to(self.device, non_blocking=True)  # sure: hard-coded-cuda-device
            with torch.cuda.amp.autocast(dtype=torch.float16):  # sure: cuda-amp
                loss = self.model(x).mean()
            self.scaler.scale(loss).backward()
            clip(self.model.parameters(), 1.)  # sure: clip-without-unscale
            self.scaler.step(self.opt)
            self.scaler.update()
            self.losses.append(loss)  # sure: retained-graph
            torch.cuda.empty_cache()  # sure: cache-flush-in-loop

    @torch.no_grad()
    def validate(self):
        for x, y in self.loader:
            out = self.model(x.cuda())  # sure: cuda-call

class Aug(Dataset):
    def __init__(self, fn): self.fn = fn
    def __len__(self): return 8
    def __getitem__(self, i): return self.fn(torch.zeros(3))

def setup(rank, world):
    os.environ["MASTER_ADDR"] = "localhost"
    backend = "nccl" if world > 1 else "gloo"
    dist.init_process_group(backend=backend, rank=rank, world_size=world)

def main(argv=None):
    ds = Aug(lambda t: t + 1)
    train, val = random_split(ds, [6, 2])
    dl = DataLoader(train, num_workers=2)  # sure: unpicklable-in-workers
    t = Trainer(Child(), dl)
    t.fit()
    t.validate()
    dev = torch.device("cuda" if "--gpu" in sys.argv else "cpu")
    name = f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}"
    z = torch.empty(3).to(name)  # sure: hard-coded-cuda-device
    torch.cuda.set_device(name)  # sure: cuda-function
    mp.set_start_method(method="fork")  # sure: fork-start
    torch.backends.mps.is_available
    net = torch.compile(Child(), backend="mps" if sys.platform == "darwin" else "inductor")  # sure: compile-backend
    sd = torch.load("x.pt", "cuda")  # sure: hard-coded-cuda-device

if __name__ == "__main__":
    main()
