"""How a hook stays out of sight: out of the stack, of tracebacks, of warnings, and out of the way of what the script raises.

A call is watched in one of three ways, and none leaves a frame of ours under code of the script's:
  around   a Python function of the framework, remade from its own source with our two calls in it: the same frame, the same lines;
  Method   a method in C, looked up in the class: nothing stands around the call itself;
  at_caller  a method in C that is to be timed: a frame that bears its caller's file and line.
A function in C, or an object in C that is called, is watched by a stand-in (stand_in), whose calls go the ways of a Method.
"""

import ast
import functools
import linecache
import os
import re
import sys
import types

_here = os.path.dirname(os.path.abspath(__file__)) + os.sep
_boot = os.path.join(os.path.dirname(os.path.dirname(_here)), "boot") + os.sep


def is_ours(code):
    """Whether a code object belongs to the agent."""
    return code.co_filename.startswith((_here, _boot))


def trouble(what):
    """Says that a hook has failed: wire.trouble, which takes this one's place when there is a stream."""


# -- what passes through a hook -------------------------------------------------------------------------------------------


def foreign(error):
    """The exception among error and those that led to it that the script raised into a hook; None where the failure is the agent's own.

    The interpreter calls a signal handler between two instructions of whatever runs, and so within a hook. Such a call is known by its
    arguments: a handler is given the frame that it interrupted, which is the one below it on the stack; so is a trace function. What
    another thread throws (PyThreadState_SetAsyncExc) comes up in a frame of ours, with a class that nothing of ours would raise.
    """
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        last, tb = None, error.__traceback__
        while tb is not None:
            last = tb.tb_frame
            if not is_ours(last.f_code) and _interrupts(last):
                return error
            tb = tb.tb_next
        if last is not None and is_ours(last.f_code) and not _raised_by_libraries(type(error)):
            return error
        error = error.__cause__ or error.__context__
    return None


def _interrupts(frame):
    """Whether the frame is that of a signal handler or a trace function, called between two instructions of the frame below it."""
    if frame.f_back is not None:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + bool(code.co_flags & 4)]  # with *arguments
        for name in names:
            value = frame.f_locals.get(name)
            if value is frame.f_back or type(value) is tuple and any(item is frame.f_back for item in value):
                return True
    signal = sys.modules.get("_signal")
    if signal is not None:
        for number in range(1, signal.NSIG):  # a handler that has bound its second argument anew
            try:
                handler = signal.getsignal(number)
            except (ValueError, OSError):
                continue
            handler = getattr(handler, "__func__", handler)
            if getattr(handler, "__code__", None) is frame.f_code:
                return True
    return False


def _raised_by_libraries(kind):
    """Whether the class is one that Python's own library or the framework defines."""
    root = (getattr(kind, "__module__", "") or "").partition(".")[0]
    return root in libraries or root in _standard


libraries = {"builtins", "assay_agent"}  # and the frameworks that have been imported (watch.frameworks)
_standard = getattr(sys, "stdlib_module_names", ("json", "struct", "ctypes", "socket", "ast", "re", "tracemalloc", "pickle"))  # 3.10


def pass_on(error):
    """First of all in an except clause of the agent's: what the script raised into the agent goes on, as the script's."""
    theirs = foreign(error)
    if theirs is not None:
        raise theirs


def hook(work, otherwise=None):
    """work, called by a stranger: a failure of its own is a line of evidence and gives `otherwise`; what is the script's, and a run's
    end, passes with no frame of ours on its traceback."""

    @functools.wraps(work)
    def hooked(*args, **kwargs):
        try:
            return work(*args, **kwargs)
        except Exception as err:
            try:
                pass_on(err)
                trouble("%s.%s: %r" % (work.__module__.rpartition(".")[2], work.__qualname__, err))
                return otherwise
            except BaseException:
                hide()
                raise
        except BaseException:
            hide()
            raise

    return hooked


def hide():
    """In an except clause that ends in a bare raise: take every frame of ours off the traceback.

    From Python 3.11 on a bare raise goes on with the traceback that the exception carries. Before, the interpreter keeps
    its own copy, so there the frames are taken off when an uncaught exception is printed (strip).
    """
    error = sys.exc_info()[1]
    if error is not None:
        error.__traceback__ = _without_ours(error.__traceback__)


