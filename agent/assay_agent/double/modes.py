"""What a script meets. Attributes and methods of torch.Tensor answer for a tensor's device; a dispatch mode sees every operator, backward
included, looks it up in the atlas, enforces what MPS enforces, and keeps account.

The order of checks is MPS's own: is there a kernel (else the CPU fallback or NotImplementedError), the operator's own refusals
(refuse.py), where its tensors live, the new tensors' types, the memory limit.
"""

import functools
import os
import sys
import threading
import time
import warnings

from . import flops, place, refuse, shapes, surface
from .. import guest
from .. import place as source_line
from .place import state as _state

__tracebackhide__ = True  # pytest leaves our frames out of what it prints
NATIVE, COMPOSED, ON_CPU, RAISES, NO_STUB, MISSING = "N", "C", "F", "X", "S", "-"

torch = None
series = (2, 0)
macos = (15, 0)
fallback = False  # PYTORCH_ENABLE_MPS_FALLBACK, read once, as PyTorch reads it
ops = {}  # operator -> [calls, nanoseconds on this CPU, state, floating-point operations; None: not counted]
fallbacks = {}  # (operator, user's line) -> [calls, nanoseconds, bytes copied]
refusals = {}  # (operator, cause, text, user's line) -> calls
notes = {}
_warned = False
_known = {}  # OpOverload -> _Operator
_table = {}

# What a CPU runs where MPS has another operator, or composes it: counted and looked up under MPS's name. reroutes.txt has the sources.
_CPU_NAMES = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": "aten::_softmax_backward_data",
    "aten::mkldnn_rnn_layer": "aten::_lstm_mps",
    "aten::mkldnn_rnn_layer_backward": "aten::lstm_mps_backward",
    "aten::_mkldnn_reshape": "aten::view",
    "aten::_to_copy": "aten::_to_copy",
}

# Operators that PyTorch composes, but gives MPS a kernel of its own that runs on the CPU (aten/src/ATen/mps/MPSFallback.mm): what a CPU calls inside
# them -> they, and the Python names that come by them. torch.linalg.svdvals, cond and matrix_norm call _linalg_svd, but do not come by linalg_svd.
_INSIDE = {"aten::_linalg_svd": "aten::linalg_svd"}
_SVD = (("linalg", "svd"), ("", "svd"), ("Tensor", "svd"), ("linalg", "pinv"), ("", "pinverse"), ("Tensor", "pinverse"))

# Operators that take tensors of several devices: copies, and indexing with indices on the CPU.
_ANY_DEVICE = frozenset("aten::" + n for n in (
    "copy_", "_to_copy", "_copy_from", "_copy_from_and_resize", "set_.source_Tensor", "set_.source_Storage", "index.Tensor", "index_put",
    "index_put_", "_index_put_impl_", "_unsafe_index.Tensor", "_unsafe_index_put", "_local_scalar_dense", "is_same_size", "is_pinned", "_pin_memory",
    "record_stream", "_has_compatible_shallow_copy_type", "_shallow_copy_data_", "shallow_copy_data_", "_foreach_copy_", "equal"))

# Operators whose result is a value for the host, or one of their arguments, wherever that lives.
_STAYS = frozenset("aten::" + n for n in ("_local_scalar_dense", "copy_", "index_put_", "_index_put_impl_"))

_DEVICES_TEXT = "Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!"
_PLACEHOLDER_TEXT = "Placeholder storage has not been allocated on MPS device!"


