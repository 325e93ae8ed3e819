"""Each fact's smallest call on the double: it meets the fact, and the call beside it does not (tools/double/calls.py).
The rows' sources are the oracle: their texts were read in the wheels."""

import os
import sys

import pytest
import torch

from conftest import ROOT

sys.path.insert(0, os.path.join(ROOT, "tools", "double"))


@pytest.mark.full_set
def test_smallest_calls():
    pytest.importorskip("tomllib")
    import calls
    said = calls.run(list(calls.rows()))
    assert len(said) > 10
    assert not {name: problem for name, problem in said.items() if problem}


def row(**more):
    return dict({"name": "x", "meets": ["aten::x"], "if": [], "outcome": "wrong", "known": "reported"}, **more)


@pytest.mark.parametrize("more, releases", [
    # what is known of the releases -> of 2.3 to 2.7 those in which it was seen, or that lie between such; TestCertain
    ({}, ""),
    ({"from": "2.5.0"}, "5"),  # seen there, and nobody said when it ended
    ({"from": "2.4.0", "until": "2.5.1"}, "45"),
    ({"until": "2.5.1"}, "5"),
    ({"from": "2.4.0", "fixed": "2.6.0"}, "45"),
    ({"fixed": "2.6.0"}, ""),  # nobody said since when
    ({"from": "2.5.0", "open": True}, "567"),
    ({"open": True}, ""),
])
def test_certain(more, releases):
    from assay_agent.double import facts
    found = "".join(str(n) for n in range(3, 8)
                    if facts.holds(row(**more), (2, n), (15, 0)) and facts.certain(row(**more), (2, n)))
    assert found == releases


def test_what_is_not_sure_is_said_once():
    from assay_agent.double import facts
    always, open_, elsewhere = row(until="2.8.0"), row(until="2.8.0", **{"if": None}), row(**{"from": "2.1.0"})
    remarks = [facts.Remark(r, (2, 8)) for r in (always, open_, elsewhere)]
    assert [(r.fact, sure) for r, sure in facts.remarked(remarks, (), {})] == [("x", True), ("x", False), ("x", False)]
    assert [(r.fact, sure) for r, sure in facts.remarked(remarks, (), {})] == [("x", True)]


def test_gradients_only_where_there_are_any():
    from assay_agent.double import facts
    remarks = [facts.Remark(row(until="2.8.0", direction="backward"), (2, 8))]
    assert not list(facts.remarked(remarks, (), {}, False)) and list(facts.remarked(remarks, (), {}, True))


def test_values_that_are_not_there_may_be_any():
    """Without data (--shape-only) nobody can tell whether a tensor has NaN, or an index is outside."""
    from assay_agent.double import predicates
    MAY, p = predicates.MAY, vars(predicates)
    nan, index, table = torch.tensor([float("nan")]), torch.tensor([7]), torch.ones(3, 2)
    for name, args, more in (("nan_in", (nan,), (0,)), ("index_outside", (table, index), ()),
                             ("value_above", (index,), (0, 6)), ("value_is", (index,), (0, 7)),
                             ("target_outside", (table, index), ()), ("target_ignored", (table, index - 107), ())):
        told = p[name](args, {}, *more)
        assert told == {}, name
        assert p[name](tuple(a.to("meta") for a in args), {}, *more) is MAY, name
        assert p[name](tuple(a * 0 for a in args), {}, *(more[:1] + (1,) * len(more[1:]))) is None or name == "nan_in"
    assert p["index_outside"]((table, [torch.tensor([-3])]), {}) is None
    assert p["index_outside"]((table, torch.tensor([-3])), {}) == {}
    assert p["index_outside"]((table, [torch.ones(3, dtype=torch.bool)]), {}) is None


def test_every_predicate_is_named_by_a_row_and_is_there():
    from assay_agent.double import facts, predicates
    named = {clause["predicate"] for rows in facts._read().values() for row in rows for clause in row["if"] or ()
             if "predicate" in clause}
    functions = {name for name, f in vars(predicates).items()
                 if getattr(f, "__module__", "") == predicates.__name__ and not name.startswith("_")}
    assert named == functions
