"""Storages and files: storages say where they live, and so do the files that torch.save writes."""

import functools

import torch

from ..current import current, inside
from ..errors import cuda_error
from ..place import DEVICE
from .names import device_type

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


_kept_on = torch.UntypedStorage.device.__get__  # where the bytes lie in truth: a getset of C++


def _storage_on_mps(storage):
    return storage._cdata in current.double.place.live


def _without_values(storage):
    return _kept_on(storage).type == "meta"


def _copy(storage):
    """A copy on the CPU. A storage that carries a shape alone has no values: zeros, as wherever a value is asked for."""
    if not _without_values(storage):
        return torch.UntypedStorage(storage.nbytes()).copy_(storage, False)
    current.double.stood_in("aten::_to_copy")
    return torch.zeros(storage.nbytes(), dtype=torch.uint8, device="cpu").untyped_storage()


def _mark_storage(storage):
    with inside():
        whole = torch.empty(0, dtype=torch.uint8, device=_kept_on(storage)).set_(storage)
    current.double.place.mark(whole)
    return storage


def install(double):
    Storage = torch.UntypedStorage
    new = Storage.__new__

    def get(self):
        return DEVICE if _storage_on_mps(self) else _kept_on(self)

    def __new__(cls, *args, **kwargs):
        kind = device_type(kwargs.get("device"))
        if kind == "mps":
            current.double.check_available()
            return _mark_storage(new(cls, *args, **dict(kwargs, device="cpu" if double.shapes is None else "meta")))
        if kind == "cuda":
            raise cuda_error()
        return new(cls, *args, **kwargs)

    def mps(self):
        """A copy on MPS, or the storage itself where it is there."""
        if _storage_on_mps(self):
            return self
        with inside():
            copy = _copy(self) if double.shapes is None else Storage(self.nbytes(), device="meta")
        return _mark_storage(copy)

    def cpu(self):
        """A copy on the CPU, or the storage itself where it is there."""
        if _storage_on_mps(self):
            current.double.place.ledger.copied_to_host(self.nbytes())
        elif double.shapes is None or not double.shapes.pretends(self):
            return self
        with inside():
            return _copy(self)

    write_file, set_from_file = Storage._write_file, Storage._set_from_file

    def _write_file(self, *args):
        """What files before zip archives, and pickle, are written by."""
        with inside():
            return write_file(_copy(self) if double.shapes is not None and _without_values(self) else self, *args)

    def _set_from_file(self, *args):
        if double.shapes is None or not _without_values(self):
            return set_from_file(self, *args)
        with inside():
            set_from_file(Storage(self.nbytes()), *args)
        return self

    share_memory = Storage.share_memory_

    @functools.wraps(share_memory)
    def share_memory_(self):
        if not _storage_on_mps(self):
            return share_memory(self)
        if current.double.series < (2, 13):  # from then on nothing happens where a storage is on no CPU
            by_name = torch.multiprocessing.get_sharing_strategy() == "file_system"
            self._share_filename_cpu_() if by_name else self._share_fd_cpu_()
        return self

    def only_on_cpu(name):
        share = getattr(Storage, name)
        text = name.replace("_cpu_", "_") + ": only available on CPU"

        @functools.wraps(share)
        def sharing(self, *args, **kwargs):
            if _storage_on_mps(self):
                raise RuntimeError(text)
            return share(self, *args, **kwargs)
        return sharing

    for name in ("_share_fd_cpu_", "_share_filename_cpu_"):
        if hasattr(Storage, name):
            setattr(Storage, name, only_on_cpu(name))
    Storage.device = property(get)
    Storage.__new__ = staticmethod(__new__)
    Storage.mps, Storage.share_memory_ = mps, share_memory_
    Storage.cpu, Storage._write_file, Storage._set_from_file = cpu, _write_file, _set_from_file
    if double.shapes is not None:  # what stands for one on the CPU is saved as such
        torch.serialization.register_package(
            0, lambda storage: "cpu" if double.shapes.pretends(storage) else None, lambda storage, location: None)
    if double.series < (2, 1):
        _equality_of_locations()
    if double.series < (2, 6) and hasattr(torch.serialization, "_default_to_weights_only"):
        # the default of torch.load's weights_only, from 2.6 on True
        torch.serialization._default_to_weights_only = lambda pickle_module: False
    load = torch.jit.load

    @functools.wraps(load)
    def jit_load(f, map_location=None, *args, **kwargs):
        if device_type(map_location) != "mps":
            return load(f, map_location, *args, **kwargs)
        return load(f, "cpu", *args, **kwargs).to(map_location)

    torch.jit.load = jit_load


def _equality_of_locations():
    """2.0 compared the location with 'mps': 'mps:0' was not found."""
    registry = torch.serialization._package_registry
    for at, entry in enumerate(registry):
        if getattr(entry[-1], "__name__", "") == "_mps_deserialize":
            registry[at] = entry[:-1] + (lambda storage, location: storage.mps() if location == "mps" else None,)
