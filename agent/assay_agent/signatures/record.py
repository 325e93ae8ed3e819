"""What a run calls of PyTorch's operators: a dispatch mode that notes each distinct call once, and counts it.

A call is known by a key of what it was handed (_key); only a key that is new is written down: shapes, strides, types, scalars, and of what
is in a tensor no more than its range. Values of tensors, texts that no operator needs and objects of the script's never leave the process.

In a training with optimizers the mode is on for some steps only: the first ones, then fewer while nothing new comes and as far as
looking costs (_Pace). Elsewhere it is always on.
"""

import json
import math
import re
import sys
import threading
import time
import types

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from .. import guest, wire
from ..watch.torch.autograd import compiling_test

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

MOST = 200_000  # signatures of a process: the format's bound (docs/formats/signatures.md)
LONGEST = 1 << 20  # bytes of a line: the format's bound
LISTED, DEEPEST = 10_000, 8  # of lists: the format's bounds
VARIANTS = 8  # kept of calls that differ in numbers and places alone, such as the step that Adam hands on
EXACT = 10_000_000  # integers beyond are rounded: no table of embeddings has so many rows, and what is exact could be somebody's number
PENDING = 64  # signatures whose ranges a device still computes
SITES = 10_000  # lines of the script that call operators, kept

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_STRIDED = torch.strided
_WITHOUT_DISPATCH = torch.Tensor.__torch_dispatch__  # what stands for __torch_dispatch__ in classes that have none
_depth = torch._C._len_torch_dispatch_stack
_in_backward = torch._C._current_graph_task_id
_INT = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_FLOAT = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# Arguments that are texts by PyTorch's schemas and say how to compute; "filename", "message" and others are the script's own.
_TEXTS = frozenset(
    "reduce activation algorithm padding_side norm approximate mode ord rounding_mode driver pad_mode interpolation side padding UPLO p "
    "equation indexing api_name reduction padding_mode layout".split()
)
_TEXT = re.compile(r"[A-Za-z0-9_,.> -]{0,256}\Z")


class _Unkeyed(Exception):
    """An argument that no key can hold."""


class Mode(TorchDispatchMode):
    """While this mode is on in a thread, the recorder sees its operators."""

    supports_higher_order_operators = True  # they pass

    @classmethod
    def ignore_compile_internals(cls):
        """From 2.9 on: what is compiled is compiled as it would be without us."""
        return True


# -- the line that calls --------------------------------------------------------------------------------------------------

_sites = {}


def _template(call, args, kwargs):
    return call(*args, **kwargs)


def _site(frame):
    """A function that calls another, and bears the file, line and globals of the frame that called the operator: what PyTorch warns of
    is told there, as it would be without us (warnings look at the innermost frame of Python)."""
    key = (frame.f_code, frame.f_lasti)
    site = _sites.get(key)
    if site is None or site.__globals__ is not frame.f_globals:
        if len(_sites) > SITES:
            _sites.clear()
        code = _template.__code__.replace(
            co_filename=frame.f_code.co_filename, co_firstlineno=max(1, frame.f_lineno - 1), co_name=frame.f_code.co_name
        )
        site = _sites[key] = types.FunctionType(code, frame.f_globals, code.co_name)
    return site


_HERE = _site.__code__.co_filename


def _strip(error):
    """Take off the traceback what stands there for our sake: the mode's frame, the site's, and that of torch/_ops.py."""
    tb = error.__traceback__
    for _ in range(3):
        if tb is not None and (
            tb.tb_frame.f_code.co_filename in (_HERE, _OPS) or tb.tb_frame.f_code.co_code == _template.__code__.co_code
        ):
            tb = tb.tb_next
    error.__traceback__ = tb


_OPS = torch._ops.__file__

# -- keys -----------------------------------------------------------------------------------------------------------------


