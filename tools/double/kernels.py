"""List the element types of PyTorch's Metal kernels, release by release.

    python tools/double/kernels.py WHEEL... > agent/assay_agent/double/kernels.txt

reads macOS wheels of torch, one of each series, and writes which types each family of Metal kernels has. Where it
looks: - from 2.6 the compiled libraries in the sections metal_* of libtorch_cpu.dylib, whose functions have names such
as
  erfinv_dense_float_half (output, input);
- until 2.6 the sources among the library's constants, which PyTorch compiles when it runs: their macros are expanded by
the C
  preprocessor (cpp) or, where the source is a template for fmt, left out, since such a kernel is made for any type
  asked for.

A family is a name with * in place of each type and # in place of each number. Variants of a family that exist for the
same types (broadcast, of a scalar, with a cast, and so on) are left out.
"""

import collections
import os
import re
import struct
import subprocess
import sys
import zipfile

TYPES = {"bfloat16_t", "bfloat", "float2", "half2", "float", "half", "int32_t", "int64_t", "int", "long", "short",
         "char", "uchar", "bool", "ulong", "uint", "ushort"}
VARIANTS = {"castout", "cast", "broadcast", "ilp", "ilp4", "scalar", "rhs", "lhs", "flat", "chunk", "combine", "p1",
            "mpp", "simd",
            "u64", "u16", "i64", "transposed", "tiny", "narrow", "outer", "small", "vec", "block", "large", "looped",
            "2pass", "tptg32", "tptg64", "tptg128", "tptg256", "tptg512", "stable", "sorter", "idx64"}
NEVER = re.compile(r"radix_|mb_|conv|attention_|gemm|gemv|_mm_|.*_inner_contiguous|.*_strided_block|.*scan_block|.*sdpa|float3|"
                   r"prefill|steel|.*_p\d_tg|cat_.*float8|.*_void")


def sections(data):
    """(name, offset, size) of each section of a 64-bit Mach-O file."""
    count = struct.unpack_from("<I", data, 16)[0]
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        if command == 0x19:  # LC_SEGMENT_64
            for i in range(struct.unpack_from("<I", data, at + 64)[0]):
                p = at + 72 + 80 * i
                length, offset = struct.unpack_from("<QI", data, p + 40)
                yield data[p:p + 16].rstrip(b"\0").decode(), offset, length
        at += size


def compiled(blob):
    """Names of the functions in a metallib: each has a tag NAME, a length, and the name with a zero behind it."""
    for match in re.finditer(rb"NAME(..)([A-Za-z_]\w*)\0", blob, re.S):
        if struct.unpack("<H", match.group(1))[0] == len(match.group(2)) + 1:
            yield match.group(2).decode()


def expanded(source):
    """Names that a Metal source gives to its kernels, macros expanded."""
    source = re.sub(r"^\s*#\s*(include|pragma).*", "", source, flags=re.M)
    text = subprocess.run(["cpp", "-P", "-D__METAL_VERSION__=310", "-w"], input=source, capture_output=True,
                          text=True).stdout
    for match in re.finditer(r"host_name\(((?:\s*\"[^\"]*\")+)\s*\)", text):
        yield "".join(re.findall(r"\"([^\"]*)\"", match.group(1)))


def family(name):
    parts, types = [], []
    for word in re.findall(r"bfloat16_t|int32_t|int64_t|[^_]+", name):
        if word in TYPES:
            types.append(word)
            parts.append("*")
        else:
            parts.append("#" if word.isdigit() else word)
    return "_".join(parts), ",".join(types)


def kernels(wheel):
    data = zipfile.ZipFile(wheel).read("torch/lib/libtorch_cpu.dylib")
    names = set()
    for section, offset, size in sections(data):
        blob = data[offset:offset + size]
        if section.startswith("metal_"):
            names.update(compiled(blob))
        elif section in ("__cstring", "__const"):
            for match in re.finditer(rb"[^\0]*#include <metal_[^\0]*", blob):
                names.update(expanded(match.group().decode("utf-8", "replace")))
    found = collections.defaultdict(set)
    for name in names:
        if NEVER.match(name):
            continue
        pattern, types = family(name)
        if types:
            found[pattern].add(types)
    for pattern in list(found):
        words = pattern.split("_")
        if VARIANTS & set(words) or "strided" in words and pattern.replace("strided", "dense") in found:
            del found[pattern]
    return {pattern: " ".join(sorted(types)) for pattern, types in found.items()}


def main():
    columns = []
    for wheel in sys.argv[1:]:
        release = os.path.basename(wheel).split("-")[1].split(".")
        columns.append(((int(release[0]), int(release[1])), kernels(wheel)))
    columns.sort()
    lines = collections.defaultdict(list)
    for pattern in sorted({p for _, found in columns for p in found}):
        start = None
        for i, (series, found) in enumerate(columns):
            types = found.get(pattern)
            before = columns[i - 1][1].get(pattern) if i else None
            after = columns[i + 1][1].get(pattern) if i + 1 < len(columns) else None
            if types and types != before:
                start = series
            if types and types != after:
                last = "%d.%d" % series if i + 1 < len(columns) else ""
                lines["%d.%d" % start, last, types].append(pattern)
    print("# Element types of PyTorch's Metal kernels, by family and release: first and last series | types | "
          "families.\n# Types are Metal's (char is int8, uchar uint8, float2 complex64, half2 complex32); of a family "
          "with several *, in their order.\n# Made by tools/double/kernels.py; do not edit.")
    for key in sorted(lines, key=lambda k: (lines[k], k)):
        print("%s-%s | %s | %s" % (key[0], key[1], key[2], " ".join(lines[key])))


main()
