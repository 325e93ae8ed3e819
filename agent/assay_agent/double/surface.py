"""The Python surface of PyTorch on a Mac, as far as it is no method of a tensor: torch.mps, torch.backends.mps, torch.accelerator, generators,
storages and files, torch.cuda's refusals, DataLoader and worker processes, torch.compile, torch.distributed, optimizers.

Where PyTorch's Python asks its C++ (torch._C._mps_…), the answer is put there and PyTorch's own Python stays. Names that the release aimed at
does not have are taken away from scripts, and kept for PyTorch's own modules, which may need them; names that the installed release
does not have yet are added. Each part is installed by itself: one that fails leaves the others.
"""

import contextlib
import functools
import os
import sys
import threading
import time
import warnings

from .. import guest
from . import autocast

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

torch = None
place = None
settings = {}
series = (2, 0)
macos = (15, 0)
used = {}  # what the script used that is imitated in part or not at all: text -> times. Evidence.


def note(text):
    used[text] = used.get(text, 0) + 1


# For modes.py -----------------------------------------------------------------------------------------------------------


def cuda_error():
    """What a Mac's build says to `.cuda()` and device='cuda'."""
    return AssertionError("Torch not compiled with CUDA enabled")


# MPSHooks and MPSDevice.mm of each release: the oldest macOS that it runs on. The texts are put together without a space, as PyTorch does.
_FLOORS = (((2, 6), (12, 3), "MacOS 12.3+."), ((2, 9), (13, 0), "MacOS 13.0+."), ((2, 12), (14, 0), "MacOS 14.0+. "),
           ((2, 15), (14, 0), "macOS 14.0+. "), ((99, 0), (15, 0), "macOS 15.0+. "))


def availability_error(settings):
    """The error of the first use of the device where the macOS is too old for the release, or None."""
    release, system = tuple(settings["series"]), tuple(settings["macos"])
    for before, floor, text in _FLOORS:
        if release < before:
            if system[:2] < floor:
                return RuntimeError("The MPS backend is supported on " + text + "Current OS version can be queried using `sw_vers`")
            return None
    return None


def pin_memory_error(release):
    """The error of Tensor.pin_memory(), or None where it works: PyTorch issue 86060, PR 181720."""
    if tuple(release) >= (2, 14):
        return None
    return RuntimeError("Attempted to set the storage of a tensor on device \"cpu\" to a storage on different device \"mps:0\".  "
                        "This is no longer allowed; the devices must match.")


def collective_error(name, release, commit, fallback):
    """The error of a collective (`c10d::allreduce_`) that is given an MPS tensor, or None where it silently runs on a CPU copy: up to 2.11
    under PYTORCH_ENABLE_MPS_FALLBACK, which leaves the tensor as it was (issue 173808)."""
    release = tuple(release)
    if release >= (2, 12):
        return NotImplementedError(
            "The distributed operator '%s' is not currently implemented for the MPS device. If you want this op to be considered for addition "
            "please comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that resulted in missing op as well as "
            "commit hash %s. Please note, that distributed operators can not fall back to CPU" % (name, commit))
    if fallback:
        return None
    if release >= (2, 6):
        text = ("The operator '%s' is not currently implemented for the MPS device. If you want this op to be considered for addition please "
                "comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that resulted in missing op as well as "
                "commit hash %s." % (name, commit))
    else:
        text = ("The operator '%s' is not currently implemented for the MPS device. If you want this op to be added in priority during the "
                "prototype phase of this feature, please comment on https://github.com/pytorch/pytorch/issues/77764." % name)
    return NotImplementedError(text + " As a temporary fix, you can set the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the "
                               "CPU as a fallback for this op. WARNING: this will be slower than running natively on MPS.")


def collective_on_copies(func, args, kwargs):
    """What the fallback of 2.11 and before makes of a collective: it runs on copies, and nobody copies the result back."""
    def copied(a):
        if isinstance(a, torch.Tensor):
            return a.detach().clone() if place.on_mps(a) else a
        if isinstance(a, (list, tuple)):
            return [copied(b) for b in a]
        return a

    with place.inside():
        return func(*[copied(a) for a in args], **{k: copied(v) for k, v in (kwargs or {}).items()})


def is_mps_generator(generator):
    return generator._cdata in _mps_generators  # PyTorch hands an operator another Python object for the same generator


def _checks(wanted, found, is_wanted, text):
    def check(args, kwargs):
        generator = kwargs.get("generator")
        if generator is not None and not is_wanted(generator):
            raise RuntimeError(text % (wanted, found))
    return check


def _is_cpu_generator(generator):
    return not is_mps_generator(generator)


# at::check_generator; at::native::randperm_out has words of its own. For operators on MPS, and on the CPU.
_KIND, _PLACE = "Expected a '%s' device type for generator but found '%s'", "Expected a '%s' generator device but found '%s'"
check_generator = _checks("mps", "cpu", is_mps_generator, _KIND)
check_randperm_generator = _checks("mps:0", "cpu", is_mps_generator, _PLACE)
check_cpu_generator = _checks("cpu", "mps", _is_cpu_generator, _KIND)
check_randperm_generator_on_cpu = _checks("cpu", "mps:0", _is_cpu_generator, _PLACE)


def drawn(func, args, kwargs):
    """What an operator on MPS draws that was given no generator.

    MPS has a stream of random numbers of its own. So that values stay those of a CPU run, bit for bit, it is the CPU's here until the script
    moves the two apart: seeds one alone, or sets one alone to a state that the other is not in. Then the CPU's generator stands for MPS's.
    """
    if _shared or _bad_fork or kwargs.get("generator") is not None:
        return func(*args, **kwargs)
    cpu = torch.default_generator
    with place.inside():
        kept = cpu.get_state()
        cpu.set_state(_default.get_state())
    try:
        return func(*args, **kwargs)
    finally:
        with place.inside():
            _default.keep(cpu.get_state())
            cpu.set_state(kept)


# Operators that a script defines -------------------------------------------------------------------------------------------

_kernels = {}  # operator -> {dispatch key: a Python function}
_PLAIN_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


def is_python_kernel(name):
    return name in _kernels


