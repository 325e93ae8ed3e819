"""pytest on a double of MPS, or on MPS itself: `pytest --mps=2.14`, the fixture `mps_device`, the marks `mps` and `mps_xfail`.

With --mps the same command line, less this plugin's own options, becomes one of `assay test`, which takes this process
over: assay drives pytest, once for each release. There this plugin is loaded again, sees that it is inside, and gives
marks and the fixture alone. docs/pytest.md of the project is the user's guide.

Python 3.9 or later, pytest 7 or later. torch is imported where a test asks for the device, and not before.
"""

import os
import re
import sys

import pytest

# In the environment: assay drives this pytest, so that --mps, of addopts say, means nothing more.
INSIDE = "ASSAY_PYTEST"
AGENT = "ASSAY_AGENT"  # of assay's agent: JSON with what it was told

AUTO = "auto"
# Patterns are compiled where they are used: each pytest imports this file.
_RELEASES = r"auto|\d+\.\d+(\.\d+)?(,\d+\.\d+(\.\d+)?)*"
_RELEASE = r"\d+\.\d+(\.\d+)?"
_OPERATOR = r"\w+::\w+(\.\w+)?"
# torch's own words, aten/src/ATen/mps/MPSFallback.mm: "The operator 'aten::foo' is not currently implemented for the MPS
# device"; torch 2.0 to 2.15.
_NOT_IMPLEMENTED = r"The operator '(\w+::[\w.]+)' is not currently (?:implemented|supported)"
_MARKS = {"mps": ("min_torch",), "mps_xfail": ("op", "until", "reason")}


# The way in ---------------------------------------------------------------------------------------------------------------


def pytest_addoption(parser):
    group = parser.getgroup("assay", "Apple's GPU, and a double of it (assay)")
    group.addoption(
        "--mps",
        nargs="?",
        const=AUTO,
        metavar="RELEASES",
        help="run under assay: on a double of MPS as these releases of PyTorch have it (2.14 or 2.6,2.14); on a Mac "
        "with an Apple GPU on MPS itself; without a value, the release that assay aims at",
    )
    group.addoption(
        "--mps-manifest",
        metavar="FILE",
        help="the failures that are expected: with --mps a new failure and an unexpected pass are red",
    )
    group.addoption(
        "--mps-update", action="store_true", help="write the manifest anew from this run, and say what changed"
    )


def inside():
    """Whether assay drives this process."""
    return INSIDE in os.environ or AGENT in os.environ


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config, parser, args):
    # Before pytest's capture begins, and before any conftest is read: those import torch, for nothing if we go.
    options = early_config.known_args_namespace
    _give_back(options, args)
    if options.mps is not None and not inside() and not _asks_only(options):
        _go(early_config, options)
    yield


def _give_back(options, args):
    """In `--mps tests` argparse took a path for the value: make the two `--mps=auto tests`."""
    for i, word in enumerate(args):
        if word == "--":
            break
        if word != "--mps":
            continue
        args[i] = "--mps=" + AUTO
        if i + 1 < len(args) and not args[i + 1].startswith("-"):
            if re.fullmatch(_RELEASES, args[i + 1]):
                args[i] = "--mps=" + args.pop(i + 1)
            elif options.mps == args[i + 1]:
                options.mps = AUTO
                options.file_or_dir.insert(0, args[i + 1])


def _asks_only(options):
    """Whether pytest is asked about itself: there are no tests to run."""
    return any(getattr(options, name, False) for name in ("help", "version", "markers", "showfixtures"))


def _go(config, options):
    import assay_mps

    if not re.fullmatch(_RELEASES, options.mps):
        raise pytest.UsageError("--mps=%s: write releases of PyTorch, as 2.14 or 2.6,2.14" % options.mps)
    if options.mps_update and not options.mps_manifest:
        raise pytest.UsageError("--mps-update: name the file to write with --mps-manifest FILE")
    try:
        program = assay_mps.binary()
    except FileNotFoundError as error:
        raise pytest.UsageError("--mps: %s" % error) from None
    if options.mps != AUTO and _is_mac():
        sys.stderr.write("assay: --mps=%s: the releases are for the double; this is the Mac's own MPS, with the torch "
                         "that is installed\n" % options.mps)
    command = [program] + _arguments(options) + ["--"] + _pytest() + _typed(config.invocation_params.args)
    os.environ[INSIDE] = "1"
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(program, command)  # signals, terminal and status are assay's from here on
    except OSError as error:
        del os.environ[INSIDE]
        raise pytest.UsageError("--mps: start %s: %s" % (program, error)) from None


