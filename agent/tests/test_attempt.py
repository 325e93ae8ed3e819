"""Trying models: what is asked for, and a process for each model."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from assay_agent import attempt


class Model:
    """What stands for an attempt: answer() is the test's."""
    name = "Net"

    def __init__(self, answer):
        self.answer = answer

    def untried(self):
        return attempt.untried(self.name, True)


def apart(answer, limit=60):
    told = []
    attempt._apart(Model(answer), limit, told.append)
    assert len(told) == 1
    return told[0]


def test_apart_tells_what_happened():
    whole = dict(attempt.untried("Net", True), phase="done", seconds=0.5)
    assert apart(lambda: whole) == whole


def test_apart_crash():
    told = apart(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert told["error"] == attempt.failure("crash", "", "its process ended by signal 9")
    assert told == dict(attempt.untried("Net", True), error=told["error"])


def test_apart_ends_without_an_answer():
    assert apart(lambda: os._exit(0))["error"]["text"] == "its process ended without an answer"
    assert apart(lambda: {"answer": object()})["error"]["kind"] == "crash"


def test_apart_late():
    told = apart(lambda: time.sleep(3600), 0.05)
    assert told["error"] == attempt.failure("late", "", "not done within 0.05 s")


def test_apart_flood():
    told = apart(lambda: "x" * (attempt.LINE + 1))
    assert told["error"] == attempt.failure("crash", "", "its answer is longer than 16 MiB")


def test_texts_are_cut():
    assert len(attempt.failure("", "E", "x" * 5000)["text"]) == attempt.TEXT == len(attempt.note_row("a", "b", "x" * 5000, "", 1)["text"])


def test_a_line_is_one():
    assert attempt.line({"text": "a\nb\u2028c\ud800"}).count("\n") == 1
    assert json.loads(attempt.line({"text": "a\nb"})) == {"text": "a\nb"}


@pytest.mark.parametrize("text, want", [
    ("1,3,224,224", ("", [1, 3, 224, 224], "float32")), ("1x3", ("", [1, 3], "float32")), ("ids:8x128", ("ids", [8, 128], "int64")),
    ("batch.mask:8x128", ("batch.mask", [8, 128], "int64")), ("x:2,3:float16", ("x", [2, 3], "float16")), ("label:4", ("label", [4], "int64")),
    ("x:scalar", ("x", [], "float32")), ("2,:torch.int8", ("", [2], "int8")),
])
def test_inputs(text, want):
    assert attempt.parse_input(text) == want


@pytest.mark.parametrize("text", ["", "2;3", "a:b:c", "2,3:float16:more", "1.5", "a b:2", "-1", "x:", "2,,3"])
def test_inputs_refused(text):
    with pytest.raises(attempt.Refused) as refused:
        attempt.parse_input(text)
    assert refused.value.kind == "input" and "--input %s: " % text in str(refused.value)


def test_args():
    assert attempt._literals(["width=64", "name=relu", "sizes=[1, 2]", "on=True", "text='a b'"]) == {
        "width": 64, "name": "relu", "sizes": [1, 2], "on": True, "text": "a b"}
    for text in ("width", "=3", "a b=3", "x=a.b", "x=f()", "x="):
        with pytest.raises(attempt.Refused) as refused:
            attempt._literals([text])
        assert refused.value.kind == "args"


def test_another_version_is_refused(tmp_path):
    """Before anything is imported or said."""
    command = ["sh", "-c", 'exec "$0" "$1" 3> "$2"', sys.executable, attempt.__file__, str(tmp_path / "wire")]
    done = subprocess.run(command, input='{"version": 3}', capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "a request of version 3, and this is version 2" in done.stderr
    assert (tmp_path / "wire").read_text() == ""
