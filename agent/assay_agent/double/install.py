"""Puts a double into the script's process, when its torch has been imported."""

import functools
import threading

from .. import guest, wire
from .current import current
from .dispatch import OperatorsOnDouble
from .double import Double
from .surface import (
    accelerator, autocast, backend, compiler, cuda, descriptors, distributed, generators, library, loader, mps,
    optimizers, processes, release, scaler, storages, streams, tensors, tracing)

# The parts of torch's Python surface, in the order in which they are put up. Each by itself: one that fails leaves the
# others.
PARTS = (
    ("torch.autocast", autocast.install),
    ("torch.backends.mps", backend.install),
    ("generators", generators.install),
    ("streams", streams.install),
    ("torch.mps", mps.install),
    ("torch.accelerator", accelerator.install),
    ("storages", storages.install),
    ("torch.cuda", cuda.install),
    ("GradScaler", scaler.install),
    ("processes", processes.install),
    ("file descriptors", descriptors.install),
    ("DataLoader", loader.install),
    ("torch.compile", compiler.install),
    ("torch.distributed", distributed.install),
    ("optimizers", optimizers.install),
    ("torch.library", library.install),
    ("torch.jit.trace", tracing.install),
)


def install(torch, settings, releases=()):
    """Put up a double of these settings (docs/formats/double.md), and say so: the event `double`. What could not be put
    up is evidence, not an error. releases: settings of those that are asked beside it (releases.py). Gives the Double."""
    double = Double(settings)
    if releases:
        from .releases import Recording

        double.dispatch = Recording(double)
        double.dispatch.tell = wire.put
        double.dispatch.ask(releases)
    limits = put_up(torch, double)
    wire.put({"ev": "double", "release": double.release, "installed": torch.__version__, "macos": list(double.macos),
              "chip": double.chip, "memory": double.memory, "recommended": double.recommended,
              "recommended_known": double.recommended_known or "", "limits": limits})
    return double


def put_up(torch, double, parts=PARTS):
    """Put the double in use, and into torch, once for the whole process, what asks the one in use; the names that a
    release has are those of this one. Lines of text that say what could not be done; RuntimeError where it has been
    done already."""
    if current.double is not None:
        raise RuntimeError("put up the double: one of PyTorch %s stands in this process already; another is put in use "
                           "by Double.use"
                           % current.double.release)
    current.put(double)
    failed = []

    def put_part_up(name, part):
        try:
            part(double)
        except Exception as error:
            guest.pass_on(error)
            failed.append("%s: %s: %s" % (name, type(error).__name__, error))

    for name, part in parts:
        put_part_up(name, part)
    if double.series >= (2, 5) and not torch._C._dispatch_has_kernel_for_dispatch_key("aten::_fused_adam_", "CPU"):
        failed.append("fused optimizers: PyTorch %s has no fused kernels for a CPU; fused=True cannot be rehearsed "
                      "with it"
                      % torch.__version__)
    tensors.install(double)
    put_part_up("names of the release", release.install)  # last: scripts see what the others have put up
    _put_mode_up()
    return failed


# PyTorch keeps no reference to a mode while it is off the stack, as when a tensor is printed
_mode = OperatorsOnDouble()


def _put_mode_up():
    """In this thread, for good, and in those that are started later."""
    _mode.__enter__()
    bootstrap = threading.Thread._bootstrap_inner

    @functools.wraps(bootstrap)
    def _bootstrap_inner(self):
        with OperatorsOnDouble():
            return bootstrap(self)

    threading.Thread._bootstrap_inner = _bootstrap_inner


def clear():
    """A forked child tells of itself alone."""
    current.double.clear()


def report():
    """The events of what was seen so far."""
    for event in current.double.events():
        wire.put(event)
