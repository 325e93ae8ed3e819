"""torch.Tensor answers for devices, and so do the functions that make tensors: a Python class, whose attributes hide
those of its C base.

A handler is given the double in use, PyTorch's own function, and the arguments.
"""

import functools

import torch

from .. import errors, shapes
from ..dtypes import argument
from ..current import OPERATORS, current, inside, state
from ..place import DEVICE

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

_Tensor = torch.Tensor
_CPU = torch.device("cpu")
_as_tensor = torch.as_tensor
_AS_IT_IS = (_as_tensor, torch.asarray)


# Between devices


def _moved(double, tensor, dtype, memory_format, to_mps):
    """A copy on the other device, with a gradient that goes the other way."""
    if to_mps and not state.off:
        double.check_available()
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        # Of a lazy layer: it takes Tensor.to, and not what that is done with here.
        with torch._C.DisableTorchFunctionSubclass():
            return _cross(double, tensor.detach(), to_mps, dtype, memory_format)
    if tensor.requires_grad and torch.is_grad_enabled():
        return _Crossing.apply(tensor, to_mps, dtype, memory_format)
    return _cross(double, tensor, to_mps, dtype, memory_format)


def _cross(double, tensor, to_mps, dtype, memory_format):
    more = {} if memory_format is None else {"memory_format": memory_format}
    if to_mps:
        return torch.ops.aten._to_copy(tensor, dtype=dtype, device=DEVICE, **more)
    thread = double.dispatch.thread
    thread.leaving = True
    try:
        return torch.ops.aten._to_copy(tensor, dtype=dtype, **more)
    finally:
        thread.leaving = False


class _Crossing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, to_mps, dtype, memory_format):
        ctx.to_mps, ctx.dtype = to_mps, tensor.dtype
        return _cross(current.double, tensor, to_mps, dtype, memory_format)

    @staticmethod
    def backward(ctx, grad):
        double = current.double
        if double.place.on_mps(grad) is ctx.to_mps:
            grad = _cross(double, grad, not ctx.to_mps, ctx.dtype, None)
        return grad, None, None, None


