"""Reads paths, one a line; writes for each the functions and classes of the file with the names that they bind, as symtable has them, in
order, and a line with a form feed."""
import symtable
import sys
import warnings

warnings.simplefilter("ignore")
COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp", "genexpr")


def bound(s):
    return (s.is_assigned() or s.is_imported() or s.is_parameter() or s.is_annotated()) and s.is_local() and not s.get_name().startswith(".")


def walk(table, out):
    kind = table.get_type()
    kind = str(getattr(kind, "value", kind))
    if kind in ("function", "class") and table.get_name() not in COMPREHENSIONS:
        out.append(" ".join([kind, table.get_name()] + sorted(s.get_name() for s in table.get_symbols() if bound(s))))
    for child in table.get_children():
        walk(child, out)


for line in sys.stdin:
    with open(line[:-1], "rb") as f:
        source = f.read()
    out = []
    walk(symtable.symtable(source, line[:-1], "exec"), out)
    print("".join(x + "\n" for x in sorted(out)) + "\f")
