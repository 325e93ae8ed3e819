"""A wrapper leaves no trace: in tracebacks, in warnings, on the class."""

import ast
import ctypes
import functools
import importlib.util
import inspect
import json
import linecache
import os
import signal
import sys
import threading
import time
import traceback
import warnings

import pytest

from assay_agent import guest, wire


def site(call, log):
    return guest.at_caller(sys._getframe(1), lambda: 1, call, lambda t, args, result: log.append((args, result)), guest.hide_site)


def test_warning_names_the_callers_line():
    def warn():
        warnings.warn("from the line that calls", stacklevel=2)  # as C code warns: the innermost Python frame

    log = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = sys._getframe().f_lineno + 1
        site(warn, log)()
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)
    assert log == [((), None)]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before 3.11 the frames go when the traceback is printed")
def test_exception_passes_without_a_frame():
    def fail():
        raise KeyError("x")

    @ours
    def wrapped():
        try:
            return fail()
        except BaseException:
            guest.hide()
            raise

    for call in (wrapped, site(fail, [])):
        with pytest.raises(KeyError) as caught:
            call()
        assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][1:] == ["fail"]


def test_strip():
    @ours
    def through(inner):
        inner()

    def fail():
        raise KeyError("x")

    try:
        through(lambda: through(fail))
    except KeyError as error:
        guest.strip(error)
        assert [f.name for f in traceback.extract_tb(error.__traceback__)] == ["test_strip", "<lambda>", "fail"]


def test_method_is_itself_on_the_class():
    class Thing:
        def item(self):
            return 42

        def __bool__(self):
            return True

    method, seen = Thing.item, []
    Thing.item = guest.Method(Thing.item, lambda obj, bound: seen.append(obj) or bound)
    Thing.__bool__ = guest.Method(Thing.__bool__, lambda obj, bound: seen.append(obj) or bound)
    thing = Thing()
    assert Thing.item is method and thing.item() == 42 and bool(thing)
    assert seen == [thing, thing]


# -- functions remade


