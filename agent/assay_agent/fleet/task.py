"""A task of Ray: makes one run on the node that Ray chose, and sends home what comes of it. Only the standard library.

`assay node keep` does the work: it starts the run, and ends it when its standard input ends, which it does however this
process ends. This process ends the run when it is told to, and when it has heard nothing of the driver for a lease.
"""

import hashlib
import json
import os
import platform
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PIECE = 1 << 20  # bytes of a file that are sent at once
LOOK = 0.25  # seconds between looks at what grew
BEAT = 2.0  # seconds after which it says that it lives, at the latest
END = 30.0  # seconds that a run which was told to end is waited for
# Goes on while the machine sleeps: a lease that ran out under a closed lid has run out. macOS's monotonic one does.
CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def now():
    return time.clock_gettime(CLOCK if CLOCK is not None else time.CLOCK_MONOTONIC)


def system():
    """The platform as Go names it: darwin/arm64."""
    machine = platform.machine().lower()
    return "%s/%s" % (sys.platform, {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine))


def environ():
    """The environment that this node was started in, without what Ray put there: its token, one thread for OpenMP, and no
    CUDA devices."""
    try:
        with open("/proc/self/environ", "rb") as f:
            pairs = [os.fsdecode(e).partition("=") for e in f.read().split(b"\0") if b"=" in e]
        first = {name: value for name, _, value in pairs}
    except OSError:
        first = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")}
    return {k: v for k, v in first.items() if not k.startswith("RAY_")}


def sum_of(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(PIECE), b""):
            h.update(piece)
    return h.hexdigest()


class Refused(Exception):
    """The run could not be started: the text says why."""


def bring(path, mode, wanted, pieces, verify):
    """Has a file at path, of the sum and size that are wanted: nothing is there before all of it is. One that is there
    already is taken where it has that size, and, to verify, that sum. pieces gives its bytes."""
    try:
        there = os.path.getsize(path) == wanted["size"] and (not verify or sum_of(path) == wanted["sum"])
    except OSError:
        there = False
    if there:
        return
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    fd, temp = tempfile.mkstemp(prefix=".new-", dir=os.path.dirname(path))
    try:
        h, size = hashlib.sha256(), 0
        with os.fdopen(fd, "wb") as f:
            for piece in pieces():
                h.update(piece)
                size += len(piece)
                f.write(piece)
            f.flush()
            os.fsync(f.fileno())
        if size != wanted["size"] or h.hexdigest() != wanted["sum"]:
            raise Refused("%s came damaged: %d bytes, and %d were sent" % (os.path.basename(path), size, wanted["size"]))
        os.chmod(temp, mode)
        os.rename(temp, path)
    except BaseException:
        os.unlink(temp)
        raise


