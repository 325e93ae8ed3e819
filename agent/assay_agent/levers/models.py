"""The models that a training calls: outermost calls of modules that have parameters and train, for the levers that change them.

They are looked for until UPDATES steps of an optimizer were made; from then on nothing of this stands in the way of a call.
"""

import weakref

from .. import guest
from ..modules import tensors_in
from ..watch.torch import module as watched
from . import missed

UPDATES = 3

found = []  # (model, args, kwargs) -> None: called before the first call of each model

_known = []  # weak references to models that were told
_depth = 0
_installed = []


def install(torch):
    """For the first lever that asks."""
    if _installed:
        return
    _installed.append(True)
    cls = torch.nn.Module
    original = cls._call_impl
    for lever in ("checkpoint", "autocast", "channels_last"):
        missed[lever] = "no model was called with gradients on"

    # As torch.utils.checkpoint asks; -1: not.
    within_backward = getattr(torch._C, "_current_graph_task_id", lambda: -1)

    def ready(module):
        """Not before a lazy module's first call: it has no shapes yet."""
        return not any(torch.nn.parameter.is_lazy(p) for p in module.parameters())

    @guest.hook
    def begin(module, args, kwargs):
        global _depth
        _depth += 1
        # Within backward a checkpoint computes parts of a model again, which are no models.
        if _depth == 1 and module.__dict__.get("training") and torch.is_grad_enabled() and within_backward() < 0:
            if not any(known() is module for known in _known) and watched._has_parameters(module) and ready(module):
                _known.append(weakref.ref(module))
                for act in found:
                    act(module, args, kwargs)
        return True

    @guest.hook
    def end(error):
        global _depth
        _depth -= 1

    cls._call_impl = looking = guest.around(original, begin, end)
    steps = [0]

    @guest.hook
    def stepped(optimizer, args, kwargs):
        steps[0] += 1
        if steps[0] == UPDATES and cls.__dict__.get("_call_impl") is looking:
            cls._call_impl = original

    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(stepped)


def first_parameter(torch, module):
    """The first parameter of a module or of one below it; None where there is none."""
    return next((p for p in tensors_in(module, "_parameters") if isinstance(p, torch.nn.Parameter)), None)


def named(module):
    return type(module).__qualname__


def around_forward(module, make):
    """Put make(forward, self) -> forward in the place of the module's own forward: in its class, since what stands in an instance is pickled with
    it. It is made for this module's calls alone."""
    own = module.__dict__.get("forward")
    if own is not None:  # the script's, or a library's, put there by it
        module.__dict__["forward"] = make(lambda self, *args, **kwargs: own(*args, **kwargs), module).__get__(module)
        return
    cls, reference = type(module), weakref.ref(module)
    original = cls.forward
    ours = make(original, module)

    def forward(self, *args, **kwargs):
        try:
            return (ours if self is reference() else original)(self, *args, **kwargs)
        except BaseException:
            guest.hide()
            raise

    cls.forward = _like(forward, original)


def _like(ours, theirs):
    """Ours under the name, the text and the signature of theirs: forward is asked for its parameters (transformers.Trainer)."""
    import functools

    return functools.wraps(theirs)(ours)
