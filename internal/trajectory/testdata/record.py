"""Records the runs beside it, and what NumPy says of their losses: ASSAY PYTHON, in a folder of its own.

    python record.py .dev/assay PYTHON

PYTHON has torch and numpy. What no comparison of losses asks is left out of the evidence, and folders are made plain.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RUNS = {
    "plain": [], "again": [], "seed": ["--seed", "1"], "rate": ["--lr", "0.1"], "batch": ["--batch", "8"],
    "nan": ["--spoil", "20"], "failed": ["--fail", "20"], "float16": ["--amp", "float16"],
    "bfloat16": ["--amp", "bfloat16"], "named": ["--device", "cpu"], "short": ["--epochs", "2"],
}
ORACLE = """
import json, sys
import numpy as np
runs = {n: json.load(open(n + ".json"))["body"]["loss"]["value"] for n in sys.argv[1:]}
a, out = np.array(runs["plain"], float), {}
for name in ("seed", "rate", "float16", "bfloat16", "nan"):
    b = np.array(runs[name], float)
    with np.errstate(invalid="ignore"):
        off, ok = np.abs(b - a) / np.abs(a), np.isfinite(b)
        outside = ~np.isclose(b, a, rtol=0.01, atol=0.005)
    even = [np.convolve(v[ok], np.ones(5) / 5, "valid") for v in (a, b)]
    out[name] = {"largest": float(np.nanmax(off)), "largest_step": int(np.nanargmax(off)) + 1,
                 "outside": int(outside.sum()), "first": int(np.argmax(outside)) + 1,
                 "area": float(np.trapezoid(np.abs(b - a)[ok], np.arange(1, len(a) + 1)[ok])),
                 "bias": float((b - a)[ok].mean()), "smooth": float((np.abs(even[1] - even[0]) / np.abs(even[0])).max()),
                 "equal": int((a == b).sum())}
json.dump(out, open("numpy.json", "w"), indent=1)
"""


def trimmed(text, python, folder):
    run = json.loads(text.replace(str(folder), "/home/me/net").replace(str(python), "/usr/bin/python3"))
    body = run["body"]
    run["figures"] = [f for f in run["figures"] if f["name"].startswith("loss.")]
    run["provenance"]["packages"] = [p for p in run["provenance"]["packages"] if p.split("==")[0] in ("torch", "numpy")]
    run["provenance"]["environment"] = {}
    body["host"] = {"facts": body["host"]["facts"], "samples": [], "apps_start": [], "apps_end": []}
    steps = body["steps"]
    body["steps"] = {key: steps[key] if key in ("number", "micro") else [] for key in steps if type(steps[key]) is list}
    for key in ("operators", "processes", "windows", "syncs", "memory_by_phase", "retained"):
        body[key] = []
    return json.dumps(run, indent=1, ensure_ascii=False) + "\n"


def main():
    assay, python = (pathlib.Path(shutil.which(word)).absolute() for word in sys.argv[1:3])
    only = sys.argv[3:] or RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        shutil.copy(HERE / "train.py", folder)
        git = ["git", "-C", str(folder), "-c", "user.name=me", "-c", "user.email=me@localhost"]
        (folder / ".gitignore").write_text(".assay\nruns\n")
        when = "2026-01-01T00:00:00Z"  # so that every recording is of the same commit
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "a net"]):
            subprocess.run(git + words, check=True, env=os.environ | {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when})
        for run in only:
            out = folder / "runs" / run
            subprocess.run([assay, "run", "-q", "--logbook", "off", "--profile", "off", "--out", out, "--", python,
                            "train.py"] + RUNS[run], cwd=folder)
            (HERE / f"{run}.json").write_text(trimmed((out / "evidence.json").read_text(), python, folder))
    if only is RUNS:
        subprocess.run([python, "-c", ORACLE] + list(RUNS), cwd=HERE, check=True)


main()
