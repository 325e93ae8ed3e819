"""How tools/double/truth.py counts: what lists say, on lists written here, and precision and recall worked out by
hand."""

import json
import os
import sys
from types import SimpleNamespace

import pytest

from conftest import ROOT

torch = pytest.importorskip("torch")
sys.path.insert(0, os.path.join(ROOT, "tools", "double"))
import truth  # noqa: E402

LISTS = '''
import unittest
def mps_ops_modifier(ops):
    SUPPORTED_COMPLEX_OPS = {'add'}
    BEFORE_14 = {'mul': [torch.int64]}
    UNIMPLEMENTED_XFAILLIST = {
        # Failures due to lack of op implementation on MPS backend
        'lu': None,
        'kron': [torch.int64, torch.float],
        # results differ by rounding
        'pow': [torch.float16],
    }
    UNDEFINED_XFAILLIST = {'randn': None}
    SKIPLIST = {'empty': None}
    def addDecorator(op, d) -> None:
        op.decorators = list(op.decorators) + [d]
    for op in ops:
        key = op.name + op.variant_test_name
        if key in SKIPLIST:
            addDecorator(op, DecorateInfo(unittest.skip('Skipped!'), dtypes=SKIPLIST[key]))
        for xfaillist in [UNIMPLEMENTED_XFAILLIST, UNDEFINED_XFAILLIST]:
            if key in xfaillist:
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=xfaillist[key]))
        if key in BEFORE_14 and MACOS_VERSION < 14.0:
            addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=BEFORE_14[key]))
        if key not in SUPPORTED_COMPLEX_OPS:
            addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=[torch.complex32, torch.complex64]))
        yield op
def mps_ops_grad_modifier(ops):
    XFAILLIST_GRAD = {'sum': [torch.float32]}
    for op in ops:
        if op.name in XFAILLIST_GRAD:
            op.decorators = [DecorateInfo(unittest.expectedFailure, dtypes=XFAILLIST_GRAD[op.name])]
        yield op
def mps_ops_error_inputs_modifier(ops):
    XFAILLIST = {'cat'}  # unsupported float64 dtype
    for op in ops:
        if op.name in XFAILLIST:
            op.decorators = [DecorateInfo(unittest.expectedFailure)]
        yield op
'''

WORKS = '''
class TestConsistency(TestCaseMPS):
    ALLOWLIST_OP = {'add': ['b8', 'f32'], 'mm': ['f32', 'f16']}
    ALLOWLIST_OP_GRAD = {'add': ['f32']}
    BLOCKLIST = {'mm': [torch.float16], 'lu': None}
'''


class Database:
    """Operators by name, with every dtype, and no marks."""

    def __init__(self, *names):
        self.op_db = [SimpleNamespace(name=n, variant_test_name="", decorators=(), error_inputs_func=True,
                                      supported_dtypes=lambda device: {getattr(torch, d) for d in truth.DTYPES})
                      for n in names]


def of(lists, *keys, series="2.6"):
    asked = truth.Truth(torch, Database("add", "mul", "lu", "kron", "pow", "randn", "empty", "sum", "cat", "mm"), lists,
                        series)
    return [asked.of(key)[0] for key in keys]


def test_lists_of_failures():
    lists = truth.read_lists(LISTS, torch, [15, 5])
    assert of(lists, "add||float32|forward", "add||complex64|forward", "mul||complex64|forward",
              "lu||float16|forward", "kron||int64|forward", "kron||float32|forward", "kron||int8|forward",
              "pow||float16|forward", "randn||float32|forward", "empty||float32|forward") == [
        "works", "works", "raises", "raises", "raises", "raises", "works", "values", "values", "skipped"]
    # gradients are held to both lists, error inputs to their own
    assert of(lists, "sum||float32|forward", "sum||float32|backward", "sum||float16|backward", "lu||float32|backward",
              "cat|||error inputs", "lu|||error inputs") == ["works", "raises", "works", "raises", "raises", "works"]
    assert truth.Truth(torch, Database("add"), lists, "2.6").unmet() == [
        "cat", "empty", "kron", "lu", "mul", "pow", "randn", "sum"]


def test_lists_depend_on_macos():
    new, old = (truth.read_lists(LISTS, torch, macos) for macos in ([15, 5], [13, 3]))
    assert of(new, "mul||int64|forward") == ["works"] and of(old, "mul||int64|forward") == ["raises"]


def test_lists_of_what_works():
    lists = truth.read_lists(WORKS, torch, [13, 3])
    assert of(lists, "add||float32|forward", "add||int8|forward", "add||float32|backward", "mm||float32|forward",
              "mm||float16|forward", "mm||float32|backward", "kron||float32|forward", series="2.0") == [
        "works", "skipped", "works", "works", "skipped", "skipped", "skipped"]


