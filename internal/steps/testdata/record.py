"""Record train.py with its faults: record.py FOLDER [--agent AGENT] [--pack FILE] [--cut] FAULT... -- ARGS of train.py.

"right" stands for no fault. --pack FILE writes all recordings of FOLDER into one gzip file for the plain tests: a line for each line of a recording,
with the names of those that have it; --cut leaves out what comes behind the first forward pass. With --tf32 among ARGS a recording's name
begins with "tf32-", and it says that it is of a GPU that computes so.

faults.gz:  record.py F right epsilon swapped mask twice dropped kernel stale nan eval --cut --pack faults.gz -- --batch 2
tf32.gz:    record.py F right -- --batch 2 --size 16; record.py F right epsilon nan turned --cut --pack tf32.gz -- --batch 2 --size 16 --tf32
"""

import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
args = argparse.ArgumentParser()
args.add_argument("folder")
args.add_argument("faults", nargs="*")
args.add_argument("--agent", default=str(here.parents[2] / "agent"))
args.add_argument("--pack")
args.add_argument("--cut", action="store_true")
args.add_argument("--script", default=str(here / "train.py"))
cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
rest = sys.argv[cut + 1 :]
args = args.parse_intermixed_args(sys.argv[1:cut])

for fault in args.faults:
    low = "--tf32" in rest
    out = os.path.join(args.folder, ("tf32-" if low else "") + fault + ".steps")
    record = {"out": out, "from": "", "seed": 0, "moved": 0, "steps": 2}
    config = {"socket": os.path.join(args.folder, "none"), "run": "", "on": "cpu", "profile": "off", "wall": 0, "steps": 2, "record": record}
    environ = dict(os.environ, PYTHONHASHSEED="0", PYTHONPATH=os.path.join(args.agent, "boot"), ASSAY_AGENT=json.dumps(config))
    command = [sys.executable, args.script, *([] if fault == "right" else [fault]), *rest]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    if done.returncode or not os.path.isdir(out):
        sys.exit("%s: %d\n%s" % (fault, done.returncode, done.stderr[-2000:]))
    if low:
        path = pathlib.Path(out, "steps.jsonl")
        head, _, lines = path.read_text().partition("\n")
        head = json.loads(head)
        head["device"] = "cuda:0"
        head["policy"].update(cudnn_tf32=True, matmul_tf32=True)
        path.write_text(json.dumps(head) + "\n" + lines)

if args.pack:
    rows = {}  # (number of the line, line) -> names
    for folder in sorted(pathlib.Path(args.folder).glob("*.steps")):
        for n, line in enumerate(open(folder / "steps.jsonl")):
            if args.cut and ('"phase":"backward"' in line or '"k":"grad"' in line):
                break
            rows.setdefault((n, line), []).append(folder.stem)
    with open(args.pack, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, compresslevel=9) as g:
        for (n, line), names in sorted(rows.items(), key=lambda item: item[0][0]):
            g.write((" ".join(names) + "\t" + line).encode())
