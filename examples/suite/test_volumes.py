"""A small suite, as a library of volumes would have it: `pytest --mps=2.8` says which of its tests fail on a Mac, and why."""

import numpy
import pytest
import torch
import torch.nn.functional as F

device = "mps" if torch.backends.mps.is_available() else "cpu"


def volume(n=1):
    return torch.rand(n, 1, 4, 4, 4, device=device)


def test_convolution():
    assert F.conv3d(volume(), torch.ones(1, 1, 3, 3, 3, device=device)).shape == (1, 1, 2, 2, 2)


@pytest.mark.parametrize("n", [1, 2])
def test_warp(n):
    grid = F.affine_grid(torch.eye(3, 4, device=device).expand(n, 3, 4), (n, 1, 4, 4, 4), align_corners=False)
    assert F.grid_sample(volume(n), grid, align_corners=False).shape == (n, 1, 4, 4, 4)


def test_pooling_is_differentiable():
    x = volume().requires_grad_()
    F.max_pool3d(x, 2).sum().backward()
    assert x.grad.sum() == 8


def test_spacing():
    spacing = torch.from_numpy(numpy.linspace(0.5, 1.5, 3))
    assert spacing.to(device).sum() == 3


def test_names():
    assert "volume".upper() == "VOLUME"
