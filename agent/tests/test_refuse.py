"""What the double refuses, release by release and macOS by macOS: the exceptions that PyTorch's MPS backend raises at
these calls.

Where an expectation comes from stands beside it: a file of PyTorch (below aten/src/ATen/native/mps/operations where no
folder is given), whose text was compared with the release binaries, or an issue with the exception that a user saw.
"""

import re

FLOAT64 = "TypeError Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead."
# OperationUtils.mm, getMPSDataType
NO_DTYPE = "TypeError Trying to convert %s to the MPS backend but it does not have support for that dtype."
DIVISIBLE = ("RuntimeError Adaptive pool MPS: %s sizes must be divisible by %s sizes. Non-divisible input sizes are "
             "not implemented on MPS device yet. For now, you can manually transfer tensor to cpu in this case. Please "
             "refer to [this issue](https://github.com/pytorch/pytorch/issues/96056)")


def missing(operator, line):
    return re.match(r"NotImplementedError The operator '%s' is not currently implemented for the MPS device\. "
                    % re.escape(operator), line)


def test_types_and_shapes(rehearse):
    lines = iter(rehearse("""
        F = torch.nn.functional
        x = torch.rand(2, 3, 7, 7, device="mps")
        i = torch.arange(6, device="mps").view(2, 3)
        fails(lambda: x.double())
        fails(lambda: x.cdouble())
        fails(lambda: torch.zeros(3, dtype=torch.uint16, device="mps") + 1)
        fails(lambda: torch.zeros([1] * 17, device="mps"))
        fails(lambda: torch.zeros([1] * 16, device="mps"))
        fails(lambda: F.adaptive_avg_pool2d(x, 3))
        fails(lambda: F.adaptive_avg_pool2d(x[..., :6, :6], 3))
        fails(lambda: F.adaptive_avg_pool2d(x[..., :3, :3], 7))
        fails(lambda: F.adaptive_avg_pool2d(x[..., :6], (14, 3)))
        fails(lambda: F.conv2d(torch.ones(1, 1, 4, 4, dtype=torch.int64, device="mps"), torch.ones(1, 1, 2, 2, dtype=torch.int64, device="mps")))
        fails(lambda: F.linear(i, i))
        fails(lambda: i @ i.t())
        fails(lambda: F.conv_transpose3d(x[None].half(), torch.ones(2, 1, 2, 2, 2, device="mps").half()))
        fails(lambda: F.grid_sample(x, torch.zeros(2, 4, 4, 2, device="mps"), padding_mode="border", align_corners=False))
        fails(lambda: torch.rand(2, 2, 2, 2, 2, device="mps").topk(1, 0))
        fails(lambda: torch.rand(2, 2, 2, 2, 2, device="mps").topk(1, 1))
        fails(lambda: i.index_add(0, torch.tensor([0], device="mps"), i[:1]))
        fails(lambda: i.scatter_reduce(0, i.clamp(max=1), i, "amin"))
        fails(lambda: torch.nn.LSTM(3, 4, proj_size=2).to("mps")(x[0, 0, :, :3]))
        fails(lambda: i.to(torch.int16).index_put((torch.tensor([0], device="mps"),), i[:1].to(torch.int16), accumulate=True))
        fails(lambda: torch.zeros(3, dtype=torch.bfloat16, device="mps") + 1)
        """))
    assert next(lines) == FLOAT64  # reported: pytorch issue 77781
    assert next(lines) == NO_DTYPE % "ComplexDouble"
    # no such kernel
    assert next(lines) == "RuntimeError Failed to create function state object for: add_dense_ushort_ushort"
    # aten/src/ATen/mps/EmptyTensor.cpp
    assert next(lines) == "RuntimeError MPS supports tensors with dimensions <= 16, but got 17."
    assert next(lines) == "no error"
    assert next(lines) == DIVISIBLE % ("input", "output")  # AdaptivePooling.mm; pytorch issue 96056
    assert next(lines) == "no error"
    assert next(lines) == DIVISIBLE % ("output", "input")
    assert next(lines) == ("RuntimeError Adaptive pool MPS: Input height and width must both be greater than, or equal "
                           "to, or lesser than output height and width")
    assert next(lines) == "RuntimeError Convolution is supported only for Floating types"  # Convolution.mm
    assert next(lines) == "RuntimeError MPS device does not support linear for non-float inputs"  # Linear.mm
    assert next(lines) == "no error"  # integer products have a Metal kernel from 2.7 on
    # Convolution.mm
    assert next(lines) == "RuntimeError ConvTranspose 3D with BF16 or FP16 types is not supported on MPS"
    assert next(lines) == "RuntimeError MPS: Unsupported Border padding mode"  # GridSampler.mm
    assert next(lines) == "RuntimeError On-going issue on MPSGraph topk when ndims() - axis > 4, see issue #154890"
    assert next(lines) == "no error"
    assert next(lines) == "RuntimeError index_add(): Expected non int64 dtype for source."  # Indexing.mm
    assert next(lines) == "RuntimeError not supported for torch.int64"  # ScatterGather.mm
    assert next(lines) == "RuntimeError LSTM with projections is not currently supported with MPS."  # RnnOps.mm
    # no such kernel in 2.8
    assert next(lines) == "RuntimeError Failed to create function state object for: index_put_accumulate_short"
    assert next(lines) == "no error"


