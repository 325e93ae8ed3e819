"""Blocks of steps with the hooks on and off, on a clock that the test moves."""

import collections
import random

import pytest
from assay_agent import timeline, wire
from assay_agent.device import Device
from assay_agent.watch import blocks

OPT, FWD, DATA = 1, 2, 3
MS = 1_000_000


class Training:
    """A loop whose hooks cost what the test says while they are on."""

    def __init__(self, monkeypatch, seed=1, cost=0, step=8 * MS, device=None):
        self.time, self.cost, self.length = 1000, cost, step
        self.said, self.switched, self.waited = [], [], 0
        for owner in (timeline, blocks):
            monkeypatch.setattr(owner, "now", lambda: self.time)
        monkeypatch.setattr(wire, "put", self.said.append)
        monkeypatch.setattr(wire, "wake", lambda: None)
        monkeypatch.setattr(wire, "say", self.said.append)
        self.t = timeline.Timeline()
        for number, name in ((OPT, "optimizer"), (FWD, "forward"), (DATA, "data")):
            assert self.t.phase(name, number, name, "") == number
        self.t.device = device or Device("cpu")
        self.t.blocks = blocks.Blocks(self.switch, seed)
        self.on = True

    def switch(self, on):
        self.switched.append(on)
        self.on = on
        return True

    def step(self, batch=None, keys=(1,)):
        if batch is not None:
            self.t.fetch_begin()
            self.t.fetch_end(DATA, batch)
        for key in keys:
            self.time += self.length // len(keys)
            if self.on:
                self.time += self.cost // len(keys)
            self.t.backward_begin(FWD)
            self.t.backward_end(FWD)
            self.t.optimizer_begin(OPT, key)
            self.t.optimizer_end(OPT)

    def blocks(self):
        return [e for e in self.said if e["ev"] == "block"]

    def rows(self):
        return [dict(zip(timeline.COLUMNS, row)) for row in self.t.rows]


@pytest.fixture
def training(monkeypatch):
    return lambda **how: Training(monkeypatch, **how)