class _Operator:
    """What is known about an operator overload; asked once."""

    __slots__ = ("name", "state", "rules", "notes", "error_name", "any_device", "resizes", "counts", "pointwise", "view", "convolution",
                 "attention", "moves",
                 "factory", "flops", "inside", "stays", "draws", "makes_sparse", "decomposes")

    def __init__(self, func):
        schema = func._schema
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        self.name = name = _CPU_NAMES.get(name, name)
        self.state = _table["ops"].get(name, "?")
        self.decomposes = self.state == COMPOSED and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
        if self.state == MISSING:
            self.error_name = _table.get("structured", {}).get(name, name)
        else:
            self.error_name = name
            if self.state == COMPOSED and name in _table.get("lacks", {}):
                self.state, self.error_name = MISSING, _table["lacks"][name]
        self.inside = _table["ops"].get(_INSIDE.get(name)) == ON_CPU
        self.rules = refuse.rules_for(name, series, macos)
        self.notes = getattr(refuse, "note_for", lambda *_: [])(name, series, macos)
        self.any_device = name in _ANY_DEVICE or name.startswith("prims::")  # prims: a formula of PyTorch's own, in Python
        base = schema.name.partition("::")[2]
        self.resizes = base.startswith(("resize", "set_", "_resize"))
        self.flops = flops.formula(schema)
        self.counts = ops.setdefault(name, [0, 0, self.state, None])
        if self.flops is not None and self.counts[3] is None:
            self.counts[3] = 0
        self.pointwise = torch.Tag.pointwise in func.tags if hasattr(torch, "Tag") and hasattr(torch.Tag, "pointwise") else False
        self.view = func.is_view if hasattr(func, "is_view") else False
        self.convolution = base in ("convolution", "_convolution", "convolution_backward")
        self.attention = schema.name == "aten::_scaled_dot_product_flash_attention_for_cpu"
        self.moves = name == "aten::_to_copy"
        self.factory = any(a.name == "device" for a in schema.arguments)
        self.stays = name in _STAYS or surface.is_python_kernel(name)  # its result lives where it was made
        if self.state == "?" and surface.lacks_kernel(func, name):
            self.state = MISSING
        self.makes_sparse = base.startswith("_sparse_coo_tensor_with_dims")
        if self.makes_sparse:
            self.state = COMPOSED
        self.draws = hasattr(torch, "Tag") and hasattr(torch.Tag, "nondeterministic_seeded") and torch.Tag.nondeterministic_seeded in func.tags
        if self.draws:
            self.rules = list(self.rules) + [surface.check_generator if base != "randperm" else surface.check_randperm_generator]
        if name in ("aten::index.Tensor", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"):
            self.rules = list(self.rules) + [_check_indices]


def _operator(func):
    known = _known[func] = _Operator(func)
    return known


def refused(name, cause, error):
    """Keep a refusal for the evidence, and hand the error back."""
    key = (name, cause, type(error).__name__, str(error), source_line.where(1)[0])
    refusals[key] = refusals.get(key, 0) + 1
    return error


def missing_error(name):
    if series <= (2, 5):
        text = ("The operator '%s' is not currently implemented for the MPS device. If you want this op to be added in priority during the prototype "
                "phase of this feature, please comment on https://github.com/pytorch/pytorch/issues/77764." % name)
    else:
        text = ("The operator '%s' is not currently implemented for the MPS device. If you want this op to be considered for addition please comment "
                "on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that resulted in missing op as well as commit hash %s."
                % (name, _table.get("commit", "")))
    return NotImplementedError(text + " As a temporary fix, you can set the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a "
                               "fallback for this op. WARNING: this will be slower than running natively on MPS.")


def _fall_back(op):
    """MPS warns once in a process, for whichever operator comes first; all are kept as evidence."""
    global _warned
    key = (op.error_name, source_line.where(1)[0])
    entry = fallbacks.setdefault(key, [0, 0, 0])
    entry[0] += 1
    if not _warned or torch.is_warn_always_enabled():
        _warned = True
        warnings.warn("The operator '%s' is not currently supported on the MPS backend and will fall back to run on the CPU. "
                      "This may have performance "
                      "implications. (Triggered internally at aten/src/ATen/mps/MPSFallback.mm.)" % op.error_name, UserWarning, stacklevel=4)
    return entry


def _tensors(args, kwargs, found):
    for a in args:
        if isinstance(a, _Tensor):
            found.append(a)
        elif a.__class__ in (list, tuple):
            _tensors(a, None, found)
    if kwargs:
        for a in kwargs.values():
            if isinstance(a, _Tensor):
                found.append(a)
            elif a.__class__ in (list, tuple):
                _tensors(a, None, found)
    return found


_Tensor = ()
_WIDE = ()  # dtypes that MPS has not: operators composed in C++ take narrower ones there
_cpu_device = None
_disabled = None  # what stands for __torch_dispatch__ in classes that have none


class _Thread(threading.local):
    def __init__(self):
        self.leaving = False  # a copy to the CPU is under way
        self.wide = False  # an operator is under way that computes in float64 here and in float32 on MPS
        self.inside = False  # an operator is under way that MPS runs on the CPU as a whole
        self.at = None  # the frame and instruction of Python that made the tensors in `made`
        self.made = set()  # storages of CPU tensors


_thread = _Thread()


def dispatch(self, func, types, args=(), kwargs=None):
    """What an operator does when MPS tensors are among its arguments or its result is to live on MPS."""
    kwargs = kwargs or {}
    if _state.off:
        return func(*args, **kwargs)
    if types and _shapes is None and any(t.__torch_dispatch__ is not _disabled for t in types):
        return NotImplemented  # tensor subclasses with a __torch_dispatch__ take it apart, and what they call comes here
    live = place._live
    device = kwargs.get("device") if kwargs else None
    entering = leaving = False
    if device is not None:
        kind = device.type
        if kind == "mps":
            _check_available()
            kwargs = dict(kwargs, device=_target)
            entering = True
        elif kind == "cuda":
            raise refused(str(func), "device", surface.cuda_error())
        elif kind == "meta" and _shapes is None:
            leaving = True
    tensors = _tensors(args, kwargs, [])
    here = elsewhere = 0
    sparse = False
    for t in tensors:
        try:
            if t.untyped_storage()._cdata in live:
                here += 1
            else:
                elsewhere += 1
        except (NotImplementedError, RuntimeError, AttributeError):
            sparse = True
            if place.on_mps(t):
                here += 1
            else:
                elsewhere += 1
    if not here and not entering:
        if kwargs:
            if kwargs.get("generator") is not None:
                _on_cpu(func, surface.check_cpu_generator if func._schema.name != "aten::randperm"
                            else surface.check_randperm_generator_on_cpu, kwargs)
            if kwargs.get("pin_memory"):
                return _pinned_factory(func, args, kwargs)
        out = func(*args, **kwargs) if _shapes is None else _elsewhere(func, args, kwargs, tensors)
        if device is not None or tensors and _thread.made:
            _made(out, device, tensors, sys._getframe(1))
        return out
    op = _known.get(func) or _operator(func)
    leaving = (leaving or _thread.leaving) and op.factory
    if op.decomposes:  # as in inference mode and in an operator that a script defines: below autograd, which otherwise takes these apart
        with Operators():
            return func.decompose(*args, **kwargs)
    if (sparse or op.makes_sparse) and not leaving:
        _check_sparse(op, tensors, entering)
    counts = op.counts
    counts[0] += 1
    fell = None
    if op.state == NATIVE or op.state == COMPOSED:
        if op.rules and not leaving:
            for rule in op.rules:
                try:
                    rule(args, kwargs)
                except Exception as error:
                    guest.pass_on(error)
                    raise refused(op.name, "argument" if not isinstance(error, TypeError) else "dtype", error)
    elif op.state == MISSING or op.state == ON_CPU:
        if op.name.startswith("c10d::"):
            error = surface.collective_error(op.name, series, _table.get("commit", ""), fallback)
            if error is not None:
                raise refused(op.name, "missing", error)
            return surface.collective_on_copies(func, args, kwargs)
        if op.state == MISSING and not fallback and not (op.inside and _thread.inside):
            raise refused(op.error_name, "missing", missing_error(op.error_name))
        fell = _fall_back(op)
    elif op.state == NO_STUB:
        raise refused(op.name, "missing", RuntimeError(
                "DispatchStub: missing kernel for mps" if series >= (2, 4) else "DispatchStub: missing MPS kernel"))
    if here and elsewhere and fell is None and not op.any_device and not entering:
        if _same_device(op, tensors, sys._getframe(1)):
            args, kwargs = _narrow(args), {k: _narrow(v) for k, v in kwargs.items()}
    if op.notes:
        for note in op.notes:
            said = note(args, kwargs)
            if said:
                key = (op.name, str(said.get("kind", "")), str(said.get("text", "")), source_line.where(1)[0])
                notes[key] = notes.get(key, 0) + 1
    if entering and op.factory:
        dtype = kwargs.get("dtype")
        if dtype is None and args and op.moves:
            dtype = args[0].dtype
        if dtype is not None:
            _allocatable(op, dtype, args[0].dim() if op.moves else 0, op.moves)
    began = time.perf_counter_ns()
    try:
        if _shapes is not None:
            out = _without_data(op, func, args, kwargs, leaving)
        else:
            out = func(*args, **kwargs) if not op.draws else surface.drawn(func, args, kwargs)
    except RuntimeError as error:
        if fell is not None:
            raise
        out = _in_wider(op, func, args, kwargs, error)
    spent = time.perf_counter_ns() - began
    counts[1] += spent
    if op.flops is not None:
        counts[3] += op.flops(args, out)
    if fell is not None:
        fell[1] += spent
        fell[2] += sum(t.numel() * t.element_size() for t in tensors)
    if leaving or op.stays:
        return out
    if isinstance(out, _Tensor):
        _landed(op, out, live)
    elif out.__class__ in (list, tuple):
        for o in out:
            if isinstance(o, _Tensor):
                _landed(op, o, live)
            elif o.__class__ in (list, tuple):
                for p in o:
                    if isinstance(p, _Tensor):
                        _landed(op, p, live)
    if op.attention:
        _attention_memory(args, kwargs, out)
    return out


def _on_cpu(func, rule, kwargs):
    try:
        rule((), kwargs)
    except RuntimeError as error:
        raise refused(str(func), "argument", error)


def _pinned_factory(func, args, kwargs):
    """torch.empty(…, pin_memory=True): on MPS up to 2.13 (issue 181374), on the CPU from 2.14 on (PR 181720)."""
    out = func(*args, **dict(kwargs, pin_memory=False))
    if surface.pin_memory_error(series) is not None:
        place.mark(out)
    return out


def _check_indices(args, kwargs):
    """at::native::make_info, for a tensor on the CPU."""
    if not place.on_mps(args[0]) and any(i is not None and place.on_mps(i) for i in args[1]):
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")


_SPARSE_LAYOUTS = {"sparse_coo": ("O", "SparseMPS"), "sparse_csr": ("R", "SparseCsrMPS"), "sparse_csc": ("R", "SparseCsrMPS"),
                   "sparse_bsr": ("R", "SparseCsrMPS"), "sparse_bsc": ("R", "SparseCsrMPS")}


def _check_sparse(op, tensors, entering):
    """Sparse tensors have dispatch keys of their own. What is registered for them there stands in the atlas; no fallback is."""
    layout = next((str(t.layout)[6:] for t in tensors if t.layout is not torch.strided), "sparse_coo" if op.makes_sparse else "")
    letter, key = _SPARSE_LAYOUTS.get(layout, ("", ""))
    if not key:
        return
    name = op.name
    if entering and op.moves:  # at::_to_copy: an empty tensor of the layout, and a copy
        name = "aten::empty.memory_format"
        if letter == "R":
            if series < (2, 9):
                raise refused(op.name, "missing", NotImplementedError(
            "Could not run 'sparse_compressed_tensor' from the 'mps:0' device.)"))
            return
    elif not op.makes_sparse and (op.state == COMPOSED or op.state == "?" or op.view):
        return
    _registered_for(name, letter, key)


def _registered_for(name, letter, key):
    if _table.get("sparse", {}).get(name) not in (letter, "B"):
        raise refused(name, "missing", NotImplementedError(
            "Could not run '%s' with arguments from the '%s' backend. This could be because the operator doesn't exist for this backend, "
            "or was omitted "
            "during the selective/custom build process (if using custom build). If you are a Facebook employee using PyTorch on mobile, please visit "
            "https://fburl.com/ptmfixes for possible resolutions." % (name, key)))


def _landed(op, out, live):
    """A result that is new lives on MPS."""
    try:
        storage = out.untyped_storage()
        key = storage._cdata
    except (NotImplementedError, RuntimeError, AttributeError):
        place.mark(out)
        return
    if key in live and not op.resizes:
        return
    dtype = out.dtype
    if dtype not in _plain or out.dim() > 16:
        _allocatable(op, dtype, out.dim(), op.moves)
    try:
        place.mark_storage(storage, key)
    except RuntimeError as error:
        raise refused(op.name, "memory", error)


_plain = frozenset()  # dtypes that allocate_check lets pass whatever else


def _allocatable(op, dtype, ndim, strided_copy):
    if _thread.wide and dtype in _WIDE:
        return
    try:
        refuse.allocate_check(dtype, ndim, series, macos, strided_copy)
    except Exception as error:
        guest.pass_on(error)
        raise refused(op.name, "rank" if isinstance(error, RuntimeError) else "dtype", error)


_WIDER = {"Half": ("float16", "float32"), "BFloat16": ("bfloat16", "float32"), "Bool": ("bool", "uint8", "float32"), "Byte": ("uint8", "float64"),
          "Char": ("int8", "float64"), "Short": ("int16", "float64"), "Int": ("int32", "float64"), "Long": ("int64", "float64")}


def _in_wider(op, func, args, kwargs, error):
    """An operator and type that MPS has a kernel for, the double having raised nothing, and a CPU has none: computed in a wider type."""
    named = str(error).partition("not implemented for '")[2].partition("'")[0]
    if named not in _WIDER:
        raise error
    narrow, wides = getattr(torch, _WIDER[named][0]), _WIDER[named][1:]
    if not narrow.is_floating_point and not refuse.has_kernel(op.name, series, narrow):
        raise error
    for wide in wides:
        stand_ins = {}

        def stand_in(value, to=getattr(torch, wide)):
            if isinstance(value, _Tensor) and value.dtype is narrow:
                stand_ins[id(value)] = value, torch.ops.aten._to_copy(value, dtype=to)
                return stand_ins[id(value)][1]
            if value.__class__ in (list, tuple):
                return value.__class__(stand_in(v) for v in value)
            return to if value is narrow else value

        def back(value, to=getattr(torch, wide)):
            if isinstance(value, _Tensor) and value.dtype is to:
                written = [t for t, wider in stand_ins.values() if wider is value]
                return written[0] if written else torch.ops.aten._to_copy(value, dtype=narrow)
            return value.__class__(back(v) for v in value) if value.__class__ in (list, tuple) else value

        try:
            out = func(*stand_in(args), **{k: stand_in(v) for k, v in kwargs.items()})
        except RuntimeError as again:
            if "not implemented for '" in str(again) and wide != wides[-1]:
                continue
            raise error
        if func._schema.is_mutable:
            for tensor, wider in stand_ins.values():
                torch.ops.aten.copy_(tensor, wider)
        return back(out)


def _made(out, device, tensors, frame):
    """A CPU tensor was made, or computed from such. An operator that PyTorch composes in C++, or a gradient's formula, makes tensors from the options
    of its arguments, which are a CPU's here: they belong on MPS. What a script makes for itself, it makes in another instruction than it uses it."""
    at = (id(frame), id(frame.f_code), frame.f_lasti)
    if _thread.at != at:
        _thread.at, _thread.made = at, set()
    if device is not None or any(_made_here(t) for t in tensors):
        for t in out if out.__class__ in (list, tuple) else (out,):
            if isinstance(t, _Tensor) and t.layout is torch.strided:
                _thread.made.add(t.untyped_storage()._cdata)


def _made_here(tensor):
    try:
        return tensor.untyped_storage()._cdata in _thread.made
    except (NotImplementedError, RuntimeError):
        return False


def _same_device(op, tensors, frame):
    """Tensors of several devices: elementwise operators take scalars from the CPU; the rest is an error, whose text depends on the kernel.
    True where a composed operator made one of a type that MPS has not: there it asks for the device, and takes the narrower type."""
    composed = _thread.at == (id(frame), id(frame.f_code), frame.f_lasti)
    wide = False
    for t in tensors:
        if composed and t.dtype in _WIDE and _made_here(t):
            wide = True
            continue
        if t.dim() == 0 or place.on_mps(t):
            continue
        if composed and _made_here(t):
            _landed(op, t, place._live)
            continue
        if _shapes is not None and _shapes.is_meta(t) and not _shapes.pretends(t):
            continue  # made inside a composed operator, from the options of a tensor without data
        raise refused(op.name, "device", RuntimeError(_placement_text(op, tensors)))
    return wide


def _narrow(value):
    if isinstance(value, _Tensor):
        return value.to(torch.float32 if value.dtype is torch.float64 else torch.complex64) if value.dtype in _WIDE and _made_here(value) else value
    if value.__class__ in (list, tuple):
        return value.__class__(_narrow(v) for v in value)
    return value


def _placement_text(op, tensors):
    """Convolution.mm and MPSFallback.mm; Shape.mm, cat_out_mps (to 2.9); TensorIterator.cpp; OperationUtils.mm, Placeholder."""
    names = ["mps:0" if place.on_mps(t) else "cpu" for t in tensors]
    if op.convolution:
        return "slow_conv2d_forward_mps: input(device='%s') and weight(device=%s')  must be on the same device" % tuple(names[:2])
    if op.name.startswith("aten::cat") and series <= (2, 9):
        other = next(n for n in names if n != names[0])
        return "torch.cat(): all input tensors must be on the same device. Received %s and %s" % (names[0], other)
    return _DEVICES_TEXT if op.pointwise else _PLACEHOLDER_TEXT


def _attention_memory(args, kwargs, out):
    """MPS materialises the scores when a gradient is needed, in float32 from 2.5 on for half types, and keeps the softmax for the backward pass:
    aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math."""
    if place.settings.get("like") == "cuda":
        return
    q, k = args[0], args[1]
    scores = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
    size = q.element_size() if series < (2, 5) else max(4, q.element_size())
    if out[1] is not None:
        place.charge_more(out[1], scores * size)


_target = None
_shapes = None  # the module shapes, under --shape-only


def _elsewhere(func, args, kwargs, tensors):
    """An operator on the CPU, without data where tensors are large."""
    op = _known.get(func) or _operator(func)
    device = kwargs.get("device")
    meta = any(_shapes.is_meta(t) for t in tensors)
    if device is not None and device.type == "meta" and not (meta and any(_shapes.is_meta(t) and _shapes.pretends(t) for t in tensors)):
        return func(*args, **kwargs)
    if op.factory and not tensors and _shapes.large(args):
        out = func(*args, **dict(kwargs, device=_target))
        _shapes.pretend(out)
        return out
    if not meta or not any(_shapes.is_meta(t) and _shapes.pretends(t) for t in tensors):
        return func(*args, **kwargs)
    if op.name == "aten::_local_scalar_dense":
        _stands_in(op)
        return _shapes.without_value(args[0])
    if device is not None:
        kwargs = dict(kwargs, device=_target)
    out = _shapes.computed(func, args, kwargs)
    for o in out if out.__class__ in (list, tuple) else (out,):
        if isinstance(o, _Tensor) and _shapes.is_meta(o) and not _shapes.pretends(o):
            _shapes.pretend(o)
    return out


def _stands_in(op):
    key = (op.name, "stand-in", "a value was asked for, and zero was given", source_line.where(1)[0])
    notes[key] = notes.get(key, 0) + 1


def _without_data(op, func, args, kwargs, leaving):
    """An operator on MPS without data."""
    if op.name == "aten::_local_scalar_dense":
        _stands_in(op)
        return _shapes.without_value(args[0])
    if leaving:
        _stands_in(op)
        t = args[0]
        if t.numel() >= _shapes.LARGE:
            out = func(*args, **dict(kwargs, device=_target))
            _shapes.pretend(out)
            return out
        return torch.zeros(t.shape, dtype=kwargs.get("dtype") or t.dtype, device="cpu")
    if op.name == "aten::copy_" and not _shapes.is_meta(args[0]):
        return args[0]
    return _shapes.computed(func, args, kwargs)


# The Python level -------------------------------------------------------------------------------------------------------

def _moved(tensor, kwargs_dtype, copy, non_blocking, memory_format, to_mps):
    """A copy on the other device, with a gradient that goes the other way."""
    if to_mps and not _state.off:
        _check_available()
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):  # of a lazy layer: it takes Tensor.to, and not what that is done with here
        with torch._C.DisableTorchFunctionSubclass():
            return _cross(tensor.detach(), to_mps, kwargs_dtype, memory_format)
    if tensor.requires_grad and torch.is_grad_enabled():
        return _Crossing.apply(tensor, to_mps, kwargs_dtype, memory_format)
    return _cross(tensor, to_mps, kwargs_dtype, memory_format)


