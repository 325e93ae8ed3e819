"""Which loop counts epochs, as the frames of running functions tell it."""

import sys
import weakref

import pytest

from assay_agent import turns


@pytest.fixture(autouse=True)
def anew():
    turns.clear()


def step():
    """What a hook asks within an optimizer's step, two calls away from the script's line."""
    return told()


def told():
    found = turns.turn(3)
    return found and (found.name, found.value, found.named)


TWO_LOOPS = "def run(step%s):\n seen = []\n for %s in range(2):\n  for i in range(1):\n   seen.append(step())\n"


def test_a_loop_around_a_loop():
    seen = []
    for e in range(2):
        for _ in ("a", "b"):
            seen.append(step())
    assert seen == [("e", 0, False)] * 2 + [("e", 1, False)] * 2


def test_a_loop_alone_is_none():
    assert [step() for _ in [0]] and not any(step() for i in range(3))
    seen = []
    for i in range(3):
        seen.append((i, step()))
    assert [found for _, found in seen] == [None] * 3


def test_a_while_within():
    seen = []
    for e in range(2):
        i = 0
        while i < 2:
            i += 1
            seen.append(step())
    assert seen == [("e", 0, False)] * 2 + [("e", 1, False)] * 2


def test_a_function_of_its_own_for_each_epoch():
    def train():
        return [step() for _ in range(1)] if sys.version_info < (3, 12) else [step()]

    def run():
        seen = []
        for epoch in range(1, 3):
            seen += train()
        return seen

    assert run() == [("epoch", 1, True), ("epoch", 2, True)]


def test_by_name_before_all_else():
    """Folds around epochs around batches around parts of them."""
    seen = []
    for _fold in range(1):
        for epoch in range(2):
            for _batch in range(1):
                for _part in range(2):
                    seen.append(step())
    assert seen == [("epoch", 0, True)] * 2 + [("epoch", 1, True)] * 2


def test_what_the_number_of_epochs_is_called_is_no_epoch():
    n_epochs, epochs, num_epoch = 2, 2, 2
    seen = []
    for i in range(n_epochs):
        seen.append(step())
    assert seen == [None, None] and epochs == num_epoch == i + 1


def test_a_variable_that_no_loop_has():
    """Which may as well be how many there are to be: it is not sure."""
    epoch, seen = 0, []
    while epoch < 2:
        seen.append(step())
        epoch += 1
    assert seen == [("epoch", 0, False), ("epoch", 1, False)]


def test_enumerate_and_more_variables():
    seen = []
    for e, (_a, _b) in enumerate([(1, 2), (3, 4)]):
        for _ in range(1):
            try:
                seen.append(step())
            finally:
                pass
    assert seen == [("e", 0, False), ("e", 1, False)]


def test_long_loops():
    """Jumps of more than 255 instructions have a prefix."""
    code = TWO_LOOPS % ("", "e") + "   if not seen:\n"
    code += "    print(seen)\n" * 400 + " return seen"
    space = {}
    exec(compile(code, __file__, "exec"), space)
    assert space["run"](step) == [("e", 0, False), ("e", 1, False)]


@pytest.mark.parametrize("name", ["seed", "i_episode", "fold", "trial", "n_run"])
def test_loops_of_other_things(name):
    code = TWO_LOOPS + " return seen"
    space = {}
    exec(compile(code % ("", name), __file__, "exec"), space)
    assert space["run"](step) == [None, None]


def test_a_loop_over_something_else_than_numbers():
    seen = []
    for _rate in (0.1, 0.01):
        for _ in range(1):
            seen.append(step())
    assert seen == [None, None]


def test_the_same_place_is_asked_again_each_time():
    """From one line within the inner loop, and from another one outside of it."""
    seen = []
    for e in range(3):
        for _ in range(2):
            seen.append(step())
        seen.append(step())
    assert seen == [x for e in range(3) for x in (("e", e, False), ("e", e, False), None)]


def test_nothing_is_kept_alive():
    class Large:
        pass

    def run():
        for _epoch in range(1):
            large = Large()
            alive = weakref.ref(large)
            assert step() is None or True
            del large
            return alive

    assert run()() is None


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="locals() is a snapshot from 3.13 on")
def test_what_the_script_was_given_by_locals_stays_as_it_was():
    def run():
        before = locals()
        for epoch in range(2):
            for _ in range(1):
                step()
        return "epoch" in before, epoch

    assert run() == (False, 1)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="what exec sets is gone from 3.13 on")
@pytest.mark.parametrize("way", ["model.eval()", "exec('a = 1'); eval('a')"])
def test_methods_of_those_names_are_something_else(way):
    code = TWO_LOOPS % (", model", "e") + "  %s\n return seen"
    space = {}
    exec(compile(code % way, __file__, "exec"), space)
    model = type("Model", (), {"eval": lambda self: None})()
    known = [("e", 0, False), ("e", 1, False)]
    assert space["run"](step, model) == (known if "model" in way else [None, None])


def test_a_debugger_is_not_in_the_way():
    sys.settrace(lambda *args: None)
    try:
        for e in range(1):
            for _ in range(1):
                assert step() is None or turns._PROXY and e == 0
    finally:
        sys.settrace(None)
