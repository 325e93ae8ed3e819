"""Run the code cells of a notebook in order, as one program: `python notebook.py FILE.ipynb [ARG…]`.

Magics and shell lines (`%…`, `!…`, `%%…` cells) are passed over and named on standard error. Nothing is written back. A
traceback names the notebook and the cell: `train.ipynb[3]`, cells counted from 1 over all cells, line within the cell.
"""

import ast
import json
import linecache
import os
import sys
import types

LIMIT = 256 << 20  # bytes of a notebook


def cells(path):
    """Yield (number, source) of the code cells; ValueError where the file is no notebook."""
    if os.path.getsize(path) > LIMIT:
        raise ValueError("larger than %d bytes" % LIMIT)
    with open(path, encoding="utf-8") as f:
        book = json.load(f)
    found = book.get("cells") if isinstance(book, dict) else None
    if found is None and isinstance(book, dict) and isinstance(book.get("worksheets"), list):
        found = [c for sheet in book["worksheets"] for c in sheet.get("cells", [])]  # nbformat 3
    if not isinstance(found, list):
        raise ValueError("no list of cells in it")
    for number, cell in enumerate(found, 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", cell.get("input", ""))
            yield number, "".join(source) if isinstance(source, list) else str(source)


def without_magics(source):
    """The source with magic and shell lines blanked, and those lines. Line numbers stay."""
    if source.lstrip().startswith("%%"):
        first = source.lstrip().split("\n", 1)[0]
        if first.split()[0] in ("%%time", "%%timeit", "%%capture", "%%prun"):
            source = source.replace(first, "", 1)  # the rest of the cell is Python all the same
            return source, [first]
        return "", [first]
    passed, lines = [], source.split("\n")
    try:
        ast.parse(source)
        return source, passed
    except SyntaxError:
        pass
    for i, line in enumerate(lines):
        bare = line.strip()
        if bare.startswith(("%", "!")) or (bare.startswith("?") or bare.endswith("?")) and not bare.startswith("#"):
            passed.append(bare)
            # Inside a block the line may be all there is of its body.
            lines[i] = line[: len(line) - len(line.lstrip())] + "pass"
    return "\n".join(lines), passed


def without_us(show):
    """An excepthook that prints a traceback from the first cell on."""

    def excepthook(kind, value, traceback):
        while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
            traceback = traceback.tb_next
        return show(kind, value.with_traceback(traceback), traceback)

    return excepthook


def main(argv):
    path = argv[0]
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update(__file__=path, __builtins__=__builtins__)
    try:
        book = list(cells(path))
    except (OSError, ValueError) as err:
        sys.stderr.write("assay: read notebook %s: %s\n" % (path, err))
        return 2
    sys.modules["__main__"] = main_module
    sys.argv = [path] + argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    name = os.path.basename(path)
    for number, source in book:
        source, passed = without_magics(source)
        for line in passed:
            sys.stderr.write("assay: %s[%d]: passed over: %s\n" % (name, number, line))
        filename = "%s[%d]" % (os.path.abspath(path), number)
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        tree = ast.parse(source, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
        exec(compile(tree, filename, "exec"), main_module.__dict__)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), filename, "eval"), main_module.__dict__)
            if value is not None:
                print(repr(value))  # as a notebook shows the value of a cell's last line
    return 0


if __name__ == "__main__":
    sys.excepthook = without_us(sys.excepthook)
    sys.exit(main(sys.argv[1:]))
