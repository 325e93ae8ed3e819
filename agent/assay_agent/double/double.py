"""A double: one Mac, as one release of PyTorch's MPS backend finds it. Several can stand in a process; one is in use
(current.py)."""

import contextlib
import json
import os

import torch

from .. import place as source_line
from . import allocator, errors
from .current import current
from .dispatch import Dispatch
from .generators import Stream
from .place import Place
from .shapes import Shapes

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


class Table:
    """What the atlas has of the release: docs/formats/double.md. ValueError where the file lacks a part."""

    PARTS = ("ops", "structured", "lacks", "autocast", "sparse", "commit")

    def __init__(self, path):
        with open(path) as f:
            read = json.load(f)
        lacking = [part for part in self.PARTS if part not in read]
        if lacking:
            raise ValueError("read the double's table %s: it has no %s" % (path, ", ".join(lacking)))
        self.ops, self.structured, self.lacks = read["ops"], read["structured"], read["lacks"]
        self.autocast, self.sparse, self.commit = read["autocast"], read["sparse"], read["commit"]
        self.beside = read.get("beside") or {}  # torchvision, torchaudio -> the release that goes with this one


class Fallback:
    """What was seen of an operator that fell back to the CPU on a line: calls, nanoseconds, bytes copied."""

    __slots__ = ("calls", "ns", "nbytes")

    def __init__(self):
        self.calls = self.ns = self.nbytes = 0


