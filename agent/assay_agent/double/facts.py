"""The table of facts as a release has it: what MPS refuses of an operator's arguments, and what it does otherwise than a
CPU without refusing (wrong numbers, a slower way, the CPU by itself).

facts.json is generated from internal/facts/rows, where each row has its source. A condition is clauses, all of which
hold; docs/knowledge.md describes them.
"""

import json
import os
import re

import torch

from .. import guest
from . import predicates
from .dtypes import NAMES, argument, asked, common_dtype, cxx, tensors

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

ERRORS = {"RuntimeError": RuntimeError, "TypeError": TypeError, "NotImplementedError": NotImplementedError,
          "ValueError": ValueError, "IndexError": IndexError}

_CLASSES = {"float": "float32 float16 bfloat16", "complex": "complex64 complex32 complex128",
            "integer": "int8 uint8 int16 int32 int64 uint16 uint32 uint64", "unsigned": "uint16 uint32 uint64",
            "index": "int32 int64", "not_float": "int8 uint8 int16 int32 int64 uint16 uint32 uint64 bool"}

_table = {}  # operator as rows name it -> rows


def _read():
    if not _table:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "facts.json"), encoding="utf-8") as f:
            for row in json.load(f):
                for operator in row["meets"]:
                    _table.setdefault(operator, []).append(row)
    return _table


def split(name):
    """("add", "Tensor") for aten::add.Tensor, aten::add_.Tensor and aten::add.out alike."""
    base, _, overload = name.partition("::")[2].partition(".")
    if base.endswith("_") and not base.endswith("__"):
        base = base[:-1]
    for suffix in ("_out", "out"):
        if overload.endswith(suffix):
            overload = overload[:-len(suffix)]
    return base, overload


def _numbers(text):
    return tuple(int(n) for n in text.split("."))


def holds(row, release, macos):
    """Whether a row speaks of a release, as many of its numbers as are given, and of a macOS."""
    n = len(release)
    if "from" in row and release < _numbers(row["from"])[:n] or "until" in row and release > _numbers(row["until"])[:n]:
        return False
    if "fixed" in row and release >= _numbers(row["fixed"])[:n]:
        return False
    for bound in filter(None, row.get("macos", "").split(",")):
        sign, version = bound.split()
        if (tuple(macos) < _numbers(version)) != (sign == "<"):
            return False
    return True


def certain(row, release):
    """Whether it is known that a row is true in a release of which it speaks: internal/facts/fact.go, Certain."""
    if row["known"] == "derived" or row.get("open") and "from" in row:
        return True
    if "until" in row and release == _numbers(row["until"])[:len(release)]:
        return True
    if "from" not in row:
        return False
    return release == _numbers(row["from"])[:len(release)] or "until" in row or "fixed" in row


def rows_of(name, release, macos):
    """The rows that speak of an operator by its full name (aten::add.Tensor), in a release and on a macOS."""
    base, overload = split(name)
    space = name.partition("::")[0] + "::"
    found = []
    for key in dict.fromkeys((name, name.partition(".")[0], space + base, space + base + "." + overload)):
        found += [row for row in _read().get(key, ()) if holds(row, release, macos)]
    return list({row["name"]: row for row in found}.values())


# ---- clauses: (args, kwargs) -> None, or what fills the text ---------------------------------------------------------

def condition(row):
    """The condition of a row as one function; None where one call's arguments do not tell."""
    clauses = row["if"]
    if clauses is None:
        return None
    checks = [_clause(c) for c in clauses]

    def check(args, kwargs):
        found = {}
        for c in checks:
            got = c(args, kwargs)
            if got is None:
                return None
            found = dict(got, **found)
        return found
    return check