def _tensor_key(t, storages):
    """A hashable form of a tensor. storages: those of the call so far, each with its number."""
    try:
        storage = t.untyped_storage()
        cdata = storage._cdata
        number = storages.get(cdata)
        if number is None:
            number = storages[cdata] = len(storages)
        return (t.shape, t.stride(), t.dtype, t.device.type, t.storage_offset(), storage.nbytes(), number)
    except (NotImplementedError, RuntimeError, AttributeError):  # sparse, nested, or of torch.func
        storages[id(t)] = len(storages)
        try:
            shape = t.shape
        except RuntimeError:
            shape = None
        return (shape, t.layout, t.dtype, t.device.type)


def _key(a, storages):
    kind = a.__class__
    if kind is _Tensor or kind is _Parameter or isinstance(a, _Tensor):
        return _tensor_key(a, storages)
    if kind is int or kind is bool or kind is complex:
        return (kind, a)
    if kind is float:
        return (kind, a if a == a else "nan")
    if kind is list or kind is tuple:
        return tuple([_key(item, storages) for item in a])
    if a is None or kind is str or kind in _HASHED:
        return a
    return kind


_HASHED = (torch.dtype, torch.device, torch.layout, torch.memory_format)


def _alike(key, listed=False):
    """The key without numbers, and places in storages: what keys have in common that differ in those alone. Integers in lists stay: they
    are sizes and dimensions."""
    if key.__class__ is not tuple:
        return key
    if len(key) == 2 and (key[0] is float or key[0] is complex or key[0] is int and not listed):
        return key[0]
    if len(key) == 7 and key[0].__class__ is torch.Size:
        return key[:4] + key[6:]
    return tuple([_alike(item, True) for item in key])


# -- what is written down -------------------------------------------------------------------------------------------------


def _name(thing):
    return str(thing).replace("torch.", "").lstrip("_")


def _freed(row):
    """Whether the storage holds less than the tensor shows: FSDP lets go of it between two uses."""
    last = row["offset"] + sum((n - 1) * step for n, step in zip(row["shape"], row["stride"]))
    return row["layout"] == "strided" and 0 not in row["shape"] and last >= row["storage"]


def _float(x):
    return x if math.isfinite(x) else {"float": "nan" if x != x else "inf" if x > 0 else "-inf"}


def _tensor(t, with_values=False):
    """The format's T."""
    row = {
        "shape": [], "stride": [], "offset": 0, "dtype": _name(t.dtype), "layout": _name(t.layout), "storage": 0, "device": t.device.type,
    }  # fmt: skip
    if t.is_nested:
        row["layout"] = "nested"  # strided and jagged ones
    try:
        row["shape"] = [int(n) for n in t.shape]
        row["stride"] = [int(n) for n in t.stride()]
        row["offset"] = int(t.storage_offset())
        row["storage"] = t.untyped_storage().nbytes() // max(1, t.element_size())
    except (NotImplementedError, RuntimeError):  # one without a storage, or without strides
        row["stride"], row["offset"] = [], 0
        if row["layout"] == "strided":
            row["layout"] = "opaque"
    if with_values:
        row["range"], row["values"], row["grad"] = None, "unknown", bool(t.requires_grad)
    return row


def _outward(x, up):
    """x to two digits, away from the range."""
    if x == 0 or not math.isfinite(x):
        return x
    unit = 10.0 ** (math.floor(math.log10(abs(x))) - 1)
    if unit == 0:
        return x
    rounded = float("%.1e" % ((math.ceil if up else math.floor)(x / unit) * unit))
    return rounded if math.isfinite(rounded) else x


def _ranged(row, low, high, dtype):
    """Into the row what is known of a tensor whose finite elements lie between."""
    if low != low or high != high:
        row["values"] = "nan"
        return
    if not math.isfinite(low) or not math.isfinite(high):
        row["values"] = "floats"
        return
    if low == high and low in (0, 1):
        row["values"] = "one" if low else "zero"
    elif low == high:
        row["values"] = "constant"
    else:
        row["values"] = "floats" if dtype.is_floating_point or dtype.is_complex else "ints"
    if dtype in _INT:
        limits = torch.iinfo(dtype)
        low = int(low) if abs(low) <= EXACT else max(limits.min, int(_outward(float(low), False)))
        high = int(high) if abs(high) <= EXACT else min(limits.max, int(_outward(float(high), True)))
        row["range"] = [low, high]
    else:
        row["range"] = [_outward(float(low), False), _outward(float(high), True)]


