"""The double, as a script meets it. Each test is a script of its own process: what is put into torch stays there.
conftest.py has rehearse."""


def test_where_tensors_live(rehearse):
    assert rehearse("""
        x = torch.randn(3, 4)
        y = x.to("mps")
        print(x.device, y.device, y.is_mps, y.is_cpu, y.get_device(), y.type())
        print((y + 1).device, y[0].device, y.view(-1).device, y.t().device, torch.zeros_like(y).device, torch.zeros_like(y, device="cpu").device)
        print(torch.zeros(2, device="mps").device, torch.tensor([1.0], device="mps").device, torch.arange(3, device="mps").device)
        print(y.cpu().device, y.to("cpu", torch.float64).dtype, torch.equal(y.cpu(), x))
        print(torch.tensor([1.0, 2.0], device="mps"))
        with torch.device("mps"):
            print(torch.ones(2).device)
        m = torch.nn.Linear(4, 2).to("mps")
        m(y).sum().backward()
        print(m.weight.device, m.weight.grad.device, m.state_dict()["weight"].device)
        w = torch.ones(3, requires_grad=True)
        (w.to("mps") * 2).sum().backward()
        print(w.grad.device, w.grad.tolist())
        v = torch.ones(3, requires_grad=True, device="mps")
        (v.cpu() * 2).sum().backward()
        print(v.grad.device)
        import copy
        print(next(copy.deepcopy(m).parameters()).device)
        m.cpu()
        print(m.weight.device)
        """) == [
        "cpu mps:0 True False 0 torch.mps.FloatTensor",
        "mps:0 mps:0 mps:0 mps:0 mps:0 cpu",
        "mps:0 mps:0 mps:0",
        "cpu torch.float64 True",
        "tensor([1., 2.], device='mps:0')",
        "mps:0",
        "mps:0 mps:0 mps:0",
        "cpu [2.0, 2.0, 2.0]",
        "mps:0", "mps:0", "cpu"]


def test_refusals(rehearse):
    lines = rehearse("""
        x = torch.randn(3, 4, device="mps")
        fails(lambda: torch.zeros(3, dtype=torch.float64).to("mps"))
        fails(lambda: x.double())
        fails(lambda: torch.linalg.eig(torch.eye(3, device="mps")))
        fails(lambda: torch.nn.functional.adaptive_avg_pool3d(torch.zeros(1, 2, 5, 5, 5, device="mps"), 3))
        fails(lambda: x + torch.randn(3, 4))
        fails(lambda: torch.nn.Linear(4, 2).to("mps")(torch.randn(2, 4)))
        fails(lambda: torch.nn.Conv2d(1, 1, 3).to("mps")(torch.randn(1, 1, 8, 8)))
        fails(lambda: x.numpy())
        fails(lambda: x.cuda())
        fails(lambda: torch.nn.functional.adaptive_avg_pool2d(torch.zeros(1, 1, 7, 7, device="mps"), 3))
        fails(lambda: x + torch.tensor(2.0))
        """)
    float64 = "TypeError Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead."
    assert lines[:2] == [float64, float64]
    assert lines[2].startswith("NotImplementedError The operator 'aten::linalg_eig' is not currently implemented for "
                               "the MPS device. If you want")
    assert lines[3].startswith("NotImplementedError The operator 'aten::_adaptive_avg_pool3d' is not")
    assert lines[4] == "RuntimeError Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!"
    assert lines[5] == "RuntimeError Tensor for argument input is on cpu but expected on mps"
    assert lines[6].startswith("RuntimeError slow_conv2d_forward_mps: input(device='cpu')")
    assert lines[7].startswith("TypeError can't convert mps:0 device type tensor to numpy.")
    assert lines[8] == "AssertionError Torch not compiled with CUDA enabled"
    assert lines[9].startswith("RuntimeError Adaptive pool MPS: input sizes must be divisible by output sizes.")
    assert lines[10] == "no error"


def test_release_decides(rehearse):
    code = """
        fails(lambda: torch.linalg.matrix_exp(torch.eye(3, device="mps")))
        x = torch.randn(1, 1, 4, 4, 4, device="mps")
        fails(lambda: torch.nn.functional.grid_sample(x, torch.zeros(1, 2, 2, 2, 3, device="mps"), align_corners=False))
        """
    assert ["NotImplementedError"] * 2 == [line.split()[0] for line in rehearse(code, "2.8.0")]
    assert rehearse(code, "2.15.0", "0.29") == ["no error", "no error"]


