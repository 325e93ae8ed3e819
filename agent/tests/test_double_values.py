"""What a Mac refuses by strides, by empty tensors, by what a matrix holds, and inside operators that PyTorch composes.

Where an expectation comes from stands beside it: an issue with the text that a user saw, a file of PyTorch (below
aten/src/ATen/native/mps/operations where no folder is given), or a wheel whose machine code was read.
"""

VIEW = ("RuntimeError view size is not compatible with input tensor's size and stride (at least one dimension spans "
        "across two contiguous subspaces). Use .reshape(...) instead.")
IMPROVED = (" to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement "
            "request to PyTorch.)")
UNMAPPED = "TypeError Trying to convert %s to the MPS backend but it does not have support for that dtype."
EMPTY = ('RuntimeError [srcBuf length] > 0 INTERNAL ASSERT FAILED at "/Users/runner/work/pytorch/%saten/src/ATen/native/'
         'mps/OperationUtils.mm":%d, please report a bug to PyTorch. Placeholder tensor is empty!')
OK = "no error"


def test_the_gradient_of_a_convolution_in_channels_last_order(rehearse):
    code = """
        F = torch.nn.functional
        def conv1d(grad):  # malfet's, in pytorch issue 142344
            b, w, x = (torch.rand(s, device="mps", requires_grad=True) for s in ((2,), (2, 1, 3), (1, 1, 3)))
            torch.autograd.grad((F.conv1d(x, w, b, padding=1),), (x, w, b), (grad,))
        fails(lambda: conv1d(torch.rand(1, 3, 2, device="mps").transpose(1, 2)))
        fails(lambda: conv1d(torch.rand(1, 2, 3, device="mps")))
        class Attention(torch.nn.Module):  # the report's: NripeshN, in pytorch issue 142344
            def __init__(self, c):
                super().__init__()
                self.query, self.key, self.value = torch.nn.Conv2d(c, c // 8, 1), torch.nn.Conv2d(c, c // 8, 1), torch.nn.Conv2d(c, c, 1)
            def forward(self, x):
                b, c, h, w = x.shape
                q, k, v = (f(x).reshape(b, -1, h * w) for f in (self.query, self.key, self.value))
                a = torch.softmax(torch.bmm(q.permute(0, 2, 1), k), -1)
                return torch.bmm(v, a.permute(0, 2, 1)).reshape(b, c, h, w)
        fails(lambda: Attention(16).to("mps")(torch.rand(2, 16, 8, 8, device="mps")).sum().backward())
        """
    assert rehearse(code, "2.5.1", "0.20", macos=[15, 1]) == [VIEW, OK, VIEW]
    assert rehearse(code, "2.5.1", "0.20", macos=[14, 7]) == [OK] * 3  # strides are resolved before: OperationUtils.mm
    assert rehearse(code, "2.6.0", "0.21", macos=[15, 1]) == [OK] * 3  # pytorch PR 143196
    assert rehearse(code, "2.4.1", "0.19", macos=[15, 1]) == [OK] * 3  # before pytorch PR 128393


def test_the_gradient_of_batch_norm_in_channels_last_order(rehearse):
    code = """
        bn = torch.nn.BatchNorm2d(8).to("mps")
        def backward(x):
            bn(x.requires_grad_()).sum().backward()
        x = torch.randn(4, 8, 16, 16, device="mps")
        fails(lambda: backward(x.clone(memory_format=torch.channels_last)))
        fails(lambda: backward(torch.rand(4, 16, 16, 8, device="mps").permute(0, 3, 1, 2)))
        fails(lambda: backward(x))
        # weights in that order alone give a contiguous result up to 2.9 (Convolution.mm: memory_format is the input's)
        conv = torch.nn.Conv2d(3, 8, 3).to("mps", memory_format=torch.channels_last)
        fails(lambda: bn(conv(torch.rand(2, 3, 8, 8, device="mps"))).sum().backward())
        """
    # pytorch issues 156792 (2.5), 175189, PR 188371 (2026-06-28: "currently fails on main"); braindecode issue 1086
    assert rehearse(code, "2.8.0", macos=[15, 5]) == [VIEW, VIEW, OK, OK]
    assert rehearse(code, "2.13.0", "0.28", macos=[15, 5])[:3] == [VIEW, VIEW, OK]
    assert rehearse(code, "2.14.1", "0.29", macos=[15, 5]) == [OK] * 4
    assert rehearse(code, "2.8.0", macos=[14, 5]) == [OK] * 4


