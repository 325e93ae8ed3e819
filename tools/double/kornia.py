"""Hold the double against what kornia's maintainers saw on Macs, test by test.

    python tools/double/kornia.py --assay .dev/assay --python PYTHON --clone KORNIA --commit b4f5a78a1 \
        --torch 2.9.1 --macos 26 --manifest mps_float32.txt --from 'kornia at cedb086d' --write

kornia runs its whole suite on MPS and keeps each failing test in testing/known_failure_xfails/mps_float32.txt, a line
"EXCEPTION<tab>NODE ID" (testing/known_failures.py): recorded on a Mac without the CPU fallback, checked by its CI on
each change. Here the suite of a commit runs as its CI runs it, under `assay test` on the double of the release that the
manifest names, and each test is compared. No rule of the double is taken from the manifest.

What is run is a commit of a clone (--clone, --commit: archived into the work folder), or a folder as it lies (--tree).
--manifest is that of the commit, or another; --from says whose, for the page. Where the manifest is of a later commit,
tests that the tree has not are counted apart. PYTHON needs torch, pytest and kornia's dependencies (kornia_rs, requests, onnx,
onnxscript); it may have another release of torch.

Tests that fail on the double and stand in no manifest run once more on the CPU, as kornia's CPU tests do (--device cpu):
one that fails there too says nothing about the device. What is left must have its reason in REASONS; the command ends
with status 1 where a disagreement has none. The work folder keeps both results: a second call only compares.

--write puts the section of this release and manifest into docs/truth-kornia.md, beside those of others.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "truth-kornia.md")
MANIFEST = "testing/known_failure_xfails/mps_float32.txt"  # inside kornia
BY_VALUES = ("AssertionError", "Failed")  # a row of these that passes on the double failed by numbers

Row = collections.namedtuple("Row", "id verdict expected got text where operator")

# (verdict, what its node id holds, what the text of its error holds, reason), regular expressions, the first that fits.
REASONS = (
    ("missed", r"TestRandomTransplantation::", r"",
     "Values: all(dim=0) over an axis of no elements gives an undefined value on MPS in torch 2.9.1 (kornia#4160). The "
     "double says so as a remark (all-over-no-elements) and computes the right one."),
    ("missed", r"TestSequential::test_forward\[mps-float32-random_apply3\]", r"",
     "Random numbers: which augmentations are applied is drawn, and a Mac draws others. test_forward[mps-float32-1] is the "
     "other way round: it fails here and not there."),
    ("extra", r"TestSequential::test_forward\[mps-float32-1\]|TestRandomJigsaw::test_p\[", r"same device",
     "Random numbers: which augmentations are applied is drawn, and a Mac draws others; neighbouring cases are in the "
     "manifest with the same exception."),
    ("extra", r"TestRANSACHomography::test_smoke", r"linalg_lu_solve",
     "Random numbers: torch.rand on MPS draws two times four points, and only where their orientations agree is anything "
     "solved; that is so for 9 % of such draws (100,000 drawn), for those of the CPU's seed 0, and not for the Mac's. "
     "linalg_lu_solve has no kernel in 2.9.1: TestRANSACSeed, with more points, fails by it in the manifest."),
    ("extra", r"", r"Cannot convert a MPS Tensor to float64",
     "True of the commit that was run: kornia#4146 lists tests of that kind as failing on a Mac at torch 2.9.1, and "
     "kornia#4147 had them skipped before the manifest was recorded."),
    ("extra", r"test_motion\.py::TestMotionBlur3D", r"Unsupported Nearest interpolation",
     "True of the commit that was run: kornia#4147 had them skipped where a probe finds no kernel, before the manifest was "
     "recorded."),
    ("extra", r"TestInterpolateSparse2d::test_cardinality", r"Unsupported Bicubic interpolation",
     "True of the commit that was run: kornia#4147 has the test take bilinear beside a probe for bicubic. Six rows of "
     "TestXFeat fail by the same words in the manifest."),
    ("extra", r"TestColorJitterGen", r"attribute 'device' do not match",
     "True of the commit that was run: kornia#4147 keeps these two sequences to the CPU."),
    ("extra", r"^tests/augmentation/test_backward_3d", r"same device",
     "True of the commit that was run, in any release of torch: kornia#4151, mended by kornia#4164 before this manifest was "
     "recorded. The manifest of 605 rows, recorded before that, has the same 76 with the same exception."),
    ("extra", r"TestImageRegistrator::test_register_with_shape_mismatch", r"same device",
     "True of the commit that was run: a homography left on the CPU, mended before this manifest was recorded. The manifest "
     "of 605 rows has it with the same exception."),
    ("extra", r"TestRANSACFundamental|test_shape\[mps-float32-1000-5\]", r"Failed to created pipeline state",
     "True on an M1: torch 2.14.0 raises for a batch of matrices with 8192 elements or more (kornia#4201). Of test_ransac.py, "
     "which the manifest's CI skips, kornia#4202 says that three tests fail on a real M1, two of them by this; test_shape had 16 "
     "matrices in place of 1000 when the manifest was recorded."),
    ("extra", r"", r"TorchScript interpreter",
     "A limit of the double: x.device inside a scripted function says cpu (docs/double.md, TorchScript)."),
    ("extra", r"TestImage::test_dlpack", r"",
     "A limit of the double: from_dlpack gives a tensor of the CPU."),
)

NO_NETWORK = re.compile(r"Failed to load weights|HTTPSConnectionPool|urlopen error|Max retries|NameResolution")


# ---- what the Mac said ------------------------------------------------------------------------------------------------

def manifest_of(path):
    """Node id -> class of the exception, and the lines that the file begins with (where it was recorded)."""
    rows, head = {}, []
    with open(path, encoding="utf-8") as lines:
        for at, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if line.startswith("#"):
                head.append(line.lstrip("# "))
            elif line:
                kind, tab, node = line.partition("\t")
                if not tab or node in rows:
                    sys.exit("%s, line %d: no line EXCEPTION<tab>NODE ID, or a second one of the same test" % (path, at))
                rows[node] = "Failed" if kind == "pytest.fail.Exception" else kind  # the class's own name
    if not head and not rows:
        sys.exit("%s: an empty file" % path)
    return rows, head


# ---- what the double says ---------------------------------------------------------------------------------------------

def ran(asked, folder, device, on, tests):
    """The tests of one run, by id, from suite.json in the folder; the run is made where that is not there."""
    path = os.path.join(folder, "suite.json")
    if not os.path.exists(path):
        env = dict(os.environ, KORNIA_TEST_OPTIMIZER="", PYTHONPATH=asked.tree, OMP_NUM_THREADS="1")
        env.pop("PYTORCH_ENABLE_MPS_FALLBACK", None)
        command = [asked.assay, "test", *on, "--no-cpu", "--out", folder, "--", asked.python, "-m", "pytest", "-q",
                   "--tb=no", "-p", "no:cacheprovider", "--continue-on-collection-errors", "--device", device, "--dtype",
                   "float32", *tests]
        with open(folder + ".log", "w") as log:
            subprocess.run(command, cwd=asked.tree, env=env, stdout=log, stderr=subprocess.STDOUT)
        if not os.path.exists(path):
            sys.exit("%s: no result; its output is in %s.log" % (" ".join(command[:12]), folder))
    with open(path) as f:
        run = json.load(f)["runs"][0]
    return run, {t["id"]: t for t in run["tests"]}


def on_cpu(node):
    """The node id of the same test on the CPU: the device is a parameter of its own."""
    name, bracket, params = node.partition("[")
    return name + bracket + re.sub(r"(^|-)mps(-|\]$)", r"\1cpu\2", params, count=1)


# ---- compared ---------------------------------------------------------------------------------------------------------

def compared(expected, seen, cpu, older):
    """One Row for each test that the manifest or the double has something to say of. Verdicts: found (the same
    exception), other (another one), values (the manifest says that numbers differ, the double's are the CPU's), missed,
    absent (not in this tree), skipped, extra, older (an extra that an older manifest has, with the same exception), cpu
    (fails on the CPU as well), network (needs what could not be fetched)."""
    rows = []
    for node in sorted(set(expected) | set(seen)):
        t, kind = seen.get(node), expected.get(node)
        fails = t is not None and t["outcome"] in ("failed", "ended", "hung")
        got = t.get("error", t["outcome"]) if fails else t["outcome"] if t else ""
        text = (t or {}).get("text", "")
        if kind is not None:
            verdict = ("absent" if t is None else "skipped" if got == "skipped" else
                       ("found" if got == kind else "other") if fails else
                       "missed" if kind not in BY_VALUES or explained("missed", node, text) else "values")
        elif not fails:
            continue
        else:
            verdict = ("network" if NO_NETWORK.search(text) else "older" if older.get(node) == got else
                       "cpu" if cpu.get(on_cpu(node), {}).get("outcome") in ("failed", "ended", "hung") else "extra")
        rows.append(Row(node, verdict, kind, got, text, (t or {}).get("where", ""), (t or {}).get("op", "")))
    return rows


def explained(verdict, node, text):
    for wanted, name, words, reason in REASONS:
        if wanted == verdict and re.search(name, node) and re.search(words, text):
            return reason
    return ""


def share(n, of):
    return "%.1f %%" % (100 * n / of) if of else "–"


def short(nodes):
    """Lines of node ids, those of one test function together."""
    groups = collections.OrderedDict()
    for node in nodes:
        name, _, params = node.partition("[")
        groups.setdefault(name, []).append(params.rstrip("]"))
    for name, params in groups.items():
        yield "- `%s%s`%s" % (name, "[%s]" % params[0] if params[0] else "",
                              "" if len(params) == 1 else " and %d more of its cases" % (len(params) - 1))


def section(asked, head, expected, run, seen, rows):
    of = collections.defaultdict(list)
    for r in rows:
        of[r.verdict].append(r)
    n = {k: len(v) for k, v in of.items()}
    within = sum(n.get(k, 0) for k in ("found", "other", "missed", "skipped"))
    refused = sum(n.get(k, 0) for k in ("found", "other", "extra", "older"))
    why = [explained("extra", r.id, r.text) for r in of["extra"]]
    right = n.get("older", 0) + sum(w.startswith("True") for w in why)  # REASONS says of each what kind it is, in its first words
    outcomes = collections.Counter(t["outcome"] for t in seen.values())
    unexplained = [r for r in rows if r.verdict in ("missed", "extra", "other", "skipped")
                   and not explained(r.verdict, r.id, r.text)]
    out = ["## torch %s, manifest of %d rows" % (asked.torch, len(expected)), ""]
    out += ["Manifest: %s. It says: %s" % (asked.whose, " ".join(head)[:600]), "",
            "Suite: %s, as kornia's CI runs it on MPS (`--device mps --dtype float32`, no fallback, no compiled tests), "
            "under torch %s on Linux, on the double of %s with macOS %s. %s%s tests: %s." % (
                asked.what, run["installed"].partition("+")[0], asked.torch, asked.macos,
                "" if asked.tests == ["tests"] else "Of it these alone: %s. " % " ".join(asked.tests), f"{len(seen):,}",
                ", ".join("%s %s" % (f"{c:,}", o) for o, c in outcomes.most_common())), ""]
    out += ["| of the manifest's rows | |", "| --- | --: |",
            "| found, the same exception | %d |" % n.get("found", 0),
            "| found, another exception | %d |" % n.get("other", 0),
            "| missed | %d |" % (n.get("missed", 0) + n.get("skipped", 0)),
            "| fail by their numbers: out of the double's reach, its values are the CPU's | %d |" % n.get("values", 0),
            "| not among the tests that were run | %d |" % n.get("absent", 0),
            "| all | %d |" % len(expected), "",
            "| of the tests that fail on the double and stand in no row | |", "| --- | --: |",
            "| extra, and in an older manifest of a Mac (%d rows) with the same exception | %d |" % (
                asked.rows_of_older, n.get("older", 0)),
            "| extra, and true of the commit or the Mac, by the reasons below | %d |" % (right - n.get("older", 0)),
            "| extra, by random numbers | %d |" % sum(w.startswith("Random") for w in why),
            "| extra, a limit of the double | %d |" % sum(w.startswith("A limit") for w in why),
            "| extra, without a reason | %d |" % why.count(""),
            "| fail on the CPU as well | %d |" % n.get("cpu", 0),
            "| need a file from the network that could not be had | %d |" % n.get("network", 0), "",
            "Of the %d rows that were run and are not of numbers the double finds %d (%s) with the same exception. Of the %d "
            "tests that it fails for the device's sake %d (%s) are in the manifest or true by their reason; beside them stand %s "
            "tests that pass, or are skipped, on both sides." % (
                within, n.get("found", 0), share(n.get("found", 0), within), refused,
                n.get("found", 0) + n.get("other", 0) + right,
                share(n.get("found", 0) + n.get("other", 0) + right, refused),
                "{:,}".format(sum(outcomes[o] for o in ("passed", "skipped", "xfailed", "xpassed"))
                              - n.get("missed", 0) - n.get("values", 0) - n.get("skipped", 0))), ""]
    causes = collections.Counter((r.operator or words(r.text), r.got) for r in of["found"])
    out += ["What the found ones fail by:", "", "| | exception | tests |", "| --- | --- | --: |"]
    out += ["| %s | %s | %d |" % (cause.replace("|", "\\|"), got, c) for (cause, got), c in causes.most_common()] + [""]
    reasons = collections.OrderedDict()
    for r in rows:
        if r.verdict in ("missed", "extra", "other", "skipped"):
            reasons.setdefault((r.verdict, explained(r.verdict, r.id, r.text) or "**No reason known.**"), []).append(r)
    if reasons:
        out += ["### Differences, by reason", ""]
    for (verdict, reason), some in reasons.items():
        out += ["**%d %s. %s**" % (len(some), verdict, reason), ""] + list(short(r.id for r in some)) + [""]
    for verdict, title in (("values", "Fail on the Mac by their numbers"), ("cpu", "Fail on the CPU as well"),
                           ("absent", "Not among the tests that were run")):
        if of[verdict]:
            out += ["### " + title, ""] + list(short(r.id for r in of[verdict])) + [""]
    return "\n".join(out).rstrip() + "\n", unexplained


def words(text):
    """The beginning of an error's text, for a table."""
    return re.sub(r"\s+", " ", text.split(". ")[0])[:110]


