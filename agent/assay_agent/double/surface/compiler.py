"""torch.compile runs what it is given as it is. Up to 2.6 the default compiler refuses MPS tensors."""

import functools
import sys

import torch

from ..current import current
from .names import cannot

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    before = torch.compile

    @functools.wraps(before)
    def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None,
                disable=False, **more):
        if mode is not None and options is not None:
            raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
        if model is None:
            return lambda model: compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                         options=options, disable=disable, **more)
        import torch._dynamo
        if backend == "inductor":
            torch._TorchCompileInductorWrapper("default" if mode is None and options is None else mode, options,
                                               dynamic)
        elif isinstance(backend, str):
            torch._dynamo.lookup_backend(backend)  # raises InvalidBackend
        if disable:
            return model
        current.double.note_use("torch.compile: compiled code cannot be rehearsed; the function ran as it is written")
        context = _Uncompiled(backend)
        if isinstance(model, torch.nn.Module):
            import torch._dynamo.eval_frame as eval_frame
            wrapped = eval_frame.OptimizedModule(model, context)
            wrapped._torchdynamo_orig_callable = model.forward
            return wrapped
        if not callable(model):
            raise AssertionError("A callable function is expected, but %s is provided." % type(model))
        return context(model)

    torch.compile = compile
    module = sys.modules.get("torch.nn.modules.module")
    if module is not None and vars(module).get("compile") is before:
        module.compile = compile
    converter = sys.modules["torch._subclasses.fake_tensor"].FakeTensorConverter
    convert = converter.from_real_tensor

    @functools.wraps(convert)
    def from_real_tensor(self, fake_mode, tensor, *args, **kwargs):
        # A fake tensor that says `mps` makes this build of PyTorch abort: it has no guard for that device.
        if current.double.place.on_mps(tensor):
            cannot("tracing of tensors on MPS (torch.export, torch._dynamo, FakeTensorMode)", current.double,
                   why="cannot be done without a build of PyTorch for a Mac")
        return convert(self, fake_mode, tensor, *args, **kwargs)

    converter.from_real_tensor = from_real_tensor


class _Uncompiled:
    """What stands in for dynamo's context: called with a function, it gives one that checks and runs it."""

    def __init__(self, backend):
        self.backend = backend

    def __call__(self, fn):
        inductor = self.backend == "inductor"

        @functools.wraps(fn)
        def run(*args, **kwargs):
            if inductor and current.double.series < (2, 7) and touches_mps(fn, args, kwargs):
                raise _inductor_error()
            return fn(*args, **kwargs)

        run._torchdynamo_orig_callable = fn
        run.get_compiler_config = lambda: {}
        return run


def touches_mps(fn, args, kwargs):
    """Whether a call is given tensors on MPS, or the module that the function belongs to has some."""
    on_mps = current.double.place.on_mps
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        for tensors in (owner.parameters(), owner.buffers()):
            if any(on_mps(t) for t in tensors):
                return True
    pending = list(args) + list(kwargs.values())
    while pending:
        a = pending.pop()
        if isinstance(a, torch.Tensor):
            if on_mps(a):
                return True
        elif isinstance(a, (list, tuple)):
            pending.extend(a)
        elif isinstance(a, dict):
            pending.extend(a.values())
    return False


def _inductor_error():
    inner = AssertionError("Device mps not supported")
    try:
        import torch._dynamo.exc as exc

        def inductor(*args):
            raise inner

        def compile_fx(*args):
            raise inner

        compile_fx.__name__ = "inductor"
        try:
            return exc.BackendCompilerFailed(inductor, inner)
        except TypeError:
            return exc.BackendCompilerFailed(inductor, inner, None)
    except (ImportError, AttributeError, TypeError):
        return RuntimeError("backend='inductor' raised:\nAssertionError: Device mps not supported")