def test_tensors_that_are_flattened(rehearse):
    code = """
        F = torch.nn.functional
        x = torch.randn(5, 5, device="mps")
        fails(lambda: x.t().argmax())
        fails(lambda: torch.argmin(x[::2, ::2]))
        fails(lambda: x.t().argmax(0))
        fails(lambda: x.argmax())
        fails(lambda: F.smooth_l1_loss(x.t(), x))
        fails(lambda: F.smooth_l1_loss(x.t(), x, reduction="none"))
        cl = torch.rand(1, 4, 3, 3, device="mps").contiguous(memory_format=torch.channels_last)
        w = torch.rand(2, 2, 1, 1, device="mps")
        fails(lambda: F.conv2d(cl[:, :2], w))
        fails(lambda: F.conv2d(cl, w.repeat(1, 2, 1, 1)))
        """
    # pytorch issue 160740, open in 2.8; LossOps.mm, smooth_l1_loss_template; Convolution.mm, _mps_convolution_impl
    assert rehearse(code, "2.8.0", macos=[15, 5]) == [VIEW, VIEW, OK, OK, VIEW, OK, VIEW, OK]
    assert rehearse(code, "2.8.0", macos=[14, 5]) == [OK] * 8
    assert rehearse(code, "2.14.1", "0.29", macos=[15, 5]) == [OK] * 8


def test_empty_tensors(rehearse):
    code = """
        F = torch.nn.functional
        x, i = torch.rand(3, 4, device="mps"), torch.tensor([0], device="mps")
        e = torch.ones(0, 4, device="mps")
        fails(lambda: F.smooth_l1_loss(e, e, reduction="sum"))
        fails(lambda: F.smooth_l1_loss(x[:0], x[:0], reduction="sum"))  # its buffer has bytes
        fails(lambda: torch.index_add(torch.ones(0, 1, 1, 1, device="mps"), -3, i, torch.ones(0, 1, 1, 1, device="mps"), alpha=-0.25))
        fails(lambda: torch.index_add(e, 0, i[:0], e))
        fails(lambda: torch.baddbmm(torch.ones(2, 0, 1, device="mps"), torch.ones(2, 0, 3, device="mps"), torch.ones(2, 3, 1, device="mps")))
        fails(lambda: F.grid_sample(torch.rand(1, 1, 4, 4, device="mps"), torch.ones(1, 0, 3, 2, device="mps"), align_corners=False))
        """
    old = "pytorch/pytorch/"
    # pytorch issue 148589 has line 530 for 2.6.0, issue 81180 341 for 2.2.2 and 566 for 2.8.0; smooth_l1: PR 148133
    assert rehearse(code, "2.6.0", "0.21") == [EMPTY % (old, 530), OK] + [EMPTY % (old, 530), OK] + [EMPTY % (old, 530)] * 2
    assert rehearse(code, "2.8.0") == [OK, OK, EMPTY % (old, 566), OK] + [EMPTY % (old, 566)] * 2
    # pytorch issues 186972, 187551: "OperationUtils.mm":525
    assert rehearse(code, "2.12.1", "0.27") == [OK, OK, EMPTY % ("pytorch/", 525), OK, EMPTY % ("pytorch/", 525), OK]
    assert rehearse(code, "2.15.0", "0.29") == [OK] * 6


def test_gradients_of_an_index_in_half(rehearse):
    code = """
        x = torch.rand(4, device="mps", dtype=torch.%s, requires_grad=True)
        fails(lambda: x[torch.tensor([0, 2], device="mps")].sum().backward())
        """
    text = ("RuntimeError Expected scalar_type == ScalarType::Float || inputTensor.scalar_type() == ScalarType::Int || "
            "scalar_type == ScalarType::Bool" + IMPROVED)
    assert rehearse(code % "float16", "2.6.0", "0.21") == [text]  # Indexing.mm, validateInputData
    assert rehearse(code % "float16", "2.2.2", "0.17") == [text.replace(
        "Expected scalar_type", "Expected inputTensor.scalar_type()").replace("|| scalar_type ==", "|| inputTensor.scalar_type() ==")]
    assert rehearse(code % "float32", "2.6.0", "0.21") == rehearse(code % "float16", "2.8.0") == [OK]  # PR 151869


