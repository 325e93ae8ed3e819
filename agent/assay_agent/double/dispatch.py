"""An operator's way through the double. A dispatch mode sees every operator, backward included, looks it up in the
atlas, enforces what MPS enforces, and keeps account. `Dispatch.dispatch` reads in MPS's own order:

  place    where its tensors live and its result is to: what has nothing to do with MPS goes its own way
  kernel   is there one? Else the CPU fallback or NotImplementedError
  refuse   the operator's own refusals (refuse.py), and what is known of it beside (facts.py)
  devices  tensors of several devices
  types    what its new tensors are made of
  run      the CPU's kernel
  account  its calls and time, and what its results hold in memory
"""

import contextlib
import os
import sys
import threading
import time
import warnings

import torch
from torch._prims_common import suggest_memory_format
from torch.utils._python_dispatch import TorchDispatchMode

from .. import guest
from . import errors, facts, generators, refuse, shapes
from .current import current, inside, state
from .operators import COMPOSED, NATIVE, NO_STUB, MISSING, UNKNOWN, Operator, Whole

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

_Tensor = torch.Tensor
_STRIDED = torch.strided
_get_tracing_state = torch._C._get_tracing_state
_TRACER = torch._C._parse_dispatch_key("Tracer")
_get_dispatch_mode = getattr(torch._C, "_get_dispatch_mode", None)  # older releases have no modes of their own
# what c10::scalar_to_tensor makes of a Python number
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
_WITHOUT_DISPATCH = torch.Tensor.__torch_dispatch__  # what stands for __torch_dispatch__ in classes that have none

WIDE = (torch.float64, torch.complex128)  # MPS has them not: operators composed in C++ take narrower ones there
# allocate_check lets them pass
_PLAIN = frozenset((torch.float32, torch.float16, torch.int64, torch.int32, torch.bool, torch.uint8))

_DEVICES_TEXT = "Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!"
_PLACEHOLDER_TEXT = "Placeholder storage has not been allocated on MPS device!"

# Layouts of sparse tensors, which have dispatch keys of their own: the letter in the table's column, and the key.
_SPARSE_LAYOUTS = {"sparse_coo": ("O", "SparseMPS"), "sparse_csr": ("R", "SparseCsrMPS"),
                   "sparse_csc": ("R", "SparseCsrMPS"),
                   "sparse_bsr": ("R", "SparseCsrMPS"), "sparse_bsc": ("R", "SparseCsrMPS")}

# By the name that a CPU's error has for a type: the type, and the wider ones to compute in instead.
_WIDER = {"Half": ("float16", "float32"), "BFloat16": ("bfloat16", "float32"), "Bool": ("bool", "uint8", "float32"),
          "Byte": ("uint8", "float64"), "Char": ("int8", "float64"), "Short": ("int16", "float64"),
          "Int": ("int32", "float64"), "Long": ("int64", "float64")}


def _as_tensors(func, args):
    """The arguments with tensors where the operator takes one and a number is given: C++ wraps numbers in tensors
    (torch.jit.trace and the exporter to ONNX do with sizes) and gives a mode the number, which only arithmetic takes
    back. It does so on the CPU, whatever the default device is."""
    return tuple(torch.ops.aten.scalar_tensor(a, dtype=_NUMBERS[a.__class__], device="cpu")
                 if a.__class__ in _NUMBERS and taken.type.kind() == "TensorType" else a
                 for a, taken in zip(args, func._schema.arguments))


def _tracing():
    """Whether a FakeTensorMode is on, as while torch.export traces."""
    return _get_dispatch_mode is not None and _get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


class OperatorsOnDouble(TorchDispatchMode):
    """While this mode is on in a thread, its operators go through the double in use."""


def _torch_dispatch(mode, func, types, args=(), kwargs=None):
    if state.off:
        return func(*args, **(kwargs or {}))
    dispatch = current.double.dispatch
    if types and dispatch.shapes is None and any(t.__torch_dispatch__ is not _WITHOUT_DISPATCH for t in types):
        # tensor subclasses with a __torch_dispatch__ take it apart, and what they call comes here; but while
        # torch.export traces, its modes below this one do, and a FakeTensor by itself says no
        return func(*args, **(kwargs or {})) if _tracing() else NotImplemented
    if args and not types and args[0].__class__ in _NUMBERS:
        args = _as_tensors(func, args)
    traced = _get_tracing_state()
    if traced is None:
        return dispatch.dispatch(func, args, kwargs or {})
    with _untraced(traced):
        return dispatch.dispatch(func, args, kwargs or {})