HEAD = """# The double against kornia's suite on Macs

Made by `python tools/double/kornia.py`, a release and manifest at a time; not edited by hand. kornia's maintainers run their whole
suite on MPS and keep each test that fails there, by node id and exception (kornia#4160, #4159). Here the suite ran on the double, on Linux, and
each test is compared. No refusal of the double is taken from the manifest (one remark is: all-over-no-elements). Where a difference showed a fault
of the double, the fault was mended and the suite run again: the figures are those after it.
"""


def written(page, title, text):
    """The page with this section put in, or in place of the one of the same title."""
    parts = re.split(r"(?m)^(?=## )", page) if page else [HEAD + "\n"]
    parts[0] = HEAD + "\n"
    kept = [p for p in parts[1:] if p.partition("\n")[0] != title]
    return parts[0] + "\n".join(p.rstrip() + "\n" for p in sorted(kept + [text], key=lambda p: p.partition("\n")[0]))


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--assay", required=True, help="the binary")
    args.add_argument("--python", required=True, help="an interpreter with torch, pytest and kornia's dependencies")
    args.add_argument("--clone", help="a clone of kornia, bare or not")
    args.add_argument("--commit", help="what of it to run")
    args.add_argument("--tree", help="instead of both: a folder with kornia as it is to be run")
    args.add_argument("--what", help="with --tree: what it is, for the page")
    args.add_argument("--torch", required=True, help="release to stand for")
    args.add_argument("--macos", default="15")
    args.add_argument("--manifest", help="file; default that of the commit")
    args.add_argument("--older", help="a manifest from before the tests were mended, where the tree is as old: what it has, "
                                      "with the same exception, is true of the tree")
    args.add_argument("--from", dest="whose", help="where the manifest comes from, for the page")
    args.add_argument("--work", required=True, help="folder that keeps the results")
    args.add_argument("--write", action="store_true", help="into docs/truth-kornia.md")
    args.add_argument("tests", nargs="*", default=["tests"], help="what to run; all")
    asked = args.parse_args()
    for name in ("assay", "work", "tree", "manifest", "older"):
        if getattr(asked, name):
            setattr(asked, name, os.path.abspath(getattr(asked, name)))
    if bool(asked.clone) == bool(asked.tree) or bool(asked.clone) != bool(asked.commit):
        args.error("either --clone and --commit, or --tree")
    os.makedirs(asked.work, exist_ok=True)
    if asked.clone:
        git = ["git", "-C", asked.clone]
        commit = subprocess.run([*git, "rev-parse", "--verify", asked.commit + "^{commit}"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout.strip()
        day = subprocess.run([*git, "show", "-s", "--format=%cs", commit], check=True, text=True,
                             stdout=subprocess.PIPE).stdout.strip()
        asked.what = "kornia at %s of %s" % (commit[:9], day)
        asked.tree = os.path.join(asked.work, commit)
        if not os.path.isdir(asked.tree):
            os.makedirs(asked.tree + ".making", exist_ok=True)
            packed = subprocess.Popen([*git, "archive", commit], stdout=subprocess.PIPE)
            subprocess.run(["tar", "x", "-C", asked.tree + ".making"], stdin=packed.stdout, check=True)
            if packed.wait():
                sys.exit("git archive %s in %s failed" % (commit, asked.clone))
            os.rename(asked.tree + ".making", asked.tree)
    elif not asked.what:
        args.error("--tree wants --what")
    asked.manifest = asked.manifest or os.path.join(asked.tree, MANIFEST)
    if not os.path.exists(asked.manifest):
        sys.exit("%s: no such file: the commit has no manifest; name one with --manifest" % asked.manifest)
    asked.whose = asked.whose or "that of the commit"
    expected, head = manifest_of(asked.manifest)
    older = manifest_of(asked.older)[0] if asked.older else {}
    asked.rows_of_older = len(older)
    run, seen = ran(asked, os.path.join(asked.work, "double-" + asked.torch), "mps",
                    ["--on", "double", "--torch", asked.torch, "--macos", asked.macos], asked.tests)
    again = sorted(on_cpu(i) for i, t in seen.items() if t["outcome"] in ("failed", "ended", "hung")
                   and i not in expected and not NO_NETWORK.search(t.get("text", "")) and t.get("phase") != "collect")
    _, cpu = ran(asked, os.path.join(asked.work, "cpu-" + asked.torch), "cpu", ["--on", "cpu"], again) if again else ({}, {})
    text, unexplained = section(asked, head, expected, run, seen, compared(expected, seen, cpu, older))
    print(text)
    if asked.write:
        old = open(PAGE).read() if os.path.exists(PAGE) else ""
        with open(PAGE + ".new", "w") as f:
            f.write(written(old, text.partition("\n")[0], text))
        os.replace(PAGE + ".new", PAGE)
    for r in unexplained:
        print("no reason: %s %s: %s, here %s %s" % (r.verdict, r.id, r.expected, r.got, words(r.text)), file=sys.stderr)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