def _cross(tensor, to_mps, dtype, memory_format):
    more = {} if memory_format is None else {"memory_format": memory_format}
    if to_mps:
        return torch.ops.aten._to_copy(tensor, dtype=dtype, device=place.DEVICE, **more)
    _thread.leaving = True
    try:
        return torch.ops.aten._to_copy(tensor, dtype=dtype, **more)
    finally:
        _thread.leaving = False


def _check_available():
    error = getattr(surface, "availability_error", lambda s: None)(place.settings)
    if error is not None:
        raise error


def _parse_to(args, kwargs):
    """The arguments of Tensor.to: (device or None, dtype or None, copy, memory_format, other tensor's device taken)."""
    device, dtype, copy, memory_format = kwargs.get("device"), kwargs.get("dtype"), kwargs.get("copy", False), kwargs.get("memory_format")
    rest = list(args)
    other = kwargs.get("other")
    if rest and isinstance(rest[0], _Tensor):
        other = rest.pop(0)
    if other is not None:
        device, dtype = (place.DEVICE if place.on_mps(other) else other.device), other.dtype
    elif rest and not isinstance(rest[0], torch.dtype):
        if rest[0] is not None:
            device = rest[0]
        rest.pop(0)
    if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
        dtype = rest.pop(0) or dtype
    if rest:
        rest.pop(0)  # non_blocking
    if rest:
        copy = rest.pop(0)
    if device is not None and not isinstance(device, torch.device):
        device = torch.device("mps", device) if isinstance(device, int) else torch.device(device)
    return device, dtype, copy, memory_format