def _parse_to(double, args, kwargs):
    """The arguments of Tensor.to: (device or None, dtype or None, non_blocking, copy, memory_format)."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    copy, memory_format = kwargs.get("copy", False), kwargs.get("memory_format")
    non_blocking = kwargs.get("non_blocking", False)
    rest = list(args)
    other = kwargs.get("other")
    if rest and isinstance(rest[0], _Tensor):
        other = rest.pop(0)
    if other is not None:
        device, dtype = (DEVICE if double.place.on_mps(other) else other.device), other.dtype
    elif rest and not isinstance(rest[0], torch.dtype):
        if rest[0] is not None:
            device = rest[0]
        rest.pop(0)
    if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
        dtype = rest.pop(0) or dtype
    if rest:
        non_blocking = rest.pop(0)
    if rest:
        copy = rest.pop(0)
    if device is not None and not isinstance(device, torch.device):
        device = torch.device("mps", device) if isinstance(device, int) else torch.device(device)
    return device, dtype, non_blocking, copy, memory_format


def _to(double, func, args, kwargs):
    tensor = args[0]
    if not isinstance(tensor, _Tensor) or tensor.__class__.__name__ == "FakeTensor":
        return func(*args, **kwargs)
    device, dtype, non_blocking, copy, memory_format = _parse_to(double, args[1:], kwargs)
    if device is not None and device.type == "cuda":
        raise double.refused("to", "device", errors.cuda_error())
    there = double.place.on_mps(tensor)
    if device is None or device.type not in ("mps", "cpu"):
        return func(*args, **kwargs)
    if (device.type == "mps") == there:  # it stays where it is
        more = {} if memory_format is None else {"memory_format": memory_format}
        return func(tensor, dtype if dtype is not None else tensor.dtype, copy=copy, **more)
    if not state.off:
        double.dispatch.asked("aten::_to_copy", (tensor,), {"device": device, "dtype": dtype,
                                                            "non_blocking": non_blocking})
    return _moved(double, tensor, dtype, memory_format, device.type == "mps")


def _cpu(double, func, args, kwargs):
    if double.place.on_mps(args[0]):
        return _moved(double, args[0], None, kwargs.get("memory_format"), False)
    return func(*args, **kwargs)


def _cuda(double, func, args, kwargs):
    raise double.refused("cuda", "device", errors.cuda_error())


def _numpy(double, func, args, kwargs):
    if double.place.on_mps(args[0]) and not kwargs.get("force"):
        raise double.refused("numpy", "device", TypeError(
            "can't convert mps:0 device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."))
    return func(*_with_values(double, args), **kwargs)


def _tolist(double, func, args, kwargs):
    return func(*_with_values(double, args), **kwargs)


def _with_values(double, args):
    """The arguments of a method that takes a tensor to Python: one without data is zeros there."""
    tensor = args[0]
    if double.shapes is None or not shapes.is_meta(tensor):
        return args
    if not double.shapes.pretends(tensor) and not double.place.on_mps(tensor):
        return args
    double.stood_in("aten::_to_copy")
    return (shapes.zeros(tensor).requires_grad_(tensor.requires_grad), *args[1:])


def _type(double, func, args, kwargs):
    tensor = args[0]
    if len(args) == 1 and not kwargs:
        name = func(tensor)
        return name.replace("torch.", "torch.mps.", 1) if double.place.on_mps(tensor) else name
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if isinstance(wanted, str):
        if ".cuda." in wanted:
            raise double.refused("type", "device", errors.cuda_error())
        if ".mps." in wanted:
            with inside():
                empty = tensor.detach()[:0].reshape(-1) if tensor.dim() else tensor.detach()
                dtype = func(empty, wanted.replace(".mps", "")).dtype
            return torch.Tensor.to(tensor, DEVICE, dtype)
    if not isinstance(wanted, torch.dtype) and double.place.on_mps(tensor):  # torch.FloatTensor is a type of the CPU's
        return func(torch.Tensor.cpu(tensor), *args[1:], **kwargs)
    return func(*args, **kwargs)


def _type_as(double, func, args, kwargs):
    """Tensor.type_as takes the device over as well, from the options of the other tensor in C++:
    to(other.options())."""
    other = args[1] if len(args) > 1 else kwargs.get("other")
    if isinstance(other, _Tensor) and double.place.on_mps(other) != double.place.on_mps(args[0]):
        return torch.Tensor.to(args[0], other)
    return func(*args, **kwargs)


def _on_cpu_alone(double, func, args, kwargs):
    """tensor.apply_ and map_: torch/csrc/utils/tensor_apply.cpp."""
    if double.place.on_mps(args[0]):
        raise double.refused(func.__name__, "device",
                             TypeError("%s is only implemented on CPU tensors" % func.__name__))
    return func(*args, **kwargs)


def _pinned(double, func, args, kwargs):
    error = errors.pin_memory_error(double.series)
    if error is not None:
        raise double.refused("pin_memory", "device", error)
    return args[0]


def _grad_setter(setter):
    """THPVariable_set_grad compares devices."""
    def set(tensor, grad):
        if isinstance(grad, _Tensor) and not state.off:
            double = current.double
            if double.place.on_mps(tensor) != double.place.on_mps(grad):
                raise double.refused("grad", "device", RuntimeError(
                    "assigned grad has data located on a different device"))
        setter(tensor, grad)

    return set


# What a tensor says of its device


def _device(double, getter, tensor):
    if double.place.on_mps(tensor):
        return DEVICE
    device = getter(tensor)
    return _CPU if double.shapes is not None and device.type == "meta" and double.shapes.pretends(tensor) else device


def _is_meta(double, getter, tensor):
    return getter(tensor) and not (
        double.shapes is not None and (double.place.on_mps(tensor) or double.shapes.pretends(tensor)))


def _is_mps(double, getter, tensor):
    return double.place.on_mps(tensor)


def _is_cpu(double, getter, tensor):
    if double.place.on_mps(tensor):
        return False
    return getter(tensor) or double.shapes is not None and shapes.is_meta(tensor) and double.shapes.pretends(tensor)


def _get_device(double, func, args, kwargs):
    return 0 if double.place.on_mps(args[0]) else func(*args, **kwargs)


def _repr(double, func, args, kwargs):
    with inside(OPERATORS):
        return func(*args, **kwargs)


# Made like another, or from data


def _new(double, func, args, kwargs):
    """x.new(sizes) and x.new(data), of old scripts: torch/csrc/utils/tensor_new.cpp, legacy_tensor_new."""
    storages = (_Tensor, torch.UntypedStorage, torch.TypedStorage)
    if kwargs or len(args) == 2 and isinstance(args[1], storages) or not double.place.on_mps(args[0]):
        return func(*args, **kwargs)
    if len(args) < 2:
        return torch.Tensor.new_empty(args[0], (0,))
    if len(args) == 2 and not isinstance(args[1], (int, torch.Size)):
        return torch.Tensor.new_tensor(*args)
    return torch.Tensor.new_empty(args[0], args[1] if isinstance(args[1], torch.Size) else args[1:])


def _new_tensor(double, func, args, kwargs):
    device = kwargs.get("device")
    if double.place.on_mps(args[0]) if device is None else str(device).startswith("mps"):
        return torch.Tensor.to(func(*args, **dict(kwargs, device="cpu")), DEVICE)
    return _to_cpu(double, func, args, kwargs)


def _to_cpu(double, func, args, kwargs):
    """zeros_like(x, device="cpu") and the like: said in Python, it is meant; an operator may have it from the options
    of a CPU tensor."""
    device = kwargs.get("device")
    if device is not None and str(device).startswith("cpu") and double.place.on_mps(args[0]):
        thread = double.dispatch.thread
        thread.leaving = True
        try:
            return func(*args, **kwargs)
        finally:
            thread.leaving = False
    return func(*args, **kwargs)


def _from_data(double, func, args, kwargs):
    """torch.tensor and the like make a CPU tensor of the data and copy it."""
    device = kwargs.get("device")
    if device is None:
        device = _default_device()
    if device is None:
        return func(*args, **kwargs)
    there = str(device).startswith("mps")
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    if func in _AS_IT_IS and isinstance(data, _Tensor) and (there or str(device).startswith("cpu")):
        return _as_it_is(func, data, DEVICE if there else _CPU, kwargs)
    if not there:
        return func(*args, **dict(kwargs, device=device))  # a `with torch.device` knows the function by its object
    double.check_available()
    more = {k: v for k, v in kwargs.items() if k != "device"}
    grad = more.pop("requires_grad", False)
    made = _cross(double, func(*args, device="cpu", **more), True, None, None)
    return made.requires_grad_() if grad else made


def _as_it_is(func, data, device, kwargs):
    """as_tensor and asarray of a tensor hand it back where it is as wanted; asarray has arguments of its own."""
    out = torch.Tensor.to(data, device, kwargs.get("dtype"), copy=bool(kwargs.get("copy")))
    if func is not _as_tensor and out.requires_grad != kwargs.get("requires_grad", False):
        out = out.detach().requires_grad_(not out.requires_grad)
    return out


def _default_device():
    """The device of set_default_device or of a `with torch.device`: the innermost on the stack of function modes."""
    for at in reversed(range(torch._C._len_torch_function_stack())):
        mode = torch._C._get_function_stack_at(at)
        if mode.__class__.__name__ == "DeviceContext":
            return mode.device
    return None


def _sparse_from_data(double, func, args, kwargs):
    """torch.sparse_coo_tensor and the like: made on the CPU, then on MPS as they are."""
    device = kwargs.get("device") or _default_device()
    given = list(args) + list(kwargs.values())
    if device is None and any(isinstance(t, _Tensor) and double.place.on_mps(t) for t in given):
        device = DEVICE
    if device is None:
        return func(*args, **kwargs)
    if not str(device).startswith("mps"):
        return func(*args, **dict(kwargs, device=device))
    double.check_available()
    with inside():
        made = func(*args, **dict(kwargs, device="cpu"))
    if made.layout is torch.sparse_coo:
        double.dispatch.registered_for("aten::_sparse_coo_tensor_with_dims_and_tensors", "O", "SparseMPS")
    else:
        raise double.refused("sparse_compressed_tensor", "missing", errors.no_compressed_error())
    double.place.mark(made)
    return made


def _nested(double, func, args, kwargs):
    """NestedTensorImpl.cpp. A jagged layout is made of operators on ordinary tensors."""
    device = kwargs.get("device") or _default_device()
    tensors = args[0] if args else kwargs.get("tensor_list", ())
    if device is not None:
        there = str(device).startswith("mps")
    else:
        there = any(isinstance(t, _Tensor) and double.place.on_mps(t) for t in tensors)
    if there and kwargs.get("layout") in (None, torch.strided):
        raise double.refused("nested_tensor", "missing", RuntimeError(
            "NestedTensorImpl storage must be either CUDA, CPU, XPU or privateuseone but got mps:0"))
    return func(*args, **kwargs)


def _as_subclass(double, func, args, kwargs):
    """Up to 2.3 PyTorch cannot make one of what a mode has handed back."""
    from torch.utils._python_dispatch import _disable_current_modes
    with _disable_current_modes():
        return func(*args, **kwargs)


def _wrapper_subclass(make):
    @functools.wraps(make)
    def _make_wrapper_subclass(cls, *args, **kwargs):
        # Autograd of this build aborts at a tensor that says `mps` to C++. So it says so to Python alone.
        there = kwargs.get("device") is not None and str(kwargs["device"]).startswith("mps")
        made = make(cls, *args, **(dict(kwargs, device="cpu") if there else kwargs))
        if there:
            made.__dict__["_assay_on_mps"] = True
        return made

    return _make_wrapper_subclass


# What a CPU takes apart before a mode could see it


def _placed(args, kwargs, *names):
    """The arguments by position, those of these names that are given by keyword put at their places; up to the first
    that is missing."""
    given = list(args)
    for name in names[len(args):]:
        if name not in kwargs:
            break
        given.append(kwargs[name])
    return tuple(given)


def _linear(double, func, args, kwargs):
    """mps_linear looks at placement itself from 2.4 on (Linear.mm); a CPU decomposes linear before it could be seen."""
    given = _placed(args, kwargs, "input", "weight", "bias")
    if len(given) > 1 and not state.off and all(isinstance(t, _Tensor) for t in given[:2]):
        there = double.place.on_mps(given[0]), double.place.on_mps(given[1])
        if double.series >= (2, 4) and there[0] != there[1]:
            which = "input" if there[1] else "weight"
            raise double.refused("aten::linear", "device", RuntimeError(
                "Tensor for argument %s is on cpu but expected on mps" % which))
        if there[1]:
            double.dispatch.asked("aten::linear", given, kwargs)
    return func(*args, **kwargs)


def _lstm(double, func, args, kwargs):
    """What MPS refuses of an LSTM; a CPU takes it apart before it could be seen."""
    if not state.off and args and isinstance(args[0], _Tensor) and double.place.on_mps(args[0]):
        double.dispatch.asked("aten::lstm.input", args, kwargs)
    return func(*args, **kwargs)


def _attention(double, func, args, kwargs):
    """aten/src/ATen/native/transformers/attention.cpp, scaled_dot_product_attention: without gradients and dropout MPS
    has an operator of its own, up to 2.7 for contiguous tensors alone. A CPU has another."""
    given = _placed(args, kwargs, "query", "key", "value")
    q = given[:3]
    if not state.off and len(q) == 3 and all(isinstance(t, _Tensor) for t in q) and double.place.on_mps(q[0]):
        double.dispatch.asked("aten::scaled_dot_product_attention", given, kwargs)
        if double.series >= (2, 5) and not argument(given, kwargs, 4, "dropout_p", 0.0) and \
                not (torch.is_grad_enabled() and any(t.requires_grad for t in q)) and \
                (double.series >= (2, 8) or all(t.is_contiguous() for t in q)):
            double.dispatch.asked("aten::_scaled_dot_product_attention_math_for_mps", given, kwargs)
    return func(*args, **kwargs)


def _in_float64(double, func, args, kwargs):
    """quantile and nanquantile compute ranks in float64 where the device has it: aten/src/ATen/native/Sorting.cpp."""
    thread = double.dispatch.thread
    before, thread.wide = thread.wide, True
    try:
        return func(*args, **kwargs)
    finally:
        thread.wide = before


def _as_a_whole(double, func, args, kwargs):
    """Where MPS has a kernel for the whole (operators.py, _INSIDE), its parts are no operators of MPS's."""
    thread = double.dispatch.thread
    before, thread.inside = thread.inside, True
    try:
        return func(*args, **kwargs)
    finally:
        thread.inside = before


