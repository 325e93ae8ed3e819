"""What a script meets beyond tensors: names, generators, autocast, files, storages, sparse layouts, processes,
TorchScript, torch.func."""

import pytest

torch = pytest.importorskip("torch")


def test_names_by_release(rehearse):
    code = """
        has = lambda module, *names: [hasattr(module, n) for n in names]
        print(torch.backends.mps.is_available(), torch.backends.mps.is_built(), torch.cuda.is_available(), torch.cuda.device_count(), torch.version.cuda)
        print(has(torch.mps, "device_count", "recommended_max_memory", "compile_shader", "Stream", "memory_allocated"), has(torch, "accelerator"))
        print(has(torch.backends.mps, "is_macos_or_newer", "get_name"))
        start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
        start.record()
        end.record()
        print(start.elapsed_time(end) > 0, torch.mps.synchronize())
        fails(lambda: torch.zeros(2, device="cuda"))
        fails(lambda: torch.nn.Linear(2, 2).cuda())
        fails(lambda: torch.cuda.Stream())
        fails(lambda: torch.ones(2).pin_memory())
        """
    common = ["AssertionError Torch not compiled with CUDA enabled"] * 2 + ["RuntimeError Tried to instantiate dummy "
                                                                            "base class Stream"]
    pinned = ("RuntimeError Attempted to set the storage of a tensor on device \"cpu\" to a storage on different "
              "device \"mps:0\".  This is no longer allowed; the devices must match.")
    old, middle, new = rehearse(code, "2.3.0", "0.18"), rehearse(code), rehearse(code, "2.15.0", "0.29")
    assert old[:3] == ["True True False 0 None", "[False, False, False, False, False] [False]", "[True, False]"]
    assert middle[:3] == ["True True False 0 None", "[True, True, True, False, False] [True]", "[True, False]"]
    assert new[:3] == ["True True False 0 None", "[True, True, True, True, False] [True]", "[True, True]"]
    assert old[3:7] == middle[3:7] == new[3:7] == ["True None"] + common
    assert old[7] == middle[7] == pinned and new[7] == "no error"


def test_generators(rehearse):
    assert rehearse("""
        g = torch.Generator(device="mps").manual_seed(3)
        drawn = torch.randn(4, device="mps", generator=g)
        print(g.device, torch.equal(drawn.cpu(), torch.randn(4, generator=torch.Generator().manual_seed(3))))
        fails(lambda: torch.randn(4, device="mps", generator=torch.Generator()))
        fails(lambda: torch.randn(4, generator=g))
        fails(lambda: torch.randperm(4, device="mps", generator=torch.Generator()))
        torch.manual_seed(5)
        a = torch.randn(3, device="mps").cpu()
        torch.manual_seed(5)
        print(torch.equal(a, torch.randn(3)))
        torch.manual_seed(5)
        torch.mps.manual_seed(7)  # from here on two streams
        b, c = torch.randn(3), torch.randn(3, device="mps").cpu()
        print(torch.equal(a, b), torch.equal(c, torch.randn(3, generator=torch.Generator().manual_seed(7))))
        state = torch.mps.get_rng_state()
        d = torch.rand(3, device="mps")
        torch.mps.set_rng_state(state)
        print(torch.equal(d, torch.rand(3, device="mps")))
        torch.set_default_device("mps")
        data = torch.utils.data.TensorDataset(torch.zeros(4, 2))
        fails(lambda: list(torch.utils.data.DataLoader(data, 2, shuffle=True)))
        """) == [
        "mps:0 True",
        "RuntimeError Expected a 'mps' device type for generator but found 'cpu'",
        "RuntimeError Expected a 'cpu' device type for generator but found 'mps'",
        "RuntimeError Expected a 'mps:0' generator device but found 'cpu'",
        "True", "True True", "True",
        "RuntimeError Expected a 'mps:0' generator device but found 'cpu'"]


def test_the_innermost_device_is_meant(rehearse):
    assert rehearse("""
        torch.set_default_device("mps")
        print(torch.tensor(0.).device, torch.tensor(0., device="cpu").device)
        with torch.device("meta"):
            print(torch.tensor(0.).device, torch.as_tensor([1.]).device, torch.asarray([1]).device,
                  torch.sparse_coo_tensor([[0]], [1.], (2,)).device)
            with torch.device("mps"):
                print(torch.tensor(0.).device, torch.as_tensor([1.]).device)
        """) == ["mps:0 cpu", "meta meta meta meta", "mps:0 mps:0"]