class _Writer:
    """One call, being written down: its tensors and what of them is still to be looked at."""

    def __init__(self, func, at_once):
        self.own = func._schema.name.partition("::")[0] in ("aten", "prims", "torchvision", "quantized")
        self.at_once = at_once
        self.filled = _filled(func._schema)
        self.tensors, self.groups = 0, {}
        self.waiting = []

    def value(self, a, name="", depth=1):
        if isinstance(a, _Tensor):
            row = _tensor(a, True)
            return {"symbol": "a tensor whose storage was let go"} if _freed(row) else {"t": self.tensor(a, row, name)}
        kind = a.__class__
        if a is None or kind is bool:
            return a
        if kind is int:
            return a if -(1 << 63) <= a < 1 << 63 else {"symbol": "an integer beyond 64 bits"}
        if kind is float:
            return _float(a)
        if kind is complex:
            return {"complex": [_float(a.real), _float(a.imag)]}
        if kind is str:
            if self.own and name in _TEXTS and _TEXT.match(a):
                return a
            return {"symbol": "a text of the script's own"}
        if kind is list or kind is tuple:
            if depth >= DEEPEST or len(a) > LISTED:
                return {"symbol": "a list that is too long, or too deep"}
            return {"l": [self.value(item, name, depth + 1) for item in a]}
        if kind is torch.dtype:
            return {"dtype": _name(a)}
        if kind is torch.device:
            return {"device": a.type}
        if kind is torch.layout:
            return {"layout": _name(a)}
        if kind is torch.memory_format:
            return {"memory_format": _name(a)}
        if isinstance(a, torch._C.Generator):  # the double's are of a class of its own
            return {"generator": True}
        return {"symbol": "an object that is none of PyTorch's types for arguments"}

    def tensor(self, t, row, name):
        try:
            place = t.untyped_storage()._cdata
        except (NotImplementedError, RuntimeError):
            place = id(t)
        self.groups.setdefault(place, []).append(self.tensors)
        self.tensors += 1
        if name not in self.filled and t.layout is _STRIDED and row["storage"] and t.numel():
            self.values(t, row)
        return row

    def values(self, t, row):
        """Look at what is in the tensor: by one pass over it; on a device without waiting for it."""
        kind = t.device.type
        dtype = t.dtype
        if kind not in ("cpu", "cuda", "mps") or not (dtype in _INT or dtype in _FLOAT or dtype is torch.bool or dtype.is_complex):
            return
        if kind == "cuda" and torch.cuda.is_current_stream_capturing():
            return
        with torch._C._DisableFuncTorch():
            t = t.detach()
            if dtype.is_complex:
                t = torch.view_as_real(t.resolve_conj())
            if dtype is torch.bool:
                found = t.to(torch.float32).mean()
            else:
                found = torch.stack(torch.aminmax(t))
        if kind == "cpu" or self.at_once:
            self.settle(row, found, dtype, t)
        else:
            self.waiting.append((row, found, dtype))

    @staticmethod
    def settle(row, found, dtype, t=None):
        """found has been computed; t: the tensor, where it can be looked at once more."""
        if dtype is torch.bool:
            share = found.item()
            share = math.floor(share * 100) / 100, math.ceil(share * 100) / 100
            row["range"], row["values"] = list(share), "bools"
            return
        low, high = found.tolist()
        _ranged(row, low, high, dtype)
        if row["range"] is None and t is not None:
            finite = t[torch.isfinite(t)]
            if finite.numel():
                nan = row["values"] == "nan"
                low, high = torch.stack(torch.aminmax(finite)).tolist()
                _ranged(row, low, high, dtype)
                row["values"] = "nan" if nan else "floats"

    def alias(self):
        return [group for group in self.groups.values() if len(group) > 1]


# -- which steps are looked at --------------------------------------------------------------------------------------------


