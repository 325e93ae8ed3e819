"""What has to be known of single operators to replay them: values that a range does not describe, results that are not unique.

Each entry says why. Names are those of operators without namespace, overload and the underscore of those that work in place.
"""

import math

import torch


class Call:
    """An operator's call by the names of its schema. args and kwargs hold views of storages that were drawn: they are changed in
    place."""

    def __init__(self, op, args, kwargs):
        self.op, self.names = op, [a.name for a in op._schema.arguments]
        self.given = dict(zip(self.names, args))
        self.given.update(kwargs)

    def __getitem__(self, name):
        return self.given.get(name)

    def tensor(self, *names):
        for name in names:
            found = self.given.get(name)
            if isinstance(found, torch.Tensor):
                return found
        return None


def put(view, values):
    """Values into a view, in its own type; a view that has elements twice stays as it was drawn."""
    if view is not None and view.numel() and all(s != 0 or n < 2 for s, n in zip(view.stride(), view.shape)):
        view.copy_(values.to(view.dtype))


def square(t):
    return t is not None and t.dim() >= 2 and t.shape[-1] == t.shape[-2] and (t.dtype.is_floating_point or t.dtype.is_complex)


def exact(t):
    return t.to(torch.complex128 if t.dtype.is_complex else torch.float64)


def positive_definite(call):
    t = call.tensor("self", "A", "input")
    if square(t):
        a, n = exact(t), t.shape[-1]
        put(t, a @ a.mH / max(n, 1) + torch.eye(n, dtype=a.dtype))


def factor(*names):
    def make(call):
        t = call.tensor(*names)
        if square(t):
            n = t.shape[-1]
            put(t, exact(t) / max(n, 1) + 2 * torch.eye(n, dtype=exact(t).dtype))
    return make


def symmetric(call):
    t = call.tensor("self", "A")
    if square(t):
        a = exact(t)
        put(t, (a + a.mH) / 2)


def one_value(*names):
    """What is written twice to one place lies there in any order: the same value everywhere makes the order no matter."""
    def make(call):
        if call["accumulate"] is True:
            return
        t = call.tensor(*names)
        if t is not None and t.numel():
            put(t, t.flatten()[0].expand_as(t).clone())
    return make


def distinct(call):
    """Values that are all different, so that the places that are found are unique; shuffled as they were drawn."""
    t = call.tensor("self", "input")
    if t is None or t.dtype is torch.bool or t.numel() < 2 or t.dtype.is_complex:
        return
    order = torch.empty(t.numel(), dtype=torch.int64)
    drawn = exact(t).flatten()
    order[torch.argsort(drawn, stable=True)] = torch.arange(t.numel())
    low, high = float(drawn.nan_to_num(0).min()), float(drawn.nan_to_num(0).max())
    if t.dtype.is_floating_point:
        put(t, (low + order.to(torch.float64) * ((high - low) / (t.numel() - 1))).reshape(t.shape))
    elif high - low >= t.numel() - 1:
        put(t, (int(low) + order).reshape(t.shape))


def ascending(*names):
    def make(call):
        t = call.tensor(*names)
        if t is not None and t.numel() and not t.dtype.is_complex and t.dtype is not torch.bool:
            put(t, t.clone().sort(dim=-1).values)
    return make


def weights_of_draws(call):
    t = call.tensor("self")
    if t is not None:
        put(t, t.abs() + (1 if not t.dtype.is_floating_point else 1e-3))


def pooled_places(forward):
    """Places that the forward pass found in this input: MPS takes them from the input again."""
    def make(call):
        t, found = call.tensor("self"), call.tensor("indices")
        if t is None or found is None:
            return
        _, places = forward(t.clone(), call["kernel_size"], call["stride"], call["padding"], call["dilation"], call["ceil_mode"])
        if places.shape == found.shape:
            put(found, places)
    return make


def statistics(call):
    """Mean and 1/deviation of this very input: a kernel may take them from the argument or compute them again."""
    t, mean, inverse = call.tensor("input"), call.tensor("save_mean", "mean"), call.tensor("save_invstd", "save_var", "rstd")
    if t is None or mean is None or inverse is None or not t.numel() or not mean.numel():
        return
    x, eps = exact(t), call["eps"] if isinstance(call["eps"], float) else call["epsilon"] if isinstance(call["epsilon"], float) else 1e-5
    if call["normalized_shape"] is not None:
        x = x.reshape(*mean.shape[:t.dim() - len(call["normalized_shape"])], -1)
        m, v = x.mean(-1), x.var(-1, unbiased=False)
    elif call["group"] is not None:
        x = x.reshape(mean.shape[0], mean.shape[-1], -1)
        m, v = x.mean(-1), x.var(-1, unbiased=False)
    else:
        x = x.transpose(0, 1).reshape(t.shape[1], -1)
        m, v = x.mean(-1), x.var(-1, unbiased=False)
    if m.numel() == mean.numel() and v.numel() == inverse.numel():
        put(mean, m.reshape(mean.shape))
        put(inverse, (v + eps).rsqrt().reshape(inverse.shape))