def test_products_of_integers_with_a_vector(rehearse):
    code = """
        i = torch.arange(6, device="mps").view(2, 3)
        fails(lambda: i @ i[0])
        fails(lambda: torch.addmv(i[:, 0], i, i[0]))
        fails(lambda: i.float() @ i[0].float())
        """
    text = "RuntimeError MPS device does not support mm for non-float inputs"  # Blas.mm: addmv calls mm
    assert rehearse(code, "2.6.0", "0.21") == [text, text, OK]
    assert rehearse(code, "2.8.0") == [OK] * 3


def test_isin_of_two_types(rehearse):
    code = """
        x = torch.arange(4, device="mps")
        fails(lambda: torch.isin(x, torch.tensor([1.0], device="mps")))
        fails(lambda: torch.isin(x, torch.ones(0, device="mps")))
        fails(lambda: torch.isin(x, x))
        """
    # TensorCompare.mm
    assert rehearse(code, "2.6.0", "0.21") == ["RuntimeError Expected elements.dtype() == test_elements.dtype()" + IMPROVED, OK, OK]
    assert rehearse(code, "2.8.0") == [OK] * 3


def test_what_runs_beside_a_refusal(rehearse):
    code = """
        i, x = torch.arange(3, device="mps"), torch.rand(3, device="mps")
        fails(lambda: i.index_add(0, i[:0], i[:0]))
        fails(lambda: i.index_add(0, i, i))
        fails(lambda: torch.atan2(x, i))
        fails(lambda: torch.atan2(i, x))
        """
    # Indexing.mm, index_add_mps_out: index.numel() == 0 returns first; BinaryOps.mm, atan2_out_mps: self alone
    assert rehearse(code, "2.6.0", "0.21") == [
        OK, "RuntimeError index_add(): Expected non int64 dtype for source.",
        OK, "RuntimeError MPS does not support atan2 op with int64 input"]


def test_complex_numbers_up_to_2_2(rehearse):
    code = """
        x, c = torch.rand(3, device="mps"), torch.zeros(3, dtype=torch.cfloat, device="mps")
        fails(lambda: 1j * x)
        fails(lambda: torch.mul(c, 2))
        fails(lambda: torch.mul(c, c))
        fails(lambda: torch.randn(3, dtype=torch.cfloat, device="mps"))
        fails(lambda: torch.ones(3, dtype=torch.cfloat, device="mps"))
        fails(lambda: torch.eq(c, c))
        fails(lambda: torch.mul(x, 1j))
        """
    lines = rehearse(code, "2.2.2", "0.17")
    # vocos issue 42; the line is the wheel's
    text = ('RuntimeError c10::isComplexType(input.scalar_type()) && c10::isComplexType(other.scalar_type()) INTERNAL '
            'ASSERT FAILED at "/Users/runner/work/pytorch/pytorch/pytorch/aten/src/ATen/native/mps/operations/'
            'BinaryKernel.mm":340, please report a bug to PyTorch. ')
    assert lines[:2] == [text, text]
    assert lines[3:] == [UNMAPPED % "ComplexFloat", UNMAPPED % "ComplexFloat",  # pytorch issue 78044
                         "TypeError Complex types are unsupported on MPS", text]
    lines = rehearse(code, "2.1.2", "0.16")
    # an operator of Python's makes this of a TypeError: torch/csrc/autograd, TypeError_to_NotImplemented_
    assert lines[0] == "TypeError unsupported operand type(s) for *: 'complex' and 'Tensor'"
    assert lines[6] == UNMAPPED % "ComplexDouble"
    assert rehearse(code, "2.3.1", "0.18") == [OK] * 7


def test_types_inside_composed_operators(rehearse):
    code = """
        fails(lambda: torch.full((2,), 3, dtype=torch.uint16, device="mps"))
        fails(lambda: torch.ones(2, dtype=torch.uint16, device="mps"))
        fails(lambda: torch.zeros(2, dtype=torch.uint16, device="mps"))
        fails(lambda: torch.full((2,), 3, device="mps"))
        u, i = torch.zeros(2, dtype=torch.uint16, device="mps"), torch.tensor([0], device="mps")
        fails(lambda: torch.ops.aten._unsafe_masked_index(u, i == 0, [i], 1))
        """
    assert rehearse(code, "2.6.0", "0.21") == [UNMAPPED % "UInt16"] * 2 + [OK] * 2 + [UNMAPPED % "UInt16"]  # ConstantOps.mm
    assert rehearse(code, "2.10.0", "0.25")[:4] == [OK] * 4


