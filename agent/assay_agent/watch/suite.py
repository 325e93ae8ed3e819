"""What becomes of each test of a suite, for `assay test`: lines of JSON appended to a file that the supervisor follows,
so that what was known of a process is known when it has ended, whatever ended it.

    {"collected": [id, …], "root": folder, "maxfail": n}   what is to run; of xdist's workers each tells it
    {"start": id, "pid": n, "worker": "gw0"}               a test begins
    {"id": …, "outcome": …, …}                             it is over: the fields of internal/suite.Test
    {"down": "gw0"}                                        a worker of xdist's is no more
    {"end": status}                                        pytest itself has ended, in its first process

A second run with `only` runs the tests named there alone; with `skip` it goes on without those named there.
"""

import importlib
import json
import os

from .. import guest, place
from ..double.current import current
from . import tests
from .imports import when_imported

MARKS = ("mps", "mps_xfail")  # of the plugin in the wheel
TEXT = 1000  # characters of a message


def install(settings):
    """Wait for pytest. settings: journal, and where they apply only, skip (files with a list of ids), default (module
    and device)."""
    when_imported("_pytest.config", lambda pytest: tests.register(pytest, _Keeper(pytest, settings)))


class _Keeper(tests.Outcomes):
    def __init__(self, pytest, settings):
        tests.Outcomes.__init__(self, pytest)
        self.settings, self.only, self.skip = settings, _ids(settings.get("only")), _ids(settings.get("skip"))
        self.config, self.root, self.worker, self.status = None, "", "", None
        self.file, self.pid = None, 0
        self.before, self.touched, self.wrong, self.line, self.marks = {}, 0, {}, 0, []
        # pluggy reads the names of a hook's arguments from the function itself: each is a plain one around ours
        for name, function, order in (
            ("pytest_configure", lambda self, config: self.configured(config), "tryfirst"),
            ("pytest_collection_modifyitems", lambda self, items: self.choose(items), "trylast"),
            ("pytest_collection_finish", lambda self, session: self.collected(session), "trylast"),
            ("pytest_collectreport", lambda self, report: self.collecting(report), "trylast"),
            ("pytest_runtest_logstart", lambda self, nodeid, location: self.starts(nodeid, location), "trylast"),
            ("pytest_sessionfinish", lambda self, exitstatus: self.finishing(exitstatus), "tryfirst"),
            ("pytest_unconfigure", lambda self: self.over(), "trylast"),
        ):
            setattr(type(self), name, pytest.hookimpl(**{order: True})(function))
        down = pytest.hookimpl(optionalhook=True)(lambda self, node: self.down(node))  # xdist's
        type(self).pytest_testnodedown = down

    def tell(self, line):
        """Append a line. It is in the file when this returns: what ends the process next does not take it away."""
        if self.pid != os.getpid():
            self.pid = os.getpid()
            self.file = os.open(self.settings["journal"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(self.file, (json.dumps(line, separators=(",", ":")) + "\n").encode("utf-8", "replace"))

    def elsewhere(self):
        """Whether the tests run in xdist's workers, and this is the process that hands them out."""
        return self.config is None or self.config.pluginmanager.has_plugin("dsession")

    @guest.hook
    def configured(self, config):
        self.config, self.root = config, str(config.rootpath)
        self.worker = getattr(config, "workerinput", {}).get("workerid", "")
        if self.only is not None:  # the second run: what pytest keeps is the first one's
            for name, value in (("xmlpath", None), ("maxfail", 0), ("continue_on_collection_errors", True)):
                if hasattr(config.option, name):
                    setattr(config.option, name, value)
        default = self.settings.get("default")
        if default and (self.worker or not getattr(config.option, "numprocesses", None)):
            importlib.import_module(default["module"]).set_default_device(default["device"])

    @guest.hook
    def choose(self, items):
        if self.only is not None:
            cache = getattr(self.config, "cache", None)
            if cache is not None:
                cache.set = lambda key, value: None
            items[:] = [i for i in items if plain(i.nodeid) in self.only]
        if self.skip is not None:
            items[:] = [i for i in items if plain(i.nodeid) not in self.skip]

    @guest.hook
    def collected(self, session):
        if not self.elsewhere():
            maxfail = getattr(self.config.option, "maxfail", 0) or 0
            self.tell({"collected": [plain(i.nodeid) for i in session.items], "root": self.root, "maxfail": maxfail})

    @guest.hook
    def collecting(self, report):
        if report.failed and not self.elsewhere():
            error, text = _said(str(report.longrepr))
            row = {"id": report.nodeid or ".", "outcome": "failed", "phase": "collect", "error": error, "text": text}
            for op, cause, kind, words, where in tests.refusals():  # of the exception itself nothing but its text is left
                if kind == error and words.split("\n")[0] == text:
                    row.update(op=op, cause=cause, how="raised", where=self.relative(where))
            self.tell(row)

    @guest.hook
    def starts(self, nodeid, location):
        self.id = None
        if self.elsewhere():
            return
        self.line, self.marks = (location[1] or 0) + 1, []
        double = current.double
        if double is not None:
            self.before, self.touched, self.wrong = dict(double.refusals), double.touched, dict(double.wrong)
        self.tell({"start": plain(nodeid), "pid": os.getpid(), "worker": self.worker})

    def begun(self, item):
        tests.Outcomes.begun(self, item)
        self.marks = _marks(item)

    def cause(self, error):
        """tests.cause of an exception of the test that is running: the mark mps_xfail(op=…) asks (python/assay_mps)."""
        return tests.cause(error, self.before)

    def done(self):
        tests.settle()
        row = {"id": plain(self.id), "outcome": self.outcome, "line": self.line, "seconds": round(self.seconds, 6)}
        double = current.double
        if double is not None:
            row["device"] = double.touched != self.touched
            wrong = sorted({fact for key, n in double.wrong.items() if n > self.wrong.get(key, 0) for fact in key[1:]})
            if wrong:
                row["wrong"] = wrong
        if self.marks:
            row["marks"] = self.marks
        if self.outcome == "failed":
            row["phase"] = self.phase
            if self.error is not None:
                row["op"], row["cause"], row["how"] = tests.cause(self.error, self.before)
                row["error"], row["text"] = type(self.error).__name__, str(self.error)[:TEXT]
                row["where"] = self.relative(place.of_error(self.error))
        self.tell(row)

    def relative(self, where):
        return where[len(self.root) + 1 :] if where.startswith(self.root + os.sep) else where

    @guest.hook
    def down(self, node):
        self.tell({"down": node.gateway.id})

    @guest.hook
    def finishing(self, exitstatus):
        self.status = int(exitstatus)

    @guest.hook
    def over(self):
        if not self.worker and self.status is not None:
            self.tell({"end": self.status})


def _said(report):
    """(class of the exception, message) of a module that could not be collected, from the report's text: all there is."""
    lines = [line[2:].strip() for line in report.splitlines() if line.startswith("E ")] or report.strip().splitlines()
    said = lines[-1] if lines else ""
    for line in lines:
        kind, colon, rest = line.partition(": ")
        if colon and kind.replace(".", "").isidentifier():
            return kind.rpartition(".")[2], rest[:TEXT]
    return "", said[:TEXT]


def plain(nodeid):
    """A test's id without what xdist's loadgroup puts behind it."""
    head, at, group = nodeid.rpartition("@")
    return head if at and "]" not in group and "::" not in group and "/" not in group else nodeid


def _ids(path):
    if not path:
        return None
    with open(path) as f:
        return set(json.load(f))


def _marks(item):
    marks = []
    for name in MARKS:
        for mark in item.iter_markers(name):
            row = {"name": name}
            for key in ("op", "until", "min_torch"):
                if key in mark.kwargs:
                    row[key] = str(mark.kwargs[key])
            marks.append(row)
    return marks
