"""Have the CPU compute convolutions and matrix products as a GPU does with TF32: of inputs that are rounded to 10 bits of mantissa, to the nearest.

What is recorded are the operators as the script called them. Used by train.py --tf32.
"""

import torch

aten, library = torch.ops.aten, torch.library.Library("aten", "IMPL")


def rounded(t):
    if t is None or t.dtype != torch.float32:
        return t
    bits = t.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def convolution(x, w, bias, *rest):
    return aten._convolution.default(rounded(x), rounded(w), bias, *rest, False, False, True, False)


def convolution_backward(g, x, w, _, stride, padding, dilation, transposed, __, groups, mask):
    """Of two dimensions, without dilation: what PyTorch's own slow kernel can, group by group."""
    assert not transposed and dilation == [1, 1], "another convolution than this wrapper is made for"
    parts = zip(*(rounded(t).chunk(groups, dim) for t, dim in ((g, 1), (x, 1), (w, 0))))
    made = [aten._slow_conv2d_backward.output_mask(*part, list(w.shape[2:]), stride, padding, [mask[0], mask[1], False]) for part in parts]
    return (torch.cat([m[0] for m in made], 1) if mask[0] else None, torch.cat([m[1] for m in made]) if mask[1] else None,
            g.sum([0, 2, 3]) if mask[2] else None)


def product(a, b):
    return torch.from_numpy(rounded(a).numpy() @ rounded(b).numpy())


def addmm(bias, a, b, *, beta=1, alpha=1):
    return beta * bias + alpha * product(a, b)


def install(products=False):
    library.impl("convolution", convolution, "CPU")
    library.impl("convolution_backward", convolution_backward, "CPU")
    if products:
        library.impl("mm", product, "CPU")
        library.impl("bmm", product, "CPU")
        library.impl("addmm", addmm, "CPU")
