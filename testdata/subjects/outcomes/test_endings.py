# Each way in which a test can end that takes more than itself along. Run it with assay test.
import os
import signal
import time

import pytest
import torch

DEVICE = "mps" if torch.backends.mps.is_available() else "cpu"


@pytest.fixture(scope="session")
def broken():
    raise ConnectionError("no server")


def test_first():
    assert torch.ones(2, device=DEVICE).sum().item() == 2


def test_leaves():
    if DEVICE == "mps":
        os._exit(0)


def test_between():
    assert torch.ones(2, device=DEVICE).sum().item() == 2


def test_falls():
    if DEVICE == "mps":
        os.kill(os.getpid(), signal.SIGSEGV)


def test_aborts_anywhere():
    os.abort()


def test_hangs():
    if DEVICE == "mps":
        time.sleep(1000)


def test_needs_the_server(broken):
    pass


def test_has_no_tensor():
    assert 1 + 1 == 2


@pytest.mark.parametrize("word", ["a b", "é@x", "[x]::y", "a/b", "new\nline", ""])
def test_word(word):
    assert torch.ones(1, device=DEVICE).item() == 1


def test_subtests(subtests):
    for n in range(3):
        with subtests.test(n=n):
            assert torch.tensor(n, device=DEVICE).item() != 1


@pytest.mark.xfail(strict=True, reason="was repaired")
def test_strict():
    pass


def test_last():
    assert torch.ones(2, device=DEVICE).sum().item() == 2
