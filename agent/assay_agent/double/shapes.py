"""Rehearsal without data: tensors have shapes, types and memory, and no values.

Every tensor on MPS is one of PyTorch's meta tensors, and so is every large one on the CPU, so that a model larger than
this machine can be built, moved and trained. What needs a value gets a stand-in, which is counted as a note: item()
gives 0 (False for bool), a copy to the CPU gives zeros, and so do tolist() and numpy(). What cannot have one (boolean
indexing, nonzero: shapes that depend on values; operators that PyTorch has no rule of shapes for) is an error that says
so, and is kept as a refusal of cause `values`: it is the rehearsal's, and no device's.
"""

import re
import weakref

import torch

from .current import inside

LARGE = 1 << 16  # elements: from here on a tensor on the CPU has no data either

# as PyTorch has it; once the double is put in, the attribute says what a tensor stands for
is_meta = torch.Tensor.is_meta.__get__


class _Ref(weakref.ref):
    __slots__ = ("key",)


class Shapes:
    """The meta tensors that stand for tensors on the CPU, of one double."""

    def __init__(self):
        self._cpu = {}  # address of a StorageImpl -> _Ref
        self._freed = self._on_freed

    def _on_freed(self, ref):
        if self._cpu.get(ref.key) is ref:
            del self._cpu[ref.key]

    def pretends(self, tensor):
        """Whether a meta tensor, or its storage, stands for one on the CPU."""
        storage = tensor.untyped_storage() if isinstance(tensor, torch.Tensor) else tensor
        return storage._cdata in self._cpu

    def pretend(self, tensor):
        storage = tensor.untyped_storage()
        ref = _Ref(storage, self._freed)
        ref.key = storage._cdata
        self._cpu[ref.key] = ref


def large(args):
    """Whether a factory's first argument is a large size."""
    if not args or args[0].__class__ not in (list, tuple, torch.Size):
        return False
    n = 1
    for d in args[0]:
        if not isinstance(d, int):
            return False
        n *= d
    return n >= LARGE


def emptied(value):
    """CPU tensors with data, as meta tensors: an operator takes one kind."""
    if isinstance(value, torch.Tensor):
        return value if is_meta(value) else value.to("meta")
    if value.__class__ in (list, tuple):
        return value.__class__(emptied(v) for v in value)
    return value


class NeedsValues(Exception):
    """An operator cannot be computed for shapes alone."""


# What PyTorch says of an operator that has no rule of shapes, or whose rule needs values: c10's dispatcher, torch/_meta_registrations.py,
# torchvision/_meta_registrations.py, aten/src/ATen/native/Repeat.cpp and Scalar.cpp.
_WANTS_VALUES = re.compile(r"\bmeta tensors?\b|register_meta|data-dependent", re.IGNORECASE)


def computed(func, args, kwargs):
    """What the operator gives for shapes alone; NeedsValues where it cannot. Many of PyTorch's kernels for them are
    Python, which must see meta tensors."""
    with inside():
        try:
            return func(*emptied(args), **{k: emptied(v) for k, v in kwargs.items()})
        except RuntimeError as error:  # NotImplementedError is one
            if _WANTS_VALUES.search(str(error)):
                raise NeedsValues from error
            raise


def zeros(tensor):
    """What stands for the values of a tensor without data, on the CPU."""
    with inside():
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")


def without_value(tensor):
    """What stands for the value of a scalar tensor."""
    return False if tensor.dtype is torch.bool else 0.0 if tensor.is_floating_point() else 0
