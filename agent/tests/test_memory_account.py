"""The double's account of memory against the peaks that an NVIDIA GPU measured: tools/double/memory.py has all
workloads."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
TOOLS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools", "double")

with open(os.path.join(TOOLS, "testdata", "memory-h200.json")) as f:
    MEASURED = {w["name"]: w["peak_allocated"] for w in json.load(f)["workloads"]}


# Momentum and batch norm; attention, autocast and AdamW; dropout, tied weights and tensors of an optimizer one by one.
@pytest.mark.parametrize("name", [pytest.param("resnet18-sgd-8", marks=pytest.mark.full_set),
                                  pytest.param("vit_b_16-adamw-bf16-64", marks=pytest.mark.full_set),
                                  pytest.param("plain_gpt-adamw-8", marks=pytest.mark.full_set)])
def test_peak_is_that_of_a_gpu(name):
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 11):
        pytest.skip("the GPU's PyTorch was 2.11; older ones have other operators for attention")
    run = subprocess.run([sys.executable, os.path.join(TOOLS, "memory.py"), "--one", name], capture_output=True, text=True, env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
    assert run.returncode == 0, run.stderr[-2000:]
    assert json.loads(run.stdout.splitlines()[-1])["allocated"] == pytest.approx(MEASURED[name], rel=0.05)
