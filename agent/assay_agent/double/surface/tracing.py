"""torch.jit.trace records what conv2d calls, _convolution, and not convolution (tools/autograd/gen_trace_type.py,
DONT_RECORD_TRACE); a dispatch mode takes convolution, so that nothing would be recorded. While a trace is made, the
functions call _convolution themselves."""

import functools

import torch

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    F = torch.nn.functional

    def recorded(original, n, transposed):
        def each(value):
            return [value] * n if isinstance(value, int) else list(value) * (n if len(value) == 1 else 1)

        def transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
            return input, weight, bias, stride, padding, dilation, output_padding, groups

        def plain(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
            return input, weight, bias, stride, padding, dilation, 0, groups

        def conv(*args, **kwargs):
            given = transpose if transposed else plain
            input, weight, bias, stride, padding, dilation, output_padding, groups = given(*args, **kwargs)
            if isinstance(padding, str) or input.dim() != n + 2:
                return original(*args, **kwargs)
            return torch._convolution(input, weight, bias, each(stride), each(padding), each(dilation), transposed,
                                      each(output_padding), groups, False, False, True, True)

        return conv

    names = [("conv%s%dd" % (kind, n), n, bool(kind)) for n in (1, 2, 3) for kind in ("", "_transpose")]

    def wrapped(call):
        @functools.wraps(call)
        def traced(*args, **kwargs):
            before = [(owner, name, getattr(owner, name)) for owner in (F, torch) for name, _, _ in names]
            for owner in (F, torch):
                for name, n, transposed in names:
                    setattr(owner, name, recorded(getattr(owner, name), n, transposed))
            try:
                return call(*args, **kwargs)
            finally:
                for owner, name, original in before:
                    setattr(owner, name, original)

        return traced

    for owner in (torch.jit, torch.jit._trace):
        for name in ("trace", "trace_module", "_get_trace_graph"):
            if hasattr(owner, name):
                setattr(owner, name, wrapped(getattr(owner, name)))
