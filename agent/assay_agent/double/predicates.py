"""Conditions of facts that no clause says: functions of (args, kwargs, *with) that return None, or a dictionary of what
fills the text. A row names one by `predicate`."""

import types

import torch

from .dtypes import argument

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


# By the name that rows give.
PREDICATES = {name: f for name, f in list(globals().items()) if isinstance(f, types.FunctionType)
              and f.__module__ == __name__}
