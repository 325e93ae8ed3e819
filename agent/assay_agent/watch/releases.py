"""Which calls of each of pytest's tests a release would refuse and another would not, where a rehearsal asks several
releases (double/releases.py): told by test, in the order in which they came.

A plugin that looks on. What a module calls as it is imported, and what a fixture of a wider scope calls, counts with
each test that stands on it.
"""

import weakref

from .. import guest, process, wire
from ..double.current import current
from . import tests
from .imports import when_imported
from .suite import plain

# What a release raises where it refuses a call.
REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)


def install():
    """Wait for pytest."""
    when_imported(
        "_pytest.config", lambda pytest: tests.register(pytest, _Plugin(pytest), "assay-releases")
    )
    process.after_fork(_forget)


def _forget():
    asked = _asked()
    if asked is not None:
        asked.forget()


def _asked():
    """What asks the releases, None before torch is there."""
    dispatch = getattr(current.double, "dispatch", None)
    return dispatch if hasattr(dispatch, "notes") else None


class _Noting:
    """Within, what is called is noted in this dictionary, whose keys are in the order of the calls."""

    def __init__(self, notes):
        self.notes = notes

    def __enter__(self):
        current.notes.append(self.notes)

    def __exit__(self, *_):
        current.notes[:] = [n for n in current.notes if n is not self.notes]


class _Plugin:
    def __init__(self, pytest):
        wrapper = pytest.hookimpl(hookwrapper=True)
        for hook in ("pytest_make_collect_report", "pytest_fixture_setup", "pytest_runtest_protocol",
                     "pytest_runtest_makereport"):
            setattr(_Plugin, hook, wrapper(getattr(_Plugin, "_" + hook[7:])))
        self.collected = {}  # node id of a file, a class -> what was called as it was collected
        self.fixtures = weakref.WeakKeyDictionary()  # fixture -> what was called as it was made
        self.outcome = None
        self.error = ""

    def _make_collect_report(self, collector):
        with _Noting(self.collected.setdefault(collector.nodeid, {})):
            yield

    def _fixture_setup(self, fixturedef, request):
        notes = self.fixtures[fixturedef] = {}
        with _Noting(notes):
            yield

    def _runtest_protocol(self, item, nextitem):
        self.outcome, self.error = None, ""
        notes = {}
        with _Noting(notes):
            yield
        try:
            self.tell(item, notes)
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("pytest: %r" % (err,))

    def _runtest_makereport(self, item, call):
        result = yield
        try:
            report = result.get_result()
            if report.failed and self.outcome != "failed":
                self.outcome = "failed"
                self.error = call.excinfo.typename if call.excinfo is not None else ""
            elif self.outcome != "failed":
                if hasattr(report, "wasxfail"):
                    self.outcome = "xfailed" if report.skipped else "xpassed"
                elif report.skipped or self.outcome is None:
                    self.outcome = "skipped" if report.skipped else "passed"
        except Exception as err:
            guest.pass_on(err)
            wire.trouble("pytest: %r" % (err,))

    def tell(self, item, notes):
        asked = _asked()
        if self.outcome is None:  # of a process that has workers run the tests
            return
        calls = {}
        for node in item.listchain():
            calls.update(self.collected.get(node.nodeid, {}))
        # one that is skipped by a mark makes no fixture
        wanted = getattr(item, "_fixtureinfo", None) if notes or self.outcome != "skipped" else None
        for found in getattr(wanted, "name2fixturedefs", {}).values():
            for fixture in found:
                calls.update(self.fixtures.get(fixture, {}))
        calls.update(notes)
        event = {"ev": "test_releases", "id": plain(item.nodeid), "outcome": self.outcome, "error": self.error,
                 "calls": list(calls), "cut": asked is not None and (asked.full or len(notes) >= asked.MOST)}
        expected = [m.kwargs.get("raises") or Exception for m in item.iter_markers("xfail")]
        if expected:
            event["xfail"] = [e.__name__ for e in REFUSALS if any(issubclass(e, to) for to in expected)]
        wire.put(event)
