"""The timeline on a clock that the test moves: every split can be worked out by hand."""

import random

import pytest

from assay_agent import timeline, wire
from assay_agent.device import Device

REST, DATA, H2D, FWD, BWD, OPT = range(6)


class Loop:
    """A training loop whose phases take the time that the test says."""

    def __init__(self, monkeypatch):
        self.time = 1000
        self.tick = lambda: 0  # ns that go by each time that the clock is read
        monkeypatch.setattr(timeline, "now", self.read_clock)
        monkeypatch.setattr(wire, "wake", lambda: None)
        monkeypatch.setattr(wire, "say", lambda event: None)
        self.t = timeline.Timeline()
        for order, name in enumerate(("data", "h2d", "forward", "backward", "optimizer"), 1):
            assert self.t.phase(name, order, name, "") == order
        self.t.device = Device("cpu")

    def read_clock(self):
        self.time += self.tick()
        return self.time

    def spend(self, ns):
        self.time += ns

    def own_work(self, ns):
        t = timeline.now()
        self.spend(ns)
        self.t.skip(t, timeline.now())

    def fetch(self, ns, batch=(1, 1)):
        self.t.fetch_begin()
        self.spend(ns)
        self.t.fetch_end(DATA, batch)

    def iterate(self, ns=0):
        self.t.fetch_begin(new_pass=True)
        self.spend(ns)
        self.t.fetch_end(DATA, None)

    def end_pass(self, batch=(1, 1)):
        self.t.fetch_begin()
        self.t.fetch_end(DATA, None)
        self.t.pass_ended(batch)

    def module(self, ns):
        self.t.module_begin(FWD)
        self.spend(ns)
        self.t.module_end(FWD)

    def backward(self, ns):
        self.t.backward_begin(FWD)
        self.spend(ns)
        self.t.backward_end(BWD)

    def optimizer(self, ns, key=1, closure=None):
        self.t.optimizer_begin(OPT, key)
        if closure:
            closure()
        self.spend(ns)
        self.t.optimizer_end(OPT)

    def steps(self):
        """[(total, [rest, data, h2d, forward, backward, optimizer], epoch, micro, evals)]"""
        for row in self.t.rows:
            assert row[2] == sum(row[3]), "the phases of a step add up to it"
            assert min(row[3]) >= 0, "no phase takes less than no time"
        return [tuple(row[2:7]) for row in self.t.rows]


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
    assert [s[0] for s in loop.steps()] == [35, 55, 55] and min(min(s[1]) for s in loop.steps()) == 0
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


def test_what_is_computed_later_belongs_to_the_last_step(loop):
    """Of a lazy framework: the loop ends with an evaluation, and what comes after that is teardown."""
    for _ in range(3):
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
        t = timeline.now()
        loop.spend(7)
        loop.t.took(DATA, t)
        loop.t.computed()
        loop.spend(1)
    loop.spend(100)
    loop.t.finish()
    assert [s[:2] for s in loop.steps()] == [(18, [1, 7, 0, 2, 3, 5])] * 2 + [(17, [0, 7, 0, 2, 3, 5])]


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
    assert [(r[2], r[4]) for r in rows] == [(11, 1), (11, 1), (11, 2)]
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
    loop.t.optimizer_begin(OPT, 1)  # raises; the script catches it and goes on
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
        loop.t.optimizer_begin(OPT, 1)
        loop.t.optimizer_begin(OPT, 1)
        loop.spend(5)
        loop.t.optimizer_end(OPT)
        loop.t.optimizer_end(OPT)
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
        loop.t.copied(H2D, t)
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
            loop.t.optimizer_begin(OPT, id(optimizer), weakref.ref(optimizer))
            loop.spend(5)
            loop.t.optimizer_end(OPT)

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
    return [row[7] for row in loop.t.rows]


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
    assert [row[7] for row in loop.t.rows] == [""] * 4 + ["profile"] * 4 + [""] * 22


@pytest.mark.parametrize("optimizers", [1, 2])
def test_list_loop_has_synchronised_steps(loop, optimizers):
    """An asynchronous device: what a phase queues takes ten times as long as queueing it, and only waiting tells."""
    waited = []

    def synchronize():
        waited.append(loop.t.number)
        loop.spend(10)

    loop.t.device = Device("cuda", synchronize=synchronize)
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
    assert [row[7] for row in loop.t.rows][5:] == ["", ""]


def test_lost_end_of_a_call_is_noticed(loop):
    loop.fetch(10)
    loop.t.module_begin(FWD)  # its end was never heard of: the script raised within a hook
    assert loop.t.free() and not loop.t.busy
    loop.fetch(10)
    loop.module(20)
    loop.backward(30)
    loop.optimizer(5)
    loop.t.finish()
    assert loop.steps() == [(65, [0, 10, 0, 20, 30, 5], 1, 1, 0)]


