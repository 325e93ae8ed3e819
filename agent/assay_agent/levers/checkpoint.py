"""checkpoint: torch.utils.checkpoint around the repeated blocks of a model, whose activations are computed again in backward instead of kept.

The blocks are modules of one class that have modules of their own, at least two that do not lie within one another; of several families the one
that holds most: parameters, less one block's share. Where the framework has an option of its own (transformers), that is taken. The random
numbers of a block are the same when it is computed again, and batch normalisation counts a batch once.
"""

import contextlib
import functools
import sys
import weakref

from .. import guest
from . import models, tell

_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")


def install(torch, asked):
    models.install(torch)
    models.found.append(lambda model, args, kwargs: _found(torch, model))


def _found(torch, model):
    name = models.named(model)
    if name == "OptimizedModule":
        tell("checkpoint", False, where=name, why="it is compiled: the compiler chooses what is kept")
        return
    if "transformers" in sys.modules and hasattr(model, "gradient_checkpointing_enable"):
        _by_option(model, name)
        return
    blocks = family(torch, model)
    if not blocks:
        tell("checkpoint", False, where=name, why="it has no repeated blocks: no two modules of one class that have modules of their own")
        return
    _around(torch, blocks)
    tell("checkpoint", True, where="%d %s of %s" % (len(blocks), models.named(blocks[0]), name))


def _by_option(model, name):
    if not getattr(model, "supports_gradient_checkpointing", True):
        tell("checkpoint", False, where=name, why="its gradient_checkpointing_enable() does not support this model")
        return
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    tell("checkpoint", True, where="%s.gradient_checkpointing_enable()" % name)


def family(torch, model):
    """The blocks of a model; [] where there are none."""
    families = {}

    def visit(module, within):
        for child in module.__dict__.get("_modules", {}).values():
            if child is None:
                continue
            kind = type(child)
            if child._modules and kind.__name__ not in _CONTAINERS and kind not in within:
                families.setdefault(kind, {})[id(child)] = child  # a block that is used twice counts once
            visit(child, within | {kind})

    visit(model, {type(model)})

    def holds(blocks):
        return sum(p.numel() for b in blocks for p in b.parameters()) * (1 - 1 / len(blocks))

    best = max((list(f.values()) for f in families.values() if len(f) > 1), key=holds, default=[])
    return best if best and holds(best) else []


def _around(torch, blocks):
    """Have the blocks' class compute these under a checkpoint."""
    cls, chosen = type(blocks[0]), weakref.WeakSet(blocks)
    original = cls.forward
    grad_enabled = torch.is_grad_enabled

    @functools.wraps(original)
    def forward(self, *args, **kwargs):
        try:
            if self not in chosen or not self.training or not grad_enabled():
                return original(self, *args, **kwargs)
            from torch.utils.checkpoint import checkpoint

            again = _Again(torch, self, original, args, kwargs)
            return checkpoint(again, *args, use_reentrant=False, preserve_rng_state=True, **kwargs)
        except BaseException:
            guest.hide()
            raise

    cls.forward = forward


class _Again:
    """A block's forward, that knows whether it is called for the first time or computes again in backward."""

    __slots__ = ("torch", "block", "forward", "first", "state", "args", "kwargs")

    def __init__(self, torch, block, forward, args, kwargs):
        self.torch, self.block, self.forward = torch, block, forward
        self.first, self.state = True, None
        # A list that the caller goes on to fill (DenseNet's) is to be in backward as it was.
        self.args, self.kwargs = [_copied(a) for a in args], {k: _copied(v) for k, v in kwargs.items()}

    def __call__(self, *args, **kwargs):
        if self.first:
            self.first = False
            if self._mps():  # torch.utils.checkpoint keeps the random numbers of the CPU and of CUDA's kind alone
                self.state = self.torch.mps.get_rng_state()
            return self.forward(self.block, *args, **kwargs)
        args = [a if kept is None else kept for a, kept in zip(args, self.args)]
        kwargs = {k: v if self.kwargs[k] is None else self.kwargs[k] for k, v in kwargs.items()}
        with contextlib.ExitStack() as stack:
            if self.state is not None:
                stack.callback(self.torch.mps.set_rng_state, self.torch.mps.get_rng_state())
                self.torch.mps.set_rng_state(self.state)
            for norm in self._norms():
                stack.callback(norm.__dict__.__setitem__, "momentum", norm.momentum)
                norm.momentum = 0.0  # running = 1·running + 0·batch
                if norm.num_batches_tracked is not None:
                    norm.num_batches_tracked.sub_(1)
            return self.forward(self.block, *args, **kwargs)

    def _mps(self):
        parameter = models.first_parameter(self.torch, self.block)
        return parameter is not None and parameter.device.type == "mps"

    def _norms(self):
        kind = self.torch.nn.modules.batchnorm._NormBase
        return [m for m in self.block.modules() if isinstance(m, kind) and m.training and m.track_running_stats
                and "momentum" in m.__dict__]


def _copied(thing, depth=0):
    """A copy of a list or dictionary, and of those in it; None of what is neither."""
    if depth > 3 or type(thing) not in (list, dict):
        return None
    if type(thing) is list:
        return [_copied(v, depth + 1) or v for v in thing]
    return {k: _copied(v, depth + 1) or v for k, v in thing.items()}
