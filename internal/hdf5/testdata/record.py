"""Writes the files of this folder with h5py, and beside each what h5py reads from it.

    python record.py            the small set, into this folder
    python record.py --big DIR  the big set, into another
    python record.py --tell H5  the listing alone, beside a file that is there

Each file NAME.h5 has NAME.json: versions of h5py and HDF5; its datasets by path with dtype, shape and the SHA-256 of
their elements, row-major and little-endian; its groups; the texts among its attributes.
Files of the small set were made with h5py 3.14.0, HDF5 1.14.6.
"""

import hashlib
import json
import os
import sys

import h5py
import numpy as np


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, n, dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype).reshape(shape)
    if dtype.kind == "b":
        return (rng.random(n) < 0.5).reshape(shape)
    if dtype.kind == "c":
        return (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(dtype).reshape(shape)
    return rng.standard_normal(n).astype(dtype).reshape(shape)


def kind_of(dataset):
    """The name that the reader gives the type."""
    dtype = dataset.dtype
    if h5py.check_string_dtype(dtype) is not None:
        return "strings" if h5py.check_string_dtype(dtype).length is None else "string"
    if dtype.kind == "V":
        return "compound" if dtype.names else "opaque"
    return dtype.name


def refused(dataset):
    """Storage that the reader names and does not read."""
    return dataset.is_virtual or bool(dataset.external) or dataset.scaleoffset is not None


def describe(path):
    told = {"h5py": h5py.version.version, "hdf5": h5py.version.hdf5_version, "datasets": {}, "groups": [], "texts": {}}

    def attributes(name, o):
        for key, value in o.attrs.items():
            if isinstance(value, h5py.Empty):
                continue
            info = h5py.check_string_dtype(o.attrs.get_id(key).dtype)
            if info is None:
                continue
            values = np.asarray(value).reshape(-1).tolist() if not isinstance(value, (str, bytes)) else [value]
            values = [v.decode() if isinstance(v, bytes) else v for v in values]
            told["texts"][f"{name}@{key}"] = values

    seen = set()

    def walk(name, group):
        address = h5py.h5o.get_info(group.id).addr
        if address in seen:
            return
        seen.add(address)
        told["groups"].append(name)
        attributes(name, group)
        for key in group:
            link = group.get(key, getlink=True)
            full = f"{name}/{key}" if name else key
            if not isinstance(link, h5py.HardLink):
                continue
            o = group[key]
            if isinstance(o, h5py.Group):
                walk(full, o)
            elif isinstance(o, h5py.Dataset):
                attributes(full, o)
                d = {"dtype": kind_of(o), "shape": None if o.shape is None else list(o.shape)}
                if d["dtype"] not in ("strings", "string", "compound") and not refused(o):
                    if o.shape is None:
                        data = b""
                    else:
                        value = np.ascontiguousarray(o[()])
                        data = value.astype(value.dtype.newbyteorder("<")).tobytes() if value.dtype.kind != "V" else value.tobytes()
                    d["bytes"], d["sha256"] = len(data), hashlib.sha256(data).hexdigest()
                told["datasets"][full] = d

    with h5py.File(path) as f:
        walk("", f)
    told["groups"].sort()
    with open(path[: -len(".h5")] + ".json", "w") as out:
        json.dump(told, out, indent=0, sort_keys=True)
        out.write("\n")


def types(f):
    for order in "<>":
        for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"):
            f[f"{'little' if order == '<' else 'big'}/{t}"] = numbers((2, 3), order + t)
    f["bool"] = numbers((5,), "?")
    f["scalar"] = np.float32(1.5)
    f["empty"] = np.zeros((0, 3), "f4")
    f.create_dataset("null", data=h5py.Empty("f4"))
    f["five"] = numbers((1, 2, 1, 3, 2), "f4")
    f["bytes"] = np.void(b"\x00\x01\x02")
    half = np.arange(4, dtype=np.uint16).view("V2")
    f["bfloat16"] = half
    f["bfloat16"].attrs["dtype"] = "bfloat16"
    f["string"] = np.array([b"ab", b"c"], "S3")
    f["strings"] = ["x", "yy"]
    f["pair"] = np.zeros(2, [("a", "i4"), ("b", "f8")])
    f["colour"] = np.zeros(3, "i2")
    f.create_dataset("enum", data=np.array([0, 1, 1], "u1"), dtype=h5py.enum_dtype({"a": 0, "b": 1}, "u1"))
    f["named"] = np.dtype("<f4")
    f.create_dataset("of_named", data=numbers((3,), "f4"), dtype=f["named"])


def texts(f):
    f.attrs["keras_version"] = "3.15.1"
    f.attrs["backend"] = b"tensorflow"
    f.attrs["layer_names"] = np.array([b"conv1", b"dense_long"], "S")
    f.attrs["unicode"] = "Gr\u00f6\u00dfe"
    f.attrs["many"] = np.array(["a", "", "ccc"], dtype=h5py.string_dtype())
    f.attrs["number"] = np.arange(6).reshape(2, 3)
    f.attrs["none"] = h5py.Empty("S1")
    f.attrs["empty"] = np.array([], "f8")
    f.attrs["long"] = "config " * 200
    g = f.create_group("dense")
    for i in range(12):
        g.attrs[f"attribute{i:03}"] = f"value {i}"
    g.attrs["fixed"] = np.bytes_("x" * 5000)  # larger than what a heap manages itself
    g["d"] = np.zeros(1)


def links(f):
    g = f.create_group("a/b/c")
    g["d"] = numbers((2, 2), "f4")
    f["again"] = g["d"]
    f["soft"] = h5py.SoftLink("/a/b/c/d")
    f["a/relative"] = h5py.SoftLink("b/c/d")
    f["nowhere"] = h5py.SoftLink("/x/y")
    f["other"] = h5py.ExternalLink("other.h5", "/d")
    f["a/loop"] = f["a"]
    f["a/up"] = h5py.SoftLink("/a/b")


def chunks(f, n=1):
    def put(name, shape, chunk, dtype="f4", **more):
        f.create_dataset(name, data=numbers(shape, dtype), chunks=chunk, **more)

    put("plain", (7 * n, 5), (3, 2))
    put("deflate", (7 * n, 5), (4, 5), compression="gzip")
    put("shuffle", (6, 10 * n), (4, 4), ">f8", compression="gzip", shuffle=True)
    put("fletcher", (33 * n,), (10,), "i2", fletcher32=True)
    put("all", (8, 8, 3), (3, 3, 3), "f2", compression="gzip", shuffle=True, fletcher32=True)
    put("lzf", (20 * n, 20), (8, 20), "i4", compression="lzf")
    f["lzf"][:] = 7
    put("single", (6, 6), (6, 6))
    put("single_deflate", (6, 6), (6, 6), compression="gzip")
    put("grows", (9 * n, 4), (2, 2), maxshape=(None, 4))
    put("grows_inner", (9 * n, 4), (2, 2), maxshape=(9 * n, None))
    put("grows_deflate", (50 * n, 4), (2, 2), maxshape=(None, 4), compression="gzip")
    put("grows_all", (9 * n, 4), (2, 2), maxshape=(None, None))
    put("grows_all_deflate", (9 * n, 4), (2, 2), maxshape=(None, None), compression="gzip")
    put("may_grow", (5, 5), (2, 2), maxshape=(20, 30))
    d = f.create_dataset("sparse", (40 * n, 6), "f8", chunks=(4, 3), fillvalue=2.5)
    d[5:7, 2] = 1
    f.create_dataset("filled", (3, 4), ">i4", fillvalue=-3)
    d = f.create_dataset("shrunk", data=numbers((10, 10), "i4"), chunks=(3, 3), maxshape=(None, None))
    d.resize((5, 4))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((3, 2))
    h5py.Dataset(h5py.h5d.create(f.id, b"compact", h5py.h5t.IEEE_F32LE, space, plist))[...] = numbers((3, 2), "f4")
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((2, 3))
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple((5, 5))
    h5py.Dataset(h5py.h5d.create(f.id, b"early", h5py.h5t.STD_I32BE, space, plist))[...] = numbers((5, 5), "i4")


def beyond(f):
    """What Keras never writes."""
    f["source"] = np.arange(4, dtype="i4")
    layout = h5py.VirtualLayout((4,), "i4")
    layout[:] = h5py.VirtualSource(f["source"])
    f.create_virtual_dataset("virtual", layout)
    f.create_dataset("external", (4,), "i4", external=[("elsewhere.bin", 0, 16)])
    f.create_dataset("scaled", data=np.arange(4, dtype="i4"), chunks=(4,), scaleoffset=0)


def wide(f, n):
    """A group of so many datasets."""
    for i in range(n):
        f[f"layers/layer_{i}/vars/0"] = np.float32(i)
        f[f"flat/weight:{i:04}"] = np.arange(i % 3, dtype="u1")


def make(folder, name, fill, *values, user=0, **options):
    path = os.path.join(folder, name + ".h5")
    with h5py.File(path, "w", userblock_size=user, **options) as f:
        fill(f, *values)
    describe(path)


def main():
    if sys.argv[1:2] == ["--tell"]:
        return describe(sys.argv[2])
    here = os.path.dirname(os.path.abspath(__file__))
    for libver in ("earliest", "latest"):
        more = {"libver": libver}
        if len(sys.argv) > 2:
            for fill in (types, texts, links):
                make(sys.argv[2], f"{fill.__name__}_{libver}", fill, **more)
            make(sys.argv[2], f"chunks_{libver}", chunks, 300, **more)
            make(sys.argv[2], f"chunks_large_{libver}", chunks, 3000, **more)
            make(sys.argv[2], f"wide_{libver}", wide, 1000, **more)
            make(sys.argv[2], f"wider_{libver}", wide, 4000, **more)
            continue
        for fill in (types, texts, links, chunks):
            make(here, f"{fill.__name__}_{libver}", fill, **more)
        make(here, f"wide_{libver}", wide, 12, **more)
    if len(sys.argv) <= 2:
        make(here, "user_block", links, user=512)
        make(here, "beyond", beyond, libver="latest")
        make(here, "ordered", wide, 9, libver="latest", track_order=True)
    else:
        for libver in ("earliest", "latest"):
            for fill, *n in ((texts,), (links,), (wide, 300)):
                make(sys.argv[2], f"ordered_{fill.__name__}_{libver}", fill, *n, libver=libver, track_order=True)
        make(sys.argv[2], "v108", wide, 100, libver=("v108", "v108"))
        make(sys.argv[2], "chunks_v108", chunks, 20, libver=("v108", "v108"))


main()
