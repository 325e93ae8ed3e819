"""Write the arguments of PyTorch's operators: internal/atlas/tables/schemas.txt.

    python tools/atlas/schemas.py > internal/atlas/tables/schemas.txt

They are those of the torch that runs this; overloads that write into out= are left out, their operands are those of the
overload beside them.
"""

import torch

KINDS = {"Tensor": "T", "Optional[Tensor]": "T", "List[Tensor]": "L", "List[Optional[Tensor]]": "L",
         "Optional[List[Optional[Tensor]]]": "L", "number": "N", "Optional[number]": "N", "int": "I",
         "Optional[int]": "I", "float": "F", "Optional[float]": "F", "bool": "B", "Optional[bool]": "B", "str": "S",
         "Optional[str]": "S", "List[int]": "A", "Optional[List[int]]": "A"}

HEAD = """\
# PyTorch's operators and their arguments, in order. Behind each name its kind: T a tensor, L tensors, N a number, I an
# integer or a dtype, A integers, F a float, B a bool, S a string, O another; = where it may be left out. * stands before
# what is given by keyword only.
# Made with torch {} by tools/atlas/schemas.py; do not edit."""


def main():
    print(HEAD.format(torch.__version__.partition("+")[0]))
    for s in sorted(torch._C._jit_get_all_schemas(), key=lambda s: (s.name, s.overload_name)):
        name = s.name + ("." + s.overload_name if s.overload_name else "")
        if not s.name.startswith("aten::") or any(a.is_out for a in s.arguments) or not s.arguments:
            continue
        if not torch._C._dispatch_has_kernel(name):
            continue
        print(name, *["%s%s:%s%s" % ("*" if a.kwarg_only else "", a.name, KINDS.get(str(a.type), "O"),
                                     "=" if a.has_default_value() else "") for a in s.arguments])


if __name__ == "__main__":
    main()
