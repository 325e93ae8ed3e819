"""The double's guards, one by one: a Double is made and its parts are asked, with nothing put into torch. Tensors are
the CPU's, marked as MPS's."""

import json

import pytest

torch = pytest.importorskip("torch")

from assay_agent.double import errors, flops, generators, kernels, refuse, shapes  # noqa: E402
from assay_agent.double.current import current, inside, state  # noqa: E402
from assay_agent.double.double import Double  # noqa: E402

aten = torch.ops.aten
MPS, META, CUDA = torch.device("mps", 0), torch.device("meta"), torch.device("cuda")


@pytest.fixture
def make(double_settings, tmp_path):
    """make(ops, release, **settings): a Double whose table has these operators, or the release's own where none are
    given. structured, lacks and sparse replace those of the table, and environ the environment."""
    def made(ops=None, release="2.8.0", environ=(), **more):
        parts = {k: more.pop(k) for k in ("structured", "lacks", "sparse") if k in more}
        settings = double_settings(release, {"2.8": "0.23", "2.2": "0.17"}.get(release[:3], "0.29"), **more)
        with open(settings["table"]) as f:
            table = dict(json.load(f), **parts)
        table["ops"] = table["ops"] if ops is None else ops
        settings["table"] = str(tmp_path / "table.json")
        with open(settings["table"], "w") as f:
            json.dump(table, f)
        return Double(settings, dict(environ))

    return made


def on(double, *tensors):
    """The tensors, on the double's MPS."""
    for t in tensors:
        double.place.mark(t)
    return tensors if len(tensors) > 1 else tensors[0]


def call(double, func, *args, **kwargs):
    return double.dispatch.dispatch(func, args, kwargs)


def refusal(double, func, *args, **kwargs):
    """(cause, class, text) of what the call is refused with, as the double keeps it."""
    double.clear()
    with pytest.raises(Exception) as raised:
        call(double, func, *args, **kwargs)
    ((_, cause, kind, text, where), times), = double.refusals.items()
    assert (kind, text, times) == (type(raised.value).__name__, str(raised.value), 1) and __file__ in where
    return cause, kind, text


# Place and account


def test_a_resize_is_charged(make):
    double = make()
    x = on(double, torch.zeros(1 << 18))
    assert double.account.current == 1 << 20
    on(double, x)
    assert double.account.current == 1 << 20  # marked twice, charged once
    call(double, aten.resize_.default, x, [1 << 19])
    assert double.account.current == 2 << 20
    double.place.charge_more(x, 0)
    double.place.charge_more(x, 1 << 20)
    double.place.charge_more(torch.zeros(1), 1 << 20)  # lives on the CPU
    assert double.account.current == 3 << 20
    del x
    assert double.account.current == 0 and not double.place.live


def test_results_are_charged_and_views_are_not(make):
    double = make()
    x = on(double, torch.zeros(1 << 18))
    y = call(double, aten.add.Tensor, x, x)
    parts = call(double, aten.split.Tensor, y, 1 << 17)
    assert double.place.on_mps(y) and all(map(double.place.on_mps, parts)) and double.account.current == 2 << 20
    values, indices = call(double, aten.sort.default, x)
    assert double.place.on_mps(values) and double.place.on_mps(indices)


