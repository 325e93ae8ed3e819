"""The loops that the script's own code is in, as its frames tell: which of them turns once an epoch.

Where no loader says when an epoch is over, the loop that stands around the training loop does: its variable keeps its
value for as many steps as an epoch has. Which loops there are is read from the code objects, once each; what is read
of a frame is an integer, the loop's variable.
"""

import dis
import re
import sys
from collections import namedtuple

from . import place

# A turn of a loop. name: its variable; value: what that is now; where: file:line of the loop, or of the function that
# has the variable; named: whether it surely counts epochs: a loop's variable that is called so.
Turn = namedtuple("Turn", ("name", "value", "where", "named"))

# What scripts call the number of an epoch.
_EPOCH = re.compile(r"(?:i|n|cur|current|this)?_?epochs?_?(?:i|idx|index|no|nr|num|number|id|n|count|counter)?", re.I)
# How many there are to be, and what else bears the word.
_NO_EPOCH = re.compile(r"n_?epochs?|i?_?epochs|num_?epochs?|epochs?_?(?:num|n|count)|.*epochs.*", re.I)
# Loops of other things than passes over the data.
_OTHER = re.compile(
    r"seed|fold|trial|run|rep|episode|game|env|task|layer|job|worker|rank|agent|experiment|rollout", re.I
)
_OPTIMIZED = 0x1  # CO_OPTIMIZED: a function, whose variables lie in its frame
_FRAMES = 100  # of a stack that are looked at

# id of a code object -> (the code, what is seen in it: names of epochs and its loops, or None). By its id: a code
# object's hash goes through all of it.
_known = {}


_nothing = (None, None)


def clear():
    """A forked child begins anew."""
    global _latest
    _known.clear()
    _latest = None


def turn(depth=1):
    """The turn that the calling code is in of the loop that counts epochs, or None. That is the loop whose variable is
    called so; else the second one from within, if it counts; else another variable of that name, which may as well be
    how many there are to be."""
    global _latest
    frame = sys._getframe(depth)
    found = _again(frame)
    if found is None:
        found = _search(frame)
        _latest = found
    return None if found is None else found[0]


# The last Turn that was found, the code that has its variable, and the place in the user's code that it was found from:
# code and instruction.
_latest = None


def _again(frame):
    """The turn now of the loop that was found last, if the calling code is in it: most often it is. None: not known."""
    global _latest
    if _latest is None:
        return None
    turn, code, place_code, instruction = _latest
    while frame is not None and _known.get(id(frame.f_code), _nothing)[1] is None:
        frame = frame.f_back
    if frame is None or frame.f_code is not place_code or frame.f_lasti != instruction:
        return None
    frames = 0
    while frame is not None and frames < _FRAMES:
        if frame.f_code is code:
            value = _value(frame, turn.name)
            if type(value) is not int:
                return None
            if value != turn.value:
                _latest = turn._replace(value=value), code, place_code, instruction
            return _latest
        frames += 1
        frame = frame.f_back
    return None


def _search(frame):
    """As _latest, or None."""
    loops, second, variable, frames, place_at = 0, None, None, 0, None
    while frame is not None and frames < _FRAMES:
        frames += 1
        code = frame.f_code
        try:
            known = _known[id(code)][1]
        except KeyError:
            known = _read(code)
            _known[id(code)] = code, known
        if known is not None:
            epochs, around = known
            at = frame.f_lasti
            place_at = place_at or (code, at)
            for start, end, name, line in around:
                if start <= at <= end:
                    loops += 1
                    named = name in epochs
                    if named or loops == 2 and name and not _OTHER.search(name):
                        value = _value(frame, name)
                        if type(value) is int:
                            found = Turn(name, value, "%s:%d" % (code.co_filename, line), named), code, *place_at
                            if named:
                                return found
                            second = found
            if variable is None:
                for name in epochs:
                    value = _value(frame, name)
                    if type(value) is int:
                        where = "%s:%d" % (code.co_filename, code.co_firstlineno)
                        variable = Turn(name, value, where, False), code, *place_at
        frame = frame.f_back
    return second or variable


def _read(code):
    """What there is to see in code: the variables that are called epoch, and its loops from within; None where there
    is neither, or it is not the user's."""
    if not place.is_user(code):
        return None
    names = code.co_varnames + code.co_cellvars if code.co_flags & _OPTIMIZED else code.co_names
    if code.co_flags & _OPTIMIZED and not _PROXY and _asks_for_locals(code):
        return None  # what is read of the frame would be written to the dictionary that the script was given
    epochs = tuple(n for n in names if _EPOCH.fullmatch(n) and not _NO_EPOCH.fullmatch(n))
    loops = _loops(code)
    return (epochs, loops) if epochs or loops else None


def _asks_for_locals(code):
    """Whether a function calls what gives it its own variables as a dictionary, or reads or writes that."""
    if not {"locals", "vars", "exec", "eval"} & set(code.co_names):
        return False
    return any(
        at.opname in ("LOAD_GLOBAL", "LOAD_NAME") and at.argval in ("locals", "vars", "exec", "eval")
        for at in dis.get_instructions(code)
    )


def _loops(code):
    """(start, end, variable, line) of each loop, the innermost first; variable is "" of a while."""
    found, variable, lines = {}, {}, {}
    line, head = code.co_firstlineno, None
    prefix, prefixed = None, {}  # jumps of long loops go to the prefix of an instruction
    for at in dis.get_instructions(code):
        if at.starts_line is not None and at.starts_line is not False:
            line = getattr(at, "line_number", None) or (line if at.starts_line is True else at.starts_line)
        if at.opname == "EXTENDED_ARG":
            prefix = at.offset if prefix is None else prefix
            continue
        if prefix is not None:
            prefixed[prefix], prefix = at.offset, None
        if at.opname == "FOR_ITER":
            found[at.offset], lines[at.offset], head = at.argval, line, at.offset
        elif head is not None and at.opname.startswith(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")):
            variable[head] = at.argval[0] if type(at.argval) is tuple else at.argval
            head = None
        elif head is not None and not at.opname.startswith(("UNPACK", "CACHE", "NOP", "NOT_TAKEN")):
            head = None
        back = at.opcode in _JUMPS and type(at.argval) is int and at.argval <= at.offset
        if back and "NO_INTERRUPT" not in at.opname:
            start = prefixed.get(at.argval, at.argval)
            if found.get(start, -1) < at.offset:
                found[start] = at.offset
                lines.setdefault(start, line)
    return sorted(((start, end, variable.get(start, ""), lines[start]) for start, end in found.items()), reverse=True)


_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_PROXY = sys.version_info >= (3, 13)  # f_locals reads through, and keeps nothing (PEP 667)


def _value(frame, name):
    """The value of a variable of the frame, or None."""
    if not frame.f_code.co_flags & _OPTIMIZED or _PROXY:
        return frame.f_locals.get(name)
    if sys.gettrace() is not None:
        return None  # a debugger writes back what stands in the dictionary
    values = frame.f_locals
    value = values.get(name)
    # The frame keeps the dictionary, and with it alive whatever stood in a variable now: tensors, whole graphs. Nobody
    # but the frame and this function has it (and the call that counts), so it can be emptied.
    if sys.getrefcount(values) <= 3:
        values.clear()
    return value
