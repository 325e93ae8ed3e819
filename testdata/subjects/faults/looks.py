"""Prints what a script can see of its process."""
import os
import signal
import sys
import threading

print(sys.argv, sys.flags, sys.path)
print(sorted(k for k in os.environ if not k.startswith("ASSAY")))
print([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)])
print([t.name for t in threading.enumerate()], sys.stdin.isatty(), sys.stdout.isatty())
print("sitecustomize" in sys.modules, sys.excepthook is sys.__excepthook__)
import torch

print(torch.Tensor.item, torch.Tensor.__bool__, torch.Tensor.to, torch.Tensor.item.__doc__ == torch._C.TensorBase.item.__doc__)
print(torch.__spec__.loader is torch.__loader__, type(torch.__loader__).__name__, sorted(vars(torch.__loader__)))
