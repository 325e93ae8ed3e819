"""examples/msinet: pictures are fitted as TensorFlow 1 does it, a VGG16 is the same network there, and training goes on."""

import os
import sys

import numpy
import pytest
import torch

EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "msinet")


@pytest.fixture
def example(monkeypatch):
    """The modules of the example, by name."""
    monkeypatch.syspath_prepend(EXAMPLE)
    names = ("pictures", "weights", "msinet_torch")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield lambda name: __import__(name)
    for name in names:
        sys.modules.pop(name, None)


# What tf.compat.v1.image.resize_area and resize_bicubic gave with align_corners=True (TensorFlow 2.21.0).
AREA = [[99.667, 99.667, 136.667, 136.667, 88.333, 88.333, 125.333, 125.333, 77.0],
        [142.667, 142.667, 94.333, 94.333, 131.333, 131.333, 83.0, 83.0, 120.0],
        [86.0, 86.0, 123.0, 123.0, 160.0, 160.0, 197.0, 197.0, 234.0]]
BICUBIC = [[0.0, 21.531, 53.0, 79.5, 106.0, 137.469, 159.0],
           [150.223, 67.116, -0.719, 20.883, 80.725, 114.861, 133.725],
           [221.719, 148.826, 70.777, 37.906, 43.275, 67.196, 96.275],
           [168.0, 213.531, 221.0, 119.5, 18.0, 25.469, 71.0]]


def test_pictures_are_resized_as_tensorflow_1_does_it(example):
    shrunk = (numpy.arange(35) * 37 % 256).reshape(7, 5, 1)
    grown = (numpy.arange(12) * 53 % 256).reshape(3, 4, 1)
    pictures = example("pictures")
    assert numpy.abs(pictures.resized(shrunk, 3, 9)[:, :, 0] - AREA).max() < 2e-3
    assert numpy.abs(pictures.resized(grown, 4, 7)[:, :, 0] - numpy.clip(BICUBIC, 0, 255)).max() < 2e-3


def test_a_photograph_is_framed_and_its_map_is_cut_to_it(example, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pictures = example("pictures")
    image.fromarray(numpy.full((30, 50, 3), 200, "uint8")).save(str(tmp_path / "photo.png"))
    framed, size = pictures.read(str(tmp_path / "photo.png"), 40, 40)
    assert framed.shape == (1, 40, 40, 3) and size == (30, 50)
    assert (framed[0, 8:32] == 200).all() and (framed[0, :8] == 126).all() and (framed[0, 32:] == 126).all()
    saliency = numpy.zeros((40, 40))
    saliency[8:32] = 1
    pictures.write(str(tmp_path / "map.png"), saliency, size)
    written = numpy.asarray(image.open(str(tmp_path / "map.png")))
    assert written.shape == (30, 50) and (written[2:-2] == 255).all()


@pytest.mark.full_set
def test_an_encoder_of_torchvision_s_is_the_same_network(example, tmp_path):
    weights = example("weights")
    random = numpy.random.RandomState(3)
    held = {name: array for name, array in weights.drawn(4).items() if name.startswith("conv")}
    path = str(tmp_path / "encoder.npz")
    numpy.savez(path, **held)
    begun = weights.begun(path, torchvision=True)
    assert len(begun) == 46 and not begun["decoder.conv4.bias"].any()
    x = torch.from_numpy(random.uniform(0, 255, (1, 3, 9, 9)))
    mean, deviation = (torch.tensor(v, dtype=torch.float64).view(3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))

    def conv(x, of):
        return torch.nn.functional.conv2d(x, *(torch.from_numpy(of["conv1.conv1_1." + part]).double() for part in ("weight", "bias")))

    own = conv((x / 255 - mean) / deviation, held)  # as torchvision's is used
    here = conv(x - torch.from_numpy(weights.MEANS).view(3, 1, 1), begun)
    assert torch.allclose(own, here, rtol=1e-5, atol=1e-5)


def test_what_is_no_encoder_is_one_error(example, tmp_path):
    path = str(tmp_path / "some.npz")
    numpy.savez(path, other=numpy.zeros(3))
    with pytest.raises(ValueError, match="conv1.conv1_1.weight is not there"):
        example("weights").begun(path, torchvision=True)


@pytest.mark.full_set
def test_training_goes_on_where_it_stopped(example, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MSINET_SIZE", "16x16")
    net, pictures = example("msinet_torch"), example("pictures")
    images, maps = (torch.from_numpy(a.transpose(0, 3, 1, 2).copy()) for a in pictures.drawn(2))
    batches = [(images[i : i + 1], maps[i : i + 1]) for i in range(2)]
    for path, epochs in (("cut", 1), ("cut", 2), ("whole", 2)):
        net.train(net.model(), batches, epochs, str(tmp_path / path))
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 4 and said[1] == said[3] and said[1].startswith("epoch 2 of 2")