def _to(func, args, kwargs):
    tensor = args[0]
    if not isinstance(tensor, _Tensor) or tensor.__class__.__name__ == "FakeTensor":
        return func(*args, **kwargs)
    device, dtype, copy, memory_format = _parse_to(args[1:], kwargs)
    if device is not None and device.type == "cuda":
        raise refused("to", "device", surface.cuda_error())
    there = place.on_mps(tensor)
    if device is None or device.type not in ("mps", "cpu"):
        return func(*args, **kwargs)
    if (device.type == "mps") == there:  # it stays where it is
        more = {} if memory_format is None else {"memory_format": memory_format}
        return func(tensor, dtype if dtype is not None else tensor.dtype, copy=copy, **more)
    return _moved(tensor, dtype, copy, False, memory_format, device.type == "mps")


def _cpu(func, args, kwargs):
    if place.on_mps(args[0]):
        return _moved(args[0], None, False, False, kwargs.get("memory_format"), False)
    return func(*args, **kwargs)


def _cuda(func, args, kwargs):
    raise refused("cuda", "device", surface.cuda_error())


def _device(func, args, kwargs):
    if place.on_mps(args[0]):
        return place.DEVICE
    device = func(*args, **kwargs)
    return _cpu_device if _shapes is not None and device.type == "meta" and _shapes.pretends(args[0]) else device