SOURCE = '''
import sys
import traceback
import warnings
from collections import OrderedDict


def plain(a, b=2, *rest, c=3, **more):
    """What it does."""
    if a:
        return depth(), a, b, rest, c, more
    raise KeyError(
        "x"
    )


def named(n):
    return n if n == 0 else named(n - 1)


def warns():
    warnings.warn("w", stacklevel=2)
    OrderedDict.fromkeys([])


class Base:
    def __init__(self, x):
        self.x = x


class Thing(Base):
    __limit = 7

    def __init__(self, x):
        super().__init__(x)

    def method(self):
        with open(__file__) as f:
            if self.x:
                return self.__limit + len(f.readline())
        for i in range(3):
            if i == 2:
                break
        else:
            return 0
        return [self.x for _ in range(2)]


def depth():
    frame, n = sys._getframe(1), 0
    while frame is not None:
        frame, n = frame.f_back, n + 1
    return n


def closure():
    held = []
    return lambda: held


def generator():
    yield 1


def silent(n):
    """Says nothing but this."""


total = last = inner = 0


def counts(n):
    """Adds up."""
    global total
    total = total + n
    if n > 1:
        global last
        last = n
    def within():
        global inner
        inner = n
    within()
    return total
'''


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("subject", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def around(monkeypatch):
    troubles = []
    monkeypatch.setattr(wire, "trouble", troubles.append)
    log = []

    def make(function, watch=True):
        return guest.around(function, lambda *p: log.append(p) or watch, lambda error: log.append(repr(error)))

    make.log, make.troubles = log, troubles
    return make


def test_around_is_called_as_the_function(module, around):
    bare = module.plain
    module.plain = around(bare)
    assert inspect.signature(module.plain) == inspect.signature(bare) and module.plain.__doc__ == bare.__doc__
    assert module.plain(1, 5, 6, c=7, d=8) == bare(1, 5, 6, c=7, d=8)  # the depth of the stack is in it
    assert around.log == [(1, 5, (6,), 7, {"d": 8}), "None"] and not around.troubles
    assert around(module.named)(3) == 0
    thing = module.Thing(0)
    module.Thing.method = around(module.Thing.method)
    assert thing.method() == [0, 0]
    thing.x = 1
    assert thing.method() == 8
    module.Thing.__init__ = around(module.Thing.__init__)
    assert module.Thing(4).x == 4 and not around.troubles


def test_around_leaves_no_trace_in_a_traceback(module, around):
    def printed():
        try:
            module.plain(0)
        except KeyError:
            return traceback.format_exc()

    bare, function = printed(), module.plain
    for watch in (True, False):
        module.plain = around(function, watch)
        assert printed() == bare
    assert around.log[1] == "KeyError('x')" and len(around.log) == 3 and not around.troubles


def test_around_leaves_warnings_where_they_were(module, around):
    module.warns = around(module.warns)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = sys._getframe().f_lineno + 1
        module.warns()
    assert (caught[0].filename, caught[0].lineno) == (__file__, line) and not around.troubles


def test_around_says_where_it_had_to_wrap(module, around, tmp_path):
    assert around(module.closure())() == []
    assert list(around(module.generator)()) == [1]
    (tmp_path / "subject.py").write_text(SOURCE.replace("n - 1", "n - 2"))  # the file has changed since it was imported
    linecache.checkcache()
    assert around(module.named)(3) == 0
    assert len(around.troubles) == 3 and "its source is not the code that runs" in around.troubles[0]
    assert len(around.log) == 6
    with pytest.raises(KeyError):
        guest._wrapped(module.plain, lambda *p: around.log.append(p), None)(0, d=1)
    assert around.log[-1] == (0, 2, (), 3, {"d": 1})


@pytest.mark.parametrize("watch", [True, False])
def test_around_a_function_that_writes_globals(module, around, watch):
    """PyTorch's save is one. The body stands in the remade function twice, and a name may be declared once."""
    made = around(module.counts, watch)
    assert made(1) == 1 and made(2) == 3 and made.__doc__ == "Adds up."
    assert (module.total, module.last, module.inner) == (3, 2, 2) and not around.troubles
    assert len(around.log) == (4 if watch else 2)


@pytest.mark.parametrize("watch", [True, False])
def test_around_a_function_without_a_statement(module, around, watch):
    made = around(module.silent, watch)
    assert made(1) is None and made.__doc__ == "Says nothing but this." and not around.troubles
    assert around.log == [(1,), "None"][: 1 + watch]


def test_inside(module, around):
    seen = []
    module.depth = lambda: seen.append((guest.inside(0), guest.inside(1)))
    around(module.plain)(1)
    assert seen == [(True, False)] and not guest.inside(0)


# -- what the script raises


class Deadline(Exception):
    pass


@pytest.fixture
def raising():
    """Calls with a handler that raises at once, in the middle of what is called."""

    def expire(number, frame):
        raise Deadline("in time")

    before = signal.signal(signal.SIGUSR1, expire)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def test_hook_keeps_its_own_failures(monkeypatch):
    said = []
    monkeypatch.setattr(wire, "trouble", said.append)

    @ours
    def fails():
        return {}["missing"]

    assert guest.hook(fails, otherwise=3)() == 3
    assert len(said) == 1 and "KeyError('missing')" in said[0]


def ours(function):
    """The function as if it stood in a file of the agent's."""
    function.__code__ = function.__code__.replace(co_filename=os.path.join(os.path.dirname(guest.__file__), "made.py"))
    return function


def test_hook_passes_on_what_a_signal_handler_raises(raising):
    @ours
    def interrupted():
        raising()
        for _ in range(1000):
            pass

    @ours
    def within_a_library():
        return json.loads("[1]", object_pairs_hook=None, parse_int=lambda text: raising() or time.sleep(1))

    @ours
    def caught_and_raised_anew():
        try:
            interrupted()
        except Exception as err:
            raise ValueError("of ours") from err

    for work in (interrupted, within_a_library, caught_and_raised_anew):
        with pytest.raises(Deadline) as caught:
            guest.hook(work)()
        if sys.version_info >= (3, 11):
            names = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
            assert names[-1] == "expire" and "interrupted" not in names and "hooked" not in names


def test_a_handler_may_be_a_method_or_forget_its_frame(raising):
    class Handler:
        def take(self, *arguments):
            raise Deadline

        def __call__(self, number, frame):
            raise Deadline

    def forgets(number, frame):
        frame = None
        raise Deadline(frame)

    @ours
    def interrupted():
        raising()
        for _ in range(1000):
            pass

    for handler in (Handler().take, Handler(), forgets, functools.partial(lambda more, number, frame: forgets(number, frame), 1)):
        signal.signal(signal.SIGUSR1, handler)
        with pytest.raises(Deadline):
            guest.hook(interrupted)()


def test_hook_passes_on_what_another_thread_throws(monkeypatch):
    monkeypatch.setattr(wire, "trouble", lambda what: None)

    @ours
    def thrown_into():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(Deadline))
        for _ in range(100000):
            pass

    with pytest.raises(Deadline):
        guest.hook(thrown_into)()


