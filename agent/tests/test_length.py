"""watch/length.py: what the script itself says of how long it will be."""

import sys
import types
import weakref

import pytest

from assay_agent import wire
from assay_agent.watch import length


class Bar:
    def __init__(self, total):
        self.n, self.total = 0, total


@pytest.fixture
def told(monkeypatch):
    """What is put, and a timeline of no loop yet."""
    events = []
    monkeypatch.setattr(wire, "put", events.append)
    timeline = types.SimpleNamespace(number=0, epoch=0, primary=None, close_hooks=[length._count])
    monkeypatch.setattr(length, "T", timeline)
    length.clear()
    yield events
    length.clear()
    length._seen.clear()


def bars(monkeypatch, *drawn):
    holder = types.SimpleNamespace(tqdm=types.SimpleNamespace(_instances=weakref.WeakSet(drawn)))
    monkeypatch.setitem(sys.modules, "tqdm.std", holder)


def steps(bar, last, each=1):
    """Close steps up to the last, the bar going on with each."""
    for number in range(1, last + 1):
        length.T.number = number
        bar.n = each * number
        for hook in length.T.close_hooks:
            hook(number, None, length.T)


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
    with_steps, other = Bar(400), Bar(7)
    bars(monkeypatch, with_steps, other)
    steps(with_steps, 40)
    assert told == [{"ev": "length", "of": "loop", "steps": 400, "by": "the script's progress bar"}]
    assert length.T.close_hooks == []


def test_a_bar_that_counts_something_else_says_nothing(told, monkeypatch):
    samples = Bar(400)
    bars(monkeypatch, samples)
    steps(samples, length.LAST, each=32)
    assert told == [] and length.T.close_hooks == []


def test_a_bar_over_a_loader_is_drawn_and_counts_for_nothing(told, monkeypatch):
    bar = Bar(400)
    bars(monkeypatch, bar)
    length.T.epoch = 1
    steps(bar, 40)
    length.gather()
    length.gather()
    assert told == [{"ev": "bar", "by": "tqdm"}]


@pytest.mark.parametrize("total", [None, 1e9, "many"])
def test_a_bar_without_a_whole_number_says_nothing(told, monkeypatch, total):
    bar = Bar(total)
    bars(monkeypatch, bar)
    steps(bar, 70)
    assert told == []


def test_the_sending_thread_holds_no_bar(told, monkeypatch):
    """The last one to let go of a bar is who closes it, and what that prints belongs to the script's thread."""
    bar = Bar(400)
    bars(monkeypatch, bar)
    length.T.number = 20
    before = sys.getrefcount(bar)
    held = length._tqdm()
    assert sys.getrefcount(bar) == before and held


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
