"""Pickles values with CPython in every protocol: python make.py > values.tsv. A line has the protocol, the pickle in base64, and the
value as decode_test.go writes it."""

import argparse
import base64
import collections
import pickle
import sys

SHARED = [1]
VALUES = [
    None, True, False, 0, 1, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**63, -(2**70), 2**300,
    0.0, -1.5, 1e300, "", "abc", "é€\U0001f600", "a\nb\\u0041\\'\"\x00\xff", "x" * 256, b"", b"\x00\x80\xff", b"y" * 256,
    bytearray(b"\x01\xff"), (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1], [1, [2, []]], {}, {"a": 1}, {1: {2: 3}, None: 4},
    {True: 1, 2.0: 2, (1, 2): 3, b"k": 4}, {1, }, frozenset([2]), collections.OrderedDict([("b", 1), ("a", 2)]),
    collections.Counter("aab"), collections.defaultdict(list, {"a": [1]}), collections.deque([1, 2], 5), 1 + 2j,
    [SHARED, SHARED, (SHARED,)], [None] * 1001, [[0.5, "t"]] * 3,
]


def said(v):
    if v is None or isinstance(v, (bool, int)):
        return repr(v)
    if isinstance(v, float):
        return v.hex()
    if isinstance(v, complex):
        return "complex " + v.real.hex() + " " + v.imag.hex()
    if isinstance(v, str):
        return "text " + v.encode().hex()
    if isinstance(v, (bytes, bytearray)):
        return "bytes " + v.hex()
    if isinstance(v, dict):
        return "{" + ", ".join(said(k) + ": " + said(x) for k, x in v.items()) + "}"
    if isinstance(v, (set, frozenset)):
        return "<" + ", ".join(map(said, v)) + ">"
    open_, closed = "()" if isinstance(v, tuple) else "[]"
    return open_ + ", ".join(map(said, v)) + closed


print("# made by testdata/make.py with Python", sys.version.split()[0])
for value in VALUES:
    for protocol in range(6):
        print(protocol, base64.b64encode(pickle.dumps(value, protocol)).decode(), said(value), sep="\t")
