"""What the events beside were recorded of: assay test --releases -- pytest test_suite.py, PyTorch 2.15."""

import pytest
import torch

mps = torch.device("mps")


@pytest.fixture(scope="module")
def rolled():
    return torch.ones(3, 4, device=mps).roll(1)


def test_plain():
    assert (torch.ones(2, device=mps) + 1).sum() == 4


def test_bfloat16():
    torch.ones(3, device=mps, dtype=torch.bfloat16) + 1


def test_fixture_first(rolled):
    assert rolled.shape == (3, 4)


def test_fixture_second(rolled):
    assert rolled.shape == (3, 4)


def test_float64():
    torch.ones(3, device=mps, dtype=torch.float64)


def test_float64_is_refused():
    with pytest.raises(TypeError):
        torch.ones(3, device=mps, dtype=torch.float64)


@pytest.mark.skip
def test_skipped():
    pass


@pytest.mark.xfail
def test_expected():
    torch.linalg.eigh(torch.eye(3, device=mps))


@pytest.mark.xfail(raises=AssertionError)
def test_expected_otherwise():
    torch.linalg.eigh(torch.eye(3, device=mps))


def test_conv3d():
    torch.nn.Conv3d(1, 1, 1).to(mps)(torch.ones(1, 1, 2, 2, 2, device=mps)).sum().backward()


def test_backward_alone():
    x, grid = torch.ones(1, 1, 4, 4, device=mps, requires_grad=True), torch.zeros(1, 2, 2, 2, device=mps)
    torch.nn.functional.grid_sample(x, grid, align_corners=True).sum().backward()
