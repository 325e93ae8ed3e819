"""Runs the smallest calls of the facts (internal/facts/rows, `call` and `beside`) on the double.

    python tools/double/calls.py [NAME or FAMILY or meets ...]   what each row's calls did, failures first

A row is run on the newest release and macOS of which it speaks, its `call` has to meet it (the double raises its error
with its text, or remarks it), its `beside` must not, nor fail. Rows without `call`, or with `holes.double`, are not run.
Needs Python 3.11, torch and torchvision.
"""

import json
import os
import re
import sys
import tempfile
import tomllib
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROWS = os.path.join(ROOT, "internal", "facts", "rows")
sys.path.insert(0, os.path.join(ROOT, "tools", "double"))
sys.path.insert(0, os.path.join(ROOT, "agent"))

import truth  # noqa: E402

# The oldest macOS on which a release runs (errors.py), newest first, and one of each generation.
MACOS = ((26, 4), (26, 2), (26, 0), (15, 5), (15, 0), (14, 4), (14, 0), (13, 2), (13, 1), (13, 0), (12, 3))


def numbers(text):
    return tuple(int(n) for n in text.split("."))


def rows():
    """Every row, with `family`."""
    for name in sorted(os.listdir(ROWS)):
        if name.endswith(".toml"):
            with open(os.path.join(ROWS, name), "rb") as f:
                for row in tomllib.load(f).get("fact", ()):
                    yield dict(row, family=name[:-5])


def releases():
    """[(release of torch, series of the torchvision that goes with it)], newest first."""
    torch, vision, newest = [], {}, ""
    with open(os.path.join(truth.TABLES, "releases.txt"), encoding="utf-8") as lines:
        for words in map(str.split, lines):
            if words[:1] == ["torch"]:
                torch.append(words[1])
            elif words[:1] == ["torchvision"]:
                newest = words[2]  # asks for that release of torch (==), or for any from it on (>=)
                vision.setdefault(words[3][2:], newest)
    return [(r, vision.get(r, newest)) for r in reversed(torch)]


def target(row, known, facts, errors):
    """(release, torchvision, macOS) of which the row speaks: the newest release, and its macOS nearest to 15.5; None
    where there is none."""
    for release, vision in known:
        for macos in sorted(MACOS, key=lambda m: (abs(m[0] - 15), m != (15, 5))):
            if facts.holds(row, numbers(release), macos) and \
                    errors.availability_error(numbers(release)[:2], macos) is None:
                return release, vision, macos
    return None


class Process:
    """The calls of the rows of one target, in a process of its own: what a release puts into torch stays there."""

    def __init__(self, release, vision, macos):
        import torch
        from assay_agent import wire
        from assay_agent.double import install
        import torchvision  # noqa: F401  registers its operators
        wire.put = lambda event: None
        torch.set_num_threads(1)
        series = ".".join(release.split(".")[:2])
        table = truth.table(series)
        with open(os.path.join(truth.TABLES, "torchvision.txt"), encoding="utf-8") as lines:
            for words in map(str.split, lines):
                if words and words[0] == "operator":
                    at = words.index(vision)
                elif words and not words[0].startswith("#") and words[at] != ".":
                    table["ops"][words[0]] = words[at]
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
            json.dump(table, f)
        try:
            self.double = install.install(torch, {
                "release": release, "series": [int(n) for n in series.split(".")], "macos": list(macos),
                "chip": "m3-ultra-96gb", "memory": 96 << 30, "recommended": None, "cores": 60,
                "chip_name": "Apple M3 Ultra", "shape_only": False, "table": f.name})
        finally:
            os.unlink(f.name)
        self.torch = torch

    def run(self, code):
        """What a piece of Python did: {"error": class, "text": message, "met": names of facts}."""
        self.double.clear()
        self.double.dispatch.known.clear()
        did = {"error": "", "text": ""}
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            self.torch.manual_seed(0)
            try:
                exec(compile(code, "<call>", "exec"), {"torch": self.torch, "__name__": "call"})
            except Exception as error:
                did["error"], did["text"] = type(error).__name__, str(error)
        did["met"] = sorted({fact for _, fact, _, _ in self.double.facts})
        did["warned"] = [str(w.message) for w in warned]
        return did


def pattern(text):
    return re.compile(r"(?s)" + ".*?".join(map(re.escape, re.split(r"\{\w+\}", text))))


def meets(row, did):
    if row["outcome"] == "refused":
        return did["error"] == row["error"] and bool(pattern(row.get("text", "")).match(did["text"]))
    return row["name"] in did["met"] or bool(row.get("text")) and any(
        pattern(row["text"]).search(w) for w in did["warned"])


def judge(row, call, beside):
    """"" where the calls show the row, or what is not so."""
    if not meets(row, call):
        return "call does not meet it: %s %s, met %s" % (call["error"] or "no error", call["text"][:300], call["met"])
    if row["outcome"] != "refused" and call["error"]:
        return "call fails: %s %s" % (call["error"], call["text"][:300])
    if "if" in row and meets(row, beside):  # without it nothing tells the two apart
        return "beside meets it as well"
    if beside["error"]:
        return "beside fails: %s %s" % (beside["error"], beside["text"][:300])
    return ""


def run(chosen):
    """{name: what is not so, "" where the row is shown} of those rows that have calls and no hole at the double."""
    import torch  # noqa: F401  once, before the processes are forked
    import torchvision  # noqa: F401
    from assay_agent.double import errors, facts
    known, groups, said = releases(), {}, {}
    for row in chosen:
        if "call" not in row or "double" in row.get("holes", {}):
            continue
        at = target(row, known, facts, errors)
        if at is None:
            said[row["name"]] = "it speaks of no release"
        else:
            groups.setdefault(at, []).append(row)
    for at, members in sorted(groups.items()):
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(out)
                process = Process(*at)
                told = {r["name"]: judge(r, process.run(r["call"]), process.run(r["beside"])) for r in members}
                with os.fdopen(into, "w") as f:
                    json.dump(told, f)
                status = 0
            finally:
                os._exit(status)
        os.close(into)
        with os.fdopen(out) as f:
            text = f.read()
        os.waitpid(child, 0)
        said.update(json.loads(text) if text else {r["name"]: "the process ended on torch %s" % at[0] for r in members})
    return said


def main(words):
    chosen = [r for r in rows() if not words or any(w in (r["name"], r["family"], r["outcome"]) or w in r["meets"]
                                                    for w in words)]
    said = run(chosen)
    for name, problem in sorted(said.items(), key=lambda i: not i[1]):
        print("%-40s %s" % (name, problem or "ok"))
    print("%d rows, %d with calls, %d shown" % (len(chosen), len(said), sum(not p for p in said.values())))
    return 1 if any(said.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
