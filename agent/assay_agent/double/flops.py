"""Floating-point operations of the operators that do nearly all of them, by the rules of torch.utils.flop_counter: a
multiplication and an addition count as two, biases and elementwise operators as none. Written out here because that
module walks trees at each call, and differs from release to release."""


def _mm(args, out):
    a, b = args[0].shape, args[1].shape
    return 2 * a[0] * a[1] * b[1]


def _addmm(args, out):
    return _mm(args[1:3], out)


def _bmm(args, out):
    a, b = args[0].shape, args[1].shape
    return 2 * a[0] * a[1] * a[2] * b[2]


def _baddbmm(args, out):
    return _bmm(args[1:3], out)


def _convolved(small, weight):
    """small: the shape of the smaller picture, the output of a convolution or the input of a transposed one."""
    n = 2 * small[0]
    for d in small[2:]:
        n *= d
    for d in weight:
        n *= d
    return n


def _convolution(args, out):
    return _convolved(args[0].shape if args[6] else out.shape if out is not None else _size(args), args[1].shape)


def _size(args):
    """The shape of a convolution's output, where there is none: that of torch.nn.Conv2d's page."""
    given, weight, _, stride, padding, dilation = args[:6]
    sizes, n = [], given.dim() - 2
    for d in range(n):
        s, p, a = (v[d if len(v) == n else 0] for v in (stride, padding, dilation))
        sizes.append((given.shape[2 + d] + 2 * p - a * (weight.shape[2 + d] - 1) - 1) // s + 1)
    return [given.shape[0], weight.shape[0]] + sizes


def _convolution_backward(args, out):
    # With groups flop_counter counts the weight's gradient as if there were none; it is as much work as the forward
    # pass.
    return _convolved((args[1] if args[7] else args[0]).shape, args[2].shape) * (bool(args[10][0]) + bool(args[10][1]))


def _attention(args, out):
    (b, h, s, d), k, v = args[0].shape, args[1].shape[2], args[2].shape[3]
    return 2 * b * h * s * k * (d + v)


def _attention_backward(args, out):
    (b, h, s, d), k, v = args[1].shape, args[2].shape[2], args[3].shape[3]
    return 2 * b * h * s * k * (3 * d + 2 * v)


_formulas = {
    "aten::mm": _mm, "aten::addmm": _addmm, "aten::bmm": _bmm, "aten::baddbmm": _baddbmm,
    "aten::convolution": _convolution,
    "aten::_convolution": _convolution, "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}


def formula(schema):
    """What counts an operator's floating-point operations: a function of its arguments and result; None where they are
    not counted."""
    return _formulas.get(schema.name) if schema.overload_name in ("", "default") else None
