"""Arguments for operators that no database of samples calls: made from their schemas, tried until some are taken.

A schema says what kind each argument is, and no more. So values are drawn, a few of each kind and some for names that recur (dim,
reduction, weight), always in the same order for the same operator; what an operator takes without an error is a sample of it.
Only the choice of inputs is made up here: what a call then runs is recorded (trace.py).
"""

import random
import time

TRIES = 400     # a linear layer's three shapes are met within a hundred
SECONDS = 3     # for one operator: convolutions of drawn sizes are slow
SAMPLES = 6     # that are enough

WORDS = {
    "reduction": ["none", "mean", "sum"], "ord": ["fro", "nuc"], "p": ["fro"], "rounding_mode": ["trunc", "floor"],
    "indexing": ["ij", "xy"], "mode": ["reduced", "complete", "reflect", "constant"], "side": ["left", "right"], "UPLO": ["L"],
    "reduce": ["sum", "amax", "mean", "prod"], "approximate": ["none", "tanh"], "padding": ["same", "valid"],
    "norm": ["ortho"], "driver": ["gels"], "equation": ["ij,jk->ik"], "direction": ["horizontal"],
}


def tensors(torch):
    """What tensors are drawn from, by kind: made anew for each call, since some operators write into them."""
    def numbers(*size, dtype=torch.float32):
        return lambda: (torch.arange(1, 1 + torch.Size(size).numel()) / 8).reshape(size).to(dtype)

    def given(values, dtype=torch.int64):
        return lambda: torch.tensor(values, dtype=dtype)

    def matrix():
        return torch.tensor([[2.0, 0.5, 0.0], [0.5, 3.0, 0.25], [0.0, 0.25, 4.0]])

    dense = [matrix, numbers(3), numbers(2, 3), numbers(3, 3), numbers(2, 3, 3), numbers(2, 3, 4, 4), numbers(2, 3, 4, 4, 4),
             numbers(), numbers(1), numbers(4), numbers(3, 3, dtype=torch.float64), numbers(1, 3, 3, 3)]
    whole = [given([0, 1, 2]), given([[0, 1, 2], [1, 2, 0], [2, 0, 1]]), given(1), given([0, 2]), given([3, 2]),
             given([0, 1, 2], torch.int32), given([[0, 1], [1, 2]])]
    truth = [given([[True, False, True]] * 3, torch.bool), given([True, False, True], torch.bool), given(True, torch.bool)]
    complex_ = [lambda: matrix().to(torch.complex64), lambda: torch.tensor([1 + 2j, 3j, 0.5]), numbers(3, 2)]
    sparse = [lambda: matrix().to_sparse(), lambda: matrix().to_sparse_csr(), lambda: matrix().to_sparse_csc(),
              lambda: torch.ones(4, 4).to_sparse_bsr((2, 2)), lambda: torch.ones(4, 4).to_sparse_bsc((2, 2)),
              lambda: torch.tensor([1.0, 0.0, 2.0]).to_sparse()]
    return {"dense": dense, "whole": whole, "truth": truth, "complex": complex_, "sparse": sparse}


def values(torch, kind, name, size):
    """What an argument that holds no tensor is drawn from."""
    if kind in ("int", "SymInt"):
        if "dtype" in name:
            return [6, 7, 4, 11]  # numbers of ScalarType: float, double, long, bool
        return [0, 1, -1, 2, 3, 4, 6] if "dim" in name or "axis" in name else [1, 2, 0, 3, 4, 8, 6]
    if kind in ("float", "double"):
        return [0.5, 1.0, 0.1, 2.0, 1e-5]
    if kind in ("Scalar", "number"):
        return [1, 2.0, 0.5, 0, 3]
    if kind == "bool":
        return [False, True]
    if kind in ("int[]", "SymInt[]"):
        if size:
            return [[1] * size, [0] * size, [2] * size, [3] * size, [4] * size]
        return [[0], [3], [1], [2, 3], [3, 3], [1, 1], [0, 1], [2, 2], [1, 1, 1], [0, 0, 0], [], [2, 3, 4], [9], [1, 2], [4, 4],
                [-1], [0, 0], [6], [4, 4, 4]]
    if kind in ("float[]", "double[]"):
        return [[1.0] * (size or 2), [0.5, 0.5, 0.5], [0.0, 4.0, 0.0, 4.0]]
    if kind in ("Scalar[]", "number[]"):
        return [[1.0, 2.0], [1, 2]]
    if kind == "bool[]":
        return [[True] * (size or 3), [True, False, True][:size or 3]]
    if kind == "str":
        return WORDS.get(name, ["none", "mean", "sum", "constant"])
    if kind in ("ScalarType", "dtype"):
        return [torch.float32, torch.int64, torch.float64]
    if kind == "Layout":
        return [torch.strided, torch.sparse_coo, torch.sparse_csr]
    if kind == "Device":
        return [torch.device("cpu")]
    if kind == "MemoryFormat":
        return [torch.contiguous_format]
    if kind == "Generator":
        return [torch.Generator().manual_seed(0)]
    if kind == "Storage":
        return [torch.arange(64.0).untyped_storage()]
    return []