def test_autocast_and_scaler(rehearse):
    code = """
        import warnings
        def said(call):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                fails(call)
            for w in seen:
                print(w.category.__name__, w.message, w.filename == __file__)
        def types(dtype):
            layer, x = torch.nn.Linear(4, 4).to("mps"), torch.randn(2, 4, device="mps")
            with torch.autocast("mps", dtype=dtype):
                y = layer(x)
                print(y.dtype, y.softmax(-1).dtype, torch.nn.functional.layer_norm(y, (4,)).dtype)
        said(lambda: types(torch.float16))
        said(lambda: types(torch.bfloat16))
        said(lambda: types(torch.float64))
        def step():
            layer = torch.nn.Linear(4, 4).to("mps")
            optimizer, scaler = torch.optim.SGD(layer.parameters(), 0.1), torch.amp.GradScaler("mps")
            scaler.scale(layer(torch.ones(2, 4, device="mps")).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            print(scaler.get_scale())
        said(step)
        """
    assert rehearse(code, "2.3.0", "0.18") == ["RuntimeError User specified an unsupported autocast device_type 'mps'"] * 3 + [
        "TypeError Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please "
        "use float32 instead."]
    assert rehearse(code) == [
        "torch.float16 torch.float32 torch.float32", "no error",
        "torch.bfloat16 torch.float32 torch.float32", "no error",
        "torch.float32 torch.float32 torch.float32", "no error",
        "UserWarning In MPS autocast, but the target dtype is not supported. Disabling autocast.",
        "MPS Autocast only supports dtype of torch.bfloat16 and torch.float16 currently. True",
        "65536.0", "no error"]


def test_files_and_storages(rehearse, tmp_path):
    path = str(tmp_path / "file.pt")
    lines = rehearse("""
        import copy, pickle
        layer = torch.nn.Linear(3, 2).to("mps")
        torch.save({"layer": layer.state_dict(), "x": torch.arange(3, device="mps")}, PATH)
        for options in ({}, {"map_location": "cpu"}, {"map_location": "mps"}, {"map_location": lambda storage, place: storage}, {"weights_only": True},
                        {"mmap": True, "map_location": "mps:0"}):
            loaded = torch.load(PATH, **options)
            print(loaded["layer"]["weight"].device, loaded["x"].device)
        x = torch.arange(3., device="mps")
        print(x.untyped_storage().device, x.storage().device, torch.UntypedStorage(4, device="mps").device, copy.deepcopy(x).device,
              pickle.loads(pickle.dumps(x)).device)
        on_cpu = torch.zeros(2, 3)
        on_cpu[0] = x
        print(on_cpu.device, on_cpu.tolist(), on_cpu.copy_(x).device)
        p = torch.nn.Parameter(torch.ones(2))
        p.data = p.data.to("mps")
        print(p.device, x.type(torch.FloatTensor).device)
        fails(lambda: setattr(p, "grad", torch.ones(2)))
        fails(lambda: torch.zeros(4)[torch.tensor([1], device="mps")])
        fails(lambda: x.share_memory_())
        with torch.device("mps"):
            print(torch.tensor([1.0]).device, torch.nn.Linear(2, 2).weight.device)
        """.replace("PATH", repr(path)))
    assert lines == ["mps:0 mps:0", "cpu cpu", "mps:0 mps:0", "cpu cpu", "mps:0 mps:0", "mps:0 mps:0",
                     "mps:0 mps:0 mps:0 mps:0 mps:0", "cpu [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]] cpu", "mps:0 cpu",
                     "RuntimeError assigned grad has data located on a different device",
                     "RuntimeError indices should be either on cpu or on the same device as the indexed tensor (cpu)",
                     "RuntimeError _share_filename_: only available on CPU", "mps:0 mps:0"]
    # Without the double, it is a file from a Mac: its storages say so, and map_location brings them to the CPU.
    assert torch.load(path, map_location="cpu")["x"].tolist() == [0, 1, 2]
    seen = []
    torch.load(path, map_location=lambda storage, location: seen.append(location) or storage)
    assert set(seen) == {"mps"}


def test_sparse_and_nested(rehearse):
    code = """
        index = torch.tensor([[0, 1], [1, 0]])
        fails(lambda: torch.sparse_coo_tensor(index, torch.ones(2), (2, 2), device="mps"))
        fails(lambda: torch.eye(2).to_sparse().to("mps"))
        fails(lambda: torch.eye(2, device="mps").to_sparse())
        fails(lambda: torch.eye(2).to_sparse_csr().to("mps"))
        fails(lambda: torch.nested.nested_tensor([torch.ones(2)], device="mps"))
        """
    old, new = rehearse(code), rehearse(code, "2.15.0", "0.29")
    assert old[0].startswith("NotImplementedError Could not run 'aten::_sparse_coo_tensor_with_dims_and_tensors' with "
                             "arguments from the 'SparseMPS' backend.")
    assert old[1].startswith("NotImplementedError Could not run 'aten::empty.memory_format' with arguments from the "
                             "'SparseMPS' backend.")
    assert old[2].startswith("NotImplementedError The operator 'aten::_to_sparse' is not currently implemented for the "
                             "MPS device.")
    # SparseCsrTensor.cpp, in every release: pytorch issue 196192
    assert old[3] == new[3] == "NotImplementedError Could not run 'new_compressed_tensor' from the 'mps:0' device.)"
    assert new[:3] == ["no error"] * 3
    assert old[4] == new[4] == "RuntimeError NestedTensorImpl storage must be either CUDA, CPU, XPU or privateuseone but got mps:0"


