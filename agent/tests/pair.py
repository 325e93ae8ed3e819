"""A script bare and under the agent, for tests of frameworks that the tests' own environment need not have."""

import difflib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

AGENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What TensorFlow writes of itself at the start has the time in it.
STAMPED = re.compile(r"[IWE]\d{4} \d\d:\d\d|[IWE]0000 00:00:|WARNING: All log messages before absl|\d{4}-\d\d-\d\d ")


def python_with(module, variable):
    """A Python that has the module: the one that the variable names, or this one; None where there is none."""
    if os.environ.get(variable):
        return os.environ[variable]
    try:
        return sys.executable if importlib.util.find_spec(module) else None
    except ModuleNotFoundError:
        return None


class Seen:
    """What the agent said of a script."""

    def __init__(self, printed, events):
        self.printed, self.events = printed, events

    def all(self, ev):
        return [e for e in self.events if e["ev"] == ev]

    def column(self, name):
        """A column of all steps; of a phase that of its name."""
        return [v for e in self.all("steps") for v in (e[name] if name in e else e["phases"][name])]

    def losses(self):
        return [(s, v) for e in self.all("loss") for s, v in zip(e["step"], e["value"])]

    def waits(self):
        """{(call, line's number): (calls, within steps)}."""
        return {(row[0], int(row[1].rpartition(":")[2] or 0)): (row[3], row[6])
                for e in self.all("syncs") for row in e["rows"]}

    def compiled(self):
        """{function: times}."""
        return {row[0]: row[1] for e in self.all("compiles") for row in e["rows"]}


def see(python, code, **environ):
    """The script bare and under the agent, started with that Python: both must give the same; Seen."""
    with tempfile.TemporaryDirectory(prefix="pair") as folder:
        script = os.path.join(folder, "train.py")
        with open(script, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(code).lstrip("\n"))
        environ = dict({"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3",
                        "KERAS_HOME": folder}, **environ)
        bare = _run(python, script, environ)
        path, lines = os.path.join(folder, "s"), []
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen(4)

        def read():
            connection, _ = server.accept()
            with connection, connection.makefile("r", encoding="utf-8") as stream:
                lines.extend(stream)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        settings = {"socket": path, "run": folder, "on": "auto", "profile": "off", "wall": time.time()}
        boot = os.pathsep.join(filter(None, [os.path.join(AGENT, "boot"), environ.get("PYTHONPATH")]))
        watched = _run(python, script, dict(environ, PYTHONPATH=boot, ASSAY_AGENT=json.dumps(settings)))
        reader.join(60)
        server.close()
    for one, other in zip(bare, watched):  # status, output, and what is written of errors
        both = [str(text).splitlines() for text in (one, other)]
        assert one == other, "\n".join(difflib.unified_diff(*both, lineterm=""))
    seen = Seen(bare[1].splitlines(), [json.loads(line) for line in lines])
    assert seen.all("trouble") == []
    return seen


def _run(python, path, environ):
    done = subprocess.run([python, path], env=dict(os.environ, **environ), capture_output=True, text=True, check=False)
    errors = "\n".join(line for line in done.stderr.splitlines() if not STAMPED.match(line))
    return done.returncode, done.stdout, errors
