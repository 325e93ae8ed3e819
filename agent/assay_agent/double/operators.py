"""What is known about an operator: how the release has it, what it refuses, what is special about it. Asked once for
each overload."""

import torch

from . import facts, flops, generators, kernels, parts, refuse

__tracebackhide__ = True  # pytest leaves our frames out of what it prints

# States of the atlas's table (internal/atlas/tables/torch.txt), and "?" for an operator that it does not have.
NATIVE, COMPOSED, ON_CPU, NO_STUB, MISSING, UNKNOWN = "N", "C", "F", "S", "-", "?"

# What a CPU runs where MPS has another operator, or composes it: counted and looked up under MPS's name. reroutes.txt
# has the sources.
_CPU_NAMES = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": "aten::_softmax_backward_data",
    "aten::mkldnn_rnn_layer": "aten::_lstm_mps",
    "aten::mkldnn_rnn_layer_backward": "aten::lstm_mps_backward",
    "aten::_mkldnn_reshape": "aten::view",
    "aten::_to_copy": "aten::_to_copy",
}

# Operators that PyTorch composes, but gives MPS a kernel of its own, native or one that runs on the CPU
# (aten/src/ATen/mps/MPSFallback.mm): what a CPU calls inside them -> they. surface/tensors.py says when one is under
# way.
_INSIDE = {"aten::_linalg_svd": "aten::linalg_svd", "aten::upsample_nearest3d": "aten::upsample_nearest3d.vec",
           "aten::linalg_lu_factor_ex": "aten::linalg_lu_factor"}

# Gradients of composed operators that go to the CPU as a whole, above autograd: the gradient goes there with them.
_GRADIENT = {"aten::upsample_nearest3d_backward": "aten::upsample_nearest3d.vec"}

# Operators that take tensors of several devices: copies, and indexing with indices on the CPU.
_ANY_DEVICE = frozenset("aten::" + n for n in (
    "copy_", "_to_copy", "_copy_from", "_copy_from_and_resize", "set_.source_Tensor", "set_.source_Storage",
    "index.Tensor", "index_put",
    "index_put_", "_index_put_impl_", "_unsafe_index.Tensor", "_unsafe_index_put", "_local_scalar_dense",
    "is_same_size", "is_pinned",
    "_pin_memory", "record_stream", "_has_compatible_shallow_copy_type", "_shallow_copy_data_", "shallow_copy_data_",
    "_foreach_copy_", "equal"))

# Operators whose result is a value for the host, or one of their arguments, wherever that lives.
_STAYS = frozenset("aten::" + n for n in ("_local_scalar_dense", "copy_", "index_put_", "_index_put_impl_"))

_INDEXES = frozenset("aten::" + n for n in ("index.Tensor", "index_put", "index_put_", "_index_put_impl_"))


class Counts:
    """What was seen of an operator: calls, nanoseconds on this CPU, floating-point operations (None: not counted) and
    those of them in bfloat16, bytes of the tensors that its calls read and wrote, and its state. Of its calls those that
    were refused, and what they would have had to compute; and those whose numbers come out wrong on MPS for sure, with
    their time and operations."""

    __slots__ = ("calls", "ns", "flops", "bf16_flops", "nbytes", "state", "refused", "refused_flops", "wrong",
                 "wrong_ns", "wrong_flops")

    def __init__(self, state):
        self.flops = None
        self.state = state
        self.clear()

    def clear(self):
        self.bf16_flops = 0
        self.calls = self.ns = self.nbytes = self.refused = self.refused_flops = 0
        self.wrong = self.wrong_ns = self.wrong_flops = 0
        if self.flops is not None:
            self.flops = 0

    def refuse(self, flops, args):
        """A call of the operator, which computes nothing, was refused. flops: its formula, or None."""
        self.refused += 1
        if flops is not None and self.refused_flops is not None:
            try:
                self.refused_flops += flops(args, None)
            except (IndexError, TypeError, ValueError, AttributeError):  # arguments that fit nothing
                self.refused_flops = None


