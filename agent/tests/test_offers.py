"""What `assay try --all` takes for a model of a package or a file."""

import importlib.util
import os
import textwrap

import pytest

torch = pytest.importorskip("torch")

ATTEMPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "assay_agent", "attempt.py")


@pytest.fixture(scope="module")
def attempt():
    spec = importlib.util.spec_from_file_location("attempt_offers", ATTEMPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_helpers_are_no_models(attempt, tmp_path):
    path = tmp_path / "nets.py"
    path.write_text(textwrap.dedent("""
        import abc
        from torch import nn

        class Block(nn.Module):  # a part of Net
            def __init__(self, width=4):
                super().__init__()
                self.layer = nn.Linear(width, width)

            def forward(self, x):
                return self.layer(x)

        class Base(nn.Module):  # no forward
            pass

        class Abstract(nn.Module, abc.ABC):
            @abc.abstractmethod
            def forward(self, x): ...

        class Net(Base):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Block() for _ in range(3)])

            def forward(self, x):
                for block in self.blocks:
                    x = block(x)
                return x

        class Wide(Net):  # names Net, which it is one of
            def __init__(self):
                Net.__init__(self)

        class Needs(nn.Module):
            def __init__(self, width):
                super().__init__()

            def forward(self, x):
                return x

        class Loss(nn.MSELoss):
            pass
        """))
    assert [name for name, _ in attempt._offers(torch, str(path))] == ["Net", "Wide"]


@pytest.mark.full_set
def test_builders_of_a_part_of_torchvision(attempt):
    vision = pytest.importorskip("torchvision")
    names = [name for name, _ in attempt._offers(torch, "torchvision.models.detection")]
    assert names == vision.models.list_models(module=vision.models.detection)
    offered = dict(attempt._offers(torch, "torchvision.models.segmentation"))
    offered["lraspp_mobilenet_v3_large"]()  # without weights to be downloaded