def by_hand(torch):
    """Arguments, by operator, where drawing finds none: shapes that depend on one another, and layouts."""
    r, long, none = torch.randn, torch.long, None
    image, kernel, bias = r(2, 4, 6, 6), r(4, 4, 3, 3), r(4)
    cell = [r(8, 3), r(8, 2), r(8), r(8)]
    lstm, gru, rnn = cell, [r(6, 3), r(6, 2), r(6), r(6)], [r(2, 3), r(2, 2), r(2), r(2)]
    x, h, packed = r(4, 5, 3), r(1, 5, 2), torch.tensor([2, 1])
    state = torch.zeros(3, 30, dtype=long)
    csr, bsr = torch.eye(4).to_sparse_csr(), torch.eye(4).to_sparse_bsr((2, 2))
    csc, bsc = torch.eye(4).to_sparse_csc(), torch.eye(4).to_sparse_bsc((2, 2))
    jagged = torch.nested.nested_tensor([r(2, 3), r(1, 3)])
    log, words, two = r(6, 2, 5).log_softmax(2), torch.tensor([[1, 2], [2, 3]]), torch.tensor([2, 2])
    many = [r(3), r(3)]
    batch = (r(2, 4, 6), r(4), r(4), torch.zeros(4), torch.ones(4))
    plain = torch.eye(4).to_sparse()

    def compressed(t):
        by_row = t.layout in (torch.sparse_csr, torch.sparse_bsr)
        return (t.crow_indices(), t.col_indices(), t.values()) if by_row else (t.ccol_indices(), t.row_indices(), t.values())
    return {
        "aten::native_group_norm_backward": [
            ((r(2, 4, 9), r(2, 4, 9), r(2, 2), r(2, 2), weight, 2, 4, 9, 2, mask), {})
            for weight, mask in ((r(4), [True] * 3), (none, [True, False, False]), (r(4), [False, True, True]))],
        "aten::embedding_bag": [((r(4, 3), torch.tensor([0, 2, 1, 2]), torch.tensor([0, 2]), False, mode), {}) for mode in (0, 1, 2)],
        "aten::_embedding_bag_backward": [((r(2, 3), torch.tensor([0, 2, 1, 2]), torch.tensor([0, 2]), torch.tensor([0, 0, 1, 1]), two,
                                            torch.tensor([], dtype=long), 4, False, 0, False, none), {})],
        "aten::nll_loss.out": [((r(3, 4), torch.tensor([0, 1, 2])), {"out": torch.empty(0)})],
        "aten::nll_loss2d.out": [((r(2, 4, 3, 3), torch.zeros(2, 3, 3, dtype=long)), {"out": torch.empty(0)})],
        "aten::multilabel_margin_loss.out": [((r(2, 4), torch.tensor([[1, 2, -1, 0], [0, 3, -1, 0]])), {"out": torch.empty(0)})],
        "aten::_grouped_mm": [((r(8, 16).bfloat16(), r(2, 16, 8).bfloat16(), torch.tensor([4, 8], dtype=torch.int32)), {})],
        "aten::_sobol_engine_initialize_state_": [((state.clone(), 3), {})],
        "aten::_sobol_engine_scramble_": [((state.clone(), torch.ones(3, 30, 30, dtype=long).tril(), 3), {})],
        "aten::_sobol_engine_draw": [((torch.zeros(3, dtype=long), 4, state, 3, 0, torch.float32), {})],
        "aten::_sobol_engine_ff_": [((torch.zeros(3, dtype=long), 4, state, 3, 0), {})],
        "aten::rnn_relu.data": [((r(3, 3), packed, r(1, 2, 2), rnn, True, 1, 0.0, False, False), {})],
        "aten::rnn_tanh.data": [((r(3, 3), packed, r(1, 2, 2), rnn, True, 1, 0.0, False, False), {})],
        "aten::lstm.input": [((x, [h, h], lstm, True, 1, 0.0, True, False, False), {})],
        "aten::gru.input": [((x, h, gru, True, 1, 0.0, True, False, False), {})],
        "aten::rnn_tanh.input": [((x, h, rnn, True, 1, 0.0, True, False, False), {})],
        "aten::rnn_relu.input": [((x, h, rnn, True, 1, 0.0, True, False, False), {})],
        "aten::lstm_cell": [((r(5, 3), [r(5, 2), r(5, 2)], *lstm), {})], "aten::gru_cell": [((r(5, 3), r(5, 2), *gru), {})],
        "aten::convolution": [((image, kernel, b, [1, 1], [0, 0], [1, 1], across, [0, 0], 1), {}) for b in (none, bias)
                              for across in (False, True)],
        "aten::_convolution.deprecated": [((image, kernel, bias, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, False), {})],
        "aten::ctc_loss.Tensor": [((log, words, torch.tensor([6, 6]), two), {})],
        "aten::ctc_loss.IntList": [((log, words, [6, 6], [2, 2]), {})],
        "aten::grid_sampler": [((image, r(2, 5, 5, 2), mode, 0, False), {}) for mode in (0, 1)] + [
            ((r(2, 3, 4, 4, 4), r(2, 5, 5, 5, 3), 0, 0, False), {})],
        "aten::affine_grid_generator": [((r(2, 2, 3), [2, 1, 4, 4], False), {}), ((r(2, 3, 4), [2, 1, 4, 4, 4], False), {})],
        "aten::sparse_coo_tensor.indices": [((torch.tensor([[0, 1], [1, 0]]), r(2)), {})],
        "aten::sparse_coo_tensor.indices_size": [((torch.tensor([[0, 1], [1, 0]]), r(2), [2, 2]), {})],
        "aten::_native_batch_norm_legit_no_training": [(batch + (0.1, 1e-5), {})],
        "aten::_batch_norm_no_update": [(batch + (0.1, 1e-5), {})],
        "aten::_batch_norm_impl_index_backward": [((0, batch[0], r(2, 4, 6), r(4), torch.zeros(4), torch.ones(4), torch.zeros(4),
                                                    torch.ones(4), True, 1e-5, [True] * 3, torch.empty(0, dtype=torch.uint8)), {})],
        "aten::_sparse_compressed_tensor_with_dims": [((2, 0, [4, 4], [], torch.int64), {"layout": torch.sparse_csr})],
        "aten::_validate_sparse_csr_tensor_args": [(compressed(csr) + ([4, 4],), {})],
        "aten::_validate_sparse_bsr_tensor_args": [(compressed(bsr) + ([4, 4],), {})],
        "aten::_validate_sparse_csc_tensor_args": [(compressed(csc) + ([4, 4],), {})],
        "aten::_validate_sparse_bsc_tensor_args": [(compressed(bsc) + ([4, 4],), {})],
        "aten::_validate_sparse_compressed_tensor_args": [(compressed(csr) + ([4, 4], torch.sparse_csr), {})],
        "aten::view_as_complex_copy": [((r(3, 2),), {})],
        "aten::crow_indices_copy": [((csr,), {})], "aten::col_indices_copy": [((csr,), {})],
        "aten::ccol_indices_copy": [((csc,), {})], "aten::row_indices_copy": [((csc,), {})],
        "aten::sspaddmm": [((plain, plain, r(4, 4)), {})], "aten::hspmm": [((plain, r(4, 4)), {})],
        "aten::nested_to_padded_tensor": [((jagged, 0.0), {})],
        "aten::segment_reduce": [((r(4), reduce), {"lengths": two}) for reduce in ("sum", "mean", "max", "min")],
        "aten::_foreach_addcdiv.Tensor": [((many, many, many, r(2)), {})],
        "aten::native_norm": [((plain,), {})], "aten::conv_tbc": [((r(5, 2, 3), r(2, 3, 4), r(4)), {})],
        "aten::quantize_per_tensor": [((r(3), 0.1, 0, torch.qint8), {})],
        "aten::quantize_per_tensor_dynamic": [((r(3), torch.qint8, False), {})],
        "aten::quantize_per_channel": [((r(3, 2), torch.ones(3), torch.zeros(3, dtype=long), 0, torch.qint8), {})],
        "aten::_thnn_fused_lstm_cell_backward": [((r(5, 2), r(5, 2), r(5, 2), r(5, 2), r(5, 8), True), {})],
    }


