"""The plugin as a user meets it: what `pytest --mps` starts, and what marks and the fixture do on each device.

pytest runs within this process, on a torch of a few names; what would take the process over is kept instead.
"""

import json
import os
import subprocess
import sys
import types

import pytest

from assay_mps import binary, pytest_plugin

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Started(BaseException):
    """Stands for the program that takes the process over."""


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Nobody drives the pytest within, whoever drives this one."""
    for name in (pytest_plugin.INSIDE, pytest_plugin.AGENT, "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pytest_plugin, "_found", [])
    monkeypatch.setattr(pytest_plugin, "_is_mac", lambda: False)


@pytest.fixture
def run(pytester):
    def run(*words):
        return pytester.runpytest_inprocess("-p", "assay_mps.pytest_plugin", "-p", "no:cacheprovider", *words)

    return run


@pytest.fixture
def started(run, monkeypatch, tmp_path):
    """started(words): the command line that took the place of `pytest words`, from the word `test` on, less what is
    before pytest's own arguments; and the variable that says inside."""
    program = tmp_path / "bin" / "assay"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "%s%s%s" % (program.parent, os.pathsep, os.environ["PATH"]))
    monkeypatch.setattr("assay_mps._folders", lambda: [])

    def take_over(path, command):
        assert path == command[0] == str(program)
        assert os.environ.pop(pytest_plugin.INSIDE) == "1"
        raise Started(command)

    monkeypatch.setattr(os, "execv", take_over)

    def started(*words):
        with pytest.raises(Started) as caught:
            run(*words)
        command = caught.value.args[0][1:]
        at = command.index("--")
        assert command[at + 1] == sys.executable
        rest = command[at + 1 :]
        assert rest[-len(words) :] != [] and "pytest" in rest
        return command[:at], rest[rest.index("pytest") + 5 :]  # past pytest -p assay_mps… -p no:…

    return started


def torch(version="2.14.0", mps=True):
    module = types.ModuleType("torch")
    module.__version__ = version
    module.device = lambda name: name
    module.backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: mps))
    return module


@pytest.fixture
def on(monkeypatch):
    """on(kind, release): the tests within find this device."""

    def on(kind, release="2.14.0"):
        monkeypatch.setitem(sys.modules, "torch", torch(release, mps=kind in ("double", "mps")))
        told = {"double": {"double": {"release": release}}, "again": {"tests": {}}}.get(kind)
        if told:
            # A double says torch's own release where Python's side of the release is not pretended.
            monkeypatch.setitem(sys.modules, "torch", torch("2.15.0+cpu", mps=kind == "double"))
            monkeypatch.setenv(pytest_plugin.AGENT, json.dumps(told))

    return on


# What --mps starts

DOUBLE = ["--on", "double", "--torch"]



@pytest.mark.parametrize(
    "words, asked, rest",
    [
        (["--mps=2.14"], DOUBLE + ["2.14"], []),
        (["--mps", "2.6,2.14", "-q"], DOUBLE + ["2.6,2.14"], ["-q"]),
        (["--mps"], [], []),
        (["--mps", "tests", "-k", "a b"], [], ["tests", "-k", "a b"]),
        (["-q", "--mps=2.8.0", "tests/test_a.py::test_b[1-2]"], DOUBLE + ["2.8.0"],
         ["-q", "tests/test_a.py::test_b[1-2]"]),
        (["--mps", "--mps-manifest=f.txt", "--mps-update", "-x"], ["--manifest", "f.txt", "--update"], ["-x"]),
        (["--mps", "--mps-manifest", "f.txt", "-x"], ["--manifest", "f.txt"], ["-x"]),
        (["--mps=2.14", "--", "--mps"], DOUBLE + ["2.14"], ["--", "--mps"]),
    ],
)
def test_command(started, words, asked, rest):
    assert started(*words) == (["test"] + asked, rest)


def test_command_on_a_mac(started, monkeypatch, capfd):
    monkeypatch.setattr(pytest_plugin, "_is_mac", lambda: True)
    assert started("--mps=2.14", "-q") == (["test", "--on", "mps"], ["-q"])
    assert "--mps=2.14: the releases are for the double; this is the Mac's own MPS" in capfd.readouterr().err
    assert started("--mps", "-q") == (["test"], ["-q"])  # MPS where it computes, else the double


