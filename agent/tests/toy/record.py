"""Run train.py under the agent, to which toy has been added as CONTRIBUTING says: a folder, and one line in the list.

python record.py FILE     writes the lines of the stream as assay keeps them in events.jsonl
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
AGENT = os.path.dirname(os.path.dirname(HERE))
LINE = 'FRAMEWORKS = ('


def agent_with_toy(folder):
    """A copy of the agent that knows toy."""
    for part in ("boot", "assay_agent"):
        shutil.copytree(
            os.path.join(AGENT, part), os.path.join(folder, part), ignore=shutil.ignore_patterns("__pycache__")
        )
    watch = os.path.join(folder, "assay_agent", "watch")
    shutil.copytree(
        os.path.join(HERE, "adapter"), os.path.join(watch, "toy"), ignore=shutil.ignore_patterns("__pycache__")
    )
    with open(os.path.join(watch, "frameworks.py"), encoding="utf-8") as f:
        source = f.read()
    assert source.count(LINE) == 1, "one line names the frameworks"
    with open(os.path.join(watch, "frameworks.py"), "w", encoding="utf-8") as f:
        f.write(source.replace(LINE, LINE + '"toy", '))
    return folder


def record():
    """(what the script printed bare, under the agent, the agent's lines)."""
    bare = _run({})
    # A path below the folder for temporary files can be longer than a socket's may be (macOS): tempfile's own is
    # short enough on Linux.
    with tempfile.TemporaryDirectory(prefix="toy") as folder:
        agent_with_toy(folder)
        path = os.path.join(folder, "s")
        server, lines = socket.socket(socket.AF_UNIX), []
        server.bind(path)
        server.listen(1)

        def read():
            connection, _ = server.accept()
            with connection, connection.makefile("r", encoding="utf-8") as stream:
                lines.extend(stream)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        settings = {"socket": path, "run": folder, "on": "auto", "profile": "off", "wall": time.time()}
        watched = _run({"PYTHONPATH": os.path.join(folder, "boot"), "ASSAY_AGENT": json.dumps(settings)})
        reader.join(60)
        server.close()
    return bare, watched, lines


def _run(environ):
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "train.py")],
        env=dict(os.environ, **environ),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def main(path):
    bare, watched, lines = record()
    if bare != watched:
        sys.exit("bare %r, under the agent %r" % (bare, watched))
    start = {
        "ev": "start",
        "id": "toy",
        "wall": "2026-01-02T03:04:05Z",
        "subject": {"kind": "script", "command": ["train.py"], "dir": ""},
        "asked": "auto",
    }
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"c":0,"e":%s}\n' % json.dumps(start, separators=(",", ":")))
        for line in lines:
            f.write('{"c":1,"e":%s}\n' % line.rstrip("\n"))
        f.write(
            '{"c":0,"e":{"ev":"exit","wall":"2026-01-02T03:04:06Z","code":0,"signal":"","stopped":"","trouble":[]}}\n'
        )


if __name__ == "__main__":
    main(sys.argv[1])
