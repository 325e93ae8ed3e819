"""What becomes of each of pytest's tests in a rehearsal, and which of the double's refusals a failed one met.

A plugin that looks on: what pytest prints, and how it ends, stays as it is. A second process may then run the failed
tests once more on the CPU (`again`), to tell those apart that fail there as well.
"""

import json
import os
import sys

from .. import guest, place, process, wire
from ..double.current import current
from .imports import when_imported

_totals = {}
_sent = {}


def install():
    """Wait for pytest: its script imports _pytest.config, and pytest itself late or never."""
    when_imported("_pytest.config", _imported)
    process.after_fork(clear)


def _imported(pytest):
    register(pytest, _Watcher(pytest))
    wire.source(_gather)


def register(pytest, plugin, name="assay"):
    config = sys.modules["_pytest.config"]
    original = config.get_config

    def get_config(*args, **kwargs):
        made = original(*args, **kwargs)
        try:
            made.pluginmanager.register(plugin, name)
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("pytest: its tests are not watched: %r" % (err,))
        return made

    config.get_config = get_config


def _gather():
    if _totals != _sent:
        _sent.update(_totals)
        wire.put(dict({"ev": "tests"}, **_totals))


def clear():
    """A forked child tells of its own tests."""
    _totals.clear()


def refusals():
    """What the double has refused so far."""
    return current.double.refusals if current.double is not None else {}


def cause(error, before):
    """(operator, cause, how) of the refusal behind a failure: the exception itself or one that led to it; else one met
    during the test."""
    seen, had = set(), refusals()
    met = [k for k, n in had.items() if n > before.get(k, 0)]
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        # Operators share messages: what was met in this test counts before what other tests of the process met.
        for op, cause, kind, text, _ in met + list(had):
            if kind == type(error).__name__ and text == str(error):
                return op, cause, "raised"
        error = error.__cause__ or error.__context__
    return (met[-1][0], met[-1][1], "met") if met else ("", "", "")


def settle():
    """pytest keeps the last exception for post-mortem debugging: it is none that ended the script."""
    process.handled = getattr(sys, "last_value", None)


class Outcomes:
    """The outcome of each test, from the reports on its parts."""

    def __init__(self, pytest):
        self.id = self.outcome = self.error = self.phase = None
        self.seconds = 0.0
        implementation = pytest.hookimpl(hookwrapper=True)
        type(self).pytest_runtest_makereport = implementation(Outcomes._makereport)

    def pytest_runtest_logstart(self, nodeid):
        self.id = None

    def begun(self, item):
        """Its setup is over, of a test that is run again more than once."""
        self.seconds, self.phase = 0.0, None

    def _makereport(self, item, call):
        result = yield
        try:
            report = result.get_result()
            if call.when == "setup":  # of a test that is run again as well
                self.id, self.outcome, self.error = item.nodeid, "passed", None
                self.begun(item)
            if report.failed:
                if self.outcome != "failed":
                    self.outcome, self.error = "failed", call.excinfo.value if call.excinfo is not None else None
                    self.phase = call.when
            elif self.outcome != "failed" and (call.when == "call" or self.outcome == "passed"):
                # the last report of its call is the test's own: those before it are subtests'
                if hasattr(report, "wasxfail"):
                    self.outcome = "xfailed" if report.skipped else "xpassed"
                else:
                    self.outcome = "skipped" if report.skipped else "passed"
            self.seconds += call.duration
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("pytest: %r" % (err,))

    def pytest_runtest_logfinish(self, nodeid):
        if self.id == nodeid:
            try:
                self.done()
            except Exception as err:
                guest.pass_on(err)
                wire.trouble("pytest: %r" % (err,))
        self.id = self.error = None


class _Watcher(Outcomes):
    def pytest_runtest_logstart(self, nodeid):
        self.id = None
        self.before = dict(refusals())

    def cause(self, error):
        """cause of an exception of the test that is running: the mark mps_xfail(op=…) asks (python/assay_mps)."""
        return cause(error, self.before)

    def done(self):
        settle()
        _totals[self.outcome] = _totals.get(self.outcome, 0) + 1
        if self.outcome != "failed":
            return
        op, by, how = cause(self.error, self.before)
        wire.put(
            {
                "ev": "test_failed",
                "id": self.id,
                "op": op,
                "cause": by,
                "how": how,
                "error": type(self.error).__name__,
                "text": str(self.error)[:1000],
                "where": place.of_error(self.error) if self.error is not None else "",
            }
        )


def again(settings):
    """Have pytest run the tests named in a file, and write what becomes of them to another; whatever pytest would keep
    of this run is not kept."""
    when_imported("_pytest.config", lambda pytest: register(pytest, _Again(pytest, settings)))


class _Again(Outcomes):
    def __init__(self, pytest, settings):
        Outcomes.__init__(self, pytest)
        with open(settings["only"]) as f:
            self.only = set(json.load(f))
        self.out = settings["out"]
        type(self).pytest_configure = pytest.hookimpl(tryfirst=True)(_Again._configure)
        type(self).pytest_collection_modifyitems = pytest.hookimpl(trylast=True)(_Again._chosen)

    def _configure(self, config):
        for name, value in (("xmlpath", None), ("maxfail", 0)):
            if hasattr(config.option, name):
                setattr(config.option, name, value)

    def _chosen(self, config, items):
        cache = getattr(config, "cache", None)
        if cache is not None:
            cache.set = lambda key, value: None
        items[:] = [i for i in items if i.nodeid in self.only]

    def done(self):
        line = json.dumps(
            [
                self.id,
                self.outcome,
                "" if self.error is None else "%s: %s" % (type(self.error).__name__, str(self.error)[:1000]),
            ]
        )
        fd = os.open(self.out, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, (line + "\n").encode("utf-8", "replace"))
        finally:
            os.close(fd)