@pytest.mark.parametrize("text", [LISTS, WORKS])
def test_kept_lists_say_the_same(tmp_path, text):
    lists, path = truth.read_lists(text, torch, [15, 5]), str(tmp_path / "expected.txt")
    truth.keep(lists, "2.5", [15, 5], "another", path)
    truth.keep(truth.read_lists(LISTS, torch, [15, 5]), "2.6", [15, 5], "the tag", path)
    truth.keep(lists, "2.5", [15, 5], "the tag of 2.5", path)
    again, source = truth.kept("2.5", path)
    keys = ["%s||%s|%s" % (n, d, w) for n in ("add", "mul", "lu", "kron", "pow", "randn", "sum", "cat", "mm")
            for d in truth.DTYPES for w in ("forward", "backward")] + ["cat|||error inputs"]
    assert of(again, *keys) == of(lists, *keys) and source == "the tag of 2.5, read for macOS 15.5"
    assert truth.kept("2.4", path) == ({}, "")


def test_what_is_counted(tmp_path):
    """Five pairs expected to be refused, of which the double refuses three; a fourth refusal that no list has; one by
    its values, and one whose test fails by its CPU side, apart; eleven that work are in neither share."""
    refusal = {"n": 1, "gradients": 1, "cpu": "", "errors": [["double:dtype", "TypeError", "no such type"]]}
    fine, on_cpu = {"n": 1, "gradients": 1, "cpu": "", "errors": []}, {"n": 1, "gradients": 1, "cpu": "not here",
                                                                       "errors": []}
    found = {"lu||%s|forward" % d: refusal for d in ("float16", "float32", "bfloat16")}
    found.update({"kron||int64|forward": fine, "kron||float32|forward": fine, "add||float32|forward": refusal,
                  "pow||float16|forward": refusal, "mul||complex64|forward": on_cpu,
                  "cat|||error inputs": {"n": 1, "errors": [["deviates", "", "raises nothing"]]},
                  "lu|||error inputs": {"n": 1, "errors": [["skipped", "NotImplementedError", ""]]},
                  "add|||error inputs": {"n": 1, "errors": []}})
    found.update({"add||%s|forward" % d: fine for d in truth.DTYPES if d != "float32"})
    found.update({"mul||int8|forward": fine, "mul||int16|forward": fine})
    with open(tmp_path / "part-0.jsonl", "w") as f:
        f.writelines(json.dumps([key, result]) + "\n" for key, result in found.items())
    asked = truth.Truth(torch, Database("add", "mul", "lu", "kron", "pow", "cat"),
                        truth.read_lists(LISTS, torch, [15, 5]), "2.6")
    options = SimpleNamespace(work=str(tmp_path), only="", torch="2.6")
    counts, _, rows, valued, excused = truth.compare(options, asked)
    forward = counts["forward"]
    assert (forward["agree raises"], forward["differ raises"], forward["differ works"], forward["agree works"]) == (
        3, 2, 1, 11)
    assert truth.precision_and_recall(forward) == ("75.0 %", "60.0 %")
    assert (forward["values raises"], forward["cpu fails"], len(valued), len(excused)) == (1, 1, 1, 1)
    assert counts[truth.ERRORS]["agree raises"] == counts[truth.ERRORS]["skipped"] == 1
    assert {row[0] for row in rows} == {"kron||int64|forward", "kron||float32|forward", "add||float32|forward"}
    assert truth.precision_and_recall(counts["backward"]) == ("–", "–")


def test_the_page_agrees_with_itself():
    """Every release of the table on top has a section with these figures, and the shares are those of the counts."""
    with open(os.path.join(ROOT, "docs", "double-truth.md")) as f:
        top, *sections = f.read().split("\n## PyTorch ")
    rows = {r.split("|")[1].strip(): [c.strip() for c in r.split("|")[2:-1]] for r in top.split("\n")
            if r.startswith("| 2.")}
    assert len(rows) == len(sections) > 2
    for section in sections:
        at = {r.split("|")[1].strip(): [c.strip() for c in r.split("|")[2:-1]] for r in section.split("\n")
              if r.startswith(("| both |", "| error inputs |"))}
        assert rows[section.partition(",")[0]] == at["both"][:5] + at["error inputs"][:5]
        for expected, refused, hits, precision, recall, false, missed, unfounded, _ in at.values():
            assert int(unfounded) <= int(missed)
            assert int(expected) == int(hits) + int(missed) and int(refused) == int(hits) + int(false)
            for share, whole in ((precision, refused), (recall, expected)):
                assert share == ("%.1f %%" % (100 * int(hits) / int(whole)) if int(whole) and int(expected) else "–")
