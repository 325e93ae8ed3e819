"""Conditions of facts that no clause says: functions of (args, kwargs, *with) that return None, or a dictionary of what
fills the text. A row names one by `predicate`."""

import torch
from torch._prims_common import suggest_memory_format

from .current import current, inside
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


# Of a known wrong result that is seen now and then, or on some chips: the call fits, and may be wrong.
MAY = {"perhaps": True}


def _shaped(value, rank=1):
    return isinstance(value, torch.Tensor) and value.dim() >= rank


_IS_META = torch._C._TensorBase.is_meta.__get__  # what torch says, whatever the double puts in its place


def _tells(value):
    """Whether a tensor has values to look at."""
    return (isinstance(value, torch.Tensor) and value.layout is torch.strided and value.numel() > 0
            and not _IS_META(value))


def _untold(*values):
    """What a condition on values comes to where there are none: without data (--shape-only) it may hold."""
    return MAY if any(isinstance(v, torch.Tensor) and v.numel() > 0 and _IS_META(v) for v in values) else None


def axis_over(args, kwargs, position, axis, limit):
    """One axis of a tensor is over a limit."""
    t = args[position] if position < len(args) else None
    return {"n": t.shape[axis]} if _shaped(t) and -t.dim() <= axis < t.dim() and t.shape[axis] > limit else None


def reduced_axis_empty(args, kwargs):
    """The dimension that is reduced has no elements, and the result has some."""
    t, dim = args[0], argument(args, kwargs, 1, "dim")
    if dim.__class__ is not int or not _shaped(t):
        return None
    shape = list(t.shape)
    return {} if shape.pop(dim) == 0 and 0 not in shape else None


def nan_in(args, kwargs, *positions):
    """NaN in one of these tensors."""
    for p in positions:
        t = args[p] if p < len(args) else None
        if _tells(t) and t.is_floating_point() and bool(torch.isnan(t).any()):
            return {}
    return _untold(*(args[p] for p in positions if p < len(args)))


def value_above(args, kwargs, position, limit):
    """A whole number in a tensor is over a limit, or below its negative."""
    t = args[position]
    if t.is_floating_point() or t.is_complex() or t.dtype is torch.bool:
        return None
    if not _tells(t):
        return _untold(t)
    low, high = torch.aminmax(t)
    return {} if int(high) > limit or int(low) < -limit else None


def value_is(args, kwargs, position, value):
    """A tensor has a value at some place."""
    t = args[position]
    return ({} if bool((t == value).any()) else None) if _tells(t) else _untold(t)


def index_outside(args, kwargs):
    """An index lies outside: of embedding (weight, indices), index_select (self, dim, index) and index (self, [indices])."""
    t, at = args[0], args[1]
    if not _shaped(t):
        return None
    if isinstance(at, torch.Tensor):
        pairs = [(at, t.shape[0])]
    elif isinstance(at, int):
        pairs = [(args[2], t.shape[at])]
    else:
        pairs = [(i, n) for i, n in zip(at, t.shape) if i is not None]
        if any(i.dtype in (torch.bool, torch.uint8) for i, _ in pairs):
            return None  # a mask: the axes behind it are others
    for index, n in pairs:
        if _tells(index):
            low, high = torch.aminmax(index)
            if int(low) < (0 if isinstance(at, torch.Tensor) else -n) or int(high) >= n:
                return {}
    return _untold(*(i for i, _ in pairs))


def target_outside(args, kwargs):
    """nll_loss: a target is no class, and not ignore_index."""
    target, ignored, classes = args[1], argument(args, kwargs, 4, "ignore_index", -100), args[0].shape[1 if args[0].dim() > 1 else 0]
    if not _tells(target):
        return _untold(target)
    bad = ((target < 0) | (target >= classes)) & (target != ignored)
    return {} if bool(bad.any()) else None


def target_ignored(args, kwargs):
    """nll_loss: a target is ignore_index."""
    target, ignored = args[1], argument(args, kwargs, 4, "ignore_index", -100)
    return ({} if bool((target == ignored).any()) else None) if _tells(target) else _untold(target)


def out_strided(args, kwargs):
    """out= is given with strides of its own."""
    out = kwargs.get("out")
    return {} if isinstance(out, torch.Tensor) and not out.is_contiguous() else None