def _without_ours(tb):
    while tb is not None and _put_in(tb.tb_frame.f_code):
        tb = tb.tb_next
    first = tb
    while tb is not None:
        after = tb.tb_next
        while after is not None and _put_in(after.tb_frame.f_code):
            after = after.tb_next
        if tb.tb_next is not after:
            tb.tb_next = after
        tb = after
    return first


def _put_in(code):
    """Whether the code object is the agent's, or bears the name of its caller (at_caller)."""
    return is_ours(code) or code.co_freevars == _code.co_freevars and code.co_code == _code.co_code


def strip(error):
    """Take every frame of ours off the tracebacks of an exception and of those that led to it."""
    seen, todo = set(), [error]
    while todo:
        error = todo.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            error.__traceback__ = _without_ours(error.__traceback__)
            todo += [error.__cause__, error.__context__]


# -- a Python function, remade --------------------------------------------------------------------------------------------

_codes = set()  # of the functions that around() made: one of them on the stack is a watched call under way


class _End:
    """Stands in a with statement around a function's body."""

    __slots__ = ("end",)

    def __init__(self, end):
        self.end = end

    def __enter__(self):
        return None

    def __exit__(self, kind, error, traceback):
        self.end(error)
        return None


def around(function, begin, end):
    """A function like `function` that calls begin(each of its parameters) first and, where that was true, end(exception or None) at last.

    It is compiled from the function's own source: name, file, lines, and the number of frames on the stack are those of the function, so
    that tracebacks, warnings and recursion are as without us. Where the source is not what runs (a stale file, a closure, a generator)
    it is a wrapper, and the evidence says so. begin and end are to be hooks (hook).
    """
    made = _remade(function, begin, _End(end))
    if made is None:
        trouble("%s is watched by a wrapper: its source is not the code that runs" % (function.__qualname__,))
        made = _wrapped(function, begin, end)
    _codes.add(made.__code__)
    return made


def inside(own):
    """Whether this thread is within a call that around() watches, besides the `own` innermost ones."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code in _codes:
            own -= 1
            if own < 0:
                return True
        frame = frame.f_back
    return False


def _wrapped(function, begin, end):
    import inspect

    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        watched = False
        try:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return function(*args, **kwargs)  # which says what is wrong
            bound.apply_defaults()
            watched = begin(*bound.arguments.values())
            result = function(*args, **kwargs)
        except BaseException as error:
            if watched:
                end(error)
            hide()
            raise
        if watched:
            end(None)
        return result

    return wrapped


def _remade(function, begin, end):
    code = function.__code__
    if set(code.co_freevars) - {"__class__"} or code.co_flags & 0x2A0:  # closures, but for super(); generators and coroutines
        return None
    flags = code.co_flags & 0x1FE0000  # from __future__ import …
    tree = None
    try:
        for imports in (_IMPORT, _IMPORT_INDENTED):
            tree = _definition(function, imports)
            same = tree and _code_of(compile(tree, code.co_filename, "exec", flags, True), code)
            if same and _alike(same, code):
                break
        else:
            return None
    except (OSError, SyntaxError, ValueError):
        return None
    holder = tree.body[-1] if isinstance(tree.body[-1], ast.ClassDef) else tree
    node = holder.body[-1]
    names = [a.arg for a in getattr(node.args, "posonlyargs", []) + node.args.args]
    names += [a.arg for a in (node.args.vararg,) if a] + [a.arg for a in node.args.kwonlyargs] + [a.arg for a in (node.args.kwarg,) if a]
    documented = ast.get_docstring(node, clean=False) is not None
    declared = _Globals()  # once, before the body, which stands there twice
    body = [declared.visit(statement) for statement in node.body[documented:]]
    body = body or [ast.copy_location(ast.Pass(), node.body[0])]  # its text is all that it has

    def at(new):
        return ast.fix_missing_locations(ast.copy_location(new, body[0]))

    def name(word):
        return ast.Name(word, ast.Load())

    watched = ast.With(items=[ast.withitem(name("_assay_end"), None)], body=body)
    test = ast.Call(name("_assay_begin"), [name(n) for n in names], [])
    names_first = [at(ast.Global(declared.names))] if declared.names else []
    node.body = node.body[:documented] + names_first + [at(ast.If(at(test), [at(watched)], body))]
    empty = ast.parse("def _assay(_assay_begin, _assay_end): pass").body[0]
    outer = ast.copy_location(empty, node)
    outer.body = [ast.Global([node.name]), node]  # a function that names itself means the module's
    holder.body[-1] = ast.fix_missing_locations(outer)
    new = _code_of(compile(tree, code.co_filename, "exec", flags, True), code)
    cells = dict(zip(code.co_freevars, function.__closure__ or ()), _assay_begin=types.CellType(begin), _assay_end=types.CellType(end))
    if new is None or set(new.co_freevars) != set(cells):
        return None
    if hasattr(code, "co_qualname"):
        new = new.replace(co_qualname=code.co_qualname)
    made = types.FunctionType(new, function.__globals__, function.__name__, function.__defaults__, tuple(cells[n] for n in new.co_freevars))
    made.__kwdefaults__, made.__qualname__, made.__module__ = function.__kwdefaults__, function.__qualname__, function.__module__
    made.__doc__ = function.__doc__
    if hasattr(function, "__annotate__"):  # 3.14
        made.__annotate__ = function.__annotate__
    else:
        made.__annotations__ = function.__annotations__
    made.__dict__.update(function.__dict__)
    return made


class _Globals(ast.NodeTransformer):
    """Takes the global declarations out of a function's statements; names are what they declare."""

    def __init__(self):
        self.names = []

    def visit_Global(self, node):
        self.names += [name for name in node.names if name not in self.names]
        return ast.copy_location(ast.Pass(), node)

    def _of_another(self, node):
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _of_another


