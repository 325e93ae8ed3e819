"""The double in use. What is put into torch stands there for the whole process, whichever double it was made for: it
belongs to no double, and asks the one in use.
"""

import contextlib
import threading


class _Current:
    """double: a Double, or None before the first is in use. forget: functions that clear what torch itself keeps of a
    double's answers. notes: dictionaries of what is under way, a test, a fixture: where other releases are asked, numbers of
    calls are added to their keys (releases.py)."""

    def __init__(self):
        self.double = None
        self.forget = []
        self.notes = []

    def put(self, double):
        self.double = double
        for forget in self.forget:
            forget()


current = _Current()


class _State(threading.local):
    # True: no double looks at anything in this thread; OPERATORS: at no operator, while attributes still answer
    off = False


OPERATORS = 2
state = _State()


@contextlib.contextmanager
def inside(what=True):
    """Work of the double's own: nothing looks at it."""
    before = state.off
    state.off = what
    try:
        yield
    finally:
        state.off = before