_METHODS = (
    ("to", _to), ("cpu", _cpu), ("cuda", _cuda), ("get_device", _get_device), ("numpy", _numpy), ("__array__", _numpy),
    ("tolist", _tolist),
    ("type", _type),
    ("type_as", _type_as), ("new", _new), ("apply_", _on_cpu_alone), ("map_", _on_cpu_alone), ("map2_", _on_cpu_alone),
    ("pin_memory", _pinned), ("__repr__", _repr), ("new_empty", _to_cpu), ("new_zeros", _to_cpu), ("new_ones", _to_cpu),
    ("new_full", _to_cpu), ("new_tensor", _new_tensor), ("as_subclass", _as_subclass))
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")
_DATA = ("tensor", "as_tensor", "asarray", "scalar_tensor")
_SPARSE = ("coo", "compressed", "csr", "csc", "bsr", "bsc")
# The Python names that come by linalg_svd. torch.linalg.svdvals, cond and matrix_norm call _linalg_svd, but do not come
# by it.
_SVD = (("linalg", "svd"), ("", "svd"), ("Tensor", "svd"), ("linalg", "pinv"), ("", "pinverse"), ("Tensor", "pinverse"))
_ATTRIBUTES = (("device", _device), ("is_mps", _is_mps), ("is_cpu", _is_cpu), ("is_meta", _is_meta))