def test_a_phase_is_declared_once(loop):
    assert loop.t.phase("forward", 99, "again", "") == FWD and loop.t.phases[FWD].order == 3
    assert loop.t.phase("saving", 60, "saving", "checkpoints") == OPT + 1


def test_a_phase_that_is_declared_in_the_midst_of_a_step(loop):
    """A second framework is imported while the loop runs; here while a step waits to be closed by its optimizer's next
    one."""
    for _ in range(2):
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.work_begin(loop.time)
    late = loop.t.phase("late", 60, "late", "")
    for _ in range(2):
        loop.module(2)
        loop.t.copied(late, loop.time - 1)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert [s[0] for s in loop.steps()] == [10] * 4
    assert [len(s[1]) for s in loop.steps()] == [6, 7, 7, 7]


@pytest.fixture
def sent(monkeypatch, loop):
    events = []
    monkeypatch.setattr(timeline, "T", loop.t)
    monkeypatch.setattr(wire, "put", events.append)
    return events


def test_phases_are_told_in_their_order_and_once(loop, sent):
    loop.t.device = Device("")  # not known yet
    loop.t.phase("before", 0.5, "before", "first of all")
    timeline.gather()
    names = [row["name"] for row in sent[0]["rows"]]
    assert names == ["before", "data", "h2d", "forward", "backward", "optimizer", "rest"]
    assert sent[0]["rows"][0] == {"name": "before", "title": "before", "doc": "first of all"}
    timeline.gather()
    assert len(sent) == 1
    loop.t.phase("after", 70, "after", "")
    timeline.gather()
    assert [row["name"] for row in sent[1]["rows"]][-2:] == ["after", "rest"]
    loop.t.reset()  # a forked child
    timeline.gather()
    assert len(sent) == 3


def test_steps_are_sent_as_columns(loop, sent):
    for number in range(2):
        loop.fetch(1)
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
        if number == 0:
            loop.fetch(1)
            late = loop.t.phase("late", 60, "late", "")
            assert late == 6
    loop.t.finish()
    timeline.gather()
    event = sent[-1]
    assert tuple(event)[1:] == timeline.COLUMNS and event["ev"] == "steps"
    assert event["number"] == (1, 2) and event["total"] == (11, 11) and event["outside"] == (0, 1)
    assert event["phases"] == {"data": [1, 1], "h2d": [0, 0], "forward": [2, 2], "backward": [3, 3],
                               "optimizer": [5, 5], "late": [0, 0], "rest": [0, 0]}
    assert event["kind"] == ("", "") and event["opts"] == (1, 1)
    timeline.gather()
    assert sent[-1] is event, "a step is sent once"


def train(loop, batch=(1, 1)):
    """One step of 11 ns."""
    loop.fetch(1, batch)
    loop.module(2)
    loop.backward(3)
    loop.optimizer(5)


def test_own_work_within_a_call(loop):
    """What was begun before the phase that is under way stays with the phase before."""
    loop.fetch(1)
    began = loop.time - 1
    loop.t.module_begin(FWD)
    loop.spend(2)
    t = loop.time
    loop.spend(1000)
    loop.t.skip(t, loop.time)
    loop.spend(2)
    loop.t.module_end(FWD)
    loop.t.backward_begin(FWD)
    loop.spend(50)
    loop.t.skip(began, loop.time)  # the whole of the call so far, and a part of the fetch, was the agent's
    loop.spend(3)
    loop.t.backward_end(BWD)
    loop.optimizer(5)
    loop.t.finish()
    assert loop.steps() == [(13, [0, 1, 0, 4, 3, 5], 1, 1, 0)]


def test_two_backward_passes_of_one_batch(loop):
    for _ in range(2):
        loop.fetch(1)
        loop.module(2)
        loop.backward(3)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert [s[3] for s in loop.steps()] == [1, 1]


def test_evaluation_in_the_midst_of_an_epoch_does_not_end_it(loop):
    ended = []
    loop.t.epoch_hooks.append(lambda epoch, t: ended.append((epoch, t.number)))
    loop.iterate()
    train(loop)
    loop.iterate()  # the evaluation's loader
    loop.fetch(1, batch=(9, 9))
    loop.end_pass((9, 9))
    train(loop)
    assert ended == []
    loop.end_pass()
    assert ended == [(1, 2)] and loop.t.epoch_length == 2
    loop.iterate()
    train(loop, (1, 2))
    loop.t.finish()
    assert ended == [(1, 2), (2, 3)] and [s[2] for s in loop.steps()] == [1, 1, 2]


