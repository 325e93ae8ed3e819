"""The line of an error is the user's innermost, on every Python that is here; what the script prints of it stays as it is.

The oracle is the traceback that the bare script prints: the line is one of those in it."""

import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

AGENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOTEBOOK = os.path.join(AGENT, "assay_agent", "notebook.py")

# A function of a library's: its file is one of the standard library's.
LIBRARY = """
import json.decoder
def library(source):
    names = {}
    exec(compile(source, json.decoder.__file__, "exec"), names)
    return names["call"]
"""

# name -> (script, line, first Python that has it)
CASES = {
    "plain": ("def f():\n    return 1 / 0\nf()\n", 2, 9),
    "library": ("import json\ndef f():\n    json.loads('{')\nf()\n", 3, 9),
    "cause": ("def f():\n    return {}['x']\ntry:\n    f()\nexcept KeyError as e:\n    raise OSError('x') from e\n", 6, 9),
    "wrapped": (LIBRARY + """
call = library('''def call(f):
    try:
        f()
    except Exception as error:
        raise RuntimeError("call failed") from error
''')
def mine():
    return [][3]
call(mine)
""", 15, 9),
    "wrapped without a word": (LIBRARY + """
call = library('''def call(f):
    try:
        f()
    except Exception:
        raise RuntimeError("call failed")
''')
def mine():
    return [][3]
call(mine)
""", 15, 9),
    "not of it": (LIBRARY + """
call = library('''def call():
    raise RuntimeError("of its own")
''')
try:
    [][3]
except IndexError:
    call()
""", 14, 9),
    "worker of a pool": ("""
import concurrent.futures
def work(x):
    return x / 0
if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        pool.submit(work, 1).result()
""", 4, 9),
    "worker": ("""
import multiprocessing
def work(x):
    return x / 0
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(work, [1])
""", 4, 9),
    "thread": ("""
import concurrent.futures
def work(x):
    return x / 0
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    pool.submit(work, 1).result()
""", 4, 9),
    # torch/_utils.py, ExceptionWrapper.reraise
    "worker of a loader": (LIBRARY + """
import traceback
def work(x):
    return x / 0
try:
    work(1)
except ZeroDivisionError:
    said = "Caught ZeroDivisionError in DataLoader worker process 0.\\nOriginal " + traceback.format_exc()
call = library('''def call(said):
    raise ZeroDivisionError(said)
''')
call(said)
""", 10, 9),
    "executed": ("def f():\n    exec('x = 1\\ny = x / 0\\n')\nf()\n", 2, 9),
    "generated": ("def f():\n    exec(compile('1 / 0', '<generated>', 'exec'))\nf()\n", 2, 9),
    "made class": ("import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n    a: int\nC(1).a = 2\n", 5, 9),
    "cannot be read": ("x = 1\ndef f(:\n    pass\n", 2, 9),
    "elsewhere": ("import os\nos.chdir('/')\ndef f():\n    raise ValueError\nf()\n", 4, 9),
    "interrupted": ("def f():\n    raise KeyboardInterrupt\nf()\n", 2, 9),
    "group": ("""
def leaf():
    raise ValueError("leaf")
def gather():
    errors = []
    for _ in range(2):
        try:
            leaf()
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("several", errors)
gather()
""", 3, 11),
    "tasks": ("""
import asyncio
async def leaf():
    await asyncio.sleep(0)
    raise ValueError("leaf")
async def main():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(leaf())
asyncio.run(main())
""", 5, 11),
}

def interpreter(minor):
    """A Python 3.minor on the path, or one that pyenv keeps; None where there is none."""
    kept = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.%d.*/bin/python3" % minor)))
    return kept[-1] if kept else shutil.which("python3.%d" % minor)


PYTHONS = [pytest.param(sys.executable, sys.version_info[1], id="this")]
for minor in range(9, 15):
    found = interpreter(minor)
    if minor != sys.version_info[1]:
        PYTHONS.append(pytest.param(found, minor, id="3.%d" % minor, marks=[pytest.mark.full_set]))


def execute(python, words, folder):
    """(what it printed, its status, the agent's events) of a command bare and under the agent."""
    bare = subprocess.run([python] + words, capture_output=True, text=True, cwd=folder)
    with tempfile.TemporaryDirectory(prefix="errors") as short:
        path, lines = os.path.join(short, "s"), []
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen(8)

        def read(connection):
            with connection, connection.makefile("rb") as stream:
                lines.extend(stream)

        def accept():
            readers = []
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    break
                readers.append(threading.Thread(target=read, args=(connection,)))
                readers[-1].start()
            for reader in readers:
                reader.join()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        settings = {"socket": path, "run": short, "on": "auto", "profile": "off", "wall": time.time()}
        environ = dict(os.environ, PYTHONPATH=os.path.join(AGENT, "boot"), ASSAY_AGENT=json.dumps(settings))
        watched = subprocess.run([python] + words, capture_output=True, text=True, cwd=folder, env=environ)
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        acceptor.join()
    return bare, watched, [json.loads(line) for line in lines]


