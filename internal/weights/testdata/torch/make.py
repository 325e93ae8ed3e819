"""Makes files with torch.save and says what torch.load finds in them: the oracle of torch_test.go.

    python make.py FOLDER [big]
    python make.py read FOLDER

`big` adds those that are too large to be kept beside this script. FOLDER then holds the files and expected.json: for each
file its tensors in order, each a name, a type as safetensors calls it, a shape and the SHA-256 of its elements, row-major
and little-endian. `read` says so of the .pt files that lie there already, which must be such that torch.load takes them with
weights_only=True and with mmap=True. The files kept here were made by the release that expected.json names.
"""

import argparse
import collections
import hashlib
import json
import pathlib
import sys
import zipfile

import numpy
import torch

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.uint16: "U16",
    torch.uint32: "U32", torch.uint64: "U64", torch.bool: "BOOL", torch.complex64: "C64", torch.complex128: "C128",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.complex32: "C32",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2, bias=False), torch.nn.BatchNorm2d(3), torch.nn.ReLU())
        self.head = torch.nn.Linear(3, 2)
        self.register_buffer("kept", torch.arange(3.0))
        self.register_buffer("fleeting", torch.arange(2.0), persistent=False)
        self.scale = torch.nn.Parameter(torch.tensor(2.5))
        self.plain = torch.arange(4)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3))) * self.scale


def element_bytes(t):
    if isinstance(t, numpy.ndarray):
        return numpy.ascontiguousarray(t.astype(t.dtype.newbyteorder("<"))).tobytes()
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    return bytes(t.flatten().view(torch.uint8).numpy()) if t.numel() else b""


def described(name, t):
    if isinstance(t, numpy.ndarray):
        dtype, shape = DTYPES[torch.from_numpy(t.astype(t.dtype.newbyteorder("="))).dtype], list(t.shape)
    else:
        dtype, shape = DTYPES[t.dtype], list(t.shape)
    if isinstance(t, torch.Tensor) and t.is_meta:
        return {"name": name, "dtype": dtype, "shape": shape, "sha256": ""}
    return {"name": name, "dtype": dtype, "shape": shape, "sha256": hashlib.sha256(element_bytes(t)).hexdigest()}


def flat(path, value, found):
    """Names tensors as assay does: dotted paths through dicts and lists, a module's as its state_dict has them."""
    if isinstance(value, torch.Tensor) and value.layout != torch.strided or isinstance(value, torch.Tensor) and value.is_quantized:
        return
    if isinstance(value, (torch.Tensor, numpy.ndarray)):
        if isinstance(value, numpy.ndarray) and value.dtype == object:
            return
        found.append(described(".".join(path), value))
    elif isinstance(value, torch.nn.Module):
        for name, t in value.state_dict().items():
            flat([*path, name], t, found)
    elif isinstance(value, dict):
        for key, inner in value.items():
            flat([*path, str(key)], inner, found)
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            flat([*path, str(i)], inner, found)
    elif isinstance(value, argparse.Namespace):
        flat(path, vars(value), found)


def training():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    net(torch.ones(1, 2, 4, 4)).sum().backward()
    optimizer.step()
    return {
        "model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "best": numpy.float64(0.25),
        "args": argparse.Namespace(lr=1e-3, out=pathlib.PurePosixPath("a/b"), layers=[1, 2, 3]), "seen": {1, 2},
        "rng": torch.get_rng_state()[:16].clone(), "history": [(0, 0.5), (1, 0.25)], "none": None, "yes": True,
        "big": 1 << 70, "z": 1 + 2j, "device": torch.device("cpu"), "dtype": torch.float16, "size": torch.Size([1, 2]),
    }


def kinds():
    base = torch.arange(24, dtype=torch.float32)
    found = collections.OrderedDict()
    for dtype, name in DTYPES.items():
        found[name] = torch.tensor([0, 1, 1, 0, 1, 1], dtype=torch.uint8).to(dtype).reshape(2, 3)
    found["scalar"] = torch.tensor(7.5)
    found["empty"] = torch.zeros(0, 3)
    found["five"] = base.reshape(1, 2, 3, 2, 2)
    found["transposed"] = base.reshape(4, 6).t()
    found["permuted"] = base.reshape(2, 3, 4).permute(2, 0, 1)
    found["part"] = base[5:11]
    found["steps"] = base[1::3]
    found["expanded"] = torch.tensor([1.0, 2.0]).reshape(2, 1).expand(2, 5)
    found["diagonal"] = torch.arange(16, dtype=torch.int64).reshape(4, 4).diagonal()
    found["last"] = torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last) * torch.arange(5.0)
    found["parameter"] = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    found["meta"] = torch.zeros(3, 2, device="meta")
    return found


def arrays():
    return {
        "f4": numpy.arange(6, dtype="<f4").reshape(2, 3), "big": numpy.arange(4, dtype=">f8"),
        "fortran": numpy.asfortranarray(numpy.arange(6, dtype="i2").reshape(2, 3)), "one": numpy.float32(1.5),
        "scalar": numpy.array(3), "none": numpy.zeros((0, 2)), "words": numpy.array(["a", None], dtype=object),
        "c": numpy.array([1 + 2j]), "flags": numpy.array([True, False]),
    }


