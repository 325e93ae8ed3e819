"""A double is an object: two of them, of different releases and Macs, in one process."""

import pytest

torch = pytest.importorskip("torch")

from assay_agent.double.double import Double  # noqa: E402

OLD = dict(release="2.2.2", vision="0.17", macos=[13, 0], chip="m2-8gb", chip_name="Apple M2", memory=8 << 30, cores=10)


def test_two_that_are_not_in_use(double_settings):
    """Nothing of torch is touched by making one."""
    attributes = {name: vars(torch)[name] for name in ("tensor", "Generator", "compile")}
    a, b = Double(double_settings("2.15.0", "0.29"), {}), Double(double_settings(**OLD),
                                                                 {"PYTORCH_ENABLE_MPS_FALLBACK": "1"})
    assert (a.series, a.macos, a.fallback, a.recommended) == ((2, 15), (15, 0), False, 11453251584)
    assert (b.series, b.macos, b.fallback, b.recommended) == ((2, 2), (13, 0), True, 5726633984)
    x = torch.zeros(1 << 18)
    a.place.mark(x)
    assert a.place.on_mps(x) and not b.place.on_mps(x)
    assert a.account.current == 1 << 20 and b.account is None
    a.refused("aten::mm", "missing", NotImplementedError("no"))
    b.stood_in("aten::item")
    assert [len(seen) for d in (a, b) for seen in (d.refusals, d.notes)] == [1, 0, 0, 1]
    del x
    assert a.account.current == 0
    assert {name: vars(torch)[name] for name in attributes} == attributes and torch.zeros(1).device.type == "cpu"


def test_a_table_that_lacks_a_part(double_settings, tmp_path):
    table = tmp_path / "table.json"
    table.write_text('{"ops": {}, "lacks": {}, "autocast": {}, "commit": ""}')
    with pytest.raises(ValueError, match="it has no structured, sparse"):
        Double(double_settings(table=str(table)))


@pytest.mark.parametrize("flag, on", [(None, False), ("", False), ("0", False), ("yes", False), ("1", True),
                                      ("-1", True)])
def test_the_fallback_is_read_as_pytorch_reads_it(double_settings, flag, on):
    assert Double(double_settings(), {} if flag is None else {"PYTORCH_ENABLE_MPS_FALLBACK": flag}).fallback is on


def test_used_in_turn(rehearse, double_settings):
    """One is put up, and the other is put in use for a while: each has its own device, release, account, streams and
    evidence."""
    lines = iter(rehearse("""
        from assay_agent.double.double import Double
        new, old = double, Double(%r)
        def of(d):
            print({n: c.calls for n, c in d.operators.items() if c.calls}, len(d.refusals), len(d.fallbacks),
                  d.account and d.account.current)
        def machine():
            backend = torch.backends.mps
            print(backend.get_name(), torch.mps.recommended_max_memory(), backend.is_macos_or_newer(14, 0))
        def conv():
            return torch.conv3d(torch.zeros(1, 1, 4, 4, 4, device="mps"), torch.zeros(1, 1, 2, 2, 2, device="mps"))
        def drawn():
            return torch.randn(2, device="mps").tolist()
        machine()
        x = torch.ones(1 << 18, device="mps")
        new.clear()
        with old.use():
            machine()
            print(x.device)
            y = torch.ones(1 << 10, device="mps")
            fails(conv)
            fails(lambda: torch.autocast("mps"))
            fails(lambda: torch.ones(2).pin_memory())
            fails(lambda: torch.zeros(2, dtype=torch.bfloat16, device="mps"))
            of(old)
        of(new)
        print(x.device, y.device)
        fails(conv)
        fails(lambda: torch.ones(2).pin_memory())
        fails(lambda: torch.zeros(2, dtype=torch.bfloat16, device="mps"))
        with torch.autocast("mps"):
            print(torch.nn.functional.linear(torch.ones(2, 2, device="mps"), torch.ones(2, 2, device="mps")).dtype)
        print(len(new.refusals), len(old.refusals))

        # Random numbers: the stream of one is parted from the CPU's, that of the other is not.
        torch.manual_seed(5)
        torch.mps.manual_seed(7)
        with old.use():
            torch.manual_seed(5)
            a = drawn()
        torch.manual_seed(5)
        print(a == torch.randn(2).tolist())
        torch.mps.manual_seed(7)
        b = drawn()
        print(b == torch.randn(2, generator=torch.Generator().manual_seed(7)).tolist())

        # A fallback that is on in one is off in the other.
        eig = lambda: torch.linalg.eigvals(torch.eye(2, device="mps"))
        old.fallback = True
        fails(eig)
        with old.use():
            print(eig().device)
            fails(lambda: 1 / 0)
        print(len(new.fallbacks), [op for op, _ in old.fallbacks])
        fails(lambda: install.put_up(torch, old))
        """ % double_settings(**OLD), "2.15.0", "0.29"))
    assert next(lines) == "Apple M1 11453251584 True"
    assert next(lines) == "Apple M2 5726633984 False"
    assert next(lines) == "cpu"  # it lives on the other's device
    assert next(lines) == "RuntimeError Conv3D is not supported on MPS"
    assert next(lines) == "RuntimeError User specified an unsupported autocast device_type 'mps'"
    assert next(lines).startswith("RuntimeError Attempted to set the storage")
    assert next(lines) == "TypeError BFloat16 is not supported on MPS"
    operators, _, evidence = next(lines).rpartition("} ")
    assert "'aten::ones': 1" in operators or "'aten::fill_.Scalar': 1" in operators
    assert evidence == "3 0 %d" % 4096
    assert next(lines) == "{} 0 0 %d" % (1 << 20)
    assert next(lines) == "mps:0 cpu"
    assert [next(lines) for _ in range(3)] == ["no error"] * 3
    assert next(lines) == "torch.float16"
    assert next(lines) == "0 3"
    assert next(lines) == "True"
    assert next(lines) == "True"
    assert next(lines).startswith("NotImplementedError The operator 'aten::linalg_eig' is not")
    assert next(lines) == "mps:0"
    assert next(lines) == "ZeroDivisionError division by zero"
    assert next(lines) == "0 ['aten::linalg_eig']"
    put_up = next(lines)
    assert put_up.startswith("RuntimeError put up the double: one of PyTorch 2.15.0 stands in this process already")
