"""Hold the double's account of memory against a real NVIDIA GPU.

    python tools/double/memory.py [-j N] [--only PATTERN] [--data] [--write]

Each workload of workloads.py runs on the double with CUDA's rules (cuda_like.py), in a process of its own; its peaks
are held against those that memory_gpu.py measured, kept in testdata/memory-h200.json. No data are carried, unless
--data. --write makes docs/double-memory.md; with --only, rows of other workloads stay as they are in it.

transformers has to be of the release that was measured: from one to another it computes attention otherwise, and two
programs are compared. A workload that met another release is an error.
"""

import argparse
import concurrent.futures
import fnmatch
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MEASURED = os.path.join(HERE, "testdata", "memory-h200.json")
PAGE = os.path.join(ROOT, "docs", "double-memory.md")


NOTES = """\
## What explains the largest errors
- `resnet50-adamw-fp16-8`: values, not memory. On the GPU the scaled gradients overflowed in each of the three steps, so GradScaler skipped them
  and AdamW never made its state (its trace has no allocation for it). Without data no gradient overflows, the steps are
  taken, and the state, 195 MiB, is charged. Run with its data (`--only resnet50-adamw-fp16-8 --data`, ten minutes) they overflow on the double as
  well: 616,429,568 bytes allocated against 616,765,952, an error of -0.05 %. The largest error of all is then 2.70 %.
- `efficientnet_b0-adamw-bf16-64`: cuDNN's workspace. For the weight's gradient of a 1×1 convolution from 320 to 1280 channels it asked for 100 MiB,
  one float32 sum for each image; the rule expects it to copy input and output instead, as it does for other sizes. Which it chooses
  follows from heuristics of cuDNN that are not documented.
- `deeplabv3_resnet50-adamw-64`, `resnet18-sgd-8`: cuDNN's workspaces as well, of dilated convolutions and of small batches.
- `frozen_resnet50-adamw-64`: one workspace, which is the peak there since nothing is kept for a backward pass. For the 1×1 convolution with stride 2 from 256 to 512
  channels the GPU's trace has 196.5 MiB (input and filter), where the rule, which fits the two like it in deeper stages (147 and 73.5 MiB, input and
  output), has 294 MiB. `audio-sgd-64`, `transformer-adamw-64`: a few MiB of workspace beside small models, 4 % and 2 % of 134 and 1206 MiB.
- `t5-adamw-8` was 13.19 % low in an earlier version of this page: not the account, but the program. It had been accounted with transformers 5.23.0 and
  measured with 5.17.0. The same lines ask for 3300 MiB under transformers 4.57.1, 5.0.0, 5.8.0 and 5.14.0, for 3086 under 5.17.0 and for 2679 under 5.23.0,
  since what stands between T5 and PyTorch's attention (`integrations/sdpa_attention.py`) changed. `memory.py` now takes the release that was measured alone.
- `llama-adamw-bf16-8`: a value. transformers asks whether positions are those of packed sequences, `(… == 0).all()`; without data the answer is False, so a mask is
  made and the heads of keys and values are repeated for it. With True in its place the account is 3166 MiB, +0.09 %.
- Reserved: what is left of blocks depends on the size of each workspace that was there before, so its errors follow from those above.

## How this came about
Group `later` was written when all rules stood, of kinds that the others lack (transposed convolutions, nn.Transformer, attention written out, one-dimensional and
three-dimensional convolutions, a frozen backbone, an MLP mixer), and measured once. No rule was changed for it.

`plain_gpt-fusedadamw-bf16-64` was in group `held`, and 21.7 % too low in its first run: CUDA's autocast sets `dtype` for log_softmax where no type is named, and
cross_entropy names one; and operators that only the CPU's list has were looked at as wholes. Both were then done as in autocast_mode.h, and the
workload belongs to `fit` since. No other workload of `held` was used for a rule.

## What is not accounted
RNNs by cuDNN (their reserve), transposed convolutions' workspaces (1 % of `dcgan-adam-64`), sorting for gradients of embeddings and of indexing, CUDA graphs, several
streams, other GPUs than those of compute capability 9.0 (size of cuBLAS's workspace, choice of attention, number of multiprocessors).
"""


def rehearsed(name, data):
    """A workload on the double with CUDA's rules, in this process: its peaks."""
    # kernels.py there is no package of anyone's
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    sys.path.insert(0, os.path.join(ROOT, "agent"))
    import torch
    module("cuda_allocator")
    cuda_like = module("cuda_like")
    series = [int(n) for n in torch.__version__.split(".")[:2]]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as table:
        json.dump({"ops": {}, "structured": {}, "lacks": {}, "sparse": {}, "autocast": autocast_lists(torch),
                   "commit": ""}, table)
        table.flush()
        double, limits = cuda_like.put_up({
            "release": torch.__version__.split("+")[0], "series": series, "macos": [26, 0], "chip": "",
            "memory": 1 << 43,
            "recommended": 1 << 43, "cores": None, "chip_name": "", "shape_only": not data, "table": table.name})
    workloads = module("workloads")
    began = time.time()
    workloads.WORKLOADS[name][1]("mps")
    return {"name": name, "allocated": double.account.peak_current, "reserved": double.account.peak_reserved,
            "seconds": round(time.time() - began, 1), "limits": limits,
            "packages": {p: sys.modules[p].__version__ for p in ("torch", "torchvision", "transformers")
                         if p in sys.modules}}