def test_fallback(rehearse, monkeypatch):
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    assert rehearse("""
        import warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(2):
                a = torch.linalg.eigvals(torch.eye(3, device="mps"))
                b = torch.nn.functional.adaptive_avg_pool3d(torch.zeros(1, 2, 5, 5, 5, device="mps"), 3)
        print(a.device, b.device, len(seen))
        print(str(seen[0].message)[:118])
        print(sorted(op for op, _ in double.fallbacks))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            double.warned = False
            def called():
                torch.linalg.eigvals(torch.eye(3, device="mps"))
                float(torch.ones(1, requires_grad=True))  # C++ warns of this itself: where, is what is wanted
            called()
        print(seen[1].lineno - seen[0].lineno, seen[0].filename == seen[1].filename == __file__)
        """) == [
        "mps:0 mps:0 1",
        "The operator 'aten::linalg_eig' is not currently supported on the MPS backend and will fall back to run on "
        "the CPU. Th",
        "['aten::_adaptive_avg_pool3d', 'aten::linalg_eig']",
        "1 True"]


def test_values_are_the_cpus(rehearse):
    training = """
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
        x, y = torch.randn(8, 1, 8, 8), torch.randint(0, 3, (8,))
        model, x, y = model.to(%(device)r), x.to(%(device)r), y.to(%(device)r)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            print(loss.item().hex())
        """
    on_double = rehearse(training % {"device": "mps"})
    assert on_double == rehearse(training % {"device": "cpu"}) and len(set(on_double)) == 5


def test_memory(rehearse):
    lines = rehearse("""
        import gc
        a = torch.empty(1 << 20, device="mps")
        print(torch.mps.current_allocated_memory())
        b = a.view(2, -1)
        del a
        print(torch.mps.current_allocated_memory())
        del b
        gc.collect()
        print(torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory() > 4 << 20)
        torch.mps.empty_cache()
        print(torch.mps.driver_allocated_memory() < 1 << 20)
        """)
    assert lines == [str(4 << 20), str(4 << 20), "0 True", "True"]


def test_without_data(rehearse):
    lines = rehearse("""
        model = torch.nn.Sequential(torch.nn.Linear(1 << 14, 1 << 14), torch.nn.ReLU(), torch.nn.Linear(1 << 14, 10)).to("mps")
        print(next(model.parameters()).device, next(model.parameters()).is_meta)
        loss = model(torch.randn(64, 1 << 14).to("mps")).sum()
        loss.backward()
        print(loss.device, loss.item(), double.account.peak_current > 2 << 30)
        fails(lambda: [torch.empty(7 << 30, dtype=torch.uint8, device="mps") for _ in range(3)])
        fails(lambda: torch.empty(30 << 30, dtype=torch.uint8, device="mps"))
        """, shape_only=True)
    assert lines[:2] == ["mps:0 False", "mps:0 0.0 True"]
    assert lines[2].startswith("RuntimeError MPS backend out of memory (MPS allocated: 16.0")
    assert lines[3] == "RuntimeError Invalid buffer size: 30.00 GiB"  # Metal makes none above 8 GiB on 16


def test_what_needs_values_says_so_without_data(rehearse):
    """Shapes that depend on values, and operators without a rule of shapes: one clear error, of a cause of its own. With
    data each runs."""
    code = """
        x = torch.ones(20, 20, device="mps")
        n = torch.ones(20, dtype=torch.long, device="mps")
        for call in (lambda: x.nonzero(), lambda: x[x > 0], lambda: torch.masked_select(x, x > 0), lambda: x.unique(),
                     lambda: torch.where(x > 0), lambda: torch.repeat_interleave(n), lambda: torch.bincount(n),
                     lambda: torch.equal(x, x), lambda: torch.allclose(x, x),
                     lambda: (lambda c: c[c > 0])(torch.ones(300, 300))):
            fails(call)
        print(sorted({cause for _, cause, _, _, _ in double.refusals}), double.refusal is None)
        print(sum(counts.refused for counts in double.operators.values()))
        """
    assert set(rehearse(code)[:10]) == {"no error"}
    lines = rehearse(code, shape_only=True)
    for line in lines[:10]:
        assert line.startswith("NotImplementedError aten::") and "--shape-only" in line and "with data" in line, line
        assert "meta" not in line
    assert lines[10:] == ["['values'] True", "0"]


