"""autocast: the model's forward under torch.autocast, in bfloat16, or float16 where the device or the release has no bfloat16. What leaves the model is
float32 again, so that the script's loss is computed as before."""

import warnings

from . import models, tell


def install(torch, asked):
    models.install(torch)
    models.found.append(lambda model, args, kwargs: _found(torch, model))


def _found(torch, model):
    parameter = models.first_parameter(torch, model)
    kind, name = parameter.device.type, models.named(model)
    if parameter.dtype != torch.float32:
        tell("autocast", False, where=name, why="its parameters are %s" % str(parameter.dtype).replace("torch.", ""))
        return
    if _enabled(torch, kind):
        tell("autocast", False, where=name, why="the script has autocast on already")
        return
    dtype, why = _dtype(torch, kind)
    if dtype is None:
        tell("autocast", False, where=name, why=why)
        return

    def make(forward, module):
        def cast(self, *args, **kwargs):
            with torch.autocast(kind, dtype=dtype):
                result = forward(self, *args, **kwargs)
            return _full(torch, result)

        return cast

    models.around_forward(model, make)
    note = "float16 without a GradScaler: small gradients become 0" if dtype == torch.float16 else ""
    tell("autocast", True, where="%s: forward in %s" % (name, str(dtype).replace("torch.", "")), note=note)


def _enabled(torch, kind):
    try:
        return torch.is_autocast_enabled(kind)
    except TypeError:  # before 2.4: of CUDA alone
        return torch.is_autocast_enabled()


def _dtype(torch, kind):
    """The type that autocast takes on such a device, and why there is none."""
    why = ""
    for dtype in (torch.bfloat16, torch.float16):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # says that it turns itself off
                taken = torch.autocast(kind, dtype=dtype)
                if taken._enabled and taken.fast_dtype == dtype:
                    return dtype, ""
                why = "autocast on %s takes neither bfloat16 nor float16 in this release" % kind
        except (RuntimeError, TypeError) as err:
            why = str(err).splitlines()[0][:300]
    return None, why


def _full(torch, thing, depth=0):
    """Tensors of half precision in a result as float32, in the same containers."""
    if isinstance(thing, torch.Tensor):
        return thing.float() if thing.dtype in (torch.bfloat16, torch.float16) else thing
    if depth < 4:
        if type(thing) in (list, tuple):
            return type(thing)(_full(torch, item, depth + 1) for item in thing)
        if isinstance(thing, tuple) and hasattr(thing, "_fields"):
            return type(thing)(*(_full(torch, item, depth + 1) for item in thing))
        if isinstance(thing, dict):  # transformers' ModelOutput is one, and keeps its class
            for key in list(thing):
                value = _full(torch, thing[key], depth + 1)
                if value is not thing[key]:
                    thing[key] = value
    return thing