def test_an_operator_that_calls_a_missing_one_for_some_arguments(rehearse, monkeypatch):
    code = """
        x = torch.rand(3, device="mps")
        fails(lambda: x.cummax(0))
        fails(lambda: x[:0].cummin(0))
        fails(lambda: x[0].cummax(0))
        """
    lines = rehearse(code, "2.7.1", "0.22")
    assert lines[0].startswith("NotImplementedError The operator 'aten::_cummax_helper' is not currently implemented")
    assert lines[1:] == [OK, OK]
    assert rehearse(code, "2.8.0") == [OK] * 3
    # pytorch issue 188026
    assert rehearse("""
        fails(lambda: torch.cummax(torch.randn(4, dtype=torch.complex64, device="mps"), 0))
        """, "2.12.1", "0.27") == ["RuntimeError Failed to create function state object for: cummax_innermost_float2"]
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    assert rehearse(code + "print([op for op, _ in double.fallbacks])", "2.7.1", "0.22") == [OK] * 3 + ["['aten::_cummax_helper']"]


def test_composed_operators_that_mps_has_as_a_whole(rehearse):
    code = """
        import warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            print(torch.nn.functional.interpolate(torch.rand(1, 1, 2, 2, 2, device="mps"), scale_factor=2).device)
        print([str(w.message)[:70] for w in seen])
        a = torch.tensor([[4.0, 3.0], [6.0, 3.0]], device="mps")
        fails(lambda: torch.linalg.lu_factor(a))
        fails(lambda: torch.linalg.lu_factor(a, pivot=False))
        print([op for op, _ in double.fallbacks])
        """
    assert rehearse(code, "2.6.0", "0.21") == [
        "mps:0", '["The operator \'aten::upsample_nearest3d.vec\' is not currently supported"]', OK,
        "RuntimeError linalg.lu_factor(): MPS doesn't allow pivot == False.", "['aten::upsample_nearest3d.vec']"]
    assert rehearse(code, "2.8.0")[:2] == ["mps:0", "[]"]
    lines = rehearse("fails(lambda: torch.linalg.lu_factor(torch.eye(2, device='mps')))", "2.4.1", "0.19")
    assert lines[0].startswith("NotImplementedError The operator 'aten::linalg_lu_factor_ex.out' is not")


def test_singular_matrices(rehearse):
    code = """
        a, b = torch.tensor([[1.0, 2.0], [2.0, 4.0]], device="mps"), torch.ones(2, device="mps")
        fails(lambda: torch.linalg.solve(a, b))
        fails(lambda: torch.linalg.solve(torch.stack([torch.eye(2, device="mps"), a]), torch.stack([b, b])))
        fails(lambda: torch.linalg.lu_factor(a))
        fails(lambda: torch.linalg.solve(torch.eye(2, device="mps"), b))
        """
    text = ('RuntimeError false INTERNAL ASSERT FAILED at "/Users/runner/work/pytorch/pytorch/pytorch/aten/src/ATen/'
            'native/BatchLinearAlgebra.cpp":1614, please report a bug to PyTorch. torch.linalg.solve%s: Argument 2 has '
            'illegal value. Most certainly there is a bug in the implementation calling the backend library.')
    # pytorch issue 163962; lu_factor: issue 165870
    assert rehearse(code, "2.8.0") == [text % "", text % ": (Batch element 1)", OK, OK]
    lines = rehearse(code, "2.10.0", "0.25")  # pytorch PR 165254
    assert lines[0].startswith("_LinAlgError torch.linalg.solve: The solver failed because the input matrix is singular.")
    lines = rehearse(code, "2.6.0", "0.21")
    assert lines[2].startswith("RuntimeError lu_factor(): LU factorization failure at the 1 sample with status: -2. See ")
    # Inverse.mm: info.zero_()
    assert rehearse("fails(lambda: torch.linalg.inv(torch.ones(2, 2, device='mps')))", "2.6.0", "0.21") == [OK]