def lacks_kernel(func, name):
    """Whether an operator of an extension has a kernel for the CPU alone, and none that MPS could take."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if "MPS" in _kernels.get(name, ()) or name.startswith(("aten::", "prim", "torchvision::", "quantized::")):
        return False
    return has(func.name(), "CPU") and not any(has(func.name(), key) for key in _PLAIN_KEYS[1:] + ("CompositeImplicitAutogradNestedTensor",))


def _operators(torch):
    """Kernels written in Python, by torch.library. One is called with the mode off, and what it does must be seen; one for MPS is called for
    tensors that are the CPU's here."""
    Library = torch.library.Library
    impl = Library.impl

    def watched(kernel):
        @functools.wraps(kernel)
        def run(*args, **kwargs):
            modes = sys.modules[__package__ + ".modes"]
            if place.state.off or torch._C._len_torch_dispatch_stack():
                return kernel(*args, **kwargs)
            with modes.Operators():
                return kernel(*args, **kwargs)
        return run

    @functools.wraps(impl)
    def implement(self, op_name, fn, dispatch_key="", **more):
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if key not in _PLAIN_KEYS + ("MPS",) or not callable(fn) or more.get("with_keyset") or isinstance(fn, torch._ops.OpOverload):
            return impl(self, op_name, fn, dispatch_key, **more)
        name = op_name._schema.name if hasattr(op_name, "_schema") else op_name
        overload = getattr(getattr(op_name, "_schema", None), "overload_name", "")
        name = (name if "::" in name else self.ns + "::" + name) + ("." + overload if overload else "")
        kernels = _kernels.setdefault(name, {})
        first = not kernels
        kernels[key] = fn
        if key not in ("CPU", "MPS"):
            return impl(self, op_name, watched(fn), dispatch_key, **more)
        if not first:
            return None

        def chosen(*args, **kwargs):
            there = _touches_mps(None, args, kwargs)
            return kernels["MPS" if there and "MPS" in kernels or "CPU" not in kernels else "CPU"](*args, **kwargs)

        return impl(self, op_name, watched(chosen), "CPU", **more)

    Library.impl = implement


# Helpers ----------------------------------------------------------------------------------------------------------------

_hidden = {}  # module's name -> {name: value}


def _hide(module, *names):
    """Names that the release does not have: an AttributeError for scripts. PyTorch's own modules still get them."""
    kept = _hidden.get(module.__name__)
    if kept is None:
        kept = _hidden[module.__name__] = {}
        before = vars(module).get("__getattr__")
        deprecated = vars(module).get("_deprecated_attrs") or {}

        def __getattr__(name):
            if name in kept:
                caller = sys._getframe(1).f_globals.get("__name__") or ""
                if caller == "torch" or caller.startswith("torch."):
                    return kept[name]
            elif name in deprecated:
                # As PyTorch's own __getattr__ says it, but at the script's line.
                there = deprecated[name]
                warnings.warn("'%s' is deprecated, please use '%s.%s()'" % (name, there.__module__, there.__name__), stacklevel=2)
                return there()
            elif before is not None:
                return before(name)
            raise AttributeError("module '%s' has no attribute '%s'" % (module.__name__, name))

        module.__getattr__ = __getattr__
    for name in names:
        if name in vars(module):
            kept[name] = vars(module)[name]
            delattr(module, name)
            listed = vars(module).get("__all__")
            if isinstance(listed, list) and name in listed:
                listed.remove(name)


def _has(module, name, since, make):
    """The module has the name from a release on: taken away from earlier ones, made where the installed torch lacks it."""
    if series < since:
        _hide(module, name)
    elif name not in vars(module):
        made = make() if make is not None else None
        if made is not None:
            setattr(module, name, made)
            if isinstance(vars(module).get("__all__"), list):
                module.__all__.append(name)


def _replace(old, new, *names):
    """In every module of PyTorch that has taken the object over by name."""
    for module in list(sys.modules.values()):
        if not (getattr(module, "__name__", None) or "").startswith("torch"):
            continue
        for name in names:
            try:
                if vars(module).get(name) is old:
                    setattr(module, name, new)
            except (TypeError, AttributeError):
                pass


def _account():
    ready = getattr(place, "ready", None)
    return ready() if ready is not None else place.account


def _device_type(device):
    if device is None:
        return None
    if isinstance(device, str):
        return device.partition(":")[0]
    return getattr(device, "type", None)


# torch.mps and torch.backends.mps ------------------------------------------------------------------------------------------

_bad_fork = False


def _backend(torch):
    """What torch.mps and torch.backends.mps ask of C++."""
    C = torch._C

    def newer(major, minor=0):
        return macos[:2] >= (int(major), int(minor))

    def chip():
        return settings.get("chip_name") or "Apple GPU"

    def cores():
        if settings.get("cores"):
            return int(settings["cores"])
        note("torch.backends.mps.get_core_count(): the number of GPU cores is not known, 0 was answered")
        return 0

    answers = {
        "_has_mps": True, "_mps_is_available": lambda: availability_error(settings) is None, "_mps_is_in_bad_fork": lambda: _bad_fork,
        "_mps_is_on_macos_or_newer": newer, "_mps_is_on_macos_13_or_newer": lambda minor=0: newer(13, minor),
        "_mps_get_name": chip, "_mps_get_core_count": cores, "_mps_maxBufferLength": _largest_buffer,
        "_mps_deviceSynchronize": lambda: None, "_mps_synchronize": lambda: None,
        "_mps_emptyCache": lambda: _account().empty_cache(), "_mps_setMemoryFraction": lambda f: _account().set_fraction(f),
        "_mps_currentAllocatedMemory": lambda: _account().current, "_mps_driverAllocatedMemory": _driver,
        "_mps_recommendedMaxMemory": _recommended,
        "_mps_compileShader": functools.partial(_cannot, "torch.mps.compile_shader"),
        "_mps_loadMetalllib": functools.partial(_cannot, "torch.mps.load_metallib"),
        "_mps_loadMetallibFromPath": functools.partial(_cannot, "torch.mps.load_metallib"),
        "_mps_host_alias_storage": functools.partial(_cannot, "torch.mps._host_alias_storage"),
    }
    answers.update(_event_answers())
    answers.update(_profiler_answers())
    for name, answer in answers.items():
        setattr(C, name, answer)
    if hasattr(C, "has_mps"):
        C.has_mps = True
    if "has_mps" in vars(torch):
        torch.has_mps = True
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
    backend = torch.backends.mps
    for name in ("is_available", "is_macos_or_newer", "is_macos13_or_newer", "get_name", "get_core_count"):
        clear = getattr(vars(backend).get(name), "cache_clear", None)
        if clear is not None:
            clear()

    def is_macos_or_newer():
        @functools.lru_cache()
        def is_macos_or_newer(major, minor):
            return torch._C._mps_is_on_macos_or_newer(major, minor)
        return is_macos_or_newer

    def get_name():
        @functools.lru_cache()
        def get_name():
            return torch._C._mps_get_name()
        return get_name

    def get_core_count():
        @functools.lru_cache()
        def get_core_count():
            return torch._C._mps_get_core_count()
        return get_core_count

    _has(backend, "is_macos_or_newer", (2, 3), is_macos_or_newer)
    _has(backend, "get_name", (2, 9), get_name)
    _has(backend, "get_core_count", (2, 9), get_core_count)


def _driver():
    account = _account()
    return getattr(account, "driver", account.reserved)


