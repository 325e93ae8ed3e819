"""Random numbers, drawn by the CPU's default generator whatever the device, so that a mask or a noise is the same on each.

The generator is PyTorch's own: the script's seeds, and what a checkpoint keeps of it to compute a block again, hold as without us. On the CPU all
but bernoulli is left as it is; a mask is made of uniform numbers, since PyTorch's own takes MKL's generator where there is one, and another Mac or
machine has none (aten/src/ATen/native/cpu/DistributionTemplates.h, bernoulli_mkl_kernel).
"""

import functools

from .. import guest

# Operators that draw within their kernel: nobody else can draw for them.
WITHIN = ("aten::_scaled_dot_product", "aten::_cudnn_rnn", "aten::_flash", "aten::_efficient", "aten::_fused", "aten::_thnn", "aten::miopen")
_others = {}  # id of a generator of another device -> (it, the CPU's for it)


def _generator(torch, given):
    """The CPU generator that stands for one that the script made on another device."""
    if given is None or given.device.type == "cpu":
        return given
    held = _others.get(id(given))
    if held is None:
        held = _others[id(given)] = given, torch.Generator("cpu").manual_seed(given.initial_seed())
    return held[1]


def drawn(torch, func, args, kwargs):
    """(True, what the operator gives) where it is drawn here; (False, None) where the operator is to run as it is."""
    name = func._schema.name
    tensors = [a for a in list(args) + list(kwargs.values()) if isinstance(a, torch.Tensor)]
    device = kwargs.get("device") or (tensors[0].device if tensors else torch.device("cpu"))
    device = torch.device(device)
    if device.type == "meta":
        return False, None
    values = {a.name: v for a, v in zip(func._schema.arguments, args)}
    values.update(kwargs)
    generator = _generator(torch, values.get("generator"))
    if name in ("aten::bernoulli", "aten::bernoulli_"):
        self, p = values["self"], values.get("p", 0.5)
        if name == "aten::bernoulli" and "p" not in values:
            p = self
        mask = _mask(torch, self.shape, p, generator).to(self.device)
        return True, self.copy_(mask) if name.endswith("_") else mask.to(self.dtype)
    if name == "aten::native_dropout":
        x, p, train = values["input"], values["p"], values.get("train")
        if train is False:
            return False, None
        mask = _mask(torch, x.shape, 1 - p, generator).to(x.device)
        return True, (x * (mask.to(x.dtype) / (1 - p) if p < 1 else mask.to(x.dtype)), mask)
    if device.type == "cpu":
        return False, None
    if name.startswith(WITHIN):
        return False, None
    inplace = func._schema.arguments and func._schema.arguments[0].alias_info is not None
    there = args[0] if inplace else None

    def here(v):
        if isinstance(v, torch.Tensor):
            return v.cpu()
        return _generator(torch, v) if isinstance(v, torch.Generator) else v

    if inplace:
        first = torch.empty(there.shape, dtype=there.dtype, device="cpu")
        made = func(first, *[here(a) for a in args[1:]], **{k: here(v) for k, v in kwargs.items()})
        return True, there.copy_(made)
    kwargs = {k: here(v) for k, v in kwargs.items()}
    if "device" in kwargs:
        kwargs["device"], kwargs["pin_memory"] = torch.device("cpu"), False
    made = func(*[here(a) for a in args], **kwargs)
    return True, tuple(m.to(device) for m in made) if isinstance(made, tuple) else made.to(device)


def _mask(torch, shape, p, generator):
    uniform = torch.rand(shape, generator=generator, dtype=torch.float32, device="cpu")
    return uniform < (p.to("cpu", torch.float32) if isinstance(p, torch.Tensor) else p)


def attention(torch, watched):
    """Have attention with dropout take the way of plain operators on a GPU: its kernels draw their masks themselves."""
    functional, cuda = torch.nn.functional, torch.backends.cuda
    original = functional.scaled_dot_product_attention
    kinds = [name for name in ("flash", "mem_efficient", "cudnn") if hasattr(cuda, "enable_%s_sdp" % name)]

    @functools.wraps(original)
    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        try:
            if not dropout_p or not watched() or query.device.type == "cpu":
                return original(query, key, value, attn_mask, dropout_p, *args, **kwargs)
            on = [name for name in kinds if getattr(cuda, name + "_sdp_enabled")()]
            try:
                for name in on:
                    getattr(cuda, "enable_%s_sdp" % name)(False)
                return original(query, key, value, attn_mask, dropout_p, *args, **kwargs)
            finally:
                for name in on:
                    getattr(cuda, "enable_%s_sdp" % name)(True)
        except BaseException:
            guest.hide()
            raise

    functional.scaled_dot_product_attention = scaled_dot_product_attention
