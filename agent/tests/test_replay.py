"""What a replay draws, refuses, and calls the same. The oracle of what is equal is torch.testing.assert_close, of what an
operator gives the operator itself; files from others are written by hand."""

import io
import json

import pytest

torch = pytest.importorskip("torch")

from assay_agent.replay import compare, known, values, worker  # noqa: E402

BOUND = 64 << 20


@pytest.fixture
def replayer():
    request = {"device": "cpu", "double": None, "home": "cpu", "seed": 0, "timed": False, "memory": BOUND}
    return worker.Replayer(torch, request, io.StringIO())


def tensor(shape, dtype="float32", stride=None, offset=0, storage=None, **more):
    if stride is None:
        stride = [1] * len(shape)
        for i in reversed(range(len(shape) - 1)):
            stride[i] = stride[i + 1] * shape[i + 1]
    if storage is None:
        storage = offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else 0
    given = {"shape": shape, "stride": stride, "offset": offset, "dtype": dtype, "layout": "strided", "storage": storage,
             "device": "cpu", "range": [-1, 1], "values": "floats"}
    return {"t": dict(given, **more)}


def call(name, *args, alias=(), **kwargs):
    op, _, overload = name.partition(".")
    return {"op": op, "overload": overload, "args": list(args), "kwargs": kwargs, "alias": list(alias)}


def replayed(replayer, name, *args, **kwargs):
    done = replayer.replay(0, call(name, *args, **kwargs))
    return done["outcome"], done["text"]


def ints(*numbers):
    return {"l": list(numbers)}


HUGE = 1 << 30
HOSTILE = [
    ("a namespace of files", call("prims::collapse", tensor([2])), "operators of prims"),
    ("TorchScript's prims", call("prim::Print", 1), "operators of prim"),
    ("quantized", call("quantized::linear", tensor([2])), "operators of quantized"),
    ("Python's own names", call("aten::__class__", tensor([2])), "no operator of this name"),
    ("a dictionary", call("aten::__dict__.get", "x"), "no operator of this name"),
    ("a path of attributes", call("aten::add.Tensor.redispatch", tensor([2])), "no operator"),
    ("an attribute of an operator", call("aten::add.op", tensor([2])), "no operator"),
    ("an import", call("aten::load_library.default", "x.so"), "no operator"),
    ("a file that is mapped", call("aten::from_file", "/etc/passwd", None, 10), "it maps a file"),
    ("a file that is written", call("aten::save", 1, "/tmp/x"), "TorchScript's own"),
    ("a text that is printed", call("aten::warn", "x", 2), "TorchScript's own"),
    ("a storage", call("aten::set_.source_Storage", tensor([2]), 0), "takes a storage"),
    ("one that ends the process", call("aten::_assert_async", tensor([1])), "end the process"),
    ("a shape without end", call("aten::relu", tensor([HUGE, HUGE])), "bound"),
    ("a storage without end", call("aten::relu", tensor([2], storage=HUGE)), "bound"),
    ("strides beyond the storage", call("aten::relu", tensor([4, 4], stride=[100, 1], storage=16)), "reaches element"),
    ("an offset beyond it", call("aten::relu", tensor([4], offset=13, storage=16)), "reaches element"),
    ("a stride below zero", call("aten::relu", tensor([4], stride=[-1], storage=4)), "a stride is -1"),
    ("a size that is no number", call("aten::relu", tensor([True], stride=[1], storage=4)), "a size is True"),
    ("a type that is none", call("aten::relu", tensor([4], dtype="os")), "has no type"),
    ("a type by a path", call("aten::relu", tensor([4], dtype="nn.Module")), "has no type"),
    ("another layout", call("aten::relu", tensor([4], layout="sparse_coo")), "are not drawn"),
    ("too many dimensions", call("aten::relu", tensor([1] * 65)), "more than 64 dimensions"),
    ("storages that differ", call("aten::add.Tensor", tensor([4]), tensor([4], storage=9), alias=[[0, 1]]), "different sizes"),
    ("an alias of nothing", call("aten::relu", tensor([4]), alias=[[0, 7]]), "aliases"),
    ("a result without end", call("aten::ones", ints(1 << 20, 1 << 20)), "bound"),
    ("a repeat without end", call("aten::repeat", tensor([1000]), ints(1 << 20)), "bound"),
    ("an outer product", call("aten::mul.Tensor", tensor([100_000, 1]), tensor([1, 100_000])), "bound"),
    ("a range without end", call("aten::arange", 1e12), "bound"),
    ("an argument of no kind", call("aten::relu", {"code": "1"}), "an argument is of kind"),
    ("what is no replayable argument", call("aten::relu", {"symbol": "a stream"}), "cannot be replayed: a stream"),
]


