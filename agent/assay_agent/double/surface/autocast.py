"""torch.autocast('mps') on tensors that are CPU tensors.

PyTorch casts in the dispatcher, under a key that follows from the tensor's device (aten/src/ATen/autocast_mode.cpp). A
CPU tensor has the key of the CPU's autocast, with the CPU's own lists, so MPS needs a key of its own here: AutocastHPU,
which every release from 2.1 to 2.15 has and which no official build of PyTorch registers anything under. It is switched
on in a thread (included, and no longer excluded) while autocast('mps') is, and operators that MPS lists have a kernel
under it, written in Python, that casts those tensors only that live on MPS and calls the operator again below the
autocast keys. What PyTorch has under the CPU's key is not touched.

While autocast('cpu') is on, the key is on as well: then it keeps MPS tensors out of the CPU's lists, as on a Mac.

What a release does with an operator comes from its atlas table: L lower precision, F float32, W the widest floating
type among the inputs. Under MPS all three only cast; there is no list that sets `dtype=` or appends it, unlike CUDA's.
"""

import functools
import sys
import threading
import warnings
import weakref

import torch

from ..current import current
from .names import script_level

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

KEY = "AutocastHPU"


def install(double):
    Autocast().install(double)


class _State(threading.local):
    enabled = False
    dtype = None