def test_below_autograd(rehearse):
    """Inference mode, operators that a script defines, torch.func, subclasses and TorchScript take other ways to an
    operator."""
    assert rehearse("""
        import warnings
        warnings.simplefilter("ignore")
        x = torch.ones(2, 2, device="mps")
        def outcome(call):
            try:
                call()
            except NotImplementedError as error:
                return str(error).split("'")[1]
        with torch.inference_mode():
            print(outcome(lambda: torch.linalg.eigvals(x)))
        @torch.library.custom_op("mine::eigvals", mutates_args=())
        def eigvals(x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvals(x * 2)
        print(outcome(lambda: eigvals(x)), eigvals(x.cpu()).device)
        @torch.library.custom_op("mine::plus", mutates_args=(), device_types="cpu")
        def plus(x: torch.Tensor) -> torch.Tensor:
            return x + 1
        print(outcome(lambda: plus(x)))
        print(torch.func.vmap(lambda a: a + torch.zeros(2, device=a.device))(x).device, torch.func.hessian(lambda a: a.sin().sum())(x[0]).device)
        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
            def __init__(self, inner):
                self.inner = inner
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                return func(*(a.inner if isinstance(a, Wrapper) else a for a in args), **(kwargs or {}))
        print(Wrapper(x).device, (Wrapper(x) + 1).device, outcome(lambda: torch.linalg.eigvals(Wrapper(x))))
        layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()).to("mps")
        print(torch.jit.script(layer)(x).device, torch.jit.trace(layer, x)(x).device)
        """) == ["aten::linalg_eig", "aten::linalg_eig cpu", "mine::plus", "mps:0 mps:0",
                 "mps:0 mps:0 aten::linalg_eig", "mps:0 mps:0"]


@pytest.mark.full_set
def test_compile(rehearse):
    code = """
        layer = torch.nn.Linear(2, 2).to("mps")
        compiled = torch.compile(layer)
        print(list(compiled.state_dict()), torch.compile(lambda a: a + 1)(torch.ones(1)).item())
        fails(lambda: compiled(torch.ones(1, 2, device="mps")))
        fails(lambda: torch.compile(layer, backend="mps"))
        fails(lambda: torch.export.export(layer, (torch.ones(1, 2, device="mps"),)))
        class Scaled(torch.nn.Module):
            def forward(self, x):
                return x * torch.ones(x.shape[0], 1)
        print(torch.export.export(Scaled(), (torch.ones(3, 2),)).module()(torch.ones(3, 2)).sum().item())
        """
    new, old = rehearse(code), rehearse(code, "2.6.0", "0.21")
    assert new[0] == old[0] == "['_orig_mod.weight', '_orig_mod.bias'] 2.0" and new[1] == "no error"
    assert "".join(old[1:]).startswith("BackendCompilerFailed backend='inductor' raised:AssertionError: Device mps not "
                                       "supported")
    assert new[4] == old[-1] == "6.0"  # a tensor of the CPU is traced as without the double
    assert new[2] == "InvalidBackend Invalid backend: 'mps'. See `torch._dynamo.list_backends()` for available backends."
    assert new[3].startswith("NotImplementedError assay: tracing of tensors on MPS")  # what cannot be rehearsed says so


def test_processes(rehearse):
    lines = rehearse("""
        import multiprocessing, os, resource, warnings
        import torch.distributed as dist
        from torch.utils.data import DataLoader, TensorDataset
        print(multiprocessing.get_start_method(), torch.multiprocessing.get_sharing_strategy(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        data = TensorDataset(torch.zeros(4, 2))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            print(next(iter(DataLoader(data, 2, pin_memory=True)))[0].is_pinned())
        print(*(w.message for w in seen))
        fails(lambda: next(iter(DataLoader(data, 2, num_workers=1, collate_fn=lambda rows: rows))))
        fails(lambda: multiprocessing.reduction.ForkingPickler.dumps(torch.ones(2, device="mps")))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
        fails(lambda: dist.init_process_group("nccl"))
        dist.init_process_group("gloo", init_method="file://" + os.path.join(os.path.dirname(__file__), "meeting-" + str(os.getpid())), rank=0, world_size=1)
        fails(lambda: dist.all_reduce(torch.ones(2)))
        fails(lambda: dist.all_reduce(torch.ones(2, device="mps")))
        """)
    assert lines[:3] == ["spawn file_system 256", "False",
                         "'pin_memory' argument is set as true but not supported on MPS now, device pinned memory "
                         "won't be used."]
    assert "pickle" in lines[3] and "<lambda>" in lines[3]
    assert lines[4] == "RuntimeError _share_filename_: only available on CPU"
    assert lines[5] == "RuntimeError Distributed package doesn't have NCCL built in"
    assert lines[6] == "no error"
    assert lines[7].startswith("NotImplementedError The operator 'c10d::allreduce_' is not currently implemented for "
                               "the MPS device.")


