from dataclasses import dataclass, field
import torch as th

CONFIG = {
    "device": "mps",
    "dtype": th.float64,
    "loader": {"num_workers": 4, "pin_memory": True},
    "amp": {"device": "cuda"},
}

@dataclass
class TrainConfig:
    device: str = "mps"
    gpu: str = "cuda:0"
    precision: th.dtype = th.float64
    workers: int = 4
    backend: str = "nccl"

def get_device(name=None):
    return th.device(name or "mps")

def default_dtype():
    return th.float64
