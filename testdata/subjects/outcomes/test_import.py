# A module that cannot be imported where MPS has no float64.
import torch

DEVICE = "mps" if torch.backends.mps.is_available() else "cpu"
TABLE = torch.zeros(3, dtype=torch.float64, device=DEVICE)


def test_table():
    assert TABLE.sum().item() == 0
