"""The guards of the parts of torch's Python surface, as a script meets them, and what becomes of a part that cannot be
put up."""

import pytest

pytest.importorskip("torch")


def test_backend(rehearse):
    code = """
        import warnings
        C = torch._C
        print(torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory())
        def recorded(timing):
            e = torch.mps.Event(enable_timing=timing)
            e.record()
            return e
        first, second, silent = recorded(True), recorded(True), recorded(False)
        never = torch.mps.Event(enable_timing=True)
        print(first.elapsed_time(second) > 0, first.query())
        fails(lambda: second.elapsed_time(first))
        fails(lambda: first.elapsed_time(silent))
        fails(lambda: first.elapsed_time(never))
        fails(lambda: torch.mps.profiler.start("interval,often"))
        torch.mps.profiler.start("interval")
        fails(lambda: torch.mps.profiler.start("event"))
        torch.mps.profiler.stop()
        torch.mps.profiler.start("event")
        fails(lambda: C._mps_compileShader(""))
        fails(lambda: torch.mps.set_per_process_memory_fraction(2.5))
        torch.mps.set_per_process_memory_fraction(0.001)
        fails(lambda: torch.zeros(1 << 24, device="mps"))
        print(sorted(double.used))
        """
    lines = iter(rehearse(code))
    assert next(lines) == "0 393216"
    assert next(lines) == "True True"
    assert next(lines).startswith("RuntimeError End event")
    assert next(lines) == "RuntimeError Events were not created with argument 'enable_timing=True'"
    assert next(lines) == "RuntimeError Events were not created with argument 'enable_timing=True'"
    assert next(lines) == "RuntimeError Invalid Signpost trace mode: often"
    assert next(lines) == "RuntimeError Tracing Signposts is already enabled "
    assert next(lines).startswith("NotImplementedError assay: torch.mps.compile_shader runs Metal code")
    assert next(lines).startswith("ValueError Invalid fraction value: 2.5.")
    assert next(lines).startswith("RuntimeError MPS backend out of memory")
    assert next(lines) == str(["torch.mps.compile_shader: cannot be rehearsed",
                               "torch.mps.profiler: no signposts are made on the double"])
    newer = rehearse(code, "2.15.0", "0.29")
    assert newer[4] == "RuntimeError Both events must be recorded before calculating elapsed time"


def test_a_forked_child_cannot_use_the_device(rehearse):
    lines = rehearse("""
        import os
        def child():
            read, write = os.pipe()
            if os.fork() == 0:
                os.write(write, str(torch._C._mps_is_in_bad_fork()).encode())
                os._exit(0)
            os.wait()
            return os.read(read, 10).decode()
        print(child())
        torch.zeros(1, device="mps")
        print(child(), torch._C._mps_is_in_bad_fork())
        """)
    assert lines == ["False", "True False"]


def test_names_that_a_release_has_not(rehearse):
    code = """
        import torch.mps
        print([n in dir(torch.mps) for n in ("compile_shader", "device_count")], "compile_shader" in torch.mps.__all__)
        fails(lambda: torch.mps.compile_shader)
        fails(lambda: torch.mps.nothing_of_the_kind)
        accelerator = torch.accelerator
        print(hasattr(accelerator, "memory_allocated"), accelerator.is_available(), accelerator.current_accelerator())
        """
    assert rehearse(code, "2.6.0", "0.21") == [
        "[False, True] False", "AttributeError module 'torch.mps' has no attribute 'compile_shader'",
        "AttributeError module 'torch.mps' has no attribute 'nothing_of_the_kind'", "False True mps"]
    assert rehearse(code, "2.9.0", "0.24")[0] == "[True, True] True"


def test_accelerator(rehearse):
    code = """
        x = torch.zeros(1 << 20, device="mps")
        accelerator, mib = torch.accelerator, 1 << 20
        fails(lambda: print(accelerator.memory_allocated(), accelerator.max_memory_allocated()))
        fails(lambda: print([n // mib for n in torch._C._accelerator_getMemoryInfo(0)]))
        fails(lambda: print(torch._C._accelerator_getDeviceStats(0)["num_ooms"]))
        double.account.other = 100 << 30
        fails(lambda: print(torch._C._accelerator_getMemoryInfo(0)[0]))
        """
    refused = ("RuntimeError device_allocator INTERNAL ASSERT FAILED at \"c10/core/CachingDeviceAllocator.h\", "
               "please report a bug to PyTorch. Allocator for mps is not a DeviceAllocator.")
    assert rehearse(code, "2.12.0", "0.27") == [refused] * 4
    assert rehearse(code, "2.13.0", "0.28") == [
        "4194304 4194304", "no error", "[10890, 10922]", "no error", "0", "no error", "0", "no error"]