def test_a_pass_whose_batches_have_not_been_used_yet(loop):
    """A loop that fetches ahead hears of the end before it has used the last batch: the step is of the pass that is
    over."""
    ended = []
    loop.t.epoch_hooks.append(lambda epoch, t: ended.append((epoch, t.number)))
    for epoch in (1, 2):
        loop.iterate()
        train(loop, (1, epoch))
        loop.fetch(1, (1, epoch))
        loop.end_pass((1, epoch))
        assert len(ended) == epoch - 1
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert ended == [(1, 2), (2, 4)] and [s[2] for s in loop.steps()] == [1, 1, 2, 2]


def test_time_limit(loop):
    loop.t.limit_at = loop.time + 30
    with pytest.raises(SystemExit):
        for _ in range(10):
            train(loop)
    assert len(loop.steps()) == 3, "the first that ends after 30 ns"


def test_a_step_that_an_instrument_ends_in(loop):
    """Loops over a list: an instrument that comes on once the last optimizer has stepped is on in the next step, and
    not in this one."""
    asked = []
    loop.t.open_hooks.append(lambda number, t: asked.append(number))
    looped(loop, 4)
    assert asked == [1, 3, 4, 5], "of the second nobody knew before its optimizer stepped that no fetch opens it"


def test_what_opens_a_step_is_asked_in_turn(loop):
    """The last instrument that is on names the step; one that is not on takes nothing away."""
    loop.t.open_hooks += [lambda number, t: "trace", lambda number, t: None]
    train(loop)
    loop.t.finish()
    assert [row[7] for row in loop.t.rows] == ["trace"]


def test_hooks_cost_the_agent_and_not_the_step(loop):
    loop.t.close_hooks.append(lambda number, step, t: loop.spend(1000))
    for _ in range(3):
        train(loop)
    loop.t.finish()
    assert [s[0] for s in loop.steps()] == [11] * 3 and loop.t.heavy_ns == 3000


def test_outside_is_told_once(loop):
    loop.spend(40)
    for _ in range(2):
        loop.fetch(1, batch=(9, 9))
        loop.spend(50)
    for _ in range(2):
        train(loop)
    loop.t.finish()
    assert [row[-1] for row in loop.t.rows] == [40 + 2 * 51, 0]


def test_reading_the_account_is_bounded(loop):
    """A reading that takes as long as a step is made in one of so many that it costs a five-hundredth of the time, and
    never in less than one of 64. It is no part of the step."""
    loop.t.device = Device("abacus", memory=lambda: (loop.spend(11), (7, 9))[1])
    for _ in range(200):
        train(loop)
    loop.t.finish()
    assert {s[0] for s in loop.steps()} == {11}
    read = [n for n, row in enumerate(loop.t.rows, 1) if row[8:10] == (7, 9)]
    assert read[:8] == list(range(1, 9)) and loop.t.memory_every == 64
    assert [n for n in read if n > 8] == [65, 129, 193]
    assert loop.t.memory_ns == 11 * len(read)


def test_a_failing_exec_goes_on_with_a_new_step(loop, sent):
    loop.fetch(1)
    loop.t.module_begin(FWD)
    loop.t.finish()
    loop.spend(100)
    loop.t.resume()
    assert sent == [{"ev": "resumed"}]
    train(loop)
    loop.t.finish()
    assert [s[0] for s in loop.steps()] == [11]


def test_finish_within_an_optimizer_step(loop):
    """os._exit in a closure: the step is not over."""
    train(loop)
    loop.fetch(1)
    loop.t.optimizer_begin(OPT, 1)
    loop.t.finish()
    assert len(loop.steps()) == 1


def test_a_lost_optimizer_step_leaves_nothing_behind(loop):
    loop.fetch(1)
    loop.t.optimizer_begin(OPT, 1)
    loop.t.module_begin(FWD)  # in a closure; neither end is heard of
    assert loop.t.free()
    train(loop)
    loop.t.finish()
    assert loop.steps() == [(11, [0, 1, 0, 2, 3, 5], 1, 1, 0)]


def test_a_hook_that_fails(loop, monkeypatch):
    said = []
    monkeypatch.setattr(wire, "trouble", said.append)
    loop.t.close_hooks.append(lambda *args: 1 / 0)
    train(loop)
    loop.t.finish()
    assert len(loop.steps()) == 1 and len(said) == 1 and "ZeroDivisionError" in said[0]


def test_a_loader_that_takes_over_and_one_that_does_not(loop):
    """Two batches in a row from another loader, and epochs are counted by that one; one alone changes nothing."""
    for batch in ((1, 1), (2, 2), (1, 1)):
        train(loop, batch)
    assert loop.t.primary in (None, 1)
    for _ in range(3):
        train(loop, (2, 2))
    loop.t.finish()
    assert [s[2] for s in loop.steps()] == [1, 1, 1, 1, 2, 2]


