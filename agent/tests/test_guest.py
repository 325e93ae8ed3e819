"""A wrapper leaves no trace: in tracebacks, in warnings, on the class."""

import sys
import traceback
import warnings

import pytest

from assay_agent import guest


def site(call, log):
    return guest.at_caller(sys._getframe(1), lambda: 1, call, lambda t, args, result: log.append((args, result)), guest.hide)


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
    def ours(inner):
        inner()

    def fail():
        raise KeyError("x")

    code = ours.__code__.replace(co_filename="/agent/x.py")
    ours.__code__ = code
    try:
        ours(lambda: ours(fail))
    except KeyError as error:
        guest.strip(error, lambda name: name.startswith("/agent/"))
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