def kind_of(argument):
    """An argument's kind without what may be None, whether it may be, whether it is a list, and the list's fixed length."""
    text = str(argument.real_type)
    optional = text.startswith("Optional[")
    if optional:
        text = text[len("Optional["):-1]
    many = text.startswith("List[")
    if many:
        text = text[len("List["):-1]
        if text.startswith("Optional["):
            text = text[len("Optional["):-1]
    return text, optional, many, argument.N


class Draw:
    """Draws the arguments of one operator."""

    def __init__(self, torch, schema, seed, sparse=False):
        self.torch, self.schema = torch, schema
        self.random = random.Random(seed)
        self.kinds = tensors(torch)
        self.order = ["sparse"] if sparse else []
        self.order += ["dense", "whole", "truth", "complex"]

    def tensor(self, favoured, rare):
        """A tensor of the favoured kind, or now and then another."""
        kind = self.random.choice(self.order) if self.random.random() < rare else favoured
        return self.random.choice(self.kinds[kind])

    def arguments(self, number):
        """The arguments of a try. The first tries give the same tensor wherever one is asked for, and defaults elsewhere."""
        alike = [make for kind in self.order for make in self.kinds[kind]]
        same = alike[number % len(alike)] if number < 2 * len(alike) else None
        plain = number < len(alike)
        favoured = self.random.choice(self.order)
        args, kwargs = [], {}
        for a in self.schema.arguments:
            kind, optional, many, size = kind_of(a)
            if kind == "Tensor":
                make = same or self.tensor(favoured, 0.4)
                if a.is_out or a.alias_info is not None and a.alias_info.is_write and a.kwarg_only:
                    value = self.torch.empty(0, dtype=(make().dtype if number % 3 else self.torch.float32))
                    value = [value] * 2 if many else value
                elif many:
                    value = [make() for _ in range(size or self.random.choice([2, 1, 3, 2]))]
                elif optional and (plain or self.random.random() < 0.5):
                    value = None
                else:
                    value = make()
            elif a.has_default_value() and (plain or self.random.random() < 0.6):
                value = a.default_value
            elif optional and self.random.random() < 0.5:
                value = None
            else:
                several = values(self.torch, kind + ("[]" if many else ""), a.name, size)
                value = self.random.choice(several) if several else None
            if a.kwarg_only:
                kwargs[a.name] = value
            else:
                args.append(value)
        return args, kwargs


