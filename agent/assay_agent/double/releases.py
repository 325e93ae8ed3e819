"""One run, all releases: beside the double in use stand others, of other releases, and each distinct call is asked of
them all. Nothing is refused on their account, and nothing computed: what a run on one release calls is what the others
would have been called with, up to the first call that one of them refuses and the release of the run does not.

A call is known by a key of what it was handed; only a key that is new is asked. docs/releases.md says what that misses.
"""

import torch

from .. import guest
from . import generators, refuse
from .current import current
from .dispatch import Dispatch
from .double import Double, Fallback

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

KEYS = 200_000  # calls that are remembered: beyond it all are forgotten, and asked anew
CALLS = 50_000  # calls that a release refuses and another does not, kept in a process; beyond it none is
OF_A_TEST = 1000  # of them in one test

_Tensor = torch.Tensor
# What it raises depends on what is in its tensors, so no key tells.
_BY_VALUE = ("aten::_linalg_check_errors",)
# The first release that has an operator of its own where surface/tensors.py asks about it.
_SINCE = {"aten::_scaled_dot_product_attention_math_for_mps": (2, 5)}


class _Asked(Double):
    """A double that is asked what it would refuse, and keeps no account."""

    def __init__(self, settings, beside):
        Double.__init__(self, settings, beside.environ)
        self.place = self.dispatch.on_place = beside.place
        self.dispatch.live, self.dispatch.ledger = beside.place.live, beside.place.ledger
        self.dispatch.thread = beside.dispatch.thread

    def refused(self, name, cause, error):
        self.last = name, cause
        return error

    def fell_back(self, name):
        return Fallback()

    def warns(self):
        return False