def test_older_release(rehearse):
    lines = iter(rehearse("""
        x = torch.rand(2, 3, device="mps")
        i = torch.arange(6, device="mps").view(2, 3)
        fails(lambda: x.to(torch.bfloat16))
        fails(lambda: torch.add(torch.zeros(2, dtype=torch.complex64, device="mps"), 2))
        fails(lambda: i @ i.t())
        fails(lambda: torch.conv3d(torch.rand(1, 1, 4, 4, 4, device="mps"), torch.rand(1, 1, 2, 2, 2, device="mps")))
        fails(lambda: torch.nn.functional.adaptive_avg_pool2d(torch.rand(1, 1, 7, 7, device="mps"), 3))
        fails(lambda: torch.sigmoid(i))
        """, "2.2.2", "0.17"))
    assert next(lines) == "TypeError BFloat16 is not supported on MPS"  # Comfy-Org/ComfyUI issue 5224
    assert next(lines) == "TypeError Complex types are unsupported on MPS"  # BinaryOps.mm
    assert next(lines) == "RuntimeError MPS device does not support mm for non-float inputs"  # LinearAlgebra.mm
    assert next(lines) == "RuntimeError Conv3D is not supported on MPS"  # Convolution.mm
    # without the advice, which 2.4 added
    assert next(lines) == "RuntimeError Adaptive pool MPS: input sizes must be divisible by output sizes."
    assert next(lines) == "RuntimeError MPS does not support sigmoid op with int64 input"  # UnaryOps.mm


def test_older_macos(rehearse):
    code = """
        fails(lambda: torch.arange(3, device="mps").cumsum(0))
        fails(lambda: torch.rand(3, device="mps").bfloat16())
        fails(lambda: torch.mul(torch.zeros(2, dtype=torch.complex64, device="mps"), 2))
        fails(lambda: torch.fft.rfft(torch.rand(4, device="mps")))
        fails(lambda: torch.nn.functional.conv1d(torch.rand(1, 1, 65538, device="mps"), torch.rand(1, 1, 2, device="mps")))
        """
    lines = iter(rehearse(code, macos=[13, 0]))
    # UnaryOps.mm
    assert next(lines) == "RuntimeError MPS does not support cumsum_out_mps op with int64 input. Support has been added in macOS 13.3"
    assert next(lines) == "TypeError MPS BFloat16 is only supported on MacOS 14 or newer"
    assert next(lines) == "TypeError Complex types are supported starting from MacOS 14.0+"  # BinaryOps.mm
    assert next(lines) == "RuntimeError FFT operations are only supported on MacOS 14+"  # FastFourierTransform.mm
    # Convolution.mm; pytorch PR 140726
    assert next(lines) == "NotImplementedError Output channels > 65536 not supported at the MPS device. "
    assert rehearse(code, macos=[15, 1]) == ["no error"] * 5


def test_newer_release(rehearse):
    lines = iter(rehearse("""
        x = torch.rand(2, 3, device="mps")
        i = torch.arange(6, device="mps").view(2, 3)
        fails(lambda: x.bfloat16())
        fails(lambda: (x > 0).argmax())
        fails(lambda: torch.linalg.cholesky(torch.eye(3, device="mps").half()))
        fails(lambda: torch.linalg.qr(torch.eye(3, dtype=torch.complex64, device="mps")))
        fails(lambda: i.to(torch.int16).index_put((torch.tensor([0], device="mps"),), i[:1].to(torch.int16), accumulate=True))
        fails(lambda: i.index_add(0, torch.tensor([0], device="mps"), i[:1]))
        fails(lambda: i.scatter_reduce(0, i.clamp(max=1), i, "prod"))
        fails(lambda: torch.nn.functional.softplus(i))
        fails(lambda: torch.addmm(torch.eye(2, dtype=torch.complex64, device="mps"), torch.eye(2, dtype=torch.complex64, device="mps"),
                                  torch.eye(2, dtype=torch.complex64, device="mps"), alpha=1j))
        a, b = x.half() + 1.5, x.half() + 1
        print(torch.equal(torch.special.zeta(a, b), torch.special.zeta(a.float(), b.float()).half()))
        """, "2.15.0", "0.29"))
    assert next(lines) == "no error"
    assert next(lines) == "RuntimeError argmax: not implemented for Bool"  # ReduceOps.mm
    assert next(lines).startswith("RuntimeError")
    assert next(lines) == "RuntimeError geqrf: MPS currently supports float32 only"  # LinearAlgebra.mm
    assert next(lines) == "no error"
    assert next(lines) == "no error"
    # no 64-bit atomics in Metal
    assert next(lines) == "RuntimeError Failed to create function state object for: scatter_prod_dense_long_long"
    assert next(lines) == "NotImplementedError softplus not implemented for Long"  # ActivationKernel.mm
    assert next(lines) == "no error"
    assert next(lines) == "True"  # a half kernel that MPS has and a CPU has not