def _is_meta(func, args, kwargs):
    return func(*args, **kwargs) and not (_shapes is not None and (place.on_mps(args[0]) or _shapes.pretends(args[0])))


def _is_mps(func, args, kwargs):
    return place.on_mps(args[0])


def _is_cpu(func, args, kwargs):
    if place.on_mps(args[0]):
        return False
    return func(*args, **kwargs) or _shapes is not None and _shapes.is_meta(args[0]) and _shapes.pretends(args[0])


def _get_device(func, args, kwargs):
    return 0 if place.on_mps(args[0]) else func(*args, **kwargs)


def _numpy(func, args, kwargs):
    if place.on_mps(args[0]) and not kwargs.get("force"):
        raise refused("numpy", "device", TypeError(
            "can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."))
    return func(*args, **kwargs)


def _type(func, args, kwargs):
    tensor = args[0]
    if len(args) == 1 and not kwargs:
        name = func(tensor)
        return name.replace("torch.", "torch.mps.", 1) if place.on_mps(tensor) else name
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if isinstance(wanted, str):
        if ".cuda." in wanted:
            raise refused("type", "device", surface.cuda_error())
        if ".mps." in wanted:
            with place.inside():
                dtype = func(tensor.detach()[:0].reshape(-1) if tensor.dim() else tensor.detach(), wanted.replace(".mps", "")).dtype
            return torch.Tensor.to(tensor, place.DEVICE, dtype)
    if not isinstance(wanted, torch.dtype) and place.on_mps(tensor):  # torch.FloatTensor is a type of the CPU's
        return func(torch.Tensor.cpu(tensor), *args[1:], **kwargs)
    return func(*args, **kwargs)