def module(name):
    """A file of this folder, which is not on sys.path."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, name + ".py"))
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def autocast_lists(torch):
    """The lists of CUDA's autocast, from the header of the installed PyTorch. D: sets `dtype`, unlike any list of
    MPS."""
    lists, letter = {}, None
    with open(os.path.join(os.path.dirname(torch.__file__), "include", "ATen", "autocast_mode.h")) as header:
        for line in header:
            macro = re.match(r"#define AT_FORALL_(\w+)\(_\)", line)
            if macro:
                letter = {"LOWER_PRECISION_FP": "L", "FP32": "F", "FP32_SET_OPT_DTYPE": "D",
                          "PROMOTE": "W"}.get(macro.group(1))
            operator = re.match(r"  _\((\w+)(?:, (\w+))?\)", line)
            if operator and letter:
                lists["aten::" + ".".join(filter(None, operator.groups()))] = letter
    return lists


def child(name, options):
    p = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", name]
                       + (["--data"] if options.data else []),
                       capture_output=True, text=True,
                       env=dict(os.environ, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1"))
    if p.returncode:
        return {"name": name, "error": p.stderr[-2500:]}
    return json.loads(p.stdout.splitlines()[-1])


def another_release(answer, measured):
    """Why a workload is not the one that was measured, or ""."""
    here, there = answer["packages"].get("transformers"), measured["packages"]["transformers"]
    if here in (None, there):
        return ""
    return "transformers %s is installed, and %s was measured: install that" % (here, there)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", type=int, default=1)
    parser.add_argument("--only", default="*")
    parser.add_argument("--group")
    parser.add_argument("--data", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(rehearsed(options.one, options.data)))
        return
    with open(MEASURED) as f:
        measured = json.load(f)
    rows = {w["name"]: w for w in measured["workloads"]}
    names = [n for n in rows if fnmatch.fnmatch(n, options.only) and options.group in (None, rows[n]["group"])]
    results, packages = {}, {}
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for name, answer in zip(names, pool.map(lambda n: child(n, options), names)):
            w = rows[name]
            error = answer.get("error") or another_release(answer, measured)
            if error:
                print(name, error, flush=True)
                continue
            packages.update(answer["packages"])
            row = [name, w["group"], w["peak_allocated"], answer["allocated"], w["peak_reserved"], answer["reserved"]]
            results[name] = row[:2] + ["%.0f" % columns(row[2:4])[0], "%.0f" % columns(row[2:4])[1],
                                       "%+.2f" % columns(row[2:4])[2], "%.0f" % columns(row[4:6])[0],
                                       "%.0f" % columns(row[4:6])[1], "%+.2f" % columns(row[4:6])[2]]
            print("%-36s %-4s %6.0f MiB %6.0f MiB %+6.2f %%   reserved %6.0f %6.0f %+6.2f %%  %.1f s %s" % (
                *row[:2], *columns(row[2:4]), *columns(row[4:6]), answer["seconds"], answer["limits"] or ""),
                  flush=True)
    print(summary(list(results.values())))
    if options.write:
        if len(results) < len(names):
            raise SystemExit("not all workloads were run: %s is left as it is" % PAGE)
        results = {**written(), **results}
        if len(results) < len(rows):
            raise SystemExit("%s lacks workloads that were not run: it is left as it is" % PAGE)
        with open(PAGE, "w") as f:
            f.write(page(measured, [results[name] for name in rows], packages))


def written():
    """The rows of the page as it is: name -> its cells."""
    cells = [re.sub("[`%]", "", line).strip("|\n").split("|") for line in open(PAGE) if line.startswith("| `")]
    return {row[0].strip(): [cell.strip() for cell in row] for row in cells}


def columns(pair):
    return pair[0] / 2**20, pair[1] / 2**20, 100 * (pair[1] / pair[0] - 1)


def summary(results):
    """Median and largest error, of the groups and of all."""
    said = []
    for group, chosen in (("fit", ["fit"]), ("held", ["held"]), ("later", ["later"]),
                          ("all", ["fit", "held", "later"])):
        errors = [abs(float(r[4])) for r in results if r[1] in chosen]
        reserved = [abs(float(r[7])) for r in results if r[1] in chosen]
        if errors:
            said.append("| %s | %d | %.2f %% | %.2f %% | %.2f %% | %.2f %% |" % (
                group, len(errors), statistics.median(errors), max(errors), statistics.median(reserved), max(reserved)))
    return "\n".join(said)


def page(measured, results, packages):
    there, here = (", ".join("%s %s" % p for p in of.items()) for of in (measured["packages"], packages))
    lines = ["# The double's account of memory, held against a GPU", "",
             "Made by `python tools/double/memory.py --write`, from `tools/double/testdata/memory-h200.json`. Do not "
             "edit by hand.", "",
             "Measured: %s, driver %s, CUDA %s, cuDNN %s, %s, %s, by `tools/double/memory_gpu.py`." % (
                 measured["gpu"], measured["driver"], measured["cuda"], measured["cudnn"], there, measured["date"]),
             "Accounted: the double with CUDA's rules (`cuda_like.py`), without data, on %s. Sizes are in MiB."
             % here, "",
             "Allocated is `torch.cuda.max_memory_allocated()`, reserved `max_memory_reserved()`. The rules were "
             "developed with the",
             "workloads of group `fit`; those of group `held` were run when they were done.", "",
             "| group | workloads | median error, allocated | largest | median error, reserved | largest |",
             "| --- | ---: | ---: | ---: | ---: | ---: |", summary(results), "",
             "| workload | group | allocated, measured | accounted | error | reserved, measured | accounted | error |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for r in results:
        lines.append("| `%s` | %s | %s | %s | %s %% | %s | %s | %s %% |" % tuple(r))
    return "\n".join(lines) + "\n\n" + NOTES


if __name__ == "__main__":
    main()
