"""torch.autocast('mps') on tensors that are CPU tensors.

PyTorch casts in the dispatcher, under a key that follows from the tensor's device (aten/src/ATen/autocast_mode.cpp). A CPU tensor has
the key of the CPU's autocast, with the CPU's own lists, so MPS needs a key of its own here: AutocastHPU, which every release from 2.1
to 2.15 has and which no official build of PyTorch registers anything under. It is switched on in a thread (included, and no
longer excluded) while autocast('mps') is, and operators that MPS lists have a kernel under it, written in Python, that casts those
tensors only that live on MPS and calls the operator again below the autocast keys. What PyTorch has under the CPU's key is not touched.

While autocast('cpu') is on, the key is on as well: then it keeps MPS tensors out of the CPU's lists, as on a Mac.

What a release does with an operator comes from its atlas table: L lower precision, F float32, W the widest floating type among the inputs.
Under MPS all three only cast; there is no list that sets `dtype=` or appends it, unlike CUDA's.
"""

import functools
import sys
import threading
import warnings
import weakref

KEY = "AutocastHPU"

torch = None
place = None
series = (2, 0)
macos = (15, 0)
__tracebackhide__ = True  # pytest leaves our frames out of what it prints
_lists = {}  # operator overload -> L, F or W
_own = None  # the state, where the installed release has none for mps
_native = False
_libraries = []  # kept alive: a library that goes takes its kernels along
_registered = False
_failed = []  # operators of the table that this torch does not have
_cached = {}  # id of a weight -> (weak reference to it, the weight in lower precision)
_cache_lock = threading.Lock()
_exclude_own = _exclude_both = None
casts = 0  # made so far, for the tests and the curious


class _State(threading.local):
    enabled = False
    dtype = None


# State ------------------------------------------------------------------------------------------------------------------


def enabled():
    return _is_enabled("mps") if _native else _own.enabled


def dtype():
    return _get_dtype("mps") if _native else _own.dtype or torch.float16


def _set_enabled(on):
    if _native:
        _original["set_autocast_enabled"]("mps", on)
    else:
        _own.enabled = bool(on)
    _sync()


def _set_dtype(value):
    if _native:
        _original["set_autocast_dtype"]("mps", value)
    else:
        _own.dtype = value


def _sync():
    """Have the key on in this thread if MPS's autocast is, or the CPU's."""
    on = enabled() or _cpu_enabled()
    if on and not _registered:
        _register()
    if on != torch._C._dispatch_tls_is_dispatch_key_included(_key):
        torch._C._dispatch_tls_set_dispatch_key_excluded(_key, not on)
        torch._C._dispatch_tls_set_dispatch_key_included(_key, on)


def _cpu_enabled():
    """torch.is_autocast_cpu_enabled() warns where is_autocast_enabled takes a device."""
    return _is_enabled("cpu") if _by_device else torch.is_autocast_cpu_enabled()


_original = {}
_is_enabled = _get_dtype = _key = None
_by_device = False  # whether torch.is_autocast_enabled takes a device


# Casting ----------------------------------------------------------------------------------------------------------------


def _eligible(t):
    return isinstance(t, torch.Tensor) and t.is_floating_point() and t.dtype is not torch.float64 and place.on_mps(t)


def _any_on_mps(args):
    for a in args:
        if isinstance(a, torch.Tensor):
            if place.on_mps(a):
                return True
        elif isinstance(a, (list, tuple)) and _any_on_mps(a):
            return True
    return False


def _widest(args, low, found):
    """at::autocast::prioritize: the lower precision, or float32 if one input has it."""
    for a in args:
        if isinstance(a, (list, tuple)):
            found = _widest(a, low, found)
        elif _eligible(a):
            if a.dtype is torch.float32:
                found = torch.float32
            elif a.dtype is not low and found is not torch.float32:
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return found


def _cast(a, to, low):
    if isinstance(a, torch.Tensor):
        if not _eligible(a) or a.dtype is to:
            return a
        return _cast_one(a, to, low)
    if isinstance(a, (list, tuple)):
        return [_cast(b, to, low) for b in a]
    return a


def _cast_one(t, to, low):
    """at::autocast::cached_cast: a weight is cast once in an autocast region."""
    global casts
    if not (to is low and t.dtype is torch.float32 and t.requires_grad and t.is_leaf and not t._is_view()
            and torch.is_autocast_cache_enabled() and not (_keeps_history() and torch.is_inference_mode_enabled())):
        casts += 1
        return t.to(to)
    with _cache_lock:
        kept = _cached.get(id(t))
        if kept is not None and kept[0]() is t:
            return kept[1]
        casts += 1
        if _keeps_history():
            with torch.enable_grad():
                cast = t.to(to)
        else:
            cast = t.to(to)
        _cached[id(t)] = (weakref.ref(t), cast)
        return cast


def _keeps_history():
    # A weight first cast under no_grad kept a cast without history for the whole region, and its gradients were lost: executed on
    # the CPU's autocast of 2.3, 2.6 and 2.8, which shares the code; not so in 2.15. PR #165068 was merged on 2025-12-10.
    return series >= (2, 10)


