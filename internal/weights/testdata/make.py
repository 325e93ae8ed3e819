"""Writes the recorded files of this folder, by the libraries that own the formats, and recorded.json: what those say is
in them. Run: PYTHON make.py, with numpy 2.4.6, safetensors 0.8.0, gguf 0.19.0, ml_dtypes 0.6.0.

With a folder as its argument it writes there the same and large ones, which are not committed.
"""

import hashlib
import json
import math
import os
import sys

import gguf
import ml_dtypes
import numpy as np
import safetensors
from safetensors.numpy import save_file

HERE = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
NAMES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
         "uint64": "U64", "int64": "I64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float16": "F16",
         "bfloat16": "BF16", "float32": "F32", "float64": "F64", "complex64": "C64", "complex128": "C128"}
recorded = {"made_with": {m.__name__: m.__version__ for m in (np, safetensors, ml_dtypes)}, "files": {}}


def said(name, array, note=""):
    """What numpy says of an array: statistics of its finite elements, in float64; none of complex ones."""
    flat = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    row = {"name": name, "dtype": NAMES[array.dtype.name], "shape": list(array.shape), "bytes": array.nbytes,
           "sha256": hashlib.sha256(flat.tobytes()).hexdigest(), "note": note}
    if array.dtype.kind == "c":
        return row
    nan = inf = 0
    if array.dtype.name.startswith(("float", "bfloat")):
        wide = array.astype(np.float64)
        nan, inf = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
        finite = wide[np.isfinite(wide)]
        least, most = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    else:
        finite = array.astype(np.int64) if array.dtype == bool else array
        least, most = (int(finite.min()), int(finite.max())) if finite.size else (None, None)
        finite = finite.astype(np.float64)
    row["stats"] = {"min": least, "max": most, "zeros": int((array == 0).sum()), "nan": nan, "inf": inf,
                    "mean": float(finite.mean(dtype=np.longdouble)) if finite.size else None,
                    "std": float(finite.std(dtype=np.longdouble)) if finite.size else None}
    return row


def record(file, *rows):
    recorded["files"][file] = list(rows)


def path(name):
    return os.path.join(HERE, name)


rng = np.random.default_rng(18)
plain = {
    "layer.0.weight": rng.standard_normal((4, 3)).astype(np.float32),
    "layer.0.bias": np.array([math.nan, -math.inf, 0.0, 1e-3], np.float32),
    "half": np.append(rng.standard_normal(7), [6e-8, -math.inf, math.nan, 65504]).astype(np.float16),
    "brain": np.array([1.5, -0.0, 3e38, math.nan], ml_dtypes.bfloat16),
    "double": rng.standard_normal((2, 1, 3)),
    "bytes": np.arange(256, dtype=np.uint8),
    "signed": np.array([-128, 127], np.int8),
    "short": np.array([-32768, 5], np.int16),
    "ushort": np.array([65535], np.uint16),
    "int": np.array([-(2**31), 7], np.int32),
    "uint": np.array([2**32 - 1], np.uint32),
    "long": np.array([-(2**63), 2**63 - 1], np.int64),
    "ulong": np.array([2**64 - 1, 0], np.uint64),
    "flags": np.array([True, False, True]),
    "complex": np.array([1 + 2j, 3 - 4j], np.complex64),
    "scalar": np.array(2.5, np.float32),
    "empty": np.zeros((3, 0, 2), np.float32),
    "five": rng.standard_normal((2, 3, 1, 4, 2)).astype(np.float32),
    "e4m3": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn),  # each that there is
    "e5m2": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2),
    'name "quoted" \\ \t\x01é\u2028/': np.array([1.0], np.float32),
}
save_file(plain, path("plain.safetensors"), {"format": "np"})
record("plain.safetensors", *(said(n, a) for n, a in plain.items()))
save_file({}, path("empty.safetensors"))
record("empty.safetensors")

numpy_has = {n: a for n, a in plain.items() if a.dtype.name in vars(np) or a.dtype == bool}
np.savez(path("stored.npz"), **numpy_has)
np.savez_compressed(path("deflated.npz"), **numpy_has)
for file in ("stored.npz", "deflated.npz"):
    record(file, *(said(n, a) for n, a in numpy_has.items()))

