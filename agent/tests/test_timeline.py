"""The timeline on a clock that the test moves: every split can be worked out by hand."""

import pytest

from assay_agent import timeline, wire
from assay_agent.timeline import BWD, FWD


class Loop:
    """A training loop whose phases take the time that the test says."""

    def __init__(self, monkeypatch):
        self.time = 1000
        monkeypatch.setattr(timeline, "now", lambda: self.time)
        monkeypatch.setattr(wire, "wake", lambda: None)
        monkeypatch.setattr(wire, "say", lambda event: None)
        self.t = timeline.Timeline()
        self.t.open_hooks, self.t.close_hooks, self.t.epoch_hooks = [], [], []
        self.t.device = "cpu"

    def spend(self, ns):
        self.time += ns

    def fetch(self, ns, batch=(1, 1)):
        self.t.fetch_begin()
        self.spend(ns)
        self.t.fetch_end(batch)

    def iterate(self, ns=0):
        self.t.fetch_begin(new_pass=True)
        self.spend(ns)
        self.t.fetch_end(None)

    def end_pass(self, batch=(1, 1)):
        self.t.fetch_begin()
        self.t.fetch_end(None)
        self.t.pass_ended(batch)

    def module(self, ns):
        self.t.module_begin()
        self.spend(ns)
        self.t.module_end()

    def backward(self, ns):
        self.t.backward_begin()
        self.spend(ns)
        self.t.backward_end()

    def optimizer(self, ns, key=1, closure=None):
        self.t.optimizer_begin(key)
        if closure:
            closure()
        self.spend(ns)
        self.t.optimizer_end()

    def steps(self):
        """[(total, [rest, data, h2d, forward, backward, optimizer], epoch, micro, evals)]"""
        for row in self.t.rows:
            assert row[2] == sum(row[3:9]), "the phases of a step add up to it"
        return [(r[2], list(r[3:9]), r[9], r[10], r[11]) for r in self.t.rows]


@pytest.fixture
def loop(monkeypatch):
    return Loop(monkeypatch)


def test_plain_step(loop):
    loop.spend(500)  # imports, model: before the first step
    for _ in range(3):
        loop.fetch(10)
        loop.spend(1)  # zero_grad: rest
        loop.module(20)
        loop.spend(2)  # between model and loss: forward
        loop.module(3)
        loop.spend(4)  # before backward: forward
        loop.backward(30)
        loop.optimizer(5)
        loop.spend(7)  # logging: rest
    loop.t.finish()
    steps = loop.steps()
    assert steps[:2] == [(82, [8, 10, 0, 29, 30, 5], 1, 1, 0)] * 2
    # What follows the last optimizer step is teardown.
    assert steps[2] == (75, [1, 10, 0, 29, 30, 5], 1, 1, 0)


def test_no_modules(loop):
    """Without a module call all the time up to backward is forward."""
    for _ in range(3):
        loop.spend(20)
        loop.backward(30)
        loop.optimizer(5)
    loop.t.finish()
    assert [s[1][FWD] for s in loop.steps()][1:] == [20, 20]
    assert len(loop.steps()) == 3


def test_accumulation(loop):
    for _ in range(2):
        for _ in range(4):
            loop.fetch(1)
            loop.module(2)
            loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert loop.steps() == [(29, [0, 4, 0, 8, 12, 5], 1, 4, 0)] * 2


def test_fetching_ahead(loop):
    """Two batches are fetched, then both are used: two micro-steps, as Hugging Face's Trainer does it."""
    for _ in range(2):
        loop.fetch(1), loop.fetch(1)
        for _ in range(2):
            loop.module(2)
            loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert [s[3] for s in loop.steps()] == [2, 2]


def test_two_optimizers_are_one_step(loop):
    for _ in range(3):
        loop.fetch(1)
        for key in (1, 2):
            loop.module(2)
            loop.backward(3)
            loop.optimizer(5, key)
    loop.t.finish()
    assert [(total, micro) for total, _, _, micro, _ in loop.steps()] == [(21, 1)] * 3


def test_no_loader_same_optimizer_again(loop):
    """The step ends where the next one's work begins: what stands between is the step's rest."""
    for _ in range(3):
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
        loop.spend(7)
    loop.t.finish()
    assert [s[:2] for s in loop.steps()] == [(17, [7, 0, 0, 2, 3, 5])] * 2 + [(10, [0, 0, 0, 2, 3, 5])]


def test_closure(loop):
    def closure():
        for _ in range(3):
            loop.module(2)
            loop.backward(3)

    for _ in range(2):
        loop.optimizer(5, closure=closure)
    loop.t.finish()
    assert loop.steps() == [(20, [0, 0, 0, 6, 9, 5], 0, 1, 3)] * 2