def _arguments(options):
    """What assay is asked for. By itself it takes a Mac's MPS where that computes, else the double of the release that it
    aims at; where releases are named, a Mac runs the one that it has."""
    given = ["test"]
    if options.mps != AUTO:
        given += ["--on", "mps"] if _is_mac() else ["--on", "double", "--torch", options.mps]
    if options.mps_manifest:
        given += ["--manifest", options.mps_manifest]
    return given + (["--update"] if options.mps_update else [])


def _is_mac():
    import platform

    return sys.platform == "darwin" and platform.machine() == "arm64"


def _pytest():
    """This interpreter with its own options, and pytest as it was started: a script `pytest` does not put the working
    folder on sys.path, and `python -m pytest` does."""
    import subprocess

    flags = getattr(subprocess, "_args_from_interpreter_flags", list)()
    started = sys.argv[0]
    if os.path.basename(started) in ("pytest", "py.test") and os.path.isfile(started):
        with open(started, "rb") as script:
            if script.read(2) == b"#!":
                return [sys.executable] + flags + [os.path.abspath(started)]
    return [sys.executable] + flags + ["-m", "pytest"]


def _typed(args):
    """The words that were typed, less this plugin's options. Those of addopts and PYTEST_ADDOPTS are read again inside,
    and mean nothing there."""
    words, left = [str(word) for word in args], []
    while words:
        word = words.pop(0)
        name, equals, _ = word.partition("=")
        if word == "--":
            return left + [word] + words
        if word == "--mps":
            if words and re.fullmatch(_RELEASES, words[0]):
                words.pop(0)
        elif name == "--mps-manifest":
            if not equals and words:
                words.pop(0)
        elif name != "--mps" and name != "--mps-update":
            left.append(word)
    return left


# The device ---------------------------------------------------------------------------------------------------------------


class _Device:
    """What the tests of this process have of MPS.

    kind     double; mps, a real one; cpu, where assay has failed tests run again to tell whether the CPU fails too; ""
    release  numbers of the release of torch that the device is as, (2, 14, 0); () where there is none
    missing  why there is none; "" where there is
    """

    def __init__(self):
        self.kind, self.release, self.missing = "", (), ""
        told = _told()
        if "tests" in told:
            self.kind = "cpu"
            return
        try:
            import torch
        except ImportError as error:
            self.missing = "no MPS here: %s" % error
            return
        backend = getattr(torch.backends, "mps", None)
        if backend is None or not backend.is_available():
            self.missing = "no MPS here: pytest --mps runs it on a double, or on a Mac"
            return
        double = told.get("double")
        self.kind = "double" if double else "mps"
        self.release = numbers(double["release"] if double else torch.__version__)