def _clause(c):
    if "predicate" in c:
        function, settings = vars(predicates)[c["predicate"]], c.get("with", ())
        return lambda args, kwargs: function(args, kwargs, *settings)
    if "argument" in c:
        position, name = (-1, c["argument"]) if isinstance(c["argument"], str) else c["argument"]
        return _of_argument(position, name, c.get("default"), *_argument_test(c))
    test, of = _tensor_test(c), c["of"]
    if of == "common":
        return lambda args, kwargs: _typed(test, common_dtype(args, kwargs))
    if of == "result":
        return lambda args, kwargs: _typed(test, asked(args, kwargs))
    if of == "any":
        return lambda args, kwargs: _first(test, tensors(args, kwargs), args)
    positions = of if isinstance(of, list) else [of]

    def check(args, kwargs):
        return _first(test, [_tensor(args[p]) for p in positions if p < len(args)], args)
    return check


def _tensor(value):
    """The tensor, or the first of a list of them."""
    if value.__class__ in (list, tuple):
        value = value[0] if value else None
    return value


def _first(test, found, args):
    for t in found:
        if isinstance(t, torch.Tensor):
            got = test(t, args)
            if got is not None:
                return got
    return None


class _Type:
    """A type without a tensor, for tests that ask for no more."""

    def __init__(self, dtype):
        self.dtype = dtype


def _typed(test, dtype):
    return None if dtype is None else test(_Type(dtype), ())


def _types(names):
    """Those of these types and classes of types that the installed torch has."""
    all_names = " ".join(_CLASSES.get(n, n) for n in names).split()
    return frozenset(getattr(torch, n) for n in all_names if n in NAMES and hasattr(torch, n))


def _tensor_test(c):
    if "dtype" in c or "not_dtype" in c:
        types, within = _types(c.get("dtype") or c["not_dtype"]), "dtype" in c
        return lambda t, args: {"dtype": cxx(t.dtype)} if (t.dtype in types) == within else None
    if "unequal_dtype" in c:
        other = c["unequal_dtype"]

        def unequal(t, args):
            o = args[other] if other < len(args) else None
            if isinstance(o, torch.Tensor) and o.dtype != t.dtype:
                return {"dtype": cxx(t.dtype), "other": cxx(o.dtype)}
        return unequal
    key, value = next((k, v) for k, v in c.items() if k != "of")
    return {
        "rank": lambda t, args: {"n": t.dim()} if t.dim() == value else None,
        "not_rank": lambda t, args: {"n": t.dim()} if t.dim() != value else None,
        "rank_above": lambda t, args: {"n": t.dim()} if t.dim() > value else None,
        "rank_below": lambda t, args: {"n": t.dim()} if t.dim() < value else None,
        "elements_above": lambda t, args: {"n": t.numel()} if t.numel() > value else None,
        "size_above": lambda t, args: {"n": max(t.shape)} if max(t.shape, default=0) > value else None,
        "contiguous": lambda t, args: {} if _is_contiguous(t) == value else None,
    }[key]


def _is_contiguous(t):
    return t.layout is not torch.strided or t.is_contiguous()


def _argument_test(c):
    key, wanted = next((k, v) for k, v in c.items() if k not in ("argument", "default"))
    return {
        "is": (lambda v: v == wanted, False), "not": (lambda v: v != wanted, False),
        "above": (lambda v: v > wanted, False), "below": (lambda v: v < wanted, False),
        "not_above": (lambda v: not v > wanted, False),
        "outside": (lambda v: not wanted[0] <= v <= wanted[1], False),
        "among": (lambda v: v in wanted, False), "not_among": (lambda v: v not in wanted, False),
        "truthy": (lambda v: bool(v) == wanted, False),
        "imaginary": (lambda v: isinstance(v, complex) and bool(v.imag) == wanted, False),
        "absent": (lambda v: (v is None) == wanted, True),
    }[key]


def _of_argument(position, name, default, test, asks_none):
    def check(args, kwargs):
        v = argument(args, kwargs, position, name, default) if position >= 0 else kwargs.get(name, default)
        if v is None and not asks_none or isinstance(v, torch.Tensor):
            return None
        try:
            return {"value": v} if test(v) else None
        except TypeError:  # a value of another type than the row is about: a string where a number is due
            return None
    return check