def test_evaluation_is_outside(loop):
    def train():
        loop.fetch(1)
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)

    loop.iterate()
    train(), train()
    loop.end_pass()
    for _ in range(4):
        loop.fetch(1, batch=(9, 9))
        loop.spend(50)  # no gradients: no module call is reported
    loop.iterate()
    loop.fetch(1, batch=(1, 2))
    loop.module(2)
    loop.backward(3)
    loop.optimizer(5)
    loop.t.finish()
    rows = list(loop.t.rows)
    assert [(r[2], r[9]) for r in rows] == [(11, 1), (11, 1), (11, 2)]
    assert rows[2][-1] == 4 * 51, "the evaluation is outside, and before the second epoch's first step"


def test_epochs_of_new_loaders(loop):
    """A new loader for each epoch counts as an epoch; the first batch of each belongs to it."""
    for epoch in range(3):
        loop.iterate()
        for _ in range(4):
            loop.fetch(1, batch=(10 + epoch, 20 + epoch))
            loop.module(2)
            loop.backward(3)
            loop.optimizer(5)
        loop.end_pass((10 + epoch, 20 + epoch))
    loop.t.finish()
    assert [s[2] for s in loop.steps()] == [1] * 4 + [2] * 4 + [3] * 4


def test_second_loader_is_no_epoch(loop):
    """CycleGAN reads two loaders a step."""
    loop.iterate(), loop.iterate()
    for _ in range(4):
        loop.fetch(1, batch=(1, 1)), loop.fetch(1, batch=(2, 2))
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert [s[2] for s in loop.steps()] == [1] * 4


def test_an_optimizer_step_that_raised(loop):
    loop.fetch(1)
    loop.module(2)
    loop.backward(3)
    loop.t.optimizer_begin(1)  # raises; the script catches it and goes on
    for _ in range(2):
        loop.fetch(1)
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert len(loop.steps()) >= 2


def test_hooked_twice(loop):
    """A step that was wrapped after PyTorch had hooked it is hooked again: one step all the same."""
    for _ in range(2):
        loop.fetch(1)
        loop.module(2)
        loop.backward(3)
        loop.t.optimizer_begin(1)
        loop.t.optimizer_begin(1)
        loop.spend(5)
        loop.t.optimizer_end()
        loop.t.optimizer_end()
    loop.t.finish()
    assert [s[0] for s in loop.steps()] == [11, 11]


def test_own_work_is_no_part_of_the_step(loop):
    loop.fetch(1)
    loop.module(2)
    loop.backward(3)
    t = loop.time
    loop.spend(1000)
    loop.t.skip(t, loop.time)
    loop.optimizer(5)
    loop.t.finish()
    assert loop.steps() == [(11, [0, 1, 0, 2, 3, 5], 1, 1, 0)]


def test_copies(loop):
    for _ in range(2):
        loop.fetch(1)
        t = loop.time
        loop.spend(4)
        loop.t.copied(t)
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert loop.steps() == [(15, [0, 1, 4, 2, 3, 5], 1, 1, 0)] * 2


def test_limit(loop):
    loop.t.limit_steps = 2
    with pytest.raises(SystemExit) as end:
        for _ in range(5):
            loop.fetch(1)
            loop.module(2)
            loop.backward(3)
            loop.optimizer(5)
    assert end.value.code == 0 and len(loop.steps()) == 2


def test_second_training(loop):
    """A new optimizer after the former is gone is a new training, not a second optimizer of the same step."""
    import weakref

    class Optimizer:
        pass

    def train():
        optimizer = Optimizer()
        for _ in range(3):
            loop.module(2)
            loop.backward(3)
            loop.t.optimizer_begin(id(optimizer), weakref.ref(optimizer))
            loop.spend(5)
            loop.t.optimizer_end()

    train()
    kept = Optimizer()  # takes the address that became free
    train()
    loop.t.finish()
    assert len(loop.steps()) == 6 and kept


def test_look_at_memory_after_the_last_optimizer(loop):
    """A sampled step that ends the run: the look at its memory is no part of it."""
    loop.t.phase_hook = lambda name: loop.spend(1000)
    for _ in range(2):
        loop.t.sync = lambda: None
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert all(min(s[1]) >= 0 for s in loop.steps()) and len(loop.steps()) == 2


def instrument(t, first, last):
    """An instrument that is on from step `first` to the end of step `last`."""
    on = []

    def opens(number, timeline):
        if number == first:
            on.append(True)
        return "profile" if on else None

    def closes(number, step, timeline):
        if number == last:
            on.clear()

    t.open_hooks.append(opens)
    t.close_hooks.append(closes)


