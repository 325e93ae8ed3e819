"""The user's line: the innermost frame outside site-packages, the standard library and the agent."""

import os
import re
import sys

# id of a code object -> (the code, whether it is the user's). By its id: a code object's hash goes through all of it.
_known = {}
_here = os.path.dirname(os.path.abspath(__file__)) + os.sep


# The standard library, as it was named and where links lead; sysconfig would say the same and import half of itself first.
_roots = tuple({os.path.dirname(path(os.__file__)) + os.sep for path in (os.path.abspath, os.path.realpath)})
_parts = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)

_typed = ("<ipython", "<python-input", "<cell", "<stdin") + (("<string",) if sys.argv[:1] == ["-c"] else ())


def forget():
    """Hold no code of the script's any more."""
    _known.clear()


def is_user(code):
    """Whether the code object belongs to the user rather than to a library."""
    known = _known.get(id(code))
    if known is None:
        known = _known[id(code)] = code, is_user_file(code.co_filename)
    return known[1]


def is_user_file(name):
    """The same question of a file name as code objects carry it."""
    if name.startswith("<"):
        # <frozen importlib>, <__array_function__ internals>, <eval_with_key> are libraries' own; <string> is what exec
        # is given, by dataclasses too: the line that executes it is the one that can be looked up
        return name.startswith(_typed)
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
    """A cheap identity of the user's line: (file, line, via file, via line); text() spells it out."""
    frame = sys._getframe(depth)
    via_file, via_line = None, 0
    while frame is not None:
        code = frame.f_code
        if is_user(code):
            return code.co_filename, frame.f_lineno, via_file, via_line
        if via_file is None and not code.co_filename.startswith(_here):
            via_file, via_line = code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None, 0, via_file, via_line


def text(k):
    """('file:line' of the user, 'file:line' of the library) of a key."""
    file, line, via_file, via_line = k
    return "%s:%d" % (file, line) if file else "", "%s:%d" % (via_file, via_line) if via_file else ""


_FRAME = re.compile(r'^\s*File "([^"\n]+)", line (\d+)', re.M)


def of_error(error):
    """The user's innermost line behind an exception, 'file:line'; '' where there is none.

    That is where the user's code failed, also where a library raised another exception from it, in a group (the first of
    it), in a worker's process, whose traceback comes as text, and in a source that Python cannot read.
    """
    return _of_error(error, set())


def _of_error(error, seen):
    if error is None or id(error) in seen or len(seen) > 100:
        return ""
    seen.add(id(error))
    for one in grouped(error):
        found = _of_error(one, seen)
        if found:
            return found
    read = type(error) in (SyntaxError, IndentationError, TabError) and type(error.filename) is str and error.lineno
    if read and is_user_file(error.filename):
        return "%s:%d" % (error.filename, error.lineno)
    found, below, tb = "", [], error.__traceback__
    while tb is not None:
        if is_user(tb.tb_frame.f_code):
            found, below = "%s:%d" % (tb.tb_frame.f_code.co_filename, tb.tb_lineno), []
        else:
            below.append(tb.tb_frame)
        tb = tb.tb_next
    if not below and found:
        return found
    # A library raised it: what of the user's is behind it?
    for text in _texts(error):
        told = [at for at in _FRAME.findall(text) if is_user_file(at[0])]
        if told:
            return "%s:%s" % told[-1]
    led = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if led is not None and led.__traceback__ is not None and led.__traceback__.tb_frame in below:
        return _of_error(led, seen) or found
    return found


def grouped(error):
    """The exceptions of a group, Python's (3.11) or the package's that stands in for it; () of what is none."""
    for module in ("builtins", "exceptiongroup"):
        kind = getattr(sys.modules.get(module), "BaseExceptionGroup", None)
        if kind is not None and isinstance(error, kind):
            return kind.exceptions.__get__(error)
    return ()


def _texts(error):
    """Tracebacks that came as text: of multiprocessing and concurrent.futures beside the exception, of PyTorch's workers
    in its message."""
    remote = getattr(error.__cause__, "tb", None)
    if type(remote) is str and type(error.__cause__).__name__ in ("RemoteTraceback", "_RemoteTraceback"):
        yield remote[-100_000:]
    said = error.args[0] if type(error.args) is tuple and error.args else ""
    if isinstance(said, str) and str.__contains__(said, "Traceback (most recent call last)"):
        yield str.__str__(said)[-100_000:]
