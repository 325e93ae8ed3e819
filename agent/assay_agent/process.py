"""The ends of a process: normal exit, os._exit, exec and fork. Each flushes what is known, and none changes what happens."""

import atexit
import os
import sys
import time

from . import guest, place, wire

_finishers = []  # called once before goodbye
_forgetters = []  # called when all is said
_returns = []  # called when an exec has failed and the script goes on
_pid = 0
handled = None  # an exception in sys.last_value that did not end the script


def install():
    global _pid
    _pid = os.getpid()
    # Registered first of all, so it runs last: after the script's own handlers.
    atexit.register(_at_exit)
    os.register_at_fork(before=guest.hook(wire.before_fork), after_in_child=guest.hook(_after_fork_in_child))
    _wrap("_exit", "exit")
    for name in ("execv", "execve"):
        _wrap(name, "exec")
    for name in ("fork", "forkpty"):
        _wrap_fork(name)
    if sys.version_info < (3, 11):
        _strip_uncaught()


def _strip_uncaught():
    """Before Python 3.11 a wrapper cannot leave a traceback by itself: do it where an uncaught one is printed."""
    show = sys.excepthook

    def excepthook(kind, value, traceback):
        try:
            guest.strip(value)
            traceback = value.__traceback__
        except Exception as err:
            guest.pass_on(err)
        return show(kind, value, traceback)

    sys.excepthook = excepthook


def finisher(function):
    _finishers.append(function)
    return function


def forgetter(function):
    """Have it let go, when all is said, of what it holds of the script's."""
    _forgetters.append(function)


def when_back(function):
    _returns.append(function)


def _wrap(name, how):
    original = getattr(os, name)

    def wrapped(*args, **kwargs):
        gone = how == "exit" or bool(args) and os.path.exists(args[0])  # execvp tries every folder of PATH
        try:
            if gone:
                leave({"exit": "os._exit", "exec": "exec"}[how], closing=how == "exit")
            return original(*args, **kwargs)
        except BaseException:
            if gone:
                for function in _returns:
                    function()
            guest.hide()
            raise

    _put(name, wrapped, original)


def _wrap_fork(name):
    """The sending thread ends before a fork. What a signal handler raises meanwhile would be lost within a callback of the interpreter's
    (register_at_fork, which serves the forks that do not come this way), and is not here."""
    original = getattr(os, name, None)
    if original is None:
        return
    before = guest.hook(wire.before_fork)

    def wrapped():
        return guest.at_caller(sys._getframe(1), before, original, lambda t, args, result: None, guest.hide_site)()

    _put(name, wrapped, original)


def _put(name, wrapped, original):
    wrapped.__name__, wrapped.__qualname__, wrapped.__doc__ = name, name, original.__doc__
    wrapped.__module__ = original.__module__
    setattr(os, name, wrapped)


def finish(how, closing=True):
    """Run the finishers and say goodbye. exec may still fail and return: then the stream stays open."""
    if os.getpid() != _pid or wire.silent:
        return
    for function in list(_finishers):
        guest.hook(function)()
    event = {"ev": "bye", "how": how, "clock": time.perf_counter_ns(), "cpu": time.process_time()}
    if closing:
        wire.close(event)
    else:
        wire.say(event)


leave = guest.hook(finish)


@guest.hook
def _at_exit():
    last = getattr(sys, "last_value", None)
    if last is not None and last is not handled:
        report_error(last)
    finish("exit")
    # Code of the script's that is held here would outlive the modules that are told of its end: dynamo's would complain.
    for function in [place.forget, guest.forget] + _forgetters:
        guest.hook(function)()


def report_error(error):
    """Name the exception that ended the script, and the user's innermost line of it."""
    name, text = said(error)
    wire.put({"ev": "error", "type": name, "text": text, "where": place.of_error(error)})


def said(error):
    """(name, message) of an exception; of a group with those of the first in it."""
    text, one = _message(error), error
    while place.grouped(one):
        one = place.grouped(one)[0]
    if one is not error:
        text += "; first of them: %s: %s" % (_name(one), _message(one))
    return _name(error), text[:4000]


def _name(error):
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else kind.__module__ + "." + kind.__qualname__


def _message(error):
    told = getattr(type(error).__str__, "__code__", None)
    try:
        # What a method of the script's would print, or change, it would do once more than without us.
        if told is not None and place.is_user(told):
            return "(its message is made by the script's own code)"
        return _without_traceback(str(error))
    except Exception as err:
        guest.pass_on(err)
        return "(its message could not be read)"


def _without_traceback(text):
    """A message of a worker's without the tracebacks in it, but for what the last of them ends in: which exception it
    was."""
    head = "Traceback (most recent call last):"
    frames = text.rpartition(head)[2].splitlines()[1:]
    ends = [line for line in frames if line.strip() and not line[0].isspace()]
    if head not in text or not ends:
        return text
    before = text.partition(head)[0].strip()
    for word in ("Original", "."):
        if before.endswith(word):
            before = before[: -len(word)].rstrip()
    return (before.rstrip(":") + ": " if before else "") + ends[0]


_after_fork = []


def after_fork(function):
    _after_fork.append(function)


def _after_fork_in_child():
    """The child is silent until it trains: loader workers have nothing to say."""
    global _pid
    _pid = os.getpid()
    wire.after_fork_in_child()
    for function in _after_fork:
        function()