def within(names, size):
    """Indices into what they index: held to it where the recorded range leaves it."""
    def make(call):
        n = size(call)
        for name in names:
            t = call.tensor(name)
            if t is not None and n and t.numel() and not t.dtype.is_floating_point and t.dtype is not torch.bool:
                put(t, t.clamp(0, n - 1))
    return make


def along(call):
    t, dim = call.tensor("self"), call["dim"]
    return t.shape[dim] if t is not None and isinstance(dim, int) and t.dim() and -t.dim() <= dim < t.dim() else 0


def bags(call):
    """Bags begin at 0, one after the other, and hold indices of the table."""
    within(("indices",), rows)(call)
    t = call.tensor("offsets")
    if t is not None and t.numel():
        starts = t.clone().sort().values
        starts[0] = 0
        put(t, starts)


def rows(call):
    t = call.tensor("weight")
    n = t.shape[0] if t is not None and t.dim() else call["num_weights"]
    return n if isinstance(n, int) else 0


def classes(call):
    t = call.tensor("self")
    return t.shape[1 if t.dim() > 1 else 0] if t is not None and t.dim() else 0


# The constructors. A range does not say that a matrix can be factorised, that an index is in range, that a draw is possible.
MAKE = {}
for name in ("cholesky", "linalg_cholesky", "linalg_cholesky_ex"):
    MAKE[name] = positive_definite
for name in ("inverse", "linalg_inv", "linalg_inv_ex", "linalg_solve", "linalg_solve_ex", "_linalg_solve_ex", "linalg_lu_factor",
             "linalg_lu_factor_ex", "linalg_lu", "_linalg_det", "_linalg_slogdet", "linalg_tensorinv", "linalg_matrix_power",
             "linalg_ldl_factor_ex", "_lu_with_info"):
    MAKE[name] = factor("self", "A")  # a singular matrix has no inverse; one near it none that two devices agree on
MAKE["cholesky_solve"] = MAKE["cholesky_inverse"] = factor("input2", "self")
MAKE["linalg_solve_triangular"] = factor("self", "A")
MAKE["triangular_solve"] = factor("A")
MAKE["linalg_lu_solve"] = factor("LU")
for name in ("_linalg_eigh", "linalg_eigh", "linalg_eigvalsh"):
    MAKE[name] = symmetric
for name, of in (("index_put", "values"), ("_index_put_impl", "values"), ("_unsafe_index_put", "values"), ("index_copy", "source"),
                 ("scatter", "src"), ("put", "source"), ("max_unpool2d", "self"), ("max_unpool3d", "self")):
    MAKE[name] = one_value(of)
PLACES = ("sort", "topk", "max", "min", "argmax", "argmin", "argsort", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin",
          "max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d", "aminmax")
for name in PLACES:
    MAKE[name] = distinct
MAKE["searchsorted"] = ascending("sorted_sequence")
MAKE["bucketize"] = ascending("boundaries")
MAKE["multinomial"] = weights_of_draws
MAKE["max_pool2d_with_indices_backward"] = pooled_places(lambda *a: torch.ops.aten.max_pool2d_with_indices(*a))
MAKE["max_pool3d_with_indices_backward"] = pooled_places(lambda *a: torch.ops.aten.max_pool3d_with_indices(*a))
for name in ("native_batch_norm_backward", "native_layer_norm_backward", "native_group_norm_backward", "batch_norm_backward"):
    MAKE[name] = statistics
for name in ("gather", "index_select", "index_add", "index_fill", "scatter_add", "scatter_reduce", "index_reduce", "gather_backward"):
    MAKE[name] = within(("index",), along)
MAKE["embedding"] = MAKE["embedding_dense_backward"] = within(("indices",), rows)
MAKE["_embedding_bag"] = MAKE["_embedding_bag_forward_only"] = bags
for name in ("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward", "multi_margin_loss"):
    MAKE[name] = within(("target",), classes)

# Signs, phases and order of vectors are the implementation's choice: what is compared is what they make together.
def _eigh(out):
    values, vectors = exact(out[0]), exact(out[1])
    return [values] + ([vectors @ torch.diag_embed(values.to(vectors.dtype)) @ vectors.mH] if vectors.numel() else [])


def _svd(out):
    u, s, vh = (exact(t) for t in out[:3])
    k = s.shape[-1]
    return [s] + ([u[..., :k] @ torch.diag_embed(s.to(u.dtype)) @ vh[..., :k, :]] if u.numel() and vh.numel() else [])


