"""watch/length.py: what the script itself says of how long it will be."""

import sys
import types

import pytest

from assay_agent import wire
from assay_agent.watch import length


class Bar:
    def __init__(self, total, disable=False):
        self.n, self.total, self.disable = 0, total, disable


@pytest.fixture
def told(monkeypatch):
    """What is put, and a timeline of no loop yet."""
    events = []
    monkeypatch.setattr(wire, "put", events.append)
    monkeypatch.setattr(length, "T", types.SimpleNamespace(number=0, epoch=0, primary=None))
    length.clear()
    yield events
    length.clear()


def bars(monkeypatch, *drawn):
    holder = types.SimpleNamespace(tqdm=types.SimpleNamespace(_instances=set(drawn)))
    monkeypatch.setitem(sys.modules, "tqdm.std", holder)


def test_the_loader_that_trains_is_told_once_and_when_it_changes(told):
    length.gather()
    assert told == []
    length.T.number, length.T.primary = 1, 2
    length.gather()
    length.gather()
    length.T.primary = 5
    length.gather()
    assert told == [{"ev": "length", "loader": 2}, {"ev": "length", "loader": 5}]


def test_a_bar_that_goes_with_the_steps_says_how_many_there_are(told, monkeypatch):
    with_steps, other, off = Bar(400), Bar(7), Bar(9, disable=True)
    bars(monkeypatch, with_steps, other, off)
    for number in (3, 5, 8, 20):
        length.T.number = with_steps.n = number
        length.gather()
    assert told == [
        {"ev": "bar", "by": "tqdm"},
        {"ev": "length", "of": "loop", "steps": 400, "by": "the script's progress bar"},
    ]


def test_a_bar_over_a_loader_is_drawn_and_counts_for_nothing(told, monkeypatch):
    bar = Bar(400)
    bars(monkeypatch, bar)
    length.T.epoch = 1
    for number in (3, 20):
        length.T.number = bar.n = number
        length.gather()
    assert told == [{"ev": "bar", "by": "tqdm"}]


@pytest.mark.parametrize("total", [None, 1e9, "many"])
def test_a_bar_without_a_whole_number_says_nothing(told, monkeypatch, total):
    bar = Bar(total)
    bars(monkeypatch, bar)
    for number in (3, 20):
        length.T.number = bar.n = number
        length.gather()
    assert told == [{"ev": "bar", "by": "tqdm"}]


def test_a_library_of_another_shape_is_no_bar(told, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.std", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "rich", types.SimpleNamespace(_console=None))
    length.T.number = 20
    length.gather()
    assert told == []


def test_a_live_display_of_rich_is_a_bar(told, monkeypatch):
    console = types.SimpleNamespace(_live_stack=[object()])
    monkeypatch.setitem(sys.modules, "rich", types.SimpleNamespace(_console=console))
    length.T.number = 20
    length.gather()
    assert told == [{"ev": "bar", "by": "rich"}]
