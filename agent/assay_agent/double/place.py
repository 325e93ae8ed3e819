"""Where tensors live. Each is a CPU tensor; a storage that stands for one on MPS is in `Place.live`, with what it is
charged.

Views share their tensor's storage, so they live where it lives, and `parameter.data = …` moves a parameter. A storage
leaves the table when PyTorch frees it: its Python object lives as long as it does (PyTorch 2.1 or later), and a weak
reference to that object tells.
"""

import weakref

import torch

from .current import inside
from .ledger import Ledger

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

DEVICE = torch.device("mps", 0)


class _Charge(weakref.ref):
    """A weak reference to a storage that knows its key and its blocks; and what the ledger notes of it: the serial
    number and phase of its birth, which time that phase was, and its kind (None: not told yet)."""

    __slots__ = ("key", "blocks", "nbytes", "born", "phase", "window", "kind")


class Place:
    """The storages that live on one double's device, and the account of its memory.

    make_account  makes the account: allocate(bytes) gives a block, free(block) takes it back. It raises what PyTorch
                  raises for watermarks out of range.
    live          address of a StorageImpl -> _Charge
    account       what make_account made; None until the first tensor
    ledger        what its memory is for
    """

    def __init__(self, make_account):
        self.make_account = make_account
        self.live = {}
        self.account = None
        self.ledger = Ledger()
        self._freed = self._on_freed

    def _on_freed(self, charge):
        if self.live.get(charge.key) is charge:
            del self.live[charge.key]
        self.ledger.freed(charge)
        for block in charge.blocks:
            self.account.free(block)

    def ready(self):
        """The account, made at first use as PyTorch makes its allocator."""
        if self.account is None:
            self.account = self.make_account()
        return self.account

    def on_mps(self, tensor):
        """Whether a tensor stands for one on MPS: by its storage, or because it is a wrapper that was made to say
        so."""
        try:
            return (tensor.untyped_storage()._cdata in self.live
                    or tensor.__class__ is not torch.Tensor and "_assay_on_mps" in tensor.__dict__)
        except ValueError:  # a parameter of a lazy layer lets few functions at itself
            with torch._C.DisableTorchFunctionSubclass():
                return tensor.untyped_storage()._cdata in self.live
        except (NotImplementedError, RuntimeError, AttributeError):
            return self._without_storage(tensor)

    def _without_storage(self, tensor):
        """Sparse tensors live where their values do, those of torch.func where the tensors lie that they wrap; what
        else has no storage is no tensor of MPS."""
        try:
            if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
                return self.on_mps(torch._C._functorch.get_unwrapped(tensor))
            with inside():
                if tensor.layout is torch.sparse_coo:
                    return self.on_mps(tensor._values())
                if tensor.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
                    return self.on_mps(tensor.values())
        except (NotImplementedError, RuntimeError, AttributeError):
            pass
        return False

    def any_on_mps(self, values):
        """Whether one of the tensors among these values, lists and tuples searched, lives on MPS."""
        for value in values:
            if isinstance(value, torch.Tensor):
                if self.on_mps(value):
                    return True
            elif isinstance(value, (list, tuple)) and self.any_on_mps(value):
                return True
        return False

    def mark(self, tensor):
        """From now on the tensor's storage lives on MPS and is charged. Marking twice charges once, or what a resize
        added."""
        try:
            storage = tensor.untyped_storage()
        except ValueError:
            with torch._C.DisableTorchFunctionSubclass():
                storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError, AttributeError):
            self._mark_parts(tensor)
            return
        self.mark_storage(storage, storage._cdata)

    def mark_storage(self, storage, key):
        """mark, of a storage at hand; key is its address."""
        charge = self.live.get(key)
        nbytes = storage.nbytes()
        if charge is not None and charge() is not None:
            if charge.nbytes != nbytes:
                blocks = [self.ready().allocate(nbytes)] if nbytes else []
                before, kind = charge.blocks, charge.kind
                charge.blocks = before + blocks  # both are there for a moment
                self.ledger.grew(self.account)
                self.ledger.freed(charge)
                for block in before:
                    self.account.free(block)
                charge.blocks, charge.nbytes = blocks, nbytes
                self.ledger.charged(charge, self.account)
                charge.kind = kind
            return
        blocks = [(self.account or self.ready()).allocate(nbytes)] if nbytes else []
        charge = _Charge(storage, self._freed)
        charge.key, charge.blocks, charge.nbytes = key, blocks, nbytes
        self.live[key] = charge
        self.ledger.charged(charge, self.account)

    def charge_more(self, tensor, nbytes):
        """Charge memory that MPS would hold as long as the tensor lives, and the CPU's way does not have."""
        charge = self.live.get(tensor.untyped_storage()._cdata)
        if charge is not None and nbytes > 0:
            charge.blocks.append(self.account.allocate(nbytes))
            self.ledger.grew(self.account)

    def reset_peak(self):
        """The script has the counters' peaks begin anew; the ledger goes on."""
        account = self.ready()
        self.ledger.driver = max(self.ledger.driver, account.peak_driver)
        account.reset_peak()

    def _mark_parts(self, tensor):
        with inside():
            if tensor.layout is torch.sparse_coo:
                parts = (tensor._indices(), tensor._values())
            elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
                parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
            elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
                parts = (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
            else:
                parts = ()
            for part in parts:
                self.mark(part)