def out_strides_differ(args, kwargs):
    """out= has other strides than the input."""
    out = kwargs.get("out")
    return {} if isinstance(out, torch.Tensor) and out.dim() == args[0].dim() and out.stride() != args[0].stride() else None


def is_part(args, kwargs, position):
    """A tensor is a part of its storage: a slice, a column, an element."""
    t = args[position]
    if not _shaped(t, 0) or t.layout is not torch.strided:
        return None
    return {} if t.numel() * t.element_size() < t.untyped_storage().nbytes() else None


def channel_slice(args, kwargs):
    """A channel slice of a tensor whose channels lie last."""
    t = args[0]
    if t.dim() != 4 or t.is_contiguous() or t.is_contiguous(memory_format=torch.channels_last):
        return None
    return {} if t.stride(1) == 1 and t.stride(3) > t.shape[1] else None


def strided_weight(args, kwargs):
    """A convolution's weight has strides of its own. Of one whose channels lie last, dense, PyTorch's tests of memory
    formats compare the values and pass on Macs: it may be wrong."""
    w = args[1]
    if not _shaped(w, 3) or w.is_contiguous():
        return None
    return MAY if w.dim() == 4 and w.is_contiguous(memory_format=torch.channels_last) else {}


def linear_over(args, kwargs, limit):
    """linear: more rows of input, or of output features, than a limit."""
    x, w = args[0], args[1]
    rows = x.numel() // max(1, x.shape[-1]) if _shaped(x) else 0
    return MAY if rows > limit or w.shape[0] > limit else None


def linear_batch(args, kwargs, limit):
    """linear with bias of a 3-D input whose batch is over a limit."""
    x, bias = args[0], argument(args, kwargs, 2, "bias")
    return {} if x.dim() == 3 and bias is not None and x.shape[0] > limit else None


def product_over(args, kwargs, limit):
    """bmm with a result of more elements than a limit, of a factor with strides of its own."""
    a, b = args[0], args[1]
    if not _shaped(a, 3) or not _shaped(b, 3) or a.shape[0] * a.shape[1] * b.shape[2] <= limit:
        return None
    return {} if not (a.is_contiguous() and b.is_contiguous()) else None


def expanded(args, kwargs):
    """A factor of a product is expanded: a stride is 0, and the inner dimension is 1."""
    a, b = args[0], args[1]
    if not _shaped(a, 2) or not _shaped(b, 2) or a.shape[-1] != 1:
        return None
    return {} if any(s == 0 and n > 1 for t in (a, b) for s, n in zip(t.stride(), t.shape)) else None


def batches_differ(args, kwargs):
    """solve: the batch dimensions of the two are broadcast."""
    a, b = args[0], args[1]
    return {} if _shaped(a, 2) and _shaped(b, 2) and a.dim() > 2 and b.dim() > 2 and a.shape[:-2] != b.shape[:-2] else None


def underdetermined(args, kwargs):
    """A batch of systems with more unknowns than equations."""
    a = args[0]
    return {} if a.dim() > 2 and a.shape[-2] < a.shape[-1] else None


def to_cpu(args, kwargs, problem):
    """A copy from MPS to the CPU. problem: narrower (into a type of at most that width: whether it is met depends on
    where the CPU's tensor lies), gaps (equal strides that leave gaps)."""
    if problem == "gaps":
        to, source = args[0], args[1]
        if _on_mps(to) or not _on_mps(source) or to.stride() != source.stride() or to.shape != source.shape:
            return None
        reach = 1 + sum((n - 1) * s for n, s in zip(source.shape, source.stride()))
        return {} if source.numel() and reach > source.numel() else None
    if len(args) > 1 and isinstance(args[1], torch.Tensor):  # copy_
        source, dtype, there = args[1], args[0].dtype, not _on_mps(args[0])
    else:
        device = kwargs.get("device")
        source, dtype, there = args[0], kwargs.get("dtype"), device is not None and device.type == "cpu"
    if not there or dtype is None or not _on_mps(source) or dtype is source.dtype:
        return None
    return MAY if dtype.itemsize <= source.dtype.itemsize else None


def into_cpu_part(args, kwargs):
    """An MPS tensor is copied into a part of a CPU tensor."""
    return is_part(args, kwargs, 0) if not _on_mps(args[0]) and _on_mps(args[1]) else None