def test_values_for_python_are_zeros_without_data(rehearse):
    """tolist() and numpy(), of tensors of any size, as item() and a copy to the CPU."""
    assert rehearse("""
        x = torch.ones(300, 300, device="mps")
        print(x[0, :3].tolist(), x.tolist()[299][299], x.cpu().numpy().sum(), torch.ones(300, 300).numpy().shape)
        fails(lambda: x.numpy())
        fails(lambda: torch.ones(300, 300, requires_grad=True).numpy())
        print(double.account.current)
        """, release="2.15.0", vision="0.29", shape_only=True) == [
            "[0.0, 0.0, 0.0] 0.0 0.0 (300, 300)",
            "TypeError can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first.",
            "RuntimeError Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            str(-(-300 * 300 * 4 // 256) * 256)]


def test_files_of_shapes_alone(rehearse, tmp_path):
    """What is saved from a rehearsal without data can be saved and read again: zeros stand for the values."""
    path = str(tmp_path / "file.pt")
    assert rehearse("""
        import io, pickle, torch.nn as nn
        layer, large = nn.Linear(3, 2).to("mps"), nn.Linear(300, 300)
        for options in ({}, {"_use_new_zipfile_serialization": False}):
            torch.save({"layer": layer.state_dict(), "large": large.state_dict()}, PATH, **options)
            state = torch.load(PATH)
            print(layer.load_state_dict(state["layer"]), large.load_state_dict(state["large"]))
            print(state["layer"]["weight"].device, state["large"]["weight"].device)
            for place in ("cpu", "mps"):
                state = torch.load(PATH, map_location=place)
                print(state["layer"]["weight"].device, state["large"]["weight"].device)
        print(pickle.loads(pickle.dumps(layer.weight)).device, pickle.loads(pickle.dumps(large.weight)).device)
        print(torch.UntypedStorage(4, device="mps").device, large.weight.untyped_storage().cpu().nbytes())
        """.replace("PATH", repr(path)), shape_only=True) == [
        "<All keys matched successfully> <All keys matched successfully>", "mps:0 cpu", "cpu cpu", "mps:0 mps:0"] * 2 + [
        "mps:0 cpu", "mps:0 360000"]
    import torch
    saved = torch.load(path, map_location="cpu")  # without the double
    assert saved["large"]["weight"].shape == (300, 300) and not saved["layer"]["weight"].any()


def test_threads(rehearse):
    assert rehearse("""
        import threading
        thread = threading.Thread(target=lambda: print((torch.zeros(2, device="mps") + 1).device))
        thread.start()
        thread.join()
        """) == ["mps:0"]


def test_lazy_layers(rehearse):
    assert rehearse("""
        net = torch.nn.Sequential(torch.nn.LazyConv2d(4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(2)).to("mps")
        out = net(torch.randn(2, 3, 8, 8, device="mps"))
        out.sum().backward()
        print(out.device, {p.device.type for p in net.parameters()}, {p.grad.device.type for p in net.parameters()})
        """) == ["mps:0 {'mps'} {'mps'}"]


def test_lazy_layers_change_their_type(rehearse):
    assert rehearse("""
        net = torch.nn.LazyConv1d(4, 3).to("mps").to(torch.float16).cpu().float().to("mps")
        print(net.weight.device, net.weight.dtype, net(torch.randn(2, 3, 8, device="mps")).device, net.weight.shape)
        """) == ["mps:0 torch.float32 mps:0 torch.Size([4, 3, 3])"]


def test_legacy_ways_to_make_a_tensor_like_another(rehearse):
    assert rehearse("""
        x, c = torch.ones(2, 3, device="mps"), torch.arange(3)
        print(c.type_as(x).device, c.type_as(x).dtype, x.type_as(c).device, x.type_as(c).dtype, (x * torch.ones(3).type_as(x)).device)
        w = torch.ones(3, requires_grad=True)
        (w.type_as(x) * x).sum().backward()
        print(w.grad)
        for new in (x.new(2, 4), x.new(torch.Size([2, 4])), x.new([2, 4]), x.new((2, 4)), x.new(), x.new(5).zero_(), c.new(2)):
            print(new.device, new.dtype, list(new.shape))
        x.new(3).mul_(x[0])
        fails(lambda: x.apply_(lambda v: v))
        print(c.apply_(lambda v: v + 1))
        """) == [
        "mps:0 torch.float32 cpu torch.int64 mps:0", "tensor([2., 2., 2.])",
        "mps:0 torch.float32 [2, 4]", "mps:0 torch.float32 [2, 4]", "mps:0 torch.float32 [2]",
        "mps:0 torch.float32 [2]", "mps:0 torch.float32 [0]",
        "mps:0 torch.float32 [5]", "cpu torch.int64 [2]", "TypeError apply_ is only implemented on CPU tensors",
        "tensor([1, 2, 3])"]


def test_files_under_a_default_device(rehearse):
    assert rehearse("""
        import copy, io, pickle
        state = torch.nn.Linear(2, 2).to("mps").state_dict()
        torch.set_default_device("mps")
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        for again in (pickle.loads(pickle.dumps(state)), copy.deepcopy(state), torch.load(file)):
            print(again["bias"].device, torch.equal(again["bias"], state["bias"]), again["bias"].untyped_storage().device)
        print(torch.tensor([1.5]), torch.load(io.BytesIO(file.getvalue()), map_location="cpu")["bias"].device)
        """) == ["mps:0 True mps:0"] * 3 + ["tensor([1.5000], device='mps:0') cpu"]