def _qr(out):
    q, r = exact(out[0]), exact(out[1])
    return [q @ r] if q.numel() and q.shape[-1] == r.shape[-2] else []


UNIQUE = {"_linalg_eigh": _eigh, "linalg_eigh": _eigh, "_linalg_svd": _svd, "linalg_svd": _svd, "linalg_qr": _qr}
# Nothing of these is unique, or it is there in an order that nobody promises: shape and type are compared.
FORM_ALONE = {"linalg_eig": "order and phases are free", "_linalg_eigvals": "the order is free", "linalg_eigvals": "the order is free",
              "geqrf": "reflectors are free", "linalg_ldl_factor_ex": "pivots are free"}
# What lies in memory that nobody has written.
UNWRITTEN = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize", "resize_as",
             "_efficientzerotensor", "_resize_output")

# Sums of many terms, in the device's own order: where PyTorch's tolerance is passed, the CPU's own rounding counts (worker.py).
SUMS = ("mm", "addmm", "bmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "vdot", "addr", "matmul", "linear", "einsum", "convolution",
        "convolution_backward", "_convolution", "convolution_overrideable", "conv1d", "conv2d", "conv3d", "sum", "mean", "var", "std",
        "var_mean", "std_mean", "prod", "cumsum", "cumprod", "logcumsumexp", "logsumexp", "norm", "linalg_vector_norm", "linalg_norm",
        "nansum", "trace", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "native_batch_norm_backward",
        "batch_norm_backward", "native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward",
        "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "embedding_dense_backward", "index_add",
        "scatter_add", "scatter_reduce", "index_put", "_index_put_impl", "_scaled_dot_product_attention_math",
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math_for_mps", "scaled_dot_product_attention",
        "_fused_rms_norm", "_fused_rms_norm_backward", "avg_pool2d", "avg_pool2d_backward", "avg_pool3d", "_adaptive_avg_pool2d",
        "_adaptive_avg_pool2d_backward", "adaptive_avg_pool2d", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "nll_loss_forward", "nll_loss2d_forward", "_cdist_forward",
        "_euclidean_dist", "cdist", "dist", "grid_sampler_2d_backward", "upsample_bilinear2d_backward", "upsample_nearest2d_backward",
        "upsample_bicubic2d_backward", "im2col", "col2im", "_fft_r2c", "_fft_c2r", "_fft_c2c", "linalg_inv_ex", "_linalg_solve_ex",
        "linalg_cholesky_ex", "linalg_lu_factor_ex", "_linalg_det", "_linalg_slogdet", "cholesky_solve", "linalg_solve_triangular",
        "linalg_lu_solve", "linalg_matrix_exp", "_linalg_eigh", "_linalg_svd", "linalg_qr", "lstm", "gru", "_thnn_fused_lstm_cell",
        "renorm", "_weight_norm_interface", "_weight_norm_interface_backward", "_ctc_loss")
BASES = frozenset(SUMS)


def base(name):
    """aten::index_put_ -> index_put; dunders stay."""
    plain = name.partition("::")[2]
    return plain[:-1] if plain.endswith("_") and not plain.endswith("__") else plain


# Arguments that are texts, by the names that operators of tensors have for them. Others name files, or are TorchScript's own.
TEXTS = frozenset(("api_name", "approximate", "driver", "equation", "indexing", "interpolation", "mode", "norm", "ord", "pad_mode", "padding",
                   "padding_mode", "padding_side", "reduce", "rounding_mode", "side", "UPLO", "p"))
# Operators that do more than compute: they map a file, change what a tensor stands on, wait for or end something.
REFUSED = {"from_file": "it maps a file", "set_data": "it changes what a tensor stands on", "record_stream": "it needs a stream",
           "_assert_async": "it is there to end the process", "_pin_memory": "it locks memory", "pin_memory": "it locks memory",
           "is_pinned": "it asks a driver"}


def refuses(op):
    """Why an operator is not called at all; "" where it is."""
    name = op._schema.name
    if not torch._C._dispatch_has_kernel(name + ("." + op._schema.overload_name if op._schema.overload_name else "")):
        return "it is TorchScript's own, and no operator on tensors"
    short = base(name)
    if short in REFUSED or short.startswith("_assert"):
        return REFUSED.get(short, "it is there to end the process")
    for a in op._schema.arguments:
        kind = str(a.type)
        if "Storage" in kind or "Stream" in kind:
            return "it takes a storage or a stream"
        if kind in ("str", "Optional[str]") and a.name not in TEXTS:
            return "its argument %s is a text that may name anything" % a.name
    return ""


def product(numbers):
    return math.prod(max(1, abs(n)) for n in numbers)
