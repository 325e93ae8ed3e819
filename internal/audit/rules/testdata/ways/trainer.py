import os
import torch
import torch as T
from torch.cuda import amp
from torch.cuda.amp import GradScaler, autocast as ac
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import bitsandbytes as bnb
from flash_attn import flash_attn_func  # sure: cuda-package
import triton.language as tl  # sure: cuda-package
from apex.optimizers import FusedAdam  # sure: cuda-package
import xformers.ops as xops
from torch.utils.cpp_extension import load, CUDAExtension
import deepspeed

rank = int(os.environ.get("LOCAL_RANK", 0))


class Trainer:
    backend = "nccl"
    gpu = f"cuda:{rank}"

    def __init__(self, model, use_amp=True):
        self.device = T.device(self.gpu)
        self.model = model.to(self.device)  # sure: hard-coded-cuda-device
        self.scaler = GradScaler(enabled=use_amp)  # sure: cuda-amp
        self.stream = torch.cuda.Stream()  # sure: cuda-function

    def setup(self):
        dist.init_process_group(self.backend, rank=0, world_size=1)  # sure: nccl-backend
        torch.cuda.set_device(rank)  # sure: cuda-function

    def step(self, batch, opt):
        batch = {k: v.cuda(non_blocking=True) for k, v in batch.items()}  # sure: cuda-call
        with ac():  # sure: cuda-amp
            loss = self.model(**batch)
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # sure: clip-without-unscale
        self.scaler.step(opt)
        self.scaler.update()
        torch.cuda.synchronize()  # sure: cuda-function
        return loss


def noise(shape, device="cuda"):
    return torch.randn(*shape, device=device)  # sure: hard-coded-cuda-device


def main():
    model = torch.nn.Linear(3, 3)
    getattr(model, "cuda")()  # sure: cuda-call
    x = noise((3, 3))
    t = torch.cuda.FloatTensor(3)  # sure: cuda-function
    props = torch.cuda.get_device_properties(0)  # sure: cuda-function
    opt = bnb.optim.Adam8bit(model.parameters())  # sure: cuda-package
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):  # sure: cuda-amp
        pass
    with torch.cuda.device(0):  # sure: cuda-function
        y = x + 1
    ext = load(name="ops", sources=["ops.cpp", "ops_kernel.cu"])  # sure: cuda-package
    g = torch.Generator(device="cuda")  # sure: hard-coded-cuda-device
    sd = torch.load("m.pt", map_location="cuda:0")  # sure: hard-coded-cuda-device
    sd2 = torch.load("m.pt", map_location=lambda storage, loc: storage.cuda())  # sure: cuda-call
    torch.set_default_tensor_type(torch.cuda.FloatTensor)  # sure: cuda-tensor-type
    torch.set_default_device("cuda")  # sure: hard-coded-cuda-device
    x = x.pin_memory()
    model = torch.nn.DataParallel(model, device_ids=[0, 1])


if __name__ == "__main__":
    main()


def place(rank):
    torch.zeros(3).to(torch.device("cuda:{:d}".format(rank)))  # sure: hard-coded-cuda-device