def test_a_loader_that_takes_over_in_the_middle_of_a_pass(loop):
    """One step of another loader may be an excursion; with the second in a row it is the one that epochs are counted
    by."""
    for batch in [(1, 1)] * 3 + [(2, 2)] + [(1, 1)] + [(2, 2)] * 3:
        loop.fetch(1, batch=batch)
        loop.module(2)
        loop.backward(3)
        loop.optimizer(5)
    loop.t.finish()
    assert [s[2] for s in loop.steps()] == [1, 1, 1, 1, 1, 1, 2, 2]


def test_own_work_inside_a_watched_call(loop):
    """The rest of the call stays charged to its phase, before and after the work; work that began before the call is
    left out from there on."""
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
        interrupted(t.fetch_begin, lambda: t.fetch_end(DATA, (1, 1)))
        interrupted(lambda: t.module_begin(FWD), lambda: t.module_end(FWD))
        interrupted(lambda: t.backward_begin(FWD), lambda: t.backward_end(BWD))
        loop.optimizer(5)
    assert loop.t.step.start <= loop.time
    began = loop.time
    loop.spend(4)  # logging: rest
    loop.t.fetch_begin()
    loop.spend(6)
    loop.t.skip(began, loop.time)
    loop.spend(1)
    loop.t.fetch_end(DATA, (1, 1))
    loop.module(2)
    loop.backward(3)
    loop.optimizer(5)
    loop.t.finish()
    assert loop.steps() == [
        (20, [0, 5, 0, 5, 5, 5], 1, 1, 0),
        (24, [4, 5, 0, 5, 5, 5], 1, 1, 0),
        (11, [0, 1, 0, 2, 3, 5], 1, 1, 0),
    ]


def test_a_phase_of_its_own_within_a_step(loop):
    """A hook that says afterwards what it saw: a checkpoint between the backward pass and the optimizer, and one after
    the step."""
    saving = loop.t.phase("saving", 60, "saving", "checkpoints")
    for _ in range(2):
        loop.fetch(1)
        loop.module(2)
        loop.backward(3)
        t = loop.time
        loop.spend(7)
        loop.t.took(saving, t)
        loop.spend(1)
        loop.optimizer(5)
        t = loop.time
        loop.spend(4)
        loop.t.took(saving, t)
    loop.fetch(1)
    loop.t.finish()
    assert loop.steps() == [(23, [1, 1, 0, 2, 3, 5, 11], 1, 1, 0)] * 2


def test_what_ran_when_an_exec_began_is_given_up(loop, sent):
    loop.fetch(1)
    loop.t.module_begin(FWD)
    loop.t.finish()
    loop.t.resume()
    assert loop.t.busy == 0 and loop.t.on


def test_own_work_that_was_begun_within_a_phase(loop):
    """Between two calls: what of it lies before the mark has been charged to that phase already."""
    loop.fetch(1)
    began = loop.time - 1
    loop.spend(9)
    loop.t.skip(began, loop.time)
    loop.module(2)
    loop.backward(3)
    loop.optimizer(5)
    loop.t.finish()
    assert loop.steps() == [(11, [0, 1, 0, 2, 3, 5], 1, 1, 0)]


def test_the_first_step_is_where_the_cost_is_counted_from(loop):
    train(loop)
    loop.spend(4)
    loop.t.fetch_begin()
    assert loop.t.number == 1 and loop.t.begun == loop.time


def test_a_batch_that_was_never_used(loop):
    """A pass is left with a batch unused: it is not waiting in the next one."""
    loop.iterate()
    loop.fetch(1, (1, 1))
    loop.iterate()
    loop.fetch(1, (1, 2))
    loop.module(2)
    loop.backward(3)
    loop.backward(3)
    loop.optimizer(5)
    loop.t.finish()
    assert [s[3] for s in loop.steps()] == [1]


def test_a_module_that_a_closure_calls_last(loop):
    """What follows the optimizer's step is rest, though a module was the last that it called."""

    def closure():
        loop.module(2)
        loop.backward(3)
        loop.module(2)

    for _ in range(2):
        loop.fetch(1)
        loop.optimizer(5, closure=closure)
        loop.spend(4)
        loop.module(1)
    loop.fetch(1)
    loop.t.finish()
    assert loop.steps()[0] == (18, [4, 1, 0, 5, 3, 5], 1, 1, 1)


def test_a_phase_is_waited_for(loop):
    """On a synchronised step what was queued belongs to the phase that queued it."""
    loop.fetch(1)
    loop.t.sync = lambda: loop.spend(10)
    t = loop.time
    loop.spend(2)
    loop.t.took(H2D, t)
    assert loop.t.step.acc[H2D] == 12