@contextlib.contextmanager
def _untraced(traced):
    """torch.jit.trace, which is on, is off: it has the operator by now. While it is on a size is a tensor, and whoever
    compares one is warned. Where the dispatcher keeps it out, as below its own key, it could not be stopped."""
    kept_out = torch._C._dispatch_tls_local_exclude_set() - torch._C.DispatchKeySet(_TRACER)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), kept_out):
        torch._C._set_tracing_state(None)
        try:
            yield
        finally:
            torch._C._set_tracing_state(traced)


# set here: the class would wrap it in dynamo's guard, three microseconds a call
OperatorsOnDouble.__torch_dispatch__ = _torch_dispatch


class _Thread(threading.local):
    """What a thread is at, in one double."""

    def __init__(self):
        self.leaving = False  # a copy to the CPU is under way
        self.wide = False  # an operator is under way that computes in float64 here and in float32 on MPS
        self.inside = False  # an operator is under way that MPS runs on the CPU as a whole
        self.at = None  # the frame and instruction of Python that made the tensors in `made`
        self.made = set()  # storages of CPU tensors


def _frame():
    """The frame of Python that called the operator: outside this file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == _HERE:
        frame = frame.f_back
    return frame


_HERE = _frame.__code__.co_filename
_AGENT = os.path.dirname(os.path.dirname(_HERE)) + os.sep
_AROUND = ("eval_frame.py", "_compile.py")  # of torch's own, around every __torch_dispatch__


def _level():
    """The stack level of a warning that C++ gives: that of the innermost frame of Python that is none of ours."""
    level, frame = 1, sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith(_AGENT)
                                 or frame.f_code.co_filename.endswith(_AROUND)):
        level, frame = level + 1, frame.f_back
    return level


def _by_autograd():
    """Whether one of PyTorch's own formulas of gradients called the operator, and no script's. Where such a formula adds
    up in float64 it does so on a CPU, and on MPS in float32 (renorm_backward in torch/csrc/autograd/FunctionsManual.cpp
    goes by toAccumulateType; quantile_compute in aten/src/ATen/native/Sorting.cpp)."""
    frame = _frame()
    while frame is not None and frame.f_code.co_filename.endswith(_AROUND):
        frame = frame.f_back
    if frame is None:  # a thread of the engine's own
        return True
    path = frame.f_code.co_filename.replace("\\", "/")
    return path.endswith(("torch/autograd/graph.py", "torch/autograd/__init__.py"))


def tensors_of(args, kwargs, found):
    """The tensors among the arguments, lists and tuples of them included, added to `found`."""
    for a in args:
        if isinstance(a, _Tensor):
            found.append(a)
        elif a.__class__ in (list, tuple):
            tensors_of(a, None, found)
    if kwargs:
        for a in kwargs.values():
            if isinstance(a, _Tensor):
                found.append(a)
            elif a.__class__ in (list, tuple):
                tensors_of(a, None, found)
    return found


def nbytes_of(tensors):
    """Bytes that dense tensors show, each once; of one that shows places of its storage several times those of the
    storage. Others (sparse, nested) are not counted."""
    total = 0
    for t in tensors:
        if t.layout is _STRIDED:
            try:
                total += t.nbytes if t.is_contiguous() else min(t.nbytes, t.untyped_storage().nbytes())
            except (NotImplementedError, RuntimeError):  # a nested one, or one of torch.func
                pass
    return total


def _laid_out(args, out, macos):
    """What a convolution gives, in MPS's order, which other operators go by: from 2.5 to 2.9 that of the input under
    macOS 15, where a CPU also looks at the weight; gradients are contiguous. Convolution.mm, _mps_convolution_impl and
    mps_convolution_backward_input; pytorch PR 162776."""
    if not isinstance(out, _Tensor):
        return tuple(o.contiguous() if isinstance(o, _Tensor) else o for o in out)
    if macos < (15, 0) or out.dim() != 4 or args[0].dim() != 4:
        return out.contiguous()
    return out.contiguous(memory_format=suggest_memory_format(args[0]))


class Dispatch:
    """The operators of one double: what is known of them, and their way through it."""

    def __init__(self, double):
        self.double = double
        self.on_place, self.live, self.ledger = double.place, double.place.live, double.place.ledger
        self.series, self.macos = double.series, double.macos
        self.shapes = double.shapes  # None where tensors have data
        self.target = torch.device("cpu" if self.shapes is None else "meta")  # where tensors on MPS are made
        self.known = {}  # OpOverload -> Operator
        self.wholes = {}  # name -> Whole
        self.thread = _Thread()
        self.tallies = True  # keep what operators took, and what memory was for; not in a suite of tests

    def dispatch(self, func, args, kwargs):
        """What an operator does when MPS tensors are among its arguments or its result is to live on MPS."""
        tensors, here, elsewhere, entering, leaving, sparse, kwargs = self.place(func, args, kwargs)
        if not here and not entering:
            return self.on_cpu(func, args, kwargs, tensors)
        op = self.known.get(func) or self.learn(func)
        leaving = (leaving or self.thread.leaving) and op.factory
        # as in inference mode and in an operator that a script defines: below autograd, which otherwise takes these
        # apart
        if op.decomposes:
            return self.apart(op, func, args, kwargs)
        if op.moves and self.shapes is not None and here and not entering:  # tolist() asks for the CPU itself
            device = kwargs.get("device")
            leaving = leaving or device is not None and device.type == "cpu"
        op.counts.calls += 1
        self.double.touched += 1
        self.double.refusal, ran = None, False
        try:
            fell, wrong = self.check(op, func, args, kwargs, tensors, entering, leaving, sparse), False
            if op.collective and op.kernelless:
                return self.collective(op, func, args, kwargs)
            if op.unnoticed is not None and op.unnoticed(args):
                return None
            if op.remarks:
                wrong = self.remark(op, args, kwargs)
            if here and elsewhere and fell is None and not op.any_device and not entering:
                args, kwargs = self.devices(op, args, kwargs, tensors)
            if entering and op.factory:
                self.types(op, args, kwargs)
            out, spent = self.run(op, func, args, kwargs, fell, leaving)
            ran = True
            if self.tallies:
                self.ledger.at(tensors)
                self.ledger.moved = op.moves and not leaving and not here
            self.account(op, args, kwargs, tensors, out, spent, fell, leaving, wrong)
        except Exception as error:
            if id(error) == self.double.refusal:  # for want of memory only once it has been computed here
                op.counts.refuse(None if ran else op.flops, args)
            raise
        return out

    def learn(self, func):
        known = self.known[func] = Operator(self.double, func)
        return known

    def apart(self, op, func, args, kwargs):
        """An operator that is made of others, which come here one by one."""
        with OperatorsOnDouble():
            return func.decompose(*args, **kwargs)

    def check(self, op, func, args, kwargs, tensors, entering, leaving, sparse):
        """Raises what MPS refuses of a call before it looks at devices; gives the record of a fallback, or None."""
        if (sparse or op.makes_sparse) and not leaving:
            self.sparse_kernel(op, tensors, entering)
        fell = None
        if op.kernelless and not op.collective and (op.spares is None or not op.spares(args, kwargs)):
            fell = self.kernel(op)
        if op.rules and not leaving and fell is None:
            self.refuse(op, args, kwargs)
        return fell

    def would(self, func, args, kwargs, tensors, entering, leaving, sparse):
        """check, of a call that another release's double is handed (releases.py)."""
        op = self.known.get(func) or self.learn(func)
        if not op.decomposes:
            self.check(op, func, args, kwargs, tensors, entering, leaving, sparse)

    # Place

    def place(self, func, args, kwargs):
        """(tensors among the arguments, how many on MPS, how many not, whether the result is asked for on MPS, whether
        on no device, whether one tensor is sparse, the arguments as they go on)."""
        live = self.live
        entering = leaving = sparse = False
        device = kwargs.get("device") if kwargs else None
        if device is not None:
            kind = device.type
            if kind == "mps":
                self.double.check_available()
                kwargs = dict(kwargs, device=self.target)
                entering = True
            elif kind == "cuda":
                raise self.double.refused(str(func), "device", errors.cuda_error())
            elif kind == "meta" and self.shapes is None:
                leaving = True
        tensors = tensors_of(args, kwargs, [])
        here = elsewhere = 0
        for t in tensors:
            try:
                if t.untyped_storage()._cdata in live:
                    here += 1
                else:
                    elsewhere += 1
            except (NotImplementedError, RuntimeError, AttributeError):
                sparse = True
                if self.on_place.on_mps(t):
                    here += 1
                else:
                    elsewhere += 1
        return tensors, here, elsewhere, entering, leaving, sparse, kwargs

    def on_cpu(self, func, args, kwargs, tensors):
        """An operator that has nothing to do with MPS."""
        if kwargs:
            if kwargs.get("generator") is not None:
                rule = (generators.check_randperm_generator_on_cpu if func._schema.name == "aten::randperm"
                        else generators.check_cpu_generator)
                try:
                    rule((), kwargs)
                except RuntimeError as error:
                    raise self.double.refused(str(func), "argument", error)
            if kwargs.get("pin_memory"):
                return self._pinned(func, args, kwargs)
        out = func(*args, **kwargs) if self.shapes is None else self._cpu_without_data(func, args, kwargs, tensors)
        device = kwargs.get("device") if kwargs else None
        if device is not None or tensors and self.thread.made:
            self._made(out, device, tensors)
        return out

    def _pinned(self, func, args, kwargs):
        """torch.empty(…, pin_memory=True): on MPS up to 2.13 (issue 181374), on the CPU from 2.14 on (PR 181720)."""
        out = func(*args, **dict(kwargs, pin_memory=False))
        if errors.pin_memory_error(self.series) is not None:
            self.on_place.mark(out)
        return out

    def _made(self, out, device, tensors):
        """A CPU tensor was made, or computed from such. An operator that PyTorch composes in C++, or a gradient's
        formula, makes tensors from the options of its arguments, which are a CPU's here: they belong on MPS. What a
        script makes for itself, it makes in another instruction than it uses it."""
        frame, thread = _frame(), self.thread
        at = (id(frame), id(frame.f_code), frame.f_lasti)
        if thread.at != at:
            thread.at, thread.made = at, set()
        if device is not None or any(self._made_here(t) for t in tensors):
            for t in out if out.__class__ in (list, tuple) else (out,):
                if isinstance(t, _Tensor) and t.layout is torch.strided:
                    thread.made.add(t.untyped_storage()._cdata)

    def _made_here(self, tensor):
        try:
            return tensor.untyped_storage()._cdata in self.thread.made
        except (NotImplementedError, RuntimeError):
            return False

    # Kernel

    def kernel(self, op):
        """An operator without a kernel: the record of its fallback to the CPU, None where it is part of one that has a
        kernel as a whole, or what the backend raises."""
        whole = op.inside if self.thread.inside else None
        if whole == NATIVE:
            return None
        if op.state == NO_STUB:
            raise self.double.refused(op.name, "missing", errors.no_stub_error(self.series))
        if op.state == MISSING and not self.double.fallback and whole is None:
            raise self.double.refused(op.error_name, "missing",
                                      errors.missing_error(op.error_name, self.series, self.double.table.commit))
        # MPS warns once in a process, for whichever operator comes first; all are kept as evidence.
        name = op.error_name if whole is None else op.whole
        fell = self.double.fell_back(name)
        if self.double.warns():
            warnings.warn("The operator '%s' is not currently supported on the MPS backend and will fall back to run "
                          "on the CPU. This may have performance implications. (Triggered internally at "
                          "aten/src/ATen/mps/MPSFallback.mm.)" % name,
                          UserWarning, stacklevel=_level())
        return fell

    def collective(self, op, func, args, kwargs):
        """torch.distributed's operators have no kernel in any release. What the fallback of 2.11 and before makes of
        one: it runs on copies, and nobody copies the result back."""
        error = errors.collective_error(op.name, self.series, self.double.table.commit, self.double.fallback)
        if error is not None:
            raise self.double.refused(op.name, "missing", error)
        self.remark(op, args, kwargs)

        def copied(a):
            if isinstance(a, _Tensor):
                return a.detach().clone() if self.on_place.on_mps(a) else a
            if isinstance(a, (list, tuple)):
                return [copied(b) for b in a]
            return a

        with inside():
            return func(*[copied(a) for a in args], **{k: copied(v) for k, v in kwargs.items()})

    def sparse_kernel(self, op, tensors, entering):
        """Sparse tensors have dispatch keys of their own. What is registered for them there stands in the atlas; no
        fallback is."""
        layout = next((str(t.layout)[6:] for t in tensors if t.layout is not torch.strided),
                      "sparse_coo" if op.makes_sparse else "")
        if layout not in _SPARSE_LAYOUTS:
            return
        letter, key = _SPARSE_LAYOUTS[layout]
        name = op.name
        if entering and op.moves:  # at::_to_copy: an empty tensor of the layout, and a copy
            name = "aten::empty.memory_format"
            if letter == "R":
                raise self.double.refused(op.name, "missing", errors.no_compressed_error())
        elif not op.makes_sparse and (op.state in (COMPOSED, UNKNOWN) or op.view):
            return
        self.registered_for(name, letter, key)

    def registered_for(self, name, letter, key):
        """Raises where nothing is registered for the operator under a sparse key."""
        if self.double.table.sparse.get(name) not in (letter, "B"):
            raise self.double.refused(name, "missing", errors.unregistered_error(name, key))

    # Refuse

    def refuse(self, op, args, kwargs):
        """What the backend refuses of an operator that it has."""
        for rule in op.rules:
            try:
                rule(args, kwargs)
            except Exception as error:
                guest.pass_on(error)
                raise self.double.refused(op.name, "dtype" if isinstance(error, TypeError) else "argument", error)

    def asked(self, name, args, kwargs):
        """What the facts say of an operator that MPS has and a CPU takes apart before the mode could see it. args may be
        fewer than the operator's, the rest in kwargs by name."""
        whole = self.wholes.get(name)
        if whole is None:
            whole = self.wholes[name] = Whole(self.double, name)
        if not whole.rules and not whole.remarks:
            return
        traced = _get_tracing_state()
        with contextlib.nullcontext() if traced is None else _untraced(traced):
            self.of_whole(whole, args, kwargs)

    def of_whole(self, whole, args, kwargs):
        if whole.rules:
            self.refuse(whole, args, kwargs)
        if whole.remarks:
            late = any(r.late for r in whole.remarks) and torch.is_grad_enabled() and any(
                t.requires_grad for t in tensors_of(args, None, []))
            with inside():
                if self.remark(whole, args, kwargs, late):
                    self.double.wrong_wholes += 1

    def remark(self, op, args, kwargs, backward=True):
        """Keep the facts that a call meets where MPS refuses nothing; whether its numbers come out wrong for sure.
        backward: whether a backward pass follows."""
        wrong = False
        for remark, sure in facts.remarked(op.remarks, args, kwargs, backward):
            self.double.met(op.name, remark.fact, sure)
            if sure and remark.wrong:
                self.double.came_out_wrong(op.name, remark.fact)
                wrong = True
        return wrong

    # Devices

    def devices(self, op, args, kwargs, tensors):
        """Tensors of several devices: elementwise operators take scalars from the CPU; the rest is an error, whose text
        depends on the kernel. Gives the arguments back: where a composed operator made one of a type that MPS has not,
        there it asks for the device, and takes the narrower type."""
        frame, thread = _frame(), self.thread
        composed = thread.at == (id(frame), id(frame.f_code), frame.f_lasti)
        wide = False
        for t in tensors:
            if composed and t.dtype in WIDE and self._made_here(t):
                wide = True
                continue
            if t.dim() == 0 or self.on_place.on_mps(t):
                continue
            if composed and self._made_here(t):
                self._landed(op, t)
                continue
            if self.shapes is not None and shapes.is_meta(t) and not self.shapes.pretends(t):
                continue  # made inside a composed operator, from the options of a tensor without data
            raise self.double.refused(op.name, "device", RuntimeError(self._placement_text(op, tensors)))
        if wide:
            return self._narrowed(args), {k: self._narrowed(v) for k, v in kwargs.items()}
        return args, kwargs

    def _narrowed(self, value):
        if isinstance(value, _Tensor):
            if value.dtype in WIDE and self._made_here(value):
                return value.to(torch.float32 if value.dtype is torch.float64 else torch.complex64)
            return value
        if value.__class__ in (list, tuple):
            return value.__class__(self._narrowed(v) for v in value)
        return value

    def _placement_text(self, op, tensors):
        """Convolution.mm and MPSFallback.mm; Shape.mm, cat_out_mps (to 2.9); Blas.mm, dot_check (from 2.2);
        TensorIterator.cpp; OperationUtils.mm, Placeholder."""
        names = ["mps:0" if self.on_place.on_mps(t) else "cpu" for t in tensors]
        if op.convolution:
            return ("slow_conv2d_forward_mps: input(device='%s') and weight(device=%s')  must be on the same device"
                    % tuple(names[:2]))
        if op.name.startswith("aten::cat") and self.series <= (2, 9):
            other = next(n for n in names if n != names[0])
            return "torch.cat(): all input tensors must be on the same device. Received %s and %s" % (names[0], other)
        if op.name.startswith("aten::dot") and self.series >= (2, 2):
            return "Expected all tensors to be on the same device. Found: %s, %s" % tuple(names[:2])
        return _DEVICES_TEXT if op.pointwise else _PLACEHOLDER_TEXT

    # Types

    def types(self, op, args, kwargs):
        """The type of a tensor that is asked for on MPS."""
        dtype = kwargs.get("dtype")
        if dtype is None and args and op.moves:
            dtype = args[0].dtype
        if dtype is not None:
            self._allocatable(op, dtype, args[0].dim() if op.moves else 0)

    def _allocatable(self, op, dtype, ndim):
        if dtype not in WIDE or not (self.thread.wide or _by_autograd()):
            self.made_of(op, dtype, ndim)

    def made_of(self, op, dtype, ndim):
        """Raises what MPS refuses of a new tensor of this type, with so many dimensions."""
        try:
            refuse.allocate_check(dtype, ndim, self.series, self.macos, op.moves)
        except Exception as error:
            guest.pass_on(error)
            raise self.double.refused(op.name, "rank" if isinstance(error, RuntimeError) else "dtype", error)

    # Run

    def run(self, op, func, args, kwargs, fell, leaving):
        """(the result, nanoseconds)."""
        began = time.perf_counter_ns()
        try:
            if self.shapes is not None:
                out = self._without_data(op, func, args, kwargs, leaving)
            else:
                out = func(*args, **kwargs) if not op.draws else self.double.stream.drawn(func, args, kwargs)
        except RuntimeError as error:
            if fell is not None:
                raise
            out = self._in_wider(op, func, args, kwargs, error)
        if op.convolution and (2, 5) <= self.series < (2, 10):
            out = _laid_out(args, out, self.macos)
        return out, time.perf_counter_ns() - began

    def _in_wider(self, op, func, args, kwargs, error):
        """An operator and type that MPS has a kernel for, the double having raised nothing, and a CPU has none:
        computed in a wider type."""
        named = str(error).partition("not implemented for '")[2].partition("'")[0]
        if named not in _WIDER:
            raise error
        narrow, wides = getattr(torch, _WIDER[named][0]), _WIDER[named][1:]
        if not narrow.is_floating_point and not refuse.has_kernel(op.name, self.series, narrow):
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

    def _cpu_without_data(self, func, args, kwargs, tensors):
        """An operator on the CPU, without data where tensors are large."""
        op = self.known.get(func) or self.learn(func)
        device = kwargs.get("device")
        meta = any(shapes.is_meta(t) for t in tensors)
        pretended = meta and any(shapes.is_meta(t) and self.shapes.pretends(t) for t in tensors)
        if device is not None and device.type == "meta" and not pretended:
            return func(*args, **kwargs)
        if op.factory and not tensors and shapes.large(args):
            out = func(*args, **dict(kwargs, device=self.target))
            self.shapes.pretend(out)
            return out
        if not pretended:
            return func(*args, **kwargs)
        if op.name == "aten::_local_scalar_dense":
            self.double.stood_in(op.name)
            return shapes.without_value(args[0])
        if device is not None:
            kwargs = dict(kwargs, device=self.target)
        out = self.computed(op, func, args, kwargs)
        for o in out if out.__class__ in (list, tuple) else (out,):
            if isinstance(o, _Tensor) and shapes.is_meta(o) and not self.shapes.pretends(o):
                self.shapes.pretend(o)
        return out

    def _without_data(self, op, func, args, kwargs, leaving):
        """An operator on MPS without data."""
        if op.name == "aten::_local_scalar_dense":
            self.double.stood_in(op.name)
            return shapes.without_value(args[0])
        if leaving:
            self.double.stood_in(op.name)
            t = args[0]
            if t.numel() >= shapes.LARGE:
                out = func(*args, **dict(kwargs, device=self.target))
                self.shapes.pretend(out)
                return out
            return torch.zeros(t.shape, dtype=kwargs.get("dtype") or t.dtype, device="cpu")
        if op.name == "aten::copy_" and not shapes.is_meta(args[0]):
            return args[0]
        return self.computed(op, func, args, kwargs)

    def computed(self, op, func, args, kwargs):
        """What an operator gives for shapes alone, or the refusal that says that it needs values."""
        try:
            return shapes.computed(func, args, kwargs)
        except shapes.NeedsValues:
            pass
        raise self.double.needs_values(op.name)

    # Account

    def account(self, op, args, kwargs, tensors, out, spent, fell, leaving, wrong):
        """What the operator took, and what its results hold: those that are new live on MPS from now on."""
        if self.tallies:
            self._tally(op, args, tensors, out, spent, wrong)
        if fell is not None:
            fell.ns += spent
            fell.nbytes += sum(t.numel() * t.element_size() for t in tensors)
        if leaving or op.stays:
            return
        if isinstance(out, _Tensor):
            self._landed(op, out)
        elif out.__class__ in (list, tuple):
            for o in out:
                if isinstance(o, _Tensor):
                    self._landed(op, o)
                elif o.__class__ in (list, tuple):
                    for p in o:
                        if isinstance(p, _Tensor):
                            self._landed(op, p)
        if op.attention:
            self.attention_memory(args, out)

    def _tally(self, op, args, tensors, out, spent, wrong):
        """What the operator took: time, FLOPs, bytes."""
        counts = op.counts
        counts.ns += spent
        flops = 0
        if op.flops is not None:
            flops = op.flops(args, out)
            counts.flops += flops
            if args[0].dtype is torch.bfloat16:
                counts.bf16_flops += flops
        if wrong:
            counts.wrong += 1
            counts.wrong_ns += spent
            counts.wrong_flops += flops
        if not op.view:
            made = (out,) if isinstance(out, _Tensor) else tensors_of((out,), None, [])
            counts.nbytes += nbytes_of(tensors) + nbytes_of(made)

    def _landed(self, op, out):
        """A result that is new lives on MPS."""
        try:
            storage = out.untyped_storage()
            key = storage._cdata
        except (NotImplementedError, RuntimeError, AttributeError):
            self.on_place.mark(out)
            return
        if key in self.live and not op.resizes:
            return
        dtype = out.dtype
        if dtype not in _PLAIN or out.dim() > 16:
            self._allocatable(op, dtype, out.dim())
        try:
            self.on_place.mark_storage(storage, key)
        except RuntimeError as error:
            self.ledger.look(self.live)  # the script may end, and let go of all that it holds
            # a setting that is out of its range is met here too, by the first allocation
            cause = "argument" if "watermark ratio" in str(error) else "memory"
            raise self.double.refused(op.name, cause, error)

    def attention_memory(self, args, out):
        """MPS materialises the scores when a gradient is needed, in float32 from 2.5 on for half types, and keeps the
        softmax for the backward pass: aten/src/ATen/native/transformers/attention.cpp,
        _scaled_dot_product_attention_math."""
        q, k = args[0], args[1]
        scores = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
        size = q.element_size() if self.series < (2, 5) else max(4, q.element_size())
        if out[1] is not None:
            self.on_place.charge_more(out[1], scores * size)