def test_autocast_rules(rehearse):
    code = """
        import warnings
        def said(call):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                fails(call)
            print([str(w.message)[:60] for w in seen])
        x = torch.ones(2, 2, device="mps")
        def cuda(on):
            with torch.autocast("cuda", enabled=on):
                pass
        said(lambda: cuda(True))
        said(lambda: cuda(False))
        def brain():
            with torch.autocast("mps", dtype=torch.bfloat16):
                print((x @ x).dtype, torch.is_autocast_enabled("mps"), torch.get_autocast_dtype("mps"))
        said(brain)
        with torch.autocast("mps", dtype=torch.float16):
            fails(lambda: torch.addcmul(x.half(), x.bfloat16(), x.half()))
            print(torch.addcmul(x.half(), x, x.half()).dtype)
        # On the CPU's autocast, tensors of MPS are no affair of its lists.
        with torch.autocast("cpu", dtype=torch.bfloat16):
            print((x @ x).dtype, (torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        print((x @ x).dtype)
        # A weight is cast once in a region, and anew in the next.
        w = torch.nn.Parameter(torch.ones(2, 2, device="mps"))
        half = x.half()
        def copies(inner):
            double.clear()
            with torch.autocast("mps", dtype=torch.float16):
                for _ in range(2):
                    with torch.autocast("mps", dtype=torch.float16, enabled=inner):
                        torch.mm(w, half)
            return double.operators["aten::_to_copy"].calls
        print(copies(True), copies(True))
        """
    lines = rehearse(code)
    assert lines[:4] == [
        "no error", "[\"User provided device_type of 'cuda', but CUDA is not availab\"]", "no error", "[]"]
    assert lines[4:7] == ["torch.bfloat16 True torch.bfloat16", "no error", "[]"]
    assert lines[7] == "RuntimeError Unexpected floating ScalarType in at::autocast::prioritize"
    assert lines[8:] == ["torch.float32", "torch.float32 torch.bfloat16", "torch.float32", "1 1"]


def test_autocast_where_bfloat16_is_not(rehearse):
    assert rehearse("""
        import warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with torch.autocast("mps", dtype=torch.bfloat16):
                print(torch.is_autocast_enabled("mps"))
        print(*(w.message for w in seen))
        """, "2.6.0", "0.21", macos=[13, 5]) == [
        "False", "In MPS autocast, but the target dtype torch.bfloat16 is not supported on macOS versions below 14. "
        "Disabling autocast."]


def test_optimizers_by_release(rehearse):
    code = """
        on, off = torch.nn.Parameter(torch.ones(2, device="mps")), torch.nn.Parameter(torch.ones(2))
        grouped = torch._C._group_tensors_by_device_and_dtype([[on, off]], True)
        print(sorted((str(d), indices) for (d, _), (_, indices) in grouped.items()))
        def step():
            o = torch.optim.SGD([on], 0.1, fused=True)
            on.grad = torch.ones(2, device="mps")
            o.step()
        fails(step)
        """
    parted = "[('cpu', [1]), ('mps:0', [0])]"
    new, old, older = rehearse(code, "2.15.0", "0.29"), rehearse(code, "2.4.1", "0.19"), rehearse(code, "2.3.0", "0.18")
    assert new == [parted, "no error"]
    assert old[0] == older[0] == parted
    assert old[1].startswith("RuntimeError `fused=True` requires all the params") and "'cpu'" in old[1]
    assert older[1].startswith("RuntimeError `fused=True` requires all the params") and "'cpu'" not in older[1]


def test_scaler_and_its_states(rehearse):
    code = """
        p = torch.nn.Parameter(torch.ones(2, device="mps"))
        o, s = torch.optim.SGD([p], 0.1), torch.amp.GradScaler("mps")
        s.scale(p.sum()).backward()
        s.unscale_(o)
        print(p.grad.tolist())
        fails(lambda: s.unscale_(o))
        s.step(o)
        fails(lambda: s.unscale_(o))
        """
    assert rehearse(code) == ["[1.0, 1.0]",
                              "RuntimeError unscale_() has already been called on this optimizer since the last "
                              "update().",
                              "RuntimeError unscale_() is being called after step()."]


def test_compile_by_release(rehearse):
    code = """
        f = torch.compile(lambda x: x + 1)
        fails(lambda: f(torch.ones(1, device="mps")))
        fails(lambda: torch.compile(lambda x: x, mode="default", options={}))
        fails(lambda: torch.compile(3))
        print(torch.compile(torch.nn.Linear(1, 1), disable=True).__class__.__name__, sorted(double.used))
        """
    new, old = rehearse(code, "2.7.1", "0.22"), rehearse(code, "2.6.0", "0.21")
    assert new == [
        "no error",
        "RuntimeError Either mode or options can be specified, but both can't be specified at the same time.",
        "AssertionError A callable function is expected, but <class 'int'> is provided.",
        "Linear ['torch.compile: compiled code cannot be rehearsed; the function ran as it is written']"]
    assert old[:2] == ["BackendCompilerFailed backend='inductor' raised:", "AssertionError: Device mps not supported"]


