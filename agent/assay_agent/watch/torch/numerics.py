"""Losses, gradients, and whether they are finite: read without waiting for a device.

On a CPU the loss is read from its memory at once, with no tensor operation (an operation would show up in the script's
own dispatch modes and profilers). On a device its detached tensor waits in a list until the host has waited for the
device anyway: after the script's own item(), at a sampled step, at the end of an epoch.
"""

import ctypes
import math
import os
import random
import struct
import sys
import time

from ... import guest, wire
from ...device import Device
from ...timeline import T
from . import device, hand

GRADS_EVERY = 20  # gradients are checked in one step out of so many
CONTENT = 256  # bytes of a parameter that tell whether it was changed
WAITING = 4096  # losses held on the device at most: half a kilobyte each, of what the allocator gives
READING = 0.002  # of the time, at most, goes to reading losses while the hooks are off

_torch = None
_cpu = None  # Tensor.cpu as it was: what the agent copies is no call of the script's
_losses = []  # (step, float)
_waiting = []  # (step, tensor, version, divisor tensor or None)
_gradients = []  # (step, finite) ready; tensors wait in _waiting_gradients
_waiting_gradients = []
_scaled = []  # the loss that a GradScaler was given since the last backward pass
_thinned = 0
_accumulation = {}  # what the graph says about loss / k: ground -> count
_readers = {}
_modes = 0  # that are no mode of the script's: the double stands in by one
_on_double = False  # what lives on MPS lies in this machine's memory


def install(torch, config):
    global _torch, _cpu, _on_double, _modes
    _torch, _cpu = torch, torch.Tensor.cpu
    double = config.get("double")
    _modes = 1 if double else 0
    _on_double = bool(double) and not double.get("shape_only")
    _readers.update(
        {
            torch.float32: (4, lambda b: struct.unpack("<f", b)[0]),
            torch.float64: (8, lambda b: struct.unpack("<d", b)[0]),
            torch.float16: (2, lambda b: struct.unpack("<e", b)[0]),
            torch.int64: (8, lambda b: float(struct.unpack("<q", b)[0])),  # loss / 4 keeps its 4 as an integer
            torch.int32: (4, lambda b: float(struct.unpack("<i", b)[0])),
            torch.bfloat16: (2, lambda b: struct.unpack("<f", b"\0\0" + b)[0]),
        }
    )
    T.epoch_hooks.append(lambda epoch, t: fetch())
    T.close_hooks.append(lambda number, step, t: fetch() if t.kind == "sync" else None)
    wire.source(_gather)


def clear():
    """A forked child tells its own."""
    for gathered in (_losses, _waiting, _gradients, _waiting_gradients, _scaled):
        gathered[:] = []
    passed[0] = 0
    _accumulation.clear()


def overridden():
    """Whether the script has a dispatch or function mode on: it would see what the agent asks a tensor."""
    try:
        functions = _torch._C._len_torch_function_stack() - _default_device()
        return _torch._C._len_torch_dispatch_stack() > _modes or functions > 0
    except AttributeError:
        return False


def _default_device():
    """How many of the function modes are PyTorch's own, of torch.set_default_device: 0 or 1."""
    return getattr(sys.modules.get("torch.utils._device"), "CURRENT_DEVICE", None) is not None


def observed():
    """Whether the script would see an operation of the agent's: by a mode, a profiler, CUDA's mode that reports what
    waits, or in a graph that it captures. Then the agent makes none."""
    if _modes or overridden() or not own_window and _profiled():
        return True  # what is asked of the double it would count as the script's
    if T.device.kind != "cuda":
        return False
    return bool(_torch.cuda.get_sync_debug_mode()) or _torch.cuda.is_current_stream_capturing()


own_window = False  # the agent's own profiler is on (watch.profile), whose table is to be of the script's operators


def _profiled():
    enabled = getattr(_torch._C._autograd, "_profiler_enabled", None)
    return enabled is not None and enabled()


@guest.hook  # a failure of its own must not cost the step its backward pass
def on_backward(roots, leaf=None):
    """A backward pass starts from roots: a tensor, or several. leaf: a tensor that it is to give the gradient of, where
    one is known."""
    if not T.bare:
        _look_at(roots, leaf)
    else:
        began = time.perf_counter_ns()
        _look_at(roots, leaf)
        took = time.perf_counter_ns() - began
        T.kept_ns += took
        crowded = 20 if len(_waiting) > WAITING // 2 else 1  # it may be long until the device is waited for
        due[0] = began + int(took / READING * crowded * _draw.uniform(0.5, 1.5))


