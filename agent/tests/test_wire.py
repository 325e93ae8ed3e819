"""The stream against a real socket: what is lost costs evidence and nothing else."""

import json
import os
import socket
import threading

import pytest

from assay_agent import wire


class Server:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen(8)
        self.lines, self.connections, self.news = [], [], threading.Condition()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection):
        for line in connection.makefile("rb"):
            with self.news:
                self.lines.append(json.loads(line))
                self.news.notify_all()

    def wait(self, test):
        with self.news:
            assert self.news.wait_for(lambda: test(self.lines), 20), self.lines


@pytest.fixture
def server(tmp_path, monkeypatch):
    for name, value in {"_queue": [], "_sources": [], "_sock": None, "_dropped": 0, "_running": True, "_closed": False, "silent": False}.items():
        monkeypatch.setattr(wire, name, value)  # _running: no thread, the test flushes
    path = str(tmp_path / "s")
    server = Server(path)
    wire.open({"socket": path}, 1)
    server.wait(lambda lines: lines and lines[0]["ev"] == "hello")
    yield server
    server.socket.close()


def test_descriptor_taken_by_the_script(server, tmp_path):
    """The script closes our descriptor and opens a file under its number: nothing of ours is written there."""
    number = wire._sock.fileno()
    theirs = os.open(tmp_path / "theirs", os.O_CREAT | os.O_WRONLY)
    os.dup2(theirs, number)
    wire.put({"ev": "test", "n": 1})
    wire.flush()
    server.wait(lambda lines: {"ev": "test", "n": 1} in lines)
    os.write(number, b"theirs")
    os.close(number)
    os.close(theirs)
    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    assert [line["token"] for line in server.lines if line["ev"] == "hello"] == [server.lines[0]["token"]] * 2


@pytest.mark.parametrize("swept", [False, True])
def test_supervisor_is_killed(server, swept):
    """Nobody listens any more, and never will: no exception, no signal, and nothing gathers for the rest of the script's life."""
    if swept:
        os.unlink(wire.config["socket"])
    server.socket.shutdown(socket.SHUT_RDWR)
    server.socket.close()
    for connection in server.connections:
        connection.shutdown(socket.SHUT_RDWR)
    for n in range(5):
        wire.put({"ev": "test", "n": n})
        wire.flush()
    assert wire._queue == [] and wire._sock is None and wire._closed


def test_too_much_news(server, monkeypatch):
    monkeypatch.setattr(wire, "LIMIT", 3)
    for n in range(10):
        wire.put({"ev": "test", "n": n})
    wire.flush()
    server.wait(lambda lines: {"ev": "dropped", "count": 7} in lines)
