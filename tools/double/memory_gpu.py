"""Measure the peak memory of the workloads on a real NVIDIA GPU.

    python tools/double/memory_gpu.py OUT.json [-j N] [--only PATTERN] [--traces FOLDER]

Each workload runs in a process of its own: its peaks are torch.cuda.max_memory_allocated() and max_memory_reserved(). A
further process measures what the libraries hold for good: cuBLAS keeps a workspace for each thread that has used it.
--traces also writes, for the study of a difference, every allocation of a second run with the operators that asked for
it.
"""

import argparse
import concurrent.futures
import datetime
import fnmatch
import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    """A module beside this one, without the folder on the path: transformers would take kernels.py there for the
    package of that name."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, name + ".py"))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != HERE]


def one(name):
    import torch
    workloads = load("workloads")
    began = time.time()
    loss = workloads.WORKLOADS[name][1]("cuda")
    torch.cuda.synchronize()
    return {"name": name, "group": workloads.WORKLOADS[name][0], "peak_allocated": torch.cuda.max_memory_allocated(),
            "peak_reserved": torch.cuda.max_memory_reserved(), "loss": loss, "seconds": round(time.time() - began, 1)}


def workspace():
    """What stays allocated after a product of matrices in this thread, and in the one that backward passes run in."""
    import torch
    held = {}

    def after(what):
        torch.cuda.synchronize()
        held[what] = torch.cuda.memory_allocated() - sum(t.untyped_storage().nbytes() + -t.untyped_storage().nbytes()
                                                         % 512 for t in alive)

    a = torch.ones(512, 512, device="cuda", requires_grad=True)
    bias = torch.ones(512, device="cuda")
    alive = [a, bias]
    after("nothing")
    y = a @ a
    alive.append(y)
    after("mm")
    z = torch.addmm(bias, a, a)
    alive.append(z)
    after("addmm")
    y.sum().backward()
    alive.append(a.grad)
    after("backward")
    convolution = torch.nn.Conv2d(64, 64, 3, padding=1, device="cuda")
    out = convolution(torch.ones(8, 64, 56, 56, device="cuda"))
    alive += [convolution.weight, convolution.bias, out]
    after("convolution")
    return held


def traced(name, path):
    """A run with PyTorch's own record of allocations: [[kind, bytes, address, operators], …], gzipped."""
    import torch
    workloads = load("workloads")
    torch.cuda.memory._record_memory_history(enabled="all", context="all", stacks="all", max_entries=4000000)
    workloads.WORKLOADS[name][1]("cuda")
    torch.cuda.synchronize()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    operators, rows = {}, []
    for e in events:
        if e["action"] not in ("alloc", "free_completed"):
            continue
        label = ""
        if e["action"] == "alloc":
            label = _label(e["frames"])
        rows.append(["a" if e["action"] == "alloc" else "f", e["size"], e["addr"],
                     operators.setdefault(label, len(operators))])
    with gzip.open(path, "wt") as f:
        json.dump({"operators": list(operators), "rows": rows, "peak": torch.cuda.max_memory_allocated()}, f,
                  separators=(",", ":"))


_OPERATOR = re.compile(r"at::_ops::(\w+)::")


def _label(frames):
    """The operators on the stack, innermost first, and the innermost functions where the allocation was asked for."""
    found, functions = [], []
    for frame in frames:
        name = frame["name"]
        match = _OPERATOR.search(name)
        if match:
            if not found or found[-1] != match.group(1):
                found.append(match.group(1))
        elif not found and len(functions) < 40 and not name.startswith(("c10::", "std::", "??", "torch::unwind")):
            functions.append(re.sub(r"\(.*", "", name)[-60:])
        if frame["filename"].endswith(".py") and "torch/" not in frame["filename"]:
            found.append("%s:%d" % (os.path.basename(frame["filename"]), frame["line"]))
            break
    return " < ".join(found[:6]) + " | " + " < ".join(functions[-4:])


def child(*args):
    p = subprocess.run([sys.executable, os.path.abspath(__file__), *args], capture_output=True, text=True,
                       env=dict(os.environ, OMP_NUM_THREADS="4"))
    if p.returncode:
        return {"error": p.stderr[-1500:]}
    return json.loads(p.stdout.splitlines()[-1])


def main():
    if len(sys.argv) > 2 and sys.argv[1] in ("--one", "--workspace", "--traced"):
        if sys.argv[1] == "--traced":
            print(json.dumps(traced(sys.argv[2], sys.argv[3])))
        else:
            print(json.dumps(one(sys.argv[2]) if sys.argv[1] == "--one" else workspace()))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("-j", type=int, default=1)
    parser.add_argument("--only", default="*")
    parser.add_argument("--traces")
    options = parser.parse_args()
    import torch
    workloads = load("workloads")
    names = [n for n in workloads.WORKLOADS if fnmatch.fnmatch(n, options.only)]
    packages = {}
    for package in ("torch", "torchvision", "transformers"):
        packages[package] = __import__(package).__version__
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                            stdout=subprocess.PIPE, text=True).stdout
    result = {"gpu": torch.cuda.get_device_name(), "capability": list(torch.cuda.get_device_capability()),
              "driver": driver.strip(),
              "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "multiprocessors":
              torch.cuda.get_device_properties(0).multi_processor_count, "packages": packages,
              "date": datetime.date.today().isoformat(), "workspace": child("--workspace", "-"), "workloads": []}
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        if options.traces:
            os.makedirs(options.traces, exist_ok=True)
            for name, answer in zip(names,
                                    pool.map(lambda n: child("--traced", n,
                                                             os.path.join(os.path.abspath(options.traces),
                                                                          n + ".json.gz")), names)):
                print(name, answer, flush=True)
            return
        for name, answer in zip(names, pool.map(lambda n: child("--one", n), names)):
            print(answer, flush=True)
            result["workloads"].append(answer if "name" in answer else dict(answer, name=name))
            with open(options.out, "w") as f:
                json.dump(result, f, indent=1)
                f.write("\n")


if __name__ == "__main__":
    main()