due = [0]  # while the hooks are off: when the next loss is looked at; drawn, so that no rhythm of the script's decides
passed = [0]  # losses that were not looked at
_draw = random.Random(os.urandom(16))  # the script's own generator stays its own


def pass_over():
    """A backward pass whose loss is not looked at."""
    _scaled[:] = []
    passed[0] += 1


def _look_at(roots, leaf):
    scaled, _scaled[:] = _scaled[:], []
    root = hand.first(roots)
    if root is None:
        return
    with _torch._C.DisableTorchFunction():
        kind = root.device.type
        trains_on(kind, None if leaf is None else leaf.device.type)
    if overridden():
        return
    root = _unwrapped(root)
    if type(root) is not _torch.Tensor or root.numel() != 1:
        return
    step = T.current()
    if T.gathered or T.step.micro or T.in_opt:
        _look_for_division(root)
    loss = root
    if scaled and _follows(root, scaled[0]):
        loss = scaled[0]
    if kind == "cpu" or _on_double and kind == "mps":
        value = _read(loss)
        if value is not None:
            _losses.append((step, value))
    elif len(_waiting) < WAITING and not observed():
        _waiting.append((step, loss.detach(), loss._version))
    else:
        _thin()


def trains_on(kind, parameters=None):
    """A device of that type was seen in training, by a loss; parameters: the type of theirs, where it was looked at. A
    loss may be worked out on the CPU while the parameters are elsewhere: then that is the device."""
    global _kind
    if parameters is not None:
        _kind = parameters
    if kind == "cpu" and _kind:
        kind = _kind
    if T.device.kind != kind:
        T.device = Device(kind)  # where it cannot be asked, it is not asked again
        T.use(device.of(_torch, kind))
        T.lead("torch")


_kind = ""  # where parameters were when they were looked at last


def _unwrapped(tensor):
    """The tensor that one stands for within a transformation of torch.func."""
    functorch = getattr(_torch._C, "_functorch", None)
    while functorch is not None and functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def _follows(scaled, loss):
    """Whether scaled is what a GradScaler made of loss: their product with the scale is the last operation of its
    graph."""
    node = scaled.grad_fn
    return node is not None and any(before is loss.grad_fn for before, _ in node.next_functions)


def _thin():
    global _thinned
    _thinned += 1


def _read(tensor):
    """The value of a one-element CPU tensor, from its memory."""
    reader = _readers.get(tensor.dtype)
    if reader is None:
        return None
    size, convert = reader
    return convert(ctypes.string_at(tensor.data_ptr(), size))


