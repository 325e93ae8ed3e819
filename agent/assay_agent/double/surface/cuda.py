"""CUDA on a Mac: its build has none. CUDA's functions are not there, and PyTorch's Python says what it says then."""

import functools
import sys

import torch

from ..errors import cuda_error

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

_NAMES = ("_cudart", "_nvtx", "_cudnn", "_CudaDeviceProperties", "_FastCudaLauncher", "_StaticCudaLauncher",
          "_CUDAPluggableAllocator")


def install(double):
    C = torch._C
    cuda = torch.cuda
    for name in list(vars(C)):
        if name.startswith(("_cuda_", "_nccl_")) or name in _NAMES:
            try:
                delattr(C, name)
            except (AttributeError, TypeError):
                pass
    for name in ("_has_cuda", "_has_cudnn", "has_cuda", "has_cudnn"):
        if hasattr(C, name):
            setattr(C, name, False)
    torch.version.cuda = None
    if "has_cuda" in vars(torch):
        torch.has_cuda = False

    def dummy(cls, name):
        def __new__(cls, *args, **kwargs):
            raise RuntimeError("Tried to instantiate dummy base class " + name)
        cls.__new__ = staticmethod(__new__)

    for name in ("Stream", "ExternalStream", "Event", "CUDAGraph"):
        if name in vars(cuda):
            dummy(vars(cuda)[name], name)
    graphs = sys.modules.get("torch.cuda.graphs")
    if graphs is not None and hasattr(graphs, "_cuda_isCurrentStreamCapturing"):
        def capturing():
            raise RuntimeError("Tried to instantiate dummy base class _cuda_isCurrentStreamCapturing")
        graphs._cuda_isCurrentStreamCapturing = capturing

    def is_available():
        return False

    def device_count():
        return 0

    def _lazy_init():
        raise cuda_error()

    for name, call in (("is_available", is_available), ("device_count", device_count), ("_lazy_init", _lazy_init),
                       ("_is_compiled", is_available)):
        before = vars(cuda).get(name)
        if before is None:
            continue
        call = functools.wraps(before)(call)
        if hasattr(before, "cache_clear"):
            call = functools.lru_cache(maxsize=1)(call)
        setattr(cuda, name, call)
        for module in list(sys.modules.values()):
            if (getattr(module, "__name__", None) or "").startswith("torch.cuda") and vars(module).get(name) is before:
                setattr(module, name, call)
    cuda._initialized = False
    cudnn = torch.backends.cudnn
    cudnn.version = functools.wraps(cudnn.version)(lambda: None)
    if hasattr(cudnn, "_cudnn"):
        cudnn._cudnn = None
    nvtx = sys.modules.get("torch.cuda.nvtx")
    if nvtx is not None:
        class Stub:
            @staticmethod
            def _fail(*args, **kwargs):
                raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")
            rangePushA = rangePop = rangeStartA = rangeEnd = markA = deviceRangeStart = deviceRangeEnd = _fail
        nvtx._nvtx = Stub()
    default_type = torch.set_default_tensor_type

    @functools.wraps(default_type)
    def set_default_tensor_type(t):
        name = t if isinstance(t, str) else getattr(t, "__module__", "") + "." + getattr(t, "__name__", "")
        if name.startswith("torch.cuda."):
            raise TypeError("type %s not available. Torch not compiled with CUDA enabled." % name)
        return default_type(t)

    torch.set_default_tensor_type = set_default_tensor_type