def _forked():
    global _bad_fork
    _bad_fork = getattr(place, "account", None) is not None


def _recommended():
    value = settings.get("recommended")
    if value is None:
        value = getattr(_account(), "recommended", None)
    if value is None:
        note("torch.mps.recommended_max_memory(): not known for this chip, 0 was answered")
        return 0
    return int(value)


def _largest_buffer():
    account = _account()
    return int(getattr(account, "max_buffer", None) or 0)


def _cannot(what, *args, why="runs Metal code, which cannot be rehearsed without a Mac's GPU", **kwargs):
    note(what + ": cannot be rehearsed")
    raise NotImplementedError("assay: %s %s" % (what, why))


def _event_answers():
    """Events by the clock of this machine: nothing runs asynchronously here, so an event has happened when it is recorded."""
    events = {}  # id -> [timing, nanoseconds]
    lock = threading.Lock()
    last = [0]

    def acquire(enable_timing):
        with lock:
            last[0] += 1
            events[last[0]] = [bool(enable_timing), 0]
            return last[0]

    def record(number):
        events[number][1] = time.perf_counter_ns()

    def elapsed(start, end):
        a, b = events[start], events[end]
        if series >= (2, 15) and not (a[1] and b[1]):
            raise RuntimeError("Both events must be recorded before calculating elapsed time")
        if not (a[0] and b[0] and a[1] and b[1]):
            raise RuntimeError("Events were not created with argument 'enable_timing=True'")
        if b[1] <= a[1]:
            raise RuntimeError("End event %d was not recorded after start event %d" % (end, start))
        return (b[1] - a[1]) * 1e-6

    return {"_mps_acquireEvent": acquire, "_mps_releaseEvent": lambda number: events.pop(number, None), "_mps_recordEvent": record,
            "_mps_waitForEvent": lambda number: None, "_mps_queryEvent": lambda number: True,
            "_mps_synchronizeEvent": lambda number: None, "_mps_elapsedTimeOfEvents": elapsed}


def _profiler_answers():
    tracing = [False]
    capturing = [False]

    def start(mode, wait=False):
        for token in mode.split(","):
            if token not in ("interval", "event"):
                raise RuntimeError("Invalid Signpost trace mode: " + token)
        if tracing[0]:
            raise RuntimeError("Tracing Signposts is already enabled ")
        tracing[0] = True
        note("torch.mps.profiler: no signposts are made on the double")

    def stop():
        tracing[0] = False

    def start_capture(name):
        capturing[0] = True
        note("torch.mps.profiler.metal_capture: nothing is captured on the double")

    def stop_capture():
        capturing[0] = False

    return {"_mps_profilerStartTrace": start, "_mps_profilerStopTrace": stop,
            "_mps_isCaptureEnabled": lambda: os.environ.get("MTL_CAPTURE_ENABLED") == "1", "_mps_isCapturing": lambda: capturing[0],
            "_mps_startCapture": start_capture, "_mps_stopCapture": stop_capture}


_Stream = None  # torch.mps.Stream, made when torch is there


def _streams(torch):
    """Streams and events. Nothing runs asynchronously here: streams differ by number only, and what is recorded has happened."""
    global _Stream
    C = torch._C
    Base = torch.Stream
    device = torch.device("mps", 0)
    kind = 13  # c10::DeviceType::MPS
    made = [0]

    class Stream(Base):
        """Wrapper around an MPS stream."""

        def __new__(cls, *args, stream_id=None, **kwargs):
            if stream_id is None:
                made[0] += 1
                stream_id = made[0]
            return Base.__new__(cls, stream_id=stream_id, device_index=0, device_type=kind)

        def __init__(self, *args, **kwargs):
            pass

        def synchronize(self):
            """Wait for all the kernels in this stream to complete."""

        def query(self):
            return True

        def is_capturing(self):
            return False

        def wait_event(self, event):
            pass

        def wait_stream(self, stream):
            pass

        def record_event(self, event=None):
            event = Event() if event is None else event
            event.record(self)
            return event

        def __enter__(self):
            self._before = _current_stream()
            _set_stream(self)
            return self

        def __exit__(self, *error):
            _set_stream(self._before)

        def __eq__(self, other):
            return isinstance(other, Base) and (other.device, other.stream_id) == (device, self.stream_id)

        def __hash__(self):
            return hash(("mps", self.stream_id))

        def __repr__(self):
            return "<torch.mps.Stream stream_id=%d>" % self.stream_id

    Stream.__qualname__ = "Stream"
    Stream.__module__ = "torch.mps.streams"
    _Stream = Stream

    class Event:
        """torch.Event on MPS."""

        def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
            self.device, self._timing, self._at = torch.device("mps", 0), enable_timing, 0

        @property
        def event_id(self):
            return id(self) if self._at else 0

        def record(self, stream=None):
            self._at = time.perf_counter_ns()

        def wait(self, stream=None):
            pass

        def query(self):
            return True

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            if not (self._timing and end._timing):
                raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
            if not (self._at and end._at):
                raise RuntimeError("Both events must be recorded before calculating elapsed time.")
            return (end._at - self._at) * 1e-6

        def __repr__(self):
            return "torch.Event device_type=mps, device_index=0, event_flag=%d, event_id=%d" % (not self._timing, self.event_id)

    _either(torch, "Stream", Base, Stream)
    if hasattr(torch, "Event"):
        _either(torch, "Event", torch.Event, Event)


def _either(torch, name, Base, Ours):
    """torch.NAME makes ours for MPS, and for no device, as the accelerator is MPS."""
    class Meta(type(Base)):
        def __instancecheck__(cls, it):
            return isinstance(it, (Base, Ours)) if cls is Either else type.__instancecheck__(cls, it)

        def __subclasscheck__(cls, it):
            return issubclass(it, (Base, Ours)) if cls is Either else type.__subclasscheck__(cls, it)

    class Either(Base, metaclass=Meta):
        def __new__(cls, *args, **kwargs):
            kind = _device_type(args[0] if args else kwargs.get("device"))
            if cls is Either and (kind == "mps" or kind is None and not ({"device_type", "stream_id"} & set(kwargs))):
                return Ours(*args, **kwargs)
            if kind == "cuda":
                raise cuda_error()
            return Base.__new__(cls, *args, **kwargs) if cls is not Either else Base(*args, **kwargs)

    Either.__name__ = Either.__qualname__ = name
    Either.__module__ = "torch"
    Either.__doc__ = Base.__doc__
    _replace(Base, Either, name)
    setattr(torch, name, Either)


_current = threading.local()


def _current_stream():
    return getattr(_current, "stream", None) or _Stream(stream_id=0)


def _set_stream(stream):
    if stream is not None:
        _current.stream = stream