def runs(python):
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip("this Python is not here")


@pytest.mark.parametrize("python, minor", PYTHONS)
def test_where_it_failed(python, minor, tmp_path):
    runs(python)
    for name, (source, line, since) in CASES.items():
        if minor < since:
            continue
        script = tmp_path / "script.py"
        script.write_text(source)
        bare, watched, events = execute(python, ["script.py"], str(tmp_path))
        assert (watched.stdout, watched.returncode) == (bare.stdout, bare.returncode), name
        assert watched.stderr == bare.stderr, name
        (error,) = [e for e in events if e["ev"] == "error"]
        assert error["where"] == "%s:%d" % (script, line), name
        assert 'script.py", line %d' % line in bare.stderr, name
        if name == "worker of a loader":
            assert error["text"] == ("Caught ZeroDivisionError in DataLoader worker process 0: "
                                     "ZeroDivisionError: division by zero")
        assert not [e for e in events if e["ev"] == "trouble"], name


@pytest.mark.parametrize("python, minor", PYTHONS)
def test_other_ways_to_start(python, minor, tmp_path):
    runs(python)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "part.py").write_text("def f():\n    return 1 / 0\nf()\n")
    for words, where in ((["-m", "package.part"], "%s:2" % (tmp_path / "package" / "part.py")),
                         (["-c", "def f():\n    return 1 / 0\n\nf()"], "<string>:2")):
        bare, watched, events = execute(python, words, str(tmp_path))
        assert (watched.stderr, watched.returncode) == (bare.stderr, bare.returncode)
        assert [e["where"] for e in events if e["ev"] == "error"] == [where]


@pytest.mark.parametrize("python, minor", PYTHONS)
def test_a_notebook_shows_its_cells_alone(python, minor, tmp_path):
    runs(python)
    cells = [{"cell_type": "code", "source": s} for s in ("x = 0\n", "def f():\n    return 1 / x\n", "f()\n")]
    (tmp_path / "book.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}))
    _, watched, events = execute(python, [NOTEBOOK, "book.ipynb"], str(tmp_path))
    assert re.findall(r'File "[^"]*?([^"/]*)", line (\d+)', watched.stderr) == [("book.ipynb[3]", "1"), ("book.ipynb[2]", "2")]
    assert [e["where"] for e in events if e["ev"] == "error"] == ["%s[2]:2" % (tmp_path / "book.ipynb")]


THREAD = """
import threading
def work():
    raise ValueError("in a thread")
for _ in range(25):
    one = threading.Thread(target=work, name="worker")
    one.start()
    one.join()
quiet = threading.Thread(target=exit)
quiet.start()
quiet.join()
threading.excepthook(threading.ExceptHookArgs((KeyError, None, None, threading.main_thread())))
"""


@pytest.mark.parametrize("python, minor", PYTHONS)
def test_a_thread_that_fails(python, minor, tmp_path):
    runs(python)
    (tmp_path / "script.py").write_text(THREAD)
    bare, watched, events = execute(python, ["script.py"], str(tmp_path))
    assert watched.stderr == bare.stderr and "in a thread" in bare.stderr
    assert (watched.stdout, watched.returncode) == (bare.stdout, bare.returncode)
    told = [e for e in events if e["ev"] == "thread_error"]
    assert told == [{"ev": "thread_error", "thread": "worker", "type": "ValueError", "text": "in a thread",
                     "where": "%s:4" % (tmp_path / "script.py")}] * 20
    assert not [e for e in events if e["ev"] in ("error", "trouble")]


COMPILED = """
import torch
@torch.compile(backend="eager")
def f(x):
    torch.manual_seed(1)
    return x + torch.rand(2)
print(f(torch.zeros(2)))
"""


@pytest.mark.full_set
def test_no_code_of_the_scripts_is_held_at_the_end(tmp_path):
    """dynamo is told of the end of compiled code by what is gone by then, where somebody holds that code for longer."""
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(COMPILED)
    bare, watched, events = execute(sys.executable, ["script.py"], str(tmp_path))
    assert (watched.stdout, watched.stderr) == (bare.stdout, bare.stderr) and bare.returncode == 0
    assert [row[:2] for row in [e for e in events if e["ev"] == "seeds"][-1]["rows"]] == [["torch.manual_seed", "1"]]
