"""PyTorch's seed, and the settings by which a run can be repeated: read as attributes and flags, at the import, when the
first step is over and at the end. No number is drawn."""

import functools
import os

from ... import guest, process, wire
from ...timeline import T
from .. import seeds

_torch = None
_at_import = {}
_told = None


def install(torch, config):
    global _torch
    _torch = torch
    _at_import.update(settings())
    call = torch.manual_seed
    _put(torch, call, _noting(call) if hasattr(call, "__wrapped__") else guest.around(call, _seeds, None))
    seeds.watched("torch.manual_seed")
    T.close_hooks.append(lambda number, step, t: tell() if number == 1 else None)
    process.finisher(tell)


def clear():
    """A forked child tells its own."""
    global _told
    _told = None


def _put(torch, old, new):
    for module in (torch, torch.random):
        if getattr(module, "manual_seed", None) is old:
            module.manual_seed = new


@guest.hook
def _seeds(seed, *_):
    seeds.seen("torch.manual_seed", seeds_number(seed), 4)
    return False


def seeds_number(seed):
    """manual_seed takes whatever int() takes: a tensor's value is not read."""
    return seed if type(seed) is not _torch.Tensor else "tensor"


def _noting(call):
    """For a rehearsal's own manual_seed, which is a wrapper already."""

    @functools.wraps(call)
    def manual_seed(seed):
        _seeds(seed)
        return call(seed)

    return manual_seed


def tell():
    """The settings as they are, beside what they were when PyTorch had been imported; again where one has changed."""
    global _told
    now = settings()
    if now != _told:
        _told = now
        rows = [[name, value, _at_import.get(name)] for name, value in now.items()]
        wire.put({"ev": "settings", "step": T.number, "rows": rows})


def settings():
    """Name -> value as text; a setting that this release has not is left out."""
    found = {}

    def ask(name, call):
        try:
            value = call()
        except Exception as err:  # a release without it, or settings that contradict one another
            guest.pass_on(err)
            return
        found[name] = value if type(value) is str else repr(value)

    torch, c = _torch, _torch._C
    ask("torch.initial_seed", torch.initial_seed)
    ask("torch.use_deterministic_algorithms", lambda: _deterministic(torch))
    ask("torch.backends.cudnn.deterministic", c._get_cudnn_deterministic)
    ask("torch.backends.cudnn.benchmark", c._get_cudnn_benchmark)
    precision = getattr(c, "_get_fp32_precision_getter", None)  # from 2.9 on the flags of before warn when they are read
    if precision is not None:
        ask("torch.backends.cuda.matmul.fp32_precision", lambda: precision("cuda", "matmul"))
        ask("torch.backends.cudnn.conv.fp32_precision", lambda: precision("cuda", "conv"))
        ask("torch.backends.mkldnn.matmul.fp32_precision", lambda: precision("mkldnn", "matmul"))
    else:
        ask("torch.set_float32_matmul_precision", c._get_float32_matmul_precision)
        ask("torch.backends.cuda.matmul.allow_tf32", c._get_cublas_allow_tf32)
        ask("torch.backends.cudnn.allow_tf32", c._get_cudnn_allow_tf32)
    ask("CUBLAS_WORKSPACE_CONFIG", lambda: os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    ask("PYTHONHASHSEED", lambda: os.environ.get("PYTHONHASHSEED", ""))
    return found


def _deterministic(torch):
    if not torch.are_deterministic_algorithms_enabled():
        return "off"
    return "warn only" if torch.is_deterministic_algorithms_warn_only_enabled() else "on"
