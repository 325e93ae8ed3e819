"""A double whose memory is that of an NVIDIA GPU, to hold its account against a real one: what PyTorch keeps, or needs
for a while, on CUDA and not on a CPU.

The engine, the lists of operators and their saved tensors are the double's own. Here stand: composed operators that go
another way on CUDA, what libraries hold for good, and what a kernel allocates while it runs. Files are below
aten/src/ATen where nothing else is said.
"""

import functools
import sys

import torch
from assay_agent.double import install
from assay_agent.double.current import current, inside
from assay_agent.double.dispatch import Dispatch
from assay_agent.double.double import Double
from assay_agent.double.surface import autocast

from cuda_allocator import MIB, CudaAllocator

MULTIPROCESSORS = 132  # of an H100 or H200

_libraries = []


class OnCuda(Dispatch):
    def dispatch(self, func, args, kwargs):
        out = super().dispatch(func, args, kwargs)
        rule = _RULES.get(func._schema.name)
        if rule is not None and self.on_place.any_on_mps(out if out.__class__ in (list, tuple) else (out,)):
            with inside():
                rule(args, kwargs, out)
        return out

    def attention_memory(self, args, out):
        """Its scores are never written: the kernels are fused."""


class CudaDouble(Double):
    dispatch_class = OnCuda

    def __init__(self, settings):
        self.held = {}  # (what, backward thread or not) -> blocks that libraries hold for good
        super().__init__(settings)

    def make_account(self):
        return CudaAllocator()


class CudaAutocast(autocast.Autocast):
    """CUDA's lists have a letter that MPS's lack: D, float32 by the argument `dtype`."""

    def letter(self, double, name):
        letter = super().letter(double, name)
        return None if letter == "D" else letter

    def kernel(self, op, name):
        call = super().kernel(op, name)
        return _with_dtype(self, op, call) if current.double.table.autocast.get(name) == "D" else call


def put_up(settings):
    """install.install, with CUDA's rules: the double, and what could not be put up."""
    double = CudaDouble(settings)
    parts = [(name, CudaAutocast().install if part is autocast.install else part) for name, part in install.PARTS]
    limits = install.put_up(torch, double, parts)
    utils = torch.utils._foreach_utils
    listed = utils._get_foreach_kernels_supported_devices() + ["mps"]
    for module in list(sys.modules.values()):
        taken = "_get_foreach_kernels_supported_devices" in vars(module)
        if taken and getattr(module, "__name__", "").startswith("torch."):
            module._get_foreach_kernels_supported_devices = lambda: list(listed)
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    for name, kernel in (("dropout", _dropout), ("scaled_dot_product_attention", _attention)):
        for key in ("AutogradMeta", "AutogradCPU"):
            library.impl(name, functools.partial(kernel, getattr(torch.ops.aten, name).default), key)
    return double, limits


def _composed(op, *args, **kwargs):
    return op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def _with_dtype(autocasts, op, call):
    """autocast_mode.h, fp32_set_opt_dtype: the result is float32 unless the call names a type. cross_entropy names that
    of its input for log_softmax."""
    at = [a.name for a in op._schema.arguments].index("dtype") if any(a.name == "dtype"
                                                                      for a in op._schema.arguments) else None

    def with_dtype(*args, **kwargs):
        if at is not None and autocasts.enabled() and args and autocast.eligible(args[0]):
            if len(args) > at:
                if args[at] is None:
                    args = (*args[:at], torch.float32, *args[at + 1:])
            elif kwargs.get("dtype") is None:
                kwargs = dict(kwargs, dtype=torch.float32)
        return call(*args, **kwargs)

    return with_dtype


def _nbytes(t):
    return t.numel() * t.element_size()


# Composed operators ---------------------------------------------------------------------------------------------------


def _dropout(op, x, p, train):
    """native/Dropout.cpp, dropout: native_dropout keeps a mask of bools, where a CPU keeps one of the input's type."""
    if current.double.place.on_mps(x) and 0 < p < 1 and train and x.numel():
        return torch.ops.aten.native_dropout(x, p, train)[0]
    return _composed(op, x, p, train)