_IMPORT, _IMPORT_INDENTED = (re.compile(r"^%s(?:import|from[ \t]+[\w.]+[ \t]+import)[ \t]+(?:\([^)]*\)|(?:\\\n|[^\n;])*)" % indent, re.M) for indent in ("", r"[ \t]*"))


def _definition(function, imports):
    """The tree of the function's definition alone, at its own lines, in a class of its own class's name if it is a method; before it the
    module's imports, since CPython compiles calls of what is imported in another way (compile.c, is_import_originated)."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    first = code.co_firstlineno
    if not 0 < first <= len(lines):
        return None
    indent = len(lines[first - 1]) - len(lines[first - 1].lstrip())
    last = max(line or 0 for line in _lines(code))
    owner = function.__qualname__.rpartition(".")[0].rpartition(".")[2]
    if indent and (first < 2 or not owner.isidentifier()):
        return None
    head = "\n" * (first - 2) + "class %s:\n" % owner if indent else "\n" * (first - 1)
    known = ast.parse("\n".join(found.lstrip() for found in imports.findall("".join(lines)) if "__future__" not in found))
    for end in range(last, min(last + 12, len(lines)) + 1):  # a last statement of several lines
        try:
            tree = ast.parse(head + "".join(lines[first - 1 : end]))
        except SyntaxError:
            continue
        body = tree.body[0].body if indent else tree.body
        if len(body) == 1 and isinstance(body[0], ast.FunctionDef):
            following = lines[end] if end < len(lines) else ""
            if following.strip() and len(following) - len(following.lstrip()) > indent and not following.lstrip().startswith("#"):
                continue
            tree.body[:0] = known.body
            return tree
    return None


def _alike(one, other):
    """Whether two code objects do the same, wherever they stand."""
    if (one.co_code, one.co_names, one.co_varnames) != (other.co_code, other.co_names, other.co_varnames):
        return False
    return len(one.co_consts) == len(other.co_consts) and all(
        _alike(a, b) if isinstance(a, types.CodeType) and isinstance(b, types.CodeType) else type(a) is type(b) and a == b
        for a, b in zip(one.co_consts, other.co_consts)
    )


def _lines(code):
    if hasattr(code, "co_lines"):  # 3.10
        found = [line for _, _, line in code.co_lines()]
    else:
        import dis

        found = [line for _, line in dis.findlinestarts(code)]
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found += _lines(const)
    return found


def _code_of(compiled, code):
    """The code object of that name and first line among those that a compiled one holds."""
    todo = [compiled]
    while todo:
        at = todo.pop()
        if at.co_name == code.co_name and at.co_firstlineno == code.co_firstlineno:
            return at
        todo += [const for const in at.co_consts if isinstance(const, types.CodeType)]
    return None


# -- a method in C --------------------------------------------------------------------------------------------------------


def _template(begin, call, end, failed):
    def site(*args, **kwargs):
        try:
            t = begin()
            result = call(*args, **kwargs)
        except BaseException:
            failed()
            raise
        end(t, args, result)
        return result

    return site


_code = _template(None, None, None, None).__code__
_OFFSET = 3  # the line of call(…), below the def
_sites = {}


def at_caller(frame, begin, call, end, failed):
    """A wrapper of call that warnings take for the line in frame: they look at the innermost Python frame's file, line and
    globals, and the wrapper has those of the frame. begin() gives what end(begun, args, result) gets; failed() hides."""
    key = (frame.f_code, frame.f_lineno)
    code = _sites.get(key)
    if code is None:
        if len(_sites) > 10_000:
            _sites.clear()
        code = _sites[key] = _code.replace(
            co_filename=frame.f_code.co_filename, co_firstlineno=max(1, frame.f_lineno - _OFFSET), co_name=frame.f_code.co_name
        )
    values = {"begin": begin, "call": call, "end": end, "failed": failed}
    cells = tuple(types.CellType(values[name]) for name in code.co_freevars)
    return types.FunctionType(code, frame.f_globals, code.co_name, None, cells)


def forget():
    """Hold no code of the script's any more."""
    _sites.clear()