def install(double):
    T = torch.Tensor
    originals = {}
    lazy = torch.nn.parameter.UninitializedTensorMixin._allowed_methods  # what the parameters of a lazy layer take

    def method(owner, name, handler):
        original = getattr(owner, name, None)
        if original is None:
            return

        def patched(*args, **kwargs):
            if state.off is True:
                return original(*args, **kwargs)
            return handler(current.double, original, args, kwargs)

        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            try:
                setattr(patched, attribute, getattr(original, attribute))
            except (AttributeError, TypeError):
                pass
        setattr(owner, name, patched)
        originals[id(patched)] = original
        if original in lazy:
            lazy.append(patched)

    find = torch.jit._builtins._find_builtin
    # TorchScript knows operators by their objects
    torch.jit._builtins._find_builtin = lambda fn: find(originals.get(id(fn), fn))
    for name, handler in _METHODS:
        method(T, name, handler)
    for name in _LIKE:
        method(torch, name, _to_cpu)
    for name in _DATA:
        method(torch, name, _from_data)
    for name in ("quantile", "nanquantile"):
        method(torch, name, _in_float64)
        method(T, name, _in_float64)
    for name in _SPARSE:
        method(torch, "sparse_%s_tensor" % name, _sparse_from_data)
    for name in ("nested_tensor", "as_nested_tensor"):
        method(torch.nested, name, _nested)
    for owner, name in _SVD:
        method(getattr(torch, owner) if owner else torch, name, _as_a_whole)
    method(torch.linalg, "lu_factor", _as_a_whole)
    method(torch._C._nn, "upsample_nearest3d", _as_a_whole)
    method(torch._VF, "lstm", _lstm)
    method(torch._C._nn, "linear", _linear)
    torch.nn.functional.linear = torch._C._nn.linear
    if hasattr(torch._C._nn, "scaled_dot_product_attention"):
        method(torch._C._nn, "scaled_dot_product_attention", _attention)
        torch.nn.functional.scaled_dot_product_attention = torch._C._nn.scaled_dot_product_attention
    T._make_wrapper_subclass = staticmethod(_wrapper_subclass(T._make_wrapper_subclass))
    grad = T.grad
    T.grad = _Attribute(grad.__get__, _grad_setter(grad.__set__), grad.__delete__)
    T.grad.__name__, T.grad.__objclass__ = "grad", torch._C._TensorBase
    for name, handler in _ATTRIBUTES:
        setattr(T, name, property(_getter(handler, getattr(T, name).__get__)))


class _Attribute(property):
    """A property that can be asked what PyTorch's own attributes are asked: torch/_dynamo/utils.py,
    is_tensor_base_attr_getter, at import."""


def _getter(handler, getter):
    def get(tensor):
        return getter(tensor) if state.off is True else handler(current.double, getter, tensor)

    return get