@contextlib.contextmanager
def _stream(stream):
    before = _current_stream()
    _set_stream(stream)
    try:
        yield
    finally:
        if stream is not None:
            _set_stream(before)


def _names_of_mps(torch):
    mps = torch.mps
    C = torch._C
    import types

    def function(name, call, doc=None):
        def make():
            call.__name__ = call.__qualname__ = name
            call.__module__ = "torch.mps"
            return call
        return make

    def device_count():
        return int(C._has_mps and C._mps_is_available())

    def is_available():
        return device_count() > 0

    def recommended_max_memory():
        return C._mps_recommendedMaxMemory()

    def compile_shader(source):
        return C._mps_compileShader(source)

    def load_metallib(source):
        return C._mps_loadMetalllib(source)

    def _host_alias_storage(storage):
        return C._mps_host_alias_storage(storage)

    # Streams: the installed ones, where there are any, are made of a class that a Linux build does not have.
    C._mps_getCurrentStream, C._mps_setStream = _current_stream, _set_stream
    for name, call in (("Stream", _Stream), ("stream", _stream), ("current_stream", _current_stream), ("set_stream", _set_stream),
                       ("default_stream", lambda: _Stream(stream_id=0))):
        call.__module__ = "torch.mps.streams" if name == "Stream" else "torch.mps"
        installed = name in vars(mps) and not isinstance(vars(mps)[name], types.ModuleType)
        if installed or series >= (2, 15):
            setattr(mps, name, call)
            if series >= (2, 15) and name not in mps.__all__:
                mps.__all__.append(name)
        if series < (2, 15):
            _hide(mps, name)

    _has(mps, "device_count", (2, 4), function("device_count", device_count))
    _has(mps, "recommended_max_memory", (2, 5), function("recommended_max_memory", recommended_max_memory))
    if "is_available" in vars(mps):  # PyTorch's own looks for device_count by its bare name, which may be hidden
        mps.is_available = functools.wraps(mps.is_available)(is_available)
    _has(mps, "is_available", (2, 5), function("is_available", is_available))
    _has(mps, "load_metallib", (2, 13), function("load_metallib", load_metallib))
    _has(mps, "_host_alias_storage", (2, 13), function("_host_alias_storage", _host_alias_storage))
    if series >= (2, 7):
        _hide(mps, "_compile_shader")
        _has(mps, "compile_shader", (2, 7), function("compile_shader", compile_shader))
    else:
        _hide(mps, "compile_shader")
        _has(mps, "_compile_shader", (2, 6), function("_compile_shader", compile_shader))
    if series < (2, 4):
        # The device argument came in 2.4.
        def get_rng_state():
            return mps._get_default_mps_generator().get_state()

        def set_rng_state(new_state):
            mps._get_default_mps_generator().set_state(new_state)

        inner_get, inner_set = mps.get_rng_state, mps.set_rng_state

        def by_caller(public, inner):
            @functools.wraps(public)
            def call(*args, **kwargs):
                caller = sys._getframe(1).f_globals.get("__name__") or ""
                return inner(*args, **kwargs) if caller.startswith("torch") and (len(args) + len(kwargs)) else public(*args, **kwargs)
            return call

        mps.get_rng_state, mps.set_rng_state = by_caller(get_rng_state, inner_get), by_caller(set_rng_state, inner_set)
    elif not mps.get_rng_state.__code__.co_argcount:
        def get_rng_state(device="mps"):
            return mps._get_default_mps_generator().get_state()

        def set_rng_state(new_state, device="mps"):
            mps._get_default_mps_generator().set_state(new_state.clone(memory_format=torch.contiguous_format))

        mps.get_rng_state = functools.wraps(mps.get_rng_state)(get_rng_state)
        mps.set_rng_state = functools.wraps(mps.set_rng_state)(set_rng_state)

    profiler = mps.profiler

    @contextlib.contextmanager
    def metal_capture(fname):
        try:
            C._mps_startCapture(fname)
            yield
        finally:
            C._mps_stopCapture()

    _has(profiler, "metal_capture", (2, 7), lambda: metal_capture)
    _has(profiler, "is_metal_capture_enabled", (2, 7), lambda: lambda: C._mps_isCaptureEnabled())
    _has(profiler, "is_capturing_metal", (2, 7), lambda: lambda: C._mps_isCapturing())
    if series >= (2, 15) and "Event" in vars(mps):
        record, wait = mps.Event.record, mps.Event.wait

        def default_only(call):
            @functools.wraps(call)
            def checked(self):
                if _current_stream() != _Stream(stream_id=0):
                    raise NotImplementedError("Non-default streams are not yet supported.")
                return call(self)
            return checked

        mps.Event.record, mps.Event.wait = default_only(record), default_only(wait)


# Random numbers --------------------------------------------------------------------------------------------------------------

_mps_generators = set()  # addresses of the GeneratorImpl
_default = None  # MPS's default generator
_shared = True  # it draws from the CPU's stream
_STATE = 5056  # bytes of a CPU generator's state


def _generators(torch):
    """Generators for MPS are CPU generators that say otherwise. torch.Generator is replaced by a class that makes either."""
    global _default
    Base = torch._C.Generator
    device = torch.device("mps", 0)

    class OfMPS(Base):
        def __new__(cls, device=None):
            made = Base.__new__(cls, "cpu")
            _mps_generators.add(made._cdata)
            return made

        def __del__(self, forget=_mps_generators.discard):  # bound: globals may be gone when the interpreter ends
            forget(self._cdata)

        @property
        def device(self):
            return device

        def set_state(self, state):
            return Base.set_state(self, _usable_state(self, state))

        def clone_state(self):
            other = OfMPS()
            other.set_state(self.get_state())
            return other

        def __reduce__(self):
            return _generator, ("mps",), (self.initial_seed(), self.get_state())

        def __setstate__(self, state):
            Base.manual_seed(self, state[0])
            Base.set_state(self, state[1])

    class Default(OfMPS):
        """Shares the CPU's stream until the script parts them."""

        def manual_seed(self, seed):
            _part(self)
            Base.manual_seed(self, seed)
            return self

        def seed(self):
            _part(self)
            return Base.seed(self)

        def initial_seed(self):
            return torch.default_generator.initial_seed() if _shared else Base.initial_seed(self)

        def get_state(self):
            return torch.default_generator.get_state() if _shared else Base.get_state(self)

        def set_state(self, state):
            global _shared
            with place.inside():
                state = _usable_state(self, state)
                Base.set_state(self, state)
                # Back where the CPU's generator is, as after torch.random.fork_rng: one stream again.
                _shared = torch.equal(state, torch.default_generator.get_state())
            return self

        def keep(self, state):
            Base.set_state(self, state)

    class Either(type(Base)):
        def __instancecheck__(cls, it):
            return isinstance(it, Base) if cls is Generator else type.__instancecheck__(cls, it)

        def __subclasscheck__(cls, it):
            return issubclass(it, Base) if cls is Generator else type.__subclasscheck__(cls, it)

    class Generator(Base, metaclass=Either):
        def __new__(cls, device=None):
            kind = _device_type(device)
            if kind == "mps" or isinstance(device, int) and not isinstance(device, bool):
                error = availability_error(settings)
                if error is not None:
                    raise error
                return OfMPS()
            if kind == "cuda":
                raise cuda_error()
            if cls is not Generator:
                return Base.__new__(cls, "cpu" if device is None else device)
            return Base("cpu" if device is None else device)

    for cls in (OfMPS, Default, Generator):
        cls.__name__ = cls.__qualname__ = "Generator"
        cls.__module__ = "torch._C"
    Generator.__doc__ = Base.__doc__
    _default = Default()
    with place.inside():
        Base.set_state(_default, torch.default_generator.get_state())
    torch._C._mps_get_default_generator = lambda: _default
    if getattr(torch.mps, "_default_mps_generator", None) is not None:
        torch.mps._default_mps_generator = _default
    _replace(Base, Generator, "Generator")
    torch._C.Generator = torch.Generator = Generator

    for name in ("manual_seed", "seed"):
        call = getattr(torch, name)
        _replace(call, _seeding(call), name)