def turn(source, target):
    """The same file as a big-endian machine writes it."""
    held = torch.load(source, weights_only=True)
    sizes = {}
    for t in held.values():
        storage = t.untyped_storage()
        sizes[bytes(storage)] = t.element_size() // (2 if t.is_complex() else 1)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if "/data/" in entry.filename:
                unit = sizes[content]
                content = b"".join(content[i : i + unit][::-1] for i in range(0, len(content), unit))
            if entry.filename.endswith("byteorder"):
                content = b"big"
            new.writestr(zipfile.ZipInfo(entry.filename), content)


def deflated(source, target):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry), zipfile.ZIP_DEFLATED)


def without_sources(source, target):
    """Leaves out where the code of a TorchScript archive came from."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry))


def read(folder):
    expected = {}
    for path in sorted(folder.glob("*.pt")):
        ways = []
        for mmap in (False, True):
            found = []
            flat([], torch.load(path, weights_only=True, mmap=mmap), found)
            ways.append(found)
        if ways[0] != ways[1]:
            sys.exit(f"{path}: mmap=True reads something else")
        expected[path.name] = ways[0]
    (folder / "expected.json").write_text(json.dumps({"files": expected}))


def main():
    if sys.argv[1] == "read":
        return read(pathlib.Path(sys.argv[2]))
    folder = pathlib.Path(sys.argv[1])
    big = sys.argv[2:] == ["big"]
    expected = {}

    def say(name, value):
        found = []
        flat([name.rsplit(".", 1)[0]] if isinstance(value, torch.Tensor) else [], value, found)
        expected[name] = found

    def save(name, value, **options):
        torch.save(value, folder / name, **options)
        say(name, torch.load(folder / name, weights_only=False))

    save("training.pt", training())
    save("training-legacy.pth", training(), _use_new_zipfile_serialization=False)
    save("kinds.pt", kinds())
    old = {k: v for k, v in kinds().items() if not k.startswith(("U16", "U32", "U64", "F8_", "C32"))}
    save("kinds-legacy.pth", old, _use_new_zipfile_serialization=False)
    save("arrays.pt", arrays())
    save("arrays-protocol5.pt", arrays(), pickle_protocol=5)
    for protocol in (1, 3, 4):
        save(f"protocol{protocol}.pt", [torch.arange(3.0), {"a": torch.ones(2), 1: "é\n\\'\"\u2028"}, b"\x00\xff"],
             pickle_protocol=protocol)
    save("one.pt", torch.arange(5, dtype=torch.int16))
    base = torch.arange(6.0)
    save("shared.pt", {"whole": base, "tail": base[3:], "again": base})
    save("shared-legacy.pth", {"whole": base, "tail": base[3:]}, _use_new_zipfile_serialization=False)
    turned = {"a": torch.arange(3.0), "b": torch.arange(2, dtype=torch.int16), "c": torch.tensor([1 + 2j, 3 - 1j]),
              "d": torch.tensor([True, False]), "t": torch.arange(6, dtype=torch.float64).reshape(2, 3).t()}
    torch.save(turned, folder / "little.tmp")
    turn(folder / "little.tmp", folder / "big-endian.pt")
    say("big-endian.pt", torch.load(folder / "big-endian.pt", weights_only=True))
    deflated(folder / "little.tmp", folder / "deflated.pt")
    say("deflated.pt", turned)
    (folder / "little.tmp").unlink()

    torch.manual_seed(0)
    sys.modules["strangers"] = sys.modules["__main__"]  # a class that no reader of the file has
    Net.__module__ = "strangers"
    save("module.pt", Net())
    if big:  # it holds the source of each class
        save("module-legacy.pth", Net(), _use_new_zipfile_serialization=False)
    scripted = torch.jit.trace(Net().eval(), torch.ones(1, 2, 4, 4))
    torch.jit.save(scripted, str(folder / "scripted.tmp"))
    without_sources(folder / "scripted.tmp", folder / "scripted.pt")
    (folder / "scripted.tmp").unlink()
    say("scripted.pt", dict(scripted.state_dict()))
    odd = {
        "sparse": torch.eye(3).to_sparse(), "csr": torch.eye(3).to_sparse_csr(),
        "quantised": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "good": torch.ones(2),
    }
    save("odd.pt", odd)
    if big:
        torch.manual_seed(1)
        wide = torch.randn(3000, 1500)
        deep = torch.randn(40, 30, 20, 50)
        save("big.pt", {"transposed": wide.t(), "permuted": deep.permute(3, 1, 0, 2), "halves": wide[::2, ::3],
                        "row": torch.randn(2, 3_000_000).t(), "wide": torch.randn(3_000_000, 3).t(),
                        "last": torch.randn(2, 64, 200, 200).contiguous(memory_format=torch.channels_last)})
        save("big-legacy.pth", {"transposed": wide.t(), "plain": wide}, _use_new_zipfile_serialization=False)
    text = json.dumps({"torch": torch.__version__, "numpy": numpy.__version__, "files": expected}, indent=1)
    (folder / "expected.json").write_text(text + "\n")


main()
