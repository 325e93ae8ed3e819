"""Writes CPython's trees as text, for comparison with pyast's Dump.

Reads paths, one a line, and answers each with a line "ok LENGTH", "error LENGTH" (a file that CPython rejects) or "skip LENGTH" (too
complex for it), and so many bytes: the dump, or the message. Before that it writes its version.
"""
import ast
import struct
import sys
import warnings

warnings.simplefilter("ignore")
LOOSE = sys.version_info < (3, 12)  # positions inside f-strings were guesses

# Fields in the order in which Dump writes them; kinds: n a node or None, l a list of nodes, s a name, o a name or None, N names,
# c a context or operator, i a number.
FIELDS = {
    "BoolOp": "op:c values:l", "NamedExpr": "target:n value:n", "BinOp": "left:n op:c right:n", "UnaryOp": "op:c operand:n",
    "Lambda": "args:n body:n", "IfExp": "test:n body:n orelse:n", "Dict": "keys:l values:l", "Set": "elts:l",
    "ListComp": "elt:n generators:l", "SetComp": "elt:n generators:l", "DictComp": "key:n value:n generators:l",
    "GeneratorExp": "elt:n generators:l", "Await": "value:n", "Yield": "value:n", "YieldFrom": "value:n",
    "Compare": "left:n ops:C comparators:l", "Call": "func:n args:l keywords:l", "FormattedValue": "value:n conversion:i format_spec:n",
    "Interpolation": "value:n str:s conversion:i format_spec:n", "JoinedStr": "values:l", "TemplateStr": "values:l",
    "Attribute": "value:n attr:s ctx:c", "Subscript": "value:n slice:n ctx:c", "Starred": "value:n ctx:c", "Name": "id:s ctx:c",
    "List": "elts:l ctx:c", "Tuple": "elts:l ctx:c", "Slice": "lower:n upper:n step:n",
    "FunctionDef": "name:s args:n body:l decorator_list:l returns:n type_params:l", "ClassDef": "name:s bases:l keywords:l body:l decorator_list:l type_params:l",
    "Return": "value:n", "Delete": "targets:l", "Assign": "targets:l value:n", "TypeAlias": "name:n type_params:l value:n",
    "AugAssign": "target:n op:c value:n", "AnnAssign": "target:n annotation:n value:n simple:i", "For": "target:n iter:n body:l orelse:l",
    "While": "test:n body:l orelse:l", "If": "test:n body:l orelse:l", "With": "items:l body:l", "Match": "subject:n cases:l",
    "Raise": "exc:n cause:n", "Try": "body:l handlers:l orelse:l finalbody:l", "Assert": "test:n msg:n", "Import": "names:l",
    "ImportFrom": "module:o names:l level:i", "Global": "names:N", "Nonlocal": "names:N", "Expr": "value:n", "Pass": "", "Break": "",
    "Continue": "", "comprehension": "target:n iter:n ifs:l is_async:i", "ExceptHandler": "type:n name:o body:l",
    "arguments": "posonlyargs:l args:l vararg:n kwonlyargs:l kw_defaults:l kwarg:n defaults:l", "arg": "arg:s annotation:n",
    "keyword": "arg:o value:n", "alias": "name:s asname:o", "withitem": "context_expr:n optional_vars:n",
    "match_case": "pattern:n guard:n body:l", "TypeVar": "name:s bound:n default_value:n", "TypeVarTuple": "name:s default_value:n",
    "ParamSpec": "name:s default_value:n", "MatchValue": "value:n", "MatchSingleton": "value:k", "MatchSequence": "patterns:l",
    "MatchMapping": "keys:l patterns:l rest:o", "MatchClass": "cls:n patterns:l kwd_attrs:N kwd_patterns:l", "MatchStar": "name:o",
    "MatchAs": "pattern:n name:o", "MatchOr": "patterns:l",
}
for name, like in (("AsyncFunctionDef", "FunctionDef"), ("AsyncFor", "For"), ("AsyncWith", "With"), ("TryStar", "Try")):
    FIELDS[name] = FIELDS[like]
TABLE = {}
for name, fields in FIELDS.items():
    cls = getattr(ast, name, None)
    if cls is not None:
        TABLE[cls] = (name, [tuple(f.split(":")) for f in fields.split()], name in ("comprehension", "arguments", "withitem", "match_case"))
CONST = {None: "None", True: "True", False: "False", ...: "..."}


def dump(node, out, loose):
    put = out.append
    cls = node.__class__
    if cls is ast.Constant:
        v = node.value
        if loose:
            put("Constant(")
        else:
            put(f"Constant@{node.lineno}:{node.col_offset}-{node.end_lineno}:{node.end_col_offset}(")
        t = type(v)
        if t is str:
            put(f'{node.kind or ""}"{v}")')
        elif t is bytes:
            put("b" + v.hex() + ")")
        elif t is int:
            put(f"{v:#x})")
        elif t is float:
            put(struct.pack(">d", v).hex() + ")")
        elif t is complex:
            put(struct.pack(">d", v.imag).hex() + "j)")
        else:
            put(CONST[v] + ")")
        return
    name, fields, bare = TABLE[cls]
    if bare or loose:
        put(name + "(")
    else:
        put(f"{name}@{node.lineno}:{node.col_offset}-{node.end_lineno}:{node.end_col_offset}(")
    if LOOSE and cls is ast.JoinedStr:
        loose = True
    for field, kind in fields:
        v = getattr(node, field, None)
        if kind == "n":
            if v is None:
                put("-")
            else:
                dump(v, out, loose)
        elif kind == "l":
            put("[")
            for x in v or ():
                if x is None:
                    put("-")
                else:
                    dump(x, out, loose)
                put(",")
            put("]")
        elif kind == "s":
            put(f'"{v}"')
        elif kind == "o":
            put("-" if v is None else f'"{v}"')
        elif kind == "c":
            put(v.__class__.__name__)
        elif kind == "C":
            for x in v:
                put(" " + x.__class__.__name__)
        elif kind == "N":
            put("[" + "".join(f'"{x}",' for x in v) + "]")
        elif kind == "k":
            put(CONST[v])
        else:
            put(str(int(v)))
    put(")")


def answer(path):
    with open(path, "rb") as f:
        source = f.read()
    try:
        tree = ast.parse(source)
    except (RecursionError, MemoryError) as e:
        return "skip", str(e).encode()
    except (SyntaxError, ValueError) as e:
        return "error", (str(e) or type(e).__name__).encode("utf-8", "replace")
    out = []
    for s in tree.body:
        dump(s, out, False)
        out.append("\n")
    return "ok", "".join(out).encode("utf-8", "surrogatepass")


sys.setrecursionlimit(100000)
stdout = sys.stdout.buffer
stdout.write(b"%d.%d\n" % sys.version_info[:2])
stdout.flush()
for line in sys.stdin.buffer:
    status, data = answer(line[:-1])
    stdout.write(b"%s %d\n" % (status.encode(), len(data)))
    stdout.write(data)
    stdout.flush()
