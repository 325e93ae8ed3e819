"""Counts the operators of the published training steps on the double, and writes tools/pace/data/rehearsed.csv:

    PYTHON tools/pace/rehearse.py --assay .dev/assay

PYTHON has torch, torchvision and transformers. What is counted is what the rehearsal's evidence says, all shapes only.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import workloads

HERE = pathlib.Path(__file__).parent
HEAD = """\
# What the double counted of the training steps in tools/pace/workloads.py: totals of {steps} steps, shapes only,
# torch {torch}. Made by tools/pace/rehearse.py. flops is empty where none are counted.
"""


def rehearse(assay, name, rows):
    """The evidence of one workload's rehearsal."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        subprocess.run([assay, "run", "--on", "double", "--chip", "m3-ultra-512gb", "--shape-only", "--out", out, "--",
                        sys.executable, HERE / "workloads.py", name, str(rows)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return json.loads((out / "evidence.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assay", required=True)
    args = parser.parse_args()
    with open(HERE / "data" / "steps.csv") as file:
        asked = {(r["workload"], int(r["rows"])) for r in csv.DictReader(line for line in file if line[0] != "#")
                 if not r["left_out"]}
    table, release = [], ""
    for name, rows in sorted(asked):
        evidence = rehearse(args.assay, name, rows)
        release = evidence["target"]["double"]["installed"]
        for op in evidence["body"]["rehearsal"]["operators"]:
            table.append([name, rows, workloads.STEPS, op["operator"], op["calls"], op["state"],
                          *("" if op.get(k) is None else int(op[k]) for k in ("flops", "bytes"))])
    path = HERE / "data" / "rehearsed.csv"
    whole = path.with_suffix(".tmp")
    with open(whole, "w") as file:
        file.write(HEAD.format(steps=workloads.STEPS, torch=release))
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["workload", "rows", "steps", "operator", "calls", "state", "flops", "bytes"])
        out.writerows(table)
    whole.replace(path)


if __name__ == "__main__":
    main()