five = plain["five"]
arrays = {
    "fortran": (np.asfortranarray(five), "in Fortran order"),
    "big": (five.astype(">f4"), "big-endian"),
    "both": (np.asfortranarray(five.astype(">f8")), "big-endian, in Fortran order"),
    "complex": (np.array([[1 + 2j, 3 - 4j], [5j, 6]], ">c16"), "big-endian"),
    "column": (np.asfortranarray(five[:, :1, :1, :1, :1]), ""),  # its order is both, and NumPy says C
}
for name, (array, note) in arrays.items():
    np.save(path(name + ".npy"), array)
    record(name + ".npy", said(name, array, note))
np.savez_compressed(path("fortran.npz"), **{n: a for n, (a, _) in arrays.items()})
record("fortran.npz", *(said(n, a, note) for n, (a, note) in arrays.items()))
for version in ((2, 0), (3, 0)):
    with open(path(f"version{version[0]}.npy"), "wb") as f:
        np.lib.format.write_array(f, plain["layer.0.weight"], version)
    record(f"version{version[0]}.npy", said(f"version{version[0]}", plain["layer.0.weight"]))
os.makedirs(path("model"), exist_ok=True)
shards = {"one": {"a": plain["half"]}, "two": {"b": np.array([1, 2], np.uint8), "left": plain["half"]}}
for shard, tensors in shards.items():
    save_file(tensors, path(f"model/{shard}.safetensors"))
with open(path("model/model.safetensors.index.json"), "w") as f:
    json.dump({"metadata": {"total_size": 24}, "weight_map": {"b": "two.safetensors", "a": "one.safetensors"}}, f)
record("model/model.safetensors.index.json", said("b", shards["two"]["b"]), said("a", plain["half"]))
mixed = {"objects": np.array([{}, None], object), "words": np.array(["a", "bc"]), "raw": plain["brain"],
         "structured": np.zeros(2, [("a", "<f4"), ("b", "<i4", (2,))]), "times": np.array(["2026-11-22"], "M8[D]"),
         "extended": np.zeros(2, np.longdouble), "good": five}
np.savez(path("mixed.npz"), **mixed)
record("mixed.npz", said("good", five))

writer = gguf.GGUFWriter(path("blocks.gguf"), "test")
writer.add_string("general.name", "a model")
writer.add_array("tokenizer.ggml.tokens", ["a", "b", "c"])
writer.add_array("some.floats", [1.5, 2.5])
writer.add_float32("some.float", 1e-5)
writer.add_bool("some.flag", True)
writer.add_int64("some.long", -5)
blocks = {"f32": plain["layer.0.weight"], "f16": plain["half"], "f64": plain["double"], "i8": plain["signed"],
          "i16": plain["short"], "i32": plain["int"], "i64": plain["long"]}
rows = []
for name, array in blocks.items():
    writer.add_tensor(name, array)
    rows.append(said(name, array))
writer.add_tensor("bf16", plain["brain"].view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
rows.append(said("bf16", plain["brain"]))
for kind in gguf.GGMLQuantizationType:
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    if elements > 1:
        raw = rng.integers(0, 255, (2, size), np.uint8)
        writer.add_tensor("blk." + kind.name, raw, raw_dtype=kind)
        rows.append({"name": "blk." + kind.name, "dtype": kind.name, "shape": [2, elements], "bytes": 2 * size,
                     "sha256": hashlib.sha256(raw.tobytes()).hexdigest(), "note": ""})
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
record("blocks.gguf", *rows)

for folder in (HERE, path("model")):
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o644 if "." in file else 0o755)  # the library makes them for their owner alone

if len(sys.argv) > 1:  # large ones, in Fortran order: more than a block is gathered of
    for name, shape in {"tall": (3_000_000, 5), "wide": (5, 3_000_000), "cube": (300, 200, 250),
                        "flat": (3, 2, 10_000_000)}.items():
        array = np.asfortranarray(rng.integers(0, 255, shape, np.uint8).astype(np.float32))
        np.save(path(f"large_{name}.npy"), array)
        record(f"large_{name}.npy", said(f"large_{name}", array, "in Fortran order"))
    array = np.asfortranarray(np.broadcast_to(np.arange(9_000_000, dtype=np.float32) % 17, (3, 9_000_000)))
    np.savez_compressed(path("large_packed.npz"), cube=array)
    record("large_packed.npz", said("cube", array, "in Fortran order"))

with open(path("recorded.json"), "w") as f:
    json.dump(recorded, f, indent=1)
    f.write("\n")