# ---- what rows say ---------------------------------------------------------------------------------------------------

# Where the assertion stands that a tensor's buffer has bytes: the line of OperationUtils.mm, as it is in the wheels.
_ASSERTED = {(2, 0): 283, (2, 1): 327, (2, 2): 341, (2, 3): 383, (2, 4): 387, (2, 5): 524, (2, 6): 530, (2, 7): 565,
             (2, 8): 566, (2, 9): 551, (2, 10): 554, (2, 11): 555, (2, 12): 525, (2, 13): 536, (2, 14): 536,
             (2, 15): 506}


def _asserted(release):
    """What fills {path} and {line} in a text: of the builds of 2.11 and before, and those since."""
    found = {"path": "/Users/runner/work/pytorch/%saten/src/ATen/native/mps/"
             % ("pytorch/" * (2 if release < (2, 12) else 1))}
    if release[:2] in _ASSERTED:
        found["line"] = _ASSERTED[release[:2]]
    return found


_HOLE = re.compile(r"\{(\w+)\}")


def text_of(row, operator, found):
    """A row's message, with what varies filled in as far as it is known."""
    filled = dict(found, op=split(operator)[0].strip("_"))
    return _HOLE.sub(lambda m: str(filled.get(m[1], m[0])), row["text"])


def refusals(name, release, macos):
    """Functions of (args, kwargs) that raise what the rows about an operator say is refused."""
    return [_refusal(row, condition(row), name, tuple(release)) for row in rows_of(name, tuple(release), macos)
            if row["outcome"] == "refused" and row["if"] is not None and row["error"] in ERRORS and "text" in row]


def _refusal(row, check, name, release):
    place = _asserted(release) if "{line}" in row["text"] else {}

    def rule(args, kwargs):
        found = check(args, kwargs)
        if found is not None:
            raise ERRORS[row["error"]](text_of(row, name, dict(place, **found)))
    return rule


# What a rehearsal remarks: these happen without a word, or with a warning that is easily lost.
REMARKED = ("wrong", "aborts", "cpu", "slow", "warns", "ignored")


class Remark:
    """A row of what MPS does otherwise than a CPU without refusing, as an operator of a release meets it.

    fact     its name
    check    function of (args, kwargs); None where one call's arguments do not tell
    certain  whether the row is known to be true in the release whenever its clauses hold
    wrong    numbers come out wrong
    late     it is met in the backward pass
    told     it was said that it may be met, which is said once
    done     and no call can show more
    """

    __slots__ = ("fact", "check", "certain", "wrong", "late", "told", "done")

    def __init__(self, row, release):
        self.fact, self.check = row["name"], condition(row)
        self.certain = certain(row, release) and not row.get("partly", False)
        self.wrong = row["outcome"] == "wrong"
        self.late, self.told, self.done = row.get("direction") == "backward", False, False


def remarks(name, release, macos):
    """A Remark for each row about an operator of what MPS does otherwise than a CPU without refusing."""
    release = tuple(release)
    return [Remark(row, release) for row in rows_of(name, release, macos) if row["outcome"] in REMARKED]


def remarked(remarks, args, kwargs, backward=True):
    """(remark, sure) for each that a call meets. What one call does not tell is said once. backward:
    whether a backward pass follows."""
    for r in remarks:
        if r.done or r.late and not backward:
            continue
        found, sure = {}, False
        if r.check is not None:
            try:
                found = r.check(args, kwargs)
            except Exception as error:  # arguments of another form than the row is about
                guest.pass_on(error)
                continue
            if found is None:
                continue
            sure = r.certain and "perhaps" not in found
        if not sure:
            if r.told:
                continue
            r.told, r.done = True, r.check is None or not r.certain
        yield r, sure
