"""How a wrapper stays out of sight: out of tracebacks, and out of where warnings say that they come from."""

import sys
import types


def hide():
    """In an except clause that ends in a bare raise: take the wrapper's own frame off the traceback.

    From Python 3.11 on a bare raise goes on with the traceback that the exception carries. Before, the interpreter keeps
    its own copy, so there the frames are taken off when an uncaught exception is printed (strip).
    """
    error = sys.exc_info()[1]
    if error is not None and error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


def strip(error, is_ours, seen=None):
    """Take every frame of ours off the tracebacks of an exception and of those that led to it."""
    seen = set() if seen is None else seen
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        tb = error.__traceback__
        while tb is not None and is_ours(tb.tb_frame.f_code.co_filename):
            tb = tb.tb_next
        error.__traceback__ = tb
        while tb is not None:
            after = tb.tb_next
            while after is not None and is_ours(after.tb_frame.f_code.co_filename):
                after = after.tb_next
            tb.tb_next = after
            tb = after
        if error.__cause__ is not None:
            strip(error.__cause__, is_ours, seen)
        error = error.__context__


def _template(begin, call, end, failed):
    def site(*args, **kwargs):
        t = begin()
        try:
            result = call(*args, **kwargs)
        except BaseException:
            failed()
            raise
        end(t, args, result)
        return result

    return site


_code = _template(None, None, None, None).__code__
_OFFSET = 3  # the line of call(…), below the def
_codes = {}


def at_caller(frame, begin, call, end, failed):
    """A wrapper of call that warnings take for the line in frame: they look at the innermost Python frame's file, line and
    globals, and the wrapper has those of the frame. begin() gives what end(begun, args, result) gets."""
    key = (frame.f_code, frame.f_lineno)
    code = _codes.get(key)
    if code is None:
        if len(_codes) > 10_000:
            _codes.clear()
        code = _codes[key] = _code.replace(
            co_filename=frame.f_code.co_filename, co_firstlineno=max(1, frame.f_lineno - _OFFSET), co_name=frame.f_code.co_name
        )
    values = {"begin": begin, "call": call, "end": end, "failed": failed}
    cells = tuple(types.CellType(values[name]) for name in code.co_freevars)
    return types.FunctionType(code, frame.f_globals, code.co_name, None, cells)


class Method:
    """Stands in a class for one of its methods. Looked up on the class, it is the method itself; on an instance, whatever
    `bind(instance, bound method)` makes of it: most often the bound method, so that no frame of ours is on the stack."""

    __slots__ = ("method", "get", "bind")

    def __init__(self, method, bind):
        self.method = method
        self.get = method.__get__
        self.bind = bind

    def __get__(self, instance, owner=None):
        if instance is None:
            return self.method
        return self.bind(instance, self.get(instance, owner))