class Task:
    """One run. call(method, *arguments) asks the mailbox and raises where it cannot be reached; fetch(ref) gives the bytes
    behind what it names."""

    def __init__(self, job, lease, call, fetch):
        self.job, self.lease, self.call, self.fetch = job, lease, call, fetch
        self.name = job["name"]
        self.heard = now()  # when the driver lived, for certain
        self.said = 0.0
        self.stop = ""
        self.home = False
        self.sent = {}  # file -> bytes of it that are home

    # The mailbox

    def post(self, kind, what=None, body=b""):
        """Sends one thing, however long it takes while the lease lasts. False: the lease ran out."""
        pause = 0.1
        while True:
            at = now()
            try:
                answer = self.call("post", [(self.name, kind, what or {}, body)])
            except Exception:
                answer = None
            if answer is not None:
                self.said = at
                self.heard = max(self.heard, at - answer["quiet"])
                self.stop = self.stop or answer["stop"]
                self.home = answer["home"]
                if not answer["full"]:
                    return True
            if self.late():
                return False
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def late(self):
        """Whether the driver was not heard of for a lease. The run then ends: the driver counts it as lost."""
        if now() - self.heard > self.lease:
            self.stop = self.stop or "lease"
            return True
        return False

    def want(self, blob):
        while True:
            try:
                answer = self.call("want", blob)
            except Exception:
                answer = None
            if answer is not None:
                if answer.get("error"):
                    raise Refused(answer["error"])
                return answer
            self.post("beat")
            if self.stop:
                return None

    # The run

    def prepare(self):
        """The program and the code, on this node. None: it is not wanted any more."""
        root = os.path.expanduser(environ().get("ASSAY_NODE") or "~/.assay-node")
        self.root = os.path.abspath(root)
        for folder in ("", "bin", "blobs", "jobs", "locks"):
            os.makedirs(os.path.join(self.root, folder), 0o700, exist_ok=True)
        program = self.want("binary " + system())
        if program is None:
            return None
        path = os.path.join(self.root, "bin", "assay-%s-%s" % (program["version"], program["sum"][:12]))
        bring(path, 0o700, program, lambda: self.pieces(program), True)
        if self.job.get("code"):
            code = self.want("code " + self.job["code"])
            if code is None:
                return None
            bring(os.path.join(self.root, "blobs", self.job["code"]), 0o600, code, lambda: self.pieces(code), False)
        return path

    def pieces(self, answer):
        for ref in answer["refs"]:
            piece = self.fetch(ref)
            self.post("beat")
            if self.stop:
                raise Refused("it is not wanted any more")
            yield piece

    def run(self, address):
        """All of it. What it returns says why it was not begun, or not seen to its end; "": it was."""
        where = {"host": socket.gethostname(), "address": address, "system": system()}
        if not self.post("begin", where):
            return "lease"
        try:
            program = None if self.stop else self.prepare()
            if program is None or self.stop:
                return self.end({"phase": "ended", "why": self.stop})
            return self.keep(program)
        except (Refused, OSError) as e:
            return self.end({"phase": "ended", "why": self.stop, "error": "" if self.stop else str(e)})

    def keep(self, program):
        job = dict(self.job, python=self.job.get("python") or sys.executable)
        fd, path = tempfile.mkstemp(prefix=".job-", dir=os.path.join(self.root, "jobs"))
        with os.fdopen(fd, "w") as f:
            json.dump(job, f)
        said = tempfile.TemporaryFile()
        keeper = None
        try:
            keeper = subprocess.Popen(
                [program, "node", "keep", "--job", path, "--root", self.root],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=environ(),
                cwd=self.root,
                start_new_session=True,
            )
            state = self.follow(keeper)
        finally:
            os.unlink(path)
            if keeper is not None:
                close(keeper)
        if state is None or state.get("phase") not in ("ended", "lost"):
            said.seek(0)
            last = said.read()[-2000:].decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
            state = dict(state or {}, phase="lost", why=self.stop or "its keeper ended (%s): %s" % (keeper.returncode, last[-1]))
        self.send(state, True)
        return self.end(state)

    def follow(self, keeper):
        """The last state of the run, which is sent home while it goes on."""
        states = queue.Queue()

        def read():
            for line in keeper.stdout:
                try:
                    states.put(json.loads(line))
                except ValueError:
                    pass
            states.put(False)

        threading.Thread(target=read, daemon=True).start()
        state, told, ending = None, None, None
        while True:
            try:
                new = states.get(timeout=LOOK)
                if new is False:  # the keeper has ended
                    return state
                state = new
            except queue.Empty:
                pass
            if state is not None and state.get("phase") in ("ended", "lost"):
                return state
            shown = (state or {}).get("phase"), (state or {}).get("holder")
            if state is not None and shown != told:
                told = shown
                self.post("state", {"state": state})
            self.send(state or {}, False)
            if now() - self.said >= min(BEAT, self.lease / 6):
                self.post("beat")
            self.late()
            if self.stop and ending is None:
                ending = now()
                # Who gives no reason lets go of its input; "interrupted" is what a signal to the keeper means.
                if self.stop == "interrupted":
                    keeper.send_signal(signal.SIGTERM)
                else:
                    keeper.stdin.close()
            if ending is not None and now() - ending > END:
                return state

    def path(self, name):
        folder = os.path.join(self.root, "jobs", self.name)
        return os.path.join(folder, name) if name in ("stdout", "stderr") else os.path.join(folder, "run", name)

    def send(self, state, all_of_it):
        """What files grew by since the last time: those that grow, and in the end all."""
        names = ["events.jsonl", "stdout", "stderr"]
        if all_of_it:
            names += sorted(n for n in state.get("files") or {} if n not in names)
        for name in names:
            try:
                with open(self.path(name), "rb") as f:
                    f.seek(self.sent.get(name, 0))
                    while True:
                        piece = f.read(PIECE)
                        if not piece and name in self.sent:
                            break
                        at = self.sent.get(name, 0)
                        if not self.post("data", {"file": name, "at": at}, piece):
                            return
                        self.sent[name] = at + len(piece)
            except OSError:
                continue

    def end(self, state):
        """Says how it ended, and keeps what it left here until all of it is home; where nobody says so, for good."""
        if self.stop and state.get("why"):
            state = dict(state, why=self.stop)
        if not self.post("ended", {"state": state, "files": self.sent}):
            return "lease"
        while not self.home:
            time.sleep(0.05)
            if not self.post("beat"):
                return "lease"
        if getattr(self, "root", ""):
            self.forget()
        return ""

    def forget(self):
        folder = os.path.join(self.root, "jobs", self.name)
        gone = tempfile.mkdtemp(prefix=".gone-", dir=os.path.join(self.root, "jobs"))
        try:
            os.rename(folder, os.path.join(gone, self.name))
        except OSError:
            pass
        shutil.rmtree(gone, ignore_errors=True)


def close(keeper):
    """Has the keeper end the run, and waits for it."""
    try:
        keeper.stdin.close()
    except OSError:
        pass
    try:
        keeper.wait(END)
    except subprocess.TimeoutExpired:
        pass