def test_loaders_by_release(rehearse):
    code = """
        import warnings
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.zeros(4, 2))
        def said(**more):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                next(iter(DataLoader(data, 2, **more)))
            print([str(w.message)[:40] for w in seen], all(w.filename == __file__ for w in seen))
        said()
        said(pin_memory=True)
        try:
            said(pin_memory=True, pin_memory_device="mps")
        except RuntimeError as error:
            print(str(error)[:29])
        """
    pinned, deprecated = "'pin_memory' argument is set as true but", "pin_memory_device is deprecated, the cur"
    assert rehearse(code, "2.9.0", "0.24") == ["[] True", "[%r] True" % pinned, "[%r, %r] True" % (deprecated, pinned)]
    assert rehearse(code) == ["[] True", "[%r] True" % pinned, "Attempted to set the storage "]
    assert rehearse(code, "2.6.0", "0.21") == ["[] True"] * 2 + ["Attempted to set the storage "]


def test_storages_and_tensors(rehearse):
    lines = iter(rehearse("""
        fails(lambda: torch.UntypedStorage(4, device="cuda"))
        s = torch.UntypedStorage(4, device="mps")
        print(s.mps() is s, s.cpu().device, s.cpu().mps().device)
        x = torch.ones(2, 2, device="mps")
        print(x.to("mps") is x, x.to("mps", torch.float16).dtype, x.to("mps", copy=True) is x, x.to("meta").device)
        print(x.numpy(force=True).tolist(), torch.tensor([1.], device="mps", requires_grad=True).requires_grad)
        print(x.type("torch.mps.HalfTensor").dtype, x.type("torch.mps.HalfTensor").device)
        fails(lambda: x.type("torch.cuda.FloatTensor"))
        fails(lambda: x.to("cuda"))
        w = torch.ones(2, requires_grad=True)
        (g,) = torch.autograd.grad((w.to("mps") * 2).sum(), w)
        print(g.device)
        print(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged, device="mps").device)
        e, f = torch.Event("mps", enable_timing=True), torch.Event("mps")
        fails(lambda: e.elapsed_time(f))
        fails(lambda: e.elapsed_time(e))
        fails(lambda: torch.nn.functional.linear(torch.ones(1, 2), x))
        print(isinstance(torch.Generator(), torch.Generator), torch.Generator(0).device, torch.Stream().device)
        fails(lambda: torch.Generator("cuda"))
        """))
    assert next(lines) == "AssertionError Torch not compiled with CUDA enabled"
    assert next(lines) == "True cpu mps:0"
    assert next(lines) == "True torch.float16 False meta"
    assert next(lines) == "[[1.0, 1.0], [1.0, 1.0]] True"
    assert next(lines) == "torch.float16 mps:0"
    assert next(lines) == next(lines) == "AssertionError Torch not compiled with CUDA enabled"
    assert next(lines) == "cpu"
    assert next(lines) == "mps:0"
    assert next(lines) == "RuntimeError Both events must be created with argument 'enable_timing=True'."
    assert next(lines) == "RuntimeError Both events must be recorded before calculating elapsed time."
    assert next(lines) == "RuntimeError Tensor for argument input is on cpu but expected on mps"
    assert next(lines) == "True mps:0 mps:0"
    assert next(lines) == "AssertionError Torch not compiled with CUDA enabled"


def test_linear_looks_at_placement_from_2_4_on(rehearse):
    code = "fails(lambda: torch.nn.functional.linear(torch.ones(1, 2), torch.ones(2, 2, device='mps')))"
    assert rehearse(code, "2.4.1", "0.19") == ["RuntimeError Tensor for argument input is on cpu but expected on mps"]
    assert rehearse(code, "2.3.0", "0.18") == ["RuntimeError Placeholder storage has not been allocated on MPS device!"]


def test_a_macos_that_is_too_old(rehearse):
    text = "RuntimeError The MPS backend is supported on MacOS 14.0+. Current OS version can be queried using `sw_vers`"
    assert rehearse("""
        print(torch.backends.mps.is_available())
        for make in (lambda: torch.ones(2).to("mps"), lambda: torch.ones(2, device="mps"),
                     lambda: torch.tensor([1.0], device="mps"),
                     lambda: torch.Generator("mps"), lambda: torch.UntypedStorage(2, device="mps"),
                     lambda: torch.sparse_coo_tensor(torch.tensor([[0], [0]]), torch.ones(1), (1, 1), device="mps")):
            fails(make)
        """, "2.9.0", "0.24", macos=[13, 0]) == ["False"] + [text] * 6


def test_a_part_that_cannot_be_put_up(rehearse):
    """It is a line of evidence, and the others stand."""
    lines = rehearse("""
        from assay_agent.double.current import current
        from assay_agent.double.double import Double
        def broken(double):
            raise KeyError("no such name")
        other = Double(double.settings)
        current.double = None
        print(install.put_up(torch, other, [("a part", broken), ("another", lambda double: print("put up"))]))
        print(current.double is other)
        """)
    assert lines == ["put up", "[\"a part: KeyError: 'no such name'\"]", "True"]
