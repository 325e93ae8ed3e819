from probe import see
import torch

see(torch.cuda.is_available())  # false
see(torch.cuda.is_available)  # api torch.cuda.is_available
see(torch.cuda.device_count())  # number
see(torch.version.cuda)  # none
see(torch.version.hip)  # none
see(torch.has_mps)  # true
see(torch.xpu.is_available())  # false
see(torch.mps.device_count())  # number
see(torch.backends.mps.is_available())  # true
see(torch.accelerator.is_available())  # true
see(torch.accelerator.current_accelerator())  # device mps
see(hasattr(torch, "mps"))  # true
see(hasattr(torch.backends, "mps"))  # true
see(hasattr(torch, "accelerator"))  # true
see(hasattr(torch, "npu"))  # unknown
device = "cuda" if torch.cuda.is_available() else "mps"
see(device)  # text "mps"
for i in range(torch.cuda.device_count()):
    see(i)  # 
see([g for g in range(torch.cuda.device_count())])  # list loose []