# What meta tensors are asked of imports sympy, which takes seconds.
LONG = ("a repeat without end", "an outer product")


@pytest.mark.parametrize("what,signature,says", [
    pytest.param(*h, id=h[0].replace(" ", "-"), marks=[pytest.mark.full_set] if h[0] in LONG else []) for h in HOSTILE])
def test_a_strangers_file_does_no_harm(replayer, monkeypatch, what, signature, says):
    monkeypatch.setattr(replayer, "on_cpu", lambda *a: pytest.fail("it was called"))
    done = replayer.replay(0, signature)
    assert done["outcome"] == "not_replayed" and says in done["text"]


def test_depth_and_length_are_bounded(replayer):
    deep = 1
    for _ in range(values.DEPTH + 2):
        deep = ints(deep)
    for given, says in ((deep, "deeper than"), (ints(*range(values.LISTED + 1)), "a list of more than"),
                        ("x" * 1001, "a text of")):
        assert says in replayer.replay(0, call("aten::relu", given))["text"]


def test_views_lie_as_they_were_recorded():
    a = values.Arguments(call("aten::add.Tensor", tensor([3, 2], stride=[1, 4], offset=2, storage=16),
                              tensor([2, 2], stride=[0, 1], offset=1, storage=16), other=tensor([4], "int64", range=[5, 7], values="ints"),
                              alias=[[0, 1]]), "cpu")
    storages = a.draw(3)
    x, y, z = a.views(storages)
    assert (x.shape, x.stride(), x.storage_offset()) == ((3, 2), (1, 4), 2)
    assert y.stride() == (0, 1) and x.data_ptr() - 2 * 4 == y.data_ptr() - 1 * 4  # one storage
    assert x.untyped_storage().nbytes() == 64
    assert z.dtype is torch.int64 and 5 <= int(z.min()) and int(z.max()) <= 7
    again = a.draw(3)
    assert all(torch.equal(s, t) for s, t in zip(storages, again))
    assert not torch.equal(a.draw(4)[0], again[0])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8", "uint8", "int64", "bool", "complex64"])
def test_values_lie_in_the_range(dtype):
    for kind, span in (("floats", [0.25, 0.5]), ("ints", [1, 3]), ("zero", [0, 0]), ("one", [1, 1]), ("constant", [3, 3]), ("nan", [0, 1])):
        if dtype in ("int8", "uint8", "int64", "bool") and kind in ("floats", "nan"):
            continue
        t = values.Described(tensor([400], dtype, range=span, values=kind)["t"], 0)
        drawn = values.Arguments._drawn(t, 1)
        assert drawn.dtype is t.dtype and len(drawn) == 400
        if dtype == "bool":
            continue
        real = torch.view_as_real(drawn) if drawn.dtype.is_complex else drawn
        seen = real.double()[~torch.isnan(real.double())]
        if not drawn.dtype.is_complex or kind not in ("zero", "one"):
            assert span[0] <= float(seen.min()) and float(seen.max()) <= span[1]
        assert bool(torch.isnan(real.double()).any()) == (kind == "nan")
        if kind == "ints":
            assert len(seen.unique()) == 3


