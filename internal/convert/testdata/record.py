"""Records transposes and roundings by numpy and ml_dtypes, and the names of networks: run with an environment that has
numpy and ml_dtypes, from this folder. Names are read from torch.json, keras.json and mlx.json where they are given as an argument.

    python record.py [FOLDER]
"""
import gzip
import io
import json
import sys

import ml_dtypes
import numpy

rng = numpy.random.default_rng(7)
out = {"numpy": numpy.__version__, "ml_dtypes": ml_dtypes.__version__, "moves": [], "casts": []}
SIZES = {"O": 5, "I": 3, "D": 2, "H": 4, "W": 3, "K": 7, "M": 2, "C": 3}
for a, b in [("OIHW", "OHWI"), ("OIHW", "HWIO"), ("HWIO", "OIHW"), ("HWIO", "OHWI"), ("OHWI", "OIHW"), ("OHWI", "HWIO"),
             ("OIK", "KIO"), ("OIK", "OKI"), ("KIO", "OIK"), ("OIDHW", "DHWIO"), ("ODHWI", "OIDHW"), ("IOHW", "HWOI"),
             ("IOHW", "OHWI"), ("IMHW", "HWIM"), ("HWIM", "IMHW"), ("OI", "IO"), ("OCHW", "HWCO"), ("HWCO", "OCHW"),
             ("OCHW", "OHWC")]:
    shape = [SIZES[c] for c in a]
    x = numpy.arange(numpy.prod(shape), dtype="<u4").reshape(shape)
    y = numpy.ascontiguousarray(numpy.transpose(x, [a.index(c) for c in b]))
    out["moves"].append({"from": a, "to": b, "shape": shape, "flat": y.ravel().tolist()})
# every half, and doubles about each tie of some, with what is beyond and below
special = [0.0, -0.0, 65504, 65519.99, 65520, 65536, -1e9, 1e300, 2.0**-24, 2.0**-25, 2.0**-25 * 1.0001, 6.1e-5, 5.9e-8, 3.4e38,
           3.3961775e38, 1e-40, 9.1e-41, float("inf"), float("-inf")]
doubles = numpy.concatenate([special, rng.standard_normal(300) * 10.0 ** rng.integers(-45, 39, 300), 1 + numpy.arange(64) / 4096,
                             1 + numpy.arange(64) / 512])
singles = doubles.astype("f4")
with numpy.errstate(over="ignore"):
    for name, x in ("F64", doubles.astype("<f8")), ("F32", singles.astype("<f4")):
        out["casts"].append({
            "from": name, "in": x.tobytes().hex(), "F16": x.astype("<f2").tobytes().hex(),
            "F32": x.astype("<f4").tobytes().hex(),
            # through f4 a double would be rounded twice: numpy has no bfloat16 of its own
            "BF16": x.astype("f4").astype(ml_dtypes.bfloat16).tobytes().hex() if name == "F32" else "",
        })
halves = numpy.arange(65536, dtype="<u2").view("<f2")
halves = halves[numpy.isfinite(halves)]
out["casts"].append({"from": "F16", "in": halves[::13].tobytes().hex(), "F32": halves[::13].astype("<f4").tobytes().hex(),
                     "F16": "", "BF16": ""})
if len(sys.argv) > 1:
    folder = sys.argv[1]
    torch, keras, mlx = (json.load(open(f"{folder}/{f}.json")) for f in ("torch", "keras", "mlx"))
    names = {f"{n} torch": v for n, v in torch.items()} | {f"{n} mlx": v for n, v in mlx.items()}
    for n, v in keras.items():
        names[f"{n} keras"] = {p: s for _, _, ws in v["vars"] for p, s in ws}
        names[f"{n} h5"] = {p: s for p, s, a in v["h5"] if s and "optimizer" not in p}
        names[f"{n} layers"] = {p[:-len("/vars")]: a["name"] for p, s, a in v["h5"] if "name" in a}
    with gzip.GzipFile("names.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps(names, separators=(",", ":")).encode())
with gzip.GzipFile("numpy.json.gz", "wb", mtime=0) as f:
    f.write(json.dumps(out, separators=(",", ":")).encode())