def test_a_missing_gradient_refuses_at_backward(rehearse):
    lines = rehearse("""
        x = torch.rand(1, 1, 8, 8, device="mps", requires_grad=True)
        a = torch.rand(3, 3, device="mps", requires_grad=True)
        y = torch.nn.functional.interpolate(x, (4, 4), mode="bilinear", antialias=True).sum()
        z = torch.linalg.solve(a, torch.ones(3, device="mps")).sum()
        print(y.device, z.device)
        fails(lambda: y.backward())  # the first
        fails(lambda: z.backward())  # the second
        import linecache
        for operator, cause, kind, text, where in double.refusals:
            print(operator, cause, linecache.getline(where.rpartition(":")[0], int(where.rpartition(":")[2])).partition("#")[2].strip())
        """)
    assert lines[0] == "mps:0 mps:0"
    # torch/testing/_internal/common_mps.py in 2.8: "`_upsample_bilinear2d_aa_backward_out` not implemented for MPS",
    # "missing `aten::lu_solve`"
    assert missing("aten::_upsample_bilinear2d_aa_backward.grad_input",
                   lines[1]) or missing("aten::_upsample_bilinear2d_aa_backward", lines[1])
    assert missing("aten::linalg_lu_solve.out", lines[2])
    assert [line.split(" ", 1)[1] for line in lines[3:]] == ["missing the first", "missing the second"]


def test_what_pytorch_composes_stays_where_it_is(rehearse):
    """Tensors that PyTorch makes inside an operator live where its arguments do; what a script makes on the CPU stays a
    mistake."""
    lines = iter(rehearse("""
        F = torch.nn.functional
        x = torch.rand(4, 3, device="mps")
        s = torch.tensor(0.0, device="mps")
        s[s == 0] = 3
        print(s.item(), F.one_hot(torch.tensor([0, 2], device="mps")).device, torch.quantile(x, 0.5).dtype, torch.quantile(x, 0.5).device)
        y = torch.rand(3, device="mps", requires_grad=True)
        y.prod().backward()
        print(y.grad.device)
        fails(lambda: x[0] + torch.rand(3))
        fails(lambda: torch.cat([x, torch.rand(4, 3)]))
        # linalg_svd runs on the CPU as a whole: aten/src/ATen/mps/MPSFallback.mm. svdvals does not come by it.
        print(torch.linalg.svd(x)[1].device, torch.linalg.pinv(x).device)
        fails(lambda: torch.linalg.svdvals(x))
        """))
    assert next(lines) == "3.0 mps:0 torch.float32 mps:0"
    assert next(lines) == "mps:0"
    assert next(lines) == "RuntimeError Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!"
    assert next(lines) == "RuntimeError torch.cat(): all input tensors must be on the same device. Received mps:0 and cpu"
    assert next(lines) == "mps:0 mps:0"
    assert missing("aten::_linalg_svd.U", next(lines))


def test_a_half_divided_with_truncation(rehearse):
    """div_mode_template in BinaryOps.mm, 2.1 to 2.7, looks at rounding_mode trunc and at the dividend alone."""
    code = """
        x, y = torch.ones(3, dtype=torch.float16, device="mps"), torch.ones(3, device="mps")
        fails(lambda: torch.div(x, x, rounding_mode="trunc"))
        fails(lambda: torch.div(x, x, rounding_mode="floor"))
        fails(lambda: torch.div(y, x, rounding_mode="trunc"))
        fails(lambda: x // 2)
        """
    refused = "RuntimeError MPS: does not support trunc_divide op with float16 input"
    assert rehearse(code, release="2.7.1") == [refused] + ["no error"] * 3
    assert rehearse(code, release="2.8.0") == ["no error"] * 4


