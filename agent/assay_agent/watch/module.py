"""nn.Module: the outermost call with gradients on is forward.

The class attribute `Module.__call__` is wrapped, because hooks on instances would be pickled and copied with the model. Under
torch.compile the wrapper would be traced, so it is taken off as soon as a compile context is made, and only the compiled
module's own outermost call is watched from then on.
"""

import functools
import sys

from .. import guest, wire
from ..timeline import T
from .imports import when_imported

_seen = {}  # signature -> [first step, count]
_last = {}  # id(module) -> signature of its last call
compiling = False  # a compile context was made in this process
last_call = None  # (module, args, kwargs) of the outermost call, kept only while watch.only asks for it
keep_call = False


def install(torch, config):
    cls = torch.nn.Module
    original = cls.__call__
    grad_enabled = torch.is_grad_enabled
    state = T

    def watched(call):
        @functools.wraps(call)
        def __call__(self, *args, **kwargs):
            watch = not state.busy and state.on and grad_enabled() and state.mine()
            if watch:
                state.module_begin()
            try:
                result = call(self, *args, **kwargs)
            except BaseException:
                if watch:
                    state.module_end()
                guest.hide()
                raise
            if watch:
                state.module_end()
                _shapes(torch, self, args, kwargs)
            return result

        return __call__

    wrapper = watched(original)
    cls.__call__ = wrapper

    def off():
        """Give the class its own call back: something is about to be compiled."""
        global compiling
        if compiling:
            return
        compiling = True
        if cls.__dict__.get("__call__") is wrapper:
            cls.__call__ = original
        try:
            frame = sys.modules["torch._dynamo.eval_frame"]
            compiled = frame.OptimizedModule
            own = compiled.__dict__.get("__call__", original)
            compiled.__call__ = watched(own)
        except Exception as err:
            wire.trouble("compiled module: %r" % (err,))
        wire.put({"ev": "compile"})

    _on_compile(off)
    wire.source(_gather)


def _on_compile(off):
    """Call off() before the first compile context of torch._dynamo is made, whether that is imported already or later."""

    def hook(frame):
        context = frame.OptimizeContext
        init = context.__init__

        @functools.wraps(init)
        def __init__(self, *args, **kwargs):
            try:
                off()
            except Exception as err:
                wire.trouble("compile: %r" % (err,))
            return init(self, *args, **kwargs)

        context.__init__ = __init__

    when_imported("torch._dynamo.eval_frame", hook)


def clear():
    """A forked child tells its own."""
    _seen.clear()


_checks = 0


def _shapes(torch, module, args, kwargs):
    """Note what went into the model: each of the first 64 calls, then every 16th."""
    global _checks, last_call
    if keep_call:
        last_call = (module, args, kwargs)
    _checks += 1
    if _checks > 64 and _checks % 16:
        return
    try:
        tensors = []
        _collect(torch, args, tensors)
        _collect(torch, kwargs, tensors)
        # A loss module is no model: it has no parameters.
        key = (type(module).__qualname__, tuple((str(t.dtype), tuple(t.shape), t.device.type) for t in tensors[:8]))
        known = _seen.get(key)
        if known is None:
            if len(_seen) >= 64 or next(module.parameters(), None) is None:
                return
            _seen[key] = [T.number + 1, 1, True]
        else:
            known[1] += 1
            known[2] = True
    except Exception:
        pass


def _collect(torch, thing, out, depth=0):
    if depth > 3 or len(out) >= 8:
        return
    if isinstance(thing, torch.Tensor):
        out.append(thing)
    elif type(thing) in (list, tuple):
        for item in thing:
            _collect(torch, item, out, depth + 1)
    elif type(thing) is dict:
        for item in thing.values():
            _collect(torch, item, out, depth + 1)


def _gather():
    for (name, signature), known in list(_seen.items()):
        if known[2]:
            known[2] = False
            inputs = ", ".join("%s%s on %s" % (d.replace("torch.", ""), list(s), dev) for d, s, dev in signature)
            wire.put({"ev": "shape", "model": name, "inputs": inputs, "first": known[0], "calls": known[1]})
