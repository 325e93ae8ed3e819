"""Writes internal/pyast/names.txt.gz, the characters that \\N{...} names: lines "NAME=HEX" in order of names.

    python3.14 tools/pyast/names.py NameAliases.txt

Names come from that Python's unicodedata; aliases from NameAliases.txt of the Unicode Character Database, each looked up there, too. Names that end in
their code point (ideographs) and Hangul syllables are left out: names.go makes them by rule.
"""
import gzip
import re
import sys
import unicodedata

names = {}
for c in range(sys.maxunicode + 1):
    name = unicodedata.name(chr(c), "")
    if name and not name.endswith(f"-{c:04X}") and not name.startswith("HANGUL SYLLABLE "):
        names[name] = c
for line in open(sys.argv[1], encoding="utf-8"):
    m = re.match(r"([0-9A-F]+);([^;]+);", line)
    if m:
        try:
            if unicodedata.lookup(m[2]) == chr(int(m[1], 16)):
                names[m[2]] = int(m[1], 16)
        except KeyError:  # newer than this Python
            pass
text = "".join(f"{n}={names[n]:X}\n" for n in sorted(names))
with open("internal/pyast/names.txt.gz", "wb") as f:
    with gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(text.encode())
print(len(names), "names of Unicode", unicodedata.unidata_version)