def _type_as(func, args, kwargs):
    """Tensor.type_as takes the device over as well, from the options of the other tensor in C++: to(other.options())."""
    other = args[1] if len(args) > 1 else kwargs.get("other")
    if isinstance(other, _Tensor) and place.on_mps(other) != place.on_mps(args[0]):
        return torch.Tensor.to(args[0], other)
    return func(*args, **kwargs)


def _new(func, args, kwargs):
    """x.new(sizes) and x.new(data), of old scripts: torch/csrc/utils/tensor_new.cpp, legacy_tensor_new."""
    if kwargs or len(args) == 2 and isinstance(args[1], (_Tensor, torch.UntypedStorage, torch.TypedStorage)) or not place.on_mps(args[0]):
        return func(*args, **kwargs)
    if len(args) < 2:
        return torch.Tensor.new_empty(args[0], (0,))
    if len(args) == 2 and not isinstance(args[1], (int, torch.Size)):
        return torch.Tensor.new_tensor(*args)
    return torch.Tensor.new_empty(args[0], args[1] if isinstance(args[1], torch.Size) else args[1:])


def _on_cpu_alone(func, args, kwargs):
    """tensor.apply_ and map_: torch/csrc/utils/tensor_apply.cpp."""
    if place.on_mps(args[0]):
        raise refused(func.__name__, "device", TypeError("%s is only implemented on CPU tensors" % func.__name__))
    return func(*args, **kwargs)


def _linear(func, args, kwargs):
    """mps_linear looks at placement itself from 2.4 on (Linear.mm); a CPU decomposes linear before it could be seen."""
    if series >= (2, 4) and len(args) > 1 and not _state.off:
        there = place.on_mps(args[0]), place.on_mps(args[1])
        if there[0] != there[1]:
            which = "input" if there[1] else "weight"
            raise refused("aten::linear", "device", RuntimeError("Tensor for argument %s is on cpu but expected on mps" % which))
    if len(args) > 1 and not _state.off and not args[1].is_floating_point() and place.on_mps(args[1]):
        _check("aten::linear", args, kwargs)
    return func(*args, **kwargs)


def _lstm(func, args, kwargs):
    """What MPS refuses of an LSTM; a CPU takes it apart before it could be seen."""
    if not _state.off and args and isinstance(args[0], _Tensor) and place.on_mps(args[0]):
        _check("aten::lstm.input", args, kwargs)
    return func(*args, **kwargs)


def _check(name, args, kwargs):
    for rule in refuse.rules_for(name, series, macos):
        try:
            rule(args, kwargs)
        except RuntimeError as error:
            raise refused(name, "argument", error)


