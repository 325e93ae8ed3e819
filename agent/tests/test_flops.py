"""Floating-point operations of operators, against PyTorch's own counter."""

import pytest

torch = pytest.importorskip("torch")
flop_counter = pytest.importorskip("torch.utils.flop_counter")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from assay_agent.double import flops  # noqa: E402


class Count(TorchDispatchMode):
    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        count = flops.formula(func._schema)
        if count is not None:
            self.total += count(args, out)
        return out


def attention():
    q, k, v = (torch.randn(2, 3, n, 8, requires_grad=True) for n in (5, 7, 7))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


CASES = {
    "linear": lambda: torch.nn.Linear(8, 5)(torch.randn(4, 8, requires_grad=True)),
    "bmm": lambda: torch.bmm(torch.randn(3, 4, 5, requires_grad=True), torch.randn(3, 5, 6, requires_grad=True)),
    "baddbmm": lambda: torch.baddbmm(torch.randn(3, 4, 6), torch.randn(3, 4, 5, requires_grad=True),
                                     torch.randn(3, 5, 6)),
    "convolution": lambda: torch.nn.Conv2d(3, 6, 3, stride=2, padding=1)(torch.randn(2, 3, 9, 9, requires_grad=True)),
    "convolution of an input without gradient": lambda: torch.nn.Conv1d(3, 6, 3)(torch.randn(2, 3, 9)),
    "transposed convolution": lambda: torch.nn.ConvTranspose2d(3, 6, 3,
                                                               stride=2)(torch.randn(2, 3, 5, 5, requires_grad=True)),
    "attention": attention,
}


@pytest.mark.parametrize("name", CASES)
def test_as_pytorch_counts(name):
    def run():
        torch.manual_seed(0)
        CASES[name]().sum().backward()

    with flop_counter.FlopCounterMode(display=False) as theirs:
        run()
    with Count() as ours:
        run()
    if name == "attention" and theirs.get_total_flops() == 0:
        pytest.skip("this release does not count the CPU's attention")
    assert ours.total == theirs.get_total_flops() > 0


def test_a_grouped_convolutions_backward_is_twice_its_forward():
    layer, x = torch.nn.Conv2d(8, 8, 3, groups=8), torch.randn(2, 8, 16, 16, requires_grad=True)
    with Count() as forward:
        out = layer(x)
    with Count() as backward:
        out.sum().backward()
    assert backward.total == 2 * forward.total == 2 * 2 * 2 * 8 * 14 * 14 * 9


def test_what_is_refused_and_what_is_wrong_is_counted(rehearse):
    """The oracle of what a refused convolution would have been is the same convolution, not refused."""
    printed = rehearse("""
        def rows():
            return {row["op"]: row for row in next(double.events())["rows"]}
        a, w = torch.ones(2, 3, 9, 8), torch.ones(4, 3, 3, 3)
        for dtype in (torch.float32, torch.int64):
            x, y = a.to("mps", dtype), w.to("mps", dtype)
            for more in ({}, {"stride": 2, "padding": (1, 0)}, {"dilation": 2}):
                try:
                    torch.nn.functional.conv2d(x, y, **more)
                except Exception as error:
                    print(type(error).__name__)
        row = rows()["aten::convolution"] if "aten::convolution" in rows() else rows()["aten::_convolution"]
        print(row["n"], row["refused"], row["flops"] == row["refused_flops"], row["flops"] > 0)
        try:
            torch.ones(2, 2, device="mps", dtype=torch.float64)
        except TypeError as error:
            print("refused")
        print(sum(row.get("refused", 0) for row in rows().values()))
    """)
    assert printed[-3:] == ["6 3 True True", "refused", "4"], printed


def test_bfloat16_is_told_apart(rehearse):
    """In bfloat16 by itself, under autocast, and in the backward pass; not in float16 nor in float32."""
    printed = rehearse("""
        a, b = (torch.ones(8, 8, device="mps", requires_grad=True) for _ in range(2))
        torch.mm(a.bfloat16(), b.bfloat16())
        torch.mm(a.half(), b.half())
        with torch.autocast("mps", dtype=torch.bfloat16):
            y = torch.mm(a, b)
        y.sum().backward()
        torch.mm(a, b)
        print([(row["flops"], row["bf16_flops"]) for row in next(double.events())["rows"] if row["op"] == "aten::mm"])
    """)
    assert printed == ["[(%d, %d)]" % (6 * 2 * 8**3, 4 * 2 * 8**3)]


def test_what_comes_out_wrong_is_counted(rehearse):
    """conv-channels-over-65536 in internal/facts/rows/convolution.toml, and the same call with one channel."""
    printed = rehearse("""
        x = torch.ones(1, 1, 2, device="mps")
        for channels in (65537, 1):
            torch.nn.functional.conv1d(x, torch.ones(channels, 1, 1, device="mps"))
        rows = [row for row in next(double.events())["rows"] if "wrong" in row]
        print([(row["n"], row["wrong"], row["wrong_flops"], row["flops"], 0 < row["wrong_ns"] < row["cpu_ns"])
               for row in rows])
    """, release="2.4.1", vision="0.19")
    assert printed == ["[(2, 1, %d, %d, True)]" % (2 * 2 * 65537, 2 * 2 * 65538)]
