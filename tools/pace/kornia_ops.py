"""Counts the operators of kornia's flagship filters and geometry on the double, for tools/pace/data/kornia-counted.csv:

    .dev/assay run --on double --shape-only -- PYTHON tools/pace/kornia_ops.py BENCHMARKS OUT

BENCHMARKS is the folder of that name of a clone of kornia/kornia, whose times are in kornia.csv; PYTHON has kornia.
"""
import csv
import importlib.util
import pathlib
import sys

import torch

CALLS = 4
STATES = {"N": "native", "C": "composed", "F": "on the CPU"}
HEAD = """\
# What the double counted of kornia's flagship filters and geometry (benchmarks at b4f5a78, kornia 0.9.0; 256 by 256,
# float32, shapes only, torch {torch}): totals of {calls} calls of each. Made by tools/pace/kornia_ops.py.
"""


def calls(benchmarks):
    """(name, batch, function) of each operation that is timed as `kornia (eager)`."""
    sys.path.insert(0, str(benchmarks))
    for suite in ("filters", "geometry"):
        spec = importlib.util.spec_from_file_location(suite, benchmarks / suite / "flagship.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        others = module.build_ops.__code__.co_argcount - 7  # other libraries, none of which is wanted
        for batch in (1, 8, 32):
            timed, _ = module.build_ops(batch, 256, 256, torch.device("mps"), torch.float32, False, *[None] * others)
            for name, row in timed.items():
                yield name, batch, row["kornia (eager)"]


def main():
    from assay_agent.double.current import current
    with open(sys.argv[2], "w") as file:
        file.write(HEAD.format(torch=torch.__version__, calls=CALLS))
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["workload", "rows", "steps", "operator", "calls", "state", "flops", "bytes"])
        for name, batch, function in calls(pathlib.Path(sys.argv[1])):
            function()
            current.double.clear()
            for _ in range(CALLS):
                function()
            for row in next(current.double.events())["rows"]:
                flops = row.get("flops")
                out.writerow([name, batch, CALLS, row["op"], row["n"], STATES.get(row["state"], row["state"]),
                              "" if flops is None else int(flops), int(row.get("bytes", 0))])


if __name__ == "__main__":
    main()