def not_waited_for(args, kwargs):
    """A copy to MPS with non_blocking=True; whether its source changes too early no call tells."""
    copies = len(args) > 1 and isinstance(args[1], torch.Tensor)
    asked = argument(args, kwargs, 2, "non_blocking", False) if copies else kwargs.get("non_blocking", False)
    source = args[1] if copies else args[0]
    return MAY if asked and not _on_mps(source) else None


def _on_mps(t):
    return current.double.place.on_mps(t)


def without_input_gradient(args, kwargs):
    """native_layer_norm_backward: no gradient of the input is asked for, but one of weight or bias."""
    mask = argument(args, kwargs, 7, "output_mask", (True,))
    return {} if not mask[0] and any(mask[1:]) else None


def to_one(args, kwargs):
    """Linear interpolation with align_corners=True to or from a size of 1 along an axis."""
    if not argument(args, kwargs, 2, "align_corners", False):
        return None
    sizes = list(argument(args, kwargs, 1, "output_size") or ()) + list(args[0].shape[2:])
    return {} if 1 in sizes else None


def sort_first_axis(args, kwargs, limit):
    """Sorting along dimension 0 while another is over a limit."""
    t = args[0]
    dim = kwargs.get("dim", next((a for a in args[1:] if a.__class__ is int), -1))
    return {} if _shaped(t, 2) and dim % t.dim() == 0 and max(t.shape[1:]) > limit else None


def reduced_third_last(args, kwargs):
    """sum over the third last of five dimensions, of which one is 1."""
    t, dims = args[0], argument(args, kwargs, 1, "dim")
    return {} if t.dim() == 5 and 1 in t.shape and dims is not None and [d % 5 for d in dims] == [2] else None


def negative_dimension(args, kwargs):
    """A reduction over a dimension counted from the end."""
    dims = argument(args, kwargs, 1, "dim")
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    return {} if any(d.__class__ is int and d < 0 for d in dims) else None


def not_apple_silicon(args, kwargs):
    """On AMD GPUs and under x86-64 alone: the double is no such Mac."""
    return None


def layered(args, kwargs, problem):
    """LSTM (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first). problem: both
    (bidirectional or of several layers), dropout (between several layers, in training)."""
    if problem == "both":
        return {} if args[4] > 1 or args[7] else None
    return {} if args[4] > 1 and args[5] > 0 and args[6] else None


def sdpa(args, kwargs, problem):
    """Attention.mm, _scaled_dot_product_attention_math_mps. Few queries (8 at most, no more than keys) of head sizes 64,
    96 or 128 take a kernel that reads strides itself. problem: strided (a tensor has strides of its own), permuted (its
    batches do not lie behind one another), long (1024 keys or more), heads (the value's head size differs), mask (is
    broadcast along some axes only), masked (a row has no key)."""
    q, k, v = args[:3]
    mask = argument(args, kwargs, 3, "attn_mask")
    if problem == "heads":
        return {} if q.shape[-1] != v.shape[-1] else None
    if problem == "mask":
        if not isinstance(mask, torch.Tensor):
            return None
        full = list(q.shape[:-2]) + [q.shape[-2], k.shape[-2]]
        same = [m == n for m, n in zip(reversed(mask.shape), reversed(full)) if n > 1]
        return {} if any(same) and not all(same) else None
    if problem == "masked":
        if not _tells(mask) or mask.dtype is not torch.bool and not mask.is_floating_point():
            return _untold(mask)
        hidden = ~mask if mask.dtype is torch.bool else mask == float("-inf")
        return {} if bool(hidden.all(-1).any()) else None
    short = q.shape[-2] <= 8 and q.shape[-2] <= k.shape[-2] and q.shape[-1] == v.shape[-1] and q.shape[-1] in (64, 96, 128)
    if not short:
        return None
    if problem == "long":
        return {} if k.shape[-2] >= 1024 else None
    if problem == "strided":
        return {} if not all(t.is_contiguous() for t in (q, k, v)) else None
    return {} if any(t.dim() == 4 and t.shape[0] > 1 and t.stride(0) != t.shape[1] * t.stride(1) for t in (q, k, v)) else None