def _told():
    """What the agent of this process was told; {} without one."""
    import json

    try:
        told = json.loads(os.environ.get(AGENT) or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


_found = []


def device():
    """The _Device of this process; torch is imported by the first call."""
    if not _found:
        _found.append(_Device())
    return _found[0]


def numbers(release):
    """(2, 14, 0) of 2.14, 2.14.0 or 2.14.0a0+git: what is not there is 0."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    return tuple(int(n or 0) for n in found.groups()) if found else ()


@pytest.fixture
def mps_device():
    """torch.device("mps"), on a double or on a Mac; where there is neither, the test is skipped."""
    found = device()
    if found.missing:
        pytest.skip(found.missing)
    import torch

    return torch.device("cpu" if found.kind == "cpu" else "mps")


# The marks ----------------------------------------------------------------------------------------------------------------


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        'mps(min_torch="2.8"): the test is for MPS, from that release of PyTorch on; elsewhere it is skipped',
    )
    config.addinivalue_line(
        "markers",
        'mps_xfail(op="aten::foo", until="2.14", reason="..."): the test fails on MPS, because of that operator, in '
        "releases of PyTorch before that one; a pass there, or another failure, is red",
    )
    config.pluginmanager.register(_Marks(), "assay_mps_marks")


def _check(item):
    """UsageError where a mark of the test says what cannot be meant."""
    for name, known in _MARKS.items():
        for mark in item.iter_markers(name):
            wrong = ""
            if mark.args or set(mark.kwargs) - set(known):
                wrong = "it takes %s, by name" % ", ".join(known)
            for key, form, example in (
                ("min_torch", _RELEASE, '"2.8"'),
                ("until", _RELEASE, '"2.14"'),
                ("op", _OPERATOR, '"aten::foo"'),
            ):
                value = mark.kwargs.get(key)
                if not wrong and value is not None and not (isinstance(value, str) and re.fullmatch(form, value)):
                    wrong = "%s=%r: write it as %s" % (key, value, example)
            if wrong:
                raise pytest.UsageError("%s: mark %s: %s" % (item.nodeid, name, wrong))


class _Marks:
    """Skips and expects what the marks say."""

    def pytest_collection_modifyitems(self, items):
        for item in items:
            _check(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        marks = list(item.iter_markers("mps"))
        if not marks:
            return
        found = device()
        if found.missing:
            _skip(found.missing)
        for mark in marks:
            least = mark.kwargs.get("min_torch")
            if least and found.release and found.release < numbers(least):
                _skip("for torch %s and later on MPS, and this is %s" % (least, _text(found.release)))

    # trylast: inside the wrappers of pytest's own xfail and of assay's agent, which look at what is made here.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_makereport(self, item, call):
        result = yield
        if call.when == "teardown" or item.config.option.runxfail:
            return
        mark = expected(item)
        if mark is None:
            return
        report = result.get_result()
        if call.excinfo is None:
            if call.when == "call":
                report.outcome = "failed"
                report.longrepr = "[XPASS(strict)] " + _reason(mark)
        elif report.failed:
            wrong = _other_operator(item.config, mark.kwargs.get("op"), call.excinfo.value)
            if wrong:
                report.sections.append(("mps_xfail", wrong))
            else:
                report.outcome, report.wasxfail = "skipped", _reason(mark)


def _skip(why):
    raise pytest.skip.Exception(why, _use_item_location=True)  # the line of the test, and not this one


def expected(item):
    """The mark mps_xfail that holds for the test on this device, or None."""
    for mark in item.iter_markers("mps_xfail"):
        found = device()
        if found.kind in ("double", "mps"):
            until = mark.kwargs.get("until")
            if until is None or found.release < numbers(until):
                return mark
    return None


def _reason(mark):
    said = ["MPS"]
    if mark.kwargs.get("op"):
        said.append(mark.kwargs["op"])
    if mark.kwargs.get("until"):
        said.append("until torch " + mark.kwargs["until"])
    text = " ".join(said)
    return "%s: %s" % (text, mark.kwargs["reason"]) if mark.kwargs.get("reason") else text


def _other_operator(config, op, error):
    """What is wrong with a failure that is expected to be of operator op; "" where it is that. On a real device the
    message tells the operator or nothing does, and then the failure counts as the one expected."""
    if not op:
        return ""
    watcher = config.pluginmanager.get_plugin("assay")
    if device().kind == "double" and hasattr(watcher, "cause"):
        met = watcher.cause(error)[0]
        if not met:
            return "expected the device to refuse %s: this failure comes of no refusal" % op
    else:
        said, seen = None, set()
        while error is not None and said is None and id(error) not in seen:
            seen.add(id(error))
            said = re.search(_NOT_IMPLEMENTED, str(error))
            error = error.__cause__ or error.__context__
        if said is None:
            return ""
        met = said.group(1)
    if op in (met, met.partition(".")[0]):
        return ""
    return "expected the device to refuse %s: it was %s" % (op, met)


def _text(release):
    return ".".join(str(n) for n in release)