# Operators that need more than a range: each runs on the CPU, and two computations of it agree.
CALLS = [
    call("aten::linalg_cholesky_ex", tensor([2, 5, 5])), call("aten::linalg_inv_ex", tensor([6, 6])),
    call("aten::_linalg_solve_ex", tensor([4, 4]), tensor([4, 2])), call("aten::_linalg_eigh", tensor([5, 5])),
    call("aten::_linalg_svd", tensor([5, 3])), call("aten::linalg_qr", tensor([5, 3])), call("aten::linalg_eig", tensor([4, 4])),
    call("aten::multinomial", tensor([10]), 3), call("aten::sort", tensor([50])), call("aten::topk", tensor([4, 9]), 3),
    call("aten::max.dim", tensor([3, 7]), 1), call("aten::argmax", tensor([30])),
    call("aten::index_put_", tensor([5]), ints(tensor([4], "int64", range=[0, 4], values="ints")), tensor([4])),
    call("aten::scatter.src", tensor([3, 4]), 1, tensor([3, 4], "int64", range=[0, 3], values="ints"), tensor([3, 4])),
    call("aten::gather", tensor([3, 4]), 1, tensor([3, 2], "int64", range=[0, 900], values="ints")),
    call("aten::embedding", tensor([10, 4]), tensor([3], "int64", range=None, values="unknown")),
    call("aten::_embedding_bag", tensor([10, 4]), tensor([9], "int64", range=[0, 9], values="ints"),
         tensor([4], "int64", range=[1, 8], values="ints")),
    call("aten::searchsorted.Tensor", tensor([9]), tensor([4])),
    call("aten::max_pool2d_with_indices_backward", tensor([1, 1, 2, 2]), tensor([1, 1, 4, 4]), ints(2, 2), ints(2, 2), ints(0, 0),
         ints(1, 1), False, tensor([1, 1, 2, 2], "int64", range=[0, 15], values="ints")),
    call("aten::native_layer_norm_backward", tensor([3, 4]), tensor([3, 4]), ints(4), tensor([3, 1]), tensor([3, 1]), tensor([4]),
         tensor([4]), ints(True, True, True)),
    call("aten::bernoulli", tensor([300], range=[0.2, 0.4])), call("aten::empty.memory_format", ints(3, 4)),
    call("aten::mm", tensor([40, 300], "float16"), tensor([300, 5], "float16")), call("aten::_local_scalar_dense", tensor([])),
    call("aten::_local_scalar_dense", tensor([], "int64", range=[7700000000000000000, 7700000000000000000], values="ints")),  # a seed
    call("aten::add_.Tensor", tensor([4], stride=[2]), tensor([4])), call("aten::abs.out", tensor([4]), out=tensor([4])),
    call("aten::relu", tensor([0, 3])), call("aten::fft_fft", tensor([8]), None, -1, None),
]


@pytest.mark.parametrize("signature", CALLS, ids=[c["op"] for c in CALLS])
def test_two_computations_agree(replayer, signature):
    done = replayer.replay(7, signature)
    assert (done["outcome"], done["cpu"]) == ("ok", "ok"), done


class Faulty:
    """An operator that is wrong on the device: `fault` changes what the right one gave."""

    def __init__(self, op, fault):
        self._schema, self.tags, self.op, self.fault = op._schema, op.tags, op, fault

    def __call__(self, *args, **kwargs):
        made = self.op(*args, **kwargs)
        return self.fault(made) if worker.stage[0] == "device" else made


