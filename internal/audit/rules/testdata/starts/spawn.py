import multiprocessing as mp
import torch
import torch.multiprocessing as tmp
from torch.utils.data import DataLoader, Dataset


class Ds(Dataset):
    def __init__(self):
        self.tf = lambda x: x * 2
    def __len__(self): return 10
    def __getitem__(self, i): return self.tf(torch.zeros(3))


mp.set_start_method("fork", force=True)  # sure: fork-start
loader = DataLoader(Ds(), batch_size=2, num_workers=2)  # sure: unpicklable-in-workers
for batch in loader:  # sure: workers-without-guard
    print(batch)

def worker(rank):
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2)  # sure: nccl-backend

it = iter(DataLoader(Ds(), num_workers=3))  # sure: workers-without-guard, unpicklable-in-workers
b = next(it)
tmp.spawn(worker, nprocs=2)