def test_compressed_sparse_tensors_are_in_no_release(rehearse):
    code = """
        crow, col, values = torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.tensor([1.0, 2.0])
        fails(lambda: torch.sparse_csr_tensor(crow, col, values, device="mps"))
        fails(lambda: torch.sparse_csr_tensor(crow.to("mps"), col.to("mps"), values.to("mps")))
        fails(lambda: torch.sparse_csr_tensor(crow, col, values).to("mps"))
        """
    text = "NotImplementedError Could not run 'new_compressed_tensor' from the 'mps:0' device.)"
    for release, vision in (("2.3.1", "0.18"), ("2.8.0", "0.23"), ("2.10.0", "0.25"), ("2.15.0", "0.29")):
        assert rehearse(code, release, vision) == [text] * 3  # pytorch issues 129842, 166426, 196192


def test_a_generator_of_mps_up_to_2_1(rehearse):
    code = """
        g = torch.Generator(device="mps")
        fails(lambda: torch.randperm(10, device="mps", generator=g))
        fails(lambda: torch.randperm(10, device="mps", generator=torch.Generator()))
        fails(lambda: torch.randperm(10, device="mps"))
        fails(lambda: torch.rand(10, device="mps", generator=g))
        """
    text = "RuntimeError Expected a 'mps:0' generator device but found '%s'"
    assert rehearse(code, "2.1.0", "0.16") == [text % "mps", text % "cpu", OK, OK]  # pytorch issue 106117
    assert rehearse(code, "2.2.2", "0.17") == [OK, text % "cpu", OK, OK]


def test_bucketize_names_the_type_of_its_result(rehearse):
    assert rehearse("""
        x, b = torch.randn(2, dtype=torch.complex64, device="mps"), torch.randn(3, dtype=torch.complex64, device="mps")
        fails(lambda: torch.bucketize(x, b))
        fails(lambda: torch.bucketize(x, b, out_int32=True))
        """, "2.13.0", "0.28") == [
        "RuntimeError Failed to create function state object for: searchsorted_float2_%s" % t for t in ("long", "int")]  # pytorch issue 191692


def test_without_data(rehearse):
    """Strides are looked at, values are not there."""
    assert rehearse("""
        bn = torch.nn.BatchNorm2d(8).to("mps")
        x = torch.rand(2, 8, 16, 16, device="mps").contiguous(memory_format=torch.channels_last).requires_grad_()
        fails(lambda: bn(x).sum().backward())
        fails(lambda: torch.linalg.solve(torch.rand(3, 3, device="mps"), torch.rand(3, device="mps")))
        """, "2.8.0", macos=[15, 5], shape_only=True) == [VIEW, OK]


def test_attention_by_keywords(rehearse):
    """pytorch issue 195910: wrong for half types with is_causal=True, however the tensors are handed over."""
    lines = rehearse("""
        q = torch.ones(1, 1, 2, 4, device="mps").half()
        attend = torch.nn.functional.scaled_dot_product_attention
        for call in (lambda: attend(q, q, q, is_causal=True), lambda: attend(query=q, key=q, value=q, is_causal=True),
                     lambda: attend(q, q, value=q, is_causal=True), lambda: attend(q, q, q)):
            double.facts.clear()
            double.dispatch.wholes.clear()
            call()
            print(sorted({fact for _, fact, _, _ in double.facts} & {"sdpa-causal-half"}))
        try:
            attend(1, 2, 3)
        except TypeError as error:
            print(str(error).partition("(")[0])
        """, "2.13.0", "0.28")
    assert lines == ["['sdpa-causal-half']"] * 3 + ["[]", "scaled_dot_product_attention"]


def test_linear_by_keywords(rehearse):
    """pytorch issue 162730: wrong for a weight with strides of its own, however the tensors are handed over."""
    lines = rehearse("""
        x, w, linear = torch.ones(2, 3, device="mps"), torch.ones(3, 4, device="mps").t(), torch.nn.functional.linear
        for call in (lambda: linear(x, w), lambda: linear(x, weight=w), lambda: linear(input=x, weight=w),
                     lambda: linear(x, weight=w.contiguous())):
            double.facts.clear()
            call()
            print(sorted({fact for _, fact, sure, _ in double.facts if sure}))
        fails(lambda: linear(torch.ones(2, 3), weight=w))
        """, "2.8.0", "0.23")
    assert lines == ["['linear-strided-weight']"] * 3 + [
        "[]", "RuntimeError Tensor for argument input is on cpu but expected on mps"]