def test_hook_keeps_what_the_scripts_code_fails_with_when_we_call_it(monkeypatch):
    monkeypatch.setattr(wire, "trouble", lambda what: None)

    class Data:
        def __len__(self):
            raise Deadline("nobody asked")

    @ours
    def asks():
        return len(Data())

    assert guest.hook(asks)() is None


def test_every_except_clause_lets_pass_what_is_the_scripts():
    """The oracle is the source itself: a clause that catches Exception begins by passing on, or ends in a bare raise."""
    root = os.path.dirname(guest.__file__)
    checked = 0
    for folder, _, names in os.walk(root):
        for name in names:
            if not name.endswith(".py") or name == "attempt.py" or os.path.basename(folder) in ("golden", "replay", "fleet"):  # assay's own processes
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                tree = ast.parse(f.read())
            for node in ast.walk(tree):
                if not isinstance(node, ast.ExceptHandler) or not broad(node.type):
                    continue
                checked += 1
                text = ast.dump(ast.Module(node.body, []))
                last = node.body[-1]
                bare = isinstance(last, ast.Raise) and last.exc is None
                thread = name == "wire.py" and isinstance(node.type, ast.Name) and node.type.id == "BaseException"  # the sender's own
                assert "pass_on" in text or bare or thread, "%s:%d" % (name, node.lineno)
    assert checked > 15


def broad(kind):
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(k is None or isinstance(k, ast.Name) and k.id in ("Exception", "BaseException") for k in kinds)


def test_a_failed_reading_costs_the_step_nothing(monkeypatch):
    """What looks at losses and gradients is a hook of its own: the one that times the phase goes on."""
    from assay_agent.watch.torch import numerics

    said = []
    monkeypatch.setattr(wire, "trouble", said.append)
    monkeypatch.setattr(numerics, "_torch", None)
    for reading in (numerics.on_backward, numerics.on_step, numerics.on_scale):
        assert reading(object()) is None
    assert len(said) == 3


# -- a function in C
# -----------------------------------------------------------------------------------------------------


def test_a_stand_in_answers_as_what_it_stands_for():
    import operator
    import pickle

    original = operator.itemgetter(1)
    seen = []
    stand = guest.stand_in(original, lambda f, about: seen.append((f, about)), "about")
    assert stand([4, 5]) == 5 and seen == [(original, "about")]
    assert isinstance(stand, operator.itemgetter) and stand.__class__ is operator.itemgetter and callable(stand)
    assert repr(stand) == repr(original) and dir(stand) == dir(original) and stand.__doc__ == original.__doc__
    assert (type(stand).__name__, type(stand).__module__) == ("itemgetter", "operator")
    assert pickle.loads(pickle.dumps(stand))([4, 5]) == 5
    for ask in (lambda f: setattr(f, "x", 1), lambda f: f.absent, lambda f: f(), lambda f: f([])):
        with pytest.raises((AttributeError, TypeError, IndexError)) as ours:
            ask(stand)
        with pytest.raises((AttributeError, TypeError, IndexError)) as theirs:
            ask(original)
        assert (ours.type, str(ours.value)) == (theirs.type, str(theirs.value))


def test_a_call_of_a_stand_in_has_no_frame_of_ours_below_it():
    frames = []
    stand = guest.stand_in(functools.partial(lambda: frames.extend(f.function for f in inspect.stack())), lambda f, about: None)
    stand()
    assert "__get__" not in frames and frames[1] == "test_a_call_of_a_stand_in_has_no_frame_of_ours_below_it"


def test_places_are_given_back_and_taken_again():
    class Owner:
        one, two = len, abs

    places = guest.Places()
    ours = [guest.stand_in(f, lambda f, about: None) for f in (len, abs)]
    assert places.put(Owner, "one", ours[0]) is len and places.put(Owner, "two", ours[1]) is abs
    assert vars(Owner)["one"] is ours[0]
    places.switch(False)
    assert vars(Owner)["one"] is len and vars(Owner)["two"] is abs
    Owner.two = max  # the script's own stays
    places.switch(True)
    places.switch(False)
    assert vars(Owner)["one"] is len and vars(Owner)["two"] is max


def test_a_frame_that_bears_its_callers_name_is_stripped():
    """As before 3.11, where it comes back when the exception goes on."""
    def fails():
        raise ValueError("no")

    def caller():
        return guest.at_caller(sys._getframe(), lambda: 0, fails, None, lambda: None)()

    with pytest.raises(ValueError) as caught:
        caller()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["caller", "caller", "fails"]
    guest.strip(caught.value)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["caller", "fails"]