def test_options_of_addopts(started, pytester, monkeypatch):
    pytester.makeini("[pytest]\naddopts = --mps=2.6 --mps-manifest=known.txt")
    assert started("-q") == (["test", "--on", "double", "--torch", "2.6", "--manifest", "known.txt"], ["-q"])
    monkeypatch.setenv("PYTEST_ADDOPTS", "--mps=2.8")
    assert started("--mps=2.14")[0][3:5] == ["--torch", "2.14"]  # what is typed counts


def test_no_conftest_is_read_before(started, pytester):
    pytester.makeconftest("raise SystemExit('read')")
    started("--mps=2.14")


@pytest.mark.parametrize("variable", [pytest_plugin.INSIDE, pytest_plugin.AGENT])
def test_inside_nothing_is_started(run, pytester, monkeypatch, variable):
    monkeypatch.setenv(variable, "{}")
    monkeypatch.setattr(os, "execv", None)
    pytester.makeini("[pytest]\naddopts = --mps --mps-update")
    pytester.makepyfile(test_a="def test_a(): pass")
    pytester.makepyfile(test_b="def test_b(): pass")
    run("test_a.py").assert_outcomes(passed=1)  # --mps of addopts does not take the path for its value


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["--markers"], ["--fixtures"]])
def test_asked_about_itself(run, monkeypatch, words):
    monkeypatch.setattr(os, "execv", None)
    assert run("--mps", *words).ret == 0


@pytest.mark.parametrize(
    "words, said",
    [
        (["--mps=2.x"], "--mps=2.x: write releases of PyTorch, as 2.14 or 2.6,2.14"),
        (["--mps", "--mps-update"], "--mps-update: name the file to write with --mps-manifest FILE"),
    ],
)
def test_usage(run, words, said):
    result = run(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: " + said.replace("[", "[[]")])


def test_no_program(run, monkeypatch, tmp_path):
    monkeypatch.setattr("assay_mps._folders", lambda: [str(tmp_path)])
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("--mps")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --mps: find the program assay: * pip install assay-mps"])


def test_binary_beside_the_interpreter_first(monkeypatch, tmp_path):
    for folder in ("scripts", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "assay").write_text("#!/bin/sh\n")
        (tmp_path / folder / "assay").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("sysconfig.get_path", lambda *args: str(tmp_path / "scripts"))
    assert binary() == str(tmp_path / "scripts" / "assay")
    (tmp_path / "scripts" / "assay").chmod(0o644)
    assert binary() == str(tmp_path / "path" / "assay")


def test_started_as_a_script(monkeypatch, tmp_path):
    """`pytest` does not put the working folder on sys.path, `python -m pytest` does: each stays as it is."""
    script = tmp_path / "pytest"
    script.write_text("#!/usr/bin/python\n")
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert pytest_plugin._pytest()[-1] == str(script)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "runner.py")])
    assert pytest_plugin._pytest()[-2:] == ["-m", "pytest"]


def test_torch_is_not_imported(tmp_path):
    """A suite that has nothing to do with MPS does not pay for the plugin."""
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    (tmp_path / "test_a.py").write_text("def test_a(): pass")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "assay_mps.pytest_plugin", "test_a.py"],
        cwd=tmp_path, env=dict(os.environ, PYTHONPATH=ROOT), capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# The fixture and the marks

MARKED = """
    import pytest

    def test_device(mps_device):
        assert mps_device == "%s"

    @pytest.mark.mps
    def test_any(): pass

    @pytest.mark.mps(min_torch="2.10")
    def test_new(): pass
"""


@pytest.mark.parametrize(
    "kind, release, device, outcomes",
    [
        ("double", "2.9.1", "mps", {"passed": 2, "skipped": 1}),
        ("double", "2.10.0", "mps", {"passed": 3}),
        ("mps", "2.9.1", "mps", {"passed": 2, "skipped": 1}),
        ("mps", "2.10.0a0+git12", "mps", {"passed": 3}),
        ("none", "2.14.0", "", {"skipped": 3}),
        ("again", "2.9.1", "cpu", {"passed": 3}),  # assay asks whether the CPU fails too
    ],
)
def test_device_and_mps(run, on, pytester, kind, release, device, outcomes):
    on(kind, release)
    pytester.makepyfile(MARKED % device)
    result = run("-rs", "--strict-markers")
    result.assert_outcomes(**outcomes)
    if kind == "none":
        result.stdout.fnmatch_lines(["SKIPPED *: no MPS here: pytest --mps runs it on a double, or on a Mac"])
    elif "skipped" in outcomes:
        result.stdout.fnmatch_lines(["SKIPPED *: for torch 2.10 and later on MPS, and this is 2.9.1"])