class Recording(Dispatch):
    """The way through the double of a run in which other releases are asked.

    others    the doubles that are asked, one of the run's own release among them, oldest first; a set of them is an
              integer, with bit n for the one at n
    tell      function of an event: a call that some release refuses, and another does not (docs/formats/events.md)
    notes     those of current: numbers of such calls are added to each
    """

    MOST = OF_A_TEST

    def __init__(self, double):
        Dispatch.__init__(self, double)
        self.others, self.tell = (), None
        self.notes = current.notes
        self.forget()

    def forget(self):
        """A forked child tells of its own calls."""
        self.verdicts, self.rows, self.aside, self.distinct = {}, {}, 0, 0
        self.full = False

    def ask(self, settings):
        """Ask releases of these settings, oldest first, that of the run among them."""
        self.others = [_Asked(s, self.double) for s in settings]
        self.tell({"ev": "releases", "on": self.double.release, "asked": [o.release for o in self.others]})

    # What is asked

    def check(self, op, func, args, kwargs, tensors, entering, leaving, sparse):
        key = None
        if op.name not in _BY_VALUE:
            key = (func, entering, leaving, self.thread.inside, self.aside) + self._key(args, kwargs)
        self._once(key, func, args, kwargs, lambda other: other.dispatch.would(func, args, kwargs, tensors, entering,
                                                                               leaving, sparse))
        return Dispatch.check(self, op, func, args, kwargs, tensors, entering, leaving, sparse)

    def apart(self, op, func, args, kwargs):
        """Releases that have a kernel for the whole, or lack it, are asked about that, and not about its parts."""
        def would(other):
            mine = other.dispatch.known.get(func) or other.dispatch.learn(func)
            if not mine.decomposes:
                other.dispatch.check(mine, func, args, kwargs, (), False, False, False)

        self._once(("apart", func, self.aside) + self._key(args, kwargs), func, args, kwargs, would)
        before, whole = self.aside, 0
        for n, other in enumerate(self.others):
            if not (other.dispatch.known.get(func) or other.dispatch.learn(func)).decomposes:
                whole |= 1 << n
        self.aside = before | whole
        try:
            return Dispatch.apart(self, op, func, args, kwargs)
        finally:
            self.aside = before

    def asked(self, name, args, kwargs):
        since = _SINCE.get(name, (0,))
        self._once(("whole", name) + self._key(args, kwargs), name, args, kwargs,
                   lambda other: other.series >= since and Dispatch.asked(other.dispatch, name, args, kwargs))
        Dispatch.asked(self, name, args, kwargs)

    def registered_for(self, name, letter, key):
        self._once(("sparse", name, letter), name, (), {},
                   lambda other: Dispatch.registered_for(other.dispatch, name, letter, key))
        Dispatch.registered_for(self, name, letter, key)

    def made_of(self, op, dtype, ndim):
        self._once(("made", op.name, dtype, ndim > 16, op.moves), op.name, (), {"dtype": dtype},
                   lambda other: refuse.allocate_check(dtype, ndim, other.series, other.macos, op.moves))
        Dispatch.made_of(self, op, dtype, ndim)

    def _key(self, args, kwargs):
        key = tuple([self._of(a) for a in args])
        if kwargs:
            key += tuple([(name, self._of(kwargs[name])) for name in sorted(kwargs)])
        return key

    def _of(self, a):
        kind = a.__class__
        if kind is list or kind is tuple:
            return tuple([self._of(item) for item in a])
        if isinstance(a, _Tensor):
            try:
                storage = a.untyped_storage()
                return (a.dtype, a.shape, a.stride(), a.storage_offset(), storage._cdata in self.live,
                        not storage.nbytes(), a.is_conj())
            except (NotImplementedError, RuntimeError, AttributeError):  # sparse, nested, of torch.func
                return (a.dtype, a.layout, a.dim(), self.on_place.on_mps(a))
        if kind is float or kind is complex or kind is int or kind is bool:
            return (kind, a if a == a else "nan")
        if isinstance(a, torch._C.Generator):
            return ("generator", generators.is_of_mps(a))
        try:
            hash(a)
        except TypeError:
            return kind
        return a

    def _once(self, key, func, args, kwargs, would):
        number = self.verdicts.get(key) if key is not None else None
        if number is None:
            try:
                number = self._judged(func, args, kwargs, would)
            except Exception as error:  # a call of another form than anything is known of
                guest.pass_on(error)
                number = -1
            if key is not None:
                if len(self.verdicts) >= KEYS:
                    self.verdicts.clear()
                self.verdicts[key] = number
        if number >= 0:
            for notes in self.notes:
                if len(notes) < OF_A_TEST:
                    notes[number] = True

    def _judged(self, func, args, kwargs, would):
        """The number of the call among those of which releases think differently; -1 where they all agree."""
        self.distinct += 1
        groups, refusing = {}, 0
        for n, other in enumerate(self.others):
            if self.aside >> n & 1:
                continue
            other.last = None
            try:
                would(other)
            except Exception as error:
                guest.pass_on(error)
                name, cause = other.last or (_name(func), "dtype")
                groups.setdefault((name, cause, type(error).__name__), []).append((n, str(error)))
                refusing |= 1 << n
        # where the release of the run is not asked, its own way is another
        everyone = (1 << len(self.others)) - 1 & ~self.aside
        if refusing in (0, everyone):
            return -1
        row = {"op": _name(func), "call": _shown(args, kwargs), "aside": _bits(self.aside), "refused": [
            {"op": name, "cause": cause, "error": kind, "text": found[-1][1][:1000], "in": [n for n, _ in found]}
            for (name, cause, kind), found in groups.items()]}
        return self._kept(row)

    def _kept(self, row):
        key = repr(row)
        number = self.rows.get(key)
        if number is None:
            if len(self.rows) >= CALLS:
                self.full = True
                return -1
            number = self.rows[key] = len(self.rows)
            self.tell(dict({"ev": "release_call", "n": number}, **row))
        return number


def _name(func):
    if isinstance(func, str):
        return func
    schema = func._schema
    return schema.name + ("." + schema.overload_name if schema.overload_name else "")


def _bits(mask):
    return [n for n in range(mask.bit_length()) if mask >> n & 1]


def _shown(args, kwargs):
    """Types and shapes, for a reader: float32[2,3], 4, dim=1. Of texts and objects nothing."""
    def one(a):
        if isinstance(a, _Tensor):
            try:
                return "%s[%s]" % (str(a.dtype)[6:], ",".join(str(int(n)) for n in a.shape))
            except RuntimeError:
                return str(a.dtype)[6:]
        if isinstance(a, (list, tuple)):
            return "[%s]" % ", ".join(one(item) for item in a[:8])
        if isinstance(a, (torch.dtype, torch.layout, torch.memory_format)):
            return str(a)[6:]
        return "%g" % a if isinstance(a, (int, float)) and not isinstance(a, bool) else \
            str(a) if a is None or isinstance(a, bool) else "…"

    parts = [one(a) for a in args] + ["%s=%s" % (name, one(kwargs[name])) for name in sorted(kwargs or {})
                                      if name not in ("device", "pin_memory", "layout")]
    return ", ".join(parts)[:300]
