"""What runs on the nodes of a Ray cluster, without Ray: the mailbox, and a task with a keeper that is a script."""

import asyncio
import hashlib
import json
import os
import stat
import sys
import textwrap

import pytest

from assay_agent.fleet import mailbox, ray_driver, task


def test_mail_is_kept_until_it_has_come():
    async def story():
        box = mailbox.Mailbox()
        first = await box.post([("a", "begin", {}, b"")])
        assert first["stop"] == "" and not first["home"] and not first["full"]
        await box.post([("a", "data", {"at": 0}, b"xy")])
        hand, _ = await box.take(0, {}, 0)
        assert [item[1] for _, item in hand] == ["begin", "data"]
        again, _ = await box.take(hand[0][0], {"a": {"stop": "cancelled"}}, 0)
        assert again == hand[1:], "of what was not said to have come nothing is lost"
        empty, _ = await box.take(hand[1][0], {}, 0.01)
        assert empty == [] and box.size == 0
        assert (await box.post([("a", "beat", {}, b"")]))["stop"] == "cancelled"
        await box.take(9, {"a": {"home": True}}, 0)
        told = await box.post([("a", "beat", {}, b"")])
        assert told["home"] and told["stop"] == "cancelled"
        await box.take(9, {"a": None}, 0)
        assert not box.orders

    asyncio.run(story())


def test_a_full_mailbox_takes_nothing_and_says_so(monkeypatch):
    monkeypatch.setattr(mailbox, "PATIENCE", 0.01)

    async def story():
        box = mailbox.Mailbox(space=10)
        assert not (await box.post([("a", "data", {}, b"x" * 20)]))["full"]
        assert (await box.post([("a", "data", {}, b"y")]))["full"]
        hand, _ = await box.take(0, {}, 0)
        assert len(hand) == 1
        await box.take(hand[0][0], {}, 0)
        assert not (await box.post([("a", "data", {}, b"y")]))["full"]

    asyncio.run(story())


def test_a_blob_is_asked_for_once_and_an_error_is_no_answer_for_ever(monkeypatch):
    monkeypatch.setattr(mailbox, "PATIENCE", 0.01)

    async def story():
        box = mailbox.Mailbox()
        assert await box.want("code 1") is None
        assert await box.want("code 1") is None
        assert (await box.take(0, {}, 0))[1] == ["code 1"]
        await box.give("code 1", {"refs": [7]})
        assert (await box.want("code 1"))["refs"] == [7]
        waits = asyncio.ensure_future(box.want("code 2"))
        await asyncio.sleep(0)
        await box.give("code 2", {"error": "it is gone"})
        assert (await waits)["error"] == "it is gone"
        assert await box.want("code 2") is None, "asked for anew"
        assert (await box.take(0, {}, 0))[1] == ["code 2"]

    asyncio.run(story())


def test_a_file_is_whole_or_not_there(tmp_path):
    path = str(tmp_path / "bin" / "assay")
    wanted = {"sum": hashlib.sha256(b"program").hexdigest(), "size": 7}
    with pytest.raises(task.Refused):
        task.bring(path, 0o700, wanted, lambda: [b"prog", b"rbm"], True)
    assert os.listdir(tmp_path / "bin") == []
    task.bring(path, 0o700, wanted, lambda: [b"prog", b"ram"], True)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    task.bring(path, 0o700, wanted, lambda: pytest.fail("it is there"), True)
    with open(path, "wb") as f:
        f.write(b"progrbm")
    task.bring(path, 0o700, wanted, lambda: [b"program"], True)
    with open(path, "rb") as f:
        assert f.read() == b"program"


KEEPER = """\
    #!%s
    import json, os, sys, threading
    job = json.load(open(sys.argv[sys.argv.index("--job") + 1]))
    folder = os.path.join(sys.argv[sys.argv.index("--root") + 1], "jobs", job["name"])
    os.makedirs(os.path.join(folder, "run"))
    def say(**state):
        print(json.dumps(state), flush=True)
    with open(os.path.join(folder, "stdout"), "w") as f:
        f.write("RAY_AUTH_TOKEN" in os.environ and "leaked" or "hello")
    say(phase="running", files={})
    if job["command"] == ["dies"]:
        print("out of luck", file=sys.stderr)
        os._exit(3)
    if job["command"] == ["waits"]:
        sys.stdin.read()
        say(phase="ended", exit=143, why="whoever started it has gone", files={"stdout": 5})
        sys.exit(0)
    with open(os.path.join(folder, "run", "evidence.json"), "w") as f:
        f.write("{}")
    say(phase="ended", exit=0, files={"stdout": 5, "evidence.json": 2})
"""


