"""Where tensors live. Each is a CPU tensor; a storage that stands for one on MPS is in `_live`, with what it is charged.

Views share their tensor's storage, so they live where it lives, and `parameter.data = …` moves a parameter. A storage leaves the table when
PyTorch frees it: its Python object lives as long as it does (PyTorch 2.1 or later), and a weak reference to that object tells.
"""

import contextlib
import threading
import weakref

DEVICE = None  # torch.device("mps", 0)
settings = {}
account = None  # MetalAllocator, from the first tensor on
make_account = None  # makes it; raises what PyTorch raises for watermarks out of range
torch = None

__tracebackhide__ = True  # pytest leaves our frames out of what it prints
_live = {}  # address of a StorageImpl -> _Charge


class _State(threading.local):
    off = False  # True: the double looks at nothing in this thread; OPERATORS: at no operator, while attributes still answer


OPERATORS = 2
state = _State()


class _Charge(weakref.ref):
    """A weak reference to a storage that knows its key and its blocks."""

    __slots__ = ("key", "blocks", "nbytes")


def _gone(charge):
    if _live.get(charge.key) is charge:
        del _live[charge.key]
    for block in charge.blocks:
        account.free(block)


def install(the_torch, the_settings, maker):
    global torch, DEVICE, make_account
    torch = the_torch
    settings.update(the_settings)
    DEVICE = torch.device("mps", 0)
    make_account = maker


def ready():
    """The account, made at first use as PyTorch makes its allocator."""
    global account
    if account is None:
        account = make_account()
    return account


def on_mps(tensor):
    """Whether a tensor stands for one on MPS: by its storage, or because it is a wrapper that was made to say so."""
    try:
        return tensor.untyped_storage()._cdata in _live or tensor.__class__ is not torch.Tensor and "_assay_on_mps" in tensor.__dict__
    except ValueError:  # a parameter of a lazy layer lets few functions at itself
        with torch._C.DisableTorchFunctionSubclass():
            return tensor.untyped_storage()._cdata in _live
    except (NotImplementedError, RuntimeError, AttributeError):
        return _without_storage(tensor)


def _without_storage(tensor):
    """Sparse tensors live where their values do, those of torch.func where the tensors lie that they wrap; what else has no storage is no
    tensor of MPS."""
    try:
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return on_mps(torch._C._functorch.get_unwrapped(tensor))
        with inside():
            if tensor.layout is torch.sparse_coo:
                return on_mps(tensor._values())
            if tensor.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
                return on_mps(tensor.values())
    except (NotImplementedError, RuntimeError, AttributeError):
        pass
    return False


def mark(tensor):
    """From now on the tensor's storage lives on MPS and is charged. Marking twice charges once, or what a resize added."""
    try:
        storage = tensor.untyped_storage()
    except ValueError:
        with torch._C.DisableTorchFunctionSubclass():
            storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError, AttributeError):
        _mark_parts(tensor)
        return
    mark_storage(storage, storage._cdata)


def mark_storage(storage, key):
    """mark, of a storage at hand; key is its address."""
    charge = _live.get(key)
    nbytes = storage.nbytes()
    if charge is not None and charge() is not None:
        if charge.nbytes != nbytes:
            blocks = [ready().allocate(nbytes)] if nbytes else []
            for block in charge.blocks:
                account.free(block)
            charge.blocks, charge.nbytes = blocks, nbytes
        return
    blocks = [(account or ready()).allocate(nbytes)] if nbytes else []
    charge = _Charge(storage, _gone)
    charge.key, charge.blocks, charge.nbytes = key, blocks, nbytes
    _live[key] = charge


def charge_more(tensor, nbytes):
    """Charge memory that MPS would hold as long as the tensor lives, and the CPU's way does not have."""
    charge = _live.get(tensor.untyped_storage()._cdata)
    if charge is not None and nbytes > 0:
        charge.blocks.append(account.allocate(nbytes))


def _mark_parts(tensor):
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
            mark(part)


def unmark(tensor):
    """The storage lives on the CPU after all."""
    charge = _live.pop(tensor.untyped_storage()._cdata, None)
    if charge is not None:
        for block in charge.blocks:
            account.free(block)
        charge.blocks = []


@contextlib.contextmanager
def inside(what=True):
    """Work of the double's own: nothing looks at it."""
    before = state.off
    state.off = what
    try:
        yield
    finally:
        state.off = before