def test_gradients_that_a_cpu_adds_up_in_float64(rehearse):
    """On MPS they are added up in float32 (torch/csrc/autograd/FunctionsManual.cpp, renorm_backward; Sorting.cpp,
    quantile_compute): expected failures of no release. What a script itself asks for in float64 is refused, in the
    backward pass too."""
    lines = rehearse("""
        x = torch.rand(5, 3, device="mps", requires_grad=True)
        class Wide(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, g):
                return g.double().float()
        hooked = x * 2
        hooked.register_hook(lambda g: g.double())
        fails(lambda: torch.quantile(x, 0.5, dim=0).sum().backward())
        fails(lambda: torch.nanquantile(x, torch.tensor([0.2, 0.3], device="mps"), dim=0).sum().backward())
        fails(lambda: torch.renorm(x, 2, 0, 1.0).sum().backward())
        fails(lambda: Wide.apply(x).sum().backward())
        fails(lambda: hooked.sum().backward())
        """)
    assert lines == ["no error"] * 3 + [FLOAT64] * 2


def test_parts_of_composed_operators(rehearse):
    """Expected failures of 2.6 (test/test_mps.py): a bilinear form multiplies matrices of integers (Linear.cpp), a
    distance takes a norm (Distance.cpp). arange: RangeFactories.mm gives its numbers to getMPSScalar."""
    calls = """
        i = torch.ones(2, 3, dtype=torch.int32, device="mps")
        c = torch.ones(3, dtype=torch.complex64, device="mps")
        fails(lambda: torch.nn.functional.bilinear(i, i, torch.ones(4, 3, 3, dtype=torch.int32, device="mps")))
        fails(lambda: torch.nn.functional.bilinear(i.float(), i.float(), torch.ones(4, 3, 3, device="mps")))
        fails(lambda: torch.dist(c, c))
        fails(lambda: torch.dist(c.real, c.imag))
        fails(lambda: torch.arange(-8.5, -4.0, dtype=torch.uint8, device="mps"))
        fails(lambda: torch.arange(4.0, 1.0, -1.0, dtype=torch.uint8, device="mps"))
        fails(lambda: torch.arange(-8, -4, dtype=torch.uint8, device="mps"))
        fails(lambda: torch.arange(-8.5, -4.0, dtype=torch.int8, device="mps"))
        """
    bmm, norm = ("RuntimeError MPS device does not support bmm for non-float inputs",
                 "RuntimeError norm ops are not supported for complex yet")
    scalar = "RuntimeError value cannot be converted to type uint8_t without overflow"
    fine = "no error"
    assert rehearse(calls, release="2.6.0") == [bmm, fine, norm, fine, scalar, scalar, fine, fine]
    assert rehearse(calls, release="2.14.1") == [fine] * 8


def test_checks_before_any_kernel(rehearse):
    """Error inputs of 2.6 and 2.8, which raise there what they raise elsewhere: UnaryOps.cpp, AdaptiveMaxPooling2d.cpp;
    Blas.mm, dot_check. atan2 looks at its first input (BinaryOps.mm)."""
    calls = """
        F = torch.nn.functional
        x = torch.rand(1, 2, 2, device="mps")
        i = torch.ones(3, dtype=torch.int64, device="mps")
        fails(lambda: -torch.ones(2, dtype=torch.bool, device="mps"))
        fails(lambda: F.adaptive_max_pool2d(x, ()))
        fails(lambda: torch.dot(x[0, 0], torch.rand(2)))
        fails(lambda: torch.atan2(i, i))
        fails(lambda: torch.atan2(i.float(), i))
        """
    lines = rehearse(calls, release="2.6.0")
    assert "Error Negation, the `-` operator, on a bool tensor is not supported." in lines[0]
    assert "output_size" in lines[1]
    assert lines[2] == "RuntimeError Expected all tensors to be on the same device. Found: mps:0, cpu"
    assert lines[3:] == ["RuntimeError MPS does not support atan2 op with int64 input", "no error"]
    assert rehearse(calls, release="2.8.0")[0] == lines[0]


def test_what_goes_with_the_whole(rehearse):
    """Expected failures of 2.6, and pairs that work there: pinv of a Hermitian matrix asks for eigenvalues
    (LinearAlgebra.cpp); nearest interpolation of volumes goes to the CPU above autograd (MPSFallback.mm)."""
    lines = rehearse("""
        x = torch.eye(3, device="mps")
        v = torch.rand(1, 1, 2, 2, 2, device="mps", requires_grad=True)
        fails(lambda: torch.linalg.pinv(x, hermitian=True))
        fails(lambda: torch.linalg.pinv(x))
        fails(lambda: torch.nn.functional.interpolate(v, scale_factor=2).sum().backward())
        """, release="2.6.0")
    assert missing("aten::_linalg_eigh.eigenvalues", lines[0]) and lines[1:] == ["no error"] * 2