def test_an_optimizer_within_another(loop):
    """The outer one's step is not over with the inner one's: what follows is still its own."""
    loop.fetch(1)
    loop.module(2)
    loop.backward(3)
    loop.t.optimizer_begin(OPT, 1)
    loop.t.optimizer_begin(OPT, 2)
    loop.spend(5)
    loop.t.optimizer_end(OPT)
    assert loop.t.in_opt == 1 and loop.t.base == OPT
    loop.spend(4)
    loop.t.optimizer_end(OPT)
    loop.t.finish()
    assert loop.steps() == [(15, [0, 1, 0, 2, 3, 9], 1, 1, 0)] and loop.t.rows[0][10] == 1


def test_own_work_after_the_optimizer_is_left_out_once(loop):
    """No loader and no module: the step ends where its optimizer's was over, whatever was left out since."""
    for _ in range(3):
        loop.spend(20)
        loop.backward(30)
        loop.optimizer(5)
        loop.own_work(1000)
    loop.t.finish()
    assert [s[:2] for s in loop.steps()] == [(35, [0, 0, 0, 0, 30, 5])] + [(55, [0, 0, 0, 20, 30, 5])] * 2


def test_what_follows_the_last_optimizer_is_no_part_of_its_step(loop):
    """A phase that was seen after the step was over is the next step's, or teardown."""
    saving = loop.t.phase("saving", 60, "saving", "checkpoints")
    for _ in range(2):
        loop.spend(20)
        loop.backward(30)
        loop.optimizer(5)
        t = loop.time
        loop.spend(7)
        loop.t.took(saving, t)
    loop.t.finish()
    assert [s[:2] for s in loop.steps()] == [(35, [0, 0, 0, 0, 30, 5, 0]), (62, [0, 0, 0, 20, 30, 5, 7])]


def test_hooks_at_the_end_of_an_epoch_are_not_outside(loop):
    """A pass is left with a batch unused, and its end is found out when the next pass begins, a step being open."""
    loop.t.epoch_hooks.append(lambda epoch, t: loop.spend(1000))
    loop.iterate()
    train(loop)
    loop.fetch(1)
    loop.end_pass()
    loop.iterate()
    train(loop, (1, 2))
    loop.t.finish()
    assert [s[0] for s in loop.steps()] == [11, 11] and [row[-1] for row in loop.t.rows] == [0, 1]


