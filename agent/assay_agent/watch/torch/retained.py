"""Retained tensors: made in two steps in the middle of an epoch and still alive at its end, by the line that made them.

Python's own tracemalloc names the line: it sees every Python object that is made, tensors included, and needs no mode
that would change how PyTorch dispatches. It slows Python down, so two steps of an epoch are traced, marked, and left
out of the steady window. Where the script uses tracemalloc itself, nothing is traced.
"""

import gc
import sys
import time
import weakref

from ... import place, wire
from ...timeline import T

FRAMES = 24
STEPS = 2
_torch = None
_tracing = False
_made = []  # (weak reference, user line, bytes) of the tensors that the traced steps left alive
_from = (0, 0)
_done = 0  # epoch in which a window was traced
_spent = 0.0
_started = time.perf_counter()
_full = None  # full collections when the window began


def install(torch, config):
    global _torch
    _torch = torch
    if config.get("only"):
        return
    T.open_hooks.append(_open)
    T.close_hooks.append(_close)
    T.epoch_hooks.append(_epoch)


def clear():
    """A forked child traces nothing: its parent's window stays the parent's."""
    global _tracing, _done
    _tracing, _done = False, 1 << 60
    _made[:] = []


def _affordable():
    """A thousandth of the time so far, and the second and third epoch in any case."""
    return 2 <= T.epoch <= 3 or _spent < 0.001 * (time.perf_counter() - _started)


def _open(number, timeline):
    global _tracing, _from, _done, _full
    length = timeline.epoch_length
    if _tracing:
        return "trace"
    if timeline.epoch < 2 or length < 8 or _done == timeline.epoch or not _affordable():
        return None
    if timeline.epoch_step < max(2, length // 2 - 2) or timeline.epoch_step > length - 4:
        return None
    import tracemalloc

    if tracemalloc.is_tracing():
        wire.trouble("retained tensors: the script uses tracemalloc itself")
        _done = 1 << 60
        return None
    _full = _collections()
    _tracing, _from, _done = True, (number, number + STEPS - 1), timeline.epoch
    tracemalloc.start(FRAMES)  # last: whatever the script raises in the midst, the end of the window stops it
    return "trace"


def _kinds():
    """Tensor and the subclasses of it that exist now."""
    kinds, todo = set(), [_torch.Tensor]
    while todo:
        kind = todo.pop()
        if kind not in kinds:
            kinds.add(kind)
            todo.extend(type.__subclasses__(kind))
    return kinds


def _tensors(young=False):
    """Tensors that Python holds; young: those that have not been through a full collection."""
    kinds = _kinds()
    found = []
    for generation in (0, 1) if young else (None,):
        found += [o for o in gc.get_objects(generation=generation) if type(o) in kinds]
    return found


def _collections():
    """Full collections so far; None where young objects cannot be told (Python 3.14 collects by increments)."""
    return gc.get_stats()[2]["collections"] if sys.version_info < (3, 14) else None


def _close(number, step, timeline):
    global _tracing, _spent
    if not _tracing or number < _from[1]:
        return
    import tracemalloc

    began = time.perf_counter()
    _made[:] = []
    try:
        for tensor in _tensors(young=_full is not None and _full == _collections()):
            trace = tracemalloc.get_object_traceback(tensor)
            if trace is not None:
                frames = [(f.filename, f.lineno) for f in reversed(list(trace))]
            else:
                frames = _trace_3_11(tensor)
            if frames:
                _made.append((weakref.ref(tensor), _line(frames), _bytes(tensor)))
    finally:
        tracemalloc.stop()
        _tracing = False
        _spent += time.perf_counter() - began


def _trace_3_11(tensor):
    """The frames, innermost first, that CPython 3.11's own function does not find.

    It looks sixteen bytes too late for objects with a managed dictionary, as tensors are: two pointers stand before the
    garbage collector's header (CPython 3.11, Objects/typeobject.c, _PyType_PreHeaderSize).
    """
    if sys.version_info[:2] != (3, 11):
        return None
    import ctypes

    find = ctypes.pythonapi._PyTraceMalloc_GetTraceback
    find.restype, find.argtypes = ctypes.py_object, [ctypes.c_uint, ctypes.c_void_p]
    return find(0, id(tensor) - 32)


def _line(frames):
    """Innermost user line of frames (file, line), innermost first."""
    for name, line in frames:
        if _user_file(name):
            return "%s:%d" % (name, line)
    return ""


_files = {}


def _user_file(name):
    known = _files.get(name)
    if known is None:
        known = _files[name] = place.is_user_file(name)
    return known


def _bytes(tensor):
    # Asked of the base class: a subclass, or a mode that is on, would hear of it otherwise.
    with _torch._C.DisableTorchFunction():
        try:
            return tensor.numel() * tensor.element_size()
        except RuntimeError:  # a layout without a size
            return 0


def _epoch(epoch, timeline):
    global _spent
    if not _affordable():
        return
    began = time.perf_counter()
    tensors = _tensors()
    event = {
        "ev": "alive",
        "epoch": epoch,
        "tensors": len(tensors),
        "bytes": sum(_bytes(t) for t in tensors),
        "graph": _longest_graph(tensors),
    }
    del tensors
    if _made and _done == epoch:
        lines = {}
        for ref, line, size in _made:
            if ref() is not None:
                row = lines.setdefault(line, [0, 0])
                row[0] += 1
                row[1] += size
        _made[:] = []
        event["retained"] = [[line, n, size] for line, (n, size) in lines.items()]
        event["steps"] = STEPS
    wire.put(event)
    _spent += time.perf_counter() - began


def _longest_graph(tensors):
    """The tensor that holds the longest chain of additions: `total += loss` keeps the graph of every step it has
    seen."""
    with _torch._C.DisableTorchFunction():
        return _longest(tensors)


def _longest(tensors):
    best, owner = 0, None
    for tensor in tensors:
        node, length = tensor.grad_fn if tensor.requires_grad and not tensor.is_leaf else None, 0
        while node is not None and length < 10000 and node.name().startswith("AddBackward"):
            length += 1
            node = node.next_functions[0][0] if node.next_functions else None
        if length > best:
            best, owner = length, tensor
    if best < 8:
        return None
    return {"additions": best, "name": _variable(owner)}


def _variable(tensor):
    """The name of the user's local or global variable that holds the tensor, where one does."""
    frame = sys._getframe(1)
    while frame is not None:
        if place.is_user(frame.f_code):
            for name, value in list(frame.f_locals.items()):
                if value is tensor:
                    return "%s, in %s:%d" % (name, frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ""
