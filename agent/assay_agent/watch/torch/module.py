"""nn.Module: the outermost call with gradients on is forward.

The class attribute `Module.__call__` is remade, because hooks on instances would be pickled and copied with the model.
Under torch.compile ours would be traced, so it is taken off as soon as a compile context is made, and only the
compiled module's own outermost call is watched from then on.
"""

import sys

from ... import guest, wire
from ...modules import tensors_in
from ...timeline import T
from ..imports import when_imported
from . import device, exhausted, numerics

FORWARD = T.phase("forward", 30, "forward", "model and loss")
_seen = {}  # signature -> [first step, count]
_last = {}  # id(module) -> signature of its last call
compiling = False  # a compile context was made in this process
last_call = None  # (module, args, kwargs) of the outermost call, kept only while only.py asks for it
keep_call = False
outermost = None  # (module, whether gradients are on, args, kwargs): rehearsal.py has it called at such a call
called = None  # (module, whether gradients are on): reached.py has it called at such a call, until it has seen enough


def install(torch, config):
    cls = torch.nn.Module
    original = cls.__call__
    grad_enabled = torch.is_grad_enabled
    state = T

    @guest.hook
    def begin(module, args, kwargs=None):
        if state.busy or not state.on:
            return False
        grad = grad_enabled()
        if called is not None:
            called(module, grad)
        if state.bare:
            return False
        if not state.device.kind:
            _look_where(torch, module)
        if outermost is not None:
            outermost(module, grad, args, kwargs)
        if not grad or not state.mine():
            return False
        _shapes(torch, module, args, kwargs)
        state.module_begin(FORWARD)
        return True

    @guest.hook
    def end(error):
        state.module_end(FORWARD)
        if error is not None:
            exhausted.note(error)

    watched = guest.around(original, begin, end)
    names = [name for name in ("__call__", "_wrapped_call_impl") if cls.__dict__.get(name) is original]
    for name in names:
        setattr(cls, name, watched)

    def change(on):
        """Ours for the class's own call, or back. Not where the script has put one of its own there."""
        former, then = (original, watched) if on else (watched, original)
        for name in names:
            if cls.__dict__.get(name) is former:
                setattr(cls, name, then)

    def off():
        """Give the class its own call back: something is about to be compiled."""
        global compiling
        if compiling:
            return
        compiling = True
        change(False)
        try:
            frame = sys.modules["torch._dynamo.eval_frame"]
            compiled = frame.OptimizedModule
            compiled.__call__ = guest.around(compiled.__dict__.get("__call__", original), begin, end)
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("compiled module: %r" % (err,))
        wire.put({"ev": "compile"})

    global _change
    _change = change
    _on_compile(off)
    wire.source(_gather)


_change = None


def switch(on):
    """Give the class its own call back, and take it again. Once something is compiled it has it for good."""
    if not compiling and _change is not None:
        _change(on)


def _on_compile(off):
    """Call off() before the first compile context of torch._dynamo is made, whether that is imported already or
    later."""

    begin = guest.hook(lambda *parameters: off())

    def hook(frame):
        context = frame.OptimizeContext
        context.__init__ = guest.around(context.__init__, begin, None)

    when_imported("torch._dynamo.eval_frame", hook)


def clear():
    """A forked child tells its own."""
    _seen.clear()


_checks = 0


@guest.hook  # a failure of its own must not cost the call its place in the step
def _shapes(torch, module, args, kwargs):
    """Note what went into the model: each of the first 64 calls, then every 16th."""
    global _checks, last_call
    if keep_call:
        last_call = (module, args, kwargs)
    _checks += 1
    if _checks > 64 and _checks % 16:
        return
    if numerics.overridden():
        return
    tensors = []
    _collect(torch, args, tensors)
    _collect(torch, kwargs, tensors)
    key = (type(module).__qualname__, tuple((str(t.dtype), tuple(t.shape), t.device.type) for t in tensors[:8]))
    known = _seen.get(key)
    if known is None:
        if len(_seen) >= 64 or not _has_parameters(module):  # a loss module is no model
            return
        _seen[key] = [T.number + 1, 1, True]
    else:
        known[1] += 1
        known[2] = True


_looked = 0


@guest.hook
def _look_where(torch, module):
    """Where a model is that is called before anything is trained, if it ever is: where its first parameter is."""
    global _looked
    _looked += 1
    if _looked > 1000 or numerics.overridden():
        return
    for parameter in tensors_in(module, "_parameters"):
        if type(parameter) is torch.nn.Parameter and parameter.device.type != "meta":
            T.use(device.of(torch, parameter.device.type))
            return


def _has_parameters(module):
    """Whether a module or one below it holds a parameter."""
    return next(tensors_in(module, "_parameters"), None) is not None


def _collect(torch, thing, out, depth=0):
    if depth > 3 or len(out) >= 8:
        return
    if type(thing) in (torch.Tensor, torch.nn.Parameter):  # what a subclass is asked may be the script's own code
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