class Operator:
    """An operator overload as a double has it.

    state        NATIVE … UNKNOWN; what the table has, but for the reasons below
    error_name   the name that the backend's error gives it where it is missing
    rules        functions of (args, kwargs) that raise what the backend refuses (refuse.py, parts.py); none where it
                 has no kernel
    remarks      facts.Remark: what MPS does otherwise than a CPU without refusing
    counts       a Counts, shared with overloads that are counted under the same name
    """

    __slots__ = ("name", "state", "rules", "remarks", "error_name", "any_device", "resizes", "counts", "pointwise",
                 "view", "convolution", "attention", "moves", "factory", "flops", "whole", "inside", "stays", "draws",
                 "makes_sparse", "decomposes", "collective", "kernelless", "spares", "unnoticed")

    def __init__(self, double, func):
        schema, table = func._schema, double.table
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        self.name = name = _CPU_NAMES.get(name, name)
        self.state = table.ops.get(name, UNKNOWN)
        self.decomposes = self.state == COMPOSED and torch._C._dispatch_has_kernel_for_dispatch_key(
            func.name(), "CompositeImplicitAutograd")
        self.error_name = name
        if self.state == MISSING:
            self.error_name = table.structured.get(name, name)
        elif self.state == COMPOSED and name in table.lacks:
            self.state, self.error_name = MISSING, table.lacks[name]
        part, self.spares = parts.part_of(name)
        if self.state == COMPOSED and table.ops.get(part) == MISSING:
            self.state, self.error_name = MISSING, part
        self.whole = _INSIDE.get(name)
        self.inside = table.ops.get(self.whole)
        if self.inside not in (ON_CPU, NATIVE):
            self.whole = self.inside = None
        if table.ops.get(_GRADIENT.get(name)) == ON_CPU:
            self.state = ON_CPU
        self.unnoticed = parts.unnoticed(name, double.series)
        # prims: a formula of PyTorch's own, in Python
        self.any_device = name in _ANY_DEVICE or name.startswith("prims::")
        base = schema.name.partition("::")[2]
        self.resizes = base.startswith(("resize", "set_", "_resize"))
        self.counts = double.operators.setdefault(name, Counts(self.state))
        self.flops = flops.formula(schema)
        if self.flops is not None and self.counts.flops is None:
            self.counts.flops = 0
        self.pointwise = _tagged(func, "pointwise")
        self.view = func.is_view if hasattr(func, "is_view") else False
        self.convolution = base in ("convolution", "_convolution", "convolution_backward")
        self.attention = schema.name == "aten::_scaled_dot_product_flash_attention_for_cpu"
        self.moves = name == "aten::_to_copy"
        self.factory = any(a.name == "device" for a in schema.arguments)
        self.stays = name in _STAYS or kernels.is_written(name)  # its result lives where it was made
        self.collective = name.startswith("c10d::")
        if self.state == UNKNOWN and kernels.lacks_kernel(func, name):
            self.state = MISSING
        self.makes_sparse = base.startswith("_sparse_coo_tensor_with_dims")
        if self.makes_sparse:
            self.state = COMPOSED
        self.draws = _tagged(func, "nondeterministic_seeded")
        self.kernelless = self.state in (MISSING, ON_CPU, NO_STUB)
        self.rules = (self._rules(double, base)
                      if self.state in (NATIVE, COMPOSED) or self.inside == NATIVE or self.spares is not None else ())
        self.remarks = [] if self.state in (MISSING, NO_STUB) and not self.collective else facts.remarks(
            name, double.numbers, double.macos)

    def _rules(self, double, base):
        rules = list(refuse.rules_for(self.name, double.numbers, double.macos))
        if self.state == COMPOSED:
            rules += parts.part_rules(self.name, double.numbers, double.macos)
        if self.draws:
            rules.append(generators.check_generator if base != "randperm" else generators.check_randperm_generator
                         if double.series >= (2, 2) else generators.check_randperm_generator_without_index)
        if self.name in _INDEXES:
            rules.append(_indices_of(double.place))
        return rules


class Whole:
    """An operator that MPS has, and that a CPU takes apart: its name, and rules and remarks as of an Operator."""

    __slots__ = ("name", "rules", "remarks")

    def __init__(self, double, name):
        self.name = name
        self.rules = facts.refusals(name, double.numbers, double.macos)
        self.remarks = facts.remarks(name, double.numbers, double.macos)


def _tagged(func, tag):
    """Whether PyTorch's own tables give the operator a tag; older releases have fewer of them."""
    tags = getattr(torch, "Tag", None)
    return hasattr(tags, tag) and getattr(tags, tag) in func.tags


def _indices_of(place):
    """at::native::make_info, for a tensor on the CPU."""
    def check(args, kwargs):
        if not place.on_mps(args[0]) and any(i is not None and place.on_mps(i) for i in args[1]):
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    return check