def _generator(device):
    return torch.Generator(device=device)


def _part(generator):
    global _shared
    _shared = False


def _seeding(call):
    """torch.manual_seed and torch.seed seed both streams alike: they are one again."""
    @functools.wraps(call)
    def seeding(*args, **kwargs):
        global _shared
        out = call(*args, **kwargs)
        if not _bad_fork:
            _shared = True
        return out
    return seeding


def _usable_state(generator, state):
    """States of a Mac's generator are shorter than those of the CPU's: such a one seeds."""
    if not hasattr(state, "numel") or state.numel() == _STATE:
        return state
    if state.numel() not in (28, 36, 44):
        return state  # and PyTorch will say what is wrong with it
    note("a generator's state saved on a Mac was set: the double seeds itself from it, the numbers are not the Mac's")
    seed = 0
    with place.inside():
        for byte in state.tolist():
            seed = (seed * 1099511628211 + byte) % (1 << 63)
        other = torch._C.Generator("cpu")
        other.manual_seed(seed)
        return other.get_state()


# torch.accelerator -----------------------------------------------------------------------------------------------------------


def _accelerators(torch):
    import types

    C = torch._C
    mps = torch.device("mps")

    def not_generic():
        # Until 2.13 the MPS allocator was none of the kind that torch.accelerator asks (PR 186748).
        if series < (2, 13):
            raise RuntimeError('device_allocator INTERNAL ASSERT FAILED at "c10/core/CachingDeviceAllocator.h", please report a bug to PyTorch. '
                               "Allocator for mps is not a DeviceAllocator.")

    def initialized():
        not_generic()
        return getattr(place, "account", None) is not None

    def empty_cache():
        not_generic()
        _account().empty_cache()

    def reset_peak(index=0):
        not_generic()
        _account().reset_peak()

    def memory_info(index=0):
        not_generic()
        total = _recommended()
        return max(0, total - _driver()), total

    def stats(index=0):
        not_generic()
        account = _account()

        def row(now, peak):
            return {"all": {"current": now, "peak": peak}, "small_pool": {"current": 0, "peak": 0}, "large_pool": {"current": 0, "peak": 0}}

        active = row(account.current, account.peak_current) if series >= (2, 15) else row(0, 0)  # PR 193838
        return {"allocated_bytes": row(account.current, account.peak_current), "reserved_bytes": row(account.reserved, account.peak_reserved),
                "active_bytes": active, "num_ooms": getattr(account, "refusals", 0)}

    def capability(index=0):
        refused = {torch.float64, torch.complex128}
        return {"supported_dtypes": {d for d in vars(torch).values() if isinstance(d, torch.dtype) and d not in refused}}

    answers = {"_accelerator_getAccelerator": lambda: mps, "_accelerator_getDeviceIndex": lambda: 0,
               "_accelerator_setDeviceIndex": lambda index: None, "_accelerator_getStream": lambda index=0: _Stream(stream_id=0),
               "_accelerator_setStream": lambda stream: None, "_accelerator_synchronizeDevice": lambda index=0: None,
               "_accelerator_exchangeDevice": lambda index: 0, "_accelerator_maybeExchangeDevice": lambda index: 0,
               "_accelerator_isAllocatorInitialized": initialized, "_accelerator_emptyCache": empty_cache,
               "_accelerator_emptyHostCache": lambda: None, "_accelerator_getDeviceStats": stats,
               "_accelerator_resetAccumulatedStats": lambda index=0: not_generic(), "_accelerator_resetPeakStats": reset_peak,
               "_accelerator_getMemoryInfo": memory_info, "_accelerator_getDeviceCapability": capability,
               "_accelerator_getDefaultGenerator": lambda index=0: _default}
    for name, answer in answers.items():
        setattr(C, name, answer)
    if hasattr(C, "_get_accelerator"):
        C._get_accelerator = lambda *args: mps
    if series < (2, 6):
        if "accelerator" in vars(torch):
            _hide(torch, "accelerator")
        return
    accelerator = vars(torch).get("accelerator")
    if accelerator is None:
        accelerator = types.ModuleType("torch.accelerator", "As of PyTorch 2.6 or later, made by assay's double for an older one.")
        accelerator.__all__ = []
        sys.modules["torch.accelerator"] = torch.accelerator = accelerator

    def current_accelerator(check_available=False):
        return mps if not check_available or torch.backends.mps.is_available() else None

    class device_index:
        def __init__(self, device):
            self.idx = device

        def __enter__(self):
            return None

        def __exit__(self, *error):
            return None

    def flat(index=None):
        if not initialized():
            return {}
        return {".".join((a, b, c)): n for a, pools in stats().items() if isinstance(pools, dict) for b, row in pools.items()
                for c, n in row.items()}

    def get(key):
        return lambda index=None: flat(index).get(key, 0)

    def device_count():
        return int(torch.backends.mps.is_available())

    names = {
        "device_count": ((2, 6), device_count), "is_available": ((2, 6), lambda: device_count() > 0),
        "current_accelerator": ((2, 6), current_accelerator), "current_device_index": ((2, 6), lambda: 0),
        "current_device_idx": ((2, 6), lambda: 0), "set_device_index": ((2, 6), lambda device: None),
        "set_device_idx": ((2, 6), lambda device: None), "current_stream": ((2, 6), lambda device=None: _Stream(stream_id=0)),
        "set_stream": ((2, 6), lambda stream: None), "synchronize": ((2, 6), lambda device=None: None),
        "device_index": ((2, 8), device_index), "empty_cache": ((2, 9), lambda: empty_cache() if initialized() else None),
        "memory_stats": ((2, 9), flat), "memory_allocated": ((2, 9), get("allocated_bytes.all.current")),
        "max_memory_allocated": ((2, 9), get("allocated_bytes.all.peak")), "memory_reserved": ((2, 9), get("reserved_bytes.all.current")),
        "max_memory_reserved": ((2, 9), get("reserved_bytes.all.peak")),
        "reset_accumulated_memory_stats": ((2, 9), lambda index=None: None if initialized() else None),
        "reset_peak_memory_stats": ((2, 9), lambda index=None: reset_peak() if initialized() else None),
        "get_memory_info": ((2, 10), lambda index=None: memory_info()), "get_device_capability": ((2, 10), lambda device=None: capability()),
        "Graph": ((2, 12), None), "empty_host_cache": ((2, 12), lambda: None), "random": ((2, 14), None), "memory": ((2, 9), None),
    }
    for name, (since, call) in names.items():
        if call is not None and name not in vars(accelerator) and since <= series:
            call.__name__ = call.__qualname__ = name
            call.__module__ = "torch.accelerator"
        _has(accelerator, name, since, (lambda call: lambda: call)(call))
    if series < (2, 7) and "check_available" in getattr(accelerator.current_accelerator, "__code__", _nothing.__code__).co_varnames:
        def without_check():
            return mps
        without_check.__name__ = without_check.__qualname__ = "current_accelerator"
        inner = accelerator.current_accelerator

        @functools.wraps(without_check)
        def current(*args, **kwargs):
            caller = sys._getframe(1).f_globals.get("__name__") or ""
            return (inner if caller.startswith("torch.") else without_check)(*args, **kwargs)

        accelerator.current_accelerator = current
    clear = getattr(vars(accelerator).get("get_device_capability"), "cache_clear", None)
    if clear is not None:
        clear()