class Autocast:
    """What stands in torch, one in a process. Its lists are those of the double in use."""

    def __init__(self):
        C = torch._C
        self._state = _State()  # where the installed release has none for mps
        self._libraries = []  # kept alive: a library that goes takes its kernels along
        self._registered = set()  # operators
        self._registered_for = None  # the lists whose operators these are
        self._cached = {}  # id of a weight -> (weak reference to it, the weight in lower precision)
        self._cache_lock = threading.Lock()
        self._key = getattr(C.DispatchKey, KEY)
        self._without_own = C.DispatchKeySet(self._key)
        self._without_both = self._without_own | C.DispatchKeySet(C.DispatchKey.AutocastCPU)
        # torch.is_autocast_enabled('mps') and its like, which older releases have without an argument, or not at all.
        self._original = {name: getattr(torch, name, None) for name in (
            "is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype",
            "clear_autocast_cache")}
        is_enabled, get_dtype = self._original["is_autocast_enabled"], self._original["get_autocast_dtype"]
        try:
            self._by_device = is_enabled("cpu") in (True, False)  # whether torch.is_autocast_enabled takes a device
        except TypeError:
            self._by_device = False
        try:
            self._native = get_dtype is not None and get_dtype("mps") is torch.float16 and is_enabled("mps") is False
        except (RuntimeError, TypeError):
            self._native = False

    def install(self, double):
        mode = sys.modules["torch.amp.autocast_mode"]
        self._patch_functions(double)
        self._patch_available(double, mode)
        self._patch_class(mode.autocast)

    # State

    def enabled(self):
        return self._original["is_autocast_enabled"]("mps") if self._native else self._state.enabled

    def dtype(self):
        return self._original["get_autocast_dtype"]("mps") if self._native else self._state.dtype or torch.float16

    def _set_enabled(self, on):
        if self._native:
            self._original["set_autocast_enabled"]("mps", on)
        else:
            self._state.enabled = bool(on)
        self._sync()

    def _set_dtype(self, value):
        if self._native:
            self._original["set_autocast_dtype"]("mps", value)
        else:
            self._state.dtype = value

    def _sync(self):
        """Have the key on in this thread if MPS's autocast is, or the CPU's."""
        on = self.enabled() or self._cpu_enabled()
        if on and self._registered_for is not current.double.table.autocast:
            self._register(current.double.table.autocast)
        if on != torch._C._dispatch_tls_is_dispatch_key_included(self._key):
            torch._C._dispatch_tls_set_dispatch_key_excluded(self._key, not on)
            torch._C._dispatch_tls_set_dispatch_key_included(self._key, on)

    def _cpu_enabled(self):
        """torch.is_autocast_cpu_enabled() warns where is_autocast_enabled takes a device."""
        return self._original["is_autocast_enabled"]("cpu") if self._by_device else torch.is_autocast_cpu_enabled()

    # Casting

    def _cast(self, a, to, low):
        if isinstance(a, torch.Tensor):
            if not eligible(a) or a.dtype is to:
                return a
            return self._cast_one(a, to, low)
        if isinstance(a, (list, tuple)):
            return [self._cast(b, to, low) for b in a]
        return a

    def _cast_one(self, t, to, low):
        """at::autocast::cached_cast: a weight is cast once in an autocast region."""
        # A weight first cast under no_grad kept a cast without history for the whole region, and its gradients were
        # lost: executed on the CPU's autocast of 2.3, 2.6 and 2.8, which shares the code; not so in 2.15. PR #165068
        # was merged on 2025-12-10.
        keeps_history = current.double.series >= (2, 10)
        if not (to is low and t.dtype is torch.float32 and t.requires_grad and t.is_leaf and not t._is_view()
                and torch.is_autocast_cache_enabled() and not (keeps_history and torch.is_inference_mode_enabled())):
            return t.to(to)
        with self._cache_lock:
            kept = self._cached.get(id(t))
            if kept is not None and kept[0]() is t:
                return kept[1]
            if keeps_history:
                with torch.enable_grad():
                    cast = t.to(to)
            else:
                cast = t.to(to)
            self._cached[id(t)] = (weakref.ref(t), cast)
            return cast

    def kernel(self, op, name):
        """The Python kernel of an operator, by the name that the table has it under."""
        C = torch._C
        composes = hasattr(op, "_op_dk") and C._dispatch_has_kernel_for_dispatch_key(
            op.name(), "CompositeImplicitAutograd")

        def autocast_on_mps(*args, **kwargs):
            double = current.double
            letter = self.letter(double, name)
            if composes and not letter and self.enabled() and double.place.any_on_mps(args):
                # An operator of the CPU's list alone is not looked at on MPS, but what it is composed of is:
                # log_softmax in cross_entropy_loss.
                return op._op_dk(C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
            with C.DisableTorchFunction():
                if not (double.place.any_on_mps(args) or kwargs and double.place.any_on_mps(kwargs.values())):
                    with C._ExcludeDispatchKeyGuard(self._without_own):
                        return op(*args, **kwargs)
                with C._ExcludeDispatchKeyGuard(self._without_both):
                    if letter and self.enabled():
                        low = self.dtype()
                        to = low if letter == "L" else torch.float32
                        if letter == "W":
                            to = _widest(kwargs.values(), low, _widest(args, low, low))
                        args = [self._cast(a, to, low) for a in args]
                        kwargs = {k: self._cast(v, to, low) for k, v in kwargs.items()}
                    return op(*args, **kwargs)

        return autocast_on_mps

    def letter(self, double, name):
        """L, F or W; None for an operator of the CPU's list alone."""
        return double.table.autocast.get(name)

    def _register(self, lists):
        C = torch._C
        wanted = dict.fromkeys(lists)
        if self._registered_for is None:
            rest = C._dispatch_library("IMPL", "_", KEY, __file__, 0)
            rest.fallback_fallthrough("")
            self._libraries.append(rest)
            try:
                wanted.update(dict.fromkeys(C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")))
            except (AttributeError, RuntimeError):
                pass
        library = torch.library.Library("aten", "IMPL")
        self._libraries.append(library)
        for name in wanted:
            op = _overload(name) if name.startswith("aten::") and name not in self._registered else None
            if op is None:
                continue
            self._registered.add(name)
            try:
                library.impl(name[len("aten::"):], self.kernel(op, name), KEY)
            except (RuntimeError, ValueError):
                pass  # this torch does not have it as the table does
        self._registered_for = lists

    # The Python surface

    def _patch_class(self, cls):
        init, enter, leave = cls.__init__, cls.__enter__, cls.__exit__
        ours = self

        @functools.wraps(init)
        def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
            series = current.double.series
            if device_type == "cuda":
                # There is no CUDA on a Mac: the region runs in full precision.
                init(self, device_type, dtype=dtype, enabled=False, cache_enabled=cache_enabled)
                if enabled:
                    if series < (2, 10):
                        warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling",
                                      stacklevel=script_level())
                    else:
                        warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.",
                                      stacklevel=script_level())
                return
            if device_type != "mps":
                init(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
                return
            if series < (2, 5):
                raise RuntimeError("User specified an unsupported autocast device_type 'mps'" if series > (2, 0) else
                                   "User specified autocast device_type must be 'cuda' or 'cpu'")
            self.device = device_type
            self.fast_dtype = ours.dtype() if dtype is None else dtype
            self.custom_backend_name = torch._C._get_privateuse1_backend_name()
            self._cache_enabled = torch.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
            text = _dtype_warning(current.double, self.fast_dtype) if enabled or series < (2, 10) else None
            if text:
                warnings.warn(text, stacklevel=script_level())
                enabled = False
            self._enabled = enabled

        @functools.wraps(enter)
        def __enter__(self):
            if self.device != "mps":
                out = enter(self)
                ours._sync()
                return out
            self.prev_cache_enabled = torch.is_autocast_cache_enabled()
            self.prev = ours.enabled()
            self.prev_fastdtype = ours.dtype()
            ours._set_enabled(self._enabled)
            ours._set_dtype(self.fast_dtype)
            torch.autocast_increment_nesting()
            torch.set_autocast_cache_enabled(self._cache_enabled)
            return self

        @functools.wraps(leave)
        def __exit__(self, exc_type, exc_val, exc_tb):
            if self.device != "mps":
                out = leave(self, exc_type, exc_val, exc_tb)
                ours._sync()
                return out
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()
            ours._set_enabled(self.prev)
            ours._set_dtype(self.prev_fastdtype)
            torch.set_autocast_cache_enabled(self.prev_cache_enabled)
            return False

        cls.__init__, cls.__enter__, cls.__exit__ = __init__, __enter__, __exit__

    def _patch_functions(self, double):
        old = self._original

        @functools.wraps(old["is_autocast_enabled"])
        def is_autocast_enabled(*args, **kwargs):
            device = args[0] if args else kwargs.get("device_type")
            if device == "mps" and current.double.series >= (2, 5):
                return self.enabled()
            if device is None or self._by_device:
                return old["is_autocast_enabled"](*args, **kwargs)
            return self._cpu_enabled() if device == "cpu" else old["is_autocast_enabled"]()

        @functools.wraps(old["set_autocast_enabled"])
        def set_autocast_enabled(*args, **kwargs):
            device = args[0] if args else kwargs.get("device_type")
            if device == "mps" and current.double.series >= (2, 5):
                self._set_enabled(args[1] if len(args) > 1 else kwargs["enabled"])
                return
            if isinstance(device, str) and not self._by_device:
                on = args[1] if len(args) > 1 else kwargs["enabled"]
                torch.set_autocast_cpu_enabled(on) if device == "cpu" else old["set_autocast_enabled"](on)
            else:
                old["set_autocast_enabled"](*args, **kwargs)
            self._sync()

        def get_autocast_dtype(device_type):
            if device_type == "mps" and current.double.series >= (2, 5):
                return self.dtype()
            if old["get_autocast_dtype"] is not None:
                return old["get_autocast_dtype"](device_type)
            return torch.get_autocast_cpu_dtype() if device_type == "cpu" else torch.get_autocast_gpu_dtype()

        def set_autocast_dtype(device_type, dtype):
            if device_type == "mps" and current.double.series >= (2, 5):
                self._set_dtype(dtype)
            elif old["set_autocast_dtype"] is not None:
                old["set_autocast_dtype"](device_type, dtype)
            elif device_type == "cpu":
                torch.set_autocast_cpu_dtype(dtype)
            else:
                torch.set_autocast_gpu_dtype(dtype)

        @functools.wraps(old["clear_autocast_cache"])
        def clear_autocast_cache():
            with self._cache_lock:
                self._cached.clear()
            return old["clear_autocast_cache"]()

        torch.is_autocast_enabled, torch.set_autocast_enabled = is_autocast_enabled, set_autocast_enabled
        torch.clear_autocast_cache = clear_autocast_cache
        if double.series >= (2, 4) or old["get_autocast_dtype"] is not None:
            torch.get_autocast_dtype, torch.set_autocast_dtype = get_autocast_dtype, set_autocast_dtype
        cpu = getattr(torch, "set_autocast_cpu_enabled", None)
        if cpu is not None:
            @functools.wraps(cpu)
            def set_autocast_cpu_enabled(on):
                cpu(on)
                self._sync()

            torch.set_autocast_cpu_enabled = set_autocast_cpu_enabled

    def _patch_available(self, double, mode):
        before = getattr(mode, "is_autocast_available", None)

        def is_autocast_available(device_type):
            if device_type == "mps":
                return current.double.series >= (2, 5)
            return before(device_type) if before is not None else device_type in ("cpu", "cuda")

        if before is not None:
            is_autocast_available = functools.wraps(before)(is_autocast_available)
            mode.is_autocast_available = is_autocast_available
        if before is not None and hasattr(torch.amp, "is_autocast_available") or double.series >= (2, 4):
            torch.amp.is_autocast_available = is_autocast_available


def eligible(t):
    """Whether MPS's autocast would look at the value: a tensor of a floating type on MPS."""
    return (isinstance(t, torch.Tensor) and t.is_floating_point() and t.dtype is not torch.float64
            and current.double.place.on_mps(t))


def _widest(args, low, found):
    """at::autocast::prioritize: the lower precision, or float32 if one input has it."""
    for a in args:
        if isinstance(a, (list, tuple)):
            found = _widest(a, low, found)
        elif eligible(a):
            if a.dtype is torch.float32:
                found = torch.float32
            elif a.dtype is not low and found is not torch.float32:
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return found


def _overload(name):
    """The overload of `aten::softmax.int` and the like, or None where the installed release has none."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    except (AttributeError, RuntimeError):
        return None


def _dtype_warning(double, fast):
    """What the release says about a type that it cannot autocast to: a text or None."""
    half, brain, series = torch.float16, torch.bfloat16, double.series
    if series == (2, 5):
        if fast is not half:
            return ("In MPS autocast, but the target dtype is not supported. Disabling autocast.\n"
                    "MPS Autocast only supports dtype of torch.bfloat16 currently.")
    elif series < (2, 10):
        if fast not in (half, brain):
            return ("In MPS autocast, but the target dtype is not supported. Disabling autocast.\n"
                    "MPS Autocast only supports dtype of torch.bfloat16 and torch.float16 currently.")
        if fast is brain and double.macos < (14, 0):
            return ("In MPS autocast, but the target dtype torch.bfloat16 is not supported on macOS versions below 14. "
                    "Disabling autocast.")
    elif fast not in (half, brain):
        return ("In MPS autocast, but the target dtype is not supported. Disabling autocast.\n"
                "MPS Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.")
    return None