def hide_site():
    """failed() of at_caller: its frame bears another's name, and is the one that raises on."""
    error = sys.exc_info()[1]
    if error is not None and error.__traceback__ is not None:
        error.__traceback__ = _without_ours(error.__traceback__.tb_next)


class Method:
    """Stands in a class for one of its methods. Looked up on the class, it is the method itself; on an instance, whatever
    `bind(instance, bound method)` makes of it: most often the bound method, so that no frame of ours is on the stack."""

    __slots__ = ("method", "get", "bind")

    def __init__(self, method, bind):
        self.method = method
        self.get = method.__get__
        self.bind = hook(bind)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self.method
        bound = self.get(instance, owner)
        return self.bind(instance, bound) or bound


# -- a function in C ------------------------------------------------------------------------------------------------------


class _Called:
    """`__call__` of a stand-in: the interpreter looks it up for each call, and what it finds is called with no frame between."""

    __slots__ = ("kind", "original", "bind", "about")  # the class of the originals; the slots of a stand-in

    def __get__(self, instance, owner=None):
        if instance is None:
            return self.kind.__call__
        original = self.original(instance)
        return self.bind(instance)(original, self.about(instance)) or original


_stand_ins = {}  # type of an original -> the class of what stands for it


def stand_in(original, bind, about=None):
    """An object that stands for a callable in C, and answers as it does whatever it is asked: its name, its class, its text, whether it
    can be pickled. A call of it is one of what bind(original, about) gives, looked up as a Method is (at_caller), or of the original
    itself. Only `type(…) is` tells the two apart."""
    kind = type(original)
    made = _stand_ins.get(kind)
    if made is None:
        made = _stand_ins[kind] = _stand_in_class(kind)
    instance = object.__new__(made)
    for name, value in (("_assay_original", original), ("_assay_bind", hook(bind)), ("_assay_about", about)):
        vars(made)[name].__set__(instance, value)
    return instance


def _stand_in_class(kind):
    called = _Called()
    names = {
        "__slots__": ("_assay_original", "_assay_bind", "_assay_about"),
        "__module__": kind.__module__,
        "__call__": called,
        "__getattribute__": lambda self, name: getattr(called.original(self), name),
        "__setattr__": lambda self, name, value: setattr(called.original(self), name, value),
        "__delattr__": lambda self, name: delattr(called.original(self), name),
        "__dir__": lambda self: dir(called.original(self)),
        "__repr__": lambda self: repr(called.original(self)),
    }
    if hasattr(kind, "__get__"):  # what is a method in a class body
        names["__get__"] = lambda self, instance, owner=None: self if instance is None else types.MethodType(self, instance)
    made = type(kind.__name__, (), names)
    called.kind = kind
    called.original, called.bind, called.about = (vars(made)["_assay_" + name].__get__ for name in ("original", "bind", "about"))
    return made


class Places:
    """Where the framework's own callables stand, and ours for them: attributes of modules and classes."""

    def __init__(self):
        self.rows = []  # (owner, name, the framework's, ours)

    def put(self, owner, name, ours):
        """Ours for the attribute of that name; what it was."""
        theirs = vars(owner)[name]
        self.rows.append((owner, name, theirs, ours))
        setattr(owner, name, ours)
        return theirs

    def switch(self, on):
        """Ours, or the framework's own again. Where the script has put something of its own, that stays."""
        for owner, name, theirs, ours in self.rows:
            if vars(owner).get(name) is (theirs if on else ours):
                setattr(owner, name, ours if on else theirs)
