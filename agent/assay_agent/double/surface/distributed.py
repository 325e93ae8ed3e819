"""torch.distributed without NCCL."""

import sys

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    import torch.distributed as distributed
    if not distributed.is_available():
        return
    import torch.distributed.distributed_c10d as c10d
    for name in ("_NCCL_AVAILABLE", "_UCC_AVAILABLE"):
        if hasattr(c10d, name):
            setattr(c10d, name, False)
    for module in (distributed, c10d, sys.modules.get("torch._C._distributed_c10d")):
        for name in ("ProcessGroupNCCL", "ProcessGroupUCC"):
            if module is not None and name in vars(module):
                delattr(module, name)
    devices = getattr(c10d.Backend, "default_device_backend_map", None)
    if devices is not None:
        if double.series >= (2, 8):
            devices["mps"] = "gloo"
        else:
            devices.pop("mps", None)
