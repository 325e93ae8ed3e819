# expect: exit=0
"""Prints what Python has loaded and set. Only assay's own names may be new, PYTHONPATH, and what is in the standard library."""
import os
import sys

before = set(sys.modules)
import torch

print(sys.argv, sys.flags, sys.path, len(sys.path_hooks))
print(sorted(k for k in os.environ if not k.startswith("ASSAY") and k != "PYTHONPATH"))
print([finder for finder in map(str, sys.meta_path) if "assay" not in finder and " at 0x" not in finder])
stdlib = getattr(sys, "stdlib_module_names", ())  # Python 3.10


def foreign(modules):
    return sorted(m for m in modules if not m.startswith(("assay", "sitecustomize", "_sysconfigdata")) and m.split(".")[0] not in stdlib)


print(foreign(before))
print(foreign(sys.modules))
print(sorted(vars(sys.modules["__main__"])))