@pytest.mark.parametrize("batch", [None, (1, 1)])
def test_the_difference_is_what_the_hooks_cost(training, batch):
    loop = training(cost=300_000)
    for _ in range(3000):
        loop.step(batch)
    each = {}
    for e in loop.blocks():
        each.setdefault(e["on"], []).append((e["ns"] - e["outside"]) / e["steps"])
    assert set(each[True]) == {8_300_000} and set(each[False]) == {8 * MS}
    pairs = collections.Counter((e["number"] + 1) // 2 for e in loop.blocks() if e["number"])
    assert len(pairs) > 10 and set(list(pairs.values())[:-1]) == {2}, "one with the hooks on and one with them off"
    first = {(e["number"] + 1) // 2: e["on"] for e in reversed(loop.blocks()) if e["number"]}
    assert set(first.values()) == {True, False}, "in an order that is drawn"


def test_steps_bear_their_kind(training):
    loop = training(cost=300_000)
    for _ in range(1500):
        loop.step((1, 1))
    rows = loop.rows()
    assert [r["number"] for r in rows] == list(range(1, len(rows) + 1)), "every step is counted, hooks or not"
    for before, row in zip(rows, rows[1:]):
        length = 8_300_000 if row["kind"] == "" else 8 * MS
        if row["kind"] in ("", "bare"):
            assert row["raw"] == row["total"] == length
            assert sum(row["phases"]) == (length if row["kind"] == "" else 0), "phases of a bare step are not known"
        if {before["kind"], row["kind"]} == {"", "bare"}:
            raise AssertionError("between the two stand steps that count nowhere")
    assert [r["kind"] for r in rows[: blocks.FIRST]] == [""] * blocks.FIRST
    assert sum(r["kind"] == "bare" for r in rows) > 500 and loop.t.blocks.bare_steps > 500


@pytest.mark.parametrize(
    "length", [8 * MS, *(pytest.param(ms * MS, marks=pytest.mark.full_set) for ms in (1, 1000))]
)
def test_changes_are_bounded_and_the_hooks_are_mostly_off(training, length):
    loop = training(step=length)
    loop.t.rows = collections.deque(maxlen=10)
    times = 0
    while loop.time < 14 * 24 * 3600 * 10**9 and times < 200_000:
        loop.step()
        times += 1
        if times > 30_000:  # fortnights go by
            loop.length = max(loop.length, loop.time // 2000)
    assert times < 200_000 and len(loop.switched) <= blocks.CHANGES + 1
    assert loop.t.blocks.bare_steps > times / 2


def test_three_minutes_are_measured_by_many_pairs(training):
    loop = training()
    while loop.time < 180 * 10**9:
        loop.step()
    on = [e for e in loop.blocks() if e["on"]]
    assert 25 <= len(on) <= 60
    hooked = sum(r["kind"] in ("", "sync") for r in loop.rows())
    assert hooked < 0.2 * loop.t.number


def test_a_device_is_waited_for_at_both_ends_of_a_block(training):
    """The host runs ahead: what it queued counts in the block in which it was queued."""
    loop = training()
    queued = [0]

    def synchronize():
        loop.time += queued[0]
        queued[0] = 0

    loop.t.device = Device("cuda", synchronize=synchronize)
    loop.length = 2 * MS
    for number in range(3000):
        queued[0] += 6 * MS
        loop.step((1, 1))
        if number % 10 == 0:
            synchronize()  # the script's own log
    assert {(e["ns"] - e["outside"]) / e["steps"] for e in loop.blocks()} == {8 * MS}
    kinds = collections.Counter(r["kind"] for r in loop.rows())
    assert 5 < kinds["sync"] < 60, "seldom"
    for row in loop.rows():
        known = row["kind"] not in ("bare", "edge")
        assert sum(row["phases"]) == (row["total"] if known else 0), "the split is of synchronised steps"


def test_an_instrument_in_a_block_is_said(training):
    loop = training()
    loop.t.open_hooks.append(lambda number, t: "trace" if 300 <= number < 330 else None)
    for _ in range(1000):
        loop.step((1, 1))
    touched = [e for e in loop.blocks() if e["touched"]]
    assert touched and all(e["first"] <= 330 and e["first"] + e["steps"] >= 300 for e in touched)
    assert [r["number"] for r in loop.rows() if r["kind"] == "trace"] == list(range(300, 330))


def test_a_window_comes_first(training):
    loop = training()
    loop.t.open_hooks.append(lambda number, t: "profile" if 11 <= number < 61 else None)
    for _ in range(300):
        loop.step()
    assert loop.blocks()[0]["first"] > 61 + blocks.SETTLED and not loop.blocks()[0]["touched"]


def test_what_belongs_to_no_step_is_no_part_of_a_block(training):
    loop = training()
    for number in range(1500):
        loop.step((1, 1))
        if number % 50 == 49:
            for _ in range(3):  # an evaluation
                loop.t.fetch_begin()
                loop.t.fetch_end(DATA, (2, number))
                loop.time += 20 * MS
    assert {(e["ns"] - e["outside"]) / e["steps"] for e in loop.blocks()} == {8 * MS}


def test_rounds_of_several_optimizers_and_limits(training):
    loop = training()
    loop.t.limit_steps = 500
    with pytest.raises(SystemExit):
        for _ in range(600):
            loop.step(keys=(1, 2))
    assert loop.t.number == 500 and {r["opts"] for r in loop.rows()} == {2}
    assert any(r["kind"] == "bare" for r in loop.rows())


def test_a_loop_that_was_broken_off_goes_on(training):
    loop = training()
    for number in range(800):
        if number % 7 == 0:
            loop.t.fetch_begin()  # the script raised within the hook
            loop.t.lost()
        loop.step((1, 1))
    assert loop.t.number > 600 and len(loop.blocks()) > 5


def test_the_scripts_generator_stays_its_own(training):
    random.seed(7)
    before = random.getstate()
    loop = training(seed=None)
    for _ in range(500):
        loop.step()
    assert random.getstate() == before and loop.blocks()


def test_a_forked_child_begins_with_the_hooks_on(monkeypatch, training):
    loop = training()
    monkeypatch.setattr(timeline, "T", loop.t)
    monkeypatch.setattr(blocks, "T", loop.t)
    monkeypatch.setattr(blocks, "_switches", [loop.switch])
    while loop.on:
        loop.step()
    loop.t.reset()
    blocks.clear()
    assert loop.on and loop.t.blocks.on and not loop.t.bare and loop.t.blocks.began is None


def test_hooks_that_fail_to_change_are_named(monkeypatch, training):
    loop = training()

    def fails(on):
        raise ValueError("no")

    said = []
    monkeypatch.setattr(wire, "trouble", said.append)
    monkeypatch.setattr(blocks, "_switches", [fails, loop.switch])
    assert blocks.switch(False) and loop.switched == [False] and "ValueError" in said[0]


def test_no_blocks_in_a_rehearsal(monkeypatch):
    monkeypatch.setattr(blocks, "T", timeline.Timeline())
    for config in ({"double": {"release": "2.8.0"}}, {"only": "data"}):
        blocks.install(None, config)
        assert blocks.T.blocks is None
    blocks.install(None, {})
    assert blocks.T.blocks is not None


def test_steps_by_hand_have_blocks(training):
    """No optimizer steps: the script changes its parameters itself, and the backward pass tells."""
    loop = training(cost=300_000)
    loop.t.touched = lambda: True
    for _ in range(1500):
        loop.time += loop.length + (loop.cost if loop.on else 0)
        loop.t.backward_begin(FWD)
        loop.t.backward_end(FWD)
    each = {}
    for e in loop.blocks():
        each.setdefault(e["on"], set()).add((e["ns"] - e["outside"]) / e["steps"])
    assert each == {True: {8_300_000}, False: {8 * MS}}
    assert {r["raw"] for r in loop.rows() if r["kind"] == "bare"} == {8 * MS}


# -- lean stretches ------------------------------------------------------------------------------------------------------


class Lean(Training):
    """A loop whose hooks know of lean stretches, as PyTorch's do."""

    def __init__(self, monkeypatch, **how):
        super().__init__(monkeypatch, **how)
        self.t.leans = True
        self.leaned = 0

    def step(self, batch=None, keys=(1,)):
        for key in keys if self.t.lean else ():
            self.time += self.length // len(keys)
            self.leaned += self.t.lean
            if self.t.lean:
                self.t.lean_step(key)
            else:
                self.t.optimizer_begin(OPT, key)
                self.t.optimizer_end(OPT)
            keys = ()
        if keys:
            super().step(batch, keys)


@pytest.fixture
def lean(monkeypatch):
    return lambda **how: Lean(monkeypatch, **how)


@pytest.mark.parametrize("batch", [None, (1, 1)])
def test_in_a_lean_stretch_every_step_is_told(lean, batch):
    loop = lean(cost=300_000)
    for _ in range(3000):
        loop.step(batch)
    rows = loop.rows()
    assert loop.leaned > 1000 and [r["number"] for r in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 2999 and loop.t.counts["step"] == len(rows)
    bare = [r for r in rows if r["kind"] == "bare"]
    assert {(r["total"], r["raw"], r["micro"], r["opts"]) for r in bare} == {(8 * MS, 8 * MS, 1, 1)}
    each = {}
    for e in loop.blocks():
        each.setdefault(e["on"], []).append((e["ns"] - e["outside"]) / e["steps"])
    assert set(each[True]) == {8_300_000} and set(each[False]) == {8 * MS}
    first = {(e["number"] + 1) // 2: e["on"] for e in loop.blocks() if e["number"]}
    assert len(first) > 10


def test_evaluation_ends_a_lean_stretch(lean):
    loop, ended = lean(), 0
    for _ in range(30):
        for _ in range(100):
            loop.step()
        ended += loop.t.lean
        loop.t.evaluates("model")
        assert not loop.t.lean
        loop.time += 50 * MS
        loop.t.evaluated("model")
    loop.t.finish()
    rows = loop.rows()
    assert ended > 5 and len(rows) == 3000
    assert {r["total"] for r in rows[1:]} == {8 * MS} and sum(r["outside"] for r in rows) == 29 * 50 * MS
    assert rows[-1]["epoch"] == 30 and loop.t.loop()["epochs"] == "evaluation"


def test_the_end_of_a_pass_ends_a_lean_stretch(lean):
    loop, ended = lean(), 0
    for epoch in range(30):
        loop.t.fetch_begin(new_pass=True)
        loop.t.fetch_end(DATA, None)
        for _ in range(100):
            loop.step((1, 2 + epoch))
        ended += loop.t.lean
        if not loop.t.lean:
            loop.t.fetch_begin()
            loop.t.fetch_end(DATA, None)
        loop.t.pass_ended((1, 2 + epoch))
        assert not loop.t.lean
    loop.t.finish()
    epochs = collections.Counter(r["epoch"] for r in loop.rows())
    assert ended > 5 and epochs == {n + 1: 100 for n in range(30)}


def test_steps_that_differ_are_in_no_lean_stretch(lean):
    loop = lean()
    for _ in range(1000):
        loop.step(keys=(1, 2))
    assert loop.leaned == 0, "two optimizers a step"
    loop = lean()
    for _ in range(40):
        for _ in range(60):
            loop.step()
        loop.step(keys=(2,))
        assert not loop.t.lean, "one that comes now and then"
    loop.t.finish()
    assert loop.leaned > 100 and abs(len(loop.rows()) - 40 * 60) <= 1, "a step of the second belongs to the one before"


def test_what_else_ends_a_lean_stretch(lean):
    loop = lean()
    for end in (
        lambda: loop.t.may_end_epoch("scheduler"),
        lambda: loop.t.fetch_begin(new_pass=True) or loop.t.fetch_end(DATA, None),
        lambda: loop.t.optimizer_begin(OPT, 1),
        loop.t.lost,
    ):
        while not loop.t.lean:
            loop.step()
        end()
        assert not loop.t.lean
        if loop.t.in_opt:
            loop.t.optimizer_end(OPT)
        loop.step()
    while not loop.t.lean:
        loop.step()
    for _ in range(3):  # a scheduler that steps with the optimizer is no epoch's end
        loop.t.may_end_epoch("scheduler")
        loop.step()
    loop.t.often.add("scheduler")
    while not loop.t.lean:
        loop.step()
    loop.t.may_end_epoch("scheduler")
    assert loop.t.lean


def test_limits_hold_in_a_lean_stretch(lean):
    loop = lean()
    while not loop.t.lean:
        loop.step()
    loop.t.limit_steps = loop.t.number + 3
    with pytest.raises(SystemExit):
        for _ in range(10):
            loop.step()
    assert loop.t.number == loop.t.limit_steps == loop.rows()[-1]["number"]


def test_the_allocator_is_asked_in_a_lean_stretch(lean):
    loop = lean(device=Device("abacus", memory=lambda: (3, 4)))
    while not loop.t.lean:
        loop.step()
    loop.t.memory_every = 1
    loop.t.look_at_memory()
    loop.step()
    assert (loop.rows()[-1]["live"], loop.rows()[-1]["pool"]) == (3, 4)
    loop.step()
    assert loop.rows()[-1]["live"] == -1, "of another step nothing is known"