FAULTS = [
    ("by more than the tolerance", call("aten::exp", tensor([9])), lambda t: t * (1 + 1e-4), "wrong"),
    ("by less than it", call("aten::exp", tensor([9])), lambda t: t * (1 + 1e-7), "ok"),
    ("one element", call("aten::exp", tensor([1000])), lambda t: t.index_fill(0, torch.tensor([77]), 0.0), "wrong"),
    ("NaN where there is none", call("aten::exp", tensor([9])), lambda t: t.index_fill(0, torch.tensor([7]), float("nan")), "wrong"),
    ("an integer by one", call("aten::add.Tensor", tensor([9], "int32", range=[0, 9], values="ints"), 1), lambda t: t + 1, "wrong"),
    ("a bool", call("aten::gt.Scalar", tensor([9]), 0), lambda t: ~t, "wrong"),
    ("a shape", call("aten::exp", tensor([9])), lambda t: t[None], "wrong"),
    ("a type", call("aten::exp", tensor([9])), lambda t: t.double(), "wrong"),
    ("a sum in another order", call("aten::sum", tensor([100_000])), lambda t: t + 1e-3 * 2 ** -10, "ok"),
    ("a sum that lacks a term", call("aten::sum", tensor([100_000])), lambda t: t + 1, "wrong"),
    ("half rounded as the CPU does not", call("aten::mm", tensor([8, 512], "bfloat16"), tensor([512, 8], "bfloat16")), lambda t: t, "ok"),
    ("a sign of vectors", call("aten::_linalg_eigh", tensor([5, 5])), lambda o: (o[0], -o[1]), "ok"),
    ("an eigenvalue", call("aten::_linalg_eigh", tensor([5, 5])), lambda o: (o[0] + 1e-2, o[1]), "wrong"),
    ("a draw", call("aten::rand", ints(500)), lambda t: torch.rand(500), "ok"),
    ("a draw from elsewhere", call("aten::rand", ints(500)), lambda t: t + 3, "wrong"),
    ("memory that nobody wrote", call("aten::empty.memory_format", ints(4)), lambda t: t.fill_(7), "ok"),
    ("places of a sort", call("aten::argmax", tensor([30])), lambda t: t + 1, "wrong"),
    ("a number", call("aten::_local_scalar_dense", tensor([1])), lambda x: x + 1, "wrong"),
    ("an argument that is written", call("aten::add_.Tensor", tensor([4]), tensor([4])), lambda t: t.add_(1), "wrong"),
    ("complex by its imaginary part", call("aten::exp", tensor([9], "complex64")), lambda t: t + 0.1j, "wrong"),
]


@pytest.mark.parametrize("what,signature,fault,outcome", FAULTS, ids=[f[0].replace(" ", "-") for f in FAULTS])
def test_what_departs_is_found(replayer, monkeypatch, what, signature, fault, outcome):
    right = replayer.operator
    monkeypatch.setattr(replayer, "operator", lambda s: Faulty(right(s), fault))
    done = replayer.replay(5, signature)
    assert done["outcome"] == outcome, done


def test_tolerances_are_pytorchs_own():
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.int32):
        for scale in (0, 1e-8, 1e-6, 2e-6, 1e-5, 1e-3, 1e-2):
            want = (torch.rand(50, generator=generator) * 4).to(dtype)
            got = (want.to(torch.complex128 if dtype.is_complex else torch.float64) * (1 + scale)).to(dtype)
            try:
                torch.testing.assert_close(got, want, equal_nan=True)
                same = True
            except AssertionError:
                same = False
            assert (compare.departs(got, want) is None) == same, (dtype, scale)


def test_what_the_cpu_refuses_says_nothing_of_the_device(replayer):
    outcome, text = replayed(replayer, "aten::mm", tensor([2, 3]), tensor([2, 3]))
    assert outcome == "not_replayed" and "the CPU refuses the values that were drawn" in text


def test_every_entry_names_an_operator():
    """A misspelt name would never be found again."""
    spaces = {name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    plain = {known.base("aten::" + name) for name in spaces} | spaces
    absent = [n for n in [*known.MAKE, *known.UNIQUE, *known.FORM_ALONE, *known.UNWRITTEN, *known.SUMS, *known.REFUSED] if n not in plain]
    assert absent in ([], ["cholesky"])  # which later releases have not


def test_answers_are_lines_of_json(replayer):
    done = replayer.replay(3, call("aten::relu", tensor([2])))
    assert json.loads(json.dumps(done)) == done
    said = [json.loads(line) for line in replayer.out.getvalue().splitlines()]
    assert [s["at"] for s in said] == ["draw", "cpu", "device", "compare"] and {s["n"] for s in said} == {3}