def samples(torch, schema, name, call):
    """Arguments of a schema with which call ended well, each as (args, kwargs), at most SAMPLES, all different in their kinds."""
    special = any(word in name for word in ("sparse", "_nnz", "spmm", "coalesce", "crow", "ccol", "smm"))
    draw = Draw(torch, schema, name, special)
    if name in by_hand(torch):
        taken = []
        for (args, kwargs), kept in zip(by_hand(torch)[name], by_hand(torch)[name]):  # kept: the call may write into the others
            try:
                call(*args, **kwargs)
                taken.append(kept)
            except Exception:
                continue
        return taken
    found, seen, until = [], set(), time.monotonic() + SECONDS
    for number in range(TRIES):
        if len(found) == SAMPLES or time.monotonic() > until:
            break
        state = draw.random.getstate()
        args, kwargs = draw.arguments(number)
        shape = str([describe(torch, v) for v in args] + [describe(torch, v) for v in kwargs.values()])
        if shape in seen:
            continue
        seen.add(shape)
        try:
            call(*args, **kwargs)
        except Exception:
            continue
        after = draw.random.getstate()
        draw.random.setstate(state)
        found.append(draw.arguments(number))  # anew: the call may have written into them
        draw.random.setstate(after)
    return found


def describe(torch, value):
    if isinstance(value, torch.Tensor):
        return value.dtype, value.layout, value.dim(), value.numel() if value.layout == torch.strided else 0
    if isinstance(value, list):
        return [describe(torch, v) for v in value]
    return repr(value)