class _Pace:
    """Decides at the end of each step whether the next one is looked at. The first FIRST are, but for the third, which says what a step
    takes without; then as many as cost SHARE more time in all, and ever fewer while nothing new comes."""

    FIRST, SHARE, FEWEST = 4, 0.3, 256

    def __init__(self):
        self.steps = self.looked = 0
        self.began = None
        self.with_us, self.without = [], []  # seconds of the last steps
        self.gap = self.wait = 0

    def over(self, looking, new):
        """A step is over, which was looked at or not, and had so many new signatures: whether to look at the next."""
        now = time.perf_counter()
        self.steps += 1
        self.looked += looking
        if self.began is not None:
            took = self.with_us if looking else self.without
            took.append(now - self.began)
            del took[:-5]
        self.began = now
        if self.steps < self.FIRST:
            return self.steps != 2
        if not looking:
            self.wait -= 1
            return self.wait <= 0
        self.gap = 0 if new else min(self.FEWEST, 2 * self.gap + 1)
        self.wait = max(self.gap, self.price())
        return self.wait <= 0

    def price(self):
        """Steps to leave out after one that was looked at, so that all together take SHARE longer."""
        if not self.with_us or not self.without:
            return 1
        bare = sorted(self.without)[len(self.without) // 2]
        more = sum(self.with_us[-2:]) / len(self.with_us[-2:]) - bare
        return min(4096, max(0, math.ceil(more / max(bare, 1e-9) / self.SHARE) - 1))


# -- the recorder ---------------------------------------------------------------------------------------------------------


class Recorder:
    """The signatures of one process."""

    def __init__(self, config):
        self.double = bool(config.get("double"))
        self.at_once = self.double  # no device computes what is found
        self.lock = threading.RLock()
        self.mode = Mode()  # PyTorch keeps no reference to a mode while it is off the stack, as when a tensor is printed
        self.compiling = compiling_test(torch)
        self.clear()

    def clear(self):
        self.keys = {}  # key -> number of the signature
        self.kinds = {}  # _alike(key) -> numbers
        self.counts = []  # by number
        self.told = []  # of those, what the last event said
        self.pending = []
        self.seen = self.alike = self.whole = self.long = 0
        self.new = 0  # since the last step
        self.why = ""
        self.ended = False
        self.looking = True
        self.updating = 0
        self.pace = _Pace()
        self.last = None
        self.ways = {}  # of operators

    def begin(self):
        Mode.__torch_dispatch__ = _dispatch  # set here: the class would wrap it in dynamo's guard
        Mode.recorder = self
        if not hasattr(TorchDispatchMode, "ignore_compile_internals"):
            self.before_compile()
        from torch.optim import optimizer

        optimizer.register_optimizer_step_pre_hook(guest.hook(self.step_begins))
        optimizer.register_optimizer_step_post_hook(guest.hook(self.step_ends))
        self.base = _depth()
        _push_mode(self.mode)

    def before_compile(self):
        """A release in which a mode that is on keeps torch.compile from compiling: the recording ends there."""
        compile = torch.compile

        @guest.hook
        def begin(*args):
            self.end("torch.compile was called, and PyTorch %s compiles nothing while calls are recorded" % torch.__version__)
            self.off()
            return False

        torch.compile = guest.around(compile, begin, None)

    # threads and processes

    def enter_thread(self):
        """In a thread that the script has started: whether leave_thread is to be called."""
        if self.ended:
            return False
        _push_mode(self.mode)
        return True

    def leave_thread(self):
        self.off()

    def off(self):
        """Take the mode away where it stands on top; below one of the script's it stays and lets everything pass."""
        depth = _depth()
        if depth and torch._C._get_dispatch_stack_at(depth - 1) is self.mode:
            _pop_mode()
            return True
        return False

    def forked(self):
        """In a child: loader workers have nothing to say. A child that trains is one of its own (step_ends)."""
        self.lock = threading.RLock()
        self.clear()
        self.looking = False
        self.off()

    # steps

    def step_begins(self, optimizer, args, kwargs):
        if not self.compiling():
            self.updating += 1

    def step_ends(self, optimizer, args, kwargs):
        self.updating = 0
        if self.ended or self.compiling():
            return
        if wire.silent:  # a forked child that trains
            wire.wake()
        main = threading.current_thread() is threading.main_thread()
        self.settle()
        looking = self.looking
        new, self.new = self.new, 0
        look = self.pace.over(looking, new)
        if look == looking or not main:
            return
        if look:
            if _depth() == self.base:
                _push_mode(self.mode)
                self.looking = True
        else:
            self.off()
            self.looking = False

    # a call

    def end(self, why):
        """The recording is over: what was seen stands."""
        if not self.ended:
            self.why, self.ended, self.looking = why, True, False
            wire.put(self.summary())
            wire.wake()

    def failed(self, error):
        self.end("the recorder failed: %r" % (error,))

    def seen_call(self, func, args, kwargs):
        """Count a call; what `returned` is to be given where it is the first of its kind, else None."""
        storages = {}
        key = (func, tuple([_key(a, storages) for a in args]))
        if kwargs:
            key += tuple([(name, _key(kwargs[name], storages)) for name in sorted(kwargs)])
        number = self.keys.get(key)
        self.seen += 1
        if number is not None:
            self.counts[number] += 1
            return None
        with self.lock:
            return self.first(func, args, kwargs, key)

    def first(self, func, args, kwargs, key):
        kind = (key[0], tuple([_alike(a) for a in key[1]]), tuple([(name, _alike(a)) for name, a in key[2:]]))
        kin = self.kinds.setdefault(kind, [])
        if len(kin) >= VARIANTS:
            self.alike += 1
            self.counts[kin[-1]] += 1
            return None
        if not self.counts and _loads_data():
            self.end("")  # a loader's worker that was spawned
            self.seen = 0
            return None
        if len(self.counts) >= MOST:
            self.end("more than %d signatures" % MOST)
            return None
        number = len(self.counts)
        writer = _Writer(func, self.at_once)
        schema = func._schema
        with _Aside(self.double):
            values = [writer.value(a, _argument(schema, i)) for i, a in enumerate(args)]
            named = {name: writer.value(kwargs[name], name) for name in sorted(kwargs)}
        row = {
            "op": schema.name,
            "overload": schema.overload_name,
            "phase": self.phase(),
            "count": 1,
            "first": self.seen - 1,
            "args": values,
            "kwargs": named,
            "out": [],
            "alias": writer.alias(),
        }
        self.counts.append(1)
        self.told.append(1)
        self.keys[key] = number
        kin.append(number)
        self.new += 1
        return {"ev": "signature", "n": number, "s": row}, writer.waiting

    def phase(self):
        if _in_backward() != -1:
            return "backward"
        if self.updating:
            return "update"
        return "forward" if torch.is_grad_enabled() else "other"

    def returned(self, event, out):
        """The call of a new signature is over, with that result; None where it raised."""
        event, waiting = event
        try:
            event["s"]["out"] = [row for row in map(_tensor, _results(out, [])) if not _freed(row)]
        finally:
            with self.lock:
                if waiting or self.pending:
                    self.pending.append((event, waiting))
                    if len(self.pending) >= PENDING:
                        self.settle()
                else:
                    self.tell(event)

    def settle(self):
        """Read the ranges that a device has computed meanwhile."""
        with self.lock:
            pending, self.pending = self.pending, []
            for event, waiting in pending:
                for row, found, dtype in waiting:
                    _Writer.settle(row, found, dtype)
                self.tell(event)

    def tell(self, event):
        if len(json.dumps(event["s"])) > LONGEST:
            self.long += 1
            return
        wire.put(event)

    # events

    def summary(self):
        event = {"ev": "signatures", "seen": self.seen, "alike": self.alike, "steps": self.pace.steps, "looked": self.pace.looked,
                 "long": self.long, "whole": self.whole, "counts": [], "why": self.why}  # fmt: skip
        for number in range(len(self.told)):
            count = self.counts[number]
            if count != self.told[number]:
                self.told[number] = count
                event["counts"].append([number, count])
        return event

    @guest.hook
    def gather(self):
        """For the wire: what the counts have come to."""
        state = self.seen, self.pace.steps, self.why
        if state != self.last and (self.counts or self.why):
            self.last = state
            wire.put(self.summary())

    def finish(self):
        """The process ends."""
        self.looking = False
        self.off()
        self.settle()
        self.gather()


class _Aside:
    """Within, the double looks at nothing."""

    def __init__(self, double):
        self.state = None
        if double:
            from ..double.current import state

            self.state = state

    def __enter__(self):
        if self.state is not None:
            self.before, self.state.off = self.state.off, 2  # OPERATORS: attributes still answer

    def __exit__(self, *_):
        if self.state is not None:
            self.state.off = self.before


_FILL = frozenset(
    "uniform_ normal_ fill_ zero_ random_ bernoulli_ exponential_ log_normal_ cauchy_ geometric_ copy_ eye_".split()
)


def _filled(schema):
    """Names of arguments of which nothing is read: what is in them is what lay in that memory before."""
    fills = schema.name.partition("::")[2] in _FILL
    return {a.name for i, a in enumerate(schema.arguments) if a.is_out or fills and i == 0}


def _argument(schema, i):
    return schema.arguments[i].name if i < len(schema.arguments) else ""


def _results(out, found):
    if isinstance(out, _Tensor):
        found.append(out)
    elif out.__class__ in (list, tuple):
        for item in out:
            _results(item, found)
    return found


def _loads_data():
    """Whether this process is a worker of a DataLoader's."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and worker.get_worker_info() is not None


def _fake():
    """Whether somebody computes shapes alone, or traces: what is called then is not run."""
    for i in range(_depth()):
        mode = torch._C._get_dispatch_stack_at(i)
        if mode.__class__.__name__ in ("FakeTensorMode", "ProxyTorchDispatchMode", "FunctionalTensorMode"):
            return True
    return False


def _dispatch(mode, func, types, args=(), kwargs=None):
    if kwargs is None:
        kwargs = {}
    recorder = Mode.recorder
    event = None
    fake = _depth() > 0 and _fake()
    if recorder.looking and not fake:
        way = recorder.ways.get(func)
        if way is None:
            way = recorder.ways[func] = _way(func)
        if types and any(t.__torch_dispatch__ is not _WITHOUT_DISPATCH for t in types):
            return NotImplemented  # a tensor that takes its operators apart: what it calls comes here
        if way == WHOLE:
            recorder.whole += 1
        elif way == COMPOSED and torch.is_inference_mode_enabled():
            try:
                return _taken_apart(mode, func, args, kwargs)
            except BaseException as error:
                _strip(error)
                raise
        try:
            if way in (PLAIN, COMPOSED):
                event = recorder.seen_call(func, args, kwargs)
        except Exception as err:
            guest.pass_on(err)
            recorder.failed(err)
    try:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename == _HERE:
            frame = frame.f_back
    except ValueError:  # a thread of autograd's, which Python did not start
        frame = None
    out = None
    try:
        # its __call__ does no more than this, and would be the innermost frame
        call = func._op if func.__class__ is _OpOverload and getattr(func, "_pyobj_dispatcher", None) is None else func
        out = call(*args, **kwargs) if frame is None else _site(frame)(call, args, kwargs)
    except BaseException as error:
        _strip(error)
        raise
    finally:
        if event is not None:
            try:
                recorder.returned(event, out)
            except Exception as err:
                guest.pass_on(err)
                recorder.failed(err)
    return out


_OpOverload = torch._ops.OpOverload
PLAIN, COMPOSED, MARK, WHOLE = "plain", "composed", "mark", "whole"


def _way(func):
    """Of an operator: COMPOSED of others in C++, MARK where it computes nothing (the profiler's, a tensor's device), WHOLE where it is a higher-order
    one, of which is not seen what it calls, or PLAIN."""
    if not isinstance(func, torch._ops.OpOverload):
        return WHOLE
    if func.namespace in ("profiler", "prim"):
        return MARK
    return COMPOSED if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd") else PLAIN


def _taken_apart(mode, func, args, kwargs):
    """In inference mode an operator that is made of others comes as a whole; elsewhere autograd takes it apart before."""
    _push_mode(mode)
    try:
        return func.decompose(*args, **kwargs)
    finally:
        _pop_mode()