@pytest.mark.parametrize("seed", range(40))
def test_phases_add_up_on_a_clock_that_does_not_stand_still(loop, seed):
    """Between any two readings of the clock time goes by, on a busy machine much. Whatever a loop is made of, the
    phases of each step add up to it, none is negative (loop.steps), and no two steps hold the same time."""
    draw = random.Random(seed)
    loop.tick = lambda: draw.choice((0, 1, 1, 2, 300))
    saving = loop.t.phase("saving", 60, "saving", "checkpoints")
    for hooks in (loop.t.open_hooks, loop.t.close_hooks, loop.t.epoch_hooks):
        hooks.append(lambda *args: loop.spend(draw.choice((0, 100))))
    has = {part: draw.random() < 0.5 for part in ("fetch", "module", "copy", "save", "own", "sync", "memory", "two")}
    if has["sync"]:
        loop.t.device = Device("cuda", synchronize=lambda: loop.spend(10))
        loop.t.phase_hook = lambda name: loop.spend(40)
    if has["memory"]:
        loop.t.device.memory = lambda: (loop.spend(9), (7, 9))[1]
    for step in range(45):
        if has["fetch"]:
            if step % 10 == 0:
                loop.iterate()
            loop.fetch(draw.randrange(5), (1, step // 10))
        if has["copy"]:
            t = timeline.now()
            loop.spend(3)
            loop.t.copied(H2D, t)
        loop.spend(draw.randrange(20))
        if has["module"]:
            loop.module(2)
        loop.backward(3)
        for key in range(1 + has["two"]):
            if has["own"]:
                loop.own_work(draw.randrange(500))
            loop.optimizer(5, key)
        if has["own"]:
            loop.own_work(draw.randrange(500))
        if has["save"]:
            t = timeline.now()
            loop.spend(6)
            loop.t.took(saving, t)
    loop.t.finish()
    assert len(loop.steps()) == 45
    rows = list(loop.t.rows)
    assert all(a[1] + a[2] <= b[1] for a, b in zip(rows, rows[1:]))


# -- loops without an optimizer ----------------------------------------------------------------------------------------


class Hand:
    """What watch/torch/hand.py would say: whether the script has updated since the last backward pass."""

    def __init__(self, loop):
        self.changed = False
        loop.t.touched = lambda: self.changed

    def step(self, loop, update=4, modules=True, passes=1):
        for _ in range(passes):
            if modules:
                loop.module(20)
            else:
                loop.spend(20)
            loop.backward(30)
            self.changed = False
        loop.spend(update)
        self.changed = True


@pytest.mark.parametrize("steps", [1, 3, timeline.BY_HAND - 1, timeline.BY_HAND + 30])
def test_updates_by_hand(loop, steps):
    """The step ends where the next one's work begins: the update is the step's rest."""
    hand = Hand(loop)
    for _ in range(steps):
        hand.step(loop)
    loop.t.finish()
    assert [s[:2] for s in loop.steps()[:-1]] == [(54, [4, 0, 0, 20, 30, 0])] * (steps - 1)
    assert loop.steps()[-1][:2] == (50, [0, 0, 0, 20, 30, 0]) and loop.t.loop()["steps"] == "hand"


def test_updates_by_hand_without_modules(loop):
    """Update and loss cannot be told apart: both are rest."""
    hand = Hand(loop)
    for _ in range(timeline.BY_HAND + 5):
        hand.step(loop, modules=False)
    loop.t.finish()
    assert {s[:2] for s in [(s[0], tuple(s[1])) for s in loop.steps()[1:]]} == {(54, (24, 0, 0, 0, 30, 0))}
    assert len(loop.steps()) == timeline.BY_HAND + 5


def test_gradients_gathered_by_hand(loop):
    hand = Hand(loop)
    for _ in range(timeline.BY_HAND + 5):
        hand.step(loop, passes=3)
    loop.t.finish()
    assert [s[3] for s in loop.steps()] == [3] * (timeline.BY_HAND + 5)
    assert loop.steps()[1][1] == [4, 0, 0, 60, 90, 0]


def test_updates_by_hand_on_a_loader(loop):
    """Three epochs of forty batches, the update seen when the next batch is asked for."""
    hand = Hand(loop)
    for epoch in (1, 2, 3):
        loop.iterate()
        for _ in range(40):
            loop.fetch(10, (1, epoch))
            hand.step(loop)
        loop.end_pass((1, epoch))
    loop.t.finish()
    assert [s[2] for s in loop.steps()] == [1] * 40 + [2] * 40 + [3] * 40
    assert loop.t.told_by == "loader" and {s[1][DATA] for s in loop.steps()} == {10}
    assert {s[0] for s in loop.steps()[60:-1]} == {64}


def test_passes_before_an_optimizer_steps_are_its_own(loop):
    """An attack of twenty passes on the first batch, each with its gradients cleared, and then an optimizer."""
    hand = Hand(loop)
    for _ in range(20):
        hand.step(loop)
    for _ in range(3):
        loop.module(20)
        loop.backward(30)
        loop.optimizer(5)
    loop.t.finish()
    assert [s[0] for s in loop.steps()] == [20 * 54 + 55, 55, 55] and loop.t.loop()["steps"] == "optimizer"


def test_by_hand_and_then_with_an_optimizer(loop):
    hand = Hand(loop)
    for _ in range(timeline.BY_HAND + 10):
        hand.step(loop)
    for _ in range(10):
        loop.module(20)
        loop.backward(30)
        loop.optimizer(5)
    loop.t.finish()
    assert len(loop.steps()) == timeline.BY_HAND + 20


def test_steps_asked_for_are_counted_by_hand(loop):
    loop.t.limit_steps = 5
    hand = Hand(loop)
    with pytest.raises(SystemExit):
        for _ in range(20):
            hand.step(loop)
    assert len(loop.steps()) == 5


def test_long_steps_by_hand_are_not_waited_for(loop):
    hand = Hand(loop)
    for _ in range(4):
        hand.step(loop, update=timeline.BY_HAND_NS)
    assert len(loop.t.rows) == 3


def test_a_single_backward_pass_is_no_step(loop):
    Hand(loop)
    for _ in range(3):
        loop.module(2)
        loop.backward(3)
    loop.t.finish()
    assert loop.steps() == [] and loop.t.loop()["backward"] and loop.t.loop()["steps"] == ""


def test_derivatives_within_a_loss(loop):
    """autograd.grad for the loss, then backward: one step."""
    hand = Hand(loop)
    for _ in range(timeline.BY_HAND + 1):
        loop.module(20)
        loop.t.backward_begin(FWD, whole=False)
        loop.spend(3)
        loop.t.backward_end(BWD)
        hand.step(loop)
    loop.t.finish()
    assert len(loop.steps()) == timeline.BY_HAND + 1 and loop.steps()[2][1] == [4, 0, 0, 40, 33, 0]


def test_list_loop_by_hand_marks_what_the_instrument_touched_and_no_more(loop):
    hand = Hand(loop)
    first = timeline.BY_HAND + 10
    instrument(loop.t, first, first + 3)
    for _ in range(first + 30):
        hand.step(loop)
    loop.t.finish()
    kinds = [row[7] for row in loop.t.rows]
    assert kinds == [""] * (first - 1) + ["profile"] * 5 + [""] * 26


def test_list_loop_by_hand_has_synchronised_steps(loop):
    loop.t.device = Device("cuda", synchronize=lambda: loop.spend(10))
    hand = Hand(loop)
    for _ in range(105):
        hand.step(loop)
    loop.t.finish()
    assert [n for n, row in enumerate(loop.t.rows, 1) if row[7] == "sync"] == [60, 80, 100]
    for n, (total, phases, *_) in enumerate(loop.steps()[:-1], 1):
        if n in (60, 80, 100):
            assert total > 54 and phases[FWD] >= 20 and phases[BWD] == 40
        else:
            assert total == 54


# -- epochs without a loader -------------------------------------------------------------------------------------------


def passes(loop, epochs, steps, turn=None, between=lambda epoch: None):
    """Epochs of a loop over a list. turn: of step number and epoch, what its frames would tell."""
    for epoch in range(epochs):
        for step in range(steps):
            loop.module(2)
            loop.backward(3)
            loop.turn = turn and turn(epoch, step)
            loop.optimizer(5)
        between(epoch)
    loop.t.finish()
    return [s[2] for s in loop.steps()]


@pytest.fixture
def turned(loop, monkeypatch):
    loop.turn = None
    monkeypatch.setattr(timeline.turns, "turn", lambda depth: loop.turn)
    return loop


def around(name, named=False):
    return lambda epoch, step: timeline.turns.Turn(name, epoch, "train.py:3", named)


def test_epochs_by_a_loop_that_is_called_so(turned):
    assert passes(turned, 3, 4, around("epoch", True)) == [1] * 4 + [2] * 4 + [3] * 4
    assert turned.t.loop()["epochs"] == "loop" and turned.t.loop()["where"] == "train.py:3"


def test_an_epoch_of_one_step(turned):
    """All data at once: the script says what an epoch is."""
    assert passes(turned, 5, 1, around("epoch", True)) == [1, 2, 3, 4, 5]


def test_epochs_by_the_second_loop_from_within(turned):
    """What went before its first turn was over was told 0; who reads it makes that 1."""
    assert passes(turned, 3, 4, around("e")) == [0] * 4 + [2] * 4 + [3] * 4
    assert turned.t.loop()["name"] == "e"


def test_a_loop_that_turns_with_each_step_is_none_of_epochs(turned):
    assert passes(turned, 9, 1, around("i")) == [0] * 9 and turned.t.loop()["epochs"] == ""


def test_a_loop_that_is_not_around_all_steps_is_none_of_epochs(turned):
    """Five steps of the critic in a loop of their own, then one of the actor outside of it."""
    turn = around("iteration")
    assert set(passes(turned, 4, 6, lambda epoch, step: turn(epoch, step) if step < 5 else None)) == {0}
    assert turned.t.loop()["epochs"] == ""


def test_epochs_by_a_scheduler(turned):
    epochs = passes(turned, 3, 4, between=lambda epoch: turned.t.may_end_epoch("scheduler"))
    assert epochs == [0] * 4 + [2] * 4 + [3] * 4
    assert turned.t.loop()["epochs"] == "scheduler"


def test_a_scheduler_that_steps_with_each_batch_tells_no_epochs(turned):
    assert set(passes(turned, 9, 1, between=lambda epoch: turned.t.may_end_epoch("scheduler"))) == {0}
    assert turned.t.told_by == ""


def test_a_scheduler_that_comes_late_with_each_batch_tells_no_epochs(turned):
    def between(epoch):
        if epoch > 5:
            turned.t.may_end_epoch("scheduler")

    passes(turned, 12, 1, between=between)
    assert turned.t.told_by == ""


def test_epochs_by_evaluation(turned):
    """The model is evaluated after each epoch: that time is outside, in the row of the step that ends it."""
    def evaluate(epoch):
        turned.spend(1)
        turned.t.evaluates("model")
        turned.spend(100)
        turned.t.evaluated("model")

    assert passes(turned, 3, 4, between=evaluate) == [0] * 4 + [2] * 4 + [3] * 4
    assert turned.t.loop()["epochs"] == "evaluation"
    assert [row[2] for row in turned.t.rows] == [10, 10, 10, 11] * 3
    assert sum(row[timeline.COLUMNS.index("outside")] for row in turned.t.rows) == 300


def test_a_model_that_stays_in_evaluation_mode_trains(turned):
    """Fine-tuning with frozen statistics: eval() once, and training goes on in it."""
    def between(epoch):
        turned.t.evaluates("model")

    passes(turned, 3, 4, between=between)
    assert sum(row[timeline.COLUMNS.index("outside")] for row in turned.t.rows) == 0 and {row[2] for row in turned.t.rows} == {10}


def test_evaluation_between_steps_of_one_model_and_training_mode_of_another(turned):
    """teacher.eval() and, an epoch later, student.train(): what was trained in between is no evaluation."""
    def between(epoch):
        turned.t.evaluated("student")
        turned.t.evaluates("teacher")

    passes(turned, 3, 4, between=between)
    assert {row[2] for row in turned.t.rows} == {10}


def test_a_loader_for_evaluation_alone(turned):
    """Training on a list, evaluation on a loader, read without gradients (dataloader.py then says None)."""
    def evaluate(epoch):
        turned.iterate()
        for _ in range(5):
            turned.fetch(1, None)
            turned.spend(50)
        turned.end_pass((7, epoch))

    assert set(passes(turned, 3, 4, between=evaluate)) == {0} and turned.t.told_by == ""
    assert {row[2] for row in turned.t.rows} == {10}


def test_a_loader_for_evaluation_in_its_mode(turned):
    """The same with gradients on and the model in evaluation mode: its batches are no training step's."""
    def evaluate(epoch):
        turned.t.evaluates("model")
        turned.iterate()
        for _ in range(5):
            turned.fetch(1, (7, epoch))
            turned.spend(50)
        turned.end_pass((7, epoch))
        turned.spend(9)
        turned.t.evaluated("model")

    assert passes(turned, 3, 4, between=evaluate) == [0] * 4 + [2] * 4 + [3] * 4
    assert turned.t.told_by == "evaluation" and {row[2] for row in turned.t.rows} == {10}


def test_a_loaders_passes_go_before_all_else(turned):
    turned.turn = timeline.turns.Turn("epoch", 0, "", True)
    for epoch in (1, 2):
        turned.iterate()
        for _ in range(3):
            train(turned, (1, epoch))
        turned.end_pass((1, epoch))
        turned.t.may_end_epoch("scheduler")
    turned.t.finish()
    assert [s[2] for s in turned.steps()] == [1] * 3 + [2] * 3 and turned.t.told_by == "loader"


def test_ends_of_short_epochs_are_not_looked_at(turned):
    ended = []
    turned.t.epoch_hooks.append(lambda epoch, t: ended.append((epoch, t.epoch_length)))
    passes(turned, 3, timeline.SHORT_EPOCH - 1, around("epoch", True))
    assert ended == []
    turned.t.reset()
    passes(turned, 3, timeline.SHORT_EPOCH, around("epoch", True))
    assert ended == [(n, timeline.SHORT_EPOCH) for n in (1, 2, 3)]


# -- threads -----------------------------------------------------------------------------------------------------------


def in_thread(work):
    import threading

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_the_thread_that_trains_is_watched(loop):
    """The first has called the model only: it gives way."""
    assert loop.t.mine()
    loop.module(2)

    def work():
        for _ in range(3):
            assert loop.t.trains()
            train(loop)

    in_thread(work)
    loop.t.finish()
    assert len(loop.steps()) == 3 and not loop.t.loop()["strangers"]


def test_a_second_thread_that_trains_is_a_stranger(loop):
    loop.t.trains()
    train(loop)
    in_thread(lambda: loop.t.trains())
    assert loop.t.mine() and loop.t.loop()["strangers"]


def test_a_thread_that_has_ended_gives_way(loop):
    in_thread(lambda: loop.t.trains() and train(loop))
    assert loop.t.trains()
    train(loop)
    loop.t.finish()
    assert len(loop.steps()) == 2


@pytest.mark.parametrize("steps", [3, timeline.BY_HAND + 30])
def test_gradients_for_their_own_sake(loop, steps):
    """Cleared after each pass, and the parameters stay as they are: no steps."""
    hand = Hand(loop)
    loop.t.moved = lambda: False
    for _ in range(steps):
        hand.step(loop)
    loop.t.finish()
    assert loop.steps() == [] and loop.t.loop()["steps"] == ""


def test_optimizers_within_the_backward_pass(loop):
    """One for each parameter, that steps as soon as its gradient is there: the rest of the pass is the pass."""
    for _ in range(3):
        loop.module(20)
        loop.t.backward_begin(FWD)
        for key in (1, 2):
            loop.spend(30)
            loop.optimizer(5, key)
        loop.spend(10)
        loop.t.backward_end(BWD)
        loop.spend(7)
    loop.t.finish()
    assert [s[:2] for s in loop.steps()] == [(107, [7, 0, 0, 20, 70, 10])] * 2 + [(100, [0, 0, 0, 20, 70, 10])]