def _in_float64(func, args, kwargs):
    """quantile and nanquantile compute ranks in float64 where the device has it: aten/src/ATen/native/Sorting.cpp."""
    before, _thread.wide = _thread.wide, True
    try:
        return func(*args, **kwargs)
    finally:
        _thread.wide = before


def _as_a_whole(func, args, kwargs):
    before, _thread.inside = _thread.inside, True
    try:
        return func(*args, **kwargs)
    finally:
        _thread.inside = before


def _as_subclass(func, args, kwargs):
    """Up to 2.3 PyTorch cannot make one of what a mode has handed back."""
    from torch.utils._python_dispatch import _disable_current_modes
    with _disable_current_modes():
        return func(*args, **kwargs)


def _pinned(func, args, kwargs):
    tensor = args[0]
    error = getattr(surface, "pin_memory_error", lambda s: None)(series)
    if error is not None:
        raise refused("pin_memory", "device", error)
    return tensor


def _is_pinned(func, args, kwargs):
    return False


def _repr(func, args, kwargs):
    with place.inside(place.OPERATORS):
        return func(*args, **kwargs)


def _to_cpu(func, args, kwargs):
    """zeros_like(x, device="cpu") and the like: said in Python, it is meant; an operator may have it from the options of a CPU tensor."""
    device = kwargs.get("device")
    if device is not None and str(device).startswith("cpu") and place.on_mps(args[0]):
        _thread.leaving = True
        try:
            return func(*args, **kwargs)
        finally:
            _thread.leaving = False
    return func(*args, **kwargs)


def _made_from_data(func, args, kwargs):
    """torch.tensor and the like make a CPU tensor of the data and copy it."""
    device = kwargs.get("device")
    if device is None and _default_device() is not None:
        device = _default_device()
    if device is None or not str(device).startswith("mps"):
        return func(*args, **kwargs)
    _check_available()
    more = {k: v for k, v in kwargs.items() if k != "device"}
    grad = more.pop("requires_grad", False)
    data = args[0] if args else more.get("data")
    if func is _as_tensor and isinstance(data, _Tensor):
        return torch.Tensor.to(data, place.DEVICE, kwargs.get("dtype"))
    made = func(*args, device="cpu", **more)
    made = _cross(made, True, None, None)
    return made.requires_grad_() if grad else made


def _default_device():
    """The device of set_default_device or of a `with torch.device`: the innermost on the stack of function modes."""
    for at in reversed(range(torch._C._len_torch_function_stack())):
        mode = torch._C._get_function_stack_at(at)
        if mode.__class__.__name__ == "DeviceContext":
            return mode.device
    return None


def _sparse_from_data(func, args, kwargs):
    """torch.sparse_coo_tensor and the like: made on the CPU, then on MPS as they are."""
    device = kwargs.get("device") or _default_device()
    if device is None or not str(device).startswith("mps"):
        return func(*args, **kwargs)
    _check_available()
    with place.inside():
        made = func(*args, **dict(kwargs, device="cpu"))
    if made.layout is torch.sparse_coo:
        _registered_for("aten::_sparse_coo_tensor_with_dims_and_tensors", "O", "SparseMPS")
    elif series < (2, 9):
        raise refused("sparse_compressed_tensor", "missing", NotImplementedError(
            "Could not run 'sparse_compressed_tensor' from the 'mps:0' device.)"))
    place.mark(made)
    return made


def _nested(func, args, kwargs):
    """NestedTensorImpl.cpp. A jagged layout is made of operators on ordinary tensors."""
    device = kwargs.get("device") or _default_device()
    tensors = args[0] if args else kwargs.get("tensor_list", ())
    there = str(device).startswith("mps") if device is not None else any(isinstance(t, _Tensor) and place.on_mps(t) for t in tensors)
    if there and kwargs.get("layout") in (None, torch.strided):
        raise refused("nested_tensor", "missing", RuntimeError(
            "NestedTensorImpl storage must be either CUDA, CPU, XPU or privateuseone but got mps:0"))
    return func(*args, **kwargs)


_as_tensor = None
Operators = _Crossing = _entered = None


def install(the_torch, settings):
    """Make the modes and put them up, in this thread and in those that are started later."""
    global _plain, torch, series, macos, fallback, Operators, _Crossing, _as_tensor, _Tensor, _WIDE, _target, _table, _shapes, _cpu_device, _disabled
    from torch.utils._python_dispatch import TorchDispatchMode

    torch = the_torch
    series, macos = tuple(settings["series"]), tuple(settings["macos"])
    _table = settings["loaded"]
    _Tensor = torch.Tensor
    _disabled = torch.Tensor.__torch_dispatch__
    _WIDE = (torch.float64, torch.complex128)
    _cpu_device = torch.device("cpu")
    _target = _cpu_device
    if settings.get("shape_only"):
        shapes.install(torch)
        _shapes, _target = shapes, torch.device("meta")
    flag = os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK")
    try:
        fallback = flag is not None and int(flag) != 0
    except ValueError:
        fallback = False

    _plain = frozenset((torch.float32, torch.float16, torch.int64, torch.int32, torch.bool, torch.uint8))

    class OperatorsOnDouble(TorchDispatchMode):
        pass

    OperatorsOnDouble.__torch_dispatch__ = dispatch  # set afterwards: the class would wrap it in dynamo's guard, three microseconds a call
    Operators = OperatorsOnDouble

    class Crossing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensor, to_mps, dtype, memory_format):
            ctx.to_mps, ctx.dtype = to_mps, tensor.dtype
            return _cross(tensor, to_mps, dtype, memory_format)

        @staticmethod
        def backward(ctx, grad):
            return _cross(grad, not ctx.to_mps, ctx.dtype, None) if place.on_mps(grad) is ctx.to_mps else grad, None, None, None

    _Crossing = Crossing
    _patch()
    _enter()
    bootstrap = threading.Thread._bootstrap_inner

    @functools.wraps(bootstrap)
    def _bootstrap_inner(self):
        with Operators():
            return bootstrap(self)

    threading.Thread._bootstrap_inner = _bootstrap_inner


