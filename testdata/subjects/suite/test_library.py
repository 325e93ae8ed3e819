# A library's test suite: on MPS where there is MPS, else on the CPU. Run it with pytest.
import os
import unittest
import warnings

import pytest
import torch

import library

DEVICE = os.environ.get("SUITE_DEVICE") or ("mps" if torch.backends.mps.is_available() else "cpu")


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(8, 8, device=DEVICE)


@pytest.fixture
def precise():
    return torch.zeros(2, dtype=torch.float64, device=DEVICE)


@pytest.fixture
def counted(x):
    yield x
    assert x.double().numel() == 64


def test_passes(x):
    layer = torch.nn.Linear(8, 2).to(DEVICE)
    layer(x).sum().backward()
    assert layer.weight.grad.device.type == DEVICE


def test_wrong_anywhere(x):
    assert x.sum().item() == 1e9


def test_missing(x):
    assert library.spectrum(x).shape == (8,)


def test_missing_behind_another_error(x):
    assert library.careful_spectrum(x).shape == (8,)


def test_missing_and_swallowed(x):
    assert library.quiet_spectrum(x) is not None


def test_missing_is_what_is_wanted(x):
    if DEVICE == "mps":
        with pytest.raises(NotImplementedError):
            library.spectrum(x)


def test_float64(x):
    assert library.precise_mean(x).dtype == torch.float64


def test_cuda(x):
    x.cuda()


def test_mixed_devices(x):
    assert library.smooth(x).shape == x.shape


def test_numpy(x):
    assert x.numpy().shape == (8, 8)


def test_fallback(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.linalg.svd(x).S.shape == (8,)


@pytest.mark.filterwarnings("error")
def test_fallback_with_warnings_as_errors(x):
    assert torch.linalg.svd(x).S.shape == (8,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_dtype(dtype):
    assert torch.ones(3, dtype=dtype, device=DEVICE).sum().item() == 3


@pytest.mark.parametrize("size", [6, 7])
def test_pool(size):
    assert torch.nn.functional.adaptive_avg_pool2d(torch.ones(1, 1, size, size, device=DEVICE), 3).shape[-1] == 3


def test_fixture_fails(precise):
    assert precise.sum().item() == 0


def test_teardown_fails(counted):
    assert counted.shape == (8, 8)


@pytest.mark.xfail(reason="known to fail")
def test_known_to_fail(x):
    assert library.precise_mean(x).dtype == torch.float32


@pytest.mark.xfail(reason="was repaired")
def test_repaired(x):
    assert x.shape == (8, 8)


@pytest.mark.skip(reason="not ready")
def test_skipped(x):
    library.spectrum(x)


def test_skips_itself(x):
    pytest.skip("not today")


class Older(unittest.TestCase):
    def setUp(self):
        self.x = torch.ones(4, 4, device=DEVICE)

    def test_sum(self):
        self.assertEqual(self.x.sum().item(), 16)

    def test_eigenvalues(self):
        self.assertEqual(library.spectrum(self.x).shape, (4,))

    @unittest.expectedFailure
    def test_expected(self):
        library.precise_mean(self.x)
        self.fail("always")


def test_wrong_and_passes(x):
    assert library.mix(x).shape == (8, 4)