def _nothing():
    """Stands where a function may be missing."""


# Storages and files ----------------------------------------------------------------------------------------------------------


def _storage_on_mps(storage):
    live = getattr(place, "_live", None)
    if live is not None:
        return storage._cdata in live
    with place.inside():
        return place.on_mps(torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage))


def _mark_storage(storage):
    with place.inside():
        whole = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
    place.mark(whole)
    return storage


def _storages(torch):
    Storage = torch.UntypedStorage
    Base = torch._C.StorageBase
    device = torch.device("mps", 0)
    get_device = Storage.device  # a getset of C++
    new = Storage.__new__

    def get(self):
        return device if _storage_on_mps(self) else get_device.__get__(self)

    def __new__(cls, *args, **kwargs):
        kind = _device_type(kwargs.get("device"))
        if kind == "mps":
            error = availability_error(settings)
            if error is not None:
                raise error
            return _mark_storage(new(cls, *args, **dict(kwargs, device="cpu")))
        if kind == "cuda":
            raise cuda_error()
        return new(cls, *args, **kwargs)

    def mps(self):
        """A copy on MPS, or the storage itself where it is there."""
        if _storage_on_mps(self):
            return self
        with place.inside():
            copy = Storage(self.nbytes()).copy_(self, False)
        return _mark_storage(copy)

    def cpu(self):
        """A copy on the CPU, or the storage itself where it is there."""
        if not _storage_on_mps(self):
            return self
        with place.inside():
            return Storage(self.nbytes()).copy_(self, False)

    share_memory = Storage.share_memory_

    @functools.wraps(share_memory)
    def share_memory_(self):
        if not _storage_on_mps(self):
            return share_memory(self)
        if series < (2, 13):  # from then on nothing happens where a storage is on no CPU
            self._share_filename_cpu_() if torch.multiprocessing.get_sharing_strategy() == "file_system" else self._share_fd_cpu_()
        return self

    def only_on_cpu(name):
        share = getattr(Storage, name)
        text = name.replace("_cpu_", "_") + ": only available on CPU"

        @functools.wraps(share)
        def sharing(self, *args, **kwargs):
            if _storage_on_mps(self):
                raise RuntimeError(text)
            return share(self, *args, **kwargs)
        return sharing

    for name in ("_share_fd_cpu_", "_share_filename_cpu_"):
        if hasattr(Storage, name):
            setattr(Storage, name, only_on_cpu(name))
    Storage.device = property(get)
    Storage.__new__ = staticmethod(__new__)
    Storage.mps, Storage.share_memory_ = mps, share_memory_
    Storage.cpu = cpu
    if series < (2, 1):
        _equality_of_locations(torch)
    if series < (2, 6) and hasattr(torch.serialization, "_default_to_weights_only"):
        torch.serialization._default_to_weights_only = lambda pickle_module: False  # the default of torch.load's weights_only, from 2.6 on True
    load = torch.jit.load

    @functools.wraps(load)
    def jit_load(f, map_location=None, *args, **kwargs):
        if _device_type(map_location) != "mps":
            return load(f, map_location, *args, **kwargs)
        return load(f, "cpu", *args, **kwargs).to(map_location)

    torch.jit.load = jit_load


def _equality_of_locations(torch):
    """2.0 compared the location with 'mps': 'mps:0' was not found."""
    registry = torch.serialization._package_registry
    for at, entry in enumerate(registry):
        if getattr(entry[-1], "__name__", "") == "_mps_deserialize":
            registry[at] = entry[:-1] + (lambda storage, location: storage.mps() if location == "mps" else None,)


# CUDA on a Mac ------------------------------------------------------------------------------------------------------------------


def _no_cuda(torch):
    """A Mac's build has no CUDA: its functions are not there, and PyTorch's Python says what it says then."""
    C = torch._C
    cuda = torch.cuda
    for name in list(vars(C)):
        if name.startswith(("_cuda_", "_nccl_")) or name in ("_cudart", "_nvtx", "_cudnn", "_CudaDeviceProperties", "_FastCudaLauncher",
                                                             "_StaticCudaLauncher", "_CUDAPluggableAllocator"):
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

    for name, call in (("is_available", is_available), ("device_count", device_count), ("_lazy_init", _lazy_init), ("_is_compiled", is_available)):
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


# GradScaler and torch.cuda.amp ---------------------------------------------------------------------------------------------------

_FLOAT64 = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead."