def _attention(op, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """native/transformers/cuda/sdp_utils.cpp, select_sdp_backend, as it chooses on compute capability 9.0."""
    aten = torch.ops.aten
    more = {"scale": scale}
    if not current.double.place.on_mps(q) or q.dim() != 4:
        return _composed(op, q, k, v, attn_mask, dropout_p, is_causal, enable_gqa=enable_gqa, **more)
    grad = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
    half = q.dtype in (torch.float16, torch.bfloat16)
    rows = all(t.stride(-1) == 1 for t in (q, k, v)) and (attn_mask is None or attn_mask.stride(-1) == 1)
    d, dv = q.shape[-1], v.shape[-1]
    same_heads = q.shape[1] == k.shape[1] == v.shape[1]
    if not rows or not q.numel() or not k.numel():
        return _composed(op, q, k, v, attn_mask, dropout_p, is_causal, enable_gqa=enable_gqa, **more)
    mask = attn_mask
    if mask is not None and mask.dtype is torch.bool:  # attention.cpp, convert_boolean_attn_mask
        mask = torch.where(mask, torch.zeros((), dtype=q.dtype, device=q.device),
                           torch.full((), float("-inf"), dtype=q.dtype, device=q.device))
    fits = d % 8 == 0 and dv % 8 == 0 and d <= 128 and dv <= 128
    if half and (same_heads or enable_gqa) and fits and not (is_causal and mask is not None):
        # check_cudnn_*: preferred on 9.0 and later with cuDNN 9.15 or newer
        return aten._scaled_dot_product_cudnn_attention(q, k, v, mask, grad, dropout_p, is_causal, False, **more)[0]
    if half and mask is None and d == dv and d <= 256 and d % 8 == 0 and (same_heads or enable_gqa):
        return aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False, **more)[0]
    if same_heads and d % 4 == 0 and dv % 4 == 0:
        if mask is not None:
            mask = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
            if mask.shape[-1] % 16:  # attention.cpp, pad_bias
                mask = torch.nn.functional.pad(mask, (0, 16 - mask.shape[-1] % 16))[..., :k.shape[2]]
        return aten._scaled_dot_product_efficient_attention(q, k, v, mask, grad, dropout_p, is_causal, **more)[0]
    return _composed(op, q, k, v, attn_mask, dropout_p, is_causal, enable_gqa=enable_gqa, **more)


# What libraries hold --------------------------------------------------------------------------------------------------


def _backward():
    """Whether autograd runs, which has a thread of its own for a GPU, and so a handle of each library of its own."""
    return torch._C._current_graph_task_id() != -1


def _keep(what, nbytes):
    key, held = (what, _backward()), current.double.held
    if key not in held:
        held[key] = current.double.account.allocate(nbytes)


def _blas(args, kwargs, out):
    """cuda/CublasHandlePool.cpp, getChosenWorkspaceSize: 32 MiB for each handle on compute capability 9.0."""
    _keep("cublas", 32 * MIB)


def _blas_lt(args, kwargs, out):
    """cuda/CUDABlas.cpp, gemm_and_bias, which addmm takes for a vector as bias: its workspace of 1 MiB, beside that of
    cuBLAS, whose handle it asks for."""
    _keep("cublas", 32 * MIB)
    if args[0].dim() == 1 and args[0].is_contiguous() and out.dim() == 2 and args[0].shape[0] == out.shape[1]:
        _keep("cublaslt", MIB)


# While a kernel runs --------------------------------------------------------------------------------------------------


def _briefly(*sizes):
    for block in [current.double.account.allocate(int(n)) for n in sizes if n]:
        current.double.account.free(block)


