"""Conditions of facts that no clause says: functions of (args, kwargs, *with) that return None, or a dictionary of what
fills the text. A row names one by `predicate`."""

import torch
from torch._prims_common import suggest_memory_format

from .current import inside
from .dtypes import argument, cxx

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def adaptive_pool(args, kwargs, problem, direction):
    """AdaptivePooling.mm, set_kernel_params: strides and kernel sizes are whole numbers. problem: mixed (one axis grows
    and the other shrinks), down, up."""
    if direction == "backward":
        (ih, iw), (oh, ow) = args[1].shape[-2:], args[0].shape[-2:]
    else:
        (ih, iw), out = args[0].shape[-2:], args[1]
        out = tuple(out) if isinstance(out, (list, tuple)) else (out, out)
        if len(out) != 2:
            return None  # the shapes are looked at before
        oh, ow = out
    if problem == "mixed":
        bad = not (ih >= oh and iw >= ow or ih <= oh and iw <= ow)
    elif ih >= oh:
        bad = problem == "down" and bool(oh and ow) and (ih % oh or iw % ow)
    else:
        bad = problem == "up" and bool(ih and iw) and (oh % ih or ow % iw)
    return {} if bad else None


def convolved_over(args, kwargs, limit):
    """A convolution, not a transposed one, returns more than `limit` along an axis."""
    if argument(args, kwargs, 6, "transposed", False):
        return None
    x, w = args[0], args[1]
    stride, padding, dilation = args[3], args[4], args[5]
    n = w.dim() - 2

    def at(v, i):
        return v[i] if len(v) > i else v[0]

    space = [(x.shape[x.dim() - n + i] + 2 * at(padding, i) - at(dilation, i) * (w.shape[2 + i] - 1) - 1)
             // at(stride, i) + 1 for i in range(n)]
    return {} if max([w.shape[0]] + space) > limit else None


def far_dimension(args, kwargs, position):
    """The dimension lies more than 4 from the end of the shape."""
    t = args[0]
    dim = argument(args, kwargs, position, "dim", -1)
    return {} if t.dim() and t.dim() - dim % t.dim() > 4 else None


def imaginary(args, kwargs, *names):
    """A keyword scalar that the backend takes as a double has an imaginary part."""
    return {} if any(isinstance(kwargs.get(n), complex) and kwargs[n].imag for n in names) else None


def smaller_side_above(args, kwargs, limit):
    """The smaller side of a matrix is above `limit`."""
    n = min(args[0].shape[-2:], default=0)
    return {"n": n} if n > limit else None


def matrix_bytes_above(args, kwargs, matrices, limit):
    """So many copies of one matrix take more than `limit` bytes."""
    t = args[0]
    n = matrices * t.shape[-2] * t.shape[-1] * t.element_size() if t.dim() > 1 else 0
    return {"n": n} if n > limit else None


def float_bound(args, kwargs):
    """aten::clamp of integers, and a bound that is no whole number."""
    if args[0].is_floating_point():
        return None
    bounds = [argument(args, kwargs, 1, "min"), argument(args, kwargs, 2, "max")]
    return {} if any(isinstance(b, float) for b in bounds) else None


def to_cpu_as(args, kwargs):
    """aten::_to_copy from the device to the CPU, to another type."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    return {} if device is not None and torch.device(device).type == "cpu" and dtype not in (None, args[0].dtype) \
        else None


def stacked_lstm(args, kwargs):
    """aten::lstm.input with several layers or in both directions."""
    return {} if args[4] > 1 or args[7] else None


def input_gradient_not_asked(args, kwargs, position):
    """The mask of the gradients that are asked for begins with False."""
    return {} if not args[position][0] else None


def axis_of_one(args, kwargs):
    """A spatial axis of the input has a size of 1."""
    return {} if 1 in args[0].shape[2:] else None


def head_sizes_differ(args, kwargs):
    """The last axis of value is another than that of query."""
    return {} if args[2].shape[-1] != args[0].shape[-1] else None


def projections(args, kwargs):
    """nn.LSTM with proj_size: the hidden state is narrower than the cell state."""
    hx = args[1]
    return {} if len(hx) == 2 and hx[0].shape[-1] != hx[1].shape[-1] else None


def index_tensors(args, kwargs):
    """More than 16 tensors in one subscript, None not counted."""
    return {} if sum(1 for t in args[1] or () if t is not None) > 16 else None


def negative_float(args, kwargs, *positions):
    """A number at one of these positions is a float below zero; a whole number counts up from the type's largest."""
    return {} if any(isinstance(args[p], float) and args[p] < 0 for p in positions if p < len(args)) else None


def fft_dimensions(args, kwargs):
    """A transform of more than 4 dimensions."""
    n = len(args[1])
    return {"n": n} if n > 4 else None


def heads_not_divisible(args, kwargs):
    """Grouped-query attention whose heads do not fall into groups."""
    q, k = args[0], args[1]
    if q.dim() != 4 or k.dim() != 4 or not k.shape[1] or not q.shape[1] % k.shape[1]:
        return None
    return {"n": q.shape[1], "other": k.shape[1]}


def weights_not_contiguous(args, kwargs):
    """weight= is given with strides of its own."""
    w = kwargs.get("weight")
    return {} if isinstance(w, torch.Tensor) and not w.is_contiguous() else None


def scaled(args, kwargs):
    """A fused optimizer is given a gradient scaler's tensors."""
    return {} if kwargs.get("grad_scale") is not None or kwargs.get("found_inf") is not None else None


# ---- strides ---------------------------------------------------------------------------------------------------------
# From 2.5 on, under macOS 15 or later, a tensor that is not contiguous, or does not begin where its storage does, is
# given to an MPSGraph by its strides: Placeholder in OperationUtils.mm views it in the shape that the graph wants
# (getTensorView: t.view), and a view that cannot be had is an error. Before, it was gathered into a contiguous copy.


def _cannot_be_viewed(tensor, shape):
    """Whether Placeholder fails to view a tensor in that shape."""
    if tensor.is_contiguous() and not tensor.storage_offset():
        return False
    with inside():
        try:
            tensor.detach().view(shape)
        except RuntimeError:
            return True
    return False


def _channels_last_cannot_be_viewed(tensor):
    """Whether a tensor lies in channels-last order, and Placeholder fails to view it in that order's shape."""
    if tensor.dim() != 4 or suggest_memory_format(tensor) != torch.channels_last:
        return False
    n, c, h, w = tensor.shape
    return _cannot_be_viewed(tensor, (n, h, w, c))


def channels_last_gradient(args, kwargs):
    """convolution_backward (grad_output, input, weight, …) of a tensor in channels-last order: the gradient of the
    result; of a transposed convolution the input, where the gradient of the weight is asked for. Convolutions over one
    axis run as over two, of an input that is made contiguous before."""
    grad, x, weight = args[:3]
    if not x.numel():
        return None
    wanted = argument(args, kwargs, 10, "output_mask", (True, True, True))
    if argument(args, kwargs, 7, "transposed", False):
        looked_at = x if wanted[1] and weight.dim() != 3 else None
    else:
        looked_at = (grad.unsqueeze(2) if weight.dim() == 3 else grad) if wanted[0] or wanted[1] else None
    return {} if looked_at is not None and _channels_last_cannot_be_viewed(looked_at) else None


def channels_of_channels_last(args, kwargs):
    """A convolution of some channels of a tensor in channels-last order: strides of that order, with gaps."""
    x = args[0]
    if x.dim() != 4 or argument(args, kwargs, 6, "transposed", False):
        return None
    return {} if not x.is_contiguous(memory_format=torch.channels_last) and _channels_last_cannot_be_viewed(x) else None


def channels_last(args, kwargs, position):
    """That argument lies in channels-last order."""
    return {} if _channels_last_cannot_be_viewed(args[position]) else None


def not_flat(args, kwargs, *positions):
    """One of these arguments cannot be viewed as one axis."""
    return {} if args[0].numel() and any(_cannot_be_viewed(args[p], (-1,)) for p in positions) else None


# ---- empty tensors ---------------------------------------------------------------------------------------------------


def without_bytes(args, kwargs, *positions):
    """One of these arguments is a tensor whose storage has no bytes: Placeholder asserts that it has. An empty part of
    a tensor that has bytes passes."""
    for p in positions:
        t = args[p] if p < len(args) else None
        if isinstance(t, torch.Tensor) and t.layout is torch.strided and not t.untyped_storage().nbytes():
            return {}
    return None


def has_elements(args, kwargs, *positions):
    """None of these arguments is empty."""
    return {} if all(args[p].numel() for p in positions) else None


# ---- types and values ------------------------------------------------------------------------------------------------


def one_of_two_complex(args, kwargs):
    """A complex number and a real one: `1j * x`, `c * 2`."""
    kinds = [a.is_complex() if isinstance(a, torch.Tensor) else isinstance(a, complex) for a in args[:2]]
    return {} if kinds[0] != kinds[1] else None


def complex_second(args, kwargs):
    """A real tensor and a complex one, or a complex number."""
    first, second = args[:2]
    if not isinstance(first, torch.Tensor) or first.is_complex():
        return None
    if isinstance(second, torch.Tensor):
        return {"dtype": cxx(second.dtype)} if second.is_complex() else None
    return {"dtype": "ComplexDouble"} if isinstance(second, complex) else None


def singular(args, kwargs, name):
    """_linalg_check_errors (infos, name of the function, whether it is one matrix) of a matrix that is singular."""
    infos, function = args[:2]
    if function != name:
        return None
    with inside():
        if infos.is_meta:  # rehearsed without data
            return None
        bad = infos.flatten().nonzero().flatten()
        if not bad.numel():
            return None
        first = int(bad[0])
    return {"n": first + 1, "value": "" if argument(args, kwargs, 2, "is_matrix") else ": (Batch element %d)" % first}


def inner_dimension_above(args, kwargs, limit):
    """A matrix product sums over more than `limit` products, and both outer sides are 16 or more."""
    pair = [t for t in args if isinstance(t, torch.Tensor) and t.dim() >= 2][-2:]
    if len(pair) < 2:
        return None
    n = pair[0].shape[-1]
    return {"n": n} if n > limit and pair[0].shape[-2] >= 16 and pair[1].shape[-1] >= 16 else None


def conjugated(args, kwargs, *positions):
    """One of these arguments is a conjugated view."""
    found = (args[p] for p in positions if p < len(args))
    return {} if any(isinstance(t, torch.Tensor) and t.is_conj() for t in found) else None


def kernel_axis_above(args, kwargs, limit):
    """aten::convolution: an axis of the kernel is above `limit`."""
    n = max(args[1].shape[2:], default=0)
    return {"n": n} if n > limit else None


def batch_above(args, kwargs, limit):
    """The first axis of the first argument is above `limit`."""
    return {} if args[0].dim() and args[0].shape[0] > limit else None


def offset_view(args, kwargs, position, multiple):
    """The tensor is a view that begins within its storage, at no multiple of so many elements (1: anywhere within)."""
    t = args[position] if position < len(args) else None
    if not isinstance(t, torch.Tensor) or t.layout is not torch.strided:
        return None
    offset = t.storage_offset()
    return {} if offset and (multiple == 1 or offset % multiple) else None


def cpu_scalar_of_a_view(args, kwargs):
    """One operand is a tensor of no axis on the CPU that is a view into another: x[i]."""
    found = (t for t in args if isinstance(t, torch.Tensor) and not t.dim())
    return {} if any(t.storage_offset() for t in found) else None


def fractional_ends(args, kwargs):
    """aten::linspace between numbers of which one is no whole one."""
    return {} if any(isinstance(v, float) and v != int(v) for v in args[:2]) else None
