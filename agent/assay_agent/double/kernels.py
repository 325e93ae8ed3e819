"""Operators' kernels of others: those that scripts write in Python, by torch.library, and those of extensions.
PyTorch's registry of them is the process's, and so is this one.
"""

import torch

PLAIN_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")

_written = {}  # operator -> {dispatch key: a Python function}


def written_for(name):
    """The kernels that a script has written for an operator: dispatch key -> function. To add to."""
    return _written.setdefault(name, {})


def is_written(name):
    """Whether a script has written a kernel for the operator."""
    return name in _written


def lacks_kernel(func, name):
    """Whether an operator of an extension has a kernel for the CPU alone, and none that MPS could take."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if "MPS" in _written.get(name, ()) or name.startswith(("aten::", "prim", "torchvision::", "quantized::")):
        return False
    return has(func.name(), "CPU") and not any(
        has(func.name(), key) for key in PLAIN_KEYS[1:] + ("CompositeImplicitAutogradNestedTensor",))