def _efficient_backward(args, kwargs, out):
    """native/transformers/cuda/attention_backward.cu, _efficient_attention_backward: the gradient with rows of heads
    together, then the product that is summed into delta, then the kernel's accumulators."""
    grad, q = args[0], args[1]
    copy = 0 if grad.transpose(1, 2).is_contiguous() else _nbytes(grad)
    delta = q.shape[0] * q.shape[1] * q.shape[2] * 4
    rows = -(-q.shape[2] // 64) * 64
    accumulators = q.shape[0] * q.shape[1] * (rows * q.shape[3] * 4 + rows // 4)
    _briefly(copy, max(grad.numel() * 4 + delta, accumulators), delta)


def _cudnn_backward(args, kwargs, out):
    """cuDNN sums the gradient of the queries in float32, and keeps a float for each of their rows: measured, 64 × 12 ×
    197 × (64 + 1) × 4 bytes."""
    q = args[1]
    _briefly(q.numel() * 4 + q.numel() // q.shape[3] * 4)


def _convolved(x, weight, y, stride, groups, of_weight=False):
    """What cuDNN asks for beside a convolution of NCHW tensors. Its kernels for tensor cores, which float32 takes as
    well (TF32 is allowed by default), work on NHWC: input, output and a filter larger than 1×1 have a copy. A 1×1
    convolution is a product of matrices as it lies; its weight's gradient is summed in float32 for each image. Read off
    every convolution of ResNet-50, batch 64, float32 and bfloat16, on cuDNN 9.19; what its heuristics choose is not
    documented. Depthwise ones are PyTorch's own kernels, without any."""
    if not x.is_contiguous() or not y.is_contiguous() or groups == x.shape[1] > 1:
        return 0
    copies = _nbytes(x) + _nbytes(y)
    if of_weight and x.element_size() == 4:
        # the pixels are shared out among as many groups as fill the multiprocessors with tiles of 128 × 128; each
        # leaves its sums
        shares = min(MULTIPROCESSORS * 128 * 128 // weight.numel(), 16)
        copies += shares * _nbytes(weight) if shares > 1 else 0
    if weight[0, 0].numel() > 1:
        return copies + _nbytes(weight)
    pixels = y[0, 0].numel()
    if all(s == 1 for s in stride):
        if of_weight:
            return min(copies, 4 * x.shape[0] * weight.numel())
        return copies if pixels % 4 and pixels > 1 else 0
    return copies


def _convolution(args, kwargs, out):
    if not args[6]:
        _briefly(_convolved(args[0], args[1], out, args[3], args[8]))


def _convolution_backward(args, kwargs, out):
    grad, x, weight = args[:3]
    stride, transposed, groups = args[4], args[7], args[9]
    if not transposed:
        # before the weight's gradient is made
        first = _convolved(x, weight, grad, stride, groups) - _nbytes(weight) if out[0] is not None else 0
        second = _convolved(x, weight, grad, stride, groups, True) if out[1] is not None else 0
        _briefly(max(first, second, 0))


def _sum(args, kwargs, out):
    """native/cuda/Reduce.cuh, setReduceConfig and global_memory_size, where the rows of a matrix are summed: each block
    of threads leaves its sums."""
    x = args[0]
    if not x.is_contiguous() or not out.numel() or out.numel() == x.numel():
        return
    dims = sorted(d % x.dim() for d in args[1] or ()) if len(args) > 1 and x.dim() else []
    if not dims or any(x.shape[d] > 1 for d in range(dims[-1]) if d not in dims) or out.numel() == 1:
        return
    columns, rows = out.numel(), x.numel() // out.numel()
    vector = 4 if columns % 4 == 0 else 2 if columns % 2 == 0 else 1
    threads = 512 // vector
    width, height = (min(threads, 1 << (n.bit_length() - 1)) for n in (columns // vector, rows))
    across, width = width, min(width, 32)
    height = min(height, threads // width)
    width = min(across, threads // height)
    each = rows
    if not (each >= height * 16 or each >= 256):
        return
    each = -(-rows // height)
    target = MULTIPROCESSORS * (2048 // (width * height))  # 2048 threads each
    grid = -(-(columns // vector) // width)
    if each >= 256 and grid <= target:
        parts = max(min(-(-target // grid), -(-each // 16)), -(-each // 256))
        if parts > 1:
            _briefly(max(4, out.element_size()) * columns * parts * width * vector)


_RULES = {"aten::" + name: rule for names, rule in (
    ("convolution", _convolution),
    ("convolution_backward", _convolution_backward),
    ("sum mean", _sum),
    ("mm bmm baddbmm addmv mv dot", _blas),
    ("addmm", _blas_lt),
    ("_scaled_dot_product_efficient_attention_backward", _efficient_backward),
    ("_scaled_dot_product_cudnn_attention_backward", _cudnn_backward),
) for name in names.split()}
