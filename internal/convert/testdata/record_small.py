"""Writes convert.safetensors, as PyTorch has it: a convolution, and a dense layer behind a flatten of 16x3x3."""
import numpy
from safetensors.numpy import save_file  # 0.8.0

rng = numpy.random.default_rng(3)
shapes = {"c.weight": (16, 8, 3, 3), "c.bias": (16,), "d.weight": (10, 144), "d.bias": (10,)}
save_file({name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()},
          "../../weights/testdata/convert.safetensors", metadata={"format": "pt"})
