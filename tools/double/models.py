"""Writes docs/double-models.md: what becomes of torchvision's models on the double; modules.py has PyTorch's modules.

    CGO_ENABLED=0 go build -o .dev/assay ./cmd/assay
    python tools/double/models.py --assay .dev/assay --python PYTHON [--torch 2.8 --torch 2.15] [--from FOLDER] >
    docs/double-models.md

PYTHON has torch and torchvision. --from FOLDER reads the answers kept there as models-RELEASE.json, and keeps new ones.
"""

import argparse
import json
import os
import subprocess
import sys

ORDER = ("ok", "missing operator", "dtype", "argument", "device", "memory", "other", "crash", "not done in time",
         "CPU too", "not built")


def answer(options, target, release):
    path = os.path.join(options.folder, "models-%s.json" % release) if options.folder else ""
    if not path or not os.path.exists(path):
        done = subprocess.run([options.assay, "try", target, "--all", "--torch", release, "--python", options.python,
                               "--limit", "5m", "--json", "--shape-only"], stdout=subprocess.PIPE, check=False)
        if done.returncode not in (0, 3):
            sys.exit("assay try %s: status %d" % (target, done.returncode))
        if not path:
            return json.loads(done.stdout)["body"]
        with open(path, "wb") as f:
            f.write(done.stdout)
    with open(path) as f:
        return json.load(f)["body"]


def percent(share):
    return "" if share is None else "0" if share == 0 else "%.2g %%" % (100 * share)


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def counts(a):
    return ", ".join("%d %s" % (a["counts"][o], o) for o in ORDER if a["counts"].get(o))


def why(m):
    parts = []
    if m.get("operator"):
        parts.append("`%s`" % m["operator"])
    if m["outcome"] == "missing operator":
        parts.append("native from %s" % m["native_from"] if m.get("native_from") else "in no release")
    elif m["outcome"] != "ok":
        parts.append((m.get("error", "") + ": " + m.get("text", "").split("\n")[0])[:140].strip(": "))
    return cell(", ".join(parts))


def shares(m):
    ran = (m.get("fallback") or {}).get("shares") or m.get("ran") or {}
    return [percent(ran.get(k)) for k in ("share_of_calls", "share_of_flops", "share_of_time")]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--assay", required=True)
    p.add_argument("--python", required=True)
    p.add_argument("--torch", action="append")
    p.add_argument("--from", dest="folder")
    options = p.parse_args()
    releases = options.torch or ["2.8", "2.15"]
    models = {r: answer(options, "torchvision.models", r) for r in releases}
    first = models[releases[0]]
    print("# Models on the double\n")
    print("Made by `tools/double/models.py`, from `assay try` with torch %s installed, on %s, macOS %s. Each was "
          "built, run forward and backward in"
          % (first["torch"], first["double"]["chip_name"],
             ".".join(map(str, first["double"]["macos"])) if isinstance(first["double"]["macos"], list)
             else first["double"]["macos"]))
    print("training mode on the double; what failed was tried on the CPU too, and with the fallback. All outcomes are "
          "rehearsed: no Mac ran them. [try.md](try.md)")
    print("says what they mean.\n")
    print("## torchvision\n")
    print("Every model that `torchvision.models.list_models()` names (quantized ones as float models); with shapes "
          "alone, and with data where a model asks for values.\n")
    print("| torch | models | by outcome |\n| --- | ---: | --- |")
    for r in releases:
        print("| %s | %d | %s |" % (models[r]["double"]["release"], len(models[r]["models"]), counts(models[r])))
    print("\nThose that do not run, and which share would fall back with `PYTORCH_ENABLE_MPS_FALLBACK=1`: of calls, of "
          "floating-point operations (by the rules of")
    print("`torch.utils.flop_counter`), of CPU time (absent without data).\n")
    print("| model | torch | outcome | why | on the CPU | with the fallback | calls | FLOPs | CPU time |\n| --- | --- "
          "| --- | --- | --- | --- | ---: | ---: | ---: |")
    for r in releases:
        for m in models[r]["models"]:
            if m["outcome"] == "ok":
                continue
            fallback = m.get("fallback") or {}
            ops = ", ".join("`%s` %d×" % (o["operator"], o["calls"]) for o in fallback.get("operators", []))
            print("| %s | %s | %s | %s | %s | %s | %s |"
                  % (m["name"], r, m["outcome"], why(m), cell(m.get("cpu", "")[:80]),
                                                          cell((fallback.get("outcome", "")
                                                                + (": " + ops if ops else "")) or "does not reach it"),
                     " | ".join(shares(m))))
    print("\nAll of them:\n")
    print("| model | inputs | parameters | " + " | ".join("torch %s" % r for r in releases)
          + " |\n| --- | --- | ---: |" + " --- |" * len(releases))
    by = {r: {m["name"]: m for m in models[r]["models"]} for r in releases}
    for m in first["models"]:
        told = []
        for r in releases:
            other = by[r].get(m["name"])
            told.append("" if other is None else other["outcome"] + (", with data" if other["data"] else ""))
        print("| %s | %s | %s | %s |" % (m["name"], cell("; ".join(m["inputs"])), format(m["parameters"], ",d"),
                                         " | ".join(told)))


if __name__ == "__main__":
    main()