def _kernel(op, letter):
    C = torch._C
    # An operator of the CPU's list alone is not looked at on MPS, but what it is composed of is: log_softmax in cross_entropy_loss.
    composed = not letter and hasattr(op, "_op_dk") and C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")

    def autocast_on_mps(*args, **kwargs):
        if composed and enabled() and _any_on_mps(args):
            return op._op_dk(C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        with C.DisableTorchFunction():
            if not (_any_on_mps(args) or kwargs and _any_on_mps(kwargs.values())):
                with C._ExcludeDispatchKeyGuard(_exclude_own):
                    return op(*args, **kwargs)
            with C._ExcludeDispatchKeyGuard(_exclude_both):
                if letter and enabled():
                    low = dtype()
                    to = low if letter == "L" else torch.float32
                    if letter == "W":
                        to = _widest(kwargs.values(), low, _widest(args, low, low))
                    args = [_cast(a, to, low) for a in args]
                    kwargs = {k: _cast(v, to, low) for k, v in kwargs.items()}
                return op(*args, **kwargs)

    return autocast_on_mps


def _overload(name):
    """The overload of `aten::softmax.int` and the like, or None where the installed release has none."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    except (AttributeError, RuntimeError):
        return None


def _register():
    global _registered
    _registered = True
    C = torch._C
    rest = C._dispatch_library("IMPL", "_", KEY, __file__, 0)
    rest.fallback_fallthrough("")
    _libraries.append(rest)
    wanted = dict(_lists)
    try:
        for name in C._dispatch_get_registrations_for_dispatch_key("AutocastCPU"):
            wanted.setdefault(name, None)
    except (AttributeError, RuntimeError):
        pass
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    for name, letter in wanted.items():
        op = _overload(name) if name.startswith("aten::") else None
        if op is None:
            if letter:
                _failed.append(name)
            continue
        try:
            library.impl(name[len("aten::"):], _kernel(op, letter), KEY)
        except (RuntimeError, ValueError):
            _failed.append(name)


# The Python surface -----------------------------------------------------------------------------------------------------


def _warn_dtype(fast):
    """What the release says about a type that it cannot autocast to: (text or None)."""
    half, brain = torch.float16, torch.bfloat16
    if series == (2, 5):
        if fast is not half:
            return ("In MPS autocast, but the target dtype is not supported. Disabling autocast.\n"
                    "MPS Autocast only supports dtype of torch.bfloat16 currently.")
    elif series < (2, 10):
        if fast not in (half, brain):
            return ("In MPS autocast, but the target dtype is not supported. Disabling autocast.\n"
                    "MPS Autocast only supports dtype of torch.bfloat16 and torch.float16 currently.")
        if fast is brain and macos < (14, 0):
            return "In MPS autocast, but the target dtype torch.bfloat16 is not supported on macOS versions below 14. Disabling autocast."
    elif fast not in (half, brain):
        return ("In MPS autocast, but the target dtype is not supported. Disabling autocast.\n"
                "MPS Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.")
    return None


def _script():
    """The stack level at which the script stands, for warnings: classes of PyTorch may lie between."""
    frame, level = sys._getframe(2), 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("torch.", "assay_agent.")):
        frame, level = frame.f_back, level + 1
    return level


def _patch_class(cls):
    init, enter, leave = cls.__init__, cls.__enter__, cls.__exit__

    @functools.wraps(init)
    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == "cuda":
            # There is no CUDA on a Mac: the region runs in full precision.
            init(self, device_type, dtype=dtype, enabled=False, cache_enabled=cache_enabled)
            if enabled:
                if series < (2, 10):
                    warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=_script())
                else:
                    warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=_script())
            return
        if device_type != "mps":
            init(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
            return
        if series < (2, 5):
            raise RuntimeError("User specified an unsupported autocast device_type 'mps'")
        self.device = device_type
        self.fast_dtype = globals()["dtype"]() if dtype is None else dtype
        self.custom_backend_name = torch._C._get_privateuse1_backend_name()
        self._cache_enabled = torch.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        text = _warn_dtype(self.fast_dtype) if enabled or series < (2, 10) else None
        if text:
            warnings.warn(text, stacklevel=_script())
            enabled = False
        self._enabled = enabled

    @functools.wraps(enter)
    def __enter__(self):
        if self.device != "mps":
            out = enter(self)
            _sync()
            return out
        self.prev_cache_enabled = torch.is_autocast_cache_enabled()
        self.prev = globals()["enabled"]()
        self.prev_fastdtype = globals()["dtype"]()
        _set_enabled(self._enabled)
        _set_dtype(self.fast_dtype)
        torch.autocast_increment_nesting()
        torch.set_autocast_cache_enabled(self._cache_enabled)
        return self

    @functools.wraps(leave)
    def __exit__(self, exc_type, exc_val, exc_tb):
        if self.device != "mps":
            out = leave(self, exc_type, exc_val, exc_tb)
            _sync()
            return out
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        _set_enabled(self.prev)
        _set_dtype(self.prev_fastdtype)
        torch.set_autocast_cache_enabled(self.prev_cache_enabled)
        return False

    cls.__init__, cls.__enter__, cls.__exit__ = __init__, __enter__, __exit__


def _patch_functions():
    """torch.is_autocast_enabled('mps') and its like, which older releases have without an argument, or not at all."""
    old = {name: getattr(torch, name, None) for name in (
        "is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype", "clear_autocast_cache")}
    _original.update(old)

    @functools.wraps(old["is_autocast_enabled"])
    def is_autocast_enabled(*args, **kwargs):
        device = args[0] if args else kwargs.get("device_type")
        if device == "mps" and series >= (2, 5):
            return enabled()
        if device is None or _by_device:
            return old["is_autocast_enabled"](*args, **kwargs)
        return _cpu_enabled() if device == "cpu" else old["is_autocast_enabled"]()

    @functools.wraps(old["set_autocast_enabled"])
    def set_autocast_enabled(*args, **kwargs):
        device = args[0] if args else kwargs.get("device_type")
        if device == "mps" and series >= (2, 5):
            _set_enabled(args[1] if len(args) > 1 else kwargs["enabled"])
            return
        if isinstance(device, str) and not _by_device:
            on = args[1] if len(args) > 1 else kwargs["enabled"]
            torch.set_autocast_cpu_enabled(on) if device == "cpu" else old["set_autocast_enabled"](on)
        else:
            old["set_autocast_enabled"](*args, **kwargs)
        _sync()

    def get_autocast_dtype(device_type):
        if device_type == "mps" and series >= (2, 5):
            return dtype()
        if old["get_autocast_dtype"] is not None:
            return old["get_autocast_dtype"](device_type)
        return torch.get_autocast_cpu_dtype() if device_type == "cpu" else torch.get_autocast_gpu_dtype()

    def set_autocast_dtype(device_type, dtype):
        if device_type == "mps" and series >= (2, 5):
            _set_dtype(dtype)
        elif old["set_autocast_dtype"] is not None:
            old["set_autocast_dtype"](device_type, dtype)
        elif device_type == "cpu":
            torch.set_autocast_cpu_dtype(dtype)
        else:
            torch.set_autocast_gpu_dtype(dtype)

    @functools.wraps(old["clear_autocast_cache"])
    def clear_autocast_cache():
        with _cache_lock:
            _cached.clear()
        return old["clear_autocast_cache"]()

    torch.is_autocast_enabled, torch.set_autocast_enabled = is_autocast_enabled, set_autocast_enabled
    torch.clear_autocast_cache = clear_autocast_cache
    if series >= (2, 4) or old["get_autocast_dtype"] is not None:
        torch.get_autocast_dtype, torch.set_autocast_dtype = get_autocast_dtype, set_autocast_dtype
    cpu = getattr(torch, "set_autocast_cpu_enabled", None)
    if cpu is not None:
        @functools.wraps(cpu)
        def set_autocast_cpu_enabled(on):
            cpu(on)
            _sync()

        torch.set_autocast_cpu_enabled = set_autocast_cpu_enabled


def _patch_available(mode):
    before = getattr(mode, "is_autocast_available", None)

    def is_autocast_available(device_type):
        if device_type == "mps":
            return series >= (2, 5)
        return before(device_type) if before is not None else device_type in ("cpu", "cuda")

    if before is not None:
        is_autocast_available = functools.wraps(before)(is_autocast_available)
        mode.is_autocast_available = is_autocast_available
    if before is not None and hasattr(torch.amp, "is_autocast_available") or series >= (2, 4):
        torch.amp.is_autocast_available = is_autocast_available


def install(the_torch, settings, the_place):
    global torch, place, series, macos, _own, _native, _is_enabled, _get_dtype, _key, _exclude_own, _exclude_both, _by_device
    torch, place = the_torch, the_place
    series, macos = tuple(settings["series"]), tuple(settings["macos"])
    _lists.update(settings.get("loaded", {}).get("autocast", {}))
    _own = _State()
    C = torch._C
    _key = getattr(C.DispatchKey, KEY)
    cpu = C.DispatchKeySet(C.DispatchKey.AutocastCPU)
    _exclude_own = C.DispatchKeySet(_key)
    _exclude_both = _exclude_own | cpu
    _is_enabled, _get_dtype = torch.is_autocast_enabled, getattr(torch, "get_autocast_dtype", None)
    try:
        _by_device = _is_enabled("cpu") in (True, False)
    except TypeError:
        _by_device = False
    try:
        _native = _get_dtype is not None and _get_dtype("mps") is torch.float16 and _is_enabled("mps") is False
    except (RuntimeError, TypeError):
        _native = False
    mode = sys.modules["torch.amp.autocast_mode"]
    _patch_functions()
    _patch_available(mode)
    _patch_class(mode.autocast)