def _scalers(torch):
    amp = torch.amp
    module = sys.modules.get("torch.amp.grad_scaler") or sys.modules.get("torch.cuda.amp.grad_scaler")
    scaler = module.GradScaler
    if series < (2, 3):
        _hide(amp, "GradScaler")
        _hide(torch, "GradScaler")
        if module.__name__ == "torch.amp.grad_scaler":
            _hide(module, "GradScaler")
    states = module.OptState
    unscale = scaler.unscale_

    @functools.wraps(unscale)
    def unscale_(self, optimizer):
        scale = getattr(self, "_scale", None)
        if not self._enabled or scale is None or not place.on_mps(scale):
            return unscale(self, optimizer)
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is states.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is states.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        if series < (2, 8):
            # scale.double().reciprocal().float()
            refuse = getattr(sys.modules.get(__package__ + ".modes"), "refused", lambda name, cause, error: error)
            raise refuse("aten::_to_copy", "dtype", TypeError(_FLOAT64))
        inverse = scale.reciprocal()
        found = torch.full((), 0.0, dtype=torch.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        state["stage"] = states.UNSCALED
        return None

    scaler.unscale_ = unscale_
    cuda_amp = torch.cuda.amp
    for cls, text in ((cuda_amp.autocast, "autocast"), (cuda_amp.GradScaler, "GradScaler")):
        if cls in (autocast_class(), None) or text == "GradScaler" and series < (2, 3):
            continue
        _deprecated(cls, "`torch.cuda.amp.%s(args...)` is deprecated. Please use `torch.amp.%s('cuda', args...)` instead." % (text, text))


def autocast_class():
    return sys.modules["torch.amp.autocast_mode"].autocast


def _deprecated(cls, text):
    """From 2.4 on the CUDA spellings warn; the installed torch may be older or newer than that."""
    warns = getattr(cls, "__deprecated__", None) or getattr(vars(cls).get("__init__"), "__deprecated__", None)
    if series >= (2, 4) and not warns:
        init = cls.__init__

        @functools.wraps(init)
        def __init__(self, *args, **kwargs):
            warnings.warn(text, FutureWarning, stacklevel=2)
            init(self, *args, **kwargs)

        cls.__init__ = __init__
    elif series < (2, 4) and warns:
        for name in ("__new__", "__init__"):
            call = vars(cls).get(name)
            inner = getattr(getattr(call, "__func__", call), "__wrapped__", None)
            if inner is not None:
                setattr(cls, name, staticmethod(inner) if name == "__new__" else inner)


# DataLoader and processes -----------------------------------------------------------------------------------------------------------


def _processes(torch):
    """A Mac starts workers by spawn, hands tensors between processes by file name, and calls its processor `arm`, by which Lightning knows it."""
    import multiprocessing
    import platform
    from multiprocessing import context

    default = context._default_context
    if getattr(default, "_actual_context", None) is None:  # the script has not chosen
        default._default_context = multiprocessing.get_context("spawn")
    platform.processor = lambda: "arm"
    sharing = torch.multiprocessing
    sharing.set_sharing_strategy("file_system")
    sharing._all_sharing_strategies = {"file_system"}


def _descriptors(torch):
    """256 open files: what a shell on macOS hands down."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > 256:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))


def _loaders(torch):
    """Pinned memory in a DataLoader: refused with a warning from 2.7 on, ignored before."""
    import torch.utils.data.dataloader as dataloader

    base = dataloader._BaseDataLoaderIter
    init = base.__init__

    @functools.wraps(init)
    def __init__(self, loader):
        pin, device = loader.pin_memory, loader.pin_memory_device
        if not pin and not device:
            init(self, loader)
            return
        before, keep = _pinning(pin, device), (pin, device)
        for text in before[0]:
            warnings.warn(text, stacklevel=_script_level())
        loader.pin_memory, loader.pin_memory_device = False, ""
        try:
            init(self, loader)
        finally:
            loader.pin_memory, loader.pin_memory_device = keep
        self._pin_memory, self._pin_memory_device = before[1], before[2]

    base.__init__ = __init__


def _script_level():
    frame, level = sys._getframe(1), 1
    while frame is not None and (frame.f_globals.get("__name__") or "").startswith(("torch.", "assay_agent.")):
        frame, level = frame.f_back, level + 1
    return level


def _pinning(pin, device):
    """(warnings, whether it pins, on which device) of an iterator over a DataLoader."""
    available = torch.backends.mps.is_available()
    unused = "'pin_memory' argument is set as true but not supported on MPS now, device pinned memory won't be used."
    nothing = "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used."
    if series < (2, 7):
        if not device:
            return [], False, None
        if not pin:
            return ["pin memory device is set and pin_memory flag is not used then device pinned memory won't be used"
                    "please set pin_memory to true, if you need to use the device pin memory"], False, None
        return [], True, device
    if series < (2, 9):
        if device:
            if not pin:
                return ["'pin_memory_device' is set but 'pin_memory' argument is not set, then device pinned memory won't be used."
                        "please set 'pin_memory' to true, if you need to use the device pin memory"], False, None
            return [], True, device
        return [unused if available else nothing], False, None
    if not pin:
        return [], False, None
    said = []
    if device:
        said.append("pin_memory_device is deprecated, the current accelerator will be used as the device,"
                    "ignore pin_memory_device='%s'." % device)
    said.append(unused if available else nothing)
    return said, False, "mps" if available else None


# torch.compile --------------------------------------------------------------------------------------------------------------------------


def _compilers(torch):
    """torch.compile runs what it is given as it is. Up to 2.6 the default compiler refuses MPS tensors."""
    before = torch.compile

    @functools.wraps(before)
    def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False, **more):
        if mode is not None and options is not None:
            raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
        if model is None:
            return lambda model: compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                                         disable=disable, **more)
        import torch._dynamo
        if backend == "inductor":
            torch._TorchCompileInductorWrapper("default" if mode is None and options is None else mode, options, dynamic)
        elif isinstance(backend, str):
            torch._dynamo.lookup_backend(backend)  # raises InvalidBackend
        if disable:
            return model
        note("torch.compile: compiled code cannot be rehearsed; the function ran as it is written")
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
        if place.on_mps(tensor):
            _cannot("tracing of tensors on MPS (torch.export, torch._dynamo, FakeTensorMode)", why="cannot be done without a build of PyTorch for a Mac")
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
            if inductor and series < (2, 7) and _touches_mps(fn, args, kwargs):
                raise _inductor_error()
            return fn(*args, **kwargs)

        run._torchdynamo_orig_callable = fn
        run.get_compiler_config = lambda: {}
        return run


def _touches_mps(fn, args, kwargs):
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        for tensors in (owner.parameters(), owner.buffers()):
            if any(place.on_mps(t) for t in tensors):
                return True
    pending = list(args) + list(kwargs.values())
    while pending:
        a = pending.pop()
        if isinstance(a, torch.Tensor):
            if place.on_mps(a):
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


# torch.distributed -----------------------------------------------------------------------------------------------------------------------


def _distributed(torch):
    import torch.distributed as distributed
    if not distributed.is_available():
        return
    import torch.distributed.distributed_c10d as c10d
    for name in ("_NCCL_AVAILABLE", "_UCC_AVAILABLE"):
        if hasattr(c10d, name):
            setattr(c10d, name, False)
    for module in (distributed, c10d, sys.modules.get("torch._C._distributed_c10d")):
        for name in ("ProcessGroupNCCL", "ProcessGroupUCC"):
            if module is not None and name in vars(module):
                delattr(module, name)
    devices = getattr(c10d.Backend, "default_device_backend_map", None)
    if devices is not None:
        if series >= (2, 8):
            devices["mps"] = "gloo"
        else:
            devices.pop("mps", None)


# Optimizers ---------------------------------------------------------------------------------------------------------------------------


def _optimizers(torch):
    """Optimizers choose by the device of their parameters."""
    utils = sys.modules.get("torch.utils._foreach_utils")
    if utils is None:
        import torch.utils._foreach_utils as utils
    fused = utils._get_fused_kernels_supported_devices
    listed = fused()
    private = torch._C._get_privateuse1_backend_name()
    if series < (2, 4):
        wanted = ["cuda", "xpu", private]
    elif series < (2, 5):
        wanted = ["cuda", "xpu", "cpu", private]
    else:
        wanted = listed if "mps" in listed else ["mps"] + listed
    if wanted != listed:
        def _get_fused_kernels_supported_devices():
            return list(wanted)

        functools.update_wrapper(_get_fused_kernels_supported_devices, fused)
        _replace(fused, _get_fused_kernels_supported_devices, "_get_fused_kernels_supported_devices")
    optimizer = sys.modules.get("torch.optim.optimizer")
    check = vars(optimizer).get("_device_dtype_check_for_fused") if optimizer else None
    if check is not None and series < (2, 5):
        def _device_dtype_check_for_fused(p, cuda_unsupported=False):
            if not (p.device.type in wanted and torch.is_floating_point(p)):
                raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices: %s." % wanted)

        _replace(check, functools.wraps(check)(_device_dtype_check_for_fused), "_device_dtype_check_for_fused")
    if series < (2, 5):
        for name in ("Adam", "AdamW", "SGD", "Adagrad"):
            _fused_in_constructor(getattr(torch.optim, name), wanted)
    group = getattr(torch._C, "_group_tensors_by_device_and_dtype", None)
    if group is not None:
        torch._C._group_tensors_by_device_and_dtype = _grouping(group)


def _fused_in_constructor(cls, devices):
    """Up to 2.4 fused=True was refused when the optimizer was made, later when it first runs."""
    init = cls.__init__

    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        if any(group.get("fused") for group in self.param_groups) and not all(
                p.device.type in devices and torch.is_floating_point(p) for group in self.param_groups for p in group["params"]):
            raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices: %s." % devices)

    cls.__init__ = __init__


def _grouping(group):
    """C++ sees CPU tensors: name the device of each group, and part those that live on MPS from those that do not."""
    @functools.wraps(group)
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
        first = tensorlistlist[0] if tensorlistlist else ()
        where = [t is not None and place.on_mps(t) for t in first]
        if not any(where):
            return group(tensorlistlist, with_indices)
        out = {}
        for on in (True, False):
            chosen = [i for i, there in enumerate(where) if there is on]
            if not chosen:
                continue
            lists = [[ts[i] for i in chosen] if ts else ts for ts in tensorlistlist]
            for (device, dtype), (tensors, indices) in group(lists, with_indices).items():
                out[(torch.device("mps", 0) if on else device, dtype)] = (tensors, [chosen[i] for i in indices])
        return out

    return _group_tensors_by_device_and_dtype


# Everything -------------------------------------------------------------------------------------------------------------------------------

def _tracing(torch):
    """torch.jit.trace records what conv2d calls, _convolution, and not convolution (tools/autograd/gen_trace_type.py, DONT_RECORD_TRACE); a dispatch
    mode takes convolution, so that nothing would be recorded. While a trace is made, the functions call _convolution themselves."""
    F = torch.nn.functional

    def recorded(original, n, transposed):
        def each(value):
            return [value] * n if isinstance(value, int) else list(value) * (n if len(value) == 1 else 1)

        def transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
            return input, weight, bias, stride, padding, dilation, output_padding, groups

        def plain(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
            return input, weight, bias, stride, padding, dilation, 0, groups

        def conv(*args, **kwargs):
            input, weight, bias, stride, padding, dilation, output_padding, groups = (transpose if transposed else plain)(*args, **kwargs)
            if isinstance(padding, str) or input.dim() != n + 2:
                return original(*args, **kwargs)
            return torch._convolution(input, weight, bias, each(stride), each(padding), each(dilation), transposed, each(output_padding), groups,
                                      False, False, True, True)

        return conv

    names = [("conv%s%dd" % (kind, n), n, bool(kind)) for n in (1, 2, 3) for kind in ("", "_transpose")]

    def wrapped(call):
        @functools.wraps(call)
        def traced(*args, **kwargs):
            before = [(owner, name, getattr(owner, name)) for owner in (F, torch) for name, _, _ in names]
            for owner in (F, torch):
                for name, n, transposed in names:
                    setattr(owner, name, recorded(getattr(owner, name), n, transposed))
            try:
                return call(*args, **kwargs)
            finally:
                for owner, name, original in before:
                    setattr(owner, name, original)

        return traced

    for owner in (torch.jit, torch.jit._trace):
        for name in ("trace", "trace_module", "_get_trace_graph"):
            if hasattr(owner, name):
                setattr(owner, name, wrapped(getattr(owner, name)))


_PARTS = (("torch.backends.mps", _backend), ("generators", _generators), ("streams", _streams), ("torch.mps", _names_of_mps), ("torch.accelerator", _accelerators),
          ("storages", _storages), ("torch.cuda", _no_cuda), ("GradScaler", _scalers), ("processes", _processes),
          ("file descriptors", _descriptors), ("DataLoader", _loaders), ("torch.compile", _compilers), ("torch.distributed", _distributed),
          ("optimizers", _optimizers), ("torch.library", _operators), ("torch.jit.trace", _tracing))


def install(the_torch, the_settings, the_place):
    """Put the surface up. What could not be installed comes back as lines of text."""
    global torch, place, series, macos
    torch, place = the_torch, the_place
    settings.update(the_settings)
    series, macos = tuple(settings["series"]), tuple(settings["macos"])
    failed = []
    for name, part in (("torch.autocast", lambda torch: autocast.install(torch, settings, place)),) + _PARTS:
        try:
            part(torch)
        except Exception as error:
            guest.pass_on(error)
            failed.append("%s: %s: %s" % (name, type(error).__name__, error))
    if series >= (2, 5) and not torch._C._dispatch_has_kernel_for_dispatch_key("aten::_fused_adam_", "CPU"):
        failed.append("fused optimizers: PyTorch %s has no fused kernels for a CPU; fused=True cannot be rehearsed with it" % torch.__version__)
    return failed
