import functools
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "agent"))
TABLES = os.path.join(ROOT, "internal", "atlas", "tables")

# One thread: what is computed here is small, and beside other programs the threads of PyTorch's operators wait for each
# other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# As internal/testkit/set.go has it. What the short set leaves out is a skip that says so; the full set also starts an
# interpreter for every rehearsal, where the short one forks.
FULL = os.environ.get("ASSAY_TEST") == "full"


def pytest_configure(config):
    config.addinivalue_line("markers", "full_set: left out of the short set")


def pytest_collection_modifyitems(items):
    for item in items:
        if not FULL and item.get_closest_marker("full_set"):
            item.add_marker(pytest.mark.skip(reason="left out of the short set; to run it: ASSAY_TEST=full go test "
                                                    "./agent"))


class Forks:
    """Scripts in forks of one interpreter that has imported torch: internal/testkit/forks.py."""

    def __init__(self, folder):
        self.stdout, self.stderr = str(folder / "stdout"), str(folder / "stderr")
        self.process = subprocess.Popen([sys.executable, "-W", "ignore::DeprecationWarning",
                                         os.path.join(ROOT, "internal", "testkit", "forks.py"), "torch",
                                         "torch._dynamo"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))

    def run(self, script, env):
        """Run the script to its end: returncode, stdout, stderr, as of subprocess.run."""
        self.process.stdin.write(json.dumps({"script": str(script), "dir": os.getcwd(), "environ": env,
                                             "stdout": self.stdout, "stderr": self.stderr, "quick": True}) + "\n")
        self.process.stdin.flush()
        status = json.loads(self.process.stdout.readline())["status"]
        with open(self.stdout) as out, open(self.stderr) as err:
            return SimpleNamespace(returncode=os.waitstatus_to_exitcode(status), stdout=out.read(), stderr=err.read())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def forks(tmp_path_factory):
    pytest.importorskip("torch")
    served = Forks(tmp_path_factory.mktemp("forks"))
    yield served
    served.close()


def column(file, series):
    cells = {}
    with open(os.path.join(TABLES, file)) as lines:
        for line in lines:
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "operator":
                at = words.index(series)
            elif words[at] != ".":
                cells[words[0]] = words[at]
    return cells


class Watched:
    """What a watched script printed and what the agent said of it."""

    def __init__(self, printed, events):
        self.printed, self.events = printed, events

    def all(self, ev):
        return [e for e in self.events if e["ev"] == ev]

    def one(self, ev):
        found = self.all(ev)
        assert len(found) == 1, (ev, found)
        return found[0]

    def column(self, name):
        """A column of all steps; of a phase that of its name."""
        return [v for e in self.all("steps") for v in (e[name] if name in e else e["phases"][name])]


@pytest.fixture(scope="session")
def watch(tmp_path_factory, forks):
    """watch(code, **settings): run code as a script under the agent, with those settings; Watched. The script begins
    with torch imported."""
    folder = tmp_path_factory.mktemp("watched")

    def run(code, **settings):
        path, lines = str(folder / "socket"), []
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
        script = folder / "script.py"
        agent = os.path.join(ROOT, "agent")
        head = "import sys; sys.path.insert(0, %r); import assay_agent; assay_agent.start()\n" % agent
        script.write_text(head + textwrap.dedent(code).lstrip("\n"))
        config = {"socket": path, "run": str(folder), "on": "auto", "profile": "off", "wall": time.time()}
        config.update(settings)
        done = forks.run(script, dict(os.environ, CUDA_VISIBLE_DEVICES="", ASSAY_AGENT=json.dumps(config)))
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        acceptor.join()
        os.unlink(path)
        assert done.returncode == 0, done.stderr
        watched = Watched(done.stdout.splitlines(), [json.loads(line) for line in lines])
        watched.folder = folder
        return watched

    return run


@pytest.fixture(scope="session")
def double_settings(tmp_path_factory):
    """double_settings(release, vision, **more): what the Go side tells the agent of a double (docs/formats/double.md),
    from the same tables."""
    folder = tmp_path_factory.mktemp("tables")

    @functools.lru_cache(None)
    def table(release, vision):
        series = ".".join(release.split(".")[:2])
        structured = {}
        with open(os.path.join(TABLES, "generated.txt")) as lines:
            for line in lines:
                words = line.split()
                if words[0] != "#" and words[1] == "structured":
                    structured[words[0]] = words[2]
        ops = column("torch.txt", series)
        ops.update(column("torchvision.txt", vision))
        path = folder / (release + ".json")
        path.write_text(json.dumps({
            "ops": ops, "structured": structured, "lacks": {}, "autocast": column("autocast.txt", series),
            "sparse": column("sparse.txt", series), "commit": "0" * 40,
            "beside": {"torchvision": vision + ".0"}}))
        return str(path)

    def settings(release="2.8.0", vision="0.23", **more):
        return dict({
            "release": release, "series": [int(n) for n in release.split(".")[:2]], "macos": [15, 0], "chip": "m1-16gb",
            "memory": 16 << 30, "recommended": None, "cores": 8, "chip_name": "Apple M1", "shape_only": False,
            "table": table(release, vision)}, **more)

    return settings


@pytest.fixture(scope="session")
def rehearse(tmp_path_factory, forks, double_settings):
    """rehearse(code, release): run code on a double of that release, without the Go side; what it printed. Each run is
    a process of its own: what is put into torch stays there. fresh=True starts a new interpreter, for what a fork
    cannot have."""
    folder = tmp_path_factory.mktemp("double")

    def run(code, release="2.8.0", vision="0.23", fresh=False, **more):
        settings = double_settings(release, vision, **more)
        script = folder / "script.py"
        script.write_text(textwrap.dedent("""
            import sys
            sys.path.insert(0, %r)
            import torch
            from assay_agent import wire
            from assay_agent.double import install
            wire.put = lambda event: None
            double = install.install(torch, %r)
            def fails(call):
                try:
                    call()
                except Exception as error:
                    print(type(error).__name__, error)
                else:
                    print("no error")
            """) % (os.path.join(ROOT, "agent"), settings) + textwrap.dedent(code))
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="")
        if fresh or FULL:
            done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", str(script)],
                                  capture_output=True, text=True, env=env)
        else:
            done = forks.run(script, env)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