def content(tensor):
    """The beginning of what a tensor holds, to be compared with another time's: bytes, or on a device a tensor, which
    only a comparison waits for. None where it is not looked at."""
    if type(tensor) not in (_torch.Tensor, _torch.nn.Parameter) or tensor.layout != _torch.strided:
        return None
    with _torch._C.DisableTorchFunction():
        kind, size = tensor.device.type, tensor.numel() * tensor.element_size()
        if kind == "cpu" or _on_double and kind == "mps":
            at = tensor.data_ptr() if tensor.is_contiguous() else 0
            return ctypes.string_at(at, min(size, CONTENT)) if at else None
        if observed():
            return None
        with _torch.no_grad():
            return tensor.detach().reshape(-1)[: CONTENT // 4].clone()


def _look_for_division(root):
    """Whether the loss of a micro-step was divided: the last operations of its graph, at most eight back."""
    if sum(_accumulation.values()) >= 64:
        return
    node, ground = root.grad_fn, "no division among the last operations"
    for _ in range(8):
        if node is None:
            break
        name = node.name()
        if name.startswith(("DivBackward", "MulBackward")):
            other = getattr(node, "_saved_other", None)
            value = None
            if isinstance(other, _torch.Tensor):
                value = _read(other) if other.device.type == "cpu" and other.numel() == 1 else None
            elif other is not None:
                value = float(other)
            ground = "%s by %s" % (
                "divided" if name.startswith("Div") else "multiplied",
                "a tensor" if value is None else "%g" % value,
            )
            break
        nexts = [n for n, _ in node.next_functions if n is not None]
        if len(nexts) != 1:
            break
        node = nexts[0]
    _accumulation[ground] = _accumulation.get(ground, 0) + 1


@guest.hook
def on_scale(outputs):
    """A GradScaler is about to scale a loss."""
    _scaled[:] = [outputs] if type(outputs) is _torch.Tensor else []


@guest.hook
def on_step(optimizer):
    """Before an optimizer steps: on a sampled step, where its parameters are, and whether its gradients are finite."""
    if T.bare:
        return
    step = T.current()
    if step < 3 or step % GRADS_EVERY == 0 or T.sampled:
        _look_where(optimizer)
    if step % GRADS_EVERY and step != 1 and not T.sampled:
        return
    if T.in_opt or own_window or observed():
        return
    began = T.boundary()
    try:
        grads = [
            p.grad
            for group in optimizer.param_groups
            for p in group["params"]
            if type(p) in (_torch.nn.Parameter, _torch.Tensor)
        ]
        grads = [g for g in grads if type(g) is _torch.Tensor and g.layout == _torch.strided]
        if not grads:
            return
        with _torch.no_grad():
            # The norm of all norms: finite only if each gradient is (or it overflows, which is news as well).
            norms = (
                _torch._foreach_norm(grads)
                if hasattr(_torch, "_foreach_norm") and T.device.kind != "mps"
                else [g.norm() for g in grads]
            )
            by_device = {}
            for n in norms:
                by_device.setdefault(n.device, []).append(n.float())
            for group in by_device.values():
                total = _torch.stack(group).sum()
                if total.device.type == "cpu":
                    _gradients.append((step, math.isfinite(_read(total))))
                else:
                    _waiting_gradients.append((step, total))
    finally:
        # The check is the agent's own work: it belongs to no phase of the step.
        t = T.boundary()
        T.heavy_ns += t - began
        T.skip(began, t)


def _look_where(optimizer):
    """The device of what an optimizer steps: of its first parameter that is not on the CPU."""
    groups = [group["params"] for group in optimizer.param_groups]
    with _torch._C.DisableTorchFunction():
        kinds = {p.device.type for group in groups for p in group[:1] + group[-1:] if isinstance(p, _torch.Tensor)}
    for kind in (sorted(kinds - {"cpu"}) or sorted(kinds))[:1]:
        trains_on(T.device.kind or kind, kind)
        if kind != "cpu":
            trains_on(kind)


def waited():
    """The script has just waited for the device: what has gathered since can be read for nothing."""
    if len(_waiting) >= 64:
        fetch()


def fetch():
    """Read what waits on the device. Called only where the host has just waited for the device."""
    if not _waiting and not _waiting_gradients or own_window or observed():
        return
    began = time.perf_counter_ns()
    _fetch()
    T.kept_ns += time.perf_counter_ns() - began


def _fetch():
    global _waiting, _waiting_gradients
    losses, _waiting = _waiting, []
    grads, _waiting_gradients = _waiting_gradients, []
    with _torch.no_grad():
        groups = {}
        for step, tensor, version in losses:
            if tensor._version != version:
                _thin()  # changed in place since: no longer the loss
                continue
            groups.setdefault(tensor.device, []).append((step, tensor))
        for rows in groups.values():
            values = _cpu(_torch.stack([t.reshape(()).float() for _, t in rows]))
            for (step, _), i in zip(rows, range(len(rows))):
                _losses.append((step, struct.unpack("<f", ctypes.string_at(values.data_ptr() + 4 * i, 4))[0]))
        for step, total in grads:
            _gradients.append((step, math.isfinite(_read(_cpu(total)))))


def _gather():
    global _losses, _gradients, _thinned
    losses, _losses = _losses, []
    if losses:
        wire.put(
            {
                "ev": "loss",
                "step": [s for s, _ in losses],
                "value": [v if math.isfinite(v) else repr(v) for _, v in losses],
            }
        )
    grads, _gradients = _gradients, []
    if grads:
        wire.put({"ev": "gradients", "step": [s for s, _ in grads], "finite": [f for _, f in grads]})
    if _thinned:
        n, _thinned = _thinned, 0
        wire.put({"ev": "loss_unread", "count": n})
    if passed[0]:
        n, passed[0] = passed[0], 0
        wire.put({"ev": "loss_passed", "count": n})
    if _accumulation and T.number != _reported[0]:
        _reported[0] = T.number
        wire.put({"ev": "accumulation", "grounds": dict(_accumulation)})


_reported = [-1]
