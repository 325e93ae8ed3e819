"""The user's line: the innermost frame outside site-packages, the standard library and the agent."""

import os
import sys

_known = {}  # code object -> is it the user's
_here = os.path.dirname(os.path.abspath(__file__)) + os.sep


# The standard library, as it was named and where links lead; sysconfig would say the same and import half of itself first.
_roots = tuple({os.path.dirname(path(os.__file__)) + os.sep for path in (os.path.abspath, os.path.realpath)})
_parts = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


def is_user(code):
    """Whether the code object belongs to the user rather than to a library."""
    known = _known.get(code)
    if known is None:
        known = _known[code] = is_user_file(code.co_filename)
    return known


def is_user_file(name):
    """The same question of a file name as code objects carry it."""
    if name.startswith("<"):
        # <frozen importlib>, <__array_function__ internals>, <eval_with_key> are libraries' own
        return name.startswith(("<ipython", "<cell", "<stdin", "<string"))
    path = os.path.abspath(name)
    return not (path.startswith(_here) or any(p in path for p in _parts) or path.startswith(_roots))


def where(depth=2):
    """Return (user line, library line) of the caller: 'file:line' each, '' where there is none.

    The library line is the innermost library frame below the user's, where the call came from inside one.
    """
    frame = sys._getframe(depth)
    via = ""
    while frame is not None:
        code = frame.f_code
        if is_user(code):
            return "%s:%d" % (code.co_filename, frame.f_lineno), via
        if not via and not code.co_filename.startswith(_here):
            via = "%s:%d" % (code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return "", via


def key(depth=2):
    """A cheap identity of the user's line: (code, line, via code, via line); text() spells it out."""
    frame = sys._getframe(depth)
    via_code, via_line = None, 0
    known = _known
    while frame is not None:
        code = frame.f_code
        user = known.get(code)
        if user is None:
            user = is_user(code)
        if user:
            return code, frame.f_lineno, via_code, via_line
        if via_code is None and not code.co_filename.startswith(_here):
            via_code, via_line = code, frame.f_lineno
        frame = frame.f_back
    return None, 0, via_code, via_line


def text(k):
    """('file:line' of the user, 'file:line' of the library) of a key."""
    code, line, via_code, via_line = k
    return (
        "%s:%d" % (code.co_filename, line) if code is not None else "",
        "%s:%d" % (via_code.co_filename, via_line) if via_code is not None else "",
    )
