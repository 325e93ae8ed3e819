"""PyTorch's module database as models to try: `assay try tools/double/modules.py --all --torch 2.8`.

torch.testing._internal.common_modules.module_db lists torch.nn's modules with sample inputs; each sample is a function here that builds the module
and gives its inputs, in float32 as MPS has it.
"""

import inspect
import sys
import types
import unittest

import torch

try:
    import expecttest  # noqa: F401
except ImportError:  # wanted by PyTorch's common_utils for its base class alone
    stub = types.ModuleType("expecttest")
    stub.TestCase = unittest.TestCase
    sys.modules["expecttest"] = stub
from torch.testing._internal.common_modules import module_db  # noqa: E402

__all__ = []


class Sample(torch.nn.Module):
    """A module with arguments by name as well."""

    def __init__(self, module, kwargs):
        super().__init__()
        self.module = module
        self.kwargs = kwargs

    def forward(self, *args):
        return self.module(*args, **self.kwargs)


def _samples(info):
    given = {"device": "cpu", "dtype": torch.float32, "requires_grad": True, "training": True}
    known = inspect.signature(info.module_inputs_func).parameters
    torch.manual_seed(0)
    return info.module_inputs_func(info, **{k: v for k, v in given.items() if k in known or any(p.kind == p.VAR_KEYWORD for p in known.values())})


def _offer(info):
    try:
        count = len(list(_samples(info)))
    except Exception:
        return

    for i in range(count):
        def make(info=info, i=i):
            sample = list(_samples(info))[i]
            module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            forward = sample.forward_input
            return Sample(module, forward.kwargs), tuple(forward.args)

        make.__signature__ = inspect.Signature()
        name = "%s_%d" % (info.name.replace("nn.", "").replace(".", "_"), i)
        make.__name__ = name
        make.__module__ = __name__
        globals()[name] = make
        __all__.append(name)


for _info in module_db:
    _offer(_info)
