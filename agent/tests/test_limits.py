"""What the limits of some Macs are, against what Macs printed themselves."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = os.path.join(os.path.dirname(__file__), "..", "assay_agent", "limits.py")


def asked(*macs, **environ):
    answer = subprocess.run(
        [sys.executable, "-I", PROGRAM],
        input=json.dumps([{"memory": gib << 30, "macos": macos} for gib, macos in macs]),
        env=dict(os.environ, **environ), capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


@pytest.mark.parametrize("gib, macos, working_set, most", [
    (8, [14, 0], None, "9.07"),  # datalab-to/surya #254
    (16, [13, 2], "10922.67", "18.13"),  # abetlen/llama-cpp-python #687, Langchain-Chatchat #533
    (24, [15, 0], None, "27.20"),  # Comfy-Org/ComfyUI #7440
    (64, [14, 0], None, "81.60"),  # BoBo0037/bobo-fun #8
])
def test_limits_are_those_that_macs_printed(gib, macos, working_set, most):
    (mac,) = asked((gib, macos))
    assert "%.2f" % (mac["high"] / 2**30) == most
    if working_set:
        assert abs(mac["recommended"] / 2**20 - float(working_set)) < 0.02
    assert mac["ground"] == "observed" and mac["seen"]
    assert mac["low"] < mac["high"]


def test_the_largest_buffer_is_that_which_macs_printed():
    seen, derived, unknown = asked((16, [26, 5]), (96, [15, 0]), (96, [26, 0]))
    assert (seen["largest_buffer"], seen["largest_ground"]) == (9534832640, "observed") and "M4" in seen["largest_seen"]
    assert (derived["largest_buffer"], derived["largest_ground"]) == (54 << 30, "derived")
    assert not derived["largest_seen"]
    assert unknown["largest_buffer"] is None


def test_what_is_not_known_is_null_and_the_ratio_is_the_environments():
    unknown, known = asked((96, [26, 0]), (16, [15, 0]), PYTORCH_MPS_HIGH_WATERMARK_RATIO="0.0")
    assert unknown["recommended"] is None and unknown["high"] is None and unknown["low"] is None
    assert known["recommended"] and known["high"] is None and known["high_ratio"] == 0