class Home:
    """The mailbox as a task sees it, with a program to be had."""

    def __init__(self, tmp_path):
        self.program = textwrap.dedent(KEEPER % sys.executable).encode()
        self.said, self.order, self.away = [], {}, False
        self.tmp = tmp_path

    def call(self, method, *arguments):
        if self.away:
            raise ConnectionError("no answer")
        if method == "want":
            if "error" in self.order:
                return {"error": self.order["error"]}
            sum256 = hashlib.sha256(self.program).hexdigest()
            return {"sum": sum256, "size": len(self.program), "version": "v1", "refs": [self.program]}
        ((_, kind, what, body),) = arguments[0]
        self.said.append((kind, what, body))
        if kind == "state":
            self.order.update(self.order.pop("then", {}))
            self.away = self.order.get("away", False)
        return {"stop": self.order.get("stop", ""), "home": kind == "beat", "quiet": 0.0, "full": False}

    def last(self):
        return [what for kind, what, _ in self.said if kind == "ended"][-1]["state"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(task, "environ", lambda: {"ASSAY_NODE": str(tmp_path / "node"), "PATH": os.environ["PATH"]})
    monkeypatch.setattr(task, "LOOK", 0.02)
    return Home(tmp_path)


def run(home, *command, lease=20):
    job = {"name": "q-1-a1", "command": list(command), "device": "cpu"}
    return task.Task(job, lease, home.call, lambda ref: ref).run("10.0.0.1")


def test_a_run_comes_home_and_leaves_nothing(home):
    assert run(home, "python") == ""
    assert home.last()["exit"] == 0
    files = {what["file"]: body for kind, what, body in home.said if kind == "data" and body}
    assert files == {"stdout": b"hello", "evidence.json": b"{}"}
    assert [kind for kind, _, _ in home.said][0] == "begin"
    assert os.listdir(home.tmp / "node" / "jobs") == []
    (program,) = os.listdir(home.tmp / "node" / "bin")
    assert program.startswith("assay-v1-")


def test_a_run_that_is_stopped_says_by_what(home):
    home.order["then"] = {"stop": "cancelled"}
    assert run(home, "waits") == ""
    assert home.last() == {"phase": "ended", "exit": 143, "why": "cancelled", "files": {"stdout": 5}}


def test_a_run_that_is_not_wanted_is_not_begun(home):
    home.order["stop"] = "interrupted"
    assert run(home, "python") == ""
    assert home.last() == {"phase": "ended", "why": "interrupted"}
    assert not os.path.exists(home.tmp / "node")


def test_a_run_ends_where_the_driver_is_not_heard_of(home):
    home.order["then"] = {"away": True}
    assert run(home, "waits", lease=0.2) == "lease"
    assert os.listdir(home.tmp / "node" / "jobs") == ["q-1-a1"], "what it left stays"


def test_no_program_for_the_node_is_why_it_could_not_be_started(home):
    home.order["error"] = "no assay for plan9/mips is here"
    assert run(home, "python") == ""
    assert home.last()["error"] == "no assay for plan9/mips is here"


def test_a_keeper_that_ends_by_itself_is_a_run_that_is_lost(home):
    assert run(home, "dies") == ""
    assert home.last()["phase"] == "lost" and "out of luck" in home.last()["why"]


def test_what_ray_puts_into_a_process_is_not_handed_on(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    assert not any(name.startswith("RAY_") for name in task.environ())


def test_errors_of_ray_are_told_apart():
    for text, kind in (
        ("Version mismatch: The cluster was started with: Ray: 2.59.0", "version"),
        ("The client and server Python versions must match", "version"),
        ("UNAUTHENTICATED: Invalid or missing authentication token", "token"),
        ("RuntimeError: Starting Ray client server failed. See", "lost"),
        ("no such thing", "connect"),
    ):
        assert ray_driver.classified(RuntimeError(text)).kind == kind


def test_nodes_have_room_for_as_many_as_each_resource_allows():
    nodes = [
        {"Alive": True, "Resources": {"mps": 2.0, "m4": 1.0}, "NodeManagerHostname": "a", "NodeManagerAddress": "1"},
        {"Alive": True, "Resources": {"mps": 1.0}},
        {"Alive": False, "Resources": {"mps": 1.0}},
    ]
    assert [n["amount"] for n in ray_driver.counted(nodes, ["mps"])] == [2, 1, 0]
    assert [n["amount"] for n in ray_driver.counted(nodes, ["mps", "m4"])] == [1, 0, 0]
    assert json.dumps(ray_driver.counted(nodes, ["mps"]))