def looped(loop, steps, optimizers=1):
    """A loop over a list: no fetch tells where a step begins."""
    for _ in range(steps):
        for key in range(optimizers):
            loop.module(20)
            loop.backward(30)
            loop.optimizer(5, key)
        loop.spend(7)
    loop.t.finish()
    return [row[12] for row in loop.t.rows]


@pytest.mark.parametrize("optimizers", [1, 2])
def test_list_loop_marks_what_the_instrument_touched_and_no_more(loop, optimizers):
    instrument(loop.t, 5, 8)
    kinds = looped(loop, 30, optimizers)
    # The instrument ends when step 8 is known to be over: half into step 9.
    assert kinds == [""] * 4 + ["profile"] * 5 + [""] * 21


def test_loader_loop_marks_the_steps_of_the_instrument(loop):
    instrument(loop.t, 5, 8)
    for _ in range(30):
        loop.fetch(10)
        loop.module(20)
        loop.backward(30)
        loop.optimizer(5)
    loop.t.finish()
    assert [row[12] for row in loop.t.rows] == [""] * 4 + ["profile"] * 4 + [""] * 22


@pytest.mark.parametrize("optimizers", [1, 2])
def test_list_loop_has_synchronised_steps(loop, optimizers):
    """An asynchronous device: what a phase queues takes ten times as long as queueing it, and only waiting tells."""
    waited = []

    def synchronize():
        waited.append(loop.t.number)
        loop.spend(10)

    loop.t.synchronize, loop.t.device = synchronize, "cuda"
    kinds = looped(loop, 45, optimizers)
    assert [n for n, kind in enumerate(kinds, 1) if kind == "sync"] == [20, 40]
    for n, (total, phases, *_) in enumerate(loop.steps()[:-1], 1):  # the last has no logging behind it
        ordinary = optimizers * (20 + 30 + 5) + 7
        if n in (20, 40):
            assert total > ordinary and phases[FWD] >= 30 * optimizers and phases[BWD] == 40 * optimizers
        else:
            assert total == ordinary, "waiting at the edge of a synchronised step is no part of its neighbours"


def test_fetch_after_a_list_loop_decides_anew(loop):
    instrument(loop.t, 4, 5)
    for _ in range(3):
        loop.module(20)
        loop.backward(30)
        loop.optimizer(5)
    for _ in range(4):
        loop.fetch(10)
        loop.module(20)
        loop.backward(30)
        loop.optimizer(5)
    loop.t.finish()
    assert [row[12] for row in loop.t.rows][5:] == ["", ""]


def test_lost_end_of_a_call_is_noticed(loop):
    loop.fetch(10)
    loop.t.module_begin()  # its end was never heard of: the script raised within a hook
    assert loop.t.free() and not loop.t.busy
    loop.fetch(10)
    loop.module(20)
    loop.backward(30)
    loop.optimizer(5)
    loop.t.finish()
    assert loop.steps() == [(65, [0, 10, 0, 20, 30, 5], 1, 1, 0)]


def test_a_loader_that_takes_over_in_the_middle_of_a_pass(loop):
    """One step of another loader may be an excursion; with the second in a row it is the one that epochs are counted by."""
    for batch in [(1, 1)] * 3 + [(2, 2)] + [(1, 1)] + [(2, 2)] * 3:
        loop.fetch(1, batch=batch)
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert [s[2] for s in loop.steps()] == [1, 1, 1, 1, 1, 1, 2, 2]


def test_own_work_inside_a_watched_call(loop):
    """The rest of the call stays charged to its phase, before and after the work; work that began before the call is left out from there on."""
    def interrupted(begin, end, before=2, after=3):
        begin()
        loop.spend(before)
        t = loop.time
        loop.spend(1000)
        loop.t.skip(t, loop.time)
        loop.spend(after)
        end()

    t = loop.t
    for _ in range(2):
        interrupted(t.fetch_begin, lambda: t.fetch_end((1, 1)))
        interrupted(t.module_begin, t.module_end)
        interrupted(t.backward_begin, t.backward_end)
        loop.optimizer(5)
    assert loop.t.step.start <= loop.time
    began = loop.time
    loop.spend(4)  # logging: rest
    loop.t.fetch_begin()
    loop.spend(6)
    loop.t.skip(began, loop.time)
    loop.spend(1)
    loop.t.fetch_end((1, 1))
    loop.module(2)
    loop.backward(3)
    loop.optimizer(5)
    loop.t.finish()
    assert loop.steps() == [
        (20, [0, 5, 0, 5, 5, 5], 1, 1, 0),
        (24, [4, 5, 0, 5, 5, 5], 1, 1, 0),
        (11, [0, 1, 0, 2, 3, 5], 1, 1, 0),
    ]