XFAIL = """
    import pytest

    @pytest.mark.mps_xfail(op="aten::foo", until="2.14", reason="no kernel")
    def test_foo():
        %s
"""
FOO = "raise NotImplementedError(\"The operator 'aten::foo' is not currently implemented for the MPS device.\")"


@pytest.mark.parametrize(
    "kind, release, body, outcomes",
    [
        ("mps", "2.13.0", FOO, {"xfailed": 1}),
        ("mps", "2.13.0", FOO.replace("aten::foo", "aten::foo.out"), {"xfailed": 1}),
        ("mps", "2.13.0", "pass", {"failed": 1}),  # strict
        ("mps", "2.13.0", FOO.replace("aten::foo", "aten::bar"), {"failed": 1}),
        ("mps", "2.13.0", FOO.replace("aten::foo", "aten::foobar"), {"failed": 1}),
        ("mps", "2.13.0", "raise RuntimeError('Conv3D is not supported on MPS')", {"xfailed": 1}),  # names no operator
        ("mps", "2.14.0", FOO, {"failed": 1}),
        ("mps", "2.14.0", "pass", {"passed": 1}),
        ("none", "2.13.0", "pass", {"passed": 1}),
        ("none", "2.13.0", FOO, {"failed": 1}),
        ("again", "2.13.0", FOO, {"failed": 1}),
        ("mps", "2.13.0", "pytest.skip('no')", {"skipped": 1}),
    ],
)
def test_xfail(run, on, pytester, kind, release, body, outcomes):
    on(kind, release)
    pytester.makepyfile(XFAIL % body)
    run().assert_outcomes(**outcomes)


def test_xfail_says_why(run, on, pytester):
    on("mps", "2.13.0")
    pytester.makepyfile(XFAIL % "pass")
    run().stdout.fnmatch_lines(["[[]XPASS(strict)[]] MPS aten::foo until torch 2.14: no kernel"])
    pytester.makepyfile(XFAIL % FOO.replace("aten::foo", "aten::bar"))
    run().stdout.fnmatch_lines(["expected the device to refuse aten::foo: it was aten::bar"])


class Watcher:
    """assay's agent, as far as the plugin asks it."""

    def __init__(self, op):
        self.op = op

    def cause(self, error):
        return (self.op, "missing", "raised") if self.op else ("", "", "")


@pytest.mark.parametrize("op, outcomes", [("aten::foo", {"xfailed": 1}), ("aten::bar", {"failed": 1}),
                                          ("", {"failed": 1})])
def test_xfail_asks_the_agent(pytester, on, op, outcomes):
    """On the double the operator of a refusal is known, whatever its message says."""
    on("double", "2.13.0")
    pytester.makepyfile(XFAIL % "raise RuntimeError('unsupported')")

    class Agent:
        def pytest_configure(self, config):
            config.pluginmanager.register(Watcher(op), "assay")

    pytester.runpytest_inprocess("-p", "assay_mps.pytest_plugin", plugins=[Agent()]).assert_outcomes(**outcomes)


def test_runxfail(run, on, pytester):
    on("mps", "2.13.0")
    pytester.makepyfile(XFAIL % FOO)
    run("--runxfail").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    "mark, said",
    [
        ("mps(min_torch=2.1)", 'mark mps: min_torch=2.1: write it as "2.8"'),  # of 2.10, as a number
        ("mps('2.8')", "mark mps: it takes min_torch, by name"),
        ("mps_xfail(op='foo')", "mark mps_xfail: op='foo': write it as \"aten::foo\""),
        ("mps_xfail(til='2.8')", "mark mps_xfail: it takes op, until, reason, by name"),
    ],
)
def test_wrong_marks(run, pytester, mark, said):
    pytester.makepyfile("import pytest\n@pytest.mark.%s\ndef test_a(): pass" % mark)
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *::test_a: " + said])
