# device: cuda
from probe import see
import torch
import sys, platform

see(torch.cuda.is_available())  # true
see(torch.cuda.device_count())  # unknown
see(torch.version.cuda)  # api torch.version.cuda
see(torch.backends.mps.is_available())  # false
see(torch.accelerator.current_accelerator())  # device cuda
see(sys.platform)  # api sys.platform
see(platform.system())  # unknown
if torch.device(d).type == "cuda":
    see(1)  # number 1