class Double:
    """settings: those of docs/formats/double.md. environ: read once, as PyTorch reads it.

    What it was told   release, series, macos, chip, chip_name, memory, cores, recommended (bytes; None: not known),
                       recommended_known (how), largest_buffer and largest_buffer_known (the same of Metal's largest
                       buffer), table (a Table), fallback (whether PYTORCH_ENABLE_MPS_FALLBACK is on)
    What it is made of dispatch (an operator's way), place (where tensors live), shapes (None where tensors have data),
    stream (random numbers) What it has seen   operators: name -> Counts
                       fallbacks: (operator, user's line) -> Fallback
                       refusals: (operator, cause, class of the exception, text, user's line) -> times
                       facts: (operator, name of the fact, whether it is sure, user's line) -> times
                       wrong: (operator, name of the fact) -> calls whose numbers come out wrong for sure
                       notes: (operator, kind, text, user's line) -> times
                       told: (package, who asked for its version, libraries by name)
                       used: what the script used that is imitated in part or not at all -> times
    """

    dispatch_class = Dispatch

    def __init__(self, settings, environ=os.environ):
        self.settings = settings
        self.release, self.chip, self.chip_name = settings["release"], settings["chip"], settings["chip_name"]
        self.series, self.macos = tuple(settings["series"]), tuple(settings["macos"])
        self.numbers = tuple(int(n) for n in self.release.split("+")[0].split(".")[:3])
        self.memory, self.cores = settings["memory"], settings["cores"]
        self.recommended, self.recommended_known = settings["recommended"], "declared"
        if self.recommended is None:
            self.recommended, self.recommended_known = allocator.recommended_max(self.memory, self.macos)
        self.largest_buffer, self.largest_buffer_known = allocator.largest_buffer(self.memory, self.macos)
        self.table = Table(settings["table"])
        self.environ = environ
        self.fallback = _is_on(environ.get("PYTORCH_ENABLE_MPS_FALLBACK"))
        self.warned = False  # that an operator falls back
        self.operators, self.fallbacks, self.refusals, self.notes, self.used = {}, {}, {}, {}, {}
        self.facts, self.wrong, self.told = {}, {}, set()
        self.touched = 0  # calls of operators on the device
        self.wrong_wholes = 0  # calls of composed operators whose numbers come out wrong for sure
        self.refusal = None  # id of the error that is on its way: the error itself would hold what its frames hold
        self.shapes = Shapes() if settings["shape_only"] else None
        self.place = Place(self.make_account)
        self.stream = Stream()
        self.dispatch = self.dispatch_class(self)

    def make_account(self):
        """The account of memory; RuntimeError where the environment has watermarks that PyTorch does not take."""
        return allocator.MetalAllocator(self.series, self.recommended, self.environ, self.macos, self.largest_buffer)

    def memory_limits(self):
        """Limits of memory in bytes, and how each is known; one that is not known, or is switched off, is left out."""
        account, limits, source = self.account, {}, {}
        if self.recommended is not None:
            limits["recommended"], source["recommended"] = self.recommended, self.recommended_known
            for name, ratio, nbytes in (("high", account.high_ratio, account.limit),
                                        ("low", account.low_ratio, account.low_limit)):
                if ratio > 0:
                    limits[name] = nbytes
                    source[name] = "%g of the recommended working set (PYTORCH_MPS_%s_WATERMARK_RATIO)" % (ratio,
                                                                                                          name.upper())
        if account.max_buffer:
            limits["largest_buffer"], source["largest_buffer"] = account.max_buffer, self.largest_buffer_known
        return dict(limits, source=source)

    @property
    def account(self):
        """The account of memory, None before the first tensor."""
        return self.place.account

    @contextlib.contextmanager
    def use(self):
        """Have torch ask this double until the block ends, in every thread of the process."""
        before = current.double
        current.put(self)
        try:
            yield self
        finally:
            current.put(before)

    def check_available(self):
        """Raises what the first use of the device raises on a macOS that is too old for the release."""
        error = errors.availability_error(self.series, self.macos)
        if error is not None:
            raise error

    # What was seen

    def refused(self, name, cause, error):
        """Keep a refusal for the evidence, and hand the error back."""
        _count(self.refusals, (name, cause, type(error).__name__, str(error), source_line.where(1)[0]))
        self.refusal = id(error)
        return error

    def needs_values(self, name):
        """Keep that shapes alone do not do for a call, and give the error that says so. It is no refusal of the
        device's."""
        error = errors.values_error(name)
        _count(self.refusals, (name, "values", type(error).__name__, str(error), source_line.where(1)[0]))
        return error

    def fell_back(self, name):
        """Keep a fallback to the CPU: its Fallback, with this call counted."""
        fell = self.fallbacks.setdefault((name, source_line.where(1)[0]), Fallback())
        fell.calls += 1
        return fell

    def warns(self):
        """Whether a fallback is to be warned of: once in a process."""
        warned, self.warned = self.warned, True
        return not warned or torch.is_warn_always_enabled()

    def met(self, name, fact, sure):
        """Keep that a call met a fact: surely, or perhaps."""
        _count(self.facts, (name, fact, sure, source_line.where(1)[0]))

    def came_out_wrong(self, name, fact):
        """Keep that the numbers of a call come out wrong for sure."""
        _count(self.wrong, (name, fact))

    def stood_in(self, name):
        """Keep that a value was made up."""
        _count(self.notes, (name, "stand-in", "a value was asked for, and zero was given", source_line.where(1)[0]))

    def note(self, op, kind, text, where):
        """Keep a remark about an operator, or a name of PyTorch's Python, at file:line."""
        _count(self.notes, (op, kind, text, where))

    def told_version(self, package, version, asker, where):
        """Keep that somebody was told the release's version of PyTorch, or of a package beside it: once for each."""
        if (package, asker) not in self.told:
            self.told.add((package, asker))
            self.note(package + ".__version__", "told-version", "%s asked, and was told %s" % (asker, version), where)

    def note_use(self, text):
        """Keep that the script used what is imitated in part or not at all."""
        _count(self.used, text)

    def clear(self):
        """Forget what was seen: a forked child tells of itself alone."""
        for counts in self.operators.values():
            counts.clear()
        self.place.ledger.clear()
        self.fallbacks.clear()
        self.refusals.clear()
        self.notes.clear()
        self.facts.clear()
        self.wrong.clear()
        self.wrong_wholes = 0

    def events(self):
        """What was seen so far, as events: operators, fallbacks, refusals, facts, notes (docs/formats/events.md)."""
        rows = []
        for name, counts in sorted(self.operators.items()):
            if counts.calls:
                rows.append({"op": name, "n": counts.calls, "state": counts.state, "cpu_ns": counts.ns,
                             "bytes": counts.nbytes})
                if counts.flops is not None:
                    rows[-1]["flops"] = counts.flops
                if counts.bf16_flops:
                    rows[-1]["bf16_flops"] = counts.bf16_flops
                if counts.refused:
                    rows[-1]["refused"] = counts.refused
                    if counts.refused_flops is not None:
                        rows[-1]["refused_flops"] = counts.refused_flops
                if counts.wrong:
                    rows[-1].update(wrong=counts.wrong, wrong_ns=counts.wrong_ns, wrong_flops=counts.wrong_flops)
        yield {"ev": "ops", "rows": rows, "wrong_wholes": self.wrong_wholes}
        for (op, where), fell in sorted(self.fallbacks.items()):
            yield {"ev": "fallback_op", "op": op, "where": where, "n": fell.calls, "cpu_ns": fell.ns,
                   "bytes": fell.nbytes}
        for (op, cause, kind, text, where), n in sorted(self.refusals.items()):
            yield {"ev": "refused", "op": op, "cause": cause, "error": kind, "text": text, "where": where, "n": n}
        for (op, fact, sure, where), n in sorted(self.facts.items()):
            yield {"ev": "met", "op": op, "fact": fact, "sure": sure, "where": where, "n": n}
        for (op, kind, text, where), n in sorted(self.notes.items()):
            yield {"ev": "note", "op": op, "kind": kind, "text": text, "where": where, "n": n}
        if self.place.ledger.peak:
            yield self.place.ledger.event(self.place, self.memory_limits())


def _count(seen, key):
    seen[key] = seen.get(key, 0) + 1


def _is_on(flag):
    """PYTORCH_ENABLE_MPS_FALLBACK as PyTorch reads it: a number other than 0."""
    try:
        return flag is not None and int(flag) != 0
    except ValueError:
        return False