def test_memory_that_is_refused(make):
    double = make(recommended=64 << 20, environ={"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "1.0",
                                                 "PYTORCH_MPS_LOW_WATERMARK_RATIO": "0.5"})
    cause, kind, text = refusal(double, aten.empty.memory_format, [1 << 26], device=MPS)
    assert (cause, kind) == ("memory", "RuntimeError") and text.startswith("MPS backend out of memory (MPS allocated: ")
    assert double.account.refusals == 1
    # 16 GiB under macOS 15: Metal makes no buffer of 8 GiB (ggml-org/llama.cpp #1706: half of the memory)
    assert refusal(make(), aten.empty.memory_format, [1 << 31], device=MPS) == (
        "memory", "RuntimeError", "Invalid buffer size: 8.00 GiB")
    with pytest.raises(RuntimeError, match="invalid low watermark"):
        on(make(environ={"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "0.5"}), torch.zeros(2))
    double = make(environ={"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "0.5"})
    cause, _, text = refusal(double, aten.empty.memory_format, [2], device=MPS)
    assert cause == "argument" and text.startswith("invalid low watermark")  # a setting, and no lack of memory


@pytest.mark.parametrize("release, dtype, scores", [
    ("2.2.2", torch.float16, 2), ("2.8.0", torch.float16, 4), ("2.2.2", torch.float32, 4), ("2.8.0", torch.float32, 4)])
def test_scores_of_attention_are_charged(make, release, dtype, scores):
    """aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math"""
    double = make(release=release)
    q, k, v = on(double, *(torch.zeros(1, 4, n, 8, dtype=dtype) for n in (256, 512, 512)))
    before = double.account.current
    out = call(double, aten._scaled_dot_product_flash_attention_for_cpu.default, q, k, v)
    results = sum(-(-t.untyped_storage().nbytes() // 256) * 256 for t in out if isinstance(t, torch.Tensor))
    assert double.account.current - before == results + 4 * 256 * 512 * scores


def test_what_is_charged_where_nothing_is_on_mps(make):
    double = make()
    out = call(double, aten.add.Tensor, torch.ones(2), torch.ones(2))
    assert double.account is None and not double.operators and not double.place.on_mps(out)


@pytest.mark.parametrize("release, there", [("2.8.0", True), ("2.13.0", True), ("2.14.0", False)])
def test_a_pinned_tensor(make, release, there):
    """Issue 181374, PR 181720."""
    double = make(release=release)
    assert double.place.on_mps(call(double, aten.empty.memory_format, [2], pin_memory=True)) is there
    assert (errors.pin_memory_error(double.series) is not None) is there


# Place: where a result is to live


def test_cuda_is_refused(make):
    double = make()
    assert refusal(double, aten.empty.memory_format, [2], device=CUDA) == (
        "device", "AssertionError", "Torch not compiled with CUDA enabled")


def test_what_leaves_stays_away(make):
    double = make()
    x = on(double, torch.ones(3))
    assert not double.place.on_mps(call(double, aten._to_copy.default, x, device=META))
    double.dispatch.thread.leaving = True
    assert not double.place.on_mps(call(double, aten._to_copy.default, x))
    double.dispatch.thread.leaving = False
    assert double.place.on_mps(call(double, aten._to_copy.default, x))
    cpu = torch.zeros(3)
    assert call(double, aten.copy_.default, cpu, x) is cpu and not double.place.on_mps(cpu)
    assert call(double, aten._local_scalar_dense.default, x[0]) == 1


@pytest.mark.parametrize("release, macos, text", [
    ("2.5.1", (12, 2), "MacOS 12.3+."), ("2.5.1", (12, 3), None), ("2.8.0", (12, 7), "MacOS 13.0+."),
    ("2.8.0", (13, 0), None),
    ("2.11.0", (13, 7), "MacOS 14.0+. "), ("2.12.0", (13, 7), "macOS 14.0+. "), ("2.14.0", (14, 0), None),
    ("2.15.0", (14, 7), "macOS 15.0+. "), ("2.15.0", (15, 0), None)])
def test_the_macos_that_a_release_needs(make, release, macos, text):
    """MPSHooks and MPSDevice.mm of each release."""
    double = make({}, release, macos=macos)
    if text is None:
        double.check_available()
        return
    with pytest.raises(RuntimeError) as raised:
        call(double, aten.empty.memory_format, [2], device=MPS)
    assert str(raised.value) == ("The MPS backend is supported on " + text
                                 + "Current OS version can be queried using `sw_vers`")


# Kernel


MISSING = "The operator 'aten::%s' is not currently implemented for the MPS device. "


@pytest.mark.parametrize("release, says",
                         [("2.5.1", "prototype phase"), ("2.6.0", "commit hash 000"), ("2.15.0", "commit hash 000")])
def test_a_missing_operator(make, release, says):
    double = make({"aten::abs": "-", "aten::cos": "C", "aten::sin": "F"}, release,
                  structured={"aten::abs": "aten::abs.out"}, lacks={})
    x = on(double, torch.ones(2))
    cause, kind, text = refusal(double, aten.abs.default, x)
    assert (cause, kind) == ("missing", "NotImplementedError") and text.startswith(MISSING % "abs.out") and says in text
    assert next(iter(double.refusals))[0] == "aten::abs.out"
    call(double, aten.cos.default, x)
    with pytest.warns(UserWarning, match="'aten::sin' is not currently supported on the MPS backend"):
        call(double, aten.sin.default, x)  # a kernel that runs on the CPU needs no flag


def test_a_composed_operator_that_lacks_a_part(make):
    double = make({"aten::cos": "C"}, lacks={"aten::cos": "aten::part"})
    assert refusal(double, aten.cos.default, on(double, torch.ones(2)))[2].startswith(MISSING % "part")


def test_the_fallback_and_its_warning(make):
    double = make({"aten::abs": "-", "aten::cos": "-", "aten::cos.out": "-"}, structured={},
                  environ={"PYTORCH_ENABLE_MPS_FALLBACK": "1"})
    x, beside = on(double, torch.ones(4)), torch.ones(4)
    with pytest.warns(UserWarning) as seen:
        assert double.place.on_mps(call(double, aten.abs.default, x))
        for _ in range(2):
            call(double, aten.cos.default, x)
        call(double, aten.cos.out, x, out=beside)  # tensors of several devices are copied
    assert len(seen) == 1 and str(seen[0].message).startswith("The operator 'aten::abs' is not currently supported on "
                                                              "the MPS backend")
    assert "/assay_agent/" not in seen[0].filename  # the script's line, none of ours
    got = {op: (f.calls, f.nbytes, f.ns > 0) for (op, where),
           f in double.fallbacks.items() if where.startswith(__file__)}
    assert got["aten::abs"] == (1, 16, True) and got["aten::cos"] == (2, 32, True)
    assert not double.refusals


def test_an_error_of_the_cpu_in_a_fallback_is_its_own(make):
    """A fallback computes on the CPU what the CPU can, and in no wider type."""
    double = make({"aten::_linalg_det": "-"}, environ={"PYTORCH_ENABLE_MPS_FALLBACK": "1"})
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="not implemented for 'Half'"):
        call(double, aten._linalg_det.default, on(double, torch.eye(2, dtype=torch.float16)))


@pytest.mark.parametrize("release, text",
                         [("2.3.0", "DispatchStub: missing MPS kernel"),
                          ("2.4.0", "DispatchStub: missing kernel for mps")])
def test_a_stub_without_a_kernel(make, release, text):
    double = make({"aten::abs": "S"}, release, environ={"PYTORCH_ENABLE_MPS_FALLBACK": "1"})
    assert refusal(double, aten.abs.default, on(double, torch.ones(2))) == ("missing", "RuntimeError", text)


def test_a_part_of_what_runs_on_the_cpu_as_a_whole(make):
    double = make({"aten::_linalg_svd": "-", "aten::linalg_svd": "F"})
    x = on(double, torch.eye(2))
    assert refusal(double, aten._linalg_svd.default, x)[0] == "missing"
    double.dispatch.thread.inside = True
    with pytest.warns(UserWarning):
        call(double, aten._linalg_svd.default, x)
    other = make({"aten::_linalg_svd": "-", "aten::linalg_svd": "C"})
    other.dispatch.thread.inside = True
    assert refusal(other, aten._linalg_svd.default, on(other, torch.eye(2)))[0] == "missing"


@pytest.mark.parametrize("letter, refused", [("O", False), ("B", False), ("R", True), ("", True)])
def test_sparse_tensors_have_keys_of_their_own(make, letter, refused):
    double = make({"aten::mul.Tensor": "N"}, sparse={"aten::mul.Tensor": letter})
    x = torch.eye(2).to_sparse()
    on(double, x)
    if refused:
        cause, kind, text = refusal(double, aten.mul.Tensor, x, x)
        assert (cause, kind) == ("missing", "NotImplementedError")
        assert "Could not run 'aten::mul.Tensor' with arguments from the 'SparseMPS'" in text
    else:
        assert double.place.on_mps(call(double, aten.mul.Tensor, x, x))


def test_a_collective_by_release():
    for series, fallback, begins in (((2, 5), False, "The operator 'c10d::x' is"),
                                     ((2, 11), False, "The operator 'c10d::x' is"),
                                     ((2, 12), True, "The distributed operator 'c10d::x' is")):
        assert str(errors.collective_error("c10d::x", series, "abc", fallback)).startswith(begins)
    assert errors.collective_error("c10d::x", (2, 11), "abc", True) is None


def test_the_state_of_an_extensions_operator(make):
    with torch.library._scoped_library("guards", "FRAGMENT") as library:
        for name in ("plain", "both", "composed"):
            library.define(name + "(Tensor x) -> Tensor")
        library.impl("plain", lambda x: x + 1, "CPU")
        library.impl("both", lambda x: x + 1, "CPU")
        library.impl("composed", lambda x: x + 1, "CompositeExplicitAutograd")
        kernels.written_for("guards::both")["MPS"] = None
        double, ops = make({}), torch.ops.guards
        x = on(double, torch.ones(2))
        assert refusal(double, ops.plain.default, x)[:2] == ("missing", "NotImplementedError")
        call(double, ops.composed.default, x)
        call(double, ops.both.default, x)
        assert {n: c.calls for n, c in double.operators.items()} == {"guards::plain": 1, "guards::composed": 1,
                                                                     "guards::both": 1}


# Refuse


def test_refusals_say_by_what(make):
    double = make(release="2.2.2", macos=[14, 0])
    i, c = on(double, torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.complex64))
    assert refusal(double, aten.sigmoid.default, i) == ("argument", "RuntimeError",
                                                        "MPS does not support sigmoid op with int64 input")
    assert refusal(double, aten.add.Tensor, c, c) == ("dtype", "TypeError", "Complex types are unsupported on MPS")
    wide = torch.ones([1] * 16)
    assert refusal(double, aten.unsqueeze_copy.default, on(double, wide), 0)[:2] == ("rank", "RuntimeError")


def test_a_composed_operator_is_checked_and_one_that_the_atlas_has_not_is_not(make):
    i = torch.ones(2, dtype=torch.int64)
    for letter, refused in (("N", True), ("C", True), ("X", False)):
        double = make({"aten::sigmoid": letter}, "2.7.1", lacks={})
        on(double, i)
        if refused:
            assert refusal(double, aten.sigmoid.default, i)[0] == "argument"
        else:
            call(double, aten.sigmoid.default, i)


def test_generators_of_the_other_device(make):
    double = make()
    mine, theirs = generators.OfMPS(), torch.Generator()
    kind = "Expected a '%s' device type for generator but found '%s'"
    place = "Expected a '%s' generator device but found '%s'"
    x = on(double, torch.ones(4))
    assert refusal(double, aten.uniform_.default, x, generator=theirs) == ("argument", "RuntimeError",
                                                                           kind % ("mps", "cpu"))
    assert refusal(double, aten.uniform_.default, torch.ones(4), generator=mine) == ("argument", "RuntimeError",
                                                                                     kind % ("cpu", "mps"))
    assert refusal(double, aten.randperm.generator, 4, generator=theirs, device=MPS)[2] == place % ("mps:0", "cpu")
    assert refusal(double, aten.randperm.generator, 4, generator=mine)[2] == place % ("cpu", "mps:0")
    call(double, aten.uniform_.default, x, generator=mine)
    call(double, aten.uniform_.default, torch.ones(4), generator=theirs)


RULES = [  # operator, arguments, keywords, release, macOS, what it raises; None: nothing
    ("aten::scatter_reduce.two", lambda i, x: (i, 0, i, i, "amin"), "2.13.0", (14, 7),
     "scatter_reduce(amin/amax) on int64 requires macOS 15 or newer"),
    ("aten::scatter_reduce.two", lambda i, x: (i, 0, i, i, "amin"), "2.13.0", (15, 0), None),
    ("aten::cumsum", lambda i, x: (i, 0), "2.8.0", (13, 2),
     "MPS does not support cumsum_out_mps op with int64 input. Support has been added"),
    ("aten::cumsum", lambda i, x: (i, 0), "2.8.0", (13, 3), None),
    ("aten::cumsum", lambda i, x: (i, 0), "2.9.0", (13, 2), None),
    ("aten::sigmoid", lambda i, x: (i,), "2.7.1", (15, 0), "MPS does not support sigmoid op with int64 input"),
    ("aten::sigmoid", lambda i, x: (i,), "2.8.0", (15, 0), None),
    ("aten::sigmoid.out", lambda i, x: (i,), "2.7.1", (15, 0), "MPS does not support sigmoid op with int64 input"),
    ("aten::sigmoid_", lambda i, x: (i,), "2.7.1", (15, 0), "MPS does not support sigmoid op with int64 input"),
    ("aten::topk", lambda i, x: (x.view(1, 1, 1, 1, -1), 1, 0), "2.8.0", (15, 0),
     "On-going issue on MPSGraph topk when ndims() - axis > 4"),
    ("aten::topk", lambda i, x: (x.view(1, 1, 1, -1), 1, 0), "2.8.0", (15, 0), None),
    ("aten::topk", lambda i, x: (x.view(1, 1, 1, 1, -1), 1, 0), "2.7.1", (15, 0), None),
    ("aten::addmm", lambda i, x: (x.view(2, 2),) * 3, "2.15.0", (15, 0), None),
    ("aten::mm", lambda i, x: (x.view(2, 2), x.view(2, 2).half()), "2.7.0", (15, 0),
     "expected mat1 and mat2 to have the same dtype, but got: Float != Half"),
    ("aten::mm", lambda i, x: (x.view(2, 2), x.view(2, 2)), "2.7.0", (15, 0), None),
    # only integers run the naive kernel
    ("aten::mm", lambda i, x: (x.view(2, 2).to(torch.complex64),) * 2, "2.7.0", (15, 0), None),
    ("aten::amax", lambda i, x: (x > 0,), "2.15.0", (15, 0), None),  # any and all
    ("aten::amax", lambda i, x: (x.to(torch.complex64),), "2.12.0", (15, 0), "amax is not defined for complex types"),
    ("aten::bernoulli.p", lambda i, x: (x, 1.5), "2.8.0", (15, 0),
     "bernoulli_mps_ expects p to be in [0, 1], but got p=1.5"),
    ("aten::bernoulli.p", lambda i, x: (x, 1.0), "2.8.0", (15, 0), None),
    ("aten::index_put", lambda i, x: (i.short(), (i,), i.short(), True), "2.7.1", (15, 0),
     "Expected scalar_type == ScalarType::Float || inputTensor.scalar_type() == ScalarType::Int || "),
    ("aten::index_put", lambda i, x: (i.bool(), (i,), i.bool(), True), "2.7.1", (15, 0),
     "Unsupported data type for accumulate case: Bool"),
    ("aten::index_put", lambda i, x: (i.short(), (i,), i.short(), False), "2.7.1", (15, 0), None),
    ("aten::_fft_r2c", lambda i, x: (x, [0], 0, True), "2.8.0", (13, 7),
     "FFT operations are only supported on MacOS 14+"),
    ("aten::_fft_r2c", lambda i, x: (x.bfloat16(), [0], 0, True), "2.10.0", (15, 0),
     "Only float and half dtypes are supported"),
    ("aten::masked_fill.Scalar", lambda i, x: (x, i, 0), "2.8.0", (15, 0),
     "expected mask dtype to be Bool but got Long"),
    ("aten::native_layer_norm", lambda i, x: (i, [4], None, None, 0.1), "2.10.0", (15, 0),
     "Not implemented for long on MPS"),
    ("aten::copy_", lambda i, x: (x, x.to(torch.complex128)), "2.8.0", (15, 0),
     "Trying to convert ComplexDouble to the MPS backend"),
    ("aten::copy_", lambda i, x: (x.to(torch.complex128),) * 2, "2.8.0", (15, 0), None),  # bytes are moved
    ("aten::sin", lambda i, x: (x.to(torch.float64),), "2.15.0", (15, 0), None),  # cannot come to be there
    ("aten::view", lambda i, x: (x.to(torch.complex128), [4]), "2.8.0", (15, 0), None),
    ("mine::sigmoid", lambda i, x: (i,), "2.7.1", (15, 0), None),
]


@pytest.mark.parametrize("name, args, release, macos, text", RULES, ids=lambda v: v if isinstance(v, str) else None)
def test_rules(name, args, release, macos, text):
    series = tuple(int(n) for n in release.split(".")[:2])
    given = args(torch.ones(4, dtype=torch.int64), torch.ones(4))
    raised = None
    try:
        for rule in refuse.rules_for(name, series, macos):
            rule(given, {})
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raised = str(error)
    assert raised is None if text is None else raised is not None and raised.startswith(text)


@pytest.mark.parametrize("dtype, ndim, series, macos, strided, text", [
    (torch.float32, 17, (2, 1), (15, 0), False, "MPS supports tensors with dimensions <= 16, but got 17."),
    (torch.float32, 16, (2, 1), (15, 0), False, None),
    (torch.float32, 17, (2, 0), (15, 0), False, None),
    (torch.float32, 17, (2, 8), (15, 0), True, None),
    (torch.float64, 1, (2, 0), (15, 0), True, "Cannot convert a MPS Tensor to float64"),
    (torch.complex128, 1, (2, 11), (15, 0), False, None),
    (torch.complex128, 1, (2, 12), (15, 0), False, "Cannot convert a MPS Tensor to float64"),
    (torch.complex128, 1, (2, 12), (15, 0), True, None),
    (torch.bfloat16, 1, (2, 0), (15, 0), False, None),
    (torch.bfloat16, 1, (2, 2), (15, 0), False, "BFloat16 is not supported on MPS"),
    (torch.bfloat16, 1, (2, 3), (13, 7), False, "MPS BFloat16 is only supported on MacOS 14 or newer"),
    (torch.bfloat16, 1, (2, 3), (14, 0), False, None),
    (torch.bfloat16, 1, (2, 9), (13, 7), False, None),
])
def test_what_can_be_made(dtype, ndim, series, macos, strided, text):
    """aten/src/ATen/mps/EmptyTensor.cpp"""
    if text is None:
        refuse.allocate_check(dtype, ndim, series, macos, strided)
        return
    with pytest.raises((RuntimeError, TypeError)) as raised:
        refuse.allocate_check(dtype, ndim, series, macos, strided)
    assert str(raised.value).startswith(text)


def test_every_row_names_what_there_is(make):
    """A refusal of an operator that no release has, or of a family that no wheel has, would be a rule that nobody
    meets."""
    names = set()
    for release in ("2.0.1", "2.2.2", "2.5.1", "2.8.0", "2.11.0", "2.13.0", "2.15.0"):
        names |= {n.partition("::")[2] for n in make(release=release).table.ops if n.startswith("aten::")}
    bases = {n.partition(".")[0].rstrip("_") for n in names} | {n.partition(".")[0] for n in names}
    stripped = {"%s.%s" % refuse.split("aten::" + n) for n in names}

    def known(n):
        return n in names or n in bases or n in stripped

    assert not [n for n in refuse.METAL if not known(n)]
    families = refuse._read_kernels()
    assert not [(n, line[0]) for n, line in refuse.METAL.items() if not any(f in families for f in line[0])]


# Devices


def test_tensors_of_several_devices(make):
    double = make()
    x, y = on(double, torch.ones(2, 2)), torch.ones(2, 2)
    both = "Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!"
    assert refusal(double, aten.add.Tensor, x, y) == ("device", "RuntimeError", both)
    assert refusal(double, aten.mm.default, x, y)[2] == "Placeholder storage has not been allocated on MPS device!"
    assert refusal(double, aten.cat.default, [y, x])[2] == (
        "torch.cat(): all input tensors must be on the same device. Received cpu and mps:0")
    weight = on(double, torch.ones(1, 1, 1, 1))
    assert refusal(double, aten.convolution.default, torch.ones(1, 1, 2, 2), weight, None, [1, 1], [0, 0], [1, 1],
                   False, [0, 0], 1)[2] == (
        "slow_conv2d_forward_mps: input(device='cpu') and weight(device=mps:0')  must be on the same device")
    assert double.place.on_mps(call(double, aten.add.Tensor, x, torch.tensor(1.0)))  # a scalar is taken along
    assert double.place.on_mps(call(double, aten.index.Tensor, x, [torch.tensor([0])]))
    i = on(double, torch.tensor([0]))
    assert refusal(double, aten.index.Tensor, y, [i]) == (
        "argument", "RuntimeError", "indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    newer = make(release="2.10.0")
    on(newer, x)
    assert refusal(newer, aten.cat.default, [x, y])[2] == "Placeholder storage has not been allocated on MPS device!"


def test_what_one_instruction_makes_on_the_cpu_belongs_on_mps(make):
    """As what PyTorch composes in C++: made and used in one instruction of Python. A script uses in another what it has
    made."""
    double = make()
    x = on(double, torch.ones(2))

    def in_two():
        made = double.dispatch.dispatch(aten.ones.default, ([2],), cpu)
        return double.dispatch.dispatch(aten.add.Tensor, (x, made), {})

    def at_once(*calls):
        """Each call from this one instruction, as far as Python can tell."""
        out = None
        for func, args, kwargs in calls:
            out = double.dispatch.dispatch(func, tuple(out if a is Ellipsis else a for a in args), kwargs)
        return out

    cpu = {"device": torch.device("cpu")}
    with pytest.raises(RuntimeError, match="at least two devices"):
        in_two()
    out = at_once((aten.ones.default, ([2],), cpu), (aten.add.Tensor, (x, ...), {}))
    assert double.place.on_mps(out)
    out = at_once((aten.ones.default, ([2],), cpu), (aten.mul.Tensor, (..., ...), {}), (aten.add.Tensor, (x, ...), {}))
    assert double.place.on_mps(out)  # computed from such
    out = at_once((aten.ones.default, ([2],), dict(cpu, dtype=torch.float64)), (aten.add.Tensor, (x, ...), {}))
    assert out.dtype is torch.float32  # the narrower type


# Types


def test_the_type_that_is_asked_for(make):
    double = make()
    text = ("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
            "Please use float32 instead.")
    assert refusal(double, aten.zeros.default, [2], dtype=torch.float64, device=MPS) == ("dtype", "TypeError", text)
    assert refusal(double, aten._to_copy.default, torch.zeros(2, dtype=torch.float64), device=MPS) == ("dtype",
                                                                                                       "TypeError",
                                                                                                       text)
    with double.use():  # PyTorch composes it, of operators that the mode sees
        assert refusal(double, aten.to.dtype, on(double, torch.zeros(2)), torch.float64) == ("dtype", "TypeError", text)
    double.dispatch.thread.wide = True
    assert call(double, aten._to_copy.default, on(double, torch.zeros(2)), dtype=torch.float64).dtype is torch.float64


# Run


def test_a_kernel_that_a_cpu_lacks_is_run_in_a_wider_type(make):
    double = make(release="2.15.0")
    a, b = on(double, torch.full((3,), 2.5, dtype=torch.float16), torch.full((3,), 2.0, dtype=torch.float16))
    out = call(double, aten.special_zeta.default, a, b)
    assert out.dtype is torch.float16 and double.place.on_mps(out)
    assert torch.equal(out, torch.special.zeta(a.float(), b.float()).half())
    result = on(double, torch.zeros(3, dtype=torch.float16))
    assert call(double, aten.special_zeta.out, a, b, out=result) is result and torch.equal(result, out)
    i = on(double, torch.eye(2, dtype=torch.int32))
    with pytest.raises(RuntimeError):  # no kernel of MPS's either
        call(make({"aten::_linalg_det": "N"}), aten._linalg_det.default, i)


def test_random_numbers_part_when_a_script_parts_them():
    stream, cpu = generators.Stream(), torch.default_generator

    def drawn():
        return stream.drawn(torch.rand, (2,), {}).tolist()

    torch.manual_seed(1)
    first = torch.rand(4).tolist()
    torch.manual_seed(1)
    assert drawn() + torch.rand(2).tolist() == first  # one stream
    torch.manual_seed(1)
    stream.default.manual_seed(1)
    assert not stream.shared
    assert drawn() == first[:2] and torch.rand(4).tolist() == first and drawn() == first[2:]  # two
    assert stream.default.initial_seed() == 1
    stream.default.set_state(cpu.get_state())
    assert stream.shared  # where the other is: one again
    stream.default.seed()
    stream.bad_fork = True
    stream.seeded()
    assert not stream.shared
    torch.manual_seed(1)
    assert drawn() == first[:2]  # in a child that cannot use the device, nothing is drawn from its own
    stream.bad_fork = False
    stream.seeded()
    assert stream.shared


def test_a_generators_state_of_a_mac_seeds(make):
    double = make({})
    with double.use():
        a, b, c = (generators.OfMPS() for _ in range(3))
        a.set_state(torch.zeros(44, dtype=torch.uint8))
        b.set_state(torch.zeros(44, dtype=torch.uint8))
        c.set_state(torch.ones(28, dtype=torch.uint8))
        assert torch.equal(a.get_state(), b.get_state()) and not torch.equal(a.get_state(), c.get_state())
        with pytest.raises((RuntimeError, TypeError)):
            a.set_state(torch.zeros(40, dtype=torch.uint8))
        assert sum(double.used.values()) == 3 and a.device.type == a.clone_state().device.type == "mps"
    assert current.double is None
    assert generators.is_of_mps(a) and not generators.is_of_mps(torch.Generator())


# Without data


def test_shapes_alone(make):
    double = make(shape_only=True)
    x = call(double, aten.ones.default, [4], device=MPS)
    assert shapes.is_meta(x) and double.place.on_mps(x)
    assert call(double, aten._local_scalar_dense.default, call(double, aten.sum.default, x)) == 0.0
    flag = call(double, aten.ones.default, [], dtype=torch.bool, device=MPS)
    assert call(double, aten._local_scalar_dense.default, flag) is False
    assert call(double, aten._local_scalar_dense.default, call(double, aten.argmax.default, x)) == 0
    big = call(double, aten.zeros.default, [shapes.LARGE], device=torch.device("cpu"))
    small = call(double, aten.zeros.default, [shapes.LARGE - 1], device=torch.device("cpu"))
    assert shapes.is_meta(big) and double.shapes.pretends(big) and not double.place.on_mps(big)
    assert not shapes.is_meta(small)
    more = call(double, aten.add.Tensor, big, big)
    assert double.shapes.pretends(more) and not double.place.on_mps(more)
    large = call(double, aten.zeros.default, [shapes.LARGE], device=MPS)
    double.dispatch.thread.leaving = True
    assert not shapes.is_meta(call(double, aten._to_copy.default, x))  # zeros
    away = call(double, aten._to_copy.default, large)
    assert double.shapes.pretends(away) and not double.place.on_mps(away)
    double.dispatch.thread.leaving = False
    copied = torch.zeros(4)
    assert call(double, aten.copy_.default, copied, x) is copied
    assert refusal(double, aten.add.Tensor, x, torch.ones(4))[0] == "device"
    # What a composed operator makes from the options of a tensor without data is of no device.
    assert double.place.on_mps(call(double, aten.add.Tensor, x, torch.ones(4, device="meta")))
    assert call(double, aten._local_scalar_dense.default, call(double, aten.sum.default, big)) == 0.0
    assert {(op, kind) for op, kind, _, _ in double.notes} >= {("aten::_local_scalar_dense", "stand-in")}
    kept = len(double.shapes._cpu)
    del big, more, away
    assert len(double.shapes._cpu) < kept


# What was seen


def test_events_and_clear(make):
    double = make(dict.fromkeys(["aten::mm", "aten::abs", "aten::add.Tensor"], "N"))
    x = on(double, torch.ones(2, 2))
    for _ in range(2):
        call(double, aten.mm.default, x, x)
    call(double, aten.abs.default, x)
    double.refused("aten::x", "missing", NotImplementedError("no kernel"))
    double.stood_in("aten::item")
    double.fell_back("aten::y").nbytes = 8
    double.met("aten::x", "a-fact", True)
    ops, fallback, refused, *met, note, account = double.events()
    assert [m for m in met if m["sure"]] == [{"ev": "met", "op": "aten::x", "fact": "a-fact", "sure": True,
                                              "where": met[-1]["where"], "n": 1}]
    assert [{k: v for k, v in row.items() if k != "cpu_ns"} for row in ops["rows"]] == [
        {"op": "aten::abs", "n": 1, "state": "N", "bytes": 2 * 16},
        {"op": "aten::mm", "n": 2, "state": "N", "bytes": 2 * 3 * 16, "flops": 2 * 2 * 2 ** 3}]
    assert account["ev"] == "account" and account["allocated_peak"] == sum(account["kinds"].values())
    assert all(row["cpu_ns"] > 0 for row in ops["rows"])
    assert [refused[k] for k in ("op", "cause", "error", "text", "n")] == ["aten::x", "missing", "NotImplementedError",
                                                                           "no kernel", 1]
    assert [note[k] for k in ("op", "kind", "n")] == ["aten::item", "stand-in", 1]
    assert [fallback[k] for k in ("op", "n", "bytes")] == ["aten::y", 1, 8] and fallback["where"].startswith(__file__)
    double.clear()
    assert list(double.events()) == [{"ev": "ops", "rows": [], "wrong_wholes": 0}]
    call(double, aten.mm.default, x, x)
    assert next(double.events())["rows"][0]["flops"] == 2 * 2 ** 3


def test_flops_of_a_transposed_convolution():
    x, w = torch.ones(1, 2, 3, 3), torch.ones(2, 4, 2, 2)
    count = flops.formula(aten.convolution.default._schema)
    out = torch.nn.functional.conv_transpose2d(x, w)
    assert count((x, w, None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1), out) == 2 * 9 * 2 * 4 * 4


def test_the_doubles_own_work():
    with inside():
        assert state.off is True
        with inside(2):
            assert state.off == 2
        assert state.off is True
    assert state.off is False