def _enter():
    """Put the mode up in this thread, for good. PyTorch keeps no reference to it while it is off the stack, as when a tensor is printed."""
    global _entered
    _entered = Operators()
    _entered.__enter__()


def _patch():
    """Let torch.Tensor answer for devices: a Python class, whose attributes hide those of its C base."""
    global _as_tensor
    T = torch.Tensor

    def method(owner, name, handler):
        original = getattr(owner, name, None)
        if original is None:
            return

        def patched(*args, **kwargs):
            return original(*args, **kwargs) if _state.off is True else handler(original, args, kwargs)

        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            try:
                setattr(patched, attribute, getattr(original, attribute))
            except (AttributeError, TypeError):
                pass
        setattr(owner, name, patched)
        originals[id(patched)] = original
        if original in lazy:
            lazy.append(patched)

    originals, lazy = {}, torch.nn.parameter.UninitializedTensorMixin._allowed_methods  # what the parameters of a lazy layer take
    find = torch.jit._builtins._find_builtin
    torch.jit._builtins._find_builtin = lambda fn: find(originals.get(id(fn), fn))  # TorchScript knows operators by their objects
    for name, handler in (("to", _to), ("cpu", _cpu), ("cuda", _cuda), ("get_device", _get_device), ("numpy", _numpy), ("__array__", _numpy), ("type", _type),
                          ("type_as", _type_as), ("new", _new), ("apply_", _on_cpu_alone), ("map_", _on_cpu_alone), ("map2_", _on_cpu_alone),
                          ("pin_memory", _pinned), ("__repr__", _repr), ("new_empty", _to_cpu), ("new_zeros", _to_cpu), ("new_ones", _to_cpu),
                          ("new_full", _to_cpu), ("new_tensor", _new_tensor), ("as_subclass", _as_subclass)):
        method(T, name, handler)
    for name in ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"):
        method(torch, name, _to_cpu)
    _as_tensor = torch.as_tensor
    for name in ("tensor", "as_tensor", "asarray", "scalar_tensor"):
        method(torch, name, _made_from_data)
    for name in ("quantile", "nanquantile"):
        method(torch, name, _in_float64)
        method(T, name, _in_float64)
    for name in ("coo", "compressed", "csr", "csc", "bsr", "bsc"):
        method(torch, "sparse_%s_tensor" % name, _sparse_from_data)
    for name in ("nested_tensor", "as_nested_tensor"):
        method(torch.nested, name, _nested)
    if _table["ops"].get("aten::linalg_svd") == ON_CPU:
        for owner, name in _SVD:
            method(getattr(torch, owner) if owner else torch, name, _as_a_whole)
    method(torch._VF, "lstm", _lstm)
    method(torch._C._nn, "linear", _linear)
    torch.nn.functional.linear = torch._C._nn.linear
    make = T._make_wrapper_subclass

    @functools.wraps(make)
    def _make_wrapper_subclass(cls, *args, **kwargs):
        # Autograd of this build aborts at a tensor that says `mps` to C++. So it says so to Python alone.
        there = kwargs.get("device") is not None and str(kwargs["device"]).startswith("mps")
        made = make(cls, *args, **(dict(kwargs, device="cpu") if there else kwargs))
        if there:
            made.__dict__["_assay_on_mps"] = True
        return made

    T._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)
    grad = T.grad
    T.grad = _Attribute(grad.__get__, _grad_setter(grad.__set__), grad.__delete__)
    T.grad.__name__, T.grad.__objclass__ = "grad", torch._C._TensorBase
    for name, handler in (("device", _device), ("is_mps", _is_mps), ("is_cpu", _is_cpu), ("is_meta", _is_meta)):
        getter = getattr(T, name).__get__
        setattr(T, name, property(_getter(handler, getter)))


class _Attribute(property):
    """A property that can be asked what PyTorch's own attributes are asked: torch/_dynamo/utils.py, is_tensor_base_attr_getter, at import."""


def _getter(handler, getter):
    def get(tensor):
        return getter(tensor) if _state.off is True else handler(getter, (tensor,), {})

    return get


def _grad_setter(setter):
    """THPVariable_set_grad compares devices."""
    def set(tensor, grad):
        if isinstance(grad, _Tensor) and not _state.off and place.on_mps(tensor) != place.on_mps(grad):
            raise refused("grad", "device", RuntimeError("assigned grad has data located on a different device"))
        setter(tensor, grad)

    return set


def _new_tensor(func, args, kwargs):
    tensor = args[0]
    device = kwargs.get("device")
    if place.on_mps(tensor) if device is None else str(device).startswith("mps"):
        return torch.Tensor.to(func(*args, **dict(kwargs, device="cpu")), place.DEVICE)
    return _to_cpu(func, args, kwargs)