def test_a_trace_keeps_what_it_ran(rehearse):
    assert rehearse("""
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = torch.nn.Conv2d(3, 4, 3, padding=1, groups=1)
                self.up = torch.nn.ConvTranspose2d(4, 2, 2, stride=2, output_padding=1, groups=2)
            def forward(self, x):
                return self.up(torch.relu(self.conv(x)))
        for device in ("cpu", "mps"):
            net = Net().to(device)
            traced = torch.jit.trace(net, torch.randn(1, 3, 8, 8, device=device))
            x = torch.randn(2, 3, 6, 6, device=device)
            out = traced(x)
            out.sum().backward()
            print(torch.equal(out, net(x)), out.device, net.conv.weight.grad.device, str(traced.inlined_graph).count("aten::_convolution"))
        print(torch.nn.functional.conv2d is torch.conv2d)
        """) == ["True cpu cpu 2", "True mps:0 mps:0 2", "True"]


def test_a_trace_of_sizes(rehearse):
    """The sizes that a trace follows are numbers in tensors, which a mode is given as numbers."""
    assert rehearse("""
        mask = torch.tensor([True, False])
        f = lambda x: torch.where(mask.to(x.device).expand(x.shape[0], 2), x, x * 2)
        for device in ("cpu", "mps"):
            print(torch.jit.trace(f, torch.ones(3, 2, device=device))(torch.ones(3, 2, device=device)).sum().item())
        """) == ["9.0", "9.0"]


def test_a_trace_warns_as_on_the_cpu(rehearse):
    """Nothing of the double's own compares a size that a trace follows; a number becomes a tensor on the CPU, whatever
    the default device is."""
    assert rehearse("""
        import warnings
        def graph(device):
            torch.set_default_device(device)
            net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(2),
                                      torch.nn.Linear(1, 4))
            f = lambda x: torch.where(x > 0, x, x * 2).reshape(x.shape[0], -1) / x.shape[0]
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                traced = torch.jit.trace(torch.nn.Sequential(net), torch.randn(2, 3, 8, 8)), torch.jit.trace(f, torch.randn(2, 3))
            kinds = [n.kind() for t in traced for n in t.inlined_graph.nodes() if n.kind() != "aten::_convolution"]
            return [(str(w.category), w.lineno) for w in told], [k for k in kinds if "convolution" not in k]
        cpu, mps = graph("cpu"), graph("mps")
        print(cpu[0] == mps[0], cpu[1] == mps[1], len(cpu[1]) > 10)
        """) == ["True True True"]


def test_as_it_is(rehearse):
    """as_tensor and asarray hand a tensor back where it lives on the device asked for, and only then."""
    assert rehearse("""
        x = torch.ones(2, device="mps")
        for f in (torch.as_tensor, torch.asarray):
            moved, typed = f(x, device="cpu"), f(x, device=torch.device("cpu"), dtype=torch.float16)
            print(moved.device, typed.device, typed.dtype, f(x).device, f(x, device="mps") is x, moved.sum().item())
        with torch.device("cpu"):
            print(torch.as_tensor(x).device)
        print(torch.as_tensor(moved, device="cpu") is moved, torch.asarray(x, device="cpu", requires_grad=True).requires_grad)
        fails(lambda: torch.as_tensor(x, device="cpu") + x)
        """) == ["cpu cpu torch.float16 mps:0 True 2.0", "cpu cpu torch.float16 mps:0 True 2.0", "cpu", "True True",
                 "RuntimeError Expected all tensors to be on the same device, but found at least two devices, mps:0 "
                 "and cpu!"]


def test_what_load_takes_by_default(rehearse):
    code = """
        import io, numpy
        file = io.BytesIO()
        torch.save({"a": numpy.ones(2)}, file)
        def load(**more):
            file.seek(0)
            return print(torch.load(file, **more)["a"].tolist())
        load(weights_only=False)
        try:
            load()
        except Exception as error:
            print(type(error).__name__)
        """
    assert rehearse(code, release="2.8.0") == ["[1.0, 1.0]", "UnpicklingError"]
    assert rehearse(code, release="2.3.1") == ["[1.0, 1.0]", "[1.0, 1.0]"]
